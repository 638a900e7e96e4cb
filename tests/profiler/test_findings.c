/* Findings of runs whose truth is known: causes, order, and what each detector tells or does not.
 */
#include "profiler/analysis.h"

#include "base/array.h"
#include "tests/rigs/must.h"
#include "tests/rigs/step_model.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <string.h>

static void analyze_model(const struct step_model *m, struct lk_run *run, struct lk_analysis *a)
{
    struct lk_trace *traces = NULL;

    must(step_model_run(m, &traces, NULL));
    must(lk_run_take("model", traces, (size_t)m->ranks, run));
    must(lk_analyze(run, NULL, 0, a));
}

/* ---- Causes ---- */

/* A cause stands once, before its consequences, which are as deep as they have causes; the table
 * indents them, and has no next step for them. */
START_TEST(causes_stand_over_consequences)
{
    static const struct {
        enum lk_finding_id effect, cause;
        int rank; /* of the effect */
        struct step_model change;
    } cases[] = {
        {LK_FINDING_LATE_RANK, LK_FINDING_SLOW_RANK, 1, {.slow = {0, 0.2}}},
        {LK_FINDING_LATE_RANK, LK_FINDING_RANK_INPUT, 1, {.extra_input_s = {0, 4e-3}}},
        {LK_FINDING_LATE_RANK, LK_FINDING_RANK_LAUNCH, 1, {.launch_s = {5e-5, 2e-3}}},
        {LK_FINDING_INPUT, LK_FINDING_RANK_INPUT, -1, {.extra_input_s = {0, 4e-3}}},
        {LK_FINDING_WIRE, LK_FINDING_FIRST_BUCKET, -1, {.buckets = 1, .bucket_bytes = 4 << 20}},
        {LK_FINDING_POOR_OVERLAP, LK_FINDING_WIRE, -1, {.buckets = 1, .bucket_bytes = 4 << 20}},
        {LK_FINDING_WIRE, LK_FINDING_COUNT, -1, {.bandwidth_Bps = 2e8}},
        {LK_FINDING_INPUT, LK_FINDING_COUNT, -1, {.extra_input_s = {3e-3, 3e-3}}},
    };
    const struct step_model m = step_model_default(cases[_i].change);
    const struct lk_finding *effect = NULL;
    struct lk_run run = {0};
    struct lk_analysis a = {0};
    struct lk_table *t = NULL;
    double last = INFINITY;

    analyze_model(&m, &run, &a);
    ck_assert_int_eq(lk_analysis_table(&a, LK_ANALYSIS_FINDINGS, &t), LK_OK);
    for (size_t i = 0; i < a.n_findings; i++) {
        const struct lk_finding *f = &a.findings[i];

        if (f->id == cases[_i].effect)
            effect = f;
        ck_assert_int_lt(f->cause, (int)i);
        ck_assert_int_eq(f->depth, f->cause < 0 ? 0 : a.findings[f->cause].depth + 1);
        ck_assert_int_eq(lk_table_cell(t, i, "finding")->indent, f->depth);
        ck_assert_str_eq(lk_table_cell(t, i, "id")->text, lk_finding_id_name(f->id));
        ck_assert(f->cause < 0 || !f->next);
        if (f->cause >= 0)
            ck_assert_double_eq(lk_table_cell(t, i, "cause")->number, f->cause + 1);
        else
            ck_assert_int_eq(lk_table_cell(t, i, "cause")->type, LK_CELL_EMPTY);
        if (f->cause < 0 && !isnan(f->cost_s)) {
            ck_assert_double_le(f->cost_s, last);
            last = f->cost_s;
        }
    }
    ck_assert_ptr_nonnull(effect);
    ck_assert_int_eq(effect->rank, cases[_i].rank);
    ck_assert_uint_eq(effect->cause < 0 ? LK_FINDING_COUNT : a.findings[effect->cause].id,
                      cases[_i].cause);
    lk_table_destroy(t);
    lk_analysis_fini(&a);
    lk_run_fini(&run);
}
END_TEST

SUITE(findings, t)
{
    tcase_add_loop_test(t, causes_stand_over_consequences, 0, 8);
}
