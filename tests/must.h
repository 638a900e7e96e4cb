/* For tests: what returns a status must succeed; or the test ends with what it says. */
#ifndef LK_TESTS_MUST_H
#define LK_TESTS_MUST_H

#include "base/status.h"

#include <check.h>

#define must(call) ck_assert_msg((call) == LK_OK, "%s", lk_error_text())

#endif
