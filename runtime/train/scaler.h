/*
 * Scaling of the loss, so that gradients of float16 neither vanish nor overflow: the seed of the
 * backward pass is multiplied by a scale, and the optimizer divides gradients by it in float. The
 * rule is that of torch.cuda.amp.GradScaler (PyTorch 1.13, grad_scaler.py and _amp_update_scale_):
 *
 *     after a step whose gradients are all finite   good = good + 1; when good is growth_interval:
 *                                                   scale = 2 scale, unless that is infinite, and
 *                                                   good = 0
 *     after any other, which is not applied         scale = scale / 2; good = 0
 *
 * A step is applied by all ranks or by none: they ask the same sum of squares of the reduced
 * gradients (lk_exchange_sum_squares), which is not finite when one of them is not. Beyond
 * PyTorch's rule a run ends when a step overflows at a scale of 1, which scaling cannot help.
 */
#ifndef LK_RUNTIME_SCALER_H
#define LK_RUNTIME_SCALER_H

#include "base/status.h"
#include "base/words.h"
#include "facts/dtype.h"

#include <stdbool.h>
#include <stdint.h>

/* X(kind, name) */
#define LK_LOSS_SCALE_LIST(X)                                                                      \
    X(LK_LOSS_SCALE_AUTO, "auto") /* dynamic in float16, else none */                              \
    X(LK_LOSS_SCALE_NONE, "none")                                                                  \
    X(LK_LOSS_SCALE_DYNAMIC, "dynamic")

enum lk_loss_scale { LK_LOSS_SCALE_LIST(LK_WORD_VALUE) LK_LOSS_SCALE_FIXED };
LK_WORDS_DECLARE(lk_loss_scale, enum lk_loss_scale);

struct lk_scaler_config {
    enum lk_loss_scale kind;
    double start;        /* DYNAMIC: the first scale; FIXED: the scale. > 0 */
    int growth_interval; /* DYNAMIC; > 0 */
};

#define LK_SCALER_START  65536
#define LK_SCALER_GROWTH 2000
/* The smallest scale that a step may overflow at. */
#define LK_SCALER_FLOOR 1

/* Read "auto", "none", "dynamic", "dynamic:1024" or a scale, as 128. LK_EUSAGE says what is wrong.
 * Keeps the growth interval. */
enum lk_status lk_scaler_parse(const char *text, struct lk_scaler_config *config);
/* Return the kind for training in a type, which is not AUTO. */
enum lk_loss_scale lk_scaler_kind(const struct lk_scaler_config *config, enum lk_dtype dtype);
/* Return true if the loss is scaled in training in a type. */
bool lk_scaler_scales(const struct lk_scaler_config *config, enum lk_dtype dtype);

/* The state, which checkpoints keep. */
struct lk_scaler {
    struct lk_scaler_config config;
    float scale;
    int64_t good;    /* steps applied since the scale last changed */
    int64_t skipped; /* steps not applied so far */
};

/* Start for training in a type. LK_EUSAGE: a scale or an interval that is none. */
enum lk_status lk_scaler_init(struct lk_scaler *s, const struct lk_scaler_config *config,
                              enum lk_dtype dtype);
/* Return true if the loss is scaled, and steps with gradients that are not finite are skipped. */
bool lk_scaler_is_on(const struct lk_scaler *s);
/* Take note of a step: applied or skipped. A fixed scale stays. */
void lk_scaler_step(struct lk_scaler *s, bool applied);

#endif
