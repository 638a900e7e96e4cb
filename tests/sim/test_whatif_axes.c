/*
 * Every axis of a what-if on machines whose steps can be worked out by hand: hosts of one GPU, and
 * nodes of four, on a network of A seconds a hop and W bytes a second, without noise or mutual
 * slowdown. A formula beside the axes gives the expected step.
 */
#include "base/array.h"
#include "base/file.h"
#include "tests/rigs/said.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/sim_truth.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define A           50e-6      /* s a hop */
#define W           1e9        /* B/s of the network, a rank */
#define FWD         10e-3      /* s of a micro-batch of 8 */
#define BWD         20e-3      /* s */
#define OPT         4e-3       /* s a step */
#define M           16777216.0 /* gradient bytes: two float32 matrices of 2048 x 1024 */
#define MEM         1e11       /* B/s of the device */
#define IN_A        5e-6       /* s a hop inside a node of four */
#define IN_W        1e10       /* B/s there */
#define STEP        (FWD + BWD + OPT)
#define N_(n)       ((double)(n))
#define LATER(a, b) ((a) > (b) ? (a) : (b))
/* A ring: every byte once round for half an all-reduce. */
#define RS(n, m) ((N_(n) - 1) * A + (N_(n) - 1) / N_(n) * (m) / W)
#define AR(n, m) (2 * RS(n, m))
/* In a sharded scheme the host launches copies of both tensors, which are read and written, and a
 * gather; the one scatter's launch is that of the job's own bucket. */
#define LAUNCH    20e-6
#define HOST      (2 * 40e-6)
#define COPIES(m) (2 * (m) / MEM)
#define SRS(n, m) (RS(n, m) + HOST + COPIES(m))
#define SAG(n, m) (SRS(n, m) + LAUNCH)
/* Inside a node, and a ring over so many nodes: the slowest link sets the pace. */
#define IN_RS(n, m) ((N_(n) - 1) * IN_A + (N_(n) - 1) / N_(n) * (m) / IN_W)
#define IN_AR(n, m) (2 * IN_RS(n, m))
#define RING(n, nodes, m)                                                                          \
    (2 * (N_(nodes) - 1) * A + 2 * (N_(n) - N_(nodes)) * IN_A + 2 * (N_(n) - 1) / N_(n) * (m) / W)

static const char job_text[] =
    "{\"schema\": \"lockstep-job\", \"version\": 1, \"name\": \"hand\", \"bucket_cap_bytes\": "
    "100000000, \"first_bucket_bytes\": 100000000, \"optimizer\": \"adamw\", "
    "\"flops_per_sample\": {\"value\": 1, \"unit\": \"Gflop\", \"source\": \"hand\"}, "
    "\"gradients\": [{\"name\": \"a\", \"elements\": 2097152, \"dtype\": \"float32\", \"rows\": "
    "2048}, {\"name\": \"b\", \"elements\": 2097152, \"dtype\": \"float32\", \"rows\": 2048}], "
    "\"compute\": ["
    "{\"local_batch\": 8, \"forward\": {\"value\": 10, \"unit\": \"ms\", \"source\": \"hand\"}, "
    "\"backward\": {\"value\": 20, \"unit\": \"ms\", \"source\": \"hand\"}, "
    "\"optimizer\": {\"value\": 4, \"unit\": \"ms\", \"source\": \"hand\"}}, "
    "{\"local_batch\": 16, \"forward\": {\"value\": 18, \"unit\": \"ms\", \"source\": \"hand\"}, "
    "\"backward\": {\"value\": 36, \"unit\": \"ms\", \"source\": \"hand\"}, "
    "\"optimizer\": {\"value\": 4, \"unit\": \"ms\", \"source\": \"hand\"}}]}";

static const char hosts_text[] =
    "{\"schema\": \"lockstep-cluster\", \"version\": 1, \"name\": \"hand\", \"preset\": false, "
    "\"nodes\": 0, "
    "\"gpus_per_node\": 1, \"gpu\": \"slow\", \"device\": {"
    "\"flops\": {\"value\": 1, \"unit\": \"Tflop/s\", \"source\": \"hand\"}, "
    "\"memory\": {\"value\": 16, \"unit\": \"GB\", \"source\": \"hand\"}, "
    "\"memory_bandwidth\": {\"value\": 100, \"unit\": \"GB/s\", \"source\": \"hand\"}}, "
    "\"inter\": {\"latency\": {\"value\": 50, \"unit\": \"us\", \"source\": \"hand\"}, "
    "\"bandwidth\": {\"value\": 1, \"unit\": \"GB/s\", \"source\": \"hand\"}}, "
    "\"stragglers\": {\"rank_sd\": {\"value\": 0, \"unit\": \"1\", \"source\": \"hand\"}, "
    "\"transient_sd\": {\"value\": 0, \"unit\": \"1\", \"source\": \"hand\"}}}";

/* One network link a node, two nodes below a leaf switch. */
static const char nodes_text[] =
    "{\"schema\": \"lockstep-cluster\", \"version\": 1, \"name\": \"hand\", \"preset\": false, "
    "\"nodes\": 0, \"gpus_per_node\": 4, \"gpu\": \"slow\", "
    "\"intra\": {\"latency\": {\"value\": 5, \"unit\": \"us\", \"source\": \"hand\"}, "
    "\"bandwidth\": {\"value\": 10, \"unit\": \"GB/s\", \"source\": \"hand\"}}, "
    "\"inter\": {\"latency\": {\"value\": 50, \"unit\": \"us\", \"source\": \"hand\"}, "
    "\"bandwidth\": {\"value\": 1, \"unit\": \"GB/s\", \"source\": \"hand\"}}, "
    "\"stragglers\": {\"rank_sd\": {\"value\": 0, \"unit\": \"1\", \"source\": \"hand\"}, "
    "\"transient_sd\": {\"value\": 0, \"unit\": \"1\", \"source\": \"hand\"}}}";

struct row {
    const char *axes; /* AXIS=VALUE, apart by spaces */
    double step_s;
};

/* clang-format off */
static const struct row on_hosts[] = {
    {"gpus=1", STEP},
    {"gpus=2", STEP + AR(2, M)},
    {"gpus=64 algorithm=ring", STEP + AR(64, M)},
    {"gpus=4 local-batch=16", 54e-3 + OPT + AR(4, M)},
    {"gpus=4 local-batch=12", 42e-3 + OPT + AR(4, M)},
    /* The slowest by its own batch. 24 samples at 6 + 3 b ms, and 1.5 times that, are 15 and 9. */
    {"gpus=3 rank-batches=16+2x8", 54e-3 + OPT + AR(3, M)},
    {"gpus=4 rank-batches=2x12+2x8", 42e-3 + OPT + AR(4, M)},
    {"gpus=4 rank-batches=2x12+2x8 accumulation=2", 84e-3 + OPT + AR(4, M)},
    {"gpus=2 rank-batches=16+8 slow-rank=1:2", 60e-3 + OPT + AR(2, M)},
    {"gpus=2 local-batch=12 rank-batches=equal slow-rank=1:1.5", 63e-3 + OPT + AR(2, M)},
    {"gpus=2 local-batch=12 rank-batches=balanced slow-rank=1:1.5", 51e-3 + OPT + AR(2, M)},
    {"gpus=4 accumulation=8", 8 * (FWD + BWD) + OPT + AR(4, M)},
    {"gpus=4 accumulation=8 reduce=every", 8 * (FWD + BWD + AR(4, M)) + OPT},
    /* Two buckets: the first goes out in the middle of backward. */
    {"gpus=2 bucket-cap=8MiB", FWD + LATER(BWD, BWD / 2 + AR(2, M / 2)) + AR(2, M / 2) + OPT},
    /* While the first moves, backward advances at two thirds of its pace. */
    {"gpus=2 bucket-cap=8MiB overlap-slowdown=1.5",
     FWD + BWD + AR(2, M / 2) / 3 + AR(2, M / 2) + OPT},
    {"gpus=8 bucket-cap=8MiB", FWD + LATER(BWD, BWD / 2 + AR(8, M / 2)) + AR(8, M / 2) + OPT},
    /* Without overlap the first waits for the backward's end; in part it has what is left of it. */
    {"gpus=2 bucket-cap=8MiB overlap=none", FWD + BWD + 2 * AR(2, M / 2) + OPT},
    {"gpus=2 bucket-cap=8MiB overlap=partial",
     FWD + LATER(BWD, BWD / 2 + AR(2, M / 2)) + AR(2, M / 2) + OPT},
    {"gpus=4 sharding=zero3 overlap=none", FWD + BWD + OPT / 4 + SRS(4, M) + 2 * SAG(4, M)},
    {"gpus=2 first-bucket=1MiB", FWD + LATER(BWD, BWD / 2 + AR(2, M / 2)) + AR(2, M / 2) + OPT},
    {"gpus=4 grad-dtype=bfloat16", STEP + AR(4, M / 2)},
    {"gpus=4 grad-dtype=float8", STEP + AR(4, M / 4)},
    /* A hook's casts: reads 4, writes 2, divides 2 + 2, reads 2, writes 4 bytes an element. */
    {"gpus=4 compression=fp16", STEP + AR(4, M / 2) + 16 * (M / 4) / MEM},
    {"gpus=4 compression=bf16", STEP + AR(4, M / 2) + 16 * (M / 4) / MEM},
    /* P and Q of both matrices, rank 4: 2048 x 4 and 1024 x 4 floats; 11 passes over M; two
     * matrices made orthogonal. */
    {"gpus=4 compression=powersgd powersgd-rank=4 algorithm=ring",
     STEP + AR(4, 2 * 2048 * 4 * 4) + AR(4, 2 * 1024 * 4 * 4) + 11 * M / MEM + 2 * 110e-6},
    {"gpus=4 algorithm=ring", STEP + AR(4, M)},
    /* Up and down six levels, each byte through every rank twice; auto is the faster of both. */
    {"gpus=64 algorithm=tree", STEP + 2 * 6 * A + 2 * M / W},
    {"gpus=64", STEP + 2 * 6 * A + 2 * M / W},
    {"gpus=4 nic-bandwidth=x2", STEP + AR(4, M / 2)},
    {"gpus=4 nic-bandwidth=4Gbit/s", STEP + AR(4, M * 2)},
    {"gpus=64 inter-latency=x10 algorithm=ring", STEP + AR(64, M) + 2 * 63 * 9 * A},
    {"gpus=64 inter-latency=5us algorithm=ring", STEP + AR(64, M) - 2 * 63 * 0.9 * A},
    {"gpus=64 inter-latency=x10 nic-bandwidth=x0.5 accumulation=2 algorithm=ring",
     2 * (FWD + BWD) + OPT + AR(64, 2 * M) + 2 * 63 * 9 * A},
    /* The optimizer's states are shared, and so is its work. */
    {"gpus=4 sharding=zero1", FWD + BWD + OPT / 4 + SRS(4, M) + SAG(4, M)},
    {"gpus=4 sharding=zero1 accumulation=2",
     2 * (FWD + BWD) + OPT / 4 + SRS(4, M) + SAG(4, M)},
    {"gpus=4 sharding=zero2 accumulation=2",
     2 * (FWD + BWD + SRS(4, M)) + OPT / 4 + SAG(4, M)},
    {"gpus=4 sharding=zero2 accumulation=2 reduce=last",
     2 * (FWD + BWD) + OPT / 4 + SRS(4, M) + SAG(4, M)},
    {"gpus=4 sharding=zero1 accumulation=2 reduce=every",
     2 * (FWD + BWD + SRS(4, M)) + OPT / 4 + SAG(4, M)},
    /* One unit: gathered before forward and again before backward, hidden by nothing. */
    {"gpus=4 sharding=zero3", FWD + BWD + OPT / 4 + SRS(4, M) + 2 * SAG(4, M)},
    {"gpus=4 sharding=shard-grad-op", FWD + BWD + OPT / 4 + SRS(4, M) + SAG(4, M)},
    /* The all-reduce is launched while the scatter moves. */
    {"gpus=8 sharding=hsdp shard-group=2",
     FWD + BWD + OPT / 2 + SRS(2, M) + 2 * SAG(2, M) + AR(4, M / 2) + LAUNCH / 2},
    {"gpus=4 sharding=local-sgd period=10", STEP + AR(4, M) / 10},
    {"gpus=4 sharding=diloco period=100", STEP + AR(4, M) / 100},
    {"gpus=8 sharding=local-sgd period=10 shard-group=2", STEP + AR(2, M) + AR(8, M) / 10},
    {"gpus=8 sharding=diloco period=10 shard-group=2 compression=fp16",
     STEP + AR(2, M / 2) + 16 * (M / 4) / MEM + AR(8, M) / 10},
    /* Late gradients: the longer of compute and communication, whatever the bound. */
    {"gpus=4 sharding=async", LATER(STEP, AR(4, M))},
    {"gpus=4 sharding=async nic-bandwidth=x0.5", LATER(STEP, AR(4, 2 * M))},
    {"gpus=4 sharding=async nic-bandwidth=x0.5 staleness=3", LATER(STEP, AR(4, 2 * M))},
    {"gpus=4 sharding=async nic-bandwidth=x0.5 bucket-cap=8MiB", LATER(STEP, 2 * AR(4, M))},
    {"gpus=4 sharding=async nic-bandwidth=x0.5 overlap=none", LATER(STEP, AR(4, 2 * M))},
    {"gpus=4 sharding=async nic-bandwidth=x0.25 accumulation=2",
     LATER(2 * (FWD + BWD) + OPT, AR(4, 4 * M))},
    {"gpus=4 grad-dtype=bfloat16 nic-bandwidth=x2 accumulation=2",
     2 * (FWD + BWD) + OPT + AR(4, M / 4)},
    {"gpus=4 sharding=zero3 grad-dtype=bfloat16",
     FWD + BWD + OPT / 4 + SRS(4, M / 2) + 2 * SAG(4, M / 2)},
};

static const struct row on_nodes[] = {
    {"gpus=4 algorithm=ring", STEP + IN_AR(4, M)},
    {"gpus=8 algorithm=ring", STEP + RING(8, 2, M)},
    {"gpus=8 algorithm=ring gpus-per-node=8", STEP + IN_AR(8, M)},
    {"gpus=8 algorithm=ring gpus-per-node=2", STEP + RING(8, 4, M)},
    {"gpus=8 algorithm=ring gpus-per-node=1", STEP + AR(8, M)},
    /* Shares inside a node, reduced between nodes over the node's one link, and back. */
    {"gpus=8 algorithm=hierarchical", STEP + IN_AR(4, M) + AR(2, M)},
    {"gpus=4 algorithm=ring intra-bandwidth=x2", STEP + IN_AR(4, M / 2)},
    {"gpus=4 algorithm=ring intra-latency=x10", STEP + IN_AR(4, M) + 2 * 3 * 9 * IN_A},
    {"gpus=8 algorithm=ring intra-bandwidth=0.5GB/s", STEP + RING(8, 2, 2 * M)},
    {"gpus=8 algorithm=ring intra-bandwidth=x0.5", STEP + RING(8, 2, M)},
    /* Oversubscription is twice the number of nodes that share an uplink. */
    {"gpus=16 algorithm=ring nodes-per-switch=2 oversubscription=4", STEP + RING(16, 4, 2 * M)},
    {"gpus=16 algorithm=ring nodes-per-switch=2 oversubscription=2", STEP + RING(16, 4, M)},
    {"gpus=8 algorithm=ring nodes-per-switch=2 oversubscription=4", STEP + RING(8, 2, M)},
    {"gpus=16 algorithm=ring nodes-per-switch=1 oversubscription=3 nic-bandwidth=x2",
     STEP + RING(16, 4, 1.5 * M)},
    /* Four groups use each node's link at once with a quarter each. */
    {"gpus=8 sharding=hsdp",
     FWD + BWD + OPT / 4 + 3 * (IN_RS(4, M) + HOST) + AR(2, M) + 2.5 * LAUNCH},
    {"gpus=8 sharding=hsdp shard-group=2 algorithm=ring",
     FWD + BWD + OPT / 2 + 3 * (IN_RS(2, M) + HOST) + RING(4, 2, M) + 2.5 * LAUNCH},
    {"gpus=8 sharding=local-sgd shard-group=4 period=8 algorithm=ring",
     STEP + IN_AR(4, M) + RING(8, 2, M) / 8},
};
/* clang-format on */

struct rig {
    struct lk_job job;
    struct lk_cluster cluster;
    struct lk_forecast_request q;
    struct lk_axis_value values[LK_AXIS_COUNT];
};

/* Set AXIS=VALUE pairs, separated by spaces; one value each. */
static void set_axes(struct rig *r, const char *axes)
{
    char copy[128], *rest = copy, *word;

    snprintf(copy, sizeof copy, "%s", axes);
    while ((word = strsep(&rest, " "))) {
        char *value = strchr(word, '=');
        int a = 0;

        *value++ = '\0';
        while (a < LK_AXIS_COUNT && strcmp(lk_axis_option((enum lk_axis)a), word) != 0)
            a++;
        ck_assert_int_lt(a, LK_AXIS_COUNT);
        ck_assert_msg(lk_axis_parse((enum lk_axis)a, value, &r->values[a]) == LK_OK, "%s",
                      lk_error_text());
        r->q.axes[a].v = &r->values[a];
        r->q.axes[a].n = 1;
    }
}

static void rig_init(struct rig *r, const char *cluster_text)
{
    char *job = scratch_put("job.json", job_text, strlen(job_text));
    char *cluster = scratch_put("cluster.json", cluster_text, strlen(cluster_text));

    *r = (struct rig){.q = {.level = 0.9, .draws = 20, .seed = 1}};
    ck_assert_msg(lk_job_read(job, &r->job) == LK_OK, "%s", lk_error_text());
    ck_assert_msg(lk_cluster_read(cluster, &r->cluster) == LK_OK, "%s", lk_error_text());
    free(job);
    free(cluster);
    set_axes(r, "local-batch=8");
}

static void rig_fini(struct rig *r)
{
    lk_job_fini(&r->job);
    lk_cluster_fini(&r->cluster);
}

static double step_of(struct rig *r)
{
    struct sim_answer w;
    double step;

    ck_assert_msg(sim_whatif(&r->job, &r->cluster, &r->q, &w) == LK_OK, "%s", lk_error_text());
    ck_assert_uint_le(w.forecast.n_points,
                      2); /* the one asked for, and the current configuration */
    step = w.forecast.points[0].step_s;
    sim_answer_fini(&w);
    return step;
}

static void check_step(const char *cluster_text, const char *axes, double by_hand_s)
{
    struct rig r;
    double step;

    rig_init(&r, cluster_text);
    set_axes(&r, axes);
    step = step_of(&r);
    ck_assert_msg(fabs(step / by_hand_s - 1) < 1e-3, "%s: %.6f ms, by hand %.6f ms", axes,
                  step * 1e3, by_hand_s * 1e3);
    rig_fini(&r);
}

START_TEST(steps_on_hosts)
{
    check_step(hosts_text, on_hosts[_i].axes, on_hosts[_i].step_s);
}
END_TEST

START_TEST(steps_on_nodes)
{
    check_step(nodes_text, on_nodes[_i].axes, on_nodes[_i].step_s);
}
END_TEST

/* Twice the flops and four times the memory's rate: half the compute, a quarter of the optimizer
 * and of a hook's casts; the network stays. */
START_TEST(another_gpu)
{
    struct rig r;
    struct lk_cluster fast;
    double by_hand_s = (FWD + BWD) / 2 + OPT / 4 + AR(4, M / 2) + 16 * (M / 4) / (4 * MEM);

    rig_init(&r, hosts_text);
    fast = r.cluster; /* borrows */
    fast.device.flops.value *= 2;
    fast.device.memory_Bps.value *= 4;
    set_axes(&r, "gpus=4 compression=fp16 gpu=fast");
    r.values[LK_AXIS_GPU].gpu = &fast;
    ck_assert_double_eq_tol(step_of(&r) / by_hand_s, 1, 1e-3);
    rig_fini(&r);
}
END_TEST

/* Tensors of a job without rows are said to be taken for square, but not one without rows beside
 * others, which is a vector. */
START_TEST(shapes_that_powersgd_assumes_are_said)
{
    struct rig r;
    struct sim_answer w;

    rig_init(&r, hosts_text);
    set_axes(&r, "gpus=4 compression=powersgd");
    r.job.tensors[0].rows = 0;
    r.job.tensors[1].rows = _i ? 0 : r.job.tensors[1].rows;
    ck_assert_msg(sim_whatif(&r.job, &r.cluster, &r.q, &w) == LK_OK, "%s", lk_error_text());
    ck_assert_int_eq(forecast_says(&w.forecast, "square matrices") != NULL, _i);
    ck_assert_ptr_nonnull(forecast_says(&w.forecast, "assumed: what a compression computes"));
    sim_answer_fini(&w);
    rig_fini(&r);
}
END_TEST

SUITE(whatif_axes, tc)
{
    tcase_add_unchecked_fixture(tc, scratch_set_up, scratch_tear_down);
    tcase_add_loop_test(tc, steps_on_hosts, 0, (int)LK_COUNT(on_hosts));
    tcase_add_loop_test(tc, steps_on_nodes, 0, (int)LK_COUNT(on_nodes));
    tcase_add_test(tc, another_gpu);
    tcase_add_loop_test(tc, shapes_that_powersgd_assumes_are_said, 0, 2);
}
