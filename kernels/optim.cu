/*
 * Optimizers: one launch for all tensors of a table or of a part of it, one pass over memory. The
 * gradient is read from its bucket. If lk_real is narrower than float, the update works on the
 * float masters and writes them and the rounded weights.
 *
 * LARS and LAMB take two launches before it: sums of squares of each chunk, and of these each
 * tensor's ratio, by which the update multiplies the rate.
 */
#include "kernels/ptx.cuh"

namespace
{

enum { THREADS = 256, N = 4 /* floats in 16 bytes; states are always float */ };

/* Return the tensor of a chunk: the last that begins at it or before. An empty tensor begins where
 * the next one does, so it is never the last. */
__device__ size_t tensor_of(const struct lk_optim_tensor *tensors, size_t n_tensors, size_t chunk)
{
    size_t low = 0, high = n_tensors - 1;

    while (low < high) {
        size_t middle = (low + high + 1) / 2;

        if (tensors[middle].first_chunk <= chunk)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

template <int K, class X> __device__ bool aligned_for(const X *p)
{
    return reinterpret_cast<uintptr_t>(p) % alignof(pack<X, K>) == 0;
}

/* struct lk_optim_rate, rounded, and the tensor's ratio. */
struct rates {
    float learning_rate, corrected, root, unscale, ratio;
};

/* Update K neighbouring weights. F: void f(weight, m, v, grad, decay, rates); m and v may be NULL.
 * F::WEIGHTS, F::STATE: it changes the weights, and m and v. */
template <int K, class T, class F>
__device__ void update(const struct lk_optim_tensor &t, size_t i, F &f, const rates &r)
{
    float *master = static_cast<float *>(t.master), *m = static_cast<float *>(t.m);
    float *v = static_cast<float *>(t.v);
    T *param = static_cast<T *>(t.param);
    pack<T, K> grad = load<K>(static_cast<const T *>(t.grad) + i), rounded;
    pack<float, K> w, of_m = {}, of_v = {};

    if (master) {
        w = load<K>(master + i);
    } else {
        rounded = load<K>(param + i);
#pragma unroll
        for (int k = 0; k < K; k++)
            w.x[k] = to_float(rounded.x[k]);
    }
    if (m)
        of_m = load<K>(m + i);
    if (v)
        of_v = load<K>(v + i);
#pragma unroll
    for (int k = 0; k < K; k++) {
        f(w.x[k], of_m.x[k], of_v.x[k], r.unscale * to_float(grad.x[k]), (float)t.weight_decay, r);
        rounded.x[k] = from_float<T>(w.x[k]);
    }
    if (F::STATE && m)
        store<K>(m + i, of_m);
    if (F::STATE && v)
        store<K>(v + i, of_v);
    if (F::WEIGHTS && master)
        store<K>(master + i, w);
    if (F::WEIGHTS)
        store<K>(param + i, rounded);
}

/* A table of tensors, and the rate of its update. */
struct table {
    const struct lk_optim_tensor *tensors;
    size_t n_tensors;
    const struct lk_optim_rate *rate;
};

/* Update one chunk per block. All threads of a block agree on wide accesses, which the chunk's
 * tensor decides. ratios: by which a tensor's rate is multiplied; NULL: 1. */
template <class T, class F>
__device__ void update_chunk(const table &all, const float *ratios, F &f)
{
    size_t chunk = all.tensors->first_chunk + blockIdx.x;
    size_t tensor = tensor_of(all.tensors, all.n_tensors, chunk);
    const struct lk_optim_tensor t = all.tensors[tensor];
    size_t first = (chunk - t.first_chunk) * LK_OPTIM_CHUNK;
    size_t end = t.n - first < LK_OPTIM_CHUNK ? t.n : first + LK_OPTIM_CHUNK, tail = first;
    const rates r = {(float)all.rate->learning_rate, (float)all.rate->corrected,
                     (float)all.rate->root, (float)all.rate->unscale, ratios ? ratios[tensor] : 1};

    if (aligned_for<N>(static_cast<T *>(t.param)) &&
        aligned_for<N>(static_cast<const T *>(t.grad)) &&
        aligned_for<N>(static_cast<float *>(t.master)) &&
        aligned_for<N>(static_cast<float *>(t.m)) && aligned_for<N>(static_cast<float *>(t.v))) {
        tail = end - (end - first) % N;
        for (size_t i = first + (size_t)threadIdx.x * N; i < tail; i += (size_t)THREADS * N)
            update<N, T>(t, i, f, r);
    }
    for (size_t i = tail + threadIdx.x; i < end; i += THREADS)
        update<1, T>(t, i, f, r);
}

template <class T, class F>
__global__ void __launch_bounds__(THREADS) update_kernel(table all, const float *ratios, F f)
{
    update_chunk<T>(all, ratios, f);
}

struct sgd_step {
    static constexpr bool WEIGHTS = true, STATE = true;
    float momentum;

    /* Without momentum, m is zero and is not stored. */
    __device__ void operator()(float &w, float &m, float &, float g, float decay,
                               const rates &r) const
    {
        m = momentum * m + (g + decay * w);
        w -= r.learning_rate * m;
    }
};

struct adamw_step {
    static constexpr bool WEIGHTS = true, STATE = true;
    float beta1, rest1, beta2, rest2, eps;

    __device__ void operator()(float &w, float &m, float &v, float g, float decay,
                               const rates &r) const
    {
        m = beta1 * m + rest1 * g;
        v = beta2 * v + rest2 * g * g;
        w = (1 - r.learning_rate * decay) * w - r.corrected * m / (sqrtf(v) * r.root + eps);
    }
};

template <class T, class A, class F>
enum lk_status update_all(const A &a, const struct lk_cuda *c, const char *name, F f,
                          const float *ratios = nullptr)
{
    if (a.n_chunks > INT32_MAX)
        return lk_fail(LK_EUNSUPPORTED, "%s: %zu chunks", name, a.n_chunks);
    return lk_launch(c, name, dim3((unsigned)a.n_chunks), THREADS, 0, update_kernel<T, F>,
                     table{a.tensors, a.n_tensors, a.rate}, ratios, f);
}

template <class T> enum lk_status sgd(const struct lk_sgd_args &a, const struct lk_cuda *c)
{
    return update_all<T>(a, c, "sgd", sgd_step{(float)a.momentum});
}

template <class T> enum lk_status adamw(const struct lk_adamw_args &a, const struct lk_cuda *c)
{
    adamw_step f = {(float)a.beta1, (float)(1 - a.beta1), (float)a.beta2, (float)(1 - a.beta2),
                    (float)a.eps};

    return update_all<T>(a, c, "adamw", f);
}

/* ---- Rates that adapt to a tensor's norms ---- */

/* Sum two squares of each element of a chunk, as F::of_weights and F::of_other; F may change m and
 * v. partial: (chunks, 2). */
template <class T, class F>
__global__ void __launch_bounds__(THREADS) norms_kernel(float *partial, table all, F f)
{
    LK_SHARED(float, shared, LK_WARP);
    float weights, other;

    update_chunk<T>(all, nullptr, f);
    weights = block_reduce(f.of_weights, add{}, 0.0F, shared);
    other = block_reduce(f.of_other, add{}, 0.0F, shared);
    if (threadIdx.x == 0) {
        partial[2 * (size_t)blockIdx.x] = weights;
        partial[2 * (size_t)blockIdx.x + 1] = other;
    }
}

/* Make the ratio of a tensor a block: f(norm of the weights, other norm, decay), and 1 where a norm
 * is 0 and of a tensor that is not layerwise. */
template <class F>
__global__ void __launch_bounds__(THREADS)
    ratios_kernel(float *ratios, const float *partial, table all, F f)
{
    LK_SHARED(double, shared, LK_WARP);
    const struct lk_optim_tensor t = all.tensors[blockIdx.x];
    size_t first = t.first_chunk - all.tensors->first_chunk;
    size_t end = first + (t.n + LK_OPTIM_CHUNK - 1) / LK_OPTIM_CHUNK;
    double weights = 0, other = 0;

    for (size_t i = first + threadIdx.x; i < end; i += THREADS) {
        weights += partial[2 * i];
        other += partial[2 * i + 1];
    }
    weights = sqrt(block_reduce(weights, add{}, 0.0, shared));
    other = sqrt(block_reduce(other, add{}, 0.0, shared));
    if (threadIdx.x == 0)
        ratios[blockIdx.x] =
            t.layerwise && weights > 0 && other > 0 ? (float)f(weights, other, t.weight_decay) : 1;
}

struct lars_norms {
    static constexpr bool WEIGHTS = false, STATE = false;
    float of_weights, of_other;

    __device__ void operator()(float &w, float &, float &, float g, float, const rates &)
    {
        of_weights += w * w;
        of_other += g * g;
    }
};

struct lars_ratio {
    double trust;

    __device__ double operator()(double weights, double gradient, double decay) const
    {
        return trust * weights / (gradient + decay * weights);
    }
};

struct lars_step {
    static constexpr bool WEIGHTS = true, STATE = true;
    float momentum;

    /* Without momentum, m is zero and is not stored. */
    __device__ void operator()(float &w, float &m, float &, float g, float decay,
                               const rates &r) const
    {
        m = momentum * m + r.learning_rate * r.ratio * (g + decay * w);
        w -= m;
    }
};

/* The update of an element, before the ratio. */
__device__ float lamb_of(float w, float m, float v, float decay, float eps, const rates &r)
{
    return m * (r.corrected / r.learning_rate) / (sqrtf(v) * r.root + eps) + decay * w;
}

struct lamb_norms {
    static constexpr bool WEIGHTS = false, STATE = true;
    float beta1, rest1, beta2, rest2, eps;
    float of_weights, of_other;

    __device__ void operator()(float &w, float &m, float &v, float g, float decay, const rates &r)
    {
        float step;

        m = beta1 * m + rest1 * g;
        v = beta2 * v + rest2 * g * g;
        step = lamb_of(w, m, v, decay, eps, r);
        of_weights += w * w;
        of_other += step * step;
    }
};

struct lamb_ratio {
    __device__ double operator()(double weights, double step, double) const
    {
        return weights / step;
    }
};

struct lamb_step {
    static constexpr bool WEIGHTS = true, STATE = false;
    float eps;

    __device__ void operator()(float &w, float &m, float &v, float, float decay,
                               const rates &r) const
    {
        w -= r.learning_rate * r.ratio * lamb_of(w, m, v, decay, eps, r);
    }
};

/* Make the ratios of all tensors in the workspace, behind which the chunks' sums lie. */
template <class T, class A, class F, class G>
enum lk_status make_ratios(const A &a, const struct lk_cuda *c, const char *name, F norms, G ratio)
{
    float *ratios = static_cast<float *>(c->workspace), *partial = ratios + a.n_tensors;
    const table all = {a.tensors, a.n_tensors, a.rate};
    enum lk_status st;

    if (a.n_tensors > INT32_MAX || a.n_chunks > INT32_MAX ||
        (a.n_tensors + 2 * a.n_chunks) * sizeof(float) > LK_CUDA_WORKSPACE_BYTES)
        return lk_fail(LK_EUNSUPPORTED, "%s: %zu tensors of %zu chunks", name, a.n_tensors,
                       a.n_chunks);
    st = lk_launch(c, name, dim3((unsigned)a.n_chunks), THREADS, 0, norms_kernel<T, F>, partial,
                   all, norms);
    if (st != LK_OK)
        return st;
    return lk_launch(c, name, dim3((unsigned)a.n_tensors), THREADS, 0, ratios_kernel<G>, ratios,
                     static_cast<const float *>(partial), all, ratio);
}

template <class T> enum lk_status lars(const struct lk_lars_args &a, const struct lk_cuda *c)
{
    enum lk_status st = make_ratios<T>(a, c, "lars", lars_norms{}, lars_ratio{a.trust});

    if (st != LK_OK)
        return st;
    return update_all<T>(a, c, "lars", lars_step{(float)a.momentum},
                         static_cast<const float *>(c->workspace));
}

template <class T> enum lk_status lamb(const struct lk_lamb_args &a, const struct lk_cuda *c)
{
    lamb_norms norms = {};
    enum lk_status st;

    norms.beta1 = (float)a.beta1;
    norms.rest1 = (float)(1 - a.beta1);
    norms.beta2 = (float)a.beta2;
    norms.rest2 = (float)(1 - a.beta2);
    norms.eps = (float)a.eps;
    st = make_ratios<T>(a, c, "lamb", norms, lamb_ratio{});
    if (st != LK_OK)
        return st;
    return update_all<T>(a, c, "lamb", lamb_step{(float)a.eps},
                         static_cast<const float *>(c->workspace));
}

} // namespace

LK_CUDA_OP(sgd)
LK_CUDA_OP(adamw)
LK_CUDA_OP(lars)
LK_CUDA_OP(lamb)
