/* Inputs whose ends are far from their values, or at them, give intervals that hold the estimate.
 */
#include "base/array.h"
#include "base/quantity.h"
#include "base/rng.h"
#include "tests/rigs/cases.h"
#include "tests/rigs/sim_truth.h"
#include "tests/rigs/suite.h"

#include <math.h>

/* Give a quantity ends at its value, at nothing, at 1,000 s, or far from it. */
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
                              {NAN, NAN}};
    size_t k = lk_rng_below(g, LK_COUNT(ends));

    if (!lk_quantity_known(q) || lk_rng_below(g, 3) == 0)
        return;
    q->lo = fmin(ends[k][0], v);
    q->hi = fmax(ends[k][1], v);
    if (isnan(ends[k][0]))
        q->lo = q->hi = NAN;
}

static void widen_all(struct sim_world *w, struct lk_rng *g)
{
    struct lk_cluster *c = &w->cluster;
    struct lk_quantity *of_cluster[] = {&c->gamma_wait, &c->gamma_wire, &c->delta, &c->rank_sd,
                                        &c->transient_sd};

    for (size_t i = 0; i < w->job.n_compute; i++) {
        struct lk_job_compute *row = &w->job.compute[i];
        struct lk_quantity *of_row[] = {&row->forward_s,   &row->backward_s, &row->input_s,
                                        &row->optimizer_s, &row->gap_s,      &row->transient};

        for (size_t k = 0; k < LK_COUNT(of_row); k++)
            widen(of_row[k], g);
    }
    for (size_t i = 0; i < c->n_points; i++)
        widen(&c->points[i].time_s, g);
    for (size_t i = 0; i < LK_COUNT(of_cluster); i++)
        widen(of_cluster[i], g);
}

START_TEST(ends_never_cross)
{
    for (size_t i = 0; i < cases_or(4000) / 10; i++) {
        struct lk_rng g = lk_rng_init(7, i);
        const struct lk_axis_value gpus[] = {{.count = 1}, {.count = 2 << lk_rng_below(&g, 7)}};
        const struct lk_axis_value batches[] = {{.count = 2}, {.count = 8}, {.count = 12}};
        struct lk_forecast_request q = {.axes[LK_AXIS_GPUS] = {gpus, 2},
                                        .axes[LK_AXIS_LOCAL_BATCH] = {batches, 3},
                                        .level = 0.9,
                                        .draws = 40,
                                        .seed = i};
        struct sim_world w;
        struct lk_forecast f;

        sim_world_init(&w, i, 1 << lk_rng_below(&g, 2));
        if (lk_rng_below(&g, 2))
            sim_truth_add_points(&w.truth, i, 8, &w.cluster);
        widen_all(&w, &g);
        ck_assert_msg(sim_predict(&w.job, &w.cluster, &q, &f) == LK_OK, "case %zu: %s", i,
                      lk_error_text());
        for (size_t k = 0; k < f.n_points; k++) {
            const struct lk_forecast_point *p = &f.points[k];

            ck_assert_msg(p->step_lo_s > 0 && p->step_lo_s <= p->step_s &&
                              p->step_s <= p->step_hi_s && isfinite(p->step_hi_s),
                          "case %zu, %d GPUs: %g s in %g to %g s", i, p->config.world_size,
                          p->step_s, p->step_lo_s, p->step_hi_s);
            ck_assert_msg(isnan(p->efficiency) || (p->efficiency_lo <= p->efficiency &&
                                                   p->efficiency <= p->efficiency_hi),
                          "case %zu, %d GPUs: efficiency %g in %g to %g", i, p->config.world_size,
                          p->efficiency, p->efficiency_lo, p->efficiency_hi);
        }
        lk_forecast_fini(&f);
        sim_world_fini(&w);
    }
}
END_TEST

SUITE(uncertain_inputs, t)
{
    tcase_add_test(t, ends_never_cross);
}
