/*
 * Runs the suites named on the command line, or all. tests/test_<name>.c has lk_suite_<name>.
 * The last line is libcheck's count; the exit status says whether anything failed.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define X(name) Suite *lk_suite_##name(void);
#include "tests/suites.inc"
#undef X

static const struct {
    const char *name;
    Suite *(*make)(void);
} suites[] = {
#define X(name) {#name, lk_suite_##name},
#include "tests/suites.inc"
#undef X
};

static int wanted(const char *name, int argc, char **argv)
{
    if (argc < 2)
        return 1;
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], name))
            return 1;
    return 0;
}

int main(int argc, char **argv)
{
    SRunner *runner = srunner_create(NULL);
    int failed;
    int added = 0;

    /* The seconds after which libcheck ends a test: only one that hangs, on the slowest machine. */
    setenv("CK_DEFAULT_TIMEOUT", "600", 0);
    for (size_t i = 0; i < sizeof suites / sizeof *suites; i++)
        if (wanted(suites[i].name, argc, argv)) {
            srunner_add_suite(runner, suites[i].make());
            added++;
        }
    if (!added) {
        fprintf(stderr, "no such suite\n");
        return 2;
    }
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
