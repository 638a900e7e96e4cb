/* JSON is written: the text, what a reader makes of it, and misuse. */
#include "base/array.h"
#include "base/file.h"
#include "base/json.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void write_sample(struct lk_json_out *o)
{
    lk_json_out_object(o, NULL);
    lk_json_out_text(o, "text", "q\" b\\ n\n t\x01 \xc3\xa9 \xff \xed\xa0\x80.");
    lk_json_out_number(o, "third", 1.0 / 3.0);
    lk_json_out_number(o, "tenth", 0.1);
    lk_json_out_number(o, "nan", NAN);
    lk_json_out_number(o, "inf", INFINITY);
    lk_json_out_int(o, "int", INT64_MIN);
    lk_json_out_bool(o, "yes", true);
    lk_json_out_null(o, "nothing");
    lk_json_out_array(o, "empty");
    lk_json_out_close(o);
    lk_json_out_array(o, "rows");
    for (int i = 0; i < 2; i++) {
        lk_json_out_compact(o);
        lk_json_out_array(o, NULL);
        lk_json_out_int(o, NULL, i);
        lk_json_out_object(o, NULL);
        lk_json_out_raw(o, "ts", "%d.%03d", 1, 5);
        lk_json_out_close(o);
        lk_json_out_close(o);
    }
    lk_json_out_close(o);
    lk_json_out_close(o);
}

START_TEST(written_text)
{
    static const char want[] = "{\n"
                               "  \"text\": \"q\\\" b\\\\ n\\u000a t\\u0001 \xc3\xa9 \\ufffd "
                               "\\ufffd\\ufffd\\ufffd.\",\n"
                               "  \"third\": 0.3333333333333333,\n"
                               "  \"tenth\": 0.1,\n"
                               "  \"nan\": null,\n"
                               "  \"inf\": null,\n"
                               "  \"int\": -9223372036854775808,\n"
                               "  \"yes\": true,\n"
                               "  \"nothing\": null,\n"
                               "  \"empty\": [],\n"
                               "  \"rows\": [\n"
                               "    [0, {\"ts\": 1.005}],\n"
                               "    [1, {\"ts\": 1.005}]\n"
                               "  ]\n"
                               "}\n";
    char *path = scratch_path(scratch_dir, "x.json");
    struct lk_writer *w = NULL;
    struct lk_json_out *o;
    struct lk_json_doc *doc;
    char *text;
    size_t size;
    double third = 0;

    ck_assert_int_eq(lk_writer_open(path, _i != 0, &w), LK_OK);
    ck_assert_int_eq(lk_json_out_begin(w, &o), LK_OK);
    write_sample(o);
    ck_assert_int_eq(lk_json_out_end(o), LK_OK);
    ck_assert_int_eq(lk_writer_commit(w), LK_OK);
    ck_assert_int_eq(lk_file_read(path, &text, &size), LK_OK);
    ck_assert_str_eq(text, want);
    free(text);
    ck_assert_int_eq(lk_json_load(path, &doc), LK_OK);
    ck_assert_int_eq(lk_json_number(lk_json_root(doc), "third", &third), LK_OK);
    ck_assert_double_eq(third, 1.0 / 3.0);
    lk_json_free(doc);
    free(path);
}
END_TEST

static void no_key(struct lk_json_out *o)
{
    lk_json_out_object(o, NULL);
    lk_json_out_int(o, NULL, 1);
}

static void key_in_array(struct lk_json_out *o)
{
    lk_json_out_array(o, NULL);
    lk_json_out_int(o, "k", 1);
}

static void left_open(struct lk_json_out *o)
{
    lk_json_out_array(o, NULL);
}

static void closed_twice(struct lk_json_out *o)
{
    lk_json_out_array(o, NULL);
    lk_json_out_close(o);
    lk_json_out_close(o);
}

static void two_roots(struct lk_json_out *o)
{
    lk_json_out_int(o, NULL, 1);
    lk_json_out_int(o, NULL, 1);
}

static void too_deep(struct lk_json_out *o)
{
    for (int i = 0; i < 65; i++)
        lk_json_out_array(o, NULL);
}

static void (*const misuses[])(struct lk_json_out *) = {no_key,       key_in_array, left_open,
                                                        closed_twice, two_roots,    too_deep};

START_TEST(misuse_sticks)
{
    char *path = scratch_path(scratch_dir, "x.json");
    struct lk_writer *w = NULL;
    struct lk_json_out *o;

    ck_assert_int_eq(lk_writer_open(path, false, &w), LK_OK);
    ck_assert_int_eq(lk_json_out_begin(w, &o), LK_OK);
    misuses[_i](o);
    (void)lk_fail(LK_EIO, "another error");
    ck_assert_int_eq(lk_json_out_end(o), LK_EINTERNAL);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "JSON"));
    lk_writer_abandon(w);
    free(path);
}
END_TEST

SUITE(json_out, t)
{
    tcase_add_checked_fixture(t, scratch_set_up, scratch_tear_down);
    tcase_add_loop_test(t, written_text, 0, 2);
    tcase_add_loop_test(t, misuse_sticks, 0, (int)LK_COUNT(misuses));
}
