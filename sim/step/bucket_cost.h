/*
 * What the launches of a step's collectives cost compute: a bucket's hook and the launch of its
 * collective, and, where a scheme gathers parameters or scatters gradients, the copies in and out
 * that the host launches for every tensor. So with the same bytes a sharded scheme may be slower
 * than plain DDP.
 *
 * The job file's compute contains the launches of the job's own buckets, so a configuration is
 * charged for those that it has more, and one with fewer gets them back. A cost falls where its
 * collective is launched: the collective, and the rest of the compute, come later.
 */
#ifndef LK_SIM_STEP_BUCKET_COST_H
#define LK_SIM_STEP_BUCKET_COST_H

#include "facts/cluster.h"
#include "sim/step/step.h"

#include <stdbool.h>

struct lk_bucket_cost {
    double s, sd;  /* of one collective */
    bool measured; /* by runs of several bucket caps or the cluster file; else LK_PRIOR_BUCKET */
    double tensor_s, tensor_sd; /* of one tensor that is gathered or scattered */
    bool tensor_measured;       /* by sharded runs or the cluster file; else LK_PRIOR_TENSOR */
};

/* Return what the cluster file says, or what is assumed. */
struct lk_bucket_cost lk_bucket_cost_of(const struct lk_cluster *c);
/* Return a draw of the cost of a collective, and of a tensor, by a standard normal number. */
double lk_bucket_cost_draw(const struct lk_bucket_cost *b, double z);
double lk_bucket_cost_draw_tensor(const struct lk_bucket_cost *b, double z);

/* Return how many of the collectives exchange a bucket. */
int lk_bucket_count(const struct lk_step_coll *colls, size_t n);
/*
 * Charge the collectives of `plain`, by ready, where nothing is charged: for each bucket beyond
 * own, for each gather and for each tensor. m's forward, backward and optimizer, which are those of
 * the job's own buckets, grow, and the positions of colls (m->n_colls) are set. The backward keeps
 * half of its time or more. What is launched in every micro-batch is charged in each; what is in
 * the last alone is spread over all. Return what a step's compute has more.
 */
double lk_bucket_cost_charge(struct lk_step_model *m, const struct lk_step_coll *plain,
                             struct lk_step_coll *colls, int own,
                             const struct lk_bucket_cost *cost);

#endif
