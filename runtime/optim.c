/* SGD with momentum and AdamW over arrays of parameters. */
#include "runtime/optim.h"

#include "base/array.h"
#include "kernels/ops.h"

#include <math.h>
#include <stdlib.h>

struct lk_optim {
    struct lk_optim_config config;
    struct lk_device *device;
    size_t n_params;
    size_t elems;       /* of all parameters */
    size_t state_elems; /* a parameter's element: 0, 1 or 2 */
    lk_real *state;     /* state_elems planes of elems each; NULL without */
};

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
    if (o->state_elems > 0)
        LK_TRY(lk_device_alloc(d, lk_optim_state_bytes(o), &o->state));
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
    free(o);
}

size_t lk_optim_state_bytes(const struct lk_optim *o)
{
    return o->state_elems * o->elems * lk_device_real_bytes(o->device);
}

/* Element `at` of state plane `plane`, or NULL when there is no such plane. */
static lk_real *state_at(const struct lk_optim *o, size_t plane, size_t at)
{
    size_t offset = (plane * o->elems + at) * lk_device_real_bytes(o->device);

    return plane < o->state_elems ? (char *)o->state + offset : NULL;
}

enum lk_status lk_optim_step(struct lk_optim *o, struct lk_stream *s, const struct lk_param *params,
                             double learning_rate, int64_t t)
{
    const struct lk_optim_config *c = &o->config;
    enum lk_status st = LK_OK;
    size_t at = 0;

    for (size_t i = 0; i < o->n_params && st == LK_OK; i++) {
        const struct lk_param *p = &params[i];
        double decay = p->decay ? c->weight_decay : 0;
        lk_real *first = state_at(o, 0, at);

        if (c->kind == LK_OPTIM_SGD)
            st = LK_LAUNCH(s, sgd, .param = p->data, .buf = first, .grad = p->grad, .n = p->elems,
                           .learning_rate = learning_rate, .momentum = c->momentum,
                           .weight_decay = decay);
        else
            st = LK_LAUNCH(s, adamw, .param = p->data, .m = first, .v = state_at(o, 1, at),
                           .grad = p->grad, .n = p->elems, .learning_rate = learning_rate,
                           .beta1 = c->beta1, .beta2 = c->beta2, .eps = c->eps,
                           .weight_decay = decay, .t = t);
        at += p->elems;
    }
    return st;
}
