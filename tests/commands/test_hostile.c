/*
 * The program where a stranger would try to break it: too little of what the system gives, paths
 * and names that mean something elsewhere, readers that leave, numbers that contradict each other.
 */
#include "base/array.h"
#include "base/file.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/shell.h"
#include "tests/rigs/skip.h"
#include "tests/rigs/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROGRAM LK_BUILD_DIR "/lockstep"
#define TINY                                                                                       \
    PROGRAM " run -n2 --model=mlp --layers=1 --channels=16 --context=8 --vocab=256 --steps=20 "    \
            "--no-pin --out='%s/run'"

static void assert_says(const struct shell_result *r, int code, const char *what)
{
    ck_assert_msg(r->code == code && strstr(r->text, what), "exit code %d, not %d with '%s': %s",
                  r->code, code, what, r->text);
}

static bool has_sanitizer(void)
{
    return strstr(LK_BUILD_DIR, "san") != NULL;
}

/* ---- What the system gives ---- */

/* OpenBLAS would wait for memory for ever: in threads that nobody uses, and in each product. */
START_TEST(too_little_memory_is_named)
{
    struct shell_result r = shell_run(PROGRAM " --version | grep OpenBLAS");

    if (r.code || has_sanitizer()) {
        skip("no OpenBLAS, or shadow memory beside the program's");
        return;
    }
    r = shell_run("(ulimit -v 160000; " PROGRAM " --version) 2>&1");
    assert_says(&r, 0, "OpenBLAS");
    r = shell_run("(ulimit -v 240000; " TINY ") 2>&1", scratch_dir);
    assert_says(&r, 1, "OpenBLAS needs 256 MiB of address space");
    r = shell_run("(ulimit -v 600000; export OPENBLAS_NUM_THREADS=64; " TINY ") 2>&1", scratch_dir);
    assert_says(&r, 0, "analyze");
}
END_TEST

START_TEST(too_few_descriptors_are_named)
{
    struct shell_result r = shell_run(
        "exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-; (ulimit -n 8; " TINY ") 2>&1", scratch_dir);

    assert_says(&r, 1, "the run's store needs 3 more open files, and the limit is 8 (ulimit -n)");
}
END_TEST

START_TEST(a_file_that_is_too_large_is_named)
{
    struct shell_result r = shell_run("(ulimit -f 4; " TINY ") 2>&1", scratch_dir);

    assert_says(&r, 1, "spans: File too large");
}
END_TEST

/* ---- Paths, and readers that leave ---- */

/* LD_PRELOAD is divided at blanks and colons, so the library is preloaded by another path. */
START_TEST(an_install_path_with_a_blank_and_a_colon)
{
    struct shell_result r = shell_run(
        "mkdir '%s/a b:c' '%s/tmp' && cp " PROGRAM " " LK_BUILD_DIR
        "/liblockstep_profile.so '%s/a b:c' && TMPDIR='%s/tmp' '%s/a b:c/lockstep' profile "
        "--with=preload --out '%s/p' -- sh -c 'test -r \"$LD_PRELOAD\" && echo usable' 2>&1; ls "
        "'%s/tmp'",
        scratch_dir, scratch_dir, scratch_dir, scratch_dir, scratch_dir, scratch_dir, scratch_dir);

    assert_says(&r, 0, "usable\n");
    ck_assert_msg(!strstr(r.text, "cannot be preloaded"), "%s", r.text);
    ck_assert_msg(!strstr(r.text, "lockstep-profile-"), "the link is left: %s", r.text);
}
END_TEST

START_TEST(a_profile_without_a_reader_has_the_jobs_status)
{
    struct shell_result r = shell_run(
        "cd '%s' && { sh -c '\"$0\" profile --out p -- sh -c \"trap : PIPE; for i in 1 2 3 4 5 6; "
        "do echo \\$i; sleep 0.1; done; exit 7\" 2>&1; echo $? > code' \"$OLDPWD/" PROGRAM
        "\" | head -n1; } && cat code && ls",
        scratch_dir);

    ck_assert_str_eq(r.text, "1\n7\ncode\n");
}
END_TEST

/* ---- Tables ---- */

/* 300,000 points: with work that grows by their square this takes half an hour of a processor. */
START_TEST(a_long_table_takes_work_by_its_length)
{
    struct shell_result r =
        shell_run("cd '%s' && awk 'BEGIN { print \"collective,bytes,gpus,nodes,time_us\"; for (i = "
                  "1; i <= 300000; i++) print \"all_reduce,\" 4 * i \",8,1,\" 10 + i / 1e4 }' > "
                  "c.csv && (ulimit -t 240; \"$OLDPWD/" PROGRAM
                  "\" import --collectives c.csv --quiet --out c.json > /dev/null)",
                  scratch_dir);

    ck_assert_int_eq(r.code, 0);
}
END_TEST

START_TEST(rows_that_contradict_each_other_are_counted)
{
    struct shell_result r =
        shell_run("cd '%s' && awk 'BEGIN { print \"gpus,throughput\"; for (i = 1; i <= 60; i++) "
                  "print i \",\" 100 }' > t.csv && \"$OLDPWD/" PROGRAM
                  "\" predict --throughput t.csv --gpus 64 2>&1 > /dev/null | grep -c warning; "
                  "\"$OLDPWD/" PROGRAM "\" predict --throughput t.csv --gpus 64 2>&1",
                  scratch_dir);

    ck_assert_int_eq(strncmp(r.text, "6\n", 2), 0);
    ck_assert_ptr_nonnull(strstr(r.text, "t.csv: 54 more rows contradict others"));
}
END_TEST

/* ---- Contradictory jobs ---- */

/* A job of one GPU: two batches, and a run of it. Times in ms. */
static void write_job(double forward, double backward, double larger, double step)
{
    char *path = scratch_path(scratch_dir, "job.json");
    FILE *f = fopen(path, "w");

    ck_assert_ptr_nonnull(f);
    fputs("{\"schema\": \"lockstep-job\", \"version\": 1, \"name\": \"J\", \"sample_unit\": "
          "\"sample\", \"gradients\": [{\"name\": \"w\", \"elements\": 1000000, \"dtype\": "
          "\"float32\"}], \"compute\": [",
          f);
    for (int i = 0; i < 2; i++)
        fprintf(
            f,
            "%s{\"local_batch\": %d, \"forward\": {\"value\": %g, \"unit\": \"ms\", \"source\": "
            "\"s\"}, \"backward\": {\"value\": %g, \"unit\": \"ms\", \"source\": \"s\"}}",
            i ? ", " : "", 32 << i, forward * (i ? larger : 1), backward * (i ? larger : 1));
    fprintf(f,
            "], \"runs\": [{\"source\": \"r\", \"gpus\": 1, \"nodes\": 1, \"local_batch\": 32, "
            "\"accumulation\": 1, \"reduce\": \"last\", \"first_bucket_bytes\": 1048576, "
            "\"bucket_cap_bytes\": 26214400, \"step_s\": [%g, %g, %g]}]}\n",
            1e-3 * step, 1.001e-3 * step, 0.999e-3 * step);
    ck_assert_int_eq(fclose(f), 0);
    free(path);
}

static const struct {
    double forward, backward, larger, step;
    const char *says; /* NULL: none of the sentences below */
} jobs[] = {
    {10, 20, 2, 31, NULL},
    {10, 20, 2, 5, "The job's run of 1 GPU (r) contradicts its compute: its step is 5.00 ms"},
    {10, 20, 2, 300, "The job's run of 1 GPU (r) contradicts its compute: its step is 300 ms"},
    {10, 20, 0.5, 31, "a micro-batch of 32 takes 30.0 ms, one of 64 only 15.0 ms"},
    {10, 0, 2, 11, "The job's backward at local batch 32 takes no time"},
    {0, 20, 2, 21, "The job's forward at local batch 32 takes no time"},
};

START_TEST(a_job_that_contradicts_itself)
{
    struct shell_result r;

    write_job(jobs[_i].forward, jobs[_i].backward, jobs[_i].larger, jobs[_i].step);
    r = shell_run("COLUMNS=1000 " PROGRAM
                  " predict '%s/job.json' --cluster ethernet-10g-8gpu --gpus 4 2>&1 | tr '\\n' ' ' "
                  "| tr -s ' '",
                  scratch_dir);
    if (jobs[_i].says)
        ck_assert_msg(strstr(r.text, jobs[_i].says) != NULL, "no '%s': %s", jobs[_i].says, r.text);
    else
        ck_assert_msg(!strstr(r.text, "The job's "), "%s", r.text);
}
END_TEST

SUITE(hostile, t)
{
    tcase_add_checked_fixture(t, scratch_set_up, scratch_tear_down);
    tcase_add_test(t, too_little_memory_is_named);
    tcase_add_test(t, too_few_descriptors_are_named);
    tcase_add_test(t, a_file_that_is_too_large_is_named);
    tcase_add_test(t, an_install_path_with_a_blank_and_a_colon);
    tcase_add_test(t, a_profile_without_a_reader_has_the_jobs_status);
    tcase_add_test(t, a_long_table_takes_work_by_its_length);
    tcase_add_test(t, rows_that_contradict_each_other_are_counted);
    tcase_add_loop_test(t, a_job_that_contradicts_itself, 0, LK_COUNT(jobs));
}
