/*
 * Pooling, pixels of a data set and sums of a residual connection. Threads that are neighbours have
 * neighbouring channels. Backward, each pixel of the image looks for the windows that it is in, so
 * nothing is added by atomics: it finds a window's largest value again, from the first-level cache.
 */
#include "kernels/map.cuh"
#include "kernels/windows.cuh"

namespace
{

enum { THREADS = 256 };

/* ---- Pixels ---- */

template <class T>
__global__ void __launch_bounds__(THREADS)
    pixels_kernel(T *out, const uint8_t *pixels, size_t n, size_t channels, size_t area,
                  float factor, float shift)
{
    for (size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x; i < n;
         i += (size_t)gridDim.x * THREADS) {
        size_t channel = i % channels, pixel = i / channels;
        size_t from = (pixel / area * channels + channel) * area + pixel % area;

        out[i] = from_float<T>((float)pixels[from] * factor + shift);
    }
}

template <class T>
enum lk_status pixels_forward(const struct lk_pixels_forward_args &a, const struct lk_cuda *c)
{
    size_t n = a.samples * a.channels * a.area;

    return lk_launch(c, "pixels_forward", dim3(blocks_for(n, THREADS)), THREADS, 0,
                     pixels_kernel<T>, static_cast<T *>(a.out), a.pixels, n, a.channels, a.area,
                     (float)a.factor, (float)a.shift);
}

/* ---- The largest of a window ---- */

/* Return true if x, the next value of a window, becomes its largest: the first of equal ones stays,
 * the last NaN does. */
__device__ bool raises(float x, float largest, bool is_first)
{
    return is_first || x > largest || x != x;
}

/* Visit the pixels of output pixel (oy, ox)'s window that lie in the image, row by row: f(pack, y,
 * x, first). */
template <int N, class T, class F>
__device__ void over_window(const windows &w, const T *image, unsigned oy, unsigned ox, F f)
{
    unsigned top = oy * w.stride, left = ox * w.stride; /* of the padded image */
    bool first = true;

    for (unsigned y = top < w.padding ? w.padding : top;
         y < top + w.kernel && y < w.height + w.padding; y++)
        for (unsigned x = left < w.padding ? w.padding : left;
             x < left + w.kernel && x < w.width + w.padding; x++, first = false)
            f(load<N>(image + w.in_at(0, y - w.padding, x - w.padding)), y, x, first);
}

template <int N, class T>
__global__ void __launch_bounds__(THREADS)
    max_forward_kernel(T *out, const T *in, windows w, size_t n)
{
    unsigned packs = w.channels / N;

    for (size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x; i < n * packs;
         i += (size_t)gridDim.x * THREADS) {
        unsigned row = (unsigned)(i / packs), channel = (unsigned)(i % packs) * N;
        unsigned sample = row / w.out_width / w.out_height;
        pack<T, N> largest = {};

        over_window<N>(w, in + w.in_at(sample, 0, 0) + channel, row / w.out_width % w.out_height,
                       row % w.out_width, [&](const pack<T, N> &x, unsigned, unsigned, bool first) {
#pragma unroll
                           for (int k = 0; k < N; k++)
                               if (raises(to_float(x.x[k]), to_float(largest.x[k]), first))
                                   largest.x[k] = x.x[k];
                       });
        store<N>(out + (size_t)row * w.channels + channel, largest);
    }
}

template <int N, class T>
__global__ void __launch_bounds__(THREADS)
    max_backward_kernel(T *din, const T *dout, const T *in, windows w, size_t n)
{
    unsigned packs = w.channels / N;

    for (size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x; i < n * packs;
         i += (size_t)gridDim.x * THREADS) {
        unsigned pixel = (unsigned)(i / packs), channel = (unsigned)(i % packs) * N;
        unsigned sample = pixel / w.width / w.height;
        unsigned y = pixel / w.width % w.height + w.padding, x = pixel % w.width + w.padding;
        const T *image = in + w.in_at(sample, 0, 0) + channel;
        float sum[N] = {};
        pack<T, N> to;

        w.over(y, x, [&](unsigned, unsigned, unsigned oy, unsigned ox) {
            pack<T, N> d = load<N>(dout + w.out_at(sample, oy, ox) + channel);
            float largest[N] = {};
            bool own[N] = {};

            over_window<N>(w, image, oy, ox,
                           [&](const pack<T, N> &v, unsigned vy, unsigned vx, bool first) {
#pragma unroll
                               for (int k = 0; k < N; k++)
                                   if (raises(to_float(v.x[k]), largest[k], first)) {
                                       largest[k] = to_float(v.x[k]);
                                       own[k] = vy == y && vx == x;
                                   }
                           });
#pragma unroll
            for (int k = 0; k < N; k++)
                sum[k] += own[k] ? to_float(d.x[k]) : 0;
        });
#pragma unroll
        for (int k = 0; k < N; k++)
            to.x[k] = from_float<T>(sum[k]);
        store<N>(din + (size_t)pixel * w.channels + channel, to);
    }
}

template <class T>
enum lk_status maxpool_forward(const struct lk_maxpool_forward_args &a, const struct lk_cuda *c)
{
    constexpr int N = widest<T>;
    const char *name = "maxpool_forward";
    T *out = static_cast<T *>(a.out);
    const T *in = static_cast<const T *>(a.in);
    bool wide = a.shape.inputs % N == 0 && fits<N>(out, in);
    windows w = {};
    enum lk_status st = windows_of(a.shape, name, &w);
    size_t n = a.shape.samples * w.out_height * w.out_width;

    if (st != LK_OK)
        return st;
    return lk_launch(c, name, dim3(blocks_for(n * w.channels / (wide ? N : 1), THREADS)), THREADS,
                     0, wide ? max_forward_kernel<N, T> : max_forward_kernel<1, T>, out, in, w, n);
}

template <class T>
enum lk_status maxpool_backward(const struct lk_maxpool_backward_args &a, const struct lk_cuda *c)
{
    constexpr int N = widest<T>;
    const char *name = "maxpool_backward";
    T *din = static_cast<T *>(a.din);
    const T *dout = static_cast<const T *>(a.dout), *in = static_cast<const T *>(a.in);
    size_t n = a.shape.samples * a.shape.height * a.shape.width;
    bool wide = a.shape.inputs % N == 0 && fits<N>(din, dout, in);
    windows w = {};
    enum lk_status st = windows_of(a.shape, name, &w);

    if (st != LK_OK)
        return st;
    return lk_launch(c, name, dim3(blocks_for(n * w.channels / (wide ? N : 1), THREADS)), THREADS,
                     0, wide ? max_backward_kernel<N, T> : max_backward_kernel<1, T>, din, dout, in,
                     w, n);
}

/* ---- The mean of parts of an image ---- */

/* An image that is averaged to size x size parts. */
struct parts {
    size_t height, width, channels, size;

    /* Find the rows, or columns, that part i is the mean of. */
    __device__ void rows_of(size_t i, size_t extent, size_t *from, size_t *to) const
    {
        *from = i * extent / size;
        *to = ((i + 1) * extent + size - 1) / size;
    }

    /* Return the share of a pixel in the mean of part (y, x). */
    __device__ float share(size_t y, size_t x) const
    {
        size_t y0, y1, x0, x1;

        rows_of(y, height, &y0, &y1);
        rows_of(x, width, &x0, &x1);
        return 1 / (float)((y1 - y0) * (x1 - x0));
    }
};

template <class T>
__global__ void __launch_bounds__(THREADS)
    mean_forward_kernel(T *out, const T *in, parts p, size_t n)
{
    size_t area = p.size * p.size;

    for (size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x; i < n;
         i += (size_t)gridDim.x * THREADS) {
        size_t channel = i % p.channels, part = i / p.channels % area;
        size_t sample = i / p.channels / area, y0, y1, x0, x1;
        const T *image = in + sample * p.height * p.width * p.channels + channel;
        float sum = 0;

        p.rows_of(part / p.size, p.height, &y0, &y1);
        p.rows_of(part % p.size, p.width, &x0, &x1);
        for (size_t y = y0; y < y1; y++)
            for (size_t x = x0; x < x1; x++)
                sum += to_float(image[(y * p.width + x) * p.channels]);
        out[(sample * p.channels + channel) * area + part] =
            from_float<T>(sum * p.share(part / p.size, part % p.size));
    }
}

/* Part i has row r, of `rows`, if it is at least floor(r size / rows) and below ceil((r + 1) size /
 * rows): the rule of rows_of, solved for i. */
template <class T>
__global__ void __launch_bounds__(THREADS)
    mean_backward_kernel(T *din, const T *dout, parts p, size_t n)
{
    size_t area = p.size * p.size;

    for (size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x; i < n;
         i += (size_t)gridDim.x * THREADS) {
        size_t channel = i % p.channels, pixel = i / p.channels;
        size_t x = pixel % p.width, y = pixel / p.width % p.height;
        size_t sample = pixel / p.width / p.height;
        size_t last_y = ((y + 1) * p.size + p.height - 1) / p.height;
        size_t last_x = ((x + 1) * p.size + p.width - 1) / p.width;
        const T *from = dout + (sample * p.channels + channel) * area;
        float sum = 0;

        for (size_t oy = y * p.size / p.height; oy < last_y; oy++)
            for (size_t ox = x * p.size / p.width; ox < last_x; ox++)
                sum += to_float(from[oy * p.size + ox]) * p.share(oy, ox);
        din[i] = from_float<T>(sum);
    }
}

template <class T>
enum lk_status avgpool_forward(const struct lk_avgpool_forward_args &a, const struct lk_cuda *c)
{
    size_t n = a.samples * a.channels * a.size * a.size;

    return lk_launch(c, "avgpool_forward", dim3(blocks_for(n, THREADS)), THREADS, 0,
                     mean_forward_kernel<T>, static_cast<T *>(a.out), static_cast<const T *>(a.in),
                     parts{a.height, a.width, a.channels, a.size}, n);
}

template <class T>
enum lk_status avgpool_backward(const struct lk_avgpool_backward_args &a, const struct lk_cuda *c)
{
    size_t n = a.samples * a.channels * a.height * a.width;

    return lk_launch(c, "avgpool_backward", dim3(blocks_for(n, THREADS)), THREADS, 0,
                     mean_backward_kernel<T>, static_cast<T *>(a.din),
                     static_cast<const T *>(a.dout), parts{a.height, a.width, a.channels, a.size},
                     n);
}

/* ---- A residual connection ---- */

/* A comparison that lets NaN pass. */
template <class T> struct positive_sum {
    __device__ T operator()(T in, T residual) const
    {
        float sum = to_float(in) + to_float(residual);

        return from_float<T>(sum < 0 ? 0 : sum);
    }
};

template <class T>
enum lk_status add_relu_forward(const struct lk_add_relu_forward_args &a, const struct lk_cuda *c)
{
    return lk_map(c, "add_relu_forward", static_cast<T *>(a.out), static_cast<const T *>(a.in),
                  static_cast<const T *>(a.residual), a.n, positive_sum<T>{});
}

} // namespace

LK_CUDA_OP(pixels_forward)
LK_CUDA_OP(maxpool_forward)
LK_CUDA_OP(maxpool_backward)
LK_CUDA_OP(avgpool_forward)
LK_CUDA_OP(avgpool_backward)
LK_CUDA_OP(add_relu_forward)
