/* Sum up a device's kernels and copies by name: how many, how long. Each counts in full, also where
 * two run at the same time. */
#ifndef LK_PROFILER_ANALYSIS_KERNEL_SUMS_H
#define LK_PROFILER_ANALYSIS_KERNEL_SUMS_H

#include "base/status.h"
#include "base/table.h"
#include "profiler/analysis/breakdown.h"

#include <stddef.h>
#include <stdint.h>

enum { LK_USES = LK_USE_MEMORY + 1 };

/* Those of one name and use. */
struct lk_kernel_sum {
    char *name; /* owned */
    enum lk_use use;
    size_t n;
    uint64_t total_ns, least_ns, most_ns;
};

/* A zeroed one is empty. */
struct lk_kernel_sums {
    struct lk_kernel_sum *at;
    size_t n, capacity;
};
void lk_kernel_sums_fini(struct lk_kernel_sums *s); /* zeroes it; safe on a zeroed one */

/*
 * Add one. Names are few and kernels many: *row is the caller's note of the sum of this name and
 * use, 0 at first, so that it is looked for once.
 */
enum lk_status lk_kernel_sums_add(struct lk_kernel_sums *s, const char *name, enum lk_use use,
                                  uint64_t ns, size_t *row);

/* Add rows to a table of lk_kernel_columns, the largest total first; sorts the sums. of_s: the time
 * of which each total is a share; NaN: not known. */
enum lk_status lk_kernel_sums_fill(struct lk_kernel_sums *s, double of_s, struct lk_table *t);
extern const struct lk_column lk_kernel_columns[];
extern const size_t lk_n_kernel_columns;

#endif
