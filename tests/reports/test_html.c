/* Reports as HTML: whole and well-formed whatever the names are, without a request, and small. */
#include "base/array.h"
#include "base/file.h"
#include "reports/html.h"
#include "tests/rigs/markup.h"
#include "tests/rigs/suite.h"

#include <stdlib.h>
#include <string.h>

#define HOSTILE "</script><script>alert(1)</script>&\"'\x1b[31m\xff \xe2\x80\xae]]>-->"

static const struct lk_column columns[] = {
    {"rank", "rank", LK_DIM_NONE, -1},   {"batch", "batch", LK_DIM_NONE, -1},
    {"step_s", "step", LK_DIM_TIME, -1}, {"lo_s", "from", LK_DIM_TIME, -1},
    {"hi_s", "to", LK_DIM_TIME, -1},     {"host", HOSTILE, LK_DIM_NONE, -1}};
static const struct lk_view_column view[] = {
    LK_VIEW("rank"), LK_VIEW("batch"), LK_VIEW_RANGE("step_s", "lo_s", "hi_s"), LK_VIEW("host")};

static void add_table(struct lk_page *p, const char *name, size_t n, enum lk_page_place place)
{
    struct lk_table *t;

    ck_assert_int_eq(lk_table_create("Ranks of " HOSTILE, columns, LK_COUNT(columns), &t), LK_OK);
    for (size_t i = 0; i < n; i++) {
        ck_assert_int_eq(lk_table_row(t), LK_OK);
        ck_assert_int_eq(lk_table_number(t, "rank", (double)i), LK_OK);
        ck_assert_int_eq(lk_table_number(t, "batch", 4), LK_OK);
        ck_assert_int_eq(lk_table_number(t, "step_s", i ? 0.016 : 0.015), LK_OK);
        ck_assert_int_eq(lk_table_number(t, "lo_s", 0.014), LK_OK);
        ck_assert_int_eq(lk_table_number(t, "hi_s", 0.017), LK_OK);
        ck_assert_int_eq(lk_table_word(t, "host", i % 2 ? "b" : HOSTILE), LK_OK);
    }
    ck_assert_int_eq(lk_table_note(t, "a note of %s", HOSTILE), LK_OK);
    ck_assert_int_eq(lk_page_table(p, name, place, view, LK_COUNT(view), &t), LK_OK);
}

static void add_chart(struct lk_chart *c)
{
    struct lk_chart_panel *p;
    struct lk_chart_layer *l;

    ck_assert_int_eq(lk_chart_init(c, "efficiency", "Efficiency of " HOSTILE), LK_OK);
    ck_assert_int_eq(lk_chart_panel(c, NULL, &p), LK_OK);
    ck_assert_int_eq(lk_chart_axis(&p->x, "GPUs", LK_CHART_LOG2, LK_DIM_COUNT), LK_OK);
    ck_assert_int_eq(lk_chart_axis(&p->y, "efficiency", LK_CHART_LINEAR, LK_DIM_NONE), LK_OK);
    ck_assert_int_eq(lk_chart_layer(p, LK_CHART_POINTS, LK_CHART_BLUE, "measured", &l), LK_OK);
    ck_assert_int_eq(lk_chart_mark(l, (struct lk_chart_mark){.x = 8, .y = 0.9}), LK_OK);
    ck_assert_int_eq(lk_chart_finish(c), LK_OK);
}

static char *write_html(const struct lk_html *page)
{
    struct lk_writer *w;
    char *text;
    size_t size;

    ck_assert_int_eq(lk_writer_open_memory(&text, &size, &w), LK_OK);
    ck_assert_int_eq(lk_html_write(w, page), LK_OK);
    ck_assert_int_eq(lk_writer_commit(w), LK_OK);
    ck_assert_uint_eq(strlen(text), size);
    return text;
}

static size_t occurrences(const char *text, const char *of)
{
    size_t n = 0;

    for (; (text = strstr(text, of)); text++)
        n++;
    return n;
}

/* Write a page of two sections with n rows; the caller frees the text. */
static char *make_page(size_t n)
{
    struct lk_page page = {0}, obtained = {0};
    struct lk_chart chart;
    char *change = HOSTILE, *text;
    struct lk_html_section s[2];

    ck_assert_int_eq(lk_page_contradict(&page, "The model is refuted."), LK_OK);
    ck_assert_int_eq(lk_page_say(&page, "64 GPUs reach 61 %% of %s.", HOSTILE), LK_OK);
    ck_assert_int_eq(lk_page_note(&page, "%s", HOSTILE), LK_OK);
    ck_assert_int_eq(lk_page_next(&page, "%s", HOSTILE), LK_OK);
    add_table(&page, "points", n, LK_PAGE_MAIN);
    add_table(&page, "details", n, LK_PAGE_DETAIL);
    ck_assert_int_eq(lk_page_note(&obtained, "clocks within 3 us"), LK_OK);
    add_chart(&chart);
    s[0] = (struct lk_html_section){HOSTILE, "lockstep analyze " HOSTILE, &page, &change, 1, &chart,
                                    1};
    s[1] = (struct lk_html_section){.heading = "two", .page = &page};
    text = write_html(&(struct lk_html){.title = HOSTILE,
                                        .version = "1.0",
                                        .command_line = "lockstep report " HOSTILE,
                                        .sections = s,
                                        .n_sections = 2,
                                        .obtained = &obtained,
                                        .job = "{\"name\": \"</script>&\xe2\x80\xae\xff\"}"});
    lk_chart_fini(&chart);
    lk_page_fini(&page);
    lk_page_fini(&obtained);
    return text;
}

START_TEST(a_page_is_whole)
{
    char *text = make_page(3), *again = make_page(3);

    markup_check(text);
    ck_assert_str_eq(text, again);
    ck_assert_ptr_nonnull(strstr(text, "<p class=\"contradiction\">The model is refuted.</p>"));
    ck_assert_ptr_nonnull(strstr(text, "64 GPUs reach 61 % of "));
    ck_assert_ptr_nonnull(strstr(text, "clocks within 3 us"));
    ck_assert_uint_eq(markup_count(text, "svg"), 4); /* for two widths, each with its plot */
    ck_assert_uint_eq(markup_count(text, "figure"), 1);
    ck_assert_uint_eq(markup_count(text, "table"), 4);
    ck_assert_uint_eq(markup_count(text, "details"), 2);
    /* A value is sorted by its number, and has its interval in the same cell. */
    ck_assert_ptr_nonnull(strstr(text, "data-v=\"0.015\">15.0 ms (14.0 to 17.0)</td>"));
    ck_assert_ptr_nonnull(strstr(text, "The same in all rows: batch 4."));
    free(again);
    free(text);
}
END_TEST

/* Two scripts are the page's own: the data, and what sorts. */
START_TEST(a_hostile_name_is_no_code)
{
    char *text = make_page(3);

    ck_assert_uint_eq(markup_count(text, "script"), 2);
    ck_assert_uint_eq(occurrences(text, "alert(1)"), occurrences(text, "&lt;script&gt;alert(1)"));
    ck_assert_ptr_nonnull(
        strstr(text, "{\"name\": \"\\u003c/script\\u003e\\u0026\\u202e\\ufffd\"}"));
    free(text);
}
END_TEST

START_TEST(a_page_asks_for_nothing)
{
    char *text = make_page(3), *policy = strstr(text, "Content-Security-Policy");

    ck_assert_ptr_nonnull(policy);
    ck_assert_ptr_nonnull(strstr(policy, "default-src 'none'"));
    ck_assert_ptr_null(strstr(text, " src="));
    ck_assert_ptr_null(strstr(text, "url("));
    ck_assert_ptr_null(strstr(text, "@import"));
    /* The only address is the name space of SVG. */
    ck_assert_uint_eq(occurrences(text, "http"),
                      occurrences(text, "http-equiv") + occurrences(text, "http://www.w3.org/"));
    free(text);
}
END_TEST

START_TEST(long_tables_are_cut_with_a_word)
{
    char *text = make_page(LK_HTML_ROWS + 1);

    markup_check(text);
    ck_assert_uint_eq(occurrences(text, "<td class=\"n\" data-v=\"399\">"), 4);
    ck_assert_ptr_null(strstr(text, "<td class=\"n\" data-v=\"400\">"));
    ck_assert_uint_eq(occurrences(text, "The first 400 of 401 rows"), 4);
    ck_assert_ptr_nonnull(strstr(text, " --format csv --table details</code>"));
    free(text);
}
END_TEST

SUITE(html, tests)
{
    tcase_add_test(tests, a_page_is_whole);
    tcase_add_test(tests, a_hostile_name_is_no_code);
    tcase_add_test(tests, a_page_asks_for_nothing);
    tcase_add_test(tests, long_tables_are_cut_with_a_word);
}
