/*
 * What a step fuses: work of several launches, or of several passes over memory, that one launch or
 * one pass does. A model fuses loss, bias and gelu; the trainer the optimizer. docs/gpu.md has what
 * each saves.
 */
#ifndef LK_RUNTIME_FUSE_H
#define LK_RUNTIME_FUSE_H

#include "base/status.h"
#include "base/words.h"

/* X(fusion, name) */
#define LK_FUSE_LIST(X)                                                                            \
    X(LK_FUSE_LOSS, "loss")           /* the loss and its gradient in one kernel */                \
    X(LK_FUSE_BIAS, "bias")           /* gradients of biases beside other work on the same data */ \
    X(LK_FUSE_GELU, "gelu")           /* gelu and its derivative in the product beside it */       \
    X(LK_FUSE_OPTIMIZER, "optimizer") /* a bucket's update beside the rest of backward */

enum lk_fusion { LK_FUSE_LIST(LK_WORD_VALUE) LK_FUSE_COUNT };
LK_WORDS_DECLARE(lk_fusion, enum lk_fusion);

/* AUTO: where it is possible and faster. YES: LK_EUNSUPPORTED where it is not possible. */
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

#endif
