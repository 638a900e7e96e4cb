/* The devices' common part: the registry, one wrapper per call, and the sticky failure. */
#include "runtime/device/device.h"

#include "base/array.h"
#include "base/log.h"
#include "base/words.h"
#include "kernels/ops.h"
#include "runtime/device/device_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct lk_device_ops *const registry[] = {
    &lk_device_cpu,
    &lk_device_timed,
    &lk_device_reference,
#ifdef LK_HAVE_CUDA
    &lk_device_cuda,
#endif
};

/* The size of a cache line, and of the widest vector register. */
enum { MEMORY_ALIGN = 64 };

/* All ops: opening a device registers their span names, so that no step has to. */
static const struct lk_op *const known_ops[] = {
#define LK_OP_POINTER_(op) &lk_op_##op,
    LK_OP_LIST(LK_OP_POINTER_)
#undef LK_OP_POINTER_
};

static enum lk_status op_name(struct lk_device *d, const struct lk_op *op, uint16_t *out);

static enum lk_status find(const char *name, const struct lk_device_ops **out)
{
    const char *names[LK_COUNT(registry)];
    const struct lk_words words = {"a device of this build", names, LK_COUNT(registry)};
    int i = 0;

    for (size_t k = 0; k < words.n; k++)
        names[k] = registry[k]->name;
    if (lk_words_find(&words, name, &i) != LK_OK)
        return lk_fail(LK_EUNSUPPORTED, "%s", lk_error_text());
    *out = registry[i];
    return LK_OK;
}

bool lk_device_built(const char *name)
{
    const struct lk_device_ops *ops = NULL;

    lk_quietly_(find(name, &ops));
    return ops != NULL;
}

enum lk_status lk_device_count(const char *name, const struct lk_device_config *config, int *out)
{
    const struct lk_device_ops *ops;
    enum lk_status st = find(name, &ops);

    if (st == LK_OK && ops->count)
        return ops->count(config, out);
    if (st == LK_OK)
        *out = 1;
    return st;
}

enum lk_status lk_device_properties(const struct lk_device *d, struct lk_device_properties *out)
{
    *out = (struct lk_device_properties){.link = LK_GPU_LINK_UNKNOWN};
    snprintf(out->name, sizeof out->name, "%s", d->ops->name);
    return d->ops->properties ? d->ops->properties(d, out) : LK_OK;
}

/* Return NULL if the device can run the op, else what the op lacks. */
static const char *lacks(const struct lk_device_ops *ops, const struct lk_op *op)
{
    switch (ops->needs) {
#define CASE(part, member, name)                                                                   \
    case part:                                                                                     \
        return op->member ? NULL : (name);
        LK_OP_PART_LIST(CASE)
#undef CASE
    }
    return NULL;
}

enum lk_status lk_device_open(const char *name, const struct lk_device_config *config,
                              struct lk_device **out)
{
    enum lk_status st = LK_OK;
    const struct lk_device_ops *ops;
    struct lk_device *d = NULL;
    uint16_t id;

    LK_TRY(find(name, &ops));
    if (config->real != LK_F32 && !(ops->reals >> config->real & 1))
        return lk_fail(LK_EUNSUPPORTED, "device %s does not compute in %s", name,
                       lk_dtype_name(config->real));
    LK_TRY(lk_alloc(&d, 1, ops->device_bytes));
    d->ops = ops;
    d->config = *config;
    d->real = config->real == LK_F32 ? ops->real : config->real;
    atomic_init(&d->failed, LK_OK);
    pthread_mutex_init(&d->lock, NULL); /* on Linux this cannot fail */
    if (ops->open)
        LK_TRY(ops->open(d));
    for (size_t i = 0; i < LK_COUNT(known_ops); i++)
        if (!lacks(ops, known_ops[i]))
            LK_TRY(op_name(d, known_ops[i], &id));
    lk_log(LK_LOG_DEVICE, LK_DEBUG, "device %s (%s)", ops->name, ops->help);
    LK_HAND_OVER(out, d);
out:
    lk_device_close(d);
    return st;
}

void lk_device_close(struct lk_device *d)
{
    if (!d)
        return;
    while (d->streams) {
        struct lk_stream *next = d->streams->next;

        lk_stream_destroy(d->streams);
        if (d->ops->stream_free)
            d->ops->stream_free(d->streams);
        free(d->streams);
        d->streams = next;
    }
    if (d->ops->close)
        d->ops->close(d);
    free(d->names);
    pthread_mutex_destroy(&d->lock);
    free(d);
}

const char *lk_device_name(const struct lk_device *d)
{
    return d->ops->name;
}

size_t lk_device_real_bytes(const struct lk_device *d)
{
    return lk_dtype_bytes(d->real);
}

enum lk_dtype lk_device_real_dtype(const struct lk_device *d)
{
    return d->real;
}

size_t lk_device_wide_bytes(const struct lk_device *d)
{
    return d->real == LK_F64 ? sizeof(double) : sizeof(float);
}

bool lk_device_uses_host_memory(const struct lk_device *d)
{
    return !d->ops->alloc;
}

bool lk_device_keeps_log_sum(const struct lk_device *d)
{
    return d->ops->keeps_log_sum;
}

bool lk_device_fuses(const struct lk_device *d)
{
    return d->ops->fuses;
}

double lk_device_unit_roundoff(const struct lk_device *d)
{
    return d->real == d->ops->real ? d->ops->unit_roundoff : lk_dtype_unit_roundoff(d->real);
}

enum lk_status lk_device_describe(const struct lk_device *d, struct lk_run_info *info)
{
    return d->ops->describe ? d->ops->describe(d, info) : LK_OK;
}

uint64_t lk_device_clock_error_ns(const struct lk_device *d)
{
    return d->ops->clock_error_ns ? d->ops->clock_error_ns(d) : 0;
}

enum lk_status lk_device_attention(const struct lk_device *d,
                                   const struct lk_attention_shape *shape, bool ask,
                                   char text[LK_ATTENTION_TEXT])
{
    *text = '\0';
    return d->ops->attention ? d->ops->attention(d, shape, ask, text) : LK_OK;
}

enum lk_status lk_device_attach(struct lk_device *d)
{
    return d->ops->attach ? d->ops->attach(d) : LK_OK;
}

/* Allocate zeroed host memory. */
static enum lk_status alloc_ordinary(size_t bytes, void **out)
{
    size_t rounded = bytes ? bytes : 1;
    void *p;

    if (rounded > SIZE_MAX - MEMORY_ALIGN)
        return lk_fail(LK_ENOMEM, "cannot allocate %zu bytes of device memory", bytes);
    rounded = (rounded + MEMORY_ALIGN - 1) / MEMORY_ALIGN * MEMORY_ALIGN;
    p = aligned_alloc(MEMORY_ALIGN, rounded);
    if (!p)
        return lk_fail(LK_ENOMEM, "cannot allocate %zu bytes of device memory", bytes);
    memset(p, 0, rounded);
    *out = p;
    return LK_OK;
}

enum lk_status lk_device_alloc(struct lk_device *d, size_t bytes, void **out)
{
    if (d->ops->alloc)
        return d->ops->alloc(d, bytes ? bytes : 1, out);
    return alloc_ordinary(bytes, out);
}

void lk_device_free(struct lk_device *d, void *p)
{
    if (!p)
        return;
    if (d->ops->free)
        d->ops->free(d, p);
    else
        free(p);
}

enum lk_status lk_device_alloc_host(struct lk_device *d, size_t bytes, void **out)
{
    if (d->ops->alloc_host)
        return d->ops->alloc_host(d, bytes ? bytes : 1, out);
    return alloc_ordinary(bytes, out);
}

void lk_device_free_host(struct lk_device *d, void *p)
{
    if (p && d->ops->free_host)
        d->ops->free_host(d, p);
    else
        free(p);
}

/* ---- Failure ---- */

void lk_device_wake(struct lk_device *d)
{
    if (!d->ops->wake)
        return;
    pthread_mutex_lock(&d->lock);
    for (struct lk_stream *s = d->streams; s; s = s->next)
        d->ops->wake(s);
    pthread_mutex_unlock(&d->lock);
}

void lk_device_fail(struct lk_device *d, enum lk_status st, const char *text)
{
    bool first;

    if (st == LK_OK)
        return;
    pthread_mutex_lock(&d->lock);
    first = !lk_device_failed(d);
    if (first) {
        snprintf(d->failure, sizeof d->failure, "%s", text);
        atomic_store_explicit(&d->failed, (int)st, memory_order_release);
    }
    pthread_mutex_unlock(&d->lock);
    if (first)
        lk_device_wake(d);
}

enum lk_status lk_device_status(struct lk_device *d)
{
    /* The text is written before `failed` is set, and never again. */
    int failed = atomic_load_explicit(&d->failed, memory_order_acquire);

    return failed == LK_OK ? LK_OK : lk_fail((enum lk_status)failed, "%s", d->failure);
}

/* ---- Streams ---- */

enum lk_status lk_stream_create(struct lk_device *d, const struct lk_track_info *info,
                                struct lk_stream **out)
{
    enum lk_status st = LK_OK;
    struct lk_stream *s = NULL;

    LK_TRY(lk_device_status(d));
    LK_TRY(lk_alloc(&s, 1, d->ops->stream_bytes));
    s->device = d;
    s->open = true;
    s->kind = info->kind;
    snprintf(s->name, sizeof s->name, "%s", info->name);
    LK_TRY(lk_recorder_track(d->config.recorder, info, &s->track));
    if (d->ops->stream_open)
        LK_TRY(d->ops->stream_open(s));
    pthread_mutex_lock(&d->lock);
    s->next = d->streams;
    d->streams = s;
    pthread_mutex_unlock(&d->lock);
    LK_HAND_OVER(out, s);
out:
    free(s);
    return st;
}

void lk_stream_destroy(struct lk_stream *s)
{
    if (!s || !s->open)
        return;
    s->open = false;
    if (s->device->ops->stream_close)
        s->device->ops->stream_close(s);
}

struct lk_device *lk_stream_device(struct lk_stream *s)
{
    return s->device;
}

struct lk_track *lk_stream_track(struct lk_stream *s)
{
    return s->track;
}

void lk_stream_set_step(struct lk_stream *s, uint32_t step)
{
    s->step = step;
}

uint32_t lk_stream_step(const struct lk_stream *s)
{
    return s->step;
}

void *lk_stream_native(struct lk_stream *s)
{
    return s->device->ops->native ? s->device->ops->native(s) : NULL;
}

/* ---- Commands ---- */

void lk_command_drop(const struct lk_stream_command *c)
{
    if (c->kind == LK_COMMAND_RECORD || c->kind == LK_COMMAND_WAIT ||
        c->kind == LK_COMMAND_RANGE_BEGIN)
        lk_event_destroy(c->event);
}

static const char *const command_names[LK_COMMAND_COUNT] = {LK_COMMAND_LIST(LK_WORD_NAME)};

const char *lk_command_text(const struct lk_stream_command *c)
{
    return c->kind == LK_COMMAND_OP ? c->op->name : command_names[c->kind];
}

static enum lk_status submit(struct lk_stream *s, struct lk_stream_command *c, uint64_t *out_seq)
{
    enum lk_status st;
    uint64_t seq;

    LK_PASS(lk_device_status(s->device));
    c->span.step = s->step;
    if (s->device->ops->stamps)
        c->queued_ns = lk_now_ns();
    st = s->device->ops->submit(s, c, &seq);
    if (st == LK_OK && out_seq)
        *out_seq = seq;
    return st;
}

/* Return the id of an op's span name; check and register an op that is new to the device. */
static enum lk_status op_name(struct lk_device *d, const struct lk_op *op, uint16_t *out)
{
    uint16_t id;

    for (size_t i = 0; i < d->n_names; i++)
        if (d->names[i].op == op) {
            *out = d->names[i].id;
            return LK_OK;
        }
    if (op->args_bytes > LK_OP_ARGS_MAX)
        return lk_fail(LK_EINTERNAL, "op %s has %zu bytes of arguments, more than %d", op->name,
                       op->args_bytes, LK_OP_ARGS_MAX);
    if (lacks(d->ops, op))
        return lk_fail(LK_EUNSUPPORTED, "device %s cannot run op %s: it has no %s", d->ops->name,
                       op->name, lacks(d->ops, op));
    LK_PASS(lk_array_grow(&d->names, &d->names_capacity, d->n_names + 1, sizeof *d->names));
    LK_PASS(lk_recorder_name(d->config.recorder, op->name, &id));
    d->names[d->n_names++] = (struct lk_op_name){op, id};
    *out = id;
    return LK_OK;
}

enum lk_status lk_stream_launch(struct lk_stream *s, const struct lk_op *op, const void *args)
{
    struct lk_stream_command c = {.kind = LK_COMMAND_OP, .op = op};

    LK_PASS(op_name(s->device, op, &c.span.name));
    c.span.kind = LK_SPAN_KERNEL;
    c.span.index = -1;
    c.args = args;
    c.args_bytes = op->args_bytes;
    return submit(s, &c, NULL);
}

enum lk_status lk_stream_host(struct lk_stream *s, lk_host_fn fn, const void *arg, size_t bytes)
{
    struct lk_stream_command c = {
        .kind = LK_COMMAND_HOST, .fn = fn, .args = arg, .args_bytes = bytes};

    if (bytes > LK_OP_ARGS_MAX)
        return lk_fail(LK_EINTERNAL, "a host function has %zu bytes of arguments, more than %d",
                       bytes, LK_OP_ARGS_MAX);
    return submit(s, &c, NULL);
}

enum lk_status lk_stream_range_end(struct lk_stream *s)
{
    struct lk_stream_command c = {.kind = LK_COMMAND_RANGE_END};

    return submit(s, &c, NULL);
}

enum lk_status lk_stream_mark(struct lk_stream *s, enum lk_span_kind kind, int32_t index)
{
    struct lk_stream_command c = {.kind = LK_COMMAND_MARK,
                                  .span = {.kind = (uint16_t)kind, .index = index}};

    return submit(s, &c, NULL);
}

enum lk_status lk_stream_copy(struct lk_stream *s, void *to, const void *from, size_t bytes)
{
    struct lk_stream_command c = {.kind = LK_COMMAND_COPY};

    c.copy.to = to;
    c.copy.from = from;
    c.copy.bytes = bytes;
    return submit(s, &c, NULL);
}

enum lk_status lk_stream_sync(struct lk_stream *s, struct lk_deadline deadline)
{
    enum lk_status st = s->device->ops->sync(s, UINT64_MAX, deadline);
    enum lk_status failed = lk_device_status(s->device);

    return failed != LK_OK ? failed : st;
}

/* ---- Events ---- */

enum lk_status lk_event_create(struct lk_device *d, struct lk_event **out)
{
    struct lk_event *e;

    LK_PASS(lk_alloc(&e, 1, sizeof *e));
    pthread_mutex_init(&e->lock, NULL);
    e->device = d;
    atomic_init(&e->refs, 1);
    *out = e;
    return LK_OK;
}

void lk_event_destroy(struct lk_event *e)
{
    if (!e || atomic_fetch_sub_explicit(&e->refs, 1, memory_order_acq_rel) != 1)
        return;
    pthread_mutex_destroy(&e->lock);
    free(e);
}

/* Submit a command that holds a reference to its event. On failure the reference is released. */
static enum lk_status submit_event(struct lk_stream *s, struct lk_stream_command *c,
                                   uint64_t *out_seq)
{
    enum lk_status st;

    atomic_fetch_add_explicit(&c->event->refs, 1, memory_order_relaxed);
    st = submit(s, c, out_seq);
    if (st != LK_OK)
        lk_event_destroy(c->event);
    return st;
}

enum lk_status lk_stream_span_begin(struct lk_stream *s, const struct lk_span *span,
                                    struct lk_event *ready)
{
    struct lk_stream_command c = {.kind = LK_COMMAND_RANGE_BEGIN, .span = *span, .event = ready};

    return ready ? submit_event(s, &c, NULL) : submit(s, &c, NULL);
}

enum lk_status lk_stream_range_begin(struct lk_stream *s, enum lk_span_kind kind, int32_t index)
{
    const struct lk_span span = {.kind = (uint16_t)kind, .index = index};

    return lk_stream_span_begin(s, &span, NULL);
}

enum lk_status lk_event_record(struct lk_event *e, struct lk_stream *s)
{
    struct lk_stream_command c = {.kind = LK_COMMAND_RECORD, .event = e};
    uint64_t seq;

    LK_PASS(submit_event(s, &c, &seq));
    e->stream = s;
    e->seq = seq;
    return LK_OK;
}

enum lk_status lk_stream_wait(struct lk_stream *s, struct lk_event *e)
{
    struct lk_stream_command c = {.kind = LK_COMMAND_WAIT, .event = e};

    if (!e->stream || e->stream == s) /* never recorded, or in stream order anyway */
        return lk_device_status(s->device);
    c.on = e->stream;
    c.seq = e->seq;
    return submit_event(s, &c, NULL);
}

enum lk_status lk_event_sync(struct lk_event *e, struct lk_deadline deadline)
{
    enum lk_status st = LK_OK;
    enum lk_status failed;

    if (e->stream)
        st = e->device->ops->sync(e->stream, e->seq, deadline);
    failed = lk_device_status(e->device);
    return failed != LK_OK ? failed : st;
}

uint64_t lk_event_time_ns(struct lk_event *e)
{
    uint64_t at_ns;

    pthread_mutex_lock(&e->lock);
    at_ns = e->passed_ns;
    pthread_mutex_unlock(&e->lock);
    return at_ns;
}

/* ---- Graphs of commands ---- */

bool lk_device_has_graphs(const struct lk_device *d)
{
    return d->ops->graph_begin != NULL;
}

enum lk_status lk_graph_begin(struct lk_stream *s)
{
    LK_PASS(lk_device_status(s->device));
    if (!s->device->ops->graph_begin)
        return lk_fail(LK_EUNSUPPORTED, "device %s has no graphs", s->device->ops->name);
    return s->device->ops->graph_begin(s);
}

enum lk_status lk_graph_end(struct lk_stream *s, struct lk_graph **out)
{
    if (!s->device->ops->graph_end)
        return lk_fail(LK_EUNSUPPORTED, "device %s has no graphs", s->device->ops->name);
    return s->device->ops->graph_end(s, out);
}

enum lk_status lk_graph_launch(struct lk_graph *g, struct lk_stream *s)
{
    enum lk_status st = lk_device_status(s->device);

    return st == LK_OK ? g->device->ops->graph_launch(g, s) : st;
}

void lk_graph_destroy(struct lk_graph *g)
{
    if (g)
        g->device->ops->graph_destroy(g);
}
