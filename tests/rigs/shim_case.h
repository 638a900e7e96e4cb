/* Run cases of CUDA kernels on the host (tests/cuda_shim/shim.h), each in a process of its own. */
#ifndef LK_TESTS_SHIM_CASE_H
#define LK_TESTS_SHIM_CASE_H

#include "tests/cuda/cases.h"

#include <check.h>

#define SHIM_RACES  LK_BUILD_DIR "/cuda_shim_races"
#define SHIM_BOUNDS LK_BUILD_DIR "/cuda_shim_bounds"

/* The checks: each case of CUDA_CASE_LIST in each of its types. */
#define SHIM_CASE(name) SHIM_##name,
enum shim_case { CUDA_CASE_LIST(SHIM_CASE) SHIM_CASES };
#undef SHIM_CASE
enum { SHIM_CHECKS = SHIM_CASES * CUDA_CASE_TYPES };

/* Run a check under that many orders of threads; the test fails unless all give the same bits. */
void shim_case_run(const char *program, int check, int orders);

/* Add a test that says that this build has no tests of CUDA kernels on the host. */
void shim_case_skip(TCase *tc);

#endif
