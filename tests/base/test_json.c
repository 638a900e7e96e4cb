/* JSON is read: accepted texts, errors with file, line and key, large files. */
#include "base/json.h"

#include "base/array.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

static char *path;

static void make_path(void)
{
    scratch_set_up();
    path = scratch_path(scratch_dir, "x.json");
}

static void remove_path(void)
{
    free(path);
    scratch_tear_down();
}

static struct lk_json_doc *parse(const char *text)
{
    struct lk_json_doc *doc;

    ck_assert_msg(lk_json_parse("t", text, strlen(text), &doc) == LK_OK, "%s: %s", text,
                  lk_error_text());
    return doc;
}

static void write_file(const void *data, size_t size, const char *mode)
{
    gzFile f = gzopen(path, mode); /* mode "wbT": plain */

    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq((size_t)gzwrite(f, data, (unsigned)size), size);
    ck_assert_int_eq(gzclose(f), Z_OK);
}

static const struct {
    const char *text;
    size_t size;       /* 0: strlen */
    const char *error; /* part of the message; NULL: accepted */
} documents[] = {
    {"{}", 0, NULL},
    {"[]", 0, NULL},
    {" 1 ", 0, NULL},
    {"{\"a\": 1} // the end", 0, NULL},
    {"// first\n/* and\nso on */ {\"a\": /* in */ 1}\n", 0, NULL},
    {"{\"k\": \"\\u00e9\\n\\ud83d\\ude00\"}", 0, NULL},
    {"\"\xc3\xa9\"", 0, NULL},
    {"", 0, "t:1: the text ends too early: expected a value"},
    {"{\"a\": 1,\n\"b\":", 0, "t:2: b: the text ends too early: expected a value"},
    {"{\"a\": [1, 2", 0, "t:1: a: the text ends too early: expected ',' or ']'"},
    {"{\"a\": \"x", 0, "t:1: a: the text ends too early: expected a value"},
    {"{}\n\n{}", 0, "t:3: expected nothing behind the value, got '{'"},
    {"{}\n\"x", 0, "t:2: a comment or string behind the value has no end"},
    {"{} /* on\n", 0, "t:2: a comment or string behind the value has no end"},
    {"{}\nx", 0, "t:2: expected nothing behind the value, got 'x'"},
    {"{\"a\": /", 0, "t:1: a: '/' is no value"},
    {"{\"a\" 1}", 0, "t:1: a: expected ':' and a value, got '1'"},
    {"{\"a\": 1 \"b\"}", 0, "t:1: expected ',' or '}', got \"b\""},
    {"[1, {}}", 0, "t:1: expected ',' or ']', got '}'"},
    {"{\n\"a\": 1,\n}", 0, "t:3: expected a key in double quotes, got '}'"},
    {"[1,\n2,]", 0, "t:2: expected a value, got ']'"},
    {"{\"a\": NaN}", 0, "t:1: a: 'NaN' is no value: JSON has numbers,"},
    {"{\"a\":\nInfinity}", 0, "t:2: a: 'Infinity' is no value"},
    {"{\"a\": 01}", 0, "t:1: a: '01' is no value"},
    {"{\"a\": -}", 0, "t:1: a: '-' is no value"},
    {"{\"a\": 1.}", 0, "t:1: a: '1.' is no value"},
    {"{\"a\": 1e+}", 0, "t:1: a: '1e+' is no value"},
    {"{\"a\": 1e5x}", 0, "t:1: a: '1e5x' is no value"},
    {"[-0, 0.5E-3, 10, 1e+5]", 0, NULL},
    {"{\"a\": .5}", 0, "t:1: a: '.5' is no value"},
    {"{\"a\": +1}", 0, "t:1: a: '+1' is no value"},
    {"{'a': 1}", 0, "t:1: expected a key in double quotes or '}', got ''a''"},
    {"{a: 1}", 0, "t:1: expected a key in double quotes or '}', got 'a'"},
    {"\n\"\xff\"", 0, "t:2: a string has bytes that are no UTF-8"},
    {"\"\xc3\"", 0, "t:1: a string has bytes that are no UTF-8"},
    {"\"\xed\xa0\x80\"", 0, "t:1: a string has bytes that are no UTF-8"}, /* half a pair */
    {"\"a\nb\"", 0, "t:1: a string has a control character or a line's end in it"},
    {"\"\\u00g0\"", 0, "t:1: a string has an escape"},
    {"\"\\u00e\"", 0, "t:1: a string has an escape"},
    {"\"\\x\"", 0, "t:1: a string has an escape that JSON does not know"},
    {"{\"a\": 1\0}", 9, "t:1: a: '1' is no value"},
    {"{\"a\":\n\"x\\u0000\"}", 0, "t:2: a: a string contains a NUL character"},
    {"{\"a\\u0000\": 1}", 0, "t:1: a string contains a NUL character"},
    {"{\"a\": 1,\n \"b\": 2,\n \"a\": 3}", 0, "t:3: a: duplicate key"},
    {"{\"p\": [{}, {\"q\": {\"x\": 1,\n\"x\": 1}}]}", 0, "t:2: p[1].q.x: duplicate key"},
};

START_TEST(documents_parse_or_say_where)
{
    size_t size = documents[_i].size ? documents[_i].size : strlen(documents[_i].text);
    struct lk_json_doc *doc = NULL;
    enum lk_status st = lk_json_parse("t", documents[_i].text, size, &doc);

    if (documents[_i].error) {
        ck_assert_int_eq(st, LK_EPARSE);
        ck_assert_msg(strstr(lk_error_text(), documents[_i].error) == lk_error_text(),
                      "'%s' should begin with '%s'", lk_error_text(), documents[_i].error);
    } else {
        ck_assert_msg(st == LK_OK, "%s: %s", documents[_i].text, lk_error_text());
    }
    lk_json_free(doc);
}
END_TEST

START_TEST(many_keys_and_one_twice)
{
    char text[4096] = "{";
    size_t at = 1;
    struct lk_json_doc *doc;

    for (int i = 0; i < 200; i++)
        at += (size_t)sprintf(text + at, "\"k%d\": %d,\n", i, i);
    sprintf(text + at, "\"z\": 0}");
    lk_json_free(parse(text));
    sprintf(text + at, "\"k77\": 0}");
    ck_assert_int_eq(lk_json_parse("t", text, strlen(text), &doc), LK_EPARSE);
    ck_assert_str_eq(lk_error_text(), "t:201: k77: duplicate key");
}
END_TEST

START_TEST(depth_is_limited)
{
    char text[200];
    struct lk_json_doc *doc;

    memset(text, '[', 64);
    memset(text + 64, ']', 64);
    ck_assert_int_eq(lk_json_parse("t", text, 128, &doc), LK_OK);
    lk_json_free(doc);
    memset(text, '[', 65);
    memset(text + 65, ']', 65);
    ck_assert_int_eq(lk_json_parse("t", text, 130, &doc), LK_EPARSE);
    ck_assert_str_eq(lk_error_text(), "t:1: nested deeper than 64");
}
END_TEST

START_TEST(values_are_read)
{
    struct lk_json_doc *doc =
        parse("{\"t\": \"caf\\u00e9\", \"n\": -2.5e3, \"i\": -7, \"e\": 1e3, \"b\": true,"
              "\"z\": null, \"a\": [1, 2, 3], \"o\": {\"x\": 1}}");
    struct lk_json *o = lk_json_root(doc);
    struct lk_json *v = NULL;
    const char *text = NULL;
    const char *key = NULL;
    double d = 0;
    int64_t i = 0;
    bool b = false;

    ck_assert_int_eq(lk_json_text(o, "t", &text), LK_OK);
    ck_assert_str_eq(text, "caf\xc3\xa9");
    ck_assert_int_eq(lk_json_number(o, "n", &d), LK_OK);
    ck_assert_double_eq(d, -2500.0);
    ck_assert_int_eq(lk_json_int(o, "i", -10, 10, &i), LK_OK);
    ck_assert_int_eq(i, -7);
    ck_assert_int_eq(lk_json_int(o, "e", 0, 1000, &i), LK_OK);
    ck_assert_int_eq(i, 1000);
    ck_assert_int_eq(lk_json_as_bool(lk_json_optional(o, "b"), &b), LK_OK);
    ck_assert(b);
    ck_assert_ptr_null(lk_json_optional(o, "z"));
    ck_assert_ptr_null(lk_json_optional(o, "none"));
    ck_assert_int_eq(lk_json_array(o, "a", &v), LK_OK);
    ck_assert_uint_eq(lk_json_count(v), 3);
    ck_assert_int_eq(lk_json_as_int(lk_json_item(v, 2), 0, 9, &i), LK_OK);
    ck_assert_int_eq(i, 3);
    ck_assert_ptr_null(lk_json_item(v, 3));
    ck_assert_int_eq(lk_json_object(o, "o", &v), LK_OK);
    ck_assert_ptr_nonnull(lk_json_member(v, 0, &key));
    ck_assert_str_eq(key, "x");
    ck_assert_ptr_null(lk_json_member(v, 1, &key));
    ck_assert_int_eq(lk_json_end(v), LK_OK);
    ck_assert_int_eq(lk_json_end(o), LK_OK);
    ck_assert_int_eq(lk_json_type(o), LK_JSON_OBJECT);
    lk_json_free(doc);
}
END_TEST

/* All escapes; halves of a pair of surrogates mean nothing alone. */
START_TEST(escapes_are_read)
{
    struct lk_json_doc *doc =
        parse("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041\\u00E9\\u20ac\\ud83d\\ude00"
              "\\ud83dx\\ude00\\ud83d\\u0041\"");
    const char *text = NULL;

    ck_assert_int_eq(lk_json_as_text(lk_json_root(doc), &text), LK_OK);
    ck_assert_str_eq(text, "\"\\/\b\f\n\r\tA\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"
                           "\xef\xbf\xbdx\xef\xbf\xbd\xef\xbf\xbd"
                           "A");
    lk_json_free(doc);
}
END_TEST

/* Integers keep all 64 bits. */
START_TEST(integers_are_exact)
{
    struct lk_json_doc *doc =
        parse("[9223372036854775807, -9223372036854775808, 9007199254740993]");
    static const int64_t want[] = {INT64_MAX, INT64_MIN, 9007199254740993};
    int64_t got;

    for (size_t i = 0; i < 3; i++) {
        ck_assert_int_eq(
            lk_json_as_int(lk_json_item(lk_json_root(doc), i), INT64_MIN, INT64_MAX, &got), LK_OK);
        ck_assert_int_eq(got, want[i]);
    }
    lk_json_free(doc);
}
END_TEST

static const struct {
    const char *text;
    int places;
    bool ok;
    int64_t value;
} fixed[] = {
    {"1712195495519689.047", 3, true, 1712195495519689047},
    {"0.001", 3, true, 1},
    {"-0.001", 3, true, -1},
    {"7", 3, true, 7000},
    {"1.5", 3, true, 1500},
    {"1.5000", 3, true, 1500},
    {"-12.34", 2, true, -1234},
    {"9223372036854775.807", 3, true, INT64_MAX},
    {"9223372036854775.808", 3, false, 0},
    {"9223372036854776", 3, false, 0},
    {"1.0005", 3, false, 0},
    {"1e3", 3, false, 0},
};

START_TEST(decimals_are_exact)
{
    struct lk_json_doc *doc = parse(fixed[_i].text);
    int64_t got = 0;

    ck_assert_int_eq(lk_json_as_fixed(lk_json_root(doc), fixed[_i].places, &got),
                     fixed[_i].ok ? LK_OK : LK_EPARSE);
    ck_assert_int_eq(got, fixed[_i].value);
    lk_json_free(doc);
}
END_TEST

static const struct {
    const char *text;
    uint64_t max;
    bool ok;
    uint64_t value;
} uints[] = {
    {"18446744073709551615", UINT64_MAX, true, UINT64_MAX},
    {"18446744073709551616", UINT64_MAX, false, 0},
    {"1e3", UINT64_MAX, true, 1000},
    {"0", 0, true, 0},
    {"1", 0, false, 0},
    {"-1", UINT64_MAX, false, 0},
    {"-0", UINT64_MAX, true, 0},
    {"0.5", UINT64_MAX, false, 0},
    {"\"1\"", UINT64_MAX, false, 0},
};

START_TEST(unsigned_integers)
{
    struct lk_json_doc *doc = parse(uints[_i].text);
    uint64_t got = 0;

    ck_assert_int_eq(lk_json_as_uint(lk_json_root(doc), uints[_i].max, &got),
                     uints[_i].ok ? LK_OK : LK_EPARSE);
    ck_assert_uint_eq(got, uints[_i].value);
    lk_json_free(doc);
}
END_TEST

enum asked { TEXT, NUMBER, INT, BOOL, ARRAY, OBJECT, END };

static const struct {
    const char *text;
    enum asked asked; /* of member "key"; INT is 0 to 100 */
    const char *error;
} refusals[] = {
    {"{\n\"key\": 1}", TEXT, "t:2: key: expected a string, got a number"},
    {"{\n\"key\": \"1\"}", NUMBER, "t:2: key: expected a number, got a string"},
    {"{\"key\": null}", NUMBER, "t:1: key: expected a number, got null"},
    {"{\"key\": 1e999}", NUMBER, "t:1: key: 1e999 is too large a number"},
    {"{\"key\": 1.5}", INT, "t:1: key: expected a whole number, got 1.5"},
    {"{\"key\": 101}", INT, "t:1: key: 101 is out of range: expected 0 to 100"},
    {"{\"key\": -1}", INT, "t:1: key: -1 is out of range: expected 0 to 100"},
    {"{\"key\": 99999999999999999999}", INT, "t:1: key: 99999999999999999999 is out of range"},
    {"{\"key\": 1e300}", INT, "t:1: key: 1e300 is out of range"},
    {"{\"key\": 1e999}", INT, "t:1: key: 1e999 is too large a number"},
    {"{\"key\": 0}", BOOL, "t:1: key: expected true or false, got a number"},
    {"{\"key\": {}}", ARRAY, "t:1: key: expected an array, got an object"},
    {"{\"key\": []}", OBJECT, "t:1: key: expected an object, got an array"},
    {"{}", TEXT, "t:1: key: missing"},
    {"\n{\"kye\": 1}", TEXT, "t:2: key: missing (there is \"kye\")"},
    {"[1]", TEXT, "t:1: expected an object, got an array"},
    {"{\"a\": 1,\n\"other\": 2}", END, "t:1: a: unknown key"},
};

START_TEST(refusals_name_line_and_key)
{
    struct lk_json_doc *doc = parse(refusals[_i].text);
    struct lk_json *o = lk_json_root(doc);
    struct lk_json *v = NULL;
    const char *text;
    double d;
    int64_t i;
    bool b;
    enum lk_status st = LK_OK;

    switch (refusals[_i].asked) {
    case TEXT:
        st = lk_json_text(o, "key", &text);
        break;
    case NUMBER:
        st = lk_json_number(o, "key", &d);
        break;
    case INT:
        st = lk_json_int(o, "key", 0, 100, &i);
        break;
    case BOOL:
        st = lk_json_required(o, "key", &v);
        if (st == LK_OK)
            st = lk_json_as_bool(v, &b);
        break;
    case ARRAY:
        st = lk_json_array(o, "key", &v);
        break;
    case OBJECT:
        st = lk_json_object(o, "key", &v);
        break;
    case END:
        st = lk_json_end(o);
        break;
    }
    ck_assert_int_eq(st, LK_EPARSE);
    ck_assert_str_eq(lk_error_text(), refusals[_i].error);
    lk_json_free(doc);
}
END_TEST

START_TEST(a_typo_gets_a_suggestion)
{
    struct lk_json_doc *doc = parse("{\"a\": [{\"bandwith\": 3}]}");
    struct lk_json *a;
    struct lk_json *v;

    ck_assert_int_eq(lk_json_array(lk_json_root(doc), "a", &a), LK_OK);
    v = lk_json_item(a, 0);
    ck_assert_ptr_null(lk_json_optional(v, "latency"));
    ck_assert_ptr_null(lk_json_optional(v, "bandwidth"));
    ck_assert_int_eq(lk_json_end(v), LK_EPARSE);
    ck_assert_str_eq(lk_error_text(),
                     "t:1: a[0].bandwith: unknown key; did you mean \"bandwidth\"?");
    ck_assert_int_eq(lk_json_error(v, "no %s", "way"), LK_EPARSE);
    ck_assert_str_eq(lk_error_text(), "t:1: a[0]: no way");
    lk_json_free(doc);
}
END_TEST

static const struct {
    const char *text, *error;
} schemas[] = {
    {"{\"schema\": \"x\", \"version\": 2}", NULL},
    {"{\"schema\": \"x\", \"version\": 1}", NULL},
    {"{\"schema\": \"y\", \"version\": 1}", "t:1: schema: expected \"x\", got \"y\""},
    {"{\"version\": 1}", "t:1: schema: missing"},
    {"{\"schema\": \"x\",\n\"version\": 3}",
     "t:2: version: version 3 was written by a newer lockstep; this one reads up to 2"},
    {"{\"schema\": \"x\", \"version\": 0}", "t:1: version: 0 is out of range"},
};

START_TEST(schema_and_version)
{
    struct lk_json_doc *doc = parse(schemas[_i].text);
    enum lk_status st = lk_json_schema(lk_json_root(doc), "x", 2);

    ck_assert_int_eq(st, schemas[_i].error ? LK_EPARSE : LK_OK);
    if (schemas[_i].error)
        ck_assert_ptr_eq(strstr(lk_error_text(), schemas[_i].error), lk_error_text());
    else
        ck_assert_int_eq(lk_json_end(lk_json_root(doc)), LK_OK);
    lk_json_free(doc);
}
END_TEST

/* ---- Large files ---- */

static enum lk_status pass_item(void *ctx, struct lk_json *v)
{
    (void)ctx;
    (void)v;
    return LK_OK;
}

static const struct lk_json_walk pass = {.array = "rows", .item = pass_item};

/* Line numbers stay right across chunks, with comments and long strings over their borders. */
START_TEST(lines_of_a_large_file)
{
    size_t size = 0;
    char *text;
    FILE *f = open_memstream(&text, &size);
    char want[256];

    fprintf(f, "{\"rows\": [\n");
    for (int i = 0; i < 30000; i++)
        fprintf(f, "\"%0*d\", /* %d\n */ %d, // x\n", i % 97 + 1, i, i, i);
    fprintf(f, "bad]}");
    ck_assert_int_eq(fclose(f), 0);
    write_file(text, size, "wb");
    ck_assert_int_eq(lk_json_walk(path, &pass, NULL), LK_EPARSE);
    snprintf(want, sizeof want, "%s:60002: ", path);
    ck_assert_msg(strstr(lk_error_text(), want) == lk_error_text(), "%s", lk_error_text());
    free(text);
}
END_TEST

START_TEST(damaged_gzip_is_an_error)
{
    static char text[200000];
    struct lk_json_doc *doc;
    FILE *f;

    memset(text, ' ', sizeof text);
    memcpy(text, "{\"rows\":[", 9);
    for (size_t i = 9; i < sizeof text - 3; i += 2) {
        text[i] = (char)('0' + (i * i / 7) % 10);
        text[i + 1] = ',';
    }
    memcpy(text + sizeof text - 5, "1,1]}", 5);
    write_file(text, sizeof text, "wb");
    ck_assert_int_eq(lk_json_walk(path, &pass, NULL), LK_OK);
    if (_i == 0) { /* cut */
        ck_assert_int_eq(truncate(path, 500), 0);
    } else {
        f = fopen(path, "r+b");
        ck_assert_ptr_nonnull(f);
        ck_assert_int_eq(fseek(f, 300, SEEK_SET), 0);
        for (int i = 0; i < 60; i++)
            ck_assert_int_eq(fputc(0xaa, f), 0xaa);
        ck_assert_int_eq(fclose(f), 0);
    }
    ck_assert_int_ne(lk_json_walk(path, &pass, NULL), LK_OK);
    ck_assert_ptr_eq(strstr(lk_error_text(), path), lk_error_text());
    ck_assert_int_ne(lk_json_load(path, &doc), LK_OK);
    ck_assert_ptr_eq(strstr(lk_error_text(), path), lk_error_text());
}
END_TEST

START_TEST(no_file)
{
    struct lk_json_doc *doc;

    ck_assert_int_eq(lk_json_walk("/nonexistent/x", &pass, NULL), LK_EIO);
    ck_assert_str_eq(lk_error_text(), "/nonexistent/x: cannot open: No such file or directory");
    ck_assert_int_eq(lk_json_load("/nonexistent/x", &doc), LK_EIO);
}
END_TEST

SUITE(json, t)
{
    tcase_add_checked_fixture(t, make_path, remove_path);
    tcase_add_loop_test(t, documents_parse_or_say_where, 0, (int)LK_COUNT(documents));
    tcase_add_test(t, many_keys_and_one_twice);
    tcase_add_test(t, depth_is_limited);
    tcase_add_test(t, values_are_read);
    tcase_add_test(t, escapes_are_read);
    tcase_add_test(t, integers_are_exact);
    tcase_add_loop_test(t, decimals_are_exact, 0, (int)LK_COUNT(fixed));
    tcase_add_loop_test(t, unsigned_integers, 0, (int)LK_COUNT(uints));
    tcase_add_loop_test(t, refusals_name_line_and_key, 0, (int)LK_COUNT(refusals));
    tcase_add_test(t, a_typo_gets_a_suggestion);
    tcase_add_loop_test(t, schema_and_version, 0, (int)LK_COUNT(schemas));
    tcase_add_test(t, lines_of_a_large_file);
    tcase_add_loop_test(t, damaged_gzip_is_an_error, 0, 2);
    tcase_add_test(t, no_file);
}
