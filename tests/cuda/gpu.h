/*
 * Suites of test_gpu. tests/cuda/suite_NAME.c defines `const struct gpu_suite gpu_suite_NAME`, and
 * the Makefile finds it by its name.
 */
#ifndef LK_TESTS_CUDA_GPU_H
#define LK_TESTS_CUDA_GPU_H

#include <check.h>

/*
 * All suites run in one process without forking, since a child cannot use its parent's CUDA. So a
 * test sees the state that earlier tests left, and libcheck's time limits do not work: a wait for
 * the GPU needs a deadline of its own.
 */
struct gpu_suite {
    /* Return why the suite cannot run on this machine ("one GPU, two are needed"), or
     * NULL. NULL pointer: it runs on any machine with a GPU. The text is static or
     * lives as long as the program. */
    const char *(*reason_to_skip)(void);
    Suite *(*make)(void);
    /* Return the name of the i-th test case of a long suite, NULL past the last: check-gpu runs
     * each in a process of its own, several at once. NULL pointer: the suite runs as a whole. */
    const char *(*part)(int i);
};

#endif
