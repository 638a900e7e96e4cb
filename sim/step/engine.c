/*
 * This file runs the step model as events.
 *
 * Divisions: heap / recording / the next collective / slowdowns / ranks / communication / the run.
 * Events of a rank whose slowdown changed stay in the heap: they carry the rank's generation, and
 * old ones are skipped.
 */
#include "sim/step/engine.h"

#include "base/array.h"

#include <math.h>
#include <stdlib.h>

enum event_kind {
    EVENT_INPUT,    /* a rank has its micro-batch */
    EVENT_PROGRESS, /* its compute reached a stop: see settle */
    EVENT_TRANSFER, /* the collective ended */
    EVENT_STEP      /* the host gap ended */
};

struct event {
    uint64_t at_ns, sequence;
    uint32_t generation;
    int32_t rank;
    enum event_kind kind;
};

enum rank_phase {
    RANK_PAUSED, /* input or host gap */
    RANK_COMPUTES,
    RANK_BLOCKED, /* until a collective has ended */
    RANK_DONE     /* with the run */
};
enum comm_phase { COMM_IDLE, COMM_WAITS, COMM_TRANSFERS };

/* A range of compute, as recorded. */
enum { FORWARD, BACKWARD, OPTIMIZER, SEGMENTS };

struct rank {
    uint64_t micro_batch; /* over the whole run */
    int step;
    uint64_t micro_start_ns; /* asked for its input */
    uint64_t step_start_ns, kernel_start_ns;
    uint64_t segment_start_ns; /* UINT64_MAX: it has ended */
    struct lk_step_compute compute;
    uint64_t end_ns[SEGMENTS]; /* work at which each segment ends */
    int segment;
    enum rank_phase phase;
    /*
     * Compute: work_ns was done at at_ns and continues at 1/slow; stops up to passed_ns are done.
     */
    uint64_t work_ns, at_ns, slow, passed_ns;
    uint32_t generation;
    size_t next_ready; /* position in the list's by_ready */
    size_t next_mark;  /* of the record's */
    enum comm_phase comm;
    uint64_t arrival_ns, blocked_ns;
};

struct engine {
    struct lk_step_plan plan;
    struct lk_sim_trace *record;
    struct rank *ranks;
    uint64_t *ready_ns; /* [rank][collective]; UINT64_MAX: not ready, or ended */
    struct event *heap;
    size_t n_events, capacity;
    uint64_t sequence;
    /* The communication stream: this collective waits or runs. */
    uint64_t next_micro_batch; /* UINT64_MAX: there is none */
    size_t next;               /* its number in the micro-batch's list */
    size_t current;            /* its index in the model */
    int arrived, busy;         /* ranks; busy: not blocked */
    bool transfers;
    uint64_t begin_ns, ended_ns;             /* of this one, and the one before */
    uint64_t left_ns, left_at_ns, left_slow; /* of the running collective, at its slowdown */
    uint32_t transfer_generation, collective;
};

/* ---- Heap ---- */

static bool before(const struct event *a, const struct event *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->sequence < b->sequence;
}

static enum lk_status push(struct engine *e, uint64_t at_ns, enum event_kind kind, int rank,
                           uint32_t generation)
{
    struct event v = {at_ns, e->sequence++, generation, rank, kind};
    size_t i;

    LK_PASS(lk_array_grow(&e->heap, &e->capacity, e->n_events + 1, sizeof *e->heap));
    for (i = e->n_events++; i > 0; i = (i - 1) / 2) {
        if (!before(&v, &e->heap[(i - 1) / 2]))
            break;
        e->heap[i] = e->heap[(i - 1) / 2];
    }
    e->heap[i] = v;
    return LK_OK;
}

/* pre: n_events > 0. */
static struct event pop(struct engine *e)
{
    struct event top = e->heap[0], last = e->heap[--e->n_events];
    size_t i = 0, child;

    while ((child = 2 * i + 1) < e->n_events) {
        if (child + 1 < e->n_events && before(&e->heap[child + 1], &e->heap[child]))
            child++;
        if (!before(&e->heap[child], &last))
            break;
        e->heap[i] = e->heap[child];
        i = child;
    }
    e->heap[i] = last;
    return top;
}

/* ---- Recording ---- */

static bool counted(const struct rank *r)
{
    return r->step >= LK_SIM_WARMUP;
}

static void record(struct engine *e, const struct rank *r, enum lk_track_kind track,
                   enum lk_span_kind kind, uint64_t start_ns, uint64_t end_ns, int32_t index)
{
    struct lk_span s = {.start_ns = start_ns,
                        .end_ns = end_ns,
                        .step = (uint32_t)r->step,
                        .index = index,
                        .kind = (uint16_t)kind};

    lk_sim_trace_span(e->record, (int)(r - e->ranks), track, &s);
}

static int32_t micro_index(const struct engine *e, const struct rank *r)
{
    return (int32_t)(r->micro_batch % (uint64_t)e->plan.model->accumulation);
}

/* Record compute without a pause as one kernel. */
static void record_kernel(struct engine *e, const struct rank *r, uint64_t now_ns)
{
    if (now_ns > r->kernel_start_ns)
        record(e, r, LK_TRACK_COMPUTE, LK_SPAN_KERNEL, r->kernel_start_ns, now_ns, -1);
}

static void record_segment(struct engine *e, const struct rank *r, uint64_t now_ns)
{
    static const enum lk_span_kind kinds[SEGMENTS] = {LK_SPAN_FORWARD, LK_SPAN_BACKWARD,
                                                      LK_SPAN_OPTIMIZER};

    record(e, r, LK_TRACK_COMPUTE, kinds[r->segment], r->segment_start_ns, now_ns,
           r->segment == OPTIMIZER ? -1 : micro_index(e, r));
    record_kernel(e, r, now_ns);
}

static uint64_t *ready_of(struct engine *e, int rank, size_t k)
{
    return &e->ready_ns[(size_t)rank * e->plan.model->n_colls + k];
}

/* Record the span in the step of its micro-batch; the rank may be in the next one. */
static void record_collective(struct engine *e, int rank, uint64_t end_ns)
{
    const struct rank *r = &e->ranks[rank];
    const struct lk_step_coll *c = &e->plan.model->colls[e->current];
    uint64_t step = e->next_micro_batch / (uint64_t)e->plan.model->accumulation;
    struct lk_span s = {.start_ns = r->arrival_ns,
                        .end_ns = end_ns,
                        .ready_ns = *ready_of(e, rank, e->current),
                        .bytes = c->bytes,
                        .step = (uint32_t)step,
                        .index = c->bucket,
                        .seq = e->collective,
                        .kind = LK_SPAN_COLLECTIVE,
                        .name = lk_sim_trace_name(c->coll)};

    lk_sim_trace_span(e->record, rank, LK_TRACK_COMM, &s);
}

/* ---- The next collective ---- */

static const struct lk_step_list *list_of(const struct engine *e, uint64_t micro_batch)
{
    return &e->plan.lists[lk_step_plan_last(&e->plan, micro_batch)];
}

/* Start with the first collective of the run; pre: e is zeroed but for its plan. */
static void first_collective(struct engine *e)
{
    if (!list_of(e, 0)->n)
        e->next_micro_batch = (uint64_t)e->plan.model->accumulation - 1;
    if (!list_of(e, e->next_micro_batch)->n)
        e->next_micro_batch = UINT64_MAX;
    else
        e->current = list_of(e, e->next_micro_batch)->coll[0];
}

static void next_collective(struct engine *e)
{
    if (++e->next == list_of(e, e->next_micro_batch)->n) {
        e->next = 0;
        e->next_micro_batch += e->plan.lists[0].n ? 1 : (uint64_t)e->plan.model->accumulation;
    }
    e->current = list_of(e, e->next_micro_batch)->coll[e->next];
}

/* Return the work at which a rank blocks until the next collective ends; UINT64_MAX: nowhere. */
static uint64_t block_ns(const struct engine *e, const struct rank *r)
{
    const struct lk_step_list *l = list_of(e, e->next_micro_batch);
    double block;

    if (e->next_micro_batch > r->micro_batch)
        return UINT64_MAX;
    block = l->block[e->next];
    if (e->next_micro_batch < r->micro_batch) {
        block = fmin(block - LK_STEP_END, list_of(e, r->micro_batch)->block[0]);
        if (lk_step_plan_last(&e->plan, r->micro_batch))
            block = fmin(block, l->late[e->next] - LK_STEP_END);
    }
    return lk_step_position_ns(&r->compute, block);
}

/* ---- Slowdowns ---- */

static uint64_t slowdown_of(const struct engine *e, const struct rank *r)
{
    const uint64_t slowdowns[] = {[COMM_IDLE] = LK_SLOWDOWN_ONE,
                                  [COMM_WAITS] = e->plan.slowdown_wait,
                                  [COMM_TRANSFERS] = e->plan.slowdown_wire};

    return slowdowns[r->comm];
}

/* Return the work at which the next gradient is final; UINT64_MAX if none is left or recorded. */
static uint64_t next_mark_ns(const struct engine *e, const struct rank *r)
{
    if (!e->record || r->next_mark == e->record->n_marks)
        return UINT64_MAX;
    return lk_step_position_ns(&r->compute,
                               LK_STEP_BACKWARD + e->record->marks[r->next_mark].ready);
}

static uint64_t next_ready_ns(const struct engine *e, const struct rank *r)
{
    const struct lk_step_list *l = list_of(e, r->micro_batch);

    if (r->next_ready == l->n)
        return UINT64_MAX;
    return lk_step_position_ns(&r->compute, e->plan.model->colls[l->by_ready[r->next_ready]].ready);
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Schedule the next stop of the rank's compute. */
static enum lk_status schedule(struct engine *e, int rank)
{
    struct rank *r = &e->ranks[rank];
    uint64_t stop = least(least(next_mark_ns(e, r), next_ready_ns(e, r)),
                          least(block_ns(e, r), r->end_ns[r->segment]));
    uint64_t left = stop > r->work_ns ? stop - r->work_ns : 0;

    return push(e, r->at_ns + lk_slowdown_time_ns(left, r->slow), EVENT_PROGRESS, rank,
                ++r->generation);
}

/* Account for the compute up to now, before its slowdown changes. */
static void rebase(struct engine *e, struct rank *r, uint64_t now_ns)
{
    uint64_t elapsed = now_ns - r->at_ns, work = lk_slowdown_work_ns(elapsed, r->slow);

    r->work_ns += work;
    r->at_ns = now_ns;
    if (counted(r))
        e->plan.sums.overlap_ns += elapsed - work;
}

/*
 * Change the rank's part in communication from now_ns on, and with it its slowdown. If neither
 * slowdown is above 1, the queued event stays right.
 */
static enum lk_status set_comm(struct engine *e, int rank, uint64_t now_ns, enum comm_phase comm)
{
    struct rank *r = &e->ranks[rank];
    uint64_t slow;

    r->comm = comm;
    slow = slowdown_of(e, r);
    if (r->phase != RANK_COMPUTES || (slow == LK_SLOWDOWN_ONE && r->slow == LK_SLOWDOWN_ONE))
        return LK_OK;
    rebase(e, r, now_ns);
    r->slow = slow;
    return schedule(e, rank);
}

/* Set the slowdown of the running collective: slowed until the last rank is blocked. */
static enum lk_status set_transfer_slowdown(struct engine *e, uint64_t now_ns)
{
    uint64_t slow = e->busy > 0 ? e->plan.slowdown_delta : LK_SLOWDOWN_ONE;

    e->left_ns -= lk_slowdown_work_ns(now_ns - e->left_at_ns, e->left_slow);
    e->left_at_ns = now_ns;
    e->left_slow = slow;
    return push(e, now_ns + lk_slowdown_time_ns(e->left_ns, slow), EVENT_TRANSFER, -1,
                ++e->transfer_generation);
}

static enum lk_status set_busy(struct engine *e, uint64_t now_ns, int change)
{
    e->busy += change;
    if (e->transfers && e->busy == (change > 0))
        return set_transfer_slowdown(e, now_ns);
    return LK_OK;
}

/* ---- Ranks ---- */

/* Return for how long the stream was idle before the next collective; UINT64_MAX: it is the first
 * of its micro-batch, or of the run. */
static uint64_t idle_ns(const struct engine *e, uint64_t now_ns)
{
    bool follows = e->next > 0 || (e->plan.model->colls[e->current].late && e->collective > 0);

    return follows ? now_ns - e->ended_ns : UINT64_MAX;
}

static enum lk_status begin_transfer(struct engine *e, uint64_t now_ns)
{
    e->transfers = true;
    e->begin_ns = now_ns;
    for (int i = 0; i < e->plan.model->ranks; i++) {
        struct rank *r = &e->ranks[i];

        if (counted(r) && r->phase == RANK_BLOCKED)
            e->plan.sums.straggler_ns +=
                now_ns - (r->blocked_ns > r->arrival_ns ? r->blocked_ns : r->arrival_ns);
        LK_PASS(set_comm(e, i, now_ns, COMM_TRANSFERS));
    }
    e->left_ns = lk_step_cost_ns(&e->plan, e->current, idle_ns(e, now_ns));
    e->left_at_ns = now_ns;
    e->left_slow = LK_SLOWDOWN_ONE;
    return set_transfer_slowdown(e, now_ns);
}

/* Let a rank arrive at the next collective, which it has ready while the stream is free. */
static enum lk_status arrive(struct engine *e, int rank, uint64_t now_ns)
{
    e->ranks[rank].arrival_ns = now_ns;
    LK_PASS(set_comm(e, rank, now_ns, COMM_WAITS));
    if (++e->arrived == e->plan.model->ranks)
        LK_PASS(begin_transfer(e, now_ns));
    return LK_OK;
}

static bool can_arrive(struct engine *e, int rank)
{
    return !e->transfers && e->ranks[rank].comm == COMM_IDLE && e->next_micro_batch != UINT64_MAX &&
           *ready_of(e, rank, e->current) != UINT64_MAX;
}

/* Ask for the rank's next micro-batch. */
static enum lk_status start_micro_batch(struct engine *e, int rank, uint64_t now_ns)
{
    struct rank *r = &e->ranks[rank];
    uint64_t at = lk_step_input_ns(&e->plan, (size_t)rank, r->micro_batch, now_ns);

    r->phase = RANK_PAUSED;
    r->micro_start_ns = now_ns;
    return push(e, at, EVENT_INPUT, rank, ++r->generation);
}

/* End the compute of a micro-batch: start the next one, or the host gap. */
static enum lk_status end_micro_batch(struct engine *e, int rank, uint64_t now_ns)
{
    struct rank *r = &e->ranks[rank];

    rebase(e, r, now_ns);
    if (!lk_step_plan_last(&e->plan, r->micro_batch)) {
        r->micro_batch++;
        return start_micro_batch(e, rank, now_ns);
    }
    r->phase = RANK_PAUSED;
    return push(e, now_ns + e->plan.gap_ns, EVENT_STEP, rank, ++r->generation);
}

/* Mark gradients and collectives as ready at this point of the rank's compute. */
static enum lk_status pass_marks(struct engine *e, int rank, uint64_t now_ns)
{
    struct rank *r = &e->ranks[rank];

    while (next_mark_ns(e, r) <= r->passed_ns) {
        int32_t tensor = e->record->marks[r->next_mark++].tensor;

        record(e, r, LK_TRACK_COMPUTE, LK_SPAN_GRADIENT, now_ns, now_ns, tensor);
    }
    while (r->next_ready < list_of(e, r->micro_batch)->n && next_ready_ns(e, r) <= r->passed_ns) {
        size_t k = list_of(e, r->micro_batch)->by_ready[r->next_ready++];

        *ready_of(e, rank, k) = now_ns;
        if (k == e->current && can_arrive(e, rank))
            LK_PASS(arrive(e, rank, now_ns));
    }
    return LK_OK;
}

/*
 * Handle a rank whose compute reached passed_ns: it passes everything there, or blocks. Where it
 * blocks for a collective of a micro-batch before, the same one of this micro-batch is not ready.
 */
static enum lk_status settle(struct engine *e, int rank, uint64_t now_ns)
{
    struct rank *r = &e->ranks[rank];

    if (e->next_micro_batch >= r->micro_batch || block_ns(e, r) > r->passed_ns)
        LK_PASS(pass_marks(e, rank, now_ns));
    if (r->passed_ns == r->end_ns[r->segment] && r->segment_start_ns != UINT64_MAX) {
        record_segment(e, r, now_ns);
        r->segment_start_ns = UINT64_MAX;
    }
    if (block_ns(e, r) <= r->passed_ns) {
        rebase(e, r, now_ns);
        if (r->segment_start_ns != UINT64_MAX)
            record_kernel(e, r, now_ns);
        r->phase = RANK_BLOCKED;
        r->blocked_ns = now_ns;
        r->generation++; /* arriving may have queued a stop */
        return set_busy(e, now_ns, -1);
    }
    if (r->passed_ns < r->end_ns[r->segment])
        return schedule(e, rank);
    if (r->segment == (lk_step_plan_last(&e->plan, r->micro_batch) ? OPTIMIZER : BACKWARD))
        return end_micro_batch(e, rank, now_ns);
    r->segment++;
    r->segment_start_ns = r->kernel_start_ns = now_ns;
    return settle(e, rank, now_ns);
    return LK_OK;
}

static enum lk_status on_progress(struct engine *e, int rank, uint64_t now_ns)
{
    struct rank *r = &e->ranks[rank];

    r->passed_ns = r->work_ns + lk_slowdown_work_ns(now_ns - r->at_ns, r->slow);
    return settle(e, rank, now_ns);
}

static enum lk_status on_input(struct engine *e, int rank, uint64_t now_ns)
{
    struct rank *r = &e->ranks[rank];

    record(e, r, LK_TRACK_HOST, LK_SPAN_INPUT, r->micro_start_ns, now_ns, micro_index(e, r));
    r->compute = lk_step_plan_compute(&e->plan, rank, r->micro_batch);
    if (counted(r)) {
        e->plan.sums.input_ns += now_ns - r->micro_start_ns;
        e->plan.sums.compute_ns += r->compute.forward_ns + r->compute.backward_ns;
        e->plan.sums.kappa_ns += r->compute.kappa_ns;
    }
    r->end_ns[FORWARD] = r->compute.forward_ns;
    r->end_ns[BACKWARD] = r->end_ns[FORWARD] + r->compute.backward_ns;
    r->end_ns[OPTIMIZER] = r->end_ns[BACKWARD] + r->compute.optimizer_ns;
    r->segment = FORWARD;
    r->segment_start_ns = r->kernel_start_ns = r->at_ns = now_ns;
    r->work_ns = r->passed_ns = 0;
    r->slow = slowdown_of(e, r);
    r->next_ready = r->next_mark = 0;
    r->phase = RANK_COMPUTES;
    return settle(e, rank, now_ns);
}

static enum lk_status on_step(struct engine *e, int rank, uint64_t now_ns)
{
    struct rank *r = &e->ranks[rank];

    record(e, r, LK_TRACK_HOST, LK_SPAN_STEP, r->step_start_ns, now_ns, -1);
    if (counted(r))
        e->plan.sums.step_ns[r->step - LK_SIM_WARMUP] += now_ns - r->step_start_ns;
    r->step_start_ns = now_ns;
    r->step++;
    r->micro_batch++;
    if (r->step < LK_SIM_WARMUP + e->plan.steps)
        return start_micro_batch(e, rank, now_ns);
    r->phase = RANK_DONE;
    return set_busy(e, now_ns, -1);
}

/* ---- Communication ---- */

/* Resume the compute of a blocked rank. */
static enum lk_status resume(struct engine *e, int rank, uint64_t now_ns)
{
    struct rank *r = &e->ranks[rank];

    r->phase = RANK_COMPUTES;
    r->at_ns = r->kernel_start_ns = now_ns;
    r->slow = slowdown_of(e, r);
    LK_PASS(set_busy(e, now_ns, 1));
    return settle(e, rank, now_ns);
}

static enum lk_status end_transfer(struct engine *e, uint64_t now_ns)
{
    int n = e->plan.model->ranks;

    for (int i = 0; i < n; i++) {
        struct rank *r = &e->ranks[i];

        record_collective(e, i, now_ns);
        if (counted(r) && r->phase == RANK_BLOCKED)
            e->plan.sums.wire_ns +=
                now_ns - (r->blocked_ns > e->begin_ns ? r->blocked_ns : e->begin_ns);
        *ready_of(e, i, e->current) = UINT64_MAX;
        LK_PASS(set_comm(e, i, now_ns, COMM_IDLE));
    }
    e->transfers = false;
    e->ended_ns = now_ns;
    e->arrived = 0;
    e->collective++;
    next_collective(e);
    for (int i = 0; i < n; i++) {
        struct rank *r = &e->ranks[i];

        if (r->phase == RANK_BLOCKED && r->work_ns < block_ns(e, r))
            LK_PASS(resume(e, i, now_ns));
        if (can_arrive(e, i))
            LK_PASS(arrive(e, i, now_ns));
    }
    return LK_OK;
}

/* ---- The run ---- */

static enum lk_status handle(struct engine *e, struct event v)
{
    static enum lk_status (*const handlers[])(struct engine *, int, uint64_t) = {
        [EVENT_INPUT] = on_input,
        [EVENT_PROGRESS] = on_progress,
        [EVENT_STEP] = on_step,
    };

    if (v.kind == EVENT_TRANSFER)
        return v.generation == e->transfer_generation ? end_transfer(e, v.at_ns) : LK_OK;
    if (v.generation != e->ranks[v.rank].generation)
        return LK_OK;
    return handlers[v.kind](e, v.rank, v.at_ns);
}

static enum lk_status engine_init(struct engine *e, const struct lk_step_model *m,
                                  const struct lk_sim_request *request)
{
    size_t ranks = (size_t)m->ranks;

    LK_PASS(lk_step_plan_init(&e->plan, m, request));
    e->busy = m->ranks;
    first_collective(e);
    LK_PASS(lk_alloc(&e->ranks, ranks, sizeof *e->ranks));
    LK_PASS(lk_alloc(&e->ready_ns, ranks * m->n_colls, sizeof *e->ready_ns));
    for (size_t i = 0; i < ranks * m->n_colls; i++)
        e->ready_ns[i] = UINT64_MAX;
    return LK_OK;
}

static void engine_fini(struct engine *e)
{
    free(e->ranks);
    free(e->ready_ns);
    free(e->heap);
    lk_step_plan_fini(&e->plan);
}

enum lk_status lk_engine_run(const struct lk_step_model *m, const struct lk_sim_request *request,
                             struct lk_sim_trace *record_to, struct lk_sim_result *out)
{
    enum lk_status st = LK_OK;
    struct engine e = {.record = record_to};

    LK_TRY(engine_init(&e, m, request));
    for (int i = 0; i < m->ranks; i++)
        LK_TRY(start_micro_batch(&e, i, 0));
    while (e.n_events)
        LK_TRY(handle(&e, pop(&e)));
    if (record_to)
        LK_TRY(record_to->status);
    LK_TRY(lk_step_finish(&e.plan, out));
out:
    engine_fini(&e);
    return st;
}
