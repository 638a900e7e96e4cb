/* Use the events that a reader accepted as a run does: break them down, make a trace and its
 * analysis, and export its steps. */
#ifndef LK_TESTS_FUZZ_EVENTS_H
#define LK_TESTS_FUZZ_EVENTS_H

#include "profiler/analysis/analysis.h"
#include "profiler/analysis/step_graph.h"
#include "profiler/import/breakdown.h"
#include "profiler/import/rank.h"
#include "tests/fuzz/fuzz.h"

/* Export what can be exported: nodes depend on earlier ones alone, and end after they start. */
static inline void fuzz_graphs(const struct lk_run *run)
{
    for (size_t i = 0; i < run->ranks[0].n_steps; i++) {
        struct lk_chakra_graph g;

        if (lk_step_graph(&run->traces[0], &run->ranks[0], &run->ranks[0].steps[i], &g) != LK_OK)
            continue;
        for (size_t k = 0; k < g.n; k++) {
            const struct lk_chakra_node *node = &g.nodes[k];

            if (node->end_us < node->start_us)
                abort();
            for (size_t d = 0; d < node->n_deps; d++)
                if (g.deps[node->first_dep + d] >= k ||
                    g.nodes[g.deps[node->first_dep + d]].end_us > node->start_us)
                    abort();
        }
        lk_chakra_graph_fini(&g);
    }
}

/* Use events; linked: count those alone that have a launch. */
static inline void fuzz_events(struct lk_events *e, bool linked)
{
    const struct lk_import_rank_options options = {.source = "f", .world_size = 1, .device = -1};
    struct lk_trace *t = calloc(1, sizeof *t);
    struct lk_breakdown b;
    struct lk_analysis a;
    struct lk_run run;

    lk_events_sort(e);
    fuzz_must(lk_breakdown(e, -1, &(struct lk_convention){.linked = linked}, &b));
    if (!t || lk_import_trace(e, &options, t) != LK_OK || lk_run_take("f", t, 1, &run) != LK_OK) {
        lk_traces_free(t, t ? 1 : 0);
        return;
    }
    if (lk_analyze(&run, NULL, 0, &a) == LK_OK)
        lk_analysis_fini(&a);
    fuzz_graphs(&run);
    lk_run_fini(&run);
}

#endif
