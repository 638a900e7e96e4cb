/*
 * Operations: one row each, the same for every device.
 *
 * An op is launched with a struct of arguments that is copied; pointers in it are device memory.
 * Three implementations share the arguments:
 *   cpu   float32, for use on CPUs (matrix products by BLAS, if the build has it)
 *   ref   float64, naive loops: the definition. Its buffers hold doubles.
 *   cuda  enqueues the CUDA kernels (kernels/cuda.h), or NULL in a build without CUDA
 * A device runs one of them; lk_device_real_bytes returns the element size of its buffers.
 *
 * kernels/ops.h lists all ops with their argument structs.
 */
#ifndef LK_KERNELS_OP_H
#define LK_KERNELS_OP_H

#include "base/status.h"

#include <stddef.h>

/* An element buffer of float (cpu), double (ref) or the device's type (cuda). */
typedef void lk_real;
/* As lk_real, but never narrower than float: sums, statistics, the state of optimizers. */
typedef void lk_wide;

struct lk_cuda;

/* The cost of an op. A timed device takes max(flops, bytes at its rates) + seconds. */
struct lk_op_cost {
    double flops;   /* a multiply and an add count as two */
    double bytes;   /* read and written, each buffer once */
    double seconds; /* a time that does not depend on the machine */
};

struct lk_op {
    const char *name;  /* name in traces, e.g. "matmul_forward" */
    size_t args_bytes; /* size of the argument struct; at most LK_OP_ARGS_MAX */
    void (*cpu)(const void *args);
    void (*ref)(const void *args);
    enum lk_status (*cuda)(const void *args, const struct lk_cuda *cuda);
    struct lk_op_cost (*cost)(const void *args);
};

enum { LK_OP_ARGS_MAX = 192 };

#endif
