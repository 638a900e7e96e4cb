/*
 * Models: what a step computes. A model enqueues ops on the compute stream and says when each
 * parameter's gradient is final; it knows nothing of ranks.
 */
#ifndef LK_RUNTIME_MODEL_H
#define LK_RUNTIME_MODEL_H

#include "base/status.h"
#include "runtime/device.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A parameter, in registration order. Element type: the device's real. Where that is narrower than
 * float, `master` has the exact weights, which the optimizer updates and rounds `data` from; files
 * hold those, so that what was imported is trained on, and exported, without a rounding.
 */
struct lk_param {
    const char *name; /* e.g. "h.0.attn.c_attn.weight"; owned by the model */
    size_t elems;
    lk_real *data;
    lk_wide *master; /* NULL: data is exact */
    lk_real *grad;   /* set by the reducer: a view into a bucket; may move between steps */
    bool decay;      /* weight decay applies (matrices, not biases and norms) */
};

/* Tokens of one micro-batch, in device memory: inputs and targets are (samples, context) int32. */
struct lk_batch {
    int samples, context;
    const int32_t *inputs, *targets;
};

struct lk_model_config {
    /*
     * "mlp", "replay", or a GPT-2: "gpt" (as gpt-nano), "gpt-nano", "gpt-micro", "gpt-mini",
     * "gpt-small", "gpt2-124m". For mlp, layers are the hidden ones and channels their width.
     */
    const char *name;
    int layers, heads, channels, context, vocab; /* 0: the preset's */
    int max_samples; /* largest micro-batch: activations are allocated once */
    uint64_t seed;   /* initial weights: the same on all ranks and devices */
    bool blank;      /* weights stay zero: somebody describes the model, or loads others into it */
    const char *job; /* replay: path of a job.json */
};

/* Called on the host right after the op that completes this gradient was enqueued. */
struct lk_grad_hook {
    enum lk_status (*ready)(void *ctx, size_t param);
    void *ctx;
};

struct lk_comm;
struct lk_model;
struct lk_model_ops {
    const char *name;
    const char *help;
    enum lk_status (*create)(struct lk_device *d, struct lk_stream *s,
                             const struct lk_model_config *config, struct lk_model **out);
    void (*destroy)(struct lk_model *m);
    /* Enqueues the forward pass; the mean loss over the batch's targets lands in m->loss. */
    enum lk_status (*forward)(struct lk_model *m, const struct lk_batch *batch);
    /*
     * Enqueues the backward pass of the last forward with d(mean loss) = seed. accumulate false
     * overwrites every gradient, true adds. hook (NULL: none) is called once a parameter.
     */
    enum lk_status (*backward)(struct lk_model *m, const struct lk_batch *batch, double seed,
                               bool accumulate, const struct lk_grad_hook *hook);
    /* (optional) Enqueues a step of the model's own instead of the optimizer: for replayed jobs. */
    enum lk_status (*update)(struct lk_model *m);
    /* (optional) For a model with collectives of its own (a replayed SyncBatchNorm): they go over
     * comm on the net stream, both borrowed, among the reducer's. Before the first forward. */
    enum lk_status (*join)(struct lk_model *m, struct lk_comm *comm, struct lk_stream *net);
};

struct lk_model { /* first member of a model's own struct */
    const struct lk_model_ops *ops;
    struct lk_device *device; /* borrowed */
    struct lk_stream *stream; /* borrowed: the compute stream */
    struct lk_param *params;
    size_t n_params;
    lk_real *weights; /* all params[].data lie in this allocation; NULL without */
    lk_wide *masters; /* and all params[].master in this one */
    void *staging;    /* host memory through which weights come and go */
    int context, vocab;
    lk_wide *loss;           /* device memory, one element */
    double flops_per_sample; /* forward and backward; NaN: unknown */
    /* A replayed job: what a step waits for each batch, and after its optimizer; whether DDP looks
     * for unused parameters; else 0. */
    double input_s, gap_s;
    bool find_unused_parameters;
    bool has_kinks;        /* its gradient jumps where a relu turns on or off */
    char sample_unit[48];  /* "sequence of 64 tokens" */
    char config_text[160]; /* "layers 3, heads 3, channels 48, context 64, vocab 256" */
};

/* Finds the model by name or preset and creates it. LK_EUSAGE lists the names. */
enum lk_status lk_model_create(struct lk_device *d, struct lk_stream *s,
                               const struct lk_model_config *config, struct lk_model **out);
void lk_model_destroy(struct lk_model *m); /* NULL is legal */

/*
 * Parameters as a file: one line of JSON (names and element counts, in order), then float32 little
 * endian, on every device. For comparison with other frameworks and for checkpoints. pre: the
 * stream is idle.
 */
enum lk_status lk_model_export(struct lk_model *m, const char *path);
enum lk_status lk_model_import(struct lk_model *m, const char *path);

#endif
