/*
 * These functions turn the samples of a calibration (facts/samples.h) into numbers of a cluster
 * file: medians of collectives as points, co-location, overlap, the straggler law, rates of a
 * device. A number with too few samples stays unknown. Sources begin with "calibrate: ".
 */
#ifndef LK_SIM_CALIBRATION_H
#define LK_SIM_CALIBRATION_H

#include "base/stats.h"
#include "base/status.h"
#include "facts/cluster.h"
#include "facts/samples.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Set *out to the median of the samples with its bootstrap interval; `stream` selects the random
 * numbers. The median ignores calls that another process of the machine delayed.
 */
enum lk_status lk_calibration_median(const double *v, size_t n, uint64_t stream,
                                     struct lk_estimate *out);
/*
 * Return the samples of a row after its warm-up. A collective timed alone counts from the last
 * rank's arrival, as in the step model. In a burst, CPU ranks arrive freely; a stream blocks for
 * as long as each host takes, so it counts from the last arrival, too.
 */
const double *lk_calibration_samples(const struct lk_probe_row *r);
/*
 * Set points: medians of the in-place rows that have the first row's element type, all on `nodes`
 * but those inside a node.
 */
enum lk_status lk_calibration_add_points(const struct lk_probe_rows *rows, int nodes,
                                         struct lk_cluster *c);
/*
 * Set kappa at this many ranks, and fit the straggler law to the spread of the ranks' times.
 * take_turns: the ranks outnumber the processors. One then computes while another waits for the
 * processor, so kappa is that of the last one, and the spread is not a law of the ranks.
 */
enum lk_status lk_calibration_add_colocation(const struct lk_probe_colocation *s,
                                             int ranks_per_node, bool take_turns,
                                             struct lk_cluster *c);
/*
 * Set gamma_wait, gamma_wire and delta. `proxy`: a surrogate replaced the collective; `source`
 * says how they were measured.
 */
enum lk_status lk_calibration_add_overlap(const struct lk_probe_overlap *s, bool proxy,
                                          const char *source, struct lk_cluster *c);
/* Set the device's flop/s from its fastest product, and its memory rate from its largest copy. */
enum lk_status lk_calibration_add_rates(const struct lk_rate_rows *rows, struct lk_cluster *c);
/*
 * Mark what was measured while other work took this share of one processor: intervals of points and
 * co-location are widened by it to both sides, since the slowest rank may have been on that
 * processor; the spread of the ranks, which would be the other work's, and the overlap become
 * unknown.
 */
enum lk_status lk_calibration_disturbed(struct lk_cluster *c, double share);
/*
 * Move the content of `part` into `c`, which keeps its own values; points and kappas are appended.
 * part is empty afterwards.
 */
enum lk_status lk_calibration_merge(struct lk_cluster *c, struct lk_cluster *part);

#endif
