/*
 * An action gains what a what-if of it says, and by hand what it must be.
 *
 * LOCKSTEP_CASES=10000 build/test_lockstep action tries as many; the default is quick.
 */
#include "commands/action.h"

#include "base/array.h"
#include "base/rng.h"
#include "tests/rigs/cases.h"
#include "tests/rigs/said.h"
#include "tests/rigs/sim_truth.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <string.h>

static const struct action_change changes[] = {
    {LK_AXIS_ACCUMULATION, "4"},   {LK_AXIS_BUCKET_CAP, "1MiB"},      {LK_AXIS_BUCKET_CAP, "64MiB"},
    {LK_AXIS_LOCAL_BATCH, "16"},   {LK_AXIS_GRAD_DTYPE, "bfloat16"},  {LK_AXIS_OVERLAP, "none"},
    {LK_AXIS_NIC_BANDWIDTH, "x2"}, {LK_AXIS_WITHOUT_RANKS, "1"},      {LK_AXIS_SLOW_RANK, "1:1.2"},
    {LK_AXIS_INTER_LATENCY, "x2"}, {LK_AXIS_OVERLAP_SLOWDOWN, "1.5"},
};

static struct lk_config now_of(const struct sim_world *w, int gpus)
{
    struct lk_config c = lk_config_current(&w->job);

    c.world_size = c.nodes = gpus;
    return c;
}

/* Ask the same as a what-if. */
static struct lk_gain asked(const struct sim_world *w, int gpus, const struct action *a)
{
    struct lk_axis_value v[LK_AXIS_COUNT] = {[LK_AXIS_GPUS] = {.count = gpus}};
    struct lk_forecast_request q = {
        .axes[LK_AXIS_GPUS] = {&v[LK_AXIS_GPUS], 1}, .level = 0.9, .draws = 200, .seed = 1};
    struct sim_answer answer;
    struct lk_gain g;

    for (size_t i = 0; i < a->n; i++) {
        enum lk_axis axis = a->changes[i].axis;

        ck_assert_int_eq(lk_axis_parse(axis, a->changes[i].word, &v[axis]), LK_OK);
        q.axes[axis].v = &v[axis];
        q.axes[axis].n = 1;
    }
    ck_assert_msg(sim_whatif(&w->job, &w->cluster, &q, &answer) == LK_OK, "%s", lk_error_text());
    g = answer.forecast.points[0].gain;
    sim_answer_fini(&answer);
    return g;
}

START_TEST(an_action_gains_what_a_whatif_says)
{
    for (uint64_t i = 0; i < cases_or(50); i++) {
        struct lk_rng g = lk_rng_init(31, i);
        struct action_change two[2];
        struct action a = {two, 2};
        struct action_gain got;
        struct lk_gain want;
        const struct sim_world *w = sim_world_shared(i % SIM_WORLDS);
        struct lk_config now;
        int gpus = 4 << lk_rng_below(&g, 5); /* two stay without one */

        two[0] = changes[lk_rng_below(&g, LK_COUNT(changes))];
        two[1] = changes[lk_rng_below(&g, LK_COUNT(changes))];
        now = now_of(w, gpus);
        want = asked(w, gpus, &a);
        ck_assert_msg(action_gain(&w->job, &w->cluster, &now, &a, &got) == LK_OK, "%s",
                      lk_error_text());
        ck_assert_msg(
            got.gain.ratio == want.ratio && got.gain.lo == want.lo && got.gain.hi == want.hi,
            "case %llu: %g, asked for %g", (unsigned long long)i, got.gain.ratio, want.ratio);
        ck_assert(got.gain.lo <= got.gain.ratio && got.gain.ratio <= got.gain.hi);
    }
}
END_TEST

/* By hand: four micro-batches of which the last reduces gain (A S) / (S + (A - 1) M) - 1, where S
 * is the step of one, and M a micro-batch of forward and backward. */
START_TEST(accumulation_gains_what_arithmetic_says)
{
    static const struct action_change four[] = {{LK_AXIS_ACCUMULATION, "4"},
                                                {LK_AXIS_REDUCE, "last"}};
    const struct action a = {four, 2};
    struct action_gain g;
    struct lk_config now;
    const struct sim_world *w = sim_world_shared((size_t)_i);
    double micro_s, by_hand;

    now = now_of(w, 2);
    ck_assert_int_eq(action_gain(&w->job, &w->cluster, &now, &a, &g), LK_OK);
    micro_s = w->truth.forward_s + w->truth.backward_s;
    by_hand = 4 * g.now_s / (g.now_s + 3 * micro_s);
    ck_assert_double_eq_tol(g.gain.ratio / by_hand, 1, 0.03);
    ck_assert(g.fits && action_gains(&g) == (g.gain.lo > 1));
}
END_TEST

START_TEST(what_changes_nothing_gains_nothing)
{
    static const struct action_change none[] = {{LK_AXIS_ACCUMULATION, "1"},
                                                {LK_AXIS_SLOW_RANK, "50:1.1"},
                                                {LK_AXIS_NIC_BANDWIDTH, "x1"},
                                                {LK_AXIS_GRAD_DTYPE, "own"}};
    const struct action a = {&none[_i], 1};
    struct action_gain g;
    struct lk_config now;
    const struct sim_world *w = sim_world_shared(1);

    now = now_of(w, 8);
    ck_assert_int_eq(action_gain(&w->job, &w->cluster, &now, &a, &g), LK_OK);
    ck_assert(g.gain.ratio == 1 && g.gain.lo == 1 && g.gain.hi == 1 && !action_gains(&g));
    ck_assert(g.now_s == g.step_s);
}
END_TEST

/* A model that the runs contradict gives no gain, and a word that an axis does not take is named.
 */
START_TEST(what_is_refuted_or_meaningless_is_refused)
{
    struct action_change c = {LK_AXIS_ACCUMULATION, "4"};
    const struct action a = {&c, 1};
    struct action_gain g;
    struct lk_config now;
    struct sim_world *w = sim_world_shared(SIM_WORLDS);

    now = now_of(w, 8);
    c.word = "four";
    ck_assert_int_eq(action_gain(&w->job, &w->cluster, &now, &a, &g), LK_EUSAGE);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "--accumulation"));
    c.word = "4";
    for (size_t i = 0; i < w->job.n_runs; i++)
        for (size_t k = 0; k < w->job.runs[i].n_steps; k++)
            w->job.runs[i].step_s[k] /= 20; /* shorter than its own compute */
    ck_assert_int_eq(action_gain(&w->job, &w->cluster, &now, &a, &g), LK_EEVIDENCE);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "contradicts"));
}
END_TEST

SUITE(action, t)
{
    tcase_add_test(t, an_action_gains_what_a_whatif_says);
    tcase_add_loop_test(t, accumulation_gains_what_arithmetic_says, 0, 10);
    tcase_add_loop_test(t, what_changes_nothing_gains_nothing, 0, 4);
    tcase_add_test(t, what_is_refuted_or_meaningless_is_refused);
}
