/* Private to the models: memory, initial weights and the gradient hook. */
#ifndef LK_RUNTIME_MODEL_IMPL_H
#define LK_RUNTIME_MODEL_IMPL_H

#include "runtime/model/model.h"

extern const struct lk_model_ops lk_model_gpt;
extern const struct lk_model_ops lk_model_mlp;
extern const struct lk_model_ops lk_model_replay;
extern const struct lk_model_ops lk_model_resnet;
extern const struct lk_model_ops lk_model_vgg;

/* Buffers cut from one allocation. A model lays out its buffers in one function, which runs twice:
 * with base NULL it only counts bytes, with memory it returns pointers. */
struct lk_model_arena {
    char *base;   /* NULL: only count */
    size_t bytes; /* bytes taken so far */
    size_t real_bytes, wide_bytes;
    bool keeps_log_sum; /* lk_device_keeps_log_sum */
    bool overflow;
    int layer;              /* that what is taken next belongs to, from 1; 0: to none */
    size_t n_outputs;       /* named so far */
    struct lk_model *notes; /* keeps the names, once there is memory */
};
/* Return an empty arena that counts, with the device's element sizes. */
struct lk_model_arena lk_model_arena_of(const struct lk_device *d);
/* Take rows * columns elements, 64-byte aligned. Return NULL while counting. output: what forward
 * writes there, in the order in which it does (struct lk_model_output); NULL: anything else. */
lk_real *lk_model_take(struct lk_model_arena *a, const char *output, size_t rows, size_t columns);
lk_wide *lk_model_take_wide(struct lk_model_arena *a, size_t rows, size_t columns);
/* Check the count: LK_EUSAGE when it does not fit an address space. */
enum lk_status lk_model_arena_check(const struct lk_model_arena *a);
/* Allocate the counted bytes, set base and start over. A described model gets no memory. */
enum lk_status lk_model_arena_alloc(struct lk_model *m, struct lk_model_arena *a);

/* A parameter's initial values. */
enum lk_model_start { LK_START_ZERO, LK_START_ONE, LK_START_NORMAL };

/* The description of a parameter, from which the model is made. */
struct lk_model_param {
    const char *name; /* copied */
    size_t rows, columns;
    bool decay; /* matrices and embeddings, not biases and norms */
    enum lk_model_start start;
    double std;
};
/*
 * Fill the common part of m: parameters in one allocation, with initial values unless the config
 * asks for blank ones. A normal value depends on seed, name and index alone, and is rounded to
 * float32 on every device.
 */
enum lk_status lk_model_init(struct lk_model *m, const struct lk_model_ops *ops,
                             struct lk_device *d, struct lk_stream *s,
                             const struct lk_model_config *config,
                             const struct lk_model_param *params, size_t n);
/* Make n buffers of these names, sizes and starts; `list` is copied. */
enum lk_status lk_model_init_buffers(struct lk_model *m, const struct lk_model_config *config,
                                     const struct lk_model_buffer *list, size_t n);
/* Free what these two allocated; safe on a zeroed model. */
void lk_model_fini(struct lk_model *m);

/* Return the type of lk_wide on the model's device. */
enum lk_dtype lk_model_wide_dtype(const struct lk_model *m);
/* Copy between device memory and host floats, one of `from` and `to`, and wait; in pieces through
 * the staging buffer, which serves one copy at a time. */
enum lk_status lk_model_transfer(struct lk_model *m, void *device, enum lk_dtype dtype,
                                 const float *from, float *to, size_t elems);
/* Copy float32 to a parameter, its exact weights and its rounded values, and wait. */
enum lk_status lk_model_upload(struct lk_model *m, size_t param, const float *from);

/* Check a size: LK_EUSAGE unless 1 <= value <= max. */
enum lk_status lk_model_check_size(const char *what, int value, int max);
/* Check the sizes that all models have: layers, channels, context, vocab, max_samples. */
enum lk_status lk_model_check_sizes(const struct lk_model_config *c);
/* Check a batch: LK_EUSAGE unless it fits the allocated buffers. */
enum lk_status lk_model_check_batch(const struct lk_model *m, const struct lk_batch *batch,
                                    int max_samples);

/* List what can be fused in the model's own array: n of `list`. */
void lk_model_fusions(struct lk_model *m, struct lk_fused *own, const struct lk_fused *list,
                      size_t n);

/*
 * Return the operations of forward and backward of a transformer per sample: 6 per token for every
 * weight but the parameter `added`, which multiplies nothing, and 12 * layers * channels * context
 * per token for attention: Chowdhery et al. 2022 (PaLM), appendix B, which does not subtract the
 * causal half.
 */
double lk_model_transformer_flops(const struct lk_model *m, size_t added, size_t layers,
                                  size_t channels);

/* Enqueue the loss, and if `fused` and a seed is given its gradient, in place of the logits. */
enum lk_status lk_model_loss_forward(struct lk_model *m,
                                     const struct lk_cross_entropy_forward_args *args, bool fused,
                                     double seed);
/* Enqueue the loss's gradient unless forward has done it. LK_EINTERNAL when that was with another
 * seed. args: those of forward. */
enum lk_status lk_model_loss_backward(struct lk_model *m,
                                      const struct lk_cross_entropy_forward_args *args,
                                      double seed);

/* Mark a parameter's gradient as final on the stream and tell the hook. hook may be NULL. */
enum lk_status lk_model_ready(struct lk_model *m, const struct lk_grad_hook *hook, size_t param);
/* Tell the hook that no op enqueued from now on reads the parameter in this backward. */
enum lk_status lk_model_release(const struct lk_grad_hook *hook, size_t param);
/* Tell the hook both. */
enum lk_status lk_model_finish(struct lk_model *m, const struct lk_grad_hook *hook, size_t param);
/* Tell m->uses where a pass begins, and ends, to use n parameters from `first` on. */
enum lk_status lk_model_need(const struct lk_model *m, size_t first, size_t n);
enum lk_status lk_model_done(const struct lk_model *m, size_t first, size_t n);

#endif
