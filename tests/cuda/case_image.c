/* The cases of the ops of image models (kernels/ops_image.h). */
#include "base/array.h"
#include "kernels/ops_image.h"
#include "tests/cuda/buffers.h"

#include <math.h>
#include <string.h>

static enum lk_dtype real(const struct cuda_rig *r)
{
    return r->cuda.real;
}

/* ---- Pixels and residual connections ---- */

static const struct {
    size_t samples, channels, area;
} images[] = {{1, 1, 1}, {2, 3, 49}, {3, 1, 100}, {0, 3, 4}, {2, 3, 700}, {32, 3, 50176}};
enum { HOST_IMAGES = 5, SHIFTED_IMAGES = 6 };

/* The bytes of a data set, as the low byte of numbers. */
void cuda_case_pixels(struct cuda_rig *r)
{
    for (size_t i = 0; i < N_SHAPES(r, images, HOST_IMAGES, SHIFTED_IMAGES); i++) {
        size_t n = images[i].samples * images[i].channels * images[i].area;
        struct buffer out = buffer_zero(r, "out", real(r), n);
        int32_t *words, *dev = tokens_random(r, n / sizeof *words + 1, INT32_MAX, &words);

        RUN(r, pixels_forward, (.out = out.dev, .pixels = (const uint8_t *)dev),
            (.out = out.d, .pixels = (const uint8_t *)words), .samples = images[i].samples,
            .channels = images[i].channels, .area = images[i].area, .factor = 4.0 / 255,
            .shift = -2);
        buffer_check(&out, 2 * ULP);
        buffers_free(r);
    }
}

void cuda_case_add_relu(struct cuda_rig *r)
{
    static const size_t lengths[] = {0, 1, 7, 300, 5000, 1 << 20};
    enum { HOST = 5, SHIFTED = 6 };

    for (size_t i = 0; i < N_SHAPES(r, lengths, HOST, SHIFTED); i++) {
        size_t n = lengths[i];
        struct buffer in = buffer_random(r, "in", real(r), n, 1);
        struct buffer residual = buffer_random(r, "residual", real(r), n, 1);

        if (n > 1)
            in.d[1] = NAN;
        buffer_send(&in);
        RUN(r, add_relu_forward, (.out = in.dev, .in = in.dev, .residual = residual.dev),
            (.out = in.d, .in = in.d, .residual = residual.d), .n = n);
        buffer_check(&in, ULP);
        buffers_free(r);
    }
}

/* ---- Convolution ---- */

/*
 * samples, height, width, inputs, outputs, kernel, stride, padding. Of the host's, two have
 * channels for packs; the rest have an odd number of them, windows that are beyond the image in all
 * directions, strides beyond the window, and no samples. The GPU's are as layers of ResNet: the
 * first, whose windows of 147 numbers are padded to 152, then those with packs.
 */
static const struct lk_conv_shape convolutions[] = {
    {1, 1, 1, 1, 1, 1, 1, 0},     {2, 5, 4, 3, 2, 3, 1, 1},     {1, 7, 6, 2, 3, 3, 2, 1},
    {2, 5, 4, 3, 2, 1, 2, 0},     {2, 3, 3, 2, 3, 1, 1, 0},     {1, 2, 1, 1, 2, 3, 2, 1},
    {1, 9, 8, 3, 2, 7, 2, 3},     {1, 7, 7, 2, 2, 2, 3, 0},     {0, 4, 4, 2, 3, 3, 1, 1},
    {2, 4, 5, 8, 16, 3, 1, 1},    {1, 4, 4, 16, 8, 1, 2, 0},    {2, 112, 112, 3, 32, 7, 2, 3},
    {2, 28, 28, 64, 64, 3, 1, 1}, {2, 28, 28, 64, 64, 3, 2, 1}, {4, 14, 14, 256, 64, 1, 2, 0},
};
enum { HOST_CONVOLUTIONS = 11, SHIFTED_CONVOLUTIONS = 12 };

static size_t pixels_of(const struct lk_conv_shape *s)
{
    return lk_conv_plan(s, true, SIZE_MAX).rows;
}

static size_t out_elems(const struct lk_conv_shape *s)
{
    return pixels_of(s) * s->outputs;
}

static size_t in_elems(const struct lk_conv_shape *s)
{
    return s->samples * s->height * s->width * s->inputs;
}

static size_t depth(const struct lk_conv_shape *s)
{
    return lk_conv_plan(s, true, SIZE_MAX).depth;
}

/* Return the elements of a scratch buffer for so many pieces of windows. */
static size_t scratch_for(const struct lk_conv_shape *s, size_t pieces)
{
    struct lk_conv_plan p = lk_conv_plan(s, true, SIZE_MAX);

    return p.direct ? p.weights : p.weights + (p.rows + pieces - 1) / pieces * p.width;
}

/* The windows' gradients are rounded before they are added up, and the sum with each piece. */
static double input_bound(const struct cuda_rig *r, const struct lk_conv_shape *s, size_t pieces)
{
    double windows = (double)(s->kernel * s->kernel), rounding = cuda_rounded_before(r, true);

    return (cuda_product_bound(r, s->outputs) + rounding) * windows + rounding * (double)pieces;
}

/* The sum is rounded with each piece, and before it is copied to the gradient. */
static double weight_bound(const struct cuda_rig *r, const struct lk_conv_shape *s, size_t pieces)
{
    return cuda_product_bound(r, pixels_of(s)) +
           cuda_rounded_before(r, true) * (double)(pieces + 1);
}

static void convolve(struct cuda_rig *r, const struct lk_conv_shape s, bool flag, size_t pieces)
{
    struct buffer in = buffer_random(r, "in", real(r), in_elems(&s), 1);
    struct buffer weight = buffer_random(r, "weight", real(r), s.outputs * depth(&s), 1);
    struct buffer bias = buffer_random(r, "bias", real(r), s.outputs, 1);
    struct buffer out = buffer_random(r, "out", real(r), out_elems(&s), 1);
    struct buffer dout = buffer_random(r, "dout", real(r), out_elems(&s), 1);
    struct buffer din = buffer_random(r, "din", real(r), in.n, 1);
    struct buffer dweight = buffer_random(r, "dweight", real(r), weight.n, 1);
    struct buffer dbias = buffer_random(r, "dbias", real(r), s.outputs, 1);
    size_t elems = scratch_for(&s, pieces);
    void *scratch = buffer_zero(r, "scratch", real(r), elems).dev;

    RUN(r, conv_forward,
        (.out = out.dev, .in = in.dev, .weight = weight.dev, .bias = flag ? bias.dev : NULL,
         .scratch = scratch),
        (.out = out.d, .in = in.d, .weight = weight.d, .bias = flag ? bias.d : NULL), .shape = s,
        .scratch_elems = elems);
    buffer_check_sum(&out, cuda_product_bound(r, depth(&s)) + cuda_rounded_before(r, flag), 1);
    RUN(r, conv_backward_input,
        (.din = din.dev, .dout = dout.dev, .weight = weight.dev, .scratch = scratch),
        (.din = din.d, .dout = dout.d, .weight = weight.d), .shape = s, .scratch_elems = elems,
        .accumulate = flag);
    buffer_check_sum(&din, input_bound(r, &s, pieces), 1);
    RUN(r, conv_backward_weight,
        (.dweight = dweight.dev, .dbias = flag ? dbias.dev : NULL, .dout = dout.dev, .in = in.dev,
         .scratch = scratch),
        (.dweight = dweight.d, .dbias = flag ? dbias.d : NULL, .dout = dout.d, .in = in.d),
        .shape = s, .scratch_elems = elems, .accumulate = flag);
    buffer_check_sum(&dweight, weight_bound(r, &s, pieces), 1);
    if (flag)
        buffer_check_sum(&dbias, SUM_BOUND(pixels_of(&s)), 1);
    buffers_free(r);
}

/* With neither a bias nor a gradient to add to, in one piece and in three, which cut images; and
 * with both, in two. */
void cuda_case_convolution(struct cuda_rig *r)
{
    for (size_t i = 0; i < N_SHAPES(r, convolutions, HOST_CONVOLUTIONS, SHIFTED_CONVOLUTIONS);
         i++) {
        convolve(r, convolutions[i], false, 1);
        convolve(r, convolutions[i], true, 2);
        if (i < HOST_CONVOLUTIONS)
            convolve(r, convolutions[i], false, 3);
    }
}

/* ---- Batch norm ---- */

/* The host's have strips of several rows, packs, more packs than a block has threads. */
static const struct {
    size_t rows, channels;
} norms[] = {
    {2, 1}, {3, 5}, {200, 33}, {40, 16}, {5, 2100}, {25088, 64}, {784, 2048}, {1001, 77},
};
enum { HOST_NORMS = 5, SHIFTED_NORMS = 8 };

static const double momentum = 0.1;

/* Make a batch's statistics: means in [-1, 1), inverse deviations in [1, 2), and rows. */
static void put_statistics(double *to, size_t c, double rows)
{
    for (size_t k = 0; k < c; k++)
        to[c + k] = 1 + fabs(to[c + k]);
    to[2 * c] = rows;
}

/* Join the statistics of three batches, of which one has no rows. */
static void join(struct cuda_rig *r, size_t c)
{
    size_t n = 2 * c + 1;
    struct buffer joint = buffer_random(r, "joint", LK_F32, n, 1);
    struct buffer all = buffer_random(r, "all", LK_F32, 3 * n, 1);
    struct buffer mean = buffer_random(r, "running mean", LK_F32, c, 1);
    struct buffer var = buffer_random(r, "running var", LK_F32, c, 1);

    put_statistics(all.d, c, 40);
    memset(all.d + n, 0, n * sizeof *all.d);
    put_statistics(all.d + 2 * n, c, 77);
    buffer_send(&all);
    RUN(r, batchnorm_gather,
        (.joint = joint.dev, .running_mean = mean.dev, .running_var = var.dev, .all = all.dev),
        (.joint = joint.d, .running_mean = mean.d, .running_var = var.d, .all = all.d),
        .batches = 3, .channels = c, .momentum = momentum);
    buffer_check(&joint, 4 * ULP);
    buffer_check(&mean, 4 * ULP);
    buffer_check(&var, 4 * ULP);
    buffers_free(r);
}

/* A mean far from 0 must not cost the variance its digits. */
static void statistics(struct cuda_rig *r, size_t rows, size_t c)
{
    struct buffer in = buffer_random(r, "in", real(r), rows * c, 3);
    struct buffer own = buffer_random(r, "statistics", LK_F32, 2 * c + 1, 1);

    for (size_t k = 0; k < rows * c; k++)
        in.d[k] += 20;
    buffer_send(&in);
    RUN(r, batchnorm_statistics, (.statistics = own.dev, .in = in.dev),
        (.statistics = own.d, .in = in.d), .rows = rows, .channels = c);
    buffer_check(&own, 64 * ULP);
    buffers_free(r);
}

static void forward(struct cuda_rig *r, size_t rows, size_t c, bool relu)
{
    struct buffer in = buffer_random(r, "in", real(r), rows * c, 3);
    struct buffer joint = buffer_random(r, "joint", LK_F32, 2 * c + 1, 1);
    struct buffer weight = buffer_random(r, "weight", real(r), c, 1);
    struct buffer bias = buffer_random(r, "bias", real(r), c, 1);
    struct buffer out = buffer_random(r, "out", real(r), rows * c, 1);

    put_statistics(joint.d, c, (double)rows);
    buffer_send(&joint);
    RUN(r, batchnorm_forward,
        (.out = out.dev, .in = in.dev, .joint = joint.dev, .weight = weight.dev, .bias = bias.dev),
        (.out = out.d, .in = in.d, .joint = joint.d, .weight = weight.d, .bias = bias.d),
        .rows = rows, .channels = c, .relu = relu);
    buffer_check(&out, 8 * ULP);
    buffers_free(r);
}

static void backward(struct cuda_rig *r, size_t rows, size_t c, bool accumulate)
{
    struct buffer in = buffer_random(r, "in", real(r), rows * c, 1);
    struct buffer dout = buffer_random(r, "dout", real(r), rows * c, 1);
    struct buffer joint = buffer_random(r, "joint", LK_F32, 2 * c + 1, 1);
    struct buffer weight = buffer_random(r, "weight", real(r), c, 1);
    struct buffer own = buffer_random(r, "sums", LK_F32, 2 * c, 1);
    struct buffer sums = buffer_random(r, "sums of all", LK_F32, 2 * c, sqrt((double)rows));
    struct buffer dweight = buffer_random(r, "dweight", real(r), c, 1);
    struct buffer dbias = buffer_random(r, "dbias", real(r), c, 1);

    put_statistics(joint.d, c, (double)rows);
    buffer_send(&joint);
    RUN(r, batchnorm_sums,
        (.sums = own.dev, .dweight = dweight.dev, .dbias = dbias.dev, .dout = dout.dev,
         .in = in.dev, .joint = joint.dev),
        (.sums = own.d, .dweight = dweight.d, .dbias = dbias.d, .dout = dout.d, .in = in.d,
         .joint = joint.d),
        .rows = rows, .channels = c, .accumulate = accumulate);
    /* Terms are below 2, and times 1 / sqrt(variance) below 4. */
    buffer_check_sum(&own, SUM_BOUND(rows), 2);
    buffer_check_sum(&dweight, SUM_BOUND(rows), 4);
    buffer_check_sum(&dbias, SUM_BOUND(rows), 1);
    RUN(r, batchnorm_backward,
        (.din = dout.dev, .dout = dout.dev, .in = in.dev, .joint = joint.dev, .sums = sums.dev,
         .weight = weight.dev),
        (.din = dout.d, .dout = dout.d, .in = in.d, .joint = joint.d, .sums = sums.d,
         .weight = weight.d),
        .rows = rows, .channels = c);
    buffer_check_sum(&dout, 32 * ULP, 1);
    buffers_free(r);
}

void cuda_case_batchnorm(struct cuda_rig *r)
{
    struct buffer none = buffer_random(r, "statistics", LK_F32, 11, 1);

    RUN(r, batchnorm_statistics, (.statistics = none.dev), (.statistics = none.d), .rows = 0,
        .channels = 5);
    buffer_check(&none, 0);
    buffers_free(r);
    for (size_t i = 0; i < 2 * N_SHAPES(r, norms, HOST_NORMS, SHIFTED_NORMS); i++) {
        if (i % 2)
            join(r, norms[i / 2].channels);
        else
            statistics(r, norms[i / 2].rows, norms[i / 2].channels);
        forward(r, norms[i / 2].rows, norms[i / 2].channels, i % 2);
        backward(r, norms[i / 2].rows, norms[i / 2].channels, i % 2);
    }
}

/* ---- Pooling ---- */

/* Windows that overlap, that leave gaps, that are beyond the image. */
static const struct lk_conv_shape poolings[] = {
    {1, 1, 1, 1, 1, 1, 1, 0},       {2, 5, 4, 3, 3, 3, 2, 1},       {1, 7, 6, 2, 2, 2, 3, 0},
    {2, 6, 7, 8, 8, 3, 2, 1},       {0, 4, 4, 2, 2, 2, 2, 0},       {1, 4, 4, 16, 16, 2, 2, 0},
    {4, 112, 112, 64, 64, 3, 2, 1}, {4, 56, 56, 128, 128, 2, 2, 0},
};
enum { HOST_POOLINGS = 6, SHIFTED_POOLINGS = 8 };

/* Few values, so that windows have several largest ones; and NaN, of which only one is in a window,
 * since the gradient of several goes to the last. */
void cuda_case_maxpool(struct cuda_rig *r)
{
    for (size_t i = 0; i < N_SHAPES(r, poolings, HOST_POOLINGS, SHIFTED_POOLINGS); i++) {
        const struct lk_conv_shape s = poolings[i];
        struct buffer in = buffer_random(r, "in", real(r), in_elems(&s), 4);
        struct buffer din = buffer_random(r, "din", real(r), in.n, 1);
        struct buffer out = buffer_random(r, "out", real(r), out_elems(&s), 1);
        struct buffer dout = buffer_random(r, "dout", real(r), out.n, 1);

        for (size_t k = 0; k < in.n && !r->counts; k++)
            in.d[k] = k == 5 ? NAN : floor(in.d[k]);
        buffer_send(&in);
        RUN(r, maxpool_forward, (.out = out.dev, .in = in.dev), (.out = out.d, .in = in.d),
            .shape = s);
        buffer_check(&out, 0);
        RUN(r, maxpool_backward, (.din = din.dev, .dout = dout.dev, .in = in.dev),
            (.din = din.d, .dout = dout.d, .in = in.d), .shape = s);
        buffer_check_sum(&din, SUM_BOUND(s.kernel * s.kernel), 1);
        buffers_free(r);
    }
}

/* Parts that overlap, that repeat pixels, and one part. */
static const struct {
    size_t samples, height, width, channels, size;
} averages[] = {
    {1, 1, 1, 1, 1}, {2, 5, 4, 3, 2}, {2, 2, 3, 5, 4},     {1, 7, 7, 16, 1},
    {0, 3, 3, 2, 1}, {1, 9, 7, 2, 7}, {32, 7, 7, 2048, 1}, {8, 7, 7, 512, 7},
};
enum { HOST_AVERAGES = 6, SHIFTED_AVERAGES = 8 };

void cuda_case_avgpool(struct cuda_rig *r)
{
    for (size_t i = 0; i < N_SHAPES(r, averages, HOST_AVERAGES, SHIFTED_AVERAGES); i++) {
        size_t s = averages[i].samples, h = averages[i].height, w = averages[i].width;
        size_t c = averages[i].channels, size = averages[i].size;
        struct buffer in = buffer_random(r, "in", real(r), s * h * w * c, 1);
        struct buffer din = buffer_random(r, "din", real(r), in.n, 1);
        struct buffer out = buffer_random(r, "out", real(r), s * c * size * size, 1);
        struct buffer dout = buffer_random(r, "dout", real(r), out.n, 1);

        RUN(r, avgpool_forward, (.out = out.dev, .in = in.dev), (.out = out.d, .in = in.d),
            .samples = s, .height = h, .width = w, .channels = c, .size = size);
        buffer_check_sum(&out, SUM_BOUND(h * w), 1);
        RUN(r, avgpool_backward, (.din = din.dev, .dout = dout.dev), (.din = din.d, .dout = dout.d),
            .samples = s, .height = h, .width = w, .channels = c, .size = size);
        buffer_check_sum(&din, SUM_BOUND(size * size), 1);
        buffers_free(r);
    }
}
