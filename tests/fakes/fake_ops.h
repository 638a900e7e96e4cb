/*
 * Run ops for the fake machine (tests/fakes/fake_cuda.h) by their CPU definition, on device memory
 * that is the host's. Every pointer among the arguments is checked: an op that names memory other
 * than the device's, or reads past its end, ends the test. With buffers of 16 bits the definition
 * runs on floats, and its results are rounded once at the end, like the kernels, whose sums,
 * statistics and softmax are float (kernels/cuda.h).
 */
#ifndef LK_TESTS_FAKE_OPS_H
#define LK_TESTS_FAKE_OPS_H

#include "facts/dtype.h"
#include "kernels/ops.h"

#include <stdbool.h>
#include <stddef.h>

struct fake_ops_config {
    enum lk_dtype real; /* LK_F32, LK_BF16 or LK_F16 */
    bool tf32;          /* round float factors of products to tf32 first */
    /* Ends the test unless all of it is device memory. */
    void (*check)(const void *p, size_t bytes);
};

/* pre: device memory is accessible. */
void fake_ops_run(const struct lk_op *op, const void *args, const struct fake_ops_config *config);

#endif
