/* Optimizers: update the parameters from averaged gradients. The state of all parameters lies in
 * one block of device memory; every rank has all of it. */
#ifndef LK_RUNTIME_OPTIM_H
#define LK_RUNTIME_OPTIM_H

#include "base/status.h"
#include "base/words.h"
#include "facts/bucket.h"
#include "runtime/device/device.h"
#include "runtime/model/model.h"

#include <stddef.h>
#include <stdint.h>

/* X(optimizer, name) */
#define LK_OPTIM_LIST(X)                                                                           \
    X(LK_OPTIM_SGD, "sgd")                                                                         \
    X(LK_OPTIM_ADAMW, "adamw")                                                                     \
    X(LK_OPTIM_LARS, "lars")                                                                       \
    X(LK_OPTIM_LAMB, "lamb")

enum lk_optim_kind { LK_OPTIM_LIST(LK_WORD_VALUE) LK_OPTIM_COUNT };

/* X(rule, name, help): how the learning rate follows from the global batch over the reference. */
#define LK_LR_SCALING_LIST(X)                                                                      \
    X(LK_LR_SCALING_LINEAR, "linear", "their ratio: Goyal et al. 2017, arXiv:1706.02677")          \
    X(LK_LR_SCALING_SQRT, "sqrt", "its root: Krizhevsky 2014, arXiv:1404.5997; LAMB")              \
    X(LK_LR_SCALING_NONE, "none", "it does not")

enum lk_lr_scaling { LK_LR_SCALING_LIST(LK_WORD_VALUE) };

struct lk_optim_config {
    enum lk_optim_kind kind;
    double learning_rate;     /* at reference_batch */
    double momentum;          /* sgd, lars */
    double beta1, beta2, eps; /* adamw, lamb */
    double trust;             /* lars: its coefficient eta */
    double weight_decay;      /* of parameters with lk_param.decay; lars and lamb adapt the rate of
                                 these alone */
    int64_t warmup_steps;     /* the rate grows linearly over these */
    double warmup_epochs;     /* above 0: over so many epochs instead (lk_optim_set_epoch) */
    int64_t reference_batch;  /* that learning_rate is for; 0: any */
    enum lk_lr_scaling scaling;
};

struct lk_optim;
/* Create an optimizer and its state. params is not kept. LK_EUSAGE for a rate, momentum or decay
 * out of range. */
enum lk_status lk_optim_create(struct lk_device *d, const struct lk_optim_config *config,
                               const struct lk_param *params, size_t n_params,
                               struct lk_optim **out);
void lk_optim_destroy(struct lk_optim *o); /* NULL is legal; pre: its streams are idle */

/*
 * Prepare update number t (from 1) of the parameters given to create, in these buckets; NULL: all
 * in one. Gradients are multiplied by `unscale` in float. Nothing is enqueued: the first
 * lk_optim_update sends what was prepared, and a graph that was captured with it sends it again at
 * every launch. pre: earlier updates have run.
 */
void lk_optim_begin(struct lk_optim *o, const struct lk_param *params,
                    const struct lk_bucket_plan *buckets, double learning_rate, int64_t t,
                    double unscale);
/* Enqueue the update of a bucket's parameters, or of all. The updates between two calls of
 * lk_optim_begin are on one stream. A parameter's bits do not depend on the buckets. */
enum lk_status lk_optim_update(struct lk_optim *o, struct lk_stream *s, size_t bucket);
#define LK_OPTIM_ALL SIZE_MAX

/* Return the bytes of state: 0, 1 (momentum) or 2 (AdamW, LAMB) wide elements per parameter
 * element. */
size_t lk_optim_state_bytes(const struct lk_optim *o);

/* The state, for checkpoints: planes 0, 1, ... with a name each ("momentum"; "m" and "v"), and of
 * a parameter as many elements as it has, in device memory. */
size_t lk_optim_planes(const struct lk_optim *o);
const char *lk_optim_plane_name(const struct lk_optim *o, size_t plane);
lk_wide *lk_optim_state(const struct lk_optim *o, size_t plane, size_t param);

/* Read the length of a warm-up, "500" steps, "1epoch" or "0.5epochs", into the configuration.
 * LK_EUSAGE says what is wrong. */
enum lk_status lk_optim_parse_warmup(const char *text, struct lk_optim_config *config);
/* Turn a warm-up of epochs into steps, rounded up. */
void lk_optim_set_epoch(struct lk_optim_config *config, double steps_an_epoch);
/*
 * Return the learning rate of step 0, 1, ...: the configured rate, times global_batch /
 * reference_batch, or its root, when a reference batch is set (Goyal et al. 2017, "Accurate, large
 * minibatch SGD", section 2.1), times (step + 1) / warmup_steps during the warm-up (section 2.2,
 * but growing from near 0 instead of the unscaled rate, so that one schedule serves all batches).
 * Constant afterwards. pre: step >= 0, global_batch > 0.
 */
double lk_optim_rate(const struct lk_optim_config *config, int64_t step, int64_t global_batch);

#endif
