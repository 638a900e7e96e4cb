/*
 * The linear layer. cuBLASLt computes the products (kernels/blas_cuda.c), with the bias as epilogue
 * and the residual or accumulated gradient as the matrix added; kernels here sum the bias's
 * gradient.
 */
#include "kernels/columns.cuh"

namespace
{

enum { THREADS = LK_COLUMNS_THREADS, MOST_STRIPS = 128 };

/* Compute d = bias + e, for an empty inner dimension. */
template <class T>
__global__ void __launch_bounds__(THREADS)
    nothing_kernel(T *d, const T *bias, const T *e, size_t rows, size_t columns, size_t stride)
{
    size_t threads = (size_t)gridDim.x * blockDim.x;

    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < rows * columns;
         i += threads) {
        size_t at = i / columns * stride + i % columns;

        d[at] = from_float<T>((bias ? to_float(bias[i % columns]) : 0) + (e ? to_float(e[at]) : 0));
    }
}

template <class T>
enum lk_status product(const struct lk_cuda *c, const char *name, const struct lk_cuda_product &p)
{
    if (p.rows == 0 || p.columns == 0)
        return LK_OK;
    if (p.inner > 0)
        return lk_fail_context(lk_cuda_blas_product(c, &p), "%s", name);
    return lk_launch(c, name, dim3(blocks_for(p.rows * p.columns, THREADS)), THREADS, 0,
                     nothing_kernel<T>, static_cast<T *>(p.d), static_cast<const T *>(p.bias),
                     static_cast<const T *>(p.e), p.rows, p.columns,
                     lk_op_stride(p.d_stride, p.columns));
}

template <class T>
enum lk_status matmul_forward(const struct lk_matmul_forward_args &a, const struct lk_cuda *c)
{
    struct lk_cuda_product p = {};

    p.d = a.out;
    p.a = a.in;
    p.b = a.weight;
    p.transpose_b = true;
    p.bias = a.bias;
    p.e = a.residual;
    p.rows = a.rows;
    p.inner = a.inputs;
    p.columns = a.outputs;
    p.d_stride = a.stride;
    return product<T>(c, "matmul_forward", p);
}

template <class T>
enum lk_status matmul_backward_input(const struct lk_matmul_backward_input_args &a,
                                     const struct lk_cuda *c)
{
    struct lk_cuda_product p = {};

    p.d = a.din;
    p.a = a.dout;
    p.b = a.weight;
    p.e = a.accumulate ? a.din : nullptr;
    p.rows = a.rows;
    p.inner = a.outputs;
    p.columns = a.inputs;
    p.a_stride = a.stride;
    return product<T>(c, "matmul_backward_input", p);
}

/* Sum the columns of a strip of rows: a lane has N columns, a warp of the block every eighth
 * row. */
template <int N, class T>
__global__ void __launch_bounds__(THREADS)
    columns_kernel(float *partial, const T *in, size_t rows, size_t columns, size_t stride)
{
    LK_SHARED(float, sums, THREADS *N);
    size_t first = rows * blockIdx.y / gridDim.y, end = rows * (blockIdx.y + 1) / gridDim.y;
    size_t c = ((size_t)blockIdx.x * LK_WARP + threadIdx.x % LK_WARP) * N;
    float sum[N] = {};

    for (size_t r = first + threadIdx.x / LK_WARP; r < end && c < columns; r += LK_COLUMNS_PARTS) {
        pack<T, N> from = load<N>(in + r * stride + c);

#pragma unroll
        for (int k = 0; k < N; k++)
            sum[k] += to_float(from.x[k]);
    }
#pragma unroll
    for (int k = 0; k < N; k++)
        sums[k * THREADS + threadIdx.x] = sum[k];
    __syncthreads();
    if (threadIdx.x >= LK_WARP || c >= columns)
        return;
    for (int k = 0; k < N; k++) {
        float total = 0;

        for (int part = 0; part < LK_COLUMNS_PARTS; part++)
            total += sums[k * THREADS + part * LK_WARP + (int)threadIdx.x];
        partial[blockIdx.y * columns + c + (size_t)k] = total;
    }
}

template <class T>
enum lk_status sum_columns(const struct lk_cuda *c, T *out, const T *in, size_t rows,
                           size_t columns, size_t stride, bool accumulate)
{
    constexpr int N = widest<T>;
    const char *name = "matmul_backward_weight";
    float *partial = static_cast<float *>(c->workspace);
    /* At least eight rows per warp and strip. */
    size_t strips = strips_of((rows + 63) / 64, columns, MOST_STRIPS);
    bool wide = columns % N == 0 && stride % N == 0 && fits<N>(in);
    dim3 grid(blocks_for(columns, (size_t)LK_WARP * (wide ? N : 1), UINT32_MAX), (unsigned)strips);
    enum lk_status st;

    if (rows > 0 && strips == 0)
        return lk_fail(LK_EUNSUPPORTED, "%s: a bias of %zu elements", name, columns);
    st = lk_launch(c, name, grid, THREADS, 0, wide ? columns_kernel<N, T> : columns_kernel<1, T>,
                   partial, in, rows, columns, stride);
    if (st != LK_OK)
        return st;
    return sum_strips(c, name, column_sums<T>{out, nullptr, columns}, partial, strips, columns,
                      accumulate);
}

template <class T>
enum lk_status matmul_backward_weight(const struct lk_matmul_backward_weight_args &a,
                                      const struct lk_cuda *c)
{
    struct lk_cuda_product p = {};
    enum lk_status st;

    p.d = a.dweight;
    p.a = a.dout;
    p.transpose_a = true;
    p.b = a.in;
    p.e = a.accumulate ? a.dweight : nullptr;
    p.rows = a.outputs;
    p.inner = a.rows;
    p.columns = a.inputs;
    p.a_stride = a.stride;
    st = product<T>(c, "matmul_backward_weight", p);
    if (st != LK_OK || !a.dbias)
        return st;
    return sum_columns(c, static_cast<T *>(a.dbias), static_cast<const T *>(a.dout), a.rows,
                       a.outputs, lk_op_stride(a.stride, a.outputs), a.accumulate);
}

} // namespace

LK_CUDA_OP(matmul_forward)
LK_CUDA_OP(matmul_backward_input)
LK_CUDA_OP(matmul_backward_weight)
