/* Private to the models: memory, initial weights and the gradient hook. */
#ifndef LK_RUNTIME_MODEL_IMPL_H
#define LK_RUNTIME_MODEL_IMPL_H

#include "runtime/model.h"

extern const struct lk_model_ops lk_model_gpt;
extern const struct lk_model_ops lk_model_mlp;
extern const struct lk_model_ops lk_model_replay;

/*
 * Buffers cut from one allocation. A model lays out its buffers in one function, which runs twice:
 * with base NULL it counts, with the memory it hands out pointers.
 */
struct lk_model_arena {
    char *base;   /* NULL: only count */
    size_t bytes; /* handed out so far */
    size_t real_bytes, wide_bytes;
    bool keeps_log_sum; /* lk_device_keeps_log_sum */
    bool overflow;
};
/* An empty one that counts, with the device's element sizes. */
struct lk_model_arena lk_model_arena_of(const struct lk_device *d);
/* rows * columns elements, 64-byte aligned; NULL while counting. */
lk_real *lk_model_take(struct lk_model_arena *a, size_t rows, size_t columns);
lk_wide *lk_model_take_wide(struct lk_model_arena *a, size_t rows, size_t columns);
/* After counting: LK_EUSAGE when it does not fit an address space. */
enum lk_status lk_model_arena_check(const struct lk_model_arena *a);
/* Allocates what was counted, sets base and starts over. */
enum lk_status lk_model_arena_alloc(struct lk_model *m, struct lk_model_arena *a);

/* How a parameter starts. */
enum lk_model_start { LK_START_ZERO, LK_START_ONE, LK_START_NORMAL };

/* One parameter before the model exists. */
struct lk_model_param {
    const char *name; /* copied */
    size_t rows, columns;
    bool decay; /* matrices and embeddings, not biases and norms */
    enum lk_model_start start;
    double std;
};
/*
 * Fills the common part of m: parameters in one allocation, with initial values unless the config
 * wants them blank. A normal value depends on seed, name and index alone, and is rounded to float32
 * on every device.
 */
enum lk_status lk_model_init(struct lk_model *m, const struct lk_model_ops *ops,
                             struct lk_device *d, struct lk_stream *s,
                             const struct lk_model_config *config,
                             const struct lk_model_param *params, size_t n);
/* Frees what lk_model_init made; safe on a zeroed model. */
void lk_model_fini(struct lk_model *m);

/* LK_EUSAGE unless 1 <= value <= max. */
enum lk_status lk_model_check_size(const char *what, int value, int max);
/* LK_EUSAGE unless the batch fits what was allocated. */
enum lk_status lk_model_check_batch(const struct lk_model *m, const struct lk_batch *batch,
                                    int max_samples);

/* The parameter's gradient is final: marks it on the stream and calls the hook. hook may be NULL.
 */
enum lk_status lk_model_ready(struct lk_model *m, const struct lk_grad_hook *hook, size_t param);

/* Copies between a host array of float32 and a parameter, and waits for it. Up go the exact weights
 * and what they round to, down come the exact ones. */
enum lk_status lk_model_upload(struct lk_model *m, size_t param, const float *from);
enum lk_status lk_model_download(struct lk_model *m, size_t param, float *to);

#endif
