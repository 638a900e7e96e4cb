/*
 * How a rank exchanges gradients and parameters with the others: the trainer's one interface to DDP
 * (runtime/train/ddp.h) and to sharded training (runtime/train/sharded.h), which create exchanges.
 *
 * A step on the host thread:
 *
 *     lk_exchange_step_begin(e, step, n);
 *     for (m = 0; m < n; m++) {
 *         lk_exchange_forward_begin(e, m);
 *         forward(m);
 *         lk_exchange_backward_begin(e, m);
 *         backward(m, lk_exchange_seed(e), m > 0, lk_exchange_hook(e));
 *         lk_exchange_backward_end(e);
 *     }
 *     update of the pieces that this rank owns
 *     lk_exchange_updated(e);
 *
 * A rank without samples for a micro-batch calls lk_exchange_shadow instead of forward and
 * backward.
 */
#ifndef LK_RUNTIME_EXCHANGE_H
#define LK_RUNTIME_EXCHANGE_H

#include "base/status.h"
#include "facts/bucket.h"
#include "runtime/model/kept.h"
#include "runtime/model/model.h"
#include "runtime/model/optim.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A piece of a parameter is its elements from `first` on. */
struct lk_piece {
    size_t param, first;
};

/* This rank's optimizer updates whole parameters, or pieces of some. */
struct lk_owned {
    const struct lk_param *params; /* n of them; values and gradients may move between steps */
    const struct lk_piece *pieces; /* n of them */
    size_t n;
};

struct lk_exchange;
/* pre: the streams are idle or destroyed, the communicator is not closed. NULL is legal. */
void lk_exchange_destroy(struct lk_exchange *e);

/* n: micro-batches of this step, the same on all ranks; at most the accumulation. */
enum lk_status lk_exchange_step_begin(struct lk_exchange *e, uint32_t step, int n);
enum lk_status lk_exchange_forward_begin(struct lk_exchange *e, int micro_batch);
enum lk_status lk_exchange_backward_begin(struct lk_exchange *e, int micro_batch);
double lk_exchange_seed(const struct lk_exchange *e);
struct lk_grad_hook lk_exchange_hook(struct lk_exchange *e);
/* Take part in what a backward exchanges, with gradients that add nothing. pre: a scheme whose
 * passes gather nothing. */
enum lk_status lk_exchange_shadow(struct lk_exchange *e);
enum lk_status lk_exchange_backward_end(struct lk_exchange *e);
/* Enqueue what follows the update of the owned pieces, which is on the compute stream. */
enum lk_status lk_exchange_updated(struct lk_exchange *e);

struct lk_owned lk_exchange_owned(const struct lk_exchange *e);
/* The buckets of early updates and of the optimizer's table; NULL: it takes the owned pieces. */
const struct lk_bucket_plan *lk_exchange_buckets(const struct lk_exchange *e);
/* As lk_reducer_ready_order; without DDP the order in which parameters are in units. */
const size_t *lk_exchange_ready_order(const struct lk_exchange *e);
/* Return run 0, 1, ... of the reduced gradients that this rank owns, in which gaps are zero; NULL
 * behind the last. */
lk_real *lk_exchange_gradients(const struct lk_exchange *e, size_t run, size_t *out_elems);
/* Enqueue the sum over the ranks that share gradients of one number each, in place and on the
 * compute stream; where a rank owns all gradients nothing is sent. All ranks get the same bits. */
enum lk_status lk_exchange_add_up(struct lk_exchange *e, lk_wide *x);
/* As those of the reducer; LK_EEVIDENCE in sharded training, which does not measure norms. */
enum lk_status lk_exchange_norms(const struct lk_exchange *e, uint32_t *step, double *local_sq,
                                 double *mean_sq);
int lk_exchange_norms_micro_batches(const struct lk_exchange *e);

/* lk_exchange_whole puts these in place. */
enum lk_whole {
    LK_WHOLE_VALUES = 1,    /* of parameters */
    LK_WHOLE_GRADIENTS = 2, /* those of the last step, reduced */
    LK_WHOLE_STATES = 4     /* of the optimizer (lk_exchange_state) */
};
/*
 * Gather what is divided among ranks, so that params[].data and .grad of the model are whole until
 * the next step begins. Takes as much memory as it gathers. Collective; does nothing where a rank
 * has all. o: the optimizer of the owned pieces, for the states. pre: the streams are idle.
 */
enum lk_status lk_exchange_whole(struct lk_exchange *e, int what, const struct lk_optim *o);
/* Free what was gathered. A step does so at its begin. */
void lk_exchange_part(struct lk_exchange *e);
/* Return the memory of all parameters' values, in which gaps are zero; pre: they are whole. */
const void *lk_exchange_weights(const struct lk_exchange *e, size_t *out_bytes);
/* Return a whole parameter's state in a plane of the optimizer; pre: states are whole. */
lk_wide *lk_exchange_state(const struct lk_exchange *e, const struct lk_optim *o, size_t plane,
                           size_t param);

/* Return the groups of state that a checkpoint holds (runtime/model/kept.h), 0 of NULL, and a
 * parameter's piece of one. pre: lk_exchange_whole of the states. */
size_t lk_exchange_n_kept(const struct lk_exchange *e);
struct lk_kept lk_exchange_kept(const struct lk_exchange *e, size_t group, size_t param);

/* Private part: what a kind of exchange implements. Optional ones do nothing where NULL. */
struct lk_exchange_ops {
    void (*destroy)(struct lk_exchange *e);
    enum lk_status (*step_begin)(struct lk_exchange *e, uint32_t step, int n);
    enum lk_status (*forward_begin)(struct lk_exchange *e, int micro_batch); /* (optional) */
    enum lk_status (*backward_begin)(struct lk_exchange *e, int micro_batch);
    double (*seed)(const struct lk_exchange *e);
    struct lk_grad_hook (*hook)(struct lk_exchange *e);
    enum lk_status (*shadow)(struct lk_exchange *e);
    enum lk_status (*backward_end)(struct lk_exchange *e);
    enum lk_status (*updated)(struct lk_exchange *e); /* (optional) */
    const struct lk_bucket_plan *(*buckets)(const struct lk_exchange *e);
    const size_t *(*ready_order)(const struct lk_exchange *e);
    enum lk_status (*norms)(const struct lk_exchange *e, uint32_t *step, double *local_sq,
                            double *mean_sq);
    int (*norms_micro_batches)(const struct lk_exchange *e);
    lk_real *(*gradients)(const struct lk_exchange *e, size_t run, size_t *out_elems);
    enum lk_status (*add_up)(struct lk_exchange *e, lk_wide *x); /* (optional) */
    enum lk_status (*whole)(struct lk_exchange *e, int what,
                            const struct lk_optim *o); /* (optional) */
    void (*part)(struct lk_exchange *e);               /* (optional) */
    const void *(*weights)(const struct lk_exchange *e, size_t *out_bytes);
    lk_wide *(*state)(const struct lk_exchange *e, const struct lk_optim *o, size_t plane,
                      size_t param);
    size_t (*n_kept)(const struct lk_exchange *e); /* (optional) 0 */
    struct lk_kept (*kept)(const struct lk_exchange *e, size_t group, size_t param);
};
struct lk_exchange { /* first member of an exchange's own struct */
    const struct lk_exchange_ops *ops;
    struct lk_owned owned;
};

#endif
