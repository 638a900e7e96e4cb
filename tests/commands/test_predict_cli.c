/* Run predict, validate and calibrate as a user does: results, exit codes, texts of refusals. */
#include "base/array.h"
#include "base/file.h"
#include "facts/forecast.h"
#include "tests/rigs/program.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/shell.h"
#include "tests/rigs/sim_truth.h"

#include <check.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A folder with job.json (runs of 1 and 2 ranks, three batches) and cluster.json. */
static char *dir;

static void make_files(void)
{
    struct sim_truth t = sim_truth_default;
    struct lk_job job;
    struct lk_cluster cluster;
    char *path;

    dir = scratch_create();
    sim_truth_cluster(&t, 1, &cluster);
    sim_truth_job(&t, 1, &job);
    sim_truth_add_run(&t, &job, 1, 4, 1);
    sim_truth_add_run(&t, &job, 1, 8, 2);
    sim_truth_add_run(&t, &job, 1, 16, 3);
    sim_truth_add_run(&t, &job, 2, 8, 4);
    path = scratch_path(dir, "job.json");
    ck_assert_msg(lk_job_write(path, &job) == LK_OK, "%s", lk_error_text());
    free(path);
    path = scratch_path(dir, "cluster.json");
    ck_assert_msg(lk_cluster_write(path, &cluster) == LK_OK, "%s", lk_error_text());
    free(path);
    lk_job_fini(&job);
    lk_cluster_fini(&cluster);
}

static void remove_files(void)
{
    scratch_remove(dir);
}

START_TEST(a_forecast_is_printed_and_written)
{
    struct shell_result r =
        shell_program(dir, "predict job.json cluster.json --gpus=1,2,4,8 --draws=40 --out=f.json "
                           "--csv=f.csv --verbose");
    char *path = scratch_path(dir, "f.json"), *text;
    struct lk_forecast f;
    size_t size;

    ck_assert_msg(r.code == 0, "%s", r.text);
    ck_assert_ptr_nonnull(strstr(r.text, "extrapolated x4 on gpus"));
    ck_assert_ptr_nonnull(strstr(r.text, "2 GPUs from 1"));
    ck_assert_msg(lk_forecast_read(path, &f) == LK_OK, "%s", lk_error_text());
    ck_assert_uint_eq(f.n_points, 4);
    ck_assert_uint_eq(f.n_backtests, 4);
    lk_forecast_fini(&f);
    free(path);
    path = scratch_path(dir, "f.csv");
    ck_assert_int_eq(lk_file_read(path, &text, &size), LK_OK);
    ck_assert_int_eq(strncmp(text, "gpus,nodes,local_batch,accumulation,bucket_cap_bytes,step_s",
                             strlen("gpus,nodes,local_batch,accumulation,bucket_cap_bytes,step_s")),
                     0);
    free(text);
    free(path);
}
END_TEST

/* A page in a pipe: the answer is on its first line, and no line is wider than 80 columns. */
static const struct {
    const char *words, *answer;
} pages[] = {
    {"predict job.json cluster.json --gpus=1,2,8,64", "64 GPUs reach "},
    {"predict job.json cluster.json --gpus=1", "1 GPU takes "},
    {"predict job.json cluster.json --gpus=2,16 --global-batch=64", "16 GPUs reach "},
    {"predict job.json ethernet-25g --gpus=8,64 --local-batch=4,8 --accumulation=1,4 "
     "--bucket-cap=1MiB,25MiB --price=2 --target-samples=1e6 --noise-scale=64",
     "64 GPUs with "},
    {"predict job.json ethernet-25g --gpus=8 --memory --device-memory=24GB", "8 GPUs reach "},
    {"whatif job.json cluster.json --gpus=2,8 --bucket-cap=1MiB,25MiB --accumulation=1,2,4",
     "8 GPUs"},
    {"whatif job.json cluster.json --gpus=8 --sharding=ddp,zero3 --inter-latency=x1,x4", "8 GPUs"},
    {"validate job.json --cluster cluster.json", "held-out runs"},
};

START_TEST(a_page_begins_with_its_answer_and_is_narrow)
{
    struct shell_result r;
    char *line, *end;

    ck_assert_int_eq(setenv("LC_ALL", "C", 1), 0); /* a byte is a column */
    r = shell_program(dir, "%s --draws=20", pages[_i].words);
    line = r.text;
    ck_assert_msg(r.code == 0, "%s", r.text);
    end = strchr(r.text, '\n');
    ck_assert_msg(strstr(r.text, pages[_i].answer) && strstr(r.text, pages[_i].answer) < end, "%s",
                  r.text);
    for (; (end = strchr(line, '\n')) != NULL; line = end + 1)
        ck_assert_msg(end - line <= 80, "wider than 80: %.*s", (int)(end - line), line);
}
END_TEST

START_TEST(a_directory_stands_for_its_job)
{
    struct shell_result r =
        shell_program(dir, "predict . --cluster cluster.json --gpus=2 --draws=20 --format=csv");

    ck_assert_msg(r.code == 0, "%s", r.text);
    ck_assert_ptr_nonnull(strstr(r.text, ",measured"));
}
END_TEST

/* The preset beside the program is found from a folder that has none. */
START_TEST(a_preset_is_found_by_name)
{
    struct shell_result r =
        shell_program(dir, "predict job.json ethernet-25g --gpus=1,16 --draws=20");

    ck_assert_msg(r.code == 0, "%s", r.text);
    ck_assert_ptr_nonnull(strstr(r.text, "preset"));
    ck_assert_ptr_nonnull(strstr(r.text, "ethernet-25g"));
}
END_TEST

START_TEST(validate_prints_errors)
{
    struct shell_result r =
        shell_program(dir, "validate job.json --cluster cluster.json --draws=40 --verbose");

    ck_assert_msg(r.code == 0, "%s", r.text);
    ck_assert_ptr_nonnull(strstr(r.text, "2 GPUs from 1"));
    ck_assert_ptr_nonnull(strstr(r.text, "local batch 16 from 4, 8"));
    ck_assert_ptr_nonnull(strstr(r.text, " inside (true share"));
}
END_TEST

START_TEST(simulated_traces_are_analysed)
{
    struct shell_result r =
        shell_program(dir, "predict job.json cluster.json --gpus=2 --draws=20 --trace=sim");

    ck_assert_msg(r.code == 0, "%s", r.text);
    r = shell_program(dir, "analyze sim");
    ck_assert_msg(r.code == 0, "%s", r.text);
    ck_assert_ptr_nonnull(strstr(r.text, "Waterfall"));
}
END_TEST

/* Wrong arguments, the exit code, and a part of the message. */
static const struct {
    const char *arguments;
    int code;
    const char *says;
} refusals[] = {
    {"predict", 2, "which job?"},
    {"predict job.json", 2, "which cluster?"},
    {"predict job.json cluster.json", 2, "--gpus"},
    {"predict job.json cluster.json --gpus=0", 2, "gpus"},
    {"predict job.json cluster.json --gpus=two", 2, "gpus"},
    {"predict job.json cluster.json --gps=2", 2, "did you mean"},
    {"predict job.json cluster.json --gpus=2 --cluster=ethernet-25g", 2, "two clusters"},
    {"predict job.json cluster.json --gpus=2 --global-batch=3", 2, "global batch of 3"},
    {"predict job.json cluster.json --gpus=2 --global-batch=8 --accumulation=2", 2, "one or the"},
    {"predict job.json ethernet-26g --gpus=2", 1, "ethernet-25g"},
    {"predict none.json cluster.json --gpus=2", 1, "none.json"},
    {"predict cluster.json job.json --gpus=2", 1, "cluster.json:"},
    {"predict cut.json cluster.json --gpus=2", 1, "cut.json:"},
    {"predict job.json nolink.json --gpus=4", 1, "lockstep calibrate -n 2"},
    {"predict job.json cluster.json --gpus=2 --out=no/such/folder/f.json", 1, "no/such/folder"},
    {"predict job.json cluster.json --gpus=2 --slow-rank=1", 2,
     "--slow-rank=1: '1': expected NUMBER:FACTOR"},
    {"predict job.json cluster.json --gpus=2 --slow-rank=1:0", 2, "factor must be above 0"},
    {"predict job.json cluster.json --gpus=1,8 --slow-rank=99:1.5", 2, /* A5 of the review */
     "--slow-rank=99:1.5: rank 99: the most GPUs asked for are 8, ranks 0 to 7"},
    {"predict job.json cluster.json --gpus=8 --slow-link=8:2", 2, "nodes 0 to 7"},
    {"predict job.json cluster.json --gpus=2 --slow-link=1:2,1:3", 2, "node 1 is known already"},
    {"whatif job.json cluster.json --gpus=2 --slow-link=x:2", 2,
     "--slow-link: 'x' is not a whole number"},
    {"validate", 2, "which runs?"},
    {"validate job.json", 2, "--cluster"},
    {"validate onebatch.json --cluster=cluster.json", 1, "run with --scaling 1,2"},
    {"calibrate --collectives=all_produce", 2, "all_produce"},
    {"calibrate --algorithms=", 2, "--algorithms"},
    {"calibrate --sizes=4097B", 2, "--sizes: 4097 bytes: expected a multiple of 4"},
    {"calibrate --overlap-bytes=4097B", 2, "--overlap-bytes: 4097"},
    {"calibrate --out=no/such/folder/c.json", 1, "lockstep calibrate: no/such/folder"},
    {"calibrate -n 1", 2, "ranks"},
    {"calibrate --device=cuda --algorithms=ring", 2, "NCCL_ALGO"},
    {"calibrate --share-gpu", 2, "--share-gpu needs --device=cuda"},
    {"calibrate --dtypes=float33", 2, "float33"},
    {"calibrate --dtypes=float32,float32", 2, "--dtypes: 'float32' is there twice"},
    {"calibrate --collectives=broadcast,broadcast", 2, "--collectives: 'broadcast' is there twice"},
    {"calibrate --algorithms=ring,tree,ring", 2, "--algorithms: 'ring' is there twice"},
    {"calibrate --algorithms=ring,", 2, "--algorithms: '' is not an algorithm"},
    {"calibrate --dtypes=float64 --sizes=4B", 2, "expected a multiple of 8"},
    {"calibrate --overlap-block=16,1024,768", 2, "--overlap-block: expected samples"},
    {"calibrate --overlap-block=16,1024,768,5", 2, "5 heads of 768 channels"},
    {"calibrate --nccl-min-ctas=8 --nccl-max-ctas=4", 2, "--nccl-min-ctas is above"},
    {"calibrate --device=gpu", 2, "cuda"},
};

/* Write the variants of the good files that the refusals need. */
static void make_bad_files(void)
{
    struct sim_truth t = sim_truth_default;
    struct lk_job job;
    struct lk_cluster cluster;
    struct lk_writer *w = NULL;
    char *path, *text;
    size_t n_points, n_compute, size;

    make_files();
    sim_truth_cluster(&t, 1, &cluster);
    sim_truth_job(&t, 1, &job);
    n_points = cluster.n_points;
    cluster.n_points = 0;
    path = scratch_path(dir, "nolink.json");
    ck_assert_int_eq(lk_cluster_write(path, &cluster), LK_OK);
    free(path);
    cluster.n_points = n_points;
    n_compute = job.n_compute;
    job.n_compute = 1;
    path = scratch_path(dir, "onebatch.json");
    ck_assert_int_eq(lk_job_write(path, &job), LK_OK);
    free(path);
    job.n_compute = n_compute;
    path = scratch_path(dir, "job.json");
    ck_assert_int_eq(lk_file_read(path, &text, &size), LK_OK);
    free(path);
    path = scratch_path(dir, "cut.json");
    ck_assert_int_eq(lk_writer_open(path, false, &w), LK_OK);
    ck_assert_int_eq(lk_writer_put(w, text, size / 2), LK_OK);
    ck_assert_int_eq(lk_writer_commit(w), LK_OK);
    free(path);
    free(text);
    lk_job_fini(&job);
    lk_cluster_fini(&cluster);
}

/* A slow rank makes the forecast longer, in predict as a fact, in whatif as a change. */
START_TEST(slow_ranks_and_links_are_said)
{
    struct shell_result r =
        shell_program(dir, "whatif job.json cluster.json --gpus=4 --slow-rank=none,3:1.5 "
                           "--slow-link=none,0:4 --format=json");

    ck_assert_msg(r.code == 0, "%s", r.text);
    ck_assert_ptr_nonnull(strstr(r.text, "slow_rank"));
    ck_assert_ptr_nonnull(strstr(r.text, "3:1.5"));
    r = shell_program(dir, "predict job.json cluster.json --gpus=4 --slow-rank=3:1.5 --format=csv");
    ck_assert_msg(r.code == 0, "%s", r.text);
}
END_TEST

/* Where the overlap was not measured the forecast says what it assumes; it takes what it is told.
 */
START_TEST(a12_the_overlap_is_assumed_or_told)
{
    static const char *const words[] = {"", "--overlap-slowdown=1.19", "--overlap-slowdown=1.5"};
    struct shell_result r[3];

    for (int i = 0; i < 3; i++) {
        r[i] = shell_program(dir, "predict job.json dgx-a100 --gpus=8 --draws=20 --verbose %s",
                             words[i]);
        ck_assert_msg(r[i].code == 0, "%s", r[i].text);
    }
    ck_assert_ptr_nonnull(strstr(r[0].text, "compute takes 19 % longer while"));
    ck_assert_ptr_null(strstr(r[2].text, "compute takes"));
    ck_assert_int_ne(strcmp(r[1].text, r[2].text), 0);
}
END_TEST

START_TEST(refusals_say_what_is_missing)
{
    struct shell_result r = shell_program(dir, "%s", refusals[_i].arguments);

    ck_assert_msg(r.code == refusals[_i].code && strstr(r.text, refusals[_i].says),
                  "'%s' gave %d: %s", refusals[_i].arguments, r.code, r.text);
    ck_assert_int_eq(strncmp(r.text, "lockstep ", 9), 0); /* one message, no table before it */
}
END_TEST

/* A short calibration: the file is read back, has its points and fits, and feeds a forecast. */
START_TEST(a_calibration_is_a_cluster)
{
    struct shell_result r = shell_program(
        dir, "calibrate -n 2 --sizes=4KiB,64KiB,1MiB,4MiB --repetitions=3 --budget=4s "
             "--out=here.json --name=here");
    char *path = scratch_path(dir, "here.json");
    struct lk_cluster c;

    ck_assert_msg(r.code == 0, "%s", r.text);
    ck_assert_msg(lk_cluster_read(path, &c) == LK_OK, "%s", lk_error_text());
    ck_assert_str_eq(c.name, "here");
    /* Three algorithms, two timings, and two sides of the size where auto takes the ring. */
    ck_assert_uint_eq(c.n_points, 28);
    ck_assert_uint_eq(c.n_fits, 2); /* of auto and ring: two ranks are no tree */
    ck_assert_uint_eq(c.n_kappa, 1);
    ck_assert_int_eq(c.kappa[0].ranks, 2);
    if (!strstr(r.text, "other work took")) {
        ck_assert(lk_quantity_known(&c.gamma_wire) == !strstr(r.text, "overlap not probed"));
        ck_assert(lk_quantity_known(&c.rank_sd));
    }
    lk_cluster_fini(&c);
    free(path);
    /* The job's runs are of another machine, which may contradict this one, as fast as it is today.
     */
    r = shell_program(dir, "predict job.json here.json --gpus=2,4 --draws=20 --anyway");
    ck_assert_msg(r.code <= 1 && strstr(r.text, "Evidence: "), "%s", r.text);
}
END_TEST

/* Ranks on two hosts calibrate one kind of host, of which a forecast may have more. The hosts are
 * what the launcher's environment says. */
START_TEST(a08_nodes_are_the_hosts_of_the_ranks)
{
    char *program = realpath(LK_BUILD_DIR "/lockstep", NULL), *path = scratch_path(dir, "two.json");
    int port, held = program_hold_port(&port);
    struct shell_result r;
    struct lk_cluster c;

    r = shell_run("cd '%s' && export WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 "
                  "MASTER_ADDR=127.0.0.1 MASTER_PORT=%d && for r in 0 1; do RANK=$r '%s' calibrate "
                  "--sizes=64KiB,1MiB,4MiB --repetitions=3 --budget=4s --no-overlap "
                  "--no-colocation --out=two.json & done 2>&1; wait",
                  dir, port, program);
    close(held);
    ck_assert_msg(lk_cluster_read(path, &c) == LK_OK, "%s: %s", lk_error_text(), r.text);
    ck_assert_int_eq(c.gpus_per_node, 1);
    ck_assert_int_eq(c.points[0].nodes, 2);
    lk_cluster_fini(&c);
    r = shell_program(dir, "predict job.json two.json --gpus=8 --draws=20 --anyway --format=csv");
    ck_assert_msg(r.code <= 1 && strstr(r.text, "\n8,8,"), "%s", r.text);
    r = shell_program(dir, "predict job.json two.json --gpus=8 --gpus-per-node=4 --draws=20 "
                           "--anyway --format=csv");
    ck_assert_msg(r.code == 1 && strstr(r.text, "8 ranks over 2 nodes"), "%s", r.text);
    free(path);
    free(program);
}
END_TEST

/* Whatever the budget, three samples are taken or none; one size gives no
 * fit, and a note says so. */
START_TEST(a_short_budget_leaves_three_samples)
{
    struct shell_result r =
        shell_program(dir, "calibrate -n 2 --sizes=4KiB --repetitions=4 --warmup=0 --budget=1us "
                           "--out=short.json --verbose");
    char *path = scratch_path(dir, "short.json");
    struct lk_cluster c;

    ck_assert_msg(r.code == 0, "%s", r.text);
    ck_assert_ptr_nonnull(strstr(r.text, "none: a fit needs 3 sizes"));
    ck_assert_msg(lk_cluster_read(path, &c) == LK_OK, "%s", lk_error_text());
    ck_assert_uint_eq(c.kappa[0].kappa.n, 3);
    if (!strstr(r.text, "other work took"))
        ck_assert_ptr_nonnull(strstr(r.text, "calibrate: co-location of 2 ranks"));
    if (lk_quantity_known(&c.delta)) {
        ck_assert_uint_eq(c.delta.n, 3);
        ck_assert_ptr_nonnull(strstr(r.text, "calibrate: overlap probe of 2 ranks"));
    } else {
        ck_assert(strstr(r.text, "overlap not probed") || strstr(r.text, "other work took"));
    }
    lk_cluster_fini(&c);
    free(path);
}
END_TEST

/* Two ranks on one CPU would measure co-location. */
START_TEST(overlap_needs_a_cpu_a_rank)
{
    cpu_set_t all, one;
    struct shell_result r;
    size_t cpu = 0;

    ck_assert_int_eq(sched_getaffinity(0, sizeof all, &all), 0);
    while (!CPU_ISSET(cpu, &all))
        cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    ck_assert_int_eq(sched_setaffinity(0, sizeof one, &one), 0);
    r = shell_program(
        dir, "calibrate -n 2 --sizes=4KiB --repetitions=3 --warmup=0 --budget=1us --out=one.json");
    ck_assert_int_eq(sched_setaffinity(0, sizeof all, &all), 0);
    ck_assert_msg(r.code == 0, "%s", r.text);
    ck_assert_ptr_nonnull(strstr(r.text, "overlap not probed: 2 ranks on 1 usable CPU;"));
    ck_assert_ptr_null(strstr(r.text, "delta:"));
}
END_TEST

Suite *lk_suite_predict_cli(void);
Suite *lk_suite_predict_cli(void)
{
    Suite *s = suite_create("predict_cli");
    TCase *c = tcase_create("predict_cli"), *bad = tcase_create("refusals");

    tcase_add_checked_fixture(c, make_files, remove_files);
    tcase_add_test(c, a_forecast_is_printed_and_written);
    tcase_add_loop_test(c, a_page_begins_with_its_answer_and_is_narrow, 0, (int)LK_COUNT(pages));
    tcase_add_test(c, a_directory_stands_for_its_job);
    tcase_add_test(c, slow_ranks_and_links_are_said);
    tcase_add_test(c, a_preset_is_found_by_name);
    tcase_add_test(c, validate_prints_errors);
    tcase_add_test(c, simulated_traces_are_analysed);
    tcase_add_test(c, a_calibration_is_a_cluster);
    tcase_add_test(c, a12_the_overlap_is_assumed_or_told);
    tcase_add_test(c, a08_nodes_are_the_hosts_of_the_ranks);
    tcase_add_test(c, a_short_budget_leaves_three_samples);
    tcase_add_test(c, overlap_needs_a_cpu_a_rank);
    suite_add_tcase(s, c);
    tcase_add_checked_fixture(bad, make_bad_files, remove_files);
    tcase_add_loop_test(bad, refusals_say_what_is_missing, 0, (int)LK_COUNT(refusals));
    suite_add_tcase(s, bad);
    return s;
}
