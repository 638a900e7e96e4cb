/*
 * The engine runs the step model as events: a binary heap of (time, sequence number), one process
 * a rank, one communication stream. It handles everything in sim/step/step.h and writes a trace on
 * request. The same input gives the same bytes. sim/step/closed_form.h gives the same result
 * faster, without a trace.
 */
#ifndef LK_SIM_ENGINE_H
#define LK_SIM_ENGINE_H

#include "sim/step/sim_trace.h"
#include "sim/step/step.h"

/*
 * Simulate request->steps steady-state steps after the warm-up. With `record` all steps, warm-up
 * included, are recorded; NULL: no trace. lk_sim_result_fini frees *out.
 */
enum lk_status lk_engine_run(const struct lk_step_model *m, const struct lk_sim_request *request,
                             struct lk_sim_trace *record, struct lk_sim_result *out);

#endif
