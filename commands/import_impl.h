/* The three things that `lockstep import` makes, private to commands/import*.c. */
#ifndef LK_COMMANDS_IMPORT_IMPL_H
#define LK_COMMANDS_IMPORT_IMPL_H

#include "base/option.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct import_options {
    /* of collectives */
    const char *csv, *where, *collective, *base, *name, *gpu;
    struct lk_ints gpus, nodes;
    int place;
    /* of traces */
    const char *comm_kernels, *step_range;
    bool drop_last;
    int steps_by;
    int64_t local_batch, world_size;
    /* of both */
    const char *out, *cluster; /* cluster: out, or its default for a cluster file */
    int format;
    const char *log;
};

/* Make the cluster file o->cluster of nccl-tests' logs and a table of collectives. */
enum lk_status import_cluster(const struct import_options *o, const char **files, int n);
/* Make the table of throughputs o->out of training programs' logs. */
enum lk_status import_throughput(const struct import_options *o, const char **files, int n);
/* Return item i of a list that has one item for all logs or one for each; 0: the list is empty. */
int import_item_of(const struct lk_ints *list, int i);
/* LK_EUSAGE if there is neither one item for all logs, nor one for each, nor none. */
enum lk_status import_check_items(const char *option, int items, int logs);
/* Make the run directory o->out of traces. */
enum lk_status import_traces(const struct import_options *o, const char **files, int n);

#endif
