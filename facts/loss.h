/*
 * The parts that the time of a step is split into. The profiler measures and the forecast predicts
 * the same ones, relative to a reference: for its work and the step's own they sum to the step.
 */
#ifndef LK_FACTS_LOSS_H
#define LK_FACTS_LOSS_H

#include "base/words.h"

#include <stdbool.h>

/*
 * X(row, key, text, name): the parts that a step's time is split into, s, mean over ranks; a "loss"
 * is time lost, not a training loss. They sum to the step. The profiler measures and the simulator
 * predicts the same rows. The text says what a row holds, the name is for sentences.
 */
#define LK_LOSS_LIST(X)                                                                            \
    X(LK_LOSS_IDEAL, "ideal", "ideal: compute, optimizer, input and gaps of the reference",        \
      "ideal step")                                                                                \
    X(LK_LOSS_INPUT, "input", "extra input wait", "waiting for input")                             \
    X(LK_LOSS_SLOW_RANK, "slow_rank", "this rank's own slowness", "slow ranks")                    \
    X(LK_LOSS_COLOCATION, "colocation", "co-location of ranks", "sharing a node")                  \
    X(LK_LOSS_OVERLAP, "overlap", "overlap slowdown", "compute beside communication")              \
    X(LK_LOSS_LAUNCH, "launch", "exposed launch of collectives", "late launches of collectives")   \
    X(LK_LOSS_STRAGGLER, "straggler", "exposed straggler wait", "waiting for the last rank")       \
    X(LK_LOSS_WIRE, "wire", "blocking queue and wire", "blocking communication")                   \
    X(LK_LOSS_OPTIMIZER, "optimizer", "growth of the optimizer", "a longer optimizer")             \
    X(LK_LOSS_BATCH, "batch", "fewer samples a step: fixed costs weigh more",                      \
      "fewer samples a step")                                                                      \
    X(LK_LOSS_REST, "rest", "host gaps beyond the ideal's, and the rest", "host gaps and the rest")

enum lk_loss { LK_LOSS_LIST(LK_WORD_VALUE) LK_LOSS_COUNT };
/* Return a row's key in files, what it holds, and its name for sentences ("most is lost to blocking
 * communication"); static storage. */
const char *lk_loss_key(enum lk_loss row);
const char *lk_loss_text(enum lk_loss row);
const char *lk_loss_name(enum lk_loss row);
struct lk_record;

extern const struct lk_words lk_loss_words;
/* An object of LK_LOSS_COUNT doubles by key, s; null: not known. */
extern const struct lk_record lk_losses_record;
/* The same as an optional object: it is not written where lk_losses_known is false. */
extern const struct lk_record lk_losses_optional_record;

/* Return true if LK_LOSS_COUNT parts of a step are known: the ideal is above 0. */
bool lk_losses_known(const double *losses_s);
/* Set the rest so that the parts, LK_LOSS_COUNT of them, sum to the step. Unknown parts (NaN) stay
 * so. */
void lk_losses_close(double *losses_s, double step_s);

#endif
