/* The table of LK_OP_IMAGE_LIST: names, implementations and costs, as kernels/ops.c has them. */
#include "kernels/ops_image.h"
#include "kernels/impl.h"

/* Return the elements of a convolution's or pooling's output for one channel, of all samples; of
 * its output; of its input; and of its window. */
static double out_pixels(const struct lk_conv_shape *s)
{
    if (s->samples == 0)
        return 0;
    return lk_op_product(s->samples, lk_conv_out(s->height, s->kernel, s->stride, s->padding),
                         lk_conv_out(s->width, s->kernel, s->stride, s->padding));
}

static double pooled(const struct lk_conv_shape *s)
{
    return out_pixels(s) * (double)s->outputs;
}

static double image(const struct lk_conv_shape *s)
{
    return lk_op_product(s->samples, s->height, s->width) * (double)s->inputs;
}

static double window(const struct lk_conv_shape *s)
{
    return lk_op_product(s->kernel, s->kernel, 1);
}

struct lk_conv_plan lk_conv_plan(const struct lk_conv_shape *s, bool cuda, size_t scratch)
{
    size_t most = cuda ? (size_t)1 << 25 : (size_t)1 << 18; /* elements of windows */
    const size_t align = cuda ? 8 : 1;                      /* 16 bytes of bfloat16 */
    struct lk_conv_plan p = {.out_height = lk_conv_out(s->height, s->kernel, s->stride, s->padding),
                             .out_width = lk_conv_out(s->width, s->kernel, s->stride, s->padding),
                             .depth = s->kernel * s->kernel * s->inputs};

    p.rows = s->samples * p.out_height * p.out_width;
    p.direct = s->kernel == 1 && s->stride == 1 && s->padding == 0;
    p.width = s->kernel > 1 ? (p.depth + align - 1) / align * align : p.depth;
    p.weights = s->kernel > 1 ? s->outputs * p.width : 0;
    most = scratch < most + p.weights ? scratch - p.weights : most;
    p.piece = p.width ? most / p.width : p.rows;
    p.piece = p.piece < 1 ? 1 : p.piece;
    p.piece = p.direct || p.piece > p.rows ? p.rows : p.piece;
    return p;
}

size_t lk_conv_scratch(const struct lk_conv_shape *s, bool cuda)
{
    struct lk_conv_plan p = lk_conv_plan(s, cuda, SIZE_MAX);

    return p.weights + (p.direct ? 0 : p.piece * p.width);
}

/* Costs by formula, as in kernels/ops.c. */
#define FORMULA_LIST(X)                                                                            \
    X(pixels_forward, lk_op_product(a->samples, a->channels, a->area), 2 * n, 1.25 * n)            \
    X(batchnorm_statistics, lk_op_product(a->rows, a->channels, 1), 4 * n, n)                      \
    X(batchnorm_gather, lk_op_product(a->batches, a->channels, 1), 8 * n, 2 * n)                   \
    X(batchnorm_forward, lk_op_product(a->rows, a->channels, 1), 2 * n, 2 * n)                     \
    X(batchnorm_sums, lk_op_product(a->rows, a->channels, 1), 4 * n, 2 * n)                        \
    X(batchnorm_backward, lk_op_product(a->rows, a->channels, 1), 4 * n, 3 * n)                    \
    X(maxpool_forward, pooled(&a->shape), window(&a->shape) * n, n + image(&a->shape))             \
    X(maxpool_backward, pooled(&a->shape), window(&a->shape) * n, n + 2 * image(&a->shape))        \
    X(avgpool_forward, lk_op_product(a->samples, a->channels, a->height * a->width), n, n)         \
    X(avgpool_backward, lk_op_product(a->samples, a->channels, a->height * a->width), n, n)        \
    X(add_relu_forward, (double)a->n, 2 * n, 3 * n)

#define FORMULA(op, count, flops, reals)                                                           \
    static struct lk_op_cost op##_cost(const void *args)                                           \
    {                                                                                              \
        const struct lk_##op##_args *a = args;                                                     \
        const double n = (count);                                                                  \
                                                                                                   \
        return lk_op_cost_of((flops), (reals), 0);                                                 \
    }
FORMULA_LIST(FORMULA)

/* Return the cost of a convolution's product; `twice`: what it adds to is read, too. */
static struct lk_op_cost conv_cost(const struct lk_conv_shape *s, double twice)
{
    double weights = window(s) * lk_op_product(s->inputs, s->outputs, 1);

    return lk_op_cost_of(2 * out_pixels(s) * weights, image(s) + weights + pooled(s) + twice, 0);
}

static struct lk_op_cost conv_forward_cost(const void *args)
{
    return conv_cost(&((const struct lk_conv_forward_args *)args)->shape, 0);
}

static struct lk_op_cost conv_backward_input_cost(const void *args)
{
    const struct lk_conv_backward_input_args *a = args;

    return conv_cost(&a->shape, a->accumulate ? image(&a->shape) : 0);
}

static struct lk_op_cost conv_backward_weight_cost(const void *args)
{
    const struct lk_conv_backward_weight_args *a = args;
    const struct lk_conv_shape *s = &a->shape;

    return conv_cost(s, a->accumulate ? window(s) * lk_op_product(s->inputs, s->outputs, 1) : 0);
}

LK_OP_IMAGE_LIST(LK_OP_ROW_)
