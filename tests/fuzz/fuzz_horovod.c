/* Horovod's timelines, and a run made of what was read. */
#include "profiler/import/horovod.h"
#include "profiler/import/lateness.h"
#include "profiler/import/rank.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct lk_rank_options options = {.source = "f", .world_size = 1};
    struct lk_table *t = NULL;
    struct lk_trace trace;
    struct lk_events e;

    if (lk_horovod_read(fuzz_file(data, size), NULL, &e) == LK_OK) {
        for (size_t i = 0; i < e.n_events; i++)
            if (e.events[i].end_ns < e.events[i].start_ns)
                abort();
        fuzz_must(lk_lateness_table(&e.lateness, &t));
        lk_events_sort(&e);
        if (lk_rank_trace(&e, &options, &trace) == LK_OK)
            lk_trace_fini(&trace);
    }
    lk_table_destroy(t);
    lk_events_fini(&e);
    return 0;
}
