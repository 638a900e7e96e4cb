/*
 * The sentences that a forecast begins with: the number with its interval, what it rests on, and
 * what is lost most, in words for a reader who knows training and not this program.
 */
#ifndef LK_FACTS_FORECAST_ANSWER_H
#define LK_FACTS_FORECAST_ANSWER_H

#include "base/status.h"
#include "facts/forecast.h"

#include <stddef.h>

enum { LK_ANSWER_WORDS = 256 /* bytes of a configuration in words */ };

/*
 * Write how a point's configuration differs from those of other points on as many GPUs:
 * "accumulation 4, bucket cap 25.0 MiB"; empty if it is the only one there. Returns out.
 */
const char *lk_answer_config(const struct lk_forecast *f, const struct lk_forecast_point *p,
                             char *out, size_t size);
/* Write a rate with three digits, and a count below a million, which is a whole number, with all:
 * "15,900", "528", "1.43", "1,024". Returns out. */
const char *lk_answer_number(double v, char *out, size_t size);
/* Write a ratio as percent: "87", "2.3". Returns out. */
const char *lk_answer_percent(double ratio, char *out, size_t size);

/* Append to a forecast's answer what its point number `at` says. pre: at < f->n_points. */
enum lk_status lk_answer_point(struct lk_forecast *f, size_t at);

#endif
