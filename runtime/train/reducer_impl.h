/* The reducer's state. Private to it: its set-up, its buckets and its steps. */
#ifndef LK_RUNTIME_REDUCER_IMPL_H
#define LK_RUNTIME_REDUCER_IMPL_H

#include "runtime/train/reducer.h"

struct bucket {
    size_t at_elems; /* in the slab */
    size_t elems;
    size_t pending;         /* gradients not yet ready in this backward */
    struct lk_event *ready; /* on the compute stream: its last gradient is ready */
};

struct lk_reducer {
    struct lk_reducer_config config;
    struct lk_device *device;
    struct lk_param *params;
    size_t n_params;
    enum lk_dtype dtype;           /* type of gradients, in memory and on the wire */
    size_t real_bytes, wide_bytes; /* of lk_real and lk_wide */
    int ranks;
    uint32_t step;
    bool local; /* this step all-reduces nothing */

    struct lk_bucket_plan plan;
    struct bucket *buckets; /* plan.n_buckets */
    size_t *bucket_of;      /* by parameter */
    size_t *offset;         /* by parameter: of its gradient in a slab, elements */
    char *slabs;            /* staleness + 1 slabs of all buckets, one allocation */
    char *slab;             /* of the step in progress */
    size_t slab_elems;
    char *old_slab; /* the planted stale view still points here */

    bool synced;            /* this micro-batch all-reduces its gradients */
    bool *seen;             /* by parameter: its gradient is ready, in this backward */
    size_t next;            /* the next bucket to all-reduce */
    size_t n_ready;         /* gradients seen in this backward */
    struct lk_hook *hook;   /* NULL: buckets are all-reduced as they are */
    struct lk_early *early; /* NULL: no updates are early */
    bool updating;          /* this micro-batch updates its buckets early */
    size_t *order;          /* parameters by readiness in the first synchronised backward */
    bool order_known;       /* that backward is over */
    bool rebuilt;
    struct lk_event *reduced; /* on the net stream: all buckets of this micro-batch are reduced */
    struct lk_event **late;   /* staleness + 1: likewise, of the slab's last step; NULL: none are */
    struct lk_event *apart;   /* PARTIAL: the bucket before is reduced; NONE: the backward ended */
    void *used; /* find_unused: device map, n_params int32; never read, as all are used */
    struct lk_event *marked; /* on the compute stream: the map is final */

    bool measuring;   /* measure this micro-batch's norms */
    void *norms;      /* device: n_buckets local squares, then n_buckets averaged ones */
    void *norms_host; /* host copy of norms */
    bool measured;    /* norms_host has been written */
    uint32_t measured_step;
};

/* Return the slabs, which steps use in turn, and that of step `step`. */
static inline int lk_reducer_slabs_(const struct lk_reducer *r)
{
    return r->config.staleness + 1;
}

static inline char *lk_reducer_slab_of_(const struct lk_reducer *r, uint32_t step)
{
    return r->slabs + step % (uint32_t)lk_reducer_slabs_(r) * r->slab_elems * r->real_bytes;
}

/* Assign the buckets of the first step. pre: the net stream is idle, here and below. */
enum lk_status lk_reducer_assign_(struct lk_reducer *r);
/* Assign them in the order of rank 0, once, and take late gradients along. Collective. */
enum lk_status lk_reducer_rebuild_(struct lk_reducer *r);
/* Point the gradients into the slab of the step in progress. */
void lk_reducer_point_(struct lk_reducer *r);
void lk_reducer_drop_buckets_(struct lk_reducer *r);

#endif
