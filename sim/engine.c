/*
 * The step model as events.
 *
 * Divisions: heap / ranks / communication / recording / the run. Events of a rank whose compute
 * changed its pace are not removed from the heap: they carry the rank's generation, and old ones
 * are skipped.
 */
#include "sim/engine.h"

#include "base/array.h"
#include "base/units.h"

#include <stdlib.h>

enum event_kind {
    EVENT_INPUT,    /* a rank has its micro-batch */
    EVENT_FORWARD,  /* its forward ended */
    EVENT_PROGRESS, /* its backward passed a bucket's share, or ended */
    EVENT_TRANSFER, /* the collective ended */
    EVENT_STEP      /* optimizer and gap ended */
};

struct event {
    uint64_t at_ns, sequence;
    uint32_t generation;
    int32_t rank;
    enum event_kind kind;
};

enum rank_phase { RANK_IDLE, RANK_WAITS, RANK_TRANSFERS };

struct rank {
    uint64_t micro_batch; /* over the whole run */
    int step;
    uint64_t micro_start_ns; /* asked for its input */
    uint64_t step_start_ns, forward_start_ns, backward_start_ns;
    struct lk_step_compute compute;
    bool computes; /* backward is running */
    /* Backward's progress: work_ns of it done at at_ns, going on at 1/slow. */
    uint64_t work_ns, at_ns, slow;
    uint32_t generation;
    size_t next_ready; /* position in `order` of the next bucket to get full */
    size_t next_mark;  /* of the record's */
    enum rank_phase phase;
    size_t buckets_done; /* of this micro-batch */
    uint64_t arrival_ns;
    uint64_t end_ns; /* of backward, when it does not compute any more */
    struct lk_step_loader loader;
};

struct engine {
    struct lk_step_plan plan;
    struct lk_sim_record *record;
    struct lk_step_sums sums;
    struct rank *ranks;
    uint64_t *taken_ns;
    uint64_t *ready_ns;    /* [rank][bucket]; UINT64_MAX: not full yet in this micro-batch */
    size_t *order;         /* buckets by ready share */
    uint64_t *step_sum_ns; /* by counted step, over ranks */
    int steps;             /* to run, warm-up included */
    struct event *heap;
    size_t n_events, capacity;
    uint64_t sequence;
    /* The communication stream: bucket `current` is next or under way. */
    size_t current;
    int arrived, computing;
    bool transfers;
    uint64_t begin_ns;
    uint64_t left_ns, left_at_ns, left_slow; /* of the transfer, at its pace */
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
    enum lk_status st = LK_OK;
    struct event v = {at_ns, e->sequence++, generation, rank, kind};
    size_t i;

    LK_TRY(lk_array_grow(&e->heap, &e->capacity, e->n_events + 1, sizeof *e->heap));
    for (i = e->n_events++; i > 0; i = (i - 1) / 2) {
        if (!before(&v, &e->heap[(i - 1) / 2]))
            break;
        e->heap[i] = e->heap[(i - 1) / 2];
    }
    e->heap[i] = v;
out:
    return st;
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

    lk_sim_record_span(e->record, (int)(r - e->ranks), track, &s);
}

/* A phase of compute: the range and the one kernel that fills it. */
static void record_phase(struct engine *e, const struct rank *r, enum lk_span_kind kind,
                         uint64_t start_ns, uint64_t end_ns, int32_t index)
{
    record(e, r, LK_TRACK_COMPUTE, kind, start_ns, end_ns, index);
    record(e, r, LK_TRACK_COMPUTE, LK_SPAN_KERNEL, start_ns, end_ns, -1);
}

static void record_collective(struct engine *e, int rank, uint64_t end_ns)
{
    const struct rank *r = &e->ranks[rank];
    struct lk_span s = {.start_ns = r->arrival_ns,
                        .end_ns = end_ns,
                        .ready_ns =
                            e->ready_ns[(size_t)rank * e->plan.model->n_buckets + e->current],
                        .bytes = e->plan.model->buckets[e->current].bytes,
                        .step = (uint32_t)r->step,
                        .index = (int32_t)e->current,
                        .seq = e->collective,
                        .kind = LK_SPAN_COLLECTIVE,
                        .name = 1};

    lk_sim_record_span(e->record, rank, LK_TRACK_COMM, &s);
}

/* ---- Ranks ---- */

static bool communicates(const struct engine *e, const struct rank *r)
{
    const struct lk_step_model *m = e->plan.model;
    uint64_t micro = (uint64_t)m->accumulation;

    return m->n_buckets && (!m->no_sync || r->micro_batch % micro + 1 == micro);
}

/* The work at which the rank's next bucket is full; without one, where its backward ends. */
static uint64_t next_bucket_ns(const struct engine *e, const struct rank *r)
{
    if (communicates(e, r) && r->next_ready < e->plan.model->n_buckets)
        return lk_step_share_ns(r->compute.backward_ns, e->plan.ready[e->order[r->next_ready]]);
    return r->compute.backward_ns;
}

/* The work at which its next gradient is final; UINT64_MAX: none is left, or none is recorded. */
static uint64_t next_mark_ns(const struct engine *e, const struct rank *r)
{
    if (!e->record || r->next_mark == e->record->n_marks)
        return UINT64_MAX;
    return lk_step_share_ns(r->compute.backward_ns, e->record->marks[r->next_mark].ready);
}

static enum lk_status schedule_progress(struct engine *e, int rank)
{
    struct rank *r = &e->ranks[rank];
    uint64_t bucket = next_bucket_ns(e, r), mark = next_mark_ns(e, r);
    uint64_t work = mark < bucket ? mark : bucket;
    uint64_t left = work > r->work_ns ? work - r->work_ns : 0;

    return push(e, r->at_ns + lk_slow_time_ns(left, r->slow), EVENT_PROGRESS, rank,
                ++r->generation);
}

/* Changes the pace of a rank's backward from now_ns on. Where neither pace is slowed there is
 * nothing to convert, and the event that is already queued stays right. */
static enum lk_status set_pace(struct engine *e, int rank, uint64_t now_ns, uint64_t slow)
{
    struct rank *r = &e->ranks[rank];
    uint64_t elapsed = now_ns - r->at_ns, work;

    if (!r->computes || (slow == LK_SLOW_ONE && r->slow == LK_SLOW_ONE))
        return LK_OK;
    work = lk_slow_work_ns(elapsed, r->slow);
    r->work_ns += work;
    r->at_ns = now_ns;
    if (counted(r))
        e->sums.overlap_ns += elapsed - work;
    r->slow = slow;
    return schedule_progress(e, rank);
}

/* Asks for the rank's next micro-batch. */
static enum lk_status start_micro_batch(struct engine *e, int rank, uint64_t now_ns)
{
    struct rank *r = &e->ranks[rank];
    uint64_t at = lk_step_input_ns(&e->plan, &r->loader, r->micro_batch, now_ns);

    r->micro_start_ns = now_ns;
    return push(e, at, EVENT_INPUT, rank, ++r->generation);
}

static int32_t micro_index(const struct engine *e, const struct rank *r)
{
    return (int32_t)(r->micro_batch % (uint64_t)e->plan.model->accumulation);
}

static enum lk_status on_input(struct engine *e, int rank, uint64_t now_ns)
{
    struct rank *r = &e->ranks[rank];

    record(e, r, LK_TRACK_HOST, LK_SPAN_INPUT, r->micro_start_ns, now_ns, micro_index(e, r));
    r->compute = lk_step_plan_compute(&e->plan, rank, r->micro_batch);
    if (counted(r)) {
        e->sums.input_ns += now_ns - r->micro_start_ns;
        e->sums.compute_ns += r->compute.forward_ns + r->compute.backward_ns;
        e->sums.kappa_ns += r->compute.kappa_ns;
    }
    r->forward_start_ns = now_ns;
    return push(e, now_ns + r->compute.forward_ns, EVENT_FORWARD, rank, ++r->generation);
}

static enum lk_status on_forward(struct engine *e, int rank, uint64_t now_ns)
{
    struct rank *r = &e->ranks[rank];
    size_t n = e->plan.model->n_buckets;

    record_phase(e, r, LK_SPAN_FORWARD, r->forward_start_ns, now_ns, micro_index(e, r));
    r->backward_start_ns = r->at_ns = now_ns;
    r->work_ns = 0;
    r->slow = LK_SLOW_ONE;
    r->next_ready = 0;
    r->next_mark = 0;
    r->buckets_done = 0;
    r->computes = true;
    e->computing += communicates(e, r);
    for (size_t k = 0; k < n; k++)
        e->ready_ns[(size_t)rank * n + k] = UINT64_MAX;
    return schedule_progress(e, rank);
}

/* The micro-batch is over: the next one, or the optimizer and the gap. */
static enum lk_status end_micro_batch(struct engine *e, int rank, uint64_t now_ns)
{
    struct rank *r = &e->ranks[rank];
    bool last = micro_index(e, r) + 1 == e->plan.model->accumulation;

    if (!last) {
        r->micro_batch++;
        return start_micro_batch(e, rank, now_ns);
    }
    record_phase(e, r, LK_SPAN_OPTIMIZER, now_ns, now_ns + e->plan.optimizer_ns, -1);
    return push(e, now_ns + e->plan.optimizer_ns + e->plan.gap_ns, EVENT_STEP, rank,
                ++r->generation);
}

static enum lk_status on_step(struct engine *e, int rank, uint64_t now_ns)
{
    struct rank *r = &e->ranks[rank];

    record(e, r, LK_TRACK_HOST, LK_SPAN_STEP, r->step_start_ns, now_ns, -1);
    if (counted(r))
        e->step_sum_ns[r->step - LK_SIM_WARMUP] += now_ns - r->step_start_ns;
    r->step_start_ns = now_ns;
    r->step++;
    r->micro_batch++;
    if (r->step == e->steps)
        return LK_OK;
    return start_micro_batch(e, rank, now_ns);
}

/* ---- Communication ---- */

/* Pace of the transfer from now on: slowed while some rank computes. */
static enum lk_status set_transfer_pace(struct engine *e, uint64_t now_ns)
{
    uint64_t slow = e->computing > 0 ? e->plan.slow_delta : LK_SLOW_ONE;

    e->left_ns -= lk_slow_work_ns(now_ns - e->left_at_ns, e->left_slow);
    e->left_at_ns = now_ns;
    e->left_slow = slow;
    return push(e, now_ns + lk_slow_time_ns(e->left_ns, slow), EVENT_TRANSFER, -1,
                ++e->transfer_generation);
}

static enum lk_status begin_transfer(struct engine *e, uint64_t now_ns)
{
    enum lk_status st = LK_OK;

    e->transfers = true;
    e->begin_ns = now_ns;
    for (int i = 0; i < e->plan.model->ranks; i++) {
        struct rank *r = &e->ranks[i];

        if (counted(r) && !r->computes)
            e->sums.straggler_ns +=
                now_ns - (r->end_ns > r->arrival_ns ? r->end_ns : r->arrival_ns);
        r->phase = RANK_TRANSFERS;
        LK_TRY(set_pace(e, i, now_ns, e->plan.slow_wire));
    }
    e->left_ns = e->plan.cost_ns[e->current];
    e->left_at_ns = now_ns;
    e->left_slow = LK_SLOW_ONE;
    LK_TRY(set_transfer_pace(e, now_ns));
out:
    return st;
}

/* The rank has the current bucket full and the stream free. */
static enum lk_status arrive(struct engine *e, int rank, uint64_t now_ns)
{
    enum lk_status st = LK_OK;
    struct rank *r = &e->ranks[rank];

    r->arrival_ns = now_ns;
    r->phase = RANK_WAITS;
    LK_TRY(set_pace(e, rank, now_ns, e->plan.slow_wait));
    if (++e->arrived == e->plan.model->ranks)
        LK_TRY(begin_transfer(e, now_ns));
out:
    return st;
}

static enum lk_status end_transfer(struct engine *e, uint64_t now_ns)
{
    enum lk_status st = LK_OK;
    size_t n = e->plan.model->n_buckets;

    for (int i = 0; i < e->plan.model->ranks; i++) {
        struct rank *r = &e->ranks[i];

        record_collective(e, i, now_ns);
        if (counted(r) && !r->computes)
            e->sums.wire_ns += now_ns - (r->end_ns > e->begin_ns ? r->end_ns : e->begin_ns);
        r->phase = RANK_IDLE;
        LK_TRY(set_pace(e, i, now_ns, LK_SLOW_ONE));
    }
    e->transfers = false;
    e->arrived = 0;
    e->collective++;
    e->current = (e->current + 1) % n;
    for (int i = 0; i < e->plan.model->ranks; i++) {
        struct rank *r = &e->ranks[i];

        if (++r->buckets_done == n && !r->computes)
            LK_TRY(end_micro_batch(e, i, now_ns));
        else if (r->buckets_done < n && e->ready_ns[(size_t)i * n + e->current] != UINT64_MAX)
            LK_TRY(arrive(e, i, now_ns));
    }
out:
    return st;
}

/* The rank's backward ended; the buckets may be under way still. */
static enum lk_status end_backward(struct engine *e, int rank, uint64_t now_ns)
{
    enum lk_status st = LK_OK;
    struct rank *r = &e->ranks[rank];

    if (counted(r))
        e->sums.overlap_ns += now_ns - r->at_ns - (r->compute.backward_ns - r->work_ns);
    r->computes = false;
    r->end_ns = now_ns;
    record_phase(e, r, LK_SPAN_BACKWARD, r->backward_start_ns, now_ns, micro_index(e, r));
    if (!communicates(e, r))
        return end_micro_batch(e, rank, now_ns);
    if (--e->computing == 0 && e->transfers)
        LK_TRY(set_transfer_pace(e, now_ns));
    if (r->buckets_done == e->plan.model->n_buckets)
        LK_TRY(end_micro_batch(e, rank, now_ns));
out:
    return st;
}

/* Backward came to a gradient's or bucket's share, or to its end: then all buckets are full. */
static enum lk_status on_progress(struct engine *e, int rank, uint64_t now_ns)
{
    enum lk_status st = LK_OK;
    struct rank *r = &e->ranks[rank];
    size_t n = e->plan.model->n_buckets, k;

    if (next_mark_ns(e, r) <= next_bucket_ns(e, r)) {
        int32_t tensor = e->record->marks[r->next_mark++].tensor;

        record(e, r, LK_TRACK_COMPUTE, LK_SPAN_GRADIENT, now_ns, now_ns, tensor);
        return schedule_progress(e, rank);
    }
    if (!communicates(e, r) || r->next_ready == n)
        return end_backward(e, rank, now_ns);
    k = e->order[r->next_ready++];
    e->ready_ns[(size_t)rank * n + k] = now_ns;
    LK_TRY(schedule_progress(e, rank));
    if (k == e->current && !e->transfers && r->phase == RANK_IDLE)
        LK_TRY(arrive(e, rank, now_ns));
out:
    return st;
}

/* ---- The run ---- */

static enum lk_status handle(struct engine *e, const struct event *v)
{
    static enum lk_status (*const handlers[])(struct engine *, int, uint64_t) = {
        [EVENT_INPUT] = on_input,
        [EVENT_FORWARD] = on_forward,
        [EVENT_PROGRESS] = on_progress,
        [EVENT_STEP] = on_step,
    };

    if (v->kind == EVENT_TRANSFER)
        return v->generation == e->transfer_generation ? end_transfer(e, v->at_ns) : LK_OK;
    if (v->generation != e->ranks[v->rank].generation)
        return LK_OK;
    return handlers[v->kind](e, v->rank, v->at_ns);
}

/* Buckets by ready share; in DDP's order they are sorted but for ties, so insertion is linear. */
static void sort_order(struct engine *e)
{
    for (size_t i = 0; i < e->plan.model->n_buckets; i++) {
        size_t j = i;

        for (; j > 0 && e->plan.ready[e->order[j - 1]] > e->plan.ready[i]; j--)
            e->order[j] = e->order[j - 1];
        e->order[j] = i;
    }
}

static enum lk_status engine_init(struct engine *e, const struct lk_step_model *m,
                                  const struct lk_sim_request *request,
                                  struct lk_sim_record *record_to)
{
    enum lk_status st = LK_OK;
    size_t ranks = (size_t)m->ranks, depth = (size_t)m->prefetch_depth;

    LK_TRY(lk_step_plan_init(&e->plan, m, request->seed));
    e->record = record_to;
    e->steps = LK_SIM_WARMUP + request->steps;
    LK_TRY(lk_alloc(&e->ranks, ranks, sizeof *e->ranks));
    LK_TRY(lk_alloc(&e->taken_ns, ranks * depth, sizeof *e->taken_ns));
    LK_TRY(lk_alloc(&e->ready_ns, ranks * m->n_buckets, sizeof *e->ready_ns));
    LK_TRY(lk_alloc(&e->order, m->n_buckets, sizeof *e->order));
    LK_TRY(lk_alloc(&e->step_sum_ns, (size_t)request->steps, sizeof *e->step_sum_ns));
    sort_order(e);
    for (size_t r = 0; r < ranks; r++)
        e->ranks[r].loader.taken_ns = e->taken_ns + r * depth;
out:
    return st;
}

static void engine_fini(struct engine *e)
{
    free(e->ranks);
    free(e->taken_ns);
    free(e->ready_ns);
    free(e->order);
    free(e->step_sum_ns);
    free(e->heap);
    lk_step_plan_fini(&e->plan);
}

enum lk_status lk_engine_run(const struct lk_step_model *m, const struct lk_sim_request *request,
                             struct lk_sim_record *record_to, struct lk_sim_result *out)
{
    enum lk_status st = LK_OK;
    struct engine e = {0};
    struct lk_sim_result r = {0};

    if (request->steps < 1)
        return lk_fail(LK_EUSAGE, "%d steps to simulate, expected 1 or more", request->steps);
    LK_TRY(engine_init(&e, m, request, record_to));
    LK_TRY(lk_alloc(&r.step_s, (size_t)request->steps, sizeof *r.step_s));
    for (int i = 0; i < m->ranks; i++)
        LK_TRY(start_micro_batch(&e, i, 0));
    while (e.n_events) {
        struct event v = pop(&e);

        LK_TRY(handle(&e, &v));
    }
    if (record_to)
        LK_TRY(record_to->status);
    for (; r.n < (size_t)request->steps; r.n++)
        r.step_s[r.n] = lk_s_from_ns(e.step_sum_ns[r.n]) / m->ranks;
    lk_step_finish(&e.plan, &e.sums, (uint64_t)request->steps * (uint64_t)m->ranks, &r);
    *out = r;
    r.step_s = NULL;
out:
    free(r.step_s);
    engine_fini(&e);
    return st;
}
