/*
 * The batch curve gives the compute time of one rank at a local batch. Between measured batches it
 * is linear, made non-decreasing. Outside them it continues from the nearest one with the slope of
 * the segment at that edge, since the time of a sample may grow with the batch as well as fall;
 * where that slope differs by no more than noise from the line through all points, it takes the
 * line's. With one measured batch it assumes the rate reached there and a fixed cost.
 */
#ifndef LK_SIM_BATCH_CURVE_H
#define LK_SIM_BATCH_CURVE_H

#include "base/status.h"
#include "facts/forecast.h"
#include "facts/job.h"

struct lk_batch_point {
    double forward_s, backward_s; /* a micro-batch */
    double input_s;               /* waited for, a step of the runs */
    double optimizer_s, gap_s;    /* a step */
    double transient;             /* relative sd of a micro-batch; NaN: not known */
    double sd;                    /* relative, of forward + backward: what the samples leave open */
    enum lk_evidence evidence;    /* MEASURED, INTERPOLATED or EXTRAPOLATED */
    double extrapolation;         /* EXTRAPOLATED: batch over the nearest measured one, or back */
    double extrapolation_sd; /* relative, of forward + backward: the error of the extrapolation */
};

/*
 * Evaluate the curve at a batch. LK_EEVIDENCE if none was measured; it names the run that would
 * supply it.
 */
enum lk_status lk_batch_curve_at(const struct lk_job *j, int local_batch,
                                 struct lk_batch_point *out);

/* Return the compute, s, of a micro-batch of b samples. LK_EEVIDENCE as above. */
enum lk_status lk_batch_compute(const struct lk_job *j, int b, double *out);
/* Set work[r], of world_size ranks, to the compute of a rank's micro-batch over that of the local
 * batch, which is the largest, if all ranks were alike: by the curve. All 1 if batches do not
 * differ. */
enum lk_status lk_batch_work(const struct lk_job *j, const struct lk_config *c, double *work);

#endif
