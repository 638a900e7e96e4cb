/* Collective cost: properties, exactness on generated data, recovery of known constants. */
#include "base/array.h"
#include "sim/collective/alpha_beta.h"
#include "sim/collective/alpha_beta_fit.h"
#include "sim/collective/coll_cost.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double LAUNCH = 5e-6, ALPHA = 20e-6, RATE = 2.5e9;

static double truth(enum lk_algo algo, double bytes, int ranks)
{
    struct lk_alpha_beta_constants k = {LAUNCH, {ALPHA, 0}, {RATE, 0}};
    struct lk_alpha_beta_shape shape;

    ck_assert(lk_alpha_beta_shape(LK_ALL_REDUCE, algo, bytes, ranks, 1, &shape));
    return lk_alpha_beta_s(&k, &shape);
}

/* Sizes from 4 KiB in factors of four, at the rank counts given, with relative noise. */
struct sweep {
    struct lk_cluster cluster;
    struct lk_rng rng;
};

static void add_point(struct sweep *s, enum lk_algo algo, int ranks, uint64_t bytes, double seconds,
                      enum lk_timing timing)
{
    struct lk_cluster *c = &s->cluster;
    struct lk_cluster_point *p;

    c->points = realloc(c->points, (c->n_points + 1) * sizeof *c->points);
    ck_assert_ptr_nonnull(c->points);
    p = &c->points[c->n_points++];
    *p = (struct lk_cluster_point){.coll = LK_ALL_REDUCE,
                                   .algo = algo,
                                   .timing = timing,
                                   .ranks = ranks,
                                   .nodes = 1,
                                   .bytes = bytes};
    ck_assert_int_eq(
        lk_quantity_set(&p->time_s, seconds, seconds * 0.97, seconds * 1.03, 10, "test"), LK_OK);
}

static void add_curve(struct sweep *s, enum lk_algo algo, int ranks, double noise)
{
    for (uint64_t b = 4096; b <= 64U << 20; b *= 4)
        add_point(s, algo, ranks, b,
                  truth(algo, (double)b, ranks) * exp(noise * lk_rng_normal(&s->rng)),
                  LK_TIMING_ALONE);
}

static void sweep_init(struct sweep *s)
{
    memset(s, 0, sizeof *s);
    s->rng = lk_rng_init(7, 1);
    s->cluster.nodes = 1;
    s->cluster.gpus_per_node = 8;
    s->cluster.intra.latency_s = s->cluster.intra.bandwidth_Bps = lk_quantity_none();
    s->cluster.inter.latency_s = s->cluster.inter.bandwidth_Bps = lk_quantity_none();
}

static void sweep_fini(struct sweep *s)
{
    for (size_t i = 0; i < s->cluster.n_points; i++)
        lk_quantity_fini(&s->cluster.points[i].time_s);
    free(s->cluster.points);
    for (size_t i = 0; i < s->cluster.n_fits; i++)
        lk_cluster_fit_fini(&s->cluster.fits[i]);
    free(s->cluster.fits);
}

static struct lk_cost cost_at(const struct lk_cluster *c, enum lk_algo algo, uint64_t bytes,
                              int ranks, int nodes)
{
    struct lk_cost_model *m = NULL;
    struct lk_cost out;

    ck_assert_int_eq(lk_cost_model_create(c, NULL, NULL, &m), LK_OK);
    ck_assert_int_eq(lk_cost_eval(m, LK_ALL_REDUCE, algo, ranks, nodes, &bytes, 1, &out), LK_OK);
    lk_cost_model_destroy(m);
    return out;
}

START_TEST(shapes_are_the_textbook_ones)
{
    static const struct {
        enum lk_coll coll;
        enum lk_algo algo;
        int ranks, nodes;
        double intra, inter, wire;
    } rows[] = {
        {LK_ALL_REDUCE, LK_ALGO_RING, 8, 1, 14, 0, 1750},
        {LK_ALL_REDUCE, LK_ALGO_RING, 8, 8, 0, 14, 1750},
        {LK_ALL_REDUCE, LK_ALGO_RING, 8, 2, 12, 2, 1750},
        {LK_ALL_REDUCE, LK_ALGO_TREE, 8, 1, 6, 0, 2000},
        {LK_ALL_REDUCE, LK_ALGO_TREE, 5, 1, 6, 0, 2000},
        {LK_ALL_REDUCE, LK_ALGO_TREE, 8, 4, 2, 4, 2000},
        {LK_REDUCE_SCATTER, LK_ALGO_RING, 4, 1, 3, 0, 750},
        {LK_ALL_GATHER, LK_ALGO_RING, 4, 4, 0, 3, 750},
        {LK_BROADCAST, LK_ALGO_TREE, 4, 1, 2, 0, 1000},
        {LK_ALL_REDUCE, LK_ALGO_RING, 1, 1, 0, 0, 0},
    };

    for (size_t i = 0; i < LK_COUNT(rows); i++) {
        struct lk_alpha_beta_shape s;

        ck_assert(lk_alpha_beta_shape(rows[i].coll, rows[i].algo, 1000, rows[i].ranks,
                                      rows[i].nodes, &s));
        ck_assert_double_eq(s.hops_intra, rows[i].intra);
        ck_assert_double_eq(s.hops_inter, rows[i].inter);
        ck_assert_double_eq_tol(s.wire_bytes, rows[i].wire, 1e-9);
    }
    ck_assert(!lk_alpha_beta_shape(LK_ALL_GATHER, LK_ALGO_TREE, 1000, 4, 1,
                                   &(struct lk_alpha_beta_shape){0}));
}
END_TEST

/* Two nodes of four: 12 hops of 1 us inside, 2 of 10 us between, 1.75 MB at the slower 1 GB/s. */
START_TEST(the_slowest_link_sets_the_pace)
{
    struct lk_alpha_beta_constants k = {3e-6, {1e-6, 10e-6}, {100e9, 1e9}};
    struct lk_alpha_beta_shape s;

    ck_assert(lk_alpha_beta_shape(LK_ALL_REDUCE, LK_ALGO_RING, 1e6, 8, 2, &s));
    ck_assert_double_eq_tol(lk_alpha_beta_s(&k, &s), 3e-6 + 12e-6 + 20e-6 + 1750e-6, 1e-12);
    k.bandwidth_Bps[LK_LINK_INTER] = 0;
    ck_assert_double_nan(lk_alpha_beta_s(&k, &s));
}
END_TEST

START_TEST(one_rank_costs_nothing)
{
    struct sweep s;
    struct lk_cost c;

    sweep_init(&s);
    c = cost_at(&s.cluster, LK_ALGO_AUTO, 1 << 20, 1, 1);
    ck_assert_double_eq(c.seconds, 0);
    ck_assert_int_eq(c.evidence, LK_EVIDENCE_MEASURED);
    sweep_fini(&s);
}
END_TEST

START_TEST(measured_counts_are_met_and_interpolated)
{
    struct sweep s;
    struct lk_cost c;
    double last = 0;

    sweep_init(&s);
    add_curve(&s, LK_ALGO_RING, 4, 0);
    for (uint64_t b = 4096; b <= 64U << 20; b *= 4) {
        c = cost_at(&s.cluster, LK_ALGO_RING, b, 4, 1);
        ck_assert_double_eq_tol(c.seconds / truth(LK_ALGO_RING, (double)b, 4), 1, 1e-9);
        ck_assert_int_eq(c.evidence, LK_EVIDENCE_MEASURED);
        ck_assert_double_eq_tol(c.lo / c.seconds, sqrt(0.97 / 1.03), 1e-6);
    }
    /* Half way between points a factor 4 apart the cubic is within 1 % of latency + bandwidth. */
    for (uint64_t b = 8192; b < 64U << 20; b *= 2) {
        c = cost_at(&s.cluster, LK_ALGO_AUTO, b, 4, 1);
        ck_assert_double_eq_tol(c.seconds / truth(LK_ALGO_RING, (double)b, 4), 1, 0.01);
    }
    ck_assert_int_eq(cost_at(&s.cluster, LK_ALGO_RING, 8192, 4, 1).evidence,
                     LK_EVIDENCE_INTERPOLATED);
    for (uint64_t b = 1; b < 1ULL << 40; b = b * 3 / 2 + 1) {
        c = cost_at(&s.cluster, LK_ALGO_AUTO, b, 4, 1);
        ck_assert_double_ge(c.seconds, last);
        last = c.seconds;
    }
    c = cost_at(&s.cluster, LK_ALGO_RING, 256U << 20, 4, 1);
    ck_assert_int_eq(c.evidence, LK_EVIDENCE_EXTRAPOLATED);
    ck_assert_double_eq_tol(c.extrapolation, 4, 1e-9);
    ck_assert_double_eq_tol(c.seconds / truth(LK_ALGO_RING, 256 << 20, 4), 1, 1e-6);
    sweep_fini(&s);
}
END_TEST

START_TEST(alone_is_preferred_to_back_to_back)
{
    struct sweep s;

    sweep_init(&s);
    add_curve(&s, LK_ALGO_RING, 2, 0);
    for (uint64_t b = 4096; b <= 1U << 20; b *= 4)
        add_point(&s, LK_ALGO_RING, 2, b, 1, LK_TIMING_BACK_TO_BACK);
    ck_assert_double_eq_tol(cost_at(&s.cluster, LK_ALGO_RING, 65536, 2, 1).seconds,
                            truth(LK_ALGO_RING, 65536, 2), 1e-9);
    sweep_fini(&s);
}
END_TEST

START_TEST(fit_recovers_exact_constants)
{
    struct sweep s;
    struct lk_cluster_fit f;

    sweep_init(&s);
    add_curve(&s, LK_ALGO_RING, 2, 0);
    add_curve(&s, LK_ALGO_RING, 4, 0);
    ck_assert_int_eq(lk_alpha_beta_fit(s.cluster.points, s.cluster.n_points, LK_ALL_REDUCE,
                                       LK_ALGO_RING, LK_LINK_INTRA, NULL, 1, &f),
                     LK_OK);
    ck_assert_double_eq_tol(f.launch_s.value / LAUNCH, 1, 1e-6);
    ck_assert_double_eq_tol(f.alpha_s.value / ALPHA, 1, 1e-6);
    ck_assert_double_eq_tol(f.bandwidth_Bps.value / RATE, 1, 1e-6);
    ck_assert_double_eq_tol(f.error.value, 0, 1e-6);
    lk_cluster_fit_fini(&f);
    sweep_fini(&s);
}
END_TEST

/* 5 % noise on 24 points: bandwidth and hop latency within 10 %, three standard errors or more. */
START_TEST(fit_recovers_noisy_constants)
{
    struct sweep s;
    struct lk_cluster_fit f;

    sweep_init(&s);
    s.rng = lk_rng_init((uint64_t)_i, 2);
    add_curve(&s, LK_ALGO_RING, 2, 0.05);
    add_curve(&s, LK_ALGO_RING, 4, 0.05);
    add_curve(&s, LK_ALGO_RING, 8, 0.05);
    ck_assert_int_eq(lk_alpha_beta_fit(s.cluster.points, s.cluster.n_points, LK_ALL_REDUCE,
                                       LK_ALGO_RING, LK_LINK_INTRA, NULL, 1, &f),
                     LK_OK);
    ck_assert_double_eq_tol(f.alpha_s.value / ALPHA, 1, 0.1);
    ck_assert_double_eq_tol(f.bandwidth_Bps.value / RATE, 1, 0.1);
    ck_assert_double_le(f.alpha_s.lo, f.alpha_s.value);
    ck_assert_double_ge(f.alpha_s.hi, f.alpha_s.value);
    ck_assert_double_gt(f.error.value, 0.02);
    ck_assert_double_lt(f.error.value, 0.1);
    lk_cluster_fit_fini(&f);
    sweep_fini(&s);
}
END_TEST

/* An outlier of a factor 5 must not move the constants by more than the noise would. */
START_TEST(fit_resists_an_outlier)
{
    struct sweep s;
    struct lk_cluster_fit f;

    sweep_init(&s);
    add_curve(&s, LK_ALGO_RING, 2, 0.02);
    add_curve(&s, LK_ALGO_RING, 4, 0.02);
    s.cluster.points[3].time_s.value *= 5;
    ck_assert_int_eq(lk_alpha_beta_fit(s.cluster.points, s.cluster.n_points, LK_ALL_REDUCE,
                                       LK_ALGO_RING, LK_LINK_INTRA, NULL, 1, &f),
                     LK_OK);
    ck_assert_double_eq_tol(f.bandwidth_Bps.value / RATE, 1, 0.05);
    ck_assert_double_eq_tol(f.alpha_s.value / ALPHA, 1, 0.15);
    lk_cluster_fit_fini(&f);
    sweep_fini(&s);
}
END_TEST

START_TEST(one_rank_count_gives_the_launch_to_the_hops)
{
    struct sweep s;
    struct lk_cluster_fit f;

    sweep_init(&s);
    add_curve(&s, LK_ALGO_RING, 2, 0);
    ck_assert_int_eq(lk_alpha_beta_fit(s.cluster.points, s.cluster.n_points, LK_ALL_REDUCE,
                                       LK_ALGO_RING, LK_LINK_INTRA, NULL, 1, &f),
                     LK_OK);
    ck_assert_double_eq(f.launch_s.value, 0);
    ck_assert_double_eq_tol(f.alpha_s.value / (ALPHA + LAUNCH / 2), 1, 1e-6);
    ck_assert_ptr_nonnull(strstr(f.launch_s.source, "not told apart"));
    lk_cluster_fit_fini(&f);
    ck_assert_int_eq(lk_alpha_beta_fit(s.cluster.points, s.cluster.n_points, LK_ALL_REDUCE,
                                       LK_ALGO_TREE, LK_LINK_INTRA, NULL, 1, &f),
                     LK_EEVIDENCE);
    sweep_fini(&s);
}
END_TEST

/* Predict 3, 8 and 64 ranks from 2 and 4, on data that the model can express: within 2 %, as a
 * ring's chunk may lie between the measured sizes, a factor 4 apart. */
START_TEST(other_rank_counts_follow_the_model)
{
    static const int ranks[] = {3, 8, 64};
    struct sweep s;

    sweep_init(&s);
    add_curve(&s, LK_ALGO_RING, 2, 0);
    add_curve(&s, LK_ALGO_RING, 4, 0);
    for (size_t k = 0; k < LK_COUNT(ranks); k++)
        for (uint64_t b = 4096; b <= 64U << 20; b *= 4) {
            struct lk_cost c = cost_at(&s.cluster, LK_ALGO_RING, b, ranks[k], 1);

            ck_assert_double_eq_tol(c.seconds / truth(LK_ALGO_RING, (double)b, ranks[k]), 1, 0.02);
            ck_assert_int_eq(c.evidence,
                             ranks[k] == 3 ? LK_EVIDENCE_INTERPOLATED : LK_EVIDENCE_EXTRAPOLATED);
        }
    ck_assert_double_eq_tol(cost_at(&s.cluster, LK_ALGO_RING, 4096, 64, 1).extrapolation, 16, 1e-9);
    sweep_fini(&s);
}
END_TEST

/* Times of PyTorch's gloo on 2 hosts at 100 Mbit/s; no line fits the small messages. */
static void add_ragged(struct sweep *s)
{
    static const double ms[] = {4.11, 1.21, 5.68, 24.6, 94.7, 368};
    uint64_t bytes = 4096;

    for (size_t i = 0; i < LK_COUNT(ms); i++, bytes *= 4)
        add_point(s, LK_ALGO_AUTO, 2, bytes, ms[i] * 1e-3, LK_TIMING_ALONE);
}

START_TEST(a_ring_is_carried_by_its_chunks)
{
    struct sweep s;
    struct lk_cost small, large;

    sweep_init(&s);
    add_ragged(&s);
    small = cost_at(&s.cluster, LK_ALGO_AUTO, 16384, 8, 1);
    large = cost_at(&s.cluster, LK_ALGO_AUTO, 1 << 20, 4, 1);
    /* One exchange of all bytes on 2 ranks, 1.5 on 4: measured there as 142 ms. */
    ck_assert_double_eq_tol(large.seconds, 142e-3, 0.03 * 142e-3);
    ck_assert_double_lt(large.hi / large.lo, 1.15);
    /* Measured on 8 ranks: 23.5 ms, 14 hops of chunks that take 4 KiB on 2 ranks. By bytes alone it
     * would be 2.1 ms. */
    ck_assert_double_gt(small.seconds, 12e-3);
    ck_assert_double_gt(small.hi, 23.5e-3);
    sweep_fini(&s);
}
END_TEST

/* Two ranks on each host at 200 Mbit/s, whose small messages no line fits either: rings of 8 ranks
 * pass 1.17 times the bytes of those of 4, and as much surely. */
START_TEST(a_ring_between_nodes_is_carried_by_its_chunks)
{
    static const double ms[][2] = {
        {0.047, 0.606}, {0.077, 3.25}, {0.175, 13.7}, {0.387, 55.5}, {2.48, 261}};
    struct sweep s;
    struct lk_cost c;

    sweep_init(&s);
    for (size_t i = 0; i < 2 * LK_COUNT(ms); i++) {
        add_point(&s, LK_ALGO_RING, i % 2 ? 4 : 2, 16384U << (i / 2 * 2), ms[i / 2][i % 2] * 1e-3,
                  LK_TIMING_ALONE);
        s.cluster.points[i].nodes = i % 2 ? 2 : 1;
    }
    c = cost_at(&s.cluster, LK_ALGO_RING, 1 << 20, 8, 4);
    ck_assert_double_eq_tol(c.seconds / 55.5e-3, 1.17, 0.12);
    ck_assert_double_lt(c.hi / c.lo, 1.3);
    sweep_fini(&s);
}
END_TEST

/*
 * Return the time of a ring of K on links shaped to 100 Mbit/s by a token bucket that lets 64 KiB
 * pass at once: 0.3 ms a hop, and the bytes beyond the burst at the rate.
 */
static double shaped(double bytes, int ranks)
{
    return 2 * (ranks - 1) * 0.3e-3 + fmax(0, 2.0 * (ranks - 1) / ranks * bytes - 65536) / 11.8e6;
}

START_TEST(bursts_of_shaped_links)
{
    struct sweep s;
    struct lk_cluster_fit f;

    sweep_init(&s);
    for (uint64_t b = 4096; b <= 64U << 20; b *= 4)
        add_point(&s, LK_ALGO_AUTO, 2, b, shaped((double)b, 2), LK_TIMING_ALONE);
    ck_assert_int_eq(lk_alpha_beta_fit(s.cluster.points, s.cluster.n_points, LK_ALL_REDUCE,
                                       LK_ALGO_AUTO, LK_LINK_INTRA, NULL, 1, &f),
                     LK_OK);
    ck_assert_double_eq_tol(f.bandwidth_Bps.value / 11.8e6, 1, 0.02);
    ck_assert_double_eq_tol(f.alpha_s.value / 0.3e-3, 1, 0.02);
    lk_cluster_fit_fini(&f);
    for (int ranks = 4; ranks <= 8; ranks *= 2) {
        double large = shaped(25 << 20, ranks);

        ck_assert_double_eq_tol(cost_at(&s.cluster, LK_ALGO_AUTO, 25 << 20, ranks, 1).seconds,
                                large, 0.05 * large);
    }
    sweep_fini(&s);
}
END_TEST

START_TEST(auto_takes_the_fastest)
{
    struct sweep s;
    struct lk_cost small, large;

    sweep_init(&s);
    add_curve(&s, LK_ALGO_RING, 8, 0);
    add_curve(&s, LK_ALGO_TREE, 8, 0);
    small = cost_at(&s.cluster, LK_ALGO_AUTO, 4096, 8, 1);
    large = cost_at(&s.cluster, LK_ALGO_AUTO, 64 << 20, 8, 1);
    ck_assert_double_eq_tol(small.seconds / truth(LK_ALGO_TREE, 4096, 8), 1, 1e-9);
    ck_assert_double_eq_tol(large.seconds / truth(LK_ALGO_RING, 64 << 20, 8), 1, 1e-9);
    sweep_fini(&s);
}
END_TEST

/* Behind 256 KiB AUTO takes an algorithm that is twice as fast, and each side is as if it were all:
 * no line leads from one to the other, and neither is in doubt for the other. */
START_TEST(an_algorithm_ends_where_the_next_begins)
{
    enum { LAST = 256 << 10, ALL = 2 };
    struct sweep s[3];

    for (int i = 0; i < 3; i++)
        sweep_init(&s[i]);
    for (uint64_t b = 4096; b <= 64U << 20; b = b == LAST ? b + 4 : (b & ~UINT64_C(7)) * 4)
        for (int i = b > LAST; i <= ALL; i += ALL - (b > LAST))
            add_point(&s[i], LK_ALGO_AUTO, 8, b,
                      truth(LK_ALGO_RING, (double)b, 8) * (b > LAST ? 1 : 2), LK_TIMING_ALONE);
    for (uint64_t b = 5000; b < 64U << 20; b += b < LAST && b * 5 / 4 > LAST ? LAST - b : b / 4) {
        struct lk_cost one = cost_at(&s[b > LAST].cluster, LK_ALGO_AUTO, b, 8, 1);
        struct lk_cost both = cost_at(&s[ALL].cluster, LK_ALGO_AUTO, b, 8, 1);

        ck_assert_double_eq_tol(both.seconds / one.seconds, 1, 1e-6);
        ck_assert_double_eq_tol(both.hi / one.hi, 1, 1e-6);
    }
    for (int i = 0; i < 3; i++)
        sweep_fini(&s[i]);
}
END_TEST

/*
 * Without a datasheet: one algorithm's line. 16 MB and more tell nothing of the latency, so that
 * less has a wide interval; a table that is flat at its small end leaves little open.
 */
START_TEST(a02_one_algorithms_slope_bounds_what_is_open)
{
    struct sweep s;
    struct lk_cost small, flat;

    sweep_init(&s);
    for (uint64_t b = 16 << 20; b <= 1U << 30; b *= 4)
        add_point(&s, LK_ALGO_RING, 8, b, truth(LK_ALGO_RING, (double)b, 8), LK_TIMING_ALONE);
    small = cost_at(&s.cluster, LK_ALGO_RING, 65536, 8, 1);
    ck_assert_double_le(small.lo, truth(LK_ALGO_RING, 65536, 8));
    ck_assert_double_ge(small.hi, truth(LK_ALGO_RING, 65536, 8));
    ck_assert_double_gt(small.hi / small.lo, 4);
    ck_assert_double_eq_tol(small.extrapolation, 256, 1e-9);
    add_point(&s, LK_ALGO_RING, 8, 1024, truth(LK_ALGO_RING, 1024, 8), LK_TIMING_ALONE);
    add_point(&s, LK_ALGO_RING, 8, 4096, truth(LK_ALGO_RING, 4096, 8), LK_TIMING_ALONE);
    flat = cost_at(&s.cluster, LK_ALGO_RING, 64, 8, 1);
    ck_assert_double_eq_tol(flat.seconds / truth(LK_ALGO_RING, 64, 8), 1, 0.01);
    ck_assert_double_lt(flat.hi / flat.lo, 1.15);
    sweep_fini(&s);
}
END_TEST

START_TEST(links_alone_are_a_preset)
{
    struct sweep s;
    struct lk_cost c;

    sweep_init(&s);
    s.cluster.preset = true;
    ck_assert_int_eq(lk_quantity_set(&s.cluster.inter.latency_s, 30e-6, NAN, NAN, 0, "t"), LK_OK);
    ck_assert_int_eq(lk_quantity_set(&s.cluster.inter.bandwidth_Bps, 3e9, NAN, NAN, 0, "t"), LK_OK);
    c = cost_at(&s.cluster, LK_ALGO_RING, 6000000, 4, 4);
    /* 6 hops of 30 us and 1.5 x 6 MB at 3 GB/s. */
    ck_assert_double_eq_tol(c.seconds, 180e-6 + 3e-3, 1e-9);
    ck_assert_int_eq(c.evidence, LK_EVIDENCE_PRESET);
    /* 4 KB: the tree's 4 hops beat the ring's 6. */
    ck_assert_double_eq_tol(cost_at(&s.cluster, LK_ALGO_AUTO, 3000, 4, 4).seconds, 120e-6 + 2e-6,
                            1e-9);
    lk_quantity_fini(&s.cluster.inter.latency_s);
    lk_quantity_fini(&s.cluster.inter.bandwidth_Bps);
    sweep_fini(&s);
}
END_TEST

START_TEST(nothing_known_is_refused_with_the_next_run)
{
    struct sweep s;
    struct lk_cost_model *m = NULL;
    struct lk_cost out;
    uint64_t bytes = 1000;

    sweep_init(&s);
    add_curve(&s, LK_ALGO_RING, 2, 0);
    ck_assert_int_eq(lk_cost_model_create(&s.cluster, NULL, NULL, &m), LK_OK);
    ck_assert_int_eq(lk_cost_eval(m, LK_ALL_REDUCE, LK_ALGO_AUTO, 4, 4, &bytes, 1, &out),
                     LK_EEVIDENCE);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "lockstep calibrate"));
    ck_assert_int_eq(lk_cost_eval(m, LK_BARRIER, LK_ALGO_AUTO, 2, 1, &bytes, 1, &out),
                     LK_EEVIDENCE);
    lk_cost_model_destroy(m);
    sweep_fini(&s);
}
END_TEST

/* A ring's all-reduce gives the cost of its halves, less certainly; a
 * broadcast passes all of it once. */
START_TEST(an_all_reduce_gives_its_halves)
{
    static const struct {
        enum lk_coll coll;
        double hops, wire; /* on 4 ranks, of 16 MB */
    } rows[] = {
        {LK_REDUCE_SCATTER, 3, 12e6},
        {LK_ALL_GATHER, 3, 12e6},
        {LK_BROADCAST, 3, 16e6},
    };
    struct sweep s;
    struct lk_cost_model *m = NULL;
    struct lk_cost whole, part;
    uint64_t bytes = 16000000;

    sweep_init(&s);
    add_curve(&s, LK_ALGO_RING, 2, 0);
    add_curve(&s, LK_ALGO_RING, 4, 0);
    ck_assert_int_eq(lk_cost_model_create(&s.cluster, NULL, NULL, &m), LK_OK);
    ck_assert_int_eq(lk_cost_eval(m, LK_ALL_REDUCE, LK_ALGO_AUTO, 4, 1, &bytes, 1, &whole), LK_OK);
    for (size_t i = 0; i < LK_COUNT(rows); i++)
        for (int ranks = 4; ranks <= 8; ranks += 4) {
            ck_assert_int_eq(
                lk_cost_eval(m, rows[i].coll, LK_ALGO_AUTO, ranks, 1, &bytes, 1, &part), LK_OK);
            ck_assert_int_eq(part.evidence, LK_EVIDENCE_EXTRAPOLATED);
            ck_assert_double_gt(log(part.hi / part.lo), 2 * log(whole.hi / whole.lo));
            if (ranks == 4)
                ck_assert_double_eq_tol(
                    part.seconds / (LAUNCH + rows[i].hops * ALPHA + rows[i].wire / RATE), 1, 0.02);
        }
    lk_cost_model_destroy(m);
    /* Measured points of the collective itself are better. */
    s.cluster.points[0].coll = LK_ALL_GATHER;
    ck_assert_int_eq(lk_cost_model_create(&s.cluster, NULL, NULL, &m), LK_OK);
    bytes = s.cluster.points[0].bytes;
    ck_assert_int_eq(lk_cost_eval(m, LK_ALL_GATHER, LK_ALGO_AUTO, 2, 1, &bytes, 1, &part), LK_OK);
    ck_assert_int_eq(part.evidence, LK_EVIDENCE_MEASURED);
    lk_cost_model_destroy(m);
    sweep_fini(&s);
}
END_TEST

/* Draws of a 3 % interval have a spread of 3 %, and the same seed gives the same draws. */
START_TEST(draws_move_by_the_interval)
{
    struct sweep s;
    uint64_t bytes = 1 << 20;
    double sum = 0, squares = 0;

    sweep_init(&s);
    add_curve(&s, LK_ALGO_RING, 2, 0);
    ck_assert_int_eq(lk_alpha_beta_fit_cluster(&s.cluster, 1), LK_OK);
    for (uint64_t i = 0; i < 300; i++) {
        double twice[2];

        for (int j = 0; j < 2; j++) {
            struct lk_rng g = lk_rng_init(3, i);
            struct lk_cost_model *m = NULL;
            struct lk_cost c;

            ck_assert_int_eq(lk_cost_model_create(&s.cluster, &g, NULL, &m), LK_OK);
            ck_assert_int_eq(lk_cost_eval(m, LK_ALL_REDUCE, LK_ALGO_AUTO, 2, 1, &bytes, 1, &c),
                             LK_OK);
            twice[j] = log(c.seconds / truth(LK_ALGO_RING, (double)bytes, 2));
            lk_cost_model_destroy(m);
        }
        ck_assert_double_eq(twice[0], twice[1]);
        sum += twice[0];
        squares += twice[0] * twice[0];
    }
    /* sd = ln(1.03/0.97)/2/1.645 = 0.0182; 300 draws determine it to 4 %. */
    ck_assert_double_eq_tol(sum / 300, 0, 0.004);
    ck_assert_double_eq_tol(sqrt(squares / 300), 0.0182, 0.003);
    sweep_fini(&s);
}
END_TEST

SUITE(coll_cost, c)
{
    tcase_add_test(c, shapes_are_the_textbook_ones);
    tcase_add_test(c, the_slowest_link_sets_the_pace);
    tcase_add_test(c, one_rank_costs_nothing);
    tcase_add_test(c, measured_counts_are_met_and_interpolated);
    tcase_add_test(c, alone_is_preferred_to_back_to_back);
    tcase_add_test(c, fit_recovers_exact_constants);
    tcase_add_loop_test(c, fit_recovers_noisy_constants, 0, 10);
    tcase_add_test(c, fit_resists_an_outlier);
    tcase_add_test(c, one_rank_count_gives_the_launch_to_the_hops);
    tcase_add_test(c, other_rank_counts_follow_the_model);
    tcase_add_test(c, a_ring_is_carried_by_its_chunks);
    tcase_add_test(c, a_ring_between_nodes_is_carried_by_its_chunks);
    tcase_add_test(c, bursts_of_shaped_links);
    tcase_add_test(c, auto_takes_the_fastest);
    tcase_add_test(c, an_algorithm_ends_where_the_next_begins);
    tcase_add_test(c, a02_one_algorithms_slope_bounds_what_is_open);
    tcase_add_test(c, links_alone_are_a_preset);
    tcase_add_test(c, nothing_known_is_refused_with_the_next_run);
    tcase_add_test(c, an_all_reduce_gives_its_halves);
    tcase_add_test(c, draws_move_by_the_interval);
}
