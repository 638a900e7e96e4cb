/* What sim/predictor.c and sim/sweep_model.c share; not for others. */
#ifndef LK_SIM_PREDICTOR_STATE_H
#define LK_SIM_PREDICTOR_STATE_H

#include "base/rng.h"
#include "sim/coll_cost.h"
#include "sim/predictor.h"
#include "sim/run_group.h"

struct lk_predictor {
    const struct lk_job *job;
    const struct lk_cluster *cluster;
    struct lk_predictor_options options;
    struct lk_runs runs;
    struct lk_cost_model *cost;   /* the estimates */
    struct lk_cost_model **draws; /* options.draws of them */
};

/* The random numbers of draw i that every configuration shares. */
struct lk_world {
    double run_sd, of_fresh, of_runs; /* between runs; deviations in sd of the fresh and the old */
    double compute, error, scale;     /* deviations in sd of compute, the model, its scale */
    struct lk_rng steps;              /* for the steps of the runs */
};
struct lk_world lk_predictor_world(const struct lk_predictor *p, size_t i);
/* One draw of what n runs say of a configuration's mean step: their steps, and between runs. */
double lk_predictor_runs_draw(const struct lk_predictor *p, const struct lk_config *at, size_t n,
                              const struct lk_world *w);
/* The error of the scale, relative, at this distance from an anchor; 0 GPUs: none. */
double lk_predictor_scale_error(const struct lk_predictor *p, const struct lk_config *at,
                                int anchor_gpus);
/*
 * A step with the model's errors of world w. What is wrong about the compute time itself (of the
 * batch, and between measured configurations) moves all of it; the scale's error is in what
 * communication and waiting add, and that is never less than nothing.
 */
double lk_predictor_with_error(double alone_s, double step_s, double scale_error, double batch_sd,
                               const struct lk_world *w);
/* What a rank's own work of a step takes. */
double lk_predictor_alone_s(const struct lk_step_model *m, int accumulation);
/* Grade of a configuration that was not measured. text: 64 bytes. */
void lk_predictor_grade(const struct lk_predictor *p, const struct lk_config_model *m,
                        int anchor_gpus, const struct lk_config *at, enum lk_evidence *out,
                        char *text);

#endif
