/* Private to kernels/NAME.cu: products of matrices by cuBLASLt (kernels/blas_cuda.c), of any size.
 */
#ifndef LK_KERNELS_PRODUCT_CUH
#define LK_KERNELS_PRODUCT_CUH

#include "kernels/device.cuh"

enum { LK_PRODUCT_THREADS = 256 };

/* Compute d = bias + e, for an empty inner dimension. */
template <class T>
__global__ void __launch_bounds__(LK_PRODUCT_THREADS)
    nothing_kernel(T *d, const T *bias, const T *e, size_t rows, size_t columns, size_t stride)
{
    size_t threads = (size_t)gridDim.x * blockDim.x;

    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < rows * columns;
         i += threads) {
        size_t at = i / columns * stride + i % columns;

        d[at] = from_float<T>((bias ? to_float(bias[i % columns]) : 0) + (e ? to_float(e[at]) : 0));
    }
}

/* Enqueue a product, whose sizes may be 0; errors begin with the name. */
template <class T>
enum lk_status product(const struct lk_cuda *c, const char *name, const struct lk_cuda_product &p)
{
    if (p.rows == 0 || p.columns == 0)
        return LK_OK;
    if (p.inner > 0)
        return lk_fail_context(lk_cuda_blas_product(c, &p), "%s", name);
    return lk_launch(c, name, dim3(blocks_for(p.rows * p.columns, LK_PRODUCT_THREADS)),
                     LK_PRODUCT_THREADS, 0, nothing_kernel<T>, static_cast<T *>(p.d),
                     static_cast<const T *>(p.bias), static_cast<const T *>(p.e), p.rows, p.columns,
                     lk_op_stride(p.d_stride, p.columns));
}

#endif
