/* How far a table of throughputs reaches: which configurations it says something of. */
#ifndef LK_SIM_THROUGHPUT_THROUGHPUT_REACH_H
#define LK_SIM_THROUGHPUT_THROUGHPUT_REACH_H

#include "sim/throughput/throughput.h"

struct lk_throughput_reach {
    const struct lk_throughput_table *table;
    const struct lk_cluster *cluster; /* its nodes take the ranks */
    int largest, most_nodes;          /* measured GPUs and nodes */
    bool has_model, refuted;          /* a step model is there; it was, and the rows refute it */
    bool asked_elsewhere;             /* the machine asked for is not that of the rows */
    bool per_node_assumed;
};

/* Set *out_batch to the extrapolation factor of a configuration's local batch from the nearest
 * measured one. LK_EEVIDENCE: the table says nothing of it; the text names the cheapest run that
 * would. */
enum lk_status lk_throughput_check_reach(const struct lk_throughput_reach *r,
                                         const struct lk_config *c, double *out_batch);

/* Write the evidence of a prediction beyond the rows: on which machine (NULL: theirs), in which
 * setting no row has, how many times beyond the rows. */
void lk_throughput_say_beyond(const struct lk_throughput_table *t, const char *machine,
                              struct lk_prediction *p);

/* Say of a forecast by the law alone which width the interval of the farthest count has, and how
 * that was judged. */
enum lk_status lk_throughput_say_width(const struct lk_throughput_table *t,
                                       const struct lk_prediction *const *points, size_t n,
                                       struct lk_forecast *out);

/* Refuse a request that the table lacks a column for. */
enum lk_status lk_throughput_check_request(const struct lk_throughput_table *t,
                                           const struct lk_throughput_request *q);

#endif
