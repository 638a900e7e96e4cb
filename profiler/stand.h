/*
 * When a rank's compute stood: inside a forward or backward range, for a collective that blocks its
 * program (SyncBatchNorm's, FSDP's gathers). A range alone does not show it; its kernels do.
 * Between two kernels of a range, the time that a collective is pending which ends there is
 * standing: the next kernel waited for it. A collective that goes on into the next kernel held
 * nobody up, and a gap without a collective's end (the host was late) stays compute, as does a
 * range without kernels.
 */
#ifndef LK_PROFILER_STAND_H
#define LK_PROFILER_STAND_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

struct lk_interval {
    uint64_t start_ns, end_ns;
};

struct lk_rank_steps;

/* Fills s->stands from its ranges and transfers, which are ready, and the compute stream's kernels
 * and copies, which it sorts. */
enum lk_status lk_stands_find(struct lk_rank_steps *s, struct lk_interval *kernels, size_t n);
/* Sets idle_ns of the ranges: no kernel ran there, and none waited for a collective that blocks.
 * pre: the stands are there, and kernels sorted by start. */
void lk_ranges_find_idle(struct lk_rank_steps *s, const struct lk_interval *kernels, size_t n);
/* Nanoseconds of [a, b) that compute stood. */
uint64_t lk_stands_ns(const struct lk_rank_steps *s, uint64_t a, uint64_t b);
/* The first stand that ends after `at`, an index into s->stands; n_stands: there is none. */
size_t lk_stands_after(const struct lk_rank_steps *s, uint64_t at);

#endif
