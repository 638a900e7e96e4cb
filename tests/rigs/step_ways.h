/* The two programs of the step model, engine and closed form, which must agree. */
#ifndef LK_TESTS_RIGS_STEP_WAYS_H
#define LK_TESTS_RIGS_STEP_WAYS_H

#include "sim/step/step.h"

enum { STEP_WAYS = 2 };

typedef enum lk_status (*step_way)(const struct lk_step_model *, const struct lk_sim_request *,
                                   struct lk_sim_result *);
extern const step_way step_ways[STEP_WAYS];

#endif
