/* The vectorisable exponential against libm's in float64, in units of the last place. */
#include "kernels/vecmath.h"

#include "base/rng.h"
#include "tests/rigs/suite.h"

#include <float.h>
#include <math.h>

/* Distance in ulp of the float nearest to `exact`. pre: exact is a normal float. */
static double ulp_error(float got, double exact)
{
    int exponent;

    frexp(exact, &exponent);
    return fabs((double)got - exact) / ldexp(1, exponent - FLT_MANT_DIG);
}

START_TEST(exp_is_within_two_ulp)
{
    static const double ranges[][2] = {{-87.33, 88.37}, {-1, 1}, {-1e-3, 1e-3}, {-20, 0}};
    struct lk_rng g = lk_rng_init(3, (uint64_t)_i);
    double worst = 0;

    for (int i = 0; i < 400000; i++) {
        double u = lk_rng_uniform(&g);
        float x = (float)(ranges[_i][0] + u * (ranges[_i][1] - ranges[_i][0]));

        worst = fmax(worst, ulp_error(lk_vecmath_exp(x), exp((double)x)));
    }
    ck_assert_double_lt(worst, 2);
}
END_TEST

/* Where x / ln 2 is half-way between integers the reduction changes sides. */
START_TEST(exp_is_within_two_ulp_at_the_seams)
{
    double worst = 0;

    for (int n = -125; n <= 126; n++) {
        float x = (float)((n + 0.5) * 0.69314718055994530942);

        for (int step = 0; step < 100; step++) {
            worst = fmax(worst, ulp_error(lk_vecmath_exp(x), exp((double)x)));
            x = nextafterf(x, step < 50 ? INFINITY : -INFINITY);
        }
    }
    ck_assert_double_lt(worst, 2);
}
END_TEST

START_TEST(exp_at_the_ends)
{
    ck_assert_float_eq(lk_vecmath_exp(0.0F), 1.0F);
    ck_assert_float_eq(lk_vecmath_exp(-0.0F), 1.0F);
    ck_assert_float_eq(lk_vecmath_exp(-87.34F), 0.0F);
    ck_assert_float_eq(lk_vecmath_exp(-1e30F), 0.0F);
    ck_assert_float_eq(lk_vecmath_exp(-INFINITY), 0.0F);
    ck_assert_float_eq(lk_vecmath_exp(88.38F), INFINITY);
    ck_assert_float_eq(lk_vecmath_exp(INFINITY), INFINITY);
    ck_assert(isnan(lk_vecmath_exp(NAN)));
    ck_assert_float_ge(lk_vecmath_exp(-87.3365F), FLT_MIN);
}
END_TEST

START_TEST(sigmoid_is_relatively_exact)
{
    for (int i = -800; i <= 800; i++) {
        float x = (float)i / 10;
        double exact = 1 / (1 + exp(-(double)x));

        ck_assert_double_le(fabs((double)lk_vecmath_sigmoid(x) - exact),
                            4 * (double)FLT_EPSILON * exact);
    }
    ck_assert(isnan(lk_vecmath_sigmoid(NAN)));
}
END_TEST

SUITE(kernels_math, tc)
{
    tcase_add_loop_test(tc, exp_is_within_two_ulp, 0, 4);
    tcase_add_test(tc, exp_is_within_two_ulp_at_the_seams);
    tcase_add_test(tc, exp_at_the_ends);
    tcase_add_test(tc, sigmoid_is_relatively_exact);
}
