/* Every preset of clusters/: it is read, its numbers have sources, and forecasts with it make
 * sense. */
#include "base/array.h"
#include "base/cluster.h"
#include "base/file.h"
#include "sim/coll_cost.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

Suite *lk_suite_presets(void);

/* What the manual promises. */
static const char *const promised[] = {
    "dgx-1-v100.json",    "dgx-2.json",           "dgx-a100.json",     "dgx-h100.json",
    "hgx-h100-roce.json", "hgx-h100-efa.json",    "hgx-h100-tcp.json", "dgx-h200.json",
    "hgx-h200-roce.json", "hgx-h200-efa.json",    "hgx-h200-tcp.json", "dgx-b200.json",
    "gb200-nvl72.json",   "gh200-slingshot.json", "pcie-a100.json",    "ethernet-10g.json",
    "ethernet-25g.json",  "ethernet-100g.json",
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

/* Two nodes: finite, more for more bytes, and no faster than all the links of a node allow. */
static void check_costs(const struct lk_cluster *c)
{
    static const uint64_t bytes[] = {1 << 10, 1 << 20, 1 << 30};
    int ranks = 2 * c->gpus_per_node;
    double links = c->topology.nics_per_node ? c->topology.nics_per_node : 1;
    struct lk_cost cost[LK_COUNT(bytes)];
    struct lk_cost_model *m;
    double busbw, rate;

    ck_assert_msg(lk_cost_model_create(c, NULL, &m) == LK_OK, "%s", lk_error_text());
    ck_assert_msg(lk_cost_eval(m, LK_ALL_REDUCE, LK_ALGO_AUTO, ranks, 2, bytes, LK_COUNT(bytes),
                               cost) == LK_OK,
                  "%s: %s", c->name, lk_error_text());
    for (size_t i = 0; i < LK_COUNT(bytes); i++) {
        ck_assert(isfinite(cost[i].seconds) && cost[i].seconds > 0);
        ck_assert(cost[i].lo <= cost[i].seconds && cost[i].seconds <= cost[i].hi);
        ck_assert(!i || cost[i].seconds > cost[i - 1].seconds);
    }
    /* On two nodes busbw is 2(K-1)/K times the rate at which the nodes exchange; the factors of the
     * cost model, fitted to other machines, may put it above that by a few percent. */
    busbw = (double)bytes[2] / cost[2].seconds * lk_coll_busbw_factor(LK_ALL_REDUCE, ranks);
    rate = links * c->inter.bandwidth_Bps.value;
    if (c->topology.nvlink_domain > c->gpus_per_node)
        rate = c->intra.bandwidth_Bps.value;
    ck_assert_msg(busbw <= 1.15 * 2 * rate, "%s: %g over %g", c->name, busbw, rate);
    lk_cost_model_destroy(m);
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
        /* The name inside is the name by which it is found. */
        ck_assert_uint_eq(strlen(c.name) + strlen(".json"), strlen(names[i]));
        ck_assert(!strncmp(c.name, names[i], strlen(c.name)));
        check_sources(&c);
        check_costs(&c);
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

Suite *lk_suite_presets(void)
{
    Suite *s = suite_create("presets");
    TCase *tc = tcase_create("presets");

    tcase_add_test(tc, every_preset);
    suite_add_tcase(s, tc);
    return s;
}
