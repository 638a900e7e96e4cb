/* The three things that `lockstep import` makes, private to commands/import*.c. */
#ifndef LK_COMMANDS_IMPORT_IMPL_H
#define LK_COMMANDS_IMPORT_IMPL_H

#include "base/option.h"
#include "base/status.h"
#include "base/table.h"
#include "commands/bench_inputs.h"
#include "commands/command.h"
#include "profiler/import/import.h"
#include "reports/page.h"

#include <stdbool.h>
#include <stdint.h>

struct import_options {
    /* of collectives; bench.gpus and .nodes of throughputs and traces, too */
    struct bench_options bench;
    const char *base, *name, *gpu;
    /* of traces */
    const char *comm_kernels, *step_range;
    bool drop_last, force;
    int steps_by;
    int local_batch, world_size;
    /* of both */
    const char *out; /* set before a kind is imported */
    struct lk_page_options page;
    const char *log;
};

/* Make the cluster file o->out of nccl-tests' logs and a table of collectives. */
enum lk_status import_cluster(const struct import_options *o, const char **files, int n,
                              struct lk_page *page);
/* Make the table of throughputs o->out of training programs' logs. */
enum lk_status import_throughput(const struct import_options *o, const char **files, int n,
                                 struct lk_page *page);
/* Make the run directory o->out of traces, and print what was read. */
enum lk_status import_traces(const struct import_options *o, const char **files, int n,
                             struct lk_page *page);

/* Describes what a run directory was made of; ended by import_made_fini. */
struct import_made {
    struct lk_table *table; /* what was read of each rank */
    char cost[128];         /* what recording took of the job; "": not known */
    char *no_job;           /* why there is no job.json; NULL: there is one */
    char *traffic;          /* what of the job's traffic is not its gradients'; NULL: none */
    size_t n_ranks;         /* that were read */
    int world_size;
    size_t n_steps; /* of the first rank that are complete */
    bool is_apart;  /* the first steps of ranks began more than half a step apart */
    double step_s;  /* the first rank's mean, as lockstep analyze has it */
    double host_s;  /* by the host's marks, where that differs by more than 5 %; else NaN */
};
void import_made_fini(struct import_made *m); /* zeroes it; safe on a zeroed one */
/* Make the run directory `out`, which may hold other files, of traces: files, or folders of them.
 * LK_EEVIDENCE: they have no steps. */
enum lk_status import_run(const struct lk_import_options *options, const char *out,
                          const char *const *paths, size_t n, struct import_made *made);

#endif
