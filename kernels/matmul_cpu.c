/* The linear layer, float32, by the matrix products of kernels/gemm.c. */
#include "kernels/impl.h"

#include <string.h>

/* Initialise the rows that the product is added to: bias, residual or their sum. */
static void start_rows(const struct lk_matmul_forward_args *a)
{
    const float *restrict bias = a->bias;
    size_t n = a->outputs, stride = lk_op_stride(a->stride, n);

    for (size_t r = 0; r < a->rows; r++) {
        float *out = (float *)a->out + r * stride;
        const float *residual = a->residual ? (const float *)a->residual + r * stride : NULL;

        if (residual && bias)
            for (size_t c = 0; c < n; c++)
                out[c] = residual[c] + bias[c];
        else if (residual != out)
            memcpy(out, residual ? residual : bias, n * sizeof *out);
    }
}

void lk_matmul_forward_cpu(const void *args)
{
    const struct lk_matmul_forward_args *a = args;
    size_t stride = lk_op_stride(a->stride, a->outputs);
    bool starts = a->bias || a->residual;

    if (starts)
        start_rows(a);
    lk_gemm(a->rows, a->outputs, a->inputs, 1, (struct lk_factor){a->in, a->inputs, false},
            (struct lk_factor){a->weight, a->inputs, true}, starts ? 1 : 0, a->out, stride);
    for (size_t r = 0; r < a->rows && a->gelu; r++)
        lk_gelu_forward_cpu(&(struct lk_gelu_forward_args){.out = (float *)a->gelu + r * stride,
                                                           .in = (const float *)a->out + r * stride,
                                                           .n = a->outputs});
}

void lk_matmul_backward_input_cpu(const void *args)
{
    const struct lk_matmul_backward_input_args *a = args;
    const struct lk_factor dout = {a->dout, lk_op_stride(a->stride, a->outputs), false};

    lk_gemm(a->rows, a->inputs, a->outputs, 1, dout,
            (struct lk_factor){a->weight, a->inputs, false}, a->accumulate ? 1 : 0, a->din,
            a->inputs);
    if (a->gelu_in)
        lk_gelu_backward_cpu(&(struct lk_gelu_backward_args){.din = a->din,
                                                             .dbias = a->dbias,
                                                             .dout = a->din,
                                                             .in = a->gelu_in,
                                                             .n = a->rows * a->inputs,
                                                             .columns = a->inputs,
                                                             .accumulate = a->accumulate_bias});
}

/* Four rows per pass, so that the sums are loaded and stored less often. */
void lk_add_columns(float *restrict sums, const float *restrict x, size_t rows, size_t n,
                    size_t stride)
{
    size_t r = 0;

    for (; r + 4 <= rows; r += 4) {
        const float *restrict x0 = x + r * stride, *restrict x1 = x0 + stride;
        const float *restrict x2 = x1 + stride, *restrict x3 = x2 + stride;

        for (size_t c = 0; c < n; c++)
            sums[c] += (x0[c] + x1[c]) + (x2[c] + x3[c]);
    }
    for (; r < rows; r++)
        for (size_t c = 0; c < n; c++)
            sums[c] += x[r * stride + c];
}

void lk_matmul_backward_weight_cpu(const void *args)
{
    const struct lk_matmul_backward_weight_args *a = args;
    const struct lk_factor dout = {a->dout, lk_op_stride(a->stride, a->outputs), true};

    lk_gemm(a->outputs, a->inputs, a->rows, 1, dout, (struct lk_factor){a->in, a->inputs, false},
            a->accumulate ? 1 : 0, a->dweight, a->inputs);
    if (!a->dbias)
        return;
    if (!a->accumulate)
        memset(a->dbias, 0, a->outputs * sizeof(float));
    lk_add_columns(a->dbias, a->dout, a->rows, a->outputs, dout.stride);
}
