/* The set-up of a rank's training: device, streams, model, data, communicator, reducer. The trace's
 * header describes the first of these, and a run checks them before its ranks start. */
#include "runtime/train/trainer_impl.h"

#include "base/array.h"
#include "base/log.h"
#include "runtime/model/replicas.h"
#include "runtime/train/ddp.h"
#include "runtime/train/early.h"
#include "runtime/train/sharded.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Key of the trace's configuration: who runs attention. */
static const char ATTENTION_KEY[] = "gpu_attention";
/* Likewise: bytes of the optimizer's states on this rank. */
static const char STATE_KEY[] = "optimizer_state_bytes";

static enum lk_status open_streams(struct trainer *t)
{
    const struct lk_track_info host = {.name = "host", .kind = LK_TRACK_HOST};
    const struct lk_track_info compute = {
        .name = "compute stream", .kind = LK_TRACK_COMPUTE, .stream = 1};
    const struct lk_track_info net = {.name = "comm stream", .kind = LK_TRACK_COMM, .stream = 2};
    struct lk_device_config dc = t->config->device_config;

    dc.recorder = t->config->recorder;
    LK_PASS(lk_device_open(t->config->device, &dc, &t->device));
    t->computes = strcmp(lk_device_name(t->device), "timed") != 0;
    LK_PASS(lk_stream_create(t->device, &compute, &t->compute));
    LK_PASS(lk_stream_create(t->device, &net, &t->net));
    LK_PASS(lk_recorder_track(t->config->recorder, &host, &t->host));
#define NAME(counter, name)                                                                        \
    LK_PASS(lk_recorder_name(t->config->recorder, name, &t->counters[counter]));
    COUNTER_LIST(NAME)
#undef NAME
    return LK_OK;
}

/* pre: the device is open. */
static enum lk_status open_scaler(struct trainer *t)
{
    LK_PASS(lk_scaler_init(&t->scaler, &t->config->scaler, lk_device_real_dtype(t->device)));
    if (!lk_scaler_is_on(&t->scaler))
        return LK_OK;
    if (lk_sharding_traits(t->config->reducer.sharding)->pace != LK_PACE_STEP)
        return lk_fail(LK_EUNSUPPORTED,
                       "the loss is scaled, and ranks under %s do not share gradients in every "
                       "step: those of each would overflow in other ones",
                       lk_sharding_name(t->config->reducer.sharding));
    if (t->config->hook.compression == LK_COMPRESSION_POWERSGD)
        return lk_fail(LK_EUNSUPPORTED, "the loss is scaled, and powersgd keeps errors of "
                                        "gradients, which a change of the scale would not change");
    return LK_OK;
}

/* Open the device with its streams, the model, and the scale of its loss. */
static enum lk_status open_model(struct trainer *t, const struct lk_model_config *config)
{
    struct lk_model_config model = *config;

    model.blank = model.blank || t->config->import_path || t->config->checkpoint.resume;
    LK_PASS(open_streams(t));
    LK_PASS(lk_model_create(t->device, t->compute, &model, &t->model));
    if (*t->model->attention) /* decided now, after the run was described */
        LK_PASS(lk_recorder_fact(t->config->recorder, ATTENTION_KEY, t->model->attention));
    LK_PASS(lk_stream_sync(t->compute, lk_deadline_in(UINT64_MAX)));
    if (model.replicas > 1)
        LK_PASS(lk_model_replicate(t->model, &model, model.replicas));
    if (t->config->import_path)
        LK_PASS(lk_model_import(t->model, t->config->import_path));
    return open_scaler(t);
}

/* Open the data set. pre: the model is open. */
static enum lk_status open_dataset(struct trainer *t)
{
    const struct lk_train_config *c = t->config;

    if (!c->data)
        return lk_dataset_synthetic((size_t)c->samples, &t->model->sample, t->model->vocab, c->seed,
                                    &t->dataset);
    return lk_dataset_file(c->data, c->data_format, &t->model->sample, t->model->vocab,
                           &t->dataset);
}

static enum lk_status open_loader(struct trainer *t)
{
    const struct lk_train_config *c = t->config;
    struct lk_loader_config lc = {.compute = t->compute,
                                  .local_batch = c->local_batch,
                                  .depth = c->prefetch,
                                  .workers = c->workers,
                                  .accumulation = c->reducer.accumulation,
                                  .first = t->first_batch,
                                  .first_step = (uint64_t)t->course.first_step,
                                  .recorder = c->recorder,
                                  .delay_s = c->input_delay_s};

    LK_PASS(open_dataset(t));
    LK_PASS(lk_trainer_open_shares(t));
    lc.sampler = lk_trainer_sampler(t);
    /* A replayed job's input wait is the part that prefetching did not hide: do not hide it
     * again. */
    if (t->model->input_s > 0) {
        lc.delay_s = fmax(lc.delay_s, t->model->input_s);
        lc.depth = 0;
    }
    lc.dataset = t->dataset;
    if (c->reducer.plant == LK_PLANT_SHARED_SHARD)
        lc.sampler.rank = 0;
    LK_PASS(lk_loader_create(t->device, &lc, &t->loader));
    t->schedule = c->optim;
    lk_optim_set_epoch(&t->schedule, lk_shares_steps_an_epoch(t->shares));
    return LK_OK;
}

static enum lk_status open_verify(struct trainer *t, const struct lk_model_config *model)
{
    const struct lk_train_config *c = t->config;
    struct lk_verify_config vc = {.comm = t->comm,
                                  .compute = t->compute,
                                  .model = t->model,
                                  .model_config = *model,
                                  .dataset = t->dataset,
                                  .shares = lk_trainer_shares(t),
                                  .rounded = t->ranks > 1 && lk_hook_rounds(&c->hook),
                                  .wire = lk_hook_wire(&c->hook),
                                  .clip_norm = c->clip_norm,
                                  .timeout_ns = c->timeout_ns};

    return c->verify ? lk_verify_create(&vc, &t->verify) : LK_OK;
}

/* Return why steps cannot be launched as a graph, or NULL. */
static const char *graph_lacks(const struct trainer *t)
{
    const struct lk_train_config *c = t->config;

    if (!lk_device_has_graphs(t->device))
        return "the device has none";
    if (c->recorder)
        return "spans are recorded, and nothing tells the times within a graph";
    if (t->model->ops->update)
        return "the model replays a job";
    if (c->reducer.plant != LK_PLANT_NONE)
        return "a fault is planted";
    if (lk_averaging_is_on(&c->averaging))
        return "parameters are averaged, so that steps differ";
    if (lk_scaler_is_on(&t->scaler))
        return "the scale of the loss changes, and steps may be skipped";
    if (c->reducer.staleness)
        return "gradients are applied steps later, so that steps differ";
    if (lk_sharding_traits(c->reducer.sharding)->states)
        return "units of parameters take turns in buffers, so that steps differ";
    if (c->hook.compression == LK_COMPRESSION_POWERSGD)
        return "powersgd begins behind its first steps, so that steps differ";
    if (c->reducer.noise_every == 1)
        return "every step measures the gradients' norms";
    if (c->verify && c->verify_steps == 0)
        return "every step is verified";
    return lk_comm_can_capture(t->comm) ? NULL : "the collectives cannot be part of one";
}

static enum lk_status choose_graph(struct trainer *t)
{
    const char *lacks = graph_lacks(t);

    if (t->config->graph == LK_GRAPH_NO)
        return LK_OK;
    if (lacks && t->config->graph == LK_GRAPH_YES)
        return lk_fail(LK_EUNSUPPORTED, "steps cannot be launched as a graph: %s", lacks);
    if (lacks && lk_device_has_graphs(t->device) && t->rank == 0)
        lk_log(LK_LOG_TRAIN, LK_INFO, "steps are not launched as a graph: %s", lacks);
    t->uses_graph = !lacks;
    if (t->uses_graph)
        LK_PASS(lk_alloc(&t->batches, (size_t)t->config->reducer.accumulation, sizeof *t->batches));
    return LK_OK;
}

/* Return why parameters are not updated early, or NULL. pre: the model is open. */
static const char *early_lacks(const struct trainer *t)
{
    const struct lk_train_config *c = t->config;
    enum lk_fuse_wish wish = c->fuse.wish[LK_FUSE_OPTIMIZER];

    if (wish == LK_FUSE_NO)
        return "not asked for";
    if (lk_sharding_traits(c->reducer.sharding)->states)
        return "the sharding updates shards, which are not buckets";
    if (t->model->ops->update)
        return "the model replays a job";
    if (c->reducer.plant != LK_PLANT_NONE && c->reducer.plant != LK_PLANT_EARLY_UPDATE)
        return "a fault is planted";
    if (c->clip_norm > 0)
        return "gradients are clipped by the norm of all of them";
    if (lk_scaler_is_on(&t->scaler))
        return "the loss is scaled, and a step that overflows is not applied";
    if (c->reducer.staleness)
        return "gradients are applied steps later";
    /* A device without memory of its own has no processors of its own. */
    return wish == LK_FUSE_AUTO && lk_device_uses_host_memory(t->device)
               ? "the device's streams share the host's processors"
               : NULL;
}

/* Return true if the update waits for a number of all gradients. pre: the model is open. */
static bool needs_norm(const struct trainer *t)
{
    return t->config->clip_norm > 0 || lk_scaler_is_on(&t->scaler) || t->model->global_norm;
}

static enum lk_status open_squares(struct trainer *t)
{
    size_t wide = lk_device_wide_bytes(t->device);

    if (!needs_norm(t))
        return LK_OK;
    LK_PASS(lk_device_alloc(t->device, wide, &t->squares));
    return lk_device_alloc_host(t->device, wide, &t->squares_host);
}

static enum lk_status choose_early(struct trainer *t)
{
    const struct lk_track_info update = {
        .name = "update stream", .kind = LK_TRACK_UPDATE, .stream = 4};
    enum lk_fuse_wish wish = t->config->fuse.wish[LK_FUSE_OPTIMIZER];
    const char *lacks = early_lacks(t);

    if (!lacks)
        return lk_stream_create(t->device, &update, &t->update);
    if (wish == LK_FUSE_YES)
        return lk_fail(LK_EUNSUPPORTED, "parameters cannot be updated beside backward: %s", lacks);
    if (wish == LK_FUSE_AUTO && t->rank == 0)
        lk_log(LK_LOG_TRAIN, LK_INFO, "parameters are updated behind backward: %s", lacks);
    if (t->config->reducer.plant == LK_PLANT_EARLY_UPDATE)
        return lk_fail(LK_EUSAGE, "the planted fault needs parameters that are updated beside "
                                  "backward");
    return LK_OK;
}

static enum lk_status choose_fusions(struct trainer *t)
{
    const struct lk_train_config *c = t->config;
    const struct lk_sharding_traits *sharding = lk_sharding_traits(c->reducer.sharding);

    return lk_fuse_choose(
        t->model, &(struct lk_fuse_config){.fuse = c->fuse,
                                           .rank = t->rank,
                                           .ranks = t->ranks,
                                           .store = c->comm_config.store,
                                           .deterministic = c->device_config.deterministic,
                                           .elsewhere = sharding->parameters || sharding->gradients,
                                           .timeout_ns = c->timeout_ns,
                                           .recorder = c->recorder});
}

/* Make the optimizer of what this rank owns, and say in the trace how much state it keeps. */
static enum lk_status open_optim(struct trainer *t)
{
    struct lk_owned owned = lk_exchange_owned(t->exchange);
    char bytes[32];

    LK_PASS(lk_optim_create(t->device, &t->config->optim, owned.params, owned.n, &t->optim));
    snprintf(bytes, sizeof bytes, "%zu", lk_optim_state_bytes(t->optim));
    return lk_recorder_fact(t->config->recorder, STATE_KEY, bytes);
}

/* Allocate an entry a step; those of steps before this start are NaN. */
static enum lk_status make_results(struct trainer *t)
{
    double **const columns[] = {&t->loss, &t->step_s, &t->local_sq, &t->mean_sq};

    for (size_t i = 0; i < LK_COUNT(columns); i++) {
        LK_PASS(lk_alloc(columns[i], (size_t)t->n_steps, sizeof(double)));
        for (int64_t step = 0; step < t->course.first_step; step++)
            (*columns[i])[step] = NAN;
    }
    return LK_OK;
}

/* Make what broadcasts of buffers need, where there are any. With late gradients there are none: a
 * broadcast before forward would be the wait that lateness avoids. */
static enum lk_status open_buffers(struct trainer *t)
{
    size_t n = (size_t)t->config->reducer.accumulation;

    if (!t->config->broadcast_buffers || t->ranks == 1 || !t->model->n_buffers ||
        t->config->reducer.staleness)
        return LK_OK;
    LK_PASS(lk_alloc(&t->buffers_ready, n, sizeof(struct lk_event *)));
    for (size_t i = 0; i < n; i++)
        LK_PASS(lk_event_create(t->device, &t->buffers_ready[i]));
    return lk_event_create(t->device, &t->buffers_there);
}

enum lk_status lk_trainer_open(struct trainer *t)
{
    const struct lk_train_config *c = t->config;
    struct lk_comm_config cc = c->comm_config;
    struct lk_model_config mc = c->model;
    struct lk_reducer_config rc = c->reducer;
    struct lk_early_config early;
    struct lk_hook_config hook;

    LK_PASS(lk_trainer_check_config(c));
    mc.max_samples = c->local_batch;
    LK_PASS(lk_trainer_resume_read(t));
    LK_PASS(open_model(t, &mc));
    LK_PASS(lk_trainer_resume_weights(t));
    LK_PASS(open_loader(t));
    cc.timeout_ns = c->timeout_ns;
    cc.recorder = c->recorder;
    cc.device = t->device;
    LK_PASS(lk_comm_open(c->comm, &cc, &t->comm));
    rc.comm = t->comm;
    rc.compute = t->compute;
    rc.net = t->net;
    rc.track = t->host;
    rc.recorder = c->recorder;
    rc.timeout_ns = c->timeout_ns;
    hook = c->hook;
    hook.seed = c->seed;
    hook.timeout_ns = c->timeout_ns;
    rc.hook = &hook;
    rc.local = lk_averaging_is_on(&c->averaging);
    rc.local_from = c->averaging.warmup;
    rc.find_unused |= t->model->find_unused_parameters;
    LK_PASS(choose_early(t));
    early = (struct lk_early_config){t->update, lk_trainer_update_bucket, t};
    rc.early = t->update ? &early : NULL;
    rc.order = lk_trainer_resume_order(t);
    rc.first_step = (uint32_t)t->course.first_step;
    if (t->model->ops->join)
        LK_PASS(t->model->ops->join(t->model, t->comm, t->net));
    LK_PASS(open_buffers(t));
    LK_PASS(lk_sharding_traits(rc.sharding)->sharers == LK_SHARERS_NONE
                ? lk_ddp_create(&rc, t->model, &t->exchange)
                : lk_sharded_create(&rc, t->model, &t->exchange));
    LK_PASS(choose_fusions(t));
    if (!t->model->ops->update)
        LK_PASS(open_optim(t));
    LK_PASS(lk_averaging_create(&c->averaging, t->comm, t->compute, t->net, t->model->weights,
                                t->model->weights_bytes, t->model->masters != NULL, &t->averaging));
    LK_PASS(lk_trainer_resume_optim(t));
    LK_PASS(open_verify(t, &mc));
    LK_PASS(choose_graph(t));
    LK_PASS(open_squares(t));
    LK_PASS(lk_trainer_check_open(t));
    LK_PASS(lk_trainer_checkpoint_open(t));
    LK_PASS(lk_device_alloc_host(
        t->device, (size_t)rc.accumulation * lk_device_wide_bytes(t->device), &t->micro_loss));
    return make_results(t);
}

void lk_trainer_close(struct trainer *t)
{
    /* Destroy the streams first, so that no work runs on memory freed later. */
    lk_stream_destroy(t->update);
    lk_stream_destroy(t->net);
    lk_stream_destroy(t->compute);
    lk_checkpoints_close(t->checkpoints);
    lk_graph_destroy(t->graph);
    lk_loader_destroy(t->loader);
    lk_verify_destroy(t->verify);
    lk_dataset_destroy(t->dataset);
    lk_shares_destroy(t->shares);
    lk_averaging_destroy(t->averaging);
    lk_optim_destroy(t->optim);
    lk_exchange_destroy(t->exchange);
    for (int i = 0; t->buffers_ready && i < t->config->reducer.accumulation; i++)
        lk_event_destroy(t->buffers_ready[i]);
    free(t->buffers_ready);
    lk_event_destroy(t->buffers_there);
    lk_comm_close(t->comm);
    lk_model_destroy(t->model);
    if (t->device) {
        lk_device_free_host(t->device, t->micro_loss);
        lk_device_free_host(t->device, t->squares_host);
        lk_device_free(t->device, t->squares);
        lk_device_free_host(t->device, t->sum_host);
        lk_device_free_host(t->device, t->staging);
        lk_device_free(t->device, t->sum);
    }
    lk_device_close(t->device);
    lk_tensor_file_fini(&t->resumed);
    free(t->batches);
    free(t->loss);
    free(t->step_s);
    free(t->local_sq);
    free(t->mean_sq);
}

int64_t lk_train_skipped(const struct lk_train_config *c)
{
    const char *resume = c->checkpoint.resume;
    int64_t first = resume ? lk_checkpoint_steps(resume) : 0, end = c->warmup_steps + c->steps;

    first = first < 0 ? 0 : first;
    return first + c->warmup_steps < end ? first + c->warmup_steps : end - 1;
}

/* ---- A model of one sample, opened and closed again ---- */

static struct lk_train_config of_one_sample(const struct lk_train_config *config)
{
    struct lk_train_config c = *config;

    c.recorder = NULL;
    c.model.max_samples = 1;
    c.model.replicas = 0;
    c.model.blank = true;
    c.model.described = true;
    return c;
}

enum lk_status lk_train_check(const struct lk_train_config *config, size_t *samples)
{
    const struct lk_train_config c = of_one_sample(config);
    struct trainer t = {.config = &c};
    enum lk_status st = LK_OK;

    LK_TRY(lk_trainer_check_config(&c));
    LK_TRY(open_model(&t, &c.model));
    LK_TRY(open_dataset(&t));
    *samples = lk_dataset_samples(t.dataset);
out:
    lk_trainer_close(&t);
    return st;
}

static enum lk_status fill_tensors(const struct lk_model *m, struct lk_run_info *info)
{
    LK_PASS(lk_alloc(&info->tensors, m->n_params, sizeof *info->tensors));
    for (size_t i = 0; i < m->n_params; i++) {
        LK_PASS(lk_strdup(&info->tensors[i].name, m->params[i].name));
        info->n_tensors++;
        info->tensors[i].elems = m->params[i].elems;
        info->tensors[i].rows = m->params[i].rows;
        info->tensors[i].dtype = lk_device_real_dtype(m->device);
    }
    return LK_OK;
}

static enum lk_status fill_host(char **out)
{
    char name[256];

    if (gethostname(name, sizeof name))
        return lk_fail(LK_EIO, "cannot read the host's name: %s", strerror(errno));
    name[sizeof name - 1] = '\0';
    return lk_strdup(out, name);
}

static enum lk_status describe_update(const struct trainer *t, struct lk_run_info *info)
{
    const char *lacks = early_lacks(t);
    char text[128];

    snprintf(text, sizeof text, "%s%s", lacks ? "behind backward: " : "by bucket, beside backward",
             lacks ? lacks : "");
    return lk_run_info_config(info, "parameter_update", text);
}

/* Say what a sample takes beside weights, gradients and states: by how much two samples take more
 * than one. */
static enum lk_status describe_activations(const struct trainer *t, struct lk_run_info *info)
{
    struct lk_model_config two = t->config->model;
    struct lk_model *m = NULL;
    char text[32];

    two.max_samples = 2;
    LK_PASS(lk_model_create(t->device, t->compute, &two, &m));
    snprintf(text, sizeof text, "%.0f", m->activation_bytes - t->model->activation_bytes);
    lk_model_destroy(m);
    return t->model->activation_bytes > 0 ? lk_run_info_config(info, LK_ACTIVATION_CONFIG_KEY, text)
                                          : LK_OK;
}

static enum lk_status describe_norms(const struct lk_model *m, struct lk_run_info *info)
{
    enum lk_status st = LK_OK;
    size_t used = 0, size = 32 * m->n_norms + 1;
    char *text = NULL;

    LK_TRY(lk_alloc(&text, size, 1));
    for (size_t i = 0; i < m->n_norms; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%d@%.6f", i ? " " : "",
                                 m->norms[i].channels, m->norms[i].at);
    LK_TRY(lk_run_info_config(info, LK_SYNC_BN_CONFIG_KEY, text));
out:
    free(text);
    return st;
}

static enum lk_status fill(const struct trainer *t, const struct lk_train_config *c,
                           struct lk_run_info *info)
{
    const struct lk_model *m = t->model;
    char replicas[16];

    info->rank = c->comm_config.rank;
    info->world_size = c->comm_config.world_size;
    info->local_rank = c->device_config.local_rank;
    info->nodes = 1;
    LK_PASS(lk_trainer_describe_batches(c, info));
    info->accumulation = c->reducer.accumulation;
    info->no_sync = c->reducer.no_sync;
    info->overlap = c->reducer.overlap;
    info->sharding = c->reducer.sharding;
    info->shard_group = c->reducer.shard_group;
    info->scatter = c->reducer.scatter;
    if (lk_averaging_is_on(&c->averaging))
        info->period = c->averaging.period;
    info->staleness = c->reducer.staleness;
    info->algorithm = c->reducer.algo;
    info->compression = c->hook.compression;
    if (info->compression == LK_COMPRESSION_POWERSGD)
        info->powersgd_rank = c->hook.powersgd_rank;
    info->ddp_rule = c->reducer.ddp_rule;
    info->first_bytes = c->reducer.first_bytes;
    info->cap_bytes = c->reducer.cap_bytes;
    info->warmup_steps = (uint64_t)lk_train_skipped(c);
    info->steps = (uint64_t)(c->warmup_steps + c->steps);
    info->flops_per_sample = m->flops_per_sample;
    LK_PASS(fill_host(&info->host));
    LK_PASS(lk_strdup(&info->device, c->device));
    LK_PASS(lk_strdup(&info->comm, c->comm));
    LK_PASS(lk_strdup(&info->model, c->model.name));
    LK_PASS(lk_strdup(&info->sample_unit, m->sample_unit));
    LK_PASS(lk_run_info_config(info, LK_SHAPE_CONFIG_KEY, m->config_text));
    LK_PASS(describe_activations(t, info));
    if (m->synchronises)
        LK_PASS(describe_norms(m, info));
    if (*m->attention)
        LK_PASS(lk_run_info_config(info, ATTENTION_KEY, m->attention));
    if (needs_norm(t))
        LK_PASS(lk_run_info_config(info, LK_NORM_CONFIG_KEY, "yes"));
    if (c->model.replicas > 1) {
        snprintf(replicas, sizeof replicas, "%d", c->model.replicas);
        LK_PASS(lk_run_info_config(info, LK_REPLICAS_CONFIG_KEY, replicas));
    }
    LK_PASS(describe_update(t, info));
    LK_PASS(lk_device_describe(m->device, info));
    return fill_tensors(m, info);
}

enum lk_status lk_train_describe(const struct lk_train_config *config, struct lk_run_info *out)
{
    struct lk_train_config c = of_one_sample(config);
    struct trainer t = {.config = &c};
    struct lk_run_info info = {0};
    enum lk_status st = LK_OK;

    c.import_path = NULL;
    c.checkpoint.resume = NULL;
    LK_TRY(open_model(&t, &c.model));
    LK_TRY(fill(&t, config, &info));
    *out = info;
    memset(&info, 0, sizeof info);
out:
    lk_run_info_fini(&info);
    lk_trainer_close(&t);
    return st;
}
