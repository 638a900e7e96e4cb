/* For tests: add to a trace what its maker did not write. A failure ends the test. */
#ifndef LK_TESTS_TRACE_ADD_H
#define LK_TESTS_TRACE_ADD_H

#include "facts/trace.h"

/* Return the id of a name, which is added if the trace lacks it. */
uint16_t trace_add_name(struct lk_trace *t, const char *name);
/* Return the number of a new track. */
uint32_t trace_add_track(struct lk_trace *t, const char *name, enum lk_track_kind kind, int stream);
/* Append a span; trace_add_done puts all spans in order. */
void trace_add_span(struct lk_trace *t, uint32_t track, struct lk_span span);
void trace_add_done(struct lk_trace *t);
/* Record, behind each collective, what TCP tells of the hop to a rank, which carries a part of the
 * collective's bytes. */
void trace_add_hop(struct lk_trace *t, int to, double Bps, double part);
/* Return the first span of a kind in a step, or NULL. */
const struct lk_span *trace_find(const struct lk_trace *t, enum lk_span_kind kind, uint32_t step);

#endif
