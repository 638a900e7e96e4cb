/*
 * Forecasts from little evidence: a table of throughputs. The scaling law (sim/scaling.h) supplies
 * what the table does not say, from published measurements of other jobs; its interval is wide
 * where the table is short, and tested (bench/accuracy_scaling).
 */
#ifndef LK_SIM_THROUGHPUT_H
#define LK_SIM_THROUGHPUT_H

#include "base/forecast.h"
#include "base/status.h"
#include "base/table.h"
#include "sim/scaling.h"

#include <stdbool.h>
#include <stddef.h>

/* One row a configuration (repeats are averaged), by local batch, accumulation and GPUs. */
struct lk_throughput_table {
    char *name; /* of the file */
    struct lk_scaling_point *points;
    size_t n, capacity;
    bool has_nodes;
};

/*
 * CSV: gpus, throughput (samples a second, all GPUs), and optionally nodes (1 when there is no such
 * column), local_batch and accumulation. LK_EPARSE names file, line and column.
 */
enum lk_status lk_throughput_read(const char *path, struct lk_throughput_table *out);
void lk_throughput_fini(struct lk_throughput_table *t); /* zeroes it; safe on a zeroed one */

struct lk_throughput_request {
    const int *gpus; /* required */
    size_t n_gpus;
    int gpus_per_node; /* of what is asked for; 0: as the table's fullest node has, see below */
    int local_batch;   /* 0: that of the row with most GPUs */
    int accumulation;  /* 0: the same */
    double level;      /* of the intervals, e.g. 0.90 */
};

/*
 * LK_EEVIDENCE where the table cannot carry the answer: more nodes than one asked for and none
 * measured, a count beyond LK_THROUGHPUT_REACH times the largest, a local batch beyond 4 times the
 * nearest. It names the one cheapest run that would supply what is missing. Without gpus_per_node a
 * table of one node only is taken to hold up to 8 GPUs a node, which a note says.
 */
enum { LK_THROUGHPUT_REACH = 64, LK_THROUGHPUT_BATCH_REACH = 4 };
enum lk_status lk_throughput_predict(const struct lk_throughput_table *t,
                                     const struct lk_throughput_request *request,
                                     struct lk_forecast *out);

/*
 * Each configuration with more GPUs than the smallest of its batch and accumulation, predicted from
 * all rows with fewer GPUs; each local batch, where there are three, from the others. Errors,
 * intervals, and the baselines' errors. LK_EEVIDENCE: nothing could be held out.
 */
enum lk_status lk_throughput_validate(const struct lk_throughput_table *t, double level,
                                      struct lk_table **out);

#endif
