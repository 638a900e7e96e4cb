/*
 * A job (the file job.json) says what a forecast has to know of a training job, whatever the
 * cluster: its gradients and when in backward each is ready, the compute times of a micro-batch on
 * one GPU, and the runs that were measured. profiler/analysis/job_build.h makes it from runs, or a
 * user writes it by hand; forecasts (sim/) and the model that replays a job (runtime/model/) read
 * it.
 */
#ifndef LK_FACTS_JOB_H
#define LK_FACTS_JOB_H

#include "base/member.h"
#include "base/quantity.h"
#include "base/status.h"
#include "base/words.h"
#include "facts/bucket.h"
#include "facts/coll.h"
#include "facts/config.h"
#include "facts/loss.h"
#include "facts/place.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LK_JOB_SCHEMA  "lockstep-job"
#define LK_JOB_VERSION 1

struct lk_job_tensor {
    char *name;
    uint64_t elems;
    enum lk_dtype dtype;
    /* Time at which its gradient is ready, as a share of the backward of the last micro-batch: 0 at
     * its start, 1 at its end (median over steps and runs). */
    double ready;
    uint64_t rows; /* first dimension of the parameter's matrix; see lk_tensor_rows */
};

/* A SyncBatchNorm layer; its collectives are on the critical path. */
struct lk_job_sync_bn {
    int channels;
    double at; /* share of forward before it, 0..1; in backward it comes at share 1 - at */
};

/*
 * A collective of a step that reduces no gradients: of SyncBatchNorm's statistics, a norm, a loss,
 * a map, of another kind of parallelism. Positions are those of sim/step/step.h: 0 to 1 in forward,
 * to 2 in backward, to 3 in the optimizer. One that no model has (lk_job_collective_placed) takes
 * the time that it had in the runs, which is in every row's gap_s.
 */
struct lk_job_collective {
    char *function;         /* "all_reduce"; any program's name of it */
    uint64_t bytes;         /* that a rank hands in: for all_gather its own part; 0: not known */
    int ranks;              /* neighbours that it joins; 0: all */
    double at, needed;      /* launched at; compute waits there for its end */
    bool every_micro_batch; /* else in the step's last one */
    struct lk_quantity exposed_s; /* optional; what of a step of the runs it took, on a rank */
};

/* Work of one layer on one sample, forward and backward together. */
struct lk_job_layer {
    char *name;
    struct lk_quantity flops;
    struct lk_quantity bytes; /* read and written in device memory; optional */
};

/* X(recompute, name): activations that backward recomputes instead of keeping them (activation
 * checkpointing). */
#define LK_JOB_RECOMPUTE_LIST(X)                                                                   \
    X(LK_JOB_RECOMPUTE_NONE, "none")                                                               \
    X(LK_JOB_RECOMPUTE_SELECTIVE, "selective") /* attention's scores, or a fused attention */      \
    X(LK_JOB_RECOMPUTE_FULL, "full")           /* all of a layer but its input */

enum lk_job_recompute { LK_JOB_RECOMPUTE_LIST(LK_WORD_VALUE) LK_JOB_RECOMPUTE_COUNT };

/* Shape of a transformer whose sample is one sequence; activation memory is computed from it. */
struct lk_job_transformer {
    int layers; /* 0: not given, nor is any other member */
    int hidden, heads, sequence;
    int vocabulary;       /* of the output layer; 0: not counted */
    int activation_bytes; /* bytes of one activation: 2 with mixed precision, 4 without */
    enum lk_job_recompute recompute;
};

/* X(optimizer, name): the optimizer, which determines the states kept per parameter. */
#define LK_JOB_OPTIMIZER_LIST(X)                                                                   \
    X(LK_JOB_OPTIMIZER_UNKNOWN, "unknown")                                                         \
    X(LK_JOB_OPTIMIZER_SGD, "sgd")                                                                 \
    X(LK_JOB_OPTIMIZER_MOMENTUM, "momentum")                                                       \
    X(LK_JOB_OPTIMIZER_ADAM, "adam")                                                               \
    X(LK_JOB_OPTIMIZER_ADAMW, "adamw")                                                             \
    X(LK_JOB_OPTIMIZER_LARS, "lars")                                                               \
    X(LK_JOB_OPTIMIZER_LAMB, "lamb")

enum lk_job_optimizer { LK_JOB_OPTIMIZER_LIST(LK_WORD_VALUE) LK_JOB_OPTIMIZER_COUNT };

/* One micro-batch's compute on one rank, without communication, at one local batch. */
struct lk_job_compute {
    int local_batch;
    struct lk_quantity forward_s, backward_s;
    struct lk_quantity input_s;     /* time the step waited for its input batch */
    struct lk_quantity optimizer_s; /* once a step, not a micro-batch: what of it is not hidden */
    struct lk_quantity optimizer_hidden_s; /* optional; beside backward and communication */
    struct lk_quantity gap_s;              /* host gap: the rest of the step */
    struct lk_quantity transient;          /* relative sd of forward + backward from step to step */
};

/* A measured run with all its steps. Forecasts of its configuration use it as evidence "measured";
 * back-tests compare with it, and its steps are resampled. */
struct lk_job_run {
    char *source;          /* directory or file */
    struct lk_place place; /* where; nothing known: the job's */
    struct lk_config config;
    int no_sync;    /* while reading, the key that older files have for config.reduce */
    double *step_s; /* steady-state steps, warm-up left out; mean over ranks; in order */
    size_t n_steps;
    double *rank_compute_s; /* mean forward + backward a step of each rank, world_size of them, or
                               NULL */
    double losses_s[LK_LOSS_COUNT]; /* where a step went, beyond the job's runs on the fewest GPUs
                                       (`lockstep analyze`); lk_losses_known: if it was analysed */
};

/*
 * A job written by hand needs a name, gradients and one row of compute with forward and backward.
 * The rest has defaults: PyTorch's bucket limits and newest rule, one micro-batch a step, gradients
 * ready in reverse registration order and evenly over backward, no input wait, optimizer time or
 * host gap.
 */
struct lk_job {
    char *name;            /* the model */
    char *sample_unit;     /* what a sample is */
    struct lk_place place; /* where its compute was measured, and the runs that do not say it */
    enum lk_ddp_rule ddp_rule;
    uint64_t first_bytes, cap_bytes; /* bucket limits in the runs */
    int accumulation;                /* micro-batches a step in the runs; default of forecasts */
    enum lk_reduction reduce;        /* the micro-batches whose gradients are reduced */
    enum lk_overlap_mode overlap;    /* of collectives with compute, in all runs */
    enum lk_sharding sharding;       /* what ranks divide, in all runs of several */
    int shard_group;                 /* as lk_config's, as the next five */
    int averaging_period;
    int staleness;
    enum lk_algo algo;
    enum lk_compression compression;
    int powersgd_rank;
    int tensor_parallel,
        pipeline_parallel;         /* as lk_config has them; of all runs, and of forecasts */
    struct lk_job_tensor *tensors; /* registration order */
    size_t n_tensors;
    size_t *ready_order; /* n_tensors indices, in the order of the first backward; DDP rebuilds its
                            buckets by it */
    struct lk_job_compute *compute; /* sorted by local_batch, at least one */
    size_t n_compute;
    struct lk_job_run *runs; /* sorted by world_size, local_batch, accumulation; the reader sorts */
    size_t n_runs;
    int prefetch_depth; /* batches prepared ahead; 0: none */
    bool find_unused_parameters;
    bool global_norm;      /* the update waits for a number of all gradients */
    bool recorded_buckets; /* tensors are buckets, as a trace has them: their tensors are unknown */
    struct lk_job_sync_bn *sync_bn; /* in forward order */
    size_t n_sync_bn;
    struct lk_job_collective *collectives; /* others than the gradients' */
    size_t n_collectives;
    struct lk_job_layer *layers;
    size_t n_layers;
    enum lk_job_optimizer optimizer;
    bool master_weights;                   /* fp32 copies of parameters with fewer bits */
    bool gradient_as_bucket_view;          /* DDP's: gradients live in the buckets, no copy */
    struct lk_job_transformer transformer; /* optional */
    struct lk_quantity flops_per_sample;   /* optional */
    struct lk_quantity memory_fixed_bytes, memory_per_sample_bytes; /* optional */
    struct lk_quantity noise_scale;    /* optional; tr(Sigma) / |G|^2, in samples */
    struct lk_quantity target_samples; /* optional; samples to reach the target at batches far below
                                          noise_scale (E_min of facts/noise.h's paper) */
    struct lk_quantity learning_rate;  /* optional; that of the runs */
    int64_t learning_rate_batch;       /* global batch that it was tuned for; 0: not known */
    int no_sync; /* while reading, the key that older files have for `reduce` */
};

/* Reading checks the meaning too: sizes are above 0, batches unique and sorted. */
LK_RECORD_FILE(lk_job);

/* Give every run what all runs of the job have: the overlap, and the GPUs of a replica. */
void lk_job_settle_runs(struct lk_job *j);
/* Return where a run of the job was measured. */
const struct lk_place *lk_job_run_place(const struct lk_job *j, const struct lk_job_run *r);

extern const struct lk_words lk_job_optimizer_words, lk_job_recompute_words;
/* Return the compute row's local batch that most runs have, the smaller one of a tie; without runs,
 * the largest. */
int lk_job_usual_batch(const struct lk_job *j);
/*
 * Set the ready order and the ready times that a job with tensors lacks. A missing ready order is
 * made by ready time; where times are equal or NaN, the tensor registered last comes first. Ready
 * times that are NaN are then spread evenly over backward, in the ready order. pre: all tensors
 * have a ready time, or none has.
 */
enum lk_status lk_job_order_gradients(struct lk_job *j);
/* Return true if the step model has the collective: its function is one of the modelled ones, and
 * its size is known. */
bool lk_job_collective_placed(const struct lk_job_collective *c, enum lk_coll *out);
/* Return the sum of gradient bytes. */
uint64_t lk_job_gradient_bytes(const struct lk_job *j);
/* Convert the tensors to the items of facts/bucket.h, n_tensors of them, freed by the caller. */
enum lk_status lk_job_bucket_tensors(const struct lk_job *j, struct lk_bucket_tensor **out);
/* Make the steady-state buckets with these limits. Tests and benchmarks use it to build traces with
 * known truths. */
enum lk_status lk_job_buckets(const struct lk_job *j, uint64_t first_bytes, uint64_t cap_bytes,
                              struct lk_bucket_plan *out);

/* Return true if the job gives rows of a tensor: those without are vectors then. */
bool lk_job_has_shapes(const struct lk_job *j);
/* Return the rows of a tensor's matrix, which divide its elements; 0 or 1: it is a vector. Where
 * the job has no shapes, each tensor counts as the matrix that is nearest to a square. */
uint64_t lk_tensor_rows(const struct lk_job_tensor *t, bool has_shapes);

#endif
