/* The operands of `lockstep report` hold runs with their analysis, traces of other programs, tables
 * of times, forecasts, clusters, a job. */
#ifndef LK_COMMANDS_REPORT_INPUT_H
#define LK_COMMANDS_REPORT_INPUT_H

#include "base/status.h"
#include "facts/cluster.h"
#include "facts/job.h"
#include "facts/step_times.h"
#include "profiler/analysis/run_set.h"
#include "profiler/import/import.h"
#include "reports/plot/plots.h"

#include <stdbool.h>
#include <stddef.h>

enum { REPORT_OPERANDS_MAX = 64, REPORT_GPUS_MOST = 1024 };

enum report_kind {
    REPORT_RUN,    /* a folder of runs */
    REPORT_IMPORT, /* a trace of another program, or a folder of them */
    REPORT_TIMES,  /* a table of ranks' times in steps */
    REPORT_FORECAST,
    REPORT_CLUSTER, /* a file, or a preset's name */
    REPORT_JOB,
    REPORT_KINDS
};
/* Return what the page calls a kind: "runs". */
const char *report_kind_name(enum report_kind k);
struct report_operands {
    const char *names[REPORT_OPERANDS_MAX]; /* borrowed */
    size_t n;
};

struct analyzed;
/* All that was read; `in` borrows from the rest. */
struct report_input {
    struct lk_report_input in;
    struct lk_forecast forecasts[REPORT_OPERANDS_MAX];
    struct report_operands operands[REPORT_KINDS];
    struct lk_run_set runs;     /* or the one that was imported */
    struct analyzed *analyzed;  /* of the runs; NULL: there are none */
    struct lk_import import;    /* of the operands that are such */
    struct lk_step_times times; /* of ranks in steps: a table's, or those of the last run */
    struct lk_cluster cluster;  /* the first one */
    struct lk_job job;          /* the one given, or else that of the runs */
    bool has_job;
    struct lk_plot_measured *measured;
    struct lk_plot_losses losses;
    char *title, *losses_title, *machine;
    /* Forecasts that were made here, of a job on clusters without one: of each its cluster,
     * borrowed (NULL: it was read), the counts of GPUs, and why others are not (NULL: all are). */
    const char *made_on[REPORT_OPERANDS_MAX];
    struct lk_forecast settings[REPORT_OPERANDS_MAX]; /* of each, other settings on most GPUs */
    char counts[64], *refused;
};

/*
 * Read n operands. LK_EUSAGE: an operand is of no kind; runs, traces of other programs and tables
 * of times are mixed; there are two jobs, or two such tables. report_input_fini frees *out,
 * whatever is returned.
 */
enum lk_status report_input_read(const char *const *operands, size_t n, struct report_input *out);
/* Set the title of all plots; NULL: one is made of model, hardware and date. */
enum lk_status report_input_name(struct report_input *in, const char *title);
void report_input_fini(struct report_input *in);

#endif
