/* Printers: text is aligned, CSV follows RFC 4180, our own reader accepts the JSON. */
#include "base/array.h"
#include "base/file.h"
#include "base/json.h"
#include "base/table.h"
#include "reports/print.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct lk_column columns[] = {
    {"what", "what", LK_DIM_NONE, -1},
    {"gpus", "GPUs", LK_DIM_NONE, -1},
    {"step_s", "step", LK_DIM_TIME, -1},
    {"share", "share", LK_DIM_NONE, 2},
};

static struct lk_table *sample_table(void)
{
    struct lk_table *t;

    ck_assert_int_eq(lk_table_create("A table", columns, LK_COUNT(columns), &t), LK_OK);
    ck_assert_int_eq(lk_table_row(t), LK_OK);
    ck_assert_int_eq(lk_table_text(t, "what", "plain"), LK_OK);
    ck_assert_int_eq(lk_table_number(t, "gpus", 16), LK_OK);
    ck_assert_int_eq(lk_table_number(t, "step_s", 0.0125), LK_OK);
    ck_assert_int_eq(lk_table_number(t, "share", 0.5), LK_OK);
    ck_assert_int_eq(lk_table_row(t), LK_OK);
    ck_assert_int_eq(lk_table_text(t, "what", "with, comma and \"quote\""), LK_OK);
    ck_assert_int_eq(lk_table_number(t, "gpus", 2), LK_OK);
    ck_assert_int_eq(lk_table_number(t, "step_s", NAN), LK_OK);
    ck_assert_int_eq(lk_table_note(t, "a note"), LK_OK);
    return t;
}

/* Return the output of lk_report_tables for n copies of the sample; the caller frees it. */
static char *print(size_t n, enum lk_print_format format)
{
    char path[] = "/tmp/lockstep-print-XXXXXX";
    int fd = mkstemp(path);
    struct lk_table *t = sample_table();
    const struct lk_table *tables[] = {t, t};
    char *text;
    size_t size;

    ck_assert_int_ge(fd, 0);
    close(fd);
    ck_assert_int_eq(lk_report_tables(tables, n, format, path), LK_OK);
    ck_assert_int_eq(lk_file_read(path, &text, &size), LK_OK);
    ck_assert_int_eq(unlink(path), 0);
    lk_table_destroy(t);
    return text;
}

START_TEST(text_is_aligned)
{
    char *text = print(1, LK_FORMAT_TEXT);

    ck_assert_str_eq(text, "A table\n"
                           "  what                     GPUs     step  share\n"
                           "  plain                      16  12.5 ms   0.50\n"
                           "  with, comma and \"quote\"     2        -      -\n"
                           "  a note\n");
    free(text);
}
END_TEST

/* Text output indents, puts some columns below the row and leaves those for programs out; the other
 * formats do not. */
START_TEST(rows_may_have_levels)
{
    static const struct lk_column of[] = {{"id", "id", LK_DIM_NONE, LK_TABLE_DATA},
                                          {"cost_s", "cost", LK_DIM_TIME, -1},
                                          {"what", "what", LK_DIM_NONE, -1},
                                          {"next", "next", LK_DIM_NONE, LK_TABLE_BELOW}};
    static const char *const rows[][2] = {{"slow", "mend it"}, {"late", NULL}};
    struct lk_table *t;
    const struct lk_table *tables[1];
    char *text;
    size_t size;

    ck_assert_int_eq(lk_table_create("Levels", of, LK_COUNT(of), &t), LK_OK);
    ck_assert_int_eq(lk_table_indent(t, "what", 1), LK_EINTERNAL);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(lk_table_row(t), LK_OK);
        ck_assert_int_eq(lk_table_number(t, "id", i), LK_OK);
        ck_assert_int_eq(lk_table_number(t, "cost_s", 0.0125), LK_OK);
        ck_assert_int_eq(lk_table_word(t, "what", rows[i][0]), LK_OK);
        ck_assert_int_eq(lk_table_word(t, "next", rows[i][1]), LK_OK);
        ck_assert_int_eq(lk_table_indent(t, "what", i), LK_OK);
    }
    ck_assert_int_eq(lk_table_indent(t, "nothing", 1), LK_EINTERNAL);
    tables[0] = t;
    ck_assert_int_eq(lk_report_tables_text(tables, 1, LK_FORMAT_TEXT, &text, &size), LK_OK);
    ck_assert_str_eq(text, "Levels\n"
                           "     cost  what\n"
                           "  12.5 ms  slow\n"
                           "             next: mend it\n"
                           "  12.5 ms    late\n");
    free(text);
    ck_assert_int_eq(lk_report_tables_text(tables, 1, LK_FORMAT_CSV, &text, &size), LK_OK);
    ck_assert_str_eq(text, "id,cost_s,what,next\n"
                           "0,0.012500000000000001,slow,mend it\n"
                           "1,0.012500000000000001,late,\n");
    free(text);
    lk_table_destroy(t);
}
END_TEST

START_TEST(csv_is_quoted_and_exact)
{
    char *text = print(1, LK_FORMAT_CSV);

    ck_assert_str_eq(text, "what,gpus,step_s,share\n"
                           "plain,16,0.012500000000000001,0.5\n"
                           "\"with, comma and \"\"quote\"\"\",2,,\n");
    free(text);
}
END_TEST

START_TEST(json_is_read_back)
{
    char *text = print(2, LK_FORMAT_JSON);
    struct lk_json_doc *doc;
    struct lk_json *tables, *rows, *row;
    double step;

    ck_assert_int_eq(lk_json_parse("printed", text, strlen(text), &doc), LK_OK);
    ck_assert_int_eq(lk_json_array(lk_json_root(doc), "tables", &tables), LK_OK);
    ck_assert_uint_eq(lk_json_count(tables), 2);
    ck_assert_int_eq(lk_json_array(lk_json_item(tables, 1), "rows", &rows), LK_OK);
    row = lk_json_item(rows, 0);
    ck_assert_int_eq(lk_json_number(row, "step_s", &step), LK_OK);
    ck_assert(step == 0.0125);
    ck_assert_ptr_null(lk_json_optional(lk_json_item(rows, 1), "step_s"));
    lk_json_free(doc);
    free(text);
}
END_TEST

START_TEST(a_directory_is_no_file)
{
    struct lk_table *t = sample_table();

    ck_assert_int_eq(lk_report_table(t, LK_FORMAT_TEXT, "/nonexistent/x"), LK_EIO);
    lk_table_destroy(t);
}
END_TEST

SUITE(print, c)
{
    tcase_add_test(c, text_is_aligned);
    tcase_add_test(c, rows_may_have_levels);
    tcase_add_test(c, csv_is_quoted_and_exact);
    tcase_add_test(c, json_is_read_back);
    tcase_add_test(c, a_directory_is_no_file);
}
