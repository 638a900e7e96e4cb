/*
 * Files of one run that lockstep did not make become its traces, one a rank, on one clock.
 *
 * A rank's number is that of the source, else the one behind "rank" in the file's name, else the
 * one number in which the files' names differ; a file alone is rank 0's. Clocks are compared by the
 * ends of collectives, at which all ranks leave within some microseconds: the offset of a rank is
 * the median of its ends' differences from those of the first rank, the uncertainty the largest
 * deviation of 90 % of them. Ranks whose sources say that they share a clock are not compared.
 * Where sources know how fast their clock leaves the wall clock, the difference is taken out first.
 */
#ifndef LK_PROFILER_IMPORT_IMPORT_H
#define LK_PROFILER_IMPORT_IMPORT_H

#include "base/status.h"
#include "base/table.h"
#include "facts/trace.h"
#include "profiler/analysis/kernel_sums.h"
#include "profiler/analysis/run_set.h"
#include "profiler/import/breakdown.h"
#include "profiler/import/sequences.h"

#include <stdbool.h>
#include <stddef.h>

struct lk_import_options {
    const char *patterns;   /* of communication kernels: profiler/import/breakdown.h; or NULL */
    int nodes;              /* of the job; 0: not known, taken as 1 */
    int world_size;         /* for sources that do not say; 0: the number of files */
    int local_batch;        /* samples of a micro-batch; 0: not known */
    const char *step_range; /* ranges whose names start so are steps, too; or NULL */
    bool steps_by_gpu; /* work is of the step in which it runs, not of the one that launched it */
    bool drop_last;    /* leave out the last of several steps, whose work may be cut off */
};

/* A file that was read; a rank's, or of all GPUs of a host. */
struct lk_import_file {
    char *path;
    struct lk_source source;
};

/* A row says what was read of a rank. */
struct lk_import_row {
    int rank;
    size_t file;                     /* index */
    int64_t device;                  /* of a file of several GPUs; -1: the rank's only one */
    struct lk_breakdown all, linked; /* HTA's classes; by all events of the GPU, by linked ones */
};

struct lk_import {
    struct lk_trace *traces; /* by rank; NULL where no_steps says why there are none */
    struct lk_import_row *rows;
    size_t n, capacity;
    struct lk_import_file *files; /* in the order in which they were read */
    size_t n_files, files_capacity;
    char *no_steps;                /* NULL: there are steps */
    struct lk_kernel_sums kernels; /* of all events of the GPUs */
    struct lk_sequences sequences; /* of collectives; empty for formats without their numbers */
};

/* Read a run. LK_EPARSE: two files are of one rank, or nothing tells whose a file is. A run without
 * steps has rows alone. */
enum lk_status lk_import_run(char *const *files, size_t n, const struct lk_import_options *o,
                             struct lk_import *out);
/* Take the traces as one run, of this name; they are its own then. LK_EEVIDENCE: there are no
 * steps, or none is complete on all ranks; i->no_steps then says what there is. */
enum lk_status lk_import_take(struct lk_import *i, const char *name, struct lk_run *out);
/* Write what recording took on the rank where it took most of the time, if that is known; else "".
 */
void lk_import_cost(const struct lk_import *i, char *out, size_t size);
void lk_import_fini(struct lk_import *i); /* zeroes it; safe on a zeroed one */
/* A row a file: what was read, and what the GPU did of the time. */
enum lk_status lk_import_table(const struct lk_import *i, struct lk_table **out);

#endif
