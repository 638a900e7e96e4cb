/*
 * Buffers for tests of ops: the same values as float32 for op->cpu and as float64 for op->ref.
 *
 * Tolerances: a sum of k products of numbers below 1 has k rounding errors, each at most half an
 * ulp of the running sum, which walk at random: sqrt(k) of them, of a sum of about sqrt(k), is k /
 * 2 ulp of 1. A few more ulp are allowed, which matters for small k.
 */
#ifndef LK_TESTS_KERNEL_PAIR_H
#define LK_TESTS_KERNEL_PAIR_H

#include "base/rng.h"

#include <float.h>
#include <stddef.h>
#include <stdint.h>

#define ULP              ((double)FLT_EPSILON)
#define SUM_TOLERANCE(k) (ULP * (4 + (double)(k) / 2))

/* Run both implementations with the same scalars; pointers differ, so there are two argument
 * lists: RUN(op, (float pointers), (double pointers), scalars...). Before them copies of the float
 * buffers are run on as narrow ones (pair_check_narrow). */
#define UNWRAP(...) __VA_ARGS__
#define RUN(op, floats, doubles, ...)                                                              \
    do {                                                                                           \
        pair_check_narrow(&lk_op_##op, &(struct lk_##op##_args){UNWRAP floats, __VA_ARGS__});      \
        lk_op_##op.cpu(&(struct lk_##op##_args){UNWRAP floats, __VA_ARGS__});                      \
        lk_op_##op.ref(&(struct lk_##op##_args){UNWRAP doubles, __VA_ARGS__});                     \
    } while (0)

struct lk_op;
/*
 * Check that the op on buffers of float16, and of bfloat16 (kernels/narrow.h), gives what it gives
 * on floats of the same values, rounded, bit for bit, and leaves what it does not write. args: with
 * pointers to buffers of this rig, which stay as they are. Ops whose buffers are in a table are
 * left out.
 */
void pair_check_narrow(const struct lk_op *op, const void *args);

struct pair {
    size_t n;
    float *f;
    double *d; /* exactly the values of f at the start */
};

/* Make buffers, uniform in [-range, range) or zero, or end the test. Freed by pairs_free. */
struct pair pair_random(struct lk_rng *g, size_t n, double range);
struct pair pair_zero(size_t n);
/* Free the pairs and tokens of this test: the end of a checked fixture. */
void pairs_free(void);
/* Set f to the rounded d, so that a second op starts from equal values again. */
void pair_align(struct pair *p);
/* Return the largest |f - d| / max(1, |d|); infinity when only one side is NaN or infinite. */
double pair_error(const struct pair *p);
/* Return n integers in [0, below); freed by pairs_free. */
int32_t *random_tokens(struct lk_rng *g, size_t n, size_t below);

#endif
