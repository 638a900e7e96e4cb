/* Collectives outside the sizes that were measured: parts of a real table predict the rest. */
#include "base/array.h"
#include "facts/preset.h"
#include "sim/collective/coll_cost.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <stdlib.h>

/* All-reduces of 8 H100 on NVSwitch, us: github.com/aws-samples/awsome-distributed-training,
 * micro-benchmarks/nccl-tests/aws-batch/README.md. */
static const struct {
    uint64_t bytes;
    double us;
} h100[] = {
    {16384, 17.46},        {65536, 19.09},        {262144, 20.27},    {524288, 21.17},
    {1048576, 28.56},      {4194304, 55.44},      {16777216, 124},    {67108864, 326.6},
    {268435456, 1121.4},   {536870912, 2165.3},   {1073741824, 4253}, {2147483648, 8463.7},
    {4294967296, 15791.0}, {8589934592, 31289.0},
};

/* Read the preset and add the table's sizes from `least` to `most`. */
static void h100_init(uint64_t least, uint64_t most, struct lk_cluster *c)
{
    char *path = NULL;

    ck_assert_int_eq(lk_preset_find(NULL, "dgx-h100", &path), LK_OK);
    lk_cluster_init(c);
    ck_assert_msg(lk_cluster_read(path, c) == LK_OK, "%s", lk_error_text());
    free(path);
    c->preset = false;
    ck_assert_int_eq(lk_alloc(&c->points, LK_COUNT(h100), sizeof *c->points), LK_OK);
    for (size_t i = 0; i < LK_COUNT(h100); i++) {
        struct lk_cluster_point *p = &c->points[c->n_points];

        if (h100[i].bytes < least || h100[i].bytes > most)
            continue;
        *p = (struct lk_cluster_point){
            LK_ALL_REDUCE, LK_ALGO_AUTO,      LK_TIMING_BACK_TO_BACK, 8, 1,
            h100[i].bytes, lk_quantity_none()};
        ck_assert_int_eq(lk_quantity_set(&p->time_s, h100[i].us * 1e-6, NAN, NAN, 9, "log"), LK_OK);
        c->n_points++;
    }
}

static struct lk_cost cost_at(const struct lk_cluster *c, uint64_t bytes)
{
    struct lk_cost_model *m = NULL;
    struct lk_cost out;

    ck_assert_int_eq(lk_cost_model_create(c, NULL, NULL, &m), LK_OK);
    ck_assert_int_eq(lk_cost_eval(m, LK_ALL_REDUCE, LK_ALGO_AUTO, 8, 1, &bytes, 1, &out), LK_OK);
    lk_cost_model_destroy(m);
    return out;
}

/* Parts of the table; what remains is predicted with at most twice the error of the preset alone.
 */
static const struct {
    uint64_t least, most;
} parts[] = {{512 << 20, UINT64_MAX}, {0, 1 << 20}, {1 << 20, 64 << 20}};

START_TEST(a02_outside_the_measured_sizes_the_model_meets_the_table)
{
    uint64_t least = parts[_i].least, most = parts[_i].most;
    struct lk_cluster c, preset;
    double ours = 0, alone = 0, n = 0;

    h100_init(least, most, &c);
    h100_init(1, 0, &preset);
    for (size_t i = 0; i < LK_COUNT(h100); i++) {
        struct lk_cost cost = cost_at(&c, h100[i].bytes);
        double us = h100[i].us, first = (double)c.points[0].bytes / (double)h100[i].bytes,
               last = (double)h100[i].bytes / (double)c.points[c.n_points - 1].bytes;

        if (h100[i].bytes >= least && h100[i].bytes <= most) {
            ck_assert_int_eq(cost.evidence, LK_EVIDENCE_MEASURED);
            continue;
        }
        ck_assert_int_eq(cost.evidence, LK_EVIDENCE_EXTRAPOLATED);
        ck_assert(cost.extrapolates_bytes);
        ck_assert_double_eq_tol(cost.extrapolation, fmax(first, last), 1e-9);
        ck_assert_msg(cost.lo * 1e6 < us && us < cost.hi * 1e6,
                      "%llu bytes: %g us, but %g [%g..%g]", (unsigned long long)h100[i].bytes, us,
                      cost.seconds * 1e6, cost.lo * 1e6, cost.hi * 1e6);
        ours += fabs(cost.seconds * 1e6 / us - 1);
        alone += fabs(cost_at(&preset, h100[i].bytes).seconds * 1e6 / us - 1);
        n++;
    }
    ck_assert_msg(ours < 2 * alone, "mean error %g %%, of the preset alone %g %%", 100 * ours / n,
                  100 * alone / n);
    lk_cluster_fini(&c);
    lk_cluster_fini(&preset);
}
END_TEST

/* The time goes on from the table's end without a step, and the interval widens with the distance.
 */
START_TEST(a02_the_interval_widens_with_the_distance_in_bytes)
{
    struct lk_cluster c;
    struct lk_cost at;
    double width = 0, seconds;

    h100_init(512 << 20, UINT64_MAX, &c);
    seconds = cost_at(&c, 512 << 20).seconds;
    for (uint64_t bytes = (512 << 20) - 1; bytes >= 1 << 20; bytes /= 2) {
        at = cost_at(&c, bytes);
        if (bytes > 511 << 20)
            ck_assert_double_eq_tol(at.seconds / seconds, 1, 1e-6);
        ck_assert_double_lt(at.seconds, seconds);
        ck_assert_double_gt(at.hi / at.lo, width);
        seconds = at.seconds;
        width = at.hi / at.lo;
    }
    ck_assert_double_gt(width, 4);
    lk_cluster_fini(&c);
}
END_TEST

/* ---- Repeated and odd rows ---- */

/* Add a repetition of every point of c, `factor` times as long. */
static void repeat(struct lk_cluster *c, double factor)
{
    size_t n = c->n_points, capacity = n;

    ck_assert_int_eq(lk_array_grow(&c->points, &capacity, 2 * n, sizeof *c->points), LK_OK);
    for (size_t i = 0; i < n; i++) {
        struct lk_cluster_point *p = &c->points[c->n_points++];

        *p = c->points[i];
        p->time_s = lk_quantity_none();
        ck_assert_int_eq(lk_quantity_set(&p->time_s, c->points[i].time_s.value * factor, NAN, NAN,
                                         9, "repeated"),
                         LK_OK);
    }
}

/* One of four repetitions that is ten times as long moves nothing; of two the interval has both. */
START_TEST(a03_of_repeated_sizes_the_median_counts)
{
    struct lk_cluster c;
    struct lk_cost once, twice, fourfold;
    uint64_t bytes = 16 << 20;

    h100_init(0, UINT64_MAX, &c);
    once = cost_at(&c, bytes);
    repeat(&c, 3);
    twice = cost_at(&c, bytes);
    ck_assert_double_le(twice.lo, once.seconds);
    ck_assert_double_ge(twice.hi, 3 * once.seconds);
    lk_cluster_fini(&c);

    h100_init(0, UINT64_MAX, &c);
    repeat(&c, 1);
    repeat(&c, 1);
    for (size_t i = 0; i < c.n_points / 4; i++)
        c.points[i].time_s.value *= 10;
    fourfold = cost_at(&c, bytes);
    ck_assert_double_eq_tol(fourfold.seconds / once.seconds, 1, 1e-9);
    ck_assert_double_eq_tol(fourfold.hi / fourfold.lo, 1, 1e-9);
    lk_cluster_fini(&c);
}
END_TEST

static void set_ranks(struct lk_cluster *c, int ranks)
{
    for (size_t i = 0; i < c->n_points; i++)
        c->points[i].ranks = ranks;
}

/*
 * One row that took ten times as long stays what was measured. Forecasts of twice the GPUs are
 * those without it within 15 %, at its own size within 50 % and the interval: the table then has no
 * row there. By NCCL's model and, without a compute capability, by alpha-beta.
 */
START_TEST(b_one_odd_row_does_not_travel_to_more_ranks)
{
    enum { ODD = 6 };
    struct lk_cluster c;
    double clean[LK_COUNT(h100)];

    h100_init(0, UINT64_MAX, &c);
    if (_i)
        c.device.compute_capability = 0;
    set_ranks(&c, 4);
    for (size_t i = 0; i < c.n_points; i++)
        clean[i] = cost_at(&c, c.points[i].bytes).seconds;
    c.points[ODD].time_s.value *= 10;
    for (size_t i = 0; i < c.n_points; i++) {
        struct lk_cost at = cost_at(&c, c.points[i].bytes);
        double moved = exp(fabs(log(at.seconds / clean[i])));

        ck_assert_msg(moved < (i == ODD ? 1.5 : 1.15), "%llu bytes moved by %g times",
                      (unsigned long long)c.points[i].bytes, moved);
        ck_assert(at.lo < clean[i] && clean[i] < at.hi);
    }
    set_ranks(&c, 8);
    ck_assert_double_eq_tol(cost_at(&c, c.points[ODD].bytes).seconds / c.points[ODD].time_s.value,
                            1, 1e-9);
    lk_cluster_fini(&c);
}
END_TEST

static struct lk_cost nodes_cost(const struct lk_cluster *c, int nodes, uint64_t bytes)
{
    struct lk_cost_model *m = NULL;
    struct lk_cost out;

    ck_assert_int_eq(lk_cost_model_create(c, NULL, NULL, &m), LK_OK);
    ck_assert_int_eq(
        lk_cost_eval(m, LK_ALL_REDUCE, LK_ALGO_AUTO, 8 * nodes, nodes, &bytes, 1, &out), LK_OK);
    lk_cost_model_destroy(m);
    return out;
}

/*
 * What two nodes took beyond the preset, three times here, is left to its root on 512 nodes, with
 * an interval about as wide as the preset's.
 */
START_TEST(far_counts_are_nearer_to_the_datasheet)
{
    struct lk_cluster c, preset;

    h100_init(0, UINT64_MAX, &c);
    h100_init(1, 0, &preset);
    for (size_t i = 0; i < c.n_points; i++) {
        struct lk_cluster_point *p = &c.points[i];

        p->ranks = 16;
        p->nodes = 2;
        p->time_s.value = 3 * nodes_cost(&preset, 2, p->bytes).seconds;
    }
    for (uint64_t bytes = 1 << 24; bytes <= 1 << 30; bytes <<= 3) {
        struct lk_cost at = nodes_cost(&c, 512, bytes), alone = nodes_cost(&preset, 512, bytes);
        double far = at.seconds / alone.seconds;
        double near = nodes_cost(&c, 4, bytes).seconds / nodes_cost(&preset, 4, bytes).seconds;

        ck_assert_msg(near > 2.3 && near < 3.5, "%g times on 4 nodes", near);
        ck_assert_msg(far > 1.3 && far < 2.3, "%g times on 512 nodes", far);
        ck_assert_double_lt(log(at.hi / at.lo), 1.3 * log(alone.hi / alone.lo));
    }
    lk_cluster_fini(&c);
    lk_cluster_fini(&preset);
}
END_TEST

SUITE(coll_sizes, c)
{
    tcase_add_loop_test(c, a02_outside_the_measured_sizes_the_model_meets_the_table, 0,
                        LK_COUNT(parts));
    tcase_add_test(c, a02_the_interval_widens_with_the_distance_in_bytes);
    tcase_add_test(c, a03_of_repeated_sizes_the_median_counts);
    tcase_add_test(c, far_counts_are_nearer_to_the_datasheet);
    tcase_add_loop_test(c, b_one_odd_row_does_not_travel_to_more_ranks, 0, 2);
}
