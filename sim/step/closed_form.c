/*
 * This file evaluates the step model as a recurrence over all ranks at once.
 *
 * No collective is needed beyond its micro-batch, so no rank leaves a micro-batch before all its
 * collectives have ended. The state of a rank is then two numbers: the work done and the time at
 * which it was done. Between two collectives a rank computes alone; during one its slowdown
 * changes only at the collective's own times. Every loop is over ranks, branch-free and
 * vectorised.
 *
 * Divisions: slowdowns / positions / a collective / a micro-batch / the run.
 */
#include "sim/step/closed_form.h"

#include "base/array.h"
#include "sim/step/engine.h"

#include <stdlib.h>

struct state {
    struct lk_step_plan plan;
    size_t n; /* ranks */
    /* The state of each rank in this micro-batch. */
    uint64_t *forward_ns, *backward_ns;
    uint64_t *work_ns, *at_ns; /* work done, and when it was */
    uint64_t *block_ns,
        *ready_ns;         /* work at which it blocks, and at which the next collective is ready */
    uint64_t *memory;      /* all of these */
    uint64_t optimizer_ns; /* of this micro-batch */
    uint64_t longest_ns;   /* most work of a rank in this micro-batch */
    uint64_t since_ns; /* no rank blocked or became ready for the next collective before this: the
                          end of the last one */
    uint64_t warmup;   /* steps that are not counted */
    uint64_t ends_ns;  /* of the last step: sum over ranks */
    bool counted;      /* this step goes into the sums */
};

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* ---- Slowdowns ---- */

/* A slowdown of the plan, prepared for conversion. */
struct slowdown {
    uint64_t factor;
    double speed; /* 2^20 / slow */
    bool narrow;  /* small enough for conversions without branches */
};

/* Prepare a slowdown; no converted duration is longer than longest_ns. */
static struct slowdown slowdown_of(uint64_t slow, uint64_t longest_ns)
{
    return (struct slowdown){slow, (double)LK_SLOWDOWN_ONE / (double)slow,
                             longest_ns < LK_STEP_NARROW_WORK_ && slow < LK_STEP_NARROW_SLOWDOWN_};
}

/* Convert as lk_slowdown_time_ns. */
static inline uint64_t time_ns(uint64_t work_ns, struct slowdown p)
{
    if (!p.narrow)
        return lk_slowdown_time_ns(work_ns, p.factor);
    return (work_ns * p.factor + LK_SLOWDOWN_ONE - 1) >> LK_SLOWDOWN_BITS;
}

/* Convert as lk_slowdown_work_ns. The narrow quotient is rounded twice and off by 1 at most. */
static inline uint64_t work_in_ns(uint64_t elapsed_ns, struct slowdown p)
{
    uint64_t quotient;
    int64_t rest;

    if (!p.narrow)
        return lk_slowdown_work_ns(elapsed_ns, p.factor);
    quotient = (uint64_t)(int64_t)((double)(int64_t)elapsed_ns * p.speed);
    rest = (int64_t)((elapsed_ns << LK_SLOWDOWN_BITS) - quotient * p.factor);
    return quotient + (rest >= (int64_t)p.factor) - (rest < 0);
}

/* ---- Positions ---- */

/* Set the work of every rank before a position. */
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

/* Move the blocking position. A rank blocked before it resumes when the last collective ended. */
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

/*
 * Let all ranks compute to a position while no collective runs; return when the last one arrives.
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

/* Sums over the ranks during one collective. */
struct concurrent {
    uint64_t last_blocked_ns; /* when the last rank blocked, at most the latest end */
    uint64_t overlap_ns;
    uint64_t straggler_ns;
    uint64_t blocked, blocked_from_ns; /* blocked ranks, and the sum of the times since when, but at
                                          least the begin */
};

/*
 * Let every rank compute at one slowdown to begin_ns and at another to latest_ns, unless it
 * blocks.
 */
static inline struct concurrent compute_concurrently(struct state *s, uint64_t begin_ns,
                                                     uint64_t latest_ns, struct slowdown wait,
                                                     struct slowdown wire)
{
    const uint64_t *restrict block_ns = s->block_ns;
    uint64_t *restrict at_ns = s->at_ns, *restrict work_ns = s->work_ns, since = s->since_ns;
    uint64_t wire_work = work_in_ns(latest_ns - begin_ns, wire);
    struct concurrent b = {.last_blocked_ns = begin_ns};
    size_t n = s->n;

    for (size_t i = 0; i < n; i++) {
        uint64_t at = at_ns[i], work = work_ns[i], block = block_ns[i];
        uint64_t waiting = at + time_ns(block - work, wait); /* blocks here, if before begin */
        uint64_t begun = work + work_in_ns(begin_ns - at, wait);
        uint64_t wired = begin_ns + time_ns(block - begun, wire);
        uint64_t to = waiting <= begin_ns ? waiting : smaller(wired, latest_ns);
        uint64_t is_blocked = (uint64_t)(waiting <= begin_ns) | (uint64_t)(wired <= latest_ns);
        uint64_t if_blocked = 0 - is_blocked; /* all bits */
        uint64_t done = (block & if_blocked) | ((begun + wire_work) & ~if_blocked);
        uint64_t from = larger(to, since), exposed = larger(from, begin_ns);

        at_ns[i] = to;
        work_ns[i] = done;
        b.last_blocked_ns = larger(b.last_blocked_ns, to);
        b.overlap_ns += (to - at) - (done - work);
        b.blocked += is_blocked;
        b.straggler_ns += (exposed - from) & if_blocked;
        b.blocked_from_ns += exposed & if_blocked;
    }
    return b;
}

/* Return the ns of a collective whose last rank blocks after busy_ns. */
static uint64_t collective_ns(const struct lk_step_plan *p, uint64_t cost_ns, uint64_t busy_ns)
{
    uint64_t slowed = lk_slowdown_time_ns(cost_ns, p->slowdown_delta);

    if (slowed <= busy_ns)
        return slowed;
    return busy_ns + cost_ns - lk_slowdown_work_ns(busy_ns, p->slowdown_delta);
}

/* Run a collective; `first` of its micro-batch, or behind the one that ended at since_ns. */
static void run_collective(struct state *s, size_t k, bool first)
{
    const struct lk_step_plan *p = &s->plan;
    uint64_t begin = arrive(s, p->model->colls[k].ready);
    uint64_t cost = lk_step_cost_ns(p, k, first ? UINT64_MAX : begin - s->since_ns);
    uint64_t latest = begin + lk_slowdown_time_ns(cost, p->slowdown_delta), end;
    uint64_t longest = larger(larger(latest - begin, begin - s->since_ns), s->longest_ns);
    struct slowdown wait = slowdown_of(p->slowdown_wait, longest),
                    wire = slowdown_of(p->slowdown_wire, longest);
    struct concurrent b;

    /* The loop is compiled twice, so that the first copy has no branches. */
    if (wait.narrow && wire.narrow) {
        wait.narrow = wire.narrow = true;
        b = compute_concurrently(s, begin, latest, wait, wire);
    } else {
        wait.narrow = wire.narrow = false;
        b = compute_concurrently(s, begin, latest, wait, wire);
    }
    end = begin + collective_ns(p, cost, b.last_blocked_ns - begin);
    s->since_ns = end;
    if (!s->counted)
        return;
    s->plan.sums.overlap_ns += b.overlap_ns;
    s->plan.sums.straggler_ns += b.straggler_ns;
    s->plan.sums.wire_ns += b.blocked * end - b.blocked_from_ns;
}

/* ---- A micro-batch ---- */

/* Let every rank wait for its input. */
static void take_input(struct state *s, uint64_t micro_batch)
{
    struct lk_step_plan *p = &s->plan;
    uint64_t fixed = p->input_ns + (p->model->prefetch_depth ? 0 : p->load_ns), waited = 0;

    if (p->loaders)
        for (size_t i = 0; i < s->n; i++) {
            uint64_t at = lk_step_input_ns(p, i, micro_batch, s->at_ns[i]);

            waited += at - s->at_ns[i];
            s->at_ns[i] = at;
        }
    else
        for (size_t i = 0; i < s->n; i++)
            s->at_ns[i] += fixed;
    s->plan.sums.input_ns += s->counted ? (p->loaders ? waited : fixed * s->n) : 0;
}

static void start_micro_batch(struct state *s, uint64_t micro_batch)
{
    struct lk_step_plan *p = &s->plan;
    const uint64_t *restrict forward = s->forward_ns, *restrict backward = s->backward_ns;
    uint64_t *restrict at = s->at_ns, *restrict work = s->work_ns;
    uint64_t kappa_ns, compute_ns = 0, longest = 0, earliest = UINT64_MAX;
    size_t n = s->n;

    s->counted = micro_batch >= (uint64_t)p->model->accumulation * s->warmup;
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
    s->plan.sums.compute_ns += s->counted ? compute_ns : 0;
    s->plan.sums.kappa_ns += s->counted ? kappa_ns : 0;
}

/* Let every rank finish its compute, and have its host gap at a step's end. */
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
        s->plan.sums.step_ns[micro_batch / (uint64_t)p->model->accumulation - s->warmup] =
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
        run_collective(s, l->coll[i], !i);
    }
    end_micro_batch(s, micro_batch, l->n > 0);
}

/* ---- The run ---- */

static enum lk_status state_init(struct state *s, const struct lk_step_model *m,
                                 const struct lk_sim_request *request)
{
    uint64_t **const arrays[] = {&s->forward_ns, &s->backward_ns, &s->work_ns,
                                 &s->at_ns,      &s->block_ns,    &s->ready_ns};

    LK_PASS(lk_step_plan_init(&s->plan, m, request));
    s->n = (size_t)m->ranks;
    s->warmup = request->steady ? 0 : LK_SIM_WARMUP;
    LK_PASS(lk_alloc(&s->memory, s->n * LK_COUNT(arrays), sizeof *s->memory));
    for (size_t i = 0; i < LK_COUNT(arrays); i++)
        *arrays[i] = s->memory + i * s->n;
    return LK_OK;
}

static void state_fini(struct state *s)
{
    free(s->memory);
    lk_step_plan_fini(&s->plan);
}

/* Return true if no collective is needed in the next step, where ranks would differ. */
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
    uint64_t micro_batches;

    if (!applies(m))
        return lk_engine_run(m, request, NULL, out);
    LK_TRY(state_init(&s, m, request));
    micro_batches = (s.warmup + (uint64_t)request->steps) * (uint64_t)m->accumulation;
    for (uint64_t i = 0; i < micro_batches; i++)
        run_micro_batch(&s, i);
    LK_TRY(lk_step_finish(&s.plan, out));
out:
    state_fini(&s);
    return st;
}
