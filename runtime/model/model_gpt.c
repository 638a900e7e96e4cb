/*
 * GPT-2 (Radford et al. 2019): token and position embeddings, pre-norm blocks of causal attention
 * and a feed-forward layer of four times the width, a last norm, logits by the token embedding's
 * own weights (tied). No dropout. Names and registration order are those of Hugging Face and
 * nanoGPT; weights of linear layers are (outputs, inputs) as in torch.nn.Linear, where Hugging
 * Face's Conv1D has them transposed.
 *
 * Initial values are GPT-2's: normal with deviation 0.02, the projections back to the residual
 * stream 0.02 / sqrt(2 layers); norms 1, biases 0.
 *
 * Gradients become ready in PyTorch's order, so that rebuilt buckets are the same: the reverse of
 * registration, but a norm's weight before its bias (observed with PyTorch 1.13). wte is last: it
 * is tied, and its gradient is final after the embedding's part.
 */
#include "base/array.h"
#include "base/words.h"
#include "kernels/ops.h"
#include "runtime/model/fuse.h"
#include "runtime/model/model_impl.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* X(field, name, rows, columns, start, projects to the residual stream): a block's parameters, in
 * order. Sizes are in channels; rows 0 is a vector. */
#define BLOCK_PARAM_LIST(X)                                                                        \
    X(LN_1_WEIGHT, "ln_1.weight", 0, 1, LK_START_ONE, false)                                       \
    X(LN_1_BIAS, "ln_1.bias", 0, 1, LK_START_ZERO, false)                                          \
    X(ATTN_WEIGHT, "attn.c_attn.weight", 3, 1, LK_START_NORMAL, false)                             \
    X(ATTN_BIAS, "attn.c_attn.bias", 0, 3, LK_START_ZERO, false)                                   \
    X(ATTN_PROJ_WEIGHT, "attn.c_proj.weight", 1, 1, LK_START_NORMAL, true)                         \
    X(ATTN_PROJ_BIAS, "attn.c_proj.bias", 0, 1, LK_START_ZERO, false)                              \
    X(LN_2_WEIGHT, "ln_2.weight", 0, 1, LK_START_ONE, false)                                       \
    X(LN_2_BIAS, "ln_2.bias", 0, 1, LK_START_ZERO, false)                                          \
    X(FC_WEIGHT, "mlp.c_fc.weight", 4, 1, LK_START_NORMAL, false)                                  \
    X(FC_BIAS, "mlp.c_fc.bias", 0, 4, LK_START_ZERO, false)                                        \
    X(FC_PROJ_WEIGHT, "mlp.c_proj.weight", 1, 4, LK_START_NORMAL, true)                            \
    X(FC_PROJ_BIAS, "mlp.c_proj.bias", 0, 1, LK_START_ZERO, false)

enum block_param { BLOCK_PARAM_LIST(LK_WORD_VALUE) BLOCK_PARAMS };
enum { NAME_SIZE = 48 };

enum { WTE, WPE, FIRST_BLOCK }; /* the blocks follow, then the last norm's weight and bias */

/* X(fusion, whose, name, measured): what can be fused. Blocks have the same shapes, so one choice
 * serves them all. c_fc's bias is summed where gelu's derivative is made. */
#define FUSION_LIST(X)                                                                             \
    X(FUSED_LOSS, LK_FUSE_LOSS, "loss", false)                                                     \
    X(FUSED_FC_BIAS, LK_FUSE_BIAS, "bias of c_fc", false)                                          \
    X(FUSED_ATTN_BIAS, LK_FUSE_BIAS, "bias of c_attn", true)                                       \
    X(FUSED_ATTN_PROJ_BIAS, LK_FUSE_BIAS, "bias of attn.c_proj", true)                             \
    X(FUSED_FC_PROJ_BIAS, LK_FUSE_BIAS, "bias of mlp.c_proj", true)                                \
    X(FUSED_GELU, LK_FUSE_GELU, "gelu", true)                                                      \
    X(FUSED_GELU_BACKWARD, LK_FUSE_GELU, "gelu's derivative", true)

enum { FUSION_LIST(LK_WORD_VALUE) FUSIONS };
#define ROW(fusion, whose, name, measured) {name, whose, measured, false},
static const struct lk_fused fusions[] = {FUSION_LIST(ROW)};
#undef ROW
/* Outputs kept for the backward pass; R = max_samples * context rows, C channels. */
struct norm {
    lk_real *out;         /* (R, C) */
    lk_wide *mean, *rstd; /* (R) */
};
struct block {
    struct norm ln_1, ln_2;
    lk_real *qkv;       /* (R, 3 C) */
    lk_real *probs;     /* (max_samples, heads, context, context), or NULL and */
    lk_wide *log_sum;   /* (max_samples, heads, context): lk_device_keeps_log_sum */
    lk_real *attention; /* (R, C) */
    lk_real *middle;    /* (R, C): residual stream after the attention */
    lk_real *fc, *gelu; /* (R, 4 C) */
    lk_real *out;       /* (R, C): residual stream after the block */
};

struct gpt {
    struct lk_model base;
    size_t layers, heads, channels, max_samples;
    lk_real *activations; /* allocation of all buffers below */
    lk_real *embedded;    /* (R, C) */
    struct block *blocks;
    struct norm last;
    lk_real *logits;  /* (R, stride) of vocab; the backward pass turns them into their gradient */
    size_t stride;    /* row stride of logits */
    lk_wide *log_sum; /* (R) */
    lk_real *dstream; /* (R, C): gradient of the residual stream */
    lk_real *dwide;   /* (R, 4 C): gradient of gelu, fc or qkv */
    lk_real *dnarrow; /* (R, C): gradient of a norm's output or the attention's */
    lk_real *scratch; /* (context, context); NULL where log_sum is kept */
    struct lk_fused fusions[FUSIONS];
};

static size_t last_norm_param(const struct gpt *g)
{
    return FIRST_BLOCK + g->layers * BLOCK_PARAMS;
}

static size_t block_param(size_t layer, enum block_param p)
{
    return FIRST_BLOCK + layer * BLOCK_PARAMS + (size_t)p;
}

static void lay_out_norm(struct norm *n, const char *name, struct lk_model_arena *a, size_t rows,
                         size_t channels)
{
    n->out = lk_model_take(a, name, rows, channels);
    n->mean = lk_model_take_wide(a, rows, 1);
    n->rstd = lk_model_take_wide(a, rows, 1);
}

/* Return the row stride of logits, a multiple of 64 elements, 128 bytes of bfloat16: tensor cores
 * are slow on dense rows of 50257 elements (kernels/ops.h). */
static size_t logits_stride(size_t vocab)
{
    return (vocab + 63) / 64 * 64;
}

static void lay_out(struct gpt *g, struct lk_model_arena *a)
{
    size_t context = (size_t)g->base.sample.width, c = g->channels;
    size_t rows = g->max_samples * context;

    g->base.loss = lk_model_take_wide(a, 1, 1);
    g->embedded = lk_model_take(a, "the embedding", rows, c);
    for (size_t l = 0; l < g->layers; l++) {
        struct block *b = &g->blocks[l];

        a->layer = (int)l + 1;
        lay_out_norm(&b->ln_1, "ln_1", a, rows, c);
        b->qkv = lk_model_take(a, "c_attn", rows, 3 * c);
        if (a->keeps_log_sum)
            b->log_sum = lk_model_take_wide(a, rows, g->heads);
        else
            b->probs = lk_model_take(a, "softmax", rows * g->heads, context);
        b->attention = lk_model_take(a, "attention", rows, c);
        b->middle = lk_model_take(a, "attn.c_proj", rows, c);
        lay_out_norm(&b->ln_2, "ln_2", a, rows, c);
        b->fc = lk_model_take(a, "c_fc", rows, 4 * c);
        b->gelu = lk_model_take(a, "gelu", rows, 4 * c);
        b->out = lk_model_take(a, "mlp.c_proj", rows, c);
    }
    a->layer = 0;
    lay_out_norm(&g->last, "ln_f", a, rows, c);
    g->logits = lk_model_take(a, "the logits", rows, g->stride);
    g->log_sum = lk_model_take_wide(a, rows, 1);
    g->dstream = lk_model_take(a, NULL, rows, c);
    g->dwide = lk_model_take(a, NULL, rows, 4 * c);
    g->dnarrow = lk_model_take(a, NULL, rows, c);
    if (!a->keeps_log_sum)
        g->scratch = lk_model_take(a, NULL, context, context);
}

static enum lk_status check_config(const struct lk_model_config *c)
{
    enum lk_status st = LK_OK;

    LK_TRY(lk_model_check_sizes(c));
    LK_TRY(lk_model_check_size("heads", c->heads, c->channels));
    if (c->channels % c->heads)
        st = lk_fail(LK_EUSAGE, "%d heads do not divide %d channels", c->heads, c->channels);
out:
    return st;
}

/* List the parameters of block l, with their names in names[]. */
static void list_block(const struct gpt *g, size_t l, struct lk_model_param *params,
                       char (*names)[NAME_SIZE])
{
    static const struct {
        const char *name;
        size_t rows, columns;
        enum lk_model_start start;
        bool residual;
    } table[BLOCK_PARAMS] = {
#define ROW(field, name, rows, columns, start, residual)                                           \
    [field] = {name, rows, columns, start, residual},
        BLOCK_PARAM_LIST(ROW)
#undef ROW
    };
    const double deviation = 0.02;

    for (size_t i = 0; i < BLOCK_PARAMS; i++) {
        snprintf(names[i], NAME_SIZE, "h.%zu.%s", l, table[i].name);
        params[i] = (struct lk_model_param){
            .name = names[i],
            .rows = table[i].rows ? table[i].rows * g->channels : 1,
            .columns = table[i].columns * g->channels,
            .decay = table[i].rows > 0,
            .start = table[i].start,
            .std = table[i].residual ? deviation / sqrt(2 * (double)g->layers) : deviation};
    }
}

static enum lk_status init_params(struct gpt *g, struct lk_device *d, struct lk_stream *s,
                                  const struct lk_model_config *config)
{
    size_t n = last_norm_param(g) + 2, c = g->channels;
    struct lk_model_param *params = NULL;
    char(*names)[NAME_SIZE] = NULL;
    enum lk_status st = LK_OK;

    LK_TRY(lk_alloc(&params, n, sizeof *params));
    LK_TRY(lk_alloc(&names, g->layers * BLOCK_PARAMS, sizeof *names));
    params[WTE] = (struct lk_model_param){"wte.weight", (size_t)config->vocab, c,
                                          true,         LK_START_NORMAL,       0.02};
    params[WPE] = (struct lk_model_param){"wpe.weight", (size_t)config->context, c,
                                          true,         LK_START_NORMAL,         0.02};
    for (size_t l = 0; l < g->layers; l++)
        list_block(g, l, &params[block_param(l, LN_1_WEIGHT)], &names[l * BLOCK_PARAMS]);
    params[n - 2] = (struct lk_model_param){"ln_f.weight", 1, c, false, LK_START_ONE, 0};
    params[n - 1] = (struct lk_model_param){"ln_f.bias", 1, c, false, LK_START_ZERO, 0};
    LK_TRY(lk_model_init(&g->base, &lk_model_gpt, d, s, config, params, n));
out:
    free(names);
    free(params);
    return st;
}

static void gpt_destroy(struct lk_model *m)
{
    struct gpt *g = (struct gpt *)m;

    if (m->device)
        lk_device_free(m->device, g->activations);
    lk_model_fini(m);
    free(g->blocks);
    free(g);
}

static enum lk_status gpt_create(struct lk_device *d, struct lk_stream *s,
                                 const struct lk_model_config *config, struct lk_model **out)
{
    struct lk_model_arena a = lk_model_arena_of(d);
    enum lk_status st = LK_OK;
    struct gpt *g = NULL;

    LK_TRY(check_config(config));
    LK_TRY(lk_alloc(&g, 1, sizeof *g));
    g->layers = (size_t)config->layers;
    g->heads = (size_t)config->heads;
    g->channels = (size_t)config->channels;
    g->max_samples = (size_t)config->max_samples;
    g->base.sample = lk_sample_text(config->context);
    g->base.vocab = config->vocab;
    g->stride = logits_stride((size_t)config->vocab);
    lk_model_fusions(&g->base, g->fusions, fusions, FUSIONS);
    LK_TRY(lk_alloc(&g->blocks, g->layers, sizeof *g->blocks));
    lay_out(g, &a);
    LK_TRY(lk_model_arena_check(&a));
    LK_TRY(init_params(g, d, s, config));
    LK_TRY(lk_model_arena_alloc(&g->base, &a));
    g->activations = a.base;
    lay_out(g, &a);
    /* wte counts once, as the logits' matrix; wpe is only added. */
    g->base.flops_per_sample = lk_model_transformer_flops(&g->base, WPE, g->layers, g->channels);
    snprintf(g->base.sample_unit, sizeof g->base.sample_unit, "sequence of %d tokens",
             config->context);
    snprintf(g->base.config_text, sizeof g->base.config_text,
             "layers %d, heads %d, channels %d, context %d, vocab %d", config->layers,
             config->heads, config->channels, config->context, config->vocab);
    LK_TRY(lk_device_attention(d,
                               &(struct lk_attention_shape){g->max_samples, (size_t)config->context,
                                                            g->channels, g->heads},
                               config->described, g->base.attention));
    *out = &g->base;
    g = NULL;
out:
    if (g)
        gpt_destroy(&g->base);
    return st;
}

/* ---- Forward ---- */

static enum lk_status norm_forward(struct gpt *g, struct norm *n, size_t weight, const lk_real *in,
                                   size_t rows)
{
    const struct lk_param *p = &g->base.params[weight];

    return LK_LAUNCH(g->base.stream, layernorm_forward, .out = n->out, .mean = n->mean,
                     .rstd = n->rstd, .in = in, .weight = p[0].data, .bias = p[1].data,
                     .rows = rows, .channels = g->channels);
}

/* Run the linear layer whose weight is parameter `weight` and whose bias is the next parameter. */
static enum lk_status linear_forward(struct gpt *g, lk_real *out, const lk_real *in, size_t weight,
                                     const lk_real *residual, size_t rows, size_t inputs,
                                     size_t outputs)
{
    const struct lk_param *p = &g->base.params[weight];

    return LK_LAUNCH(g->base.stream, matmul_forward, .out = out, .in = in, .weight = p[0].data,
                     .bias = p[1].data, .residual = residual, .rows = rows, .inputs = inputs,
                     .outputs = outputs);
}

/* Run the feed-forward layer's first half: fc and gelu. */
static enum lk_status fc_forward(struct gpt *g, size_t l, size_t rows)
{
    struct block *b = &g->blocks[l];
    const struct lk_param *w = &g->base.params[block_param(l, FC_WEIGHT)];
    size_t c = g->channels;
    bool fused = g->fusions[FUSED_GELU].used;

    LK_PASS(LK_LAUNCH(g->base.stream, matmul_forward, .out = b->fc, .gelu = fused ? b->gelu : NULL,
                      .in = b->ln_2.out, .weight = w[0].data, .bias = w[1].data, .rows = rows,
                      .inputs = c, .outputs = 4 * c));
    return fused ? LK_OK
                 : LK_LAUNCH(g->base.stream, gelu_forward, .out = b->gelu, .in = b->fc,
                             .n = rows * 4 * c);
}

static enum lk_status block_forward(struct gpt *g, size_t l, const lk_real *in,
                                    const struct lk_batch *batch)
{
    struct block *b = &g->blocks[l];
    size_t samples = (size_t)batch->samples, context = (size_t)batch->shape.width;
    size_t rows = samples * context, c = g->channels;

    LK_PASS(norm_forward(g, &b->ln_1, block_param(l, LN_1_WEIGHT), in, rows));
    LK_PASS(
        linear_forward(g, b->qkv, b->ln_1.out, block_param(l, ATTN_WEIGHT), NULL, rows, c, 3 * c));
    LK_PASS(LK_LAUNCH(g->base.stream, attention_forward, .out = b->attention, .probs = b->probs,
                      .log_sum = b->log_sum, .qkv = b->qkv, .samples = samples, .context = context,
                      .channels = c, .heads = g->heads));
    LK_PASS(linear_forward(g, b->middle, b->attention, block_param(l, ATTN_PROJ_WEIGHT), in, rows,
                           c, c));
    LK_PASS(norm_forward(g, &b->ln_2, block_param(l, LN_2_WEIGHT), b->middle, rows));
    LK_PASS(fc_forward(g, l, rows));
    return linear_forward(g, b->out, b->gelu, block_param(l, FC_PROJ_WEIGHT), b->middle, rows,
                          4 * c, c);
}

static struct lk_cross_entropy_forward_args loss_args(const struct gpt *g,
                                                      const struct lk_batch *batch)
{
    return (struct lk_cross_entropy_forward_args){.loss = g->base.loss,
                                                  .log_sum = g->log_sum,
                                                  .logits = g->logits,
                                                  .targets = batch->targets,
                                                  .rows = (size_t)batch->samples *
                                                          (size_t)batch->shape.width,
                                                  .vocab = (size_t)g->base.vocab,
                                                  .target_stride = 1,
                                                  .stride = g->stride};
}

static enum lk_status gpt_forward(struct lk_model *m, const struct lk_batch *batch, double seed)
{
    struct gpt *g = (struct gpt *)m;
    size_t rows, vocab = (size_t)m->vocab;
    const lk_real *x = g->embedded;
    struct lk_cross_entropy_forward_args loss = loss_args(g, batch);

    LK_PASS(lk_model_check_batch(m, batch, (int)g->max_samples));
    rows = (size_t)batch->samples * (size_t)batch->shape.width;
    LK_PASS(lk_model_need(m, WTE, 2));
    LK_PASS(LK_LAUNCH(m->stream, encoder_forward, .out = g->embedded, .tokens = batch->inputs,
                      .wte = m->params[WTE].data, .wpe = m->params[WPE].data,
                      .samples = (size_t)batch->samples, .context = (size_t)batch->shape.width,
                      .channels = g->channels, .vocab = vocab));
    for (size_t l = 0; l < g->layers; l++) {
        LK_PASS(lk_model_need(m, block_param(l, 0), BLOCK_PARAMS));
        LK_PASS(block_forward(g, l, x, batch));
        LK_PASS(lk_model_done(m, block_param(l, 0), BLOCK_PARAMS));
        x = g->blocks[l].out;
    }
    LK_PASS(lk_model_need(m, last_norm_param(g), 2));
    LK_PASS(norm_forward(g, &g->last, last_norm_param(g), x, rows));
    LK_PASS(lk_model_done(m, last_norm_param(g), 2));
    LK_PASS(LK_LAUNCH(m->stream, matmul_forward, .out = g->logits, .in = g->last.out,
                      .weight = m->params[WTE].data, .rows = rows, .inputs = g->channels,
                      .outputs = vocab, .stride = g->stride));
    LK_PASS(lk_model_done(m, WTE, 2));
    return lk_model_loss_forward(m, &loss, g->fusions[FUSED_LOSS].used, seed);
}

/* ---- Backward ---- */

/* Arguments that all steps of one backward pass share. */
struct pass {
    struct gpt *g;
    const struct lk_batch *batch;
    const struct lk_grad_hook *hook;
    size_t rows;
    bool accumulate;
};

/* Backward of a norm. Adds to dstream, because a norm's input is the residual stream; `start`
 * overwrites it. */
static enum lk_status norm_backward(const struct pass *p, const struct norm *n, size_t weight,
                                    const lk_real *dout, const lk_real *in, bool start)
{
    struct gpt *g = p->g;
    const struct lk_param *w = &g->base.params[weight];

    LK_PASS(LK_LAUNCH(g->base.stream, layernorm_backward, .din = g->dstream, .dweight = w[0].grad,
                      .dbias = w[1].grad, .dout = dout, .in = in, .weight = w[0].data,
                      .mean = n->mean, .rstd = n->rstd, .rows = p->rows, .channels = g->channels,
                      .accumulate = p->accumulate, .accumulate_input = !start));
    LK_PASS(lk_model_finish(&g->base, p->hook, weight));
    return lk_model_finish(&g->base, p->hook, weight + 1);
}

/* Backward of a linear layer's weight and bias, unless c_fc's bias is the work of gelu's. */
static enum lk_status weight_backward(const struct pass *p, const lk_real *dout, const lk_real *in,
                                      size_t weight, size_t inputs, size_t outputs)
{
    static const int biases[BLOCK_PARAMS] = {[ATTN_WEIGHT] = FUSED_ATTN_BIAS,
                                             [ATTN_PROJ_WEIGHT] = FUSED_ATTN_PROJ_BIAS,
                                             [FC_WEIGHT] = FUSED_FC_BIAS,
                                             [FC_PROJ_WEIGHT] = FUSED_FC_PROJ_BIAS};
    struct gpt *g = p->g;
    const struct lk_param *w = &g->base.params[weight];
    int bias = biases[(weight - FIRST_BLOCK) % BLOCK_PARAMS];
    bool fused = g->fusions[bias].used;

    return LK_LAUNCH(g->base.stream, matmul_backward_weight, .dweight = w[0].grad,
                     .dbias = fused && bias == FUSED_FC_BIAS ? NULL : w[1].grad, .dout = dout,
                     .in = in, .rows = p->rows, .inputs = inputs, .outputs = outputs,
                     .accumulate = p->accumulate, .epilogue = fused);
}

/* Backward of a linear layer's input. */
static enum lk_status input_backward(const struct pass *p, lk_real *din, const lk_real *dout,
                                     size_t weight, size_t inputs, size_t outputs)
{
    return LK_LAUNCH(p->g->base.stream, matmul_backward_input, .din = din, .dout = dout,
                     .weight = p->g->base.params[weight].data, .rows = p->rows, .inputs = inputs,
                     .outputs = outputs);
}

/* Backward of the input of block l's mlp.c_proj, which is gelu's output, and of gelu. */
static enum lk_status gelu_backward(const struct pass *p, size_t l)
{
    struct gpt *g = p->g;
    const struct lk_param *fc = &g->base.params[block_param(l, FC_WEIGHT)];
    lk_real *dbias = g->fusions[FUSED_FC_BIAS].used ? fc[1].grad : NULL;
    size_t weight = block_param(l, FC_PROJ_WEIGHT), c = g->channels;

    if (g->fusions[FUSED_GELU_BACKWARD].used)
        return LK_LAUNCH(g->base.stream, matmul_backward_input, .din = g->dwide, .dout = g->dstream,
                         .weight = g->base.params[weight].data, .gelu_in = g->blocks[l].fc,
                         .dbias = dbias, .rows = p->rows, .inputs = 4 * c, .outputs = c,
                         .accumulate_bias = p->accumulate);
    LK_PASS(input_backward(p, g->dwide, g->dstream, weight, 4 * c, c));
    return LK_LAUNCH(g->base.stream, gelu_backward, .din = g->dwide, .dbias = dbias,
                     .dout = g->dwide, .in = g->blocks[l].fc, .n = p->rows * 4 * c,
                     .columns = 4 * c, .accumulate = p->accumulate);
}

/* Say that the gradients of a linear layer are ready; its weight is read after that. */
static enum lk_status linear_ready(const struct pass *p, size_t weight)
{
    LK_PASS(lk_model_finish(&p->g->base, p->hook, weight + 1));
    return lk_model_ready(&p->g->base, p->hook, weight);
}

/* Backward of a linear layer: the weight's gradient first, so that its all-reduce can start while
 * the input's gradient is computed. */
static enum lk_status linear_backward(const struct pass *p, lk_real *din, const lk_real *dout,
                                      const lk_real *in, size_t weight, size_t inputs,
                                      size_t outputs)
{
    LK_PASS(weight_backward(p, dout, in, weight, inputs, outputs));
    LK_PASS(linear_ready(p, weight));
    LK_PASS(input_backward(p, din, dout, weight, inputs, outputs));
    return lk_model_release(p->hook, weight);
}

static enum lk_status block_backward(const struct pass *p, size_t l, const lk_real *in)
{
    struct gpt *g = p->g;
    const struct block *b = &g->blocks[l];
    size_t c = g->channels, fc_proj = block_param(l, FC_PROJ_WEIGHT);

    LK_PASS(weight_backward(p, g->dstream, b->gelu, fc_proj, 4 * c, c));
    LK_PASS(linear_ready(p, fc_proj));
    LK_PASS(gelu_backward(p, l));
    LK_PASS(lk_model_release(p->hook, fc_proj));
    LK_PASS(
        linear_backward(p, g->dnarrow, g->dwide, b->ln_2.out, block_param(l, FC_WEIGHT), c, 4 * c));
    LK_PASS(norm_backward(p, &b->ln_2, block_param(l, LN_2_WEIGHT), g->dnarrow, b->middle, false));
    LK_PASS(linear_backward(p, g->dnarrow, g->dstream, b->attention,
                            block_param(l, ATTN_PROJ_WEIGHT), c, c));
    LK_PASS(LK_LAUNCH(g->base.stream, attention_backward, .dqkv = g->dwide, .scratch = g->scratch,
                      .dout = g->dnarrow, .qkv = b->qkv, .out = b->attention, .probs = b->probs,
                      .log_sum = b->log_sum, .samples = (size_t)p->batch->samples,
                      .context = (size_t)p->batch->shape.width, .channels = c, .heads = g->heads));
    LK_PASS(linear_backward(p, g->dnarrow, g->dwide, b->ln_1.out, block_param(l, ATTN_WEIGHT), c,
                            3 * c));
    return norm_backward(p, &b->ln_1, block_param(l, LN_1_WEIGHT), g->dnarrow, in, false);
}

/* Backward from the logits to the residual stream. wte's gradient starts here and is not final
 * yet. */
static enum lk_status head_backward(const struct pass *p, double seed, const lk_real *stream)
{
    struct gpt *g = p->g;
    struct lk_model *m = &g->base;
    struct lk_cross_entropy_forward_args loss = loss_args(g, p->batch);
    size_t vocab = (size_t)m->vocab;

    LK_PASS(lk_model_loss_backward(m, &loss, seed));
    LK_PASS(LK_LAUNCH(m->stream, matmul_backward_weight, .dweight = m->params[WTE].grad,
                      .dout = g->logits, .in = g->last.out, .rows = p->rows, .inputs = g->channels,
                      .outputs = vocab, .stride = g->stride, .accumulate = p->accumulate));
    LK_PASS(LK_LAUNCH(m->stream, matmul_backward_input, .din = g->dnarrow, .dout = g->logits,
                      .weight = m->params[WTE].data, .rows = p->rows, .inputs = g->channels,
                      .outputs = vocab, .stride = g->stride));
    LK_PASS(lk_model_release(p->hook, WTE));
    return norm_backward(p, &g->last, last_norm_param(g), g->dnarrow, stream, true);
}

static enum lk_status embedding_backward(const struct pass *p)
{
    struct gpt *g = p->g;
    struct lk_model *m = &g->base;
    size_t samples = (size_t)p->batch->samples, context = (size_t)p->batch->shape.width;

    LK_PASS(LK_LAUNCH(m->stream, encoder_backward_position, .dwpe = m->params[WPE].grad,
                      .dout = g->dstream, .samples = samples, .context = context,
                      .channels = g->channels, .wpe_rows = (size_t)m->sample.width,
                      .accumulate = p->accumulate));
    LK_PASS(lk_model_finish(m, p->hook, WPE));
    LK_PASS(LK_LAUNCH(m->stream, encoder_backward_token, .dwte = m->params[WTE].grad,
                      .dout = g->dstream, .tokens = p->batch->inputs, .samples = samples,
                      .context = context, .channels = g->channels, .vocab = (size_t)m->vocab,
                      .accumulate = true));
    return lk_model_ready(m, p->hook, WTE);
}

static enum lk_status gpt_backward(struct lk_model *m, const struct lk_batch *batch, double seed,
                                   bool accumulate, const struct lk_grad_hook *hook)
{
    struct gpt *g = (struct gpt *)m;
    struct pass p = {.g = g,
                     .batch = batch,
                     .hook = hook,
                     .rows = (size_t)batch->samples * (size_t)batch->shape.width,
                     .accumulate = accumulate};

    LK_PASS(lk_model_check_batch(m, batch, (int)g->max_samples));
    LK_PASS(lk_model_need(m, WTE, 2));
    LK_PASS(lk_model_need(m, last_norm_param(g), 2));
    LK_PASS(head_backward(&p, seed, g->blocks[g->layers - 1].out));
    LK_PASS(lk_model_done(m, last_norm_param(g), 2));
    for (size_t l = g->layers; l-- > 0;) {
        LK_PASS(lk_model_need(m, block_param(l, 0), BLOCK_PARAMS));
        LK_PASS(block_backward(&p, l, l ? g->blocks[l - 1].out : g->embedded));
        LK_PASS(lk_model_done(m, block_param(l, 0), BLOCK_PARAMS));
    }
    LK_PASS(embedding_backward(&p));
    return lk_model_done(m, WTE, 2);
}

static enum lk_status gpt_probe(struct lk_model *m, size_t fusion)
{
    struct gpt *g = (struct gpt *)m;
    const struct block *b = g->blocks;
    size_t c = g->channels;
    struct pass p = {.g = g, .rows = g->max_samples * (size_t)m->sample.width};

    switch (fusion) {
    case FUSED_ATTN_BIAS:
        return weight_backward(&p, g->dwide, b->ln_1.out, block_param(0, ATTN_WEIGHT), c, 3 * c);
    case FUSED_ATTN_PROJ_BIAS:
        return weight_backward(&p, g->dstream, b->attention, block_param(0, ATTN_PROJ_WEIGHT), c,
                               c);
    case FUSED_FC_PROJ_BIAS:
        return weight_backward(&p, g->dstream, b->gelu, block_param(0, FC_PROJ_WEIGHT), 4 * c, c);
    case FUSED_GELU:
        return fc_forward(g, 0, p.rows);
    default:
        return gelu_backward(&p, 0);
    }
}

const struct lk_model_ops lk_model_gpt = {
    .name = "gpt",
    .help = "GPT-2: layers, heads, channels, context, vocab",
    .create = gpt_create,
    .destroy = gpt_destroy,
    .forward = gpt_forward,
    .backward = gpt_backward,
    .probe = gpt_probe,
};
