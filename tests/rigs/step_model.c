/* The step model, bucket by bucket: when a bucket is ready depends on earlier buckets only. */
#include "tests/rigs/step_model.h"

#include "base/array.h"
#include "base/file.h"
#include "base/rng.h"
#include "tests/rigs/must.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define USUAL(field, value)                                                                        \
    if (m.field == 0)                                                                              \
        m.field = (value);

struct step_model step_model_default(struct step_model m)
{
    USUAL(ranks, 2)
    USUAL(local_batch, 4)
    USUAL(accumulation, 1)
    USUAL(steps, 30)
    USUAL(warmup, 5)
    USUAL(forward_s, 5e-3)
    USUAL(backward_s, 10e-3)
    USUAL(optimizer_s, 1e-3)
    USUAL(input_s, 0.2e-3)
    USUAL(gap_s, 0.3e-3)
    USUAL(buckets, 4)
    USUAL(bucket_bytes, 1 << 20)
    USUAL(latency_s, 20e-6)
    USUAL(bandwidth_Bps, 2e9)
    return m;
}

/* Times are seconds, as doubles, from the start of the run; local clocks start at this. */
static const double epoch_s = 1000;

struct rank {
    double done;                   /* end of the previous step */
    double start, forward;         /* of the micro-batch: start and end of forward */
    double pace;                   /* seconds per second of work, without overlap */
    double at, worked;             /* integrator: time, and work done in this backward */
    double end;                    /* of the backward */
    double *due, *arrival, *ready; /* of the buckets in this backward */
    double input_s;
    struct lk_rng rng;
};

struct sim {
    const struct step_model *m;
    struct lk_trace *traces;
    size_t *capacity;
    struct rank *ranks;
    double *begin, *end; /* of the buckets in this backward */
    uint32_t seq;
    struct step_truth truth;
};

static uint64_t local_ns(const struct sim *s, int rank, double t)
{
    return (uint64_t)llround((t + epoch_s) * 1e9) - (uint64_t)s->m->clock_offset_ns[rank];
}

static enum lk_status emit(struct sim *s, int rank, uint32_t track, struct lk_span span,
                           double start, double end)
{
    struct lk_trace *t = &s->traces[rank];
    enum lk_status st =
        lk_array_grow(&t->spans, &s->capacity[rank], t->n_spans + 1, sizeof *t->spans);

    if (st != LK_OK)
        return st;
    span.start_ns = local_ns(s, rank, start);
    span.end_ns = local_ns(s, rank, end);
    t->spans[t->n_spans++] = (struct lk_trace_span){.span = span, .track = track};
    return LK_OK;
}

enum { HOST, COMPUTE, COMM, COMM_KERNELS };

static bool launches(const struct step_model *m)
{
    for (int k = 0; k < m->ranks; k++)
        if (m->launch_s[k] > 0)
            return true;
    return false;
}

static bool steady(const struct sim *s, uint32_t step)
{
    return step >= s->m->warmup;
}

/* Return the weight of one rank and step in a mean. */
static double weight(const struct sim *s)
{
    return 1.0 / ((double)s->m->ranks * (double)(s->m->steps - s->m->warmup));
}

static uint64_t bytes_of(const struct step_model *m, int bucket)
{
    return bucket + 1 == m->buckets && m->last_share > 0
               ? (uint64_t)(m->last_share * (double)m->bucket_bytes)
               : m->bucket_bytes;
}

static double cost(const struct step_model *m, int bucket)
{
    return 2 * (m->ranks - 1) *
           (m->latency_s + (double)bytes_of(m, bucket) / m->ranks / m->bandwidth_Bps);
}

/* Return the overlap slowdown of compute at time t by the n known buckets; *until: its end. */
static double overlap_pace(const struct sim *s, const struct rank *r, int n, double t,
                           double *until)
{
    *until = INFINITY;
    for (int k = 0; k < n; k++) {
        if (t < r->arrival[k]) {
            *until = fmin(*until, r->arrival[k]);
        } else if (t < s->begin[k]) {
            *until = s->begin[k];
            return 1 + s->m->gamma_wait;
        } else if (t < s->end[k]) {
            *until = s->end[k];
            return 1 + s->m->gamma_wire;
        }
    }
    return 1;
}

/* Advance a rank's backward until `work` seconds of it are done; n buckets are known. */
static void advance(const struct sim *s, struct rank *r, int n, double work)
{
    while (work - r->worked > 1e-15) {
        double until;
        double pace = r->pace * overlap_pace(s, r, n, r->at, &until);
        double time = (work - r->worked) * pace;

        if (r->at + time > until) {
            r->worked += (until - r->at) / pace;
            r->at = until;
        } else {
            r->worked = work;
            r->at += time;
        }
    }
}

static enum lk_status backward(struct sim *s, uint32_t step, int micro_batch, bool sync)
{
    enum lk_status st = LK_OK;
    const struct step_model *m = s->m;
    int per_bucket = STEP_MODEL_TENSORS / m->buckets;

    for (int i = 0; i < STEP_MODEL_TENSORS; i++) {
        int known = i / per_bucket; /* buckets before this tensor's */

        for (int k = 0; k < m->ranks; k++) {
            struct rank *r = &s->ranks[k];

            advance(s, r, sync ? known : 0, m->backward_s * (i + 1) / STEP_MODEL_TENSORS);
            if (!sync)
                continue;
            LK_TRY(emit(s, k, COMPUTE,
                        (struct lk_span){.kind = LK_SPAN_GRADIENT,
                                         .step = step,
                                         .index = STEP_MODEL_TENSORS - 1 - i},
                        r->at, r->at));
            r->ready[known] = r->at;
            r->due[known] = known ? fmax(r->at, s->end[known - 1] + m->end_late_s[k]) : r->at;
            r->arrival[known] = r->due[known] + m->launch_s[k];
        }
        if (!sync || (i + 1) % per_bucket)
            continue;
        s->begin[known] = 0;
        for (int k = 0; k < m->ranks; k++)
            s->begin[known] = fmax(s->begin[known], s->ranks[k].arrival[known]);
        s->end[known] = s->begin[known] + cost(m, known);
    }
    for (int k = 0; k < m->ranks; k++) {
        s->ranks[k].end = s->ranks[k].at;
        LK_TRY(emit(s, k, COMPUTE,
                    (struct lk_span){.kind = LK_SPAN_BACKWARD, .step = step, .index = micro_batch},
                    s->ranks[k].forward, s->ranks[k].end));
    }
out:
    return st;
}

/* Write the kernel of a collective, which NCCL launched a quarter of the delay before. */
static enum lk_status kernel(struct sim *s, int k, uint32_t step, int b)
{
    const struct rank *r = &s->ranks[k];
    double called = r->arrival[b] - 0.25 * s->m->launch_s[k];

    if (!launches(s->m))
        return LK_OK;
    return emit(s, k, COMM_KERNELS,
                (struct lk_span){.kind = LK_SPAN_KERNEL,
                                 .name = 1,
                                 .step = step,
                                 .index = b,
                                 .ready_ns = local_ns(s, k, called)},
                r->arrival[b], s->end[b] + s->m->end_late_s[k]);
}

/* Write the collectives' spans, and sum the exposed wait and wire after the backward. */
static enum lk_status transfers(struct sim *s, uint32_t step)
{
    enum lk_status st = LK_OK;
    double w = weight(s);

    for (int b = 0; b < s->m->buckets; b++)
        for (int k = 0; k < s->m->ranks; k++) {
            struct rank *r = &s->ranks[k];
            double wait = fmax(0, s->begin[b] - fmax(r->arrival[b], r->end));
            double end = s->end[b] + s->m->end_late_s[k];
            double wire = fmax(0, end - fmax(s->begin[b], r->end));
            double launch = fmax(0, r->arrival[b] - fmax(r->due[b], r->end));

            LK_TRY(emit(s, k, COMM,
                        (struct lk_span){.kind = LK_SPAN_COLLECTIVE,
                                         .step = step,
                                         .index = b,
                                         .seq = s->seq + (uint32_t)b,
                                         .ready_ns = local_ns(s, k, r->ready[b]),
                                         .bytes = bytes_of(s->m, b)},
                        r->due[b], end));
            LK_TRY(kernel(s, k, step, b));
            if (!steady(s, step))
                continue;
            s->truth.losses_s[LK_LOSS_LAUNCH] += w * launch;
            s->truth.losses_s[LK_LOSS_STRAGGLER] += w * wait;
            s->truth.losses_s[LK_LOSS_WIRE] += w * wire;
            s->truth.rank_wait_s[k] += w * s->m->ranks * wait;
        }
    s->seq += (uint32_t)s->m->buckets;
out:
    return st;
}

/* Sum a rank's compute, mean over steps. */
static void count_compute(struct sim *s, uint32_t step, int k, double forward_s)
{
    const struct rank *r = &s->ranks[k];

    if (steady(s, step))
        s->truth.rank_slow_s[k] += weight(s) * s->m->ranks * (forward_s + r->end - r->forward);
}

static int number_order(const void *a, const void *b)
{
    const double *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

/* Set the rows of compute: what a rank computes longer than the lower median rank is its own; what
 * that one computes beyond the co-location's pace is the overlap's. */
static void conclude_compute(struct sim *s)
{
    const struct step_model *m = s->m;
    double *slow_s = s->truth.rank_slow_s, sorted[STEP_MODEL_RANKS_MAX], median_s;
    double work_s = m->accumulation * (m->forward_s + m->backward_s);

    memcpy(sorted, slow_s, sizeof sorted);
    qsort(sorted, (size_t)m->ranks, sizeof *sorted, number_order);
    median_s = sorted[(m->ranks - 1) / 2];
    for (int k = 0; k < m->ranks; k++) {
        slow_s[k] -= median_s;
        s->truth.losses_s[LK_LOSS_SLOW_RANK] += slow_s[k] / m->ranks;
    }
    s->truth.losses_s[LK_LOSS_COLOCATION] = m->kappa * work_s;
    s->truth.losses_s[LK_LOSS_OVERLAP] = median_s - (1 + m->kappa) * work_s;
}

static enum lk_status micro_batch(struct sim *s, uint32_t step, int i, bool sync)
{
    enum lk_status st = LK_OK;
    const struct step_model *m = s->m;

    for (int k = 0; k < m->ranks; k++) {
        struct rank *r = &s->ranks[k];

        r->pace = (1 + m->kappa) * (1 + m->slow[k]) * (1 + m->transient * lk_rng_normal(&r->rng));
        r->forward = r->start + m->forward_s * r->pace;
        r->at = r->forward;
        r->worked = 0;
        LK_TRY(emit(s, k, COMPUTE,
                    (struct lk_span){.kind = LK_SPAN_FORWARD, .step = step, .index = i}, r->start,
                    r->forward));
    }
    LK_TRY(backward(s, step, i, sync));
    if (sync)
        LK_TRY(transfers(s, step));
    for (int k = 0; k < m->ranks; k++) {
        struct rank *r = &s->ranks[k];

        count_compute(s, step, k, r->forward - r->start);
        r->start = sync ? fmax(r->end, s->end[m->buckets - 1] + m->end_late_s[k]) : r->end;
    }
out:
    return st;
}

static enum lk_status one_step(struct sim *s, uint32_t step)
{
    enum lk_status st = LK_OK;
    const struct step_model *m = s->m;
    double w = weight(s);

    for (int k = 0; k < m->ranks; k++) {
        struct rank *r = &s->ranks[k];
        double from = r->done + m->gap_s;

        r->input_s = m->input_s + m->extra_input_s[k];
        r->start = from + r->input_s;
        LK_TRY(emit(s, k, HOST, (struct lk_span){.kind = LK_SPAN_INPUT, .step = step, .index = 0},
                    from, r->start));
    }
    for (int i = 0; i < m->accumulation; i++)
        LK_TRY(micro_batch(s, step, i, !m->no_sync || i == m->accumulation - 1));
    for (int k = 0; k < m->ranks; k++) {
        struct rank *r = &s->ranks[k];
        double end = r->start + m->optimizer_s + m->extra_optimizer_s;

        LK_TRY(emit(s, k, COMPUTE,
                    (struct lk_span){.kind = LK_SPAN_OPTIMIZER, .step = step, .index = -1},
                    r->start, end));
        LK_TRY(emit(s, k, HOST, (struct lk_span){.kind = LK_SPAN_STEP, .step = step, .index = -1},
                    r->done + m->gap_s, end));
        if (steady(s, step)) {
            s->truth.step_s += w * (end - r->done);
            s->truth.losses_s[LK_LOSS_INPUT] += w * m->extra_input_s[k];
            s->truth.losses_s[LK_LOSS_OPTIMIZER] += w * m->extra_optimizer_s;
        }
        r->done = end;
    }
out:
    return st;
}

static int by_start(const void *a, const void *b)
{
    const struct lk_trace_span *x = a, *y = b;

    if (x->span.start_ns != y->span.start_ns)
        return x->span.start_ns < y->span.start_ns ? -1 : 1;
    return (x->track > y->track) - (x->track < y->track);
}

static enum lk_status describe(const struct step_model *m, int rank, struct lk_trace *t)
{
    static const struct {
        const char *name;
        enum lk_track_kind kind;
    } tracks[] = {{"host", LK_TRACK_HOST},
                  {"compute stream", LK_TRACK_COMPUTE},
                  {"comm stream", LK_TRACK_COMM},
                  {"comm stream, GPU records", LK_TRACK_COMM}};
    const size_t n_tracks = launches(m) ? LK_COUNT(tracks) : COMM_KERNELS;
    enum lk_status st = LK_OK;
    struct lk_run_info *i = &t->info;

    *i = (struct lk_run_info){.rank = rank,
                              .world_size = m->ranks,
                              .local_rank = rank,
                              .nodes = 1,
                              .local_batch = m->local_batch,
                              .accumulation = m->accumulation,
                              .no_sync = m->no_sync,
                              .simulated = true,
                              .first_bytes = m->bucket_bytes,
                              .cap_bytes = m->bucket_bytes,
                              .warmup_steps = m->warmup,
                              .steps = m->steps,
                              .flops_per_sample = NAN};
    LK_TRY(lk_asprintf(&i->run_id, "model-%d-%d", m->ranks, m->local_batch));
    LK_TRY(lk_strdup(&i->host, "host"));
    LK_TRY(lk_strdup(&i->device, "timed"));
    LK_TRY(lk_strdup(&i->comm, m->ranks > 1 ? "tcp" : "self"));
    LK_TRY(lk_strdup(&i->model, "step-model"));
    LK_TRY(lk_strdup(&i->sample_unit, "sample"));
    LK_TRY(lk_alloc(&i->tensors, STEP_MODEL_TENSORS, sizeof *i->tensors));
    for (; i->n_tensors < STEP_MODEL_TENSORS; i->n_tensors++) {
        struct lk_run_tensor *x = &i->tensors[i->n_tensors];

        x->elems = m->bucket_bytes * (uint64_t)m->buckets / STEP_MODEL_TENSORS / 4;
        x->dtype = LK_F32;
        LK_TRY(lk_asprintf(&x->name, "layer%zu.weight", i->n_tensors));
    }
    if (launches(m)) {
        LK_TRY(lk_alloc(&t->names, 1, sizeof *t->names));
        LK_TRY(lk_strdup(&t->names[0], "ncclDevKernel_AllReduce_Sum_f32_RING_LL"));
        t->n_names = 1;
    }
    LK_TRY(lk_alloc(&t->tracks, n_tracks, sizeof *t->tracks));
    for (; t->n_tracks < n_tracks; t->n_tracks++) {
        struct lk_trace_track *x = &t->tracks[t->n_tracks];

        x->kind = tracks[t->n_tracks].kind;
        x->stream = t->n_tracks < COMM_KERNELS ? (int)t->n_tracks : COMM;
        LK_TRY(lk_strdup(&x->name, tracks[t->n_tracks].name));
    }
    t->clock = (struct lk_clock_fit){.offset_ns = m->clock_offset_ns[rank],
                                     .uncertainty_ns = rank ? m->clock_uncertainty_ns : 0};
    t->base_local_ns = (uint64_t)(epoch_s * 1e9) - (uint64_t)m->clock_offset_ns[rank];
    t->base_epoch_ns = 1700000000ULL * 1000000000ULL;
out:
    return st;
}

enum lk_status step_model_run(const struct step_model *m, struct lk_trace **out,
                              struct step_truth *truth)
{
    enum lk_status st = LK_OK;
    struct sim s = {.m = m};
    size_t n = (size_t)m->ranks, buckets = (size_t)m->buckets;
    double *buffer = NULL;

    LK_TRY(lk_alloc(&s.traces, n, sizeof *s.traces));
    LK_TRY(lk_alloc(&s.capacity, n, sizeof *s.capacity));
    LK_TRY(lk_alloc(&s.ranks, n, sizeof *s.ranks));
    LK_TRY(lk_alloc(&buffer, buckets * (2 + 3 * n), sizeof *buffer));
    s.begin = buffer;
    s.end = buffer + buckets;
    for (size_t k = 0; k < n; k++) {
        LK_TRY(describe(m, (int)k, &s.traces[k]));
        s.ranks[k].arrival = buffer + buckets * (2 + 3 * k);
        s.ranks[k].ready = buffer + buckets * (3 + 3 * k);
        s.ranks[k].due = buffer + buckets * (4 + 3 * k);
        s.ranks[k].rng = lk_rng_init(m->seed, lk_rng_stream("step model", k));
    }
    for (uint32_t step = 0; step < m->steps; step++)
        LK_TRY(one_step(&s, step));
    for (size_t k = 0; k < n; k++)
        qsort(s.traces[k].spans, s.traces[k].n_spans, sizeof *s.traces[k].spans, by_start);
    conclude_compute(&s);
    s.truth.losses_s[LK_LOSS_IDEAL] =
        m->accumulation * (m->forward_s + m->backward_s) + m->optimizer_s + m->input_s + m->gap_s;
    if (truth)
        *truth = s.truth;
    *out = s.traces;
    s.traces = NULL;
out:
    lk_traces_free(s.traces, s.traces ? n : 0);
    free(s.capacity);
    free(s.ranks);
    free(buffer);
    return st;
}

void step_model_write(struct lk_trace *traces, int n, const char *folder, int without)
{
    must(lk_mkdirs(folder));
    for (int k = 0; k < n; k++) {
        char *path = NULL;

        if (k == without)
            continue;
        must(lk_asprintf(&path, "%s/rank%d.trace.json.gz", folder, k));
        must(lk_trace_write(path, &traces[k]));
        free(path);
    }
    lk_traces_free(traces, (size_t)n);
}
