/* Cut a trace into optimizer steps. Divisions: reading, cutting. step_split.c says what the time
 * was spent on. */
#include "profiler/analysis/steps.h"

#include "base/array.h"
#include "facts/coll.h"
#include "facts/run_facts.h"

#include <stdlib.h>
#include <string.h>

struct builder {
    const struct lk_trace *t;
    struct lk_rank_steps s;
    struct lk_intervals kernels; /* of the compute stream, copies too */
    const char *patterns;        /* of names of kernels that communicate; NULL: none */
    struct launch *launches;     /* of NCCL's kernels */
    size_t n_launches;
    uint32_t *recorded; /* steps of the compute stream's kernels */
    size_t n_recorded;
    size_t steps_capacity, ranges_capacity, marks_capacity, collectives_capacity, launches_capacity,
        recorded_capacity;
};

/* A kernel of NCCL's. */
struct launch {
    uint64_t called_ns, start_ns, end_ns; /* called 0: not known */
    uint32_t step;
    int32_t bucket; /* -1: not known */
};

/* ---- Reading ---- */

/* Append an item of `size` bytes to one of the builder's lists. */
static enum lk_status append(void *list, size_t *n, size_t *capacity, const void *item, size_t size)
{
    enum lk_status st = lk_array_grow(list, capacity, *n + 1, size);

    if (st == LK_OK)
        memcpy(*(char **)list + (*n)++ * size, item, size);
    return st;
}

static enum lk_status add_step(struct builder *b, const struct lk_span *span)
{
    const struct lk_step step = {
        .step = span->step, .begin_ns = span->start_ns, .end_ns = span->end_ns};

    return append(&b->s.steps, &b->s.n_steps, &b->steps_capacity, &step, sizeof step);
}

static enum lk_status add_range(struct builder *b, const struct lk_span *span)
{
    const struct lk_range range = {.start_ns = span->start_ns,
                                   .end_ns = span->end_ns,
                                   .step = span->step,
                                   .kind = (enum lk_span_kind)span->kind,
                                   .micro_batch = span->index};

    return append(&b->s.ranges, &b->s.n_ranges, &b->ranges_capacity, &range, sizeof range);
}

static enum lk_status add_update(struct builder *b, const struct lk_span *span)
{
    LK_PASS(add_range(b, span));
    b->s.ranges[b->s.n_ranges - 1].beside = true;
    return LK_OK;
}

static enum lk_status add_mark(struct builder *b, const struct lk_span *span)
{
    const struct lk_mark mark = {.at_ns = span->start_ns,
                                 .step = span->step,
                                 .ordinal = (uint32_t)b->s.n_marks,
                                 .tensor = span->index};

    return append(&b->s.marks, &b->s.n_marks, &b->marks_capacity, &mark, sizeof mark);
}

/* Return true if a collective of a unit reduces gradients, not a shard that was reduced already,
 * and not parameters. */
static bool reduces(const struct builder *b, const struct lk_span *span)
{
    const char *name = lk_trace_span_name(b->t, span);
    const char *scatter = lk_coll_name(LK_REDUCE_SCATTER);

    return !lk_sharding_traits(b->t->info.sharding)->scatters ||
           !strncmp(name, scatter, strlen(scatter));
}

static enum lk_status add_collective(struct builder *b, const struct lk_span *span)
{
    const struct lk_collective collective = {.ready_ns = span->ready_ns,
                                             .start_ns = span->start_ns,
                                             .end_ns = span->end_ns,
                                             .bytes = span->bytes,
                                             .step = span->step,
                                             .seq = span->seq,
                                             .bucket = reduces(b, span) ? span->index : -1,
                                             .unit = span->index,
                                             .name = span->name};

    return append(&b->s.collectives, &b->s.n_collectives, &b->collectives_capacity, &collective,
                  sizeof collective);
}

/* Add to the intervals in which the GPU computes. */
static enum lk_status add_compute(struct builder *b, const struct lk_span *span)
{
    if (!b->s.by_kernels || span->kind != LK_SPAN_KERNEL ||
        lk_is_communication(lk_trace_span_name(b->t, span), b->patterns))
        return LK_OK;
    return lk_intervals_add(&b->s.kernels, span->start_ns, span->end_ns);
}

static enum lk_status add_kernel(struct builder *b, const struct lk_span *span)
{
    if (!b->n_recorded || b->recorded[b->n_recorded - 1] != span->step)
        LK_PASS(append(&b->recorded, &b->n_recorded, &b->recorded_capacity, &span->step,
                       sizeof span->step));
    LK_PASS(add_compute(b, span));
    return lk_intervals_add(&b->kernels, span->start_ns, span->end_ns);
}

static enum lk_status add_launch(struct builder *b, const struct lk_span *span)
{
    const struct launch launch = {.called_ns = span->ready_ns,
                                  .start_ns = span->start_ns,
                                  .end_ns = span->end_ns,
                                  .step = span->step,
                                  .bucket = span->index};

    if (!lk_trace_is_nccl(b->t, span))
        return add_compute(b, span);
    return append(&b->launches, &b->n_launches, &b->launches_capacity, &launch, sizeof launch);
}

/* Function that takes a span, by kind and track; other spans (e.g. counters) are not needed. */
static enum lk_status (*const readers[LK_SPAN_KIND_COUNT][LK_TRACK_KIND_COUNT])(
    struct builder *b, const struct lk_span *span) = {
    [LK_SPAN_STEP][LK_TRACK_HOST] = add_step,
    [LK_SPAN_INPUT][LK_TRACK_HOST] = add_range,
    [LK_SPAN_FORWARD][LK_TRACK_COMPUTE] = add_range,
    [LK_SPAN_BACKWARD][LK_TRACK_COMPUTE] = add_range,
    [LK_SPAN_OPTIMIZER][LK_TRACK_COMPUTE] = add_range,
    [LK_SPAN_OPTIMIZER][LK_TRACK_UPDATE] = add_update,
    [LK_SPAN_GRADIENT][LK_TRACK_COMPUTE] = add_mark,
    [LK_SPAN_KERNEL][LK_TRACK_COMPUTE] = add_kernel,
    [LK_SPAN_COPY][LK_TRACK_COMPUTE] = add_kernel,
    [LK_SPAN_MEMSET][LK_TRACK_COMPUTE] = add_kernel,
    [LK_SPAN_KERNEL][LK_TRACK_COMM] = add_launch,
    [LK_SPAN_KERNEL][LK_TRACK_UPDATE] = add_compute,
    [LK_SPAN_KERNEL][LK_TRACK_COPY] = add_compute,
    [LK_SPAN_COLLECTIVE][LK_TRACK_COMM] = add_collective,
};

/* Return the span on the common clock. */
static struct lk_span common_clock(const struct lk_trace *t, struct lk_span span)
{
    span.start_ns = lk_clock_apply(&t->clock, span.start_ns);
    span.end_ns = lk_clock_apply(&t->clock, span.end_ns);
    if (span.ready_ns)
        span.ready_ns = lk_clock_apply(&t->clock, span.ready_ns);
    return span;
}

static enum lk_status read_spans(struct builder *b)
{
    for (size_t i = 0; i < b->t->n_spans; i++) {
        const struct lk_trace_span *from = &b->t->spans[i];
        enum lk_track_kind track = b->t->tracks[from->track].kind;
        struct lk_span span;

        if (!readers[from->span.kind][track])
            continue;
        span = common_clock(b->t, from->span);
        LK_PASS(readers[from->span.kind][track](b, &span));
    }
    return LK_OK;
}

/* ---- Cutting ---- */

static int compare_u64(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int step_order(const void *a, const void *b)
{
    const struct lk_step *x = a, *y = b;

    return compare_u64(x->step, y->step);
}

static int range_order(const void *a, const void *b)
{
    const struct lk_range *x = a, *y = b;

    return x->step != y->step ? compare_u64(x->step, y->step)
                              : compare_u64(x->start_ns, y->start_ns);
}

static int mark_order(const void *a, const void *b)
{
    const struct lk_mark *x = a, *y = b;

    if (x->step != y->step)
        return compare_u64(x->step, y->step);
    return x->at_ns != y->at_ns ? compare_u64(x->at_ns, y->at_ns)
                                : compare_u64(x->ordinal, y->ordinal);
}

static int collective_order(const void *a, const void *b)
{
    const struct lk_collective *x = a, *y = b;

    return x->step != y->step ? compare_u64(x->step, y->step) : compare_u64(x->seq, y->seq);
}

/* Ranges have the times of events, marks perhaps those of CUPTI's records: they agree within some
 * microseconds, and a wrong clock is off by more than this. */
#define CLOCKS_NS LK_NS_PER_MS

/* Return the next backward of the range's step, or NULL. */
static const struct lk_range *next_backward(const struct lk_rank_steps *s, const struct lk_range *r)
{
    const struct lk_range *end = s->ranges + s->n_ranges;

    for (const struct lk_range *x = r + 1; x < end && x->step == r->step; x++)
        if (x->kind == LK_SPAN_BACKWARD)
            return x;
    return NULL;
}

/* Assign marks to the backward in which they lie, or beside which by the error of two clocks: these
 * are moved into it. */
static void assign_marks(struct lk_rank_steps *s)
{
    size_t m = 0;

    for (size_t i = 0; i < s->n_ranges; i++) {
        struct lk_range *r = &s->ranges[i];
        const struct lk_range *next;
        uint64_t last = r->end_ns + CLOCKS_NS;

        if (r->kind != LK_SPAN_BACKWARD)
            continue;
        next = next_backward(s, r);
        if (next && next->start_ns > r->end_ns &&
            last - r->end_ns > (next->start_ns - r->end_ns) / 2)
            last = r->end_ns + (next->start_ns - r->end_ns) / 2;
        while (m < s->n_marks &&
               (s->marks[m].step < r->step ||
                (s->marks[m].step == r->step && s->marks[m].at_ns + CLOCKS_NS < r->start_ns)))
            m++;
        r->first_mark = m;
        for (; m < s->n_marks && s->marks[m].step == r->step && s->marks[m].at_ns <= last; m++) {
            if (s->marks[m].at_ns < r->start_ns)
                s->marks[m].at_ns = r->start_ns;
            if (s->marks[m].at_ns > r->end_ns)
                s->marks[m].at_ns = r->end_ns;
        }
        r->n_marks = m - r->first_mark;
    }
}

static void assign_lists(struct lk_rank_steps *s)
{
    size_t r = 0, t = 0;

    for (size_t i = 0; i < s->n_steps; i++) {
        struct lk_step *p = &s->steps[i];

        while (r < s->n_ranges && s->ranges[r].step < p->step)
            r++;
        p->first_range = r;
        while (r < s->n_ranges && s->ranges[r].step == p->step)
            r++;
        p->n_ranges = r - p->first_range;
        while (t < s->n_collectives && s->collectives[t].step < p->step)
            t++;
        p->first_collective = t;
        while (t < s->n_collectives && s->collectives[t].step == p->step)
            t++;
        p->n_collectives = t - p->first_collective;
    }
}

/* Return when a step's backward and last bucket had ended: what of an update comes before that
 * costs the step nothing. */
static uint64_t hidden_until_ns(const struct lk_rank_steps *s, const struct lk_step *p)
{
    uint64_t until = 0;

    for (size_t r = p->first_range; r < p->first_range + p->n_ranges; r++)
        if (s->ranges[r].kind == LK_SPAN_BACKWARD && s->ranges[r].end_ns > until)
            until = s->ranges[r].end_ns;
    for (size_t t = p->first_collective; t < p->first_collective + p->n_collectives; t++)
        if (s->collectives[t].bucket >= 0 && s->collectives[t].end_ns > until)
            until = s->collectives[t].end_ns;
    return until;
}

/* Cut off the hidden part of updates; what is hidden altogether becomes empty. */
static void hide_updates(struct lk_rank_steps *s)
{
    bool moved = false;

    for (size_t i = 0; i < s->n_steps; i++) {
        struct lk_step *p = &s->steps[i];
        uint64_t until = hidden_until_ns(s, p);

        for (size_t r = p->first_range; r < p->first_range + p->n_ranges; r++) {
            struct lk_range *x = &s->ranges[r];
            uint64_t from = x->end_ns < until ? x->end_ns : until;

            if (!x->beside || from <= x->start_ns)
                continue;
            p->hidden_ns += from - x->start_ns;
            x->start_ns = from;
            moved = true;
        }
    }
    if (moved)
        qsort(s->ranges, s->n_ranges, sizeof *s->ranges, range_order);
}

static int launch_order(const void *a, const void *b)
{
    const struct launch *x = a, *y = b;

    return x->step != y->step ? compare_u64(x->step, y->step)
                              : compare_u64(x->start_ns, y->start_ns);
}

static int number_order(const void *a, const void *b)
{
    return compare_u64(*(const uint32_t *)a, *(const uint32_t *)b);
}

static void set_recorded(struct lk_rank_steps *s, uint32_t *recorded, size_t n)
{
    if (n)
        qsort(recorded, n, sizeof *recorded, number_order);
    for (size_t i = 0; i < s->n_steps; i++)
        s->steps[i].recorded = lk_steps_find(recorded, n, s->steps[i].step) < n;
}

static void set_due(struct lk_rank_steps *s)
{
    for (size_t i = 0; i < s->n_collectives; i++) {
        struct lk_collective *x = &s->collectives[i];
        uint64_t due = x->ready_ns ? x->ready_ns : x->start_ns;

        if (i && (s->staleness || s->collectives[i - 1].step == x->step) &&
            s->collectives[i - 1].end_ns > due)
            due = s->collectives[i - 1].end_ns;
        x->due_ns = due < x->start_ns ? due : x->start_ns;
        x->arrival_ns = x->due_ns;
    }
}

static bool is_of(const struct launch *l, const struct lk_collective *x)
{
    return x->step == l->step && (l->bucket < 0 || x->bucket == l->bucket);
}

/*
 * Set the arrivals of collectives whose NCCL kernel is known: NCCL launches it some time after the
 * bucket's event, and the rank takes part from its start on. A kernel belongs to the collective in
 * which its middle lies; where the device's clock and that of its records differ by more, to the
 * one of its bucket before. The first of several counts.
 */
static void set_arrivals(struct lk_rank_steps *s, const struct launch *launches, size_t n)
{
    size_t at = 0;

    for (size_t i = 0; i < n; i++) {
        const struct launch *l = &launches[i];
        uint64_t middle = l->start_ns + (l->end_ns - l->start_ns) / 2;
        struct lk_collective *x;

        while (at < s->n_collectives &&
               (s->collectives[at].step < l->step ||
                (s->collectives[at].step == l->step && s->collectives[at].end_ns <= middle)))
            at++;
        x = at < s->n_collectives ? &s->collectives[at] : NULL;
        if (at > 0 && !(x && is_of(l, x)))
            x = &s->collectives[at - 1];
        if (!x || !is_of(l, x) || x->by_kernel)
            continue;
        x->by_kernel = true;
        x->launched_ns = l->called_ns;
        if (l->start_ns > x->due_ns)
            x->arrival_ns = l->start_ns < x->end_ns ? l->start_ns : x->end_ns;
    }
}

/* Set done(s) of every step, then the windows from one done to the next. */
static void set_windows(struct lk_rank_steps *s)
{
    for (size_t i = 0; i < s->n_steps; i++) {
        struct lk_step *p = &s->steps[i];

        for (size_t r = p->first_range; r < p->first_range + p->n_ranges; r++)
            if (s->ranges[r].end_ns > p->end_ns)
                p->end_ns = s->ranges[r].end_ns;
        for (size_t t = p->first_collective; t < p->first_collective + p->n_collectives; t++)
            if (!s->staleness && s->collectives[t].end_ns > p->end_ns)
                p->end_ns = s->collectives[t].end_ns;
        if (i && s->steps[i - 1].step + 1 == p->step) {
            p->begin_ns = s->steps[i - 1].end_ns;
            if (p->end_ns < p->begin_ns)
                p->end_ns = p->begin_ns;
        }
    }
}

static bool complete(const struct lk_rank_steps *s, const struct lk_step *p, int accumulation)
{
    int forward = 0, backward = 0;

    for (size_t r = p->first_range; r < p->first_range + p->n_ranges; r++) {
        forward += s->ranges[r].kind == LK_SPAN_FORWARD;
        backward += s->ranges[r].kind == LK_SPAN_BACKWARD;
    }
    return forward == accumulation && backward == accumulation;
}

/* Keep the steps that have all of their passes. Those of steps that nobody marked are not known. */
static void drop_incomplete(struct lk_rank_steps *s, const struct lk_run_info *info)
{
    size_t n = 0;

    if (lk_run_info_value(info, LK_PERIOD_CONFIG_KEY))
        return;
    for (size_t i = 0; i < s->n_steps; i++)
        if (complete(s, &s->steps[i], info->accumulation))
            s->steps[n++] = s->steps[i];
    s->n_steps = n;
}

static enum lk_status check_unique(const struct lk_trace *t, const struct lk_rank_steps *s)
{
    for (size_t i = 1; i < s->n_steps; i++)
        if (s->steps[i].step == s->steps[i - 1].step)
            return lk_fail(LK_EPARSE, "rank %d: the trace has step %u twice", t->info.rank,
                           s->steps[i].step);
    return LK_OK;
}

/* Return by how much the device's times may be off on its host's clock. */
static uint64_t device_error_ns(const struct lk_trace *t)
{
    double worst = 0;

    for (size_t i = 0; i < t->n_spans; i++) {
        const struct lk_span *s = &t->spans[i].span;

        if (s->kind == LK_SPAN_COUNTER && s->value > worst &&
            !strcmp(lk_trace_span_name(t, s), LK_CLOCK_ERROR_COUNTER))
            worst = s->value;
    }
    return worst < (double)LK_NS_PER_S ? (uint64_t)worst : LK_NS_PER_S;
}

/* Return true if the trace has a GPU's kernels that are no communication. A host's do not tell when
 * it computes: what it does between them is its work, too. */
static bool has_kernels(const struct lk_trace *t)
{
    for (size_t i = 0; i < t->n_spans && !lk_run_info_on_host(&t->info); i++)
        if (t->spans[i].span.kind == LK_SPAN_KERNEL && !lk_trace_is_nccl(t, &t->spans[i].span))
            return true;
    return false;
}

enum lk_status lk_rank_steps_read(const struct lk_trace *t, struct lk_rank_steps *out)
{
    enum lk_status st = LK_OK;
    struct builder b = {.t = t,
                        .patterns = lk_run_info_value(&t->info, LK_COMM_KERNELS_CONFIG_KEY)};

    b.s.by_kernels = has_kernels(t);
    b.s.rank = t->info.rank;
    b.s.staleness = t->info.staleness;
    b.s.uncertainty_ns = t->clock.uncertainty_ns;
    if (b.s.uncertainty_ns != LK_CLOCK_UNKNOWN_NS)
        b.s.uncertainty_ns += device_error_ns(t);
    LK_TRY(read_spans(&b));
    if (b.s.n_steps)
        qsort(b.s.steps, b.s.n_steps, sizeof *b.s.steps, step_order);
    if (b.s.n_ranges)
        qsort(b.s.ranges, b.s.n_ranges, sizeof *b.s.ranges, range_order);
    if (b.s.n_marks)
        qsort(b.s.marks, b.s.n_marks, sizeof *b.s.marks, mark_order);
    if (b.s.n_collectives)
        qsort(b.s.collectives, b.s.n_collectives, sizeof *b.s.collectives, collective_order);
    LK_TRY(check_unique(t, &b.s));
    assign_marks(&b.s);
    assign_lists(&b.s);
    hide_updates(&b.s);
    set_recorded(&b.s, b.recorded, b.n_recorded);
    set_due(&b.s);
    if (b.n_launches)
        qsort(b.launches, b.n_launches, sizeof *b.launches, launch_order);
    set_arrivals(&b.s, b.launches, b.n_launches);
    set_windows(&b.s);
    drop_incomplete(&b.s, &t->info);
    LK_TRY(lk_stalls_find(&b.s, &b.kernels));
    *out = b.s;
    b.s = (struct lk_rank_steps){0};
out:
    free(b.kernels.at);
    free(b.launches);
    free(b.recorded);
    lk_rank_steps_fini(&b.s);
    return st;
}

void lk_rank_steps_fini(struct lk_rank_steps *s)
{
    free(s->steps);
    free(s->ranges);
    free(s->marks);
    free(s->collectives);
    free(s->kernels.at);
    free(s->stalls.at);
    free(s->gaps.at);
    *s = (struct lk_rank_steps){0};
}

size_t lk_steps_find(const uint32_t *steps, size_t n, uint32_t step)
{
    size_t lo = 0, hi = n;

    while (lo < hi) {
        size_t mid = (lo + hi) / 2;

        if (steps[mid] < step)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < n && steps[lo] == step ? lo : n;
}

const struct lk_step *lk_rank_step(const struct lk_rank_steps *s, uint32_t step)
{
    const struct lk_step key = {.step = step};

    return s->n_steps ? bsearch(&key, s->steps, s->n_steps, sizeof *s->steps, step_order) : NULL;
}
