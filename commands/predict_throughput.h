/*
 * `predict` and `validate` from a table of throughputs (sim/throughput.h), alone or with what the
 * job and the cluster are. THROUGHPUT_ROWS(T) are the option rows of both, for a target struct T
 * with a member `struct throughput_options table`.
 */
#ifndef LK_COMMANDS_PREDICT_THROUGHPUT_H
#define LK_COMMANDS_PREDICT_THROUGHPUT_H

#include "base/option.h"
#include "base/status.h"
#include "sim/throughput.h"

struct throughput_options {
    const char *file, *parameters, *gradients;
    int dtype;
    int64_t gpus_per_node;
};
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
                   .fallback = "float32", .help = "of the gradients, where nothing else says it"), \
    THROUGHPUT_ROW(T, "gpus-per-node", LK_OPT_INT, gpus_per_node, .min = 1, .max = 1 << 16,        \
                   .help = "of the counts to predict; default: the table's fullest of several "    \
                           "nodes, or the cluster's")
/* clang-format on */

/* The job and machine behind a table; nothing in it when they are not said. */
struct throughput_job {
    struct lk_job job;
    struct lk_cluster cluster;
    struct lk_throughput_model model;
    bool known;
};
/*
 * operands: n of [JOB] [CLUSTER], JOB left out with --parameters or --gradients, CLUSTER with
 * --cluster. LK_EUSAGE: one of both alone, or given twice.
 */
enum lk_status throughput_job_find(const struct throughput_options *o, const char *cluster,
                                   const char *const *operands, int n, struct throughput_job *out);
void throughput_job_fini(struct throughput_job *j);

/* Where results go: a forecast file, its points, and how standard output looks (enum lk_format). */
struct throughput_output {
    const char *json, *csv;
    int format;
};

enum lk_status predict_throughput(const char *path, const struct lk_throughput_request *request,
                                  const struct throughput_output *out);
enum lk_status validate_throughput(const char *path, const struct lk_throughput_request *request,
                                   const struct throughput_output *out);

#endif
