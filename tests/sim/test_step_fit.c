/* The step model fitted to a table of throughputs, against truths that follow the step model. */
#include "base/array.h"
#include "base/rng.h"
#include "sim/forecast/predictor.h"
#include "sim/step/config.h"
#include "sim/throughput/throughput_fit.h"
#include "tests/rigs/cases.h"
#include "tests/rigs/sim_truth.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <stdlib.h>

enum { BATCH = 8, DRAWS = 800 };

/* A truth's job, cluster and throughputs of runs. */
struct rig {
    struct sim_truth truth;
    struct lk_job job;
    struct lk_cluster cluster;
    struct lk_step_prior *prior;
};

static void rig_init(struct rig *r, double rate_Bps)
{
    r->truth = sim_truth_default;
    r->truth.rate_Bps = rate_Bps;
    sim_truth_job(&r->truth, 1, &r->job);
    sim_truth_cluster(&r->truth, 1, &r->cluster);
    ck_assert_int_eq(lk_step_prior_create(&r->job, true, &r->cluster, DRAWS, 1, &r->prior), LK_OK);
}

static void rig_fini(struct rig *r)
{
    lk_step_prior_destroy(r->prior);
    lk_cluster_fini(&r->cluster);
    lk_job_fini(&r->job);
}

static struct lk_scaling_point measure_batch(const struct rig *r, int world_size, int local_batch)
{
    double *steps = NULL, mean;

    ck_assert_int_eq(lk_alloc(&steps, (size_t)r->truth.steps, sizeof *steps), LK_OK);
    mean = sim_truth_run(&r->truth, &r->job, world_size, local_batch, 100 + (uint64_t)world_size,
                         steps);
    free(steps);
    return (struct lk_scaling_point){.config.world_size = world_size,
                                     .config.nodes = world_size,
                                     .config.local_batch = local_batch,
                                     .config.accumulation = 1,
                                     .throughput = local_batch * world_size / mean};
}

static struct lk_scaling_point measure(const struct rig *r, int world_size)
{
    return measure_batch(r, world_size, BATCH);
}

static struct lk_estimate predict(struct lk_step_prior *prior, const struct lk_scaling_point *rows,
                                  size_t n, const struct lk_scaling_point *target)
{
    struct lk_throughput_fit fit = {0};
    struct lk_estimate e;

    ck_assert_int_eq(lk_throughput_fit_init(&fit, prior, rows, n), LK_OK);
    ck_assert_int_eq(lk_throughput_fit_at(&fit, target, 0.9, &e), LK_OK);
    lk_throughput_fit_fini(&fit);
    return e;
}

/* Rows of one machine forecast another, with links of another rate: near that machine's truth,
 * inside the interval, by the step model's change of the law too. On the same machine nothing
 * changes. */
START_TEST(another_machine_is_forecast)
{
    static const double elsewhere[] = {1e8, 5e7, 4e8};
    struct rig here, there;
    struct lk_scaling_point rows[2], truth;
    struct lk_throughput_fit fit = {0};
    struct lk_estimate own, e;

    rig_init(&here, 1e8);
    rig_init(&there, elsewhere[_i]);
    for (int i = 0; i < 2; i++)
        rows[i] = measure(&here, i + 1);
    truth = measure(&there, 4);
    ck_assert_int_eq(lk_throughput_fit_init(&fit, here.prior, rows, 2), LK_OK);
    ck_assert_int_eq(lk_throughput_fit_at(&fit, &truth, 0.9, &own), LK_OK);
    fit.elsewhere = there.prior;
    ck_assert_int_eq(lk_throughput_fit_at(&fit, &truth, 0.9, &e), LK_OK);
    if (!_i)
        ck_assert_double_eq_tol(e.value / own.value, 1, 1e-6);
    else
        ck_assert_int_eq(e.value > own.value, _i == 2);
    ck_assert_msg(fabs(e.value / truth.throughput - 1) < 0.05 && e.lo < truth.throughput &&
                      truth.throughput < e.hi,
                  "%g (%g to %g) for %g, at home %g", e.value, e.lo, e.hi, truth.throughput,
                  own.value);
    lk_throughput_fit_fini(&fit);
    rig_fini(&here);
    rig_fini(&there);
}
END_TEST

/* Link rates, B/s, from one hidden behind backward to one that is not. */
static const double rates[] = {2e9, 4e8, 2e8, 1e8, 5e7};

/* Forecast 4 and 8 ranks from 1 and 2: near the truth and inside the interval. Where compute hides
 * communication on 2 ranks, the law, which half of the odds are of, knows nothing of it. */
START_TEST(from_one_and_two)
{
    struct rig r;
    struct lk_scaling_point rows[2], target;
    struct lk_estimate e, law;

    rig_init(&r, rates[_i]);
    rows[0] = measure(&r, 1);
    rows[1] = measure(&r, 2);
    for (int world_size = 4; world_size <= 8; world_size *= 2) {
        target = measure(&r, world_size);
        e = predict(r.prior, rows, 2, &target);
        law = predict(NULL, rows, 2, &target);
        ck_assert_msg(fabs(e.value / target.throughput - 1) < 0.14,
                      "rate %g, %d ranks: %g for %g (law alone %g)", rates[_i], world_size, e.value,
                      target.throughput, law.value);
        ck_assert_msg(e.lo < target.throughput && target.throughput < e.hi,
                      "rate %g, %d ranks: %g outside %g..%g", rates[_i], world_size,
                      target.throughput, e.lo, e.hi);
    }
    rig_fini(&r);
}
END_TEST

/* From one rank and a known network there is a forecast, wider than with two. */
START_TEST(from_one)
{
    struct rig r;
    struct lk_scaling_point rows[2], target;
    struct lk_estimate one, two;

    rig_init(&r, 2e8);
    rows[0] = measure(&r, 1);
    rows[1] = measure(&r, 2);
    target = measure(&r, 8);
    one = predict(r.prior, rows, 1, &target);
    two = predict(r.prior, rows, 2, &target);
    ck_assert_double_lt(fabs(one.value / target.throughput - 1), 0.25);
    ck_assert_double_lt(one.lo, target.throughput);
    ck_assert_double_gt(one.hi, target.throughput);
    ck_assert_double_gt(log(one.hi / one.lo), log(two.hi / two.lo));
    rig_fini(&r);
}
END_TEST

/* Measured rows are reproduced, and the losses sum to the step. */
START_TEST(rows_and_losses)
{
    struct rig r;
    struct lk_scaling_point rows[2];
    struct lk_estimate e;
    struct lk_throughput_fit fit = {0};
    double shares[LK_LOSS_COUNT], sum = 0;

    rig_init(&r, 1e8);
    rows[0] = measure(&r, 1);
    rows[1] = measure(&r, 2);
    for (int i = 0; i < 2; i++) {
        e = predict(r.prior, rows, 2, &rows[i]);
        ck_assert_double_eq_tol(e.value / rows[i].throughput, 1, 0.02);
    }
    ck_assert_int_eq(lk_throughput_fit_init(&fit, r.prior, rows, 2), LK_OK);
    ck_assert_double_gt(fit.effective, 5);
    ck_assert_int_eq(lk_throughput_fit_losses(&fit, &rows[1], shares), LK_OK);
    for (int i = 0; i < LK_LOSS_COUNT; i++)
        sum += shares[i];
    ck_assert_double_eq_tol(sum, 1, 1e-6);
    ck_assert_double_gt(shares[LK_LOSS_WIRE], 0.1);
    lk_throughput_fit_fini(&fit);
    rig_fini(&r);
}
END_TEST

/* With half the batch on more ranks compute shrinks, communication does not. */
START_TEST(another_batch)
{
    struct rig r;
    struct lk_scaling_point rows[3], target;
    struct lk_estimate e;

    rig_init(&r, 1e8);
    rows[0] = measure(&r, 1);
    rows[1] = measure(&r, 2);
    rows[2] = measure_batch(&r, 1, BATCH / 2);
    target = measure_batch(&r, 4, BATCH / 2);
    e = predict(r.prior, rows, 2, &target);
    ck_assert_double_lt(fabs(e.value / target.throughput - 1), 0.25);
    ck_assert(e.lo < target.throughput && target.throughput < e.hi);
    e = predict(r.prior, rows, 3, &target);
    ck_assert_double_lt(fabs(e.value / target.throughput - 1), 0.06);
    ck_assert(e.lo < target.throughput && target.throughput < e.hi);
    rig_fini(&r);
}
END_TEST

/* Forecast the step of a batch and count from rows of the rig's batch: by the law, the job, and the
 * rows with the step model. */
enum { BY_LAW, BY_JOB, BY_BOTH, WAYS };
static void steps_by(const struct lk_scaling_point *rows, size_t n, struct lk_throughput_fit *both,
                     struct lk_predictor *job, const struct lk_config *c, double *out_s)
{
    struct lk_scaling_point target = {.config = *c};
    struct lk_throughput_fit law = {0};
    struct lk_estimate e;
    double samples = (double)c->local_batch * c->world_size;

    ck_assert_int_eq(lk_throughput_fit_init(&law, NULL, rows, n), LK_OK);
    ck_assert_int_eq(lk_throughput_fit_at(&law, &target, 0.9, &e), LK_OK);
    lk_throughput_fit_fini(&law);
    out_s[BY_LAW] = samples / e.value;
    ck_assert_msg(lk_predictor_estimate(job, c, &out_s[BY_JOB]) == LK_OK, "%s", lk_error_text());
    ck_assert_int_eq(lk_throughput_fit_at(both, &target, 0.9, &e), LK_OK);
    out_s[BY_BOTH] = samples / e.value;
}

/* On machines of random rates, from rows of random counts: a step of fewer samples is shorter and
 * takes longer a sample, by the law, the job, and the rows with the step model, whose forecast lies
 * between the other two, up to what both know of compute. */
START_TEST(a_smaller_batch_is_a_shorter_step)
{
    static const char *const names[] = {"law", "job", "both"};

    for (size_t i = 0; i < cases_or(4000) / 100; i++) {
        struct lk_rng g = lk_rng_init(40, i);
        struct lk_predictor_options o = {.level = 0.9, .draws = 2, .seed = 1, .scale_error = 0};
        struct lk_predictor *job = NULL;
        struct lk_throughput_fit both = {0};
        struct lk_scaling_point rows[3];
        struct rig r;
        size_t n = 1 + lk_rng_below(&g, 3);
        double last[WAYS] = {0}, last_a_sample[WAYS] = {INFINITY, INFINITY, INFINITY};
        struct lk_config c = {.accumulation = 1, .reduce = LK_REDUCTION_LAST};

        rig_init(&r, exp(log(1e8) + log(40) * lk_rng_uniform(&g)));
        for (size_t k = 0; k < n; k++)
            rows[k] = measure(&r, 1 << k);
        c.world_size = c.nodes = 2 << lk_rng_below(&g, 5);
        lk_config_set_cap(&c, &r.job, r.job.cap_bytes);
        ck_assert_int_eq(lk_predictor_create(&r.job, &r.cluster, &o, &job), LK_OK);
        ck_assert_int_eq(lk_throughput_fit_init(&both, r.prior, rows, n), LK_OK);
        for (c.local_batch = 1; c.local_batch <= 4 * BATCH; c.local_batch *= 2) {
            double s[WAYS];

            steps_by(rows, n, &both, job, &c, s);
            for (int way = 0; way < WAYS; way++) {
                ck_assert_msg(s[way] >= last[way] * (1 - 1e-6) &&
                                  s[way] / c.local_batch <= last_a_sample[way] * (1 + 1e-6),
                              "case %zu, %s, batch %d of %d GPUs: %g s, of half of it %g s", i,
                              names[way], c.local_batch, c.world_size, s[way], last[way]);
                last[way] = s[way];
                last_a_sample[way] = s[way] / c.local_batch;
            }
            ck_assert_msg(s[BY_BOTH] > 0.9 * fmin(s[BY_LAW], s[BY_JOB]) &&
                              s[BY_BOTH] < 1.1 * fmax(s[BY_LAW], s[BY_JOB]),
                          "case %zu, batch %d of %d GPUs: law %g, job %g, both %g s", i,
                          c.local_batch, c.world_size, s[BY_LAW], s[BY_JOB], s[BY_BOTH]);
        }
        lk_throughput_fit_fini(&both);
        lk_predictor_destroy(job);
        rig_fini(&r);
    }
}
END_TEST

/* Collectives that take longer than the whole step contradict the rows. */
START_TEST(contradiction)
{
    struct rig r;
    struct lk_scaling_point row;
    struct lk_throughput_fit fit = {0};

    rig_init(&r, 1e5);
    row = measure(&r, 2);
    row.throughput *= 1000;
    ck_assert_int_eq(lk_throughput_fit_init(&fit, r.prior, &row, 1), LK_EEVIDENCE);
    ck_assert_ptr_null(fit.step);
    ck_assert_int_eq(lk_throughput_fit_init(&fit, r.prior, &row, 0), LK_EEVIDENCE);
    rig_fini(&r);
}
END_TEST

/* The law counts whatever the cap: one that cuts the same buckets has the same forecast, and a mean
 * of the step model and the law lies between both. */
START_TEST(a11_the_law_counts_at_every_cap)
{
    struct rig r;
    struct lk_scaling_point rows[2], target;
    struct lk_estimate own, other;

    rig_init(&r, 1e8);
    for (int i = 0; i < 2; i++) {
        rows[i] = measure(&r, i + 1);
        lk_config_set_cap(&rows[i].config, &r.job, r.job.cap_bytes);
    }
    target = measure(&r, 4);
    lk_config_set_cap(&target.config, &r.job, r.job.cap_bytes);
    own = predict(r.prior, rows, 2, &target);
    target.config.cap_bytes++;
    other = predict(r.prior, rows, 2, &target);
    ck_assert_double_eq_tol(other.value / own.value, 1, 1e-3);
    ck_assert_double_eq_tol(other.lo / own.lo, 1, 1e-3);
    ck_assert_double_eq_tol(other.hi / own.hi, 1, 1e-3);
    rig_fini(&r);
}
END_TEST

/* A job's own optimizer and host times are the fixed cost, not the usual one of any job. */
START_TEST(a11_the_times_of_a_job_count)
{
    struct rig r;
    const struct lk_config one = {
        .world_size = 1, .nodes = 1, .local_batch = BATCH, .accumulation = 1};
    double sum = 0, step_s, compute_s;
    size_t shape;

    rig_init(&r, 1e8);
    lk_step_prior_destroy(r.prior);
    compute_s = r.job.compute[0].forward_s.value + r.job.compute[0].backward_s.value;
    ck_assert_int_eq(
        lk_quantity_set(&r.job.compute[0].optimizer_s, 0.3 * compute_s, NAN, NAN, 1, "test"),
        LK_OK);
    lk_quantity_fini(&r.job.compute[0].gap_s);
    ck_assert_int_eq(lk_step_prior_create(&r.job, true, &r.cluster, DRAWS, 1, &r.prior), LK_OK);
    ck_assert_int_eq(lk_step_prior_shape(r.prior, &one, &shape), LK_OK);
    for (size_t i = 0; i < DRAWS; i++) {
        ck_assert_int_eq(
            lk_step_prior_step_s(r.prior, i, shape, 1, compute_s, compute_s, NULL, &step_s), LK_OK);
        sum += step_s / compute_s - 1;
    }
    ck_assert_double_eq_tol(sum / DRAWS, 0.3, 0.03);
    rig_fini(&r);
}
END_TEST

/* A datasheet's network is drawn: steps on two nodes take up to several times as long in some
 * draws; one whose rate is measured or stated is not. */
START_TEST(b_a_datasheet_network_is_drawn)
{
    struct rig r;
    struct lk_config c = {.world_size = 2, .nodes = 2, .local_batch = BATCH, .accumulation = 1};
    size_t shape, n_points;
    double step_s, spread[4];

    rig_init(&r, 1e8);
    n_points = r.cluster.n_points;
    r.cluster.topology.nics_per_node = 8;
    r.cluster.n_points = 0; /* a datasheet alone */
    ck_assert_int_eq(lk_quantity_set(&r.cluster.inter.bandwidth_Bps, 1e8, NAN, NAN, 0, "test"),
                     LK_OK);
    ck_assert_int_eq(lk_quantity_set(&r.cluster.inter.latency_s, 1e-5, NAN, NAN, 0, "test"), LK_OK);
    for (int i = 0; i < 4; i++) {
        double lo = INFINITY, hi = 0;

        r.cluster.preset = i == 1; /* asks nothing */
        r.cluster.inter.bandwidth_Bps.n = i == 2 ? 9 : 0;
        r.cluster.network_stated = i == 3;
        lk_step_prior_destroy(r.prior);
        ck_assert_int_eq(lk_step_prior_create(&r.job, true, &r.cluster, DRAWS, 1, &r.prior), LK_OK);
        ck_assert_int_eq(lk_step_prior_shape(r.prior, &c, &shape), LK_OK);
        for (size_t k = 0; k < DRAWS; k++) {
            ck_assert_int_eq(lk_step_prior_step_s(r.prior, k, shape, 1, 0, 0, NULL, &step_s),
                             LK_OK);
            lo = fmin(lo, step_s);
            hi = fmax(hi, step_s);
        }
        spread[i] = hi / lo;
    }
    ck_assert_double_eq(spread[1], spread[0]);
    ck_assert_double_eq(spread[3], spread[2]);
    ck_assert_double_gt(spread[0], 4 * spread[2]);
    r.cluster.n_points = n_points;
    rig_fini(&r);
}
END_TEST

SUITE(step_fit, t)
{
    tcase_add_test(t, b_a_datasheet_network_is_drawn);
    tcase_add_test(t, a11_the_law_counts_at_every_cap);
    tcase_add_test(t, a11_the_times_of_a_job_count);
    tcase_add_loop_test(t, another_machine_is_forecast, 0, 3);
    tcase_add_loop_test(t, from_one_and_two, 0, (int)LK_COUNT(rates));
    tcase_add_test(t, from_one);
    tcase_add_test(t, rows_and_losses);
    tcase_add_test(t, another_batch);
    tcase_add_test(t, contradiction);
    tcase_add_test(t, a_smaller_batch_is_a_shorter_step);
}
