/* What the tests of matrix products share: a context over the fake cuBLASLt, and matrices. */
#ifndef LK_TESTS_BLAS_RIG_CUDA_H
#define LK_TESTS_BLAS_RIG_CUDA_H

#include "base/rng.h"
#include "kernels/cuda.h"

#include <stdbool.h>
#include <stddef.h>

extern struct lk_cuda blas_rig; /* with the fake cuBLASLt; a test sets its type */
extern void *blas_rig_workspace;
/* The types of products. */
enum { BLAS_RIG_REALS = 3 };
extern const enum lk_dtype blas_rig_reals[BLAS_RIG_REALS];

void blas_rig_setup(void);
void blas_rig_teardown(void);

/* Numbers in the product's type and as doubles, in rows `stride` apart. The padding between rows is
 * filled too, so that reads of it give errors and writes to it are seen. */
struct matrix {
    size_t rows, columns, stride, n;
    void *base, *at; /* `at` begins `shift` elements after an address aligned to 256 bytes */
    double *d;
};
struct matrix matrix(struct lk_rng *g, size_t rows, size_t columns, size_t stride, size_t shift);
void matrix_free(struct matrix *m);

/* Return element i of numbers in the product's type. */
double matrix_element(const void *p, size_t i);
/* Return the relative error that a result of that type may have. */
double matrix_ulp(void);
double matrix_at(const struct matrix *m, bool transposed, size_t row, size_t column);
/* Check a result after so many roundings to its type, and that the padding is unchanged. */
void matrix_check(const struct matrix *m, const double *want, int roundings, const char *what);
/* Compute a product without its epilogue. pre: its strides are not 0; bias and e where it has some.
 */
void matrix_multiply(double *want, const struct lk_cuda_product *p, const struct matrix *a,
                     const struct matrix *b, const struct matrix *bias, const double *e);

#endif
