/* For tests: what the steps of a trace sum to, beside a breakdown of its events. */
#ifndef LK_TESTS_SPLIT_H
#define LK_TESTS_SPLIT_H

#include "facts/trace.h"
#include "profiler/analysis/breakdown.h"

/* Fail unless the trace's steps compute, communicate and expose as long as the events, to the ns.
 */
void assert_split(const struct lk_trace *t, const struct lk_breakdown *events);

#endif
