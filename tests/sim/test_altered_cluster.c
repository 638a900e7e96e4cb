/* Altered clusters and jobs: known factors, monotony, refusals. */
#include "base/array.h"
#include "sim/collective/coll_cost.h"
#include "sim/prior.h"
#include "sim/step/altered_cluster.h"
#include "tests/rigs/sim_truth.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct world {
    struct lk_job job;
    struct lk_cluster cluster;
};

static void world_init(struct world *w)
{
    sim_truth_cluster(&sim_truth_default, 1, &w->cluster);
    sim_truth_job(&sim_truth_default, 1, &w->job);
    sim_truth_add_run(&sim_truth_default, &w->job, 4, 8, 11);
}

static void world_fini(struct world *w)
{
    lk_job_fini(&w->job);
    lk_cluster_fini(&w->cluster);
}

static struct lk_quantity quantity(double v)
{
    struct lk_quantity q = lk_quantity_none();

    ck_assert_int_eq(lk_quantity_set(&q, v, NAN, NAN, 0, "test"), LK_OK);
    return q;
}

/* Seconds of an all-reduce of 64 MiB, or of 4 KiB, on so many hosts. */
static double cost(const struct lk_cluster *c, int ranks, uint64_t bytes)
{
    struct lk_cost_model *m = NULL;
    struct lk_cost out;

    ck_assert_int_eq(lk_cost_model_create(c, NULL, NULL, &m), LK_OK);
    ck_assert_msg(lk_cost_eval(m, LK_ALL_REDUCE, LK_ALGO_AUTO, ranks, ranks, &bytes, 1, &out) ==
                      LK_OK,
                  "%s", lk_error_text());
    lk_cost_model_destroy(m);
    return out.seconds;
}

START_TEST(nothing_changed_is_the_same)
{
    struct world w;
    struct lk_change none = {0};
    struct lk_altered c;

    world_init(&w);
    ck_assert(lk_change_is_none(&none));
    ck_assert_int_eq(lk_altered_init(&c, &w.job, &w.cluster, &none, 4), LK_OK);
    ck_assert_double_eq(cost(&c.cluster, 2, 1 << 20), cost(&w.cluster, 2, 1 << 20));
    ck_assert_uint_eq(c.job.n_runs, 0);
    lk_altered_fini(&c);
    world_fini(&w);
}
END_TEST

/* On links f times as fast a large message takes 1/f of the time, and a small one
 * as long as before; with latency scaled it is the other way round. Measured points
 * and other rank counts alike. */
START_TEST(links_scale_what_they_should)
{
    static const double factors[] = {0.25, 0.5, 2, 8};
    double f = factors[_i];
    struct world w;
    struct lk_change faster = {.bandwidth_Bps[LK_LINK_INTER] = {f, true}};
    struct lk_change nearer = {.latency_s[LK_LINK_INTER] = {f, true}};
    struct lk_altered a, b;

    world_init(&w);
    ck_assert(!lk_change_is_none(&faster));
    ck_assert_msg(lk_altered_init(&a, &w.job, &w.cluster, &faster, 4) == LK_OK, "%s",
                  lk_error_text());
    ck_assert_int_eq(lk_altered_init(&b, &w.job, &w.cluster, &nearer, 4), LK_OK);
    for (int ranks = 2; ranks <= 8; ranks *= 2) {
        double large = cost(&w.cluster, ranks, 64 << 20), small = cost(&w.cluster, ranks, 4096);

        ck_assert_double_eq_tol(cost(&a.cluster, ranks, 64 << 20) / large, 1 / f, 0.01 + 0.03 / f);
        ck_assert_double_eq_tol(cost(&a.cluster, ranks, 4096) / small, 1, 0.25);
        ck_assert_double_eq_tol(cost(&b.cluster, ranks, 4096) / small, f, 0.25 * f);
    }
    lk_altered_fini(&a);
    lk_altered_fini(&b);
    world_fini(&w);
}
END_TEST

START_TEST(another_gpu_by_its_rates)
{
    struct world w;
    struct lk_cluster gpu = {.name = (char *)"b", .gpu = (char *)"fast"};
    struct lk_change change = {.gpu = &gpu};
    struct lk_job_layer layers[2] = {0};
    struct lk_altered c;
    double before;

    world_init(&w);
    before = w.job.compute[0].forward_s.value;
    w.cluster.device.flops = quantity(100e12);
    w.cluster.device.memory_Bps = quantity(1e12);
    gpu.device.flops = quantity(400e12);
    gpu.device.memory_Bps = quantity(2e12);
    lk_quantity_fini(&w.job.flops_per_sample);
    w.job.flops_per_sample = lk_quantity_none();
    ck_assert_int_eq(lk_altered_init(&c, &w.job, &w.cluster, &change, 4), LK_EEVIDENCE);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "flops_per_sample"));
    /* By flops alone: a quarter, but at least a half, which the memory allows. */
    w.job.flops_per_sample = quantity(1e12);
    ck_assert_int_eq(lk_altered_init(&c, &w.job, &w.cluster, &change, 4), LK_OK);
    ck_assert_double_eq_tol(c.job.compute[0].forward_s.value, before / 4, 1e-12);
    ck_assert_double_ge(c.job.compute[0].forward_s.hi, before / 2);
    ck_assert_str_eq(c.cluster.gpu, "fast");
    lk_altered_fini(&c);
    /* Layers: 10 ms of flops becomes 2.5, 10 ms of memory becomes 5. */
    layers[0].flops = quantity(1e12);
    layers[0].bytes = quantity(1e9);
    layers[1].flops = quantity(1e9);
    layers[1].bytes = quantity(10e9);
    w.job.layers = layers;
    w.job.n_layers = 2;
    ck_assert_int_eq(lk_altered_init(&c, &w.job, &w.cluster, &change, 4), LK_OK);
    ck_assert_double_eq_tol(c.job.compute[0].forward_s.value, before * 7.5 / 20, 1e-12);
    lk_altered_fini(&c);
    lk_quantity_fini(&gpu.device.flops);
    gpu.device.flops = lk_quantity_none();
    ck_assert_int_eq(lk_altered_init(&c, &w.job, &w.cluster, &change, 4), LK_EEVIDENCE);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "device.flops"));
    for (int i = 0; i < 2; i++) {
        lk_quantity_fini(&layers[i].flops);
        lk_quantity_fini(&layers[i].bytes);
    }
    lk_quantity_fini(&gpu.device.memory_Bps);
    w.job.layers = NULL;
    w.job.n_layers = 0;
    world_fini(&w);
}
END_TEST

/* With three equal ranks and one 10 % slower: without the slow one all are equal. */
START_TEST(without_the_slowest_rank)
{
    struct world w;
    struct lk_change change = {.without_ranks = 1};
    struct lk_altered c;
    double before;

    world_init(&w);
    before = w.job.compute[0].forward_s.value;
    lk_quantity_fini(&w.cluster.rank_sd);
    w.cluster.rank_sd = lk_quantity_none();
    for (int r = 0; r < 4; r++)
        w.job.runs[0].rank_compute_s[r] = r == 2 ? 1.1 : 1;
    ck_assert_int_eq(lk_altered_init(&c, &w.job, &w.cluster, &change, 4), LK_OK);
    ck_assert(lk_quantity_known(&c.cluster.rank_sd));
    ck_assert_double_eq_tol(c.cluster.rank_sd.value, 0, 1e-9);
    ck_assert_double_eq_tol(c.job.compute[0].forward_s.value, before / 1.025, 1e-9);
    lk_altered_fini(&c);
    change.without_ranks = 3;
    ck_assert_int_eq(lk_altered_init(&c, &w.job, &w.cluster, &change, 4), LK_EUSAGE);
    world_fini(&w);
}
END_TEST

/* A rank and link that become slow from now on, whatever the runs and points were measured with. */
START_TEST(slow_from_now_on)
{
    struct world w;
    struct lk_change change = {.slow_rank = {3, 1.5}, .slow_link = {1, 2}};
    struct lk_altered c;
    struct lk_known_stragglers s;

    world_init(&w);
    ck_assert(!lk_change_is_none(&change));
    ck_assert_int_eq(lk_altered_init(&c, &w.job, &w.cluster, &change, 4), LK_OK);
    ck_assert_int_eq(lk_known_stragglers_init(&s, &c.job, &c.cluster), LK_OK);
    ck_assert_double_eq(lk_known_straggler_rank(&s, 3, false), 1.5);
    ck_assert_double_nan(lk_known_straggler_rank(&s, 3, true));
    lk_known_stragglers_fini(&s);
    ck_assert_double_eq_tol(cost(&c.cluster, 2, 64 << 20) / cost(&w.cluster, 2, 64 << 20), 2, 0.04);
    lk_altered_fini(&c);
    world_fini(&w);
}
END_TEST

/* The deviations of the law and the tail's excess are multiplied, those that are assumed, too; how
 * often the tail strikes is not. */
START_TEST(spread_scales_the_law)
{
    struct world w;
    struct lk_change change = {.straggler_spread = {3, true}};
    struct lk_altered c;

    world_init(&w);
    lk_quantity_fini(&w.cluster.rank_sd);
    w.cluster.rank_sd = quantity(0.01);
    lk_quantity_fini(&w.cluster.link_sd);
    w.cluster.link_sd = lk_quantity_none();
    lk_quantity_fini(&w.cluster.tail_share);
    w.cluster.tail_share = quantity(0.002);
    lk_quantity_fini(&w.cluster.tail_scale);
    w.cluster.tail_scale = quantity(0.4);
    lk_quantity_fini(&w.job.compute[0].transient);
    w.job.compute[0].transient = quantity(0.02);
    ck_assert(!lk_change_is_none(&change));
    ck_assert_int_eq(lk_altered_init(&c, &w.job, &w.cluster, &change, 4), LK_OK);
    ck_assert_double_eq_tol(c.cluster.rank_sd.value, 0.03, 1e-12);
    ck_assert_double_eq_tol(c.cluster.link_sd.value, 3 * lk_prior_value(LK_PRIOR_LINK_SD), 1e-12);
    ck_assert_double_eq(c.cluster.tail_share.value, 0.002);
    ck_assert_double_eq_tol(c.cluster.tail_scale.value, 1.2, 1e-12);
    ck_assert_double_eq_tol(c.job.compute[0].transient.value, 0.06, 1e-12);
    lk_altered_fini(&c);
    world_fini(&w);
}
END_TEST

START_TEST(what_is_not_known_cannot_change)
{
    struct world w;
    struct lk_change intra = {.bandwidth_Bps[LK_LINK_INTRA] = {2, true}};
    struct lk_change over = {.oversubscription = {4, false}};
    struct lk_altered c;

    world_init(&w);
    ck_assert_int_eq(lk_altered_init(&c, &w.job, &w.cluster, &intra, 4), LK_EEVIDENCE);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "intra.bandwidth"));
    ck_assert_int_eq(lk_altered_init(&c, &w.job, &w.cluster, &over, 4), LK_EEVIDENCE);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "nodes_per_switch"));
    world_fini(&w);
}
END_TEST

SUITE(altered_cluster, tc)
{
    tcase_add_test(tc, nothing_changed_is_the_same);
    tcase_add_loop_test(tc, links_scale_what_they_should, 0, 4);
    tcase_add_test(tc, another_gpu_by_its_rates);
    tcase_add_test(tc, without_the_slowest_rank);
    tcase_add_test(tc, slow_from_now_on);
    tcase_add_test(tc, spread_scales_the_law);
    tcase_add_test(tc, what_is_not_known_cannot_change);
}
