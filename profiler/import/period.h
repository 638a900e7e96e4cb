/* Find the smallest period of a sequence, e.g. of the collectives of a run: one step. */
#ifndef LK_PROFILER_IMPORT_PERIOD_H
#define LK_PROFILER_IMPORT_PERIOD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lk_period {
    size_t length; /* items of a period */
    size_t first;  /* index of the first item that is repeated */
    size_t n;      /* whole periods from there on */
};

/*
 * Find the stretch of keys[0..n) that repeats itself longest, and its smallest period. It must have
 * three periods or more and be half of the sequence at least. False: there is none.
 *
 * A stretch is sought around a few places of the sequence. Its period is a distance at which the
 * place's key comes again. The work is bounded by about 64 comparisons an item.
 */
bool lk_period_find(const uint64_t *keys, size_t n, struct lk_period *out);

#endif
