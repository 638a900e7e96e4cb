/*
 * gelu and relu: bound by memory, computed in float.
 *
 * gelu uses 0.5 (1 + tanh(u)) = 1 / (1 + exp(-2u)): two instructions of the special function unit
 * instead of tanhf's twenty and more.
 */
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

template <class T> struct gelu_derivative {
    __device__ T operator()(T dout, T in) const
    {
        float x = to_float(in), twice_du = 2 * root_two_over_pi * (1 + 3 * cubic * x * x);
        gates g(x);

        return from_float<T>(to_float(dout) * (g.open + x * g.open * g.shut * twice_du));
    }
};

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
MAP_TWO(gelu_backward, din, dout, in, gelu_derivative<T>)
MAP_ONE(relu_forward, out, in, relu<T>)
MAP_TWO(relu_backward, din, dout, out, relu_derivative<T>)

} // namespace

LK_CUDA_OP(gelu_forward)
LK_CUDA_OP(gelu_backward)
LK_CUDA_OP(relu_forward)
LK_CUDA_OP(relu_backward)
