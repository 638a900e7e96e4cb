/*
 * One rank's compute against the local batch. Between measured batches: straight lines through the
 * times, made non-decreasing. Outside them: on from the nearest one, with the slope of the segment
 * at that edge, since time a sample may grow with the batch as well as fall; where that differs
 * from the line through all by no more than noise, with the line's. With one measured batch and
 * flops_per_sample: at the rate that was reached, but for a floor that is assumed.
 */
#ifndef LK_SIM_BATCH_CURVE_H
#define LK_SIM_BATCH_CURVE_H

#include "base/forecast.h"
#include "base/job.h"
#include "base/status.h"

struct lk_batch_point {
    double forward_s, backward_s; /* a micro-batch */
    double input_s;               /* waited for, a step of the runs */
    double optimizer_s, gap_s;    /* a step */
    double transient;             /* relative sd of a micro-batch; NaN: not known */
    double sd;                    /* relative, of forward + backward: what the samples leave open */
    enum lk_evidence evidence;    /* MEASURED, INTERPOLATED or EXTRAPOLATED */
    double reach;                 /* EXTRAPOLATED: batch over the nearest measured one, or back */
    double reach_sd;              /* relative, of forward + backward: what the reach adds */
};

/*
 * LK_EEVIDENCE when another batch than the only measured one is asked for, and no rate is known
 * (no flops_per_sample): what is missing, and the run that would supply it.
 */
enum lk_status lk_batch_curve_at(const struct lk_job *j, int local_batch,
                                 struct lk_batch_point *out);

#endif
