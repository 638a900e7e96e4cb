/*
 * Convolution: matrices of windows (kernels/ops_image.h) are multiplied by the weights, by
 * cuBLASLt. A piece of windows is written once and read once; backward, each pixel of the image
 * adds up the gradients of the windows that it is in, in a fixed order, so nothing is added by
 * atomics.
 */
#include "kernels/columns.cuh"
#include "kernels/product.cuh"
#include "kernels/windows.cuh"

namespace
{

enum { THREADS = 256, MOST_STRIPS = 512 };

/* A convolution with its plan and the two parts of the scratch buffer. */
template <class T> struct conv {
    const struct lk_conv_shape &s;
    const char *name;
    struct lk_conv_plan p;
    windows w;
    T *weights, *rows;

    template <class A>
    conv(const A &a, const char *op)
        : s(a.shape), name(op), p(lk_conv_plan(&a.shape, true, a.scratch_elems)), w(),
          weights(static_cast<T *>(a.scratch)), rows(weights + p.weights)
    {
    }

    /* Return the number of rows of the piece at `first`. */
    size_t piece_at(size_t first) const
    {
        return p.rows - first < p.piece ? p.rows - first : p.piece;
    }
};

/*
 * Copy the windows of n output pixels from number `first` to rows, N channels at a time: zeros
 * where a window is beyond the image, and behind it, up to the row's width. pre: n * width fits 32
 * bits.
 */
template <int N, class T>
__global__ void __launch_bounds__(THREADS)
    gather_kernel(T *rows, const T *in, windows w, unsigned width, unsigned first, unsigned n)
{
    unsigned packs = width / N, threads = gridDim.x * THREADS;

    for (unsigned i = blockIdx.x * THREADS + threadIdx.x; i < n * packs; i += threads) {
        unsigned row = first + i / packs, column = i % packs * N;
        unsigned tap = column / w.channels, sample = row / w.out_width / w.out_height;
        unsigned y = row / w.out_width % w.out_height * w.stride + tap / w.kernel - w.padding;
        unsigned x = row % w.out_width * w.stride + tap % w.kernel - w.padding;
        pack<T, N> from = {};

        /* What lies above or left of the image has wrapped around, to the largest numbers. */
        if (tap < w.kernel * w.kernel && y < w.height && x < w.width)
            from = load<N>(in + w.in_at(sample, y, x) + column % w.channels);
        store<N>(rows + (size_t)i * N, from);
    }
}

/*
 * Add up the gradients of windows, those of n output pixels from `first`, in the pixels of images
 * from `image` that they were copied from. A pixel's gradient is added to where it is asked for, or
 * where an earlier piece has windows of its image.
 */
template <int N, class T>
__global__ void __launch_bounds__(THREADS)
    scatter_kernel(T *din, const T *rows, windows w, unsigned width, unsigned first, unsigned n,
                   unsigned image, size_t pixels, bool accumulate)
{
    unsigned packs = w.channels / N;

    for (size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x; i < pixels * packs;
         i += (size_t)gridDim.x * THREADS) {
        unsigned pixel = (unsigned)(i / packs), channel = (unsigned)(i % packs) * N;
        unsigned x = pixel % w.width, y = pixel / w.width % w.height;
        unsigned sample = image + pixel / w.width / w.height;
        unsigned at_sample = sample * w.out_height * w.out_width;
        T *to = din + w.in_at(sample, y, x) + channel;
        pack<T, N> sum = {};
        float total[N] = {};

        if (accumulate || at_sample < first) {
            sum = load<N>(to);
#pragma unroll
            for (int k = 0; k < N; k++)
                total[k] = to_float(sum.x[k]);
        }
        w.over(y + w.padding, x + w.padding,
               [&](unsigned ky, unsigned kx, unsigned oy, unsigned ox) {
                   unsigned row = at_sample + oy * w.out_width + ox - first;

                   if (row >= n)
                       return;
                   sum = load<N>(rows + (size_t)row * width + (ky * w.kernel + kx) * w.channels +
                                 channel);
#pragma unroll
                   for (int k = 0; k < N; k++)
                       total[k] += to_float(sum.x[k]);
               });
#pragma unroll
        for (int k = 0; k < N; k++)
            sum.x[k] = from_float<T>(total[k]);
        store<N>(to, sum);
    }
}

/* Copy weights to rows with channels last, and zeros behind them. */
template <class T>
__global__ void __launch_bounds__(THREADS)
    channels_last_kernel(T *to, const T *weight, size_t outputs, size_t inputs, size_t area,
                         size_t width)
{
    for (size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x; i < outputs * width;
         i += (size_t)gridDim.x * THREADS) {
        size_t o = i / width, column = i % width;

        to[i] = column < area * inputs
                    ? weight[(o * inputs + column % inputs) * area + column / inputs]
                    : from_float<T>(0);
    }
}

/* Write or add the gradient of weights with channels last to that with channels first. */
template <class T>
__global__ void __launch_bounds__(THREADS)
    channels_first_kernel(T *dweight, const T *from, size_t outputs, size_t inputs, size_t area,
                          size_t width, bool accumulate)
{
    for (size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x; i < outputs * inputs * area;
         i += (size_t)gridDim.x * THREADS) {
        size_t o = i / area / inputs, input = i / area % inputs;
        float value = to_float(from[o * width + i % area * inputs + input]);

        dweight[i] = from_float<T>(accumulate ? to_float(dweight[i]) + value : value);
    }
}

/* Return the weights as a matrix of rows of v.p.width; *st may become an error. */
template <class T>
const T *weights_of(const conv<T> &v, const struct lk_cuda *c, const void *weight,
                    enum lk_status *st)
{
    const T *from = static_cast<const T *>(weight);

    if (!v.p.weights)
        return from;
    *st = lk_launch(c, v.name, dim3(blocks_for(v.p.weights, THREADS)), THREADS, 0,
                    channels_last_kernel<T>, v.weights, from, v.s.outputs, v.s.inputs,
                    v.s.kernel * v.s.kernel, v.p.width);
    return v.weights;
}

/* Make the windows of n output pixels; *out_rows is where they are. */
template <class T>
enum lk_status gather(const conv<T> &v, const struct lk_cuda *c, const T *in, size_t first,
                      size_t n, const T **out_rows)
{
    constexpr int N = widest<T>;
    bool wide = v.s.inputs % N == 0 && v.p.width % N == 0 && fits<N>(in, v.rows);
    size_t packs = n * v.p.width / (wide ? N : 1);

    *out_rows = v.p.direct ? in + first * v.p.width : v.rows;
    if (v.p.direct)
        return LK_OK;
    return lk_launch(c, v.name, dim3(blocks_for(packs, THREADS)), THREADS, 0,
                     wide ? gather_kernel<N, T> : gather_kernel<1, T>, v.rows, in, v.w,
                     (unsigned)v.p.width, (unsigned)first, (unsigned)n);
}

template <class T>
enum lk_status scatter(const conv<T> &v, const struct lk_cuda *c, T *din, size_t first, size_t n,
                       bool accumulate)
{
    constexpr int N = widest<T>;
    size_t area = v.p.out_height * v.p.out_width, image = first / area;
    size_t pixels = ((first + n - 1) / area - image + 1) * v.s.height * v.s.width;
    bool wide = v.s.inputs % N == 0 && v.p.width % N == 0 && fits<N>(din, v.rows);
    size_t packs = pixels * v.s.inputs / (wide ? N : 1);

    return lk_launch(c, v.name, dim3(blocks_for(packs, THREADS)), THREADS, 0,
                     wide ? scatter_kernel<N, T> : scatter_kernel<1, T>, din,
                     static_cast<const T *>(v.rows), v.w, (unsigned)v.p.width, (unsigned)first,
                     (unsigned)n, (unsigned)image, pixels, accumulate);
}

template <class T>
enum lk_status conv_forward(const struct lk_conv_forward_args &a, const struct lk_cuda *c)
{
    conv<T> v(a, "conv_forward");
    enum lk_status st = windows_of(a.shape, v.name, &v.w);
    const T *in = static_cast<const T *>(a.in), *weights, *rows;

    if (st != LK_OK)
        return st;
    weights = weights_of(v, c, a.weight, &st);
    for (size_t first = 0, n; first < v.p.rows && st == LK_OK; first += n) {
        struct lk_cuda_product p = {};

        n = v.piece_at(first);
        st = gather(v, c, in, first, n, &rows);
        if (st != LK_OK)
            return st;
        p.d = static_cast<T *>(a.out) + first * v.s.outputs;
        p.a = rows;
        p.b = weights;
        p.transpose_b = true;
        p.bias = a.bias;
        p.rows = n;
        p.inner = v.p.width;
        p.columns = v.s.outputs;
        st = product<T>(c, v.name, p);
    }
    return st;
}

template <class T>
enum lk_status conv_backward_input(const struct lk_conv_backward_input_args &a,
                                   const struct lk_cuda *c)
{
    conv<T> v(a, "conv_backward_input");
    enum lk_status st = windows_of(a.shape, v.name, &v.w);
    const T *weights;

    if (st != LK_OK)
        return st;
    weights = weights_of(v, c, a.weight, &st);
    for (size_t first = 0, n; first < v.p.rows && st == LK_OK; first += n) {
        struct lk_cuda_product p = {};

        n = v.piece_at(first);
        p.d = v.p.direct ? a.din : v.rows;
        p.a = static_cast<const T *>(a.dout) + first * v.s.outputs;
        p.b = weights;
        p.e = v.p.direct && a.accumulate ? a.din : nullptr;
        p.rows = n;
        p.inner = v.s.outputs;
        p.columns = v.p.width;
        st = product<T>(c, v.name, p);
        if (st == LK_OK && !v.p.direct)
            st = scatter(v, c, static_cast<T *>(a.din), first, n, a.accumulate);
    }
    return st;
}

/* Make the gradient of weights with rows of v.p.width, in `to`. */
template <class T>
enum lk_status weight_product(const conv<T> &v, const struct lk_conv_backward_weight_args &a,
                              const struct lk_cuda *c, T *to)
{
    struct lk_cuda_product p = {};
    enum lk_status st = LK_OK;

    p.d = to;
    p.transpose_a = true;
    p.e = a.accumulate && !v.p.weights ? to : nullptr;
    p.rows = v.s.outputs;
    p.columns = v.p.width;
    if (v.p.rows == 0)
        return product<T>(c, v.name, p);
    for (size_t first = 0, n; first < v.p.rows && st == LK_OK; first += n, p.e = to) {
        const T *rows;

        n = v.piece_at(first);
        st = gather(v, c, static_cast<const T *>(a.in), first, n, &rows);
        if (st != LK_OK)
            return st;
        p.a = static_cast<const T *>(a.dout) + first * v.s.outputs;
        p.b = rows;
        p.inner = n;
        st = product<T>(c, v.name, p);
    }
    return st;
}

template <class T>
enum lk_status conv_backward_weight(const struct lk_conv_backward_weight_args &a,
                                    const struct lk_cuda *c)
{
    conv<T> v(a, "conv_backward_weight");
    T *dweight = static_cast<T *>(a.dweight);
    const T *dout = static_cast<const T *>(a.dout);
    size_t area = v.s.kernel * v.s.kernel, outputs = v.s.outputs;
    enum lk_status st = windows_of(a.shape, v.name, &v.w);

    if (st == LK_OK)
        st = weight_product(v, a, c, v.p.weights ? v.weights : dweight);
    if (st == LK_OK && v.p.weights)
        st = lk_launch(c, v.name, dim3(blocks_for(outputs * v.p.depth, THREADS)), THREADS, 0,
                       channels_first_kernel<T>, dweight, static_cast<const T *>(v.weights),
                       outputs, v.s.inputs, area, v.p.width, a.accumulate);
    if (st != LK_OK || !a.dbias)
        return st;
    return sum_columns<stored>(
        c, v.name, column_sums<T>{static_cast<T *>(a.dbias), nullptr, outputs}, v.p.rows,
        MOST_STRIPS, outputs % widest<T> == 0 && fits<widest<T>>(dout), a.accumulate, dout,
        outputs);
}

} // namespace

LK_CUDA_OP(conv_forward)
LK_CUDA_OP(conv_backward_input)
LK_CUDA_OP(conv_backward_weight)
