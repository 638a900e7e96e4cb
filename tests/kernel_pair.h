/* Buffers for tests of ops: the same values as float32 for op->cpu and as float64 for op->ref. */
#ifndef LK_TESTS_KERNEL_PAIR_H
#define LK_TESTS_KERNEL_PAIR_H

#include "base/rng.h"

#include <stddef.h>
#include <stdint.h>

struct pair {
    size_t n;
    float *f;
    double *d; /* at the start exactly the values of f */
};

/* Uniform in [-range, range); each ends with the test if memory does. Freed by pair_free. */
struct pair pair_random(struct lk_rng *g, size_t n, double range);
struct pair pair_zero(size_t n);
void pair_free(struct pair *p);
/* Makes f the rounded d, so that a second op starts from equal values again. */
void pair_align(struct pair *p);
/* Largest |f - d| / max(1, |d|); infinity when a NaN or an infinity stands on one side only. */
double pair_error(const struct pair *p);
/* n integers in [0, below); freed by free. */
int32_t *random_tokens(struct lk_rng *g, size_t n, size_t below);

#endif
