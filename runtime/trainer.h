/*
 * The trainer: the loop of a rank. Input, forward, backward with overlapped all-reduce, optimizer,
 * for a number of steps; every part emits its span.
 */
#ifndef LK_RUNTIME_TRAINER_H
#define LK_RUNTIME_TRAINER_H

#include "base/span.h"
#include "base/stats.h"
#include "base/status.h"
#include "base/trace.h"
#include "runtime/comm.h"
#include "runtime/data.h"
#include "runtime/model.h"
#include "runtime/optim.h"
#include "runtime/reducer.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * Whether forward, backward and all-reduce of a step are launched as one graph (runtime/device.h),
 * from the third step on: the first has no buckets in the order of the gradients yet, the second
 * makes what is made when it is first needed. The optimizer is not part of it. Legal where the
 * device has graphs, the communicator can be captured and nothing is recorded or planted; steps
 * that verify or measure the gradients' norms are launched as before. Losses are the same bits.
 */
enum lk_train_graph {
    LK_GRAPH_NO,
    LK_GRAPH_AUTO, /* where legal; else, or when a lone rank cannot capture, the log says why */
    LK_GRAPH_YES   /* an error where it is not legal: LK_EUNSUPPORTED */
};

struct lk_train_config {
    const char *device, *comm;             /* names */
    struct lk_device_config device_config; /* recorder is filled in by the trainer */
    struct lk_comm_config comm_config;     /* timeout, recorder and device are filled in by it */
    struct lk_model_config model;          /* max_samples is filled in by the trainer */
    struct lk_optim_config optim;
    struct lk_reducer_config reducer; /* comm, streams and timeout are filled in by the trainer */
    int local_batch;
    int64_t steps, warmup_steps; /* warm-up steps come first, are run and marked, not counted */
    const char *data;            /* file; NULL: synthetic */
    int64_t samples;             /* of the synthetic dataset */
    int prefetch;
    double input_delay_s; /* a batch takes at least this long to prepare */
    bool shuffle, drop_last;
    uint64_t seed;
    enum lk_train_graph graph;
    bool verify;      /* check gradients and parameters against the reference after every step */
    int verify_steps; /* only the first n steps; 0: all */
    const char *export_path, *import_path; /* weights; NULL: none. Rank 0 exports. */
    struct lk_recorder *recorder;          /* NULL: not recorded */
    /* (optional) Called after every step, outside its time. */
    void (*progress)(void *ctx, int64_t step, double loss);
    void *progress_ctx;
    uint64_t timeout_ns; /* of a wait for another rank or for a batch; a step may take twice that */
};

/* What every rank knows at the end. */
struct lk_train_result {
    double *loss;   /* mean over ranks and micro-batches, every step in order, warm-up included */
    double *step_s; /* host time of every step, mean over ranks */
    int64_t n;      /* entries of both */
    /* From the end of the warm-up to the end of the last step, this rank's: with what lies between
     * steps, which step_s leaves out. */
    double counted_s;
    struct lk_estimate noise; /* gradient noise scale in samples; value NaN: not estimated */
    double verify_max_error;  /* largest relative gradient error seen; NaN without verify */
    double verify_allowed;    /* ...and the bound that it was held against */
};
void lk_train_result_fini(struct lk_train_result *r);

/*
 * Fills what the model and the configuration say about the run: tensors, units, batch, limits. The
 * caller adds run_id, nodes and config. Makes the model once, with one sample, and frees it.
 */
enum lk_status lk_train_describe(const struct lk_train_config *config, struct lk_run_info *out);

/*
 * Opens what a rank would read (data, weights to import) with the model that would read it: what
 * fails here would fail on every rank. Makes the model once, with one sample, and frees it.
 */
enum lk_status lk_train_check(const struct lk_train_config *config);

/*
 * Runs one rank to the end. On failure the spans recorded so far stay with the sinks, and the other
 * ranks learn of it through comm_config.store; the text is then the run's verdict. The export comes
 * last: when only that fails, *out is written all the same (n > 0), and is the caller's to free.
 */
enum lk_status lk_train(const struct lk_train_config *config, struct lk_train_result *out);

#endif
