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

template <class T>
enum lk_status gelu_forward(const struct lk_gelu_forward_args &a, const struct lk_cuda *c)
{
    return lk_map(c, "gelu_forward", static_cast<T *>(a.out), static_cast<const T *>(a.in), a.n,
                  gelu<T>{});
}

template <class T>
enum lk_status gelu_backward(const struct lk_gelu_backward_args &a, const struct lk_cuda *c)
{
    return lk_map(c, "gelu_backward", static_cast<T *>(a.din), static_cast<const T *>(a.dout),
                  static_cast<const T *>(a.in), a.n, gelu_derivative<T>{});
}

template <class T>
enum lk_status relu_forward(const struct lk_relu_forward_args &a, const struct lk_cuda *c)
{
    return lk_map(c, "relu_forward", static_cast<T *>(a.out), static_cast<const T *>(a.in), a.n,
                  relu<T>{});
}

template <class T>
enum lk_status relu_backward(const struct lk_relu_backward_args &a, const struct lk_cuda *c)
{
    return lk_map(c, "relu_backward", static_cast<T *>(a.din), static_cast<const T *>(a.dout),
                  static_cast<const T *>(a.out), a.n, relu_derivative<T>{});
}

} // namespace

LK_CUDA_OP(gelu_forward)
LK_CUDA_OP(gelu_backward)
LK_CUDA_OP(relu_forward)
LK_CUDA_OP(relu_backward)
