/* Replicas of several GPUs: which GPUs reduce a gradient together, against their numbering, and
 * forecasts of whole-node replicas against those of nodes with one GPU. */
#include "base/array.h"
#include "facts/run_facts.h"
#include "profiler/analysis/job_build.h"
#include "sim/forecast/forecast.h"
#include "sim/step/volume.h"
#include "tests/rigs/cases.h"
#include "tests/rigs/must.h"
#include "tests/rigs/random_job.h"
#include "tests/rigs/sim_truth.h"
#include "tests/rigs/step_model.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <string.h>

enum { CASES = 300, GPUS_MAX = 512 };

/* ---- Groups ---- */

struct truth {
    int ranks, nodes, groups;
};

/* Return the GPU of a part of the model (the t-th of a layer's, in stage p) in replica d. */
static int gpu_of(const struct lk_config *c, int d, int t, int p)
{
    return t + c->tensor_parallel * (d + lk_config_replicas(c) * p);
}

/* Walk the GPUs that reduce gradients with each other, of every part of the model. */
static struct truth walk(const struct lk_config *c)
{
    int per_node = c->world_size / c->nodes, crossing[GPUS_MAX] = {0};
    struct truth out = {.ranks = lk_config_replicas(c), .groups = 1};

    for (int p = 0; p < c->pipeline_parallel; p++)
        for (int t = 0; t < c->tensor_parallel; t++) {
            bool there[GPUS_MAX] = {false};
            int nodes = 0;

            for (int d = 0; d < out.ranks; d++)
                there[gpu_of(c, d, t, p) / per_node] = true;
            for (int i = 0; i < c->nodes; i++)
                nodes += there[i];
            ck_assert(!out.nodes || out.nodes == nodes);
            out.nodes = nodes;
            for (int i = 0; i < c->nodes; i++)
                crossing[i] += there[i] && nodes > 1;
        }
    for (int i = 0; i < c->nodes; i++)
        out.groups = crossing[i] > out.groups ? crossing[i] : out.groups;
    return out;
}

START_TEST(groups_are_those_of_the_numbering)
{
    struct random_job q;
    int tried = 0;

    random_job_init(1, &q);
    for (int per_node = 1; per_node <= 8; per_node *= 2)
        for (int nodes = 1; per_node * nodes <= GPUS_MAX; nodes *= 2)
            for (int t = 1; t <= 16; t *= 2)
                for (int p = 1; p <= 8; p *= 2) {
                    struct lk_config c = lk_config_current(&q.job);
                    struct lk_volume v;
                    struct truth want;

                    if (per_node * nodes % (t * p) || (t > per_node && t * p > per_node * nodes))
                        continue;
                    c.world_size = per_node * nodes;
                    c.nodes = nodes;
                    c.tensor_parallel = t;
                    c.pipeline_parallel = p;
                    want = walk(&c);
                    must(lk_volume_init(&v, &q.job, &c));
                    for (size_t i = 0; i < v.n; i++)
                        ck_assert_msg(v.colls[i].ranks == want.ranks &&
                                          v.colls[i].nodes == want.nodes &&
                                          v.colls[i].groups == want.groups,
                                      "%d x %d, %d nodes of %d: %d ranks on %d nodes, %d at once; "
                                      "not %d, %d, %d",
                                      t, p, nodes, per_node, v.colls[i].ranks, v.colls[i].nodes,
                                      v.colls[i].groups, want.ranks, want.nodes, want.groups);
                    lk_volume_fini(&v);
                    tried++;
                }
    ck_assert_int_gt(tried, 200);
    random_job_fini(&q);
}
END_TEST

/* ---- Forecasts ---- */

/* Let no rank be slow. */
static void equalise(struct random_job *q)
{
    for (size_t i = 0; i < q->cluster.n_slow; i++)
        lk_quantity_fini(&q->cluster.slow[i].compute);
    q->cluster.n_slow = 0;
}

static void predict(const struct random_job *q, const struct lk_axis_value *gpus, size_t n,
                    int accumulation, struct lk_forecast *out)
{
    const struct lk_axis_value a = {.count = accumulation};
    struct lk_forecast_request r = {.axes[LK_AXIS_GPUS] = {gpus, n},
                                    .axes[LK_AXIS_ACCUMULATION] = {&a, accumulation ? 1 : 0},
                                    .level = 0.9,
                                    .draws = 20,
                                    .seed = 1};

    ck_assert_msg(sim_predict(&q->job, &q->cluster, &r, out) == LK_OK, "%s", lk_error_text());
}

/*
 * A replica that fills a node, each of whose GPUs reduces over its own card, is what a node with
 * one GPU and one card is: the same steps of as many replicas.
 */
START_TEST(a_node_of_one_replica_is_a_node_of_one_gpu)
{
    enum { COUNTS = 3 };

    for (size_t i = 0; i < cases_or(CASES); i++) {
        struct lk_axis_value many[COUNTS], one[COUNTS];
        struct random_job q;
        struct lk_forecast a, b;

        random_job_init(i, &q);
        q.cluster.device.compute_capability = 0;
        equalise(&q);
        q.cluster.topology.nics_per_node = q.per_node;
        for (int k = 0; k < COUNTS; k++) {
            one[k] = (struct lk_axis_value){.count = 1 << (2 * k)};
            many[k] = (struct lk_axis_value){.count = one[k].count * q.per_node};
        }
        q.job.tensor_parallel = q.per_node;
        predict(&q, many, COUNTS, 0, &a);
        q.job.tensor_parallel = 0;
        q.cluster.gpus_per_node = q.cluster.topology.nics_per_node = 1;
        predict(&q, one, COUNTS, 0, &b);
        ck_assert_uint_eq(a.n_points, b.n_points);
        for (size_t k = 0; k < a.n_points; k++) {
            const struct lk_forecast_point *x = &a.points[k], *y = &b.points[k];

            ck_assert_msg(fabs(x->step_s / y->step_s - 1) < 1e-9 &&
                              fabs(x->efficiency - y->efficiency) < 1e-9 &&
                              fabs(x->throughput_per_s / y->throughput_per_s - 1) < 1e-9,
                          "case %zu, %d GPUs: %g s, %g; %g s, %g with one GPU a node", i,
                          x->config.world_size, x->step_s, x->efficiency, y->step_s, y->efficiency);
        }
        lk_forecast_fini(&a);
        lk_forecast_fini(&b);
        random_job_fini(&q);
    }
}
END_TEST

/* One replica of P stages takes (m + P - 1) / m times the work of m micro-batches. */
START_TEST(stages_wait_for_the_first_and_the_last_micro_batch)
{
    for (size_t i = 0; i < 40; i++) {
        struct random_job q;
        struct lk_axis_value gpus = {.count = 4};
        double fixed_s, micro_s;

        random_job_init(i, &q);
        q.cluster.gpus_per_node = 4;
        equalise(&q);
        q.job.pipeline_parallel = 4;
        micro_s = (q.forward_s + q.backward_s) * q.accumulation / (q.accumulation + 3.0);
        fixed_s = q.optimizer_s;
        for (int m = 1; m <= 64; m *= 4) {
            struct lk_forecast f;

            predict(&q, &gpus, 1, m, &f);
            ck_assert_double_eq_tol(f.points[0].step_s, (m + 3) * micro_s + fixed_s,
                                    1e-5 * f.points[0].step_s);
            ck_assert_double_eq_tol(f.points[0].throughput_per_s, m * 8 / f.points[0].step_s,
                                    1e-5 * f.points[0].throughput_per_s);
            lk_forecast_fini(&f);
        }
        random_job_fini(&q);
    }
}
END_TEST

START_TEST(gpus_are_whole_replicas)
{
    const struct lk_axis_value gpus = {.count = 12};
    struct lk_forecast_request r = {
        .axes[LK_AXIS_GPUS] = {&gpus, 1}, .level = 0.9, .draws = 20, .seed = 1};
    struct random_job q;
    struct lk_forecast f;

    random_job_init(3, &q);
    q.job.tensor_parallel = 8;
    ck_assert_int_eq(sim_predict(&q.job, &q.cluster, &r, &f), LK_EUSAGE);
    ck_assert_msg(strstr(lk_error_text(), "12 GPUs are no whole replicas of 8") != NULL, "%s",
                  lk_error_text());
    random_job_fini(&q);
}
END_TEST

/* Of four ranks two reduce a gradient: a replica has two GPUs, in the job and in its runs. Three do
 * not divide them, and gradients that differ in it are of experts. */
START_TEST(runs_say_how_many_gpus_a_replica_has)
{
    static const char *const ranks[] = {"2", "3", "2 to 4"};
    const struct step_model m = step_model_default((struct step_model){.ranks = 4});
    struct lk_trace *traces = NULL;
    struct lk_run_set set = {0};
    struct lk_job j;

    must(step_model_run(&m, &traces, NULL));
    for (int k = 0; k < m.ranks; k++)
        must(lk_run_info_config(&traces[k].info, LK_GROUPS_CONFIG_KEY, ranks[_i]));
    must(lk_alloc(&set.runs, 1, sizeof *set.runs));
    set.n = 1;
    must(lk_run_take("model", traces, (size_t)m.ranks, &set.runs[0]));
    if (_i) {
        ck_assert_int_eq(lk_job_build(&set, &j), LK_EEVIDENCE);
    } else {
        must(lk_job_build(&set, &j));
        ck_assert_int_eq(j.tensor_parallel, 2);
        ck_assert_int_eq(lk_config_replicas(&j.runs[0].config), 2);
        ck_assert_double_eq(lk_config_samples(&j.runs[0].config),
                            2.0 * j.runs[0].config.local_batch * j.runs[0].config.accumulation);
        lk_job_fini(&j);
    }
    lk_run_set_fini(&set);
}
END_TEST

SUITE(replicas, c)
{
    tcase_add_test(c, groups_are_those_of_the_numbering);
    tcase_add_test(c, a_node_of_one_replica_is_a_node_of_one_gpu);
    tcase_add_test(c, stages_wait_for_the_first_and_the_last_micro_batch);
    tcase_add_test(c, gpus_are_whole_replicas);
    tcase_add_loop_test(c, runs_say_how_many_gpus_a_replica_has, 0, 3);
}
