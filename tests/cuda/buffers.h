/* Buffers of the cases: the same numbers on the device and, as doubles, for the definition. */
#ifndef LK_TESTS_CUDA_BUFFERS_H
#define LK_TESTS_CUDA_BUFFERS_H

#include "base/array.h"
#include "kernels/impl.h"
#include "tests/cuda/cases.h"

struct buffer {
    struct cuda_rig *rig;
    const char *name;
    size_t n;
    enum lk_dtype type;
    void *dev; /* the rig's shift after the start of its memory */
    double *d;
};

/* Make a buffer, uniform in [-range, range) and rounded to the type, or
 * zero. Freed by buffers_free. */
struct buffer buffer_random(struct cuda_rig *r, const char *name, enum lk_dtype type, size_t n,
                            double range);
struct buffer buffer_zero(struct cuda_rig *r, const char *name, enum lk_dtype type, size_t n);
/* Send the buffer's d to the device, rounded, and set d to the rounded values. */
void buffer_send(struct buffer *b);
/* Round d to the buffer's type, as an op rounds its result. */
void buffer_round(struct buffer *b);
/* Make n integers below `below`, on the device and in *host. Freed by buffers_free. */
int32_t *tokens_random(struct cuda_rig *r, size_t n, size_t below, int32_t **host);
/* Free all buffers and tokens that were made since the last call. */
void buffers_free(struct cuda_rig *r);

/*
 * Compare with the definition: an element may err by bound times the largest number of the buffer,
 * and by its own rounding if the type is not float. Adds the bits to the rig's hash.
 */
void buffer_check(struct buffer *b, double bound);
/* As buffer_check; the largest number counts as `least` if it is smaller: the terms of a sum are as
 * large, and may cancel each other in all elements of a small buffer. */
void buffer_check_sum(struct buffer *b, double bound, double least);
/* Add n bytes to the rig's hash. */
void rig_hash(struct cuda_rig *r, const void *bytes, size_t n);
void rig_fail(struct cuda_rig *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Make a launcher's failure the rig's. */
void rig_try(struct cuda_rig *r, enum lk_status st);

/* Define an op's results, or count what that costs. */
void rig_define(struct cuda_rig *r, const struct lk_op *op, const void *args);

/* Run an op on the device and by its definition, with the same scalars:
 * RUN(rig, op, (device pointers), (host pointers), scalars...). */
#define UNWRAP(...) __VA_ARGS__
#define RUN(r, op, device, host, ...)                                                              \
    do {                                                                                           \
        rig_try(r,                                                                                 \
                lk_##op##_cuda(&(struct lk_##op##_args){UNWRAP device, __VA_ARGS__}, &(r)->cuda)); \
        rig_define(r, &lk_op_##op, &(struct lk_##op##_args){UNWRAP host, __VA_ARGS__});            \
    } while (0)

/*
 * Shapes of all kinds in one table: those for the host, then those only for a GPU, then the
 * largest, which run on aligned buffers alone. Numbers and definitions of a case are the host's
 * work: less than ten seconds of one processor, since check-gpu runs the cases side by side on few.
 */
#define N_SHAPES(r, table, host, shifted)                                                          \
    (!(r)->large ? (size_t)(host) : (r)->shift ? (size_t)(shifted) : LK_COUNT(table))

#define ULP 0x1p-23
/* Bound of a sum of k products of numbers below 1 in float, as in tests/rigs/kernel_pair.h. */
#define SUM_BOUND(k) (ULP * (4 + (double)(k) / 2))

#endif
