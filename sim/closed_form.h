/*
 * The step model as a recurrence: bucket by bucket, all ranks at once, without an event queue.
 * O(steps x buckets x ranks) time, O(ranks) memory beside the step times. Same draws, same
 * integers and so the same result as sim/engine.h, to the ns; it writes no trace. A model with a
 * collective that is needed beyond its step's end, where ranks part, is left to the engine.
 */
#ifndef LK_SIM_CLOSED_FORM_H
#define LK_SIM_CLOSED_FORM_H

#include "sim/step.h"

/* Simulates request->steps steady-state steps. *out is freed by lk_sim_result_fini. */
enum lk_status lk_closed_form_run(const struct lk_step_model *m,
                                  const struct lk_sim_request *request, struct lk_sim_result *out);

#endif
