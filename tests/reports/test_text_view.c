/* Short views of tables: settings, optional columns, bars, percentages. */
#include "base/array.h"
#include "base/file.h"
#include "reports/text_table.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/suite.h"

#include <stdlib.h>

static const struct lk_column columns[] = {
    {"gpus", "GPUs", LK_DIM_NONE, -1},
    {"batch", "batch", LK_DIM_NONE, -1},
    {"share", "efficiency", LK_DIM_NONE, LK_TABLE_PERCENT},
    {"lo", "from", LK_DIM_NONE, LK_TABLE_PERCENT},
    {"hi", "to", LK_DIM_NONE, LK_TABLE_PERCENT},
    {"lost", "lost to", LK_DIM_NONE, -1},
};
static const struct lk_view_column view[] = {LK_VIEW("gpus"),
                                             {.name = "batch", .setting = true},
                                             LK_VIEW_RANGE("share", "lo", "hi"),
                                             {.name = "lost", .optional = true},
                                             {.name = "share", .bar = true, .optional = true}};

static const struct {
    int rows;
    size_t width;
    const char *locale, *text;
} cases[] = {
    {2, 80, "C",
     "  GPUs          efficiency  lost to      to 100 %\n"
     "     8     50 % (40 to 60)  network 8 %  #####\n"
     "    16  5.0 % (4.0 to 6.0)  waiting 7 %  #\n"
     "  the same in all rows: batch 4\n"},
    {2, 80, "en_GB.UTF-8",
     "  GPUs          efficiency  lost to      to 100 %\n"
     "     8     50 % (40 to 60)  network 8 %  \xE2\x96\x87\xE2\x96\x87\xE2\x96\x87\xE2\x96\x87"
     "\xE2\x96\x87\n"
     "    16  5.0 % (4.0 to 6.0)  waiting 7 %  \xE2\x96\x87\n"
     "  the same in all rows: batch 4\n"},
    {2, 45, "C",
     "  GPUs          efficiency  lost to\n"
     "     8     50 % (40 to 60)  network 8 %\n"
     "    16  5.0 % (4.0 to 6.0)  waiting 7 %\n"
     "  the same in all rows: batch 4\n"},
    /* A column that is left out is named; a bar only draws what is there. */
    {2, 36, "C",
     "  GPUs          efficiency\n"
     "     8     50 % (40 to 60)\n"
     "    16  5.0 % (4.0 to 6.0)\n"
     "  the same in all rows: batch 4\n"
     "  too wide to show (--verbose): lost\n"
     "    to\n"},
    {1, 30, "C",
     "  GPUs       efficiency\n"
     "     8  50 % (40 to 60)\n"
     "  with: batch 4\n"
     "  too wide to show\n"
     "    (--verbose): lost to\n"},
};

/* Write the view of so many rows; the caller frees the text. */
static char *show(int rows, size_t width)
{
    char *path = scratch_path(scratch_dir, "view"), *text;
    struct lk_writer *w;
    struct lk_table *t;
    size_t size;

    ck_assert_int_eq(lk_table_create("t", columns, LK_COUNT(columns), &t), LK_OK);
    for (int i = 0; i < rows; i++) {
        double share = i ? 0.05 : 0.5;

        ck_assert_int_eq(lk_table_row(t), LK_OK);
        ck_assert_int_eq(lk_table_number(t, "gpus", i ? 16 : 8), LK_OK);
        ck_assert_int_eq(lk_table_number(t, "batch", 4), LK_OK);
        ck_assert_int_eq(lk_table_number(t, "share", share), LK_OK);
        ck_assert_int_eq(lk_table_number(t, "lo", 0.8 * share), LK_OK);
        ck_assert_int_eq(lk_table_number(t, "hi", 1.2 * share), LK_OK);
        ck_assert_int_eq(lk_table_word(t, "lost", i ? "waiting 7 %" : "network 8 %"), LK_OK);
    }
    ck_assert_int_eq(lk_writer_open(path, false, &w), LK_OK);
    ck_assert_int_eq(lk_text_view(w, t, view, LK_COUNT(view), width), LK_OK);
    ck_assert_int_eq(lk_writer_commit(w), LK_OK);
    ck_assert_int_eq(lk_file_read(path, &text, &size), LK_OK);
    lk_table_destroy(t);
    free(path);
    return text;
}

START_TEST(a_view_takes_its_width)
{
    char *text;

    ck_assert_int_eq(setenv("LC_ALL", cases[_i].locale, 1), 0);
    text = show(cases[_i].rows, cases[_i].width);
    ck_assert_str_eq(text, cases[_i].text);
    free(text);
}
END_TEST

SUITE(text_view, t)
{
    tcase_add_checked_fixture(t, scratch_set_up, scratch_tear_down);
    tcase_add_loop_test(t, a_view_takes_its_width, 0, (int)LK_COUNT(cases));
}
