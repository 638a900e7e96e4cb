/* Networks of images: their construction; see the header. Initial values are torchvision's: weights
 * of convolutions normal with deviation sqrt(2 / (outputs * kernel^2)) (He et al. 2015, fan out),
 * norms 1, biases 0. */
#include "runtime/model/model_image.h"
#include "base/array.h"
#include "runtime/comm/comm.h"

#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_IMAGE = 1 << 12, MAX_CHANNELS = 1 << 12, MAX_COLOURS = 16, MAX_CLASSES = 1 << 20 };

/* ---- Nodes ---- */

static enum lk_status add_node(struct lk_image *g, const struct lk_image_node *node,
                               struct lk_image_out *out)
{
    LK_PASS(lk_array_grow(&g->nodes, &g->nodes_capacity, g->n_nodes + 1, sizeof *g->nodes));
    g->nodes[g->n_nodes] = *node;
    out->node = (int)g->n_nodes++;
    return LK_OK;
}

static enum lk_status add_param(struct lk_image *g, const char *module, const char *what,
                                struct lk_model_param how)
{
    struct lk_image_param *p;

    LK_PASS(lk_array_grow(&g->params, &g->params_capacity, g->n_params + 1, sizeof *g->params));
    p = &g->params[g->n_params++];
    p->how = how;
    snprintf(p->name, sizeof p->name, "%s.%s", module, what);
    return LK_OK;
}

static enum lk_status add_vector(struct lk_image *g, const char *module, const char *what,
                                 size_t elems, enum lk_model_start start)
{
    return add_param(g, module, what,
                     (struct lk_model_param){.rows = 1, .columns = elems, .start = start});
}

enum lk_status lk_image_conv(struct lk_image *g, const struct lk_image_conv *c,
                             const struct lk_image_out *in, struct lk_image_out *out)
{
    struct lk_image_node n = {.kind = LK_IMAGE_CONV,
                              .in = in->node,
                              .shape = {0, in->height, in->width, in->channels, c->outputs,
                                        c->kernel, c->stride, c->padding},
                              .norm = c->norm != NULL,
                              .relu = c->relu,
                              .param = g->n_params,
                              .layer = g->n_norms};
    size_t area = c->kernel * c->kernel;
    struct lk_image_out made = {.height = lk_conv_out(in->height, c->kernel, c->stride, c->padding),
                                .width = lk_conv_out(in->width, c->kernel, c->stride, c->padding),
                                .channels = c->outputs};

    snprintf(n.name, sizeof n.name, "%s", c->name);
    n.out_pixels = made.height * made.width;
    LK_PASS(add_param(g, c->name, "weight",
                      (struct lk_model_param){.rows = c->outputs,
                                              .columns = in->channels * area,
                                              .decay = true,
                                              .start = LK_START_NORMAL,
                                              .std = sqrt(2 / (double)(c->outputs * area))}));
    if (c->norm) {
        LK_PASS(add_vector(g, c->norm, "weight", c->outputs, LK_START_ONE));
        LK_PASS(add_vector(g, c->norm, "bias", c->outputs, LK_START_ZERO));
        g->n_norms++;
        g->widest_norm = g->widest_norm < c->outputs ? c->outputs : g->widest_norm;
    } else {
        LK_PASS(add_vector(g, c->name, "bias", c->outputs, LK_START_ZERO));
    }
    LK_PASS(add_node(g, &n, &made));
    *out = made;
    return LK_OK;
}

enum lk_status lk_image_maxpool(struct lk_image *g, const struct lk_image_out *in, size_t kernel,
                                size_t stride, size_t padding, struct lk_image_out *out)
{
    struct lk_image_node n = {
        .kind = LK_IMAGE_MAXPOOL,
        .in = in->node,
        .name = "max pooling",
        .shape = {0, in->height, in->width, in->channels, in->channels, kernel, stride, padding}};
    struct lk_image_out made = {.height = lk_conv_out(in->height, kernel, stride, padding),
                                .width = lk_conv_out(in->width, kernel, stride, padding),
                                .channels = in->channels};

    n.out_pixels = made.height * made.width;
    LK_PASS(add_node(g, &n, &made));
    *out = made;
    return LK_OK;
}

enum lk_status lk_image_avgpool(struct lk_image *g, const struct lk_image_out *in, size_t size,
                                struct lk_image_out *out)
{
    struct lk_image_node n = {
        .kind = LK_IMAGE_AVGPOOL,
        .in = in->node,
        .name = "average pooling",
        .shape = {0, in->height, in->width, in->channels, in->channels, 1, 1, 0},
        .size = size,
        .out_pixels = size * size};
    struct lk_image_out made = {.height = 1, .width = 1, .channels = in->channels * size * size};

    LK_PASS(add_node(g, &n, &made));
    *out = made;
    return LK_OK;
}

enum lk_status lk_image_linear(struct lk_image *g, const char *name, const struct lk_image_out *in,
                               size_t outputs, double std, bool relu, struct lk_image_out *out)
{
    struct lk_image_node n = {.kind = LK_IMAGE_LINEAR,
                              .in = in->node,
                              .shape = {.inputs = in->channels, .outputs = outputs},
                              .out_pixels = 1,
                              .relu = relu,
                              .param = g->n_params};
    struct lk_image_out made = {.height = 1, .width = 1, .channels = outputs};

    snprintf(n.name, sizeof n.name, "%s", name);
    LK_PASS(add_param(g, name, "weight",
                      (struct lk_model_param){.rows = outputs,
                                              .columns = in->channels,
                                              .decay = true,
                                              .start = LK_START_NORMAL,
                                              .std = std}));
    LK_PASS(add_vector(g, name, "bias", outputs, LK_START_ZERO));
    LK_PASS(add_node(g, &n, &made));
    *out = made;
    return LK_OK;
}

enum lk_status lk_image_add_relu(struct lk_image *g, const struct lk_image_out *in,
                                 const struct lk_image_out *residual, struct lk_image_out *out)
{
    const struct lk_image_node n = {.kind = LK_IMAGE_ADD_RELU,
                                    .in = in->node,
                                    .residual = residual->node,
                                    .name = "residual sum",
                                    .shape = {.outputs = in->channels},
                                    .out_pixels = in->height * in->width,
                                    .relu = true};
    struct lk_image_out made = *in;

    if (in->channels != residual->channels || in->height != residual->height ||
        in->width != residual->width)
        return lk_fail(LK_EINTERNAL, "a residual connection of different sizes");
    LK_PASS(add_node(g, &n, &made));
    *out = made;
    return LK_OK;
}

/* ---- Memory ---- */

static size_t out_elems(const struct lk_image_node *n)
{
    return n->out_pixels * n->shape.outputs;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static void lay_out(struct lk_image *g, struct lk_model_arena *a, bool cuda)
{
    size_t largest = 0, normed = 0, s = g->max_samples;

    g->base.loss = lk_model_take_wide(a, 1, 1);
    g->image = lk_model_take(a, "the image", s, lk_sample_inputs(&g->base.sample));
    for (size_t i = 0; i < g->n_nodes; i++) {
        struct lk_image_node *n = &g->nodes[i];
        struct lk_conv_shape shape = n->shape;

        shape.samples = s;
        if (n->kind == LK_IMAGE_CONV)
            g->scratch_elems = larger(g->scratch_elems, lk_conv_scratch(&shape, cuda));
        if (i + 1 < g->n_nodes)
            largest = larger(largest, out_elems(n));
        if (n->norm) {
            normed = larger(normed, out_elems(n));
            n->conv = lk_model_take(a, n->name, s, out_elems(n));
            n->joint = lk_model_take_wide(a, 2 * n->shape.outputs + 1, 1);
        }
        n->out = n->kind == LK_IMAGE_ADD_RELU ? g->nodes[n->in].out
                 : n->norm                    ? lk_model_take(a, "batch norm", s, out_elems(n))
                                              : lk_model_take(a, n->name, s, out_elems(n));
    }
    g->log_sum = lk_model_take_wide(a, s, 1);
    g->scratch = lk_model_take(a, NULL, g->scratch_elems, 1);
    g->dconv = lk_model_take(a, NULL, s, normed);
    for (size_t i = 0; i < LK_IMAGE_GRADS; i++)
        g->grads[i] = lk_model_take(a, NULL, s, largest);
    g->statistics = lk_model_take_wide(a, 2 * g->widest_norm + 1, 1);
    g->sums = lk_model_take_wide(a, 2, g->widest_norm);
}

/* ---- Creation ---- */

static enum lk_status check_config(const struct lk_model_config *c)
{
    LK_PASS(lk_model_check_size("image", c->image, MAX_IMAGE));
    LK_PASS(lk_model_check_size("colours", c->colours, MAX_COLOURS));
    LK_PASS(lk_model_check_size("channels", c->channels, MAX_CHANNELS));
    LK_PASS(lk_model_check_size("vocab (classes)", c->vocab, MAX_CLASSES));
    /* cpu matrix products count rows in an int. */
    LK_PASS(lk_model_check_size("max_samples", c->max_samples, INT_MAX / (c->image * c->image)));
    if (c->heads || c->context)
        return lk_fail(LK_EUSAGE, "has no heads and no context");
    return LK_OK;
}

static enum lk_status init_params(struct lk_image *g, const struct lk_model_ops *ops,
                                  struct lk_device *d, struct lk_stream *s,
                                  const struct lk_model_config *config)
{
    struct lk_model_param *params = NULL;
    enum lk_status st = LK_OK;

    LK_TRY(lk_alloc(&params, g->n_params, sizeof *params));
    for (size_t i = 0; i < g->n_params; i++) {
        params[i] = g->params[i].how;
        params[i].name = g->params[i].name;
    }
    LK_TRY(lk_model_init(&g->base, ops, d, s, config, params, g->n_params));
out:
    free(params);
    return st;
}

/* Make the running means and variances, which start at 0 and 1. */
static enum lk_status init_buffers(struct lk_image *g, const struct lk_model_config *config)
{
    struct lk_model_buffer *list = NULL;
    enum lk_status st = LK_OK;
    size_t n = 0;

    LK_TRY(lk_alloc(&list, 2 * g->n_norms, sizeof *list));
    for (size_t i = 0; i < g->n_nodes; i++) {
        struct lk_image_node *node = &g->nodes[i];
        const char *weight = g->params[node->param + 1].name; /* "bn1.weight" */
        int module = (int)(strrchr(weight, '.') - weight);

        if (!node->norm)
            continue;
        node->buffer = n;
        for (int k = 0; k < 2; k++, n++) {
            snprintf(list[n].name, sizeof list[n].name, "%.*s.running_%s", module, weight,
                     k ? "var" : "mean");
            list[n].elems = node->shape.outputs;
            list[n].start = k;
        }
    }
    LK_TRY(lk_model_init_buffers(&g->base, config, list, n));
out:
    free(list);
    return st;
}

/* Return the products of a sample forward. */
static double products(const struct lk_image_node *n)
{
    double depth = (double)n->shape.inputs;

    if (n->kind == LK_IMAGE_CONV)
        depth *= (double)(n->shape.kernel * n->shape.kernel);
    else if (n->kind != LK_IMAGE_LINEAR)
        return 0;
    return (double)out_elems(n) * depth;
}

/* Count operations, kinks and positions of a sample: 2 a product forward and 4 backward, where the
 * first layer's input needs no gradient. */
static void count(struct lk_image *g)
{
    for (size_t i = 0; i < g->n_nodes; i++) {
        const struct lk_image_node *n = &g->nodes[i];

        g->base.flops_per_sample += (n->in < 0 ? 4 : 6) * products(n);
        if (n->relu || n->kind == LK_IMAGE_MAXPOOL)
            g->base.kinks += out_elems(n);
        if (n->kind == LK_IMAGE_CONV && n->out_pixels > (size_t)g->base.positions)
            g->base.positions = (int)n->out_pixels;
    }
}

/* List the batch norms with the share of forward's products before each, its own convolution's
 * included. */
static enum lk_status list_norms(struct lk_image *g)
{
    double all = 0, done = 0;

    LK_PASS(lk_alloc(&g->base.norms, g->n_norms, sizeof *g->base.norms));
    for (size_t i = 0; i < g->n_nodes; i++)
        all += products(&g->nodes[i]);
    for (size_t i = 0; i < g->n_nodes; i++) {
        done += products(&g->nodes[i]);
        if (g->nodes[i].norm)
            g->base.norms[g->base.n_norms++] =
                (struct lk_model_norm){(int)g->nodes[i].shape.outputs, fmin(1, done / all)};
    }
    return LK_OK;
}

enum lk_status lk_image_create(const struct lk_model_ops *ops, struct lk_device *d,
                               struct lk_stream *s, const struct lk_model_config *config,
                               enum lk_status (*build)(struct lk_image *g,
                                                       const struct lk_model_config *config,
                                                       char *text, size_t size),
                               struct lk_model **out)
{
    struct lk_model_arena a = lk_model_arena_of(d);
    struct lk_image *g = NULL;
    bool cuda = !lk_device_uses_host_memory(d);
    enum lk_status st = LK_OK;
    char text[96] = "";

    LK_TRY(check_config(config));
    LK_TRY(lk_alloc(&g, 1, sizeof *g));
    g->max_samples = (size_t)config->max_samples;
    g->base.sample = lk_sample_image(config->colours, config->image, config->image);
    g->base.vocab = config->vocab;
    LK_TRY(build(g, config, text, sizeof text));
    LK_TRY(lk_alloc(&g->grad_of, g->n_nodes, sizeof *g->grad_of));
    lay_out(g, &a, cuda);
    LK_TRY(lk_model_arena_check(&a));
    LK_TRY(init_params(g, ops, d, s, config));
    LK_TRY(init_buffers(g, config));
    LK_TRY(lk_model_arena_alloc(&g->base, &a));
    g->activations = a.base;
    lay_out(g, &a, cuda);
    count(g);
    g->base.synchronises = config->sync_batch_norm && g->n_norms > 0;
    if (g->base.synchronises)
        LK_TRY(list_norms(g));
    lk_sample_describe(&g->base.sample, g->base.sample_unit, sizeof g->base.sample_unit);
    snprintf(g->base.config_text, sizeof g->base.config_text, "%s, %s, classes %d", text,
             g->base.sample_unit, config->vocab);
    *out = &g->base;
    g = NULL;
out:
    if (g)
        lk_image_destroy(&g->base);
    return st;
}

void lk_image_destroy(struct lk_model *m)
{
    struct lk_image *g = (struct lk_image *)m;

    for (size_t i = 0; g->there && i < 2 * g->n_norms; i++)
        lk_event_destroy(g->there[i]);
    free(g->there);
    lk_event_destroy(g->back);
    if (m->device) {
        lk_device_free(m->device, g->gathered);
        lk_device_free(m->device, g->activations);
    }
    lk_model_fini(m);
    free(g->grad_of);
    free(g->nodes);
    free(g->params);
    free(g);
}

enum lk_status lk_image_join(struct lk_model *m, struct lk_comm *comm, struct lk_stream *net)
{
    struct lk_image *g = (struct lk_image *)m;
    size_t ranks = (size_t)lk_comm_world_size(comm);

    if (!m->synchronises || ranks == 1)
        return LK_OK;
    LK_PASS(lk_device_alloc(m->device,
                            ranks * (2 * g->widest_norm + 1) * lk_device_wide_bytes(m->device),
                            &g->gathered));
    LK_PASS(lk_alloc(&g->there, 2 * g->n_norms, sizeof(struct lk_event *)));
    for (size_t i = 0; i < 2 * g->n_norms; i++)
        LK_PASS(lk_event_create(m->device, &g->there[i]));
    LK_PASS(lk_event_create(m->device, &g->back));
    g->comm = comm;
    g->net = net;
    return LK_OK;
}
