/* The current GPU as the machine of the cases (tests/cuda/cases.h), with one stream. */
#ifndef LK_TESTS_CUDA_GPU_MACHINE_H
#define LK_TESTS_CUDA_GPU_MACHINE_H

#include "tests/cuda/cases.h"

extern const struct cuda_machine gpu_machine;

/* All fail the test where CUDA does. */
void gpu_machine_open(void);
void gpu_machine_close(void);
void *gpu_machine_stream(void);
/* Wait for the stream; `what` names its work in a failure. */
void gpu_machine_sync(const char *what);

#endif
