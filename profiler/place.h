/*
 * The step of what a GPU's records do not tell (LK_SPAN_STEP_UNKNOWN): libraries launch for
 * themselves, NCCL's launches may not be known, and overhead belongs to nobody.
 *
 *   on a comm track        that of the collective in which the middle of the span lies, whose
 *                          bucket it moves; between two, that of the earlier
 *   on compute and others  that of forward, backward or optimizer likewise
 *   on the host, and of a  that of the STEP range likewise
 *   GPU's sampled state
 *
 * By the middle, because ranges are timed by events and records by CUPTI, which agree within some
 * microseconds. What comes before all of them gets the first's step, and 0 where there are none.
 */
#ifndef LK_PROFILER_PLACE_H
#define LK_PROFILER_PLACE_H

#include "base/status.h"
#include "base/trace.h"

/* pre: spans are sorted by start. */
enum lk_status lk_spans_place(struct lk_trace *t);

#endif
