/* Pages: the answer comes first, views keep to a width, formats for programs leave nothing out. */
#include "base/array.h"
#include "base/file.h"
#include "base/label.h"
#include "reports/page.h"
#include "reports/text_table.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct lk_column columns[] = {
    {"gpus", "GPUs", LK_DIM_NONE, -1},     {"local_batch", "local batch", LK_DIM_NONE, -1},
    {"step_s", "step", LK_DIM_TIME, -1},   {"step_lo_s", "from", LK_DIM_TIME, -1},
    {"step_hi_s", "to", LK_DIM_TIME, -1},  {"evidence", "evidence", LK_DIM_NONE, -1},
    {"empty", "nothing", LK_DIM_NONE, -1},
};
static const struct lk_view_column view[] = {LK_VIEW("gpus"), LK_VIEW("local_batch"),
                                             LK_VIEW_RANGE("step_s", "step_lo_s", "step_hi_s"),
                                             LK_VIEW("empty"), LK_VIEW("evidence")};

static void fill(struct lk_page *p)
{
    struct lk_table *t, *second;

    ck_assert_int_eq(lk_table_create("Points", columns, LK_COUNT(columns), &t), LK_OK);
    for (int i = 1; i <= 2; i++) {
        ck_assert_int_eq(lk_table_row(t), LK_OK);
        ck_assert_int_eq(lk_table_number(t, "gpus", 8 * i), LK_OK);
        ck_assert_int_eq(lk_table_number(t, "local_batch", 4), LK_OK);
        ck_assert_int_eq(lk_table_number(t, "step_s", 0.0152 * i), LK_OK);
        ck_assert_int_eq(lk_table_number(t, "step_lo_s", i == 1 ? 0.0009 : 0.0146), LK_OK);
        ck_assert_int_eq(lk_table_number(t, "step_hi_s", 0.0367), LK_OK);
        ck_assert_int_eq(lk_table_word(t, "evidence",
                                       i == 1
                                           ? "measured"
                                           : "extrapolated x2 on gpus, and on local batch as well"),
                         LK_OK);
    }
    ck_assert_int_eq(lk_table_note(t, "a note of the table"), LK_OK);
    ck_assert_int_eq(lk_table_create("Details", columns, 1, &second), LK_OK);
    ck_assert_int_eq(lk_page_say(p, "%d GPUs reach 61 %% of linear.", 64), LK_OK);
    ck_assert_int_eq(lk_page_table(p, "points", LK_PAGE_MAIN, view, LK_COUNT(view), &t), LK_OK);
    ck_assert_int_eq(lk_page_table(p, "details", LK_PAGE_DETAIL, NULL, 0, &second), LK_OK);
    ck_assert_ptr_null(t);
    ck_assert_int_eq(lk_page_note(p, "assumed: a network"), LK_OK);
    ck_assert_int_eq(lk_page_next(p, "Written: forecast.json"), LK_OK);
    ck_assert_int_eq(lk_page_value(p, "efficiency", "gpus=\"64\"", LK_DIM_NONE, 0.61), LK_OK);
}

/* Print a page; the caller frees the text. */
static char *print_page(const struct lk_page *p, const struct lk_page_style *s,
                        enum lk_status expected)
{
    char path[] = "/tmp/lockstep-page-XXXXXX";
    int fd = mkstemp(path);
    char *text = NULL;
    size_t size;

    ck_assert_int_ge(fd, 0);
    close(fd);
    ck_assert_int_eq(lk_page_print(p, s, path), expected);
    ck_assert_int_eq(lk_file_read(path, &text, &size), LK_OK);
    ck_assert_int_eq(unlink(path), 0);
    return text;
}

/* Print the page of the tests likewise. */
static char *print(const struct lk_page_style *s, enum lk_status expected)
{
    struct lk_page p = {0};
    char *text;

    fill(&p);
    text = print_page(&p, s, expected);
    lk_page_fini(&p);
    return text;
}

START_TEST(text_begins_with_its_answer)
{
    const struct lk_page_style s = {.width = 60};
    char *text = print(&s, LK_OK);

    ck_assert_str_eq(text, "64 GPUs reach 61 % of linear.\n"
                           "\n"
                           "Points\n"
                           "  GPUs                         step  evidence\n"
                           "     8  15.2 ms (900 us to 36.7 ms)  measured\n"
                           "    16       30.4 ms (14.6 to 36.7)  extrapolated x2 on\n"
                           "                                     gpus, and on local\n"
                           "                                     batch as well\n"
                           "  the same in all rows: local batch 4\n"
                           "\n"
                           "assumed: a network\n"
                           "\n"
                           "More by --verbose: details, 1 note\n"
                           "Written: forecast.json\n");
    free(text);
}
END_TEST

START_TEST(answer_alone_and_whole)
{
    struct lk_page_style s = {.width = 60, .options.quiet = true};
    char *text = print(&s, LK_OK);

    ck_assert_str_eq(text, "64 GPUs reach 61 % of linear.\n");
    free(text);
    s = (struct lk_page_style){.width = 60, .options.verbose = true};
    text = print(&s, LK_OK);
    ck_assert_ptr_nonnull(strstr(text, "Details\n"));
    ck_assert_ptr_nonnull(strstr(text, "a note of the table\n"));
    ck_assert_ptr_nonnull(strstr(text, "from"));
    ck_assert_ptr_null(strstr(text, "--verbose"));
    free(text);
}
END_TEST

START_TEST(no_line_is_wider)
{
    for (size_t width = 40; width < 120; width++) {
        const struct lk_page_style s = {.width = width};
        char *text = print(&s, LK_OK);

        for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
            ck_assert_msg(strlen(line) <= width, "%zu: '%s'", width, line);
        free(text);
    }
}
END_TEST

START_TEST(one_table_for_programs)
{
    struct lk_page_style s = {.options.format = LK_FORMAT_CSV};
    char *text = print(&s, LK_OK);

    ck_assert(!strncmp(text, "gpus,local_batch,step_s,", 24));
    ck_assert_ptr_null(strstr(text, "\n\n"));
    free(text);
    s.options.table = "details";
    text = print(&s, LK_OK);
    ck_assert_str_eq(text, "gpus\n");
    free(text);
    s.options.table = "none";
    text = print(&s, LK_EUSAGE);
    ck_assert_str_eq(text, "");
    ck_assert_str_eq(lk_error_text(),
                     "--table=none: no such table here; there are: points, details");
    free(text);
}
END_TEST

START_TEST(document_has_all)
{
    const struct lk_page_style s = {.options.format = LK_FORMAT_JSON,
                                    .command = "predict",
                                    .command_line = "lockstep predict 'a b'",
                                    .version = "1"};
    char *text = print(&s, LK_OK);
    static const char *const parts[] = {"\"schema\": \"lockstep-page\"",
                                        "\"version\": 1",
                                        "\"command\": \"predict\"",
                                        "\"command_line\": \"lockstep predict 'a b'\"",
                                        "64 GPUs reach",
                                        "assumed: a network",
                                        "\"efficiency\"",
                                        "\"details\"",
                                        "a note of the table"};

    for (size_t i = 0; i < LK_COUNT(parts); i++)
        ck_assert_msg(strstr(text, parts[i]) != NULL, "%s is not in %s", parts[i], text);
    free(text);
}
END_TEST

/* Nothing that a name may hold is markup, or ends a cell. */
START_TEST(markdown_is_escaped)
{
    static const struct lk_column names[] = {{"name", "a|name", LK_DIM_NONE, -1},
                                             {"n", "n", LK_DIM_NONE, -1}};
    const struct lk_page_style s = {.options.format = LK_FORMAT_MARKDOWN};
    struct lk_page p = {0};
    struct lk_table *t;
    char *text;

    ck_assert_int_eq(lk_page_say(&p, "The job *x* reaches 61 %%."), LK_OK);
    ck_assert_int_eq(lk_table_create("One | two", names, LK_COUNT(names), &t), LK_OK);
    ck_assert_int_eq(lk_table_row(t), LK_OK);
    ck_assert_int_eq(lk_table_word(t, "name", "a|b <script> `c`\nd_e #1 \\"), LK_OK);
    ck_assert_int_eq(lk_table_number(t, "n", 2), LK_OK);
    ck_assert_int_eq(lk_page_table(&p, "t", LK_PAGE_MAIN, NULL, 0, &t), LK_OK);
    ck_assert_int_eq(lk_page_note(&p, "a note"), LK_OK);
    text = print_page(&p, &s, LK_OK);
    ck_assert_str_eq(text, "The job \\*x\\* reaches 61 %.\n\n"
                           "**One \\| two**\n\n"
                           "| a\\|name | n |\n"
                           "|---|--:|\n"
                           "| a\\|b &lt;script\\> \\`c\\` d\\_e \\#1 \\\\ | 2 |\n\n"
                           "- a note\n\n");
    free(text);
    lk_page_fini(&p);
}
END_TEST

START_TEST(markdown_has_views)
{
    struct lk_page_style s = {.options.format = LK_FORMAT_MARKDOWN};
    char *text = print(&s, LK_OK);

    ck_assert_ptr_nonnull(strstr(text, "| 8 | 4 | 15.2 ms (900 us to 36.7 ms) | measured |\n"));
    ck_assert_ptr_null(strstr(text, "Details"));
    ck_assert_ptr_null(strstr(text, "a note of the table"));
    free(text);
    s.options.verbose = true;
    text = print(&s, LK_OK);
    ck_assert_ptr_nonnull(strstr(text, "**Details**"));
    ck_assert_ptr_nonnull(strstr(text, "- a note of the table\n"));
    free(text);
}
END_TEST

START_TEST(values_for_prometheus)
{
    const struct lk_page_style s = {.options.format = LK_FORMAT_PROMETHEUS, .command = "predict"};
    struct lk_page p = {0};
    char *text, *labels = NULL;

    ck_assert_int_eq(lk_label_add(&labels, "Slow-Rank", "a\\b\"c\nd"), LK_OK);
    ck_assert_int_eq(lk_page_value(&p, "efficiency", labels, LK_DIM_NONE, 0.5), LK_OK);
    ck_assert_int_eq(lk_page_value(&p, "step_s", "", LK_DIM_TIME, INFINITY), LK_OK);
    ck_assert_int_eq(lk_page_value(&p, "efficiency", "gpus=\"64\"", LK_DIM_NONE, 0.25), LK_OK);
    text = print_page(&p, &s, LK_OK);
    ck_assert_str_eq(text,
                     "# HELP lockstep_efficiency The value efficiency of a page, unit 1.\n"
                     "# TYPE lockstep_efficiency gauge\n"
                     "lockstep_efficiency{command=\"predict\",slow_rank=\"a\\\\b\\\"c\\nd\"} 0.5\n"
                     "lockstep_efficiency{command=\"predict\",gpus=\"64\"} 0.25\n"
                     "# HELP lockstep_step_s The value step_s of a page, unit s.\n"
                     "# TYPE lockstep_step_s gauge\n"
                     "lockstep_step_s{command=\"predict\"} +Inf\n");
    free(text);
    free(labels);
    lk_page_fini(&p);
    ck_assert_int_eq(lk_page_say(&p, "No values."), LK_OK);
    free(print_page(&p, &s, LK_EUSAGE));
    lk_page_fini(&p);
}
END_TEST

/* A job's name may hold anything; none of it may reach the terminal as a command. */
START_TEST(lines_are_printable)
{
    struct lk_page p = {0};

    ck_assert_int_eq(lk_page_say(&p, "job %s", "\033[2Jx"), LK_OK);
    ck_assert_int_eq(lk_page_note(&p, "job %s", "\033[2Jx"), LK_OK);
    ck_assert_str_eq(p.answer[0], "job ?[2Jx");
    ck_assert_str_eq(p.notes[0], "job ?[2Jx");
    lk_page_fini(&p);
}
END_TEST

SUITE(page, c)
{
    tcase_add_test(c, markdown_is_escaped);
    tcase_add_test(c, markdown_has_views);
    tcase_add_test(c, values_for_prometheus);
    tcase_add_test(c, text_begins_with_its_answer);
    tcase_add_test(c, answer_alone_and_whole);
    tcase_add_test(c, no_line_is_wider);
    tcase_add_test(c, one_table_for_programs);
    tcase_add_test(c, document_has_all);
    tcase_add_test(c, lines_are_printable);
}
