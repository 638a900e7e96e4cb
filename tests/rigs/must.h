/* For tests: a call that returns a status must succeed, or the test ends with its error text. */
#ifndef LK_TESTS_MUST_H
#define LK_TESTS_MUST_H

#include "base/status.h"

#include <check.h>

#define must(call) ck_assert_msg((call) == LK_OK, "%s", lk_error_text())

#endif
