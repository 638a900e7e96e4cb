/* Orthonormal columns, float32 and float64: the same loops; sums are float64. */
#include "kernels/impl.h"
#include "kernels/lowrank.h"

#include <math.h>

/* Less than this share of a column's norm is rounding; see kernels/ops.h. */
static const double least_share = 0x1p-20;

/* DEFINE(name, type): make the columns orthonormal. */
#define DEFINE(name, type)                                                                         \
    static double name##_dot(const struct lk_orthogonalize_args *a, size_t j, size_t k)            \
    {                                                                                              \
        const type *x = (const type *)a->x + j * a->column_stride;                                 \
        const type *y = (const type *)a->x + k * a->column_stride;                                 \
        double sum = 0;                                                                            \
                                                                                                   \
        for (size_t i = 0; i < a->rows; i++)                                                       \
            sum += (double)x[i * a->row_stride] * (double)y[i * a->row_stride];                    \
        return sum;                                                                                \
    }                                                                                              \
                                                                                                   \
    static void name##_take_off(const struct lk_orthogonalize_args *a, size_t j, size_t k)         \
    {                                                                                              \
        type *x = (type *)a->x + j * a->column_stride;                                             \
        const type *y = (const type *)a->x + k * a->column_stride;                                 \
        double along = name##_dot(a, j, k);                                                        \
                                                                                                   \
        for (size_t i = 0; i < a->rows; i++)                                                       \
            x[i * a->row_stride] -= (type)(along * (double)y[i * a->row_stride]);                  \
    }                                                                                              \
                                                                                                   \
    /* Take off what lies along earlier columns, and return the norm of the rest. */               \
    static double name##_rest(const struct lk_orthogonalize_args *a, size_t j)                     \
    {                                                                                              \
        for (size_t k = 0; k < 2 * j; k++)                                                         \
            name##_take_off(a, j, k % j);                                                          \
        return sqrt(name##_dot(a, j, j));                                                          \
    }                                                                                              \
                                                                                                   \
    void name(const void *args)                                                                    \
    {                                                                                              \
        const struct lk_orthogonalize_args *a = args;                                              \
                                                                                                   \
        for (size_t j = 0; j < a->columns; j++) {                                                  \
            double before = sqrt(name##_dot(a, j, j)), norm = name##_rest(a, j);                   \
            type *x = (type *)a->x + j * a->column_stride;                                         \
                                                                                                   \
            if (norm <= least_share * before) {                                                    \
                for (size_t i = 0; i < a->rows; i++)                                               \
                    x[i * a->row_stride] = (type)lk_lowrank_stand_in(i, j);                        \
                norm = name##_rest(a, j);                                                          \
            }                                                                                      \
            for (size_t i = 0; i < a->rows && norm > 0; i++)                                       \
                x[i * a->row_stride] = (type)((double)x[i * a->row_stride] / norm);                \
        }                                                                                          \
    }

DEFINE(lk_orthogonalize_cpu, float)
DEFINE(lk_orthogonalize_ref, double)
