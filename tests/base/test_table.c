/* Result tables: cells go where they belong, and nowhere else. */
#include "base/array.h"
#include "base/table.h"
#include "tests/rigs/suite.h"

#include <math.h>

static const struct lk_column columns[] = {
    {.name = "ranks", .heading = "ranks", .dim = LK_DIM_NONE, .digits = -1},
    {.name = "step_s", .heading = "step", .dim = LK_DIM_TIME},
    {.name = "grade", .heading = "evidence", .dim = LK_DIM_NONE},
};

static struct lk_table *create(void)
{
    struct lk_table *t;

    ck_assert_int_eq(lk_table_create("forecast", columns, LK_COUNT(columns), &t), LK_OK);
    return t;
}

START_TEST(cells)
{
    struct lk_table *t = create();

    ck_assert_str_eq(t->title, "forecast");
    for (int i = 0; i < 100; i++) {
        ck_assert_int_eq(lk_table_row(t), LK_OK);
        ck_assert_int_eq(lk_table_number(t, "ranks", i), LK_OK);
        if (i % 2)
            ck_assert_int_eq(lk_table_text(t, "grade", "extrapolated x%d", i), LK_OK);
    }
    ck_assert_uint_eq(t->n_rows, 100);
    for (size_t i = 0; i < 100; i++) {
        const struct lk_cell *c = lk_table_cell(t, i, "ranks");

        ck_assert_int_eq(c->type, LK_CELL_NUMBER);
        ck_assert_double_eq(c->number, (double)i);
        ck_assert_int_eq(lk_table_cell(t, i, "step_s")->type, LK_CELL_EMPTY);
        ck_assert_int_eq(lk_table_cell(t, i, "grade")->type, i % 2 ? LK_CELL_TEXT : LK_CELL_EMPTY);
    }
    ck_assert_str_eq(lk_table_cell(t, 3, "grade")->text, "extrapolated x3");
    ck_assert_ptr_null(lk_table_cell(t, 100, "ranks"));
    ck_assert_ptr_null(lk_table_cell(t, 0, "rank"));
    lk_table_destroy(t);
}
END_TEST

START_TEST(a_cell_set_again)
{
    struct lk_table *t = create();

    ck_assert_int_eq(lk_table_row(t), LK_OK);
    ck_assert_int_eq(lk_table_text(t, "grade", "%s", "measured"), LK_OK);
    ck_assert_int_eq(lk_table_text(t, "grade", "none"), LK_OK);
    ck_assert_str_eq(lk_table_cell(t, 0, "grade")->text, "none");
    ck_assert_int_eq(lk_table_number(t, "grade", 3), LK_OK);
    ck_assert_int_eq(lk_table_cell(t, 0, "grade")->type, LK_CELL_NUMBER);
    ck_assert_ptr_null(lk_table_cell(t, 0, "grade")->text);
    ck_assert_int_eq(lk_table_number(t, "grade", NAN), LK_OK);
    ck_assert_int_eq(lk_table_cell(t, 0, "grade")->type, LK_CELL_EMPTY);
    lk_table_destroy(t);
}
END_TEST

START_TEST(wrong_column)
{
    struct lk_table *t = create();

    ck_assert_int_eq(lk_table_number(t, "ranks", 1), LK_EINTERNAL);
    ck_assert_str_eq(lk_error_text(), "table 'forecast': no row yet for column 'ranks'");
    ck_assert_int_eq(lk_table_row(t), LK_OK);
    ck_assert_int_eq(lk_table_number(t, "rank", 1), LK_EINTERNAL);
    ck_assert_str_eq(lk_error_text(), "table 'forecast': no column 'rank'");
    ck_assert_int_eq(lk_table_text(t, "rank", "x"), LK_EINTERNAL);
    lk_table_destroy(t);
    lk_table_destroy(NULL);
}
END_TEST

START_TEST(notes)
{
    struct lk_table *t = create();

    for (int i = 0; i < 20; i++)
        ck_assert_int_eq(lk_table_note(t, "note %d", i), LK_OK);
    ck_assert_uint_eq(t->n_notes, 20);
    ck_assert_str_eq(t->notes[0], "note 0");
    ck_assert_str_eq(t->notes[19], "note 19");
    lk_table_destroy(t);
}
END_TEST

START_TEST(no_columns)
{
    struct lk_table *t;

    ck_assert_int_eq(lk_table_create("", NULL, 0, &t), LK_OK);
    for (int i = 0; i < 20; i++)
        ck_assert_int_eq(lk_table_row(t), LK_OK);
    ck_assert_uint_eq(t->n_rows, 20);
    lk_table_destroy(t);
}
END_TEST

/* Tables with the same columns become one, with a name before each row, and each note once. */
START_TEST(joined)
{
    static const struct lk_column name = {"run", "run", LK_DIM_NONE, -1};
    static const char *const names[] = {"a", "none", "b"};
    struct lk_table *from[] = {create(), NULL, create()}, *t = NULL;

    for (int i = 0; i < 3; i += 2) {
        ck_assert_int_eq(lk_table_row(from[i]), LK_OK);
        ck_assert_int_eq(lk_table_number(from[i], "ranks", i), LK_OK);
        ck_assert_int_eq(lk_table_word(from[i], "grade", "measured"), LK_OK);
        ck_assert_int_eq(lk_table_note(from[i], "the same"), LK_OK);
        ck_assert_int_eq(lk_table_note(from[i], "note %d", i), LK_OK);
    }
    ck_assert_int_eq(lk_table_join(&name, names, from, 3, &t), LK_OK);
    ck_assert_str_eq(t->title, "forecast");
    ck_assert_uint_eq(t->n_columns, LK_COUNT(columns) + 1);
    ck_assert_uint_eq(t->n_rows, 2);
    ck_assert_str_eq(lk_table_cell(t, 0, "run")->text, "a");
    ck_assert_str_eq(lk_table_cell(t, 1, "run")->text, "b");
    ck_assert_double_eq(lk_table_cell(t, 1, "ranks")->number, 2);
    ck_assert_int_eq(lk_table_cell(t, 1, "step_s")->type, LK_CELL_EMPTY);
    ck_assert_str_eq(lk_table_cell(t, 1, "grade")->text, "measured");
    ck_assert_uint_eq(t->n_notes, 3);
    lk_table_destroy(t);
    ck_assert_int_eq(lk_table_join(&name, names + 1, from + 1, 1, &t), LK_OK);
    ck_assert_ptr_null(t);
    lk_table_destroy(from[0]);
    lk_table_destroy(from[2]);
}
END_TEST

SUITE(table, c)
{
    tcase_add_test(c, cells);
    tcase_add_test(c, a_cell_set_again);
    tcase_add_test(c, wrong_column);
    tcase_add_test(c, notes);
    tcase_add_test(c, no_columns);
    tcase_add_test(c, joined);
}
