/* The grid of a request: its configurations, and the columns that tell them apart. */
#ifndef LK_SIM_FORECAST_REQUEST_H
#define LK_SIM_FORECAST_REQUEST_H

#include "base/status.h"
#include "facts/config.h"
#include "facts/forecast.h"
#include "sim/forecast/forecast.h"

#include <stddef.h>

/* Refuse a request that no source could answer (LK_EUSAGE). */
enum lk_status lk_predict_request_check(const struct lk_predict_request *q);
/* Return the number of combinations of the lists. */
size_t lk_predict_request_size(const struct lk_predict_request *q);
/* Return combination n, without nodes and global batch; the counts of GPUs vary slowest. */
struct lk_config lk_predict_request_config(const struct lk_predict_request *q,
                                           const struct lk_evidence_source *e, size_t n);
/* Name the columns of what the points' own numbers do not say, and set a point's words there. */
void lk_predict_request_axes(const struct lk_predict_request *q, struct lk_forecast *out);
void lk_predict_request_words(const struct lk_predict_request *q, struct lk_forecast_point *p);

#endif
