/* Softmax and cross-entropy: forward reads the logits once (online softmax), backward once more, or
 * forward does both. */
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

/* A row of n logits: `head` elements, `packs` aligned ones of N, and the rest. */
template <int N, class T> struct row {
    size_t n, head, packs;

    __device__ row(const T *logits, size_t vocab)
        : n(vocab), head(unaligned<N>(logits, vocab)), packs((vocab - head) / N)
    {
    }
};

/* Where a thread gets pack i of its row from: memory, or shared memory, to which it was copied. */
template <int N, class T> struct from_memory {
    const T *first;

    __device__ pack<T, N> operator()(size_t i) const
    {
        return load<N>(first + i * N);
    }
};

template <int N, class T> struct from_shared {
    const pack<T, N> *first;

    __device__ pack<T, N> operator()(size_t i) const
    {
        return first[i];
    }
};

/* See this thread's logits of a row. */
template <int N, class T, class F>
__device__ online see_row(const T *logits, const row<N, T> &r, F packs)
{
    online s = {-INFINITY, 0};

    for (size_t v = threadIdx.x; v < r.head; v += blockDim.x)
        s.see(to_float(logits[v]));
    for (size_t i = threadIdx.x; i < r.packs; i += blockDim.x)
        see_pack<N, T>(s, packs(i));
    for (size_t v = r.head + r.packs * N + threadIdx.x; v < r.n; v += blockDim.x)
        s.see(to_float(logits[v]));
    return s;
}

struct gradient {
    float seed, log_sum;
    size_t target;

    __device__ float operator()(float logit, size_t v) const
    {
        return seed * (expf(logit - log_sum) - (v == target ? 1.0F : 0.0F));
    }
};

/* Write this thread's gradients of a row. dlogits may be logits. pre for N > 1: both have the same
 * alignment. */
template <int N, class T, class F>
__device__ void write_row(T *dlogits, const T *logits, const row<N, T> &r, F packs, gradient f)
{
    for (size_t v = threadIdx.x; v < r.head; v += blockDim.x)
        dlogits[v] = from_float<T>(f(to_float(logits[v]), v));
    for (size_t i = threadIdx.x; i < r.packs; i += blockDim.x) {
        size_t v = r.head + i * N;
        pack<T, N> x = packs(i);

#pragma unroll
        for (int k = 0; k < N; k++)
            x.x[k] = from_float<T>(f(to_float(x.x[k]), v + (size_t)k));
        store<N>(dlogits + v, x);
    }
    for (size_t v = r.head + r.packs * N + threadIdx.x; v < r.n; v += blockDim.x)
        dlogits[v] = from_float<T>(f(to_float(logits[v]), v));
}

/* Reduce what the threads saw of a row to the logarithm of its sum, which all get, and store it and
 * the loss. */
__device__ inline float finish_row(online s, float wanted, float *row_loss, float *log_sums)
{
    LK_SHARED(float, shared, LK_WARP);
    float max = block_reduce(s.max, max_or_nan{}, -INFINITY, shared);
    /* A thread without elements has a sum of 0, and exp(-infinity) is 0. */
    float sum = block_reduce(s.max == max ? s.sum : s.sum * expf(s.max - max), add{}, 0.0F, shared);
    float log_sum = logf(sum) + max;

    if (threadIdx.x == 0) {
        log_sums[blockIdx.x] = log_sum;
        row_loss[blockIdx.x] = log_sum - wanted;
    }
    return log_sum;
}

template <int N, class T>
__global__ void __launch_bounds__(MOST_THREADS)
    forward_kernel(float *row_loss, float *log_sums, const T *logits, const int32_t *targets,
                   size_t vocab, size_t stride, size_t target_stride)
{
    const T *from = logits + blockIdx.x * stride;
    row<N, T> r(from, vocab);
    online s = see_row(from, r, from_memory<N, T>{from + r.head});

    finish_row(s, to_float(from[targets[blockIdx.x * target_stride]]), row_loss, log_sums);
}

/*
 * Forward and backward. KEEP: the logits are read once, and the block keeps its row in shared
 * memory, of which each thread reads what it wrote; else they are read again.
 */
template <int N, class T, bool KEEP>
__global__ void __launch_bounds__(MOST_THREADS)
    both_kernel(float *row_loss, float *log_sums, T *dlogits, const T *logits,
                const int32_t *targets, size_t vocab, size_t stride, size_t target_stride,
                float seed)
{
    LK_SHARED_OF_LAUNCH(row_of_launch);
    pack<T, N> *kept = reinterpret_cast<pack<T, N> *>(row_of_launch);
    size_t target = (size_t)targets[blockIdx.x * target_stride];
    const T *from = logits + blockIdx.x * stride;
    row<N, T> r(from, vocab);
    float wanted = to_float(from[target]); /* before its gradient takes its place */
    gradient f = {seed, 0, target};

    dlogits += blockIdx.x * stride;
    if constexpr (KEEP) {
        from_shared<N, T> packs = {kept};

        for (size_t i = threadIdx.x; i < r.packs; i += blockDim.x)
            copy_async(kept + i, from + r.head + i * N, true);
        wait_for_copies();
        f.log_sum = finish_row(see_row(from, r, packs), wanted, row_loss, log_sums);
        write_row(dlogits, from, r, packs, f);
    } else {
        from_memory<N, T> packs = {from + r.head};

        f.log_sum = finish_row(see_row(from, r, packs), wanted, row_loss, log_sums);
        write_row(dlogits, from, r, packs, f);
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

/* Return true if rows of both have the same alignment. */
template <class T> bool alike(const T *a, const T *b)
{
    return ((uintptr_t)a - (uintptr_t)b) % sizeof(pack<T, widest<T>>) == 0;
}

template <class T>
enum lk_status launch_rows(const struct lk_cross_entropy_forward_args &a, float *row_loss,
                           const struct lk_cuda *c)
{
    constexpr int N = widest<T>;
    const char *name = "cross_entropy_forward";
    dim3 grid((unsigned)a.rows);
    unsigned threads = threads_for(a.vocab);
    T *to = static_cast<T *>(a.dlogits);
    const T *from = static_cast<const T *>(a.logits);
    float *log_sums = static_cast<float *>(a.log_sum), seed = (float)(a.seed / (double)a.rows);
    size_t stride = lk_op_stride(a.stride, a.vocab), bytes = a.vocab / N * sizeof(pack<T, N>);
    bool keep = bytes + LK_WARP * sizeof(float) <= c->shared_bytes;

    if (!a.dlogits)
        return lk_launch(c, name, grid, threads, 0, forward_kernel<N, T>, row_loss, log_sums, from,
                         a.targets, a.vocab, stride, a.target_stride);
    if (alike(to, from) && keep)
        return lk_launch_shared(c, name, grid, threads, bytes, both_kernel<N, T, true>, row_loss,
                                log_sums, to, from, a.targets, a.vocab, stride, a.target_stride,
                                seed);
    return lk_launch(c, name, grid, threads, 0,
                     alike(to, from) ? both_kernel<N, T, false> : both_kernel<1, T, false>,
                     row_loss, log_sums, to, from, a.targets, a.vocab, stride, a.target_stride,
                     seed);
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
    st = launch_rows<T>(a, row_loss, c);
    if (st != LK_OK)
        return st;
    return lk_launch(c, "cross_entropy_forward", dim3(1), MOST_THREADS, 0, mean_kernel,
                     static_cast<float *>(a.loss), row_loss, a.rows);
}

template <int N, class T>
__global__ void __launch_bounds__(MOST_THREADS)
    backward_kernel(T *dlogits, const T *logits, const float *log_sums, const int32_t *targets,
                    size_t vocab, size_t stride, size_t target_stride, float seed)
{
    const T *from = logits + blockIdx.x * stride;
    row<N, T> r(from, vocab);

    write_row(dlogits + blockIdx.x * stride, from, r, from_memory<N, T>{from + r.head},
              gradient{seed, log_sums[blockIdx.x], (size_t)targets[blockIdx.x * target_stride]});
}

template <class T>
enum lk_status cross_entropy_backward(const struct lk_cross_entropy_backward_args &a,
                                      const struct lk_cuda *c)
{
    constexpr int N = widest<T>;
    T *to = static_cast<T *>(a.dlogits);
    const T *from = static_cast<const T *>(a.logits);
    float seed = (float)(a.seed / (double)a.rows);

    return lk_launch(c, "cross_entropy_backward", dim3((unsigned)a.rows), threads_for(a.vocab), 0,
                     alike(to, from) ? backward_kernel<N, T> : backward_kernel<1, T>, to, from,
                     static_cast<const float *>(a.log_sum), a.targets, a.vocab,
                     lk_op_stride(a.stride, a.vocab), a.target_stride, seed);
}

} // namespace

LK_CUDA_OP(cross_entropy_forward)
LK_CUDA_OP(cross_entropy_backward)
