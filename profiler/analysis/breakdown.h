/*
 * Sum up what a device did of a time, whatever the steps are: how long it computed, communicated,
 * both, or nothing. The device is a GPU, by its events, or the host, by its compute and
 * collectives.
 *
 *     span      from the first start to the last end of all events
 *     idle      span less the union of all events
 *     compute   union of compute
 *     comm      union of communication
 *     exposed   comm less its intersection with compute
 */
#ifndef LK_PROFILER_ANALYSIS_BREAKDOWN_H
#define LK_PROFILER_ANALYSIS_BREAKDOWN_H

#include "base/status.h"
#include "base/table.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lk_breakdown {
    int64_t span_ns, idle_ns, compute_ns, comm_ns, exposed_ns;
    size_t n, n_unlinked; /* events counted; of imports, events without a launch in the trace */
    bool comm_alone; /* all of them are communication: nobody recorded compute, if there was any */
};

/* A list of intervals in which a device is used, each for one thing. A zeroed one is empty. */
enum lk_use { LK_USE_COMPUTE, LK_USE_COMMUNICATION, LK_USE_MEMORY };

struct lk_uses {
    struct lk_used {
        int64_t start_ns, end_ns;
        enum lk_use use;
    } * at;
    size_t n, capacity;
};
enum lk_status lk_uses_add(struct lk_uses *u, enum lk_use use, int64_t start_ns, int64_t end_ns);
/* Return what the intervals, which it sorts, sum to; all 0 without any. */
struct lk_breakdown lk_uses_sum(struct lk_uses *u);
void lk_uses_fini(struct lk_uses *u); /* zeroes it; safe on a zeroed one */

/* Return a time of a breakdown in seconds, NaN if nothing was counted; the same of a time that
 * compute decides, NaN if none was recorded; the covered share of the communication, NaN if there
 * is none, or no compute was recorded. */
double lk_breakdown_s(const struct lk_breakdown *b, int64_t ns);
double lk_breakdown_own_s(const struct lk_breakdown *b, int64_t ns);
double lk_breakdown_overlap(const struct lk_breakdown *b);

/* The columns of a breakdown `b` in a table (base/table.h). */
#define LK_BREAKDOWN_COLUMNS(X)                                                                    \
    X("span_s", "span", LK_DIM_TIME, 0, lk_breakdown_s(b, b->span_ns))                             \
    X("idle_s", "idle", LK_DIM_TIME, 0, lk_breakdown_own_s(b, b->idle_ns))                         \
    X("compute_s", "compute", LK_DIM_TIME, 0, lk_breakdown_own_s(b, b->compute_ns))                \
    X("comm_s", "comm", LK_DIM_TIME, 0, lk_breakdown_s(b, b->comm_ns))                             \
    X("exposed_s", "exposed", LK_DIM_TIME, 0, lk_breakdown_own_s(b, b->exposed_ns))                \
    X("overlap", "overlapped", LK_DIM_NONE, 4, lk_breakdown_overlap(b))

#endif
