/*
 * test_gpu [SUITE...]: tests that need a GPU, all suites or those named; SUITE/PART is one test
 * case of a suite that has parts. It prints one line a suite:
 *
 *     suite kernels: 34 checks, 0 failed
 *     suite peers: skipped: one GPU, two are needed
 *
 * A line `figure NAME VALUE` that a test prints goes into tools/check-gpu's result file. --list
 * prints the suites' names. LK_SMALL_SHAPES=1: the kernels' cases take the shapes that are meant
 * for the host. Exit code 77 without a GPU: skipped is not passed.
 */
#include "tests/cuda/gpu.h"

#include <cuda_runtime_api.h>
#include <malloc.h>
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

/* Return why no suite can run here, or NULL. */
static const char *reason_to_skip(void)
{
    int n = 0;
    cudaError_t e = cudaGetDeviceCount(&n);

    if (e != cudaSuccess)
        return cudaGetErrorString(e);
    return n == 0 ? "no GPU" : NULL;
}

static bool has_part(const struct gpu_suite *suite, const char *part)
{
    for (int i = 0; suite->part && suite->part(i); i++)
        if (!strcmp(suite->part(i), part))
            return true;
    return false;
}

/* Find the suite of "SUITE" or "SUITE/PART", or NULL; *part is NULL without one. */
static const struct gpu_suite *find(const char *word, const char **part)
{
    size_t n = strcspn(word, "/");

    *part = word[n] ? word + n + 1 : NULL;
    for (size_t i = 0; i < SUITES; i++)
        if (strlen(suites[i].name) == n && !strncmp(word, suites[i].name, n))
            return !*part || has_part(suites[i].suite, *part) ? suites[i].suite : NULL;
    return NULL;
}

/* Run a suite and return the number of failed tests. name: as requested;
 * part: one test case, or NULL. */
static int run_suite(const char *name, const struct gpu_suite *suite, const char *part)
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
    srunner_run(runner, NULL, part, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    run = srunner_ntests_run(runner);
    srunner_free(runner);
    printf("suite %s: %d checks, %d failed\n", name, run, failed);
    return failed;
}

static int list(void)
{
    for (size_t i = 0; i < SUITES; i++) {
        const struct gpu_suite *s = suites[i].suite;

        if (!s->part)
            puts(suites[i].name);
        for (int k = 0; s->part && s->part(k); k++)
            printf("%s/%s\n", suites[i].name, s->part(k));
    }
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    const char *reason, *part;
    int failed = 0;

    if (argc == 2 && !strcmp(argv[1], "--list"))
        return list();

    setvbuf(stdout, NULL, _IOLBF, 0); /* a time limit must not lose earlier lines */
    /* Keep freed memory: large buffers would be mapped anew, page by page, for every shape. */
    (void)mallopt(M_MMAP_MAX, 0);
    (void)mallopt(M_TRIM_THRESHOLD, -1);
    for (int i = 1; i < argc; i++)
        if (!find(argv[i], &part)) {
            fprintf(stderr, "test_gpu: no suite '%s'\n", argv[i]);
            return EXIT_USAGE;
        }
    reason = reason_to_skip();
    if (reason) {
        fprintf(stderr, "test_gpu: skipped: %s\n", reason);
        return EXIT_SKIPPED;
    }
    for (size_t i = 0; i < SUITES && argc < 2; i++)
        failed += run_suite(suites[i].name, suites[i].suite, NULL);
    for (int i = 1; i < argc; i++) {
        const struct gpu_suite *suite = find(argv[i], &part);

        failed += run_suite(argv[i], suite, part);
    }
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
