/*
 * The job artefact (job.json): what one optimizer step is on one GPU. Written by profiler/ from
 * runs, or by hand; read by sim/ and by the replay model.
 */
#ifndef LK_BASE_JOB_H
#define LK_BASE_JOB_H

#include "base/bucket.h"
#include "base/quantity.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LK_JOB_SCHEMA  "lockstep-job"
#define LK_JOB_VERSION 1

struct lk_job_tensor {
    char *name;
    uint64_t elems;
    enum lk_dtype dtype;
    /* When its gradient is ready, as a share of the backward of the last micro-batch: 0 at its
     * start, 1 at its end (median over steps and runs). */
    double ready;
    uint64_t rows; /* of the matrix that its parameter is: its first dimension; 0: not known */
};

/* A SyncBatchNorm layer: its collectives stand on the critical path. */
struct lk_job_sync_bn {
    int channels;
    double at; /* the share of forward before it, 0..1; its backward is at 1 - at */
};

/* What one layer does for one sample, forward and backward together. */
struct lk_job_layer {
    char *name;
    struct lk_quantity flops;
    struct lk_quantity bytes; /* read and written in the device's memory; optional */
};

/* X(recompute, name): what backward computes again instead of keeping it. */
#define LK_JOB_RECOMPUTE_LIST(X)                                                                   \
    X(LK_JOB_RECOMPUTE_NONE, "none")                                                               \
    X(LK_JOB_RECOMPUTE_SELECTIVE, "selective") /* attention's scores, or a fused attention */      \
    X(LK_JOB_RECOMPUTE_FULL, "full")           /* all of a layer but its input */

enum lk_job_recompute {
#define LK_JOB_RECOMPUTE_ENUM_(recompute, name) recompute,
    LK_JOB_RECOMPUTE_LIST(LK_JOB_RECOMPUTE_ENUM_)
#undef LK_JOB_RECOMPUTE_ENUM_
        LK_JOB_RECOMPUTE_COUNT
};

/* Shape of a transformer whose sample is one sequence; from it follow the activations. */
struct lk_job_transformer {
    int layers; /* 0: not given, and nothing else here is */
    int hidden, heads, sequence;
    int vocabulary;       /* of the output layer; 0: not counted */
    int activation_bytes; /* of a value: 2 with mixed precision, 4 without */
    enum lk_job_recompute recompute;
};

/* X(optimizer, name): what keeps states beside the parameters. */
#define LK_JOB_OPTIMIZER_LIST(X)                                                                   \
    X(LK_JOB_OPTIMIZER_UNKNOWN, "unknown")                                                         \
    X(LK_JOB_OPTIMIZER_SGD, "sgd")                                                                 \
    X(LK_JOB_OPTIMIZER_MOMENTUM, "momentum")                                                       \
    X(LK_JOB_OPTIMIZER_ADAM, "adam")                                                               \
    X(LK_JOB_OPTIMIZER_ADAMW, "adamw")

enum lk_job_optimizer {
#define LK_JOB_OPTIMIZER_ENUM_(optimizer, name) optimizer,
    LK_JOB_OPTIMIZER_LIST(LK_JOB_OPTIMIZER_ENUM_)
#undef LK_JOB_OPTIMIZER_ENUM_
        LK_JOB_OPTIMIZER_COUNT
};

/* One micro-batch's compute on one rank, without communication, at one local batch. */
struct lk_job_compute {
    int local_batch;
    struct lk_quantity forward_s, backward_s;
    struct lk_quantity input_s;     /* time the step waited for its batch */
    struct lk_quantity optimizer_s; /* a step, not a micro-batch */
    struct lk_quantity gap_s;       /* the step's time outside all of these */
    struct lk_quantity transient;   /* relative sd of forward + backward from step to step */
};

/* A measured run, whole: evidence for "measured", for back-tests and for resampling. */
struct lk_job_run {
    char *source; /* directory or file */
    int gpus, nodes;
    int local_batch, accumulation;
    bool no_sync;
    uint64_t first_bytes, cap_bytes;
    double *step_s; /* steady-state steps, warm-up left out; mean over ranks; in order */
    size_t n_steps;
    double *rank_compute_s; /* mean forward + backward a step of each rank, gpus of them, or NULL */
};

/*
 * A job by hand needs a name, gradients and one row of compute with forward and backward. The rest
 * has defaults: PyTorch's bucket limits and newest rule, one micro-batch a step, gradients ready in
 * reverse registration order and evenly over backward, no input wait, optimizer time or host gap.
 */
struct lk_job {
    char *name;        /* the model */
    char *sample_unit; /* what a sample is */
    enum lk_ddp_rule ddp_rule;
    uint64_t first_bytes, cap_bytes; /* bucket limits in the runs */
    int accumulation;                /* in the runs; the default of forecasts */
    bool no_sync;
    struct lk_job_tensor *tensors; /* registration order */
    size_t n_tensors;
    size_t *ready_order; /* n_tensors: the order of the first backward, for the rebuilt buckets */
    struct lk_job_compute *compute; /* by local_batch, at least one */
    size_t n_compute;
    struct lk_job_run *runs; /* by gpus, local_batch, accumulation (the reader sorts) */
    size_t n_runs;
    int prefetch_depth; /* batches prepared ahead; 0: none */
    bool find_unused_parameters;
    struct lk_job_sync_bn *sync_bn; /* in forward order */
    size_t n_sync_bn;
    struct lk_job_layer *layers;
    size_t n_layers;
    enum lk_job_optimizer optimizer;
    bool master_weights;                   /* fp32 copies beside parameters of fewer bits */
    bool gradient_as_bucket_view;          /* DDP's: gradients live in the buckets, no copy */
    struct lk_job_transformer transformer; /* optional */
    struct lk_quantity flops_per_sample;   /* optional */
    struct lk_quantity memory_fixed_bytes, memory_per_sample_bytes; /* optional */
    struct lk_quantity noise_scale;    /* optional; in samples: tr(Sigma) / |G|^2 */
    struct lk_quantity target_samples; /* optional; to the target with small batches: E_min */
    struct lk_quantity learning_rate;  /* optional; of the runs */
    int64_t learning_rate_batch;       /* the global batch that it was tuned for; 0: not known */
};

void lk_job_init(struct lk_job *j); /* empty: every quantity unknown */
void lk_job_fini(struct lk_job *j); /* zeroes it; safe on a zeroed job */
/* LK_EPARSE names file, line and key. Checks meaning too: sizes > 0, batches unique and sorted. */
enum lk_status lk_job_read(const char *path, struct lk_job *out);
enum lk_status lk_job_write(const char *path, const struct lk_job *j);

extern const char *const lk_job_optimizer_names[LK_JOB_OPTIMIZER_COUNT];
extern const char *const lk_job_recompute_names[LK_JOB_RECOMPUTE_COUNT];
/* The local batch that most runs have (the smaller one of equals); without runs the first row's. */
int lk_job_usual_batch(const struct lk_job *j);
/* Sum of gradient bytes. */
uint64_t lk_job_gradient_bytes(const struct lk_job *j);
/* The tensors as the bucket rules want them, n_tensors items, freed by the caller. */
enum lk_status lk_job_bucket_tensors(const struct lk_job *j, struct lk_bucket_tensor **out);
/* The steady-state buckets with these limits. */
enum lk_status lk_job_buckets(const struct lk_job *j, uint64_t first_bytes, uint64_t cap_bytes,
                              struct lk_bucket_plan *out);

#endif
