/*
 * A multi-layer perceptron: its input is the last `context` bytes as numbers in [-1, 1], then come
 * hidden layers with relu, and logits of the next byte. A sample has one target, that of the last
 * position.
 *
 * Weights are (outputs, inputs), named layers.0.weight, layers.0.bias, ... Initial values: normal
 * with deviation sqrt(2 / inputs) (He et al. 2015), biases 0.
 */
#include "base/array.h"
#include "kernels/ops.h"
#include "runtime/model/fuse.h"
#include "runtime/model/model_impl.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { NAME_SIZE = 48 };

/* What can be fused: the loss, and the biases of the first, the middle and the last layers. */
enum { FUSED_LOSS, FUSED_FIRST, FUSED_LAST, FUSED_MIDDLE, FUSIONS };
static const struct lk_fused fusions[FUSIONS] = {
    [FUSED_LOSS] = {"loss", LK_FUSE_LOSS, false, false},
    [FUSED_FIRST] = {"bias of the first layer", LK_FUSE_BIAS, true, false},
    [FUSED_LAST] = {"bias of the last layer", LK_FUSE_BIAS, true, false},
    [FUSED_MIDDLE] = {"biases of the other layers", LK_FUSE_BIAS, true, false},
};

struct mlp {
    struct lk_model base;
    size_t layers; /* hidden layers; there is one more linear layer */
    size_t channels, max_samples;
    lk_real *activations; /* allocation of all buffers below */
    lk_real *bytes;       /* (max_samples, context) */
    lk_real **hidden;     /* [layers], (max_samples, channels): after relu */
    lk_real *logits;      /* (max_samples, vocab); backward turns them into their gradient */
    lk_wide *log_sum;     /* (max_samples) */
    lk_real *dhidden[2];  /* (max_samples, channels): gradients of a layer's output and input */
    struct lk_fused fusions[FUSIONS];
};

/* Return the sizes of linear layer i of layers + 1. */
static size_t inputs_of(const struct mlp *p, size_t i)
{
    return i == 0 ? (size_t)p->base.sample.width : p->channels;
}

static size_t outputs_of(const struct mlp *p, size_t i)
{
    return i == p->layers ? (size_t)p->base.vocab : p->channels;
}

static const lk_real *input_of(const struct mlp *p, size_t i)
{
    return i == 0 ? p->bytes : p->hidden[i - 1];
}

static void lay_out(struct mlp *p, struct lk_model_arena *a)
{
    p->base.loss = lk_model_take_wide(a, 1, 1);
    p->bytes = lk_model_take(a, "the input", p->max_samples, (size_t)p->base.sample.width);
    for (size_t i = 0; i < p->layers; i++) {
        a->layer = (int)i + 1;
        p->hidden[i] = lk_model_take(a, "relu", p->max_samples, p->channels);
    }
    a->layer = 0;
    p->logits = lk_model_take(a, "the logits", p->max_samples, (size_t)p->base.vocab);
    p->log_sum = lk_model_take_wide(a, p->max_samples, 1);
    for (size_t i = 0; i < 2; i++)
        p->dhidden[i] = lk_model_take(a, NULL, p->max_samples, p->channels);
}

static enum lk_status init_params(struct mlp *p, struct lk_device *d, struct lk_stream *s,
                                  const struct lk_model_config *config)
{
    size_t n = 2 * (p->layers + 1);
    struct lk_model_param *params = NULL;
    char(*names)[NAME_SIZE] = NULL;
    enum lk_status st = LK_OK;

    LK_TRY(lk_alloc(&params, n, sizeof *params));
    LK_TRY(lk_alloc(&names, n, sizeof *names));
    for (size_t i = 0; i < n; i++) {
        bool weight = i % 2 == 0;

        snprintf(names[i], NAME_SIZE, "layers.%zu.%s", i / 2, weight ? "weight" : "bias");
        params[i] =
            (struct lk_model_param){.name = names[i],
                                    .rows = weight ? outputs_of(p, i / 2) : 1,
                                    .columns = weight ? inputs_of(p, i / 2) : outputs_of(p, i / 2),
                                    .decay = weight,
                                    .start = weight ? LK_START_NORMAL : LK_START_ZERO,
                                    .std = sqrt(2 / (double)inputs_of(p, i / 2))};
    }
    LK_TRY(lk_model_init(&p->base, &lk_model_mlp, d, s, config, params, n));
out:
    free(names);
    free(params);
    return st;
}

static enum lk_status check_config(const struct lk_model_config *c)
{
    LK_PASS(lk_model_check_sizes(c));
    return c->heads == 1 ? LK_OK : lk_fail(LK_EUSAGE, "has no heads");
}

static void mlp_destroy(struct lk_model *m)
{
    struct mlp *p = (struct mlp *)m;

    if (m->device)
        lk_device_free(m->device, p->activations);
    lk_model_fini(m);
    free(p->hidden);
    free(p);
}

static enum lk_status mlp_create(struct lk_device *d, struct lk_stream *s,
                                 const struct lk_model_config *config, struct lk_model **out)
{
    struct lk_model_arena a = lk_model_arena_of(d);
    enum lk_status st = LK_OK;
    struct mlp *p = NULL;

    LK_TRY(check_config(config));
    LK_TRY(lk_alloc(&p, 1, sizeof *p));
    p->layers = (size_t)config->layers;
    p->channels = (size_t)config->channels;
    p->max_samples = (size_t)config->max_samples;
    p->base.sample = lk_sample_text(config->context);
    p->base.vocab = config->vocab;
    p->base.kinks = p->layers * p->channels;
    lk_model_fusions(&p->base, p->fusions, fusions, p->layers > 1 ? FUSIONS : FUSED_MIDDLE);
    LK_TRY(lk_alloc(&p->hidden, p->layers, sizeof *p->hidden));
    lay_out(p, &a);
    LK_TRY(lk_model_arena_check(&a));
    LK_TRY(init_params(p, d, s, config));
    LK_TRY(lk_model_arena_alloc(&p->base, &a));
    p->activations = a.base;
    lay_out(p, &a);
    /* 2 operations per weight forward, 4 backward; the first layer's input needs no gradient. */
    for (size_t i = 0; i <= p->layers; i++)
        p->base.flops_per_sample +=
            (i == 0 ? 4.0 : 6.0) * (double)inputs_of(p, i) * (double)outputs_of(p, i);
    snprintf(p->base.sample_unit, sizeof p->base.sample_unit, "window of %d bytes",
             config->context);
    snprintf(p->base.config_text, sizeof p->base.config_text,
             "layers %d, channels %d, context %d, vocab %d", config->layers, config->channels,
             config->context, config->vocab);
    *out = &p->base;
    p = NULL;
out:
    if (p)
        mlp_destroy(&p->base);
    return st;
}

/* Check the batch: a context shorter than the model's does not fit the first layer. */
static enum lk_status check_batch(const struct mlp *p, const struct lk_batch *batch)
{
    if (batch->shape.width != p->base.sample.width)
        return lk_fail(LK_EUSAGE, "windows of %d bytes in a model made for %d", batch->shape.width,
                       p->base.sample.width);
    return lk_model_check_batch(&p->base, batch, (int)p->max_samples);
}

static struct lk_cross_entropy_forward_args loss_args(const struct mlp *p,
                                                      const struct lk_batch *batch)
{
    size_t context = (size_t)p->base.sample.width;

    return (struct lk_cross_entropy_forward_args){.loss = p->base.loss,
                                                  .log_sum = p->log_sum,
                                                  .logits = p->logits,
                                                  .targets = batch->targets + context - 1,
                                                  .rows = (size_t)batch->samples,
                                                  .vocab = (size_t)p->base.vocab,
                                                  .target_stride = context};
}

static enum lk_status mlp_forward(struct lk_model *m, const struct lk_batch *batch, double seed)
{
    struct mlp *p = (struct mlp *)m;
    struct lk_cross_entropy_forward_args loss = loss_args(p, batch);
    size_t rows, context = (size_t)m->sample.width;

    LK_PASS(check_batch(p, batch));
    rows = (size_t)batch->samples;
    LK_PASS(LK_LAUNCH(m->stream, bytes_forward, .out = p->bytes, .tokens = batch->inputs,
                      .n = rows * context, .factor = 2.0 / 255, .shift = -1));
    for (size_t i = 0; i <= p->layers; i++) {
        bool last = i == p->layers;
        lk_real *to = last ? p->logits : p->hidden[i];

        LK_PASS(lk_model_need(m, 2 * i, 2));
        LK_PASS(LK_LAUNCH(m->stream, matmul_forward, .out = to, .in = input_of(p, i),
                          .weight = m->params[2 * i].data, .bias = m->params[2 * i + 1].data,
                          .rows = rows, .inputs = inputs_of(p, i), .outputs = outputs_of(p, i)));
        LK_PASS(lk_model_done(m, 2 * i, 2));
        if (!last)
            LK_PASS(
                LK_LAUNCH(m->stream, relu_forward, .out = to, .in = to, .n = rows * p->channels));
    }
    return lk_model_loss_forward(m, &loss, p->fusions[FUSED_LOSS].used, seed);
}

/* Backward of layer i's weight and bias. */
static enum lk_status weight_backward(struct mlp *p, size_t i, const lk_real *dout, size_t rows,
                                      bool accumulate)
{
    const struct lk_param *w = &p->base.params[2 * i];
    size_t fusion = i == 0 ? FUSED_FIRST : i == p->layers ? FUSED_LAST : FUSED_MIDDLE;

    return LK_LAUNCH(p->base.stream, matmul_backward_weight, .dweight = w[0].grad,
                     .dbias = w[1].grad, .dout = dout, .in = input_of(p, i), .rows = rows,
                     .inputs = inputs_of(p, i), .outputs = outputs_of(p, i),
                     .accumulate = accumulate, .epilogue = p->fusions[fusion].used);
}

/* Backward of linear layer i: dout is the gradient of its output; *din gets that of its input,
 * unless i is 0. */
static enum lk_status layer_backward(struct mlp *p, size_t i, const lk_real *dout, lk_real *din,
                                     size_t rows, bool accumulate, const struct lk_grad_hook *hook)
{
    struct lk_model *m = &p->base;
    const struct lk_param *w = &m->params[2 * i];

    LK_PASS(weight_backward(p, i, dout, rows, accumulate));
    LK_PASS(lk_model_finish(m, hook, 2 * i + 1));
    if (i == 0)
        return lk_model_finish(m, hook, 0);
    LK_PASS(lk_model_ready(m, hook, 2 * i));
    LK_PASS(LK_LAUNCH(m->stream, matmul_backward_input, .din = din, .dout = dout,
                      .weight = w[0].data, .rows = rows, .inputs = inputs_of(p, i),
                      .outputs = outputs_of(p, i)));
    LK_PASS(lk_model_release(hook, 2 * i));
    return LK_LAUNCH(m->stream, relu_backward, .din = din, .dout = din, .out = p->hidden[i - 1],
                     .n = rows * p->channels);
}

static enum lk_status mlp_backward(struct lk_model *m, const struct lk_batch *batch, double seed,
                                   bool accumulate, const struct lk_grad_hook *hook)
{
    struct mlp *p = (struct mlp *)m;
    struct lk_cross_entropy_forward_args loss = loss_args(p, batch);
    size_t rows;
    const lk_real *dout = p->logits;

    LK_PASS(check_batch(p, batch));
    rows = (size_t)batch->samples;
    LK_PASS(lk_model_loss_backward(m, &loss, seed));
    for (size_t i = p->layers + 1; i-- > 0;) {
        lk_real *din = p->dhidden[i % 2];

        LK_PASS(lk_model_need(m, 2 * i, 2));
        LK_PASS(layer_backward(p, i, dout, din, rows, accumulate, hook));
        LK_PASS(lk_model_done(m, 2 * i, 2));
        dout = din;
    }
    return LK_OK;
}

static enum lk_status mlp_probe(struct lk_model *m, size_t fusion)
{
    struct mlp *p = (struct mlp *)m;
    size_t layer = fusion == FUSED_FIRST ? 0 : fusion == FUSED_LAST ? p->layers : 1;

    return weight_backward(p, layer, layer == p->layers ? p->logits : p->dhidden[0], p->max_samples,
                           false);
}

const struct lk_model_ops lk_model_mlp = {
    .name = "mlp",
    .help = "perceptron on a window of bytes: layers (hidden), channels (width), context, vocab",
    .create = mlp_create,
    .destroy = mlp_destroy,
    .forward = mlp_forward,
    .backward = mlp_backward,
    .probe = mlp_probe,
};
