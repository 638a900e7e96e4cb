/*
 * Inputs whose ends are far from their values, or at them, give intervals that hold the estimate,
 * and whose ends do not cross: the steps, efficiencies, gains and back-tests of a job and of a
 * table, and what a comparison of clusters prints.
 *
 * LOCKSTEP_CASES=100000 build/test_lockstep uncertain_inputs tries as many; the default is quick.
 */
#include "base/array.h"
#include "base/quantity.h"
#include "base/rng.h"
#include "sim/cluster_compare.h"
#include "sim/forecast/backtest.h"
#include "sim/planning/plan.h"
#include "sim/throughput/throughput.h"
#include "tests/rigs/cases.h"
#include "tests/rigs/sim_truth.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Worlds ---- */

/* Give a quantity ends at its value, at nothing, at 1,000 s, far from it, or on one side alone. */
static void widen(struct lk_quantity *q, struct lk_rng *g)
{
    double v = q->value;
    const double ends[][2] = {{v, v},
                              {0, v},
                              {v, 1000},
                              {0, 1000},
                              {0, 1e9 * v},
                              {0.999 * v, 1e6 * v},
                              {1e-9 * v, 1.001 * v},
                              {v, 1.5 * v},
                              {v / 1e3, v},
                              {NAN, NAN}};
    size_t k = lk_rng_below(g, LK_COUNT(ends));

    if (!lk_quantity_known(q) || lk_rng_below(g, 3) == 0)
        return;
    q->lo = fmin(ends[k][0], v);
    q->hi = fmax(ends[k][1], v);
    if (isnan(ends[k][0]))
        q->lo = q->hi = NAN;
}

static void widen_cluster(struct lk_cluster *c, struct lk_rng *g)
{
    struct lk_quantity *of[] = {&c->gamma_wait,   &c->gamma_wire, &c->delta,         &c->rank_sd,
                                &c->transient_sd, &c->node_sd,    &c->common_sd,     &c->start_s,
                                &c->launch_s,     &c->tensor_s,   &c->price_per_hour};

    for (size_t i = 0; i < LK_COUNT(of); i++)
        widen(of[i], g);
    for (int l = 0; l < LK_LINK_COUNT; l++) {
        struct lk_cluster_link *link = l == LK_LINK_INTER ? &c->inter : &c->intra;

        widen(&link->latency_s, g);
        widen(&link->bandwidth_Bps, g);
    }
    for (size_t i = 0; i < c->n_points; i++)
        widen(&c->points[i].time_s, g);
}

static void widen_job(struct lk_job *j, struct lk_rng *g)
{
    for (size_t i = 0; i < j->n_compute; i++) {
        struct lk_job_compute *row = &j->compute[i];
        struct lk_quantity *of[] = {&row->forward_s,   &row->backward_s, &row->input_s,
                                    &row->optimizer_s, &row->gap_s,      &row->transient};

        for (size_t k = 0; k < LK_COUNT(of); k++)
            widen(of[k], g);
    }
    widen(&j->noise_scale, g);
    widen(&j->target_samples, g);
    widen(&j->memory_fixed_bytes, g);
    widen(&j->memory_per_sample_bytes, g);
}

static void put(struct lk_quantity *q, double v)
{
    ck_assert_int_eq(lk_quantity_set(q, v, NAN, NAN, 0, "made up for this test"), LK_OK);
}

static void world_init(struct sim_world *w, uint64_t number, struct lk_rng *g)
{
    sim_world_init(w, number, 1 << lk_rng_below(g, 4));
    if (lk_rng_below(g, 2))
        sim_truth_add_points(&w->truth, number, 8, &w->cluster);
    put(&w->cluster.inter.latency_s, 50e-6);
    put(&w->cluster.inter.bandwidth_Bps, 1e9);
    put(&w->cluster.price_per_hour, 2);
    put(&w->job.noise_scale, 100);
    put(&w->job.target_samples, 1e6);
    put(&w->job.memory_fixed_bytes, 1e9);
    put(&w->job.memory_per_sample_bytes, 1e7);
    widen_job(&w->job, g);
    widen_cluster(&w->cluster, g);
}

/* ---- Intervals ---- */

/* An interval holds the estimate, is above nothing, and ends; of what is not known there is none.
 */
static void holds(size_t number, const char *what, double v, double lo, double hi)
{
    ck_assert_msg(isnan(v) || (lo >= 0 && lo <= v && v <= hi && isfinite(hi)),
                  "case %zu: %s of %.17g in %.17g to %.17g", number, what, v, lo, hi);
}

static void check_forecast(size_t number, const struct lk_forecast *f)
{
    for (size_t i = 0; i < f->n_points; i++) {
        const struct lk_forecast_point *p = &f->points[i];

        ck_assert_double_gt(p->step_lo_s, 0);
        holds(number, "step", p->step_s, p->step_lo_s, p->step_hi_s);
        holds(number, "efficiency", p->efficiency, p->efficiency_lo, p->efficiency_hi);
        if (!isnan(p->measured_lo_s)) /* a row of a table has none */
            holds(number, "measured step", p->measured_step_s, p->measured_lo_s, p->measured_hi_s);
        if (p->plan.known) {
            const struct lk_plan *q = &p->plan;

            holds(number, "memory", q->memory_bytes, q->memory_lo_bytes, q->memory_hi_bytes);
            if (!isnan(q->time_to_target_hi_h)) /* without limit: the noise scale may be nothing */
                holds(number, "time to the target", q->time_to_target_h, q->time_to_target_lo_h,
                      q->time_to_target_hi_h);
            if (!isnan(q->cost_to_target_hi))
                holds(number, "cost to the target", q->cost_to_target, q->cost_to_target_lo,
                      q->cost_to_target_hi);
        }
        if (p->gain.known)
            holds(number, "gain", p->gain.ratio, p->gain.lo, p->gain.hi);
    }
    for (size_t i = 0; i < f->n_answer; i++)
        ck_assert_msg(!strstr(f->answer[i], "nan") && !strstr(f->answer[i], " inf"),
                      "case %zu says: %s", number, f->answer[i]);
    for (size_t i = 0; i < f->n_backtests; i++)
        holds(number, "back-test", f->backtests[i].predicted_s, f->backtests[i].lo_s,
              f->backtests[i].hi_s);
}

static void check_gains(size_t number, const struct lk_gains *g)
{
    for (size_t i = 0; i < g->n_effects; i++)
        holds(number, "effect", g->effects[i].gain.ratio, g->effects[i].gain.lo,
              g->effects[i].gain.hi);
    for (size_t i = 0; i < g->n_machines; i++)
        holds(number, "machine's gain", g->machines[i].gain.ratio, g->machines[i].gain.lo,
              g->machines[i].gain.hi);
}

static struct lk_axis_value value_of(enum lk_axis a, const char *word)
{
    struct lk_axis_value v;

    ck_assert_msg(lk_axis_parse(a, word, &v) == LK_OK, "%s", lk_error_text());
    return v;
}

/* A job, predicted and compared, with its back-tests and its plan. */
START_TEST(a_jobs_ends_never_cross)
{
    for (size_t i = 0; i < cases_or(150); i++) {
        struct lk_rng g = lk_rng_init(7, i);
        const struct lk_axis_value gpus[] = {{.count = 1}, {.count = 2 << lk_rng_below(&g, 7)}};
        const struct lk_axis_value batches[] = {{.count = 2}, {.count = 8}, {.count = 12}};
        const struct lk_axis_value rates[] = {value_of(LK_AXIS_NIC_BANDWIDTH, "x1"),
                                              value_of(LK_AXIS_NIC_BANDWIDTH, "x0.5")};
        const struct lk_plan_request plan = {.cost_factor = 1.5};
        struct lk_forecast_request q = {.axes[LK_AXIS_GPUS] = {gpus, 2},
                                        .axes[LK_AXIS_LOCAL_BATCH] = {batches, 3},
                                        .level = 0.9,
                                        .draws = 40,
                                        .seed = i,
                                        .anyway = true,
                                        .plan = &plan};
        struct sim_world w;
        struct sim_answer a = {0};

        world_init(&w, i, &g);
        if (i % 2) {
            q.axes[LK_AXIS_NIC_BANDWIDTH].v = rates;
            q.axes[LK_AXIS_NIC_BANDWIDTH].n = 2;
        }
        ck_assert_msg((i % 2 ? sim_whatif(&w.job, &w.cluster, &q, &a)
                             : sim_predict(&w.job, &w.cluster, &q, &a.forecast)) == LK_OK,
                      "case %zu: %s", i, lk_error_text());
        check_forecast(i, &a.forecast);
        check_gains(i, &a.gains);
        sim_answer_fini(&a);
        sim_world_fini(&w);
    }
}
END_TEST

/* Table 51 has a collective of months. */
enum { FIRST_TABLE = 30 };

/* A table beside a job and a cluster with such numbers. */
START_TEST(a_tables_ends_never_cross)
{
    static const int rows[] = {1, 2, 4};

    for (size_t i = FIRST_TABLE; i < FIRST_TABLE + cases_or(25); i++) {
        struct lk_rng g = lk_rng_init(8, i);
        const struct lk_axis_value gpus[] = {{.count = 2}, {.count = 2 << lk_rng_below(&g, 5)}};
        struct lk_throughput_table t = {0};
        struct lk_throughput_model model = {.is_said = true};
        struct lk_throughput_request q = {.model = &model,
                                          .grid = {.axes[LK_AXIS_GPUS] = {gpus, 2},
                                                   .level = 0.9,
                                                   .draws = 40,
                                                   .seed = i,
                                                   .anyway = true,
                                                   .compare = i % 2}};
        struct lk_evidence_source source = {0};
        struct lk_gains gains = {0};
        struct lk_forecast f = {0};
        struct sim_world w;
        double each = 8 / (sim_truth_default.forward_s + sim_truth_default.backward_s);

        world_init(&w, i, &g);
        model.job = &w.job;
        model.cluster = &w.cluster;
        ck_assert_int_eq(lk_strdup(&t.name, "rows"), LK_OK);
        ck_assert_int_eq(lk_alloc(&t.points, LK_COUNT(rows), sizeof *t.points), LK_OK);
        for (; t.n < LK_COUNT(rows); t.n++)
            t.points[t.n] = (struct lk_scaling_point){
                .config = {.world_size = rows[t.n], .local_batch = 8, .accumulation = 1},
                .throughput = each * rows[t.n] * pow(0.9 + 0.1 * lk_rng_uniform(&g), (double)t.n)};
        ck_assert_msg(lk_throughput_evidence(&t, &q, &source) == LK_OK, "%s", lk_error_text());
        ck_assert_msg(lk_forecast_run(&source, &q.grid, &f, &gains) == LK_OK, "case %zu: %s", i,
                      lk_error_text());
        check_forecast(i, &f);
        check_gains(i, &gains);
        source.ops->close(source.self);
        lk_gains_fini(&gains);
        lk_forecast_fini(&f);
        lk_throughput_fini(&t);
        sim_world_fini(&w);
    }
}
END_TEST

/* Two clusters, compared: what each predicts, and the ratio. */
START_TEST(a_comparisons_ends_never_cross)
{
    for (size_t i = 0; i < cases_or(400); i++) {
        struct lk_rng g = lk_rng_init(9, i);
        struct lk_comparison c = {0};
        struct sim_world a, b;

        world_init(&a, i, &g);
        world_init(&b, i + 1, &g);
        ck_assert_msg(lk_compare_clusters(&a.cluster, &b.cluster, &c) == LK_OK, "%s",
                      lk_error_text());
        ck_assert_uint_gt(c.n, 0);
        for (size_t k = 0; k < c.n; k++) {
            const struct lk_compared *r = &c.rows[k];

            const struct lk_estimate *of[] = {&r->a, &r->b, &r->ratio};

            for (size_t e = 0; e < LK_COUNT(of); e++)
                ck_assert_msg((isnan(of[e]->lo) && isnan(of[e]->hi)) ||
                                  (of[e]->lo <= of[e]->value && of[e]->value <= of[e]->hi),
                              "case %zu, %s: %g in %g to %g", i, r->what, of[e]->value, of[e]->lo,
                              of[e]->hi);
        }
        lk_comparison_fini(&c);
        sim_world_fini(&a);
        sim_world_fini(&b);
    }
}
END_TEST

SUITE(uncertain_inputs, t)
{
    tcase_add_test(t, a_jobs_ends_never_cross);
    tcase_add_test(t, a_tables_ends_never_cross);
    tcase_add_test(t, a_comparisons_ends_never_cross);
}
