/*
 * What a reader must know beside a forecast by the step model: where its runs were measured, and
 * what was assumed.
 */
#ifndef LK_SIM_FORECAST_STEP_NOTES_H
#define LK_SIM_FORECAST_STEP_NOTES_H

#include "sim/forecast/basis.h"
#include "sim/forecast/evidence.h"

#include <stdbool.h>
#include <stddef.h>

/* Say which runs of one configuration contradict each other. */
enum lk_status lk_step_repeats_say(const struct lk_basis *b, struct lk_forecast *out);
/* Say where the runs were measured, name those that do not count with their steps, and what the
 * runs do not tell of accumulation. points: n predictions. */
enum lk_status lk_step_places_add(const struct lk_basis *b,
                                  const struct lk_prediction *const *points, size_t n,
                                  struct lk_forecast *out);
/* Note what was assumed. is_split: tensors in a bucket are assumed too. */
enum lk_status lk_step_notes_add(const struct lk_basis *b, bool is_split,
                                 const struct lk_prediction *const *points, size_t n,
                                 struct lk_forecast *out);

/* Warn where NCCL's choices on an altered machine cost more than the model resolves. */
enum lk_status lk_step_note_choice(const struct lk_prediction *const *points, size_t n,
                                   struct lk_forecast *out);

#endif
