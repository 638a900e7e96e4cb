/* cluster.json: hand-written files are read, written files are read back, bad files are refused. */
#include "base/array.h"
#include "facts/cluster.h"
#include "tests/rigs/bad_file.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define Q(v, unit) "{\"value\": " v ", \"unit\": \"" unit "\", \"source\": \"datasheet\"}"

/* clang-format would indent the text after a macro in a literal ever deeper. */
/* clang-format off */
static const char good[] =
    "{\n"
    "  \"schema\": \"lockstep-cluster\",\n"
    "  \"version\": 1,\n"
    "  \"name\": \"box\",\n"
    "  \"preset\": true, /* numbers from datasheets */\n"
    "  \"nodes\": 0,\n"
    "  \"gpus_per_node\": 8,\n"
    "  \"gpu\": \"H100\",\n"
    "  \"device\": {\"compute_capability\": 90, \"memory\": " Q("80", "GB") "},\n"
    "  \"topology\": {\"gpu_link\": \"nvswitch\", \"network\": \"roce\", \"nics_per_node\": 8,\n"
    "     \"oversubscription\": " Q("2", "1") ", \"nodes_per_switch\": 16, \"sharp\": false},\n"
    "  \"machine\": {\"processor\": \"96 x A\", \"rdma\": \"mlx5_0/1 Ethernet\"},\n"
    "  \"intra\": {\"latency\": " Q("2", "us") ", \"bandwidth\": " Q("450", "GB/s") "},\n"
    "  \"inter\": {\"latency\": " Q("5", "us") ", \"bandwidth\": " Q("400", "Gbit/s") "},\n"
    "  \"collectives\": [\n"
    "    {\"collective\": \"all_reduce\", \"algorithm\": \"ring\", \"timing\": \"alone\",\n"
    "     \"ranks\": 8, \"nodes\": 1, \"bytes\": 1048576,\n"
    "     \"time\": {\"value\": 40, \"unit\": \"us\", \"lo\": 38, \"hi\": 43, \"n\": 20,\n"
    "              \"source\": \"nccl-tests\"}},\n"
    "    {\"collective\": \"all_reduce\", \"algorithm\": \"ring\", \"timing\": \"alone\",\n"
    "     \"ranks\": 2, \"nodes\": 1, \"bytes\": 4096, \"time\": " Q("9", "us") "},\n"
    "    {\"collective\": \"all_reduce\", \"algorithm\": \"ring\", \"timing\": \"alone\",\n"
    "     \"ranks\": 2, \"nodes\": 1, \"bytes\": 1024, \"time\": " Q("8", "us") "}\n"
    "  ],\n"
    "  \"fits\": [\n"
    "    {\"collective\": \"all_reduce\", \"algorithm\": \"tree\", \"link\": \"inter\",\n"
    "     \"launch\": " Q("5", "us") ", \"alpha\": " Q("1", "us") ",\n"
    "     \"bandwidth\": " Q("40", "GB/s") ", \"error\": " Q("4", "%") "},\n"
    "    {\"collective\": \"all_reduce\", \"algorithm\": \"ring\", \"link\": \"inter\",\n"
    "     \"launch\": " Q("5", "us") ", \"alpha\": " Q("1", "us") ",\n"
    "     \"bandwidth\": " Q("30", "GB/s") ", \"error\": " Q("4", "%") "}\n"
    "  ],\n"
    "  \"colocation\": [{\"ranks\": 2, \"kappa\": " Q("0.02", "1") "},\n"
    "    {\"ranks\": 1, \"kappa\": " Q("0", "1") "}],\n"
    "  \"overlap\": {\"gamma_wire\": " Q("0.1", "1") ", \"proxy\": true},\n"
    "  \"stragglers\": {\"rank_sd\": " Q("1", "%") ", \"known\": [\n"
    "     {\"rank\": 3, \"compute\": " Q("1.25", "1") "},\n"
    "     {\"node\": 1, \"link\": " Q("3", "1") ", \"since\": true}]},\n"
    "  \"price_per_hour\": " Q("2.5", "1/h") ",\n"
    "  \"gpu_mtbf\": " Q("50000", "h") ",\n"
    "  \"restart\": " Q("10", "min") ",\n"
    "  \"checkpoint_bandwidth\": " Q("40", "GB/s") "\n"
    "}\n";
/* clang-format on */

static enum lk_status read_and_drop(const char *path)
{
    struct lk_cluster c;
    enum lk_status st = lk_cluster_read(path, &c);

    if (st == LK_OK)
        lk_cluster_fini(&c);
    return st;
}

static void check_cluster(const struct lk_cluster *c)
{
    ck_assert_str_eq(c->name, "box");
    ck_assert(c->preset);
    ck_assert_double_eq_tol(c->inter.bandwidth_Bps.value, 50e9, 1); /* 400 Gbit/s, rounded */
    ck_assert_uint_eq(c->n_points, 3);                              /* sorted */
    ck_assert_uint_eq(c->points[0].bytes, 1024);
    ck_assert_uint_eq(c->points[1].bytes, 4096);
    ck_assert_int_eq(c->points[2].timing, LK_TIMING_ALONE);
    ck_assert_double_eq_tol(c->points[2].time_s.hi, 43e-6, 1e-12);
    ck_assert_uint_eq(c->points[2].time_s.n, 20);
    ck_assert_int_eq(c->fits[0].link, LK_LINK_INTER);
    ck_assert_int_eq(c->fits[0].algo, LK_ALGO_TREE);
    ck_assert_int_eq(c->kappa[0].ranks, 1);
    ck_assert_int_eq(c->kappa[1].ranks, 2);
    ck_assert(isnan(c->node_sd.value));
    ck_assert(lk_quantity_known(&c->gamma_wire));
    ck_assert(!lk_quantity_known(&c->gamma_wait));
    ck_assert(c->overlap_proxy);
    ck_assert_int_eq(c->device.compute_capability, 90);
    ck_assert(c->device.memory_bytes.value == 80e9);
    ck_assert(!lk_quantity_known(&c->device.flops));
    ck_assert_int_eq(c->topology.gpu_link, LK_GPU_LINK_NVSWITCH);
    ck_assert_int_eq(c->topology.network, LK_NETWORK_ROCE);
    ck_assert_int_eq(c->topology.cpu, LK_CPU_UNKNOWN);
    ck_assert_int_eq(c->topology.nics_per_node, 8);
    ck_assert_int_eq(c->topology.nodes_per_switch, 16);
    ck_assert(c->topology.oversubscription.value == 2);
    ck_assert_int_eq(c->topology.nvls, 0);
    ck_assert_int_eq(c->topology.sharp, -1);
    ck_assert_uint_eq(c->n_machine, 2);
    ck_assert_str_eq(c->machine[1].key, "rdma");
    ck_assert_str_eq(c->machine[1].value, "mlx5_0/1 Ethernet");
    ck_assert_uint_eq(c->n_slow, 2);
    ck_assert_int_eq(c->slow[0].rank, 3);
    ck_assert_int_eq(c->slow[0].node, -1);
    ck_assert(c->slow[0].compute.value == 1.25 && !lk_quantity_known(&c->slow[0].link));
    ck_assert_int_eq(c->slow[1].rank, -1);
    ck_assert_int_eq(c->slow[1].node, 1);
    ck_assert(c->slow[1].link.value == 3 && c->slow[1].since && !c->slow[0].since);
    ck_assert(c->price_per_hour.value == 2.5);
    ck_assert(c->gpu_mtbf_s.value == 50000.0 * 3600 && c->restart_s.value == 600);
    ck_assert(c->checkpoint_Bps.value == 40e9);
    ck_assert(!lk_quantity_known(&c->power_W));
}

START_TEST(read_write_read)
{
    struct lk_cluster a, b;
    char path[64];

    bad_file_write(good, strlen(good), path);
    ck_assert_msg(lk_cluster_read(path, &a) == LK_OK, "%s", lk_error_text());
    check_cluster(&a);
    ck_assert_int_eq(lk_cluster_write(path, &a), LK_OK);
    ck_assert_msg(lk_cluster_read(path, &b) == LK_OK, "%s", lk_error_text());
    check_cluster(&b);
    lk_cluster_fini(&a);
    lk_cluster_fini(&b);
    ck_assert_int_eq(unlink(path), 0);
}
END_TEST

static const struct bad_file bad[] = {
    {"\"version\": 1", "\"version\": 2", "newer"},
    {"lockstep-cluster", "lockstep-job", "lockstep-job"},
    {"\"gpus_per_node\": 8", "\"gpus_per_node\": 0", "gpus_per_node"},
    {"\"gpus_per_node\": 8", "\"gpus_a_node\": 8", "gpus_per_node"},
    {"\"preset\": true", "\"preset\": \"yes\"", "preset"},
    {"\"value\": 450", "\"value\": 0", "bandwidth"},
    {"\"unit\": \"GB/s\"", "\"unit\": \"GB\"", "unit"},
    {"\"all_reduce\"", "\"allreduce\"", "allreduce"},
    {"\"ring\"", "\"rnig\"", "rnig"},
    {"\"alone\"", "\"together\"", "together"},
    {"\"ranks\": 8", "\"ranks\": 1000000000", "ranks"},
    {"\"nodes\": 1,", "\"nodes\": 9,", "nodes"},
    {"\"bytes\": 1048576", "\"bytes\": -1", "bytes"},
    {"\"value\": 40,", "\"value\": 0,", "time"},
    {"\"lo\": 38", "\"lo\": 48", "time"},
    {"\"lo\": 38, ", "", "time"},
    {"\"link\": \"inter\"", "\"link\": \"outer\"", "outer"},
    {"\"colocation\": [", "\"colocation\": {\"a\": [", ""},
    {"\"algorithm\": \"tree\"", "\"algorithm\": \"ring\"",
     "fits[1]: all_reduce by ring over inter"},
    {"{\"ranks\": 1,", "{\"ranks\": 2,", "colocation: 2 ranks are there twice"},
    {"\"nodes\": 0", "\"nodes\": 16777216", "nodes: 16777216 nodes of 8 GPUs are too many"},
    {"\"proxy\": true", "\"proxi\": true", "prox"},
    {"\"rank_sd\"", "\"gpu_sd\"", "gpu_sd"},
    {"\"rank\": 3", "\"rank\": -3", "stragglers.known[0].rank"},
    {"\"rank\": 3", "\"gpu\": 3", "known[0].gpu: unknown key"},
    {"\"rank\": 3,", "\"rank\": 3, \"node\": 1,", "known[0]: expected a rank or a node"},
    {"\"compute\": {\"value\": 1.25", "\"compute\": {\"value\": 0",
     "known[0].compute: must be above 0"},
    {"{\"rank\": 3, \"compute\":", "{\"node\": 1, \"since\": true, \"link\":",
     "known[1]: node 1 is there twice"},
    {"\"link\": {\"value\": 3,", "\"lnk\": {\"value\": 3,",
     "known[1].lnk: unknown key; did you mean"},
    {"\"link\": " Q("3", "1"), "\"link\": null", "known[1]: what is slow"},
    {"\"nvswitch\"", "\"nvswich\"", "did you mean 'nvswitch'"},
    {"\"value\": 2,", "\"value\": 0.5,", "oversubscription: must be 1 or more"},
    {"\"sharp\": false", "\"sharp\": \"no\"", "sharp"},
    {"\"processor\": \"96 x A\"", "\"processor\": 96", "machine.processor"},
    {"\"machine\": {", "\"machine\": [{", ""},
    {"\"compute_capability\": 90", "\"compute_capability\": 9", "compute_capability"},
};

START_TEST(bad_files)
{
    bad_file_check(good, &bad[_i], read_and_drop);
}
END_TEST

/* Comparing each with all others would take longer than the test's time limit. */
START_TEST(many_slow_ranks)
{
    static const char list[] = "\"known\": [";
    enum { COUNT = 100000, ITEM = 96 };
    const char *at = strstr(good, list) + sizeof list - 1;
    size_t size = sizeof good + (size_t)COUNT * ITEM + 64, n = (size_t)(at - good);
    char *text = malloc(size), path[64];
    struct lk_cluster c;

    ck_assert_ptr_nonnull(text);
    memcpy(text, good, n);
    for (int i = 0; i < COUNT; i++)
        n += (size_t)snprintf(text + n, size - n, "{\"rank\": %d, \"compute\": %s},\n",
                              1000 + COUNT - i, Q("2", "1"));
    snprintf(text + n, size - n, "%s", at);
    bad_file_write(text, strlen(text), path);
    ck_assert_msg(lk_cluster_read(path, &c) == LK_OK, "%s", lk_error_text());
    ck_assert_uint_gt(c.n_slow, COUNT);
    lk_cluster_fini(&c);
    ck_assert_int_eq(unlink(path), 0);
    free(text);
}
END_TEST

START_TEST(torture)
{
    bad_file_torture(good, 3000, read_and_drop);
}
END_TEST

SUITE(cluster, c)
{
    tcase_add_test(c, read_write_read);
    tcase_add_loop_test(c, bad_files, 0, LK_COUNT(bad));
    tcase_add_test(c, many_slow_ranks);
    tcase_add_test(c, torture);
}
