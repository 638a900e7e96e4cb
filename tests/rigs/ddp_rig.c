/* Ranks as threads; see the header. */
#include "tests/rigs/ddp_rig.h"

#include "base/array.h"
#include "kernels/ops.h"
#include "runtime/train/early.h"
#include "tests/rigs/waits.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t timeout_ns = WAIT_PLENTY_NS;

const size_t rig_elems[RIG_PARAMS] = {3, 64, 1, 17, 200, 5, 128, 31, 2};
static const char *const names[RIG_PARAMS] = {"embed.weight", "a.weight", "a.bias",
                                              "b.weight",     "c.weight", "c.bias",
                                              "d.weight",     "e.weight", "e.bias"};

/* ---- The communicator ---- */

struct rig_comm {
    struct lk_comm base;
    struct rig_rank *owner;
};

static void hub_break(struct rig_hub *hub)
{
    pthread_mutex_lock(&hub->lock);
    hub->broken = true;
    pthread_cond_broadcast(&hub->cond);
    pthread_mutex_unlock(&hub->lock);
}

static enum lk_status meet(struct rig_hub *hub)
{
    struct timespec at = lk_deadline_timespec(lk_deadline_in(timeout_ns));
    enum lk_status st = LK_OK;
    unsigned round;

    pthread_mutex_lock(&hub->lock);
    round = hub->round;
    if (++hub->arrived == hub->ranks) {
        hub->arrived = 0;
        hub->round++;
        pthread_cond_broadcast(&hub->cond);
    }
    while (hub->round == round && !hub->broken && st == LK_OK)
        if (pthread_cond_clockwait(&hub->cond, &hub->lock, CLOCK_MONOTONIC, &at))
            st = lk_fail(LK_ETIMEOUT, "a rank did not come");
    if (hub->round == round && st == LK_OK)
        st = lk_fail(LK_EPEER, "another rank has failed");
    pthread_mutex_unlock(&hub->lock);
    return st;
}

/* Sums in rank order, so that all ranks get the same bits. */
static void sum_all(const struct rig_hub *hub, const struct lk_coll_call *call, void *sums)
{
    for (size_t i = 0; i < call->count; i++) {
        if (call->dtype == LK_F64) {
            double sum = 0;

            for (int r = 0; r < hub->ranks; r++)
                sum += ((const double *)hub->calls[r]->buf)[i];
            ((double *)sums)[i] = sum;
        } else {
            float sum = 0;

            for (int r = 0; r < hub->ranks; r++)
                sum += ((const float *)hub->calls[r]->buf)[i];
            ((float *)sums)[i] = sum;
        }
    }
}

static void gather_all(const struct rig_hub *hub, size_t part, void *out)
{
    for (int r = 0; r < hub->ranks; r++)
        memcpy((char *)out + (size_t)r * part, (const char *)hub->calls[r]->buf + (size_t)r * part,
               part);
}

static enum lk_status rig_comm_run(struct lk_comm *c, const struct lk_coll_call *call, uint64_t seq)
{
    struct rig_rank *own = ((struct rig_comm *)c)->owner;
    struct rig_hub *hub = own->hub;
    size_t bytes = call->count * lk_dtype_bytes(call->dtype);
    size_t whole = call->coll == LK_ALL_GATHER ? bytes * (size_t)hub->ranks : bytes;
    void *result = NULL;
    enum lk_status st = LK_OK;

    (void)seq;
    if (own->n_calls < RIG_CALLS_MAX)
        own->calls[own->n_calls++] = (struct rig_call){call->coll, call->index, call->count};
    hub->calls[own->rank] = call;
    LK_TRY(meet(hub));
    if (call->coll != hub->calls[0]->coll || call->count != hub->calls[0]->count ||
        call->index != hub->calls[0]->index)
        LK_TRY(lk_fail(LK_EINTERNAL, "the ranks issue different collectives"));
    LK_TRY(lk_alloc(&result, whole, 1));
    if (call->coll == LK_ALL_REDUCE)
        sum_all(hub, call, result);
    else if (call->coll == LK_ALL_GATHER)
        gather_all(hub, bytes, result);
    else
        memcpy(result, hub->calls[call->root]->buf, bytes);
    LK_TRY(meet(hub));
    memcpy(call->buf, result, whole);
    LK_TRY(meet(hub));
    if (call->coll == LK_ALL_REDUCE && call->index == 0)
        atomic_fetch_add(&hub->first_bucket_done, 1);
out:
    free(result);
    if (st != LK_OK)
        hub_break(hub);
    return st;
}

static void rig_comm_close(struct lk_comm *c)
{
    free(c);
}

static const struct lk_comm_ops rig_comm_ops = {
    .name = "rig", .run = rig_comm_run, .close = rig_comm_close};

/* ---- The model ---- */

/* Return one term of a gradient. It depends on the weight and the step, so that an error in one
 * step shows in the next; and it looks random, so that no two parameters or samples are alike. */
static double term(size_t param, size_t i, int32_t input, int32_t target)
{
    uint64_t h = (param + 1) * 0x9e3779b97f4a7c15U + i * 0xbf58476d1ce4e5b9U +
                 (uint64_t)input * 0x94d049bb133111ebU + (uint64_t)target * 0xd6e8feb86659fd93U;

    h ^= h >> 32;
    h *= 0xd6e8feb86659fd93U;
    return (double)(h >> 40) / (double)(1 << 24) - 0.4;
}

double rig_gradient(size_t param, size_t i, double weight, const struct lk_batch *batch)
{
    size_t tokens = (size_t)batch->samples * (size_t)batch->shape.width;
    const int32_t *inputs = batch->inputs;
    double sum = 0;

    for (size_t t = 0; t < tokens; t++)
        sum += term(param, i, inputs[t], batch->targets[t]) * (1 + weight / 4);
    return sum / (double)tokens;
}

struct grad_args {
    lk_real *grad;
    const lk_real *weight;
    const lk_real *next; /* NULL, or the next parameter's weights, whose first is read, too */
    struct lk_batch batch;
    size_t param, elems;
    double seed;
    struct rig_hub *waits; /* NULL, or until the first bucket of `round` is reduced */
    int round;
    bool accumulate;
};

static void wait_for_first_bucket(const struct grad_args *a)
{
    struct lk_deadline deadline = lk_deadline_in(timeout_ns);

    while (atomic_load(&a->waits->first_bucket_done) < a->round && lk_deadline_left_ns(deadline))
        lk_sleep_until_ns(lk_monotonic_ns() + LK_NS_PER_US * 100);
    if (atomic_load(&a->waits->first_bucket_done) < a->round)
        hub_break(a->waits); /* no overlap */
}

static void grad_cpu(const void *args)
{
    const struct grad_args *a = args;
    float *grad = a->grad;
    const float *weight = a->weight, *next = a->next;

    if (a->waits)
        wait_for_first_bucket(a);
    for (size_t i = 0; i < a->elems; i++) {
        float g = (float)(a->seed * rig_gradient(a->param, i, (double)weight[i], &a->batch));

        g += next ? (float)a->seed * 0x1p-10F * next[0] : 0;

        grad[i] = a->accumulate ? grad[i] + g : g;
    }
}

static void grad_ref(const void *args)
{
    const struct grad_args *a = args;
    double *grad = a->grad;
    const double *weight = a->weight, *next = a->next;

    for (size_t i = 0; i < a->elems; i++) {
        double g = a->seed * rig_gradient(a->param, i, weight[i], &a->batch);

        g += next ? a->seed * 0x1p-10 * next[0] : 0;

        grad[i] = a->accumulate ? grad[i] + g : g;
    }
}

static struct lk_op_cost grad_cost(const void *args)
{
    (void)args;
    return (struct lk_op_cost){0};
}

static const struct lk_op grad_op = {.name = "rig_gradient",
                                     .args_bytes = sizeof(struct grad_args),
                                     .cpu = grad_cpu,
                                     .ref = grad_ref,
                                     .cost = grad_cost};

struct rig_model {
    struct lk_model base;
    struct lk_param params[RIG_PARAMS];
    struct rig_rank *owner; /* NULL: the reference */
    bool crosses;           /* an op reads the next parameter's weights, too */
    int backwards;          /* so far */
    double loss;
};

static enum lk_status rig_forward(struct lk_model *m, const struct lk_batch *batch, double seed)
{
    (void)m;
    (void)batch;
    (void)seed;
    return LK_OK;
}

static enum lk_status report(const struct rig_rank *own, const struct lk_grad_hook *hook, size_t p)
{
    enum lk_status st = LK_OK;

    if ((int)p != own->skip)
        LK_TRY(hook->ready(hook->ctx, p));
    if ((int)p == own->twice)
        LK_TRY(hook->ready(hook->ctx, p));
out:
    return st;
}

/* Release the parameters whose readers have all been enqueued. */
static enum lk_status release(const struct rig_model *m, const struct lk_grad_hook *hook,
                              const bool *done, bool *released)
{
    enum rig_release how = m->owner->config->release;
    enum lk_status st = LK_OK;

    for (size_t p = 0; p < RIG_PARAMS && how != RIG_RELEASE_NONE; p++) {
        size_t before = (p + RIG_PARAMS - 1) % RIG_PARAMS;

        if (released[p] || !done[p] || (m->crosses && !done[before]) ||
            (how == RIG_RELEASE_SOME && p % 3 == 0))
            continue;
        released[p] = true;
        LK_TRY(hook->released(hook->ctx, p));
        if (how == RIG_RELEASE_TWICE)
            LK_TRY(hook->released(hook->ctx, p));
    }
out:
    return st;
}

/* Report the parameters at positions 0 and 1, 2 and 3, ... of the order together, as a layer norm's
 * weight and bias, which one op computes. */
static enum lk_status rig_backward(struct lk_model *m, const struct lk_batch *batch, double seed,
                                   bool accumulate, const struct lk_grad_hook *hook)
{
    struct rig_model *model = (struct rig_model *)m;
    struct rig_rank *own = model->owner;
    bool done[RIG_PARAMS] = {false}, released[RIG_PARAMS] = {false};
    enum lk_status st = LK_OK;

    model->backwards++;
    for (size_t k = 0; k < RIG_PARAMS; k++) {
        size_t p = own ? own->order[k] : k;
        struct grad_args a = {.grad = m->params[p].grad,
                              .weight = m->params[p].data,
                              .next = model->crosses ? m->params[(p + 1) % RIG_PARAMS].data : NULL,
                              .batch = *batch,
                              .param = p,
                              .elems = m->params[p].elems,
                              .seed = seed,
                              .round = model->backwards * (own ? own->hub->ranks : 1),
                              .accumulate = accumulate};

        /* The first step may have one bucket, which cannot overlap. */
        if (own && own->hub->last_gradient_waits && k == RIG_PARAMS - 1 && model->backwards > 1)
            a.waits = own->hub;
        LK_TRY(lk_stream_launch(m->stream, &grad_op, &a));
        if (hook && k % 2)
            LK_TRY(report(own, hook, own->order[k - 1]));
        done[p] = true;
        if (hook && own->config->release == RIG_RELEASE_AT_ONCE)
            LK_TRY(release(model, hook, done, released));
        if (hook && (k % 2 || k == RIG_PARAMS - 1))
            LK_TRY(report(own, hook, p));
        if (hook)
            LK_TRY(release(model, hook, done, released));
    }
out:
    return st;
}

static void rig_model_destroy(struct lk_model *m)
{
    struct rig_model *model = (struct rig_model *)m; /* a test may have changed m->n_params */

    for (size_t p = 0; p < RIG_PARAMS; p++)
        lk_device_free(m->device, model->params[p].data);
    free(model);
}

static const struct lk_model_ops rig_model_ops = {
    .name = "rig", .destroy = rig_model_destroy, .forward = rig_forward, .backward = rig_backward};

static enum lk_status rig_model_create(struct lk_device *d, struct lk_stream *s,
                                       const struct lk_model_config *config, struct lk_model **out)
{
    struct rig_model *m = NULL;
    enum lk_status st = LK_OK;

    LK_TRY(lk_alloc(&m, 1, sizeof *m));
    m->crosses = config->layers > 0;
    m->base = (struct lk_model){.ops = &rig_model_ops,
                                .device = d,
                                .stream = s,
                                .params = m->params,
                                .n_params = RIG_PARAMS,
                                .sample = lk_sample_text(RIG_CONTEXT),
                                .positions = RIG_CONTEXT,
                                .vocab = RIG_VOCAB,
                                .loss = &m->loss};
    for (size_t p = 0; p < RIG_PARAMS; p++) {
        m->params[p].name = names[p];
        m->params[p].elems = rig_elems[p];
        LK_TRY(lk_device_alloc(d, rig_elems[p] * lk_device_real_bytes(d), &m->params[p].data));
    }
    *out = &m->base;
    m = NULL;
out:
    if (m)
        rig_model_destroy(&m->base);
    return st;
}

/* Set weights that differ on every rank: the reducer has to broadcast rank 0's. */
static void set_weights(struct rig_rank *r)
{
    for (size_t p = 0; p < RIG_PARAMS; p++)
        for (size_t i = 0; i < rig_elems[p]; i++) {
            double w = 0.01 * (double)(i % 7) + r->rank;

            if (lk_device_real_bytes(r->device) == sizeof(double))
                ((double *)r->model->params[p].data)[i] = w;
            else
                ((float *)r->model->params[p].data)[i] = (float)w;
        }
}

/* ---- The loop ---- */

/* The rig's models have layers if their ops read the next parameter's weights. */
static struct lk_model_config model_config(const struct rig_case *c)
{
    return (struct lk_model_config){.layers = c->release == RIG_RELEASE_LATE ||
                                              c->release == RIG_RELEASE_SOME};
}

static enum lk_status open_rank(struct rig_rank *r)
{
    const struct rig_case *c = r->config;
    const struct lk_track_info compute = {.name = "compute", .kind = LK_TRACK_COMPUTE};
    const struct lk_track_info net = {.name = "net", .kind = LK_TRACK_COMM, .stream = 1};
    const struct lk_track_info update = {.name = "update", .kind = LK_TRACK_UPDATE, .stream = 2};
    const struct lk_device_config dc = {.timed_flops = 1e12, .timed_Bps = 1e12, .slowdown = 1};
    const struct lk_loader_config lc = {
        .dataset = r->dataset,
        .sampler = {.ranks = c->ranks,
                    .rank = c->plant == LK_PLANT_SHARED_SHARD ? 0 : r->rank,
                    .shuffle = true,
                    .seed = 3},
        .local_batch = RIG_LOCAL_BATCH,
        .accumulation = c->accumulation};
    const struct lk_model_config mc = model_config(c);
    struct rig_comm *comm;
    enum lk_status st = LK_OK;

    LK_TRY(lk_device_open(c->device, &dc, &r->device));
    LK_TRY(lk_stream_create(r->device, &compute, &r->compute));
    LK_TRY(lk_stream_create(r->device, &net, &r->net));
    if (c->early)
        LK_TRY(lk_stream_create(r->device, &update, &r->update));
    LK_TRY(rig_model_create(r->device, r->compute, &mc, &r->model));
    ((struct rig_model *)r->model)->owner = r;
    set_weights(r);
    if (c->prepare)
        c->prepare(r);
    LK_TRY(lk_loader_create(r->device, &lc, &r->loader));
    LK_TRY(lk_alloc(&comm, 1, sizeof *comm));
    comm->base.ops = &rig_comm_ops;
    comm->base.rank = r->rank;
    comm->base.world_size = c->ranks;
    comm->owner = r;
    r->comm = &comm->base;
out:
    return st;
}

static enum lk_status update_bucket(void *ctx, size_t bucket)
{
    struct rig_rank *r = ctx;

    r->n_updates++;
    return lk_optim_update(r->optim, r->update, bucket);
}

static enum lk_status open_ddp(struct rig_rank *r)
{
    const struct rig_case *c = r->config;
    const struct lk_early_config early = {r->update, update_bucket, r};
    const struct lk_reducer_config rc = {.comm = r->comm,
                                         .compute = r->compute,
                                         .net = r->net,
                                         .ddp_rule = c->rule,
                                         .first_bytes = c->first_bytes,
                                         .cap_bytes = c->cap_bytes,
                                         .accumulation = c->accumulation,
                                         .no_sync = c->no_sync,
                                         .noise_every = c->noise_every,
                                         .plant = c->plant,
                                         .early = r->update ? &early : NULL,
                                         .timeout_ns = timeout_ns};
    const struct lk_verify_config vc = {.comm = r->comm,
                                        .compute = r->compute,
                                        .model = r->model,
                                        .model_config = model_config(c),
                                        .create = rig_model_create,
                                        .dataset = r->dataset,
                                        .shares = {.sampler = {.shuffle = true, .seed = 3},
                                                   .local_batch = RIG_LOCAL_BATCH,
                                                   .accumulation = c->accumulation},
                                        .timeout_ns = timeout_ns};
    const struct lk_optim_config oc = {.kind = LK_OPTIM_SGD, .learning_rate = 0.5};
    enum lk_status st = LK_OK;

    LK_TRY(lk_reducer_create(&rc, r->model->params, r->model->n_params, &r->reducer));
    LK_TRY(lk_optim_create(r->device, &oc, r->model->params, r->model->n_params, &r->optim));
    if (c->verify)
        LK_TRY(lk_verify_create(&vc, &r->verify));
out:
    return st;
}

static enum lk_status train_step(struct rig_rank *r, uint32_t step)
{
    const struct rig_case *c = r->config;
    const struct lk_grad_hook hook = lk_reducer_hook(r->reducer);
    struct lk_batch batch;
    enum lk_status st = LK_OK;

    if (r->verify)
        LK_TRY(lk_verify_step_begin(r->verify));
    lk_stream_set_step(r->compute, step);
    LK_TRY(lk_reducer_step_begin(r->reducer, step, c->accumulation));
    lk_optim_begin(r->optim, r->model->params, lk_reducer_buckets(r->reducer), 0.5, step + 1, 1);
    r->n_updates = 0;
    for (int m = 0; m < c->accumulation; m++) {
        LK_TRY(lk_loader_next(r->loader, lk_deadline_in(timeout_ns), &batch));
        LK_TRY(r->model->ops->forward(r->model, &batch, NAN));
        LK_TRY(lk_reducer_backward_begin(r->reducer, m));
        LK_TRY(
            r->model->ops->backward(r->model, &batch, lk_reducer_seed(r->reducer), m > 0, &hook));
        LK_TRY(lk_reducer_backward_end(r->reducer));
    }
    if (!r->update)
        LK_TRY(lk_optim_update(r->optim, r->compute, LK_OPTIM_ALL));
    LK_TRY(lk_stream_sync(r->compute, lk_deadline_in(timeout_ns)));
    if (c->before_verify)
        c->before_verify(r, step);
    if (r->verify)
        LK_TRY(lk_verify_step_end(r->verify, step, 1));
    if (c->after_step)
        c->after_step(r, step);
out:
    return st;
}

static enum lk_status run_rank(struct rig_rank *r)
{
    enum lk_status st = LK_OK;

    LK_TRY(open_rank(r));
    LK_TRY(open_ddp(r));
    for (int step = 0; step < r->config->steps; step++)
        LK_TRY(train_step(r, (uint32_t)step));
    if (r->verify) {
        r->max_error = lk_verify_max_error(r->verify);
        r->bound = lk_verify_bound(r->verify);
    }
out:
    return st;
}

static void *rank_main(void *arg)
{
    struct rig_rank *r = arg;

    r->st = run_rank(r);
    if (r->st != LK_OK) {
        snprintf(r->text, sizeof r->text, "%s", lk_error_text());
        if (r->device)
            lk_device_fail(r->device, r->st, r->text);
        hub_break(r->hub);
    }
    lk_stream_destroy(r->update);
    lk_stream_destroy(r->net);
    lk_stream_destroy(r->compute);
    return NULL;
}

void rig_run(const struct rig_case *config, struct rig_rank *ranks)
{
    const struct lk_sample_shape shape = lk_sample_text(RIG_CONTEXT);
    static struct rig_case filled; /* outlives the call: the ranks point to it */
    static struct rig_hub hub;
    pthread_t threads[RIG_RANKS_MAX];
    struct lk_dataset *dataset = NULL;

    filled = *config;
    filled.device = filled.device ? filled.device : "cpu";
    filled.ranks = filled.ranks ? filled.ranks : 1;
    filled.accumulation = filled.accumulation ? filled.accumulation : 1;
    filled.steps = filled.steps ? filled.steps : 3;
    filled.cap_bytes = filled.cap_bytes ? filled.cap_bytes : UINT64_MAX;
    filled.first_bytes = filled.first_bytes ? filled.first_bytes : filled.cap_bytes;
    memset(&hub, 0, sizeof hub);
    pthread_mutex_init(&hub.lock, NULL);
    pthread_cond_init(&hub.cond, NULL);
    hub.ranks = filled.ranks;
    hub.last_gradient_waits = filled.overlap;
    if (lk_dataset_synthetic(RIG_SAMPLES, &shape, RIG_VOCAB, 5, &dataset) != LK_OK)
        abort();
    for (int i = 0; i < filled.ranks; i++) {
        ranks[i] = (struct rig_rank){.config = &filled,
                                     .hub = &hub,
                                     .rank = i,
                                     .dataset = dataset,
                                     .skip = -1,
                                     .twice = -1,
                                     .note = ranks[i].note};
        for (size_t p = 0; p < RIG_PARAMS; p++)
            ranks[i].order[p] = RIG_PARAMS - 1 - p; /* as backward does */
        if (pthread_create(&threads[i], NULL, rank_main, &ranks[i]))
            abort();
    }
    for (int i = 0; i < filled.ranks; i++)
        pthread_join(threads[i], NULL);
}

void rig_free(struct rig_rank *ranks, int n)
{
    lk_dataset_destroy(ranks[0].dataset);
    for (int i = 0; i < n; i++) {
        struct rig_rank *r = &ranks[i];

        lk_loader_destroy(r->loader);
        lk_verify_destroy(r->verify);
        lk_optim_destroy(r->optim);
        lk_reducer_destroy(r->reducer);
        lk_comm_close(r->comm);
        lk_model_destroy(r->model);
        lk_device_close(r->device);
        lk_bucket_plan_fini(&r->plan);
    }
}
