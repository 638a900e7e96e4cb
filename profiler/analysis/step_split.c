/*
 * Split the time of a step by its cause. Divisions: stalls, work, parts of a window.
 *
 * Stalls are times in a forward or backward range when a rank's compute was blocked by a collective
 * (SyncBatchNorm's, FSDP's gathers). The range alone does not show them; its kernels do. Between
 * two kernels of a range, the time during which a collective is pending that ends there is a stall:
 * the next kernel waited for it. A collective that continues into the next kernel blocked nothing.
 * A gap without a collective's end (the host was late) stays compute, as does a range without
 * kernels.
 */
#include "base/array.h"
#include "base/units.h"
#include "profiler/analysis/steps.h"

#include <stdlib.h>

/* ---- Stalls ---- */

static int by_start(const void *a, const void *b)
{
    const struct lk_interval *x = a, *y = b;

    return (x->start_ns > y->start_ns) - (x->start_ns < y->start_ns);
}

/* The result under construction, and the cursor of the walk. */
struct finder {
    struct lk_rank_steps *s;
    const struct lk_interval *kernels;
    size_t n_kernels, kernel; /* the first that ends after the range's start, or later */
    size_t capacity;
};

static enum lk_status add(struct finder *f, uint64_t from, uint64_t to)
{
    struct lk_rank_steps *s = f->s;
    enum lk_status st;

    if (s->n_stalls && s->stalls[s->n_stalls - 1].end_ns >= from) {
        s->stalls[s->n_stalls - 1].end_ns = to;
        return LK_OK;
    }
    st = lk_array_grow(&s->stalls, &f->capacity, s->n_stalls + 1, sizeof *s->stalls);
    if (st == LK_OK)
        s->stalls[s->n_stalls++] = (struct lk_interval){from, to};
    return st;
}

/* Add a stall for each collective of a step that ends in a gap between kernels, in order: from when
 * it is due or the previous stall's end on. */
static enum lk_status add_gap(struct finder *f, const struct lk_step *p, uint64_t from, uint64_t to)
{
    for (size_t i = p->first_collective; i < p->first_collective + p->n_collectives; i++) {
        const struct lk_collective *x = &f->s->collectives[i];
        uint64_t start = x->due_ns > from ? x->due_ns : from;

        if (x->end_ns <= from || x->end_ns > to || start >= x->end_ns)
            continue;
        LK_PASS(add(f, start, x->end_ns));
        from = x->end_ns;
    }
    return LK_OK;
}

static enum lk_status add_range(struct finder *f, const struct lk_step *p, const struct lk_range *r)
{
    uint64_t at = r->start_ns;
    bool any = false;

    while (f->kernel < f->n_kernels && f->kernels[f->kernel].end_ns <= r->start_ns)
        f->kernel++;
    for (size_t i = f->kernel; i < f->n_kernels && f->kernels[i].start_ns < r->end_ns; i++) {
        const struct lk_interval *k = &f->kernels[i];

        any = true;
        if (k->start_ns > at)
            LK_PASS(add_gap(f, p, at, k->start_ns));
        at = k->end_ns > at ? k->end_ns : at;
    }
    if (any && at < r->end_ns)
        LK_PASS(add_gap(f, p, at, r->end_ns));
    return LK_OK;
}

static enum lk_status find_stalls(struct lk_rank_steps *s, const struct lk_interval *kernels,
                                  size_t n)
{
    struct finder f = {.s = s, .kernels = kernels, .n_kernels = n};

    for (size_t i = 0; i < s->n_steps; i++) {
        const struct lk_step *p = &s->steps[i];

        for (size_t k = p->first_range; p->n_collectives && k < p->first_range + p->n_ranges; k++)
            if (s->ranges[k].kind != LK_SPAN_INPUT)
                LK_PASS(add_range(&f, p, &s->ranges[k]));
    }
    return LK_OK;
}

/* Return the index in s->stalls of the first stall that ends after `at`, or n_stalls. */
static size_t stalls_after(const struct lk_rank_steps *s, uint64_t at)
{
    size_t lo = 0, hi = s->n_stalls;

    while (lo < hi) {
        size_t mid = (lo + hi) / 2;

        if (s->stalls[mid].end_ns <= at)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* Return the nanoseconds of [a, b) in which compute was stalled. */
static uint64_t stalled_ns(const struct lk_rank_steps *s, uint64_t a, uint64_t b)
{
    uint64_t sum = 0;

    for (size_t i = stalls_after(s, a); i < s->n_stalls && s->stalls[i].start_ns < b; i++) {
        uint64_t from = s->stalls[i].start_ns > a ? s->stalls[i].start_ns : a;
        uint64_t to = s->stalls[i].end_ns < b ? s->stalls[i].end_ns : b;

        sum += to - from;
    }
    return sum;
}

/* Return the nanoseconds of [a, b) that kernels cover, which may overlap; kernels[0] is the first
 * that may reach into it. */
static uint64_t covered_ns(const struct lk_interval *kernels, size_t n, uint64_t a, uint64_t b)
{
    uint64_t at = a, sum = 0;

    for (size_t i = 0; i < n && kernels[i].start_ns < b; i++) {
        uint64_t from = kernels[i].start_ns > at ? kernels[i].start_ns : at;
        uint64_t to = kernels[i].end_ns < b ? kernels[i].end_ns : b;

        if (to > from) {
            sum += to - from;
            at = to;
        }
    }
    return sum;
}

/* Set idle_ns of the ranges. pre: the stalls are found. */
static void find_idle(struct lk_rank_steps *s, const struct lk_interval *kernels, size_t n)
{
    size_t first = 0;

    for (size_t i = 0; i < s->n_ranges; i++) {
        struct lk_range *r = &s->ranges[i];
        uint64_t covered, busy;

        if (r->kind == LK_SPAN_INPUT)
            continue;
        while (first < n && kernels[first].end_ns <= r->start_ns)
            first++;
        covered = covered_ns(kernels + first, n - first, r->start_ns, r->end_ns);
        busy = covered + stalled_ns(s, r->start_ns, r->end_ns);
        if (covered > 0 && busy < r->end_ns - r->start_ns)
            r->idle_ns = r->end_ns - r->start_ns - busy;
    }
}

enum lk_status lk_stalls_find(struct lk_rank_steps *s, struct lk_interval *kernels, size_t n)
{
    if (!n)
        return LK_OK;
    qsort(kernels, n, sizeof *kernels, by_start);
    LK_PASS(find_stalls(s, kernels, n));
    find_idle(s, kernels, n);
    return LK_OK;
}

/* ---- Work ---- */

uint64_t lk_range_work_ns(const struct lk_rank_steps *s, uint64_t a, uint64_t b)
{
    return b - a - stalled_ns(s, a, b);
}

/* Return the work of the part of [from, to) that lies in [a, b). */
static uint64_t work_within(const struct lk_rank_steps *s, uint64_t from, uint64_t to, uint64_t a,
                            uint64_t b)
{
    from = from > a ? from : a;
    to = to < b ? to : b;
    return to > from ? lk_range_work_ns(s, from, to) : 0;
}

uint64_t lk_step_pending_ns(const struct lk_rank_steps *s, const struct lk_step *p, uint64_t a,
                            uint64_t b)
{
    uint64_t sum = 0;

    for (size_t i = p->first_collective; i < p->first_collective + p->n_collectives; i++)
        sum += work_within(s, s->collectives[i].arrival_ns, s->collectives[i].end_ns, a, b);
    return sum;
}

uint64_t lk_step_compute_ns(const struct lk_rank_steps *s, const struct lk_step *p, uint64_t a,
                            uint64_t b)
{
    uint64_t sum = 0;

    for (size_t i = p->first_range; i < p->first_range + p->n_ranges; i++)
        if (s->ranges[i].kind != LK_SPAN_INPUT)
            sum += work_within(s, s->ranges[i].start_ns, s->ranges[i].end_ns, a, b);
    return sum;
}

/* ---- Parts of a window ---- */

double lk_step_window_s(const struct lk_step *p)
{
    return lk_s_from_ns(p->end_ns - p->begin_ns);
}

static const enum lk_part part_of_kind[LK_SPAN_KIND_COUNT] = {
    [LK_SPAN_FORWARD] = LK_PART_FORWARD,
    [LK_SPAN_BACKWARD] = LK_PART_BACKWARD,
    [LK_SPAN_OPTIMIZER] = LK_PART_OPTIMIZER,
    [LK_SPAN_INPUT] = LK_PART_INPUT,
};

/* State of a walk along the window; the cursors only advance, so that the walk is linear. */
struct walk {
    const struct lk_rank_steps *s;
    const struct lk_step *p;
    const uint64_t *begin_ns;
    size_t work, input; /* cursors in ranges: own compute, input */
    size_t collective;  /* cursor in the step's collectives */
    size_t stall;       /* cursor in the stalls */
};

/*
 * Return the range that contains instant `at`, or NULL; lower *next to the time at which that may
 * change. `inputs`: among INPUT ranges, else among compute.
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

/* Return true if compute is stalled at `at`; lower *next likewise. */
static bool stalled_at(struct walk *w, uint64_t at, uint64_t *next)
{
    const struct lk_interval *x;
    uint64_t change;

    while (w->stall < w->s->n_stalls && w->s->stalls[w->stall].end_ns <= at)
        w->stall++;
    if (w->stall == w->s->n_stalls)
        return false;
    x = &w->s->stalls[w->stall];
    change = at < x->start_ns ? x->start_ns : x->end_ns;
    *next = change < *next ? change : *next;
    return at >= x->start_ns;
}

/* Return true if a collective is due at `at`; lower *next likewise, set *part to what of it the
 * rank spends its time on. */
static bool collective_at(struct walk *w, uint64_t at, uint64_t *next, enum lk_part *part)
{
    for (; w->collective < w->p->n_collectives; w->collective++) {
        const struct lk_collective *x = &w->s->collectives[w->p->first_collective + w->collective];
        uint64_t begin = w->begin_ns ? w->begin_ns[w->collective] : x->arrival_ns;
        uint64_t change = x->end_ns;

        if (x->end_ns <= at)
            continue;
        *part = LK_PART_WIRE;
        if (at < begin && begin < x->end_ns)
            change = begin;
        if (at < begin)
            *part = LK_PART_STRAGGLER;
        if (at < x->arrival_ns) {
            change = at < x->due_ns ? x->due_ns : x->arrival_ns;
            *part = LK_PART_LAUNCH;
        }
        *next = change < *next ? change : *next;
        return at >= x->due_ns;
    }
    return false;
}

/* Add the ns of each part to sum_ns, and (optional) those that each collective exposes to
 * exposed_ns. */
static void split(const struct lk_rank_steps *s, const struct lk_step *p, const uint64_t *begin_ns,
                  uint64_t *sum_ns, uint64_t *exposed_ns)
{
    struct walk w = {.s = s,
                     .p = p,
                     .begin_ns = begin_ns,
                     .work = p->first_range,
                     .input = p->first_range,
                     .stall = stalls_after(s, p->begin_ns)};

    for (uint64_t at = p->begin_ns, next; at < p->end_ns; at = next) {
        enum lk_part collective = LK_PART_WIRE;
        bool pending;
        const struct lk_range *work, *input;

        next = p->end_ns;
        work = range_at(&w, &w.work, false, at, &next);
        if (stalled_at(&w, at, &next))
            work = NULL;
        pending = collective_at(&w, at, &next, &collective);
        input = range_at(&w, &w.input, true, at, &next);
        if (work)
            sum_ns[part_of_kind[work->kind]] += next - at;
        else if (pending)
            sum_ns[collective] += next - at;
        else
            sum_ns[input ? LK_PART_INPUT : LK_PART_GAP] += next - at;
        if (!work && pending && exposed_ns)
            exposed_ns[w.collective] += next - at;
    }
}

void lk_step_split(const struct lk_rank_steps *s, const struct lk_step *p, const uint64_t *begin_ns,
                   struct lk_step_split *out)
{
    uint64_t sum_ns[LK_PART_COUNT] = {0};

    split(s, p, begin_ns, sum_ns, NULL);
    for (size_t i = 0; i < LK_PART_COUNT; i++)
        out->s[i] = lk_s_from_ns(sum_ns[i]);
}

void lk_step_exposed(const struct lk_rank_steps *s, const struct lk_step *p, uint64_t *exposed_ns)
{
    uint64_t sum_ns[LK_PART_COUNT] = {0};

    for (size_t i = 0; i < p->n_collectives; i++)
        exposed_ns[i] = 0;
    split(s, p, NULL, sum_ns, exposed_ns);
}

double lk_step_position(const struct lk_rank_steps *s, const struct lk_step *p, uint64_t at_ns,
                        int *out_micro_batch)
{
    double position = 0, done_ns = 0, all_ns = 0;
    int passes = 0;

    for (size_t i = p->first_range; i < p->first_range + p->n_ranges; i++) {
        const struct lk_range *r = &s->ranges[i];
        double work_ns, part_ns;

        if (r->kind == LK_SPAN_INPUT)
            continue;
        work_ns = (double)lk_range_work_ns(s, r->start_ns, r->end_ns);
        all_ns += r->kind == LK_SPAN_OPTIMIZER ? work_ns : 0;
        if (r->start_ns > at_ns)
            continue;
        part_ns = at_ns < r->end_ns ? (double)lk_range_work_ns(s, r->start_ns, at_ns) : work_ns;
        passes += r->kind == LK_SPAN_FORWARD;
        position = r->kind == LK_SPAN_FORWARD ? 0 : r->kind == LK_SPAN_BACKWARD ? 1 : 2;
        done_ns += r->kind == LK_SPAN_OPTIMIZER ? part_ns : 0;
        if (r->kind != LK_SPAN_OPTIMIZER)
            position += work_ns > 0 ? part_ns / work_ns : 1;
    }
    *out_micro_batch = passes > 1 ? passes - 1 : 0;
    return position == 2 && done_ns > 0 ? 2 + done_ns / all_ns : position;
}
