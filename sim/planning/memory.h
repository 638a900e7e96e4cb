/*
 * These functions compute the memory that a configuration takes on one GPU, row by row, and whether
 * it fits.
 *
 * Model states follow the ZeRO paper (Rajbhandari et al., SC'20, arXiv:1910.02054, section 3): with
 * AdamW in mixed precision 16 bytes a parameter, 2 for it, 2 for its gradient, 4 for the fp32
 * master and 4 + 4 for the two moments. As in PyTorch, states have the dtype of the weights that
 * the optimizer updates: fp32 with master weights, the gradients' own without. With master weights
 * the parameters that compute have 16 bits; gradients have the dtype that the job lists. Sharding
 * divides rows by the ranks that share (by the group's for HSDP).
 *
 * Activations of a transformer of L layers, hidden size h, a heads, sequence s, vocabulary v, in
 * values of w bytes, of one sequence (Korthikanti et al. 2022, "Reducing Activation Recomputation
 * in Large Transformer Models", arXiv:2205.05198, equations 1, 2 and 6 and section 4.3, where w =
 * 2):
 *
 *     a layer          s h (16 w + 2 + (2 w + 1) a s / h)      w = 2: s h (34 + 5 a s / h)
 *     selective        s h (16 w + 2)                          no scores of attention
 *     full             w s h, and one layer at work
 *     both ends        s h (the embedding's dropout) + 2 w s h + 4 s v (logits in fp32)
 *
 * Measurements of the job ("memory_fixed", "memory_per_sample") replace computed values. The rest
 * is assumed, with its source: lk_memory_assumed.
 */
#ifndef LK_SIM_PLANNING_MEMORY_H
#define LK_SIM_PLANNING_MEMORY_H

#include "base/stats.h"
#include "base/status.h"
#include "base/table.h"
#include "base/words.h"
#include "facts/cluster.h"
#include "facts/config.h"
#include "facts/forecast.h"
#include "facts/job.h"

#include <stdbool.h>

/* X(row, text) */
#define LK_MEMORY_LIST(X)                                                                          \
    X(LK_MEMORY_PARAMETERS, "parameters")                                                          \
    X(LK_MEMORY_GRADIENTS, "gradients")                                                            \
    X(LK_MEMORY_BUCKETS, "bucket copies of gradients; the hook's error feedback")                  \
    X(LK_MEMORY_MASTER, "fp32 master weights")                                                     \
    X(LK_MEMORY_STATES, "optimizer states")                                                        \
    X(LK_MEMORY_GATHERED, "gathered units of sharded parameters")                                  \
    X(LK_MEMORY_ACTIVATIONS, "activations of a micro-batch")                                       \
    X(LK_MEMORY_RUNTIME, "device context, collectives' buffers, fragmentation")

enum lk_memory_row { LK_MEMORY_LIST(LK_WORD_VALUE) LK_MEMORY_COUNT };

struct lk_memory {
    struct lk_estimate rows[LK_MEMORY_COUNT]; /* bytes */
    struct lk_estimate total;      /* sums of value, lo and hi; hi is infinite and value without
                                      activations where these are not known */
    struct lk_estimate per_sample; /* of the activations; NaN: not known */
    bool optimizer_assumed;        /* the job names none: none to Adam's states, Adam's as value */
    bool activations_assumed;      /* from what the layers move, not measured */
    bool activations_of_shape;     /* from a transformer's shape, not measured */
    bool runtime_assumed;
};

/* Compute the memory. pre: config's sharding, batch and counts are valid. */
void lk_memory_of(const struct lk_job *j, const struct lk_config *c, struct lk_memory *out);

/* Return the bytes of one sequence by the formula above. pre: the shape is given. */
double lk_memory_transformer_bytes(const struct lk_job_transformer *t);

/* Return the bytes of a checkpoint of the whole job: parameters, master weights and states. */
double lk_memory_checkpoint_bytes(const struct lk_job *j, const struct lk_config *c);

/* X(fit, name): how the total compares with a device. */
#define LK_MEMORY_FIT_LIST(X)                                                                      \
    X(LK_MEMORY_FITS, "yes")            /* all of the interval is below */                         \
    X(LK_MEMORY_TIGHT, "perhaps")       /* the estimate is, its upper bound is not */              \
    X(LK_MEMORY_TOO_LARGE, "no")        /* the estimate, or what is known of it, is above */       \
    X(LK_MEMORY_FIT_UNKNOWN, "unknown") /* activations are not known, the rest is below */

enum lk_memory_fit { LK_MEMORY_FIT_LIST(LK_WORD_VALUE) };
const char *lk_memory_fit_name(enum lk_memory_fit f);
enum lk_memory_fit lk_memory_fit(const struct lk_memory *m, double device_bytes);

/*
 * Return the largest local batch whose estimate fits, or, with `surely`, whose upper bound does; 0:
 * not one sample does; -1: the activations are not known.
 */
int lk_memory_largest_batch(const struct lk_memory *m, double device_bytes, bool surely);

/* Set *out to the first of ZeRO-1, 2 and 3 whose estimate fits; return false if none is known to.
 */
bool lk_memory_sharding_that_fits(const struct lk_job *j, const struct lk_config *c,
                                  double device_bytes, enum lk_sharding *out);

/* Fill a plan's memory for a device of so many bytes; NaN: nothing is filled. */
void lk_memory_set_plan(const struct lk_job *job, const struct lk_config *c, double device_bytes,
                        struct lk_plan *out);

/*
 * Tabulate the memory of one GPU in the forecast's first configuration, row by row, under plain
 * data parallelism and ZeRO-1 to 3, with the largest local batch. device_bytes NaN: not known.
 */
enum lk_status lk_memory_table(const struct lk_job *job, double device_bytes,
                               const struct lk_forecast *f, struct lk_table **out);

/*
 * Tabulate which GPUs the job fits on: one row for each different GPU of the clusters whose memory
 * is known, for the forecast's first configuration. *out is NULL when there is none.
 */
enum lk_status lk_memory_device_table(const struct lk_job *job, const struct lk_cluster *clusters,
                                      size_t n, const struct lk_forecast *f, struct lk_table **out);

/* Return the assumptions made where nothing was measured in one line, with sources. */
const char *lk_memory_assumed(void);

#endif
