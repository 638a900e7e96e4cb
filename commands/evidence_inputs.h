/*
 * Open the source of evidence (sim/forecast/evidence.h) of `predict`, `validate` and `whatif`: the
 * runs of a job on a cluster, or a table of throughputs, alone or with a job and a cluster.
 * THROUGHPUT_ROWS(T) are the option rows of these commands for the table, for a target struct T
 * with a member `struct throughput_options table`; THROUGHPUT_NODE_ROW(T) is one more where GPUs a
 * node are no axis.
 */
#ifndef LK_COMMANDS_EVIDENCE_INPUTS_H
#define LK_COMMANDS_EVIDENCE_INPUTS_H

#include "base/option.h"
#include "base/status.h"
#include "sim/throughput/throughput.h"

#include <stddef.h>

/* The options; texts are borrowed from argv and NULL where not given. */
struct throughput_options {
    /* The table's path (CSV), the job's count of parameters, e.g. "124M", and the path of the
     * job's list of tensors (CSV). */
    const char *file, *parameters, *gradients;
    int dtype;             /* enum lk_dtype of gradients, where no input says it */
    int64_t gpus_per_node; /* in the forecast; 0: found from the table or the cluster */
};
/* Names of the dtypes, ended by NULL. */
extern const char *const throughput_dtypes[];

/* clang-format off */
#define THROUGHPUT_ROW(T, word, kind, field, ...)                                                  \
    {                                                                                              \
        .name = word, .type = kind, .offset = offsetof(T, table.field), __VA_ARGS__                \
    }
#define THROUGHPUT_ROWS(T)                                                                         \
    THROUGHPUT_ROW(T, "throughput", LK_OPT_FILE, file, .group = "from throughputs",                \
                   .help = "from this table (CSV: gpus, throughput; optional nodes, local_batch, " \
                           "accumulation, bucket_cap): alone, or with JOB and CLUSTER"),           \
    THROUGHPUT_ROW(T, "parameters", LK_OPT_TEXT, parameters,                                       \
                   .help = "in place of JOB: its count of parameters, e.g. 124M"),                 \
    THROUGHPUT_ROW(T, "gradients", LK_OPT_FILE, gradients,                                         \
                   .help = "in place of JOB: its tensors (CSV: name, elements or shape; optional " \
                           "dtype, ready)"),                                                       \
    THROUGHPUT_ROW(T, "dtype", LK_OPT_CHOICE, dtype, .choices = throughput_dtypes,                 \
                   .fallback = "float32", .help = "type of gradients, where no input says it")
#define THROUGHPUT_NODE_ROW(T)                                                                     \
    THROUGHPUT_ROW(T, "gpus-per-node", LK_OPT_INT, gpus_per_node, .min = 1, .max = 1 << 16,        \
                   .help = "GPUs of a node in the forecast; default: those of the table's fullest "\
                           "of several nodes, or the cluster's")
/* clang-format on */

/* A source of evidence and all that it borrows, so it must not be moved. */
struct evidence_inputs {
    struct lk_job job;
    struct lk_cluster cluster;
    struct lk_throughput_table table;
    struct lk_throughput_model model;     /* the table's job and cluster */
    struct lk_throughput_request request; /* its grid also sets how the source predicts */
    struct lk_evidence_source source;
};
/*
 * Both open a source; the caller has set in->request.grid, and the rest of *in is zero. Call
 * evidence_fini after a failure, too.
 *
 * evidence_open_job takes n run directories, or one job file, and a cluster. slow_ranks and
 * slow_links are added to the cluster (known_slow_add); NULL adds nothing.
 *
 * evidence_open_table takes the options' table. cluster: the file of --cluster, or NULL. operands:
 * n of [JOB] [CLUSTER], JOB left out with --parameters or --gradients, CLUSTER with --cluster.
 * LK_EUSAGE: a job without cluster or a cluster without job, or one of them given twice.
 */
enum lk_status evidence_open_job(const char *const *jobs, size_t n, const char *cluster,
                                 const char *slow_ranks, const char *slow_links,
                                 struct evidence_inputs *in);
enum lk_status evidence_open_table(const struct throughput_options *o, const char *cluster,
                                   const char *const *operands, int n, struct evidence_inputs *in);
void evidence_fini(struct evidence_inputs *in);

/* Refuse options that say what a table's job is where there is no table. */
enum lk_status check_no_table(const struct throughput_options *o);

#endif
