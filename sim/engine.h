/*
 * The step model as events: a binary heap of (time, sequence number), one process a rank, one
 * communication stream. Handles everything in sim/step.h and writes a trace on request. Same input,
 * same bytes out. sim/closed_form.h gives the same result faster and without a trace.
 */
#ifndef LK_SIM_ENGINE_H
#define LK_SIM_ENGINE_H

#include "sim/record.h"
#include "sim/step.h"

/*
 * Simulates request->steps steady-state steps after the warm-up. record NULL: no trace; else all
 * steps, warm-up included, are recorded. *out is freed by lk_sim_result_fini.
 */
enum lk_status lk_engine_run(const struct lk_step_model *m, const struct lk_sim_request *request,
                             struct lk_sim_record *record, struct lk_sim_result *out);

#endif
