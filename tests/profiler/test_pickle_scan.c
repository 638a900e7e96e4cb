/* Pickles: plain data are read whatever the opcodes, and nothing else is. */
#include "profiler/import/pickle_scan.h"

#include "base/array.h"
#include "tests/rigs/must.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BYTES(text) text, sizeof(text) - 1

/* Write a value as "{'a': [1, (2.5, None)]}"; deep ones are cut. */
static void print(struct lk_pickle *p, const struct lk_pickle_value *v, int depth, FILE *to)
{
    const struct lk_pickle_value *key, *item;

    if (depth > 8) {
        fputs("..", to);
        return;
    }
    switch (v->type) {
    case LK_PICKLE_NONE:
        fputs("None", to);
        return;
    case LK_PICKLE_BOOL:
        fputs(v->integer ? "True" : "False", to);
        return;
    case LK_PICKLE_INTEGER:
        fprintf(to, "%lld", (long long)v->integer);
        return;
    case LK_PICKLE_NUMBER:
        fprintf(to, "%g", v->number);
        return;
    case LK_PICKLE_TEXT:
        fprintf(to, "'%s'", lk_pickle_text(p, v));
        return;
    case LK_PICKLE_LIST:
        for (uint32_t i = 0; (item = lk_pickle_item(p, v, i)) != NULL; i++) {
            fputs(i ? " " : "[", to);
            print(p, item, depth + 1, to);
        }
        fputs(v->n ? "]" : "[]", to);
        return;
    default:
        for (uint32_t i = 0; (item = lk_pickle_pair(p, v, i, &key)) != NULL; i++) {
            fputs(i ? " " : "{", to);
            print(p, key, depth + 1, to);
            fputs(":", to);
            print(p, item, depth + 1, to);
        }
        fputs(v->n ? "}" : "{}", to);
    }
}

static const struct {
    const char *bytes;
    size_t n;
    const char *value;
    bool cut;
} rows[] = {
    {BYTES("\x80\x02K\x07."), "7", false},
    {BYTES("\x80\x02M\x01\x02."), "513", false},
    {BYTES("\x80\x02J\xfe\xff\xff\xff."), "-2", false},
    {BYTES("\x80\x02\x8a\x00."), "0", false},
    {BYTES("\x80\x02\x8a\x01\xff."), "-1", false},
    {BYTES("\x80\x02\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x80."), "-9223372036854775808", false},
    {BYTES("\x80\x02\x8a\x09\x01\x02\x03\x04\x05\x06\x07\x08\x09."), "None", false},
    {BYTES("\x80\x02\x8b\x02\x00\x00\x00\x00\x01."), "256", false},
    {BYTES("\x80\x02G\xbf\xf8\x00\x00\x00\x00\x00\x00."), "-1.5", false},
    {BYTES("\x80\x02]q\x00(N\x88\x89K\x01\x65."), "[None True False 1]", false},
    {BYTES("\x80\x04\x95\x07\x00\x00\x00\x00\x00\x00\x00\x8c\x02hi\x94\x85\x94."), "['hi']", false},
    {BYTES("\x80\x02}q\x00(X\x01\x00\x00\x00"
           "aK\x01X\x01\x00\x00\x00"
           "bK\x02u."),
     "{'a':1 'b':2}", false},
    {BYTES("\x80\x02}U\x01kK\x03s."), "{'k':3}", false},
    {BYTES("\x80\x02]K\x01\x61K\x02\x61K\x03\x61."), "[1 2 3]", false},
    {BYTES("\x80\x02(K\x01K\x02K\x03K\x04t."), "[1 2 3 4]", false},
    {BYTES("\x80\x02)K\x01K\x02\x86\x86."), "[[] [1 2]]", false},
    {BYTES("\x80\x02K\x01\x32\x86."), "[1 1]", false},
    {BYTES("\x80\x02(K\x01\x31K\x02K\x03\x30."), "2", false},
    {BYTES("\x80\x02]q\x01h\x01\x61."), "[[[[[[[[[..]]]]]]]]]", false},
    {BYTES("\x80\x02\x8d\x02\x00\x00\x00\x00\x00\x00\x00\xff\xfe."), "'\xff\xfe'", false},
    /* Cut off: what is open is closed. */
    {BYTES("\x80\x02}(X\x01\x00\x00\x00\x61](K\x01K"), "{'a':[1]}", true},
    {BYTES("\x80\x02}(X\x01\x00\x00\x00\x61K\x01X\x01\x00\x00\x00\x62"), "{'a':1}", true},
    {BYTES("\x80\x02](K\x01(K\x02"), "[1]", true},
};

START_TEST(plain_data)
{
    char *path = scratch_put("p", rows[_i].bytes, rows[_i].n), text[256] = "";
    FILE *to = fmemopen(text, sizeof text, "w");
    struct lk_pickle p;

    must(lk_pickle_read(path, &p));
    print(&p, lk_pickle_root(&p), 0, to);
    fclose(to);
    ck_assert_str_eq(text, rows[_i].value);
    ck_assert_int_eq(p.cut, rows[_i].cut);
    lk_pickle_fini(&p);
    free(path);
}
END_TEST

static const struct {
    const char *bytes;
    size_t n;
    const char *says;
} wrong[] = {
    {BYTES("\x80\x02"
           "cos\nsystem\n(X\x02\x00\x00\x00lstR."),
     "byte 2: GLOBAL: may execute code"},
    {BYTES("\x80\x04\x8c\x02os\x8c\x06system\x93."), "byte 14: STACK_GLOBAL: may execute"},
    {BYTES("\x80\x02)R."), "byte 3: REDUCE: "},
    {BYTES("\x80\x02)b."), "BUILD: "},
    {BYTES("\x80\x02(ios\nsystem\n."), "INST: "},
    {BYTES("\x80\x02(o."), "OBJ: "},
    {BYTES("\x80\x02)\x81."), "NEWOBJ: "},
    {BYTES("\x80\x04)\x92."), "NEWOBJ_EX: "},
    {BYTES("\x80\x02\x82\x01."), "EXT1: "},
    {BYTES("\x80\x02Q."), "BINPERSID: "},
    {BYTES("\x80\x02P7\n."), "PERSID: "},
    {BYTES("\x80\x05\x97."), "NEXT_BUFFER: "},
    {BYTES("\x80\x02I7\n."), "INT: is no opcode of plain data"},
    {BYTES("\x80\x04\x8f."), "EMPTY_SET: "},
    {BYTES("\x80\x06N."), "byte 0: PROTO: only protocols 2 to 5"},
    {BYTES("\x80\x02\xfeN."), "byte 2: unknown opcode: "},
    {BYTES("\x80\x02."), "too few values"},
    {BYTES("\x80\x02K\x01(0."), "too few values"},
    {BYTES("\x80\x02K\x01\x65."), "there is no mark"},
    {BYTES("\x80\x02(K\x01\x65."), "nothing lies below the mark"},
    {BYTES("\x80\x02K\x01(K\x01\x65."), "there is no list"},
    {BYTES("\x80\x02](K\x01u."), "a key has no value"},
    {BYTES("\x80\x02](K\x01K\x02u."), "there is no dict"},
    {BYTES("\x80\x02h\x00."), "BINGET: the memo has no such value"},
    {BYTES("\x80\x02Nr\xff\xff\xff\xff."), "LONG_BINPUT: the memo has no such place"},
    {BYTES("\x80\x02\x8d\xff\xff\xff\xff\xff\xff\xff\xff."), "texts are too long"},
    {BYTES("\x80\x02"), "ends before its first value"},
    {BYTES(""), "ends before its first value"},
    {BYTES("\x80\x02X\xff\xff\xff\x03short"), "ends before its first value"},
};

START_TEST(other_opcodes_are_errors)
{
    char *path = scratch_put("p", wrong[_i].bytes, wrong[_i].n);
    struct lk_pickle p;

    ck_assert_int_eq(lk_pickle_read(path, &p), LK_EPARSE);
    ck_assert_msg(strstr(lk_error_text(), wrong[_i].says) != NULL, "%s", lk_error_text());
    ck_assert_ptr_null(p.values);
    free(path);
}
END_TEST

/* Write `start`, then n times the opcode, then STOP. */
static char *repeated(const char *start, unsigned char opcode, size_t n)
{
    size_t before = strlen(start);
    char *bytes = malloc(before + n + 1), *path;

    ck_assert_ptr_nonnull(bytes);
    memcpy(bytes, start, before);
    memset(bytes + before, opcode, n);
    bytes[before + n] = '.';
    path = scratch_put("p", bytes, before + n + 1);
    free(bytes);
    return path;
}

START_TEST(a_million_marks_are_refused)
{
    char *path = repeated("\x80\x02]", '(', 1000000);
    struct lk_pickle p;

    ck_assert_int_eq(lk_pickle_read(path, &p), LK_EPARSE);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "nested too deep"));
    free(path);
}
END_TEST

START_TEST(a_million_tuples_in_each_other)
{
    char *path = repeated("\x80\x02N", 0x85, 1000000);
    struct lk_pickle p;
    size_t depth = 0;

    must(lk_pickle_read(path, &p));
    for (const struct lk_pickle_value *v = lk_pickle_root(&p); v; v = lk_pickle_item(&p, v, 0))
        depth++;
    ck_assert_uint_eq(depth, 1000001);
    lk_pickle_fini(&p);
    free(path);
}
END_TEST

START_TEST(values_are_bounded)
{
    char *path = repeated("\x80\x02", 'N', LK_PICKLE_VALUES_MAX + 1);
    struct lk_pickle p;

    ck_assert_int_eq(lk_pickle_read(path, &p), LK_EPARSE);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "too many values"));
    free(path);
}
END_TEST

/* Visit a value and all that is in it; return how many that were. */
static uint64_t visit(struct lk_pickle *p, const struct lk_pickle_value *v)
{
    const struct lk_pickle_value *item;
    uint64_t n = 1;

    for (uint32_t i = 0; (item = lk_pickle_item(p, v, i)) != NULL; i++)
        n += visit(p, item);
    return n;
}

/* 40 lists, each with the one before twice: 2^40 values for one that visits all. */
START_TEST(visits_are_bounded)
{
    char bytes[512] = "\x80\x02)q", *path;
    size_t n = 5; /* behind the 0 of the memo */
    struct lk_pickle p;

    for (unsigned char i = 0; i < 40; i++) {
        const char pair[] = {'h', (char)i, 'h', (char)i, (char)0x86, 'q', (char)(i + 1)};

        memcpy(bytes + n, pair, sizeof pair);
        n += sizeof pair;
    }
    bytes[n++] = '.';
    path = scratch_put("p", bytes, n);
    must(lk_pickle_read(path, &p));
    ck_assert_uint_lt(visit(&p, lk_pickle_root(&p)), 100000);
    ck_assert_uint_eq(p.visits_left, 0);
    lk_pickle_fini(&p);
    free(path);
}
END_TEST

START_TEST(gzipped)
{
    char *path = scratch_put("p.gz", BYTES("\x80\x02}U\x01kK\x03s."));
    struct lk_pickle p;

    must(lk_pickle_read(path, &p));
    ck_assert_int_eq(lk_pickle_member(&p, lk_pickle_root(&p), "k")->integer, 3);
    ck_assert_ptr_null(lk_pickle_member(&p, lk_pickle_root(&p), "l"));
    lk_pickle_fini(&p);
    free(path);
}
END_TEST

SUITE(pickle_scan, t)
{
    tcase_add_checked_fixture(t, scratch_set_up, scratch_tear_down);
    tcase_add_loop_test(t, plain_data, 0, LK_COUNT(rows));
    tcase_add_loop_test(t, other_opcodes_are_errors, 0, LK_COUNT(wrong));
    tcase_add_test(t, a_million_marks_are_refused);
    tcase_add_test(t, a_million_tuples_in_each_other);
    tcase_add_test(t, values_are_bounded);
    tcase_add_test(t, visits_are_bounded);
    tcase_add_test(t, gzipped);
}
