/* Describe a run, for the header of its trace. */
#include "runtime/train/trainer.h"

#include "base/array.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static enum lk_status fill_tensors(const struct lk_model *m, struct lk_run_info *info)
{
    enum lk_status st = LK_OK;

    LK_TRY(lk_alloc(&info->tensors, m->n_params, sizeof *info->tensors));
    for (size_t i = 0; i < m->n_params; i++) {
        LK_TRY(lk_strdup(&info->tensors[i].name, m->params[i].name));
        info->n_tensors++;
        info->tensors[i].elems = m->params[i].elems;
        info->tensors[i].dtype = lk_device_real_dtype(m->device);
    }
out:
    return st;
}

static enum lk_status fill_host(char **out)
{
    char name[256];

    if (gethostname(name, sizeof name))
        return lk_fail(LK_EIO, "cannot read the host's name: %s", strerror(errno));
    name[sizeof name - 1] = '\0';
    return lk_strdup(out, name);
}

static enum lk_status fill(const struct lk_train_config *c, const struct lk_model *m,
                           struct lk_run_info *info)
{
    enum lk_status st = LK_OK;

    info->rank = c->comm_config.rank;
    info->world_size = c->comm_config.world_size;
    info->local_rank = c->device_config.local_rank;
    info->nodes = 1;
    info->local_batch = c->local_batch;
    info->accumulation = c->reducer.accumulation;
    info->no_sync = c->reducer.no_sync;
    info->ddp_rule = c->reducer.ddp_rule;
    info->first_bytes = c->reducer.first_bytes;
    info->cap_bytes = c->reducer.cap_bytes;
    info->warmup_steps = (uint64_t)c->warmup_steps;
    info->steps = (uint64_t)(c->warmup_steps + c->steps);
    info->flops_per_sample = m->flops_per_sample;
    LK_TRY(fill_host(&info->host));
    LK_TRY(lk_strdup(&info->device, c->device));
    LK_TRY(lk_strdup(&info->comm, c->comm));
    LK_TRY(lk_strdup(&info->model, c->model.name));
    LK_TRY(lk_strdup(&info->sample_unit, m->sample_unit));
    LK_TRY(lk_run_info_config(info, "model_shape", m->config_text));
    LK_TRY(lk_device_describe(m->device, info));
    LK_TRY(fill_tensors(m, info));
out:
    return st;
}

enum lk_status lk_train_describe(const struct lk_train_config *config, struct lk_run_info *out)
{
    const struct lk_track_info track = {.name = "description", .kind = LK_TRACK_COMPUTE};
    struct lk_device_config dc = config->device_config;
    struct lk_model_config mc = config->model;
    struct lk_device *device = NULL;
    struct lk_stream *stream = NULL;
    struct lk_model *model = NULL;
    struct lk_run_info info = {0};
    enum lk_status st = LK_OK;

    dc.recorder = NULL;
    mc.max_samples = 1;
    mc.blank = true;
    LK_TRY(lk_device_open(config->device, &dc, &device));
    LK_TRY(lk_stream_create(device, &track, &stream));
    LK_TRY(lk_model_create(device, stream, &mc, &model));
    LK_TRY(lk_stream_sync(stream, lk_deadline_in(UINT64_MAX)));
    LK_TRY(fill(config, model, &info));
    *out = info;
    memset(&info, 0, sizeof info);
out:
    lk_run_info_fini(&info);
    lk_stream_destroy(stream);
    lk_model_destroy(model);
    lk_device_close(device);
    return st;
}
