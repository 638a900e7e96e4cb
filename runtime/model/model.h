/* Models: the computation of a step. A model enqueues ops on the compute stream and reports when
 * each parameter's gradient is final; it knows nothing of ranks. */
#ifndef LK_RUNTIME_MODEL_H
#define LK_RUNTIME_MODEL_H

#include "base/status.h"
#include "runtime/device/device.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A parameter, in registration order. Element type: the device's real. If that is narrower than
 * float, `master` holds the exact weights: the optimizer updates them and rounds them to `data`,
 * and weight files hold them, so that import and export do not round.
 */
struct lk_param {
    const char *name; /* e.g. "h.0.attn.c_attn.weight"; owned by the model */
    size_t elems;
    size_t rows; /* first dimension of a matrix; 0: a vector, or not known */
    lk_real *data;
    lk_wide *master; /* NULL: data is exact */
    lk_real *grad;   /* set by the reducer: a view into a bucket; may move between steps */
    bool decay;      /* weight decay applies (matrices, not biases and norms) */
};

/* Forward updates a buffer beside its outputs, and nothing trains it: the running statistics of a
 * batch norm. Ranks take rank 0's (runtime/train/trainer.h). */
struct lk_model_buffer {
    char name[64]; /* e.g. "bn1.running_mean" */
    size_t elems;
    double start; /* value of all elements at first */
    lk_wide *data;
};

/* An op of forward writes this, and backward leaves it there: it is the last micro-batch's. */
struct lk_model_output {
    const char *name;
    int layer; /* from 1; 0: of no layer */
    const lk_real *at;
    size_t elems;
};

/* A sample has inputs of a type, in planes of rows, and targets, which are int32. A text is one row
 * of tokens with as many targets, an image has a target. */
struct lk_sample_shape {
    enum lk_dtype dtype; /* LK_I32: tokens; LK_U8: pixels */
    int channels, height, width;
    int targets;
};
/* Return the shape of a text of so many tokens, and of an image. */
struct lk_sample_shape lk_sample_text(int tokens);
struct lk_sample_shape lk_sample_image(int channels, int height, int width);
/* Return the number of inputs of a sample. */
size_t lk_sample_inputs(const struct lk_sample_shape *s);
bool lk_sample_equal(const struct lk_sample_shape *a, const struct lk_sample_shape *b);
/* Write "text of 64 tokens" or "image of 3 x 32 x 32" into buf. */
void lk_sample_describe(const struct lk_sample_shape *s, char *buf, size_t size);

/* One micro-batch, in device memory: (samples, inputs) of the shape, and (samples, targets). */
struct lk_batch {
    int samples;
    struct lk_sample_shape shape;
    const void *inputs;
    const int32_t *targets;
};

struct lk_model_config {
    /*
     * "mlp", "replay", or a GPT-2: "gpt" (as gpt-nano), "gpt-nano", "gpt-micro", "gpt-mini",
     * "gpt-small", "gpt2-124m", "gpt2-medium", "gpt2-large", "gpt2-xl"; or a network of images:
     * "resnet-small", "resnet18", "resnet50", "vgg16". For mlp, layers counts the hidden layers,
     * channels is their width. For images, channels is the width of the first layers, vocab counts
     * the classes.
     */
    const char *name;
    int layers, heads, channels, context, vocab; /* 0: the preset's */
    int image, colours;   /* height and width, and planes, of an image; 0: the preset's */
    bool sync_batch_norm; /* batch norms take the statistics of all ranks (join) */
    int max_samples;      /* largest micro-batch: activations are allocated once */
    uint64_t seed; /* seed of the initial weights, which are the same on all ranks and devices */
    bool blank; /* keep weights zero: the model is only described, or weights are loaded into it */
    bool described;  /* nothing will run on it: it has no memory */
    const char *job; /* replay: path of a job.json */
    int replicas;    /* devices that the trainer lets it run on (runtime/model/replicas.h); 0: 1 */
};

/*
 * Callbacks on the host, during backward. `ready` comes right after the op that completes a
 * parameter's gradient was enqueued. `released` comes when every op of this backward that reads the
 * parameter's values was enqueued: from there on they may change. Where both come at once,
 * `released` comes first. The weight of a linear layer is read after its gradient is ready, a tied
 * one long before. A parameter that a model does not release is released at the end.
 */
struct lk_grad_hook {
    enum lk_status (*ready)(void *ctx, size_t param);
    void *ctx;
    enum lk_status (*released)(void *ctx, size_t param); /* (optional) */
};

/*
 * Callbacks on the host, in forward and in backward, of where a pass uses the parameters first to
 * first + n - 1. `need` comes before the first op is enqueued that reads their values or writes
 * their gradients, `done` behind the last such op. A pass needs each parameter once and is done
 * with each once. So who keeps parameters elsewhere can put them in place in between.
 */
struct lk_use_hook {
    enum lk_status (*need)(void *ctx, size_t first, size_t n);
    enum lk_status (*done)(void *ctx, size_t first, size_t n);
    void *ctx;
    double share; /* of the parameters that a model's own update is of */
};

struct lk_comm;
struct lk_fused; /* runtime/model/fuse.h */
struct lk_replicas;
struct lk_model;
struct lk_model_ops {
    const char *name;
    const char *help;
    enum lk_status (*create)(struct lk_device *d, struct lk_stream *s,
                             const struct lk_model_config *config, struct lk_model **out);
    void (*destroy)(struct lk_model *m);
    /* Enqueue the forward pass; the mean loss over the batch's targets goes to m->loss. seed: that
     * of the backward pass that follows, whose first gradient may be computed at once; NAN: none
     * follows. */
    enum lk_status (*forward)(struct lk_model *m, const struct lk_batch *batch, double seed);
    /* Enqueue the backward pass of the last forward with d(mean loss) = seed, the one that forward
     * was told unless that was NAN. accumulate false
     * overwrites every gradient, true adds. hook (NULL: none) hears once of each parameter. */
    enum lk_status (*backward)(struct lk_model *m, const struct lk_batch *batch, double seed,
                               bool accumulate, const struct lk_grad_hook *hook);
    /* (optional) Enqueue what fusions[i] says once, with max_samples, on the model's own buffers.
     * Needed for one that is measured. pre: a forward and a backward with as many ran before. */
    enum lk_status (*probe)(struct lk_model *m, size_t fusion);
    /* (optional) Enqueue the model's own update instead of the optimizer's: for replayed jobs. */
    enum lk_status (*update)(struct lk_model *m);
    /*
     * (optional) For a model with collectives of its own (SyncBatchNorm), which run over comm on
     * the net stream, among the reducer's. Both are borrowed. Called before the first forward.
     */
    enum lk_status (*join)(struct lk_model *m, struct lk_comm *comm, struct lk_stream *net);
};

struct lk_model { /* first member of a model's own struct */
    const struct lk_model_ops *ops;
    struct lk_device *device; /* borrowed */
    struct lk_stream *stream; /* borrowed: the compute stream */
    struct lk_param *params;
    size_t n_params;
    struct lk_use_hook uses; /* of its owner; all NULL: nobody asks */
    struct lk_fused
        *fusions; /* what can be fused; at first nothing is. Of the model's own struct */
    size_t n_fusions;
    double seeded;    /* the last forward computed the loss's gradient with this seed; NAN: none */
    lk_real *weights; /* allocation of all params[].data; NULL without. Gaps in it are zero */
    lk_wide *masters; /* allocation of all params[].master; NULL without. Gaps likewise */
    size_t weights_bytes, masters_bytes;
    struct lk_model_buffer *buffers; /* dense, in one allocation that begins at buffers[0].data */
    size_t n_buffers, buffer_elems;  /* buffer_elems: of all of them */
    struct lk_replicas *replicas;    /* runtime/model/replicas.h; NULL: it has none */
    bool described;                  /* it has no memory */
    double activation_bytes;         /* of all else: outputs kept for backward, and scratch */
    struct lk_model_output *outputs; /* what forward writes, in its order */
    size_t n_outputs;
    void *staging;                 /* host buffer for copies of weights */
    struct lk_sample_shape sample; /* what it takes; the width of a text is the longest */
    int vocab, max_samples;        /* targets lie below vocab */
    int positions;                 /* of a sample, that is terms that it adds to a gradient */
    lk_wide *loss;                 /* device memory, one element */
    double flops_per_sample;       /* forward and backward; NaN: unknown */
    /* A replayed job: seconds that a step waits for each batch, and after its optimizer; DDP's
     * search for unused parameters. Else 0. */
    double input_s, gap_s;
    bool find_unused_parameters;
    bool global_norm;      /* likewise: its update waits for a number of all gradients */
    struct lk_model_norm { /* batch norms that synchronise, in forward order */
        int channels;
        double at; /* share of forward's operations before it */
    } * norms;
    size_t n_norms;
    bool synchronises; /* a rank's loss depends on other ranks' samples (SyncBatchNorm) */
    size_t kinks; /* relus and maxima of a sample: where one turns, the gradient is discontinuous */
    char sample_unit[48];              /* "sequence of 64 tokens" */
    char attention[LK_ATTENTION_TEXT]; /* as lk_device_attention says; "": nothing to say */
    char config_text[160];             /* "layers 3, heads 3, channels 48, context 64, vocab 256" */
};

/* Create the model with this name or preset. LK_EUSAGE lists the names. */
enum lk_status lk_model_create(struct lk_device *d, struct lk_stream *s,
                               const struct lk_model_config *config, struct lk_model **out);
void lk_model_destroy(struct lk_model *m); /* NULL is legal */

/*
 * Write where the last forward made the first value that is not finite, "the output of layer 2's
 * c_fc has inf at element 17 of 4096", into buf; "" if all are finite. pre: the stream is idle.
 */
enum lk_status lk_model_not_finite(struct lk_model *m, char *buf, size_t size);

/* Free the memory of the parameters' values and masters: they were moved elsewhere, and
 * params[].data and .master are the caller's from now on. pre: the stream is idle. */
void lk_model_leave_weights(struct lk_model *m);

/*
 * Write and read parameters, and then buffers, as a file: one line of JSON (names and element
 * counts, in order), then float32, little endian, on every device (model_file.c). A described model
 * only checks what it imports. For comparison with other frameworks and for
 * checkpoints. pre: the stream is idle.
 */
enum lk_status lk_model_export(struct lk_model *m, const char *path);
enum lk_status lk_model_import(struct lk_model *m, const char *path);

#endif
