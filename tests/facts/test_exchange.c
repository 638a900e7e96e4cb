/* Names of shardings, compressions and gradient dtypes; equality of configurations. */
#include "base/array.h"
#include "facts/config.h"
#include "sim/step/config.h"
#include "tests/rigs/suite.h"

#include <string.h>

START_TEST(names_read_back)
{
    for (int i = 0; i < LK_SHARDING_COUNT; i++) {
        enum lk_sharding s = LK_SHARDING_COUNT;

        ck_assert_int_eq(
            lk_words_find(&lk_sharding_words, lk_sharding_name((enum lk_sharding)i), &s), LK_OK);
        ck_assert_int_eq(s, i);
    }
    for (int i = 0; i < LK_COMPRESSION_COUNT; i++) {
        enum lk_compression c = LK_COMPRESSION_COUNT;

        ck_assert_int_eq(
            lk_words_find(&lk_compression_words, lk_compression_name((enum lk_compression)i), &c),
            LK_OK);
        ck_assert_int_eq(c, i);
    }
    for (int i = 0; i < LK_GRAD_DTYPE_COUNT; i++) {
        enum lk_grad_dtype d = LK_GRAD_DTYPE_COUNT;

        ck_assert_int_eq(
            lk_words_find(&lk_grad_dtype_words, lk_grad_dtype_name((enum lk_grad_dtype)i), &d),
            LK_OK);
        ck_assert_int_eq(d, i);
    }
}
END_TEST

START_TEST(an_unknown_word_lists_the_known_ones)
{
    enum lk_sharding s;
    enum lk_compression c;
    enum lk_grad_dtype d;

    ck_assert_int_eq(lk_words_find(&lk_sharding_words, "zero4", &s), LK_EPARSE);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "zero3"));
    ck_assert_int_eq(lk_words_find(&lk_compression_words, "zip", &c), LK_EPARSE);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "powersgd"));
    ck_assert_int_eq(lk_words_find(&lk_grad_dtype_words, "", &d), LK_EPARSE);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "bfloat16"));
}
END_TEST

START_TEST(every_field_makes_another_configuration)
{
    const struct lk_config a = {.world_size = 1, .nodes = 1, .local_batch = 1, .accumulation = 1};
    struct lk_config b[14];

    for (size_t i = 0; i < LK_COUNT(b); i++)
        b[i] = a;
    b[0].world_size = 2;
    b[1].nodes = 2;
    b[2].local_batch = 2;
    b[3].accumulation = 2;
    b[4].reduce = LK_REDUCTION_LAST;
    b[5].first_bytes = 1;
    b[6].cap_bytes = 1;
    b[7].algo = LK_ALGO_TREE;
    b[8].grad_dtype = LK_GRAD_BF16;
    b[9].compression = LK_COMPRESSION_FP16;
    b[10].powersgd_rank = 1;
    b[11].sharding = LK_SHARDING_ZERO1;
    b[12].shard_group = 8;
    b[13].averaging_period = 10;
    ck_assert(lk_config_equal(&a, &a));
    for (size_t i = 0; i < LK_COUNT(b); i++) {
        ck_assert_msg(!lk_config_equal(&a, &b[i]), "field %zu", i);
        ck_assert_int_eq(lk_config_same_scheme(&a, &b[i]), i < 7);
    }
}
END_TEST

SUITE(exchange, tc)
{
    tcase_add_test(tc, names_read_back);
    tcase_add_test(tc, an_unknown_word_lists_the_known_ones);
    tcase_add_test(tc, every_field_makes_another_configuration);
}
