/*
 * SGD with momentum, AdamW, LARS and LAMB. A launch updates the parameters of a bucket, or all:
 * they are listed in a table in device memory, bucket by bucket. The table and the update's rate
 * are one block, which is sent before the first launch of an update; on devices that use host
 * memory it is read where it is. The model owns exact weights beside narrow ones (lk_param.master).
 */
#include "runtime/model/optim.h"

#include "base/array.h"
#include "kernels/ops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What the ops read. */
struct block {
    struct lk_optim_rate rate;
    struct lk_optim_tensor tensors[]; /* n_params, by bucket */
};

struct lk_optim {
    struct lk_optim_config config;
    struct lk_device *device;
    size_t n_params;
    size_t *state_of;           /* first element of each parameter's state in a plane */
    size_t elems;               /* of all parameters */
    size_t state_elems;         /* state elements per parameter element: 0, 1 or 2 */
    lk_wide *state;             /* state_elems planes of elems each; NULL without */
    struct block *host, *block; /* block: on the device; host itself where that is possible */
    size_t *first;              /* n_buckets + 1: where a bucket begins in the table */
    size_t n_buckets, block_bytes;
    bool sent; /* the block of this update */
};

/* Return true for optimizers with two moments; the others have a momentum. */
static bool uses_moments(const struct lk_optim_config *c)
{
    return c->kind == LK_OPTIM_ADAMW || c->kind == LK_OPTIM_LAMB;
}

static enum lk_status check(const struct lk_optim_config *c)
{
    if (!(c->learning_rate > 0) || !isfinite(c->learning_rate))
        return lk_fail(LK_EUSAGE, "learning rate %g is not above 0", c->learning_rate);
    if (!(c->weight_decay >= 0) || c->warmup_steps < 0 || c->reference_batch < 0)
        return lk_fail(LK_EUSAGE, "weight decay %g, warm-up %lld, reference batch %lld",
                       c->weight_decay, (long long)c->warmup_steps, (long long)c->reference_batch);
    if (!uses_moments(c) && !(c->momentum >= 0 && c->momentum < 1))
        return lk_fail(LK_EUSAGE, "momentum %g is not in [0, 1)", c->momentum);
    if (c->kind == LK_OPTIM_LARS && !(c->trust > 0))
        return lk_fail(LK_EUSAGE, "a trust coefficient of %g is not above 0", c->trust);
    if (uses_moments(c) &&
        !(c->beta1 >= 0 && c->beta1 < 1 && c->beta2 >= 0 && c->beta2 < 1 && c->eps > 0))
        return lk_fail(LK_EUSAGE, "adamw or lamb with beta1 %g, beta2 %g, eps %g", c->beta1,
                       c->beta2, c->eps);
    return LK_OK;
}

static size_t state_elems(const struct lk_optim_config *c)
{
    if (uses_moments(c))
        return 2;
    return c->momentum > 0 ? 1 : 0;
}

/* Return element `at` of state plane `plane`, or NULL when there is no such plane. */
static lk_wide *state_at(const struct lk_optim *o, size_t plane, size_t at)
{
    size_t offset = (plane * o->elems + at) * lk_device_wide_bytes(o->device);

    return plane < o->state_elems ? (char *)o->state + offset : NULL;
}

static size_t chunks_of(const struct lk_optim_tensor *t)
{
    return (t->n + LK_OPTIM_CHUNK - 1) / LK_OPTIM_CHUNK;
}

static void fill_row(struct lk_optim *o, size_t row, const struct lk_param *p, size_t param)
{
    const struct lk_optim_tensor *before = row ? &o->host->tensors[row - 1] : NULL;

    o->host->tensors[row] = (struct lk_optim_tensor){
        .param = p->data,
        .master = p->master,
        .m = state_at(o, 0, o->state_of[param]),
        .v = state_at(o, 1, o->state_of[param]),
        .grad = p->grad,
        .n = p->elems,
        .first_chunk = before ? before->first_chunk + chunks_of(before) : 0,
        .weight_decay = p->decay ? o->config.weight_decay : 0,
        .layerwise = p->decay,
    };
}

static enum lk_status make_block(struct lk_optim *o)
{
    o->block_bytes = sizeof *o->host + o->n_params * sizeof *o->host->tensors;
    LK_PASS(lk_device_alloc_host(o->device, o->block_bytes, (void **)&o->host));
    if (lk_device_uses_host_memory(o->device))
        o->block = o->host;
    else
        LK_PASS(lk_device_alloc(o->device, o->block_bytes, (void **)&o->block));
    return LK_OK;
}

enum lk_status lk_optim_create(struct lk_device *d, const struct lk_optim_config *config,
                               const struct lk_param *params, size_t n_params,
                               struct lk_optim **out)
{
    enum lk_status st = LK_OK;
    struct lk_optim *o = NULL;

    LK_TRY(check(config));
    LK_TRY(lk_alloc(&o, 1, sizeof *o));
    o->config = *config;
    o->device = d;
    o->n_params = n_params;
    o->state_elems = state_elems(config);
    LK_TRY(lk_alloc(&o->state_of, n_params, sizeof *o->state_of));
    LK_TRY(lk_alloc(&o->first, n_params + 1, sizeof *o->first));
    for (size_t i = 0; i < n_params; i++) {
        o->state_of[i] = o->elems;
        o->elems += params[i].elems;
    }
    if (lk_optim_state_bytes(o) > 0)
        LK_TRY(lk_device_alloc(d, lk_optim_state_bytes(o), &o->state));
    LK_TRY(make_block(o));
    LK_HAND_OVER(out, o);
out:
    lk_optim_destroy(o);
    return st;
}

void lk_optim_destroy(struct lk_optim *o)
{
    if (!o)
        return;
    lk_device_free(o->device, o->state);
    if (o->block != o->host)
        lk_device_free(o->device, o->block);
    lk_device_free_host(o->device, o->host);
    free(o->state_of);
    free(o->first);
    free(o);
}

size_t lk_optim_state_bytes(const struct lk_optim *o)
{
    return o->state_elems * o->elems * lk_device_wide_bytes(o->device);
}

size_t lk_optim_planes(const struct lk_optim *o)
{
    return o->state_elems;
}

const char *lk_optim_plane_name(const struct lk_optim *o, size_t plane)
{
    if (!uses_moments(&o->config))
        return "momentum";
    return plane ? "v" : "m";
}

lk_wide *lk_optim_state(const struct lk_optim *o, size_t plane, size_t param)
{
    return state_at(o, plane, o->state_of[param]);
}

void lk_optim_begin(struct lk_optim *o, const struct lk_param *params,
                    const struct lk_bucket_plan *buckets, double learning_rate, int64_t t,
                    double unscale)
{
    const struct lk_optim_config *c = &o->config;

    o->host->rate = (struct lk_optim_rate){
        .learning_rate = learning_rate,
        .corrected = learning_rate / (1 - pow(c->beta1, (double)t)),
        .root = sqrt(1 / (1 - pow(c->beta2, (double)t))),
        .unscale = unscale,
    };
    for (size_t row = 0; row < o->n_params; row++) {
        size_t param = buckets ? buckets->index[row] : row;

        fill_row(o, row, &params[param], param);
    }
    o->n_buckets = buckets ? buckets->n_buckets : 1;
    for (size_t b = 0; b <= o->n_buckets; b++)
        o->first[b] = buckets ? buckets->first[b] : b * o->n_params;
    o->sent = false;
}

static enum lk_status send_block(struct lk_optim *o, struct lk_stream *s)
{
    if (o->sent || o->block == o->host)
        return LK_OK;
    LK_PASS(lk_stream_copy(s, o->block, o->host, o->block_bytes));
    o->sent = true;
    return LK_OK;
}

enum lk_status lk_optim_update(struct lk_optim *o, struct lk_stream *s, size_t bucket)
{
    const struct lk_optim_config *c = &o->config;
    size_t from = bucket == LK_OPTIM_ALL ? 0 : o->first[bucket], elems = 0, chunks = 0;
    size_t to = bucket == LK_OPTIM_ALL ? o->n_params : o->first[bucket + 1];
    const struct lk_optim_tensor *tensors = o->block->tensors + from;

    LK_PASS(send_block(o, s));
    for (size_t i = from; i < to; i++) {
        elems += o->host->tensors[i].n;
        chunks += chunks_of(&o->host->tensors[i]);
    }
    if (c->kind == LK_OPTIM_LARS)
        return LK_LAUNCH(s, lars, .tensors = tensors, .n_tensors = to - from, .n_chunks = chunks,
                         .elems = elems, .rate = &o->block->rate, .momentum = c->momentum,
                         .trust = c->trust);
    if (c->kind == LK_OPTIM_LAMB)
        return LK_LAUNCH(s, lamb, .tensors = tensors, .n_tensors = to - from, .n_chunks = chunks,
                         .elems = elems, .rate = &o->block->rate, .beta1 = c->beta1,
                         .beta2 = c->beta2, .eps = c->eps);
    if (c->kind == LK_OPTIM_SGD)
        return LK_LAUNCH(s, sgd, .tensors = tensors, .n_tensors = to - from, .n_chunks = chunks,
                         .elems = elems, .rate = &o->block->rate, .momentum = c->momentum);
    return LK_LAUNCH(s, adamw, .tensors = tensors, .n_tensors = to - from, .n_chunks = chunks,
                     .elems = elems, .rate = &o->block->rate, .beta1 = c->beta1, .beta2 = c->beta2,
                     .eps = c->eps);
}

double lk_optim_rate(const struct lk_optim_config *config, int64_t step, int64_t global_batch)
{
    double rate = config->learning_rate, ratio = 1;

    if (config->reference_batch > 0 && config->scaling != LK_LR_SCALING_NONE)
        ratio = (double)global_batch / (double)config->reference_batch;
    rate *= config->scaling == LK_LR_SCALING_SQRT ? sqrt(ratio) : ratio;
    if (step < config->warmup_steps)
        rate *= (double)(step + 1) / (double)config->warmup_steps;
    return rate;
}

enum lk_status lk_optim_parse_warmup(const char *text, struct lk_optim_config *config)
{
    static const double most = 1e9;
    char *unit = NULL;
    double value = strtod(text, &unit);
    bool epochs = !strcmp(unit, "epoch") || !strcmp(unit, "epochs");

    if (unit == text || !(value >= 0 && value <= most) || (*unit && !epochs) ||
        (!epochs && value != floor(value)))
        return lk_fail(LK_EUSAGE,
                       "'%s' is no length of a warm-up: steps, as 500, or epochs, as 1epoch or "
                       "0.5epochs",
                       text);
    config->warmup_steps = epochs ? 0 : (int64_t)value;
    config->warmup_epochs = epochs ? value : 0;
    return LK_OK;
}

void lk_optim_set_epoch(struct lk_optim_config *config, double steps_an_epoch)
{
    if (config->warmup_epochs > 0)
        config->warmup_steps = (int64_t)ceil(config->warmup_epochs * steps_an_epoch);
}
