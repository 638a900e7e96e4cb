/* Rescaling of times between rank counts: a network's effect on one regime is kept. */
#include "sim/collective/nccl_fit.h"

#include "tests/rigs/suite.h"

#include <math.h>

enum { SIZES = 25 };

/* Make a machine with four GPUs a node on a network where NCCL would use LL up to large
 * sizes, as Slingshot with GH200. */
static struct lk_nccl_machine machine(void)
{
    static char source[] = "test";
    struct lk_cluster c = {.gpus_per_node = 4, .device = {.compute_capability = 90}};
    struct lk_nccl_machine m;

    c.topology.gpu_link = LK_GPU_LINK_NVLINK;
    c.topology.cpu = LK_CPU_ARM;
    c.topology.network = LK_NETWORK_SLINGSHOT;
    c.topology.nics_per_node = 4;
    c.intra.bandwidth_Bps = (struct lk_quantity){370.8e9, NAN, NAN, 0, source};
    c.inter.bandwidth_Bps = (struct lk_quantity){25e9, NAN, NAN, 0, source};
    c.intra.latency_s = c.inter.latency_s = lk_quantity_none();
    ck_assert(lk_nccl_machine_of(&c, &m));
    return m;
}

/*
 * A network on which LL takes four times the modelled time, and a ring's steps of 100 to 300 KB
 * five times, as in public tables of GH200 on Slingshot (2 MB takes less than 1 MB; 16 MB on 4, and
 * 64 MB on 16 nodes, several times their neighbours).
 */
static double truth_s(const struct lk_nccl_comm *m, double bytes, bool *out_clear)
{
    struct lk_nccl_factors f = lk_nccl_prior(LK_NCCL_OVER + LK_NETWORK_SLINGSHOT);
    struct lk_nccl_choice all[LK_NCCL_OFFERS_MAX];
    size_t n = lk_nccl_offers(m, LK_ALL_REDUCE, LK_ALGO_AUTO, bytes, all);
    double step = bytes / m->ranks / m->ring.channels, quirk = 1;

    *out_clear = true;
    for (size_t i = 1; i < n; i++)
        *out_clear &= lk_nccl_choice_weight(&all[0], &all[i]) < 0.1;
    if (all[0].proto == LK_NCCL_LL)
        quirk = 4;
    else if (all[0].algo == LK_ALGO_RING && step > 100e3 && step < 300e3)
        quirk = 5;
    return quirk * lk_nccl_choice_us(m, &f, LK_ALL_REDUCE, &all[0], bytes) * 1e-6;
}

static void measure(struct lk_nccl_measured *from, double *bytes, double *seconds)
{
    bool clear;

    for (size_t i = 0; i < SIZES; i++) {
        bytes[i] = exp2(8 + (double)i);
        seconds[i] = truth_s(&from->comm, bytes[i], &clear);
    }
    from->bytes = bytes;
    from->seconds = from->typical = seconds;
    from->n = SIZES;
}

START_TEST(regimes_come_along)
{
    static const int nodes[][2] = {{4, 8}, {8, 4}, {8, 16}, {16, 8}};
    struct lk_nccl_machine c = machine();
    struct lk_nccl_factors f = lk_nccl_prior(LK_NCCL_OVER + LK_NETWORK_SLINGSHOT);
    struct lk_nccl_measured from;
    struct lk_nccl_comm here;
    double bytes[SIZES], seconds[SIZES], got[SIZES], sd[SIZES] = {0};
    size_t clear_sizes = 0, near = 0;

    ck_assert(lk_nccl_comm_of(&c, 4 * nodes[_i][0], nodes[_i][0], &from.comm));
    ck_assert(lk_nccl_comm_of(&c, 4 * nodes[_i][1], nodes[_i][1], &here));
    measure(&from, bytes, seconds);
    ck_assert_int_eq(lk_nccl_rescale(&here, &from, &f, LK_ALL_REDUCE, LK_ALGO_AUTO, got, sd),
                     LK_OK);
    for (size_t i = 0; i < SIZES; i++) {
        bool clear;
        double truth = truth_s(&here, bytes[i], &clear), off = log(got[i] / truth);

        /* Where NCCL's choice is clear the error is within 25 %, or the sd says so. */
        if (clear)
            ck_assert_msg(fabs(off) < fmax(0.25, 2 * sd[i]), "%g B: %g of %g, sd %g", bytes[i],
                          got[i], truth, sd[i]);
        clear_sizes += clear;
        near += clear && fabs(off) < 0.25;
    }
    ck_assert_uint_ge(clear_sizes, SIZES / 3);
    ck_assert_uint_ge(near, clear_sizes * 3 / 4);
}
END_TEST

START_TEST(to_itself_is_what_was_measured)
{
    struct lk_nccl_machine c = machine();
    struct lk_nccl_factors f = lk_nccl_prior(LK_NCCL_OVER + LK_NETWORK_SLINGSHOT);
    struct lk_nccl_measured from;
    double bytes[SIZES], seconds[SIZES], got[SIZES], sd[SIZES] = {0};
    bool clear;

    ck_assert(lk_nccl_comm_of(&c, 32, 8, &from.comm));
    measure(&from, bytes, seconds);
    ck_assert_int_eq(lk_nccl_rescale(&from.comm, &from, &f, LK_ALL_REDUCE, LK_ALGO_AUTO, got, sd),
                     LK_OK);
    for (size_t i = 0; i < SIZES; i++) {
        truth_s(&from.comm, bytes[i], &clear);
        if (clear)
            ck_assert_double_eq_tol(got[i] / seconds[i], 1, 0.25);
    }
}
END_TEST

SUITE(nccl_rescale, c)
{
    tcase_add_loop_test(c, regimes_come_along, 0, 4);
    tcase_add_test(c, to_itself_is_what_was_measured);
}
