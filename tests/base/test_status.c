/* Error text: kept whole, given context, and not lost by cleanup. */
#include "base/status.h"

#include "tests/rigs/suite.h"

#include <pthread.h>
#include <string.h>

static enum lk_status fails(void)
{
    return lk_fail(LK_EPARSE, "line %d: bad", 7);
}

static enum lk_status cleanup_fails_too(void)
{
    enum lk_status st = LK_OK;

    LK_TRY(fails());
out:
    LK_KEEP(lk_fail(LK_EIO, "close failed"));
    return st;
}

START_TEST(text_and_code)
{
    ck_assert_int_eq(fails(), LK_EPARSE);
    ck_assert_str_eq(lk_error_text(), "line 7: bad");
}
END_TEST

START_TEST(context_is_put_in_front)
{
    ck_assert_int_eq(lk_fail_context(fails(), "%s", "job.json"), LK_EPARSE);
    ck_assert_str_eq(lk_error_text(), "job.json: line 7: bad");
    ck_assert_int_eq(lk_fail_context(LK_OK, "unused"), LK_OK);
    ck_assert_str_eq(lk_error_text(), "job.json: line 7: bad");
}
END_TEST

START_TEST(an_argument_may_be_the_last_text)
{
    (void)fails();
    ck_assert_int_eq(lk_fail(LK_EIO, "while reading: %s", lk_error_text()), LK_EIO);
    ck_assert_str_eq(lk_error_text(), "while reading: line 7: bad");
}
END_TEST

START_TEST(cleanup_keeps_the_first_error)
{
    ck_assert_int_eq(cleanup_fails_too(), LK_EPARSE);
    ck_assert_str_eq(lk_error_text(), "line 7: bad");
}
END_TEST

START_TEST(long_texts_are_cut)
{
    char text[5000];

    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    ck_assert_int_eq(lk_fail(LK_EIO, "%s", text), LK_EIO);
    ck_assert_uint_eq(strlen(lk_error_text()), 1023);
    ck_assert_int_eq(lk_fail_context(LK_EIO, "file"), LK_EIO);
    ck_assert_int_eq(strncmp(lk_error_text(), "file: xxx", 9), 0);
    ck_assert_int_eq(lk_fail_context(LK_EIO, "%s", text), LK_EIO); /* no room left to say more */
    ck_assert_int_eq(strncmp(lk_error_text(), "file: xxx", 9), 0);
}
END_TEST

static void *fail_there(void *argument)
{
    if (*lk_error_text())
        return argument; /* another thread's text */
    (void)lk_fail(LK_EIO, "there");
    return NULL;
}

START_TEST(threads_have_their_own)
{
    pthread_t other;
    void *failed;
    int argument; /* only its address counts */

    (void)fails();
    ck_assert_int_eq(pthread_create(&other, NULL, fail_there, &argument), 0);
    ck_assert_int_eq(pthread_join(other, &failed), 0);
    ck_assert_ptr_null(failed);
    ck_assert_str_eq(lk_error_text(), "line 7: bad");
}
END_TEST

START_TEST(every_code_has_a_text)
{
    for (int i = LK_OK; i <= LK_EINTERNAL; i++)
        ck_assert_uint_gt(strlen(lk_status_text((enum lk_status)i)), 0);
    ck_assert_str_eq(lk_status_text(LK_EPARSE), "malformed input");
}
END_TEST

START_TEST(exit_codes)
{
    ck_assert_int_eq(lk_status_exit_code(LK_OK), 0);
    ck_assert_int_eq(lk_status_exit_code(LK_EUSAGE), 2);
    ck_assert_int_eq(lk_status_exit_code(LK_EVERIFY), 1);
}
END_TEST

SUITE(status, c)
{
    tcase_add_test(c, text_and_code);
    tcase_add_test(c, context_is_put_in_front);
    tcase_add_test(c, an_argument_may_be_the_last_text);
    tcase_add_test(c, cleanup_keeps_the_first_error);
    tcase_add_test(c, long_texts_are_cut);
    tcase_add_test(c, threads_have_their_own);
    tcase_add_test(c, every_code_has_a_text);
    tcase_add_test(c, exit_codes);
}
