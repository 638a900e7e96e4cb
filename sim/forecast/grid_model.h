/*
 * The step model for what-ifs: it predicts the many configurations of a grid as the predictor
 * (sim/forecast/predictor.h) does, but computes what they share once. Draws are paired as there:
 * draw i takes the same random numbers at every configuration, and of another predictor with the
 * same seed.
 */
#ifndef LK_SIM_FORECAST_GRID_MODEL_H
#define LK_SIM_FORECAST_GRID_MODEL_H

#include "base/config.h"
#include "base/status.h"
#include "sim/forecast/evidence.h"

struct lk_predictor;
struct lk_grid_model;

/* p is borrowed and outlives the model. */
enum lk_status lk_grid_model_create(struct lk_predictor *p, struct lk_grid_model **out);
void lk_grid_model_destroy(struct lk_grid_model *m); /* NULL is legal */
/* Predict a configuration; *out is freed by lk_prediction_fini. LK_EEVIDENCE or LK_EUSAGE: it
 * cannot be predicted, and others may. */
enum lk_status lk_grid_model_at(struct lk_grid_model *m, const struct lk_config *c,
                                struct lk_prediction *out);

#endif
