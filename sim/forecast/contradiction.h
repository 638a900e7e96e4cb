/*
 * A model on trial: which of the measurements that are given contradict it. Both sources of
 * evidence (sim/forecast/evidence.h) try theirs here, before anything is predicted. A contradicted
 * model gives no number; another may answer in its place, under its own name.
 *
 * What refutes a model:
 *
 *     bound      a measured step is shorter than the model's least by more than 2 %
 *     backtests  of n held-out runs so few are inside their intervals of level L that a true
 *                forecast had them so with a probability below 1/20: 0 of 2 and 1 of 3 at 90 %
 *     interval   one held-out run is off by more than half and outside its interval of 99 %
 *     memory     a GPU has less than a measured configuration takes at the least
 *     odds       the rows of a table make the step model less likely than 1e-4 times the law alone
 */
#ifndef LK_SIM_FORECAST_CONTRADICTION_H
#define LK_SIM_FORECAST_CONTRADICTION_H

#include "base/status.h"
#include "facts/forecast.h"
#include "sim/forecast/evidence.h"

#include <stdbool.h>
#include <stddef.h>

/* A model on trial. All is borrowed. */
struct lk_trial {
    const struct lk_evidence_source *source; /* it is fitted, and predicts with its bound */
    const char *by;                          /* what has the measurements: "t16.csv" */
    bool is_law; /* the source is the scaling law alone, else the step model of its cluster */
    double odds; /* NaN: not known */
    double device_bytes; /* of a GPU; NaN: not known */
};

/* Append what contradicts the model to the forecast's contradictions; its back-tests are there. */
enum lk_status lk_trial_hold(const struct lk_trial *t, struct lk_forecast *out);

/* Return the probability that at most k of n independent events of probability p come. */
double lk_at_most(size_t k, size_t n, double p);

/* Name what answers in the place of what the contradictions refute; NULL: nothing does. */
enum lk_status lk_contradictions_answer(struct lk_forecast *f, const char *instead);
/* Nothing answers after all: what was to answer knows nothing of what is asked. */
void lk_contradictions_unanswered(struct lk_forecast *f);
/* Return true if a model is contradicted, and if nothing answers in its place. */
bool lk_contradictions_of_model(const struct lk_forecast *f);
bool lk_contradictions_refute(const struct lk_forecast *f);
/* Say the contradictions: a sentence of the answer for each that is refuted. anyway: its numbers
 * are given all the same. pre: nothing is said. */
enum lk_status lk_contradictions_tell(struct lk_forecast *f, bool anyway);
/* Return how many sentences these are: the first ones of the answer. */
size_t lk_contradictions_told(const struct lk_forecast *f);

#endif
