/*
 * One step of one rank as the graph of a Chakra trace (facts/chakra.h).
 *
 * The rank's time is one chain of COMP nodes: its forwards, backwards and optimizer, without the
 * times in which a collective blocked them, waits for input, and idle time that nothing explains. A
 * node is cut where a collective was ready, which then depends on the part before. A collective
 * lasts from when it is due to its end: waiting for other ranks is in it. Work that began after
 * waiting for a collective depends on it, the optimizer on all that had ended.
 *
 * Times are rounded to microseconds on one scale from the step's begin, so that the parts sum to
 * the step: who starts each node as early as its dependencies allow gets the recorded times.
 */
#ifndef LK_PROFILER_ANALYSIS_STEP_GRAPH_H
#define LK_PROFILER_ANALYSIS_STEP_GRAPH_H

#include "facts/chakra.h"
#include "facts/trace.h"
#include "profiler/analysis/steps.h"

/* Make the graph of a step of s, which was read from t. LK_EEVIDENCE: a collective's size is not
 * known, or Chakra has none of its kind. */
enum lk_status lk_step_graph(const struct lk_trace *t, const struct lk_rank_steps *s,
                             const struct lk_step *p, struct lk_chakra_graph *out);

#endif
