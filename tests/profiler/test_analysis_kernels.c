/* The table of kernels by name: sums against spans that the test made, and against those of other
 * tables. */
#include "profiler/analysis/analysis.h"

#include "base/array.h"
#include "base/rng.h"
#include "tests/rigs/cases.h"
#include "tests/rigs/must.h"
#include "tests/rigs/step_model.h"
#include "tests/rigs/suite.h"
#include "tests/rigs/trace_add.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 2, NAMES = 5, PER_PASS = 40 };

/* The last is communication by its name. */
static const char *const names[NAMES] = {"gemm", "softmax", "gelu", "adam",
                                         "ncclDevKernel_AllReduce_Sum_f32_RING_LL"};

struct truth {
    size_t n[NAMES];
    uint64_t total_ns[NAMES];
};

/* Fill a rank's forwards and backwards with kernels one behind the other, of random lengths and
 * names, and count those of the steps after the warm-up. */
static void fill(struct lk_trace *t, uint32_t warmup, struct lk_rng *g, struct truth *truth)
{
    size_t n = t->n_spans;
    uint32_t track = trace_add_track(t, "kernels", LK_TRACK_COMPUTE, 1);

    for (size_t i = 0; i < n; i++) {
        const struct lk_span pass = t->spans[i].span;
        uint64_t at_ns = pass.start_ns;

        if (pass.kind != LK_SPAN_FORWARD && pass.kind != LK_SPAN_BACKWARD)
            continue;
        for (int k = 0; k < PER_PASS && at_ns < pass.end_ns; k++) {
            size_t name = (size_t)((NAMES - 1) * lk_rng_uniform(g));
            uint64_t ns = 1 + (uint64_t)(1e5 * lk_rng_uniform(g));

            ns = ns < pass.end_ns - at_ns ? ns : pass.end_ns - at_ns;
            trace_add_span(t, track,
                           (struct lk_span){.kind = LK_SPAN_KERNEL,
                                            .name = trace_add_name(t, names[name]),
                                            .step = pass.step,
                                            .index = -1,
                                            .start_ns = at_ns,
                                            .end_ns = at_ns + ns});
            at_ns += ns + (uint64_t)(1e3 * lk_rng_uniform(g));
            if (pass.step < warmup)
                continue;
            truth->n[name]++;
            truth->total_ns[name] += ns;
        }
    }
}

static double number(const struct lk_table *t, size_t row, const char *column)
{
    return lk_table_cell(t, row, column)->number;
}

/* Counts, totals and means are those of the spans; rows are by total; shares are of the step.
 */
START_TEST(sums_are_those_of_the_spans)
{
    for (size_t i = 0; i < cases_or(10); i++) {
        const struct step_model m = step_model_default((struct step_model){.ranks = RANKS});
        struct lk_rng g = lk_rng_init(1, i);
        struct lk_trace *traces = NULL;
        struct lk_run run = {0};
        struct lk_analysis a = {0};
        struct lk_table *t = NULL;
        struct truth truth = {{0}, {0}};
        double last = INFINITY;

        must(step_model_run(&m, &traces, NULL));
        for (int k = 0; k < RANKS; k++) {
            fill(&traces[k], m.warmup, &g, &truth);
            trace_add_done(&traces[k]);
        }
        must(lk_run_take("model", traces, RANKS, &run));
        must(lk_analyze(&run, NULL, 0, &a));
        must(lk_analysis_table(&a, LK_ANALYSIS_KERNELS, &t));
        ck_assert_uint_eq(t->n_rows, NAMES - 1);
        for (size_t row = 0; row < t->n_rows; row++) {
            size_t k = 0;

            while (strcmp(lk_table_cell(t, row, "name")->text, names[k]) != 0)
                ck_assert_uint_lt(++k, NAMES);
            ck_assert_double_eq(number(t, row, "n"), (double)truth.n[k]);
            ck_assert_double_eq_tol(number(t, row, "total_s"), 1e-9 * (double)truth.total_ns[k],
                                    1e-12);
            ck_assert_double_eq_tol(number(t, row, "mean_s") * number(t, row, "n"),
                                    number(t, row, "total_s"), 1e-12);
            ck_assert_double_le(number(t, row, "least_s"), number(t, row, "mean_s"));
            ck_assert_double_ge(number(t, row, "most_s"), number(t, row, "mean_s"));
            ck_assert_double_le(number(t, row, "total_s"), last);
            last = number(t, row, "total_s");
            ck_assert_double_eq_tol(number(t, row, "step_share") * a.step_s *
                                        (double)(run.n_steps * run.n),
                                    last, 1e-12);
        }
        lk_table_destroy(t);
        lk_analysis_fini(&a);
        lk_run_fini(&run);
    }
}
END_TEST

/* A run without kernels has no such table; NCCL's kernels are communication, copies are copies. */
START_TEST(uses)
{
    const struct step_model m = step_model_default((struct step_model){.ranks = RANKS});
    static const char *const wanted[] = {"communication", "compute", "copies"};
    struct lk_trace *traces = NULL;
    struct lk_run run = {0};
    struct lk_analysis a = {0};
    struct lk_table *t = NULL;

    must(step_model_run(&m, &traces, NULL));
    for (int k = 0; k < RANKS; k++) {
        const struct lk_span pass = *trace_find(&traces[k], LK_SPAN_BACKWARD, m.warmup);

        for (int i = 0; i < 3 && _i; i++) {
            static const enum lk_span_kind kinds[] = {LK_SPAN_KERNEL, LK_SPAN_KERNEL, LK_SPAN_COPY};
            struct lk_span s = {.kind = (uint16_t)kinds[i], .step = pass.step, .index = -1};

            s.name = i < 2 ? trace_add_name(&traces[k], names[i ? 0 : NAMES - 1]) : 0;
            s.start_ns = pass.start_ns + (uint64_t)i * 5000;
            s.end_ns = s.start_ns + 3000 - 1000 * (uint64_t)i;
            trace_add_span(&traces[k], trace_add_track(&traces[k], "x", LK_TRACK_COMPUTE, 1), s);
        }
        trace_add_done(&traces[k]);
    }
    must(lk_run_take("model", traces, RANKS, &run));
    must(lk_analyze(&run, NULL, 0, &a));
    must(lk_analysis_table(&a, LK_ANALYSIS_KERNELS, &t));
    ck_assert_int_eq(t != NULL, _i);
    for (size_t row = 0; t && row < t->n_rows; row++) {
        ck_assert_str_eq(lk_table_cell(t, row, "use")->text, wanted[row]);
        ck_assert_double_eq(number(t, row, "n"), RANKS);
        ck_assert_double_eq_tol(number(t, row, "total_s"), RANKS * (3 - (double)row) * 1e-6, 1e-15);
    }
    lk_table_destroy(t);
    lk_analysis_fini(&a);
    lk_run_fini(&run);
}
END_TEST

SUITE(analysis_kernels, t)
{
    tcase_add_test(t, sums_are_those_of_the_spans);
    tcase_add_loop_test(t, uses, 0, 2);
}
