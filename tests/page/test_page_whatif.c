/* What-if in a page, in a browser: tests/page/whatif.py moves its sliders. */
#include "base/file.h"
#include "base/page.h"
#include "reports/html.h"
#include "reports/whatif_module.h"
#include "tests/rigs/cases.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/shell.h"
#include "tests/rigs/skip.h"
#include "tests/rigs/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Read a file, which the caller frees. */
static char *text_of(const char *path)
{
    char *text = NULL;
    size_t size;

    ck_assert_msg(lk_file_read(path, &text, &size) == LK_OK, "%s", lk_error_text());
    return text;
}

/* Write a page of a job and a cluster to the scratch folder. */
static void write_page(const char *job_path, const char *cluster_path)
{
    char *job = text_of(job_path), *cluster = text_of(cluster_path);
    char *path = scratch_path(scratch_dir, "page.html");
    const struct lk_html html = {.title = "A what-if",
                                 .version = "test",
                                 .command_line = "lockstep report",
                                 .job = job,
                                 .cluster = cluster};
    struct lk_writer *w = NULL;

    ck_assert_int_eq(lk_writer_open(path, false, &w), LK_OK);
    ck_assert_msg(lk_html_write(w, &html) == LK_OK, "%s", lk_error_text());
    ck_assert_int_eq(lk_writer_commit(w), LK_OK);
    free(path);
    free(job);
    free(cluster);
}

/* Random settings of the sliders have the program's numbers, and nothing leaves the page. */
START_TEST(sliders_give_the_programs_numbers)
{
    const int settings = (int)cases_or(50);
    struct shell_result r;
    char says[32];

    if (lk_whatif_module().missing) {
        skip("%s", lk_whatif_module().missing);
        return;
    }
    if (shell_run("command -v chromium").code) {
        skip("no chromium to open a page in");
        return;
    }
    ck_assert_int_eq(shell_run("mkdir %s/at", scratch_dir).code, 0);
    write_page("tests/fuzz/corpus/job/full.json", "tests/fuzz/corpus/cluster/full.json");
    r = shell_run("tests/page/whatif.py " LK_BUILD_DIR "/lockstep %s/page.html %s/at %d 2>&1",
                  scratch_dir, scratch_dir, settings);
    ck_assert_msg(r.code == 0, "%s", r.text);
    snprintf(says, sizeof says, "%d settings, ", settings);
    ck_assert_msg(strstr(r.text, says) == r.text, "%s", r.text);
}
END_TEST

/* A page without the module says why, and how to ask instead. */
START_TEST(page_without_job_says_what_to_give)
{
    const struct lk_html html = {
        .title = "t", .version = "test", .command_line = "lockstep report", .cluster = "{}"};
    struct lk_writer *w = NULL;
    char *text = NULL;
    size_t size;

    ck_assert_int_eq(lk_writer_open_memory(&text, &size, &w), LK_OK);
    ck_assert_int_eq(lk_html_write(w, &html), LK_OK);
    ck_assert_int_eq(lk_writer_commit(w), LK_OK);
    ck_assert_ptr_nonnull(strstr(text, "Give lockstep report the job and the cluster"));
    ck_assert_ptr_null(strstr(text, "lk-module"));
    free(text);
}
END_TEST

SUITE(page_whatif, c)
{
    tcase_add_checked_fixture(c, scratch_set_up, scratch_tear_down);
    tcase_add_test(c, page_without_job_says_what_to_give);
    tcase_add_test(c, sliders_give_the_programs_numbers);
}
