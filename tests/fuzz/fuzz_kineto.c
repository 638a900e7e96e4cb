/* Kineto traces: the lexer, the reader, and a run made of what was read, analysed. */
#include "profiler/analysis.h"
#include "profiler/import/breakdown.h"
#include "profiler/import/kineto.h"
#include "profiler/import/rank.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct lk_rank_options options = {.source = "f", .world_size = 1};
    struct lk_breakdown b;
    struct lk_analysis a;
    struct lk_run run;
    struct lk_events e;
    struct lk_trace *t = NULL;

    if (lk_kineto_read(fuzz_file(data, size), NULL, &e) == LK_OK) {
        lk_events_sort(&e);
        fuzz_must(lk_breakdown(&e, -1, &(struct lk_convention){.linked = size % 2}, &b));
        t = calloc(1, sizeof *t);
        if (!t || lk_rank_trace(&e, &options, t) != LK_OK ||
            lk_run_take("f", t, 1, &run) != LK_OK) {
            lk_traces_free(t, t ? 1 : 0);
        } else {
            if (lk_analyze(&run, NULL, 0, &a) == LK_OK)
                lk_analysis_fini(&a);
            lk_run_fini(&run);
        }
    }
    lk_events_fini(&e);
    return 0;
}
