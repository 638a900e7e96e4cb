/* The straggler law read back from times that the step model drew from a known one. */
#include "base/array.h"
#include "facts/straggler.h"
#include "sim/step/step.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <stdlib.h>

static void draw(const struct lk_straggler_law *law, size_t n, size_t ranks, uint64_t seed,
                 double **out)
{
    struct lk_step_model m = {
        .ranks = (int)ranks, .nodes = 1, .accumulation = 1, .forward_s = 0.1, .law = *law};
    struct lk_step_plan p;

    ck_assert_int_eq(lk_alloc(out, n * ranks, sizeof **out), LK_OK);
    ck_assert_int_eq(lk_step_plan_init(&p, &m, &(struct lk_sim_request){.steps = 1, .seed = seed}),
                     LK_OK);
    for (size_t i = 0; i < n; i++)
        for (size_t r = 0; r < ranks; r++)
            (*out)[i * ranks + r] = (double)lk_step_plan_compute(&p, (int)r, i).forward_ns / 1e9;
    lk_step_plan_fini(&p);
}

static const struct {
    const char *name;
    struct lk_straggler_law law;
    size_t n, ranks;
} laws[] = {
    {"plain", {.rank_sd = 0.05, .transient_sd = 0.04}, 200, 32},
    {"common", {.rank_sd = 0.02, .transient_sd = 0.03, .common_sd = 0.06}, 200, 32},
    {"tail",
     {.rank_sd = 0.02, .transient_sd = 0.02, .tail_share = 0.05, .tail_scale = 0.3},
     400,
     32},
    {"heavy tail",
     {.rank_sd = 0.02,
      .transient_sd = 0.02,
      .tail_share = 0.1,
      .tail_scale = 0.2 / 0.7,
      .tail_shape = 0.3},
     400,
     32},
};

static void near(const char *name, const char *what, double found, double truth, double allowed)
{
    ck_assert_msg(fabs(found - truth) <= allowed, "%s: %s is %g, not %g", name, what, found, truth);
}

/* Sds match within a fifth (a quarter for 32 ranks' own), share and mean
 * excess within a quarter. */
START_TEST(a_known_law_comes_back)
{
    const struct lk_straggler_law *l = &laws[_i].law;
    struct lk_straggler_fit f;
    double *v = NULL;

    draw(l, laws[_i].n, laws[_i].ranks, 3, &v);
    ck_assert_int_eq(lk_straggler_fit(v, laws[_i].n, laws[_i].ranks, &f), LK_OK);
    near(laws[_i].name, "rank_sd", f.rank_sd.value, l->rank_sd, 0.25 * l->rank_sd);
    near(laws[_i].name, "common_sd", f.common_sd.value, l->common_sd, 0.2 * l->common_sd + 0.004);
    near(laws[_i].name, "transient_sd", f.transient_sd.value, l->transient_sd,
         0.2 * l->transient_sd);
    ck_assert_double_le(f.transient_sd.lo, f.transient_sd.value);
    ck_assert_double_ge(f.transient_sd.hi, f.transient_sd.value);
    ck_assert_int_eq(f.tail_share.n > 0, l->tail_share > 0);
    if (l->tail_share > 0) {
        near(laws[_i].name, "tail_share", f.tail_share.value, l->tail_share, 0.25 * l->tail_share);
        near(laws[_i].name, "tail_scale", f.tail_scale.value, l->tail_scale, 0.25 * l->tail_scale);
        near(laws[_i].name, "tail_shape", f.tail_shape.value, l->tail_shape, 0.2);
        ck_assert_double_lt(f.tail_share.lo, f.tail_share.hi);
    }
    free(v);
}
END_TEST

/* A few repetitions do not determine a tail, and one rank no spread between ranks. */
START_TEST(what_cannot_be_told)
{
    struct lk_straggler_fit f;
    double *v = NULL;

    draw(&laws[2].law, 10, 4, 5, &v);
    ck_assert_int_eq(lk_straggler_fit(v, 10, 4, &f), LK_OK);
    ck_assert_uint_eq(f.tail_share.n, 0);
    ck_assert_uint_gt(f.rank_sd.n, 0);
    ck_assert_int_eq(lk_straggler_fit(v, 10, 1, &f), LK_OK);
    ck_assert_uint_eq(f.rank_sd.n, 0);
    ck_assert_uint_eq(f.common_sd.n, 0);
    free(v);
}
END_TEST

START_TEST(ranks_that_stand_out)
{
    double equal[] = {1, 1.01, 0.99, 1}, one[] = {1.3, 1, 1, 1}, noisy[] = {1, 1.1, 1.3, 1};
    struct lk_normal_ranks p = lk_straggler_normal_ranks(equal, 4, 0.01, 0);

    ck_assert_uint_eq(p.n, 4);
    p = lk_straggler_normal_ranks(one, 4, 0.01, 0);
    ck_assert_uint_eq(p.n, 3);
    ck_assert_double_eq(p.mean, 1);
    p = lk_straggler_normal_ranks(noisy, 4, 0.01, 0.1); /* means with an uncertainty of 10 % */
    ck_assert_uint_eq(p.n, 4);
}
END_TEST

SUITE(straggler, c)
{
    tcase_add_loop_test(c, a_known_law_comes_back, 0, LK_COUNT(laws));
    tcase_add_test(c, what_cannot_be_told);
    tcase_add_test(c, ranks_that_stand_out);
}
