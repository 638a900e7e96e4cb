/*
 * Batch normalisation. Sums over rows are made in strips of rows, in float, and the strips' sums
 * are added in double: a layer has 100,000 rows and more.
 */
#include "kernels/columns.cuh"

extern "C" {
#include "kernels/ops_image.h"
}

namespace
{

enum { THREADS = 256, PARTS = THREADS / LK_WARP, MOST_STRIPS = 1024, ROWS_EACH = 8 };

/* ---- Sums over rows ---- */

/* Sum in - base and its square; base: the first row, which is near the mean. */
template <int N, class T> struct moments {
    static constexpr int SUMS = 2;
    const T *in;
    size_t channels;

    __device__ void operator()(float (&sum)[2 * N], size_t r, size_t c) const
    {
        pack<T, N> x = load<N>(in + r * channels + c), base = load<N>(in + c);

#pragma unroll
        for (int k = 0; k < N; k++) {
            float d = to_float(x.x[k]) - to_float(base.x[k]);

            sum[k] += d;
            sum[N + k] += d * d;
        }
    }
};

/* Sum dout and dout * (in - mean). */
template <int N, class T> struct gradients {
    static constexpr int SUMS = 2;
    const T *dout, *in;
    const float *mean;
    size_t channels;

    __device__ void operator()(float (&sum)[2 * N], size_t r, size_t c) const
    {
        pack<T, N> g = load<N>(dout + r * channels + c), x = load<N>(in + r * channels + c);

#pragma unroll
        for (int k = 0; k < N; k++) {
            sum[k] += to_float(g.x[k]);
            sum[N + k] += to_float(g.x[k]) * (to_float(x.x[k]) - mean[c + (size_t)k]);
        }
    }
};

/* The strips' sums of two quantities, (strips, 2, channels). */
struct strips {
    const float *partial;
    size_t n, channels;

    /* Return a thread's channel: a lane of the block's warps has one. */
    __device__ size_t channel() const
    {
        return (size_t)blockIdx.x * LK_WARP + threadIdx.x % LK_WARP;
    }

    /* Add them up; each warp of the block adds every eighth strip. True for the threads of the
     * first warp, which get the sums of their channels. All threads of the block call. */
    __device__ bool add(double (&sum)[2]) const
    {
        LK_SHARED(double, sums, 2 * THREADS);
        size_t c = channel(), part = threadIdx.x / LK_WARP;

        sum[0] = sum[1] = 0;
        for (size_t s = part; s < n && c < channels; s += PARTS) {
            sum[0] += partial[2 * s * channels + c];
            sum[1] += partial[(2 * s + 1) * channels + c];
        }
        sums[threadIdx.x] = sum[0];
        sums[THREADS + threadIdx.x] = sum[1];
        __syncthreads();
        if (part > 0 || c >= channels)
            return false;
        sum[0] = sum[1] = 0;
        for (unsigned p = 0; p < PARTS; p++) {
            sum[0] += sums[p * LK_WARP + threadIdx.x];
            sum[1] += sums[THREADS + p * LK_WARP + threadIdx.x];
        }
        return true;
    }
};

inline dim3 blocks_of(size_t channels)
{
    return dim3(blocks_for(channels, LK_WARP, UINT32_MAX));
}

/* ---- Forward ---- */

template <class T>
__global__ void __launch_bounds__(THREADS)
    statistics_kernel(float *statistics, strips s, const T *in, size_t rows)
{
    double sum[2], n = (double)rows, shift, variance;
    size_t c = s.channel();

    if (blockIdx.x == 0 && threadIdx.x == 0)
        statistics[2 * s.channels] = (float)rows;
    if (!s.add(sum))
        return;
    if (rows == 0) {
        statistics[c] = statistics[s.channels + c] = 0;
        return;
    }
    shift = sum[0] / n;
    variance = sum[1] / n - shift * shift;
    /* The difference of two sums can be below 0 by rounding; NaN stays. */
    variance = variance < 0 ? 0 : variance;
    statistics[c] = (float)((double)to_float(in[c]) + shift);
    statistics[s.channels + c] = (float)(1 / sqrt(variance + LK_BATCHNORM_EPS));
}

template <class T>
enum lk_status batchnorm_statistics(const struct lk_batchnorm_statistics_args &a,
                                    const struct lk_cuda *c)
{
    const char *name = "batchnorm_statistics";
    const T *in = static_cast<const T *>(a.in);
    strips s = {static_cast<const float *>(c->workspace), 0, a.channels};
    enum lk_status st = partial_columns<moments, T>(c, name, a.rows, a.channels, MOST_STRIPS,
                                                    fits<widest<T>>(in), &s.n, in, a.channels);

    if (st != LK_OK)
        return st;
    return lk_launch(c, name, blocks_of(a.channels), THREADS, 0, statistics_kernel<T>,
                     static_cast<float *>(a.statistics), s, in, a.rows);
}

/* The statistics of several batches. A thread has a channel. */
struct batches {
    float *joint, *running_mean, *running_var;
    const float *all;
    size_t n, channels;
    double momentum;

    __device__ void join(size_t c) const
    {
        double total = 0, mean = 0, variance = 0;

        for (size_t i = 0; i < n; i++)
            total += of(i)[2 * channels];
        for (size_t i = 0; i < n; i++)
            mean += (double)of(i)[2 * channels] * of(i)[c] / total;
        for (size_t i = 0; i < n; i++) {
            double rows = of(i)[2 * channels], rstd = of(i)[channels + c], away = of(i)[c] - mean;

            if (rows > 0)
                variance += rows * (1 / (rstd * rstd) - LK_BATCHNORM_EPS + away * away) / total;
        }
        if (c == 0)
            joint[2 * channels] = (float)total;
        joint[c] = (float)mean;
        joint[channels + c] = (float)(1 / sqrt(variance + LK_BATCHNORM_EPS));
        running_mean[c] += (float)(momentum * (mean - running_mean[c]));
        running_var[c] += (float)(momentum * (variance * total / (total - 1) - running_var[c]));
    }

    __device__ const float *of(size_t i) const
    {
        return all + i * (2 * channels + 1);
    }
};

__global__ void __launch_bounds__(THREADS) gather_kernel(batches b)
{
    size_t c = (size_t)blockIdx.x * THREADS + threadIdx.x;

    if (c < b.channels)
        b.join(c);
}

template <class T>
enum lk_status batchnorm_gather(const struct lk_batchnorm_gather_args &a, const struct lk_cuda *c)
{
    const batches b = {static_cast<float *>(a.joint),
                       static_cast<float *>(a.running_mean),
                       static_cast<float *>(a.running_var),
                       static_cast<const float *>(a.all),
                       a.batches,
                       a.channels,
                       a.momentum};

    return lk_launch(c, "batchnorm_gather", dim3(blocks_for(a.channels, THREADS, UINT32_MAX)),
                     THREADS, 0, gather_kernel, b);
}

/*
 * y = f(a, b) with numbers of the channel, which a thread reads once: it has the same N channels of
 * many rows. `width` threads have the channels of a row, or as many as a block has threads.
 * F<T>::of<N> holds the numbers; F<T>::begin(of, c) reads them.
 */
template <int N, class T, class F>
__global__ void __launch_bounds__(THREADS)
    channels_kernel(T *y, const T *a, const T *b, size_t rows, size_t channels, unsigned width, F f)
{
    unsigned rows_a_block = THREADS / width;
    size_t c = ((size_t)blockIdx.y * width + threadIdx.x % width) * N;
    size_t stride = (size_t)gridDim.x * rows_a_block;
    typename F::template of<N> of;

    if (threadIdx.x / width >= rows_a_block || c >= channels)
        return;
    f.begin(of, c);
    for (size_t r = (size_t)blockIdx.x * rows_a_block + threadIdx.x / width; r < rows;
         r += stride) {
        pack<T, N> from_a = load<N>(a + r * channels + c), from_b = load<N>(b + r * channels + c);

#pragma unroll
        for (int k = 0; k < N; k++)
            from_a.x[k] = from_float<T>(of(k, to_float(from_a.x[k]), to_float(from_b.x[k])));
        store<N>(y + r * channels + c, from_a);
    }
}

template <class T, class F>
enum lk_status over_channels(const struct lk_cuda *c, const char *name, T *y, const T *a,
                             const T *b, size_t rows, size_t channels, F f)
{
    constexpr int N = widest<T>;
    bool wide = channels % N == 0 && fits<N>(y, a, b);
    size_t packs = channels / (wide ? N : 1);
    unsigned width = packs < THREADS ? (unsigned)packs : (unsigned)THREADS;

    if (channels == 0)
        return LK_OK;
    return lk_launch(
        c, name,
        dim3(blocks_for(rows, (size_t)ROWS_EACH * (THREADS / width)), blocks_for(packs, width)),
        THREADS, 0, wide ? channels_kernel<N, T, F> : channels_kernel<1, T, F>, y, a, b, rows,
        channels, width, f);
}

template <class T> struct normalise {
    const float *joint;
    const T *weight, *bias;
    size_t channels;
    bool relu;

    template <int N> struct of {
        float mean[N], factor[N], shift[N];
        bool relu;

        __device__ float operator()(int k, float x, float) const
        {
            float y = (x - mean[k]) * factor[k] + shift[k];

            return relu && y < 0 ? 0 : y;
        }
    };

    template <int N> __device__ void begin(of<N> &o, size_t c) const
    {
        o.relu = relu;
#pragma unroll
        for (int k = 0; k < N; k++, c++) {
            o.mean[k] = joint[c];
            o.factor[k] = joint[channels + c] * to_float(weight[c]);
            o.shift[k] = to_float(bias[c]);
        }
    }
};

/* Only one matrix is read: the compiler drops the second load, of the same address. */
template <class T>
enum lk_status batchnorm_forward(const struct lk_batchnorm_forward_args &a, const struct lk_cuda *c)
{
    const T *in = static_cast<const T *>(a.in);
    const normalise<T> f = {static_cast<const float *>(a.joint), static_cast<const T *>(a.weight),
                            static_cast<const T *>(a.bias), a.channels, a.relu};

    return over_channels(c, "batchnorm_forward", static_cast<T *>(a.out), in, in, a.rows,
                         a.channels, f);
}

/* ---- Backward ---- */

template <class T> struct gradient_sums {
    float *sums;
    T *dweight, *dbias;
    const float *rstd;
    bool accumulate;
};

template <class T>
__global__ void __launch_bounds__(THREADS) sums_kernel(gradient_sums<T> to, strips s)
{
    size_t c = s.channel();
    double sum[2];
    float bias, weight;

    if (!s.add(sum))
        return;
    bias = (float)sum[0];
    weight = (float)(sum[1] * to.rstd[c]);
    to.sums[c] = bias;
    to.sums[s.channels + c] = (float)sum[1];
    to.dbias[c] = from_float<T>(to.accumulate ? to_float(to.dbias[c]) + bias : bias);
    to.dweight[c] = from_float<T>(to.accumulate ? to_float(to.dweight[c]) + weight : weight);
}

template <class T>
enum lk_status batchnorm_sums(const struct lk_batchnorm_sums_args &a, const struct lk_cuda *c)
{
    const char *name = "batchnorm_sums";
    const T *dout = static_cast<const T *>(a.dout), *in = static_cast<const T *>(a.in);
    const float *mean = static_cast<const float *>(a.joint);
    const gradient_sums<T> to = {static_cast<float *>(a.sums), static_cast<T *>(a.dweight),
                                 static_cast<T *>(a.dbias), mean + a.channels, a.accumulate};
    strips s = {static_cast<const float *>(c->workspace), 0, a.channels};
    enum lk_status st =
        partial_columns<gradients, T>(c, name, a.rows, a.channels, MOST_STRIPS,
                                      fits<widest<T>>(dout, in), &s.n, dout, in, mean, a.channels);

    if (st != LK_OK)
        return st;
    return lk_launch(c, name, blocks_of(a.channels), THREADS, 0, sums_kernel<T>, to, s);
}

template <class T> struct input_gradient {
    const float *joint, *sums;
    const T *weight;
    size_t channels;

    template <int N> struct of {
        float mean[N], factor[N], level[N], slope[N];

        __device__ float operator()(int k, float dout, float x) const
        {
            return factor[k] * (dout - level[k] - (x - mean[k]) * slope[k]);
        }
    };

    template <int N> __device__ void begin(of<N> &o, size_t c) const
    {
        float n = joint[2 * channels];

#pragma unroll
        for (int k = 0; k < N; k++, c++) {
            float rstd = joint[channels + c];

            o.mean[k] = joint[c];
            o.factor[k] = to_float(weight[c]) * rstd;
            o.level[k] = sums[c] / n;
            o.slope[k] = rstd * rstd * sums[channels + c] / n;
        }
    }
};

template <class T>
enum lk_status batchnorm_backward(const struct lk_batchnorm_backward_args &a,
                                  const struct lk_cuda *c)
{
    const input_gradient<T> f = {static_cast<const float *>(a.joint),
                                 static_cast<const float *>(a.sums),
                                 static_cast<const T *>(a.weight), a.channels};

    return over_channels(c, "batchnorm_backward", static_cast<T *>(a.din),
                         static_cast<const T *>(a.dout), static_cast<const T *>(a.in), a.rows,
                         a.channels, f);
}

} // namespace

LK_CUDA_OP(batchnorm_statistics)
LK_CUDA_OP(batchnorm_gather)
LK_CUDA_OP(batchnorm_forward)
LK_CUDA_OP(batchnorm_sums)
LK_CUDA_OP(batchnorm_backward)
