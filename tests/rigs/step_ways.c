#include "tests/rigs/step_ways.h"

#include "sim/step/closed_form.h"
#include "sim/step/engine.h"

static enum lk_status run_engine(const struct lk_step_model *m, const struct lk_sim_request *q,
                                 struct lk_sim_result *out)
{
    return lk_engine_run(m, q, NULL, out);
}

const step_way step_ways[STEP_WAYS] = {run_engine, lk_closed_form_run};
