/*
 * A node's bandwidth is that of all its network cards together, in one direction, however it is
 * said: in a file, of a node, of a card, or as a factor on what there was. LOCKSTEP_CASES=100000
 * tries as many random clusters.
 */
#include "sim/collective/coll_cost.h"
#include "sim/collective/links.h"
#include "sim/step/altered_cluster.h"
#include "tests/rigs/cases.h"
#include "tests/rigs/sim_truth.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <stdlib.h>

enum { CASES = 10000, SIZES = 4, RANK_COUNTS = 3 };

static const double ROUNDING = 1e-9;

struct machine {
    int per_node, cards;
    double card_Bps;
    struct lk_cluster cluster;
};

static double between(struct lk_rng *g, double lo, double hi)
{
    return lo * pow(hi / lo, lk_rng_uniform(g));
}

static struct lk_quantity known(double value)
{
    static char source[] = "test";

    return (struct lk_quantity){value, NAN, NAN, 0, source};
}

/* Set the machine. pre: its cluster is zero; nothing in it is freed. */
static void make_machine(uint64_t number, bool nccl, struct machine *m)
{
    static char name[] = "random";
    struct lk_rng g = lk_rng_init(17, number);
    struct lk_cluster *c = &m->cluster;

    *m = (struct machine){.per_node = 1 << lk_rng_below(&g, 4),
                          .cards = 1 << lk_rng_below(&g, 4),
                          .card_Bps = between(&g, 1e8, 5e10)};
    lk_cluster_init(c);
    c->name = name;
    c->gpu = name;
    c->gpus_per_node = m->per_node;
    c->device.compute_capability = nccl ? 80 : 0;
    c->topology.gpu_link = nccl ? LK_GPU_LINK_NVLINK : LK_GPU_LINK_UNKNOWN;
    c->topology.nics_per_node = m->cards;
    c->intra.latency_s = known(between(&g, 1e-6, 1e-5));
    c->intra.bandwidth_Bps = known(between(&g, 1e9, 4e11));
    c->inter.latency_s = known(between(&g, 1e-6, 1e-4));
    c->inter.bandwidth_Bps = known(m->card_Bps);
}

/* Cost of all-reduces of rising sizes on 2, 4 and 8 whole nodes. */
static void costs(const struct lk_cluster *c, double out[RANK_COUNTS][SIZES])
{
    static const uint64_t bytes[SIZES] = {4096, 1 << 20, 25 << 20, 512 << 20};
    struct lk_cost_model *m = NULL;

    ck_assert_int_eq(lk_cost_model_create(c, NULL, NULL, &m), LK_OK);
    for (int i = 0; i < RANK_COUNTS; i++) {
        struct lk_cost of[SIZES];
        int nodes = 2 << i;

        ck_assert_int_eq(lk_cost_eval(m, LK_ALL_REDUCE, LK_ALGO_AUTO, nodes * c->gpus_per_node,
                                      nodes, bytes, SIZES, of),
                         LK_OK);
        for (int k = 0; k < SIZES; k++)
            out[i][k] = of[k].seconds;
    }
    lk_cost_model_destroy(m);
}

static void same_costs(const struct lk_cluster *a, const struct lk_cluster *b, uint64_t number,
                       const char *how)
{
    double x[RANK_COUNTS][SIZES], y[RANK_COUNTS][SIZES];

    costs(a, x);
    costs(b, y);
    for (int i = 0; i < RANK_COUNTS; i++)
        for (int k = 0; k < SIZES; k++)
            ck_assert_msg(fabs(y[i][k] / x[i][k] - 1) <= ROUNDING,
                          "case %llu, %s, %d nodes, size %d: %.12g s, in the file %.12g s",
                          (unsigned long long)number, how, 2 << i, k, y[i][k], x[i][k]);
}

/* Say the same bandwidth of a node in the file, of the node, of a card, by factors. */
START_TEST(one_bandwidth_however_it_is_said)
{
    struct lk_job job;

    sim_truth_job(&sim_truth_default, 1, &job);
    for (uint64_t i = 0; i < cases_or(CASES); i++) {
        struct machine m;
        struct lk_rng g = lk_rng_init(19, i);
        double factor = between(&g, 0.1, 10);

        make_machine(i, i % 2, &m);
        const double card = m.card_Bps * factor, node = card * m.cards;
        const struct {
            const char *how;
            struct lk_change change;
        } ways[] = {{"--node-bandwidth", {.node_Bps = {node, false}}},
                    {"--node-bandwidth=x", {.node_Bps = {factor, true}}},
                    {"--nic-bandwidth", {.bandwidth_Bps[LK_LINK_INTER] = {card, false}}},
                    {"--nic-bandwidth=x", {.bandwidth_Bps[LK_LINK_INTER] = {factor, true}}}};
        struct lk_cluster file = m.cluster;
        size_t k = lk_rng_below(&g, sizeof ways / sizeof *ways);
        struct lk_altered changed;

        file.inter.bandwidth_Bps.value = card;
        ck_assert_double_eq_tol(lk_link_node_bandwidth(&file).value / node, 1, ROUNDING);
        ck_assert_int_eq(lk_altered_init(&changed, &job, &m.cluster, &ways[k].change, 8), LK_OK);
        same_costs(&file, &changed.cluster, i, ways[k].how);
        lk_altered_fini(&changed);
    }
    lk_job_fini(&job);
}
END_TEST

/* One card of a rate is several of its parts, wherever the model knows rates alone: NCCL has
 * channels for cards, and their protocols have limits. */
START_TEST(cards_add_up)
{
    for (uint64_t i = 0; i < cases_or(CASES); i++) {
        struct machine m;
        struct lk_cluster one;

        make_machine(i, false, &m);
        one = m.cluster;
        one.topology.nics_per_node = (int)(i % 2); /* without the key it is one, too */
        one.inter.bandwidth_Bps.value = m.card_Bps * m.cards;
        same_costs(&m.cluster, &one, i, "one card");
    }
}
END_TEST

/* The least time that the links allow is the same where NCCL's channels matter, too. */
START_TEST(cards_have_one_bound)
{
    for (uint64_t i = 0; i < cases_or(CASES); i++) {
        struct machine m;
        struct lk_cluster one;
        struct lk_link_rates a, b;

        make_machine(i, true, &m);
        one = m.cluster;
        one.topology.nics_per_node = 1;
        one.inter.bandwidth_Bps.value = m.card_Bps * m.cards;
        a = lk_link_rates_of(&m.cluster, true);
        b = lk_link_rates_of(&one, true);
        ck_assert_double_eq_tol(lk_link_bound_s(&a, LK_ALL_REDUCE, 1e9, 8 * m.per_node, 8) /
                                    lk_link_bound_s(&b, LK_ALL_REDUCE, 1e9, 8 * m.per_node, 8),
                                1, ROUNDING);
    }
}
END_TEST

/* Nobody draws which share of a stated rate a preset's machine has. */
START_TEST(a_stated_rate_is_not_assumed)
{
    struct lk_job job;
    const struct lk_change stated = {.node_Bps = {1e11, false}}, factor = {.node_Bps = {2, true}};
    struct machine m;
    struct lk_altered changed;

    sim_truth_job(&sim_truth_default, 1, &job);
    make_machine(1, true, &m);
    m.cluster.preset = true;
    ck_assert(lk_link_network_assumed(&m.cluster));
    ck_assert_int_eq(lk_altered_init(&changed, &job, &m.cluster, &stated, 8), LK_OK);
    ck_assert(!lk_link_network_assumed(&changed.cluster));
    lk_altered_fini(&changed);
    ck_assert_int_eq(lk_altered_init(&changed, &job, &m.cluster, &factor, 8), LK_OK);
    ck_assert(lk_link_network_assumed(&changed.cluster));
    lk_altered_fini(&changed);
    lk_job_fini(&job);
}
END_TEST

SUITE(node_bandwidth, tests)
{
    tcase_add_test(tests, one_bandwidth_however_it_is_said);
    tcase_add_test(tests, cards_add_up);
    tcase_add_test(tests, cards_have_one_bound);
    tcase_add_test(tests, a_stated_rate_is_not_assumed);
}
