/* Error text: kept whole, put in context, and not lost by cleanup. */
#include "base/status.h"

#include <check.h>

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

START_TEST(exit_codes)
{
    ck_assert_int_eq(lk_status_exit_code(LK_OK), 0);
    ck_assert_int_eq(lk_status_exit_code(LK_EUSAGE), 2);
    ck_assert_int_eq(lk_status_exit_code(LK_EVERIFY), 1);
}
END_TEST

Suite *lk_suite_status(void);
Suite *lk_suite_status(void)
{
    Suite *s = suite_create("status");
    TCase *c = tcase_create("status");

    tcase_add_test(c, text_and_code);
    tcase_add_test(c, context_is_put_in_front);
    tcase_add_test(c, an_argument_may_be_the_last_text);
    tcase_add_test(c, cleanup_keeps_the_first_error);
    tcase_add_test(c, exit_codes);
    suite_add_tcase(s, c);
    return s;
}
