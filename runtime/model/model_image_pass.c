/*
 * Networks of images: forward and backward.
 *
 * A node's gradient lies in one of a few buffers. The sum of a residual connection hands its own to
 * both of its inputs, so a buffer can be the gradient of several nodes: nothing but the last node
 * that computes from the shared input adds to it, when the others have been read.
 */
#include "runtime/comm/comm.h"
#include "runtime/model/model_image.h"

#include <string.h>

/* Colours lie in about [-2, 2], as with the means and deviations that torchvision subtracts and
 * divides by. */
static const double pixel_factor = 4.0 / 255, pixel_shift = -2;

static const lk_real *input_of(const struct lk_image *g, const struct lk_image_node *n)
{
    return n->in < 0 ? g->image : g->nodes[n->in].out;
}

static struct lk_conv_shape shape_of(const struct lk_image_node *n, size_t samples)
{
    struct lk_conv_shape s = n->shape;

    s.samples = samples;
    return s;
}

static struct lk_cross_entropy_forward_args loss_args(const struct lk_image *g,
                                                      const struct lk_batch *batch)
{
    return (struct lk_cross_entropy_forward_args){.loss = g->base.loss,
                                                  .log_sum = g->log_sum,
                                                  .logits = g->nodes[g->n_nodes - 1].out,
                                                  .targets = batch->targets,
                                                  .rows = (size_t)batch->samples,
                                                  .vocab = (size_t)g->base.vocab,
                                                  .target_stride = 1};
}

/*
 * Run SyncBatchNorm's collective of a layer between two ops. Forward gathers mean, inverse
 * deviation and count of every channel, backward sums two gradients
 * (torch/nn/modules/_functions.py).
 */
static enum lk_status exchange(struct lk_image *g, const struct lk_image_node *n, bool backward)
{
    size_t channels = n->shape.outputs;
    bool wide = lk_device_wide_bytes(g->base.device) == sizeof(double);
    const struct lk_coll_call call = {.coll = backward ? LK_ALL_REDUCE : LK_ALL_GATHER,
                                      .dtype = wide ? LK_F64 : LK_F32,
                                      .buf = backward ? g->sums : g->gathered,
                                      .count = 2 * channels + !backward,
                                      .index = -1,
                                      .ready = g->there[2 * n->layer + backward]};

    return lk_comm_between(g->comm, g->base.stream, g->net, g->back, &call);
}

/* ---- Forward ---- */

static enum lk_status norm_forward(struct lk_image *g, struct lk_image_node *n, size_t samples)
{
    struct lk_model *m = &g->base;
    const struct lk_param *w = &m->params[n->param + 1];
    const struct lk_model_buffer *running = &m->buffers[n->buffer];
    size_t rows = samples * n->out_pixels, channels = n->shape.outputs;
    size_t part = (2 * channels + 1) * lk_device_wide_bytes(m->device);
    size_t ranks = g->comm ? (size_t)lk_comm_world_size(g->comm) : 1;
    lk_wide *all = g->comm ? g->gathered : g->statistics;
    size_t own = g->comm ? (size_t)lk_comm_rank(g->comm) * part : 0;

    if (rows * ranks < 2)
        return lk_fail(LK_EUSAGE,
                       "batch norm behind %s has one value a channel, which has no variance: take "
                       "a larger local batch or image",
                       n->name);
    LK_PASS(LK_LAUNCH(m->stream, batchnorm_statistics, .statistics = (char *)all + own,
                      .in = n->conv, .rows = rows, .channels = channels));
    if (g->comm)
        LK_PASS(exchange(g, n, false));
    LK_PASS(LK_LAUNCH(m->stream, batchnorm_gather, .joint = n->joint,
                      .running_mean = running[0].data, .running_var = running[1].data, .all = all,
                      .batches = ranks, .channels = channels, .momentum = LK_BATCHNORM_MOMENTUM));
    return LK_LAUNCH(m->stream, batchnorm_forward, .out = n->out, .in = n->conv, .joint = n->joint,
                     .weight = w[0].data, .bias = w[1].data, .rows = rows, .channels = channels,
                     .relu = n->relu);
}

static enum lk_status relu_forward(struct lk_image *g, struct lk_image_node *n, size_t samples)
{
    if (!n->relu)
        return LK_OK;
    return LK_LAUNCH(g->base.stream, relu_forward, .out = n->out, .in = n->out,
                     .n = samples * n->out_pixels * n->shape.outputs);
}

static enum lk_status conv_forward(struct lk_image *g, struct lk_image_node *n, size_t samples)
{
    const struct lk_param *w = &g->base.params[n->param];

    LK_PASS(LK_LAUNCH(g->base.stream, conv_forward, .out = n->norm ? n->conv : n->out,
                      .in = input_of(g, n), .weight = w[0].data, .bias = n->norm ? NULL : w[1].data,
                      .scratch = g->scratch, .scratch_elems = g->scratch_elems,
                      .shape = shape_of(n, samples)));
    return n->norm ? norm_forward(g, n, samples) : relu_forward(g, n, samples);
}

static enum lk_status linear_forward(struct lk_image *g, struct lk_image_node *n, size_t samples)
{
    const struct lk_param *w = &g->base.params[n->param];

    LK_PASS(LK_LAUNCH(g->base.stream, matmul_forward, .out = n->out, .in = input_of(g, n),
                      .weight = w[0].data, .bias = w[1].data, .rows = samples,
                      .inputs = n->shape.inputs, .outputs = n->shape.outputs));
    return relu_forward(g, n, samples);
}

static enum lk_status node_forward(struct lk_image *g, struct lk_image_node *n, size_t samples)
{
    struct lk_stream *s = g->base.stream;
    const struct lk_conv_shape *shape = &n->shape;

    switch (n->kind) {
    case LK_IMAGE_CONV:
        return conv_forward(g, n, samples);
    case LK_IMAGE_MAXPOOL:
        return LK_LAUNCH(s, maxpool_forward, .out = n->out, .in = input_of(g, n),
                         .shape = shape_of(n, samples));
    case LK_IMAGE_AVGPOOL:
        return LK_LAUNCH(s, avgpool_forward, .out = n->out, .in = input_of(g, n),
                         .samples = samples, .height = shape->height, .width = shape->width,
                         .channels = shape->inputs, .size = n->size);
    case LK_IMAGE_LINEAR:
        return linear_forward(g, n, samples);
    default:
        return LK_LAUNCH(s, add_relu_forward, .out = n->out, .in = n->out,
                         .residual = g->nodes[n->residual].out,
                         .n = samples * n->out_pixels * shape->outputs);
    }
}

/* Return how many parameters a node has, from n->param on. */
static size_t params_of(const struct lk_image_node *n)
{
    if (n->kind == LK_IMAGE_CONV)
        return n->norm ? 3 : 2;
    return n->kind == LK_IMAGE_LINEAR ? 2 : 0;
}

enum lk_status lk_image_forward(struct lk_model *m, const struct lk_batch *batch, double seed)
{
    struct lk_image *g = (struct lk_image *)m;
    struct lk_cross_entropy_forward_args loss = loss_args(g, batch);
    size_t samples, area = (size_t)m->sample.height * (size_t)m->sample.width;

    LK_PASS(lk_model_check_batch(m, batch, (int)g->max_samples));
    samples = (size_t)batch->samples;
    LK_PASS(LK_LAUNCH(m->stream, pixels_forward, .out = g->image, .pixels = batch->inputs,
                      .samples = samples, .channels = (size_t)m->sample.channels, .area = area,
                      .factor = pixel_factor, .shift = pixel_shift));
    for (size_t i = 0; i < g->n_nodes; i++) {
        struct lk_image_node *n = &g->nodes[i];

        LK_PASS(lk_model_need(m, n->param, params_of(n)));
        LK_PASS(lk_fail_context(node_forward(g, n, samples), "%s", m->ops->name));
        LK_PASS(lk_model_done(m, n->param, params_of(n)));
    }
    return lk_model_loss_forward(m, &loss, false, seed);
}

/* ---- Backward ---- */

struct pass {
    struct lk_image *g;
    size_t samples;
    bool accumulate;
    const struct lk_grad_hook *hook;
};

/* Return the gradient of a node's output; of the last node, the logits have become it. */
static lk_real *gradient_of(const struct lk_image *g, size_t node)
{
    return node + 1 == g->n_nodes ? g->nodes[node].out : g->grads[g->grad_of[node]];
}

/* Return where the gradient of a node's input goes; *adds: it has some already. */
static enum lk_status gradient_in(struct lk_image *g, const struct lk_image_node *n, lk_real **out,
                                  bool *adds)
{
    int *of = &g->grad_of[n->in], i = 0;

    *adds = *of >= 0;
    while (!*adds && i < LK_IMAGE_GRADS && g->uses[i])
        i++;
    if (i == LK_IMAGE_GRADS)
        return lk_fail(LK_EINTERNAL, "no buffer is free for the gradient of %s's input", n->name);
    if (!*adds) {
        *of = i;
        g->uses[i] = 1;
    }
    *out = g->grads[*of];
    return LK_OK;
}

/* Hand the gradient of a sum to both of its inputs. */
static void share(struct lk_image *g, size_t node)
{
    const struct lk_image_node *n = &g->nodes[node];
    int buffer = g->grad_of[node];

    g->grad_of[n->in] = buffer;
    g->grad_of[n->residual] = buffer;
    g->uses[buffer] += 2;
}

static enum lk_status norm_backward(struct pass *p, struct lk_image_node *n, const lk_real *dout)
{
    struct lk_image *g = p->g;
    struct lk_model *m = &g->base;
    const struct lk_param *w = &m->params[n->param + 1];
    size_t rows = p->samples * n->out_pixels, channels = n->shape.outputs;

    LK_PASS(LK_LAUNCH(m->stream, batchnorm_sums, .sums = g->sums, .dweight = w[0].grad,
                      .dbias = w[1].grad, .dout = dout, .in = n->conv, .joint = n->joint,
                      .rows = rows, .channels = channels, .accumulate = p->accumulate));
    if (g->comm)
        LK_PASS(exchange(g, n, true));
    LK_PASS(LK_LAUNCH(m->stream, batchnorm_backward, .din = g->dconv, .dout = dout, .in = n->conv,
                      .joint = n->joint, .sums = g->sums, .weight = w[0].data, .rows = rows,
                      .channels = channels));
    LK_PASS(lk_model_finish(m, p->hook, n->param + 1));
    return lk_model_finish(m, p->hook, n->param + 2);
}

static enum lk_status conv_backward(struct pass *p, struct lk_image_node *n, lk_real *dout)
{
    struct lk_image *g = p->g;
    struct lk_model *m = &g->base;
    const struct lk_param *w = &m->params[n->param];
    const struct lk_conv_shape shape = shape_of(n, p->samples);
    lk_real *din;
    bool adds;

    if (n->norm) {
        LK_PASS(norm_backward(p, n, dout));
        dout = g->dconv;
    }
    LK_PASS(LK_LAUNCH(m->stream, conv_backward_weight, .dweight = w[0].grad,
                      .dbias = n->norm ? NULL : w[1].grad, .dout = dout, .in = input_of(g, n),
                      .scratch = g->scratch, .scratch_elems = g->scratch_elems, .shape = shape,
                      .accumulate = p->accumulate));
    LK_PASS(n->in < 0 ? lk_model_finish(m, p->hook, n->param)
                      : lk_model_ready(m, p->hook, n->param));
    if (!n->norm)
        LK_PASS(lk_model_finish(m, p->hook, n->param + 1));
    if (n->in < 0)
        return LK_OK;
    LK_PASS(gradient_in(g, n, &din, &adds));
    LK_PASS(LK_LAUNCH(m->stream, conv_backward_input, .din = din, .dout = dout, .weight = w[0].data,
                      .scratch = g->scratch, .scratch_elems = g->scratch_elems, .shape = shape,
                      .accumulate = adds));
    return lk_model_release(p->hook, n->param);
}

static enum lk_status linear_backward(struct pass *p, struct lk_image_node *n, const lk_real *dout)
{
    struct lk_image *g = p->g;
    struct lk_model *m = &g->base;
    const struct lk_param *w = &m->params[n->param];
    lk_real *din;
    bool adds;

    LK_PASS(LK_LAUNCH(m->stream, matmul_backward_weight, .dweight = w[0].grad, .dbias = w[1].grad,
                      .dout = dout, .in = input_of(g, n), .rows = p->samples,
                      .inputs = n->shape.inputs, .outputs = n->shape.outputs,
                      .accumulate = p->accumulate));
    LK_PASS(lk_model_finish(m, p->hook, n->param + 1));
    LK_PASS(lk_model_ready(m, p->hook, n->param));
    LK_PASS(gradient_in(g, n, &din, &adds));
    LK_PASS(LK_LAUNCH(m->stream, matmul_backward_input, .din = din, .dout = dout,
                      .weight = w[0].data, .rows = p->samples, .inputs = n->shape.inputs,
                      .outputs = n->shape.outputs, .accumulate = adds));
    return lk_model_release(p->hook, n->param);
}

static enum lk_status pool_backward(struct pass *p, struct lk_image_node *n, const lk_real *dout)
{
    struct lk_image *g = p->g;
    lk_real *din;
    bool adds;

    LK_PASS(gradient_in(g, n, &din, &adds));
    if (adds)
        return lk_fail(LK_EINTERNAL, "%s's input has another user", n->name);
    if (n->kind == LK_IMAGE_MAXPOOL)
        return LK_LAUNCH(g->base.stream, maxpool_backward, .din = din, .dout = dout,
                         .in = input_of(g, n), .shape = shape_of(n, p->samples));
    return LK_LAUNCH(g->base.stream, avgpool_backward, .din = din, .dout = dout,
                     .samples = p->samples, .height = n->shape.height, .width = n->shape.width,
                     .channels = n->shape.inputs, .size = n->size);
}

static enum lk_status node_backward(struct pass *p, size_t node)
{
    struct lk_image *g = p->g;
    struct lk_image_node *n = &g->nodes[node];
    lk_real *dout = gradient_of(g, node);

    if (n->relu)
        LK_PASS(LK_LAUNCH(g->base.stream, relu_backward, .din = dout, .dout = dout, .out = n->out,
                          .n = p->samples * n->out_pixels * n->shape.outputs));
    if (n->kind == LK_IMAGE_CONV)
        LK_PASS(conv_backward(p, n, dout));
    else if (n->kind == LK_IMAGE_LINEAR)
        LK_PASS(linear_backward(p, n, dout));
    else if (n->kind == LK_IMAGE_ADD_RELU)
        share(g, node);
    else
        LK_PASS(pool_backward(p, n, dout));
    if (node + 1 < g->n_nodes)
        g->uses[g->grad_of[node]]--;
    return LK_OK;
}

enum lk_status lk_image_backward(struct lk_model *m, const struct lk_batch *batch, double seed,
                                 bool accumulate, const struct lk_grad_hook *hook)
{
    struct lk_image *g = (struct lk_image *)m;
    struct lk_cross_entropy_forward_args loss = loss_args(g, batch);
    struct pass p = {.g = g, .accumulate = accumulate, .hook = hook};

    LK_PASS(lk_model_check_batch(m, batch, (int)g->max_samples));
    p.samples = (size_t)batch->samples;
    memset(g->uses, 0, sizeof g->uses);
    for (size_t i = 0; i < g->n_nodes; i++)
        g->grad_of[i] = -1;
    LK_PASS(lk_model_loss_backward(m, &loss, seed));
    for (size_t i = g->n_nodes; i-- > 0;) {
        const struct lk_image_node *n = &g->nodes[i];

        LK_PASS(lk_model_need(m, n->param, params_of(n)));
        LK_PASS(node_backward(&p, i));
        LK_PASS(lk_model_done(m, n->param, params_of(n)));
    }
    return LK_OK;
}
