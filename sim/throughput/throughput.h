/*
 * Forecasts from little evidence: a table of throughputs. The scaling law
 * (sim/throughput/scaling.h), fitted to published measurements of other jobs, supplies the rest,
 * and, where the job's gradients and the machine are given, so does the step model
 * (sim/throughput/throughput_fit.h). The interval is wide where the table is short;
 * bench/accuracy_scaling and bench/net test it.
 */
#ifndef LK_SIM_THROUGHPUT_THROUGHPUT_H
#define LK_SIM_THROUGHPUT_THROUGHPUT_H

#include "base/status.h"
#include "facts/cluster.h"
#include "facts/forecast.h"
#include "facts/job.h"
#include "sim/forecast/axis.h"
#include "sim/forecast/evidence.h"
#include "sim/forecast/hypothesis.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A table has one row for each configuration (of repeats the median), sorted by local batch,
 * accumulation, cap and GPUs. Nodes are 0 where the file does not say them. */
struct lk_throughput_table {
    char *name;        /* of the file */
    char *measured_on; /* the cluster that the rows name, or a word for a place; NULL: none */
    struct lk_scaling_point *points;
    size_t n, capacity;
};

/*
 * Read a CSV with the columns gpus, throughput (samples a second, all GPUs), and optionally nodes,
 * local_batch, accumulation, bucket_cap and measured_on. LK_EPARSE names file, line and column.
 * Rows that contradict each other are warned of, by line and ratio.
 */
enum lk_status lk_throughput_read(const char *path, struct lk_throughput_table *out);
/* Make the table of a job's plain runs that count on a cluster; n is 0 where no batch of them has
 * two counts of GPUs. */
enum lk_status lk_throughput_of_runs(const struct lk_job *job, const struct lk_cluster *cluster,
                                     struct lk_throughput_table *out);
/* Make the table with one more row, a run that was not made; it borrows t's texts, and is ended by
 * lk_throughput_drop. LK_EEVIDENCE: there is no room for it, or it is no run. */
enum lk_status lk_throughput_with(const struct lk_throughput_table *t,
                                  const struct lk_hypothesis *h, struct lk_throughput_table **out);
void lk_throughput_drop(struct lk_throughput_table *with); /* NULL is legal */
void lk_throughput_fini(struct lk_throughput_table *t);    /* zeroes it; safe on a zeroed one */

/* The job and the machine of a table, from which a step model is made. All borrowed. */
struct lk_throughput_model {
    const struct lk_job *job;             /* its gradients, bucket settings and shares of compute */
    bool timed;                           /* its ready times were measured or given */
    const struct lk_cluster *cluster;     /* asked for */
    const struct lk_cluster *measured_on; /* another one, of the rows; NULL: cluster */
    bool is_said;                         /* that the rows were measured on cluster */
};

/* Return the cluster of the rows. */
const struct lk_cluster *lk_throughput_measured_on(const struct lk_throughput_model *m);
/* Say where the rows were measured: beside a cluster they are taken as its own. NULL: the table
 * is alone, and nothing is said. */
enum lk_status lk_throughput_say_place(const struct lk_throughput_model *m,
                                       struct lk_forecast *out);

/* Say where the job's own compute takes longer than a row's whole step: the rows tell how long it
 * is, and of the job's times the shares alone count. m NULL: nothing is said. */
enum lk_status lk_throughput_say_compute(const struct lk_throughput_table *t,
                                         const struct lk_throughput_model *m,
                                         struct lk_forecast *out);

struct lk_throughput_request {
    const struct lk_throughput_model *model; /* NULL: the table alone */
    /* GPUs a node of the machine asked for; 0: those of the table's fullest of several nodes; else
     * the cluster's; else those of the table's node, at least 8 (DGX and HGX systems, the usual
     * server). */
    int gpus_per_node;
    bool refuted; /* a step model is not given, as the rows contradict it */
    /* Axes that are not varied have the values of the row with most GPUs. Draws (of the step
     * model's unknowns, e.g. 1000) and the seed take a model, a global batch takes local batches.
     */
    struct lk_forecast_request grid;
};

/* Return true if all but GPUs and nodes are the same. One rank has no buckets, so their limits do
 * not count where one of the two has one. */
bool lk_throughput_same_batch(const struct lk_config *a, const struct lk_config *b);

/*
 * Open the table as a source of evidence; all is borrowed but the request itself. For a step model
 * the table is completed: nodes where no column has them, the first local batch of the request
 * where there is none (without a model, too), the job's bucket cap. The caller closes it by its
 * hook. LK_EEVIDENCE where it cannot support an answer: several nodes asked for, none measured, and
 * no model; a count beyond LK_THROUGHPUT_REACH times the largest (with a model _MODEL_REACH), a
 * local batch beyond LK_THROUGHPUT_BATCH_REACH times the largest, or _SMALLER_REACH times below the
 * smallest. It names the one cheapest run that would supply what is missing.
 */
enum {
    LK_THROUGHPUT_REACH = 64,
    LK_THROUGHPUT_MODEL_REACH = 1024,
    LK_THROUGHPUT_BATCH_REACH = 4,
    LK_THROUGHPUT_SMALLER_REACH = 64 /* as strong scaling has it, e.g. from 32 to 1 */
};
enum lk_status lk_throughput_evidence(struct lk_throughput_table *t,
                                      const struct lk_throughput_request *q,
                                      struct lk_evidence_source *out);

/* Fill what a table lacks for the request's step model, as above. *out_machine borrows the model's
 * cluster, with any number of nodes and the GPUs of a full one, which were assumed if
 * *out_assumed. */
enum lk_status lk_throughput_complete(struct lk_throughput_table *t,
                                      const struct lk_throughput_request *q,
                                      struct lk_cluster *out_machine, bool *out_assumed);

#endif
