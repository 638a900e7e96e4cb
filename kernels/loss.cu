/* Softmax and cross-entropy: forward reads the logits once (online softmax), backward once more. */
#include "kernels/ptx.cuh"

#include <cmath>

namespace
{

enum { MOST_THREADS = 512, FEW_THREADS = 128, MANY_COLUMNS = 8192 };

/* Return the threads of a block, which has one row: few for a small vocabulary. */
unsigned threads_for(size_t vocab)
{
    return vocab < MANY_COLUMNS ? FEW_THREADS : MOST_THREADS;
}

/* Return the number of elements before the first that is aligned for N: dense rows of a vocabulary
 * of 50257 begin anywhere. pre: p is aligned for one element. */
template <int N, class T> __device__ size_t unaligned(const T *p, size_t n)
{
    constexpr size_t bytes = sizeof(pack<T, N>);
    size_t over = reinterpret_cast<uintptr_t>(p) % bytes;
    size_t before = over ? (bytes - over) / sizeof(T) : 0;

    return before < n ? before : n;
}

/* The largest logit seen, and the sum of exp(logit - max) over those seen. */
struct online {
    float max, sum;

    __device__ void see(float x)
    {
        float larger = max_or_nan{}(x, max);

        /* Before the first finite logit both are -infinity, and their difference is NaN. */
        if (larger == -INFINITY)
            return;
        sum = (max == larger ? sum : sum * expf(max - larger)) + expf(x - larger);
        max = larger;
    }
};

/* Add a pack at once: N + 1 exponentials instead of 2 N. */
template <int N, class T> __device__ void see_pack(online &s, const pack<T, N> &from)
{
    float larger = s.max, sum = 0;

#pragma unroll
    for (int k = 0; k < N; k++)
        larger = max_or_nan{}(to_float(from.x[k]), larger);
    if (larger == -INFINITY)
        return;
#pragma unroll
    for (int k = 0; k < N; k++)
        sum += expf(to_float(from.x[k]) - larger);
    s.sum = (s.max == larger ? s.sum : s.sum * expf(s.max - larger)) + sum;
    s.max = larger;
}

template <int N, class T>
__global__ void __launch_bounds__(MOST_THREADS)
    forward_kernel(float *row_loss, float *log_sums, const T *logits, const int32_t *targets,
                   size_t vocab, size_t stride, size_t target_stride)
{
    LK_SHARED(float, shared, LK_WARP);
    size_t row = blockIdx.x, head, packs;
    online s = {-INFINITY, 0};
    float max, sum;

    logits += row * stride;
    head = unaligned<N>(logits, vocab);
    packs = (vocab - head) / N;
    for (size_t v = threadIdx.x; v < head; v += blockDim.x)
        s.see(to_float(logits[v]));
    for (size_t i = threadIdx.x; i < packs; i += blockDim.x)
        see_pack<N, T>(s, load<N>(logits + head + i * N));
    for (size_t v = head + packs * N + threadIdx.x; v < vocab; v += blockDim.x)
        s.see(to_float(logits[v]));
    max = block_reduce(s.max, max_or_nan{}, -INFINITY, shared);
    /* A thread without elements has a sum of 0, and exp(-infinity) is 0. */
    sum = block_reduce(s.max == max ? s.sum : s.sum * expf(s.max - max), add{}, 0.0F, shared);
    if (threadIdx.x == 0) {
        log_sums[row] = logf(sum) + max;
        row_loss[row] = logf(sum) + max - to_float(logits[targets[row * target_stride]]);
    }
}

/* Average the rows' losses in one block; sums are double, added in the order of threads. */
__global__ void __launch_bounds__(MOST_THREADS)
    mean_kernel(float *loss, const float *row_loss, size_t rows)
{
    LK_SHARED(double, shared, LK_WARP);
    double sum = 0;

    for (size_t r = threadIdx.x; r < rows; r += blockDim.x)
        sum += row_loss[r];
    sum = block_reduce(sum, add{}, 0.0, shared);
    if (threadIdx.x == 0)
        *loss = (float)(sum / (double)rows);
}

template <class T>
enum lk_status cross_entropy_forward(const struct lk_cross_entropy_forward_args &a,
                                     const struct lk_cuda *c)
{
    float *row_loss = static_cast<float *>(c->workspace);
    enum lk_status st;

    if (a.rows == 0)
        return LK_OK;
    if (a.rows * sizeof *row_loss > LK_CUDA_WORKSPACE_BYTES)
        return lk_fail(LK_EUNSUPPORTED, "cross_entropy_forward: %zu rows", a.rows);
    st = lk_launch(c, "cross_entropy_forward", dim3((unsigned)a.rows), threads_for(a.vocab), 0,
                   forward_kernel<widest<T>, T>, row_loss, static_cast<float *>(a.log_sum),
                   static_cast<const T *>(a.logits), a.targets, a.vocab,
                   lk_op_stride(a.stride, a.vocab), a.target_stride);
    if (st != LK_OK)
        return st;
    return lk_launch(c, "cross_entropy_forward", dim3(1), MOST_THREADS, 0, mean_kernel,
                     static_cast<float *>(a.loss), row_loss, a.rows);
}

struct gradient {
    float seed, log_sum;
    size_t target;

    __device__ float operator()(float logit, size_t v) const
    {
        return seed * (expf(logit - log_sum) - (v == target ? 1.0F : 0.0F));
    }
};

/* Backward. dlogits may be logits. pre for N > 1: rows of both have the same alignment. */
template <int N, class T>
__global__ void __launch_bounds__(MOST_THREADS)
    backward_kernel(T *dlogits, const T *logits, const float *log_sums, const int32_t *targets,
                    size_t vocab, size_t stride, size_t target_stride, float seed)
{
    size_t row = blockIdx.x, head, packs;
    gradient f = {seed, log_sums[row], (size_t)targets[row * target_stride]};

    logits += row * stride;
    dlogits += row * stride;
    head = unaligned<N>(logits, vocab);
    packs = (vocab - head) / N;
    for (size_t v = threadIdx.x; v < head; v += blockDim.x)
        dlogits[v] = from_float<T>(f(to_float(logits[v]), v));
    for (size_t i = threadIdx.x; i < packs; i += blockDim.x) {
        size_t v = head + i * N;
        pack<T, N> x = load<N>(logits + v);

#pragma unroll
        for (int k = 0; k < N; k++)
            x.x[k] = from_float<T>(f(to_float(x.x[k]), v + (size_t)k));
        store<N>(dlogits + v, x);
    }
    for (size_t v = head + packs * N + threadIdx.x; v < vocab; v += blockDim.x)
        dlogits[v] = from_float<T>(f(to_float(logits[v]), v));
}

template <class T>
enum lk_status cross_entropy_backward(const struct lk_cross_entropy_backward_args &a,
                                      const struct lk_cuda *c)
{
    constexpr int N = widest<T>;
    T *to = static_cast<T *>(a.dlogits);
    const T *from = static_cast<const T *>(a.logits);
    float seed = (float)(a.seed / (double)a.rows);
    bool alike = ((uintptr_t)to - (uintptr_t)from) % sizeof(pack<T, N>) == 0;

    return lk_launch(c, "cross_entropy_backward", dim3((unsigned)a.rows), threads_for(a.vocab), 0,
                     alike ? backward_kernel<N, T> : backward_kernel<1, T>, to, from,
                     static_cast<const float *>(a.log_sum), a.targets, a.vocab,
                     lk_op_stride(a.stride, a.vocab), a.target_stride, seed);
}

} // namespace

LK_CUDA_OP(cross_entropy_forward)
LK_CUDA_OP(cross_entropy_backward)
