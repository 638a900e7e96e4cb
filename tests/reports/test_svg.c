/* Charts as SVG: well-formed whatever their texts are, small, and with all that they show. */
#include "base/array.h"
#include "base/file.h"
#include "reports/chart/svg.h"
#include "reports/chart/xml.h"
#include "tests/rigs/markup.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOSTILE "<script>alert(1)</script>&\"'\n\x1b[31m\xff \xe2\x80\xae]]>--"

static struct lk_chart chart;
static struct lk_chart_panel *panel;

static void begin(const char *title, enum lk_chart_scale x, enum lk_chart_scale y)
{
    ck_assert_int_eq(lk_chart_init(&chart, "test", title), LK_OK);
    ck_assert_int_eq(lk_chart_panel(&chart, NULL, &panel), LK_OK);
    ck_assert_int_eq(lk_chart_axis(&panel->x, "GPUs", x, LK_DIM_NONE), LK_OK);
    ck_assert_int_eq(lk_chart_axis(&panel->y, "efficiency (%)", y, LK_DIM_NONE), LK_OK);
}

static struct lk_chart_layer *layer(enum lk_chart_kind kind, const char *label)
{
    struct lk_chart_layer *l;

    ck_assert_int_eq(lk_chart_layer(panel, kind, LK_CHART_BLUE, label, &l), LK_OK);
    return l;
}

static void mark(struct lk_chart_layer *l, struct lk_chart_mark m)
{
    ck_assert_int_eq(lk_chart_mark(l, m), LK_OK);
}

/* Finish the chart and draw it; the caller frees the text. */
static char *draw(double width)
{
    struct lk_writer *w;
    char *text;
    size_t size;

    ck_assert_int_eq(lk_chart_finish(&chart), LK_OK);
    ck_assert_int_eq(lk_writer_open_memory(&text, &size, &w), LK_OK);
    ck_assert_int_eq(lk_chart_svg(w, &chart, width), LK_OK);
    ck_assert_int_eq(lk_writer_commit(w), LK_OK);
    lk_chart_fini(&chart);
    markup_check(text);
    return text;
}

START_TEST(all_kinds_of_marks_are_drawn)
{
    struct lk_chart_layer *l;
    char *text;

    begin("Two points", LK_CHART_LOG2, LK_CHART_LINEAR);
    panel->y.percent = true;
    l = layer(LK_CHART_BAND, "90 %");
    mark(l, (struct lk_chart_mark){.x = 8, .lo = 0.8, .hi = 0.95});
    mark(l, (struct lk_chart_mark){.x = 64, .lo = 0.7, .hi = 0.9});
    l = layer(LK_CHART_LINE, "forecast");
    l->style = LK_CHART_DASHED;
    mark(l, (struct lk_chart_mark){.x = 8, .y = 0.9});
    mark(l, (struct lk_chart_mark){.x = 64, .y = 0.8, .text = "80 %"});
    l = layer(LK_CHART_POINTS, "measured");
    mark(l, (struct lk_chart_mark){.x = 8, .y = 0.9, .lo = 0.85, .hi = 0.93});
    l = layer(LK_CHART_POINTS, "assumed");
    l->style = LK_CHART_DASHED;
    mark(l, (struct lk_chart_mark){.x = 16, .y = 0.9});
    ck_assert_int_eq(lk_chart_say(&chart, "Efficiency falls to 80 %%."), LK_OK);
    ck_assert_int_eq(lk_chart_note(&chart, "the band has 90 %%"), LK_OK);
    text = draw(LK_SVG_WIDTH);
    ck_assert_ptr_nonnull(strstr(text, "role=\"img\""));
    ck_assert_ptr_nonnull(strstr(text, "<title>Two points</title>"));
    ck_assert_ptr_nonnull(strstr(text, "<desc>Efficiency falls to 80 %.</desc>"));
    ck_assert_ptr_nonnull(strstr(text, "<title>measured: 8, 90.0 % (85.0 % to 93.0 %)</title>"));
    ck_assert_ptr_nonnull(strstr(text, ">the band has 90 %</text>"));
    ck_assert_ptr_nonnull(strstr(text, ">80 %</text>"));
    ck_assert_ptr_nonnull(strstr(text, "var(--lk-blue,#0072b2)"));
    ck_assert_ptr_nonnull(strstr(text, "stroke-dasharray"));
    /* Two points, the two vertices, and the two points of the key. */
    ck_assert_uint_eq(markup_count(text, "circle"), 6);
    free(text);
}
END_TEST

START_TEST(hostile_texts_are_texts)
{
    struct lk_chart_layer *l;
    char *text;

    begin(HOSTILE, LK_CHART_LINEAR, LK_CHART_NAMES);
    free(panel->x.label);
    ck_assert_int_eq(lk_strdup(&panel->x.label, HOSTILE), LK_OK);
    ck_assert_int_eq(lk_chart_tick(&panel->y, 0, HOSTILE), LK_OK);
    l = layer(LK_CHART_BOXES, HOSTILE);
    mark(l, (struct lk_chart_mark){.x = 0, .x2 = 1, .lo = -0.4, .hi = 0.4, .text = HOSTILE});
    l = layer(LK_CHART_TEXTS, NULL);
    mark(l, (struct lk_chart_mark){.x = 0.5, .y = 0, .text = HOSTILE});
    ck_assert_int_eq(lk_chart_say(&chart, "%s", HOSTILE), LK_OK);
    ck_assert_int_eq(lk_chart_note(&chart, "%s", HOSTILE), LK_OK);
    text = draw(LK_SVG_WIDTH);
    ck_assert_ptr_null(strstr(text, "<script"));
    ck_assert_uint_eq(markup_count(text, "desc"), 1);
    free(text);
}
END_TEST

/* Two boxes of opposite sign start at the same line, and both have an area. */
START_TEST(negative_boxes_have_an_area)
{
    struct lk_chart_layer *l;
    char *text;
    const char *p;
    size_t n = 0;

    begin("Losses", LK_CHART_LINEAR, LK_CHART_LINEAR);
    l = layer(LK_CHART_BOXES, "overlap");
    mark(l, (struct lk_chart_mark){.x = 0, .x2 = 1, .lo = 0, .hi = 4});
    mark(l, (struct lk_chart_mark){.x = 2, .x2 = 1, .lo = 0, .hi = -2});
    text = draw(LK_SVG_WIDTH);
    for (p = strstr(text, "<rect x="); p; p = strstr(p + 1, "<rect x=")) {
        double x, y, width, height;

        if (sscanf(p, "<rect x=\"%lf\" y=\"%lf\" width=\"%lf\" height=\"%lf\"", &x, &y, &width,
                   &height) != 4)
            continue;
        ck_assert_double_gt(width, 5);
        ck_assert_double_gt(height, 5);
        n++;
    }
    ck_assert_uint_eq(n, 3); /* and the key's */
    free(text);
}
END_TEST

/* Numbers that no axis has a place for leave a picture with what has one. */
START_TEST(marks_without_a_place_are_left_out)
{
    struct lk_chart_layer *l;
    char *text;

    begin("Log", LK_CHART_LOG10, LK_CHART_LOG10);
    l = layer(LK_CHART_LINE, NULL);
    mark(l, (struct lk_chart_mark){.x = 1, .y = 1});
    mark(l, (struct lk_chart_mark){.x = 10, .y = NAN});
    mark(l, (struct lk_chart_mark){.x = 20, .y = 0});
    mark(l, (struct lk_chart_mark){.x = 100, .y = 1e300});
    l = layer(LK_CHART_POINTS, NULL);
    mark(l, (struct lk_chart_mark){.x = 10, .y = 3, .lo = 0, .hi = 5});
    mark(l, (struct lk_chart_mark){.x = -1, .y = 3});
    panel->y.from = 0.5;
    panel->y.to = 10;
    text = draw(LK_SVG_WIDTH);
    ck_assert_ptr_null(strstr(text, "nan"));
    ck_assert_ptr_null(strstr(text, "inf"));
    free(text);
}
END_TEST

static size_t crowd(enum lk_chart_kind kind, size_t n)
{
    struct lk_chart_layer *l;
    char *text;
    size_t size;

    begin("Crowd", LK_CHART_LINEAR, LK_CHART_LINEAR);
    l = layer(kind, "values");
    l->heat = kind == LK_CHART_BOXES;
    for (size_t i = 0; i < n; i++) {
        double x = (double)i, y = fmod(x * 0.618, 1);

        if (kind == LK_CHART_BOXES)
            mark(l, (struct lk_chart_mark){
                        .x = x, .x2 = x + 1, .lo = fmod(x, 7), .hi = fmod(x, 7) + 1, .share = y});
        else
            mark(l, (struct lk_chart_mark){.x = x, .y = y, .text = "text"});
    }
    text = draw(LK_SVG_WIDTH);
    size = strlen(text);
    free(text);
    return size;
}

START_TEST(ten_thousand_marks_stay_small)
{
    ck_assert_uint_lt(crowd(LK_CHART_LINE, 10000), 60000);
    ck_assert_uint_lt(crowd(LK_CHART_POINTS, 10000), 200000);
    ck_assert_uint_lt(crowd(LK_CHART_BOXES, 10000), 400000);
    /* A line of many more is no longer than its pixels. */
    ck_assert_uint_lt(crowd(LK_CHART_LINE, 300000), 60000);
}
END_TEST

/* An outlier among the vertices of a pixel is seen. */
START_TEST(a_line_keeps_its_extremes)
{
    struct lk_chart_layer *l;
    char *text, *path;
    double low = 0, high = 1e9;

    begin("Outlier", LK_CHART_LINEAR, LK_CHART_LINEAR);
    l = layer(LK_CHART_LINE, NULL);
    for (size_t i = 0; i < 10000; i++)
        mark(l, (struct lk_chart_mark){.x = (double)i,
                                       .y = i == 5003   ? 100
                                            : i == 5009 ? -100
                                                        : (double)(i % 2)});
    text = draw(LK_SVG_WIDTH);
    path = strstr(text, "stroke-linejoin");
    ck_assert_ptr_nonnull(path);
    path = strstr(path, " d=\"M");
    ck_assert_ptr_nonnull(path);
    for (char *p = path + 5, *end; *p != '"'; p = *end == '"' ? end : end + 1) {
        double y;

        (void)strtod(p, &end);
        y = strtod(end, &end);
        low = y > low ? y : low;
        high = y < high ? y : high;
    }
    ck_assert_double_gt(low - high, 0.9 * 170); /* both ends of the plot */
    free(text);
}
END_TEST

/* Texts at one place: one is drawn, the others are not over it, and no point is lost. */
START_TEST(texts_do_not_overlap)
{
    struct lk_chart_layer *l;
    char *text;
    size_t n = 0;

    begin("A very long title of a chart that nobody can read in one line, however wide the "
          "picture may be, since it names the model, the machine, the network and the date",
          LK_CHART_LINEAR, LK_CHART_LINEAR);
    l = layer(LK_CHART_POINTS, NULL);
    for (int i = 0; i < 30; i++)
        mark(l, (struct lk_chart_mark){.x = 1 + i * 1e-9, .y = 1, .text = "label"});
    mark(l, (struct lk_chart_mark){.x = 2, .y = 2});
    text = draw(LK_SVG_WIDTH_MIN);
    ck_assert_uint_eq(markup_count(text, "circle"), 31);
    for (const char *p = text; (p = strstr(p, ">label</text>")); p++)
        n++;
    ck_assert_uint_ge(n, 1);
    ck_assert_uint_le(n, 5);
    ck_assert_ptr_null(strstr(text, "machine, the network and the date</text>"));
    free(text);
}
END_TEST

START_TEST(lines_end_at_blanks)
{
    size_t skip;

    ck_assert_uint_eq(lk_xml_line("one two", 10, 28, &skip), 3);
    ck_assert_uint_eq(skip, 4);
    ck_assert_uint_eq(lk_xml_line("a\nb", 10, 1000, &skip), 1);
    ck_assert_uint_eq(skip, 2);
    ck_assert_uint_eq(lk_xml_line("\xe2\x82\xac\xe2\x82\xac", 10, 1, &skip), 3);
    ck_assert_uint_eq(skip, 3);
}
END_TEST

SUITE(svg, tests)
{
    tcase_add_test(tests, all_kinds_of_marks_are_drawn);
    tcase_add_test(tests, hostile_texts_are_texts);
    tcase_add_test(tests, negative_boxes_have_an_area);
    tcase_add_test(tests, marks_without_a_place_are_left_out);
    tcase_add_test(tests, ten_thousand_marks_stay_small);
    tcase_add_test(tests, a_line_keeps_its_extremes);
    tcase_add_test(tests, texts_do_not_overlap);
    tcase_add_test(tests, lines_end_at_blanks);
}
