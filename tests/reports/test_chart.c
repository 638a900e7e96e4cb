/* Charts: ranges, ticks, notes, and what gnuplot is given to read. */
#include "base/array.h"
#include "base/file.h"
#include "reports/chart/chart.h"
#include "reports/chart/gnuplot_script.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct lk_chart chart;
static struct lk_chart_panel *panel;
static struct lk_chart_layer *layer;

static void begin(enum lk_chart_scale x, enum lk_chart_scale y, enum lk_chart_kind kind)
{
    ck_assert_int_eq(lk_chart_init(&chart, "c", "title"), LK_OK);
    ck_assert_int_eq(lk_chart_panel(&chart, NULL, &panel), LK_OK);
    ck_assert_int_eq(lk_chart_axis(&panel->x, "x", x, LK_DIM_COUNT), LK_OK);
    ck_assert_int_eq(lk_chart_axis(&panel->y, "y", y, LK_DIM_TIME), LK_OK);
    ck_assert_int_eq(lk_chart_layer(panel, kind, LK_CHART_BLUE, "l", &layer), LK_OK);
}

static void mark(double x, double y)
{
    ck_assert_int_eq(lk_chart_mark(layer, (struct lk_chart_mark){.x = x, .y = y}), LK_OK);
}

static void finish(void)
{
    ck_assert_msg(lk_chart_finish(&chart) == LK_OK, "%s", lk_error_text());
}

static void end(void)
{
    lk_chart_fini(&chart);
}

static const char *tick(const struct lk_chart_axis *a, size_t i)
{
    ck_assert_uint_lt(i, a->n_ticks);
    return a->ticks[i].label;
}

/* Ticks are round numbers within the range, without noise of binary fractions. */
START_TEST(linear_ticks_are_round)
{
    begin(LK_CHART_LINEAR, LK_CHART_LINEAR, LK_CHART_LINE);
    mark(0, 0.1);
    mark(1, 0.6);
    finish();
    ck_assert(panel->y.from < 0.1 && panel->y.from > 0 && panel->y.to > 0.6);
    ck_assert_str_eq(tick(&panel->y, 0), "100 ms");
    ck_assert_str_eq(tick(&panel->y, 2), "300 ms"); /* 3 * 0.1 is not the double 0.3 */
    end();
}
END_TEST

START_TEST(log_ticks_are_powers)
{
    begin(LK_CHART_LOG2, LK_CHART_LOG10, LK_CHART_LINE);
    mark(1, 1e-3);
    mark(8, 10);
    finish();
    ck_assert_uint_eq(panel->x.n_ticks, 4);
    ck_assert_str_eq(tick(&panel->x, 3), "8");
    ck_assert_str_eq(tick(&panel->y, 0), "1 ms");
    ck_assert_double_eq_tol(lk_chart_at(&panel->x, sqrt(panel->x.from * panel->x.to)), 0.5, 1e-12);
    end();
}
END_TEST

/* A million GPUs have no more labels than fit, and each is the whole number. */
START_TEST(a_long_log_axis_has_few_ticks)
{
    begin(LK_CHART_LOG2, LK_CHART_LINEAR, LK_CHART_LINE);
    mark(1, 1);
    mark(1048576, 2);
    finish();
    ck_assert_uint_le(panel->x.n_ticks, 9);
    ck_assert_str_eq(tick(&panel->x, panel->x.n_ticks - 1), "262144");
    end();
}
END_TEST

START_TEST(one_point_has_a_range)
{
    begin(LK_CHART_LOG2, LK_CHART_LINEAR, LK_CHART_POINTS);
    mark(8, 2);
    finish();
    ck_assert(panel->x.from < 8 && panel->x.to > 8);
    ck_assert(panel->y.from < 2 && panel->y.to > 2);
    ck_assert_uint_gt(panel->x.n_ticks, 0);
    for (size_t i = 0; i < panel->x.n_ticks; i++) /* of whole GPUs */
        ck_assert_double_eq(panel->x.ticks[i].at, floor(panel->x.ticks[i].at));
    end();
}
END_TEST

/* Points without a bar, whose lo and hi are 0, do not draw the axis down to 0. */
START_TEST(a_point_without_a_bar_widens_nothing)
{
    begin(LK_CHART_LINEAR, LK_CHART_LINEAR, LK_CHART_POINTS);
    mark(1, 100);
    mark(2, 101);
    finish();
    ck_assert_double_gt(panel->y.from, 99);
    end();
}
END_TEST

START_TEST(boxes_begin_at_zero_and_reach_below_it)
{
    begin(LK_CHART_LINEAR, LK_CHART_LINEAR, LK_CHART_BOXES);
    ck_assert_int_eq(
        lk_chart_mark(layer, (struct lk_chart_mark){.x = 1, .x2 = 2, .lo = 3, .hi = 5}), LK_OK);
    ck_assert_int_eq(
        lk_chart_mark(layer, (struct lk_chart_mark){.x = 2, .x2 = 3, .lo = -1, .hi = 0}), LK_OK);
    finish();
    ck_assert_double_eq(panel->x.from, 0);
    ck_assert_double_lt(panel->y.from, -1);
    end();
}
END_TEST

START_TEST(a_log_axis_notes_what_it_leaves_out)
{
    begin(LK_CHART_LINEAR, LK_CHART_LOG10, LK_CHART_POINTS);
    mark(1, 1);
    mark(2, 0);
    mark(3, -1);
    finish();
    ck_assert_uint_eq(chart.n_notes, 1);
    ck_assert_ptr_nonnull(strstr(chart.notes[0], "2 values"));
    end();
}
END_TEST

START_TEST(an_empty_chart_is_refused)
{
    begin(LK_CHART_LINEAR, LK_CHART_LINEAR, LK_CHART_POINTS);
    mark(1, NAN);
    ck_assert_int_eq(lk_chart_finish(&chart), LK_EEVIDENCE);
    end();
}
END_TEST

/* ---- What gnuplot reads ---- */

typedef enum lk_status (*put_fn)(struct lk_writer *w);

static char *written(put_fn put)
{
    struct lk_writer *w;
    char *text;
    size_t size;

    ck_assert_int_eq(lk_writer_open_memory(&text, &size, &w), LK_OK);
    ck_assert_int_eq(put(w), LK_OK);
    ck_assert_int_eq(lk_writer_commit(w), LK_OK);
    return text;
}

static enum lk_status put_data(struct lk_writer *w)
{
    return lk_gnuplot_data(w, &chart);
}

/* A row a mark; a number that it has not is empty; a line break in a text starts no row. */
START_TEST(the_table_has_a_row_a_mark)
{
    char *text;

    begin(LK_CHART_LINEAR, LK_CHART_LINEAR, LK_CHART_POINTS);
    mark(1, 2);
    ck_assert_int_eq(
        lk_chart_mark(layer,
                      (struct lk_chart_mark){
                          .x = 2, .y = 3, .lo = 2.5, .hi = 3.5, .text = (char[]){"a \"b\"\n5,6"}}),
        LK_OK);
    finish();
    text = written(put_data);
    ck_assert_str_eq(text, "x,x2,y,lo,hi,share,panel,layer,text\n\n\n1,,2,,,,\"\",\"l\",\"\"\n"
                           "2,,3,2.5,3.5,,\"\",\"l\",\"a \"\"b\"\" 5,6\"\n");
    free(text);
    end();
}
END_TEST

static const char *quoted;

static enum lk_status put_quoted(struct lk_writer *w)
{
    return lk_gnuplot_quote(w, quoted);
}

/* Whatever a name holds, it stays within single quotes. */
START_TEST(names_are_quoted)
{
    static const struct {
        const char *name, *text;
    } cases[] = {
        {"plain", "'plain'"},
        {"it's", "'it'.\"'\".'s'"},
        {"it''s", "'it'.\"'\".''.\"'\".'s'"},
        {"a\nb", "'a'.\"\\n\".'b'"},
        {"`date` @m {/Bold x} \\n $x", "'`date` @m {/Bold x} \\n $x'"},
        {"\x1b[31m", "'?[31m'"},
        {"a\xe2\x80\xae"
         "b",
         "'a?b'"}, /* U+202E turns the direction */
        {"\xff\xc3", "'?"
                     "?'"},                            /* not UTF-8 */
        {"\xe0\x80\x80\xed\xa0\x80", "'?\?\?\?\?\?'"}, /* overlong; a surrogate */
        {"\xc3\xa9\xe2\x82\xac", "'\xc3\xa9\xe2\x82\xac'"},
    };

    for (size_t i = 0; i < LK_COUNT(cases); i++) {
        char *text;

        quoted = cases[i].name;
        text = written(put_quoted);
        ck_assert_str_eq(text, cases[i].text);
        free(text);
    }
}
END_TEST

static enum lk_status put_script(struct lk_writer *w)
{
    return lk_gnuplot_script(w, &chart, &lk_draw_slide);
}

/* An entry of the key has one line, so that it does not cover the next; a long one ends in "…". */
START_TEST(the_key_has_a_line_an_entry)
{
    char *text;

    begin(LK_CHART_LINEAR, LK_CHART_LINEAR, LK_CHART_POINTS);
    free(layer->label);
    ck_assert_int_eq(lk_strdup(&layer->label, "two\nlines"), LK_OK);
    mark(1, 2);
    finish();
    text = written(put_script);
    ck_assert_ptr_nonnull(strstr(text, " title ''.'two'.' '.'lines'"));
    free(text);
    end();
}
END_TEST

START_TEST(type_is_in_proportion)
{
    struct lk_draw_options o = lk_draw_slide;

    ck_assert_double_eq(lk_draw_type(&o), 20);
    o.width = 3200;
    o.height = 1800;
    ck_assert_double_eq(lk_draw_type(&o), 40);
    o.width = 320;
    ck_assert_double_eq(lk_draw_type(&o), 11);
}
END_TEST

SUITE(chart, c)
{
    tcase_add_test(c, linear_ticks_are_round);
    tcase_add_test(c, log_ticks_are_powers);
    tcase_add_test(c, a_long_log_axis_has_few_ticks);
    tcase_add_test(c, one_point_has_a_range);
    tcase_add_test(c, a_point_without_a_bar_widens_nothing);
    tcase_add_test(c, boxes_begin_at_zero_and_reach_below_it);
    tcase_add_test(c, a_log_axis_notes_what_it_leaves_out);
    tcase_add_test(c, an_empty_chart_is_refused);
    tcase_add_test(c, the_table_has_a_row_a_mark);
    tcase_add_test(c, names_are_quoted);
    tcase_add_test(c, the_key_has_a_line_an_entry);
    tcase_add_test(c, type_is_in_proportion);
}
