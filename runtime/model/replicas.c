/* DataParallel; see the header. */
#include "runtime/model/replicas.h"

#include "base/array.h"
#include "kernels/ops.h"

#include <stdio.h>
#include <stdlib.h>

/* A device other than 0. */
struct replica {
    struct lk_model *model;
    struct lk_stream *stream;
    struct lk_event *done;
    struct lk_batch batch; /* its chunk, in memory of its own; samples 0: it has none */
    void *inputs, *targets, *gradients;
    double share; /* of the batch's samples */
};

struct lk_replicas {
    struct lk_model_ops ops; /* of the replicated model */
    const struct lk_model_ops *inner;
    struct replica *others;
    size_t n; /* of them */
    struct lk_event *ready;
    void *staging;       /* on device 0, of the largest gradient */
    struct lk_batch own; /* device 0's chunk */
    double own_share;
};

/* Return the samples of a device, of which the last may have fewer, or none. */
static int chunk_of(const struct lk_model *m, int samples)
{
    int devices = (int)m->replicas->n + 1;

    return (samples + devices - 1) / devices;
}

/* ---- Set-up ---- */

static void destroy(struct lk_model *m)
{
    struct lk_replicas *r = m->replicas;

    for (size_t i = 0; i < r->n; i++)
        lk_stream_destroy(r->others[i].stream); /* first, so that nothing runs on freed memory */
    for (size_t i = 0; i < r->n; i++) {
        struct replica *x = &r->others[i];

        lk_model_destroy(x->model);
        lk_event_destroy(x->done);
        lk_device_free(m->device, x->inputs);
        lk_device_free(m->device, x->targets);
        lk_device_free(m->device, x->gradients);
    }
    lk_event_destroy(r->ready);
    lk_device_free(m->device, r->staging);
    m->ops = r->inner;
    free(r->others);
    free(r);
    m->replicas = NULL;
    m->ops->destroy(m);
}

static enum lk_status open_replica(struct lk_model *m, const struct lk_model_config *config,
                                   struct replica *x, size_t number)
{
    size_t real = lk_device_real_bytes(m->device), elems = 0,
           samples = (size_t)chunk_of(m, m->max_samples);
    struct lk_track_info track = {.kind = LK_TRACK_COMPUTE, .stream = 16 + (int)number};
    struct lk_model_config c = *config;
    char name[32];

    snprintf(name, sizeof name, "device %zu", number);
    track.name = name;
    c.blank = true; /* the weights come with every micro-batch */
    c.max_samples = chunk_of(m, m->max_samples);
    LK_PASS(lk_stream_create(m->device, &track, &x->stream));
    LK_PASS(lk_event_create(m->device, &x->done));
    LK_PASS(lk_model_create(m->device, x->stream, &c, &x->model));
    for (size_t p = 0; p < m->n_params; p++)
        elems += m->params[p].elems;
    LK_PASS(lk_device_alloc(m->device, elems * real, &x->gradients));
    for (size_t p = 0, at = 0; p < m->n_params; at += m->params[p++].elems)
        x->model->params[p].grad = (char *)x->gradients + at * real;
    LK_PASS(lk_device_alloc(
        m->device, samples * lk_sample_inputs(&m->sample) * lk_dtype_bytes(m->sample.dtype),
        &x->inputs));
    return lk_device_alloc(m->device, samples * (size_t)m->sample.targets * sizeof(int32_t),
                           &x->targets);
}

/* ---- Passes ---- */

/* Copy a chunk of the batch to a device, and device 0's weights and buffers. */
static enum lk_status send(struct lk_model *m, const struct lk_batch *batch, int first,
                           struct replica *x)
{
    size_t row = lk_sample_inputs(&batch->shape) * lk_dtype_bytes(batch->shape.dtype);
    size_t targets = (size_t)batch->shape.targets, samples = (size_t)x->batch.samples;
    const struct lk_model *to = x->model;

    x->batch.inputs = x->inputs;
    x->batch.targets = x->targets;
    LK_PASS(lk_stream_copy(x->stream, x->inputs, (const char *)batch->inputs + (size_t)first * row,
                           samples * row));
    LK_PASS(lk_stream_copy(x->stream, x->targets, batch->targets + (size_t)first * targets,
                           samples * targets * sizeof *batch->targets));
    LK_PASS(lk_stream_copy(x->stream, to->weights, m->weights, m->weights_bytes));
    if (!m->n_buffers)
        return LK_OK;
    return lk_stream_copy(x->stream, to->buffers[0].data, m->buffers[0].data,
                          m->buffer_elems * lk_device_wide_bytes(m->device));
}

static enum lk_status forward(struct lk_model *m, const struct lk_batch *batch, double seed)
{
    struct lk_replicas *r = m->replicas;
    int chunk = chunk_of(m, batch->samples), first = chunk;

    LK_PASS(lk_event_record(r->ready, m->stream));
    r->own = *batch;
    r->own.samples = chunk;
    r->own_share = (double)chunk / batch->samples;
    for (size_t i = 0; i < r->n; i++, first += chunk) {
        struct replica *x = &r->others[i];
        int left = batch->samples - first;

        x->batch = *batch;
        x->batch.samples = left > chunk ? chunk : left > 0 ? left : 0;
        x->share = (double)x->batch.samples / batch->samples;
        if (!x->batch.samples)
            continue;
        LK_PASS(lk_stream_wait(x->stream, r->ready));
        LK_PASS(send(m, batch, first, x));
        LK_PASS(x->model->ops->forward(x->model, &x->batch, seed * x->share));
        LK_PASS(lk_event_record(x->done, x->stream));
    }
    LK_PASS(r->inner->forward(m, &r->own, seed * r->own_share));
    LK_PASS(LK_LAUNCH(m->stream, scale, .x = m->loss, .n = 1, .factor = r->own_share));
    for (size_t i = 0; i < r->n; i++) {
        struct replica *x = &r->others[i];

        if (!x->batch.samples)
            continue;
        LK_PASS(lk_stream_wait(m->stream, x->done));
        LK_PASS(LK_LAUNCH(m->stream, axpy, .y = m->loss, .x = x->model->loss, .n = 1,
                          .factor = x->share));
    }
    return LK_OK;
}

/* Add a device's gradients to device 0's, one by one through the staging memory. */
static enum lk_status add_gradients(struct lk_model *m, const struct replica *x)
{
    const struct lk_replicas *r = m->replicas;

    LK_PASS(lk_stream_wait(m->stream, x->done));
    for (size_t p = 0; p < m->n_params; p++) {
        size_t n = m->params[p].elems;

        LK_PASS(lk_stream_copy(m->stream, r->staging, x->model->params[p].grad,
                               n * lk_device_real_bytes(m->device)));
        LK_PASS(LK_LAUNCH(m->stream, axpy, .y = m->params[p].grad, .x = r->staging, .n = n,
                          .factor = 1));
    }
    return LK_OK;
}

static enum lk_status backward(struct lk_model *m, const struct lk_batch *batch, double seed,
                               bool accumulate, const struct lk_grad_hook *hook)
{
    struct lk_replicas *r = m->replicas;

    (void)batch; /* its chunks are where forward put them */
    LK_PASS(lk_event_record(r->ready, m->stream));
    for (size_t i = 0; i < r->n; i++) {
        struct replica *x = &r->others[i];

        if (!x->batch.samples)
            continue;
        LK_PASS(lk_stream_wait(x->stream, r->ready));
        LK_PASS(x->model->ops->backward(x->model, &x->batch, seed * x->share, false, NULL));
        LK_PASS(lk_event_record(x->done, x->stream));
    }
    LK_PASS(r->inner->backward(m, &r->own, seed * r->own_share, accumulate, NULL));
    for (size_t i = 0; i < r->n; i++)
        if (r->others[i].batch.samples)
            LK_PASS(add_gradients(m, &r->others[i]));
    for (size_t p = m->n_params; hook && p-- > 0;)
        LK_PASS(hook->ready(hook->ctx, p));
    return LK_OK;
}

enum lk_status lk_model_replicate(struct lk_model *m, const struct lk_model_config *config, int n)
{
    struct lk_device *d = m->device;
    struct lk_replicas *r = NULL;
    enum lk_status st = LK_OK;
    size_t largest = 0;

    if (!lk_device_uses_host_memory(d) || m->masters || m->synchronises || m->ops->update)
        return lk_fail(LK_EUNSUPPORTED,
                       "model %s on %d devices of one process: on the CPU alone, and not where it "
                       "synchronises or replays",
                       config->name, n);
    LK_TRY(lk_alloc(&r, 1, sizeof *r));
    LK_TRY(lk_alloc(&r->others, (size_t)n - 1, sizeof *r->others));
    r->n = (size_t)n - 1;
    r->inner = m->ops;
    r->ops = *m->ops;
    r->ops.destroy = destroy;
    r->ops.forward = forward;
    r->ops.backward = backward;
    r->ops.probe = NULL;
    m->ops = &r->ops;
    m->replicas = r; /* m destroys it from here on */
    LK_TRY(lk_event_create(d, &r->ready));
    for (size_t p = 0; p < m->n_params; p++)
        largest = m->params[p].elems > largest ? m->params[p].elems : largest;
    LK_TRY(lk_device_alloc(d, largest * lk_device_real_bytes(d), &r->staging));
    for (size_t i = 0; i < r->n; i++)
        LK_TRY(open_replica(m, config, &r->others[i], i + 1));
    r = NULL;
out:
    if (r && !m->replicas)
        free(r);
    return st;
}
