/* CSV: accepted tables, errors of each getter and their text, limits, damaged files. */
#include "base/array.h"
#include "base/csv.h"
#include "base/rng.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { GPUS, SIZE, NOTE, N_COLUMNS };
static const struct lk_csv_column columns[N_COLUMNS] = {
    [GPUS] = {"gpus|n_gpus", true},
    [SIZE] = {"bytes|size", true},
    [NOTE] = {"note", false},
};

static enum lk_status parse(const char *text, enum lk_csv_extra extra, struct lk_csv **out)
{
    return lk_csv_parse("t.csv", text, strlen(text), columns, N_COLUMNS, extra, out);
}

/* Tables with the same content: gpus 8, bytes 64, and one row more or none. */
static const char *const same[] = {
    "gpus,bytes\n8,64\n",
    "gpus,bytes\n8,64",
    "bytes,gpus\r\n64,8\r\n",
    "\xEF\xBB\xBFgpus,bytes\n8,64\n",
    "\n\n  \ngpus,bytes\n\n8,64\n\n",
    " gpus ,\tbytes \n 8 , 64 \n",
    "\"gpus\",\"bytes\"\n\"8\",\"64\"\n",
    "n_gpus,size\n8,64\n",
    "#gpus,bytes\n8,64\n",
    "# made by hand\ngpus,bytes\n# a comment, with \"quotes\n8,64\n#,\n",
    "gpus,bytes,note\n8,64,\n",
    "gpus,bytes\n8.0,6.4e1\n",
};

START_TEST(the_same_table)
{
    struct lk_csv *t;
    int64_t world_size, bytes;

    ck_assert_msg(parse(same[_i], LK_CSV_STRICT, &t) == LK_OK, "%s", lk_error_text());
    ck_assert_uint_eq(lk_csv_rows(t), 1);
    ck_assert_int_eq(lk_csv_int(t, 0, GPUS, 1, 8, &world_size), LK_OK);
    ck_assert_int_eq(lk_csv_int(t, 0, SIZE, 0, 1000, &bytes), LK_OK);
    ck_assert_int_eq(world_size, 8);
    ck_assert_int_eq(bytes, 64);
    ck_assert(!lk_csv_has(t, 0, NOTE));
    lk_csv_free(t);
}
END_TEST

START_TEST(quoted_fields)
{
    static const char text[] = "gpus,note,bytes\n"
                               "1,\"a \"\"b\"\", c\nd\" ,2\n"
                               "3,\" x \",4\n"
                               "5,,6\n";
    struct lk_csv *t;
    const char *note;

    ck_assert_msg(parse(text, LK_CSV_STRICT, &t) == LK_OK, "%s", lk_error_text());
    ck_assert_uint_eq(lk_csv_rows(t), 3);
    ck_assert_int_eq(lk_csv_text(t, 0, NOTE, &note), LK_OK);
    ck_assert_str_eq(note, "a \"b\", c\nd");
    ck_assert_int_eq(lk_csv_text(t, 1, NOTE, &note), LK_OK);
    ck_assert_str_eq(note, " x ");
    ck_assert(lk_csv_has(t, 1, NOTE) && !lk_csv_has(t, 2, NOTE));
    ck_assert(lk_csv_has_column(t, NOTE));
    ck_assert_uint_eq(lk_csv_line(t, 0), 2);
    ck_assert_uint_eq(lk_csv_line(t, 1), 4); /* the line break in quotes counts */
    lk_csv_free(t);
}
END_TEST

static const struct {
    const char *text, *error;
} malformed[] = {
    {"", "t.csv:1: the table is empty"},
    {"\n# nothing\n", "t.csv:3: the table is empty"},
    {"gpus,byte\n1,2\n", "t.csv:1: unknown column 'byte'; did you mean 'bytes'?"},
    {"gpus,bytes,nodes\n1,2,3\n", "t.csv:1: unknown column 'nodes'"},
    {"\ngpus\n1\n", "t.csv:2: there is no column 'bytes'"},
    {"gpus,bytes,\n1,2,\n", "t.csv:1: column 3 has no name"},
    {"gpus,bytes,gpus\n1,2,3\n", "t.csv:1: column 'gpus' is there twice"},
    {"gpus,bytes,n_gpus\n1,2,3\n", "t.csv:1: columns 'gpus' and 'n_gpus' are the same thing"},
    {"gpus,bytes\n1,2\n1\n", "t.csv:3: the row has 1 field, the header has 2"},
    {"gpus,bytes\n1,2,3\n", "t.csv:2: the row has 3 fields, the header has 2"},
    {"gpus,bytes\n1,\"2\n3\n", "t.csv:2: a quoted field has no end"},
    {"gpus,bytes\n1,\"2\"x\n", "t.csv:2: text after a quoted field"},
    {"gpus,bytes\n1,2\"x\"\n", "t.csv:2: a quote inside a field that is not quoted"},
    {"gpus,bytes\r1,2\r", "t.csv:1: a carriage return without a line feed"},
};

START_TEST(malformed_text)
{
    struct lk_csv *t;

    ck_assert_int_eq(parse(malformed[_i].text, LK_CSV_STRICT, &t), LK_EPARSE);
    ck_assert_msg(!strncmp(lk_error_text(), malformed[_i].error, strlen(malformed[_i].error)), "%s",
                  lk_error_text());
}
END_TEST

START_TEST(extra_columns)
{
    struct lk_csv *t;
    int64_t v;

    ck_assert_int_eq(parse("x,bytes,y,gpus\n1,2,3,4\n", LK_CSV_EXTRA, &t), LK_OK);
    ck_assert_int_eq(lk_csv_int(t, 0, GPUS, 0, 9, &v), LK_OK);
    ck_assert_int_eq(v, 4);
    lk_csv_free(t);
    /* A typo in a required column is found also in this mode. */
    ck_assert_int_eq(parse("byte,gpus\n1,2\n", LK_CSV_EXTRA, &t), LK_EPARSE);
    ck_assert_str_eq(
        lk_error_text(),
        "t.csv:1: there is no column 'bytes'; there is 'byte'; known columns: gpus, bytes, note");
}
END_TEST

enum getter { INT, REAL, POSITIVE, BYTES };
static const struct {
    enum getter getter;
    const char *value;
    const char *error; /* NULL: taken */
} values[] = {
    {INT, "7", NULL},
    {INT, "11", "11 is not from 1 to 10"},
    {INT, "0", "0 is not from 1 to 10"},
    {INT, "-3", "-3 is not from 1 to 10"},
    {INT, "1.5", "not a whole number"},
    {INT, "0x7", "not a whole number"},
    {INT, "nan", "not a whole number"},
    {INT, "99999999999999999999", "not a whole number"},
    {INT, "7 GPUs", "not a whole number"},
    {INT, "", "nothing there"},
    {REAL, "1e-3", NULL},
    {REAL, "nan", "not a finite decimal number"},
    {REAL, "inf", "not a finite decimal number"},
    {REAL, "-inf", "not a finite decimal number"},
    {REAL, "1e999", "not a finite decimal number"},
    {REAL, "0x1p3", "not a finite decimal number"},
    {REAL, "1.0,5", NULL},
    {REAL, "12", "12 is not from 0 to 10"},
    {REAL, "", "nothing there"},
    {POSITIVE, "1e-300", NULL},
    {POSITIVE, "0", "0 is not above 0"},
    {POSITIVE, "-1", "-1 is not above 0"},
    {POSITIVE, "NaN", "not a finite decimal number"},
    {BYTES, "25MiB", NULL},
    {BYTES, "25", "which unit? 25MiB"},
    {BYTES, "25ms", "is not a size"},
    {BYTES, "-1B", "-1 is below 0"},
};

static enum lk_status get(const struct lk_csv *t, enum getter g)
{
    int64_t i;
    double d;

    switch (g) {
    case INT:
        return lk_csv_int(t, 0, NOTE, 1, 10, &i);
    case REAL:
        return lk_csv_real(t, 0, NOTE, 0, 10, &d);
    case POSITIVE:
        return lk_csv_positive(t, 0, NOTE, &d);
    case BYTES:
        return lk_csv_quantity(t, 0, NOTE, LK_DIM_BYTES, 0, INFINITY, &d);
    }
    return LK_EINTERNAL;
}

START_TEST(typed_getters)
{
    char text[256];
    struct lk_csv *t;
    enum lk_status st;
    bool comma = strchr(values[_i].value, ','); /* 1.0 then, and a fourth field */

    snprintf(text, sizeof text, "gpus,bytes,note%s\n1,2,%s\n", comma ? ",more" : "",
             values[_i].value);
    ck_assert_msg(parse(text, LK_CSV_EXTRA, &t) == LK_OK, "%s", lk_error_text());
    st = get(t, values[_i].getter);
    if (values[_i].error) {
        ck_assert_int_eq(st, LK_EPARSE);
        ck_assert_msg(strstr(lk_error_text(), "t.csv:2: column 'note': ") == lk_error_text() &&
                          strstr(lk_error_text(), values[_i].error),
                      "%s", lk_error_text());
    } else {
        ck_assert_msg(st == LK_OK, "%s", lk_error_text());
    }
    lk_csv_free(t);
}
END_TEST

START_TEST(errors_use_the_files_name_for_a_column)
{
    struct lk_csv *t;

    ck_assert_int_eq(parse("n_gpus,size\n1,2\n", LK_CSV_STRICT, &t), LK_OK);
    ck_assert_int_eq(lk_csv_error(t, 0, SIZE, "is %d", 2), LK_EPARSE);
    ck_assert_str_eq(lk_error_text(), "t.csv:2: column 'size': is 2");
    lk_csv_free(t);
}
END_TEST

START_TEST(limits)
{
    size_t size = (size_t)LK_CSV_ROW_MAX + 64;
    char *text = malloc(size + 64);
    struct lk_csv *t;

    ck_assert_ptr_nonnull(text);
    for (int quoted = 0; quoted < 2; quoted++) {
        size_t n = (size_t)sprintf(text, "gpus,bytes,note\n1,2,%s", quoted ? "\"" : "");

        memset(text + n, 'x', size);
        sprintf(text + n + size - 32, "%s\n", quoted ? "\"" : "");
        ck_assert_int_eq(parse(text, LK_CSV_STRICT, &t), LK_EPARSE);
        ck_assert_msg(strstr(lk_error_text(), "t.csv:2: ") == lk_error_text(), "%s",
                      lk_error_text());
    }
    *text = '\0';
    for (int i = 0; i <= LK_CSV_COLUMNS_MAX; i++)
        sprintf(text + strlen(text), "%sc%d", i ? "," : "", i);
    ck_assert_int_eq(parse(text, LK_CSV_EXTRA, &t), LK_EPARSE);
    ck_assert_str_eq(lk_error_text(), "t.csv:1: too many columns");
    free(text);
    ck_assert_int_eq(
        lk_csv_parse("t.csv", "gpus,bytes\n1,\0\n", 15, columns, N_COLUMNS, LK_CSV_STRICT, &t),
        LK_EPARSE);
    ck_assert_str_eq(lk_error_text(), "t.csv:2: a zero byte: this is no text");
}
END_TEST

START_TEST(fields_are_limited)
{
    size_t rows = LK_CSV_CELLS_MAX / LK_CSV_COLUMNS_MAX, n;
    char *text = malloc((rows + 4) * 2 * LK_CSV_COLUMNS_MAX);
    struct lk_csv *t;

    ck_assert_ptr_nonnull(text);
    n = (size_t)sprintf(text, "gpus,bytes");
    for (int i = 2; i < LK_CSV_COLUMNS_MAX; i++)
        n += (size_t)sprintf(text + n, ",c%d", i);
    for (size_t i = 0; i < rows; i++)
        for (int k = 0; k < LK_CSV_COLUMNS_MAX; k++) {
            text[n++] = k ? ',' : '\n';
            text[n++] = '1';
        }
    ck_assert_int_eq(lk_csv_parse("t.csv", text, n, columns, N_COLUMNS, LK_CSV_EXTRA, &t),
                     LK_EPARSE);
    ck_assert_str_eq(lk_error_text(), "t.csv:131073: the rows have too many fields");
    free(text);
}
END_TEST

START_TEST(files)
{
    char *dir = scratch_create();
    char *path = scratch_path(dir, "t.csv.gz");
    gzFile gz = gzopen(path, "wb");
    char block[4096];
    struct lk_csv *t;
    int64_t v;

    ck_assert_int_gt(gzputs(gz, same[0]), 0);
    ck_assert_int_eq(gzclose(gz), Z_OK);
    ck_assert_int_eq(lk_csv_load(path, columns, N_COLUMNS, LK_CSV_STRICT, &t), LK_OK);
    ck_assert_str_eq(lk_csv_name(t), path);
    ck_assert_int_eq(lk_csv_int(t, 0, GPUS, 1, 8, &v), LK_OK);
    lk_csv_free(t);
    /* One that is too large, as it is: what unpacks to as much is refused by its ratio. */
    gz = gzopen(path, "wbT");
    memset(block, ' ', sizeof block);
    for (size_t i = 0; i <= (size_t)LK_CSV_BYTES_MAX / sizeof block; i++)
        ck_assert_int_eq(gzwrite(gz, block, sizeof block), sizeof block);
    ck_assert_int_eq(gzclose(gz), Z_OK);
    ck_assert_int_eq(lk_csv_load(path, columns, N_COLUMNS, LK_CSV_STRICT, &t), LK_EPARSE);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "larger than 128 MiB"));
    free(path);
    path = scratch_path(dir, "none.csv");
    ck_assert_int_eq(lk_csv_load(path, columns, N_COLUMNS, LK_CSV_STRICT, &t), LK_EIO);
    free(path);
    scratch_remove(dir);
}
END_TEST

/* Whatever a byte is changed to, the table is read or refused, and the rows read are whole. */
START_TEST(damage)
{
    static const char good[] = "# c\r\ngpus,note,bytes\n1,\"a \"\"b\"\", c\nd\" ,2\n3,\" x \",4\n";
    struct lk_rng g = lk_rng_init(1, lk_rng_stream("csv", 0));
    char text[sizeof good];
    int taken = 0;

    for (int i = 0; i < 20000; i++) {
        size_t size = 1 + (size_t)lk_rng_below(&g, sizeof good - 1);
        struct lk_csv *t;
        const char *v;

        memcpy(text, good, sizeof good);
        text[lk_rng_below(&g, size)] = "\",\n\r# a1\t\xff"[lk_rng_below(&g, 10)];
        if (lk_csv_parse("t", text, size, columns, N_COLUMNS, LK_CSV_EXTRA, &t) != LK_OK)
            continue;
        taken++;
        for (size_t r = 0; r < lk_csv_rows(t); r++)
            for (size_t c = 0; c < N_COLUMNS; c++)
                if (lk_csv_text(t, r, c, &v) == LK_OK)
                    ck_assert_uint_lt(strlen(v), size);
        lk_csv_free(t);
    }
    ck_assert_int_gt(taken, 1000);
}
END_TEST

SUITE(csv, tc)
{
    tcase_add_loop_test(tc, the_same_table, 0, LK_COUNT(same));
    tcase_add_test(tc, quoted_fields);
    tcase_add_loop_test(tc, malformed_text, 0, LK_COUNT(malformed));
    tcase_add_test(tc, extra_columns);
    tcase_add_loop_test(tc, typed_getters, 0, LK_COUNT(values));
    tcase_add_test(tc, errors_use_the_files_name_for_a_column);
    tcase_add_test(tc, limits);
    tcase_add_test(tc, fields_are_limited);
    tcase_add_test(tc, files);
    tcase_add_test(tc, damage);
}
