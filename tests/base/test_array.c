/* Allocation and growth: sizes that overflow are refused, and a failure changes nothing. */
#include "base/array.h"

#include "base/file.h"
#include "base/rng.h"
#include "tests/rigs/cases.h"
#include "tests/rigs/suite.h"

#include <stdint.h>
#include <stdio.h>
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

START_TEST(texts_and_names_grow)
{
    char *text = NULL, **names = NULL, name[16];
    size_t n = 0, capacity = 0;

    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof name, "name%d", i);
        ck_assert_int_eq(lk_text_add(&text, "%s%s", i ? "," : "", name), LK_OK);
        ck_assert_int_eq(lk_names_add(&names, &n, &capacity, name), LK_OK);
    }
    ck_assert_uint_eq(n, 100);
    for (size_t i = 0, at = 0; i < n; i++) {
        ck_assert(!strncmp(text + at, names[i], strlen(names[i])));
        at += strlen(names[i]);
        ck_assert_int_eq(text[at], i + 1 < n ? ',' : '\0');
        at++;
    }
    lk_names_free(names, n);
    free(text);
}
END_TEST

/* The first that is not below a number, as one finds it that looks at each. */
START_TEST(a_bisection_finds_what_a_walk_finds)
{
    struct lk_rng g = lk_rng_init(17, lk_rng_stream("bisect", 0));

    for (size_t k = 0; k < cases_or(2000); k++) {
        uint64_t v[64], wanted = lk_rng_below(&g, 100);
        size_t n = (size_t)lk_rng_below(&g, LK_COUNT(v) + 1), at, walked = 0;

        for (size_t i = 0; i < n; i++)
            v[i] = (i ? v[i - 1] : 0) + lk_rng_below(&g, 4);
        while (walked < n && v[walked] < wanted)
            walked++;
        LK_BISECT(at, n, v[at] < wanted);
        ck_assert_uint_eq(at, walked);
        if (n)
            ck_assert_int_eq(LK_ORDER(v[0], wanted), v[0] < wanted ? -1 : v[0] > wanted);
    }
}
END_TEST

START_TEST(a_pointer_is_handed_over)
{
    char *from, *to = NULL;

    ck_assert_int_eq(lk_strdup(&from, "x"), LK_OK);
    LK_HAND_OVER(&to, from);
    ck_assert_ptr_null(from);
    ck_assert_str_eq(to, "x");
    free(to);
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
    tcase_add_test(c, texts_and_names_grow);
    tcase_add_test(c, a_bisection_finds_what_a_walk_finds);
    tcase_add_test(c, a_pointer_is_handed_over);
}
