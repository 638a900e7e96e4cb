/*
 * test_gpu [SUITE...]: what only a GPU can tell, all suites or those named. A line each says what
 * came of it:
 *
 *     suite kernels: 34 checks, 0 failed
 *     suite peers: skipped: one GPU, two are needed
 *
 * and a line `figure NAME VALUE` that a test prints goes into tools/check-gpu's result file. --list
 * prints the suites' names. Exit 77 where there is no GPU: skipped is not passed.
 */
#include "tests/cuda/gpu.h"

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXIT_USAGE = 2, EXIT_SKIPPED = 77 };

#define X(name) extern const struct gpu_suite gpu_suite_##name;
#include "tests/cuda/suites.inc"
#undef X

static const struct {
    const char *name;
    const struct gpu_suite *suite;
} suites[] = {
#define X(name) {#name, &gpu_suite_##name},
#include "tests/cuda/suites.inc"
#undef X
};
enum { SUITES = sizeof suites / sizeof *suites };

/* Why nothing can run here, or NULL. */
static const char *reason_to_skip(void)
{
    int n = 0;
    cudaError_t e = cudaGetDeviceCount(&n);

    if (e != cudaSuccess)
        return cudaGetErrorString(e);
    return n == 0 ? "no GPU" : NULL;
}

static bool wanted(const char *name, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], name))
            return true;
    return argc < 2;
}

/* The first word that names no suite, or NULL. */
static const char *unknown(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        size_t s = 0;

        while (s < SUITES && strcmp(argv[i], suites[s].name) != 0)
            s++;
        if (s == SUITES)
            return argv[i];
    }
    return NULL;
}

/* Tests that failed. */
static int run_suite(const char *name, const struct gpu_suite *suite)
{
    const char *reason = suite->reason_to_skip ? suite->reason_to_skip() : NULL;
    SRunner *runner;
    int failed, run;

    if (reason) {
        printf("suite %s: skipped: %s\n", name, reason);
        return 0;
    }
    runner = srunner_create(suite->make());
    srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    run = srunner_ntests_run(runner);
    srunner_free(runner);
    printf("suite %s: %d checks, %d failed\n", name, run, failed);
    return failed;
}

static int list(void)
{
    for (size_t i = 0; i < SUITES; i++)
        puts(suites[i].name);
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    const char *reason;
    int failed = 0;

    if (argc == 2 && !strcmp(argv[1], "--list"))
        return list();
    reason = unknown(argc, argv);

    setvbuf(stdout, NULL, _IOLBF, 0); /* a time limit must not take the lines before it */
    if (reason) {
        fprintf(stderr, "test_gpu: no suite '%s'\n", reason);
        return EXIT_USAGE;
    }
    reason = reason_to_skip();
    if (reason) {
        fprintf(stderr, "test_gpu: skipped: %s\n", reason);
        return EXIT_SKIPPED;
    }
    for (size_t i = 0; i < SUITES; i++)
        if (wanted(suites[i].name, argc, argv))
            failed += run_suite(suites[i].name, suites[i].suite);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
