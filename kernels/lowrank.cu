/*
 * Orthonormal columns, in one block: a column takes several sums over its rows, each of which the
 * next step waits for, and columns are few and short beside the matrices that they stand for. A
 * thread always has the same rows; sums are double.
 */
#include "kernels/lowrank.h"
#include "kernels/ptx.cuh"

namespace
{

enum { THREADS = 512 };

/* Return the share of a column's norm below which what is left of it is rounding (kernels/ops.h).
 */
template <class T> __device__ double least_share()
{
    return sizeof(T) < sizeof(float) ? 0x1p-7 : 0x1p-20;
}

template <class T> struct matrix {
    T *x;
    size_t rows, row_stride, column_stride;
    double *shared; /* LK_WARP */

    __device__ T &at(size_t row, size_t column) const
    {
        return x[row * row_stride + column * column_stride];
    }

    __device__ double dot(size_t j, size_t k) const
    {
        double sum = 0;

        for (size_t i = threadIdx.x; i < rows; i += THREADS)
            sum += (double)to_float(at(i, j)) * (double)to_float(at(i, k));
        return block_reduce(sum, add{}, 0.0, shared);
    }

    /* Take off what lies along earlier columns, twice, and return the norm of the rest. */
    __device__ double rest(size_t j) const
    {
        for (size_t k = 0; k < 2 * j; k++) {
            double along = dot(j, k % j);

            for (size_t i = threadIdx.x; i < rows; i += THREADS)
                at(i, j) = from_float<T>(to_float(at(i, j)) -
                                         (float)(along * (double)to_float(at(i, k % j))));
        }
        return sqrt(dot(j, j));
    }
};

template <class T>
__global__ void __launch_bounds__(THREADS)
    orthogonalize_kernel(T *x, size_t rows, size_t columns, size_t row_stride, size_t column_stride)
{
    LK_SHARED(double, shared, LK_WARP);
    const matrix<T> m = {x, rows, row_stride, column_stride, shared};

    for (size_t j = 0; j < columns; j++) {
        double before = sqrt(m.dot(j, j)), norm = m.rest(j);

        if (norm <= least_share<T>() * before) {
            for (size_t i = threadIdx.x; i < rows; i += THREADS)
                m.at(i, j) = from_float<T>((float)lk_lowrank_stand_in(i, j));
            norm = m.rest(j);
        }
        for (size_t i = threadIdx.x; i < rows && norm > 0; i += THREADS)
            m.at(i, j) = from_float<T>((float)((double)to_float(m.at(i, j)) / norm));
    }
}

template <class T>
enum lk_status orthogonalize(const struct lk_orthogonalize_args &a, const struct lk_cuda *c)
{
    return lk_launch(c, "orthogonalize", dim3(a.columns > 0), THREADS, 0, orthogonalize_kernel<T>,
                     static_cast<T *>(a.x), a.rows, a.columns, a.row_stride, a.column_stride);
}

} // namespace

LK_CUDA_OP(orthogonalize)
