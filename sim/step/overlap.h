/*
 * How compute and collectives slow each other: as the cluster file says, or as assumed.
 *
 * A GPU's collectives take processors and memory bandwidth from its kernels. Where that was not
 * measured it is LK_PRIOR_OVERLAP_LINKS where NVLink or Infinity Fabric joins the GPUs of a node,
 * else LK_PRIOR_OVERLAP_NETWORK, in the mean; draws are the magnitudes of normal numbers. It is of
 * the time for which collectives run, whatever the network's rate: one that falls with the rate
 * would make a job faster by a slower network, whose collectives run longer. A collective in
 * training also starts later than alone, by a time that does not grow with its bytes, so that small
 * ones are slowed most: an event between two streams, a host that has other work, kernels that hold
 * the processors. Where that was not measured it is LK_PRIOR_START, within a factor of
 * LK_PRIOR_LAUNCH_RANGE. Ranks on CPUs are taken not to slow and to start at once, and this is not
 * drawn: a processor may be free for the network, or be the one that computes; nothing published
 * tells.
 */
#ifndef LK_SIM_STEP_OVERLAP_H
#define LK_SIM_STEP_OVERLAP_H

#include "facts/cluster.h"

#include <stdbool.h>

struct lk_overlap {
    double gamma_wait, gamma_wire, delta; /* see sim/step/step.h */
    bool assumed;                         /* one of the last two */
    double start_s; /* that a collective in training takes longer than alone */
    bool start_assumed;
};

/* Return the estimate. */
struct lk_overlap lk_overlap_of(const struct lk_cluster *c);
/* Return a draw, by two standard normal numbers: within the measured intervals, or of what is
 * assumed. */
struct lk_overlap lk_overlap_draw(const struct lk_cluster *c, double z_gamma, double z_delta);
/* Return a draw of start_s alone, by one more. */
double lk_overlap_draw_start(const struct lk_cluster *c, double z);

#endif
