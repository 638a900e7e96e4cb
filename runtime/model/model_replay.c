/*
 * The model "replay": a step of job.json in which waits replace the computation.
 *
 * Forward is one wait; backward is a wait up to each tensor's ready time, in the order in which
 * they become ready, so that real buckets of the job's bytes fill and are all-reduced when the
 * job's would be; the optimizer is a wait. SyncBatchNorm's all-gathers and all-reduces really run
 * at its layers, and the next wait starts after them. Waits take time on a "timed" device only
 * (kernels/ops.h: wait).
 *
 * In sharded training a pass uses a tensor while its share of backward lasts, that is from the
 * ready time before its own to its own; in forward the same share, from the end.
 *
 * A tensor of another type than float32 gets as many float32 elements as make the same bytes
 * (rounded up), since gradients here are float32.
 */
#include "base/array.h"
#include "base/log.h"
#include "facts/job.h"
#include "kernels/ops.h"
#include "runtime/comm/comm.h"
#include "runtime/model/model_impl.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS = 256 };

struct replay {
    struct lk_model model;
    struct lk_job job;
    size_t *order; /* tensors by ready time */
    /* SyncBatchNorm; NULL: no layer has it, or there is one rank, for which PyTorch skips it
     * too. */
    struct lk_comm *comm; /* borrowed, as the stream */
    struct lk_stream *net;
    void *statistics;        /* buffer for all ranks' statistics of the widest layer */
    struct lk_event **there; /* layer i reached: in forward at 2 i, in backward at 2 i + 1 */
    struct lk_event *back;
};

/* Times of one micro-batch. */
struct times {
    double forward_s, backward_s, input_s, gap_s;
};

static double between(double a, double b, double share)
{
    return a + share * (b - a);
}

/* Look up the times at a local batch; between measured batches linear, never beyond them. */
static enum lk_status times_at(const struct lk_job *job, int batch, struct times *out)
{
    size_t i = 0;

    while (i < job->n_compute && job->compute[i].local_batch < batch)
        i++;
    if (i == job->n_compute || (i == 0 && job->compute[0].local_batch != batch))
        return lk_fail(LK_EEVIDENCE, "the job has compute times from local batch %d to %d, not %d",
                       job->compute[0].local_batch, job->compute[job->n_compute - 1].local_batch,
                       batch);
    out->forward_s = job->compute[i].forward_s.value;
    out->backward_s = job->compute[i].backward_s.value;
    out->input_s = job->compute[i].input_s.value;
    out->gap_s = job->compute[i].gap_s.value;
    if (job->compute[i].local_batch != batch) {
        const struct lk_job_compute *a = &job->compute[i - 1];
        const struct lk_job_compute *b = &job->compute[i];
        double share = (double)(batch - a->local_batch) / (b->local_batch - a->local_batch);

        out->forward_s = between(a->forward_s.value, b->forward_s.value, share);
        out->backward_s = between(a->backward_s.value, b->backward_s.value, share);
        out->input_s = between(a->input_s.value, b->input_s.value, share);
        out->gap_s = between(a->gap_s.value, b->gap_s.value, share);
    }
    return LK_OK;
}

static enum lk_status wait_s(struct lk_model *m, double seconds)
{
    return seconds > 0 ? LK_LAUNCH(m->stream, wait, .seconds = seconds) : LK_OK;
}

/*
 * Enqueue one layer's collective; later work on the compute stream waits for its end. Forward
 * gathers mean, inverse deviation and count of every channel, backward sums two gradients
 * (torch/nn/modules/_functions.py).
 */
static enum lk_status exchange(struct replay *r, size_t layer, bool backward)
{
    size_t channels = (size_t)r->job.sync_bn[layer].channels;
    const struct lk_coll_call call = {.coll = backward ? LK_ALL_REDUCE : LK_ALL_GATHER,
                                      .dtype = LK_F32,
                                      .buf = r->statistics,
                                      .count = 2 * channels + !backward,
                                      .index = -1,
                                      .ready = r->there ? r->there[2 * layer + backward] : NULL};

    return r->comm ? lk_comm_between(r->comm, r->model.stream, r->net, r->back, &call) : LK_OK;
}

/* Continue forward up to this share of its time; run the exchanges of layers on the way. */
static enum lk_status forward_to(struct replay *r, const struct times *t, double share,
                                 double *reached, size_t *layer)
{
    for (; *layer < r->job.n_sync_bn && r->job.sync_bn[*layer].at <= share; ++*layer) {
        double at = r->job.sync_bn[*layer].at;

        LK_PASS(wait_s(&r->model, (at - *reached) * t->forward_s));
        *reached = at;
        LK_PASS(exchange(r, *layer, false));
    }
    LK_PASS(wait_s(&r->model, (share - *reached) * t->forward_s));
    *reached = share;
    return LK_OK;
}

static enum lk_status forward(struct lk_model *m, const struct lk_batch *batch, double seed)
{
    struct replay *r = (struct replay *)m;
    struct times t = {0};
    double reached = 0;
    size_t layer = 0;

    (void)seed;
    LK_PASS(times_at(&r->job, batch->samples, &t));
    for (size_t i = m->uses.need ? m->n_params : 0; i-- > 0;) {
        double before = i ? r->job.tensors[r->order[i - 1]].ready : 0;

        LK_PASS(lk_model_need(m, r->order[i], 1));
        LK_PASS(forward_to(r, &t, 1 - before, &reached, &layer));
        LK_PASS(lk_model_done(m, r->order[i], 1));
    }
    return forward_to(r, &t, 1, &reached, &layer);
}

/* Continue backward up to this share of its time; run the exchanges of layers on the way, last
 * layers first. */
static enum lk_status backward_to(struct replay *r, const struct times *t, double share,
                                  double *reached, size_t *layers_left)
{
    while (*layers_left && 1 - r->job.sync_bn[*layers_left - 1].at <= share) {
        double at = 1 - r->job.sync_bn[--*layers_left].at;

        LK_PASS(wait_s(&r->model, (at - *reached) * t->backward_s));
        *reached = at;
        LK_PASS(exchange(r, *layers_left, true));
    }
    LK_PASS(wait_s(&r->model, (share - *reached) * t->backward_s));
    *reached = share;
    return LK_OK;
}

static enum lk_status backward(struct lk_model *m, const struct lk_batch *batch, double seed,
                               bool accumulate, const struct lk_grad_hook *hook)
{
    struct replay *r = (struct replay *)m;
    double reached = 0;
    size_t layers_left = r->job.n_sync_bn;
    struct times t = {0};

    (void)seed;
    (void)accumulate;
    LK_PASS(times_at(&r->job, batch->samples, &t));
    for (size_t i = 0; i < m->n_params; i++) {
        LK_PASS(lk_model_need(m, r->order[i], 1));
        LK_PASS(backward_to(r, &t, r->job.tensors[r->order[i]].ready, &reached, &layers_left));
        LK_PASS(lk_model_ready(m, hook, r->order[i]));
        LK_PASS(lk_model_done(m, r->order[i], 1));
    }
    return backward_to(r, &t, 1, &reached, &layers_left);
}

static enum lk_status update(struct lk_model *m)
{
    struct replay *r = (struct replay *)m;
    const struct lk_job *j = &r->job;

    /* The optimizer's time does not depend on the batch: take the first row's. */
    return wait_s(m, j->compute[0].optimizer_s.value * (m->uses.need ? m->uses.share : 1));
}

static enum lk_status join(struct lk_model *m, struct lk_comm *comm, struct lk_stream *net)
{
    struct replay *r = (struct replay *)m;
    size_t n = r->job.n_sync_bn, widest = 0, ranks = (size_t)lk_comm_world_size(comm);

    if (r->job.n_collectives && ranks > 1 && !lk_comm_rank(comm))
        lk_log(LK_LOG_TRAIN, LK_WARN,
               "%s has %zu collectives beside its gradients' (%s at %.2f, ...), which are not "
               "replayed: a step here is shorter by what they expose",
               r->job.name, r->job.n_collectives, r->job.collectives[0].function,
               r->job.collectives[0].at);
    if (!n || ranks == 1)
        return LK_OK;
    for (size_t i = 0; i < n; i++)
        if ((size_t)r->job.sync_bn[i].channels > widest)
            widest = (size_t)r->job.sync_bn[i].channels;
    LK_PASS(lk_device_alloc(m->device, ranks * (2 * widest + 1) * lk_dtype_bytes(LK_F32),
                            &r->statistics));
    LK_PASS(lk_alloc(&r->there, 2 * n, sizeof(struct lk_event *)));
    for (size_t i = 0; i < 2 * n; i++)
        LK_PASS(lk_event_create(m->device, &r->there[i]));
    LK_PASS(lk_event_create(m->device, &r->back));
    r->comm = comm;
    r->net = net;
    return LK_OK;
}

/* Sort tensors by ready time, stably: those ready at the same time keep the job's order. */
static void sort_by_ready(const struct lk_job *job, size_t *order)
{
    for (size_t i = 0; i < job->n_tensors; i++) {
        size_t tensor = job->ready_order[i];
        size_t at = i;

        for (; at > 0 && job->tensors[order[at - 1]].ready > job->tensors[tensor].ready; at--)
            order[at] = order[at - 1];
        order[at] = tensor;
    }
}

static enum lk_status make_params(struct replay *r)
{
    struct lk_model *m = &r->model;
    size_t real = lk_device_real_bytes(m->device), elems = 0;
    const bool has_shapes = lk_job_has_shapes(&r->job);

    LK_PASS(lk_alloc(&m->params, r->job.n_tensors, sizeof *m->params));
    LK_PASS(lk_alloc(&r->order, r->job.n_tensors, sizeof *r->order));
    sort_by_ready(&r->job, r->order);
    for (size_t i = 0; i < r->job.n_tensors; i++) {
        const struct lk_job_tensor *t = &r->job.tensors[i];
        struct lk_param *p = &m->params[i];

        p->name = t->name;
        p->elems = (size_t)((t->elems * lk_dtype_bytes(t->dtype) + 3) / 4);
        /* A row of gradients of two bytes has half the elements, of four bytes. */
        p->rows = (size_t)lk_tensor_rows(t, has_shapes);
        if (p->rows && p->elems % p->rows)
            p->rows = 0;
        elems += p->elems;
        m->n_params++;
    }
    m->weights_bytes = elems * real;
    LK_PASS(lk_device_alloc(m->device, m->weights_bytes, &m->weights));
    elems = 0;
    for (size_t i = 0; i < m->n_params; i++) {
        m->params[i].data = (char *)m->weights + elems * real;
        elems += m->params[i].elems;
    }
    return LK_OK;
}

static void destroy(struct lk_model *m)
{
    struct replay *r = (struct replay *)m;

    if (!r)
        return;
    lk_device_free(m->device, m->weights);
    free(m->params);
    for (size_t i = 0; r->there && i < 2 * r->job.n_sync_bn; i++)
        lk_event_destroy(r->there[i]);
    free(r->there);
    lk_event_destroy(r->back);
    lk_device_free(m->device, r->statistics);
    lk_device_free(m->device, m->loss);
    free(r->order);
    lk_job_fini(&r->job);
    free(r);
}

static enum lk_status create(struct lk_device *d, struct lk_stream *s,
                             const struct lk_model_config *config, struct lk_model **out)
{
    enum lk_status st = LK_OK;
    struct replay *r = NULL;
    struct times t = {0};

    if (!config->job)
        return lk_fail(LK_EUSAGE, "the model replay needs a job file");
    if (strcmp(lk_device_name(d), "timed") != 0)
        return lk_fail(LK_EUSAGE,
                       "the model replay waits instead of computing: it needs the "
                       "device timed, not %s",
                       lk_device_name(d));
    LK_TRY(lk_alloc(&r, 1, sizeof *r));
    r->model.ops = &lk_model_replay;
    r->model.device = d;
    r->model.stream = s;
    /* Tokens are not used: one per sample keeps the loader's share of the step small. */
    r->model.sample = lk_sample_text(1);
    r->model.vocab = TOKENS;
    LK_TRY(lk_job_read(config->job, &r->job));
    LK_TRY(make_params(r));
    /* Forward reports a local batch that the job does not have. */
    if (times_at(&r->job, config->max_samples, &t) == LK_OK)
        r->model.input_s = t.input_s;
    r->model.gap_s = t.gap_s;
    r->model.find_unused_parameters = r->job.find_unused_parameters;
    r->model.global_norm = r->job.global_norm;
    LK_TRY(lk_device_alloc(d, lk_device_wide_bytes(d), &r->model.loss));
    r->model.flops_per_sample = r->job.flops_per_sample.value;
    snprintf(r->model.sample_unit, sizeof r->model.sample_unit, "%s", r->job.sample_unit);
    snprintf(r->model.config_text, sizeof r->model.config_text, "replay of %s", r->job.name);
    *out = &r->model;
    r = NULL;
out:
    if (r)
        destroy(&r->model);
    return st;
}

const struct lk_model_ops lk_model_replay = {
    .name = "replay",
    .help = "a job.json, its compute waited for and its gradients really reduced",
    .create = create,
    .destroy = destroy,
    .forward = forward,
    .backward = backward,
    .update = update,
    .join = join,
};
