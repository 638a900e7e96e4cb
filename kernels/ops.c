/*
 * The table of LK_OP_CORE_LIST: names, implementations and costs. (Ops of image models:
 * ops_image.c.)
 *
 * Costs count the operations of the formula, not those of an implementation: an exp, a division or
 * a square root is one. Bytes assume float32 buffers.
 */
#include "kernels/ops.h"
#include "kernels/impl.h"

static const double real_bytes = 4;
static const double token_bytes = 4;

struct lk_op_cost lk_op_cost_of(double flops, double reals, double tokens)
{
    return (struct lk_op_cost){.flops = flops, .bytes = reals * real_bytes + tokens * token_bytes};
}

/*
 * Costs by formula: X(op, n, flops, float32 values read or written, tokens read), with `a` the op's
 * arguments and n a count of elements. A wire element is half a float32.
 */
#define FORMULA_LIST(X)                                                                            \
    X(encoder_forward, lk_op_product(a->samples, a->context, a->channels), n, 3 * n,               \
      lk_op_product(a->samples, a->context, 1))                                                    \
    X(encoder_backward_position, lk_op_product(a->samples, a->context, a->channels), n,            \
      n + lk_op_product(a->wpe_rows, a->channels, 1), 0)                                           \
    X(encoder_backward_token, lk_op_product(a->samples, a->context, a->channels), n,               \
      3 * n + (a->accumulate ? 0 : lk_op_product(a->vocab, a->channels, 1)),                       \
      lk_op_product(a->samples, a->context, 1))                                                    \
    X(bytes_forward, (double)a->n, 2 * n, n, n)                                                    \
    X(layernorm_forward, lk_op_product(a->rows, a->channels, 1), 8 * n, 2 * n, 0)                  \
    X(layernorm_backward, lk_op_product(a->rows, a->channels, 1), 14 * n,                          \
      (a->accumulate_input ? 4 : 3) * n, 0)                                                        \
    X(cross_entropy_forward, lk_op_product(a->rows, a->vocab, 1), (a->dlogits ? 7 : 4) * n,        \
      (a->dlogits ? 2 : 1) * n, (double)a->rows)                                                   \
    X(cross_entropy_backward, lk_op_product(a->rows, a->vocab, 1), 3 * n, 2 * n, (double)a->rows)  \
    X(sgd, (double)a->elems, 6 * n, (a->momentum > 0 ? 5 : 3) * n, 0)                              \
    X(adamw, (double)a->elems, 15 * n, 7 * n, 0)                                                   \
    X(lars, (double)a->elems, 11 * n, 7 * n, 0)                                                    \
    X(lamb, (double)a->elems, 30 * n, 10 * n, 0)                                                   \
    X(gelu_forward, (double)a->n, 9 * n, 2 * n, 0)                                                 \
    X(gelu_backward, (double)a->n, 18 * n, 3 * n, 0)                                               \
    X(relu_forward, (double)a->n, n, 2 * n, 0)                                                     \
    X(relu_backward, (double)a->n, n, 3 * n, 0)                                                    \
    X(sum_squares, (double)a->n, 2 * n, n, 0)                                                      \
    X(checksum, (double)a->n, 8 * n, n, 0)                                                         \
    X(scale, (double)a->n, n, 2 * n, 0)                                                            \
    X(fill, (double)a->n, 0, n, 0)                                                                 \
    X(axpy, (double)a->n, 2 * n, 3 * n, 0)                                                         \
    X(clip, (double)a->n, n, 2 * n, 0)                                                             \
    X(orthogonalize, lk_op_product(a->rows, a->columns, a->columns), 4 * n,                        \
      2 * lk_op_product(a->rows, a->columns, 1), 0)                                                \
    X(cast_to_wire, (double)a->n, 0, 1.5 * n, 0)                                                   \
    X(cast_from_wire, (double)a->n, 0, 1.5 * n, 0)

#define FORMULA(op, count, flops, reals, tokens)                                                   \
    static struct lk_op_cost op##_cost(const void *args)                                           \
    {                                                                                              \
        const struct lk_##op##_args *a = args;                                                     \
        const double n = (count);                                                                  \
                                                                                                   \
        return lk_op_cost_of((flops), (reals), (tokens));                                          \
    }
FORMULA_LIST(FORMULA)

/* Return the cost of a product of (rows, inner) and (inner, columns) that also does some operations
 * on every element and reads or writes `more` reals. */
static struct lk_op_cost matmul_cost(size_t rows, size_t inner, size_t columns, double operations,
                                     double more)
{
    return lk_op_cost_of(2 * lk_op_product(rows, inner, columns) +
                             operations * lk_op_product(rows, columns, 1),
                         lk_op_product(rows, inner, 1) + lk_op_product(inner, columns, 1) +
                             lk_op_product(rows, columns, 1) + more,
                         0);
}

static struct lk_op_cost matmul_forward_cost(const void *args)
{
    const struct lk_matmul_forward_args *a = args;

    return matmul_cost(a->rows, a->inputs, a->outputs, a->gelu ? 9 : 0,
                       a->residual || a->gelu ? lk_op_product(a->rows, a->outputs, 1) : 0);
}

static struct lk_op_cost matmul_backward_input_cost(const void *args)
{
    const struct lk_matmul_backward_input_args *a = args;

    return matmul_cost(a->rows, a->outputs, a->inputs, a->gelu_in ? 18 : 0,
                       a->accumulate || a->gelu_in ? lk_op_product(a->rows, a->inputs, 1) : 0);
}

static struct lk_op_cost matmul_backward_weight_cost(const void *args)
{
    const struct lk_matmul_backward_weight_args *a = args;

    return matmul_cost(a->outputs, a->rows, a->inputs, 0,
                       a->accumulate ? lk_op_product(a->outputs, a->inputs, 1) : 0);
}

/* Return the cost of attention: products over the lower triangle only, and about ten operations per
 * element of it for the softmax. */
static struct lk_op_cost attention_cost(size_t samples, size_t context, size_t channels,
                                        size_t heads, double products, double rows_read)
{
    double triangle = (double)samples * (double)context * ((double)context + 1) / 2;

    return lk_op_cost_of(
        triangle * (2 * products * (double)channels + 10 * (double)heads),
        rows_read * lk_op_product(samples, context, channels) + triangle * (double)heads, 0);
}

static struct lk_op_cost attention_forward_cost(const void *args)
{
    const struct lk_attention_forward_args *a = args;

    return attention_cost(a->samples, a->context, a->channels, a->heads, 2, 4);
}

static struct lk_op_cost attention_backward_cost(const void *args)
{
    const struct lk_attention_backward_args *a = args;

    return attention_cost(a->samples, a->context, a->channels, a->heads, 4, 7);
}

static struct lk_op_cost wait_cost(const void *args)
{
    return (struct lk_op_cost){.seconds = ((const struct lk_wait_args *)args)->seconds};
}

static struct lk_op_cost hold_cost(const void *args)
{
    return (struct lk_op_cost){.seconds = ((const struct lk_hold_args *)args)->seconds};
}

static struct lk_op_cost move_cost(const void *args)
{
    const struct lk_move_args *a = args;

    if (a->Bps > 0)
        return (struct lk_op_cost){.seconds = (double)a->bytes / a->Bps};
    return (struct lk_op_cost){.bytes = 2 * (double)a->bytes};
}

LK_OP_CORE_LIST(LK_OP_ROW_)
