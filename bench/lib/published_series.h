/*
 * Series of published throughputs: one job and machine at several counts of GPUs.
 *
 * Weak: rows of one source file, model, GPU, precision, batch per GPU, accumulation, sequence
 * length and interconnect, whose local batch is left open (0). Strong: the same, but of one global
 * batch instead, with the local batch and accumulation of each row. Of several rows at a count the
 * last one counts.
 */
#ifndef LK_BENCH_LIB_PUBLISHED_SERIES_H
#define LK_BENCH_LIB_PUBLISHED_SERIES_H

#include "base/status.h"
#include "facts/config.h"

#include <stdbool.h>
#include <stddef.h>

struct published_series {
    char *key, *source, *repository, *name, *gpu, *framework;
    char tier;
    bool strong;
    struct lk_scaling_point *points; /* ascending in GPUs; three or more */
    size_t n, capacity;
};

struct published_list {
    struct published_series *v;
    size_t n, capacity;
};

/* Read the series of tiers A and B: the weak ones, then the strong ones. */
enum lk_status published_series_read(struct published_list *out);
void published_series_fini(struct published_list *l); /* safe on a zeroed one */

#endif
