/* Run ops by their CPU definition; see the header. */
#include "tests/fakes/fake_ops_impl.h"

#include "base/array.h"
#include "kernels/ops_image.h"

#include <check.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* ---- Elements ---- */

/* Keep 10 of the mantissa's 23 bits. */
static float tf32(float x, enum fake_ops_factor how)
{
    uint32_t bits;

    if (!isfinite(x))
        return x;
    memcpy(&bits, &x, sizeof bits);
    bits = (bits + (how == ROUNDED ? 0x1000U : 0)) & ~0x1fffU;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static size_t bytes_of(const struct fake_ops_run *r, const struct fake_ops_buffer *b)
{
    static const size_t sizes[] = {[WIDE] = sizeof(float), [TOKENS] = sizeof(int32_t), [BYTES] = 1};

    return b->n * (b->kind == REAL ? lk_dtype_bytes(r->config->real) : sizes[b->kind]);
}

static float *to_floats(enum lk_dtype dtype, const void *from, size_t n)
{
    float *to = malloc((n ? n : 1) * sizeof *to);

    ck_assert_ptr_nonnull(to);
    lk_dtype_to_f32(dtype, to, from, n);
    return to;
}

/* Put floats in a buffer's place, the same for two names of one buffer. */
static void hold(struct fake_ops_run *r, const struct fake_ops_buffer *b)
{
    struct held *h = NULL;

    for (size_t i = 0; i < r->n_held; i++)
        if (r->held[i].device == *b->at)
            h = &r->held[i];
    if (!h) {
        h = &r->held[r->n_held++];
        *h = (struct held){*b->at, to_floats(r->config->real, *b->at, b->n), b, false};
    }
    for (size_t i = 0; i < b->n && b->factor && r->config->real == LK_F32; i++)
        h->host[i] = tf32(h->host[i], b->factor);
    h->written |= b->written;
    *b->at = h->host;
}

static bool needs_floats(const struct fake_ops_run *r, const struct fake_ops_buffer *b)
{
    return b->kind == REAL && (r->config->real != LK_F32 || (r->config->tf32 && b->factor));
}

static void give_back(struct fake_ops_run *r)
{
    for (size_t i = 0; i < r->n_held; i++) {
        struct held *h = &r->held[i];

        if (h->written)
            lk_dtype_from_f32(r->config->real, h->device, h->host, h->buffer->n);
        free(h->host);
    }
    free(r->scratch[0]);
    free(r->scratch[1]);
}

/* ---- Ops that need more ---- */

static float *zeros(size_t n)
{
    float *p = calloc(n ? n : 1, sizeof *p);

    ck_assert_ptr_nonnull(p);
    return p;
}

/* Recompute the probabilities, also where the caller has memory for them: the kernels keep the
 * softmax's sums, the definition its results. */
static void give_probs(struct fake_ops_run *r, const struct lk_op *op)
{
    if (op == &lk_op_attention_forward) {
        struct lk_attention_forward_args *a = (void *)r->copy;

        r->scratch[0] = zeros(a->samples * a->heads * a->context * a->context);
        a->probs = r->scratch[0];
    } else if (op == &lk_op_attention_backward) {
        struct lk_attention_backward_args *a = (void *)r->copy;
        struct lk_attention_forward_args f = {.qkv = a->qkv,
                                              .samples = a->samples,
                                              .context = a->context,
                                              .channels = a->channels,
                                              .heads = a->heads};

        r->scratch[0] = zeros(a->samples * a->heads * a->context * a->context);
        r->scratch[1] = zeros(a->samples * a->context * a->channels + a->context * a->context);
        f.probs = r->scratch[0];
        f.out = r->scratch[1];
        lk_op_attention_forward.cpu(&f);
        a->probs = f.probs;
        a->scratch = r->scratch[1];
    }
}

static void check_tensor(const struct fake_ops_run *r, const struct lk_optim_tensor *t)
{
    size_t real = lk_dtype_bytes(r->config->real), wide = sizeof(float);
    const struct {
        const void *p;
        size_t bytes;
    } all[] = {
        {t->param, t->n * real}, {t->grad, t->n * real}, {t->master, t->n * wide},
        {t->m, t->n * wide},     {t->v, t->n * wide},
    };

    for (size_t i = 0; i < LK_COUNT(all); i++)
        if (all[i].p)
            r->config->check(all[i].p, all[i].bytes);
    ck_assert(r->config->real == LK_F32 || t->master);
}

/* The arguments of all optimizers begin with the table. */
#define BEGINS_ALIKE(op)                                                                           \
    _Static_assert(offsetof(struct lk_##op##_args, tensors) == 0 &&                                \
                       offsetof(struct lk_##op##_args, n_tensors) ==                               \
                           offsetof(struct lk_sgd_args, n_tensors),                                \
                   #op)
BEGINS_ALIKE(sgd);
BEGINS_ALIKE(adamw);
BEGINS_ALIKE(lars);
BEGINS_ALIKE(lamb);

static bool is_optimizer(const struct lk_op *op)
{
    return op == &lk_op_sgd || op == &lk_op_adamw || op == &lk_op_lars || op == &lk_op_lamb;
}

/* Update one tensor at a time, on floats: masters are updated, from which the weights are
 * rounded. */
static void update(struct fake_ops_run *r, const struct lk_op *op)
{
    struct lk_sgd_args *a = (void *)r->copy;
    const struct lk_optim_tensor *tensors = a->tensors;
    size_t n = a->n_tensors;

    for (size_t i = 0; i < n; i++) {
        struct lk_optim_tensor t = tensors[i];
        float *grad = NULL;

        check_tensor(r, &t);
        if (r->config->real != LK_F32)
            t.grad = grad = to_floats(r->config->real, t.grad, t.n);
        if (t.master) {
            t.param = t.master;
            t.master = NULL;
        }
        a->tensors = &t;
        a->n_tensors = 1;
        op->cpu(r->copy);
        if (tensors[i].master)
            lk_dtype_from_f32(r->config->real, tensors[i].param, tensors[i].master, t.n);
        free(grad);
    }
}

/* The sums of the bias's gradient, of rows that are `stride` apart. */
struct column_sums {
    lk_real **dbias; /* among the op's arguments */
    const float *dout;
    size_t rows, columns, stride;
    bool accumulate;
};

/* The bias's gradient sums exact floats, while the product that it comes with rounds them. */
static void weight_gradient(struct fake_ops_run *r, const struct lk_op *op, struct column_sums s)
{
    float *dbias = *s.dbias;

    if (r->config->real == LK_F32 && r->config->tf32)
        *s.dbias = NULL;
    op->cpu(r->copy);
    for (size_t c = 0; c < s.columns && dbias && !*s.dbias; c++) {
        double sum = s.accumulate ? (double)dbias[c] : 0;

        for (size_t i = 0; i < s.rows; i++)
            sum += (double)s.dout[i * s.stride + c];
        dbias[c] = (float)sum;
    }
}

static void matmul_weight(struct fake_ops_run *r, const struct lk_matmul_backward_weight_args *a)
{
    const struct column_sums s = {
        .dbias = &((struct lk_matmul_backward_weight_args *)(void *)r->copy)->dbias,
        .dout = a->dout,
        .rows = a->rows,
        .columns = a->outputs,
        .stride = lk_op_stride(a->stride, a->outputs),
        .accumulate = a->accumulate};

    weight_gradient(r, &lk_op_matmul_backward_weight, s);
}

static void conv_weight(struct fake_ops_run *r, const struct lk_conv_backward_weight_args *a)
{
    const struct column_sums s = {
        .dbias = &((struct lk_conv_backward_weight_args *)(void *)r->copy)->dbias,
        .dout = a->dout,
        .rows = lk_conv_plan(&a->shape, true, SIZE_MAX).rows,
        .columns = a->shape.outputs,
        .stride = a->shape.outputs,
        .accumulate = a->accumulate};

    weight_gradient(r, &lk_op_conv_backward_weight, s);
}

/* ---- A run ---- */

void fake_ops_run(const struct lk_op *op, const void *args, const struct fake_ops_config *config)
{
    struct fake_ops_run *r = calloc(1, sizeof *r);
    bool listed;

    ck_assert_ptr_nonnull(r);
    r->config = config;
    memcpy(r->copy, args, op->args_bytes);
    listed = fake_ops_list(r, op);
    ck_assert_msg(listed || config->real == LK_F32, "op %s has no row in fake_ops_buffers.c",
                  op->name);
    for (size_t i = 0; i < r->n_buffers; i++)
        config->check(*r->buffers[i].at, bytes_of(r, &r->buffers[i]));
    for (size_t i = 0; i < r->n_buffers; i++)
        if (needs_floats(r, &r->buffers[i]))
            hold(r, &r->buffers[i]);
    give_probs(r, op);
    if (is_optimizer(op))
        update(r, op);
    else if (op == &lk_op_matmul_backward_weight)
        matmul_weight(r, args);
    else if (op == &lk_op_conv_backward_weight)
        conv_weight(r, args);
    else
        op->cpu(r->copy);
    give_back(r);
    free(r);
}
