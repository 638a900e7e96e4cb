/* Allocation and growth: sizes that overflow are refused, and a failure changes nothing. */
#include "base/array.h"

#include "tests/rigs/suite.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

START_TEST(zeroed)
{
    unsigned char *p = NULL;

    ck_assert_int_eq(lk_alloc(&p, 1000, 3), LK_OK);
    for (size_t i = 0; i < 3000; i++)
        ck_assert_uint_eq(p[i], 0);
    free(p);
    p = NULL;
    ck_assert_int_eq(lk_alloc(&p, 0, 8), LK_OK);
    ck_assert_ptr_nonnull(p);
    free(p);
    p = NULL;
    ck_assert_int_eq(lk_alloc(&p, 8, 0), LK_OK);
    ck_assert_ptr_nonnull(p);
    free(p);
}
END_TEST

static const struct {
    size_t n, size;
} too_large[] = {
    {SIZE_MAX, 1},
    {1, SIZE_MAX},
    {SIZE_MAX, SIZE_MAX},
    {SIZE_MAX / 2 + 1, 2},
    {(size_t)1 << 62, 8},
    {PTRDIFF_MAX, 2},
    {(size_t)PTRDIFF_MAX + 1, 1},
    {SIZE_MAX / 8 + 2, 8}, /* n * size wraps to 8 */
};

START_TEST(sizes_that_overflow)
{
    char mark = 0;
    char *p = &mark;
    char *array = NULL;
    size_t capacity = 0;

    ck_assert_int_eq(lk_alloc(&p, too_large[_i].n, too_large[_i].size), LK_ENOMEM);
    ck_assert_ptr_eq(p, &mark);
    ck_assert_int_eq(lk_array_grow(&array, &capacity, too_large[_i].n, too_large[_i].size),
                     LK_ENOMEM);
    ck_assert_ptr_null(array);
    ck_assert_uint_eq(capacity, 0);
}
END_TEST

START_TEST(growth_keeps_and_amortises)
{
    uint64_t *v = NULL;
    size_t capacity = 0;
    int moves = 0;

    for (size_t i = 0; i < 100000; i++) {
        size_t before = capacity;

        ck_assert_int_eq(lk_array_grow(&v, &capacity, i + 1, sizeof *v), LK_OK);
        ck_assert_uint_gt(capacity, i);
        moves += capacity != before;
        v[i] = i;
    }
    for (size_t i = 0; i < 100000; i++)
        ck_assert_uint_eq(v[i], i);
    ck_assert_int_lt(moves, 30); /* log(100000 / 8) / log(1.5) = 23.3 */
    free(v);
}
END_TEST

START_TEST(growth_to_what_is_needed)
{
    char *v = NULL;
    size_t capacity = 0;

    ck_assert_int_eq(lk_array_grow(&v, &capacity, 0, 1), LK_OK);
    ck_assert_ptr_null(v);
    ck_assert_int_eq(lk_array_grow(&v, &capacity, 1000, 1), LK_OK);
    ck_assert_uint_ge(capacity, 1000);
    ck_assert_uint_lt(capacity, 2000);
    memset(v, 1, 1000);
    ck_assert_int_eq(lk_array_grow(&v, &capacity, SIZE_MAX, 1), LK_ENOMEM);
    ck_assert_uint_eq((unsigned char)v[999], 1);
    free(v);
}
END_TEST

START_TEST(items_without_size)
{
    char *v = NULL;
    size_t capacity = 0;

    for (size_t i = 1; i < 100; i++)
        ck_assert_int_eq(lk_array_grow(&v, &capacity, i, 0), LK_OK);
    free(v);
}
END_TEST

START_TEST(strings)
{
    char *s;

    ck_assert_int_eq(lk_strdup(&s, "text"), LK_OK);
    ck_assert_str_eq(s, "text");
    free(s);
    ck_assert_int_eq(lk_strndup(&s, "text", 2), LK_OK);
    ck_assert_str_eq(s, "te");
    free(s);
    ck_assert_int_eq(lk_strndup(&s, "text", 9), LK_OK);
    ck_assert_str_eq(s, "text");
    free(s);
    ck_assert_int_eq(lk_asprintf(&s, "%d%s", 4, "x"), LK_OK);
    ck_assert_str_eq(s, "4x");
    free(s);
}
END_TEST

SUITE(array, c)
{
    tcase_add_test(c, zeroed);
    tcase_add_loop_test(c, sizes_that_overflow, 0, (int)LK_COUNT(too_large));
    tcase_add_test(c, growth_keeps_and_amortises);
    tcase_add_test(c, growth_to_what_is_needed);
    tcase_add_test(c, items_without_size);
    tcase_add_test(c, strings);
}
