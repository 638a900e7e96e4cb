/* Every preset of clusters/ can be read, its numbers have sources, and its
 * forecasts are plausible. */
#include "base/array.h"
#include "base/file.h"
#include "facts/cluster.h"
#include "sim/collective/coll_cost.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/shell.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Presets listed in docs/clusters.md. */
static const char *const promised[] = {
    "dgx-1-v100.json",         "dgx-2.json",
    "dgx-a100.json",           "dgx-h100.json",
    "hgx-h100-roce.json",      "hgx-h100-efa.json",
    "hgx-h100-tcp.json",       "dgx-h200.json",
    "hgx-h200-roce.json",      "hgx-h200-efa.json",
    "hgx-h200-tcp.json",       "dgx-b200.json",
    "gb200-nvl72.json",        "gh200-slingshot.json",
    "pcie-a100.json",          "ethernet-10g.json",
    "ethernet-25g.json",       "ethernet-100g.json",
    "pcie-rtx4070.json",       "mi300x-roce.json",
    "ethernet-10g-4gpu.json",  "ethernet-10g-8gpu.json",
    "ethernet-25g-4gpu.json",  "ethernet-25g-8gpu.json",
    "ethernet-100g-4gpu.json", "ethernet-100g-8gpu.json",
};

static void check_sources(const struct lk_cluster *c)
{
    const struct lk_quantity *q[] = {
        &c->device.flops,        &c->device.memory_bytes, &c->device.memory_Bps,
        &c->intra.latency_s,     &c->intra.bandwidth_Bps, &c->inter.latency_s,
        &c->inter.bandwidth_Bps, &c->price_per_hour,      &c->power_W,
    };

    for (size_t i = 0; i < LK_COUNT(q); i++)
        if (lk_quantity_known(q[i]))
            ck_assert_uint_gt(strlen(q[i]->source), 10);
    ck_assert(lk_quantity_known(&c->inter.bandwidth_Bps));
    ck_assert(c->gpus_per_node == 1 || lk_quantity_known(&c->intra.bandwidth_Bps));
    ck_assert(c->preset);
}

static const enum lk_coll colls[] = {LK_ALL_REDUCE, LK_REDUCE_SCATTER, LK_ALL_GATHER, LK_BROADCAST};
static const uint64_t sizes[] = {1 << 10, 1 << 20, 1 << 24, 1 << 30, 1ULL << 36};

static struct lk_cost cost_of(const struct lk_cost_model *m, const struct lk_cluster *c,
                              enum lk_coll coll, int ranks, int nodes, uint64_t bytes)
{
    struct lk_cost cost;

    ck_assert_msg(lk_cost_eval(m, coll, LK_ALGO_AUTO, ranks, nodes, &bytes, 1, &cost) == LK_OK,
                  "%s: %s", c->name, lk_error_text());
    return cost;
}

/*
 * Return the minimum seconds that the links allow, computed independently. Between nodes each node
 * sends its share over all its NICs; inside one, a GPU sends over its own link, of which an
 * NVSwitch that sums (NVLS) takes the operand and returns a share of the sum.
 */
static double least_s(const struct lk_cluster *c, enum lk_coll coll, int ranks, int nodes,
                      double bytes, bool best)
{
    const struct lk_quantity *q = nodes > 1 ? &c->inter.bandwidth_Bps : &c->intra.bandwidth_Bps;
    double rate = best && q->hi > q->value ? q->hi : q->value, n = nodes > 1 ? nodes : ranks;
    double passes = coll == LK_ALL_REDUCE  ? 2 * (n - 1) / n
                    : coll == LK_BROADCAST ? 1
                                           : (n - 1) / n;

    if (nodes > 1 && c->topology.nics_per_node)
        rate *= c->topology.nics_per_node;
    if (nodes == 1 && coll == LK_ALL_REDUCE && c->topology.nvls > 0)
        passes = fmin(passes, 1 + 1 / n);
    return passes * bytes / rate;
}

/* Check 2 to 1024 ranks: finite, more time for many more bytes, never faster than the links. */
static void check_costs(const struct lk_cluster *c)
{
    struct lk_cost_model *estimate, *draws[4];

    ck_assert_msg(lk_cost_model_create(c, NULL, NULL, &estimate) == LK_OK, "%s", lk_error_text());
    for (uint64_t i = 0; i < LK_COUNT(draws); i++) {
        struct lk_rng g = lk_rng_init(i, 1);

        ck_assert_int_eq(lk_cost_model_create(c, &g, NULL, &draws[i]), LK_OK);
    }
    for (int ranks = 2; ranks <= 1024; ranks *= 2)
        for (size_t k = 0; k < LK_COUNT(colls); k++)
            for (size_t i = 0; i < LK_COUNT(sizes); i++) {
                int nodes = ranks <= c->gpus_per_node ? 1 : ranks / c->gpus_per_node;
                bool domain = c->topology.nvlink_domain > c->gpus_per_node;
                double bytes = (double)sizes[i], least = 0, best = 0, near = 1 - 1e-9;
                struct lk_cost cost = cost_of(estimate, c, colls[k], ranks, nodes, sizes[i]);

                if (!domain || nodes == 1) {
                    least = least_s(c, colls[k], ranks, nodes, bytes, false);
                    best = least_s(c, colls[k], ranks, nodes, bytes, true);
                }
                ck_assert(isfinite(cost.seconds) && cost.seconds > 0);
                ck_assert(cost.lo <= cost.seconds && cost.seconds <= cost.hi);
                ck_assert_double_ge(cost.seconds, least * near);
                ck_assert_double_ge(cost.lo, best * near);
                if (i >= 2) /* NCCL may choose slow algorithms, but not that slow */
                    ck_assert_double_gt(
                        cost.seconds,
                        cost_of(estimate, c, colls[k], ranks, nodes, sizes[i - 2]).seconds);
                for (size_t d = 0; d < LK_COUNT(draws); d++)
                    ck_assert_double_ge(
                        cost_of(draws[d], c, colls[k], ranks, nodes, sizes[i]).seconds,
                        best * near);
            }
    lk_cost_model_destroy(estimate);
    for (size_t i = 0; i < LK_COUNT(draws); i++)
        lk_cost_model_destroy(draws[i]);
}

/* A change to a network, and whether `small` messages, or large ones, must be
 * slower (+1) or faster (-1). */
struct move {
    double intra_latency, inter_latency, intra_rate, inter_rate; /* factors */
    double oversubscription;                                     /* 0: left as it is */
    int nics;                                                    /* factor */
    int sign;
    bool one_node, small, large;
};

static const struct move moves[] = {
    {1, 4, 1, 1, 0, 1, 1, false, true, false},   {1, .25, 1, 1, 0, 1, -1, false, true, false},
    {4, 1, 1, 1, 0, 1, 1, true, true, false},    {.25, 1, 1, 1, 0, 1, -1, true, true, false},
    {1, 1, .5, 1, 0, 1, 1, true, false, true},   {1, 1, 1, .5, 0, 1, 1, false, false, true},
    {1, 1, 1, 2, 0, 1, -1, false, false, false}, {1, 1, 1, 1, 0, 2, -1, false, false, false},
    {1, 1, 1, 1, 8, 1, 1, false, false, true},
};

static double seconds_of(const struct lk_cluster *c, int ranks, int nodes, uint64_t bytes)
{
    struct lk_cost_model *m;
    double s;

    ck_assert_int_eq(lk_cost_model_create(c, NULL, NULL, &m), LK_OK);
    s = cost_of(m, c, LK_ALL_REDUCE, ranks, nodes, bytes).seconds;
    lk_cost_model_destroy(m);
    return s;
}

/* Return true if large messages are bound by the network between nodes, not by a GPU's own link. */
static bool network_bound(const struct lk_cluster *c)
{
    double nics = c->topology.nics_per_node ? c->topology.nics_per_node : 1;

    return c->gpus_per_node == 1 ||
           nics * c->inter.bandwidth_Bps.value < c->intra.bandwidth_Bps.value;
}

/* On a better network NCCL may choose a slightly worse algorithm. */
static const double CHOSEN_WORSE = 0.05;

static void check_move(const struct lk_cluster *c, const struct move *v)
{
    struct lk_cluster to = *c;
    int ranks = v->one_node ? c->gpus_per_node : 8 * c->gpus_per_node, nodes = v->one_node ? 1 : 8;

    if (ranks < 2 || (!v->one_node && c->topology.nvlink_domain >= ranks))
        return;
    to.topology.nics_per_node =
        v->nics * (to.topology.nics_per_node ? to.topology.nics_per_node : 1);
    to.intra.latency_s.value *= v->intra_latency;
    to.inter.latency_s.value *= v->inter_latency;
    to.intra.bandwidth_Bps.value *= v->intra_rate;
    to.inter.bandwidth_Bps.value *= v->inter_rate;
    if (v->oversubscription > 0) {
        to.topology.nodes_per_switch = 2;
        to.topology.oversubscription.value = v->oversubscription;
        to.topology.oversubscription.source = to.name;
    }
    for (size_t i = 0; i < LK_COUNT(sizes); i++) {
        double before = seconds_of(c, ranks, nodes, sizes[i]);
        double after = seconds_of(&to, ranks, nodes, sizes[i]);
        bool must = (v->small && i == 0) ||
                    (v->large && i + 1 == LK_COUNT(sizes) && (v->one_node || network_bound(&to)));

        ck_assert_msg(v->sign * (after - before) >= -CHOSEN_WORSE * before,
                      "%s, change %td, %zu bytes: %g from %g", c->name, v - moves, (size_t)sizes[i],
                      after, before);
        ck_assert_msg(!must || v->sign * (after - before) > 0.01 * before,
                      "%s, change %td, %zu bytes: nothing moved", c->name, v - moves,
                      (size_t)sizes[i]);
    }
}

START_TEST(every_preset)
{
    char **names = NULL;
    size_t n = 0;

    ck_assert_int_eq(lk_dir_list("clusters", ".json", &names, &n), LK_OK);
    ck_assert_uint_ge(n, LK_COUNT(promised));
    for (size_t i = 0; i < n; i++) {
        struct lk_cluster c;
        char *path;

        ck_assert_int_eq(lk_path_join(&path, "clusters", names[i]), LK_OK);
        ck_assert_msg(lk_cluster_read(path, &c) == LK_OK, "%s", lk_error_text());
        /* The name inside the file is the one it is found by. */
        ck_assert_uint_eq(strlen(c.name) + strlen(".json"), strlen(names[i]));
        ck_assert(!strncmp(c.name, names[i], strlen(c.name)));
        check_sources(&c);
        check_costs(&c);
        for (size_t k = 0; k < LK_COUNT(moves); k++)
            check_move(&c, &moves[k]);
        lk_cluster_fini(&c);
        free(path);
    }
    for (size_t i = 0; i < LK_COUNT(promised); i++) {
        size_t k = 0;

        while (k < n && strcmp(names[k], promised[i]) != 0)
            k++;
        ck_assert_msg(k < n, "%s is missing", promised[i]);
    }
    lk_names_free(names, n);
}
END_TEST

/* ---- By name ---- */

/* Check the exit code, and a part of the output. */
static void check_said(struct shell_result r, int code, const char *says)
{
    ck_assert_msg(r.code == code && strstr(r.text, says), "gave %d, or lacks '%s': %s", r.code,
                  says, r.text);
}

/* Forecast with every preset by its name, from a folder that has none. */
static void check_names(const char *program)
{
    char *job = realpath("tests/fuzz/corpus/job/full.json", NULL), **names = NULL;
    size_t n = 0;

    ck_assert_ptr_nonnull(job);
    ck_assert_int_eq(lk_dir_list("clusters", ".json", &names, &n), LK_OK);
    for (size_t i = 0; i < n; i++) {
        names[i][strlen(names[i]) - strlen(".json")] = '\0';
        check_said(shell_run("cd / && '%s' predict '%s' %s --gpus=16 --draws=20 2>&1", program, job,
                             names[i]),
                   0, names[i]);
    }
    check_said(shell_run("cd / && '%s' predict '%s' dgx-h20 --gpus=16 2>&1", program, job), 1,
               "did you mean 'dgx-h200'?; presets: dgx-1-v100, dgx-2, dgx-a100, dgx-a100-roce,");
    lk_names_free(names, n);
    free(job);
}

START_TEST(found_beside_the_build)
{
    char *program = realpath(LK_BUILD_DIR "/lockstep", NULL);

    ck_assert_ptr_nonnull(program);
    check_names(program);
    free(program);
}
END_TEST

/* Install with `make install` into a folder of its own. */
START_TEST(found_where_installed)
{
    char *prefix = scratch_create(), *program = scratch_path(prefix, "bin/lockstep");

    check_said(shell_run("mkdir -p '%s/bin' '%s/share/lockstep/clusters' && cp " LK_BUILD_DIR
                         "/lockstep '%s' && "
                         "cp clusters/*.json '%s/share/lockstep/clusters'",
                         prefix, prefix, program, prefix),
               0, "");
    check_names(program);
    check_said(shell_run("rm -r '%s/share'", prefix), 0, "");
    check_said(shell_run("cd / && '%s' predict '%s' dgx-h100 --gpus=16 2>&1", program,
                         realpath("tests/fuzz/corpus/job/full.json", (char[4096]){0})),
               1, "no cluster file and no preset 'dgx-h100'; no presets were found");
    free(program);
    scratch_remove(prefix);
}
END_TEST

SUITE(presets, tc)
{
    tcase_add_test(tc, every_preset);
    tcase_add_test(tc, found_beside_the_build);
    tcase_add_test(tc, found_where_installed);
}
