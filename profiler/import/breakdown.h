/*
 * Sum up what a GPU did of the time of a trace (profiler/analysis/breakdown.h), from its events
 * alone. Peers count differently, so the caller chooses a convention (docs/import.md).
 */
#ifndef LK_PROFILER_IMPORT_BREAKDOWN_H
#define LK_PROFILER_IMPORT_BREAKDOWN_H

#include "profiler/analysis/breakdown.h"
#include "profiler/analysis/kernel_sums.h"
#include "profiler/import/event.h"

struct lk_convention {
    bool linked;            /* only events whose launch is in the trace; else all */
    bool memset_is_compute; /* TraceLens counts it so, HTA does not */
    const char *patterns;   /* kernels whose names contain one of these, apart by commas, are
                               communication, too; or NULL */
};

/* Tell for every name of the events whether a kernel of that name is communication: a bool a name,
 * freed by the caller. */
enum lk_status lk_communication_names(const struct lk_events *e, const char *patterns, bool **out);
/* Tell whether an event is a kernel of communication: one of such a name, or of which the source
 * says what it reduces. */
bool lk_event_is_communication(const struct lk_import_event *x, const bool *names);
/* Break down the events of one GPU, which are sorted; device: its number, or -1 for all. All 0
 * without events. */
enum lk_status lk_breakdown(const struct lk_events *e, int64_t device,
                            const struct lk_convention *convention, struct lk_breakdown *out);
/* Add the kernels and copies of one GPU, or of all (-1), by name. patterns as above. */
enum lk_status lk_breakdown_kernels(const struct lk_events *e, int64_t device, const char *patterns,
                                    struct lk_kernel_sums *out);

#endif
