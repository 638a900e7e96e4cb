/*
 * The linear layer. cuBLASLt computes the products (kernels/blas_cuda.c), with the bias as epilogue
 * and the residual or accumulated gradient as the matrix added; the bias's gradient is summed by
 * another epilogue, or by a kernel here.
 */
#include "kernels/columns.cuh"
#include "kernels/map.cuh"
#include "kernels/product.cuh"

namespace
{

enum { THREADS = LK_COLUMNS_THREADS, MOST_STRIPS = 128 };

template <class T> struct add_elements {
    __device__ T operator()(T a, T b) const
    {
        return from_float<T>(to_float(a) + to_float(b));
    }
};

/* Run a product whose epilogue sums n elements of a bias's gradient into dbias. cuBLASLt overwrites
 * them: those to accumulate go through the context's sums. */
template <class T>
enum lk_status product_with_sums(const struct lk_cuda *c, const char *name,
                                 struct lk_cuda_product p, void *dbias, size_t n, bool accumulate)
{
    T *to = static_cast<T *>(dbias);
    enum lk_status st;

    if (n * sizeof(T) > LK_CUDA_SUMS_BYTES)
        return lk_fail(LK_EUNSUPPORTED, "%s: a bias of %zu elements", name, n);
    p.sums = accumulate ? c->sums : dbias;
    st = product<T>(c, name, p);
    if (st != LK_OK || !accumulate)
        return st;
    return lk_map(c, name, to, to, static_cast<const T *>(c->sums), n, add_elements<T>{});
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
    if (a.gelu) {
        p.epilogue = LK_EPILOGUE_GELU;
        p.d = a.gelu;
        p.aux = a.out;
    }
    return product<T>(c, "matmul_forward", p);
}

template <class T>
enum lk_status matmul_backward_input(const struct lk_matmul_backward_input_args &a,
                                     const struct lk_cuda *c)
{
    const char *name = "matmul_backward_input";
    struct lk_cuda_product p = {};

    p.d = a.din;
    p.a = a.dout;
    p.b = a.weight;
    p.e = a.accumulate ? a.din : nullptr;
    p.rows = a.rows;
    p.inner = a.outputs;
    p.columns = a.inputs;
    p.a_stride = a.stride;
    if (a.gelu_in) {
        p.epilogue = LK_EPILOGUE_DGELU;
        p.aux = const_cast<void *>(a.gelu_in);
    }
    if (a.dbias)
        return product_with_sums<T>(c, name, p, a.dbias, a.inputs, a.accumulate_bias);
    return product<T>(c, name, p);
}

template <class T>
enum lk_status matmul_backward_weight(const struct lk_matmul_backward_weight_args &a,
                                      const struct lk_cuda *c)
{
    const char *name = "matmul_backward_weight";
    size_t stride = lk_op_stride(a.stride, a.outputs);
    const T *dout = static_cast<const T *>(a.dout);
    struct lk_cuda_product p = {};
    bool wide;
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
    if (a.dbias && a.epilogue && a.rows > 0) {
        p.epilogue = LK_EPILOGUE_SUMS;
        return product_with_sums<T>(c, name, p, a.dbias, a.outputs, a.accumulate);
    }
    st = product<T>(c, name, p);
    if (st != LK_OK || !a.dbias)
        return st;
    wide = stride % widest<T> == 0 && fits<widest<T>>(dout);
    return sum_columns<stored>(c, name,
                               column_sums<T>{static_cast<T *>(a.dbias), nullptr, a.outputs},
                               a.rows, MOST_STRIPS, wide, a.accumulate, dout, stride);
}

} // namespace

LK_CUDA_OP(matmul_forward)
LK_CUDA_OP(matmul_backward_input)
LK_CUDA_OP(matmul_backward_weight)
