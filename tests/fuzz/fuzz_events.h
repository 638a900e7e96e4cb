/* Use the events that an importer read of a fuzzed file: a rank's trace, a run of it, analysed. */
#ifndef LK_TESTS_FUZZ_EVENTS_H
#define LK_TESTS_FUZZ_EVENTS_H

#include "profiler/analysis.h"
#include "profiler/import/breakdown.h"
#include "profiler/import/rank.h"
#include "tests/fuzz/fuzz.h"

/* Use the events if they could be read, and free them. linked: the breakdown's convention. */
static inline void fuzz_events(enum lk_status read, struct lk_events *e, bool linked)
{
    const struct lk_rank_options options = {.source = "f", .world_size = 1, .device = -1};
    struct lk_trace *t = NULL;
    struct lk_breakdown b;
    struct lk_analysis a;
    struct lk_run run;

    if (read == LK_OK) {
        lk_events_sort(e);
        fuzz_must(lk_breakdown(e, -1, &(struct lk_convention){.linked = linked}, &b));
        t = calloc(1, sizeof *t);
        if (!t || lk_rank_trace(e, &options, t) != LK_OK || lk_run_take("f", t, 1, &run) != LK_OK) {
            lk_traces_free(t, t ? 1 : 0);
        } else {
            if (lk_analyze(&run, NULL, 0, &a) == LK_OK)
                lk_analysis_fini(&a);
            lk_run_fini(&run);
        }
    }
    lk_events_fini(e);
}

#endif
