/* The table of ops and their buffers; see the header. */
#include "tests/fakes/fake_ops.h"

#include "base/array.h"
#include "kernels/ops.h"

#include <check.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum kind { REAL, WIDE, TOKENS, BYTES };

/* The tensor cores are given this part of a product's float factor: cuBLASLt lets them cut bits
 * off, our own kernels round. */
enum factor { NO_FACTOR, CUT, ROUNDED };

/* A pointer among the arguments. */
struct buffer {
    void **at;
    enum kind kind;
    size_t n;     /* elements; BYTES: bytes */
    bool written; /* else only read */
    enum factor factor;
};

/* One run of an op; `copy` holds its changed arguments. */
struct run {
    const struct fake_ops_config *config;
    _Alignas(max_align_t) unsigned char copy[LK_OP_ARGS_MAX];
    struct buffer buffers[16];
    size_t n_buffers;
    struct held {
        void *device;
        float *host;
        const struct buffer *buffer;
        bool written;
    } held[16];
    size_t n_held;
    float *scratch[2]; /* for attention, whose kernels keep less than its definition */
};

static void add(struct run *r, const void *at, enum kind kind, size_t n, bool written,
                enum factor factor)
{
    void **p = (void **)(uintptr_t)at;

    if (!*p || n == 0)
        return;
    ck_assert_uint_lt(r->n_buffers, LK_COUNT(r->buffers));
    r->buffers[r->n_buffers++] = (struct buffer){p, kind, n, written, factor};
}

#define READ(member, n)    add(r, &a->member, REAL, n, false, NO_FACTOR)
#define FACTOR(member, n)  add(r, &a->member, REAL, n, false, CUT)
#define ROUNDED(member, n) add(r, &a->member, REAL, n, false, ROUNDED)
#define WRITE(member, n)   add(r, &a->member, REAL, n, true, NO_FACTOR)
#define WIDE(member, n)    add(r, &a->member, WIDE, n, true, NO_FACTOR)
#define TOKENS(member, n)  add(r, &a->member, TOKENS, n, false, NO_FACTOR)

/* Every function: static void OP_buffers(struct run *r, struct lk_OP_args *a). */
#define BUFFERS(op) static void op##_buffers(struct run *r, struct lk_##op##_args *a)

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

static void table_buffer(struct run *r, const struct lk_optim_tensor *const *tensors, size_t n)
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
    static bool list_##op(struct run *r, const struct lk_op *is)                                   \
    {                                                                                              \
        if (is == &lk_op_##op)                                                                     \
            op##_buffers(r, (void *)r->copy);                                                      \
        return is == &lk_op_##op;                                                                  \
    }
#define ROW(op) list_##op,
LK_OP_CUDA_LIST(LIST)
static bool (*const rows[])(struct run *r, const struct lk_op *is) = {LK_OP_CUDA_LIST(ROW)};

/* ---- Elements ---- */

/* Keep 10 of the mantissa's 23 bits. */
static float tf32(float x, enum factor how)
{
    uint32_t bits;

    if (!isfinite(x))
        return x;
    memcpy(&bits, &x, sizeof bits);
    bits = (bits + (how == ROUNDED ? 0x1000U : 0)) & ~0x1fffU;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static size_t bytes_of(const struct run *r, const struct buffer *b)
{
    static const size_t sizes[] = {[WIDE] = sizeof(float), [TOKENS] = sizeof(int32_t), [BYTES] = 1};

    return b->n * (b->kind == REAL ? lk_dtype_bytes(r->config->real) : sizes[b->kind]);
}

static float *to_floats(enum lk_dtype dtype, const void *from, size_t n)
{
    float *to = malloc((n ? n : 1) * sizeof *to);

    ck_assert_ptr_nonnull(to);
    if (dtype == LK_F32)
        memcpy(to, from, n * sizeof *to);
    for (size_t i = 0; i < n && dtype == LK_BF16; i++)
        to[i] = lk_f32_from_bf16(((const uint16_t *)from)[i]);
    return to;
}

static void to_bf16(uint16_t *to, const float *from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = lk_bf16_from_f32(from[i]);
}

/* Put floats in a buffer's place, the same for two names of one buffer. */
static void hold(struct run *r, const struct buffer *b)
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

static bool needs_floats(const struct run *r, const struct buffer *b)
{
    return b->kind == REAL && (r->config->real == LK_BF16 || (r->config->tf32 && b->factor));
}

static void give_back(struct run *r)
{
    for (size_t i = 0; i < r->n_held; i++) {
        struct held *h = &r->held[i];

        if (h->written)
            to_bf16(h->device, h->host, h->buffer->n);
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
static void give_probs(struct run *r, const struct lk_op *op)
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

static void check_tensor(const struct run *r, const struct lk_optim_tensor *t)
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

/* Update one tensor at a time, on floats: masters are updated, from which the weights are
 * rounded. */
static void update(struct run *r, const struct lk_op *op)
{
    struct lk_sgd_args *sgd = (void *)r->copy;
    struct lk_adamw_args *adamw = (void *)r->copy;
    bool is_sgd = op == &lk_op_sgd;
    const struct lk_optim_tensor *tensors = is_sgd ? sgd->tensors : adamw->tensors;
    size_t n = is_sgd ? sgd->n_tensors : adamw->n_tensors;

    for (size_t i = 0; i < n; i++) {
        struct lk_optim_tensor t = tensors[i];
        float *grad = NULL;

        check_tensor(r, &t);
        if (r->config->real == LK_BF16) {
            grad = to_floats(LK_BF16, t.grad, t.n);
            t.grad = grad;
        }
        if (t.master) {
            t.param = t.master;
            t.master = NULL;
        }
        if (is_sgd) {
            sgd->tensors = &t;
            sgd->n_tensors = 1;
        } else {
            adamw->tensors = &t;
            adamw->n_tensors = 1;
        }
        op->cpu(r->copy);
        if (r->config->real == LK_BF16)
            to_bf16(tensors[i].param, tensors[i].master, t.n);
        else if (tensors[i].master)
            memcpy(tensors[i].param, tensors[i].master, t.n * sizeof(float));
        free(grad);
    }
}

/* The bias's gradient sums exact floats, while the product that it comes with rounds them. */
static void weight_gradient(struct run *r, const struct lk_matmul_backward_weight_args *exact)
{
    struct lk_matmul_backward_weight_args *a = (void *)r->copy;
    size_t stride = lk_op_stride(exact->stride, exact->outputs);
    float *dbias = a->dbias;

    if (r->config->real == LK_F32 && r->config->tf32)
        a->dbias = NULL;
    lk_op_matmul_backward_weight.cpu(a);
    for (size_t o = 0; o < exact->outputs && dbias && !a->dbias; o++) {
        double sum = exact->accumulate ? (double)dbias[o] : 0;

        for (size_t i = 0; i < exact->rows; i++)
            sum += (double)((const float *)exact->dout)[i * stride + o];
        dbias[o] = (float)sum;
    }
}

/* ---- A run ---- */

void fake_ops_run(const struct lk_op *op, const void *args, const struct fake_ops_config *config)
{
    struct run *r = calloc(1, sizeof *r);
    bool listed = false;

    ck_assert_ptr_nonnull(r);
    r->config = config;
    memcpy(r->copy, args, op->args_bytes);
    for (size_t i = 0; i < LK_COUNT(rows) && !listed; i++)
        listed = rows[i](r, op);
    ck_assert_msg(listed || config->real == LK_F32, "op %s has no row in fake_ops.c", op->name);
    for (size_t i = 0; i < r->n_buffers; i++)
        config->check(*r->buffers[i].at, bytes_of(r, &r->buffers[i]));
    for (size_t i = 0; i < r->n_buffers; i++)
        if (needs_floats(r, &r->buffers[i]))
            hold(r, &r->buffers[i]);
    give_probs(r, op);
    if (op == &lk_op_sgd || op == &lk_op_adamw)
        update(r, op);
    else if (op == &lk_op_matmul_backward_weight)
        weight_gradient(r, args);
    else
        op->cpu(r->copy);
    give_back(r);
    free(r);
}
