/*
 * One rank's compute against the local batch. Between measured batches: straight lines through the
 * times, made non-decreasing. Outside them: floor + rate x batch, fitted with non-negative
 * constants to all batches, joined to the nearest one.
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
};

/*
 * LK_EEVIDENCE when there is one measured batch and another is asked for, as no rate is known, and
 * for a batch more than 4 times outside the measured ones.
 */
enum lk_status lk_batch_curve_at(const struct lk_job *j, int local_batch,
                                 struct lk_batch_point *out);

#endif
