/*
 * The ops of image models: each float32 op against its float64 definition, and each backward
 * definition against central differences of its forward one; tolerances are those of
 * tests/rigs/kernel_pair.h and tests/kernels/test_kernels_gradients.c.
 */
#include "kernels/ops_image.h"
#include "tests/rigs/kernel_pair.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct lk_rng generator(int i)
{
    return lk_rng_init(20261128, (uint64_t)i);
}

/* ---- Convolution ---- */

/* samples, height, width, inputs, outputs, kernel, stride, padding. The first SMALL ones are for
 * differences, too. The last two have windows of more pieces than one. */
static const struct lk_conv_shape shapes[] = {
    {1, 1, 1, 1, 1, 1, 1, 0},    {2, 5, 4, 3, 2, 3, 1, 1},    {1, 7, 6, 2, 3, 3, 2, 1},
    {2, 5, 4, 3, 2, 1, 2, 0},    {2, 3, 3, 2, 3, 1, 1, 0},    {1, 3, 4, 2, 2, 3, 1, 0},
    {1, 2, 1, 1, 2, 3, 2, 1},    {1, 9, 8, 3, 2, 7, 2, 3},    {3, 8, 8, 17, 33, 3, 1, 1},
    {0, 4, 4, 2, 3, 3, 1, 1},    {2, 1, 1, 130, 20, 1, 1, 0}, {2, 20, 21, 64, 9, 3, 1, 1},
    {1, 40, 40, 70, 5, 5, 2, 2},
};
enum { SMALL = 8, SHAPES = sizeof shapes / sizeof *shapes };

static size_t out_elems(const struct lk_conv_shape *s)
{
    return s->samples * s->outputs * lk_conv_out(s->height, s->kernel, s->stride, s->padding) *
           lk_conv_out(s->width, s->kernel, s->stride, s->padding);
}

static size_t in_elems(const struct lk_conv_shape *s)
{
    return s->samples * s->height * s->width * s->inputs;
}

static size_t depth(const struct lk_conv_shape *s)
{
    return s->inputs * s->kernel * s->kernel;
}

START_TEST(conv_matches)
{
    const struct lk_conv_shape s = shapes[_i / 2];
    struct lk_rng g = generator(_i);
    bool flag = _i % 2; /* with a bias; accumulate */
    struct pair in = pair_random(&g, in_elems(&s), 1);
    struct pair weight = pair_random(&g, s.outputs * depth(&s), 1);
    struct pair bias = pair_random(&g, s.outputs, 1);
    struct pair out = pair_random(&g, out_elems(&s), 1);
    struct pair dout = pair_random(&g, out_elems(&s), 1);
    struct pair din = pair_random(&g, in.n, 1), dweight = pair_random(&g, weight.n, 1);
    struct pair dbias = pair_random(&g, s.outputs, 1);
    struct pair scratch = pair_random(&g, lk_conv_scratch(&s, false), 1);

    RUN(conv_forward,
        (.out = out.f, .in = in.f, .weight = weight.f, .bias = flag ? bias.f : NULL,
         .scratch = scratch.f, .scratch_elems = scratch.n),
        (.out = out.d, .in = in.d, .weight = weight.d, .bias = flag ? bias.d : NULL), .shape = s);
    ck_assert_double_le(pair_error(&out), SUM_TOLERANCE(depth(&s)));
    RUN(conv_backward_input,
        (.din = din.f, .dout = dout.f, .weight = weight.f, .scratch = scratch.f,
         .scratch_elems = scratch.n),
        (.din = din.d, .dout = dout.d, .weight = weight.d), .shape = s, .accumulate = flag);
    ck_assert_double_le(pair_error(&din), SUM_TOLERANCE(s.outputs * s.kernel * s.kernel));
    RUN(conv_backward_weight,
        (.dweight = dweight.f, .dbias = dbias.f, .dout = dout.f, .in = in.f, .scratch = scratch.f,
         .scratch_elems = scratch.n),
        (.dweight = dweight.d, .dbias = dbias.d, .dout = dout.d, .in = in.d), .shape = s,
        .accumulate = flag);
    ck_assert_double_le(pair_error(&dweight), SUM_TOLERANCE(out_elems(&s) / s.outputs));
    ck_assert_double_le(pair_error(&dbias), SUM_TOLERANCE(out_elems(&s) / s.outputs));
}
END_TEST

/* ---- Differences ---- */

struct setup {
    struct lk_conv_shape shape;
    struct pair in, weight, bias, out, w; /* w: gradient of out */
    size_t size;                          /* of an average pooling */
    struct pair statistics, joint, running;
    bool relu;
};

typedef void (*forward_fn)(struct setup *s);

static double weighted(struct setup *s, forward_fn f)
{
    double sum = 0;

    f(s);
    for (size_t i = 0; i < s->out.n; i++)
        sum += s->w.d[i] * s->out.d[i];
    return sum;
}

static void check_gradient(struct setup *s, forward_fn f, double *at, const double *grad, size_t n,
                           const char *what)
{
    const double h = 1e-5, tolerance = 1e-8;

    for (size_t i = 0; i < n; i++) {
        double keep = at[i], up, down;

        at[i] = keep + h;
        up = weighted(s, f);
        at[i] = keep - h;
        down = weighted(s, f);
        at[i] = keep;
        ck_assert_msg(fabs(grad[i] - (up - down) / (2 * h)) <= tolerance,
                      "d%s[%zu]: %.12g, difference %.12g", what, i, grad[i], (up - down) / (2 * h));
    }
    f(s);
}

static void conv(struct setup *s)
{
    lk_op_conv_forward.ref(&(struct lk_conv_forward_args){.out = s->out.d,
                                                          .in = s->in.d,
                                                          .weight = s->weight.d,
                                                          .bias = s->bias.d,
                                                          .shape = s->shape});
}

START_TEST(conv_gradients)
{
    const struct lk_conv_shape c = shapes[_i];
    struct lk_rng g = generator(_i);
    struct setup s = {.shape = c,
                      .in = pair_random(&g, in_elems(&c), 1),
                      .weight = pair_random(&g, c.outputs * depth(&c), 1),
                      .bias = pair_random(&g, c.outputs, 1),
                      .out = pair_zero(out_elems(&c)),
                      .w = pair_random(&g, out_elems(&c), 1)};
    struct pair din = pair_zero(s.in.n), dweight = pair_zero(s.weight.n);
    struct pair dbias = pair_zero(c.outputs);

    lk_op_conv_backward_input.ref(&(struct lk_conv_backward_input_args){
        .din = din.d, .dout = s.w.d, .weight = s.weight.d, .shape = c});
    lk_op_conv_backward_weight.ref(&(struct lk_conv_backward_weight_args){
        .dweight = dweight.d, .dbias = dbias.d, .dout = s.w.d, .in = s.in.d, .shape = c});
    check_gradient(&s, conv, s.in.d, din.d, din.n, "in");
    check_gradient(&s, conv, s.weight.d, dweight.d, dweight.n, "weight");
    check_gradient(&s, conv, s.bias.d, dbias.d, dbias.n, "bias");
}
END_TEST

/* ---- Batch normalisation ---- */

/* Rows of the batches whose statistics are joined, and channels. */
static const struct {
    size_t rows[3], channels;
    double mean;
} layers[] = {{{2, 0, 0}, 1, 0},
              {{3, 4, 1}, 5, 0},
              {{0, 7, 2}, 63, 3},
              {{40, 1, 9}, 65, -8},
              {{300, 513, 0}, 16, 20}};
enum { LAYERS = sizeof layers / sizeof *layers };

static struct pair rows_random(struct lk_rng *g, size_t rows, size_t channels, double mean)
{
    struct pair p = pair_random(g, rows * channels, 1);

    for (size_t i = 0; i < p.n; i++)
        p.d[i] += mean;
    pair_align(&p);
    for (size_t i = 0; i < p.n; i++)
        p.d[i] = (double)p.f[i];
    return p;
}

/* Statistics of parts, joined, are those of the whole; float32 follows within its roundings. */
START_TEST(statistics_join)
{
    size_t c = layers[_i].channels, at = 0, rows = 0, width = 2 * c + 1;
    struct lk_rng g = generator(_i);
    struct pair all = pair_zero(3 * width), joint = pair_zero(width), whole = pair_zero(width);
    struct pair running = pair_random(&g, 2 * c, 1), again = pair_zero(2 * c), in;

    for (size_t i = 0; i < 3; i++)
        rows += layers[_i].rows[i];
    in = rows_random(&g, rows, c, layers[_i].mean);
    memcpy(again.d, running.d, 2 * c * sizeof(double));
    for (size_t i = 0; i < 3; i++) {
        RUN(batchnorm_statistics, (.statistics = all.f + i * width, .in = in.f + at),
            (.statistics = all.d + i * width, .in = in.d + at), .rows = layers[_i].rows[i],
            .channels = c);
        at += layers[_i].rows[i] * c;
    }
    ck_assert_double_le(pair_error(&all), 256 * ULP); /* 1 / deviation reaches 300 */
    RUN(batchnorm_gather,
        (.joint = joint.f, .running_mean = running.f, .running_var = running.f + c, .all = all.f),
        (.joint = joint.d, .running_mean = running.d, .running_var = running.d + c, .all = all.d),
        .batches = 3, .channels = c, .momentum = 0.1);
    ck_assert_double_le(pair_error(&joint), 256 * ULP);
    ck_assert_double_le(pair_error(&running), 256 * ULP);
    RUN(batchnorm_statistics, (.statistics = whole.f, .in = in.f),
        (.statistics = whole.d, .in = in.d), .rows = rows, .channels = c);
    for (size_t i = 0; i < width; i++)
        ck_assert_double_le(fabs(whole.d[i] - joint.d[i]), 1e-9 * fmax(1, fabs(whole.d[i])));
    for (size_t i = 0; i < c; i++) { /* by the formula of PyTorch's documentation */
        double n = (double)rows, variance = 1 / (whole.d[c + i] * whole.d[c + i]) - 1e-5;

        ck_assert_double_le(fabs(running.d[i] - (0.9 * again.d[i] + 0.1 * whole.d[i])), 1e-9);
        ck_assert_double_le(
            fabs(running.d[c + i] - (0.9 * again.d[c + i] + 0.1 * variance * n / (n - 1))), 1e-9);
    }
}
END_TEST

static void batchnorm(struct setup *s)
{
    size_t c = s->shape.inputs, rows = s->in.n / c;

    lk_op_batchnorm_statistics.ref(&(struct lk_batchnorm_statistics_args){
        .statistics = s->statistics.d, .in = s->in.d, .rows = rows, .channels = c});
    lk_op_batchnorm_gather.ref(
        &(struct lk_batchnorm_gather_args){.joint = s->joint.d,
                                           .running_mean = s->running.d,
                                           .running_var = s->running.d + c,
                                           .all = s->statistics.d,
                                           .batches = 1,
                                           .channels = c,
                                           .momentum = LK_BATCHNORM_MOMENTUM});
    lk_op_batchnorm_forward.ref(&(struct lk_batchnorm_forward_args){.out = s->out.d,
                                                                    .in = s->in.d,
                                                                    .joint = s->joint.d,
                                                                    .weight = s->weight.d,
                                                                    .bias = s->bias.d,
                                                                    .rows = rows,
                                                                    .channels = c,
                                                                    .relu = s->relu});
}

START_TEST(batchnorm_gradients)
{
    static const size_t sizes[][2] = {{2, 1}, {5, 3}, {9, 4}}; /* rows, channels */
    size_t rows = sizes[_i][0], c = sizes[_i][1];
    struct lk_rng g = generator(_i);
    struct setup s = {.shape = {.inputs = c},
                      .in = pair_random(&g, rows * c, 1),
                      .weight = pair_random(&g, c, 1),
                      .bias = pair_random(&g, c, 1),
                      .out = pair_zero(rows * c),
                      .w = pair_random(&g, rows * c, 1),
                      .statistics = pair_zero(2 * c + 1),
                      .joint = pair_zero(2 * c + 1),
                      .running = pair_zero(2 * c)};
    struct pair din = pair_zero(rows * c), dweight = pair_zero(c), dbias = pair_zero(c);
    struct pair sums = pair_zero(2 * c);

    batchnorm(&s);
    lk_op_batchnorm_sums.ref(&(struct lk_batchnorm_sums_args){.sums = sums.d,
                                                              .dweight = dweight.d,
                                                              .dbias = dbias.d,
                                                              .dout = s.w.d,
                                                              .in = s.in.d,
                                                              .joint = s.joint.d,
                                                              .rows = rows,
                                                              .channels = c});
    lk_op_batchnorm_backward.ref(&(struct lk_batchnorm_backward_args){.din = din.d,
                                                                      .dout = s.w.d,
                                                                      .in = s.in.d,
                                                                      .joint = s.joint.d,
                                                                      .sums = sums.d,
                                                                      .weight = s.weight.d,
                                                                      .rows = rows,
                                                                      .channels = c});
    check_gradient(&s, batchnorm, s.in.d, din.d, din.n, "in");
    check_gradient(&s, batchnorm, s.weight.d, dweight.d, c, "weight");
    check_gradient(&s, batchnorm, s.bias.d, dbias.d, c, "bias");
}
END_TEST

START_TEST(batchnorm_matches)
{
    size_t c = layers[_i / 2].channels, rows = 3 + layers[_i / 2].rows[0];
    struct lk_rng g = generator(_i);
    bool flag = _i % 2; /* relu; accumulate */
    struct pair in = rows_random(&g, rows, c, layers[_i / 2].mean), out = pair_zero(rows * c);
    struct pair dout = pair_random(&g, rows * c, 1), din = pair_zero(rows * c);
    struct pair weight = pair_random(&g, c, 1), bias = pair_random(&g, c, 1);
    struct pair dweight = pair_random(&g, c, 1), dbias = pair_random(&g, c, 1);
    struct pair joint = pair_zero(2 * c + 1), sums = pair_zero(2 * c);

    RUN(batchnorm_statistics, (.statistics = joint.f, .in = in.f),
        (.statistics = joint.d, .in = in.d), .rows = rows, .channels = c);
    for (size_t i = 0; i < joint.n; i++)
        joint.d[i] = (double)joint.f[i];
    RUN(batchnorm_forward,
        (.out = out.f, .in = in.f, .joint = joint.f, .weight = weight.f, .bias = bias.f),
        (.out = out.d, .in = in.d, .joint = joint.d, .weight = weight.d, .bias = bias.d),
        .rows = rows, .channels = c, .relu = flag);
    ck_assert_double_le(pair_error(&out), 64 * ULP);
    RUN(batchnorm_sums,
        (.sums = sums.f, .dweight = dweight.f, .dbias = dbias.f, .dout = dout.f, .in = in.f,
         .joint = joint.f),
        (.sums = sums.d, .dweight = dweight.d, .dbias = dbias.d, .dout = dout.d, .in = in.d,
         .joint = joint.d),
        .rows = rows, .channels = c, .accumulate = flag);
    ck_assert_double_le(pair_error(&sums), SUM_TOLERANCE(rows));
    ck_assert_double_le(pair_error(&dweight), SUM_TOLERANCE(2 * rows));
    ck_assert_double_le(pair_error(&dbias), SUM_TOLERANCE(rows));
    RUN(batchnorm_backward,
        (.din = din.f, .dout = dout.f, .in = in.f, .joint = joint.f, .sums = sums.f,
         .weight = weight.f),
        (.din = din.d, .dout = dout.d, .in = in.d, .joint = joint.d, .sums = sums.d,
         .weight = weight.d),
        .rows = rows, .channels = c);
    ck_assert_double_le(pair_error(&din), 64 * ULP);
}
END_TEST

/* ---- Pooling ---- */

static const struct lk_conv_shape windows[] = {
    {1, 1, 1, 1, 1, 1, 1, 0}, {2, 6, 4, 3, 3, 2, 2, 0},   {1, 7, 6, 5, 5, 3, 2, 1},
    {3, 5, 5, 2, 2, 3, 1, 1}, {2, 9, 8, 33, 33, 3, 2, 1},
};
enum { WINDOWS = sizeof windows / sizeof *windows };

static void maxpool(struct setup *s)
{
    lk_op_maxpool_forward.ref(
        &(struct lk_maxpool_forward_args){.out = s->out.d, .in = s->in.d, .shape = s->shape});
}

START_TEST(maxpool_matches_and_has_gradients)
{
    const struct lk_conv_shape c = windows[_i];
    struct lk_rng g = generator(_i);
    struct pair din = pair_random(&g, in_elems(&c), 1);
    struct setup s = {.shape = c,
                      .in = pair_random(&g, in_elems(&c), 1),
                      .out = pair_zero(out_elems(&c)),
                      .w = pair_random(&g, out_elems(&c), 1)};

    RUN(maxpool_forward, (.out = s.out.f, .in = s.in.f), (.out = s.out.d, .in = s.in.d),
        .shape = c);
    ck_assert_double_eq(pair_error(&s.out), 0);
    RUN(maxpool_backward, (.din = din.f, .dout = s.w.f, .in = s.in.f),
        (.din = din.d, .dout = s.w.d, .in = s.in.d), .shape = c);
    ck_assert_double_le(pair_error(&din), SUM_TOLERANCE(9));
    check_gradient(&s, maxpool, s.in.d, din.d, din.n, "in");
    /* Of equal values the first gets the gradient, on both. */
    for (size_t i = 0; i < s.in.n; i++)
        s.in.d[i] = s.in.f[i] = (float)(i % 2);
    RUN(maxpool_backward, (.din = din.f, .dout = s.w.f, .in = s.in.f),
        (.din = din.d, .dout = s.w.d, .in = s.in.d), .shape = c);
    ck_assert_double_le(pair_error(&din), SUM_TOLERANCE(9));
    /* NaN is the largest value. */
    s.in.d[s.in.n / 2] = s.in.f[s.in.n / 2] = NAN;
    RUN(maxpool_forward, (.out = s.out.f, .in = s.in.f), (.out = s.out.d, .in = s.in.d),
        .shape = c);
    ck_assert_double_eq(pair_error(&s.out), 0);
}
END_TEST

/* samples, height, width, channels, size */
static const size_t means[][5] = {
    {1, 1, 1, 1, 1}, {2, 4, 4, 3, 1}, {1, 7, 5, 2, 3}, {2, 2, 3, 4, 7}, {3, 7, 7, 17, 7}};
enum { MEANS = sizeof means / sizeof *means };

static void avgpool(struct setup *s)
{
    lk_op_avgpool_forward.ref(&(struct lk_avgpool_forward_args){.out = s->out.d,
                                                                .in = s->in.d,
                                                                .samples = s->shape.samples,
                                                                .height = s->shape.height,
                                                                .width = s->shape.width,
                                                                .channels = s->shape.inputs,
                                                                .size = s->size});
}

START_TEST(avgpool_matches_and_has_gradients)
{
    const size_t *m = means[_i];
    struct lk_rng g = generator(_i);
    struct setup s = {.shape = {m[0], m[1], m[2], m[3], m[3], 1, 1, 0},
                      .size = m[4],
                      .in = pair_random(&g, m[0] * m[1] * m[2] * m[3], 1),
                      .out = pair_zero(m[0] * m[3] * m[4] * m[4]),
                      .w = pair_random(&g, m[0] * m[3] * m[4] * m[4], 1)};
    struct pair din = pair_random(&g, s.in.n, 1);

    RUN(avgpool_forward, (.out = s.out.f, .in = s.in.f), (.out = s.out.d, .in = s.in.d),
        .samples = m[0], .height = m[1], .width = m[2], .channels = m[3], .size = m[4]);
    ck_assert_double_le(pair_error(&s.out), SUM_TOLERANCE(m[1] * m[2]));
    RUN(avgpool_backward, (.din = din.f, .dout = s.w.f), (.din = din.d, .dout = s.w.d),
        .samples = m[0], .height = m[1], .width = m[2], .channels = m[3], .size = m[4]);
    ck_assert_double_le(pair_error(&din), SUM_TOLERANCE(m[4] * m[4]));
    check_gradient(&s, avgpool, s.in.d, din.d, din.n, "in");
}
END_TEST

/* ---- The rest ---- */

START_TEST(pixels_and_sums_match)
{
    enum { SAMPLES = 3, CHANNELS = 3, AREA = 35, N = SAMPLES * CHANNELS * AREA };
    struct lk_rng g = generator(_i);
    struct pair a = pair_random(&g, N, 1), b = pair_random(&g, N, 1), out = pair_zero(N);
    uint8_t pixels[N];

    for (size_t i = 0; i < N; i++)
        pixels[i] = (uint8_t)lk_rng_below(&g, 256);
    RUN(pixels_forward, (.out = out.f), (.out = out.d), .pixels = pixels, .samples = SAMPLES,
        .channels = CHANNELS, .area = AREA, .factor = 4.0 / 255, .shift = -2);
    ck_assert_double_le(pair_error(&out), 4 * ULP);
    ck_assert_double_eq_tol(out.d[CHANNELS * 7 + 2], pixels[2 * AREA + 7] * 4.0 / 255 - 2, 1e-12);
    RUN(add_relu_forward, (.out = out.f, .in = a.f, .residual = b.f),
        (.out = out.d, .in = a.d, .residual = b.d), .n = N);
    ck_assert_double_le(pair_error(&out), 2 * ULP);
}
END_TEST

SUITE(kernels_image, tc)
{
    tcase_add_checked_fixture(tc, NULL, pairs_free);
    tcase_add_loop_test(tc, conv_matches, 0, 2 * SHAPES);
    tcase_add_loop_test(tc, conv_gradients, 0, SMALL);
    tcase_add_loop_test(tc, statistics_join, 0, LAYERS);
    tcase_add_loop_test(tc, batchnorm_gradients, 0, 3);
    tcase_add_loop_test(tc, batchnorm_matches, 0, 2 * LAYERS);
    tcase_add_loop_test(tc, maxpool_matches_and_has_gradients, 0, WINDOWS);
    tcase_add_loop_test(tc, avgpool_matches_and_has_gradients, 0, MEANS);
    tcase_add_test(tc, pixels_and_sums_match);
}
