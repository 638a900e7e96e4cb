/* The state of a rank's training. Private to the trainer: its set-up and its steps. */
#ifndef LK_RUNTIME_TRAINER_IMPL_H
#define LK_RUNTIME_TRAINER_IMPL_H

#include "facts/run_facts.h"
#include "runtime/train/checkpoint.h"
#include "runtime/train/exchange.h"
#include "runtime/train/scaler.h"
#include "runtime/train/trainer.h"
#include "runtime/train/verify.h"

/* X(counter, name in traces) */
#define COUNTER_LIST(X)                                                                            \
    X(COUNTER_LOSS, LK_LOSS_COUNTER)                                                               \
    X(COUNTER_RATE, "learning rate")                                                               \
    X(COUNTER_LOCAL_NORM, "local gradient norm")                                                   \
    X(COUNTER_MEAN_NORM, "gradient norm")                                                          \
    X(COUNTER_CLIPPED_NORM, "gradient norm before clipping")                                       \
    X(COUNTER_SCALE, "loss scale")                                                                 \
    X(COUNTER_SKIPPED, "skipped steps")                                                            \
    X(COUNTER_CHECKPOINT, "checkpoint stall")                                                      \
    X(COUNTER_CLOCK_ERROR, LK_CLOCK_ERROR_COUNTER)

enum counter { COUNTER_LIST(LK_WORD_VALUE) COUNTERS };

struct trainer {
    const struct lk_train_config *config;
    int ranks, rank;
    uint64_t clock_error_ns; /* as the trace has it */
    struct lk_device *device;
    bool computes; /* the device computes; else losses are NaN */
    struct lk_stream *compute, *net;
    struct lk_stream *update; /* NULL: no updates are early */
    struct lk_track *host;
    uint16_t counters[COUNTERS];
    struct lk_model *model;
    struct lk_comm *comm;
    struct lk_exchange *exchange;
    struct lk_event *
        *buffers_ready; /* by micro-batch: its buffers are to be broadcast; NULL: none are */
    struct lk_event *buffers_there;
    struct lk_averaging *averaging; /* NULL: parameters are not averaged */
    bool check_waits;               /* a comparison of parameters is due at the next averaging */
    struct lk_optim *optim;         /* of what is owned; NULL: the model updates itself */
    struct lk_verify *verify;       /* NULL: nothing is verified */
    struct lk_dataset *dataset;
    struct lk_shares *shares;
    struct lk_loader *loader;
    bool uses_graph;
    struct lk_graph *graph;          /* NULL: not captured yet */
    struct lk_batch *batches;        /* micro-batches of a step, as the graph reads them */
    struct lk_optim_config schedule; /* the optimizer's, with a warm-up in steps */
    double rate;                     /* learning rate of the step in progress */
    struct lk_scaler scaler;         /* of the loss */
    double scale;                    /* of the step in progress, */
    bool overflows;                  /* which is not applied, as its gradients are not finite */
    lk_wide *micro_loss; /* host memory: loss of each micro-batch of the step in progress */
    lk_wide *squares, *squares_host; /* sum of squares of all gradients: device memory, host memory;
                                        NULL: they are not clipped, and the loss is not scaled */
    uint64_t *sum, *sum_host; /* checksum of parameters: device memory, host memory; NULL: none */
    int64_t n_steps;          /* warm-up included */
    int64_t step;             /* in progress */
    /* One entry per step, of this rank, whose losses weigh as its samples do; norms are NaN in
     * steps that did not measure them. */
    double *loss, *step_s, *local_sq, *mean_sq;
    double counted_s;
    uint64_t ended_ns;                  /* end of the last step */
    struct lk_checkpoints *checkpoints; /* NULL: this rank writes none */
    char *staging;                      /* host memory for copies of the state; NULL: not needed */
    struct lk_tensor_file resumed;      /* empty: the run is new */
    uint64_t first_batch;               /* of the loader */
    struct lk_train_course course;
};

/* Check the configuration, and open the device, the model and everything else that a run needs. On
 * failure lk_trainer_close releases what is open. */
enum lk_status lk_trainer_open(struct trainer *t);
void lk_trainer_close(struct trainer *t);
/* Enqueue the early update of a bucket; ctx: the trainer. */
enum lk_status lk_trainer_update_bucket(void *ctx, size_t bucket);

/* ---- trainer_check.c: what is wrong on one rank ---- */

/* Allocate what lk_trainer_check_params needs. Does nothing where parameters are not compared. */
enum lk_status lk_trainer_check_open(struct trainer *t);
/*
 * Compare the parameters of all ranks if they are due after `step` steps. The run ends with the
 * rank, the step and the first parameter that differs. Costs a pass over the parameters and one
 * round trip to the store, with 16 bytes of a rank. pre: the compute stream is idle.
 */
enum lk_status lk_trainer_check_params(struct trainer *t, int64_t step);
/* Fail if the loss of a step is not finite, and say where forward first was not. pre: likewise. */
enum lk_status lk_trainer_check_loss(struct trainer *t, int64_t step);
/* Fail if a step was skipped though a smaller scale of the loss cannot help, and name the first
 * parameter whose gradient is not finite. pre: likewise. */
enum lk_status lk_trainer_check_scale(struct trainer *t, int64_t step);

/* ---- trainer_config.c ---- */

/* Refuse a configuration that no run can have. LK_EUSAGE, LK_EUNSUPPORTED. */
enum lk_status lk_trainer_check_config(const struct lk_train_config *c);

/* ---- trainer_shares.c ---- */

/* Return how samples are dealt to ranks; pre: the data are open, or nobody asks for their count. */
struct lk_sampler_config lk_trainer_sampler(const struct trainer *t);
struct lk_shares_config lk_trainer_shares(const struct trainer *t);
/* Compute how samples are shared, and check that the run comes to none that it has no way with. */
enum lk_status lk_trainer_open_shares(struct trainer *t);
/* Return the first micro-batch of a step. */
uint64_t lk_trainer_first_batch(const struct trainer *t, int64_t step);
/* Refuse what ranks with shares of their own cannot do. */
enum lk_status lk_trainer_check_shares(const struct lk_train_config *c);
/* Return the batch whose gradients have the mean squared norm of those of all ranks: the harmonic
 * mean of theirs, since the noise of each is as 1 / batch. */
double lk_trainer_small_batch(const struct trainer *t);
/* Return the samples of a step that counts, mean. */
double lk_trainer_mean_samples(const struct trainer *t);
/* Set the batches of a run's header. */
enum lk_status lk_trainer_describe_batches(const struct lk_train_config *c,
                                           struct lk_run_info *info);

/* ---- trainer_checkpoint.c ---- */

/* Read the checkpoint to go on from, if any, and set first step, first batch and course. pre: the
 * model is described. */
enum lk_status lk_trainer_resume_read(struct trainer *t);
/* Return the buckets' order of the checkpoint; NULL: none. */
const size_t *lk_trainer_resume_order(const struct trainer *t);
/* Put weights and optimizer state of the checkpoint in place, and open the folder to write to. */
enum lk_status lk_trainer_resume_weights(struct trainer *t);
enum lk_status lk_trainer_resume_optim(struct trainer *t);
enum lk_status lk_trainer_checkpoint_open(struct trainer *t);
/* Write a checkpoint when it is time. pre: the streams are idle. */
enum lk_status lk_trainer_checkpoint(struct trainer *t, int64_t steps);

#endif
