/*
 * Throughputs and batches from the logs of training programs: TorchTitan's, Megatron-LM's and
 * DeepSpeed's lines of steps and of settings, in a text of any other lines, gzipped or not.
 */
#ifndef LK_PROFILER_IMPORT_TRAINING_LOG_H
#define LK_PROFILER_IMPORT_TRAINING_LOG_H

#include "base/status.h"
#include "base/words.h"

#include <stdbool.h>
#include <stddef.h>

/* X(setting, what it is called in messages) */
#define LK_TRAINING_SETTING_LIST(X)                                                                \
    X(LK_TRAINING_GPUS, "GPUs")                                                                    \
    X(LK_TRAINING_RANKS, "data-parallel ranks")                                                    \
    X(LK_TRAINING_MICRO_BATCH, "samples a micro-batch and rank")                                   \
    X(LK_TRAINING_ACCUMULATION, "micro-batches a step")                                            \
    X(LK_TRAINING_GLOBAL_BATCH, "samples a step")                                                  \
    X(LK_TRAINING_TOKENS, "tokens a sample")

enum lk_training_setting { LK_TRAINING_SETTING_LIST(LK_WORD_VALUE) LK_TRAINING_SETTINGS };
LK_WORDS_DECLARE(lk_training_setting, enum lk_training_setting);

struct lk_training_log {
    const char *format; /* name of the program */
    const char *unit;   /* token or sample */
    bool per_gpu;       /* rates are of one GPU, else of all */
    size_t row;         /* of the table of programs */
    double *rates;      /* units a second, a line each, in order */
    size_t n, capacity;
    int settings[LK_TRAINING_SETTINGS]; /* 0: the log does not say */
};

/* Return true if a line of the file is of a step. */
bool lk_training_log_is(const char *path);
/* Read a log. Where Megatron-LM's global batch grows, the lines of the last one count. LK_EPARSE:
 * it has no line of a step, or two lines say different settings. *out is freed by
 * lk_training_log_fini. */
enum lk_status lk_training_log_read(const char *path, struct lk_training_log *out);
void lk_training_log_fini(struct lk_training_log *l); /* zeroes it; safe on a zeroed one */

#endif
