/* The parts of `lockstep analyze`, private to commands/analyze*.c. */
#ifndef LK_COMMANDS_ANALYZE_IMPL_H
#define LK_COMMANDS_ANALYZE_IMPL_H

#include "base/page.h"
#include "base/status.h"
#include "profiler/analysis/analysis_pool.h"

#include <stddef.h>
#include <stdint.h>

/* Runs that are analysed: those of one configuration are neighbours, and a pool. */
struct analyzed {
    struct lk_analysis *runs; /* n of them */
    size_t n;
    struct lk_pool *pools; /* by GPUs, local batch, accumulation; the last one is the answer's */
    size_t n_pools;
};

/* Say what the last configuration reaches, where most of its time goes and what to do; add its
 * numbers, and the efficiency and step of the others, as values. */
enum lk_status analyze_answer(const struct analyzed *a, struct lk_page *page);
/* Make the table of configurations, a row each. */
enum lk_status analyze_configurations(const struct analyzed *a, struct lk_table **out);

#endif
