/* The predictor's model of configurations that were not measured, against simulation. */
#include "base/array.h"
#include "sim/forecast/predictor.h"
#include "tests/rigs/sim_truth.h"
#include "tests/rigs/simulated.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { POINTS = 9, ESTIMATES = 16 };

struct rig {
    struct lk_job job;
    struct lk_cluster cluster;
    struct lk_predictor *predictor;
    struct lk_predictor *estimates[ESTIMATES]; /* seeds of agreements */
};

static void rig_init(struct rig *r)
{
    struct lk_predictor_options o = {.level = 0.9, .draws = 200, .seed = 3, .scale_error = NAN};

    sim_truth_cluster(&sim_truth_default, 1, &r->cluster);
    sim_truth_job(&sim_truth_default, 1, &r->job);
    sim_truth_add_run(&sim_truth_default, &r->job, 1, 8, 11);
    sim_truth_add_run(&sim_truth_default, &r->job, 2, 8, 12);
    ck_assert_int_eq(lk_predictor_create(&r->job, &r->cluster, &o, &r->predictor), LK_OK);
}

static void rig_fini(struct rig *r)
{
    lk_predictor_destroy(r->predictor);
    for (int i = 0; i < ESTIMATES; i++)
        lk_predictor_destroy(r->estimates[i]);
    lk_job_fini(&r->job);
    lk_cluster_fini(&r->cluster);
}

static struct lk_config config(const struct rig *r, int world_size, int batch)
{
    return (struct lk_config){.world_size = world_size,
                              .nodes = world_size,
                              .local_batch = batch,
                              .accumulation = 1,
                              .reduce = LK_REDUCTION_LAST,
                              .first_bytes = r->job.first_bytes,
                              .cap_bytes = r->job.cap_bytes};
}

/* A configuration without evidence is refused, says why every time, and ends no other. */
START_TEST(a_refused_point_ends_no_other)
{
    struct rig r = {0};
    struct lk_prediction p;
    struct lk_config c;

    rig_init(&r);
    c = config(&r, 4, 8);
    ck_assert_int_eq(lk_predictor_at(r.predictor, &c, &p), LK_OK);
    ck_assert_double_lt(p.lo_s, p.step_s);
    ck_assert_double_gt(p.hi_s, p.step_s);
    lk_prediction_fini(&p);
    c.algo = LK_ALGO_HIERARCHICAL; /* on one GPU a node */
    for (int i = 0; i < 2; i++) {
        (void)lk_fail(LK_EUSAGE, "another error");
        ck_assert_int_eq(lk_predictor_at(r.predictor, &c, &p), LK_EEVIDENCE);
        ck_assert_ptr_nonnull(strstr(lk_error_text(), "hierarchical"));
    }
    c = config(&r, 1, 8);
    ck_assert_int_eq(lk_predictor_at(r.predictor, &c, &p), LK_OK);
    ck_assert_int_eq(p.evidence, LK_EVIDENCE_MEASURED);
    lk_prediction_fini(&p);
    rig_fini(&r);
}
END_TEST

/* A case's changes to the rig's cluster, job and configurations, and the allowed error of the
 * intervals' ends: 200 draws on both sides, few of them in the tails. With 1,600 draws, which take
 * minutes, ZeRO-1 is within 0.025 and all within 0.06. */
static const struct agreement {
    const char *name;
    double tail_share, node_sd, link_sd;
    bool sync_bn, no_sync;
    enum lk_sharding sharding;
    double ends;
} agreements[] = {
    {"plain", 0, 0, 0, false, true, LK_SHARDING_DDP, 0.02},
    {"synchronised", 0, 0, 0, false, false, LK_SHARDING_DDP, 0.02},
    {"nodes", 0, 0.01, 0, false, true, LK_SHARDING_DDP, 0.02},
    {"links", 0, 0, 0.1, false, true, LK_SHARDING_DDP, 0.05},
    {"tail", 0.02, 0, 0, false, true, LK_SHARDING_DDP, 0.03},
    {"SyncBatchNorm", 0, 0, 0, true, true, LK_SHARDING_DDP, 0.02},
    {"tail, each", 0.02, 0, 0, true, true, LK_SHARDING_DDP, 0.03},
    {"ZeRO-1", 0, 0, 0, false, true, LK_SHARDING_ZERO1, 0.03},
    {"FSDP", 0, 0, 0, false, true, LK_SHARDING_ZERO3, 0.06},
    {"all", 0.02, 0.01, 0.1, true, true, LK_SHARDING_ZERO3, 0.1},
};

static void know(struct lk_quantity *q, double value)
{
    if (value > 0)
        ck_assert_int_eq(lk_quantity_set(q, value, NAN, NAN, 1, "test"), LK_OK);
}

/* Add points of a collective that is half of an all-reduce. */
static void measure_too(struct lk_cluster *c, enum lk_coll coll)
{
    size_t n = c->n_points;
    struct lk_cluster_point *points;

    ck_assert_int_eq(lk_alloc(&points, 2 * n, sizeof *points), LK_OK);
    memcpy(points, c->points, n * sizeof *points);
    free(c->points);
    c->points = points;
    for (size_t i = 0; i < n; i++) {
        if (points[i].coll != LK_ALL_REDUCE)
            continue;
        points[c->n_points] = points[i];
        points[c->n_points].coll = coll;
        points[c->n_points].time_s = lk_quantity_none();
        ck_assert_int_eq(lk_quantity_set(&points[c->n_points++].time_s, points[i].time_s.value / 2,
                                         NAN, NAN, 9, "test"),
                         LK_OK);
    }
}

static void agreement_init(const struct agreement *a, struct rig *r)
{
    struct lk_predictor_options o = {.level = 0.9, .draws = 200, .seed = 3, .scale_error = NAN};

    rig_init(r);
    lk_predictor_destroy(r->predictor);
    measure_too(&r->cluster, LK_ALL_GATHER);
    measure_too(&r->cluster, LK_REDUCE_SCATTER);
    know(&r->cluster.tail_share, a->tail_share);
    know(&r->cluster.tail_scale, 0.1);
    know(&r->cluster.tail_shape, 0.2);
    know(&r->cluster.node_sd, a->node_sd);
    know(&r->cluster.link_sd, a->link_sd);
    if (a->sync_bn) {
        ck_assert_int_eq(lk_alloc(&r->job.sync_bn, 4, sizeof *r->job.sync_bn), LK_OK);
        for (; r->job.n_sync_bn < 4; r->job.n_sync_bn++)
            r->job.sync_bn[r->job.n_sync_bn] = (struct lk_job_sync_bn){
                .channels = 256, .at = 0.2 + 0.2 * (double)r->job.n_sync_bn};
    }
    ck_assert_int_eq(lk_predictor_create(&r->job, &r->cluster, &o, &r->predictor), LK_OK);
    o.draws = 2; /* only the estimates are used, of 8 seeds each */
    for (int i = 0; i < ESTIMATES && a->link_sd > 0; i++, o.seed += 8)
        ck_assert_int_eq(lk_predictor_create(&r->job, &r->cluster, &o, &r->estimates[i]), LK_OK);
}

/* Return the simulation's estimate, without its own noise where a seed moves all collectives. */
static double full_estimate(const struct rig *r, const struct lk_config *c, double one)
{
    double sum = 0;

    if (!r->estimates[0])
        return one;
    for (int i = 0; i < ESTIMATES; i++) {
        struct lk_prediction p;

        ck_assert_msg(simulated_at(r->estimates[i], c, &p) == LK_OK, "%s", lk_error_text());
        sum += p.step_s;
        lk_prediction_fini(&p);
    }
    return sum / ESTIMATES;
}

/* Compare the model with simulation, point by point: estimates and interval ends. */
START_TEST(the_grid_agrees_with_the_full_way)
{
    static const int world_sizes[] = {4, 16, 64}, batches[] = {4, 16, 24};
    static const uint64_t caps[] = {1 << 20, 4 << 20, 25 << 20};
    const struct agreement *a = &agreements[_i];
    struct rig r = {0};
    double worst = 0, worst_lo = 0, worst_hi = 0, width = 0;

    agreement_init(a, &r);
    for (int i = 0; i < POINTS; i++) {
        struct lk_config c = config(&r, world_sizes[i % 3], batches[(i + i / 3) % 3]);
        struct lk_prediction p, fast;
        double losses = 0;

        c.accumulation = i % 2 ? 4 : 1;
        c.reduce = a->no_sync ? LK_REDUCTION_LAST : LK_REDUCTION_EVERY;
        c.sharding = a->sharding;
        lk_config_set_cap(&c, &r.job, caps[i / 3]);
        ck_assert_msg(simulated_at(r.predictor, &c, &p) == LK_OK, "%s", lk_error_text());
        ck_assert_msg(lk_predictor_at(r.predictor, &c, &fast) == LK_OK, "%s", lk_error_text());
        p.bound_s = fast.bound_s;
        lk_prediction_raise(&p);
        worst = fmax(worst, fabs(fast.step_s / full_estimate(&r, &c, p.step_s) - 1));
        worst_lo = fmax(worst_lo, fabs(fast.lo_s / p.lo_s - 1));
        worst_hi = fmax(worst_hi, fabs(fast.hi_s / p.hi_s - 1));
        width += log(fast.hi_s / fast.lo_s) / log(p.hi_s / p.lo_s) / POINTS;
        for (int l = 0; l < LK_LOSS_COUNT; l++)
            losses += fast.losses_s[l];
        ck_assert_double_eq_tol(losses, fast.step_s, 1e-9);
        lk_prediction_fini(&fast);
        lk_prediction_fini(&p);
    }
    ck_assert_msg(worst < 0.008, "%s: estimate off by %g", a->name, worst);
    ck_assert_msg(worst_lo < a->ends && worst_hi < a->ends, "%s: ends off by %g and %g", a->name,
                  worst_lo, worst_hi);
    ck_assert_msg(fabs(width - 1) < 0.1, "%s: widths are %g of the full way's", a->name, width);
    rig_fini(&r);
}
END_TEST

SUITE(grid_model, c)
{
    tcase_add_test(c, a_refused_point_ends_no_other);
    tcase_add_loop_test(c, the_grid_agrees_with_the_full_way, 0, (int)LK_COUNT(agreements));
}
