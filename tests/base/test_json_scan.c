/* The lexer of JSON: exact numbers, values across windows. */
#include "base/json_scan.h"

#include "base/array.h"
#include "tests/rigs/must.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/suite.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *text;
    int places;
    bool good;
    int64_t value;
} numbers[] = {
    {"1712195495519689.047", 3, true, 1712195495519689047}, /* 19 digits: a double would round */
    {"4458676524670.502", 3, true, 4458676524670502},
    {"-12", 3, true, -12000},
    {"7", 0, true, 7},
    {"0.0005", 3, true, 1}, /* rounded */
    {"0.00049", 3, true, 0},
    {"1.5e3", 3, true, 1500000},
    {"1.712195495519689e+15", 3, true, 1712195495519689000},
    {"25e-4", 3, true, 3},
    {"9223372036854775807", 0, true, INT64_MAX},
    {"9223372036854775808", 0, false, 0},
    {"1e400", 3, false, 0},
    {"NaN", 3, false, 0},
    {"Infinity", 3, false, 0},
    {"", 3, false, 0},
    {"-", 3, false, 0},
    {"1x", 3, false, 0},
    {"1e", 3, false, 0},
};

START_TEST(numbers_are_exact)
{
    int64_t v = 0;

    ck_assert(lk_scan_fixed(numbers[_i].text, strlen(numbers[_i].text), numbers[_i].places, &v) ==
              numbers[_i].good);
    if (numbers[_i].good)
        ck_assert_msg(v == numbers[_i].value, "%s: %" PRId64, numbers[_i].text, v);
}
END_TEST

/* Values longer than the window, texts and quotes across its edge: the same as in memory. */
START_TEST(windows_do_not_matter)
{
    enum { MORE = 5 << 20 };
    const size_t n = (size_t)MORE + 400;
    char *text = malloc(n), *path;
    struct lk_slice v;
    struct lk_scan s;
    size_t used = (size_t)snprintf(text, n, "[");

    ck_assert_ptr_nonnull(text);
    memset(text + used, ' ', (1 << 20) - 20);
    used += (1 << 20) - 20;
    used += (size_t)snprintf(text + used, n - used, "{\"a\\\\\\\"b\": [1, {\"c\": \"");
    memset(text + used, '\\', 3 << 20);
    used += 3 << 20;
    used += (size_t)snprintf(text + used, n - used, "\"}], \"d\": 12345}]");
    path = scratch_put("long.json", text, used);
    must(lk_scan_open(&s, path));
    ck_assert_int_eq(lk_scan_next(&s), LK_SCAN_ARRAY);
    ck_assert_int_eq(lk_scan_next(&s), LK_SCAN_OBJECT);
    lk_scan_pin(&s);
    ck_assert_int_eq(lk_scan_next(&s), LK_SCAN_TEXT);
    ck_assert(LK_SCAN_IS(&s, &s.slice, "a\\\\\\\"b"));
    ck_assert(s.slice.escaped);
    ck_assert(lk_scan_value(&s, &v));
    ck_assert_uint_eq(v.n, (3 << 20) + 14);
    ck_assert(!strncmp(lk_scan_at(&s, &v), "[1, {\"c\": \"\\\\", 13));
    ck_assert_int_eq(lk_scan_next(&s), LK_SCAN_TEXT);
    ck_assert(lk_scan_value(&s, &v) && LK_SCAN_IS(&s, &v, "12345"));
    ck_assert_int_eq(lk_scan_next(&s), LK_SCAN_CLOSE);
    ck_assert(lk_scan_unpin(&s));
    ck_assert_int_eq(lk_scan_next(&s), LK_SCAN_CLOSE);
    ck_assert_int_eq(lk_scan_next(&s), LK_SCAN_END);
    ck_assert(!s.cut);
    lk_scan_close(&s);
    free(path);
    free(text);
}
END_TEST

SUITE(json_scan, t)
{
    tcase_add_checked_fixture(t, scratch_set_up, scratch_tear_down);
    tcase_add_loop_test(t, numbers_are_exact, 0, (int)LK_COUNT(numbers));
    tcase_add_test(t, windows_do_not_matter);
}
