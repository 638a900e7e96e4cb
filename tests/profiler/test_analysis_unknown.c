/* Analyse runs of which something is not known: no table has a 0 for that. */
#include "profiler/analysis/analysis.h"

#include "base/array.h"
#include "facts/run_facts.h"
#include "tests/rigs/findings.h"
#include "tests/rigs/must.h"
#include "tests/rigs/step_model.h"
#include "tests/rigs/suite.h"

#include <stdlib.h>
#include <string.h>

/* Return true if every cell of a table's column is empty, or there is no row. */
static bool is_empty(const struct lk_analysis *a, enum lk_analysis_kind kind, const char *column)
{
    struct lk_table *t = NULL;
    bool empty = true;

    must(lk_analysis_table(a, kind, &t));
    for (size_t i = 0; i < t->n_rows; i++)
        empty = empty && lk_table_cell(t, i, column)->type == LK_CELL_EMPTY;
    lk_table_destroy(t);
    return empty;
}

static bool has_row(const struct lk_analysis *a, enum lk_loss loss)
{
    struct lk_table *t = NULL;
    bool found = false;

    must(lk_analysis_table(a, LK_ANALYSIS_WATERFALL, &t));
    for (size_t i = 0; i < t->n_rows; i++)
        found = found || !strcmp(lk_table_cell(t, i, "loss")->text, lk_loss_key(loss));
    lk_table_destroy(t);
    return found;
}

/* An import of one rank of two does not tell how long ranks waited, nor one with groups: no table
 * has a 0 there, and the wire may be a wait. */
START_TEST(waits_are_not_known)
{
    static const struct {
        enum lk_analysis_kind kind;
        const char *column;
    } cells[] = {
        {LK_ANALYSIS_RANKS, "straggler_s"},  {LK_ANALYSIS_OVERLAP, "exposed_wait_s"},
        {LK_ANALYSIS_BUCKETS, "wait_s"},     {LK_ANALYSIS_BUCKETS, "unresolved"},
        {LK_ANALYSIS_STRAGGLERS, "late_n"},  {LK_ANALYSIS_STRAGGLERS, "late_share"},
        {LK_ANALYSIS_STRAGGLERS, "waits_s"},
    };
    bool known = _i == 0, alone = _i == 1, grouped = _i == 2;
    const struct step_model m =
        step_model_default((struct step_model){.bandwidth_Bps = 2e8, .ranks = grouped ? 4 : 2});
    struct lk_trace *traces = NULL;
    struct lk_run run = {0};
    struct lk_analysis a = {0};

    must(step_model_run(&m, &traces, NULL));
    for (int k = 0; k < m.ranks && !known; k++)
        must(lk_run_info_config(&traces[k].info, LK_IMPORT_CONFIG_KEY, "x"));
    for (int k = 0; k < m.ranks && grouped; k++)
        must(lk_run_info_config(&traces[k].info, LK_GROUPS_CONFIG_KEY, "2"));
    if (alone)
        lk_trace_fini(&traces[1]);
    must(lk_run_take("model", traces, alone ? 1 : (size_t)m.ranks, &run));
    must(lk_analyze(&run, NULL, 0, &a));
    print_findings(&a);
    ck_assert(has_finding(&a, known
                                  ? "wire bound: collectives block compute "
                                  : "wire bound, or waiting for other ranks: collectives block "));
    ck_assert(!has_finding(&a, "clocks"));
    for (size_t i = 0; i < LK_COUNT(cells); i++)
        ck_assert_msg(is_empty(&a, cells[i].kind, cells[i].column) == !known, "%s",
                      cells[i].column);
    ck_assert(has_row(&a, LK_LOSS_STRAGGLER) == known);
    ck_assert(has_row(&a, LK_LOSS_SLOW_RANK) == !alone);
    ck_assert(is_empty(&a, LK_ANALYSIS_STRAGGLERS, "slow_s") == alone);
    lk_analysis_fini(&a);
    lk_run_fini(&run);
}
END_TEST

/* The last of two ranks need not be the last of four. */
START_TEST(the_last_of_those_here)
{
    const struct step_model m =
        step_model_default((struct step_model){.ranks = 4, .slow = {0, 0.2}});
    struct lk_trace *traces = NULL;
    struct lk_run run = {0};
    struct lk_analysis a = {0};

    must(step_model_run(&m, &traces, NULL));
    for (int k = 0; k < m.ranks && _i; k++)
        must(lk_run_info_config(&traces[k].info, LK_IMPORT_CONFIG_KEY, "x"));
    for (int k = 2; k < m.ranks && _i; k++)
        lk_trace_fini(&traces[k]);
    must(lk_run_take("model", traces, _i ? 2 : 4, &run));
    must(lk_analyze(&run, NULL, 0, &a));
    print_findings(&a);
    ck_assert(has_finding(&a, _i ? "late rank: rank 1 is the last of those here at 100 %"
                                 : "late rank: rank 1 is the last at 100 %"));
    lk_analysis_fini(&a);
    lk_run_fini(&run);
}
END_TEST

/* Traces without resolution: nothing is a share of such a step. */
START_TEST(steps_without_time)
{
    const struct step_model m = step_model_default((struct step_model){0});
    struct lk_trace *traces = NULL;
    struct lk_run run = {0};
    struct lk_analysis a = {0};

    must(step_model_run(&m, &traces, NULL));
    for (int k = 0; k < m.ranks; k++)
        for (size_t i = 0; i < traces[k].n_spans; i++)
            traces[k].spans[i].span.start_ns = traces[k].spans[i].span.end_ns = 7;
    must(lk_run_take("model", traces, (size_t)m.ranks, &run));
    ck_assert_uint_gt(run.n_steps, 0);
    ck_assert_int_eq(lk_analyze(&run, NULL, 0, &a), LK_EEVIDENCE);
    ck_assert_str_eq(lk_error_text(), "model: its steps take no time");
    lk_run_fini(&run);
}
END_TEST
SUITE(analysis_unknown, t)
{
    tcase_add_loop_test(t, waits_are_not_known, 0, 3);
    tcase_add_loop_test(t, the_last_of_those_here, 0, 2);
    tcase_add_test(t, steps_without_time);
}
