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

/* A thread has 65536 / threads registers. */
constexpr int most_threads(int slots)
{
    return slots == 1 ? 1024 : MANY_THREADS;
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

/* Backward. All loads of a row come before the sums over the block, so that it waits for memory
 * once. With more columns than registers hold, the row is read again afterwards. */
template <int N, int SLOTS, class T>
__global__ void __launch_bounds__(most_threads(SLOTS))
    backward_kernel(T *din, float *partial, const T *dout, const T *in, const T *weight,
                    const float *means, const float *rstds, size_t rows, size_t channels,
                    bool accumulate_input)
{
    constexpr bool KEEP = SLOTS == 1;
    LK_SHARED(float, shared, 2 * LK_WARP);
    size_t first = rows * blockIdx.x / gridDim.x, end = rows * (blockIdx.x + 1) / gridDim.x;
    float dweight[SLOTS][N] = {}, dbias[SLOTS][N] = {};

    for (size_t row = first; row < end; row++) {
        float mean = means[row], rstd = rstds[row], mean_g = 0, mean_gx = 0;
        const T *in_row = in + row * channels, *dout_row = dout + row * channels;
        T *din_row = din + row * channels;
        pack<T, N> from = {}, d = {}, to = {};

#pragma unroll
        for (int s = 0; s < SLOTS; s++) {
            size_t c = ((size_t)s * blockDim.x + threadIdx.x) * N;

            if (c >= channels)
                break;
            from = load<N>(in_row + c);
            d = load<N>(dout_row + c);
            if (KEEP && accumulate_input)
                to = load<N>(din_row + c);
            normed<N> of(from, d, weight + c, mean, rstd);

#pragma unroll
            for (int k = 0; k < N; k++) {
                dweight[s][k] += to_float(d.x[k]) * of.x[k];
                dbias[s][k] += to_float(d.x[k]);
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
            if (!KEEP) {
                from = load<N>(in_row + c);
                d = load<N>(dout_row + c);
                if (accumulate_input)
                    to = load<N>(din_row + c);
            }
            normed<N> of(from, d, weight + c, mean, rstd);

#pragma unroll
            for (int k = 0; k < N; k++)
                to.x[k] = from_float<T>((accumulate_input ? to_float(to.x[k]) : 0) +
                                        rstd * (of.g[k] - mean_g - of.x[k] * mean_gx));
            store<N>(din_row + c, to);
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

    threads = (threads + LK_WARP - 1) / LK_WARP * LK_WARP;
    return lk_launch(c, "layernorm_backward", dim3((unsigned)strips), (unsigned)threads, 0,
                     backward_kernel<N, SLOTS, T>, static_cast<T *>(a.din),
                     static_cast<float *>(c->workspace), static_cast<const T *>(a.dout),
                     static_cast<const T *>(a.in), static_cast<const T *>(a.weight),
                     static_cast<const float *>(a.mean), static_cast<const float *>(a.rstd), a.rows,
                     a.channels, a.accumulate_input);
}

template <int N, class T>
enum lk_status backward_of(const struct lk_layernorm_backward_args &a, const struct lk_cuda *c,
                           size_t strips)
{
    size_t packs = (a.channels + N - 1) / N;

    if (packs <= most_threads(1))
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
