/*
 * Tell what an action gains: some axes moved together, as a piece of advice says it, from a
 * configuration that runs. The answer is that of `lockstep whatif JOB CLUSTER --gpus N --AXIS WORD
 * ...`.
 *
 *     const struct action_change c[] = {{LK_AXIS_ACCUMULATION, "4"}, {LK_AXIS_REDUCE, "last"}};
 *     const struct action a = {c, 2};
 *     LK_TRY(action_gain(&job, &cluster, &run->config, &a, &out));
 *     if (action_gains(&out)) ...
 */
#ifndef LK_COMMANDS_ACTION_H
#define LK_COMMANDS_ACTION_H

#include "base/status.h"
#include "facts/forecast.h"
#include "facts/job.h"
#include "sim/forecast/axis.h"

#include <stdbool.h>
#include <stddef.h>

/* An axis, and a value on it as whatif's option takes it: "4", "bfloat16", "x2", "3:1.1". */
struct action_change {
    enum lk_axis axis; /* not GPUS, and not GPU, whose value is a cluster */
    const char *word;
};

struct action {
    const struct action_change *changes;
    size_t n; /* > 0 */
};

struct action_gain {
    double now_s, step_s;               /* a step as it is, and with the action */
    char batches[LK_RANK_BATCHES_TEXT]; /* with the action, of ranks that differ */
    struct lk_gain gain;                /* of throughput, with the interval of level ACTION_LEVEL */
    bool fits;                          /* in a GPU's memory, as far as that is known */
};

#define ACTION_LEVEL 0.9

/*
 * Forecast an action by the step model, with the draws and the seed that whatif takes by default.
 * now: the configuration that it changes, with its GPUs, e.g. that of one of the job's runs. An
 * action that changes nothing has a gain of exactly 1 (1 to 1). LK_EEVIDENCE: nothing forecasts it,
 * or what was measured contradicts the model; LK_EUSAGE: a word that its axis does not take, or an
 * axis that has no meaning there.
 */
enum lk_status action_gain(const struct lk_job *job, const struct lk_cluster *cluster,
                           const struct lk_config *now, const struct action *action,
                           struct action_gain *out);
/* Return true if the action fits and surely gains: the interval of its gain is above 1. */
bool action_gains(const struct action_gain *g);

#endif
