/*
 * What a gradient bucket costs compute: its hook, and the launch of its collective.
 *
 * The job file's compute contains that of the job's own buckets, so a configuration is charged for
 * those that it has more, and one with fewer gets them back. The cost falls where a bucket is
 * ready: its collective, and the rest of the backward, come later.
 */
#ifndef LK_SIM_STEP_BUCKET_COST_H
#define LK_SIM_STEP_BUCKET_COST_H

#include "sim/step/step.h"

#include <stdbool.h>

struct lk_bucket_cost {
    double s, sd;  /* of one bucket */
    bool measured; /* fitted to runs of several bucket caps; else LK_PRIOR_BUCKET */
};

struct lk_bucket_cost lk_bucket_cost_assumed(void);
/* Return a draw by a standard normal number. */
double lk_bucket_cost_draw(const struct lk_bucket_cost *b, double z);

/* Return how many of the collectives exchange a bucket. */
int lk_bucket_count(const struct lk_step_coll *colls, size_t n);
/*
 * Charge cost_s for each bucket beyond own: lengthen m's backward, which is that of the job's own
 * buckets, and set the positions of colls from those of plain, where nothing is charged (n_colls
 * each). The backward keeps half of its time or more. Without no_sync every micro-batch is charged;
 * with it the last one's buckets are spread over all. Return what a step's compute has more.
 */
double lk_bucket_cost_charge(struct lk_step_model *m, const struct lk_step_coll *plain,
                             struct lk_step_coll *colls, int own, double cost_s);

#endif
