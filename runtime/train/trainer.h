/* The trainer: a rank's training loop. Input, forward, backward with overlapped all-reduce,
 * optimizer, for a number of steps; every part emits its span. */
#ifndef LK_RUNTIME_TRAINER_H
#define LK_RUNTIME_TRAINER_H

#include "base/stats.h"
#include "base/status.h"
#include "facts/span.h"
#include "facts/tensor_file.h"
#include "facts/trace.h"
#include "runtime/comm/comm.h"
#include "runtime/model/fuse.h"
#include "runtime/model/model.h"
#include "runtime/model/optim.h"
#include "runtime/train/averaging.h"
#include "runtime/train/data.h"
#include "runtime/train/hook.h"
#include "runtime/train/reducer.h"
#include "runtime/train/scaler.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * Launching forward, backward, all-reduce and optimizer of a step as one graph
 * (runtime/device/device.h), from the third step on: after the first the buckets are rebuilt, and
 * the second does lazy initialisation. What changes from step to step, the batches and the
 * optimizer's rate, is in memory that the graph reads. Legal where the device has graphs, the
 * communicator can be captured and nothing is recorded or planted; steps that verify or measure the
 * gradients' norms are launched op by op. Losses are bit-identical.
 */
enum lk_train_graph {
    LK_GRAPH_NO,
    LK_GRAPH_AUTO, /* where legal; otherwise, or if a single rank's capture fails, log the reason
                      and go on */
    LK_GRAPH_YES   /* LK_EUNSUPPORTED where it is not legal */
};

/*
 * Checkpoints (runtime/train/checkpoint.h), which rank 0 writes on a thread of its own: weights,
 * rank 0's buffers, optimizer state, what the exchange keeps (runtime/model/kept.h), the loss
 * scale, the order of buckets and how far the run is. There is no more to keep. Every random number
 * is a function of the seed, the epoch and the sample, the schedule is one of the steps applied,
 * and the optimizer's state is whole in the file. So a run that goes on from one gives the same
 * bits as one that was not ended, on as many ranks.
 */
struct lk_checkpoint_config {
    const char *dir;
    int64_t every; /* steps; the last step is always followed by one. 0: none are written */
    int keep;
    const struct lk_tensor_text *texts; /* what else a file says; borrowed */
    size_t n_texts;
    const char *resume; /* file to go on from; NULL: none */
    uint64_t began_ns;  /* lk_now_ns when the start of the run began; 0: unknown */
};

/* The course of a run over all its starts; what a failure undid is not in it. Seconds of rank 0. */
struct lk_train_course {
    int64_t first_step; /* of this start: the ones before are a checkpoint's */
    int64_t checkpoints;
    double trained_s;  /* in steps */
    double stalled_s;  /* between them, for checkpoints */
    double starting_s; /* from the begin of a start, or a failure, to its first step */
    int64_t starts;
};

struct lk_train_config {
    const char *device, *comm;             /* names */
    struct lk_device_config device_config; /* recorder is filled in by the trainer */
    struct lk_comm_config comm_config;     /* timeout, recorder and device are filled in */
    struct lk_model_config model;          /* max_samples is filled in by the trainer */
    struct lk_optim_config optim;
    /* All gradients are multiplied by min(1, clip_norm / their norm) before the update, which then
     * waits for all of them; 0: they are not. */
    double clip_norm;
    struct lk_scaler_config scaler; /* of the loss; AUTO is DYNAMIC in float16, else NONE */
    struct lk_reducer_config
        reducer;                /* comm, streams, early, hook, local and timeout are filled in */
    struct lk_hook_config hook; /* of gradients; seed and timeout are filled in */
    struct lk_averaging_config averaging; /* of parameters, instead of gradients */
    int local_batch; /* of this rank; with sampler.batches ranks have batches of their own, which
                        are weighed so that a step is that of one rank on all samples */
    int64_t steps, warmup_steps; /* warm-up steps run first, are marked, and do not count */
    const char *data;            /* file; NULL: synthetic */
    enum lk_data_format data_format;
    int64_t samples;       /* size of the synthetic dataset */
    int prefetch, workers; /* batches prepared ahead, and threads for that; workers 0: one */
    double input_delay_s;  /* a batch takes at least this long to prepare */
    struct lk_sampler_config
        sampler;           /* how the data are shared; samples, ranks and seed are filled in */
    enum lk_divide divide; /* what divides gradients while ranks have run out (LK_UNEVEN_JOIN) */
    uint64_t seed;
    /*
     * The trainer's own is LK_FUSE_OPTIMIZER: each bucket is updated beside backward
     * (runtime/train/early.h), instead of all parameters behind it. They are bit-identical. Legal
     * unless the model replays a job or a fault is planted; AUTO where it is legal, on a device
     * with processors of its own: on the host's, which the streams share, an update takes from
     * backward what it saves behind it.
     */
    struct lk_fuse fuse;
    /* Ranks take rank 0's buffers before each forward that follows a synchronised backward, as DDP
     * with broadcast_buffers: before each step's first forward with no_sync, else before each. */
    bool broadcast_buffers;
    enum lk_train_graph graph;
    bool verify;      /* check gradients and parameters against the reference after every step */
    int verify_steps; /* only the first n steps; 0: all */
    /* Steps between comparisons of all ranks' parameters, which are compared before the first step
     * and after the last, too; 0: never. Where ranks average parameters they differ in between on
     * purpose: a comparison then waits for the next averaging. */
    int check_every;
    const char *export_path, *import_path; /* weight files; NULL: none. Rank 0 exports */
    struct lk_checkpoint_config checkpoint;
    struct lk_recorder *recorder; /* NULL: not recorded */
    /* (optional) Called after every step, outside its time. Its error ends the run. */
    enum lk_status (*progress)(void *ctx, int64_t step, double loss);
    void *progress_ctx;
    uint64_t timeout_ns; /* limit of a wait for another rank or a batch; twice that for a step */
};

/* The result, on every rank. */
struct lk_train_result {
    /* For every step, warm-up included; NaN of those before course.first_step. */
    double *loss;      /* mean over the samples of all ranks */
    double *step_s;    /* host time, mean over ranks */
    int64_t n;         /* entries of both */
    int64_t skipped;   /* as lk_train_skipped */
    double loss_scale; /* behind the last step; NaN: the loss was not scaled */
    int64_t overflown; /* steps that overflowed and were not applied, of all starts */
    struct lk_train_course course;
    double samples; /* a counted step, mean, of all ranks */
    /* Seconds from the end of the warm-up to the end of the last step, on this rank. Includes the
     * time between steps, which step_s leaves out. */
    double counted_s;
    struct lk_estimate noise; /* gradient noise scale in samples; value NaN: not estimated */
    double verify_max_error;  /* largest relative gradient error seen; NaN without verify */
    double verify_allowed;    /* bound of that gradient */
};
void lk_train_result_fini(struct lk_train_result *r);

/* Return the first step that counts in statistics: the ones before warm up, the run or a start that
 * goes on from a checkpoint, but the last step always counts. */
int64_t lk_train_skipped(const struct lk_train_config *config);

/* Describe the run, for the header of its trace: tensors, units, batch, limits. The caller adds
 * run_id, nodes and config. Creates the model once, with one sample, and frees it. */
enum lk_status lk_train_describe(const struct lk_train_config *config, struct lk_run_info *out);

/* Check that the files a rank would read (data, weights to import) open and fit the model: what
 * fails here would fail on every rank. *samples: those of the data. Creates the model once, with
 * one sample, and frees it. */
enum lk_status lk_train_check(const struct lk_train_config *config, size_t *samples);
/* Check that the run, new, comes to no samples of an epoch that it has no way with
 * (lk_shares_check), and that each rank has some. */
enum lk_status lk_train_check_shares(const struct lk_train_config *config, size_t samples);

/*
 * Run one rank to the end. A loss that is not finite is a failure; gradients that are not are one
 * where the loss is not scaled, or its scale cannot fall. On failure the sinks keep the
 * spans recorded so far, and the other ranks learn of it through comm_config.store; the error text
 * is then the run's verdict. The export comes last: when only that fails, *out is written all the
 * same (n > 0), and the caller frees it.
 */
enum lk_status lk_train(const struct lk_train_config *config, struct lk_train_result *out);

#endif
