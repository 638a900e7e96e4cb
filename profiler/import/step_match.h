/* Steps of ranks that were recorded at different times: which is the same one. */
#ifndef LK_PROFILER_IMPORT_STEP_MATCH_H
#define LK_PROFILER_IMPORT_STEP_MATCH_H

#include "facts/trace.h"

/* Return a rank's first step; NULL: it has none. It begins when the GPU has done what was launched
 * before, which may be after the next one's mark. Return when a span began by the wall clock, ns
 * since the epoch. */
const struct lk_span *lk_import_first_step(const struct lk_trace *t);
uint64_t lk_import_start_ns(const struct lk_trace *t, const struct lk_span *s);
/* Number the steps of ranks as the one of the same clock that began to record first, where nothing
 * but their order numbers them (steps found as periods): the first one recorded is not the same
 * step on all ranks. A rank whose first step began with none of that one's, within a quarter of a
 * step, keeps its numbers. clock[k]: the first of n ranks that shares rank k's clock. */
void lk_import_match_steps(struct lk_trace *traces, size_t n, const size_t *clock);

#endif
