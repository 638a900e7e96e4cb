/* When compute stood for a blocking collective. */
#include "profiler/stand.h"

#include "base/array.h"
#include "profiler/steps.h"

#include <stdlib.h>

static int by_start(const void *a, const void *b)
{
    const struct lk_interval *x = a, *y = b;

    return (x->start_ns > y->start_ns) - (x->start_ns < y->start_ns);
}

/* What is under construction, and the cursor of the walk. */
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

    if (s->n_stands && s->stands[s->n_stands - 1].end_ns >= from) {
        s->stands[s->n_stands - 1].end_ns = to;
        return LK_OK;
    }
    st = lk_array_grow(&s->stands, &f->capacity, s->n_stands + 1, sizeof *s->stands);
    if (st == LK_OK)
        s->stands[s->n_stands++] = (struct lk_interval){from, to};
    return st;
}

/* The collectives of a step that end in a gap, in order: from where each was pending in it. */
static enum lk_status add_gap(struct finder *f, const struct lk_step *p, uint64_t from, uint64_t to)
{
    enum lk_status st = LK_OK;

    for (size_t i = p->first_transfer; i < p->first_transfer + p->n_transfers; i++) {
        const struct lk_transfer *x = &f->s->transfers[i];
        uint64_t start = x->arrival_ns > from ? x->arrival_ns : from;

        if (x->end_ns <= from || x->end_ns > to || start >= x->end_ns)
            continue;
        LK_TRY(add(f, start, x->end_ns));
        from = x->end_ns;
    }
out:
    return st;
}

static enum lk_status add_range(struct finder *f, const struct lk_step *p, const struct lk_range *r)
{
    enum lk_status st = LK_OK;
    uint64_t at = r->start_ns;
    bool any = false;

    while (f->kernel < f->n_kernels && f->kernels[f->kernel].end_ns <= r->start_ns)
        f->kernel++;
    for (size_t i = f->kernel; i < f->n_kernels && f->kernels[i].start_ns < r->end_ns; i++) {
        const struct lk_interval *k = &f->kernels[i];

        any = true;
        if (k->start_ns > at)
            LK_TRY(add_gap(f, p, at, k->start_ns));
        at = k->end_ns > at ? k->end_ns : at;
    }
    if (any && at < r->end_ns)
        LK_TRY(add_gap(f, p, at, r->end_ns));
out:
    return st;
}

enum lk_status lk_stands_find(struct lk_rank_steps *s, struct lk_interval *kernels, size_t n)
{
    enum lk_status st = LK_OK;
    struct finder f = {.s = s, .kernels = kernels, .n_kernels = n};

    if (!n)
        return LK_OK;
    qsort(kernels, n, sizeof *kernels, by_start);
    for (size_t i = 0; i < s->n_steps; i++) {
        const struct lk_step *p = &s->steps[i];

        for (size_t k = p->first_range; p->n_transfers && k < p->first_range + p->n_ranges; k++)
            if (s->ranges[k].kind != LK_SPAN_INPUT)
                LK_TRY(add_range(&f, p, &s->ranges[k]));
    }
out:
    return st;
}

/* Of [a, b), from the first kernel on that may reach into it; kernels may overlap. */
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

void lk_ranges_find_idle(struct lk_rank_steps *s, const struct lk_interval *kernels, size_t n)
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
        busy = covered + lk_stands_ns(s, r->start_ns, r->end_ns);
        if (covered > 0 && busy < r->end_ns - r->start_ns)
            r->idle_ns = r->end_ns - r->start_ns - busy;
    }
}

size_t lk_stands_after(const struct lk_rank_steps *s, uint64_t at)
{
    size_t lo = 0, hi = s->n_stands;

    while (lo < hi) {
        size_t mid = (lo + hi) / 2;

        if (s->stands[mid].end_ns <= at)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

uint64_t lk_stands_ns(const struct lk_rank_steps *s, uint64_t a, uint64_t b)
{
    uint64_t sum = 0;

    for (size_t i = lk_stands_after(s, a); i < s->n_stands && s->stands[i].start_ns < b; i++) {
        uint64_t from = s->stands[i].start_ns > a ? s->stands[i].start_ns : a;
        uint64_t to = s->stands[i].end_ns < b ? s->stands[i].end_ns : b;

        sum += to - from;
    }
    return sum;
}
