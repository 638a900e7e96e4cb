/*
 * Run the CUDA kernels of layer normalisation on the host: the same bits under 4 orders of
 * threads. They take as long as all others together, so they are a suite of their own, beside
 * which the others run.
 */
#include "tests/rigs/shim_case.h"
#include "tests/rigs/suite.h"

enum { ORDERS = 4 };

START_TEST(orders_give_the_same_bits)
{
    shim_case_run(SHIM_BOUNDS, _i, ORDERS);
}
END_TEST

SUITE(shim_layernorm, tc)
{
#ifdef LK_HAVE_SHIM
    tcase_add_loop_test(tc, orders_give_the_same_bits, SHIM_layernorm_forward, SHIM_matmul_forward);
#else
    (void)tc;
    (void)orders_give_the_same_bits;
    shim_case_skip(tc);
#endif
}
