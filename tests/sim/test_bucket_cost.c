/* What a gradient bucket costs compute: charged, given back, drawn, fitted to runs of several caps.
 */
#include "sim/step/bucket_cost.h"

#include "base/array.h"
#include "base/rng.h"
#include "sim/forecast/predictor.h"
#include "sim/prior.h"
#include "sim/step/closed_form.h"
#include "tests/rigs/cases.h"
#include "tests/rigs/sim_truth.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <stdlib.h>

enum { DRAWS = 4000 };

static struct lk_config config(const struct lk_job *j, uint64_t cap_bytes, int accumulation)
{
    struct lk_config c = lk_config_current(j);

    c.world_size = c.nodes = 2;
    c.accumulation = accumulation;
    lk_config_set_cap(&c, j, cap_bytes);
    return c;
}

/* Return the step of a model whose collectives take no time. */
static double step_of(struct lk_step_model *m, struct lk_step_coll *colls)
{
    struct lk_sim_request q = {.steps = 2, .seed = 1};
    struct lk_sim_result r;
    double step;

    for (size_t i = 0; i < m->n_colls; i++)
        colls[i].cost_s = 0;
    m->colls = colls;
    m->law = (struct lk_straggler_law){0};
    ck_assert_msg(lk_closed_form_run(m, &q, &r) == LK_OK, "%s", lk_error_text());
    step = r.mean_s;
    lk_sim_result_fini(&r);
    return step;
}

static const struct {
    uint64_t cap_bytes;
    int accumulation;
    bool no_sync;
    double cost_s;
} charges[] = {
    {1 << 20, 1, true, 1e-4},  {1 << 20, 4, true, 1e-4}, {1 << 20, 4, false, 1e-4},
    {64 << 20, 1, true, 1e-4}, {4 << 20, 1, true, 1e-4},
};

/* The step grows by the cost of the buckets that the job itself does not have; a bucket is ready
 * later by those before it. */
START_TEST(a12_buckets_beyond_the_jobs_own_are_charged)
{
    struct sim_world w;
    struct lk_config c;
    struct lk_volume v;
    struct lk_step_model m, bare;
    struct lk_step_coll colls[64];
    struct lk_bucket_cost cost = {.s = charges[_i].cost_s};
    double more_s, before, expected, backward_s = 20e-3;
    int own, n;

    sim_world_init(&w, 1, 1);
    c = config(&w.job, charges[_i].cap_bytes, charges[_i].accumulation);
    c.reduce = charges[_i].no_sync ? LK_REDUCTION_LAST : LK_REDUCTION_EVERY;
    ck_assert_int_eq(lk_volume_init(&v, &w.job, &c), LK_OK);
    ck_assert_int_eq(lk_volume_own_buckets(&w.job, &own), LK_OK);
    ck_assert_uint_le(v.n, 64);
    for (size_t i = 0; i < v.n; i++)
        colls[i] = v.steps[i];
    n = lk_bucket_count(v.steps, v.n);
    bare = (struct lk_step_model){.ranks = 1,
                                  .nodes = 1,
                                  .accumulation = c.accumulation,
                                  .forward_s = 10e-3,
                                  .backward_s = backward_s,
                                  .n_colls = v.n};
    before = step_of(&bare, colls);
    m = bare;
    more_s = lk_bucket_cost_charge(&m, v.steps, colls, own, &cost);
    expected = charges[_i].cost_s * (n - own) * (charges[_i].no_sync ? 1 : c.accumulation);
    ck_assert_double_eq_tol(more_s, expected, 1e-12);
    ck_assert_double_eq_tol(step_of(&m, colls) - before, expected, 1e-8);
    for (size_t i = 0; i < v.n; i++) {
        double was = (v.steps[i].ready - 1) * backward_s, is = (colls[i].ready - 1) * m.backward_s;
        double each = (m.backward_s - backward_s) / n;

        ck_assert_double_eq_tol(is, was + (double)(i + 1) * each, 1e-9);
    }
    ck_assert(charges[_i].cap_bytes == w.job.cap_bytes
                  ? n == own
                  : (n > own) == (charges[_i].cap_bytes < w.job.cap_bytes));
    lk_volume_fini(&v);
    sim_world_fini(&w);
}
END_TEST

/* Return the step of a random job of n tensors of the same bytes in all, in one unit or many. */
static double random_step(const struct lk_config *c, const struct lk_bucket_cost *cost,
                          double wire_s, size_t n)
{
    enum { MOST = 64 };
    static struct lk_job_tensor tensors[MOST];
    static size_t order[MOST];
    const struct lk_job j = {.tensors = tensors, .n_tensors = n, .ready_order = order};
    struct lk_step_model m = {.ranks = 1,
                              .nodes = 1,
                              .accumulation = c->accumulation,
                              .forward_s = 10e-3,
                              .backward_s = 20e-3,
                              .optimizer_s = 2e-3,
                              .gamma_wire = 0.2,
                              .delta = 0.1};
    struct lk_sim_request q = {.steps = 2, .seed = 1};
    struct lk_step_coll *colls;
    struct lk_sim_result r;
    struct lk_volume v;
    double step_s;

    for (size_t i = 0; i < n; i++) {
        tensors[i] = (struct lk_job_tensor){
            .elems = (1 << 22) / n, .dtype = LK_F32, .ready = 1 - (double)(i * MOST / n) / MOST};
        order[i] = n - 1 - i;
    }
    ck_assert_msg(lk_volume_init(&v, &j, c) == LK_OK, "%s", lk_error_text());
    ck_assert_int_eq(lk_alloc(&colls, v.n, sizeof *colls), LK_OK);
    for (size_t i = 0; i < v.n; i++) {
        colls[i] = v.steps[i];
        colls[i].cost_s = wire_s * (double)v.steps[i].bytes;
    }
    m.n_colls = v.n;
    m.colls = colls;
    lk_bucket_cost_charge(&m, v.steps, colls, 1, cost);
    ck_assert_msg(lk_closed_form_run(&m, &q, &r) == LK_OK, "%s", lk_error_text());
    step_s = r.mean_s;
    lk_sim_result_fini(&r);
    free(colls);
    lk_volume_fini(&v);
    return step_s;
}

/* The more compute and collectives overlap, the shorter the step: for every scheme, where neither
 * slows the other so much that running both takes longer than one after the other. */
START_TEST(less_overlap_is_never_faster)
{
    static const enum lk_overlap_mode modes[] = {LK_OVERLAP_MODE_FULL, LK_OVERLAP_MODE_PARTIAL,
                                                 LK_OVERLAP_MODE_NONE};
    struct lk_rng g = lk_rng_init(27, 2);
    size_t slower[LK_COUNT(modes)] = {0};

    for (size_t i = 0, n = cases_or(2000); i < n; i++) {
        struct lk_bucket_cost cost = {.s = lk_rng_uniform(&g) * 1e-5,
                                      .tensor_s = lk_rng_uniform(&g) * 1e-5};
        struct lk_config c = {.world_size = 8,
                              .nodes = 1,
                              .accumulation = 1 + (int)lk_rng_below(&g, 3),
                              .first_bytes = (uint64_t)1 << (18 + lk_rng_below(&g, 6))};
        double wire_s = lk_rng_uniform(&g) * 3e-9, step_s[LK_COUNT(modes)];
        size_t tensors = (size_t)1 << lk_rng_below(&g, 7);

        c.cap_bytes = (uint64_t)1 << (18 + lk_rng_below(&g, 6));
        lk_config_shard(&c, (enum lk_sharding)lk_rng_below(&g, LK_SHARDING_LOCAL_SGD),
                        (enum lk_reduction)lk_rng_below(&g, LK_REDUCTION_COUNT));
        c.shard_group = c.sharding == LK_SHARDING_HSDP ? 4 : 0;
        for (size_t k = 0; k < LK_COUNT(modes); k++) {
            c.overlap = modes[k];
            step_s[k] = random_step(&c, &cost, wire_s, tensors);
            slower[k] += k && step_s[k] > step_s[k - 1] * 1.001;
            ck_assert_msg(!k || step_s[k] >= step_s[k - 1] - 1e-6,
                          "case %zu, sharding %s: %s %.9g, %s %.9g", i,
                          lk_sharding_name(c.sharding), lk_overlap_mode_name(modes[k]), step_s[k],
                          lk_overlap_mode_name(modes[k - 1]), step_s[k - 1]);
        }
    }
    ck_assert_msg(slower[1] && slower[2], "%zu and %zu of them slower", slower[1], slower[2]);
}
END_TEST

/* With the same bytes in the same units more tensors are never faster, nor are dearer launches; and
 * smaller units are never faster where collectives take no time. */
START_TEST(launches_never_gain)
{
    struct lk_rng g = lk_rng_init(27, 3);

    for (size_t i = 0, n = cases_or(2000); i < n; i++) {
        struct lk_bucket_cost cost = {.s = lk_rng_uniform(&g) * 1e-4,
                                      .tensor_s = lk_rng_uniform(&g) * 1e-4};
        struct lk_bucket_cost dearer = {.s = 2 * cost.s, .tensor_s = cost.tensor_s};
        struct lk_config c = {.world_size = 8,
                              .nodes = 1,
                              .accumulation = 1 + (int)lk_rng_below(&g, 3),
                              .first_bytes = 16 << 20,
                              .cap_bytes = 16 << 20};
        double wire_s = lk_rng_uniform(&g) * 3e-9, few, many, free_s;
        size_t tensors = (size_t)1 << lk_rng_below(&g, 6);

        lk_config_shard(&c, (enum lk_sharding)lk_rng_below(&g, LK_SHARDING_LOCAL_SGD),
                        LK_REDUCTION_EVERY);
        c.shard_group = c.sharding == LK_SHARDING_HSDP ? 4 : 0;
        few = random_step(&c, &cost, wire_s, tensors);
        many = random_step(&c, &cost, wire_s, 2 * tensors);
        ck_assert_msg(many >= few - 1e-8, "%d: %g of %zu tensors, %g of twice as many", c.sharding,
                      few, tensors, many);
        ck_assert_double_ge(random_step(&c, &dearer, wire_s, tensors), few - 1e-8);
        free_s = random_step(&c, &cost, 0, 64);
        c.cap_bytes = c.first_bytes = (uint64_t)1 << (18 + lk_rng_below(&g, 6));
        ck_assert_double_ge(random_step(&c, &cost, 0, 64), free_s - 1e-8);
    }
}
END_TEST

/* However dear a bucket is, fewer of them leave half of the backward. */
START_TEST(a12_what_is_given_back_is_bounded)
{
    struct lk_step_coll plain = {.ready = 1.5, .need = 2}, coll = plain;
    const struct lk_bucket_cost dear = {.s = 1};
    struct lk_step_model m = {.accumulation = 1, .backward_s = 20e-3, .n_colls = 1};

    ck_assert_double_eq_tol(lk_bucket_cost_charge(&m, &plain, &coll, 1000, &dear), -10e-3, 1e-12);
    ck_assert_double_eq_tol(m.backward_s, 10e-3, 1e-12);
    ck_assert(coll.ready >= 1 && coll.ready <= 2);
}
END_TEST

START_TEST(a12_an_assumed_cost_is_drawn)
{
    struct lk_cluster nothing;
    struct lk_bucket_cost b;
    struct lk_rng g = lk_rng_init(1, 2);
    double mean = 0;

    lk_cluster_init(&nothing);
    b = lk_bucket_cost_of(&nothing);
    for (int i = 0; i < DRAWS; i++) {
        double d = lk_bucket_cost_draw(&b, lk_rng_normal(&g));

        ck_assert_double_ge(d, 0);
        mean += d / DRAWS;
    }
    ck_assert_double_eq(b.s, lk_prior_value(LK_PRIOR_BUCKET));
    ck_assert_double_eq_tol(mean, b.s, 5 * b.sd / sqrt(DRAWS));
}
END_TEST

/* Add a run whose steps all take so long. */
static void add_run(struct lk_job *j, const struct lk_config *c, double step_s)
{
    struct lk_job_run *r;

    sim_truth_add_run(&sim_truth_default, j, 2, 8, j->n_runs);
    r = &j->runs[j->n_runs - 1];
    r->config = *c;
    for (size_t i = 0; i < r->n_steps; i++)
        r->step_s[i] = step_s;
}

/* Runs of several caps tell the cost; runs of one do not. */
START_TEST(a12_runs_of_several_caps_tell_the_cost)
{
    static const double TRUE_S = 400e-6;
    static const uint64_t caps[] = {512 << 10, 8 << 20, 32 << 20};
    struct lk_predictor_options o = {.level = 0.9, .draws = 20, .seed = 3, .scale_error = NAN};
    struct sim_truth fast = sim_truth_default;
    struct sim_world w;
    struct lk_predictor *p;
    double steps[3];

    fast.alpha_s = 1e-6;
    fast.rate_Bps = 1e11;
    sim_truth_cluster(&fast, 1, &w.cluster);
    sim_truth_job(&fast, 1, &w.job);
    ck_assert_int_eq(lk_predictor_create(&w.job, &w.cluster, &o, &p), LK_OK);
    ck_assert(!p->basis.bucket.measured);
    p->basis.bucket.s = TRUE_S;
    for (int i = 0; i < 3; i++) {
        struct lk_config c = config(&w.job, caps[i], 1);

        ck_assert_int_eq(lk_predictor_estimate(p, &c, &steps[i]), LK_OK);
    }
    lk_predictor_destroy(p);
    for (int i = 0; i < 3; i++) {
        struct lk_config c = config(&w.job, caps[i], 1);

        add_run(&w.job, &c, steps[i]);
        ck_assert_int_eq(lk_predictor_create(&w.job, &w.cluster, &o, &p), LK_OK);
        ck_assert(p->basis.bucket.measured == (i > 0));
        if (i == 2)
            ck_assert_double_eq_tol(p->basis.bucket.s, TRUE_S, 0.1 * TRUE_S);
        lk_predictor_destroy(p);
    }
    sim_world_fini(&w);
}
END_TEST

/* A run of plain DDP and one that differs in its sharding tell what a tensor costs; before that a
 * sharded configuration's gain is unproven. */
START_TEST(sharded_runs_tell_the_cost_of_a_tensor)
{
    static const double TRUE_S = 300e-6;
    struct lk_predictor_options o = {.level = 0.9, .draws = 20, .seed = 3, .scale_error = NAN};
    struct sim_truth fast = sim_truth_default;
    struct sim_world w;
    struct lk_predictor *p;
    struct lk_config c[2];
    struct lk_prediction at;
    double steps[2];

    fast.alpha_s = 1e-6;
    fast.rate_Bps = 1e11;
    sim_truth_cluster(&fast, 1, &w.cluster);
    sim_truth_job(&fast, 1, &w.job);
    c[0] = c[1] = config(&w.job, w.job.cap_bytes, 1);
    lk_config_shard(&c[1], LK_SHARDING_ZERO3, c[0].reduce);
    ck_assert_int_eq(lk_predictor_create(&w.job, &w.cluster, &o, &p), LK_OK);
    ck_assert(!p->basis.bucket.tensor_measured);
    p->basis.bucket.tensor_s = TRUE_S;
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(lk_predictor_estimate(p, &c[i], &steps[i]), LK_OK);
        ck_assert_int_eq(lk_predictor_at(p, &c[i], &at), LK_OK);
        ck_assert(lk_prediction_gain_unproven(&at) == (i == 1));
        lk_prediction_fini(&at);
    }
    lk_predictor_destroy(p);
    for (int i = 0; i < 2; i++) {
        add_run(&w.job, &c[i], steps[i]);
        ck_assert_int_eq(lk_predictor_create(&w.job, &w.cluster, &o, &p), LK_OK);
        ck_assert(p->basis.bucket.tensor_measured == (i == 1));
        lk_predictor_destroy(p);
    }
    ck_assert_int_eq(lk_predictor_create(&w.job, &w.cluster, &o, &p), LK_OK);
    ck_assert_double_eq_tol(p->basis.bucket.tensor_s, TRUE_S, 0.1 * TRUE_S);
    c[1].world_size = c[1].nodes = 4;
    ck_assert_int_eq(lk_predictor_at(p, &c[1], &at), LK_OK);
    ck_assert(!lk_prediction_gain_unproven(&at));
    lk_prediction_fini(&at);
    lk_predictor_destroy(p);
    sim_world_fini(&w);
}
END_TEST

/* The cluster file's costs stand, whatever runs say. */
START_TEST(the_cluster_file_says_what_launches_cost)
{
    struct lk_bucket_cost b;
    struct lk_cluster c;

    lk_cluster_init(&c);
    ck_assert_int_eq(lk_quantity_set(&c.launch_s, 5e-6, NAN, NAN, 1, "test"), LK_OK);
    ck_assert_int_eq(lk_quantity_set(&c.tensor_s, 10e-6, 8e-6, 12e-6, 9, "test"), LK_OK);
    b = lk_bucket_cost_of(&c);
    ck_assert(b.measured && b.tensor_measured);
    ck_assert_double_eq_tol(lk_bucket_cost_draw(&b, 2), 5e-6, 1e-15);
    ck_assert_double_eq_tol(lk_bucket_cost_draw_tensor(&b, -1.6448536269514722), 8e-6, 1e-12);
    lk_cluster_fini(&c);
}
END_TEST

SUITE(bucket_cost, c)
{
    tcase_add_loop_test(c, a12_buckets_beyond_the_jobs_own_are_charged, 0, 5);
    tcase_add_test(c, launches_never_gain);
    tcase_add_test(c, less_overlap_is_never_faster);
    tcase_add_test(c, a12_what_is_given_back_is_bounded);
    tcase_add_test(c, a12_an_assumed_cost_is_drawn);
    tcase_add_test(c, a12_runs_of_several_caps_tell_the_cost);
    tcase_add_test(c, sharded_runs_tell_the_cost_of_a_tensor);
    tcase_add_test(c, the_cluster_file_says_what_launches_cost);
}
