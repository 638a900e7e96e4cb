/* The page of `lockstep report`: it says what the commands say, holds all that it shows, and works
 * in a browser. */
#include "base/array.h"
#include "base/file.h"
#include "facts/forecast.h"
#include "reports/chart/xml.h"
#include "tests/rigs/kineto_text.h"
#include "tests/rigs/markup.h"
#include "tests/rigs/must.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/shell.h"
#include "tests/rigs/skip.h"
#include "tests/rigs/suite.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE_MAX = 2000000, SKIPPED = 77 };

/* Run the program in scratch_dir; the test fails on another exit code. */
static void program(int code, const char *words)
{
    struct shell_result r = shell_run("root=$PWD && cd '%s' && \"$root/%s/lockstep\" %s 2>&1",
                                      scratch_dir, LK_BUILD_DIR, words);

    ck_assert_msg(r.code == code, "lockstep %s: %d: %s", words, r.code, r.text);
}

/* Read a page; it is well-formed, and small. The caller frees it. */
static char *read_page(const char *name)
{
    char *text = scratch_read(scratch_dir, name);

    ck_assert_uint_lt(strlen(text), PAGE_MAX);
    markup_check(text);
    return text;
}

static void copy_job(void)
{
    struct shell_result r =
        shell_run("cp tests/data/slow_link.job.json '%s/job.json'", scratch_dir);

    ck_assert_int_eq(r.code, 0);
}

/* Write a table of times, 300 ranks in 40 steps; rank 123 is slow. */
static void write_times(const char *name)
{
    char *path = scratch_path(scratch_dir, name);
    FILE *f = fopen(path, "w");

    ck_assert_ptr_nonnull(f);
    ck_assert_int_ge(fputs("rank,host,step,own_ms\n", f), 0);
    for (int i = 0; i < 300 * 40; i++)
        ck_assert_int_gt(fprintf(f, "%d,n<%d>,%d,%d.%d\n", i % 300, i % 300 / 8, i / 300,
                                 i % 300 == 123 ? 30 : 20, i * 7919 % 10),
                         0);
    ck_assert_int_eq(fclose(f), 0);
    free(path);
}

/* Write a trace of another program: two steps. */
static void write_trace(void)
{
    char *path = scratch_path(scratch_dir, "trace.json");
    FILE *f = fopen(path, "w");

    ck_assert_ptr_nonnull(f);
    for (int i = 0; i < KINETO_PARTS; i++)
        ck_assert_int_ge(fputs(kineto_parts[i], f), 0);
    ck_assert_int_eq(fclose(f), 0);
    free(path);
}

/* Write forecasts to 1,024 GPUs, a what-if, and the traces of a simulated run. */
static void make_inputs(void)
{
    copy_job();
    write_trace();
    program(0, "predict job.json dgx-h100 --gpus 8,16,32,64,128,256,512,1024 --anyway "
               "--out far.json");
    program(0, "predict job.json ethernet-25g --gpus 1,4,16,64 --anyway --out near.json "
               "--trace run --trace-steps 6");
    program(0, "whatif job.json ethernet-25g --gpus 16,64 --bucket-cap 1MiB,25MiB "
               "--accumulation 1,4 --anyway --out grid.json");
}

static bool says(const char *page, const char *sentence)
{
    struct lk_writer *w;
    char *text;
    size_t size;
    bool found;

    must(lk_writer_open_memory(&text, &size, &w));
    must(lk_xml_text(w, sentence));
    must(lk_writer_commit(w));
    found = strstr(page, text);
    free(text);
    return found;
}

START_TEST(a_page_says_what_the_forecast_says)
{
    static const char *const names[] = {"far.json", "near.json", "grid.json"};
    char *page;

    make_inputs();
    program(0, "report far.json near.json grid.json job.json ethernet-25g --out out");
    page = read_page("out/report.html");
    for (size_t k = 0; k < LK_COUNT(names); k++) {
        struct lk_forecast f = {0};
        char *path = scratch_path(scratch_dir, names[k]);

        must(lk_forecast_read(path, &f));
        ck_assert_uint_gt(f.n_answer, 0);
        for (size_t i = 0; i < f.n_answer; i++)
            ck_assert_msg(says(page, f.answer[i]), "%s: the page lacks: %s", names[k], f.answer[i]);
        lk_forecast_fini(&f);
        free(path);
    }
    ck_assert_ptr_nonnull(strstr(page, "id=\"lk-job\""));
    ck_assert_ptr_nonnull(strstr(page, "id=\"lk-cluster\""));
    ck_assert_ptr_nonnull(strstr(page, "id=\"lk-forecast\""));
    ck_assert_ptr_nonnull(strstr(page, "id=\"whatif\""));
    free(page);
}
END_TEST

/* A job on a cluster is forecast where no forecast is given: the page says what predict says, and
 * which settings gain. */
START_TEST(a_job_on_clusters_is_forecast)
{
    struct lk_forecast f = {0};
    char *page, *path;

    copy_job();
    program(0, "predict job.json dgx-h100 --gpus 1,2,4,8,16,32,64,128,256,512,1024 --out far.json");
    program(0, "report job.json dgx-h100 dgx-a100 --out out");
    page = read_page("out/report.html");
    path = scratch_path(scratch_dir, "far.json");
    must(lk_forecast_read(path, &f));
    ck_assert_uint_gt(f.n_answer, 0);
    for (size_t i = 0; i < f.n_answer; i++)
        ck_assert_msg(says(page, f.answer[i]), "the page lacks: %s", f.answer[i]);
    ck_assert_ptr_nonnull(strstr(page, "lockstep predict job.json dgx-a100 --gpus=1,2,4"));
    ck_assert_ptr_nonnull(strstr(page, "The forecasts side by side"));
    ck_assert_ptr_nonnull(strstr(page, "What to change"));
    ck_assert_ptr_nonnull(strstr(page, "Throughput by two settings"));
    lk_forecast_fini(&f);
    free(path);
    free(page);
}
END_TEST

START_TEST(the_same_inputs_make_the_same_page)
{
    char *a, *b;

    make_inputs();
    program(0, "report near.json run --out out");
    a = read_page("out/report.html");
    program(0, "report near.json run --out out");
    b = read_page("out/report.html");
    ck_assert_str_eq(a, b);
    free(a);
    free(b);
}
END_TEST

START_TEST(a_title_is_no_code)
{
    char *page;

    copy_job();
    program(0, "predict job.json ethernet-25g --gpus 1,4 --anyway --out f.json");
    program(0, "report f.json --title \"</title><script>alert(1)</script>it''s\" --out out");
    page = read_page("out/report.html");
    ck_assert_ptr_null(strstr(page, "<script>alert"));
    ck_assert(says(page, "</title><script>alert(1)</script>it''s"));
    free(page);
}
END_TEST

/* What contradicts a forecast is said first, by the page and by the terminal, and nothing is said
 * to reach a number that is not there; the page is whole, and the exit code is 1. */
START_TEST(a_contradiction_comes_first)
{
    static const char *const operands[] = {"bad.json", "bad.json worse.json", "good.json bad.json"};
    struct shell_result r;

    copy_job();
    program(1, "predict job.json ethernet-25g --gpus 1,4 --device-memory 1KiB --out bad.json");
    program(1, "predict job.json ethernet-10g --gpus 1,4 --device-memory 1KiB --out worse.json");
    program(0, "predict job.json ethernet-100g --gpus 1,4 --out good.json");
    for (size_t i = 0; i < LK_COUNT(operands); i++) {
        char *page;

        r = shell_program(scratch_dir, "report %s --out out%zu", operands[i], i);
        ck_assert_msg(r.code == 1 && !strncmp(r.text, "1 GPU: does not fit in memory", 29) &&
                          strstr(r.text, "report.html"),
                      "exit %d: %s", r.code, r.text);
        ck_assert_ptr_null(strstr(r.text, "measured contradicts"));
        page = read_page(i == 0   ? "out0/report.html"
                         : i == 1 ? "out1/report.html"
                                  : "out2/report.html");
        ck_assert(says(page, "1 GPU: does not fit in memory"));
        ck_assert_ptr_null(strstr(page, "reach - a step"));
        free(page);
    }
}
END_TEST

START_TEST(operands_of_no_kind_are_refused)
{
    char *path;

    make_inputs();
    program(1, "report missing.json --out out");
    program(2, "report job.json job.json --out out");
    program(2, "report run trace.json --out out");
    path = scratch_path(scratch_dir, "out/report.html");
    ck_assert(!lk_file_exists(path));
    free(path);
}
END_TEST

/* Open pages in a browser; return what check_page.py did. */
static struct shell_result browse(const char *pages)
{
    return shell_run("root=$PWD && cd '%s' && python3 \"$root/tests/check_page.py\" %s 2>&1",
                     scratch_dir, pages);
}

START_TEST(pages_work_in_a_browser)
{
    struct shell_result r;

    make_inputs();
    program(0, "report run near.json ethernet-25g job.json --out run-page");
    program(0, "report trace.json --out import-page");
    program(0, "report far.json grid.json --out far-page");
    r = browse("run-page/report.html import-page/report.html far-page/report.html");
    if (r.code == SKIPPED)
        skip("no chromium here");
    else
        ck_assert_msg(!r.code, "%s", r.text);
}
END_TEST

/* The check sees an error, a request, a figure without a size, and a page wider than a phone. */
START_TEST(the_browser_sees_what_is_wrong)
{
    static const char *const problems[] = {"console: planted", "a request: ", "is not seen",
                                           "the page is ", "it has no section"};
    char *path = scratch_path(scratch_dir, "report.html");
    FILE *f = fopen(path, "w");
    struct shell_result r;

    ck_assert_ptr_nonnull(f);
    ck_assert_int_ge(fputs("<!doctype html><title>x</title><button id=theme></button>"
                           "<figure><svg role=img width=1 height=1></svg></figure>"
                           "<p style='width:3000px'>wide</p><img src='x.png'>"
                           "<script>console.error('planted')</script>",
                           f),
                     0);
    ck_assert_int_eq(fclose(f), 0);
    free(path);
    r = browse("report.html");
    if (r.code == SKIPPED) {
        skip("no chromium here");
        return;
    }
    ck_assert_int_eq(r.code, 1);
    for (size_t i = 0; i < LK_COUNT(problems); i++)
        ck_assert_msg(strstr(r.text, problems[i]), "%s is not told: %s", problems[i], r.text);
}
END_TEST

/* A table of times has the page of its ranks, which says what analyze says; two tables, or one and
 * a run, are not one page. */
START_TEST(times)
{
    char *page;

    write_times("a.csv");
    write_times("b.csv");
    program(0, "report a.csv --out report");
    page = read_page("report/report.html");
    ck_assert_ptr_nonnull(strstr(page, "Rank 123 (host n&lt;15&gt;) is slowest in all of them"));
    ck_assert_ptr_nonnull(strstr(page, "lockstep analyze a.csv"));
    ck_assert_ptr_nonnull(strstr(page, "<svg"));
    free(page);
    program(2, "report a.csv b.csv --out two");
    program(2, "analyze a.csv b.csv");
    write_trace();
    program(2, "report a.csv trace.json --out two");
}
END_TEST

SUITE(report_page, tests)
{
    tcase_add_checked_fixture(tests, scratch_set_up, scratch_tear_down);
    tcase_set_timeout(tests, 300);
    tcase_add_test(tests, a_page_says_what_the_forecast_says);
    tcase_add_test(tests, a_job_on_clusters_is_forecast);
    tcase_add_test(tests, the_same_inputs_make_the_same_page);
    tcase_add_test(tests, a_title_is_no_code);
    tcase_add_test(tests, a_contradiction_comes_first);
    tcase_add_test(tests, operands_of_no_kind_are_refused);
    tcase_add_test(tests, times);
    tcase_add_test(tests, pages_work_in_a_browser);
    tcase_add_test(tests, the_browser_sees_what_is_wrong);
}
