#include "profiler/import/period.h"

#include "base/array.h"

/* Fewer periods may be chance. */
enum { PERIODS_MIN = 3, COMPARISONS_AN_ITEM = 64 };

/* Shares of the sequence at which a stretch is sought: a run has its odd parts, e.g. a start. */
static const double places[] = {0.5, 0.75, 0.25, 0.875};

/* Return the longest stretch with a period around a place; *budget counts comparisons. */
static struct lk_period stretch(const uint64_t *keys, size_t n, size_t at, size_t period,
                                size_t *budget)
{
    size_t lo = at, hi = at + 1, used;

    while (lo > 0 && keys[lo - 1] == keys[lo - 1 + period])
        lo--;
    while (hi + period < n && keys[hi] == keys[hi + period])
        hi++;
    used = hi - lo;
    *budget -= used < *budget ? used : *budget;
    return (struct lk_period){period, lo, (hi + period - lo) / period};
}

bool lk_period_find(const uint64_t *keys, size_t n, struct lk_period *out)
{
    struct lk_period best = {0};

    for (size_t p = 0; p < LK_COUNT(places); p++) {
        size_t at = (size_t)((double)n * places[p]), budget = n * COMPARISONS_AN_ITEM;

        for (size_t k = at + 1; k < n && (k - at) * PERIODS_MIN <= n && budget > 0; k++) {
            struct lk_period x;

            budget--;
            if (keys[k] != keys[at])
                continue;
            x = stretch(keys, n, at, k - at, &budget);
            /* Multiples of a period repeat no longer than it does. */
            if (x.n >= PERIODS_MIN && x.n * x.length >= best.n * best.length + x.length)
                best = x;
        }
    }
    if (best.n < PERIODS_MIN || best.n * best.length * 2 < n)
        return false;
    *out = best;
    return true;
}
