/* Cuts a trace into optimizer steps. Divisions: reading, cutting, splitting a window. */
#include "profiler/steps.h"

#include "base/array.h"
#include "base/clock.h"

#include <stdlib.h>

struct builder {
    const struct lk_trace *t;
    struct lk_rank_steps s;
    struct lk_interval *kernels; /* of the compute stream, copies too */
    size_t n_kernels;
    size_t steps_capacity, ranges_capacity, marks_capacity, transfers_capacity, kernels_capacity;
};

/* ---- Reading ---- */

static enum lk_status add_step(struct builder *b, const struct lk_span *span)
{
    enum lk_status st =
        lk_array_grow(&b->s.steps, &b->steps_capacity, b->s.n_steps + 1, sizeof *b->s.steps);

    if (st == LK_OK)
        b->s.steps[b->s.n_steps++] = (struct lk_step){
            .step = span->step, .begin_ns = span->start_ns, .end_ns = span->end_ns};
    return st;
}

static enum lk_status add_range(struct builder *b, const struct lk_span *span)
{
    enum lk_status st =
        lk_array_grow(&b->s.ranges, &b->ranges_capacity, b->s.n_ranges + 1, sizeof *b->s.ranges);

    if (st == LK_OK)
        b->s.ranges[b->s.n_ranges++] = (struct lk_range){.start_ns = span->start_ns,
                                                         .end_ns = span->end_ns,
                                                         .step = span->step,
                                                         .kind = (enum lk_span_kind)span->kind,
                                                         .micro_batch = span->index};
    return st;
}

static enum lk_status add_mark(struct builder *b, const struct lk_span *span)
{
    enum lk_status st =
        lk_array_grow(&b->s.marks, &b->marks_capacity, b->s.n_marks + 1, sizeof *b->s.marks);

    if (st == LK_OK)
        b->s.marks[b->s.n_marks] = (struct lk_mark){.at_ns = span->start_ns,
                                                    .step = span->step,
                                                    .ordinal = (uint32_t)b->s.n_marks,
                                                    .tensor = span->index};
    b->s.n_marks += st == LK_OK;
    return st;
}

static enum lk_status add_transfer(struct builder *b, const struct lk_span *span)
{
    enum lk_status st = lk_array_grow(&b->s.transfers, &b->transfers_capacity, b->s.n_transfers + 1,
                                      sizeof *b->s.transfers);

    if (st == LK_OK)
        b->s.transfers[b->s.n_transfers++] = (struct lk_transfer){.ready_ns = span->ready_ns,
                                                                  .start_ns = span->start_ns,
                                                                  .end_ns = span->end_ns,
                                                                  .bytes = span->bytes,
                                                                  .step = span->step,
                                                                  .seq = span->seq,
                                                                  .bucket = span->index};
    return st;
}

static enum lk_status add_kernel(struct builder *b, const struct lk_span *span)
{
    enum lk_status st =
        lk_array_grow(&b->kernels, &b->kernels_capacity, b->n_kernels + 1, sizeof *b->kernels);

    if (st == LK_OK)
        b->kernels[b->n_kernels++] = (struct lk_interval){span->start_ns, span->end_ns};
    return st;
}

/* Who takes a span of which kind on which track; the rest (e.g. counters) is not needed. */
static const struct {
    enum lk_status (*add)(struct builder *b, const struct lk_span *span);
    enum lk_track_kind track;
} readers[LK_SPAN_KIND_COUNT] = {
    [LK_SPAN_STEP] = {add_step,     LK_TRACK_HOST   },
    [LK_SPAN_INPUT] = {add_range,    LK_TRACK_HOST   },
    [LK_SPAN_FORWARD] = {add_range,    LK_TRACK_COMPUTE},
    [LK_SPAN_BACKWARD] = {add_range,    LK_TRACK_COMPUTE},
    [LK_SPAN_OPTIMIZER] = {add_range,    LK_TRACK_COMPUTE},
    [LK_SPAN_GRADIENT] = {add_mark,     LK_TRACK_COMPUTE},
    [LK_SPAN_KERNEL] = {add_kernel,   LK_TRACK_COMPUTE},
    [LK_SPAN_COPY] = {add_kernel,   LK_TRACK_COMPUTE},
    [LK_SPAN_MEMSET] = {add_kernel,   LK_TRACK_COMPUTE},
    [LK_SPAN_COLLECTIVE] = {add_transfer, LK_TRACK_COMM   },
};

/* The span on the common clock. */
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
        struct lk_span span;
        enum lk_status st;

        if (!readers[from->span.kind].add ||
            b->t->tracks[from->track].kind != readers[from->span.kind].track)
            continue;
        span = common_clock(b->t, from->span);
        st = readers[from->span.kind].add(b, &span);
        if (st != LK_OK)
            return st;
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

static int transfer_order(const void *a, const void *b)
{
    const struct lk_transfer *x = a, *y = b;

    return x->step != y->step ? compare_u64(x->step, y->step) : compare_u64(x->seq, y->seq);
}

static void assign_marks(struct lk_rank_steps *s)
{
    size_t m = 0;

    for (size_t i = 0; i < s->n_ranges; i++) {
        struct lk_range *r = &s->ranges[i];

        if (r->kind != LK_SPAN_BACKWARD)
            continue;
        while (m < s->n_marks && (s->marks[m].step < r->step ||
                                  (s->marks[m].step == r->step && s->marks[m].at_ns < r->start_ns)))
            m++;
        r->first_mark = m;
        while (m < s->n_marks && s->marks[m].step == r->step && s->marks[m].at_ns <= r->end_ns)
            m++;
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
        while (t < s->n_transfers && s->transfers[t].step < p->step)
            t++;
        p->first_transfer = t;
        while (t < s->n_transfers && s->transfers[t].step == p->step)
            t++;
        p->n_transfers = t - p->first_transfer;
    }
}

static void set_arrivals(struct lk_rank_steps *s)
{
    for (size_t i = 0; i < s->n_transfers; i++) {
        struct lk_transfer *x = &s->transfers[i];
        uint64_t arrival = x->ready_ns ? x->ready_ns : x->start_ns;

        if (i && s->transfers[i - 1].step == x->step && s->transfers[i - 1].end_ns > arrival)
            arrival = s->transfers[i - 1].end_ns;
        x->arrival_ns = arrival < x->start_ns ? arrival : x->start_ns;
    }
}

/* done(s) of every step, then the windows from one done to the next. */
static void set_windows(struct lk_rank_steps *s)
{
    for (size_t i = 0; i < s->n_steps; i++) {
        struct lk_step *p = &s->steps[i];

        for (size_t r = p->first_range; r < p->first_range + p->n_ranges; r++)
            if (s->ranges[r].end_ns > p->end_ns)
                p->end_ns = s->ranges[r].end_ns;
        for (size_t t = p->first_transfer; t < p->first_transfer + p->n_transfers; t++)
            if (s->transfers[t].end_ns > p->end_ns)
                p->end_ns = s->transfers[t].end_ns;
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

static void drop_incomplete(struct lk_rank_steps *s, int accumulation)
{
    size_t n = 0;

    for (size_t i = 0; i < s->n_steps; i++)
        if (complete(s, &s->steps[i], accumulation))
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

enum lk_status lk_rank_steps_read(const struct lk_trace *t, struct lk_rank_steps *out)
{
    enum lk_status st = LK_OK;
    struct builder b = {.t = t};

    b.s.rank = t->info.rank;
    b.s.uncertainty_ns = t->clock.uncertainty_ns;
    LK_TRY(read_spans(&b));
    if (b.s.n_steps)
        qsort(b.s.steps, b.s.n_steps, sizeof *b.s.steps, step_order);
    if (b.s.n_ranges)
        qsort(b.s.ranges, b.s.n_ranges, sizeof *b.s.ranges, range_order);
    if (b.s.n_marks)
        qsort(b.s.marks, b.s.n_marks, sizeof *b.s.marks, mark_order);
    if (b.s.n_transfers)
        qsort(b.s.transfers, b.s.n_transfers, sizeof *b.s.transfers, transfer_order);
    LK_TRY(check_unique(t, &b.s));
    assign_marks(&b.s);
    assign_lists(&b.s);
    set_arrivals(&b.s);
    set_windows(&b.s);
    drop_incomplete(&b.s, t->info.accumulation);
    LK_TRY(lk_stands_find(&b.s, b.kernels, b.n_kernels));
    lk_ranges_find_idle(&b.s, b.kernels, b.n_kernels);
    *out = b.s;
    b.s = (struct lk_rank_steps){0};
out:
    free(b.kernels);
    lk_rank_steps_fini(&b.s);
    return st;
}

void lk_rank_steps_fini(struct lk_rank_steps *s)
{
    free(s->steps);
    free(s->ranges);
    free(s->marks);
    free(s->transfers);
    free(s->stands);
    *s = (struct lk_rank_steps){0};
}

const struct lk_step *lk_rank_step(const struct lk_rank_steps *s, uint32_t step)
{
    const struct lk_step key = {.step = step};

    return s->n_steps ? bsearch(&key, s->steps, s->n_steps, sizeof *s->steps, step_order) : NULL;
}

const struct lk_transfer *lk_step_transfer(const struct lk_rank_steps *s, const struct lk_step *p,
                                           uint32_t seq)
{
    const struct lk_transfer key = {.step = p->step, .seq = seq};

    return p->n_transfers ? bsearch(&key, s->transfers + p->first_transfer, p->n_transfers,
                                    sizeof *s->transfers, transfer_order)
                          : NULL;
}

/* ---- Splitting a window ---- */

double lk_step_window_s(const struct lk_step *p)
{
    return (double)(p->end_ns - p->begin_ns) / (double)LK_NS_PER_S;
}

uint64_t lk_step_pending_ns(const struct lk_rank_steps *s, const struct lk_step *p, uint64_t a,
                            uint64_t b)
{
    uint64_t sum = 0;

    for (size_t i = p->first_transfer; i < p->first_transfer + p->n_transfers; i++) {
        const struct lk_transfer *x = &s->transfers[i];
        uint64_t from = x->arrival_ns > a ? x->arrival_ns : a;
        uint64_t to = x->end_ns < b ? x->end_ns : b;

        if (to > from)
            sum += lk_range_work_ns(s, from, to);
    }
    return sum;
}

uint64_t lk_range_work_ns(const struct lk_rank_steps *s, uint64_t a, uint64_t b)
{
    return b - a - lk_stands_ns(s, a, b);
}

uint64_t lk_step_compute_ns(const struct lk_rank_steps *s, const struct lk_step *p, uint64_t a,
                            uint64_t b)
{
    uint64_t sum = 0;

    for (size_t i = p->first_range; i < p->first_range + p->n_ranges; i++) {
        const struct lk_range *r = &s->ranges[i];
        uint64_t from = r->start_ns > a ? r->start_ns : a;
        uint64_t to = r->end_ns < b ? r->end_ns : b;

        if (r->kind != LK_SPAN_INPUT && to > from)
            sum += lk_range_work_ns(s, from, to);
    }
    return sum;
}

/* What an instant of the window belongs to. */
enum part {
    PART_FORWARD,
    PART_BACKWARD,
    PART_OPTIMIZER,
    PART_STRAGGLER,
    PART_WIRE,
    PART_INPUT,
    PART_GAP,
    PART_COUNT
};

static const enum part part_of_kind[LK_SPAN_KIND_COUNT] = {
    [LK_SPAN_FORWARD] = PART_FORWARD,
    [LK_SPAN_BACKWARD] = PART_BACKWARD,
    [LK_SPAN_OPTIMIZER] = PART_OPTIMIZER,
    [LK_SPAN_INPUT] = PART_INPUT,
};

/* A walk along the window; the cursors only move on, so that the walk is linear. */
struct walk {
    const struct lk_rank_steps *s;
    const struct lk_step *p;
    const uint64_t *begin_ns;
    size_t work, input; /* cursors in ranges, of own compute and of input */
    size_t transfer;    /* cursor in the step's transfers */
    size_t stand;       /* cursor in the stands */
};

/*
 * The range that holds instant `at`, or NULL; lowers *next to where that may change. `inputs`: of
 * INPUT ranges, else of compute.
 */
static const struct lk_range *range_at(const struct walk *w, size_t *cursor, bool inputs,
                                       uint64_t at, uint64_t *next)
{
    const size_t end = w->p->first_range + w->p->n_ranges;

    for (; *cursor < end; ++*cursor) {
        const struct lk_range *r = &w->s->ranges[*cursor];

        if ((r->kind == LK_SPAN_INPUT) != inputs || r->end_ns <= at)
            continue;
        if (r->start_ns > at) {
            *next = r->start_ns < *next ? r->start_ns : *next;
            return NULL;
        }
        *next = r->end_ns < *next ? r->end_ns : *next;
        return r;
    }
    return NULL;
}

/* Does compute stand here? The same for *next. */
static bool stands_at(struct walk *w, uint64_t at, uint64_t *next)
{
    const struct lk_interval *x;
    uint64_t change;

    while (w->stand < w->s->n_stands && w->s->stands[w->stand].end_ns <= at)
        w->stand++;
    if (w->stand == w->s->n_stands)
        return false;
    x = &w->s->stands[w->stand];
    change = at < x->start_ns ? x->start_ns : x->end_ns;
    *next = change < *next ? change : *next;
    return at >= x->start_ns;
}

/* The same for the pending transfer: sets *waiting while not all ranks have arrived. */
static bool transfer_at(struct walk *w, uint64_t at, uint64_t *next, bool *waiting)
{
    for (; w->transfer < w->p->n_transfers; w->transfer++) {
        const struct lk_transfer *x = &w->s->transfers[w->p->first_transfer + w->transfer];
        uint64_t begin = w->begin_ns ? w->begin_ns[w->transfer] : x->arrival_ns;
        uint64_t change;

        if (x->end_ns <= at)
            continue;
        *waiting = at < begin;
        change = at < x->arrival_ns              ? x->arrival_ns
                 : *waiting && begin < x->end_ns ? begin
                                                 : x->end_ns;
        *next = change < *next ? change : *next;
        return at >= x->arrival_ns;
    }
    return false;
}

void lk_step_split(const struct lk_rank_steps *s, const struct lk_step *p, const uint64_t *begin_ns,
                   struct lk_step_split *out)
{
    struct walk w = {.s = s,
                     .p = p,
                     .begin_ns = begin_ns,
                     .work = p->first_range,
                     .input = p->first_range,
                     .stand = lk_stands_after(s, p->begin_ns)};
    uint64_t sum_ns[PART_COUNT] = {0};

    for (uint64_t at = p->begin_ns, next; at < p->end_ns; at = next) {
        bool waiting = false;
        bool pending;
        const struct lk_range *work, *input;

        next = p->end_ns;
        work = range_at(&w, &w.work, false, at, &next);
        if (stands_at(&w, at, &next))
            work = NULL;
        pending = transfer_at(&w, at, &next, &waiting);
        input = range_at(&w, &w.input, true, at, &next);
        if (work)
            sum_ns[part_of_kind[work->kind]] += next - at;
        else if (pending)
            sum_ns[waiting ? PART_STRAGGLER : PART_WIRE] += next - at;
        else
            sum_ns[input ? PART_INPUT : PART_GAP] += next - at;
    }
    *out = (struct lk_step_split){
        .forward_s = (double)sum_ns[PART_FORWARD] / (double)LK_NS_PER_S,
        .backward_s = (double)sum_ns[PART_BACKWARD] / (double)LK_NS_PER_S,
        .optimizer_s = (double)sum_ns[PART_OPTIMIZER] / (double)LK_NS_PER_S,
        .straggler_s = (double)sum_ns[PART_STRAGGLER] / (double)LK_NS_PER_S,
        .wire_s = (double)sum_ns[PART_WIRE] / (double)LK_NS_PER_S,
        .input_s = (double)sum_ns[PART_INPUT] / (double)LK_NS_PER_S,
        .gap_s = (double)sum_ns[PART_GAP] / (double)LK_NS_PER_S,
    };
}
