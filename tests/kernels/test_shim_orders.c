/*
 * Run the CUDA kernels on the host: each case gives the same bits under two orders of threads, of
 * which test_shim_races.c plants what only these bits tell. (One order for float16, whose kernels
 * are bfloat16's but for the conversions.) The program is built if there is a C++
 * compiler with AddressSanitizer, and not in builds with a sanitizer.
 */
#include "tests/rigs/shell.h"
#include "tests/rigs/shim_case.h"
#include "tests/rigs/suite.h"

enum { ORDERS = 2 };

START_TEST(orders_give_the_same_bits)
{
    shim_case_run(SHIM_BOUNDS, _i, _i % CUDA_CASE_TYPES == CUDA_CASE_TYPES - 1 ? 1 : ORDERS);
}
END_TEST

/* On a GPU's host the cases of large shapes run side by side, in half a minute: none may
 * take a processor half of it, in all its types. No kernel runs, so the bounds of buffers need no
 * marks. */
START_TEST(no_case_is_long_work)
{
    struct shell_result r =
        shell_run("ASAN_OPTIONS=poison_heap=0 " SHIM_BOUNDS " --work 2>&1 | "
                  "awk '{n += $2 > 0; if ($2 > 15) {print; bad++}} END {exit bad > 0 || n < 15}'");

    ck_assert_msg(r.code == 0, "long, or none: %s", r.text);
}
END_TEST

SUITE(shim_orders, tc)
{
#ifdef LK_HAVE_SHIM
    tcase_add_test(tc, no_case_is_long_work);
    tcase_add_loop_test(tc, orders_give_the_same_bits, 0, SHIM_CHECKS);
#else
    (void)tc;
    (void)orders_give_the_same_bits;
    (void)no_case_is_long_work;
    shim_case_skip(tc);
#endif
}
