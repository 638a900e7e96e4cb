/*
 * The closed form evaluates the step model as a recurrence: bucket by bucket, all ranks at once,
 * without an event queue, in O(steps x buckets x ranks) time and O(ranks) memory. Draws and
 * integers are those of sim/step/engine.h, so the result is equal to the ns; it writes no trace.
 * It leaves a model with a collective that is needed beyond its step's end to the engine.
 */
#ifndef LK_SIM_CLOSED_FORM_H
#define LK_SIM_CLOSED_FORM_H

#include "sim/step/step.h"

/* Simulate request->steps steady-state steps. lk_sim_result_fini frees *out. */
enum lk_status lk_closed_form_run(const struct lk_step_model *m,
                                  const struct lk_sim_request *request, struct lk_sim_result *out);

#endif
