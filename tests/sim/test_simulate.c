/*
 * Read simulated runs like measured ones: the analysis recovers the rows that the engine put in,
 * and a job built from a simulated run predicts it.
 */
#include "base/array.h"
#include "base/file.h"
#include "profiler/analysis/analysis.h"
#include "profiler/analysis/job_build.h"
#include "profiler/analysis/run_set.h"
#include "sim/forecast/predictor.h"
#include "sim/step/simulate.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/shell.h"
#include "tests/rigs/sim_truth.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct scenario {
    const char *name;
    int ranks, accumulation;
    bool no_sync;
    double rate_Bps, kappa, gamma_wait, gamma_wire, delta, rank_sd, transient;
    bool find_unused_parameters;
    int sync_bn; /* number of layers, whose collectives block forward and backward */
    enum lk_sharding sharding;
};

static const struct scenario scenarios[] = {
    {"nothing wrong", 2, 1, true, 4e9, 0, 0, 0, 0, 0, 0, false, 0, LK_SHARDING_DDP},
    {"slow link", 2, 1, true, 0.5e9, 0, 0, 0, 0, 0, 0, false, 0, LK_SHARDING_DDP},
    {"slow ranks", 4, 1, true, 2e9, 0, 0, 0, 0, 0.1, 0, false, 0, LK_SHARDING_DDP},
    {"co-location", 2, 1, true, 2e9, 0.2, 0, 0, 0, 0, 0, false, 0, LK_SHARDING_DDP},
    {"overlap", 2, 1, true, 0.6e9, 0, 0, 0.4, 0, 0, 0, false, 0, LK_SHARDING_DDP},
    {"overlap both ways", 2, 1, true, 1e9, 0, 0.2, 0.3, 1, 0.05, 0, false, 0, LK_SHARDING_DDP},
    {"accumulation", 2, 3, true, 1e9, 0.1, 0, 0.2, 0, 0.05, 0, false, 0, LK_SHARDING_DDP},
    {"synchronised", 2, 2, false, 1e9, 0, 0, 0.1, 0, 0.05, 0, false, 0, LK_SHARDING_DDP},
    {"transients", 4, 1, true, 1e9, 0.1, 0, 0.2, 0, 0.05, 0.05, false, 0, LK_SHARDING_DDP},
    {"unused parameters", 4, 1, true, 1e9, 0, 0, 0.2, 0, 0.05, 0, true, 0, LK_SHARDING_DDP},
    {"batch norm", 4, 1, true, 1e9, 0, 0, 0, 0, 0.1, 0, false, 6, LK_SHARDING_DDP},
    {"norm and overlap", 4, 1, true, 0.6e9, 0.1, 0, 0.3, 0, 0.05, 0, false, 6, LK_SHARDING_DDP},
    {"norm, transients", 4, 2, true, 1e9, 0.1, 0, 0.2, 0, 0.05, 0.05, false, 6, LK_SHARDING_DDP},
    {"sharded", 4, 1, true, 0.6e9, 0, 0, 0, 0, 0.05, 0, false, 0, LK_SHARDING_ZERO3},
    {"sharded, overlap", 4, 1, true, 1e9, 0, 0, 0.2, 0, 0, 0, false, 0, LK_SHARDING_ZERO3},
};

enum { STEPS = 60 };

/* Make the scenario's job and machine; one host with all ranks. */
static void world_of(const struct scenario *s, struct lk_job *job, struct lk_cluster *cluster)
{
    struct sim_truth t = sim_truth_default;

    t.rate_Bps = s->rate_Bps;
    t.rank_sd = s->rank_sd;
    t.transient_sd = s->transient;
    t.point_noise = 0;
    sim_truth_cluster(&t, 1, cluster);
    sim_truth_job(&t, 1, job);
    job->accumulation = s->accumulation;
    job->reduce = s->no_sync ? LK_REDUCTION_LAST : LK_REDUCTION_EVERY;
    job->find_unused_parameters = s->find_unused_parameters;
    if (s->sync_bn)
        ck_assert_int_eq(lk_alloc(&job->sync_bn, (size_t)s->sync_bn, sizeof *job->sync_bn), LK_OK);
    for (; job->n_sync_bn < (size_t)s->sync_bn; job->n_sync_bn++)
        job->sync_bn[job->n_sync_bn] =
            (struct lk_job_sync_bn){256, ((double)job->n_sync_bn + 0.5) / s->sync_bn};
    /* All-gathers and reduce-scatters have no measured points. */
    ck_assert_int_eq(lk_quantity_set(&cluster->inter.latency_s, t.alpha_s, NAN, NAN, 0, "test"),
                     LK_OK);
    ck_assert_int_eq(
        lk_quantity_set(&cluster->inter.bandwidth_Bps, s->rate_Bps, NAN, NAN, 0, "test"), LK_OK);
    cluster->gamma_wait.value = s->gamma_wait;
    cluster->gamma_wire.value = s->gamma_wire;
    cluster->delta.value = s->delta;
}

/* All ranks of the truth's clusters are on hosts of their own: co-location
 * depends on the number alone. */
static void set_kappa(struct lk_cluster *c, double kappa)
{
    ck_assert_int_eq(lk_alloc(&c->kappa, 1, sizeof *c->kappa), LK_OK);
    c->kappa[0] = (struct lk_cluster_kappa){.ranks = 1, .kappa = lk_quantity_none()};
    ck_assert_int_eq(lk_quantity_set(&c->kappa[0].kappa, kappa, NAN, NAN, 1, "test"), LK_OK);
    c->n_kappa = 1;
}

static void simulate(const struct scenario *s, const struct lk_job *j, const struct lk_cluster *c,
                     int ranks, const char *dir, struct lk_sim_result *truth)
{
    struct lk_config config = {.world_size = ranks,
                               .nodes = ranks,
                               .local_batch = 8,
                               .accumulation = j->accumulation,
                               .reduce = j->reduce,
                               .first_bytes = j->first_bytes,
                               .cap_bytes = j->cap_bytes,
                               .overlap = j->overlap,
                               .sharding = s->sharding};
    struct lk_sim_request q = {.steps = STEPS, .seed = 4};

    ck_assert_msg(lk_simulate_trace(j, c, &config, &q, dir, truth) == LK_OK, "%s", lk_error_text());
}

static void check_row(const struct scenario *s, const struct lk_analysis *a,
                      const struct lk_sim_result *truth, double found, double put_in,
                      const char *row)
{
    /* The allowed error is 3 % of the step; without spread the rows match
     * to a part in a thousand. */
    double allowed = (s->transient > 0 ? 0.03 : 0.001) * a->step_s;

    ck_assert_msg(fabs(found - put_in) <= allowed, "%s: %s is %g s, put in %g s, step %g s",
                  s->name, row, found, put_in, truth->mean_s);
}

/* With sharded parameters some collective is always pending, so what overlap costs cannot be told
 * apart. Where ranks differ the analysis has the lower median rank's, and counts what the others
 * take beyond that as theirs; the engine has each rank's. */
static bool overlap_is_told(const struct scenario *s)
{
    return s->sharding == LK_SHARDING_DDP &&
           (s->rank_sd == 0 || (s->gamma_wait == 0 && s->gamma_wire == 0));
}

START_TEST(rows_come_back)
{
    const struct scenario *s = &scenarios[_i];
    char *dir = scratch_create(), *alone = scratch_path(dir, "alone"),
         *many = scratch_path(dir, "many");
    struct lk_job job;
    struct lk_cluster cluster;
    struct lk_sim_result truth, one;
    struct lk_run_set set;
    struct lk_analysis a;
    const struct lk_run *refs[2];
    size_t n;

    world_of(s, &job, &cluster);
    cluster.rank_sd.value = 0;
    simulate(s, &job, &cluster, 1, alone, &one);
    cluster.rank_sd.value = s->rank_sd;
    set_kappa(&cluster, s->kappa);
    simulate(s, &job, &cluster, s->ranks, many, &truth);
    ck_assert_msg(lk_run_set_read((const char *const *)&dir, 1, &set) == LK_OK, "%s",
                  lk_error_text());
    ck_assert_uint_eq(set.n, 2);
    n = lk_analysis_reference(&set, &set.runs[1], refs);
    ck_assert_uint_eq(n, 1);
    ck_assert_msg(lk_analyze(&set.runs[1], refs, n, &a) == LK_OK, "%s", lk_error_text());
    check_row(s, &a, &truth, a.step_s, truth.mean_s, "step");
    for (int l = 0; l < LK_LOSS_COUNT; l++)
        if (l != LK_LOSS_SLOW_RANK && l != LK_LOSS_COLOCATION && l != LK_LOSS_IDEAL &&
            l != LK_LOSS_OPTIMIZER && (l != LK_LOSS_OVERLAP || overlap_is_told(s)))
            check_row(s, &a, &truth, a.losses_s[l], truth.losses_s[l],
                      lk_loss_key((enum lk_loss)l));
    /* Sharded ranks divide the optimizer's work: the engine's ideal includes
     * that, the reference cannot. */
    check_row(s, &a, &truth, a.losses_s[LK_LOSS_IDEAL] + a.losses_s[LK_LOSS_OPTIMIZER],
              truth.losses_s[LK_LOSS_IDEAL] + truth.losses_s[LK_LOSS_OPTIMIZER],
              "ideal + optimizer");
    /* A slowdown common to all ranks counts as co-location in the analysis; the engine drew
     * each rank. */
    if (overlap_is_told(s))
        check_row(s, &a, &truth, a.losses_s[LK_LOSS_SLOW_RANK] + a.losses_s[LK_LOSS_COLOCATION],
                  truth.losses_s[LK_LOSS_SLOW_RANK] + truth.losses_s[LK_LOSS_COLOCATION],
                  "slow_rank + colocation");
    check_row(s, &a, &truth,
              a.losses_s[LK_LOSS_SLOW_RANK] + a.losses_s[LK_LOSS_COLOCATION] +
                  a.losses_s[LK_LOSS_OVERLAP],
              truth.losses_s[LK_LOSS_SLOW_RANK] + truth.losses_s[LK_LOSS_COLOCATION] +
                  truth.losses_s[LK_LOSS_OVERLAP],
              "slow_rank + colocation + overlap");
    lk_analysis_fini(&a);
    lk_run_set_fini(&set);
    lk_sim_result_fini(&truth);
    lk_sim_result_fini(&one);
    lk_job_fini(&job);
    lk_cluster_fini(&cluster);
    free(alone);
    free(many);
    scratch_remove(dir);
}
END_TEST

/* Predict a 4-rank run from a job built from the 1-rank run, through files: within 2 %. */
START_TEST(a_job_from_its_traces_predicts_them)
{
    const struct scenario *s = &scenarios[_i];
    char *dir = scratch_create(), *alone = scratch_path(dir, "alone"),
         *many = scratch_path(dir, "many"), *file = scratch_path(dir, "job.json");
    struct lk_job job, built, read;
    struct lk_cluster cluster;
    struct lk_sim_result truth, one;
    struct lk_run_set set;
    struct lk_predictor *p = NULL;
    struct lk_prediction got;
    struct lk_config config;

    world_of(s, &job, &cluster);
    simulate(s, &job, &cluster, 1, alone, &one);
    simulate(s, &job, &cluster, s->ranks, many, &truth);
    ck_assert_int_eq(lk_run_set_read((const char *const *)&alone, 1, &set), LK_OK);
    ck_assert_msg(lk_job_build(&set, &built) == LK_OK, "%s", lk_error_text());
    /* A trace does not contain these facts of the model. */
    built.find_unused_parameters = job.find_unused_parameters;
    built.sync_bn = job.sync_bn;
    built.n_sync_bn = job.n_sync_bn;
    job.sync_bn = NULL;
    job.n_sync_bn = 0;
    ck_assert_int_eq(lk_job_write(file, &built), LK_OK);
    ck_assert_msg(lk_job_read(file, &read) == LK_OK, "%s", lk_error_text());
    ck_assert_int_eq(
        lk_predictor_create(&read, &cluster,
                            &(struct lk_predictor_options){
                                .level = 0.995, .draws = 800, .seed = 4, .scale_error = NAN},
                            &p),
        LK_OK);
    config = read.runs[0].config;
    config.world_size = config.nodes = s->ranks;
    config.sharding = s->sharding;
    ck_assert_msg(lk_predictor_at(p, &config, &got) == LK_OK, "%s", lk_error_text());
    /* Ranks are drawn anew: their spread is in the interval, not in the estimate. The truth's
     * second rank is slower than 98 of 100 would be. */
    if (s->rank_sd > 0) {
        ck_assert_double_le(got.lo_s, truth.mean_s);
        ck_assert_double_ge(got.hi_s, truth.mean_s);
    } else {
        ck_assert_double_eq_tol(got.step_s / truth.mean_s, 1, 0.02);
    }
    lk_prediction_fini(&got);
    lk_predictor_destroy(p);
    lk_run_set_fini(&set);
    lk_sim_result_fini(&truth);
    lk_sim_result_fini(&one);
    lk_job_fini(&job);
    lk_job_fini(&built);
    lk_job_fini(&read);
    lk_cluster_fini(&cluster);
    free(alone);
    free(many);
    free(file);
    scratch_remove(dir);
}
END_TEST

/* Several buckets of which compute covers nothing: the job does not overlap, and its forecasts do
 * not either. A partial overlap shows as one. */
START_TEST(traces_show_whether_collectives_overlap)
{
    const struct scenario s = scenarios[0];
    enum lk_overlap_mode put_in = (enum lk_overlap_mode)_i;
    char *dir = scratch_create(), *file = scratch_path(dir, "job.json");
    struct lk_job job, built, read;
    struct lk_cluster cluster;
    struct lk_sim_result truth;
    struct lk_run_set set;

    world_of(&s, &job, &cluster);
    job.first_bytes = job.cap_bytes = 4 << 20;
    job.overlap = put_in;
    simulate(&s, &job, &cluster, 2, dir, &truth);
    ck_assert_int_eq(lk_run_set_read((const char *const *)&dir, 1, &set), LK_OK);
    ck_assert_msg(lk_job_build(&set, &built) == LK_OK, "%s", lk_error_text());
    ck_assert_int_eq(lk_job_write(file, &built), LK_OK);
    ck_assert_msg(lk_job_read(file, &read) == LK_OK, "%s", lk_error_text());
    ck_assert_int_eq(read.overlap, put_in == LK_OVERLAP_MODE_NONE ? put_in : LK_OVERLAP_MODE_FULL);
    ck_assert_int_eq(read.runs[0].config.overlap, read.overlap);
    ck_assert_int_eq(lk_config_current(&read).overlap, read.overlap);
    lk_run_set_fini(&set);
    lk_sim_result_fini(&truth);
    lk_job_fini(&job);
    lk_job_fini(&built);
    lk_job_fini(&read);
    lk_cluster_fini(&cluster);
    free(file);
    scratch_remove(dir);
}
END_TEST

static void read_whole(const char *path, char **text, size_t *size)
{
    ck_assert_msg(lk_file_read(path, text, size) == LK_OK, "%s", lk_error_text());
}

/* Same input, same bytes. */
START_TEST(traces_repeat_byte_by_byte)
{
    char *dir = scratch_create(), *text[2], *path;
    struct shell_result said;
    struct lk_job job;
    struct lk_cluster cluster;
    size_t size[2];

    world_of(&scenarios[8], &job, &cluster);
    for (int i = 0; i < 2; i++) {
        path = scratch_path(dir, "rank00001.trace.json.gz");
        simulate(&scenarios[8], &job, &cluster, 2, dir, NULL);
        read_whole(path, &text[i], &size[i]);
        free(path);
    }
    ck_assert_uint_eq(size[0], size[1]);
    ck_assert_mem_eq(text[0], text[1], size[0]);
    said = shell_run("python3 tests/check_trace.py '%s'/*.trace.json.gz 2>&1", dir);
    ck_assert_msg(said.code == 0, "%s", said.text);
    free(text[0]);
    free(text[1]);
    lk_job_fini(&job);
    lk_cluster_fini(&cluster);
    scratch_remove(dir);
}
END_TEST

SUITE(simulate, c)
{
    tcase_add_loop_test(c, traces_show_whether_collectives_overlap, 0, LK_OVERLAP_MODE_COUNT);
    tcase_add_loop_test(c, rows_come_back, 0, (int)LK_COUNT(scenarios));
    tcase_add_loop_test(c, a_job_from_its_traces_predicts_them, 0, (int)LK_COUNT(scenarios));
    tcase_add_test(c, traces_repeat_byte_by_byte);
}
