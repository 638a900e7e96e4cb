/*
 * Suites of test_gpu. tests/cuda/suite_NAME.c has `const struct gpu_suite gpu_suite_NAME`, and the
 * Makefile finds it by its name.
 */
#ifndef LK_TESTS_CUDA_GPU_H
#define LK_TESTS_CUDA_GPU_H

#include <check.h>

/*
 * All suites run in one process without forking, since a child cannot use the CUDA of its parent:
 * what a test leaves behind the next one finds, and libcheck's time limits do not hold. A wait for
 * the GPU needs a deadline of its own.
 */
struct gpu_suite {
    /* Why the suite cannot run on this machine ("one GPU, two are needed"), or NULL. NULL: it can
     * on any with a GPU. The text is static or lives as long as the program. */
    const char *(*reason_to_skip)(void);
    Suite *(*make)(void);
    /* Name of the i-th test case of a suite that takes long, NULL past the last: check-gpu runs
     * each in a process of its own, several at once. NULL: the suite is run as a whole. */
    const char *(*part)(int i);
};

#endif
