/*
 * All operations, with their arguments: the same ops for every device.
 *
 * An op is launched with a struct of arguments that is copied; pointers in it are device memory.
 * Three implementations share the arguments:
 *   cpu   float32, for use on CPUs (matrix products by BLAS, if the build has it); on buffers of
 *         16 bit by kernels/narrow.h
 *   ref   float64, naive loops: the definition. Its buffers hold doubles.
 *   cuda  enqueues CUDA kernels (kernels/cuda.h); NULL in a build without CUDA
 * A device runs one of them; lk_device_real_bytes returns the element size of its buffers.
 *
 *     LK_LAUNCH(stream, gelu_forward, .out = out, .in = in, .n = n);
 *
 * Matrices are row major and dense. lk_real buffers have the device's element type, lk_wide ones
 * that of its sums (float, on reference double), tokens are int32. Buffers of one op do not overlap
 * unless its comment says so. Sizes are elements; a size of 0 is legal and does nothing.
 * `accumulate` false overwrites a gradient, true adds to it.
 *
 * Equal inputs give equal bits, on any thread: no op splits its work by the number of processors.
 * Only the backward pass of cuDNN's attention does not, unless asked to (lk_cuda_dnn_open).
 * NaN and infinity propagate. Any number of threads may run ops at once.
 */
#ifndef LK_KERNELS_OPS_H
#define LK_KERNELS_OPS_H

#include "base/status.h"
#include "base/words.h"
#include "facts/dtype.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An element buffer of double (ref) or the device's type (cpu, cuda): of float, or of one that is
 * narrower (kernels/narrow.h). */
typedef void lk_real;
/* As lk_real, but never narrower than float: sums, statistics, the state of optimizers. */
typedef void lk_wide;

struct lk_cuda;
struct lk_operands; /* kernels/narrow.h */

/* The cost of an op. On a timed device, an op takes the longer of flops and bytes at the device's
 * rates, plus seconds. */
struct lk_op_cost {
    double flops;   /* a multiply and an add count as two */
    double bytes;   /* read and written, each buffer once */
    double seconds; /* a time that does not depend on the machine */
};

struct lk_op {
    const char *name;  /* name in traces, e.g. "matmul_forward" */
    size_t args_bytes; /* size of the argument struct; at most LK_OP_ARGS_MAX */
    void (*cpu)(const void *args);
    void (*ref)(const void *args);
    enum lk_status (*cuda)(const void *args, const struct lk_cuda *cuda);
    /* List the buffers of lk_real, so that cpu runs on narrow ones; NULL: it does not. */
    void (*operands)(const void *args, struct lk_operands *out);
    struct lk_op_cost (*cost)(const void *args);
};

enum { LK_OP_ARGS_MAX = 192 };

/* X(op): lk_op_<op> takes struct lk_<op>_args. The second list has the ops of image models, whose
 * arguments are in kernels/ops_image.h. */
#define LK_OP_LIST(X) LK_OP_CORE_LIST(X) LK_OP_IMAGE_LIST(X)
#define LK_OP_CORE_LIST(X)                                                                         \
    X(encoder_forward)                                                                             \
    X(encoder_backward_position)                                                                   \
    X(encoder_backward_token)                                                                      \
    X(bytes_forward)                                                                               \
    X(layernorm_forward)                                                                           \
    X(layernorm_backward)                                                                          \
    X(matmul_forward)                                                                              \
    X(matmul_backward_input)                                                                       \
    X(matmul_backward_weight)                                                                      \
    X(attention_forward)                                                                           \
    X(attention_backward)                                                                          \
    X(gelu_forward)                                                                                \
    X(gelu_backward)                                                                               \
    X(relu_forward)                                                                                \
    X(relu_backward)                                                                               \
    X(cross_entropy_forward)                                                                       \
    X(cross_entropy_backward)                                                                      \
    X(sgd)                                                                                         \
    X(adamw)                                                                                       \
    X(lars)                                                                                        \
    X(lamb)                                                                                        \
    X(orthogonalize)                                                                               \
    X(sum_squares)                                                                                 \
    X(checksum)                                                                                    \
    X(scale)                                                                                       \
    X(fill)                                                                                        \
    X(axpy)                                                                                        \
    X(clip)                                                                                        \
    X(cast_to_wire)                                                                                \
    X(cast_from_wire)                                                                              \
    X(wait)                                                                                        \
    X(hold)                                                                                        \
    X(move)
#define LK_OP_IMAGE_LIST(X)                                                                        \
    X(pixels_forward)                                                                              \
    X(conv_forward)                                                                                \
    X(conv_backward_input)                                                                         \
    X(conv_backward_weight)                                                                        \
    X(batchnorm_statistics)                                                                        \
    X(batchnorm_gather)                                                                            \
    X(batchnorm_forward)                                                                           \
    X(batchnorm_sums)                                                                              \
    X(batchnorm_backward)                                                                          \
    X(maxpool_forward)                                                                             \
    X(maxpool_backward)                                                                            \
    X(avgpool_forward)                                                                             \
    X(avgpool_backward)                                                                            \
    X(add_relu_forward)

#define LK_OP_EXTERN_(op) extern const struct lk_op lk_op_##op;
LK_OP_LIST(LK_OP_EXTERN_)
#undef LK_OP_EXTERN_

/*
 * Prepare what the cpu ops use, before the first of them: OpenBLAS is loaded, with one thread,
 * since a rank has one core. (Otherwise it starts one a processor of the machine, which poll for
 * work at first.) Safe to call again, by any thread; the first call, which changes the environment
 * for a moment, comes before a program's threads where that is possible. LK_EUNSUPPORTED: no
 * OpenBLAS is found; LK_ENOMEM: the system refuses the memory that
 * OpenBLAS, which tries for ever, maps for a thread that multiplies.
 */
enum lk_status lk_kernels_init(void);

/* Return which library multiplies matrices, with its version and the processor that it chose code
 * for. */
const char *lk_kernels_blas(void);

/* Return the widest vector instructions that the ops were compiled for. */
const char *lk_kernels_vectors(void);

/* ---- Embeddings ---- */

/* out(s, t) = wte(tokens(s, t)) + wpe(t). pre: 0 <= token < vocab. */
struct lk_encoder_forward_args {
    lk_real *out;          /* (samples, context, channels) */
    const int32_t *tokens; /* (samples, context) */
    const lk_real *wte;    /* (vocab, channels) */
    const lk_real *wpe;    /* (at least context, channels) */
    size_t samples, context, channels, vocab;
};

/* dwpe(t) = sum over samples of dout(s, t); rows from context to wpe_rows are 0. */
struct lk_encoder_backward_position_args {
    lk_real *dwpe;       /* (wpe_rows, channels) */
    const lk_real *dout; /* (samples, context, channels) */
    size_t samples, context, channels, wpe_rows;
    bool accumulate;
};

/* dwte(v) = sum of dout at the positions whose token is v, in order of position. */
struct lk_encoder_backward_token_args {
    lk_real *dwte;       /* (vocab, channels) */
    const lk_real *dout; /* (samples, context, channels) */
    const int32_t *tokens;
    size_t samples, context, channels, vocab;
    bool accumulate;
};

/* out = token * factor + shift: converts bytes to numbers, for a model without embeddings. */
struct lk_bytes_forward_args {
    lk_real *out;          /* (n) */
    const int32_t *tokens; /* (n) */
    size_t n;
    double factor, shift;
};

/* ---- Layer normalisation (Ba, Kiros, Hinton 2016), eps 1e-5 as in PyTorch and GPT-2 ---- */

#define LK_LAYERNORM_EPS 1e-5

/* out = (in - mean) * rstd * weight + bias over each row; the variance divides by channels. */
struct lk_layernorm_forward_args {
    lk_real *out;          /* (rows, channels) */
    lk_wide *mean, *rstd;  /* (rows): kept for the backward pass */
    const lk_real *in;     /* (rows, channels) */
    const lk_real *weight; /* (channels) */
    const lk_real *bias;   /* (channels) */
    size_t rows, channels;
};

struct lk_layernorm_backward_args {
    lk_real *din;               /* (rows, channels) */
    lk_real *dweight, *dbias;   /* (channels) */
    const lk_real *dout;        /* (rows, channels) */
    const lk_real *in;          /* (rows, channels) */
    const lk_real *weight;      /* (channels) */
    const lk_wide *mean, *rstd; /* (rows) */
    size_t rows, channels;
    bool accumulate;       /* of dweight and dbias */
    bool accumulate_input; /* of din: true adds to the gradient of a residual connection */
};

/* ---- Linear layer; weights as PyTorch's Linear: (outputs, inputs) ---- */

/*
 * Return a row stride in elements; 0 stands for dense rows. Rows of out, residual, dout and logits
 * may have a stride larger than their length, because tensor cores want rows that begin at
 * multiples of 16 bytes, which those of a vocabulary of 50257 do not. The gaps between rows are
 * neither read nor written.
 */
static inline size_t lk_op_stride(size_t stride, size_t columns)
{
    return stride ? stride : columns;
}

/*
 * A product may do more with its result before it is stored, which saves a pass over memory: gelu
 * forward, gelu's derivative backward, the sums of a bias's gradient. On cuda that is an epilogue
 * of cuBLASLt's, and LK_EUNSUPPORTED where there is none for the shape, the strides and the
 * addresses; other ops then do the same (runtime/model/fuse.h).
 */

/* out = in * transposed(weight) + bias + residual, and gelu = gelu(out). */
struct lk_matmul_forward_args {
    lk_real *out;            /* (rows, outputs) */
    lk_real *gelu;           /* (rows, outputs), or NULL. pre: no residual, inputs > 0 */
    const lk_real *in;       /* (rows, inputs) */
    const lk_real *weight;   /* (outputs, inputs) */
    const lk_real *bias;     /* (outputs), or NULL */
    const lk_real *residual; /* (rows, outputs), or NULL; may be `out` */
    size_t rows, inputs, outputs;
    size_t stride; /* of out, gelu and residual */
};

/* din = dout * weight, times gelu's derivative at gelu_in; dbias = column sums of din. */
struct lk_matmul_backward_input_args {
    lk_real *din;           /* (rows, inputs) */
    const lk_real *dout;    /* (rows, outputs) */
    const lk_real *weight;  /* (outputs, inputs) */
    const lk_real *gelu_in; /* (rows, inputs): the input of gelu forward, or NULL. pre: din is not
                               accumulated, outputs > 0 */
    lk_real *dbias;         /* (inputs), or NULL. pre: gelu_in */
    size_t rows, inputs, outputs;
    size_t stride; /* of dout */
    bool accumulate;
    bool accumulate_bias;
};

/* dweight = transposed(dout) * in; dbias = column sums of dout. */
struct lk_matmul_backward_weight_args {
    lk_real *dweight;    /* (outputs, inputs) */
    lk_real *dbias;      /* (outputs), or NULL */
    const lk_real *dout; /* (rows, outputs) */
    const lk_real *in;   /* (rows, inputs) */
    size_t rows, inputs, outputs;
    size_t stride; /* of dout */
    bool accumulate;
    bool epilogue; /* cuda: the product sums dbias, not a kernel of its own. Others: not used */
};

/* ---- Causal multi-head attention ---- */

/*
 * For each sample and head: probs = softmax(q * transposed(k) / sqrt(channels / heads)) over the
 * positions up to the query's own, out = probs * v. pre: heads divides channels.
 */
struct lk_attention_forward_args {
    lk_real *out;       /* (samples, context, channels); heads side by side */
    lk_real *probs;     /* (samples, heads, context, context), lower triangles; kept for backward.
                           Values above the diagonal are unspecified. cuda: not used */
    lk_wide *log_sum;   /* cuda: (samples, heads, context), logarithms of the softmax's sums, from
                           which backward recomputes probs. Others: not used */
    const lk_real *qkv; /* (samples, context, 3 * channels): q, k, v */
    size_t samples, context, channels, heads;
};

struct lk_attention_backward_args {
    lk_real *dqkv;          /* (samples, context, 3 * channels) */
    lk_real *scratch;       /* (context, context); cuda: not used */
    const lk_real *dout;    /* (samples, context, channels) */
    const lk_real *qkv;     /* as in forward */
    const lk_real *out;     /* from forward */
    const lk_real *probs;   /* from forward; cuda: not used */
    const lk_wide *log_sum; /* cuda: from forward */
    size_t samples, context, channels, heads;
};

/* Whose kernels run attention on cuda. AUTO: cuDNN's where it has some for the shape, else ours. */
#define LK_ATTENTION_LIST(X)                                                                       \
    X(LK_ATTENTION_AUTO, "auto") X(LK_ATTENTION_OWN, "own") X(LK_ATTENTION_CUDNN, "cudnn")
enum lk_attention { LK_ATTENTION_LIST(LK_WORD_VALUE) LK_ATTENTION_COUNT };

struct lk_attention_shape {
    size_t samples, context, channels, heads; /* > 0; heads divides channels */
};
enum { LK_ATTENTION_TEXT = 160 }; /* bytes of a text that says whose kernels run it, and why */

/* ---- Activations ---- */

/* GPT-2's gelu: 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))). */
struct lk_gelu_forward_args {
    lk_real *out;
    const lk_real *in;
    size_t n;
};

/* dbias = column sums of din, for the layer whose output gelu takes. */
struct lk_gelu_backward_args {
    lk_real *din;        /* may be dout */
    lk_real *dbias;      /* (columns), or NULL */
    const lk_real *dout; /* (n) */
    const lk_real *in;   /* (n): the input of forward */
    size_t n;
    size_t columns;  /* with dbias: of rows of this length, n is a multiple */
    bool accumulate; /* of dbias */
};

struct lk_relu_forward_args {
    lk_real *out; /* may be `in` */
    const lk_real *in;
    size_t n;
};

/* The derivative at 0 is 0. */
struct lk_relu_backward_args {
    lk_real *din; /* may be dout */
    const lk_real *dout;
    const lk_real *out; /* (n): the output of forward, positive where the input is */
    size_t n;
};

/* ---- Softmax and cross-entropy ---- */

/* loss = mean over rows of log(sum of exp(logits)) - logits(target). pre: 0 <= target < vocab. With
 * dlogits, backward is done as well, with the same numbers, and reads the logits no second time. */
struct lk_cross_entropy_forward_args {
    lk_wide *loss;          /* one element */
    lk_real *dlogits;       /* (rows, vocab), or NULL; may be `logits` */
    lk_wide *log_sum;       /* (rows): log of the sum of exp(logits), kept for backward */
    const lk_real *logits;  /* (rows, vocab) */
    const int32_t *targets; /* target of row r: targets[r * target_stride] */
    size_t rows, vocab, target_stride;
    size_t stride; /* of logits and dlogits */
    double seed;   /* with dlogits: gradient of the loss */
};

/* dlogits = seed / rows * (softmax(logits) - onehot(target)). */
struct lk_cross_entropy_backward_args {
    lk_real *dlogits;       /* (rows, vocab); may be `logits` */
    const lk_real *logits;  /* (rows, vocab) */
    const lk_wide *log_sum; /* (rows): from forward */
    const int32_t *targets;
    size_t rows, vocab, target_stride;
    size_t stride; /* of logits and dlogits */
    double seed;   /* gradient of the loss */
};

/* ---- Optimizers: many parameters in one launch, updated in place, as torch.optim does ---- */

/* One parameter. The gradient stays in its bucket, so no copy comes before the update. */
struct lk_optim_tensor {
    lk_real *param;
    lk_wide *master; /* exact weights, from which `param` is rounded; NULL: `param` is exact */
    lk_wide *m, *v;  /* state, zeroed before the first step; sgd: m is the momentum or NULL, no v */
    const lk_real *grad;
    size_t n;
    size_t first_chunk; /* number of its first chunk: the chunks of all tensors before it in the
                           table; a launch of a part of the table counts from its first tensor's */
    double weight_decay;
    bool layerwise; /* lars, lamb: the rate adapts to the tensor's norms; not of biases and norms */
};
/* Elements that one GPU thread block updates: a tensor is cut into such chunks, the last one
 * shorter. */
enum { LK_OPTIM_CHUNK = 8192 };

/* What changes from update to update. It is in device memory, so that the launches stay the same
 * and a graph can repeat them. */
struct lk_optim_rate {
    double learning_rate;
    double corrected; /* adamw: learning_rate / (1 - beta1^t), for update number t from 1 */
    double root;      /* adamw: sqrt(1 / (1 - beta2^t)) */
    double unscale; /* gradients are multiplied by this first: the loss was scaled by 1 / unscale */
};

/* g = grad + weight_decay * param; m = momentum * m + g; param -= learning_rate * m. */
struct lk_sgd_args {
    const struct lk_optim_tensor *tensors; /* (n_tensors), device memory */
    size_t n_tensors, n_chunks;            /* n_chunks: chunks of these tensors */
    size_t elems;                          /* elements of these tensors */
    const struct lk_optim_rate *rate;      /* device memory */
    double momentum;
};

/*
 * Decoupled weight decay (Loshchilov, Hutter 2019):
 * param -= learning_rate * weight_decay * param; m = beta1 * m + (1 - beta1) * grad;
 * v = beta2 * v + (1 - beta2) * grad^2; param -= corrected * m / (sqrt(v) * root + eps).
 */
struct lk_adamw_args {
    const struct lk_optim_tensor *tensors;
    size_t n_tensors, n_chunks, elems;
    const struct lk_optim_rate *rate;
    double beta1, beta2, eps;
};

/*
 * LARS (You, Gitman, Ginsburg 2017, arXiv:1708.03888): g = grad + weight_decay * param;
 * m = momentum * m + learning_rate * ratio * g; param -= m, with ratio = trust * |param| / (|grad|
 * + weight_decay * |param|), and 1 where a norm is 0 and of a tensor that is not layerwise. A
 * tensor is whole in one launch, so its norms do not depend on the table's parts.
 */
struct lk_lars_args {
    const struct lk_optim_tensor *tensors;
    size_t n_tensors, n_chunks, elems;
    const struct lk_optim_rate *rate;
    double momentum, trust;
};

/*
 * LAMB (You et al. 2020, arXiv:1904.00962, algorithm 2, with the identity as its function of the
 * norm): m and v as in adamw; u = m * unbias / (sqrt(v) * root + eps) + weight_decay * param;
 * param -= learning_rate * ratio * u, with unbias = corrected / learning_rate and
 * ratio = |param| / |u|, and 1 where a norm is 0 and of a tensor that is not layerwise.
 */
struct lk_lamb_args {
    const struct lk_optim_tensor *tensors;
    size_t n_tensors, n_chunks, elems;
    const struct lk_optim_rate *rate;
    double beta1, beta2, eps;
};

/* ---- Vectors ---- */

/* *out = sum of squares; accumulate adds it to *out. */
struct lk_sum_squares_args {
    lk_wide *out;
    const lk_real *in;
    size_t n;
    bool accumulate;
};

/* *sum = the checksum of n words (base/checksum.h): that of the same words is the same on every
 * device. */
struct lk_checksum_args {
    uint64_t *sum;
    const uint32_t *words;
    size_t n;
};

/* x = x * factor. */
struct lk_scale_args {
    lk_real *x;
    size_t n;
    double factor;
};

struct lk_fill_args {
    lk_real *x;
    size_t n;
    double value;
};

/* y = y + factor * x. */
struct lk_axpy_args {
    lk_real *y;
    const lk_real *x;
    size_t n;
    double factor;
};

#define LK_CLIP_EPS 1e-6
/* x = x * min(1, most / (sqrt(*sum_squares) / scale + LK_CLIP_EPS)), as
 * torch.nn.utils.clip_grad_norm_ does; x is `scale` times the gradients that are clipped. */
struct lk_clip_args {
    lk_real *x;
    const lk_wide *sum_squares; /* one element */
    size_t n;
    double most;  /* > 0 */
    double scale; /* > 0 */
};

/*
 * Make the columns of a matrix orthonormal, from the first on: what lies along earlier columns is
 * taken off, twice (Giraud, Langou, Rozloznik 2005: twice is enough), and the rest is divided by
 * its norm. A column of which less than 2^-20 remains (in 16 bits, 2^-7) depends on the earlier
 * ones but for rounding: a fixed vector takes its place, so that a column that was 0 once does not
 * stay 0 for ever.
 */
struct lk_orthogonalize_args {
    lk_real *x;           /* element (row, column) at row * row_stride + column * column_stride */
    size_t rows, columns; /* columns <= rows */
    size_t row_stride, column_stride;
};

/* Round to float16 or bfloat16 (nearest even; overflow becomes infinity) and convert back. On the
 * reference device a value is rounded to float32 first. pre: dtype is LK_F16 or LK_BF16. */
struct lk_cast_to_wire_args {
    uint16_t *out;
    const lk_real *in;
    size_t n;
    enum lk_dtype dtype;
};
struct lk_cast_from_wire_args {
    lk_real *out;
    const uint16_t *in;
    size_t n;
    enum lk_dtype dtype;
};

/* An op that computes nothing; a timed device waits this long. For replayed jobs and probes. 0
 * launches nothing, like a size of 0; anything above is a kernel on cuda, if a short one. */
struct lk_wait_args {
    double seconds;
};

/*
 * ---- Surrogates for a collective, for a machine with a single GPU ----
 *
 * On cuda they take the same resources from other kernels as a collective of NCCL: `ctas` thread
 * blocks, each occupying a multiprocessor (kernels/stand_in.cu). On other devices hold only takes
 * the time that it costs, and move copies.
 */

/* Surrogate for a collective that waits this long for a late rank. */
struct lk_hold_args {
    double seconds;
    size_t ctas;
};

/* Surrogate for a collective that moves bytes: to = from. Memory is read and written at Bps each;
 * 0: as fast as ctas can. */
struct lk_move_args {
    void *to; /* (bytes) */
    const void *from;
    size_t bytes, ctas;
    double Bps;
};

#endif
