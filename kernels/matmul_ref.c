/* The linear layer, float64, by its definition. */
#include "kernels/impl.h"

void lk_matmul_forward_ref(const void *args)
{
    const struct lk_matmul_forward_args *a = args;
    const double *in = a->in, *weight = a->weight, *bias = a->bias, *residual = a->residual;
    double *out = a->out;
    size_t stride = lk_op_stride(a->stride, a->outputs);

    for (size_t r = 0; r < a->rows; r++)
        for (size_t o = 0; o < a->outputs; o++) {
            double sum = bias ? bias[o] : 0;

            for (size_t i = 0; i < a->inputs; i++)
                sum += in[r * a->inputs + i] * weight[o * a->inputs + i];
            out[r * stride + o] = sum + (residual ? residual[r * stride + o] : 0);
        }
}

void lk_matmul_backward_input_ref(const void *args)
{
    const struct lk_matmul_backward_input_args *a = args;
    const double *dout = a->dout, *weight = a->weight;
    double *din = a->din;
    size_t stride = lk_op_stride(a->stride, a->outputs);

    for (size_t r = 0; r < a->rows; r++)
        for (size_t i = 0; i < a->inputs; i++) {
            double sum = a->accumulate ? din[r * a->inputs + i] : 0;

            for (size_t o = 0; o < a->outputs; o++)
                sum += dout[r * stride + o] * weight[o * a->inputs + i];
            din[r * a->inputs + i] = sum;
        }
}

void lk_matmul_backward_weight_ref(const void *args)
{
    const struct lk_matmul_backward_weight_args *a = args;
    const double *dout = a->dout, *in = a->in;
    double *dweight = a->dweight, *dbias = a->dbias;
    size_t stride = lk_op_stride(a->stride, a->outputs);

    for (size_t o = 0; o < a->outputs; o++) {
        for (size_t i = 0; i < a->inputs; i++) {
            double sum = a->accumulate ? dweight[o * a->inputs + i] : 0;

            for (size_t r = 0; r < a->rows; r++)
                sum += dout[r * stride + o] * in[r * a->inputs + i];
            dweight[o * a->inputs + i] = sum;
        }
        if (dbias) {
            double sum = a->accumulate ? dbias[o] : 0;

            for (size_t r = 0; r < a->rows; r++)
                sum += dout[r * stride + o];
            dbias[o] = sum;
        }
    }
}
