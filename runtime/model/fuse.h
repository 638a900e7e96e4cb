/*
 * What a step fuses: work of several launches, or of several passes over memory, that one launch or
 * one pass does. A model fuses loss, bias and gelu; the trainer the optimizer. docs/gpu.md has what
 * each saves.
 */
#ifndef LK_RUNTIME_FUSE_H
#define LK_RUNTIME_FUSE_H

#include "base/status.h"
#include "base/words.h"

#include <stdbool.h>
#include <stdint.h>

/* X(fusion, name) */
#define LK_FUSE_LIST(X)                                                                            \
    X(LK_FUSE_LOSS, "loss")           /* the loss and its gradient in one kernel */                \
    X(LK_FUSE_BIAS, "bias")           /* gradients of biases beside other work on the same data */ \
    X(LK_FUSE_GELU, "gelu")           /* gelu and its derivative in the product beside it */       \
    X(LK_FUSE_OPTIMIZER, "optimizer") /* a bucket's update beside the rest of backward */

enum lk_fusion { LK_FUSE_LIST(LK_WORD_VALUE) LK_FUSE_COUNT };
LK_WORDS_DECLARE(lk_fusion, enum lk_fusion);

/* AUTO: where it is possible and faster, as far as that is measured. YES: LK_EUNSUPPORTED where it
 * is not possible. */
enum lk_fuse_wish { LK_FUSE_NO, LK_FUSE_AUTO, LK_FUSE_YES };

/* What a run is asked to fuse; zeroed: nothing. */
struct lk_fuse {
    enum lk_fuse_wish wish[LK_FUSE_COUNT];
};

/* The words of a list, as lk_fuse_parse takes them: "auto", "none" and the names of the fusions. */
extern const struct lk_words lk_fuse_words;
/* Read "auto", "none" or a list of fusions, separated by commas: these and no others. LK_EUSAGE
 * lists the words. */
enum lk_status lk_fuse_parse(const char *text, struct lk_fuse *out);

/* A part of a model that can be fused: work of one shape. */
struct lk_fused {
    const char *name; /* e.g. "gelu's derivative" */
    enum lk_fusion whose;
    bool measured; /* it may be slower than what it replaces, or refused: LK_EUNSUPPORTED */
    bool used;     /* by forward and backward. Equal inputs give equal bits while it stays */
};

struct lk_model;
struct lk_recorder;
struct lk_store;

struct lk_fuse_config {
    struct lk_fuse fuse;
    int rank, ranks;
    struct lk_store *store; /* borrowed; NULL: there is one rank */
    bool deterministic;     /* nothing is chosen by time, which differs between equal runs */
    bool elsewhere; /* parameters or gradients are in place during a step only: nothing is measured
                       or tried */
    uint64_t timeout_ns;          /* limit of a wait for the device */
    struct lk_recorder *recorder; /* NULL: nothing is recorded */
};

/*
 * Choose what the model fuses, once, before its first step: what is measured is run both ways by
 * turns on the model's own buffers, and kept where it takes less time (the median of seven each).
 * Rank 0 chooses for all, because the bits of a step depend on it. The outcome is the fact
 * "gpu_fusion" of the trace; a device that fuses nothing leaves none, and YES is LK_EUNSUPPORTED
 * there. pre: gradients are set unless `elsewhere`, all ranks call; the buffers' contents are lost.
 */
enum lk_status lk_fuse_choose(struct lk_model *m, const struct lk_fuse_config *config);

#endif
