/* A suite of one case, as most files tests/ROOM/test_NAME.c have it. */
#ifndef LK_TESTS_RIGS_SUITE_H
#define LK_TESTS_RIGS_SUITE_H

#include <check.h>

/*
 * Define lk_suite_NAME, which tests/main.c calls. The body adds the tests to `tests`, a TCase *:
 *
 *     SUITE(json, tests)
 *     {
 *         tcase_add_test(tests, depth_is_limited);
 *     }
 */
#define SUITE(name, tests)                                                                         \
    static void add_tests_of_##name(TCase *tests);                                                 \
    Suite *lk_suite_##name(void);                                                                  \
    Suite *lk_suite_##name(void)                                                                   \
    {                                                                                              \
        Suite *suite_ = suite_create(#name);                                                       \
        TCase *case_ = tcase_create(#name);                                                        \
                                                                                                   \
        add_tests_of_##name(case_);                                                                \
        suite_add_tcase(suite_, case_);                                                            \
        return suite_;                                                                             \
    }                                                                                              \
    static void add_tests_of_##name(TCase *tests)

#endif
