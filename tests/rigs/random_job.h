/* Random jobs on random clusters, with the numbers that a test computes their bound from. */
#ifndef LK_TESTS_RANDOM_JOB_H
#define LK_TESTS_RANDOM_JOB_H

#include "base/rng.h"
#include "facts/cluster.h"
#include "facts/job.h"
#include "sim/forecast/axis.h"

#include <stdint.h>

enum { RANDOM_COUNTS = 4 };

struct random_job {
    struct lk_job job;
    struct lk_cluster cluster;
    double forward_s, backward_s, optimizer_s, bytes, slow, link_Bps, nics_Bps;
    int slow_rank, per_node, accumulation;
    struct lk_axis_value counts[RANDOM_COUNTS];
};

/* Return a number between a and b, evenly in its logarithm. */
double random_between(struct lk_rng *g, double a, double b);
/* Make the job and the cluster of a number; counts are whole nodes, or powers of two in one. */
void random_job_init(uint64_t number, struct random_job *q);
void random_job_fini(struct random_job *q);

#endif
