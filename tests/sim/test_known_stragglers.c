/* Known stragglers: found in runs, applied at more ranks, counted once. */
#include "base/array.h"
#include "base/rng.h"
#include "base/stats.h"
#include "sim/forecast/predictor.h"
#include "sim/step/closed_form.h"
#include "sim/step/engine.h"
#include "sim/step/known_stragglers.h"
#include "sim/step/straggler_max.h"
#include "tests/rigs/sim_truth.h"
#include "tests/rigs/simulated.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct world {
    struct sim_truth truth;
    struct lk_job job;
    struct lk_cluster cluster;
};

static void world_init(struct world *w, int slow_rank, double factor)
{
    w->truth = sim_truth_default;
    w->truth.slow_rank = slow_rank;
    w->truth.slow_factor = factor;
    sim_truth_cluster(&w->truth, 1, &w->cluster);
    sim_truth_job(&w->truth, 1, &w->job);
}

static void world_fini(struct world *w)
{
    lk_job_fini(&w->job);
    lk_cluster_fini(&w->cluster);
}

static void know(struct lk_cluster *c, int rank, int node, double compute, double link, bool since)
{
    size_t capacity = c->n_slow;
    struct lk_cluster_slow *s;

    ck_assert_int_eq(lk_array_grow(&c->slow, &capacity, c->n_slow + 1, sizeof *c->slow), LK_OK);
    s = &c->slow[c->n_slow++];
    *s = (struct lk_cluster_slow){.rank = rank, .node = node, .since = since};
    s->compute = s->link = lk_quantity_none();
    if (compute > 0)
        ck_assert_int_eq(lk_quantity_set(&s->compute, compute, NAN, NAN, 0, "test"), LK_OK);
    if (link > 0)
        ck_assert_int_eq(lk_quantity_set(&s->link, link, NAN, NAN, 0, "test"), LK_OK);
}

static double predict(const struct lk_job *j, const struct lk_cluster *c, int world_size)
{
    struct lk_predictor_options o = {.level = 0.9, .draws = 20, .seed = 3, .scale_error = NAN};
    struct lk_config config = lk_config_current(j);
    struct lk_predictor *p = NULL;
    double step_s;

    config.world_size = config.nodes = world_size;
    config.local_batch = 8;
    ck_assert_int_eq(lk_predictor_create(j, c, &o, &p), LK_OK);
    ck_assert_msg(lk_predictor_estimate(p, &config, &step_s) == LK_OK, "%s", lk_error_text());
    lk_predictor_destroy(p);
    return step_s;
}

/* ---- Finding ---- */

/* Ranks' compute in a run, the slow rank that is found or -1, and the sd of the others. */
struct find_case {
    double compute[8];
    int ranks, found;
    double factor, rank_sd;
};

static const struct find_case find_cases[] = {
    {{1, 1, 1, 1.25}, 4, 3, 1.25, 0},
    {{1, 1.3}, 2, 1, 1.3, NAN},
    {{1.3, 1}, 2, 0, 1.3, NAN},
    {{0.99, 1.01, 1, 1.02}, 4, -1, 0, 0.01279},
    {{1, 1.03}, 2, -1, 0, 0.0209},
    /* All ranks differ widely, so none counts as slow. */
    {{0.8, 0.9, 1.0, 1.1, 1.2, 0.85, 0.95, 1.15}, 8, -1, 0, 0.14592},
    {{0.99, 1.01, 0.99, 1.01, 0.99, 1.01, 1, 1.06}, 8, 7, 1.06, 0.01},
};

START_TEST(slow_ranks_are_found)
{
    const struct find_case *c = &find_cases[_i];
    struct world w;
    struct lk_known_stragglers s;

    world_init(&w, 0, 0);
    sim_truth_add_run(&w.truth, &w.job, c->ranks, 8, 5);
    memcpy(w.job.runs[0].rank_compute_s, c->compute, (size_t)c->ranks * sizeof(double));
    ck_assert_int_eq(lk_known_stragglers_init(&s, &w.job, &w.cluster), LK_OK);
    ck_assert_uint_eq(s.n, c->found >= 0);
    if (c->found >= 0) {
        ck_assert_int_eq(s.list[0].rank, c->found);
        ck_assert_double_eq_tol(s.list[0].compute.value, c->factor, 1e-9);
    }
    if (isnan(c->rank_sd))
        ck_assert_double_nan(s.rank_sd);
    else
        ck_assert_double_eq_tol(s.rank_sd, c->rank_sd, 2e-4);
    lk_known_stragglers_fini(&s);
    world_fini(&w);
}
END_TEST

/* Four nodes of four ranks, nodes up to 4 % apart, ranks 2 %: separated,
 * with one slow rank left out. */
START_TEST(nodes_and_ranks_are_told_apart)
{
    static const double node[] = {-0.02, 0.02, -0.007, 0.007}, rank[] = {-0.01, 0.01, -0.01, 0.01};
    struct world w;
    struct lk_known_stragglers s;
    struct lk_job_run *r;

    world_init(&w, 0, 0);
    w.cluster.gpus_per_node = 4;
    sim_truth_add_run(&w.truth, &w.job, 16, 8, 5);
    r = &w.job.runs[0];
    r->config.nodes = 4;
    for (int k = 0; k < 16; k++)
        r->rank_compute_s[k] = 1 + node[k / 4] + rank[k % 4];
    r->rank_compute_s[5] = 1.6;
    ck_assert_int_eq(lk_known_stragglers_init(&s, &w.job, &w.cluster), LK_OK);
    ck_assert_uint_eq(s.n, 1);
    ck_assert_int_eq(s.list[0].rank, 5);
    ck_assert_double_eq_tol(s.rank_sd, 0.0115, 0.001);
    ck_assert_double_eq_tol(s.node_sd, 0.0163, 0.002);
    lk_known_stragglers_fini(&s);
    world_fini(&w);
}
END_TEST

/* A rank was slow in one run of three: that was the run, not the rank. */
START_TEST(once_is_not_always)
{
    struct world w;
    struct lk_known_stragglers s;

    world_init(&w, 0, 0);
    for (uint64_t i = 0; i < 3; i++)
        sim_truth_add_run(&w.truth, &w.job, 4, 8, i);
    w.job.runs[1].rank_compute_s[2] *= 1.5;
    ck_assert_int_eq(lk_known_stragglers_init(&s, &w.job, &w.cluster), LK_OK);
    ck_assert_uint_eq(s.n, 0);
    lk_known_stragglers_fini(&s);
    w.job.runs[0].rank_compute_s[2] *= 1.3;
    ck_assert_int_eq(lk_known_stragglers_init(&s, &w.job, &w.cluster), LK_OK);
    ck_assert_uint_eq(s.n, 1);
    ck_assert_double_eq_tol(s.list[0].compute.value, 1.4, 1e-9);
    ck_assert_uint_eq(s.list[0].compute.n, 2);
    lk_known_stragglers_fini(&s);
    world_fini(&w);
}
END_TEST

/* The file's entries override the runs', and entries marked `since` are
 * not in the measured compute. */
START_TEST(the_file_counts_first)
{
    struct world w;
    struct lk_known_stragglers s;

    world_init(&w, 3, 1.25);
    sim_truth_add_run(&w.truth, &w.job, 4, 8, 5);
    know(&w.cluster, 3, -1, 1.2, 0, false);
    know(&w.cluster, 2, -1, 2, 0, true);
    know(&w.cluster, -1, 0, 1.1, 0, false);
    ck_assert_int_eq(lk_known_stragglers_init(&s, &w.job, &w.cluster), LK_OK);
    ck_assert_uint_eq(s.n, 3);
    ck_assert_double_eq(lk_known_straggler_rank(&s, 3, false), 1.2);
    ck_assert_double_eq(lk_known_straggler_rank(&s, 2, false), 2);
    ck_assert_double_nan(lk_known_straggler_rank(&s, 2, true));
    ck_assert_double_eq(lk_known_straggler_node(&s, 0, true), 1.1);
    ck_assert_double_eq_tol(lk_known_stragglers_reference(&s, 8), (1.1 + 1 + 1 + 1.2) / 4, 1e-12);
    lk_known_stragglers_fini(&s);
    world_fini(&w);
}
END_TEST

/* ---- Other rank counts ---- */

/* A rank that was slow at 2 and 4 ranks is slow at 16: within 3 % of the truth's own step. */
START_TEST(a_slow_rank_stays_slow)
{
    struct world w;
    double truth = 0, ours;

    world_init(&w, 1, 1.3);
    lk_quantity_fini(&w.cluster.rank_sd);
    w.cluster.rank_sd = lk_quantity_none();
    for (int world_size = 1; world_size <= 4; world_size *= 2)
        sim_truth_add_run(&w.truth, &w.job, world_size, 8, (uint64_t)world_size);
    for (uint64_t i = 0; i < 20; i++)
        truth += sim_truth_run(&w.truth, &w.job, 16, 8, 100 + i, NULL) / 20;
    ours = predict(&w.job, &w.cluster, 16);
    ck_assert_double_eq_tol(ours / truth, 1, 0.03);
    world_fini(&w);
}
END_TEST

/* Compute measured on ranks of which one is slow is that of a mean rank: with the rank known, and
 * no law, the step is as if all compute were that of the slow one. */
START_TEST(known_ranks_are_counted_once)
{
    struct world w;
    struct lk_cost_model *cost = NULL;
    struct lk_config config;
    struct lk_config_model m;
    double mean;

    world_init(&w, 3, 1.4);
    sim_truth_add_run(&w.truth, &w.job, 4, 8, 5);
    mean = w.job.compute[1].forward_s.value;
    know(&w.cluster, 3, -1, 1.4, 0, false);
    config = w.job.runs[0].config;
    ck_assert_int_eq(lk_cost_model_create(&w.cluster, NULL, NULL, &cost), LK_OK);
    ck_assert_int_eq(lk_config_model_init(&m, &w.job, &w.cluster, cost, NULL, &config), LK_OK);
    ck_assert_double_eq_tol(m.step.forward_s, mean / 1.1, 1e-12);
    ck_assert_double_nan(m.step.rank_slowness[0]);
    ck_assert_double_eq_tol(m.step.rank_slowness[3], 0.4, 1e-12);
    lk_config_model_fini(&m);
    lk_cost_model_destroy(cost);
    world_fini(&w);
}
END_TEST

/* ---- In the step ---- */

/* A known slow rank has no draw of its own, and a known slow node no node draw. */
START_TEST(known_effects_replace_draws)
{
    static const double rank[] = {NAN, 0.5, NAN, NAN}, node[] = {NAN, 0.2};
    struct lk_step_model m = {.ranks = 4,
                              .nodes = 2,
                              .accumulation = 1,
                              .forward_s = 1,
                              .backward_s = 1,
                              .law = {.node_sd = 0.1},
                              .rank_slowness = rank,
                              .node_slowness = node};
    struct lk_step_plan p;

    ck_assert_int_eq(lk_step_plan_init(&p, &m, &(struct lk_sim_request){.steps = 1, .seed = 1}),
                     LK_OK);
    ck_assert_double_ne(p.rank_effect[0], 0);
    ck_assert_double_eq(p.rank_effect[1], 0.5);
    ck_assert_double_eq(p.rank_effect[2], 0.2);
    ck_assert_double_eq(p.rank_effect[3], 0.2);
    lk_step_plan_fini(&p);
    m.law.rank_sd = 0.1;
    ck_assert_int_eq(lk_step_plan_init(&p, &m, &(struct lk_sim_request){.steps = 1, .seed = 1}),
                     LK_OK);
    ck_assert_double_eq(p.rank_effect[1], 0.5);
    ck_assert_double_ne(p.rank_effect[2], 0.2);
    lk_step_plan_fini(&p);
}
END_TEST

/* Engine and closed form give the same step, to the ns, with known and drawn stragglers. */
START_TEST(engine_and_closed_form_agree)
{
    static const struct lk_step_coll colls[] = {
        {.ready = 1.5, .need = 2, .cost_s = 8e-3, .bucket = 0},
        {.ready = 2, .need = 2, .cost_s = 4e-3, .bucket = 1, .inside = true}};
    static const double rank[] = {NAN, 0.5, NAN, NAN, NAN, NAN, NAN, NAN},
                        node[] = {NAN, 0.2, NAN, NAN}, link[] = {NAN, NAN, 1.5, NAN};
    struct lk_step_model m = {.ranks = 8,
                              .nodes = 4,
                              .accumulation = 1,
                              .forward_s = 10e-3,
                              .backward_s = 20e-3,
                              .gamma_wire = 0.1,
                              .law = {.rank_sd = 0.05,
                                      .node_sd = 0.05,
                                      .transient_sd = 0.1,
                                      .link_sd = 0.3,
                                      .tail_share = 0.1,
                                      .tail_scale = 0.5,
                                      .tail_shape = 0.3},
                              .rank_slowness = rank,
                              .node_slowness = node,
                              .node_link = link,
                              .colls = colls,
                              .n_colls = 2};
    struct lk_sim_request q = {.steps = 20, .seed = (uint64_t)_i};
    struct lk_sim_result a, b;

    m.law.link_nodes = 2 * (_i % 2);
    ck_assert_int_eq(lk_engine_run(&m, &q, NULL, &a), LK_OK);
    ck_assert_int_eq(lk_closed_form_run(&m, &q, &b), LK_OK);
    for (size_t i = 0; i < a.n; i++)
        ck_assert_double_eq(a.step_s[i], b.step_s[i]);
    lk_sim_result_fini(&a);
    lk_sim_result_fini(&b);
}
END_TEST

/* ---- Links ---- */

static double cost(const struct lk_cluster *c, int nodes, uint64_t bytes)
{
    struct lk_cost_model *m = NULL;
    struct lk_cost out;

    ck_assert_msg(lk_cost_model_create(c, NULL, NULL, &m) == LK_OK, "%s", lk_error_text());
    ck_assert_int_eq(lk_cost_eval(m, LK_ALL_REDUCE, LK_ALGO_AUTO, nodes, nodes, &bytes, 1, &out),
                     LK_OK);
    lk_cost_model_destroy(m);
    return out.seconds;
}

enum { LARGE = 64 << 20, SMALL = 4096 };

/* The points are of two nodes. A slow node among them is included in their times; one
 * beyond, or one that is slow since, halves the rate of large messages in which it
 * takes part, and of no others. */
START_TEST(a_slow_link_sets_the_pace)
{
    static const struct {
        int node;
        bool since;
        double at[3]; /* large messages on 2, 4 and 8 nodes, relative to equal links */
    } cases[] = {
        {1, false, {1, 1, 1}},
        {1, true, {2, 2, 2}},
        {3, false, {1, 2, 2}},
        {5, true, {1, 1, 2}},
    };
    struct world equal, w;

    world_init(&equal, 0, 0);
    world_init(&w, 0, 0);
    know(&w.cluster, -1, cases[_i].node, 0, 2, cases[_i].since);
    for (int k = 0; k < 3; k++) {
        int nodes = 2 << k;

        ck_assert_double_eq_tol(cost(&w.cluster, nodes, LARGE) / cost(&equal.cluster, nodes, LARGE),
                                cases[_i].at[k], 0.02 * cases[_i].at[k]);
        ck_assert_double_eq_tol(cost(&w.cluster, nodes, SMALL) / cost(&equal.cluster, nodes, SMALL),
                                1, 0.1);
    }
    world_fini(&equal);
    world_fini(&w);
}
END_TEST

/* Points measured without the slow node and with it have different levels, and the fit
 * is not pulled between them. */
START_TEST(points_of_two_levels)
{
    struct world equal, w;
    size_t n, capacity;

    world_init(&equal, 0, 0);
    world_init(&w, 0, 0);
    know(&w.cluster, -1, 3, 0, 2, false);
    n = capacity = w.cluster.n_points;
    ck_assert_int_eq(lk_array_grow(&w.cluster.points, &capacity, 2 * n, sizeof *w.cluster.points),
                     LK_OK);
    for (size_t i = 0; i < n; i++) {
        struct lk_cluster_point *p = &w.cluster.points[n + i];
        double t = cost(&equal.cluster, 4, w.cluster.points[i].bytes);

        *p = w.cluster.points[i];
        p->ranks = p->nodes = 4;
        p->time_s = lk_quantity_none();
        t += 1.5 * (double)p->bytes / 1e9; /* half the rate */
        ck_assert_int_eq(lk_quantity_set(&p->time_s, t, t * 0.98, t * 1.02, 20, "test"), LK_OK);
    }
    w.cluster.n_points = 2 * n;
    ck_assert_double_eq_tol(cost(&w.cluster, 2, LARGE) / cost(&equal.cluster, 2, LARGE), 1, 0.02);
    ck_assert_double_eq_tol(cost(&w.cluster, 4, LARGE) / cost(&equal.cluster, 4, LARGE), 2, 0.05);
    ck_assert_double_eq_tol(cost(&w.cluster, 8, LARGE) / cost(&equal.cluster, 8, LARGE), 2, 0.05);
    world_fini(&equal);
    world_fini(&w);
}
END_TEST

static double mean_cost(const struct lk_step_model *m)
{
    enum { SEEDS = 4000 };
    double sum = 0;

    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct lk_step_plan p;

        ck_assert_int_eq(
            lk_step_plan_init(&p, m, &(struct lk_sim_request){.steps = 1, .seed = seed}), LK_OK);
        sum += (double)p.cost_ns[0] / 1e9 / SEEDS;
        lk_step_plan_fini(&p);
    }
    return sum;
}

/*
 * The spread between links is included in costs measured on several nodes: at as many nodes
 * nothing is added, at more only the effect of further links. E max of n normals: 0.5642 of 2,
 * 1.0294 of 4, 1.4236 of 8.
 */
START_TEST(the_links_spread_is_counted_once)
{
    static const struct lk_step_coll coll = {.ready = 2, .need = 2, .cost_s = 1, .bucket = 0};
    static const struct {
        int measured;
        double expected;
    } cases[] = {
        {0, 1.14236},
        {8, 1},
        {4, 1.14236 / 1.10294},
        {2, 1.14236 / 1.05642},
    };
    struct lk_step_model m = {.ranks = 8,
                              .nodes = 8,
                              .accumulation = 1,
                              .forward_s = 1,
                              .backward_s = 1,
                              .law = {.link_sd = 0.1, .link_nodes = cases[_i].measured},
                              .colls = &coll,
                              .n_colls = 1};

    ck_assert_double_eq_tol(mean_cost(&m), cases[_i].expected, 0.01);
    ck_assert_double_eq_tol(lk_straggler_max_link_mean(&m), cases[_i].expected, 0.01);
}
END_TEST

/* ---- The slowest, without draws ---- */

static const double two_known[] = {NAN, 0.3, NAN, NAN, 0.25, NAN, NAN, NAN};

static const struct {
    const char *name;
    int ranks, nodes;
    struct lk_straggler_law law;
    const double *known;
} laws[] = {
    {"normal", 8, 8, {.rank_sd = 0.05, .transient_sd = 0.1}, NULL},
    {"many", 512, 8, {.rank_sd = 0.02, .transient_sd = 0.02}, NULL},
    {"known", 8, 8, {.rank_sd = 0.02, .transient_sd = 0.05}, two_known},
    {"known alone", 8, 8, {.rank_sd = 0}, two_known},
    {"tail",
     64,
     8,
     {.transient_sd = 0.02, .tail_share = 0.02, .tail_scale = 0.375, .tail_shape = 0.2},
     NULL},
    {"tail, shape 0", 64, 8, {.transient_sd = 0.02, .tail_share = 0.2, .tail_scale = 0.3}, NULL},
    {"all",
     8,
     8,
     {.rank_sd = 0.05, .transient_sd = 0.05, .tail_share = 0.05, .tail_scale = 0.2},
     two_known},
};

/* Compute the mean effect of the slowest rank over seeds and steps, drawn as the engine does. */
START_TEST(the_slowest_without_draws)
{
    enum { SEEDS = 300, STEPS = 20 };
    struct lk_step_model m = {.ranks = laws[_i].ranks,
                              .nodes = laws[_i].nodes,
                              .accumulation = 1,
                              .forward_s = 1,
                              .backward_s = 0,
                              .law = laws[_i].law,
                              .rank_slowness = laws[_i].known};
    struct lk_straggler_max s;
    double sum = 0, below = 0;

    ck_assert_int_eq(lk_straggler_max_init(&s, &m, 1), LK_OK);
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct lk_step_plan p;

        ck_assert_int_eq(
            lk_step_plan_init(&p, &m, &(struct lk_sim_request){.steps = 1, .seed = seed}), LK_OK);
        for (uint64_t step = 0; step < STEPS; step++) {
            uint64_t slowest = 0;

            for (int r = 0; r < m.ranks; r++) {
                uint64_t ns = lk_step_plan_compute(&p, r, step).forward_ns;

                slowest = ns > slowest ? ns : slowest;
            }
            sum += ((double)slowest / 1e9 - 1) / (SEEDS * STEPS);
            below += (double)slowest / 1e9 - 1 <= lk_straggler_max_quantile(&s, 0.8);
        }
        lk_step_plan_fini(&p);
    }
    ck_assert_msg(fabs(s.mean - sum) < 0.01 + 0.03 * sum, "%s: %g by formula, %g by draws",
                  laws[_i].name, s.mean, sum);
    if (_i != 3)
        ck_assert_double_eq_tol(below / (SEEDS * STEPS), 0.8, 0.05);
}
END_TEST

/* The predictor's model is near simulation also with known slow ranks. */
START_TEST(the_model_knows_them_too)
{
    struct lk_predictor_options o = {.level = 0.9, .draws = 200, .seed = 3, .scale_error = NAN};
    struct world w;
    struct lk_predictor *p = NULL;

    world_init(&w, 1, 1.3);
    for (int world_size = 1; world_size <= 2; world_size++)
        sim_truth_add_run(&w.truth, &w.job, world_size, 8, (uint64_t)world_size);
    know(&w.cluster, 5, -1, 1.5, 0, false);
    know(&w.cluster, -1, 9, 0, 2, false);
    ck_assert_int_eq(lk_predictor_create(&w.job, &w.cluster, &o, &p), LK_OK);
    for (int i = 0; i < 4; i++) {
        struct lk_config c = lk_config_current(&w.job);
        struct lk_prediction one, fast;

        c.world_size = c.nodes = 2 << i;
        c.local_batch = 8;
        ck_assert_int_eq(simulated_at(p, &c, &one), LK_OK);
        ck_assert_int_eq(lk_predictor_at(p, &c, &fast), LK_OK);
        ck_assert_double_eq_tol(fast.step_s / one.step_s, 1, 0.015);
        ck_assert_double_eq_tol(fast.lo_s / one.lo_s, 1, 0.03);
        ck_assert_double_eq_tol(fast.hi_s / one.hi_s, 1, 0.03);
        lk_prediction_fini(&one);
        lk_prediction_fini(&fast);
    }
    lk_predictor_destroy(p);
    world_fini(&w);
}
END_TEST

SUITE(known_stragglers, c)
{
    tcase_add_loop_test(c, slow_ranks_are_found, 0, LK_COUNT(find_cases));
    tcase_add_test(c, once_is_not_always);
    tcase_add_test(c, nodes_and_ranks_are_told_apart);
    tcase_add_test(c, the_file_counts_first);
    tcase_add_test(c, a_slow_rank_stays_slow);
    tcase_add_test(c, known_ranks_are_counted_once);
    tcase_add_test(c, known_effects_replace_draws);
    tcase_add_loop_test(c, engine_and_closed_form_agree, 0, 6);
    tcase_add_loop_test(c, a_slow_link_sets_the_pace, 0, 4);
    tcase_add_test(c, points_of_two_levels);
    tcase_add_loop_test(c, the_links_spread_is_counted_once, 0, 4);
    tcase_add_loop_test(c, the_slowest_without_draws, 0, LK_COUNT(laws));
    tcase_add_test(c, the_model_knows_them_too);
}
