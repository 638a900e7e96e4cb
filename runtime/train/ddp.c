/* The reducer as an exchange; see the header. */
#include "runtime/train/ddp.h"

#include "base/array.h"
#include "runtime/train/exchange.h"
#include "runtime/train/reducer.h"

#include <stdlib.h>
#include <string.h>

struct ddp {
    struct lk_exchange base;
    struct lk_reducer *reducer;
    struct lk_model *model;
    struct lk_piece *pieces;
    struct lk_param *late; /* the parameters with the gradients that are due; NULL: the model's */
};

static struct lk_reducer *of(const struct lk_exchange *e)
{
    return ((const struct ddp *)e)->reducer;
}

static void ddp_destroy(struct lk_exchange *e)
{
    struct ddp *d = (struct ddp *)e;

    lk_reducer_destroy(d->reducer);
    free(d->pieces);
    free(d->late);
    free(d);
}

static enum lk_status ddp_step_begin(struct lk_exchange *e, uint32_t step, int n)
{
    struct ddp *d = (struct ddp *)e;

    LK_PASS(lk_reducer_step_begin(d->reducer, step, n));
    if (d->late)
        d->base.owned.n = lk_reducer_due(d->reducer, d->late) ? d->model->n_params : 0;
    return LK_OK;
}

static enum lk_status ddp_backward_begin(struct lk_exchange *e, int micro_batch)
{
    return lk_reducer_backward_begin(of(e), micro_batch);
}

static double ddp_seed(const struct lk_exchange *e)
{
    return lk_reducer_seed(of(e));
}

static struct lk_grad_hook ddp_hook(struct lk_exchange *e)
{
    return lk_reducer_hook(of(e));
}

static enum lk_status ddp_shadow(struct lk_exchange *e)
{
    return lk_reducer_shadow(of(e));
}

static enum lk_status ddp_backward_end(struct lk_exchange *e)
{
    return lk_reducer_backward_end(of(e));
}

static const struct lk_bucket_plan *ddp_buckets(const struct lk_exchange *e)
{
    return lk_reducer_buckets(of(e));
}

static const size_t *ddp_ready_order(const struct lk_exchange *e)
{
    return lk_reducer_ready_order(of(e));
}

static enum lk_status ddp_norms(const struct lk_exchange *e, uint32_t *step, double *local_sq,
                                double *mean_sq)
{
    return lk_reducer_norms(of(e), step, local_sq, mean_sq);
}

static int ddp_norms_micro_batches(const struct lk_exchange *e)
{
    return lk_reducer_norms_micro_batches(of(e));
}

static lk_real *ddp_gradients(const struct lk_exchange *e, size_t run, size_t *out_elems)
{
    return run ? NULL : lk_reducer_gradients(of(e), out_elems);
}

/* Every rank has all, once late gradients are reduced. */
static enum lk_status ddp_whole(struct lk_exchange *e, int what, const struct lk_optim *o)
{
    (void)o;
    return what & (LK_WHOLE_GRADIENTS | LK_WHOLE_STATES) ? lk_reducer_sync(of(e)) : LK_OK;
}

static const void *ddp_weights(const struct lk_exchange *e, size_t *out_bytes)
{
    const struct lk_model *m = ((const struct ddp *)e)->model;

    *out_bytes = m->weights_bytes;
    return m->weights;
}

static lk_wide *ddp_state(const struct lk_exchange *e, const struct lk_optim *o, size_t plane,
                          size_t param)
{
    (void)e;
    return lk_optim_state(o, plane, param);
}

static size_t ddp_n_kept(const struct lk_exchange *e)
{
    return lk_reducer_n_kept(of(e));
}

static struct lk_kept ddp_kept(const struct lk_exchange *e, size_t group, size_t param)
{
    return lk_reducer_kept(of(e), group, param);
}

static const struct lk_exchange_ops ddp_ops = {.destroy = ddp_destroy,
                                               .step_begin = ddp_step_begin,
                                               .backward_begin = ddp_backward_begin,
                                               .seed = ddp_seed,
                                               .hook = ddp_hook,
                                               .shadow = ddp_shadow,
                                               .backward_end = ddp_backward_end,
                                               .buckets = ddp_buckets,
                                               .ready_order = ddp_ready_order,
                                               .norms = ddp_norms,
                                               .norms_micro_batches = ddp_norms_micro_batches,
                                               .gradients = ddp_gradients,
                                               .whole = ddp_whole,
                                               .weights = ddp_weights,
                                               .state = ddp_state,
                                               .n_kept = ddp_n_kept,
                                               .kept = ddp_kept};

enum lk_status lk_ddp_create(const struct lk_reducer_config *config, struct lk_model *m,
                             struct lk_exchange **out)
{
    struct ddp *d = NULL;
    enum lk_status st = LK_OK;

    LK_TRY(lk_alloc(&d, 1, sizeof *d));
    d->base.ops = &ddp_ops;
    d->model = m;
    LK_TRY(lk_alloc(&d->pieces, m->n_params, sizeof *d->pieces));
    for (size_t i = 0; i < m->n_params; i++)
        d->pieces[i].param = i;
    LK_TRY(lk_reducer_create(config, m->params, m->n_params, &d->reducer));
    if (config->staleness) {
        LK_TRY(lk_alloc(&d->late, m->n_params, sizeof *d->late));
        memcpy(d->late, m->params, m->n_params * sizeof *d->late);
    }
    d->base.owned = (struct lk_owned){d->late ? d->late : m->params, d->pieces, m->n_params};
    *out = &d->base;
    d = NULL;
out:
    if (d)
        ddp_destroy(&d->base);
    return st;
}
