/* Names of strangers in answers, tables and CSV: they stay words, and a line stays a line. */
#include "base/array.h"
#include "base/csv.h"
#include "base/file.h"
#include "base/lines.h"
#include "base/page.h"
#include "base/table.h"
#include "tests/rigs/suite.h"

#include <stdlib.h>
#include <string.h>

START_TEST(a_name_adds_no_line)
{
    static const struct lk_column columns[] = {{.name = "name", .heading = "name"}};
    struct lk_page page = {0};
    struct lk_table *t = NULL;

    ck_assert_int_eq(lk_page_say(&page, "Best is %s.", "a\nname\r\twith lines"), LK_OK);
    ck_assert_str_eq(page.answer[0], "Best is a name? with lines.");
    lk_page_fini(&page);
    ck_assert_int_eq(lk_table_create("of a\nname", columns, 1, &t), LK_OK);
    ck_assert_str_eq(t->title, "of a name");
    ck_assert_int_eq(lk_table_row(t), LK_OK);
    ck_assert_int_eq(lk_table_word(t, "name", "a\n1,2,3"), LK_OK);
    ck_assert_str_eq(lk_table_cell(t, 0, "name")->text, "a 1,2,3");
    lk_table_destroy(t);
}
END_TEST

static const struct {
    const char *text, *written;
} fields[] = {
    {"plain", "plain"},
    {"a, b", "\"a, b\""},
    {"say \"x\"", "\"say \"\"x\"\"\""},
    {"a\nrow,1\r\n", "\"a row,1  \""},
    {"=cmd|' /C calc'!A0", "'=cmd|' /C calc'!A0"},
    {"@SUM(A1)", "'@SUM(A1)"},
    {"+1+cmd,2", "\"'+1+cmd,2\""},
    {"-1.5e3", "-1.5e3"},
    {"+7", "+7"},
    {"-", "-"},
    {"a=b", "a=b"},
};

START_TEST(fields_of_csv)
{
    static const struct lk_csv_column columns[] = {{"name", true}};
    struct lk_writer *w = NULL;
    struct lk_csv *t = NULL;
    char *text = NULL;
    const char *read;
    size_t size = 0;

    ck_assert_int_eq(lk_writer_open_memory(&text, &size, &w), LK_OK);
    ck_assert_int_eq(lk_csv_put(w, fields[_i].text), LK_OK);
    ck_assert_int_eq(lk_writer_commit(w), LK_OK);
    ck_assert_str_eq(text, fields[_i].written);
    free(text);

    ck_assert_int_eq(lk_asprintf(&text, "name\n%s\n", fields[_i].written), LK_OK);
    ck_assert_int_eq(lk_csv_parse("t.csv", text, strlen(text), columns, 1, LK_CSV_STRICT, &t),
                     LK_OK);
    ck_assert_uint_eq(lk_csv_rows(t), 1);
    ck_assert_int_eq(lk_csv_text(t, 0, 0, &read), LK_OK);
    if (!strchr(fields[_i].text, '\n'))
        ck_assert_str_eq(read, fields[_i].text);
    lk_csv_free(t);
    free(text);
}
END_TEST

static const struct {
    const char *text, *sentence;
} sentences[] = {
    {"the ranks wait", "The ranks wait"},
    {"rank0.json: no steps", "rank0.json: no steps"},
    {"runs/a: no steps", "runs/a: no steps"},
    {"my_trace: no steps", "my_trace: no steps"},
    {"it ends. and then", "It ends. and then"},
    {"2 ranks", "2 ranks"},
    {"", ""},
};

START_TEST(names_of_files_keep_their_letters)
{
    char text[64];

    strcpy(text, sentences[_i].text);
    ck_assert_str_eq(lk_lines_capital(text), sentences[_i].sentence);
}
END_TEST

SUITE(lines, t)
{
    tcase_add_test(t, a_name_adds_no_line);
    tcase_add_loop_test(t, fields_of_csv, 0, LK_COUNT(fields));
    tcase_add_loop_test(t, names_of_files_keep_their_letters, 0, LK_COUNT(sentences));
}
