/* The arguments of the ops of image models; kernels/ops.h has the rules that hold for all ops. */
#ifndef LK_KERNELS_OPS_IMAGE_H
#define LK_KERNELS_OPS_IMAGE_H

#include "kernels/ops.h"

/*
 * Activations are (samples, height, width, channels): the channels of a pixel lie side by side, so
 * that a convolution is a product of matrices with a row a pixel. Weights and pixels of a data set
 * are as PyTorch has them, channels first.
 */

/* out = pixel * factor + shift, channels last. */
struct lk_pixels_forward_args {
    lk_real *out;          /* (samples, area, channels) */
    const uint8_t *pixels; /* (samples, channels, area) */
    size_t samples, channels, area;
    double factor, shift;
};

/* A convolution or a pooling with a square window; beyond the image are `padding` rows and columns
 * of zeros (for a maximum: of nothing). pre: the window fits the padded image, stride > 0. */
struct lk_conv_shape {
    size_t samples, height, width; /* of the input */
    size_t inputs, outputs;        /* channels; a pooling has as many outputs as inputs */
    size_t kernel, stride, padding;
};
/* Return the height, or width, of the output. */
static inline size_t lk_conv_out(size_t size, size_t kernel, size_t stride, size_t padding)
{
    return (size + 2 * padding - kernel) / stride + 1;
}

/*
 * How the ops of a convolution use their scratch buffer, on cpu and cuda: the windows of some
 * output pixels are copied to the rows of a matrix, piece by piece (im2col). Windows have their
 * channels side by side; so that weights do, too, they are copied, where a window has several
 * pixels. Where the window is one pixel and the stride 1, the image is the matrix of windows.
 */
struct lk_conv_plan {
    size_t out_height, out_width;
    size_t rows;    /* output pixels of all samples */
    size_t depth;   /* values of a window */
    size_t width;   /* elements of a row of windows and of copied weights; the rest is 0 */
    size_t weights; /* elements of the copied weights, (outputs, width), which come first; or 0 */
    size_t piece;   /* rows that are multiplied at a time */
    bool direct;    /* the image is the matrix of windows */
};
/* A piece stays in a second-level cache of a CPU; on a GPU it is large enough to keep all
 * multiprocessors busy, and tensor cores want rows of multiples of 16 bytes. Pieces are smaller
 * where `scratch` elements do not hold such a one. pre: they hold the weights and a row. */
struct lk_conv_plan lk_conv_plan(const struct lk_conv_shape *shape, bool cuda, size_t scratch);
/* Return the elements of the scratch buffer that the three ops make use of. */
size_t lk_conv_scratch(const struct lk_conv_shape *shape, bool cuda);

/* out = bias + the sum over inputs and window of in * weight (a cross-correlation, as PyTorch's
 * Conv2d). */
struct lk_conv_forward_args {
    lk_real *out;          /* (samples, out height, out width, outputs) */
    const lk_real *in;     /* (samples, height, width, inputs) */
    const lk_real *weight; /* (outputs, inputs, kernel, kernel) */
    const lk_real *bias;   /* (outputs), or NULL */
    lk_real *scratch;      /* (scratch_elems): lk_conv_plan; not used on reference */
    size_t scratch_elems;
    struct lk_conv_shape shape;
};

struct lk_conv_backward_input_args {
    lk_real *din;
    const lk_real *dout, *weight;
    lk_real *scratch;
    size_t scratch_elems;
    struct lk_conv_shape shape;
    bool accumulate;
};

struct lk_conv_backward_weight_args {
    lk_real *dweight;
    lk_real *dbias; /* (outputs), or NULL */
    const lk_real *dout, *in;
    lk_real *scratch;
    size_t scratch_elems;
    struct lk_conv_shape shape;
    bool accumulate;
};

/*
 * ---- Batch normalisation (Ioffe, Szegedy 2015), in training, eps 1e-5 and momentum 0.1 as in
 * PyTorch ----
 *
 * Statistics of a batch are (2 channels + 1): the mean and 1 / sqrt(variance + eps) of each
 * channel, then the number of rows that they are of. A layer is three ops forward: the statistics
 * of its own rows, those of all ranks' rows, and the normalisation; and two backward. Between each
 * two ranks may exchange what the first of them computed: that is SyncBatchNorm
 * (torch/nn/modules/_functions.py).
 */

#define LK_BATCHNORM_EPS      1e-5
#define LK_BATCHNORM_MOMENTUM 0.1

/* The variance divides by rows. Without rows all is 0. */
struct lk_batchnorm_statistics_args {
    lk_wide *statistics;
    const lk_real *in; /* (rows, channels) */
    size_t rows, channels;
};

/*
 * Join the statistics of several batches, as if they were one: with n_i rows of N,
 * mean = sum n_i mean_i / N, variance = sum n_i (variance_i + (mean_i - mean)^2) / N (Chan, Golub,
 * LeVeque 1979). running = (1 - momentum) running + momentum new, where the new variance divides by
 * N - 1. Batches without rows do not count. pre: N > 1.
 */
struct lk_batchnorm_gather_args {
    lk_wide *joint;                      /* statistics; not `all` */
    lk_wide *running_mean, *running_var; /* (channels) */
    const lk_wide *all;                  /* (batches, statistics) */
    size_t batches, channels;
    double momentum;
};

/* out = (in - mean) / sqrt(variance + eps) * weight + bias, and with relu its positive part. */
struct lk_batchnorm_forward_args {
    lk_real *out;      /* (rows, channels) */
    const lk_real *in; /* (rows, channels) */
    const lk_wide *joint;
    const lk_real *weight, *bias; /* (channels) */
    size_t rows, channels;
    bool relu;
};

/* sums = column sums of dout, then of dout * (in - mean); dbias = the first, dweight = the second /
 * sqrt(variance + eps). */
struct lk_batchnorm_sums_args {
    lk_wide *sums; /* (2, channels) */
    lk_real *dweight, *dbias;
    const lk_real *dout, *in; /* (rows, channels) */
    const lk_wide *joint;
    size_t rows, channels;
    bool accumulate; /* of dweight and dbias */
};

/* With N rows and r = 1 / sqrt(variance + eps): din = weight * r * (dout - (sums of dout +
 * (in - mean) * r^2 * sums of dout * (in - mean)) / N). sums: of all N rows. */
struct lk_batchnorm_backward_args {
    lk_real *din;             /* may be dout */
    const lk_real *dout, *in; /* (rows, channels) */
    const lk_wide *joint, *sums;
    const lk_real *weight;
    size_t rows, channels;
};

/* ---- Pooling ---- */

/* The largest value of a window; NaN if one is. */
struct lk_maxpool_forward_args {
    lk_real *out;
    const lk_real *in;
    struct lk_conv_shape shape; /* padding < kernel */
};
/* The gradient goes to the first of the largest values, row by row. */
struct lk_maxpool_backward_args {
    lk_real *din;
    const lk_real *dout, *in;
    struct lk_conv_shape shape;
};

/* PyTorch's AdaptiveAvgPool2d: out(y, x) is the mean of the rows from floor(y height / size) to
 * below ceil((y + 1) height / size), and columns likewise. Channels come first in out, as the
 * weights of the linear layer behind it have them. */
struct lk_avgpool_forward_args {
    lk_real *out;      /* (samples, channels, size, size) */
    const lk_real *in; /* (samples, height, width, channels) */
    size_t samples, height, width, channels, size;
};
struct lk_avgpool_backward_args {
    lk_real *din;
    const lk_real *dout;
    size_t samples, height, width, channels, size;
};

/* out = the positive part of in + residual. Backward is that of relu, for both. */
struct lk_add_relu_forward_args {
    lk_real *out; /* may be `in` */
    const lk_real *in, *residual;
    size_t n;
};

#endif
