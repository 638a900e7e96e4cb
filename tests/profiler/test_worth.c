/* Findings are worth never more than is lost, no second twice, and what mending them wins. */
#include "base/array.h"
#include "base/rng.h"
#include "profiler/analysis/analysis.h"
#include "tests/rigs/cases.h"
#include "tests/rigs/findings.h"
#include "tests/rigs/must.h"
#include "tests/rigs/step_model.h"
#include "tests/rigs/suite.h"
#include "tests/rigs/trace_add.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void take_model(const struct step_model *m, struct lk_run *run)
{
    struct lk_trace *traces = NULL;

    must(step_model_run(m, &traces, NULL));
    for (int k = 0; k < m->ranks; k++)
        trace_add_done(&traces[k]);
    must(lk_run_take("model", traces, (size_t)m->ranks, run));
}

/* Make a job with several faults at once, in sizes from none to most of the step. */
static struct step_model random_model(struct lk_rng *g)
{
    struct step_model m = step_model_default(
        (struct step_model){.ranks = 1 << lk_rng_below(g, 4), .seed = lk_rng_u64(g)});

    m.steps = m.warmup + 4 + (uint32_t)lk_rng_below(g, 12);
    m.accumulation = 1 + (int)lk_rng_below(g, 3);
    m.no_sync = lk_rng_below(g, 2);
    m.transient = lk_rng_below(g, 2) ? 0.3 * lk_rng_uniform(g) : 0;
    m.kappa = lk_rng_below(g, 3) ? 0 : lk_rng_uniform(g);
    m.gamma_wait = lk_rng_below(g, 3) ? 0 : lk_rng_uniform(g);
    m.gamma_wire = lk_rng_below(g, 3) ? 0 : lk_rng_uniform(g);
    m.gap_s = lk_rng_below(g, 3) ? 0 : 0.02 * lk_rng_uniform(g);
    m.bandwidth_Bps = 1e8 * exp(4 * lk_rng_uniform(g));
    m.extra_optimizer_s = lk_rng_below(g, 3) ? 0 : 0.01 * lk_rng_uniform(g);
    for (int k = 0; k < m.ranks; k++) {
        m.slow[k] = lk_rng_below(g, 3) ? 0 : lk_rng_uniform(g);
        m.extra_input_s[k] = lk_rng_below(g, 3) ? 0 : 0.02 * lk_rng_uniform(g);
        m.end_late_s[k] = lk_rng_below(g, 4) ? 0 : 0.01 * lk_rng_uniform(g);
    }
    return m;
}

/* Whatever is wrong with a job, against the same job alone or by itself, findings are worth no
 * more than it loses. */
START_TEST(worth_is_within_the_loss)
{
    for (uint64_t i = 0; i < cases_or(300); i++) {
        struct lk_rng g = lk_rng_init(67, i);
        const struct step_model m = random_model(&g);
        struct step_model one = step_model_default((struct step_model){.ranks = 1});
        struct lk_run run = {0}, alone = {0};
        const struct lk_run *ref = &alone;
        struct lk_analysis a = {0};

        one.accumulation = m.accumulation;
        take_model(&m, &run);
        take_model(&one, &alone);
        must(lk_analyze(&run, &ref, i % 2, &a));
        assert_adds_up(&a);
        lk_analysis_fini(&a);
        lk_run_fini(&alone);
        lk_run_fini(&run);
    }
}
END_TEST

/* Return the step of a job, and what its uncaused findings about rank 2 are worth. */
static double step_of(const struct step_model *m, double *worth_s)
{
    struct lk_run run = {0};
    struct lk_analysis a = {0};
    double step_s;

    take_model(m, &run);
    must(lk_analyze(&run, NULL, 0, &a));
    assert_adds_up(&a);
    step_s = a.step_s;
    *worth_s = 0;
    for (size_t i = 0; i < a.n_findings; i++)
        *worth_s += a.findings[i].cause < 0 && a.findings[i].rank == 2 ? a.findings[i].cost_s : 0;
    lk_analysis_fini(&a);
    lk_run_fini(&run);
    return step_s;
}

/* A fault on one rank is worth what mending it wins, within a tenth: the step with it less the step
 * without it. */
START_TEST(worth_is_what_mending_wins)
{
    static const struct {
        double slow, input_s;
    } faults[] = {{0.1, 0}, {0.2, 0}, {0.8, 0}, {0, 2e-3}, {0, 8e-3}, {0.3, 4e-3}};
    struct step_model m = step_model_default((struct step_model){.ranks = 4});
    double with_s, without_s, worth_s;

    without_s = step_of(&m, &worth_s);
    ck_assert_double_eq(worth_s, 0);
    m.slow[2] = faults[_i].slow;
    m.extra_input_s[2] = faults[_i].input_s;
    with_s = step_of(&m, &worth_s);
    ck_assert_double_eq_tol(worth_s, with_s - without_s, 0.1 * (with_s - without_s));
}
END_TEST

/* One rank is its own ideal, which loses nothing to scaling: what it waits for batches is told all
 * the same, with what mending it wins. */
START_TEST(one_rank_waits_for_input)
{
    double usual_s = 0; /* of the model */

    for (int i = 0; i < 8; i++) {
        struct step_model m = step_model_default((struct step_model){.ranks = 1});
        struct lk_run run = {0};
        const struct lk_run *ref = &run;
        struct lk_analysis a = {0};

        m.extra_input_s[0] = 1e-3 * i * i;
        take_model(&m, &run);
        must(lk_analyze(&run, &ref, 1, &a));
        assert_adds_up(&a);
        ck_assert_int_eq(has_finding(&a, "input bound"), i > 0);
        usual_s = i == 0 ? a.own_input_s : usual_s;
        if (i > 0)
            ck_assert_double_eq_tol(a.findings[0].cost_s, usual_s + m.extra_input_s[0], 1e-6);
        lk_analysis_fini(&a);
        lk_run_fini(&run);
    }
}
END_TEST

/* A rank that sleeps in its forward alone is slower by its sleep, and by no more; no row of another
 * cause becomes negative for it. */
START_TEST(a_sleep_in_forward_is_no_pace)
{
    const struct step_model m = step_model_default((struct step_model){.ranks = 4});
    const uint64_t sleep_ns = 50000000;
    struct lk_trace *traces = NULL;
    struct lk_run run = {0};
    struct lk_analysis a = {0};

    must(step_model_run(&m, &traces, NULL));
    for (size_t i = 0; i < traces[1].n_spans; i++) {
        struct lk_span *s = &traces[1].spans[i].span;

        /* Later by the sleeps until then; the other ranks do not wait, which is no matter here. */
        s->start_ns += sleep_ns * (s->step + (s->kind != LK_SPAN_FORWARD &&
                                              s->kind != LK_SPAN_STEP && s->kind != LK_SPAN_INPUT));
        s->end_ns += sleep_ns * (s->step + (s->kind != LK_SPAN_INPUT));
        s->ready_ns += s->ready_ns ? sleep_ns * (s->step + 1) : 0;
    }
    must(lk_run_take("model", traces, (size_t)m.ranks, &run));
    must(lk_analyze(&run, NULL, 0, &a));
    ck_assert_double_eq_tol(a.ranks[1].losses_s[LK_LOSS_SLOW_RANK], 0.05, 1e-6);
    ck_assert_double_ge(a.losses_s[LK_LOSS_OVERLAP], -1e-9);
    ck_assert_double_ge(a.losses_s[LK_LOSS_COLOCATION], -1e-9);
    lk_analysis_fini(&a);
    lk_run_fini(&run);
}
END_TEST

SUITE(worth, t)
{
    tcase_add_test(t, worth_is_within_the_loss);
    tcase_add_loop_test(t, worth_is_what_mending_wins, 0, 6);
    tcase_add_test(t, one_rank_waits_for_input);
    tcase_add_test(t, a_sleep_in_forward_is_no_pace);
}
