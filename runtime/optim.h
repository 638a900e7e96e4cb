/*
 * Optimizers: how averaged gradients change the parameters. The state of all parameters lies in one
 * piece of device memory; every rank has all of it.
 */
#ifndef LK_RUNTIME_OPTIM_H
#define LK_RUNTIME_OPTIM_H

#include "base/status.h"
#include "runtime/device.h"
#include "runtime/model.h"

#include <stddef.h>
#include <stdint.h>

/* X(optimizer, name) */
#define LK_OPTIM_LIST(X)                                                                           \
    X(LK_OPTIM_SGD, "sgd")                                                                         \
    X(LK_OPTIM_ADAMW, "adamw")

enum lk_optim_kind {
#define LK_OPTIM_ENUM_(optimizer, name) optimizer,
    LK_OPTIM_LIST(LK_OPTIM_ENUM_)
#undef LK_OPTIM_ENUM_
        LK_OPTIM_COUNT
};

struct lk_optim_config {
    enum lk_optim_kind kind;
    double learning_rate;     /* at reference_batch */
    double momentum;          /* sgd */
    double beta1, beta2, eps; /* adamw */
    double weight_decay;      /* of the parameters that ask for it (lk_param.decay) */
    int64_t warmup_steps;     /* the rate grows linearly over these */
    int64_t reference_batch;  /* linear scaling rule: rate * global batch / this; 0: off */
};

struct lk_optim;
/* LK_EUSAGE for a rate, momentum or decay that is out of range. Nothing is kept of params. */
enum lk_status lk_optim_create(struct lk_device *d, const struct lk_optim_config *config,
                               const struct lk_param *params, size_t n_params,
                               struct lk_optim **out);
void lk_optim_destroy(struct lk_optim *o); /* NULL is legal; pre: its streams are idle */

/* Enqueues update number t (from 1) of all parameters on s. params: those of create. */
enum lk_status lk_optim_step(struct lk_optim *o, struct lk_stream *s, const struct lk_param *params,
                             double learning_rate, int64_t t);

/* Bytes of state: 0, 1 (momentum) or 2 (AdamW) wide elements a parameter. */
size_t lk_optim_state_bytes(const struct lk_optim *o);

#endif
