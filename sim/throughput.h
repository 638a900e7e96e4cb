/*
 * Forecasts from little evidence: a table of throughputs. What the table does not say is supplied
 * by the scaling law (sim/scaling.h), from published measurements of other jobs, and, where it is
 * said what the job's gradients and the machine are, by the step model (sim/step_fit.h). The
 * interval is wide where the table is short, and tested (bench/accuracy_scaling, bench/net).
 */
#ifndef LK_SIM_THROUGHPUT_H
#define LK_SIM_THROUGHPUT_H

#include "base/cluster.h"
#include "base/forecast.h"
#include "base/job.h"
#include "base/status.h"
#include "base/table.h"
#include "sim/scaling.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One row a configuration (repeats are averaged), by local batch, accumulation, cap and GPUs. */
struct lk_throughput_table {
    char *name; /* of the file */
    struct lk_scaling_point *points;
    size_t n, capacity;
    bool has_nodes;
};

/*
 * CSV: gpus, throughput (samples a second, all GPUs), and optionally nodes (1 when there is no such
 * column), local_batch, accumulation and bucket_cap. LK_EPARSE names file, line and column.
 */
enum lk_status lk_throughput_read(const char *path, struct lk_throughput_table *out);
void lk_throughput_fini(struct lk_throughput_table *t); /* zeroes it; safe on a zeroed one */

/* What the job and the machine are: a step model behind the table. All borrowed. */
struct lk_throughput_model {
    const struct lk_job *job; /* its gradients and bucket settings count */
    bool timed;               /* its ready times were measured or given */
    const struct lk_cluster *cluster;
    int draws; /* of the step model's unknowns, e.g. 1000 */
    uint64_t seed;
};

struct lk_throughput_request {
    const struct lk_throughput_model *model; /* NULL: the table alone */
    const int *gpus;                         /* required */
    size_t n_gpus;
    int gpus_per_node; /* of what is asked for; 0: lk_throughput_per_node */
    /* Empty lists: that of the row with most GPUs. Caps take a model. */
    const int *local_batches, *accumulations;
    size_t n_local_batches, n_accumulations;
    const uint64_t *caps;
    size_t n_caps;
    int64_t global_batch; /* > 0: strong scaling, as in sim/forecast.h; takes a model */
    double level;         /* of the intervals, e.g. 0.90 */
};

/*
 * LK_EEVIDENCE where the table cannot carry the answer: several nodes asked for, none measured, and
 * no model; a count beyond LK_THROUGHPUT_REACH times the largest (with a model _MODEL_REACH), a
 * local batch beyond 4 times the nearest. It names the one cheapest run that would supply what is
 * missing. Completes the table.
 */
enum { LK_THROUGHPUT_REACH = 64, LK_THROUGHPUT_MODEL_REACH = 1024, LK_THROUGHPUT_BATCH_REACH = 4 };
enum lk_status lk_throughput_predict(struct lk_throughput_table *t,
                                     const struct lk_throughput_request *request,
                                     struct lk_forecast *out);

/*
 * Each configuration with more GPUs than the smallest of its batch and accumulation, predicted from
 * all rows with fewer GPUs; each local batch, where there are three, from the others. Errors,
 * intervals, and the baselines' errors; with a model also those of the law alone. Of the request
 * model, gpus_per_node, level and the first local batch count. LK_EEVIDENCE: nothing could be held
 * out.
 */
enum lk_status lk_throughput_validate(struct lk_throughput_table *t,
                                      const struct lk_throughput_request *request,
                                      struct lk_table **out);

/* ---- What both share ---- */

/*
 * GPUs of a full node: as asked; else as the table's fullest of several nodes; else the cluster's;
 * else the table's node, of at least LK_THROUGHPUT_USUAL_PER_NODE (DGX and HGX systems, the usual
 * server), which is *out_assumed.
 */
enum { LK_THROUGHPUT_USUAL_PER_NODE = 8 };
double lk_throughput_per_node(const struct lk_throughput_table *t, int asked,
                              const struct lk_cluster *cluster, bool *out_assumed);

/* For a step model: nodes where no column says them, the local batch (0: none is known) where there
 * is none. LK_EEVIDENCE: without a batch the length of a step is not known. */
enum lk_status lk_throughput_complete(struct lk_throughput_table *t, double per_node,
                                      int local_batch);

#endif
