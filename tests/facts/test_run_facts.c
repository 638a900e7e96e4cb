/* A trace's configuration says a model's shape, its memory, and SyncBatchNorm's layers. */
#include "facts/run_facts.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct lk_run_info info;

static void tear_down(void)
{
    lk_run_info_fini(&info);
    memset(&info, 0, sizeof info);
}

static void say(const char *key, const char *value)
{
    ck_assert_int_eq(lk_run_info_config(&info, key, value), LK_OK);
}

START_TEST(a_transformers_shape)
{
    struct lk_run_facts f;

    say(LK_SHAPE_CONFIG_KEY, "layers 12, heads 6, channels 768, context 1024, vocab 50257");
    say(LK_ACTIVATION_CONFIG_KEY, "123456789");
    say("dtype", "bfloat16");
    ck_assert_int_eq(lk_run_facts_read(&info, &f), LK_OK);
    ck_assert_int_eq(f.transformer.layers, 12);
    ck_assert_int_eq(f.transformer.heads, 6);
    ck_assert_int_eq(f.transformer.hidden, 768);
    ck_assert_int_eq(f.transformer.sequence, 1024);
    ck_assert_int_eq(f.transformer.vocabulary, 50257);
    ck_assert_int_eq(f.transformer.activation_bytes, 2);
    ck_assert_double_eq(f.activation_bytes, 123456789);
}
END_TEST

/* Of other models, of older traces and of damaged ones nothing is known, and that is no error. */
static const char *const shapeless[] = {
    NULL,
    "layers 2, channels 256, context 32, vocab 256",
    "layers 18, channels 64, stem of 3 x 3 (CIFAR), image of 3 x 32 x 32, classes 10",
    "layers 0, heads 3, channels 48, context 64, vocab 256",
    "layers 3, heads 5, channels 48, context 64, vocab 256",
    "layers 3, heads -3, channels 48, context 64, vocab 256",
};

START_TEST(no_shape)
{
    struct lk_run_facts f;

    if (shapeless[_i])
        say(LK_SHAPE_CONFIG_KEY, shapeless[_i]);
    ck_assert_int_eq(lk_run_facts_read(&info, &f), LK_OK);
    ck_assert_int_eq(f.transformer.layers, 0);
    ck_assert(isnan(f.activation_bytes));
}
END_TEST

START_TEST(layers)
{
    struct lk_job_sync_bn *rows = NULL;
    size_t n = 9;

    ck_assert_int_eq(lk_run_facts_sync_bn(&info, &rows, &n), LK_OK);
    ck_assert_uint_eq(n, 0);
    free(rows);
    say(LK_SYNC_BN_CONFIG_KEY, "64@0.250000 128@1");
    ck_assert_int_eq(lk_run_facts_sync_bn(&info, &rows, &n), LK_OK);
    ck_assert_uint_eq(n, 2);
    ck_assert_int_eq(rows[0].channels, 64);
    ck_assert_double_eq(rows[0].at, 0.25);
    ck_assert_int_eq(rows[1].channels, 128);
    ck_assert_double_eq(rows[1].at, 1);
    free(rows);
}
END_TEST

static const char *const bad_layers[] = {"64",       "64@",    "0@0.5",
                                         "64@1.5",   "64@nan", "64@0.5,8@0.6",
                                         "64@0.5 8", "-4@0.5", "99999999999@0.5"};

START_TEST(damaged_layers)
{
    struct lk_job_sync_bn *rows = NULL;
    size_t n = 0;

    say(LK_SYNC_BN_CONFIG_KEY, bad_layers[_i]);
    ck_assert_int_eq(lk_run_facts_sync_bn(&info, &rows, &n), LK_EPARSE);
    ck_assert_msg(strstr(lk_error_text(), bad_layers[_i]) != NULL, "%s", lk_error_text());
    ck_assert_ptr_null(rows);
}
END_TEST

SUITE(run_facts, c)
{
    tcase_add_checked_fixture(c, NULL, tear_down);
    tcase_add_test(c, a_transformers_shape);
    tcase_add_loop_test(c, no_shape, 0, sizeof shapeless / sizeof *shapeless);
    tcase_add_test(c, layers);
    tcase_add_loop_test(c, damaged_layers, 0, sizeof bad_layers / sizeof *bad_layers);
}
