/* Clock fits recover known offsets and drifts within the stated uncertainty. */
#include "base/clockfit.h"

#include "base/array.h"
#include "base/rng.h"
#include "tests/rigs/suite.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

enum { SAMPLES_MAX = 64 };

/* The truth: reference = local + offset + drift * (local - start). Delays in ns: a minimum each
 * way, plus an exponential tail with this mean. */
struct truth {
    const char *name;
    int64_t offset_ns;
    double drift_ppb;
    double there_ns, back_ns, there_tail_ns, back_tail_ns;
    uint64_t apart_ns; /* from the first to the second moment */
    uint64_t gap_ns;   /* from sample to sample */
    int samples;
};

static const struct truth truths[] = {
    {"same clock", 0, 0, 5e3, 5e3, 3e3, 3e3, 60000000000, 100000, 32},
    {"ahead", 12345678901, 0, 5e3, 5e3, 3e3, 3e3, 60000000000, 100000, 32},
    {"behind", -987654321, 0, 5e3, 5e3, 3e3, 3e3, 60000000000, 100000, 32},
    {"drifts", 1000000, 20000, 5e3, 5e3, 3e3, 3e3, 600000000000, 100000, 32},
    {"drifts back", -5, -80000, 5e3, 5e3, 3e3, 3e3, 600000000000, 100000, 32},
    {"noisy one way", 77, 1000, 5e3, 5e3, 2e6, 1e3, 10000000000, 100000, 64},
    {"slower one way", 77, 1000, 5e3, 50e3, 1e3, 1e3, 10000000000, 100000, 32},
    {"slow exchange", 77, 100000, 1e5, 1e5, 1e6, 1e6, 10000000000, 10000000, 64},
    {"one sample", 31415926, 0, 5e3, 9e3, 3e3, 3e3, 1000000000, 1, 1},
};

static uint64_t reference(const struct truth *t, uint64_t zero_ns, uint64_t local_ns)
{
    double since = (double)(int64_t)(local_ns - zero_ns);

    return local_ns + (uint64_t)(t->offset_ns + llround(t->drift_ppb * 1e-9 * since));
}

static uint64_t delay(struct lk_rng *g, double floor_ns, double tail_ns)
{
    return (uint64_t)(floor_ns + tail_ns * lk_rng_exponential(g));
}

static uint64_t exchange(const struct truth *t, struct lk_rng *g, uint64_t zero_ns,
                         uint64_t local_ns, struct lk_clock_sample *samples)
{
    for (int i = 0; i < t->samples; i++) {
        uint64_t there = delay(g, t->there_ns, t->there_tail_ns);
        uint64_t back = delay(g, t->back_ns, t->back_tail_ns);

        samples[i].local_send_ns = local_ns;
        samples[i].remote_ns = reference(t, zero_ns, local_ns + there);
        samples[i].local_recv_ns = local_ns + there + back;
        local_ns = samples[i].local_recv_ns + t->gap_ns;
    }
    return local_ns;
}

static double error_at(const struct truth *t, const struct lk_clock_fit *f, uint64_t zero_ns,
                       uint64_t local_ns)
{
    return fabs((double)(int64_t)(lk_clock_apply(f, local_ns) - reference(t, zero_ns, local_ns)));
}

START_TEST(the_truth_comes_back)
{
    const struct truth *t = &truths[_i];
    struct lk_clock_sample start[SAMPLES_MAX], end[SAMPLES_MAX];
    struct lk_clock_fit f;

    for (uint64_t seed = 0; seed < 50; seed++) {
        struct lk_rng g = lk_rng_init(seed, 0);
        uint64_t zero_ns = 1000000000000;
        uint64_t last_ns;

        exchange(t, &g, zero_ns, zero_ns, start);
        last_ns = exchange(t, &g, zero_ns, zero_ns + t->apart_ns, end);
        ck_assert_int_eq(lk_clock_fit(start, (size_t)t->samples, end, (size_t)t->samples, &f),
                         LK_OK);
        /* The bound holds between the moments; 1 ns for rounding. */
        for (int i = 0; i <= 10; i++) {
            uint64_t at = zero_ns + (last_ns - zero_ns) / 10 * (uint64_t)i;
            double error = error_at(t, &f, zero_ns, at);

            /* Outside the middles of the first and the last exchange the drift is extrapolated. */
            double slack = 1 + (i == 0 || i == 10) * (double)(last_ns - zero_ns) * 1e-5;
            ck_assert_msg(error <= (double)f.uncertainty_ns + slack,
                          "%s, seed %" PRIu64 ": off by %.0f ns, claims %" PRIu64, t->name, seed,
                          error, f.uncertainty_ns);
        }
        /* Two bounds of the offset, divided by the time between. */
        ck_assert_double_le(
            fabs(f.drift_ppb - t->drift_ppb),
            2.0 * (double)f.uncertainty_ns /
                    (double)(end[0].local_send_ns - start[t->samples - 1].local_recv_ns) * 1e9 +
                1.0);
    }
}
END_TEST

/* The error is never above half of the shortest round trip, and smaller if
 * both sides have tails. */
START_TEST(intersecting_beats_the_shortest_round_trip)
{
    const struct truth t = {"", 500, 0, 1e3, 1e3, 20e3, 20e3, 1000000000, 1000, 64};
    struct lk_clock_sample s[SAMPLES_MAX];
    struct lk_clock_fit f;
    int better = 0;

    for (uint64_t seed = 0; seed < 50; seed++) {
        struct lk_rng g = lk_rng_init(seed, 0);
        uint64_t half = UINT64_MAX;

        exchange(&t, &g, 1000000, 1000000, s);
        for (int i = 0; i < t.samples; i++) {
            uint64_t trip = s[i].local_recv_ns - s[i].local_send_ns;

            if ((trip + 1) / 2 < half)
                half = (trip + 1) / 2;
        }
        ck_assert_int_eq(lk_clock_fit(s, (size_t)t.samples, NULL, 0, &f), LK_OK);
        ck_assert_double_eq(f.drift_ppb, 0);
        ck_assert_uint_le(f.uncertainty_ns, half);
        better += f.uncertainty_ns < half * 3 / 4;
    }
    /* Expected: (2 us + 2 * 20 us / 64) / 2 = 1.3 us against (2 us + 3.5 us) / 2. */
    ck_assert_int_ge(better, 40);
}
END_TEST

START_TEST(no_evidence)
{
    const struct lk_clock_sample backwards[] = {{100, 50, 99}, {UINT64_MAX, 0, 0}};
    const struct lk_clock_sample huge[] = {{0, UINT64_MAX, 10}};
    struct lk_clock_fit f;

    ck_assert_int_eq(lk_clock_fit(NULL, 0, NULL, 0, &f), LK_EEVIDENCE);
    ck_assert_int_eq(lk_clock_fit(backwards, 2, NULL, 0, &f), LK_EEVIDENCE);
    ck_assert_int_eq(lk_clock_fit(huge, 1, NULL, 0, &f), LK_EEVIDENCE);
}
END_TEST

/* With a clock set by 1 s between two samples the shortest trip is used, and
 * the uncertainty grows. */
START_TEST(a_contradiction_is_owned_up_to)
{
    const struct lk_clock_sample s[] = {{1000, 1050, 1100}, {2000, 1000002050, 2300}};
    struct lk_clock_fit f;

    ck_assert_int_eq(lk_clock_fit(s, 2, NULL, 0, &f), LK_OK);
    ck_assert_int_eq(f.offset_ns, 0);
    ck_assert_uint_ge(f.uncertainty_ns, 999999000);
}
END_TEST

START_TEST(identity_and_ends_of_the_range)
{
    struct lk_clock_fit f = lk_clock_identity();

    ck_assert_uint_eq(lk_clock_apply(&f, 0), 0);
    ck_assert_uint_eq(lk_clock_apply(&f, UINT64_MAX), UINT64_MAX);
    ck_assert_uint_eq(lk_clock_apply(&f, 123456789), 123456789);
    f.offset_ns = -1000;
    ck_assert_uint_eq(lk_clock_apply(&f, 1000), 0);
    ck_assert_uint_eq(lk_clock_apply(&f, 999), 0);
    f.offset_ns = INT64_MIN;
    ck_assert_uint_eq(lk_clock_apply(&f, 5), 0);
}
END_TEST

/* An end that does not lie after the start gives no drift. */
START_TEST(moments_in_the_wrong_order)
{
    const struct lk_clock_sample a[] = {{5000, 5060, 5100}};
    const struct lk_clock_sample b[] = {{1000, 1050, 1100}};
    struct lk_clock_fit f;

    ck_assert_int_eq(lk_clock_fit(a, 1, b, 1, &f), LK_OK);
    ck_assert_double_eq(f.drift_ppb, 0);
    ck_assert_int_eq(f.offset_ns, 10);
    ck_assert_uint_eq(f.uncertainty_ns, 50);
}
END_TEST

SUITE(clockfit, t)
{
    tcase_add_loop_test(t, the_truth_comes_back, 0, (int)LK_COUNT(truths));
    tcase_add_test(t, intersecting_beats_the_shortest_round_trip);
    tcase_add_test(t, no_evidence);
    tcase_add_test(t, a_contradiction_is_owned_up_to);
    tcase_add_test(t, identity_and_ends_of_the_range);
    tcase_add_test(t, moments_in_the_wrong_order);
}
