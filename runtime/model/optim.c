/*
 * SGD with momentum and AdamW: one launch updates all parameters, listed in a table in device
 * memory. The table is sent again when a gradient has moved, which happens once, when buckets are
 * rebuilt. The model owns exact weights beside narrow ones (lk_param.master).
 */
#include "runtime/model/optim.h"

#include "base/array.h"
#include "base/clock.h"
#include "kernels/ops.h"

#include <math.h>
#include <stdlib.h>

struct lk_optim {
    struct lk_optim_config config;
    struct lk_device *device;
    size_t n_params;
    size_t elems;                         /* of all parameters */
    size_t n_chunks;                      /* of the table */
    size_t state_elems;                   /* state elements per parameter element: 0, 1 or 2 */
    lk_wide *state;                       /* state_elems planes of elems each; NULL without */
    struct lk_optim_tensor *host, *table; /* (n_params), the same on the host and the device */
    struct lk_event *sent;                /* the host's table has been copied */
};

static const uint64_t transfer_timeout_ns = 120 * LK_NS_PER_S;

static enum lk_status check(const struct lk_optim_config *c)
{
    if (!(c->learning_rate > 0) || !isfinite(c->learning_rate))
        return lk_fail(LK_EUSAGE, "learning rate %g is not above 0", c->learning_rate);
    if (!(c->weight_decay >= 0) || c->warmup_steps < 0 || c->reference_batch < 0)
        return lk_fail(LK_EUSAGE, "weight decay %g, warm-up %lld, reference batch %lld",
                       c->weight_decay, (long long)c->warmup_steps, (long long)c->reference_batch);
    if (c->kind == LK_OPTIM_SGD && !(c->momentum >= 0 && c->momentum < 1))
        return lk_fail(LK_EUSAGE, "momentum %g is not in [0, 1)", c->momentum);
    if (c->kind == LK_OPTIM_ADAMW &&
        !(c->beta1 >= 0 && c->beta1 < 1 && c->beta2 >= 0 && c->beta2 < 1 && c->eps > 0))
        return lk_fail(LK_EUSAGE, "adamw with beta1 %g, beta2 %g, eps %g", c->beta1, c->beta2,
                       c->eps);
    return LK_OK;
}

static size_t state_elems(const struct lk_optim_config *c)
{
    if (c->kind == LK_OPTIM_ADAMW)
        return 2;
    return c->momentum > 0 ? 1 : 0;
}

/* Return element `at` of state plane `plane`, or NULL when there is no such plane. */
static lk_wide *state_at(const struct lk_optim *o, size_t plane, size_t at)
{
    size_t offset = (plane * o->elems + at) * lk_device_wide_bytes(o->device);

    return plane < o->state_elems ? (char *)o->state + offset : NULL;
}

static void fill_table(struct lk_optim *o, const struct lk_param *params)
{
    size_t at = 0;

    o->n_chunks = 0;
    for (size_t i = 0; i < o->n_params; i++) {
        const struct lk_param *p = &params[i];

        o->host[i] = (struct lk_optim_tensor){
            .param = p->data,
            .master = p->master,
            .m = state_at(o, 0, at),
            .v = state_at(o, 1, at),
            .grad = p->grad,
            .n = p->elems,
            .first_chunk = o->n_chunks,
            .weight_decay = p->decay ? o->config.weight_decay : 0,
        };
        o->n_chunks += (p->elems + LK_OPTIM_CHUNK - 1) / LK_OPTIM_CHUNK;
        at += p->elems;
    }
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
    for (size_t i = 0; i < n_params; i++)
        o->elems += params[i].elems;
    if (lk_optim_state_bytes(o) > 0)
        LK_TRY(lk_device_alloc(d, lk_optim_state_bytes(o), &o->state));
    LK_TRY(lk_device_alloc_host(d, n_params * sizeof *o->host, (void **)&o->host));
    LK_TRY(lk_device_alloc(d, n_params * sizeof *o->table, (void **)&o->table));
    LK_TRY(lk_event_create(d, &o->sent));
    *out = o;
    o = NULL;
out:
    lk_optim_destroy(o);
    return st;
}

void lk_optim_destroy(struct lk_optim *o)
{
    if (!o)
        return;
    lk_device_free(o->device, o->state);
    lk_device_free(o->device, o->table);
    lk_device_free_host(o->device, o->host);
    lk_event_destroy(o->sent);
    free(o);
}

size_t lk_optim_state_bytes(const struct lk_optim *o)
{
    return o->state_elems * o->elems * lk_device_wide_bytes(o->device);
}

static bool table_holds(const struct lk_optim *o, const struct lk_param *params)
{
    for (size_t i = 0; i < o->n_params; i++)
        if (o->host[i].param != params[i].data || o->host[i].grad != params[i].grad)
            return false;
    return true;
}

/* Send the table to the device. The previous copy must have read the host's table before it
 * changes; that copy belongs to a step that has ended, so this does not wait. */
static enum lk_status send_table(struct lk_optim *o, struct lk_stream *s,
                                 const struct lk_param *params)
{
    if (table_holds(o, params))
        return LK_OK;
    LK_PASS(lk_event_sync(o->sent, lk_deadline_in(transfer_timeout_ns)));
    fill_table(o, params);
    LK_PASS(lk_stream_copy(s, o->table, o->host, o->n_params * sizeof *o->host));
    return lk_event_record(o->sent, s);
}

enum lk_status lk_optim_step(struct lk_optim *o, struct lk_stream *s, const struct lk_param *params,
                             double learning_rate, int64_t t)
{
    const struct lk_optim_config *c = &o->config;

    LK_PASS(send_table(o, s, params));
    if (c->kind == LK_OPTIM_SGD)
        LK_PASS(LK_LAUNCH(s, sgd, .tensors = o->table, .n_tensors = o->n_params,
                          .n_chunks = o->n_chunks, .elems = o->elems,
                          .learning_rate = learning_rate, .momentum = c->momentum));
    else
        LK_PASS(LK_LAUNCH(s, adamw, .tensors = o->table, .n_tensors = o->n_params,
                          .n_chunks = o->n_chunks, .elems = o->elems,
                          .learning_rate = learning_rate, .beta1 = c->beta1, .beta2 = c->beta2,
                          .eps = c->eps, .t = t));
    return LK_OK;
}

double lk_optim_rate(const struct lk_optim_config *config, int64_t step, int64_t global_batch)
{
    double rate = config->learning_rate;

    if (config->reference_batch > 0)
        rate *= (double)global_batch / (double)config->reference_batch;
    if (step < config->warmup_steps)
        rate *= (double)(step + 1) / (double)config->warmup_steps;
    return rate;
}
