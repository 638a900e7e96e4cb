/* The step model as a recurrence. */
#include "sim/closed_form.h"

#include "base/array.h"
#include "base/units.h"

#include <stdlib.h>

struct rank {
    uint64_t now_ns;      /* end of the last micro-batch or step */
    uint64_t done_ns;     /* end of the last step */
    uint64_t backward_ns; /* work of this micro-batch's backward */
    uint64_t work_ns;     /* of it, done by `at` */
    uint64_t at_ns;
    uint64_t arrival_ns;
    struct lk_step_loader loader;
};

struct state {
    struct lk_step_plan plan;
    struct rank *ranks;
    uint64_t *taken_ns; /* of all ranks' loaders */
    struct lk_step_sums sums;
    bool counted; /* this step goes into the sums */
};

/* What an interval of a rank's time was spent on, for the sums. */
enum phase { PHASE_IDLE, PHASE_WAIT, PHASE_WIRE };

/* Moves a rank from at_ns to until_ns with its compute slowed; what compute does not cover of a
 * wait or transfer is exposed. */
static void advance(struct state *s, struct rank *r, uint64_t until_ns, uint64_t slow,
                    enum phase phase)
{
    uint64_t covered_until = until_ns, elapsed = until_ns - r->at_ns;

    if (r->work_ns < r->backward_ns) {
        uint64_t left = r->backward_ns - r->work_ns, need = lk_slow_time_ns(left, slow);

        if (need <= elapsed) {
            covered_until = r->at_ns + need;
            r->work_ns = r->backward_ns;
            s->sums.overlap_ns += s->counted ? need - left : 0;
        } else {
            uint64_t work = lk_slow_work_ns(elapsed, slow);

            r->work_ns += work;
            s->sums.overlap_ns += s->counted ? elapsed - work : 0;
        }
    } else {
        covered_until = r->at_ns;
    }
    if (s->counted && phase == PHASE_WAIT)
        s->sums.straggler_ns += until_ns - covered_until;
    if (s->counted && phase == PHASE_WIRE)
        s->sums.wire_ns += until_ns - covered_until;
    r->at_ns = until_ns;
}

/* ns that a transfer takes when some rank computes for the first busy_ns of it. */
static uint64_t transfer_ns(const struct lk_step_plan *p, uint64_t cost_ns, uint64_t busy_ns)
{
    uint64_t slowed = lk_slow_time_ns(cost_ns, p->slow_delta);

    if (slowed <= busy_ns)
        return slowed;
    return busy_ns + cost_ns - lk_slow_work_ns(busy_ns, p->slow_delta);
}

static void run_bucket(struct state *s, size_t k)
{
    const struct lk_step_plan *p = &s->plan;
    int n = p->model->ranks;
    uint64_t begin = 0, busy = 0, end;

    for (int i = 0; i < n; i++) {
        struct rank *r = &s->ranks[i];
        uint64_t share = lk_step_share_ns(r->backward_ns, p->ready[k]);

        r->arrival_ns = r->at_ns + (share > r->work_ns ? share - r->work_ns : 0);
        if (r->arrival_ns > begin)
            begin = r->arrival_ns;
    }
    for (int i = 0; i < n; i++) {
        struct rank *r = &s->ranks[i];
        uint64_t left;

        advance(s, r, r->arrival_ns, LK_SLOW_ONE, PHASE_IDLE);
        advance(s, r, begin, p->slow_wait, PHASE_WAIT);
        left = lk_slow_time_ns(r->backward_ns - r->work_ns, p->slow_wire);
        if (left > busy)
            busy = left;
    }
    end = begin + transfer_ns(p, p->cost_ns[k], busy);
    for (int i = 0; i < n; i++)
        advance(s, &s->ranks[i], end, p->slow_wire, PHASE_WIRE);
}

/* One micro-batch of all ranks; communicating ones end at max(backward end, last bucket's end). */
static void run_micro_batch(struct state *s, uint64_t index, bool communicates)
{
    const struct lk_step_plan *p = &s->plan;

    for (int i = 0; i < p->model->ranks; i++) {
        struct rank *r = &s->ranks[i];
        struct lk_step_compute c = lk_step_plan_compute(p, i, index);
        uint64_t start = lk_step_input_ns(p, &r->loader, index, r->now_ns);

        if (s->counted) {
            s->sums.input_ns += start - r->now_ns;
            s->sums.compute_ns += c.forward_ns + c.backward_ns;
            s->sums.kappa_ns += c.kappa_ns;
        }
        r->at_ns = start + c.forward_ns;
        r->backward_ns = c.backward_ns;
        r->work_ns = 0;
    }
    for (size_t k = 0; communicates && k < p->model->n_buckets; k++)
        run_bucket(s, k);
    for (int i = 0; i < p->model->ranks; i++) {
        struct rank *r = &s->ranks[i];

        advance(s, r, r->at_ns + r->backward_ns - r->work_ns, LK_SLOW_ONE, PHASE_IDLE);
        r->now_ns = r->at_ns;
    }
}

/* One step; the sum over ranks of its length. */
static uint64_t run_step(struct state *s, uint64_t step)
{
    const struct lk_step_plan *p = &s->plan;
    uint64_t micro = (uint64_t)p->model->accumulation, sum = 0;

    for (uint64_t j = 0; j < micro; j++)
        run_micro_batch(s, step * micro + j, !p->model->no_sync || j + 1 == micro);
    for (int i = 0; i < p->model->ranks; i++) {
        struct rank *r = &s->ranks[i];

        r->now_ns += p->optimizer_ns + p->gap_ns;
        sum += r->now_ns - r->done_ns;
        r->done_ns = r->now_ns;
    }
    return sum;
}

static enum lk_status state_init(struct state *s, const struct lk_step_model *m, uint64_t seed)
{
    enum lk_status st = LK_OK;
    size_t depth = (size_t)m->prefetch_depth;

    LK_TRY(lk_step_plan_init(&s->plan, m, seed));
    LK_TRY(lk_alloc(&s->ranks, (size_t)m->ranks, sizeof *s->ranks));
    LK_TRY(lk_alloc(&s->taken_ns, (size_t)m->ranks * depth, sizeof *s->taken_ns));
    for (int r = 0; r < m->ranks; r++)
        s->ranks[r].loader.taken_ns = s->taken_ns + (size_t)r * depth;
out:
    return st;
}

enum lk_status lk_closed_form_run(const struct lk_step_model *m,
                                  const struct lk_sim_request *request, struct lk_sim_result *out)
{
    enum lk_status st = LK_OK;
    struct state s = {0};
    struct lk_sim_result r = {0};

    if (request->steps < 1)
        return lk_fail(LK_EUSAGE, "%d steps to simulate, expected 1 or more", request->steps);
    LK_TRY(state_init(&s, m, request->seed));
    LK_TRY(lk_alloc(&r.step_s, (size_t)request->steps, sizeof *r.step_s));
    for (int step = 0; step < LK_SIM_WARMUP + request->steps; step++) {
        uint64_t sum;

        s.counted = step >= LK_SIM_WARMUP;
        sum = run_step(&s, (uint64_t)step);
        if (s.counted)
            r.step_s[r.n++] = lk_s_from_ns(sum) / m->ranks;
    }
    lk_step_finish(&s.plan, &s.sums, (uint64_t)request->steps * (uint64_t)m->ranks, &r);
    *out = r;
    r.step_s = NULL;
out:
    free(r.step_s);
    free(s.ranks);
    free(s.taken_ns);
    lk_step_plan_fini(&s.plan);
    return st;
}
