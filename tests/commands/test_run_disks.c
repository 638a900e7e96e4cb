/*
 * lockstep run with files and disks that it cannot use: missing and damaged inputs, folders that
 * are in use, full disks. In every case one message says what is wrong, and nothing is left.
 */
#include "base/file.h"
#include "facts/trace.h"
#include "profiler/record/span_file.h"
#include "tests/rigs/program.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/suite.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define SHORT                                                                                      \
    "--model=gpt --layers=1 --heads=2 --channels=16 --context=8 --vocab=32 --samples=4096 "        \
    "--no-pin -b2 --prefetch=0 --steps=5 --warmup=1 "

static void write_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "wb");

    ck_assert_ptr_nonnull(f);
    ck_assert_int_ge(fputs(text, f), 0);
    ck_assert_int_eq(fclose(f), 0);
}

START_TEST(missing_data)
{
    struct program p;

    program_run(&p, scratch_dir, 1, "run -n2 --data=%s/nothing --out=%s/run --model=gpt-nano",
                scratch_dir, scratch_dir);
    program_assert_says(&p, "nothing");
    ck_assert_int_eq(program_error_lines(&p), 1);
    program_fini(&p);
}
END_TEST

START_TEST(data_too_short)
{
    char *path = scratch_path(scratch_dir, "short");
    struct program p;

    write_text(path, "too short");
    program_run(&p, scratch_dir, 2, "run -n2 --data=%s --out=%s/run --model=gpt-nano", path,
                scratch_dir);
    program_assert_says(&p, "9 bytes are too few");
    ck_assert_int_eq(program_error_lines(&p), 1);
    free(path);
    program_fini(&p);
}
END_TEST

START_TEST(bad_weights)
{
    char *path = scratch_path(scratch_dir, "weights");
    struct program p;

    write_text(path, "{}\n");
    program_run(&p, scratch_dir, 1, "run -n2 --import=%s --out=%s/run " SHORT, path, scratch_dir);
    program_assert_says(&p, path);
    ck_assert_int_eq(program_error_lines(&p), 1);
    free(path);
    program_fini(&p);
}
END_TEST

START_TEST(directory_not_empty)
{
    char *out = scratch_path(scratch_dir, "run");
    char *file = scratch_path(scratch_dir, "run/precious");
    struct program p;

    ck_assert_int_eq(lk_mkdirs(out), LK_OK);
    write_text(file, "do not touch");
    program_run(&p, scratch_dir, 2, "run --out=%s " SHORT, out);
    program_assert_says(&p, "not empty");
    ck_assert(lk_file_exists(file));
    free(out);
    free(file);
    program_fini(&p);
}
END_TEST

/* Limit files to 64 KiB: to the program this looks like a full disk. */
static void small_files(void *ctx)
{
    const struct rlimit limit = {65536, 65536};

    (void)ctx;
    signal(SIGXFSZ, SIG_IGN);
    if (setrlimit(RLIMIT_FSIZE, &limit))
        _exit(125);
}

static bool ends_with_tmp(const char *name)
{
    return strstr(name, ".tmp.") != NULL;
}

START_TEST(disk_full)
{
    char *part = scratch_path(scratch_dir, "run/k2-b2-a1-r0");
    char **names = NULL;
    struct program p;
    size_t n;

    program_start(&p, scratch_dir, small_files, NULL, "run -n2 --out=%s/run " SHORT, scratch_dir);
    program_wait(&p);
    ck_assert_int_eq(p.code, 1);
    program_assert_says(&p, ".spans");
    ck_assert_int_eq(program_error_lines(&p), 1);
    ck_assert_int_eq(lk_dir_list(part, "", &names, &n), LK_OK);
    for (size_t i = 0; i < n; i++)
        ck_assert_msg(!ends_with_tmp(names[i]), "%s was left", names[i]);
    lk_names_free(names, n);
    free(part);
    program_fini(&p);
}
END_TEST

/* Limit files to what span files have at the start, and little more. */
static void files_that_cannot_grow(void *ctx)
{
    const rlim_t bytes = sizeof(struct lk_span_file_header) + 6 * LK_SPAN_FILE_SEGMENT * 48;
    const struct rlimit limit = {bytes, bytes};

    (void)ctx;
    signal(SIGXFSZ, SIG_IGN);
    if (setrlimit(RLIMIT_FSIZE, &limit))
        _exit(125);
}

/* The disk becomes full during the run: it ends, says which file, and its traces have the steps. */
START_TEST(disk_full_later)
{
    char *part = scratch_path(scratch_dir, "run/k2-b2-a1-r0");
    struct lk_trace *traces = NULL;
    struct program p;
    size_t n;

    program_start(&p, scratch_dir, files_that_cannot_grow, NULL,
                  "run -n2 --out=%s/run --model=gpt --layers=1 --heads=2 --channels=16 "
                  "--context=8 --vocab=32 --samples=4096 --no-pin -b2 --steps=100000",
                  scratch_dir);
    program_wait(&p);
    ck_assert_int_eq(p.signal, 0);
    ck_assert_int_eq(p.code, 1);
    program_assert_says(&p, ".spans: cannot reserve");
    ck_assert_int_eq(program_error_lines(&p), 1);
    ck_assert_int_eq(program_left(&p), 0);
    ck_assert_msg(lk_traces_read(part, &traces, &n) == LK_OK, "%s", lk_error_text());
    ck_assert_uint_eq(n, 2);
    for (size_t r = 0; r < n; r++)
        ck_assert(traces[r].truncated);
    lk_traces_free(traces, n);
    free(part);
    program_fini(&p);
}
END_TEST

static void output_to_full_device(void *ctx)
{
    int fd = open("/dev/full", O_WRONLY);

    (void)ctx;
    if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0)
        _exit(125);
}

START_TEST(results_that_cannot_be_written)
{
    struct program p;

    program_start(&p, scratch_dir, output_to_full_device, NULL, "run --out=%s/run " SHORT,
                  scratch_dir);
    program_wait(&p);
    ck_assert_int_eq(p.code, 1);
    program_assert_says(&p, "No space left");
    program_fini(&p);
}
END_TEST

SUITE(run_disks, c)
{
    tcase_add_checked_fixture(c, scratch_set_up, scratch_tear_down);
    tcase_add_test(c, missing_data);
    tcase_add_test(c, data_too_short);
    tcase_add_test(c, bad_weights);
    tcase_add_test(c, directory_not_empty);
    tcase_add_test(c, disk_full);
    tcase_add_test(c, disk_full_later);
    tcase_add_test(c, results_that_cannot_be_written);
}
