/*
 * Comparisons of clusters are of what both predict: points of one side are compared with the
 * other's model, a number that a side took over tells nothing, and a planted slowdown is found
 * wherever it was measured. LOCKSTEP_CASES=100000 tries as many random clusters.
 */
#include "base/array.h"
#include "base/rng.h"
#include "sim/cluster_compare.h"
#include "sim/collective/coll_cost.h"
#include "tests/rigs/cases.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CASES = 4000, POINTS = 4 };

static double between(struct lk_rng *g, double lo, double hi)
{
    return lo * pow(hi / lo, lk_rng_uniform(g));
}

static void set(struct lk_quantity *q, double value, double width, uint64_t n, const char *source)
{
    ck_assert_int_eq(lk_quantity_set(q, value, width > 0 ? value / (1 + width) : NAN,
                                     width > 0 ? value * (1 + width) : NAN, n, "%s", source),
                     LK_OK);
}

static void add_point(struct lk_cluster *c, int ranks, int nodes, uint64_t bytes, double time_s,
                      const char *source)
{
    size_t capacity = c->n_points;
    struct lk_cluster_point *p;

    ck_assert_int_eq(lk_array_grow(&c->points, &capacity, c->n_points + 1, sizeof *c->points),
                     LK_OK);
    p = &c->points[c->n_points++];
    *p = (struct lk_cluster_point){.ranks = ranks, .nodes = nodes, .bytes = bytes};
    p->time_s = lk_quantity_none();
    set(&p->time_s, time_s, 0.02, 20, source);
}

/* A machine with numbers of links from a datasheet, whose texts begin with `before`. */
static void make_machine(uint64_t number, const char *before, struct lk_cluster *c)
{
    struct lk_rng g = lk_rng_init(23, number);
    char source[64];

    snprintf(source, sizeof source, "%sdatasheet", before);
    lk_cluster_init(c);
    ck_assert_int_eq(lk_strdup(&c->name, "random"), LK_OK);
    ck_assert_int_eq(lk_strdup(&c->gpu, "any"), LK_OK);
    c->gpus_per_node = 1 << lk_rng_below(&g, 4);
    c->topology.nics_per_node = 1 << lk_rng_below(&g, 4);
    if (lk_rng_below(&g, 2)) {
        c->device.compute_capability = 80;
        c->topology.gpu_link = LK_GPU_LINK_NVLINK;
    }
    set(&c->intra.latency_s, between(&g, 1e-6, 1e-5), 0, 0, source);
    set(&c->intra.bandwidth_Bps, between(&g, 1e10, 4e11), 0, 0, source);
    set(&c->inter.latency_s, between(&g, 1e-6, 1e-4), 0, 0, source);
    set(&c->inter.bandwidth_Bps, between(&g, 1e9, 5e10), 0, 0, source);
}

/* Add to a machine the times that it predicts itself, times `factor`; on two nodes. */
static void measure(const struct lk_cluster *truth, double factor, const char *source,
                    struct lk_cluster *c)
{
    static const uint64_t bytes[POINTS] = {65536, 1 << 20, 25 << 20, 256 << 20};
    struct lk_cost_model *m = NULL;
    struct lk_cost cost[POINTS];

    ck_assert_int_eq(lk_cost_model_create(truth, NULL, NULL, &m), LK_OK);
    ck_assert_int_eq(lk_cost_eval(m, LK_ALL_REDUCE, LK_ALGO_AUTO, 2 * truth->gpus_per_node, 2,
                                  bytes, POINTS, cost),
                     LK_OK);
    for (int i = 0; i < POINTS; i++)
        add_point(c, 2 * truth->gpus_per_node, 2, bytes[i], factor * cost[i].seconds, source);
    lk_cost_model_destroy(m);
}

/* Points 20 times too slow are all slower than the base without points predicts; the links'
 * numbers, which the base's name marks, tell nothing. */
START_TEST(a_planted_slowdown_is_found)
{
    for (uint64_t i = 0; i < cases_or(CASES); i++) {
        struct lk_cluster base, bad;
        struct lk_comparison c = {0};

        make_machine(i, "", &base);
        make_machine(i, "base: ", &bad);
        measure(&base, 20, "slow.csv", &bad);
        ck_assert_int_eq(lk_compare_clusters(&base, &bad, &c), LK_OK);
        ck_assert_uint_eq(c.n, POINTS + 4);
        for (size_t k = 0; k < c.n; k++) {
            const struct lk_compared *r = &c.rows[k];

            ck_assert_int_eq(r->one_number, !(r->bytes > 0));
            if (r->one_number)
                ck_assert_int_eq(r->verdict, LK_DIFFERENCE_NONE);
            else
                ck_assert_msg(r->verdict == LK_DIFFERENCE_SLOWER && r->ratio.hi < 0.9 &&
                                  fabs(20 * r->ratio.value - 1) < 0.05,
                              "case %llu, %s: %g (%g to %g)", (unsigned long long)i, r->what,
                              r->ratio.value, r->ratio.lo, r->ratio.hi);
        }
        lk_comparison_fini(&c);
        lk_cluster_fini(&base);
        lk_cluster_fini(&bad);
    }
}
END_TEST

/* Two sides that took a number over from one base have one number; a point of its own is not. */
START_TEST(points_taken_over_are_no_evidence)
{
    struct lk_cluster base, own;
    struct lk_comparison c = {0};

    make_machine(3, "", &base);
    make_machine(3, "base: ", &own);
    measure(&base, 1, "log", &base);
    measure(&own, 1, "base: log", &own);
    ck_assert_int_eq(lk_compare_clusters(&base, &own, &c), LK_OK);
    ck_assert_uint_eq(lk_compare_count(&c, LK_DIFFERENCE_NONE), POINTS + 4);
    lk_comparison_fini(&c);
    add_point(&own, 4 * own.gpus_per_node, 4, 1 << 20, 1, "own log");
    ck_assert_int_eq(lk_compare_clusters(&base, &own, &c), LK_OK);
    ck_assert_uint_eq(c.n, POINTS + 5);
    ck_assert_uint_eq(lk_compare_count(&c, LK_DIFFERENCE_NONE), POINTS + 4);
    ck_assert_uint_eq(lk_compare_count(&c, LK_DIFFERENCE_SLOWER), 1);
    lk_comparison_fini(&c);
    lk_cluster_fini(&base);
    lk_cluster_fini(&own);
}
END_TEST

/* A node's bandwidth is compared, not a card's: eight of 25 GB/s against one of 11.8. */
START_TEST(bandwidth_is_of_a_node)
{
    struct lk_cluster a, b;
    struct lk_comparison c = {0};
    const struct lk_compared *r;

    make_machine(1, "", &a);
    make_machine(2, "", &b);
    a.topology.nics_per_node = 1;
    b.topology.nics_per_node = 8;
    set(&a.inter.bandwidth_Bps, 11.8e9, 0, 0, "datasheet");
    set(&b.inter.bandwidth_Bps, 25e9, 0, 0, "datasheet");
    ck_assert_int_eq(lk_compare_clusters(&a, &b, &c), LK_OK);
    r = &c.rows[c.n - 1];
    ck_assert_str_eq(r->what, "bandwidth of a node to the others");
    ck_assert_double_eq_tol(r->a.value, 11.8e9, 1);
    ck_assert_double_eq_tol(r->b.value, 200e9, 1);
    lk_comparison_fini(&c);
    lk_cluster_fini(&a);
    lk_cluster_fini(&b);
}
END_TEST

/* Sides without links predict nothing but at their own points, which the other then lacks. */
START_TEST(what_a_side_cannot_predict_is_counted)
{
    struct lk_cluster a, b;
    struct lk_comparison c = {0};
    struct lk_table *t = NULL;

    lk_cluster_init(&a);
    lk_cluster_init(&b);
    a.gpus_per_node = b.gpus_per_node = 8;
    add_point(&a, 2, 1, 26214400, 2, "a");
    add_point(&a, 4, 1, 26214400, 3, "a");
    add_point(&b, 2, 1, 26214400, 1, "b");
    add_point(&b, 8, 1, 26214400, 1, "b");
    ck_assert_int_eq(lk_compare_clusters(&a, &b, &c), LK_OK);
    ck_assert_uint_eq(c.n, 1);
    ck_assert_str_eq(c.rows[0].what, "all_reduce 25MiB, 2 GPUs");
    ck_assert_ptr_nonnull(strstr(c.rows[0].labels, "gpus=\"2\",nodes=\"1\",bytes=\"26214400\""));
    ck_assert_double_eq_tol(c.rows[0].ratio.value, 2, 1e-9);
    ck_assert_str_eq(c.rows[0].evidence_a, "measured");
    ck_assert_uint_eq(c.only_a, 1);
    ck_assert_uint_eq(c.only_b, 1);
    ck_assert_int_eq(lk_compare_table(&c, LK_DIM_RATE, "none", &t), LK_OK);
    ck_assert_ptr_null(t);
    ck_assert_int_eq(lk_compare_table(&c, LK_DIM_TIME, "times", &t), LK_OK);
    ck_assert_uint_eq(t->n_rows, 1);
    lk_table_destroy(t);
    lk_comparison_fini(&c);
    lk_cluster_fini(&a);
    lk_cluster_fini(&b);
}
END_TEST

SUITE(cluster_compare, tests)
{
    tcase_add_test(tests, a_planted_slowdown_is_found);
    tcase_add_test(tests, points_taken_over_are_no_evidence);
    tcase_add_test(tests, bandwidth_is_of_a_node);
    tcase_add_test(tests, what_a_side_cannot_predict_is_counted);
}
