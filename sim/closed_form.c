/*
 * The step model as a recurrence over all ranks at once.
 *
 * No collective is needed beyond its micro-batch, so no rank leaves a micro-batch before all its
 * collectives have ended. What is to be known of a rank is then two numbers: the work it has done,
 * and since when. Between two collectives it goes on by itself; while one is under way it changes
 * pace only at the collective's own times. Every loop is over ranks, branch-free and vectorised.
 *
 * Divisions: paces / positions / a collective / a micro-batch / the run.
 */
#include "sim/closed_form.h"

#include "base/array.h"
#include "base/units.h"
#include "sim/engine.h"

#include <stdlib.h>

struct state {
    struct lk_step_plan plan;
    size_t n; /* ranks */
    /* Of each rank in this micro-batch. */
    uint64_t *forward_ns, *backward_ns;
    uint64_t *work_ns, *at_ns;      /* work done, and when it was */
    uint64_t *block_ns, *ready_ns;  /* work at which it stands, and comes to the next collective */
    uint64_t *memory;               /* all of these */
    struct lk_step_loader *loaders; /* NULL: none is ever waited for */
    uint64_t *taken_ns;             /* of all loaders */
    uint64_t optimizer_ns;          /* of this micro-batch */
    uint64_t longest_ns;            /* most work of a rank in this micro-batch */
    uint64_t since_ns;              /* no rank was held up, or has come to the next collective,
                                     * before: the end of the one before */
    uint64_t ends_ns;               /* of the last step: sum over ranks */
    bool counted;                   /* this step goes into the sums */
    struct lk_step_sums sums;
    uint64_t *step_sum_ns; /* by counted step, over ranks */
};

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* ---- Paces ---- */

/* One of the plan's slowdowns, to convert with. */
struct pace {
    uint64_t slow;
    double speed; /* 2^20 / slow */
    bool narrow;  /* durations and slowdowns are small enough for what needs no branches */
};

/* `longest_ns`: no duration that is converted is longer. */
static struct pace pace_of(uint64_t slow, uint64_t longest_ns)
{
    return (struct pace){slow, (double)LK_SLOW_ONE / (double)slow,
                         longest_ns < LK_STEP_NARROW_WORK_ && slow < LK_STEP_NARROW_SLOW_};
}

/* lk_slow_time_ns. */
static inline uint64_t time_ns(uint64_t work_ns, struct pace p)
{
    if (!p.narrow)
        return lk_slow_time_ns(work_ns, p.slow);
    return (work_ns * p.slow + LK_SLOW_ONE - 1) >> LK_SLOW_BITS;
}

/* lk_slow_work_ns. The narrow way's quotient is off by 1 at most, being rounded twice. */
static inline uint64_t work_in_ns(uint64_t elapsed_ns, struct pace p)
{
    uint64_t quotient;
    int64_t rest;

    if (!p.narrow)
        return lk_slow_work_ns(elapsed_ns, p.slow);
    quotient = (uint64_t)(int64_t)((double)(int64_t)elapsed_ns * p.speed);
    rest = (int64_t)((elapsed_ns << LK_SLOW_BITS) - quotient * p.slow);
    return quotient + (rest >= (int64_t)p.slow) - (rest < 0);
}

/* ---- Positions ---- */

/* The work before a position, of every rank. */
static void set_positions(const struct state *s, double position, uint64_t *restrict out)
{
    const uint64_t *restrict forward = s->forward_ns, *restrict backward = s->backward_ns;
    size_t n = s->n;
    uint64_t optimizer;

    if (position <= LK_STEP_BACKWARD) {
        for (size_t i = 0; i < n; i++)
            out[i] = lk_step_share_ns(forward[i], position);
    } else if (position <= LK_STEP_OPTIMIZER) {
        for (size_t i = 0; i < n; i++)
            out[i] = forward[i] + lk_step_share_ns(backward[i], position - LK_STEP_BACKWARD);
    } else {
        optimizer = lk_step_share_ns(s->optimizer_ns, position - LK_STEP_OPTIMIZER);
        for (size_t i = 0; i < n; i++)
            out[i] = forward[i] + backward[i] + optimizer;
    }
}

/* Ranks stand elsewhere now; those that stood before it go on where the last collective ended, when
 * all others are, too. */
static void move_block(struct state *s, double position)
{
    const uint64_t *restrict work = s->work_ns, *restrict block = s->block_ns;
    uint64_t *restrict at = s->at_ns, since = s->since_ns;
    size_t n = s->n;

    set_positions(s, position, s->block_ns);
    for (size_t i = 0; i < n; i++)
        at[i] = work[i] < block[i] ? since : at[i];
}

/* ---- A collective ---- */

/* All ranks come to a position, no collective under way, or were there already; when the last did.
 */
static uint64_t arrive(struct state *s, double position)
{
    const uint64_t *restrict ready = s->ready_ns;
    uint64_t *restrict work = s->work_ns, *restrict at = s->at_ns, last = s->since_ns;
    size_t n = s->n;

    set_positions(s, position, s->ready_ns);
    for (size_t i = 0; i < n; i++) {
        uint64_t done = larger(ready[i], work[i]);

        at[i] += done - work[i];
        work[i] = done;
        last = larger(last, at[i]);
    }
    return last;
}

/* What came of the ranks while a collective was under way. */
struct beside {
    uint64_t held_ns; /* when the last one was held up, or `latest` */
    uint64_t overlap_ns;
    uint64_t straggler_ns;
    uint64_t stood, stood_from_ns; /* how many stand, and the sum of the times since when, but not
                                    * since before the collective began */
};

/* Every rank computes at one pace to begin_ns and at another to latest_ns, or to where it stands.
 */
static inline struct beside compute_beside(struct state *s, uint64_t begin_ns, uint64_t latest_ns,
                                           struct pace wait, struct pace wire)
{
    const uint64_t *restrict block_ns = s->block_ns;
    uint64_t *restrict at_ns = s->at_ns, *restrict work_ns = s->work_ns, since = s->since_ns;
    uint64_t wire_work = work_in_ns(latest_ns - begin_ns, wire);
    struct beside b = {.held_ns = begin_ns};
    size_t n = s->n;

    for (size_t i = 0; i < n; i++) {
        uint64_t at = at_ns[i], work = work_ns[i], block = block_ns[i];
        uint64_t waiting = at + time_ns(block - work, wait); /* stands then, if before begin */
        uint64_t begun = work + work_in_ns(begin_ns - at, wait);
        uint64_t wired = begin_ns + time_ns(block - begun, wire);
        uint64_t to = waiting <= begin_ns ? waiting : smaller(wired, latest_ns);
        uint64_t stands = (uint64_t)(waiting <= begin_ns) | (uint64_t)(wired <= latest_ns);
        uint64_t if_stands = 0 - stands; /* all bits */
        uint64_t done = (block & if_stands) | ((begun + wire_work) & ~if_stands);
        uint64_t from = larger(to, since), exposed = larger(from, begin_ns);

        at_ns[i] = to;
        work_ns[i] = done;
        b.held_ns = larger(b.held_ns, to);
        b.overlap_ns += (to - at) - (done - work);
        b.stood += stands;
        b.straggler_ns += (exposed - from) & if_stands;
        b.stood_from_ns += exposed & if_stands;
    }
    return b;
}

/* ns that a transfer takes when the last rank is held up after busy_ns of it. */
static uint64_t transfer_ns(const struct lk_step_plan *p, uint64_t cost_ns, uint64_t busy_ns)
{
    uint64_t slowed = lk_slow_time_ns(cost_ns, p->slow_delta);

    if (slowed <= busy_ns)
        return slowed;
    return busy_ns + cost_ns - lk_slow_work_ns(busy_ns, p->slow_delta);
}

static void run_collective(struct state *s, size_t k)
{
    const struct lk_step_plan *p = &s->plan;
    uint64_t cost = p->cost_ns[k], begin = arrive(s, p->model->colls[k].ready);
    uint64_t latest = begin + lk_slow_time_ns(cost, p->slow_delta), end;
    uint64_t longest = larger(larger(latest - begin, begin - s->since_ns), s->longest_ns);
    struct pace wait = pace_of(p->slow_wait, longest), wire = pace_of(p->slow_wire, longest);
    struct beside b;

    /* The same loop twice: the compiler sees that the first one has no branches. */
    if (wait.narrow && wire.narrow) {
        wait.narrow = wire.narrow = true;
        b = compute_beside(s, begin, latest, wait, wire);
    } else {
        wait.narrow = wire.narrow = false;
        b = compute_beside(s, begin, latest, wait, wire);
    }
    end = begin + transfer_ns(p, cost, b.held_ns - begin);
    s->since_ns = end;
    if (!s->counted)
        return;
    s->sums.overlap_ns += b.overlap_ns;
    s->sums.straggler_ns += b.straggler_ns;
    s->sums.wire_ns += b.stood * end - b.stood_from_ns;
}

/* ---- A micro-batch ---- */

/* Every rank waits for its input. */
static void take_input(struct state *s, uint64_t micro_batch)
{
    const struct lk_step_plan *p = &s->plan;
    uint64_t fixed = p->input_ns + (p->model->prefetch_depth ? 0 : p->load_ns), waited = 0;

    if (s->loaders)
        for (size_t i = 0; i < s->n; i++) {
            uint64_t at = lk_step_input_ns(p, &s->loaders[i], micro_batch, s->at_ns[i]);

            waited += at - s->at_ns[i];
            s->at_ns[i] = at;
        }
    else
        for (size_t i = 0; i < s->n; i++)
            s->at_ns[i] += fixed;
    s->sums.input_ns += s->counted ? (s->loaders ? waited : fixed * s->n) : 0;
}

static void start_micro_batch(struct state *s, uint64_t micro_batch)
{
    struct lk_step_plan *p = &s->plan;
    const uint64_t *restrict forward = s->forward_ns, *restrict backward = s->backward_ns;
    uint64_t *restrict at = s->at_ns, *restrict work = s->work_ns;
    uint64_t kappa_ns, compute_ns = 0, longest = 0, earliest = UINT64_MAX;
    size_t n = s->n;

    s->counted = micro_batch >= (uint64_t)p->model->accumulation * LK_SIM_WARMUP;
    s->optimizer_ns = lk_step_plan_last(p, micro_batch) ? p->optimizer_ns : 0;
    kappa_ns = lk_step_plan_draw(p, micro_batch, 0, s->n, s->forward_ns, s->backward_ns);
    take_input(s, micro_batch);
    for (size_t i = 0; i < n; i++) {
        uint64_t compute = forward[i] + backward[i];

        work[i] = 0;
        compute_ns += compute;
        longest = larger(longest, compute);
        earliest = earliest < at[i] ? earliest : at[i];
    }
    s->since_ns = earliest;
    s->longest_ns = longest + s->optimizer_ns;
    s->sums.compute_ns += s->counted ? compute_ns : 0;
    s->sums.kappa_ns += s->counted ? kappa_ns : 0;
}

/* Every rank does the rest of its work, and at a step's end has its host gap. */
static void end_micro_batch(struct state *s, uint64_t micro_batch, bool had_collectives)
{
    const struct lk_step_plan *p = &s->plan;
    bool last = lk_step_plan_last(p, micro_batch);
    const uint64_t *restrict forward = s->forward_ns, *restrict backward = s->backward_ns;
    const uint64_t *restrict work = s->work_ns;
    uint64_t *restrict at = s->at_ns, since = s->since_ns;
    uint64_t rest = s->optimizer_ns + (last ? p->gap_ns : 0), sum = 0;
    size_t n = s->n;

    for (size_t i = 0; i < n; i++) {
        at[i] = (had_collectives ? since : at[i]) + forward[i] + backward[i] - work[i] + rest;
        sum += at[i];
    }
    if (!last)
        return;
    if (s->counted)
        s->step_sum_ns[micro_batch / (uint64_t)p->model->accumulation - LK_SIM_WARMUP] =
            sum - s->ends_ns;
    s->ends_ns = sum;
}

static void run_micro_batch(struct state *s, uint64_t micro_batch)
{
    const struct lk_step_list *l = &s->plan.lists[lk_step_plan_last(&s->plan, micro_batch)];

    start_micro_batch(s, micro_batch);
    for (size_t i = 0; i < l->n; i++) {
        if (!i)
            set_positions(s, l->block[i], s->block_ns);
        else if (l->block[i] > l->block[i - 1])
            move_block(s, l->block[i]);
        run_collective(s, l->coll[i]);
    }
    end_micro_batch(s, micro_batch, l->n > 0);
}

/* ---- The run ---- */

static enum lk_status loaders_init(struct state *s)
{
    enum lk_status st = LK_OK;
    size_t depth = (size_t)s->plan.model->prefetch_depth;

    if (!depth || !s->plan.load_ns)
        return LK_OK;
    LK_TRY(lk_alloc(&s->loaders, s->n, sizeof *s->loaders));
    LK_TRY(lk_alloc(&s->taken_ns, s->n * depth, sizeof *s->taken_ns));
    for (size_t i = 0; i < s->n; i++)
        s->loaders[i].taken_ns = s->taken_ns + i * depth;
out:
    return st;
}

static enum lk_status state_init(struct state *s, const struct lk_step_model *m,
                                 const struct lk_sim_request *request)
{
    enum lk_status st = LK_OK;
    uint64_t **const arrays[] = {&s->forward_ns, &s->backward_ns, &s->work_ns,
                                 &s->at_ns,      &s->block_ns,    &s->ready_ns};

    LK_TRY(lk_step_plan_init(&s->plan, m, request->seed));
    s->n = (size_t)m->ranks;
    LK_TRY(lk_alloc(&s->memory, s->n * LK_COUNT(arrays), sizeof *s->memory));
    for (size_t i = 0; i < LK_COUNT(arrays); i++)
        *arrays[i] = s->memory + i * s->n;
    LK_TRY(lk_alloc(&s->step_sum_ns, (size_t)request->steps, sizeof *s->step_sum_ns));
    LK_TRY(loaders_init(s));
out:
    return st;
}

static void state_fini(struct state *s)
{
    free(s->memory);
    free(s->loaders);
    free(s->taken_ns);
    free(s->step_sum_ns);
    lk_step_plan_fini(&s->plan);
}

/* Whether no collective reaches into the next step, where ranks would part. */
static bool applies(const struct lk_step_model *m)
{
    for (size_t k = 0; k < m->n_colls; k++)
        if (m->colls[k].need > LK_STEP_END)
            return false;
    return true;
}

enum lk_status lk_closed_form_run(const struct lk_step_model *m,
                                  const struct lk_sim_request *request, struct lk_sim_result *out)
{
    enum lk_status st = LK_OK;
    struct state s = {0};
    struct lk_sim_result r = {0};
    uint64_t micro_batches;

    if (request->steps < 1)
        return lk_fail(LK_EUSAGE, "%d steps to simulate, expected 1 or more", request->steps);
    if (!applies(m))
        return lk_engine_run(m, request, NULL, out);
    LK_TRY(state_init(&s, m, request));
    LK_TRY(lk_alloc(&r.step_s, (size_t)request->steps, sizeof *r.step_s));
    micro_batches = (uint64_t)(LK_SIM_WARMUP + request->steps) * (uint64_t)m->accumulation;
    for (uint64_t i = 0; i < micro_batches; i++)
        run_micro_batch(&s, i);
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
