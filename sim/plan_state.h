/* What the parts of sim/plan.c share; not for others. */
#ifndef LK_SIM_PLAN_STATE_H
#define LK_SIM_PLAN_STATE_H

#include "base/cluster.h"
#include "base/forecast.h"
#include "base/job.h"
#include "base/status.h"
#include "sim/config.h"
#include "sim/economics.h"
#include "sim/plan.h"

#include <stdbool.h>
#include <stddef.h>

/* Of failures, where nobody said. */
enum lk_plan_prior { LK_PLAN_PRIOR_MTBF, LK_PLAN_PRIOR_RESTART, LK_PLAN_PRIOR_COUNT };

struct lk_plan_state {
    const struct lk_job *job;
    const struct lk_cluster *cluster;
    const struct lk_plan_request *request;
    const struct lk_plan_place *places; /* one a point, or NULL */
    struct lk_forecast *f;
    size_t first;        /* the first point that fits */
    double device_bytes; /* NaN: not known */
    struct lk_economics economics;
    struct lk_estimate mtbf_s, restart_s;
    bool failures; /* asked for, and a checkpoint's time can be known */
    bool assumed[LK_PLAN_PRIOR_COUNT];
};

/* The option, the file's quantity with its interval, or unknown. */
struct lk_estimate lk_plan_input(double option, const struct lk_quantity *q);
const char *lk_plan_prior_source(enum lk_plan_prior p);

/* What a point runs as, and whose GPU it runs on. */
struct lk_config lk_plan_config(const struct lk_plan_state *p, size_t point);
const struct lk_cluster *lk_plan_device(const struct lk_plan_state *p, size_t point);

/* Fills a plan's memory, for a device of this much. */
void lk_plan_set_memory(const struct lk_job *job, const struct lk_config *c, double device_bytes,
                        struct lk_plan *out);
bool lk_plan_too_large(const struct lk_forecast_point *p);

/* What an hour saved costs, from the next smaller count of GPUs; empty where none is saved. */
void lk_plan_set_marginal(struct lk_plan_state *p);
/* What the plans mean: memory, target, where more GPUs stop paying, learning rates, failures. */
enum lk_status lk_plan_add_notes(const struct lk_plan_state *p);

#endif
