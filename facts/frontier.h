/*
 * The frontier of time and cost: the points of a forecast that no other beats in both. Points count
 * that can be chosen (the plan's probability is known) and have a time and a cost to the target.
 */
#ifndef LK_FACTS_FRONTIER_H
#define LK_FACTS_FRONTIER_H

#include "base/status.h"
#include "base/table.h"
#include "facts/forecast.h"

#include <stddef.h>

/*
 * List the frontier, the fastest point first, so that time rises and cost falls. Of points that are
 * closer than `apart` in cost, relative, to the one before, the first is kept, and the last of all;
 * 0 keeps all. *out is freed by the caller.
 */
enum lk_status lk_frontier_list(const struct lk_forecast *f, double apart, size_t **out, size_t *n);

/* Tabulate points of a forecast with their plans' time, cost and probability; what (optional) has a
 * word for each. */
enum lk_status lk_frontier_table(const struct lk_forecast *f, const char *title, const size_t *at,
                                 const char *const *what, size_t n, struct lk_table **out);

#endif
