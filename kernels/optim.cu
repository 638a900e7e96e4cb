/*
 * Optimizers: one launch for all tensors of a table or of a part of it, one pass over memory. The
 * gradient is read from its bucket. If lk_real is narrower than float, the update works on the
 * float masters and writes them and the rounded weights.
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

/* struct lk_optim_rate, rounded. */
struct rates {
    float learning_rate, corrected, root, unscale;
};

/* Update K neighbouring weights. F: void f(weight, m, v, grad, decay, rates); m and v may be
 * NULL. */
template <int K, class T, class F>
__device__ void update(const struct lk_optim_tensor &t, size_t i, F f, const rates &r)
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
    if (m)
        store<K>(m + i, of_m);
    if (v)
        store<K>(v + i, of_v);
    if (master)
        store<K>(master + i, w);
    store<K>(param + i, rounded);
}

/* Update one chunk per block. All threads of a block agree on wide accesses, which the chunk's
 * tensor decides. */
template <class T, class F>
__global__ void __launch_bounds__(THREADS)
    update_kernel(const struct lk_optim_tensor *tensors, size_t n_tensors,
                  const struct lk_optim_rate *rate, F f)
{
    size_t chunk = tensors->first_chunk + blockIdx.x;
    const struct lk_optim_tensor t = tensors[tensor_of(tensors, n_tensors, chunk)];
    size_t first = (chunk - t.first_chunk) * LK_OPTIM_CHUNK;
    size_t end = t.n - first < LK_OPTIM_CHUNK ? t.n : first + LK_OPTIM_CHUNK, tail = first;
    const rates r = {(float)rate->learning_rate, (float)rate->corrected, (float)rate->root,
                     (float)rate->unscale};

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

struct sgd_step {
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
enum lk_status update_all(const A &a, const struct lk_cuda *c, const char *name, F f)
{
    if (a.n_chunks > INT32_MAX)
        return lk_fail(LK_EUNSUPPORTED, "%s: %zu chunks", name, a.n_chunks);
    return lk_launch(c, name, dim3((unsigned)a.n_chunks), THREADS, 0, update_kernel<T, F>,
                     a.tensors, a.n_tensors, a.rate, f);
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

} // namespace

LK_CUDA_OP(sgd)
LK_CUDA_OP(adamw)
