/*
 * The model of configurations that were not measured. It computes once what the
 * configurations of a grid share: collectives, compute, the slowest rank, anchors. Draws are
 * paired: draw i takes the same random numbers at every configuration, and of another basis
 * with the same seed. The estimate needs no random number.
 */
#ifndef LK_SIM_FORECAST_GRID_MODEL_H
#define LK_SIM_FORECAST_GRID_MODEL_H

#include "base/status.h"
#include "facts/config.h"
#include "sim/forecast/evidence.h"

#include <stdbool.h>

struct lk_basis;
struct lk_grid_model;

/* b is borrowed and outlives the model, which reads its bucket cost anew each time. */
enum lk_status lk_grid_model_create(const struct lk_basis *b, struct lk_grid_model **out);
void lk_grid_model_destroy(struct lk_grid_model *m); /* NULL is legal */
/* Take the runs of the machine as it is, whose model outlives this one, for an altered machine:
 * what they take beyond the model there, they take here. */
void lk_grid_model_follow(struct lk_grid_model *m, struct lk_grid_model *as_is);
/* Predict p->config, whose runs take part as its anchor alone. LK_EEVIDENCE or LK_EUSAGE: it cannot
 * be predicted, and others may. pre: p->draws_s has room for the basis' draws. */
enum lk_status lk_grid_model_at(struct lk_grid_model *m, struct lk_prediction *p);
/* Predict the step alone, s; not anchored: as modelled. */
enum lk_status lk_grid_model_step(struct lk_grid_model *m, const struct lk_config *c, bool anchored,
                                  double *out_step_s);

#endif
