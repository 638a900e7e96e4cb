/* Quantities: units, intervals, and errors of the reader. */
#include "base/quantity.h"

#include "base/array.h"
#include "base/file.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct lk_json_doc *parse(const char *text)
{
    struct lk_json_doc *doc;

    ck_assert_msg(lk_json_parse("t", text, strlen(text), &doc) == LK_OK, "%s", lk_error_text());
    return doc;
}

static enum lk_status read_q(struct lk_json_doc *doc, enum lk_dimension dim,
                             struct lk_quantity *out)
{
    struct lk_json *v = NULL;
    enum lk_status st = lk_json_required(lk_json_root(doc), "q", &v);

    return st == LK_OK ? lk_quantity_read(v, dim, out) : st;
}

static const struct {
    const char *text;
    enum lk_dimension dim;
    double value, lo, hi;
    uint64_t n;
} good[] = {
    {"{\"q\": {\"value\": 3.2, \"unit\": \"us\", \"lo\": 3, \"hi\": 3.5, \"n\": 40, "
     "\"source\": \"c.csv\"}}",
     LK_DIM_TIME, 3.2e-6, 3e-6, 3.5e-6, 40},
    {"{\"q\": {\"value\": 25, \"unit\": \"GB/s\", \"source\": \"datasheet\"}}", LK_DIM_RATE, 25e9,
     NAN, NAN, 0},
    {"{\"q\": {\"value\": 100, \"unit\": \"Gbit/s\", \"source\": \"s\"}}", LK_DIM_RATE, 12.5e9, NAN,
     NAN, 0},
    {"{\"q\": {\"value\": 5, \"unit\": \"%\", \"source\": \"s\", \"lo\": null, \"hi\": null}}",
     LK_DIM_NONE, 0.05, NAN, NAN, 0},
    {"{\"q\": {\"value\": 0, \"unit\": \"B\", \"source\": \"\", \"lo\": 0, \"hi\": 0}}",
     LK_DIM_BYTES, 0, 0, 0, 0},
};

/* Check that both are equal, or both NaN. Units are factors: half an ulp each way. */
static void same(double a, double b)
{
    if (isnan(b))
        ck_assert(isnan(a));
    else
        ck_assert_msg(fabs(a - b) <= 1e-15 * fabs(b), "%g is not %g", a, b);
}

START_TEST(read_in_base_units)
{
    struct lk_json_doc *doc = parse(good[_i].text);
    struct lk_quantity q = lk_quantity_none();

    ck_assert_msg(read_q(doc, good[_i].dim, &q) == LK_OK, "%s", lk_error_text());
    ck_assert(lk_quantity_known(&q));
    same(q.value, good[_i].value);
    same(q.lo, good[_i].lo);
    same(q.hi, good[_i].hi);
    ck_assert_uint_eq(q.n, good[_i].n);
    lk_quantity_fini(&q);
    ck_assert(!lk_quantity_known(&q));
    lk_json_free(doc);
}
END_TEST

static const struct {
    const char *text, *error;
} bad[] = {
    {"{}", "t:1: q: missing"},
    {"{\"q\": 3}", "t:1: q: expected an object, got a number"},
    {"{\"q\": {\"unit\": \"s\", \"source\": \"\"}}", "t:1: q.value: missing"},
    {"{\"q\": {\"value\": 1, \"source\": \"\"}}", "t:1: q.unit: missing"},
    {"{\"q\": {\"value\": 1, \"unit\": \"s\"}}", "t:1: q.source: missing"},
    {"{\"q\": {\"value\": 1,\n\"unit\": \"MB\", \"source\": \"\"}}", "t:2: q.unit: 'MB' is not"},
    {"{\"q\": {\"value\": 1, \"unit\": \"parsec\", \"source\": \"\"}}", "t:1: q.unit: 'parsec'"},
    {"{\"q\": {\"value\": -1, \"unit\": \"s\", \"source\": \"\"}}", "t:1: q: must not be negative"},
    {"{\"q\": {\"value\": 1e999, \"unit\": \"s\", \"source\": \"\"}}",
     "t:1: q.value: 1e999 is too"},
    {"{\"q\": {\"value\": 1e308, \"unit\": \"h\", \"source\": \"\"}}", "t:1: q: out of range"},
    {"{\"q\": {\"value\": null, \"unit\": \"s\", \"source\": \"\"}}", "t:1: q.value: expected"},
    {"{\"q\": {\"value\": 1, \"lo\": 0.5, \"unit\": \"s\", \"source\": \"\"}}",
     "t:1: q: has one bound"},
    {"{\"q\": {\"value\": 1, \"lo\": 2, \"hi\": 3, \"unit\": \"s\", \"source\": \"\"}}",
     "t:1: q: the value lies outside"},
    {"{\"q\": {\"value\": 1, \"lo\": 0, \"hi\": 0.5, \"unit\": \"s\", \"source\": \"\"}}",
     "t:1: q: the value lies outside"},
    {"{\"q\": {\"value\": 1, \"lo\": -1, \"hi\": 2, \"unit\": \"s\", \"source\": \"\"}}",
     "t:1: q: must not be negative"},
    {"{\"q\": {\"value\": 1, \"n\": -1, \"unit\": \"s\", \"source\": \"\"}}", "t:1: q.n: -1 is"},
    {"{\"q\": {\"value\": 1, \"unit\": \"s\", \"source\": \"\", \"note\": 1}}",
     "t:1: q.note: unknown key"},
    {"{\"q\": {\"value\": 1, \"unit\": \"s\", \"source\": \"\", \"low\": 1}}",
     "t:1: q.low: unknown key; did you mean \"lo\"?"},
};

START_TEST(refused_with_line_and_key)
{
    struct lk_json_doc *doc = parse(bad[_i].text);
    struct lk_quantity q = lk_quantity_none();

    ck_assert_int_eq(read_q(doc, LK_DIM_TIME, &q), LK_EPARSE);
    ck_assert_msg(strstr(lk_error_text(), bad[_i].error) == lk_error_text(), "%s", lk_error_text());
    ck_assert(!lk_quantity_known(&q));
    lk_json_free(doc);
}
END_TEST

START_TEST(written_and_read_back)
{
    char path[] = "/tmp/lk-quantity-XXXXXX";
    int fd = mkstemp(path);
    struct lk_quantity q = lk_quantity_none();
    struct lk_quantity back = lk_quantity_none();
    const struct lk_quantity none = lk_quantity_none();
    struct lk_writer *w = NULL;
    struct lk_json_out *o;
    struct lk_json_doc *doc;

    ck_assert_int_ge(fd, 0);
    close(fd);
    ck_assert_int_eq(lk_quantity_set(&q, 1, NAN, NAN, 0, "old"), LK_OK);
    ck_assert_int_eq(lk_quantity_set(&q, 1.0 / 3, 0.3, 0.4, 7, "run %d", 3), LK_OK);
    ck_assert_int_eq(lk_writer_open(path, false, &w), LK_OK);
    ck_assert_int_eq(lk_json_out_begin(w, &o), LK_OK);
    lk_json_out_object(o, NULL);
    lk_quantity_write(o, "q", LK_DIM_TIME, &q);
    lk_quantity_write(o, "none", LK_DIM_TIME, &none);
    lk_json_out_close(o);
    ck_assert_int_eq(lk_json_out_end(o), LK_OK);
    ck_assert_int_eq(lk_writer_commit(w), LK_OK);
    ck_assert_int_eq(lk_json_load(path, &doc), LK_OK);
    ck_assert_int_eq(read_q(doc, LK_DIM_TIME, &back), LK_OK);
    ck_assert_int_eq(lk_json_end(lk_json_root(doc)), LK_OK);
    ck_assert_double_eq(back.value, q.value);
    ck_assert_double_eq(back.lo, 0.3);
    ck_assert_double_eq(back.hi, 0.4);
    ck_assert_uint_eq(back.n, 7);
    ck_assert_str_eq(back.source, "run 3");
    lk_json_free(doc);
    lk_quantity_fini(&q);
    lk_quantity_fini(&back);
    unlink(path);
}
END_TEST

SUITE(quantity, t)
{
    tcase_add_loop_test(t, read_in_base_units, 0, (int)LK_COUNT(good));
    tcase_add_loop_test(t, refused_with_line_and_key, 0, (int)LK_COUNT(bad));
    tcase_add_test(t, written_and_read_back);
}
