/*
 * Which buffers of lk_real an op has, and how many elements of each (kernels/narrow.h): one list an
 * op, in the order of its arguments. IN(field, elems) is read, OUT(field, elems) is written whole,
 * ADDS(field, elems, keeps) is written, and read where `keeps` is true, SCRATCH(field, elems) is
 * the op's own. A field that is NULL has no buffer.
 */
#include "kernels/impl.h"
#include "kernels/narrow.h"
#include "kernels/ops_image.h"

static void add(struct lk_operands *o, size_t at, size_t elems, bool in, bool out)
{
    assert(o->n < LK_OPERANDS_MAX);
    o->list[o->n++] = (struct lk_operand){at, elems, in, out};
}

#define ADD(field, elems, in, out)                                                                 \
    add(o, (size_t)((const char *)&a->field - (const char *)a), (elems), (in), (out))
#define IN(field, elems)          ADD(field, elems, true, false)
#define OUT(field, elems)         ADD(field, elems, false, true)
#define ADDS(field, elems, keeps) ADD(field, elems, keeps, true)
#define SCRATCH(field, elems)     ADD(field, elems, false, false)

/* Define the list of an op, whose arguments are `a`. */
#define OPERANDS(op)                                                                               \
    static void op##_list(const struct lk_##op##_args *a, struct lk_operands *o);                  \
    void lk_##op##_operands(const void *args, struct lk_operands *out)                             \
    {                                                                                              \
        op##_list(args, out);                                                                      \
    }                                                                                              \
    static void op##_list(const struct lk_##op##_args *a, struct lk_operands *o)

/* Return the elements from the first row's first to the last row's last. */
static size_t strided(size_t rows, size_t columns, size_t stride)
{
    return rows ? (rows - 1) * lk_op_stride(stride, columns) + columns : 0;
}

/* Return true if there are gaps between rows, whose values stay. */
static bool has_gaps(size_t columns, size_t stride)
{
    return lk_op_stride(stride, columns) != columns;
}

/* ---- Embeddings, normalisation ---- */

OPERANDS(encoder_forward)
{
    OUT(out, a->samples * a->context * a->channels);
    IN(wte, a->vocab * a->channels);
    IN(wpe, a->context * a->channels);
}

OPERANDS(encoder_backward_position)
{
    ADDS(dwpe, a->wpe_rows * a->channels, a->accumulate);
    IN(dout, a->samples * a->context * a->channels);
}

OPERANDS(encoder_backward_token)
{
    ADDS(dwte, a->vocab * a->channels, a->accumulate);
    IN(dout, a->samples * a->context * a->channels);
}

OPERANDS(bytes_forward)
{
    OUT(out, a->n);
}

OPERANDS(layernorm_forward)
{
    OUT(out, a->rows * a->channels);
    IN(in, a->rows * a->channels);
    IN(weight, a->channels);
    IN(bias, a->channels);
}

OPERANDS(layernorm_backward)
{
    ADDS(din, a->rows * a->channels, a->accumulate_input);
    ADDS(dweight, a->channels, a->accumulate);
    ADDS(dbias, a->channels, a->accumulate);
    IN(dout, a->rows * a->channels);
    IN(in, a->rows * a->channels);
    IN(weight, a->channels);
}

/* ---- Linear layer, attention ---- */

OPERANDS(matmul_forward)
{
    size_t result = strided(a->rows, a->outputs, a->stride);

    ADDS(out, result, has_gaps(a->outputs, a->stride));
    ADDS(gelu, result, has_gaps(a->outputs, a->stride));
    IN(in, a->rows * a->inputs);
    IN(weight, a->outputs * a->inputs);
    IN(bias, a->outputs);
    IN(residual, result);
}

OPERANDS(matmul_backward_input)
{
    ADDS(din, a->rows * a->inputs, a->accumulate);
    IN(dout, strided(a->rows, a->outputs, a->stride));
    IN(weight, a->outputs * a->inputs);
    IN(gelu_in, a->rows * a->inputs);
    ADDS(dbias, a->inputs, a->accumulate_bias);
}

OPERANDS(matmul_backward_weight)
{
    ADDS(dweight, a->outputs * a->inputs, a->accumulate);
    ADDS(dbias, a->outputs, a->accumulate);
    IN(dout, strided(a->rows, a->outputs, a->stride));
    IN(in, a->rows * a->inputs);
}

OPERANDS(attention_forward)
{
    OUT(out, a->samples * a->context * a->channels);
    OUT(probs, a->samples * a->heads * a->context * a->context);
    IN(qkv, a->samples * a->context * 3 * a->channels);
}

OPERANDS(attention_backward)
{
    OUT(dqkv, a->samples * a->context * 3 * a->channels);
    SCRATCH(scratch, a->context * a->context);
    IN(dout, a->samples * a->context * a->channels);
    IN(qkv, a->samples * a->context * 3 * a->channels);
    IN(out, a->samples * a->context * a->channels);
    IN(probs, a->samples * a->heads * a->context * a->context);
}

/* ---- Activations, loss ---- */

OPERANDS(gelu_forward)
{
    OUT(out, a->n);
    IN(in, a->n);
}

OPERANDS(gelu_backward)
{
    OUT(din, a->n);
    ADDS(dbias, a->columns, a->accumulate);
    IN(dout, a->n);
    IN(in, a->n);
}

OPERANDS(relu_forward)
{
    OUT(out, a->n);
    IN(in, a->n);
}

OPERANDS(relu_backward)
{
    OUT(din, a->n);
    IN(dout, a->n);
    IN(out, a->n);
}

OPERANDS(cross_entropy_forward)
{
    size_t n = strided(a->rows, a->vocab, a->stride);

    ADDS(dlogits, n, has_gaps(a->vocab, a->stride));
    IN(logits, n);
}

OPERANDS(cross_entropy_backward)
{
    size_t n = strided(a->rows, a->vocab, a->stride);

    ADDS(dlogits, n, has_gaps(a->vocab, a->stride));
    IN(logits, n);
}

/* ---- Optimizers: their buffers are in a table ---- */

#define OF_TABLE(op)                                                                               \
    void lk_##op##_operands(const void *args, struct lk_operands *out)                             \
    {                                                                                              \
        (void)args;                                                                                \
        out->optimizer = true;                                                                     \
    }
OF_TABLE(sgd)
OF_TABLE(adamw)
OF_TABLE(lars)
OF_TABLE(lamb)

/* ---- Vectors ---- */

OPERANDS(sum_squares)
{
    IN(in, a->n);
}

OPERANDS(scale)
{
    ADDS(x, a->n, true);
}

OPERANDS(fill)
{
    OUT(x, a->n);
}

OPERANDS(axpy)
{
    ADDS(y, a->n, true);
    IN(x, a->n);
}

OPERANDS(clip)
{
    ADDS(x, a->n, true);
}

OPERANDS(orthogonalize)
{
    size_t last = a->rows && a->columns
                      ? (a->rows - 1) * a->row_stride + (a->columns - 1) * a->column_stride + 1
                      : 0;

    ADDS(x, last, true);
}

OPERANDS(cast_to_wire)
{
    IN(in, a->n);
}

OPERANDS(cast_from_wire)
{
    OUT(out, a->n);
}

/* ---- Ops without a buffer of lk_real ---- */

#define WITHOUT(op)                                                                                \
    void lk_##op##_operands(const void *args, struct lk_operands *out)                             \
    {                                                                                              \
        (void)args;                                                                                \
        (void)out;                                                                                 \
    }
WITHOUT(checksum)
WITHOUT(wait)
WITHOUT(hold)
WITHOUT(move)
WITHOUT(batchnorm_gather)

/* ---- Images ---- */

static size_t input_elems(const struct lk_conv_shape *s)
{
    return s->samples * s->height * s->width * s->inputs;
}

static size_t output_elems(const struct lk_conv_shape *s)
{
    return s->samples * lk_conv_out(s->height, s->kernel, s->stride, s->padding) *
           lk_conv_out(s->width, s->kernel, s->stride, s->padding) * s->outputs;
}

static size_t weight_elems(const struct lk_conv_shape *s)
{
    return s->outputs * s->inputs * s->kernel * s->kernel;
}

OPERANDS(pixels_forward)
{
    OUT(out, a->samples * a->area * a->channels);
}

OPERANDS(conv_forward)
{
    OUT(out, output_elems(&a->shape));
    IN(in, input_elems(&a->shape));
    IN(weight, weight_elems(&a->shape));
    IN(bias, a->shape.outputs);
    SCRATCH(scratch, a->scratch_elems);
}

OPERANDS(conv_backward_input)
{
    ADDS(din, input_elems(&a->shape), a->accumulate);
    IN(dout, output_elems(&a->shape));
    IN(weight, weight_elems(&a->shape));
    SCRATCH(scratch, a->scratch_elems);
}

OPERANDS(conv_backward_weight)
{
    ADDS(dweight, weight_elems(&a->shape), a->accumulate);
    ADDS(dbias, a->shape.outputs, a->accumulate);
    IN(dout, output_elems(&a->shape));
    IN(in, input_elems(&a->shape));
    SCRATCH(scratch, a->scratch_elems);
}

OPERANDS(batchnorm_statistics)
{
    IN(in, a->rows * a->channels);
}

OPERANDS(batchnorm_forward)
{
    OUT(out, a->rows * a->channels);
    IN(in, a->rows * a->channels);
    IN(weight, a->channels);
    IN(bias, a->channels);
}

OPERANDS(batchnorm_sums)
{
    ADDS(dweight, a->channels, a->accumulate);
    ADDS(dbias, a->channels, a->accumulate);
    IN(dout, a->rows * a->channels);
    IN(in, a->rows * a->channels);
}

OPERANDS(batchnorm_backward)
{
    OUT(din, a->rows * a->channels);
    IN(dout, a->rows * a->channels);
    IN(in, a->rows * a->channels);
    IN(weight, a->channels);
}

OPERANDS(maxpool_forward)
{
    OUT(out, output_elems(&a->shape));
    IN(in, input_elems(&a->shape));
}

OPERANDS(maxpool_backward)
{
    OUT(din, input_elems(&a->shape));
    IN(dout, output_elems(&a->shape));
    IN(in, input_elems(&a->shape));
}

OPERANDS(avgpool_forward)
{
    OUT(out, a->samples * a->channels * a->size * a->size);
    IN(in, a->samples * a->height * a->width * a->channels);
}

OPERANDS(avgpool_backward)
{
    OUT(din, a->samples * a->height * a->width * a->channels);
    IN(dout, a->samples * a->channels * a->size * a->size);
}

OPERANDS(add_relu_forward)
{
    OUT(out, a->n);
    IN(in, a->n);
    IN(residual, a->n);
}
