/*
 * The launchers of kernels/, linked before those for the GPU in libkernels.a; see machine.h. They
 * ask cuBLASLt and cuDNN as those do, which checks everything and computes nothing; the CPU's
 * definition computes.
 */
#include "base/array.h"
#include "kernels/dnn.h"
#include "kernels/impl.h"
#include "tests/dry/machine.h"
#include "tests/fakes/fake_cublaslt_cuda.h"
#include "tests/fakes/fake_cuda.h"

_Thread_local size_t dry_kernels;

/* ---- Products, as kernels/matmul.cu makes them ---- */

static struct lk_cuda_product forward_product(const struct lk_matmul_forward_args *a)
{
    return (struct lk_cuda_product){.d = a->gelu ? a->gelu : a->out,
                                    .epilogue = a->gelu ? LK_EPILOGUE_GELU : LK_EPILOGUE_PLAIN,
                                    .aux = a->gelu ? a->out : NULL,
                                    .a = a->in,
                                    .b = a->weight,
                                    .transpose_b = true,
                                    .bias = a->bias,
                                    .e = a->residual,
                                    .rows = a->rows,
                                    .inner = a->inputs,
                                    .columns = a->outputs,
                                    .d_stride = a->stride};
}

static struct lk_cuda_product input_product(const struct lk_matmul_backward_input_args *a)
{
    return (struct lk_cuda_product){.d = a->din,
                                    .epilogue = a->gelu_in ? LK_EPILOGUE_DGELU : LK_EPILOGUE_PLAIN,
                                    .aux = (lk_real *)(uintptr_t)a->gelu_in,
                                    .sums = a->dbias,
                                    .a = a->dout,
                                    .b = a->weight,
                                    .e = a->accumulate ? a->din : NULL,
                                    .rows = a->rows,
                                    .inner = a->outputs,
                                    .columns = a->inputs,
                                    .a_stride = a->stride};
}

static struct lk_cuda_product weight_product(const struct lk_matmul_backward_weight_args *a)
{
    bool sums = a->dbias && a->epilogue && a->rows > 0;

    return (struct lk_cuda_product){.d = a->dweight,
                                    .epilogue = sums ? LK_EPILOGUE_SUMS : LK_EPILOGUE_PLAIN,
                                    .sums = sums ? a->dbias : NULL,
                                    .a = a->dout,
                                    .transpose_a = true,
                                    .b = a->in,
                                    .e = a->accumulate ? a->dweight : NULL,
                                    .rows = a->outputs,
                                    .inner = a->rows,
                                    .columns = a->inputs,
                                    .a_stride = a->stride};
}

/* Ask cuBLASLt for a product, and count the kernels: it may be split. An empty sum is a kernel of
 * our own. */
static enum lk_status ask_product(struct lk_cuda_product p, const struct lk_cuda *c)
{
    int before = fake_blas.products;

    if (p.rows == 0 || p.columns == 0)
        return LK_OK;
    if (p.inner == 0) {
        dry_kernels++;
        return LK_OK;
    }
    LK_PASS(lk_cuda_blas_product(c, &p));
    dry_kernels += (size_t)(fake_blas.products - before);
    return LK_OK;
}

/* ---- Launchers ---- */

/* Ops of two kernels whatever their shape: sums of parts, or of a sorted list. */
static const struct lk_op *const pairs[] = {&lk_op_encoder_backward_token,
                                            &lk_op_layernorm_backward, &lk_op_attention_backward,
                                            &lk_op_cross_entropy_forward, &lk_op_sum_squares};

static size_t kernels_of(const struct lk_op *op, const void *args)
{
    const struct lk_op_cost cost = op->cost(args);

    if (!(cost.flops > 0 || cost.bytes > 0 || cost.seconds > 0))
        return 0;
    for (size_t i = 0; i < LK_COUNT(pairs); i++)
        if (op == pairs[i])
            return 2;
    return 1;
}

/* Do what the launcher does besides launching kernels of ours, and count the kernels. */
static enum lk_status ask(const struct lk_op *op, const void *args, const struct lk_cuda *c)
{
    const struct lk_matmul_backward_weight_args *weight = args;
    const struct lk_matmul_backward_input_args *input = args;
    const struct lk_gelu_backward_args *gelu = args;
    bool taken;

    dry_kernels = 0;
    if (op == &lk_op_matmul_forward)
        return ask_product(forward_product(args), c);
    if (op == &lk_op_matmul_backward_input) {
        LK_PASS(ask_product(input_product(input), c));
        dry_kernels += input->dbias && input->accumulate_bias; /* sums that are added */
        return LK_OK;
    }
    if (op == &lk_op_matmul_backward_weight) {
        LK_PASS(ask_product(weight_product(weight), c));
        if (weight->dbias && weight->outputs > 0)
            dry_kernels += !weight->epilogue || weight->rows == 0 ? 2 : weight->accumulate;
        return LK_OK;
    }
    dry_kernels = kernels_of(op, args);
    dry_kernels += op == &lk_op_gelu_backward && gelu->dbias && gelu->n > 0; /* the strips' sums */
    if (op == &lk_op_attention_forward)
        return lk_cuda_dnn_forward(c, args, &taken);
    if (op == &lk_op_attention_backward)
        return lk_cuda_dnn_backward(c, args, &taken);
    return LK_OK;
}

static enum lk_status launch(const struct lk_op *op, const void *args, const struct lk_cuda *c)
{
    LK_PASS(ask(op, args, c));
    return fake_cuda_calls.run_op(op, args, c);
}

#define LAUNCHER(op)                                                                               \
    enum lk_status lk_##op##_cuda(const void *args, const struct lk_cuda *c)                       \
    {                                                                                              \
        return launch(&lk_op_##op, args, c);                                                       \
    }
LK_OP_LIST(LAUNCHER)
