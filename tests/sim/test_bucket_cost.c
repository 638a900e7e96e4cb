/* What a gradient bucket costs compute: charged, given back, drawn, fitted to runs of several caps.
 */
#include "sim/step/bucket_cost.h"

#include "base/rng.h"
#include "sim/forecast/predictor.h"
#include "sim/prior.h"
#include "sim/step/closed_form.h"
#include "tests/rigs/sim_truth.h"
#include "tests/rigs/suite.h"

#include <math.h>

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
    struct lk_step_coll plain[64], colls[64];
    double more_s, before, expected, backward_s = 20e-3;
    int own, n;

    sim_world_init(&w, 1, 1);
    c = config(&w.job, charges[_i].cap_bytes, charges[_i].accumulation);
    c.reduce = charges[_i].no_sync ? LK_REDUCTION_LAST : LK_REDUCTION_EVERY;
    ck_assert_int_eq(lk_volume_init(&v, &w.job, &c), LK_OK);
    ck_assert_int_eq(lk_volume_own_buckets(&w.job, &own), LK_OK);
    ck_assert_uint_le(v.n, 64);
    for (size_t i = 0; i < v.n; i++)
        plain[i] = colls[i] = v.steps[i];
    n = lk_bucket_count(plain, v.n);
    bare = (struct lk_step_model){.ranks = 1,
                                  .nodes = 1,
                                  .accumulation = c.accumulation,
                                  .forward_s = 10e-3,
                                  .backward_s = backward_s,
                                  .n_colls = v.n};
    before = step_of(&bare, colls);
    m = bare;
    more_s = lk_bucket_cost_charge(&m, plain, colls, own, charges[_i].cost_s);
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

/* However dear a bucket is, fewer of them leave half of the backward. */
START_TEST(a12_what_is_given_back_is_bounded)
{
    const struct lk_step_coll plain = {.ready = 1.5, .need = 2};
    struct lk_step_coll coll = plain;
    struct lk_step_model m = {.accumulation = 1, .backward_s = 20e-3, .n_colls = 1};

    ck_assert_double_eq_tol(lk_bucket_cost_charge(&m, &plain, &coll, 1000, 1), -10e-3, 1e-12);
    ck_assert_double_eq_tol(m.backward_s, 10e-3, 1e-12);
    ck_assert(coll.ready >= 1 && coll.ready <= 2);
}
END_TEST

START_TEST(a12_an_assumed_cost_is_drawn)
{
    struct lk_bucket_cost b = lk_bucket_cost_assumed();
    struct lk_rng g = lk_rng_init(1, 2);
    double mean = 0;

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

SUITE(bucket_cost, c)
{
    tcase_add_loop_test(c, a12_buckets_beyond_the_jobs_own_are_charged, 0, 5);
    tcase_add_test(c, a12_what_is_given_back_is_bounded);
    tcase_add_test(c, a12_an_assumed_cost_is_drawn);
    tcase_add_test(c, a12_runs_of_several_caps_tell_the_cost);
}
