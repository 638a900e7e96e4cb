/* Buffers of the cases: the same numbers on the device and, as doubles, for the definition. */
#ifndef LK_TESTS_CUDA_BUFFERS_H
#define LK_TESTS_CUDA_BUFFERS_H

#include "kernels/impl.h"
#include "tests/cuda/cases.h"

struct buffer {
    struct cuda_rig *rig;
    const char *name;
    size_t n;
    enum lk_dtype type;
    void *base, *dev; /* dev: base and the rig's shift */
    double *d;
};

/* Uniform in [-range, range), rounded to the type. Freed by buffers_free. */
struct buffer buffer_random(struct cuda_rig *r, const char *name, enum lk_dtype type, size_t n,
                            double range);
struct buffer buffer_zero(struct cuda_rig *r, const char *name, enum lk_dtype type, size_t n);
/* What the buffer's d holds goes to the device, rounded; d becomes that. */
void buffer_send(struct buffer *b);
void buffer_free(struct buffer *b);
/* n integers below `below`, on the device and in *host. */
int32_t *tokens_random(struct cuda_rig *r, size_t n, size_t below, int32_t **host);
void tokens_free(struct cuda_rig *r, int32_t *dev, int32_t *host);

/*
 * Compares with the definition: an element may err by bound times the largest number of the buffer,
 * and by its own rounding where the type is not float. Adds the bits to the rig's hash.
 */
void buffer_check(struct buffer *b, double bound);
/* n bytes into the rig's hash. */
void rig_hash(struct cuda_rig *r, const void *bytes, size_t n);
void rig_fail(struct cuda_rig *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A launcher's failure becomes the rig's. */
void rig_try(struct cuda_rig *r, enum lk_status st);

/* Runs an op on the device and by its definition, with the same scalars:
 * RUN(rig, op, (device pointers), (host pointers), scalars...). */
#define UNWRAP(...) __VA_ARGS__
#define RUN(r, op, device, host, ...)                                                              \
    do {                                                                                           \
        rig_try(r,                                                                                 \
                lk_##op##_cuda(&(struct lk_##op##_args){UNWRAP device, __VA_ARGS__}, &(r)->cuda)); \
        if ((r)->compare)                                                                          \
            lk_op_##op.ref(&(struct lk_##op##_args){UNWRAP host, __VA_ARGS__});                    \
    } while (0)

#define ULP 0x1p-23
/* A sum of k products of numbers below 1 in float, as in tests/test_kernels.c. */
#define SUM_BOUND(k) (ULP * (4 + (double)(k) / 2))

#endif
