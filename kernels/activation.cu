/*
 * gelu and relu: bound by memory, computed in float.
 *
 * gelu uses 0.5 (1 + tanh(u)) = 1 / (1 + exp(-2u)): two instructions of the special function unit
 * instead of tanhf's twenty and more.
 */
#include "kernels/columns.cuh"
#include "kernels/map.cuh"
#include "kernels/ptx.cuh"

namespace
{

constexpr float root_two_over_pi = 0.79788456080286535588F;
constexpr float cubic = 0.044715F;
constexpr float log2_e = 1.44269504088896340736F;

/* gelu's 0.5 (1 + tanh(u)) and 0.5 (1 - tanh(u)), both without cancellation. */
struct gates {
    float open, shut;

    __device__ explicit gates(float x)
    {
        float u = root_two_over_pi * (x + cubic * x * x * x);
        float e = exp2_fast(-2 * log2_e * fabsf(u)), larger = reciprocal_fast(1 + e);

        open = u < 0 ? e * larger : larger;
        shut = u < 0 ? larger : e * larger;
    }
};

template <class T> struct gelu {
    __device__ T operator()(T in) const
    {
        float x = to_float(in);

        return from_float<T>(x * gates(x).open);
    }
};

__device__ inline float gelu_slope(float x)
{
    float twice_du = 2 * root_two_over_pi * (1 + 3 * cubic * x * x);
    gates g(x);

    return g.open + x * g.open * g.shut * twice_du;
}

template <class T> struct gelu_derivative {
    __device__ T operator()(T dout, T in) const
    {
        return from_float<T>(to_float(dout) * gelu_slope(to_float(in)));
    }
};

/* gelu's derivative, stored and added to the sums of its columns before it is rounded. */
template <int N, class T> struct gelu_columns {
    static constexpr int SUMS = 1;
    T *din;
    const T *dout, *in;
    size_t columns;

    __device__ void operator()(float (&sum)[N], size_t r, size_t c) const
    {
        pack<T, N> d = load<N>(dout + r * columns + c), x = load<N>(in + r * columns + c);

#pragma unroll
        for (int k = 0; k < N; k++) {
            float y = to_float(d.x[k]) * gelu_slope(to_float(x.x[k]));

            sum[k] += y;
            d.x[k] = from_float<T>(y);
        }
        store<N>(din + r * columns + c, d);
    }
};

template <class T>
enum lk_status gelu_backward(const struct lk_gelu_backward_args &a, const struct lk_cuda *c)
{
    enum { MOST_STRIPS = 256 }; /* two or more waves of blocks for a row of 3072 */
    T *din = static_cast<T *>(a.din);
    const T *dout = static_cast<const T *>(a.dout), *in = static_cast<const T *>(a.in);

    if (!a.dbias)
        return lk_map(c, "gelu_backward", din, dout, in, a.n, gelu_derivative<T>{});
    return sum_columns<gelu_columns>(
        c, "gelu_backward", column_sums<T>{static_cast<T *>(a.dbias), nullptr, a.columns},
        a.columns ? a.n / a.columns : 0, MOST_STRIPS, fits<widest<T>>(din, dout, in), a.accumulate,
        din, dout, in, a.columns);
}

/* relu by comparisons that let NaN pass. */
template <class T> struct relu {
    __device__ T operator()(T in) const
    {
        return to_float(in) < 0 ? from_float<T>(0) : in;
    }
};

template <class T> struct relu_derivative {
    __device__ T operator()(T dout, T out) const
    {
        return to_float(out) <= 0 ? from_float<T>(0) : dout;
    }
};

/* Define an op that maps f over one array, or two, of T. */
#define MAP_ONE(op, to, from, f)                                                                   \
    template <class T> enum lk_status op(const struct lk_##op##_args &a, const struct lk_cuda *c)  \
    {                                                                                              \
        return lk_map(c, #op, static_cast<T *>(a.to), static_cast<const T *>(a.from), a.n, f{});   \
    }
#define MAP_TWO(op, to, one, two, f)                                                               \
    template <class T> enum lk_status op(const struct lk_##op##_args &a, const struct lk_cuda *c)  \
    {                                                                                              \
        return lk_map(c, #op, static_cast<T *>(a.to), static_cast<const T *>(a.one),               \
                      static_cast<const T *>(a.two), a.n, f{});                                    \
    }
MAP_ONE(gelu_forward, out, in, gelu<T>)
MAP_ONE(relu_forward, out, in, relu<T>)
MAP_TWO(relu_backward, din, dout, out, relu_derivative<T>)

} // namespace

LK_CUDA_OP(gelu_forward)
LK_CUDA_OP(gelu_backward)
LK_CUDA_OP(relu_forward)
LK_CUDA_OP(relu_backward)
