/* Layer normalisation: a row is read from memory once; sums are float. */
#include "kernels/columns.cuh"

namespace
{

enum { THREADS = 256, ROWS_A_BLOCK = THREADS / LK_WARP };

/*
 * Each warp has a row. It reads it three times, the second and third time from the first-level
 * cache: the variance, computed as the mean of squared distances, loses no digits to a large mean.
 */
template <int N, class T>
__global__ void __launch_bounds__(THREADS)
    forward_kernel(T *out, float *means, float *rstds, const T *in, const T *weight, const T *bias,
                   size_t rows, size_t channels)
{
    size_t row = (size_t)blockIdx.x * ROWS_A_BLOCK + threadIdx.x / LK_WARP;
    size_t lane = threadIdx.x % LK_WARP;
    float mean = 0, variance = 0, rstd;

    if (row >= rows)
        return;
    in += row * channels;
    out += row * channels;
    for (size_t c = lane * N; c < channels; c += LK_WARP * N) {
        pack<T, N> x = load<N>(in + c);

#pragma unroll
        for (int k = 0; k < N; k++)
            mean += to_float(x.x[k]);
    }
    mean = warp_reduce(mean, add{}) / (float)channels;
    for (size_t c = lane * N; c < channels; c += LK_WARP * N) {
        pack<T, N> x = load<N>(in + c);

#pragma unroll
        for (int k = 0; k < N; k++)
            variance += (to_float(x.x[k]) - mean) * (to_float(x.x[k]) - mean);
    }
    variance = warp_reduce(variance, add{}) / (float)channels;
    rstd = 1 / sqrtf(variance + (float)LK_LAYERNORM_EPS);
    if (lane == 0) {
        means[row] = mean;
        rstds[row] = rstd;
    }
    for (size_t c = lane * N; c < channels; c += LK_WARP * N) {
        pack<T, N> x = load<N>(in + c), w = load<N>(weight + c), b = load<N>(bias + c);

#pragma unroll
        for (int k = 0; k < N; k++)
            x.x[k] = from_float<T>((to_float(x.x[k]) - mean) * rstd * to_float(w.x[k]) +
                                   to_float(b.x[k]));
        store<N>(out + c, x);
    }
}

template <class T>
enum lk_status layernorm_forward(const struct lk_layernorm_forward_args &a, const struct lk_cuda *c)
{
    constexpr int N = widest<T>;
    T *out = static_cast<T *>(a.out);
    float *mean = static_cast<float *>(a.mean), *rstd = static_cast<float *>(a.rstd);
    const T *in = static_cast<const T *>(a.in), *weight = static_cast<const T *>(a.weight);
    const T *bias = static_cast<const T *>(a.bias);
    dim3 grid(blocks_for(a.rows, ROWS_A_BLOCK, UINT32_MAX));
    bool wide = a.channels % N == 0 && fits<N>(out, in, weight, bias);

    return lk_launch(c, "layernorm_forward", grid, THREADS, 0,
                     wide ? forward_kernel<N, T> : forward_kernel<1, T>, out, mean, rstd, in,
                     weight, bias, a.rows, a.channels);
}

/*
 * Backward in one pass over memory: a block has a strip of rows and all columns. A thread always
 * has the same SLOTS packs of columns and keeps their sums for dweight and dbias in registers while
 * the block goes from row to row. partial: (strips, 2, channels), dweight's sums and dbias's.
 */
enum { MOST_STRIPS = 512, MOST_CHANNELS = 16384, MANY_THREADS = 512 };

/* A thread has 65536 / threads registers; with packs of one column it needs few. */
constexpr int most_threads(int pack, int slots)
{
    return pack == 1 && slots == 1 ? 1024 : MANY_THREADS;
}

/* Sum two numbers over the block at once. shared holds 64. */
__device__ void block_sum_two(float &a, float &b, float *shared)
{
    unsigned lane = threadIdx.x % LK_WARP, warp = threadIdx.x / LK_WARP;

    a = warp_reduce(a, add{});
    b = warp_reduce(b, add{});
    if (lane == 0) {
        shared[warp] = a;
        shared[LK_WARP + warp] = b;
    }
    __syncthreads();
    a = lane < blockDim.x / LK_WARP ? shared[lane] : 0;
    b = lane < blockDim.x / LK_WARP ? shared[LK_WARP + lane] : 0;
    __syncthreads();
    a = warp_reduce(a, add{});
    b = warp_reduce(b, add{});
}

/* The normalised inputs of a pack, and their gradients. */
template <int N> struct normed {
    float x[N], g[N];

    template <class T>
    __device__ normed(const pack<T, N> &in, const pack<T, N> &dout, const T *weight, float mean,
                      float rstd)
    {
        pack<T, N> w = load<N>(weight);

#pragma unroll
        for (int k = 0; k < N; k++) {
            x[k] = (to_float(in.x[k]) - mean) * rstd;
            g[k] = to_float(dout.x[k]) * to_float(w.x[k]);
        }
    }
};

/* What a thread reads of a row: a pack of each matrix, and the row's statistics. */
template <int N, class T> struct row_pack {
    pack<T, N> in, dout, din;
    float mean, rstd;
};

template <class T> struct matrices {
    const T *in, *dout, *weight;
    T *din;
    const float *means, *rstds;
    size_t channels;
    bool accumulate_input;

    template <int N> __device__ void load_row(row_pack<N, T> &to, size_t row, size_t c) const
    {
        if (c >= channels)
            return;
        to.mean = means[row];
        to.rstd = rstds[row];
        to.in = load<N>(in + row * channels + c);
        to.dout = load<N>(dout + row * channels + c);
        if (accumulate_input)
            to.din = load<N>(din + row * channels + c);
    }
};

/* Backward. A thread loads its pack of the next row before the sums over the block of this one, so
 * that memory has work meanwhile. With more columns than registers hold, a row is loaded when it is
 * due, and again after the sums. */
template <int N, int SLOTS, class T>
__global__ void __launch_bounds__(most_threads(N, SLOTS))
    backward_kernel(matrices<T> m, float *partial, size_t rows)
{
    constexpr bool KEEP = SLOTS == 1;
    LK_SHARED(float, shared, 2 * LK_WARP);
    size_t first = rows * blockIdx.x / gridDim.x, end = rows * (blockIdx.x + 1) / gridDim.x;
    size_t channels = m.channels;
    float dweight[SLOTS][N] = {}, dbias[SLOTS][N] = {};
    row_pack<N, T> now = {}, next = {};

    if (KEEP && first < end)
        m.load_row(next, first, threadIdx.x * N);
    for (size_t row = first; row < end; row++) {
        float mean_g = 0, mean_gx = 0;

        now = next;
        if (KEEP && row + 1 < end)
            m.load_row(next, row + 1, threadIdx.x * N);
#pragma unroll
        for (int s = 0; s < SLOTS; s++) {
            size_t c = ((size_t)s * blockDim.x + threadIdx.x) * N;

            if (c >= channels)
                break;
            if (!KEEP)
                m.load_row(now, row, c);
            normed<N> of(now.in, now.dout, m.weight + c, now.mean, now.rstd);

#pragma unroll
            for (int k = 0; k < N; k++) {
                dweight[s][k] += to_float(now.dout.x[k]) * of.x[k];
                dbias[s][k] += to_float(now.dout.x[k]);
                mean_g += of.g[k];
                mean_gx += of.g[k] * of.x[k];
            }
        }
        block_sum_two(mean_g, mean_gx, shared);
        mean_g /= (float)channels;
        mean_gx /= (float)channels;
#pragma unroll
        for (int s = 0; s < SLOTS; s++) {
            size_t c = ((size_t)s * blockDim.x + threadIdx.x) * N;

            if (c >= channels)
                break;
            if (!KEEP)
                m.load_row(now, row, c);
            normed<N> of(now.in, now.dout, m.weight + c, now.mean, now.rstd);

#pragma unroll
            for (int k = 0; k < N; k++)
                now.din.x[k] = from_float<T>((m.accumulate_input ? to_float(now.din.x[k]) : 0) +
                                             now.rstd * (of.g[k] - mean_g - of.x[k] * mean_gx));
            store<N>(m.din + row * channels + c, now.din);
        }
    }
    partial += (size_t)blockIdx.x * 2 * channels;
#pragma unroll
    for (int s = 0; s < SLOTS; s++) {
        size_t c = ((size_t)s * blockDim.x + threadIdx.x) * N;

        for (int k = 0; k < N && c < channels; k++) {
            partial[c + (size_t)k] = dweight[s][k];
            partial[channels + c + (size_t)k] = dbias[s][k];
        }
    }
}

template <int N, int SLOTS, class T>
enum lk_status backward_rows(const struct lk_layernorm_backward_args &a, const struct lk_cuda *c,
                             size_t strips)
{
    size_t packs = (a.channels + N - 1) / N, threads = (packs + SLOTS - 1) / SLOTS;
    matrices<T> m = {static_cast<const T *>(a.in),
                     static_cast<const T *>(a.dout),
                     static_cast<const T *>(a.weight),
                     static_cast<T *>(a.din),
                     static_cast<const float *>(a.mean),
                     static_cast<const float *>(a.rstd),
                     a.channels,
                     a.accumulate_input};

    threads = (threads + LK_WARP - 1) / LK_WARP * LK_WARP;
    return lk_launch(c, "layernorm_backward", dim3((unsigned)strips), (unsigned)threads, 0,
                     backward_kernel<N, SLOTS, T>, m, static_cast<float *>(c->workspace), a.rows);
}

template <int N, class T>
enum lk_status backward_of(const struct lk_layernorm_backward_args &a, const struct lk_cuda *c,
                           size_t strips)
{
    size_t packs = (a.channels + N - 1) / N;

    if (packs <= most_threads(N, 1))
        return backward_rows<N, 1, T>(a, c, strips);
    if (a.channels <= MOST_CHANNELS)
        return backward_rows<N, MOST_CHANNELS / MANY_THREADS / N, T>(a, c, strips);
    return lk_fail(LK_EUNSUPPORTED, "layernorm_backward: %zu channels, more than %d", a.channels,
                   (int)MOST_CHANNELS);
}

template <class T>
enum lk_status layernorm_backward(const struct lk_layernorm_backward_args &a,
                                  const struct lk_cuda *c)
{
    constexpr int N = widest<T>;
    const T *din = static_cast<const T *>(a.din), *dout = static_cast<const T *>(a.dout);
    const T *in = static_cast<const T *>(a.in), *weight = static_cast<const T *>(a.weight);
    const float *partial = static_cast<const float *>(c->workspace);
    size_t strips = strips_of(a.rows, 2 * a.channels, MOST_STRIPS);
    enum lk_status st;

    if (a.channels == 0)
        return LK_OK;
    if (a.channels % N == 0 && fits<N>(din, dout, in, weight))
        st = backward_of<N, T>(a, c, strips);
    else
        st = backward_of<1, T>(a, c, strips);
    if (st != LK_OK)
        return st;
    return sum_strips(
        c, "layernorm_backward",
        column_sums<T>{static_cast<T *>(a.dweight), static_cast<T *>(a.dbias), a.channels}, partial,
        strips, 2 * a.channels, a.accumulate);
}

} // namespace

LK_CUDA_OP(layernorm_forward)
LK_CUDA_OP(layernorm_backward)
