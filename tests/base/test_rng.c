/* Random numbers: the published vectors, the same draws everywhere, and the right distributions. */
#include "base/array.h"
#include "base/elementary.h"
#include "base/rng.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

/* Random123's kat_vectors, philox4x32 with 10 rounds. */
static const struct {
    uint32_t counter[4], key[2], out[4];
} known[] = {
    {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
    {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
     {0xffffffff, 0xffffffff},
     {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
    {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
     {0xa4093822, 0x299f31d0},
     {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
};

START_TEST(known_answers)
{
    uint32_t out[4];

    lk_philox4x32(known[_i].counter, known[_i].key, out);
    ck_assert_mem_eq(out, known[_i].out, sizeof out);
}
END_TEST

START_TEST(draws_are_the_block_in_order)
{
    /* seed and stream 0: counters 0 and 1 with key 0. */
    struct lk_rng g = lk_rng_init(0, 0);

    ck_assert_uint_eq(lk_rng_u64(&g), 0xe169c58d6627e8d5U);
    ck_assert_uint_eq(lk_rng_u64(&g), 0x9b00dbd8bc57ac4cU);
    ck_assert_uint_eq(g.next, 2);
    /* All inputs count: 64-bit seed, 64-bit stream, 64-bit position. */
    ck_assert_uint_ne(lk_rng_at(1, 0, 0), lk_rng_at(1ULL << 32, 0, 0));
    ck_assert_uint_ne(lk_rng_at(0, 1, 0), lk_rng_at(0, 1ULL << 32, 0));
    ck_assert_uint_ne(lk_rng_at(0, 0, 2), lk_rng_at(0, 0, 2ULL << 32));
}
END_TEST

START_TEST(position_gives_the_draw)
{
    struct lk_rng g = lk_rng_init(7, lk_rng_stream("test", 3));
    struct lk_rng copy;

    for (uint64_t i = 0; i < 100; i++)
        ck_assert_uint_eq(lk_rng_u64(&g), lk_rng_at(7, g.stream, i));
    copy = g;
    ck_assert_uint_eq(lk_rng_u64(&g), lk_rng_u64(&copy));
}
END_TEST

START_TEST(streams_differ)
{
    uint64_t seen[4 * 64];
    static const char *const purposes[] = {"", "sampler", "straggler", "stragglers"};
    size_t n = 0;

    for (size_t p = 0; p < LK_COUNT(purposes); p++)
        for (uint64_t i = 0; i < 64; i++)
            seen[n++] = lk_rng_stream(purposes[p], i);
    for (size_t i = 0; i < n; i++)
        for (size_t j = i + 1; j < n; j++)
            ck_assert_uint_ne(seen[i], seen[j]);
    ck_assert_uint_eq(lk_rng_stream("sampler", 1), seen[64 + 1]);
}
END_TEST

enum { DRAWS = 100000 };

/*
 * Mean and variance of DRAWS draws. The seed is fixed, so a bound of 4 standard errors is met or
 * missed for good: it says that the generator is not grossly wrong.
 */
static void moments(double (*draw)(struct lk_rng *g), double *mean, double *variance)
{
    struct lk_rng g = lk_rng_init(11, lk_rng_stream("moments", 0));
    double sum = 0;
    double squares = 0;

    for (int i = 0; i < DRAWS; i++) {
        double v = draw(&g);

        sum += v;
        squares += v * v;
    }
    *mean = sum / DRAWS;
    *variance = squares / DRAWS - *mean * *mean;
}

static const struct {
    double (*draw)(struct lk_rng *g);
    double mean, variance, fourth; /* fourth central moment, for the variance's standard error */
} laws[] = {
    {lk_rng_uniform, 0.5, 1.0 / 12, 1.0 / 80},
    {lk_rng_normal, 0, 1, 3},
    {lk_rng_exponential, 1, 1, 9},
};

START_TEST(mean_and_variance)
{
    double mean;
    double variance;
    double v = laws[_i].variance;

    moments(laws[_i].draw, &mean, &variance);
    ck_assert_double_eq_tol(mean, laws[_i].mean, 4 * sqrt(v / DRAWS));
    ck_assert_double_eq_tol(variance, v, 4 * sqrt((laws[_i].fourth - v * v) / DRAWS));
}
END_TEST

/* Kolmogorov-Smirnov against the distribution function, on a grid. */
START_TEST(normal_distribution)
{
    struct lk_rng g = lk_rng_init(12, 0);
    int below[41] = {0};

    for (int i = 0; i < DRAWS; i++) {
        double v = lk_rng_normal(&g);

        for (int k = 0; k < 41; k++)
            below[k] += v <= (k - 20) * 0.2;
    }
    for (int k = 0; k < 41; k++) {
        double p = 0.5 * erfc(-(k - 20) * 0.2 / sqrt(2));

        ck_assert_double_eq_tol((double)below[k] / DRAWS, p, 1.63 / sqrt(DRAWS)); /* 1 % level */
    }
}
END_TEST

/* Kolmogorov-Smirnov for the normals that are made many at a time. */
START_TEST(normals_distribution)
{
    static double v[DRAWS];
    double sum = 0, squares = 0, lag = 0;

    lk_rng_normals(12, 5, 1ULL << 40, v, DRAWS);
    for (int k = -20; k <= 20; k++) {
        int below = 0;

        for (int i = 0; i < DRAWS; i++)
            below += v[i] <= k * 0.2;
        ck_assert_double_eq_tol((double)below / DRAWS, 0.5 * erfc(-k * 0.2 / sqrt(2)),
                                1.63 / sqrt(DRAWS)); /* 1 % level */
    }
    for (int i = 0; i < DRAWS; i++) {
        sum += v[i];
        squares += v[i] * v[i];
        lag += i ? v[i] * v[i - 1] : 0; /* neighbours share a block, every second time */
    }
    ck_assert_double_eq_tol(sum / DRAWS, 0, 4 / sqrt(DRAWS));
    ck_assert_double_eq_tol(squares / DRAWS, 1, 4 * sqrt(2.0 / DRAWS));
    ck_assert_double_eq_tol(lag / DRAWS, 0, 4 / sqrt(DRAWS));
}
END_TEST

/* Any batch from any position holds the same bits. */
START_TEST(normals_are_by_position)
{
    static double all[1000], part[1000];

    lk_rng_normals(3, 4, 0, all, LK_COUNT(all));
    for (size_t first = 0; first < 5; first++)
        for (size_t n = 0; n < 700; n += n < 20 ? 1 : 97) {
            part[n] = -1;
            lk_rng_normals(3, 4, first, part, n);
            ck_assert_mem_eq(part, all + first, n * sizeof *part);
            ck_assert_double_eq(part[n], -1);
        }
}
END_TEST

static double error_of(double got, double expected)
{
    return fabs(got - expected) / fmax(1, fabs(expected));
}

/* Compare with libm's, whose arguments are rounded: 2 pi turns, and exp(x)
 * as an argument of log. */
START_TEST(elementary_functions)
{
    struct lk_rng g = lk_rng_init(14, 0);
    double s, c;

    ck_assert_double_eq(lk_elementary_log(1), 0);
    ck_assert_double_eq(lk_elementary_exp(0), 1);
    for (int i = 0; i < DRAWS; i++) {
        double u = 1 - lk_rng_uniform(&g), x = 40 * u - 20, turns = i ? u : 1;

        ck_assert_double_le(error_of(lk_elementary_log(u), log(u)), 4e-16);
        ck_assert_double_le(fabs(lk_elementary_log(exp(x)) - x), 4e-15);
        ck_assert_double_le(fabs(lk_elementary_exp(x) / exp(x) - 1), 5e-16);
        lk_elementary_cos_sin(turns, &c, &s);
        ck_assert_double_le(error_of(c, cos(2 * acos(-1) * turns)), 1e-15);
        ck_assert_double_le(error_of(s, sin(2 * acos(-1) * turns)), 1e-15);
    }
    ck_assert_double_eq_tol(lk_elementary_log(0x1p-52), -52 * log(2), 1e-14);
}
END_TEST

START_TEST(uniform_is_below_one)
{
    struct lk_rng g = lk_rng_init(13, 0);

    for (int i = 0; i < DRAWS; i++) {
        double v = lk_rng_uniform(&g);

        ck_assert(v >= 0 && v < 1);
    }
}
END_TEST

START_TEST(below_is_even)
{
    static const uint64_t limits[] = {1, 2, 3, 7, 10};
    struct lk_rng g = lk_rng_init(14, 0);

    for (size_t k = 0; k < LK_COUNT(limits); k++) {
        int count[10] = {0};
        double expected = (double)DRAWS / (double)limits[k];

        for (int i = 0; i < DRAWS; i++) {
            uint64_t v = lk_rng_below(&g, limits[k]);

            ck_assert_uint_lt(v, limits[k]);
            count[v]++;
        }
        for (uint64_t v = 0; v < limits[k]; v++)
            ck_assert_double_eq_tol(count[v], expected, 4.5 * sqrt(expected));
    }
}
END_TEST

/* With n = 3 * 2^62 a plain modulo would hit the lower third twice as often. */
START_TEST(below_is_unbiased_near_the_top)
{
    uint64_t n = 3ULL << 62;
    struct lk_rng g = lk_rng_init(15, 0);
    int low = 0;

    for (int i = 0; i < DRAWS; i++)
        low += lk_rng_below(&g, n) < n / 3;
    ck_assert_double_eq_tol(low, DRAWS / 3.0, 4 * sqrt(DRAWS * 2.0 / 9));
}
END_TEST

START_TEST(permutations)
{
    struct lk_rng g = lk_rng_init(16, 0);
    uint64_t out[100];
    bool seen[100] = {false};
    int count[6] = {0};

    lk_rng_permutation(&g, out, LK_COUNT(out));
    for (size_t i = 0; i < LK_COUNT(out); i++) {
        ck_assert_uint_lt(out[i], LK_COUNT(out));
        ck_assert(!seen[out[i]]);
        seen[out[i]] = true;
    }
    for (int i = 0; i < 60000; i++) {
        lk_rng_permutation(&g, out, 3);
        count[out[0] * 2 + (out[1] > out[2])]++;
    }
    for (size_t k = 0; k < LK_COUNT(count); k++) /* all six orders alike */
        ck_assert_double_eq_tol(count[k], 10000, 4.5 * sqrt(10000));
    lk_rng_permutation(&g, out, 0);
}
END_TEST

SUITE(rng, c)
{
    tcase_add_loop_test(c, known_answers, 0, (int)LK_COUNT(known));
    tcase_add_test(c, draws_are_the_block_in_order);
    tcase_add_test(c, position_gives_the_draw);
    tcase_add_test(c, streams_differ);
    tcase_add_loop_test(c, mean_and_variance, 0, (int)LK_COUNT(laws));
    tcase_add_test(c, normal_distribution);
    tcase_add_test(c, normals_distribution);
    tcase_add_test(c, normals_are_by_position);
    tcase_add_test(c, elementary_functions);
    tcase_add_test(c, uniform_is_below_one);
    tcase_add_test(c, below_is_even);
    tcase_add_test(c, below_is_unbiased_near_the_top);
    tcase_add_test(c, permutations);
}
