/*
 * What a GPU did of the time of a trace, from its events alone, whatever the steps are. Peers count
 * differently, so the convention is said (struct lk_convention, and docs/import.md):
 *
 *     span      from the first start to the last end of all events of the GPU
 *     idle      span less the union of all events
 *     compute   union of the kernels that are no communication
 *     comm      union of communication
 *     exposed   comm less its intersection with compute
 */
#ifndef LK_PROFILER_IMPORT_BREAKDOWN_H
#define LK_PROFILER_IMPORT_BREAKDOWN_H

#include "profiler/import/event.h"

struct lk_convention {
    bool linked;            /* only events whose launch is in the trace; else all */
    bool memset_is_compute; /* TraceLens counts it so, HTA does not */
    const char *patterns;   /* kernels whose names contain one of these, apart by commas, are
                               communication, too; or NULL */
};

struct lk_breakdown {
    int64_t span_ns, idle_ns, compute_ns, comm_ns, exposed_ns;
    size_t n, n_unlinked; /* events counted; events without a launch in the trace */
};

/* Tell for every name of the events whether a kernel of that name is communication: a bool a name,
 * freed by the caller. */
enum lk_status lk_communication_names(const struct lk_events *e, const char *patterns, bool **out);
/* Break down the events of one GPU, which are sorted; device: its number, or -1 for all. All 0
 * without events. */
enum lk_status lk_breakdown(const struct lk_events *e, int64_t device,
                            const struct lk_convention *convention, struct lk_breakdown *out);

#endif
