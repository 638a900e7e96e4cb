/* The buffers of each op, of which tests/fakes/fake_ops.c checks and converts the elements. */
#include "kernels/ops_image.h"
#include "tests/fakes/fake_ops_impl.h"

#include "base/array.h"

#include <check.h>

static void add(struct fake_ops_run *r, const void *at, enum fake_ops_kind kind, size_t n,
                bool written, enum fake_ops_factor factor)
{
    void **p = (void **)(uintptr_t)at;

    if (!*p || n == 0)
        return;
    ck_assert_uint_lt(r->n_buffers, LK_COUNT(r->buffers));
    r->buffers[r->n_buffers++] = (struct fake_ops_buffer){p, kind, n, written, factor};
}

#define READ(member, n)    add(r, &a->member, REAL, n, false, NO_FACTOR)
#define FACTOR(member, n)  add(r, &a->member, REAL, n, false, CUT)
#define ROUNDED(member, n) add(r, &a->member, REAL, n, false, ROUNDED)
#define WRITE(member, n)   add(r, &a->member, REAL, n, true, NO_FACTOR)
#define WIDE(member, n)    add(r, &a->member, WIDE, n, true, NO_FACTOR)
#define TOKENS(member, n)  add(r, &a->member, TOKENS, n, false, NO_FACTOR)

/* Every function: static void OP_buffers(struct fake_ops_run *r, struct lk_OP_args *a). */
#define BUFFERS(op) static void op##_buffers(struct fake_ops_run *r, struct lk_##op##_args *a)

BUFFERS(encoder_forward)
{
    WRITE(out, a->samples * a->context * a->channels);
    TOKENS(tokens, a->samples * a->context);
    READ(wte, a->vocab * a->channels);
    READ(wpe, a->context * a->channels);
}

BUFFERS(encoder_backward_position)
{
    WRITE(dwpe, a->wpe_rows * a->channels);
    READ(dout, a->samples * a->context * a->channels);
}

BUFFERS(encoder_backward_token)
{
    WRITE(dwte, a->vocab * a->channels);
    READ(dout, a->samples * a->context * a->channels);
    TOKENS(tokens, a->samples * a->context);
}

BUFFERS(bytes_forward)
{
    WRITE(out, a->n);
    TOKENS(tokens, a->n);
}

BUFFERS(layernorm_forward)
{
    WRITE(out, a->rows * a->channels);
    WIDE(mean, a->rows);
    WIDE(rstd, a->rows);
    READ(in, a->rows * a->channels);
    READ(weight, a->channels);
    READ(bias, a->channels);
}

BUFFERS(layernorm_backward)
{
    WRITE(din, a->rows * a->channels);
    WRITE(dweight, a->channels);
    WRITE(dbias, a->channels);
    READ(dout, a->rows * a->channels);
    READ(in, a->rows * a->channels);
    READ(weight, a->channels);
    WIDE(mean, a->rows);
    WIDE(rstd, a->rows);
}

BUFFERS(matmul_forward)
{
    WRITE(out, a->rows * lk_op_stride(a->stride, a->outputs));
    WRITE(gelu, a->rows * lk_op_stride(a->stride, a->outputs));
    FACTOR(in, a->rows * a->inputs);
    FACTOR(weight, a->outputs * a->inputs);
    READ(bias, a->outputs);
    READ(residual, a->rows * lk_op_stride(a->stride, a->outputs));
}

BUFFERS(matmul_backward_input)
{
    WRITE(din, a->rows * a->inputs);
    WRITE(dbias, a->inputs);
    READ(gelu_in, a->rows * a->inputs);
    FACTOR(dout, a->rows * lk_op_stride(a->stride, a->outputs));
    FACTOR(weight, a->outputs * a->inputs);
}

BUFFERS(matmul_backward_weight)
{
    WRITE(dweight, a->outputs * a->inputs);
    WRITE(dbias, a->outputs);
    FACTOR(dout, a->rows * lk_op_stride(a->stride, a->outputs));
    FACTOR(in, a->rows * a->inputs);
}

BUFFERS(attention_forward)
{
    size_t n = a->samples * a->context * a->channels;

    WRITE(out, n);
    WIDE(log_sum, a->samples * a->heads * a->context);
    ROUNDED(qkv, 3 * n);
}

BUFFERS(attention_backward)
{
    size_t n = a->samples * a->context * a->channels;

    WRITE(dqkv, 3 * n);
    ROUNDED(dout, n);
    ROUNDED(qkv, 3 * n);
    READ(out, n);
    WIDE(log_sum, a->samples * a->heads * a->context);
}

BUFFERS(gelu_forward)
{
    WRITE(out, a->n);
    READ(in, a->n);
}

BUFFERS(gelu_backward)
{
    WRITE(din, a->n);
    WRITE(dbias, a->columns);
    READ(dout, a->n);
    READ(in, a->n);
}

BUFFERS(relu_forward)
{
    WRITE(out, a->n);
    READ(in, a->n);
}

BUFFERS(relu_backward)
{
    WRITE(din, a->n);
    READ(dout, a->n);
    READ(out, a->n);
}

BUFFERS(cross_entropy_forward)
{
    WIDE(loss, 1);
    WIDE(log_sum, a->rows);
    WRITE(dlogits, a->rows * lk_op_stride(a->stride, a->vocab));
    READ(logits, a->rows * lk_op_stride(a->stride, a->vocab));
    TOKENS(targets, a->rows ? (a->rows - 1) * a->target_stride + 1 : 0);
}

BUFFERS(cross_entropy_backward)
{
    WRITE(dlogits, a->rows * lk_op_stride(a->stride, a->vocab));
    READ(logits, a->rows * lk_op_stride(a->stride, a->vocab));
    WIDE(log_sum, a->rows);
    TOKENS(targets, a->rows ? (a->rows - 1) * a->target_stride + 1 : 0);
}

static void table_buffer(struct fake_ops_run *r, const struct lk_optim_tensor *const *tensors,
                         size_t n)
{
    add(r, tensors, BYTES, n * sizeof **tensors, false, NO_FACTOR);
}

BUFFERS(sgd)
{
    table_buffer(r, &a->tensors, a->n_tensors);
    add(r, &a->rate, BYTES, sizeof *a->rate, false, false);
}

BUFFERS(adamw)
{
    table_buffer(r, &a->tensors, a->n_tensors);
    add(r, &a->rate, BYTES, sizeof *a->rate, false, false);
}

BUFFERS(lars)
{
    table_buffer(r, &a->tensors, a->n_tensors);
    add(r, &a->rate, BYTES, sizeof *a->rate, false, NO_FACTOR);
}

BUFFERS(lamb)
{
    table_buffer(r, &a->tensors, a->n_tensors);
    add(r, &a->rate, BYTES, sizeof *a->rate, false, NO_FACTOR);
}

BUFFERS(orthogonalize)
{
    WRITE(x,
          a->columns ? (a->rows - 1) * a->row_stride + (a->columns - 1) * a->column_stride + 1 : 0);
}

/* ---- Of image models ---- */

static size_t pixels_of(const struct lk_conv_shape *s)
{
    return s->samples * s->height * s->width;
}

static size_t out_pixels_of(const struct lk_conv_shape *s)
{
    return lk_conv_plan(s, true, SIZE_MAX).rows;
}

static size_t window_of(const struct lk_conv_shape *s)
{
    return s->kernel * s->kernel * s->inputs;
}

BUFFERS(pixels_forward)
{
    WRITE(out, a->samples * a->area * a->channels);
    add(r, &a->pixels, BYTES, a->samples * a->area * a->channels, false, NO_FACTOR);
}

BUFFERS(conv_forward)
{
    WRITE(out, out_pixels_of(&a->shape) * a->shape.outputs);
    FACTOR(in, pixels_of(&a->shape) * a->shape.inputs);
    FACTOR(weight, a->shape.outputs * window_of(&a->shape));
    READ(bias, a->shape.outputs);
    WRITE(scratch, a->scratch_elems);
}

BUFFERS(conv_backward_input)
{
    WRITE(din, pixels_of(&a->shape) * a->shape.inputs);
    FACTOR(dout, out_pixels_of(&a->shape) * a->shape.outputs);
    FACTOR(weight, a->shape.outputs * window_of(&a->shape));
    WRITE(scratch, a->scratch_elems);
}

BUFFERS(conv_backward_weight)
{
    WRITE(dweight, a->shape.outputs * window_of(&a->shape));
    WRITE(dbias, a->shape.outputs);
    FACTOR(dout, out_pixels_of(&a->shape) * a->shape.outputs);
    FACTOR(in, pixels_of(&a->shape) * a->shape.inputs);
    WRITE(scratch, a->scratch_elems);
}

BUFFERS(batchnorm_statistics)
{
    WIDE(statistics, 2 * a->channels + 1);
    READ(in, a->rows * a->channels);
}

BUFFERS(batchnorm_gather)
{
    WIDE(joint, 2 * a->channels + 1);
    WIDE(running_mean, a->channels);
    WIDE(running_var, a->channels);
    WIDE(all, a->batches * (2 * a->channels + 1));
}

BUFFERS(batchnorm_forward)
{
    WRITE(out, a->rows * a->channels);
    READ(in, a->rows * a->channels);
    WIDE(joint, 2 * a->channels + 1);
    READ(weight, a->channels);
    READ(bias, a->channels);
}

BUFFERS(batchnorm_sums)
{
    WIDE(sums, 2 * a->channels);
    WRITE(dweight, a->channels);
    WRITE(dbias, a->channels);
    READ(dout, a->rows * a->channels);
    READ(in, a->rows * a->channels);
    WIDE(joint, 2 * a->channels + 1);
}

BUFFERS(batchnorm_backward)
{
    WRITE(din, a->rows * a->channels);
    READ(dout, a->rows * a->channels);
    READ(in, a->rows * a->channels);
    WIDE(joint, 2 * a->channels + 1);
    WIDE(sums, 2 * a->channels);
    READ(weight, a->channels);
}

BUFFERS(maxpool_forward)
{
    WRITE(out, out_pixels_of(&a->shape) * a->shape.inputs);
    READ(in, pixels_of(&a->shape) * a->shape.inputs);
}

BUFFERS(maxpool_backward)
{
    WRITE(din, pixels_of(&a->shape) * a->shape.inputs);
    READ(dout, out_pixels_of(&a->shape) * a->shape.inputs);
    READ(in, pixels_of(&a->shape) * a->shape.inputs);
}

BUFFERS(avgpool_forward)
{
    WRITE(out, a->samples * a->channels * a->size * a->size);
    READ(in, a->samples * a->height * a->width * a->channels);
}

BUFFERS(avgpool_backward)
{
    WRITE(din, a->samples * a->height * a->width * a->channels);
    READ(dout, a->samples * a->channels * a->size * a->size);
}

BUFFERS(add_relu_forward)
{
    WRITE(out, a->n);
    READ(in, a->n);
    READ(residual, a->n);
}

BUFFERS(sum_squares)
{
    WIDE(out, 1);
    READ(in, a->n);
}

BUFFERS(checksum)
{
    add(r, &a->sum, BYTES, sizeof *a->sum, true, NO_FACTOR);
    add(r, &a->words, BYTES, a->n * sizeof *a->words, false, NO_FACTOR);
}

BUFFERS(scale)
{
    WRITE(x, a->n);
}

BUFFERS(fill)
{
    WRITE(x, a->n);
}

BUFFERS(axpy)
{
    WRITE(y, a->n);
    READ(x, a->n);
}

BUFFERS(clip)
{
    WRITE(x, a->n);
    add(r, &a->sum_squares, WIDE, 1, false, NO_FACTOR);
}

BUFFERS(cast_to_wire)
{
    add(r, &a->out, BYTES, a->n * sizeof(uint16_t), true, NO_FACTOR);
    READ(in, a->n);
}

BUFFERS(cast_from_wire)
{
    WRITE(out, a->n);
    add(r, &a->in, BYTES, a->n * sizeof(uint16_t), false, NO_FACTOR);
}

BUFFERS(wait)
{
    (void)r;
    (void)a;
}

BUFFERS(hold)
{
    (void)r;
    (void)a;
}

BUFFERS(move)
{
    add(r, &a->to, BYTES, a->bytes, true, NO_FACTOR);
    add(r, &a->from, BYTES, a->bytes, false, NO_FACTOR);
}

/* List the buffers of this op; false if `is` is another op. */
#define LIST(op)                                                                                   \
    static bool list_##op(struct fake_ops_run *r, const struct lk_op *is)                          \
    {                                                                                              \
        if (is == &lk_op_##op)                                                                     \
            op##_buffers(r, (void *)r->copy);                                                      \
        return is == &lk_op_##op;                                                                  \
    }
#define ROW(op) list_##op,
LK_OP_LIST(LIST)
static bool (*const rows[])(struct fake_ops_run *r, const struct lk_op *is) = {LK_OP_LIST(ROW)};

bool fake_ops_list(struct fake_ops_run *r, const struct lk_op *op)
{
    bool listed = false;

    for (size_t i = 0; i < LK_COUNT(rows) && !listed; i++)
        listed = rows[i](r, op);
    return listed;
}
