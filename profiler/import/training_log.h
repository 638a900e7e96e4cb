/*
 * Throughputs from the logs of training programs: TorchTitan's, Megatron-LM's and DeepSpeed's
 * lines of steps, in a text of any other lines, gzipped or not.
 */
#ifndef LK_PROFILER_IMPORT_TRAINING_LOG_H
#define LK_PROFILER_IMPORT_TRAINING_LOG_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

struct lk_training_log {
    const char *format; /* name of the program */
    const char *unit;   /* token or sample */
    bool per_gpu;       /* rates are of one GPU, else of all */
    size_t row;         /* of the table of programs */
    double *rates;      /* units a second, a line each, in order */
    size_t n, capacity;
    int gpus; /* of the job; 0: the log does not say */
};

/* Return true if a line of the file is of a step. */
bool lk_training_log_is(const char *path);
/* Read a log. LK_EPARSE: it has no line of a step. *out is freed by
 * lk_training_log_fini. */
enum lk_status lk_training_log_read(const char *path, struct lk_training_log *out);
void lk_training_log_fini(struct lk_training_log *l); /* zeroes it; safe on a zeroed one */

#endif
