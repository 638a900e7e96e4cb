/* The dispatch of exchanges. */
#include "runtime/train/exchange.h"

void lk_exchange_destroy(struct lk_exchange *e)
{
    if (e)
        e->ops->destroy(e);
}

enum lk_status lk_exchange_step_begin(struct lk_exchange *e, uint32_t step, int n)
{
    return e->ops->step_begin(e, step, n);
}

enum lk_status lk_exchange_forward_begin(struct lk_exchange *e, int micro_batch)
{
    return e->ops->forward_begin ? e->ops->forward_begin(e, micro_batch) : LK_OK;
}

enum lk_status lk_exchange_backward_begin(struct lk_exchange *e, int micro_batch)
{
    return e->ops->backward_begin(e, micro_batch);
}

double lk_exchange_seed(const struct lk_exchange *e)
{
    return e->ops->seed(e);
}

struct lk_grad_hook lk_exchange_hook(struct lk_exchange *e)
{
    return e->ops->hook(e);
}

enum lk_status lk_exchange_shadow(struct lk_exchange *e)
{
    return e->ops->shadow(e);
}

enum lk_status lk_exchange_backward_end(struct lk_exchange *e)
{
    return e->ops->backward_end(e);
}

enum lk_status lk_exchange_updated(struct lk_exchange *e)
{
    return e->ops->updated ? e->ops->updated(e) : LK_OK;
}

struct lk_owned lk_exchange_owned(const struct lk_exchange *e)
{
    return e->owned;
}

const struct lk_bucket_plan *lk_exchange_buckets(const struct lk_exchange *e)
{
    return e->ops->buckets(e);
}

const size_t *lk_exchange_ready_order(const struct lk_exchange *e)
{
    return e->ops->ready_order(e);
}

enum lk_status lk_exchange_norms(const struct lk_exchange *e, uint32_t *step, double *local_sq,
                                 double *mean_sq)
{
    return e->ops->norms(e, step, local_sq, mean_sq);
}

int lk_exchange_norms_micro_batches(const struct lk_exchange *e)
{
    return e->ops->norms_micro_batches(e);
}

lk_real *lk_exchange_gradients(const struct lk_exchange *e, size_t run, size_t *out_elems)
{
    *out_elems = 0;
    return e->ops->gradients(e, run, out_elems);
}

enum lk_status lk_exchange_add_up(struct lk_exchange *e, lk_wide *x)
{
    return e->ops->add_up ? e->ops->add_up(e, x) : LK_OK;
}

enum lk_status lk_exchange_whole(struct lk_exchange *e, int what, const struct lk_optim *o)
{
    return e->ops->whole ? e->ops->whole(e, what, o) : LK_OK;
}

void lk_exchange_part(struct lk_exchange *e)
{
    if (e->ops->part)
        e->ops->part(e);
}

const void *lk_exchange_weights(const struct lk_exchange *e, size_t *out_bytes)
{
    return e->ops->weights(e, out_bytes);
}

lk_wide *lk_exchange_state(const struct lk_exchange *e, const struct lk_optim *o, size_t plane,
                           size_t param)
{
    return e->ops->state(e, o, plane, param);
}

size_t lk_exchange_n_kept(const struct lk_exchange *e)
{
    return e && e->ops->n_kept ? e->ops->n_kept(e) : 0;
}

struct lk_kept lk_exchange_kept(const struct lk_exchange *e, size_t group, size_t param)
{
    return e->ops->kept(e, group, param);
}
