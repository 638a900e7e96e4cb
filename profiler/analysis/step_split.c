/*
 * Label every instant of a step by its cause. Divisions: stalls and gaps, work, labels.
 *
 * Stalls are times in a forward or backward range when a rank's compute was blocked by a collective
 * (SyncBatchNorm's, FSDP's gathers). The range alone does not show them; its kernels do. Between
 * two kernels of a range, the time during which a collective is pending that ends there is a stall:
 * the next kernel waited for it. A collective that continues into the next kernel blocked nothing.
 * The rest of the time between a GPU's kernels is a gap: the host had not launched the next. A
 * range without kernels, and on a host one with them, is compute as a whole.
 */
#include "base/array.h"
#include "base/units.h"
#include "profiler/analysis/steps.h"

#include <stddef.h>
#include <stdlib.h>

/* ---- Stalls and gaps ---- */

static int by_start(const void *a, const void *b)
{
    const struct lk_interval *x = a, *y = b;

    return (x->start_ns > y->start_ns) - (x->start_ns < y->start_ns);
}

void lk_intervals_merge(struct lk_intervals *x)
{
    size_t n = 0;

    if (x->n)
        qsort(x->at, x->n, sizeof *x->at, by_start);
    for (size_t i = 0; i < x->n; i++) {
        if (!n || x->at[i].start_ns > x->at[n - 1].end_ns)
            x->at[n++] = x->at[i];
        else if (x->at[i].end_ns > x->at[n - 1].end_ns)
            x->at[n - 1].end_ns = x->at[i].end_ns;
    }
    x->n = n;
}

enum lk_status lk_intervals_add(struct lk_intervals *x, uint64_t from, uint64_t to)
{
    if (x->n && x->at[x->n - 1].end_ns == from) {
        x->at[x->n - 1].end_ns = to;
        return LK_OK;
    }
    LK_PASS(lk_array_grow(&x->at, &x->capacity, x->n + 1, sizeof *x->at));
    x->at[x->n++] = (struct lk_interval){from, to};
    return LK_OK;
}

/* Return the index of the first interval that ends after `at`, or their number. */
static size_t first_after(const struct lk_intervals *x, uint64_t at)
{
    size_t lo = 0, hi = x->n;

    while (lo < hi) {
        size_t mid = (lo + hi) / 2;

        if (x->at[mid].end_ns <= at)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* Return the nanoseconds of [a, b) that the intervals cover. */
static uint64_t covered_ns(const struct lk_intervals *x, uint64_t a, uint64_t b)
{
    uint64_t sum = 0;

    for (size_t i = first_after(x, a); i < x->n && x->at[i].start_ns < b; i++) {
        uint64_t from = x->at[i].start_ns > a ? x->at[i].start_ns : a;
        uint64_t to = x->at[i].end_ns < b ? x->at[i].end_ns : b;

        sum += to - from;
    }
    return sum;
}

/* Split the time between two kernels of a step: into a stall for each collective that ends in it,
 * in order, from when it is due or the previous stall's end on; and gaps, where they are known. */
static enum lk_status split_between(struct lk_rank_steps *s, const struct lk_step *p, bool gaps,
                                    uint64_t from, uint64_t to)
{
    for (size_t i = p->first_collective; i < p->first_collective + p->n_collectives; i++) {
        const struct lk_collective *x = &s->collectives[i];
        uint64_t start = x->due_ns > from ? x->due_ns : from;

        if (x->end_ns <= from || x->end_ns > to || start >= x->end_ns)
            continue;
        if (gaps && start > from)
            LK_PASS(lk_intervals_add(&s->gaps, from, start));
        LK_PASS(lk_intervals_add(&s->stalls, start, x->end_ns));
        from = x->end_ns;
    }
    return gaps && to > from ? lk_intervals_add(&s->gaps, from, to) : LK_OK;
}

static enum lk_status split_range(struct lk_rank_steps *s, const struct lk_step *p,
                                  const struct lk_range *r, const struct lk_intervals *kernels)
{
    uint64_t at = r->start_ns;
    size_t i = first_after(kernels, r->start_ns);

    if (i == kernels->n || kernels->at[i].start_ns >= r->end_ns)
        return s->by_kernels ? lk_intervals_add(&s->kernels, r->start_ns, r->end_ns) : LK_OK;
    for (; i < kernels->n && kernels->at[i].start_ns < r->end_ns; i++) {
        if (kernels->at[i].start_ns > at)
            LK_PASS(split_between(s, p, s->by_kernels, at, kernels->at[i].start_ns));
        at = kernels->at[i].end_ns;
    }
    return at < r->end_ns ? split_between(s, p, s->by_kernels, at, r->end_ns) : LK_OK;
}

enum lk_status lk_stalls_find(struct lk_rank_steps *s, struct lk_intervals *kernels)
{
    lk_intervals_merge(kernels);
    for (size_t i = 0; i < s->n_steps; i++) {
        const struct lk_step *p = &s->steps[i];

        for (size_t k = p->first_range; k < p->first_range + p->n_ranges; k++)
            if (s->ranges[k].kind != LK_SPAN_INPUT)
                LK_PASS(split_range(s, p, &s->ranges[k], kernels));
    }
    lk_intervals_merge(&s->kernels);
    lk_intervals_merge(&s->stalls); /* ranges may overlap */
    lk_intervals_merge(&s->gaps);
    return LK_OK;
}

/* ---- Work ---- */

uint64_t lk_range_work_ns(const struct lk_rank_steps *s, uint64_t a, uint64_t b)
{
    return b - a - covered_ns(&s->stalls, a, b);
}

uint64_t lk_range_busy_ns(const struct lk_rank_steps *s, uint64_t a, uint64_t b)
{
    return lk_range_work_ns(s, a, b) - covered_ns(&s->gaps, a, b);
}

/* Return the work of the part of [from, to) that lies in [a, b). */
static uint64_t work_within(const struct lk_rank_steps *s, uint64_t from, uint64_t to, uint64_t a,
                            uint64_t b)
{
    from = from > a ? from : a;
    to = to < b ? to : b;
    return to > from ? lk_range_work_ns(s, from, to) : 0;
}

/* Return the first collective that may be under way in a step. */
static size_t first_pending(const struct lk_rank_steps *s, const struct lk_step *p)
{
    size_t i = p->first_collective;

    while (s->staleness && i > 0 && s->collectives[i - 1].step + (uint32_t)s->staleness >= p->step)
        i--;
    return i;
}

uint64_t lk_step_pending_ns(const struct lk_rank_steps *s, const struct lk_step *p, uint64_t a,
                            uint64_t b)
{
    uint64_t sum = 0;

    for (size_t i = first_pending(s, p); i < p->first_collective + p->n_collectives; i++)
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

uint64_t lk_step_covered_ns(const struct lk_rank_steps *s, const struct lk_step *p, uint64_t a,
                            uint64_t b)
{
    return s->by_kernels ? covered_ns(&s->kernels, a, b) : lk_step_compute_ns(s, p, a, b);
}

/* ---- Labels ---- */

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
    const uint64_t *begin_ns; /* of the step's collectives, behind those of n_before ones before */
    size_t n_before;
    size_t work, input; /* cursors in ranges: own compute, input */
    size_t collective;  /* cursor in the rank's collectives */
    size_t stall, gap, kernel;
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

/* Return true if `at` lies in one of the intervals; lower *next likewise. */
static bool inside(const struct lk_intervals *x, size_t *cursor, uint64_t at, uint64_t *next)
{
    uint64_t change;

    while (*cursor < x->n && x->at[*cursor].end_ns <= at)
        ++*cursor;
    if (*cursor == x->n)
        return false;
    change = at < x->at[*cursor].start_ns ? x->at[*cursor].start_ns : x->at[*cursor].end_ns;
    *next = change < *next ? change : *next;
    return at >= x->at[*cursor].start_ns;
}

/* Return true if a collective is due at `at`; lower *next likewise, set *part to what of it the
 * rank spends its time on. */
static bool collective_at(struct walk *w, uint64_t at, uint64_t *next, enum lk_part *part)
{
    const size_t first = w->p->first_collective;

    for (; w->collective < first + w->p->n_collectives; w->collective++) {
        const struct lk_collective *x = &w->s->collectives[w->collective];
        bool known = w->begin_ns && w->collective + w->n_before >= first;
        uint64_t begin =
            known ? *(w->begin_ns + ((ptrdiff_t)w->collective - (ptrdiff_t)first)) : x->arrival_ns;
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

/* A label says what a rank does from an instant until the next change. */
struct label {
    enum lk_part part;
    bool gap;                    /* of a pass: no kernel of it runs, and no collective blocks */
    bool computes;               /* a kernel runs that is no communication's */
    bool exchanges, moves;       /* it has arrived at a collective; so have all */
    const struct lk_range *work; /* the pass that it works on; NULL: none */
};

static struct label label_at(struct walk *w, uint64_t at, uint64_t *next)
{
    const struct lk_rank_steps *s = w->s;
    enum lk_part of = LK_PART_WIRE;
    struct label l = {.work = range_at(w, &w->work, false, at, next)};
    bool stalled = inside(&s->stalls, &w->stall, at, next);
    bool pending = collective_at(w, at, next, &of);
    const struct lk_range *input = range_at(w, &w->input, true, at, next);

    l.gap = inside(&s->gaps, &w->gap, at, next) && l.work;
    l.computes = inside(&s->kernels, &w->kernel, at, next);
    if (stalled && !l.computes)
        l.work = NULL;
    if (!s->by_kernels)
        l.computes = l.work != NULL;
    l.exchanges = pending && of != LK_PART_LAUNCH;
    l.moves = pending && of == LK_PART_WIRE;
    if (l.work)
        l.part = part_of_kind[l.work->kind];
    else if (pending && !l.computes)
        l.part = of;
    else
        l.part = input ? LK_PART_INPUT : LK_PART_GAP;
    return l;
}

/* The ns of a step, and (optional) those in which each collective blocks the rank. */
struct sums {
    uint64_t part[LK_PART_COUNT], gap[LK_PART_COUNT], compute, comm, moving, exposed, *blocked;
};

static void split(const struct lk_rank_steps *s, const struct lk_step *p, const uint64_t *begin_ns,
                  size_t n_before, struct sums *sums)
{
    struct walk w = {.s = s,
                     .p = p,
                     .begin_ns = begin_ns,
                     .n_before = n_before,
                     .collective = first_pending(s, p),
                     .work = p->first_range,
                     .input = p->first_range,
                     .stall = first_after(&s->stalls, p->begin_ns),
                     .gap = first_after(&s->gaps, p->begin_ns),
                     .kernel = first_after(&s->kernels, p->begin_ns)};

    for (uint64_t at = p->begin_ns, next; at < p->end_ns; at = next) {
        struct label l;
        uint64_t ns;

        next = p->end_ns;
        l = label_at(&w, at, &next);
        ns = next - at;
        sums->part[l.part] += ns;
        sums->gap[l.part] += l.gap ? ns : 0;
        sums->compute += l.computes ? ns : 0;
        sums->comm += l.exchanges ? ns : 0;
        sums->moving += l.moves ? ns : 0;
        sums->exposed += l.exchanges && !l.computes ? ns : 0;
        if (sums->blocked && l.part >= LK_PART_LAUNCH && l.part <= LK_PART_WIRE &&
            w.collective >= p->first_collective)
            sums->blocked[w.collective - p->first_collective] += ns;
    }
}

void lk_step_split(const struct lk_rank_steps *s, const struct lk_step *p, const uint64_t *begin_ns,
                   struct lk_step_split *out)
{
    lk_step_split_late(s, p, begin_ns, 0, out);
}

void lk_step_split_late(const struct lk_rank_steps *s, const struct lk_step *p,
                        const uint64_t *begin_ns, size_t n_before, struct lk_step_split *out)
{
    struct sums sums = {.blocked = NULL};

    split(s, p, begin_ns, n_before, &sums);
    for (size_t i = 0; i < LK_PART_COUNT; i++) {
        out->s[i] = lk_s_from_ns(sums.part[i]);
        out->gap_s[i] = lk_s_from_ns(sums.gap[i]);
    }
    out->compute_s = lk_s_from_ns(sums.compute);
    out->comm_s = lk_s_from_ns(sums.comm);
    out->moving_s = lk_s_from_ns(sums.moving);
    out->exposed_s = lk_s_from_ns(sums.exposed);
}

void lk_step_split_add(struct lk_step_split *to, const struct lk_step_split *x, double weight)
{
    for (size_t i = 0; i < LK_PART_COUNT; i++) {
        to->s[i] += weight * (x->s[i] - x->gap_s[i]);
        to->s[LK_PART_GAP] += weight * x->gap_s[i];
        to->gap_s[i] += weight * x->gap_s[i];
    }
    to->compute_s += weight * x->compute_s;
    to->comm_s += weight * x->comm_s;
    to->moving_s += weight * x->moving_s;
    to->exposed_s += weight * x->exposed_s;
}

void lk_step_blocked(const struct lk_rank_steps *s, const struct lk_step *p, uint64_t *blocked_ns)
{
    struct sums sums = {.blocked = blocked_ns};

    for (size_t i = 0; i < p->n_collectives; i++)
        blocked_ns[i] = 0;
    split(s, p, NULL, 0, &sums);
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
