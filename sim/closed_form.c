/*
 * The step model as a recurrence. Divisions: a rank's program / collectives / the run.
 *
 * Between two collectives every rank goes on by itself, and while one is under way it changes pace
 * only at the collective's own times: so a rank needs no more state than where its program stands.
 */
#include "sim/closed_form.h"

#include "base/array.h"
#include "base/units.h"

#include <stdlib.h>

enum phase {
    PHASE_WAITS, /* for its input */
    PHASE_COMPUTES,
    PHASE_STANDS, /* until a collective has ended */
    PHASE_GAP,
    PHASE_DONE /* with the run */
};

struct rank {
    uint64_t at_ns;       /* the program is known up to here; of the phases below, their end */
    uint64_t micro_batch; /* over the whole run */
    uint64_t step_start_ns;
    uint64_t work_ns, total_ns; /* of this micro-batch's compute: done, and all */
    uint64_t block_ns;          /* work at which it stands at present */
    struct lk_step_compute compute;
    enum phase phase;
    bool counted; /* this step goes into the sums */
    uint64_t arrival_ns, stands_ns;
    struct lk_step_loader loader;
};

struct state {
    struct lk_step_plan plan;
    struct lk_step_cursor next; /* the first collective that has not ended */
    struct rank *ranks;
    uint64_t *taken_ns; /* of all ranks' loaders */
    struct lk_step_sums sums;
    uint64_t *step_sum_ns;  /* by counted step, over ranks */
    uint64_t micro_batches; /* of the run */
};

/* ---- A rank's program ---- */

/* Where the program stands until the next collective has ended. */
static void set_block(const struct state *s, struct rank *r)
{
    r->block_ns =
        lk_step_position_ns(&r->compute, lk_step_cursor_block(&s->plan, &s->next, r->micro_batch));
}

/* The rank asks for its next micro-batch, or has done all of them. */
static void start_micro_batch(struct state *s, struct rank *r)
{
    struct lk_step_plan *p = &s->plan;
    uint64_t now = r->at_ns;

    if (r->micro_batch == s->micro_batches) {
        r->phase = PHASE_DONE;
        r->stands_ns = now;
        return;
    }
    r->counted = r->micro_batch >= (uint64_t)p->model->accumulation * LK_SIM_WARMUP;
    r->at_ns = lk_step_input_ns(p, &r->loader, r->micro_batch, now);
    r->phase = PHASE_WAITS;
    r->compute = lk_step_plan_compute(p, (int)(r - s->ranks), r->micro_batch);
    r->total_ns = lk_step_work_ns(&r->compute);
    r->work_ns = 0;
    if (r->counted) {
        s->sums.input_ns += r->at_ns - now;
        s->sums.compute_ns += r->compute.forward_ns + r->compute.backward_ns;
        s->sums.kappa_ns += r->compute.kappa_ns;
    }
    set_block(s, r);
}

static void end_step(struct state *s, struct rank *r)
{
    uint64_t micro = (uint64_t)s->plan.model->accumulation;

    if (r->counted)
        s->step_sum_ns[r->micro_batch / micro - LK_SIM_WARMUP] += r->at_ns - r->step_start_ns;
    r->step_start_ns = r->at_ns;
}

/* Goes on with the program after the present phase's end. */
static void next_phase(struct state *s, struct rank *r)
{
    if (r->phase == PHASE_WAITS) {
        r->phase = PHASE_COMPUTES;
        return;
    }
    if (r->phase == PHASE_COMPUTES && lk_step_plan_last(&s->plan, r->micro_batch)) {
        r->phase = PHASE_GAP;
        r->at_ns += s->plan.gap_ns;
        return;
    }
    if (r->phase == PHASE_GAP)
        end_step(s, r);
    r->micro_batch++;
    start_micro_batch(s, r);
}

/* Computes up to `work_ns` or `until_ns`, whichever comes first; true: it came to the work. */
static bool compute(struct state *s, struct rank *r, uint64_t work_ns, uint64_t until_ns,
                    uint64_t slow)
{
    uint64_t left = work_ns - r->work_ns, need = lk_slow_time_ns(left, slow);
    uint64_t elapsed = until_ns - r->at_ns, work;

    if (need <= elapsed) {
        r->at_ns += need;
        r->work_ns = work_ns;
        s->sums.overlap_ns += r->counted ? need - left : 0;
        return true;
    }
    work = lk_slow_work_ns(elapsed, slow);
    r->at_ns = until_ns;
    r->work_ns += work;
    s->sums.overlap_ns += r->counted ? elapsed - work : 0;
    return false;
}

/* Runs the program at this pace to until_ns, or to where it stands. */
static void run_until(struct state *s, struct rank *r, uint64_t until_ns, uint64_t slow)
{
    while (r->phase != PHASE_STANDS && r->phase != PHASE_DONE) {
        if (r->phase != PHASE_COMPUTES) {
            if (r->at_ns > until_ns)
                return;
            next_phase(s, r);
        } else {
            bool blocks = r->block_ns <= r->total_ns;

            if (r->work_ns < r->block_ns &&
                !compute(s, r, blocks ? r->block_ns : r->total_ns, until_ns, slow))
                return;
            if (blocks) {
                r->phase = PHASE_STANDS;
                r->stands_ns = r->at_ns;
            } else {
                next_phase(s, r);
            }
        }
    }
}

/* ---- Collectives ---- */

/* The time at which the program comes to a position of this micro-batch, no collective under way.
 * It was there already: `since`, the end of the collective before. */
static uint64_t arrive(struct state *s, struct rank *r, uint64_t micro_batch, double position,
                       uint64_t since)
{
    uint64_t work;

    while (r->micro_batch < micro_batch ||
           (r->micro_batch == micro_batch && r->phase == PHASE_WAITS)) {
        if (r->phase == PHASE_COMPUTES)
            (void)compute(s, r, r->total_ns, UINT64_MAX, LK_SLOW_ONE);
        next_phase(s, r);
    }
    if (r->micro_batch > micro_batch || r->phase != PHASE_COMPUTES)
        return since;
    work = lk_step_position_ns(&r->compute, position);
    if (work < r->work_ns)
        return since;
    (void)compute(s, r, work, UINT64_MAX, LK_SLOW_ONE);
    return r->at_ns > since ? r->at_ns : since;
}

static bool stands(const struct rank *r)
{
    return r->phase == PHASE_STANDS || r->phase == PHASE_DONE;
}

/* ns that a transfer takes when the last rank is held up after busy_ns of it. */
static uint64_t transfer_ns(const struct lk_step_plan *p, uint64_t cost_ns, uint64_t busy_ns)
{
    uint64_t slowed = lk_slow_time_ns(cost_ns, p->slow_delta);

    if (slowed <= busy_ns)
        return slowed;
    return busy_ns + cost_ns - lk_slow_work_ns(busy_ns, p->slow_delta);
}

/* The collective ended: exposes what a rank stood for it. */
static void expose(struct state *s, const struct rank *r, uint64_t begin_ns, uint64_t end_ns)
{
    uint64_t from = r->stands_ns > r->arrival_ns ? r->stands_ns : r->arrival_ns;

    if (r->phase != PHASE_STANDS || !r->counted)
        return;
    if (from < begin_ns) {
        s->sums.straggler_ns += begin_ns - from;
        from = begin_ns;
    }
    s->sums.wire_ns += end_ns - from;
}

/* Ranks that stood for the collective that ended at end_ns go on, and come to the next one; when
 * the last one did. `moved`: a rank in its micro-batch stands elsewhere now. */
static uint64_t go_on(struct state *s, uint64_t begin_ns, uint64_t end_ns, uint64_t ended_in,
                      bool moved)
{
    const struct lk_step_plan *p = &s->plan;
    bool more = s->next.micro_batch < s->micro_batches;
    double ready = more ? p->model->colls[lk_step_cursor_coll(p, &s->next)].ready : 0;
    uint64_t last = end_ns;

    for (int i = 0; i < p->model->ranks; i++) {
        struct rank *r = &s->ranks[i];

        expose(s, r, begin_ns, end_ns);
        if (moved || r->micro_batch != ended_in)
            set_block(s, r);
        if (r->phase == PHASE_STANDS && r->work_ns < r->block_ns) {
            r->phase = PHASE_COMPUTES;
            r->at_ns = end_ns;
        }
        if (!more)
            continue;
        r->arrival_ns = arrive(s, r, s->next.micro_batch, ready, end_ns);
        last = r->arrival_ns > last ? r->arrival_ns : last;
    }
    return last;
}

/* The next collective of the stream, at which the last rank arrives at begin_ns; when the last one
 * arrives at the one after it. */
static uint64_t run_collective(struct state *s, uint64_t begin_ns)
{
    const struct lk_step_plan *p = &s->plan;
    uint64_t cost = p->cost_ns[lk_step_cursor_coll(p, &s->next)], held = begin_ns, end;
    uint64_t latest = begin_ns + lk_slow_time_ns(cost, p->slow_delta);
    struct lk_step_cursor this = s->next;
    double block = lk_step_cursor_block(p, &this, this.micro_batch);

    for (int i = 0; i < p->model->ranks; i++) {
        struct rank *r = &s->ranks[i];
        uint64_t until;

        run_until(s, r, begin_ns, p->slow_wait);
        run_until(s, r, latest, p->slow_wire);
        until = stands(r) ? r->stands_ns : latest;
        held = until > held ? until : held;
    }
    end = begin_ns + transfer_ns(p, cost, held - begin_ns);
    lk_step_cursor_next(p, &s->next);
    return go_on(s, begin_ns, end, this.micro_batch,
                 lk_step_cursor_block(p, &s->next, this.micro_batch) > block);
}

/* When the last rank arrives at the run's first collective. */
static uint64_t first_begin(struct state *s)
{
    const struct lk_step_plan *p = &s->plan;
    uint64_t last = 0;

    for (int i = 0; i < p->model->ranks; i++) {
        struct rank *r = &s->ranks[i];
        size_t k = lk_step_cursor_coll(p, &s->next);

        r->arrival_ns = arrive(s, r, s->next.micro_batch, p->model->colls[k].ready, 0);
        last = r->arrival_ns > last ? r->arrival_ns : last;
    }
    return last;
}

/* ---- The run ---- */

static enum lk_status state_init(struct state *s, const struct lk_step_model *m,
                                 const struct lk_sim_request *request)
{
    enum lk_status st = LK_OK;
    size_t depth = (size_t)m->prefetch_depth;

    LK_TRY(lk_step_plan_init(&s->plan, m, request->seed));
    s->next = lk_step_cursor_first(&s->plan);
    s->micro_batches = (uint64_t)(LK_SIM_WARMUP + request->steps) * (uint64_t)m->accumulation;
    LK_TRY(lk_alloc(&s->ranks, (size_t)m->ranks, sizeof *s->ranks));
    LK_TRY(lk_alloc(&s->taken_ns, (size_t)m->ranks * depth, sizeof *s->taken_ns));
    LK_TRY(lk_alloc(&s->step_sum_ns, (size_t)request->steps, sizeof *s->step_sum_ns));
    for (int i = 0; i < m->ranks; i++) {
        s->ranks[i].loader.taken_ns = s->taken_ns + (size_t)i * depth;
        start_micro_batch(s, &s->ranks[i]);
    }
out:
    return st;
}

static void state_fini(struct state *s)
{
    free(s->ranks);
    free(s->taken_ns);
    free(s->step_sum_ns);
    lk_step_plan_fini(&s->plan);
}

enum lk_status lk_closed_form_run(const struct lk_step_model *m,
                                  const struct lk_sim_request *request, struct lk_sim_result *out)
{
    enum lk_status st = LK_OK;
    struct state s = {0};
    struct lk_sim_result r = {0};
    uint64_t begin = 0;

    if (request->steps < 1)
        return lk_fail(LK_EUSAGE, "%d steps to simulate, expected 1 or more", request->steps);
    LK_TRY(state_init(&s, m, request));
    LK_TRY(lk_alloc(&r.step_s, (size_t)request->steps, sizeof *r.step_s));
    if (m->n_colls)
        begin = first_begin(&s);
    while (s.next.micro_batch < s.micro_batches)
        begin = run_collective(&s, begin);
    for (int i = 0; i < m->ranks; i++)
        run_until(&s, &s.ranks[i], UINT64_MAX, LK_SLOW_ONE);
    for (; r.n < (size_t)request->steps; r.n++)
        r.step_s[r.n] = lk_s_from_ns(s.step_sum_ns[r.n]) / m->ranks;
    lk_step_finish(&s.plan, &s.sums, (uint64_t)request->steps * (uint64_t)m->ranks, &r);
    *out = r;
    r.step_s = NULL;
out:
    free(r.step_s);
    state_fini(&s);
    return st;
}
