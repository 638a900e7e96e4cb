/*
 * The step model for what-ifs: it predicts the many configurations of a grid as the predictor
 * (sim/forecast/predictor.h) does, but computes what they share once. Draws are paired as there:
 * draw i takes the same random numbers at every configuration, and of another predictor with the
 * same seed.
 */
#ifndef LK_SIM_WHATIF_GRID_MODEL_H
#define LK_SIM_WHATIF_GRID_MODEL_H

#include "base/cluster.h"
#include "base/config.h"
#include "base/job.h"
#include "base/status.h"
#include "sim/forecast/evidence.h"

#include <stddef.h>
#include <stdint.h>

struct lk_predictor;
struct lk_grid_model;

/* p is borrowed and outlives the model. */
enum lk_status lk_grid_model_create(struct lk_predictor *p, struct lk_grid_model **out);
void lk_grid_model_destroy(struct lk_grid_model *m); /* NULL is legal */
/* Predict a configuration; *out is freed by lk_prediction_fini. LK_EEVIDENCE or LK_EUSAGE: it
 * cannot be predicted, and others may. */
enum lk_status lk_grid_model_at(struct lk_grid_model *m, const struct lk_config *c,
                                struct lk_prediction *out);

/*
 * Open the model of a job on a cluster, with the error of its back-tests, as a source of evidence
 * (sim/whatif/grid_evidence.c). An altered machine has no runs: its predictions are the model's,
 * times what runs take over the model on the machine as it is. The caller closes it by its hook.
 */
enum lk_status lk_grid_evidence(const struct lk_job *job, const struct lk_cluster *cluster,
                                double level, int draws, uint64_t seed,
                                struct lk_evidence_source *out);

#endif
