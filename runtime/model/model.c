/* Models: the registry with its presets, code that all models share, and files of weights. */
#include "runtime/model/model.h"

#include "base/array.h"
#include "base/file.h"
#include "base/json.h"
#include "base/rng.h"
#include "base/words.h"
#include "facts/dtype.h"
#include "runtime/model/model_impl.h"

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
} presets[] = {
    {"gpt", &lk_model_gpt, 3, 3, 48, 64, 256},
    {"gpt-nano", &lk_model_gpt, 3, 3, 48, 64, 256},
    {"gpt-micro", &lk_model_gpt, 4, 4, 128, 128, 256},
    {"gpt-mini", &lk_model_gpt, 6, 6, 192, 256, 256},
    {"gpt-small", &lk_model_gpt, 6, 6, 384, 256, 256},
    {"gpt2-124m", &lk_model_gpt, 12, 12, 768, 1024, 50257},
    {"mlp", &lk_model_mlp, 2, 1, 256, 32, 256},
    {"replay", &lk_model_replay, 0, 0, 0, 1, 256},
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
    return lk_fail_context(p->ops->create(d, s, &c, out), "model %s", p->name);
}

void lk_model_destroy(struct lk_model *m)
{
    if (m)
        m->ops->destroy(m);
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

enum lk_status lk_model_check_batch(const struct lk_model *m, const struct lk_batch *batch,
                                    int max_samples)
{
    if (batch->samples >= 1 && batch->samples <= max_samples && batch->context >= 1 &&
        batch->context <= m->context)
        return LK_OK;
    return lk_fail(LK_EUSAGE, "batch of %d x %d tokens in a model made for %d x %d", batch->samples,
                   batch->context, max_samples, m->context);
}

void lk_model_fusions(struct lk_model *m, struct lk_fused *own, const struct lk_fused *list,
                      size_t n)
{
    memcpy(own, list, n * sizeof *own);
    m->fusions = own;
    m->n_fusions = n;
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

/* Copy weights between a device buffer and host floats, one of `from` and `to`; in pieces through
 * the staging buffer, which serves one copy at a time. */
static enum lk_status transfer(struct lk_model *m, void *device, enum lk_dtype dtype,
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

/* Copy a host array of float32 to a parameter, its exact weights and its rounded values, and wait.
 */
static enum lk_status upload(struct lk_model *m, size_t param, const float *from)
{
    const struct lk_param *p = &m->params[param];

    LK_PASS(transfer(m, p->data, lk_device_real_dtype(m->device), from, NULL, p->elems));
    if (p->master)
        LK_PASS(transfer(m, p->master, LK_F32, from, NULL, p->elems));
    return LK_OK;
}

/* Copy a parameter's exact weights to a host array of float32, and wait. */
static enum lk_status download(struct lk_model *m, size_t param, float *to)
{
    const struct lk_param *p = &m->params[param];

    if (p->master)
        return transfer(m, p->master, LK_F32, NULL, to, p->elems);
    return transfer(m, p->data, lk_device_real_dtype(m->device), NULL, to, p->elems);
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
    LK_TRY(upload(m, param, host));
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
    LK_PASS(lk_alloc(&m->params, n, sizeof *m->params));
    m->n_params = n;
    for (size_t i = 0; i < n; i++) {
        LK_PASS(lk_strdup(&name, params[i].name));
        m->params[i].name = name;
        m->params[i].elems = params[i].rows * params[i].columns;
        m->params[i].decay = params[i].decay;
    }
    LK_PASS(alloc_params(m, params));
    for (size_t i = 0; i < n && !config->blank; i++)
        LK_PASS(start_param(m, i, config->seed, &params[i]));
    return LK_OK;
}

void lk_model_fini(struct lk_model *m)
{
    for (size_t i = 0; i < m->n_params; i++)
        free((char *)m->params[i].name);
    free(m->params);
    free(m->outputs);
    if (!m->device)
        return;
    lk_device_free(m->device, m->weights);
    lk_device_free(m->device, m->masters);
    lk_device_free_host(m->device, m->staging);
}

/*
 * ---- Files of weights: one line of JSON, then float32 little endian ----
 *
 *     {"schema": "lockstep.weights", "version": 1,
 *      "parameters": [{"name": "wte.weight", "elems": 12288}, ...]}
 */

#define SCHEMA "lockstep.weights"
enum { VERSION = 1 };

static enum lk_status write_header(struct lk_writer *w, const struct lk_model *m)
{
    struct lk_json_out *o;

    LK_PASS(lk_json_out_begin(w, &o));
    lk_json_out_compact(o);
    lk_json_out_object(o, NULL);
    lk_json_out_text(o, "schema", SCHEMA);
    lk_json_out_int(o, "version", VERSION);
    lk_json_out_array(o, "parameters");
    for (size_t i = 0; i < m->n_params; i++) {
        lk_json_out_object(o, NULL);
        lk_json_out_text(o, "name", m->params[i].name);
        lk_json_out_int(o, "elems", (int64_t)m->params[i].elems);
        lk_json_out_close(o);
    }
    lk_json_out_close(o);
    lk_json_out_close(o);
    return lk_json_out_end(o);
}

/* Convert float32 between this machine's byte order and little endian, in place. */
static void to_little_endian(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        unsigned char *to = (unsigned char *)&x[i];

        memcpy(&bits, &x[i], sizeof bits);
        for (int b = 0; b < 4; b++)
            to[b] = (unsigned char)(bits >> 8 * b);
    }
}

static void from_little_endian(float *to, const unsigned char *from, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = 0;

        for (int b = 0; b < 4; b++)
            bits |= (uint32_t)from[4 * i + (size_t)b] << 8 * b;
        memcpy(&to[i], &bits, sizeof bits);
    }
}

/* Allocate a buffer for the largest parameter. */
static enum lk_status alloc_largest(const struct lk_model *m, float **out)
{
    size_t largest = 0;

    for (size_t i = 0; i < m->n_params; i++)
        largest = m->params[i].elems > largest ? m->params[i].elems : largest;
    return lk_alloc(out, largest, sizeof **out);
}

enum lk_status lk_model_export(struct lk_model *m, const char *path)
{
    struct lk_writer *w = NULL;
    enum lk_status st = LK_OK;
    float *values = NULL;

    LK_TRY(alloc_largest(m, &values));
    LK_TRY(lk_writer_open(path, false, &w));
    LK_TRY(write_header(w, m));
    for (size_t i = 0; i < m->n_params; i++) {
        LK_TRY(download(m, i, values));
        to_little_endian(values, m->params[i].elems);
        LK_TRY(lk_writer_put(w, values, m->params[i].elems * sizeof *values));
    }
    st = lk_writer_commit(w);
    w = NULL;
out:
    lk_writer_abandon(w);
    free(values);
    return st;
}

static enum lk_status check_row(struct lk_json *row, const struct lk_param *p)
{
    enum lk_status st = LK_OK;
    const char *name;
    int64_t elems;

    LK_TRY(lk_json_text(row, "name", &name));
    LK_TRY(lk_json_int(row, "elems", 0, INT64_MAX, &elems));
    LK_TRY(lk_json_end(row));
    if (strcmp(name, p->name) != 0 || (uint64_t)elems != p->elems)
        st = lk_json_error(row, "'%s' with %lld elements where the model has '%s' with %zu", name,
                           (long long)elems, p->name, p->elems);
out:
    return st;
}

/* Check that the file's parameters are the model's: names, sizes and order. */
static enum lk_status check_header(struct lk_json *root, const struct lk_model *m)
{
    struct lk_json *list;
    enum lk_status st = LK_OK;

    LK_TRY(lk_json_schema(root, SCHEMA, VERSION));
    LK_TRY(lk_json_array(root, "parameters", &list));
    LK_TRY(lk_json_end(root));
    if (lk_json_count(list) != m->n_params)
        return lk_json_error(list, "%zu parameters, the model has %zu", lk_json_count(list),
                             m->n_params);
    for (size_t i = 0; i < m->n_params && st == LK_OK; i++)
        st = check_row(lk_json_item(list, i), &m->params[i]);
out:
    return st;
}

enum lk_status lk_model_import(struct lk_model *m, const char *path)
{
    struct lk_json_doc *doc = NULL;
    enum lk_status st = LK_OK;
    float *values = NULL;
    char *text = NULL;
    const char *data;
    size_t size, header, elems = 0;

    LK_TRY(lk_file_read_max(path, SIZE_MAX, &text, &size));
    data = memchr(text, '\n', size);
    if (!data)
        LK_TRY(lk_fail(LK_EPARSE, "%s: no line of JSON at the start", path));
    header = (size_t)(++data - text);
    LK_TRY(lk_json_parse(path, text, header, &doc));
    LK_TRY(check_header(lk_json_root(doc), m));
    for (size_t i = 0; i < m->n_params; i++)
        elems += m->params[i].elems;
    if (size - header != elems * sizeof *values)
        LK_TRY(lk_fail(LK_EPARSE, "%s: %zu bytes of weights, expected %zu", path, size - header,
                       elems * sizeof *values));
    LK_TRY(alloc_largest(m, &values));
    for (size_t i = 0; i < m->n_params; i++) {
        from_little_endian(values, (const unsigned char *)data, m->params[i].elems);
        data += m->params[i].elems * sizeof *values;
        LK_TRY(upload(m, i, values));
    }
out:
    free(values);
    lk_json_free(doc);
    free(text);
    return st;
}
