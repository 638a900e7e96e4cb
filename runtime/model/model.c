/* Models: the registry with its presets, and code that all models share. */
#include "runtime/model/model.h"

#include "base/array.h"
#include "base/rng.h"
#include "base/words.h"
#include "facts/dtype.h"
#include "runtime/model/model_impl.h"

#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Named configurations, which give the sizes that are 0 in the request. */
static const struct preset {
    const char *name;
    const struct lk_model_ops *ops;
    int layers, heads, channels, context, vocab;
    int image, colours;
} presets[] = {
    {"gpt", &lk_model_gpt, 3, 3, 48, 64, 256, 0, 0},
    {"gpt-nano", &lk_model_gpt, 3, 3, 48, 64, 256, 0, 0},
    {"gpt-micro", &lk_model_gpt, 4, 4, 128, 128, 256, 0, 0},
    {"gpt-mini", &lk_model_gpt, 6, 6, 192, 256, 256, 0, 0},
    {"gpt-small", &lk_model_gpt, 6, 6, 384, 256, 256, 0, 0},
    {"gpt2-124m", &lk_model_gpt, 12, 12, 768, 1024, 50257, 0, 0},
    {"gpt2-medium", &lk_model_gpt, 24, 16, 1024, 1024, 50257, 0, 0},
    {"gpt2-large", &lk_model_gpt, 36, 20, 1280, 1024, 50257, 0, 0},
    {"gpt2-xl", &lk_model_gpt, 48, 25, 1600, 1024, 50257, 0, 0},
    {"mlp", &lk_model_mlp, 2, 1, 256, 32, 256, 0, 0},
    {"resnet-small", &lk_model_resnet, 10, 0, 16, 0, 10, 32, 3},
    {"resnet18", &lk_model_resnet, 18, 0, 64, 0, 1000, 224, 3},
    {"resnet50", &lk_model_resnet, 50, 0, 64, 0, 1000, 224, 3},
    {"vgg16", &lk_model_vgg, 16, 0, 64, 0, 1000, 224, 3},
    {"replay", &lk_model_replay, 0, 0, 0, 1, 256, 0, 0},
};

/* Limit for copying a whole model; any machine that holds it needs less. */
static const uint64_t transfer_timeout_ns = 120 * LK_NS_PER_S;
/* Elements per piece when weights are copied: page-locked memory is scarce. */
enum { STAGED_ELEMS = 1 << 18 };

static enum lk_status find(const char *name, const struct preset **out)
{
    const char *names[LK_COUNT(presets)];
    const struct lk_words words = {"a model", names, LK_COUNT(presets)};
    int i = 0;

    for (size_t k = 0; k < words.n; k++)
        names[k] = presets[k].name;
    if (lk_words_find(&words, name, &i) != LK_OK)
        return lk_fail(LK_EUSAGE, "%s", lk_error_text());
    *out = &presets[i];
    return LK_OK;
}

static int or_preset(int value, int preset)
{
    return value != 0 ? value : preset;
}

enum lk_status lk_model_create(struct lk_device *d, struct lk_stream *s,
                               const struct lk_model_config *config, struct lk_model **out)
{
    struct lk_model_config c = *config;
    const struct preset *p;

    LK_PASS(find(config->name, &p));
    c.layers = or_preset(c.layers, p->layers);
    c.heads = or_preset(c.heads, p->heads);
    c.channels = or_preset(c.channels, p->channels);
    c.context = or_preset(c.context, p->context);
    c.vocab = or_preset(c.vocab, p->vocab);
    if ((c.image || c.colours) && !p->image)
        return lk_fail(LK_EUSAGE, "model %s: has no images", p->name);
    c.image = or_preset(c.image, p->image);
    c.colours = or_preset(c.colours, p->colours);
    return lk_fail_context(p->ops->create(d, s, &c, out), "model %s", p->name);
}

void lk_model_destroy(struct lk_model *m)
{
    if (m)
        m->ops->destroy(m);
}

struct lk_sample_shape lk_sample_text(int tokens)
{
    return (struct lk_sample_shape){LK_I32, 1, 1, tokens, tokens};
}

struct lk_sample_shape lk_sample_image(int channels, int height, int width)
{
    return (struct lk_sample_shape){LK_U8, channels, height, width, 1};
}

size_t lk_sample_inputs(const struct lk_sample_shape *s)
{
    return (size_t)s->channels * (size_t)s->height * (size_t)s->width;
}

bool lk_sample_equal(const struct lk_sample_shape *a, const struct lk_sample_shape *b)
{
    return a->dtype == b->dtype && a->channels == b->channels && a->height == b->height &&
           a->width == b->width && a->targets == b->targets;
}

void lk_sample_describe(const struct lk_sample_shape *s, char *buf, size_t size)
{
    if (s->dtype == LK_U8)
        snprintf(buf, size, "image of %d x %d x %d", s->channels, s->height, s->width);
    else
        snprintf(buf, size, "text of %d tokens", s->width);
}

static void *take(struct lk_model_arena *a, size_t rows, size_t columns, size_t elem_bytes)
{
    enum { ALIGN = 64 };
    size_t n, bytes, padded, first = a->bytes;

    if (__builtin_mul_overflow(rows, columns, &n) ||
        __builtin_mul_overflow(n, elem_bytes, &bytes) ||
        __builtin_add_overflow(bytes, ALIGN - 1, &padded) ||
        __builtin_add_overflow(a->bytes, padded / ALIGN * ALIGN, &a->bytes))
        a->overflow = true;
    return a->base ? a->base + first : NULL;
}

struct lk_model_arena lk_model_arena_of(const struct lk_device *d)
{
    return (struct lk_model_arena){.real_bytes = lk_device_real_bytes(d),
                                   .wide_bytes = lk_device_wide_bytes(d),
                                   .keeps_log_sum = lk_device_keeps_log_sum(d)};
}

lk_real *lk_model_take(struct lk_model_arena *a, const char *output, size_t rows, size_t columns)
{
    lk_real *at = take(a, rows, columns, a->real_bytes);

    if (output && at && a->notes)
        a->notes->outputs[a->n_outputs] =
            (struct lk_model_output){output, a->layer, at, rows * columns};
    a->n_outputs += output != NULL;
    return at;
}

lk_wide *lk_model_take_wide(struct lk_model_arena *a, size_t rows, size_t columns)
{
    return take(a, rows, columns, a->wide_bytes);
}

enum lk_status lk_model_arena_check(const struct lk_model_arena *a)
{
    return a->overflow ? lk_fail(LK_EUSAGE, "its buffers are larger than an address space") : LK_OK;
}

enum lk_status lk_model_arena_alloc(struct lk_model *m, struct lk_model_arena *a)
{
    void *base;

    LK_PASS(lk_model_arena_check(a));
    m->activation_bytes = (double)a->bytes;
    if (m->described)
        return LK_OK;
    if (a->n_outputs) {
        LK_PASS(lk_alloc(&m->outputs, a->n_outputs, sizeof *m->outputs));
        m->n_outputs = a->n_outputs;
        a->notes = m;
        a->n_outputs = 0;
    }
    LK_PASS(lk_device_alloc(m->device, a->bytes, &base));
    a->base = base;
    a->bytes = 0;
    return LK_OK;
}

enum lk_status lk_model_check_size(const char *what, int value, int max)
{
    if (value >= 1 && value <= max)
        return LK_OK;
    return lk_fail(LK_EUSAGE, "%s %d is not in 1..%d", what, value, max);
}

enum lk_status lk_model_check_sizes(const struct lk_model_config *c)
{
    /* Limits beyond any machine, small enough that products of two of them do not overflow. */
    enum { MAX_LAYERS = 1024, MAX_WIDTH = 1 << 16, MAX_VOCAB = 1 << 20 };

    LK_PASS(lk_model_check_size("layers", c->layers, MAX_LAYERS));
    LK_PASS(lk_model_check_size("channels", c->channels, MAX_WIDTH));
    LK_PASS(lk_model_check_size("context", c->context, MAX_WIDTH));
    LK_PASS(lk_model_check_size("vocab", c->vocab, MAX_VOCAB));
    /* cpu matrix products count rows in an int. */
    return lk_model_check_size("max_samples", c->max_samples, INT_MAX / c->context);
}

double lk_model_transformer_flops(const struct lk_model *m, size_t added, size_t layers,
                                  size_t channels)
{
    double context = m->sample.width, weights = 0;

    for (size_t i = 0; i < m->n_params; i++)
        if (i != added)
            weights += (double)m->params[i].elems;
    return context * (6 * weights + 12 * (double)layers * (double)channels * context);
}

enum lk_status lk_model_check_batch(const struct lk_model *m, const struct lk_batch *batch,
                                    int max_samples)
{
    struct lk_sample_shape fits = batch->shape;
    char is[64], takes[64];

    /* A text may be shorter. */
    if (fits.dtype == LK_I32 && fits.width >= 1 && fits.width <= m->sample.width)
        fits = m->sample;
    if (batch->samples >= 1 && batch->samples <= max_samples && lk_sample_equal(&fits, &m->sample))
        return LK_OK;
    lk_sample_describe(&batch->shape, is, sizeof is);
    lk_sample_describe(&m->sample, takes, sizeof takes);
    return lk_fail(LK_EUSAGE, "batch of %d, each %s, in a model made for %d, each %s",
                   batch->samples, is, max_samples, takes);
}

enum lk_status lk_model_loss_forward(struct lk_model *m,
                                     const struct lk_cross_entropy_forward_args *args, bool fused,
                                     double seed)
{
    struct lk_cross_entropy_forward_args a = *args;

    m->seeded = fused ? seed : NAN;
    if (!isnan(m->seeded)) {
        a.dlogits = (lk_real *)(uintptr_t)a.logits;
        a.seed = seed;
    }
    return lk_stream_launch(m->stream, &lk_op_cross_entropy_forward, &a);
}

enum lk_status lk_model_loss_backward(struct lk_model *m,
                                      const struct lk_cross_entropy_forward_args *args, double seed)
{
    double seeded = m->seeded;

    m->seeded = NAN;
    if (isnan(seeded))
        return LK_LAUNCH(m->stream, cross_entropy_backward,
                         .dlogits = (lk_real *)(uintptr_t)args->logits, .logits = args->logits,
                         .log_sum = args->log_sum, .targets = args->targets, .rows = args->rows,
                         .vocab = args->vocab, .target_stride = args->target_stride,
                         .stride = args->stride, .seed = seed);
    return seeded == seed
               ? LK_OK
               : lk_fail(LK_EINTERNAL, "backward with seed %g of a forward with %g", seed, seeded);
}

enum lk_status lk_model_ready(struct lk_model *m, const struct lk_grad_hook *hook, size_t param)
{
    if (!hook)
        return LK_OK;
    LK_PASS(lk_stream_mark(m->stream, LK_SPAN_GRADIENT, (int32_t)param));
    return hook->ready(hook->ctx, param);
}

enum lk_status lk_model_release(const struct lk_grad_hook *hook, size_t param)
{
    return hook && hook->released ? hook->released(hook->ctx, param) : LK_OK;
}

enum lk_status lk_model_finish(struct lk_model *m, const struct lk_grad_hook *hook, size_t param)
{
    LK_PASS(lk_model_release(hook, param));
    return lk_model_ready(m, hook, param);
}

enum lk_status lk_model_need(const struct lk_model *m, size_t first, size_t n)
{
    return m->uses.need ? m->uses.need(m->uses.ctx, first, n) : LK_OK;
}

enum lk_status lk_model_done(const struct lk_model *m, size_t first, size_t n)
{
    return m->uses.done ? m->uses.done(m->uses.ctx, first, n) : LK_OK;
}

enum lk_status lk_model_transfer(struct lk_model *m, void *device, enum lk_dtype dtype,
                                 const float *from, float *to, size_t elems)
{
    size_t bytes = lk_dtype_bytes(dtype);

    for (size_t at = 0, n; at < elems; at += n) {
        char *there = (char *)device + at * bytes;

        n = elems - at < STAGED_ELEMS ? elems - at : STAGED_ELEMS;
        if (from)
            lk_dtype_from_f32(dtype, m->staging, from + at, n);
        LK_PASS(lk_stream_copy(m->stream, from ? there : m->staging, from ? m->staging : there,
                               n * bytes));
        LK_PASS(lk_stream_sync(m->stream, lk_deadline_in(transfer_timeout_ns)));
        if (to)
            lk_dtype_to_f32(dtype, to + at, m->staging, n);
    }
    return LK_OK;
}

enum lk_dtype lk_model_wide_dtype(const struct lk_model *m)
{
    return lk_device_wide_bytes(m->device) == sizeof(double) ? LK_F64 : LK_F32;
}

enum lk_status lk_model_upload(struct lk_model *m, size_t param, const float *from)
{
    const struct lk_param *p = &m->params[param];

    LK_PASS(lk_model_transfer(m, p->data, lk_device_real_dtype(m->device), from, NULL, p->elems));
    if (p->master)
        LK_PASS(lk_model_transfer(m, p->master, LK_F32, from, NULL, p->elems));
    return LK_OK;
}

static void fill_normal(float *to, size_t elems, uint64_t seed, const struct lk_model_param *how)
{
    enum { CHUNK = 4096 };
    uint64_t stream = lk_rng_stream(how->name, 0);
    double normals[CHUNK];

    for (size_t at = 0; at < elems; at += CHUNK) {
        size_t n = elems - at < CHUNK ? elems - at : CHUNK;

        lk_rng_normals(seed, stream, at, normals, n);
        for (size_t i = 0; i < n; i++)
            to[at + i] = (float)(how->std * normals[i]);
    }
}

static enum lk_status start_param(struct lk_model *m, size_t param, uint64_t seed,
                                  const struct lk_model_param *how)
{
    struct lk_param *p = &m->params[param];
    enum lk_status st = LK_OK;
    float *host = NULL;

    if (how->start == LK_START_ZERO)
        return LK_OK; /* device memory starts zeroed */
    LK_TRY(lk_alloc(&host, p->elems, sizeof *host));
    if (how->start == LK_START_NORMAL)
        fill_normal(host, p->elems, seed, how);
    else
        for (size_t i = 0; i < p->elems; i++)
            host[i] = 1;
    LK_TRY(lk_model_upload(m, param, host));
out:
    free(host);
    return st;
}

static void lay_out(struct lk_model *m, const struct lk_model_param *params,
                    struct lk_model_arena *a, bool masters)
{
    for (size_t i = 0; i < m->n_params; i++)
        if (masters)
            m->params[i].master = lk_model_take_wide(a, params[i].rows, params[i].columns);
        else
            m->params[i].data = lk_model_take(a, NULL, params[i].rows, params[i].columns);
}

static enum lk_status alloc_params(struct lk_model *m, const struct lk_model_param *params)
{
    struct lk_model_arena a = lk_model_arena_of(m->device);
    size_t staged = 0;

    lay_out(m, params, &a, false);
    m->weights_bytes = a.bytes;
    LK_PASS(lk_model_arena_alloc(m, &a));
    m->weights = a.base;
    lay_out(m, params, &a, false);
    if (a.real_bytes < a.wide_bytes) {
        a = lk_model_arena_of(m->device);
        lay_out(m, params, &a, true);
        m->masters_bytes = a.bytes;
        LK_PASS(lk_model_arena_alloc(m, &a));
        m->masters = a.base;
        lay_out(m, params, &a, true);
    }
    for (size_t i = 0; i < m->n_params; i++)
        staged = m->params[i].elems > staged ? m->params[i].elems : staged;
    if (m->described)
        return LK_OK;
    staged = staged < STAGED_ELEMS ? staged : STAGED_ELEMS;
    return lk_device_alloc_host(m->device, staged * sizeof(double), &m->staging);
}

enum lk_status lk_model_init(struct lk_model *m, const struct lk_model_ops *ops,
                             struct lk_device *d, struct lk_stream *s,
                             const struct lk_model_config *config,
                             const struct lk_model_param *params, size_t n)
{
    char *name = NULL;

    m->ops = ops;
    m->device = d;
    m->stream = s;
    m->seeded = NAN;
    m->max_samples = config->max_samples;
    m->described = config->described;
    m->positions = m->sample.width;
    LK_PASS(lk_alloc(&m->params, n, sizeof *m->params));
    m->n_params = n;
    for (size_t i = 0; i < n; i++) {
        LK_PASS(lk_strdup(&name, params[i].name));
        m->params[i].name = name;
        m->params[i].elems = params[i].rows * params[i].columns;
        m->params[i].rows = params[i].rows > 1 ? params[i].rows : 0;
        m->params[i].decay = params[i].decay;
    }
    LK_PASS(alloc_params(m, params));
    for (size_t i = 0; i < n && !config->blank && !config->described; i++)
        LK_PASS(start_param(m, i, config->seed, &params[i]));
    return LK_OK;
}

enum lk_status lk_model_init_buffers(struct lk_model *m, const struct lk_model_config *config,
                                     const struct lk_model_buffer *list, size_t n)
{
    size_t wide = lk_device_wide_bytes(m->device), at = 0;
    enum lk_status st = LK_OK;
    float *values = NULL;
    void *data = NULL;

    if (n == 0)
        return LK_OK;
    LK_TRY(lk_alloc(&m->buffers, n, sizeof *m->buffers));
    memcpy(m->buffers, list, n * sizeof *list);
    for (size_t i = 0; i < n; i++)
        m->buffer_elems += list[i].elems;
    m->n_buffers = n;
    if (m->described)
        return LK_OK;
    LK_TRY(lk_device_alloc(m->device, m->buffer_elems * wide, &data));
    for (size_t i = 0; i < n; i++) {
        m->buffers[i].data = (char *)data + at * wide;
        at += list[i].elems;
    }
    if (config->blank)
        return LK_OK;
    LK_TRY(lk_alloc(&values, m->buffer_elems, sizeof *values));
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < list[i].elems; k++)
            values[k] = (float)list[i].start;
        LK_TRY(lk_model_transfer(m, m->buffers[i].data, lk_model_wide_dtype(m), values, NULL,
                                 list[i].elems));
    }
out:
    free(values);
    return st;
}

void lk_model_leave_weights(struct lk_model *m)
{
    lk_device_free(m->device, m->weights);
    m->weights = NULL;
    m->weights_bytes = 0;
    lk_device_free(m->device, m->masters);
    m->masters = NULL;
    m->masters_bytes = 0;
    for (size_t i = 0; i < m->n_params; i++)
        m->params[i].master = NULL;
}

void lk_model_fini(struct lk_model *m)
{
    for (size_t i = 0; i < m->n_params; i++)
        free((char *)m->params[i].name);
    free(m->params);
    free(m->outputs);
    if (m->device && m->n_buffers)
        lk_device_free(m->device, m->buffers[0].data);
    free(m->buffers);
    free(m->norms);
    if (!m->device)
        return;
    lk_device_free(m->device, m->weights);
    lk_device_free(m->device, m->masters);
    lk_device_free_host(m->device, m->staging);
}
