/* A run, or a table of its ranks' times, becomes measures for the doctor (sim/throughput/doctor.h)
 * by the analysis that `analyze` prints. */
#ifndef LK_COMMANDS_DOCTOR_MEASURES_H
#define LK_COMMANDS_DOCTOR_MEASURES_H

#include "base/status.h"
#include "facts/step_times.h"
#include "profiler/analysis/run_set.h"
#include "sim/throughput/doctor.h"

/*
 * Set the measures of a run; NaN where it does not tell: waits of ranks that are missing, gaps of
 * hosts where no GPU was recorded, how often what has no buckets is reduced. LK_EEVIDENCE: it has
 * no step after the warm-up.
 */
enum lk_status doctor_measure_run(const struct lk_run *run, double out[LK_MEASURE_COUNT]);
/* Set the measures of a table: own times alone. LK_EEVIDENCE: no step has the times of all ranks.
 */
enum lk_status doctor_measure_times(const struct lk_step_times *t, double out[LK_MEASURE_COUNT]);

#endif
