/* A small trace with every kind of span, for the suites that read and write traces. */
#ifndef LK_TESTS_TRACE_SAMPLE_H
#define LK_TESTS_TRACE_SAMPLE_H

#include "facts/trace.h"

/* Make the trace of rank `rank` of `world`, two steps with all kinds of spans. Freed by
 * lk_trace_fini. */
void lk_trace_sample(struct lk_trace *t, int rank, int world);
/* Fail the test if the two differ. */
void lk_trace_assert_same_info(const struct lk_run_info *a, const struct lk_run_info *b);
void lk_trace_assert_same(const struct lk_trace *a, const struct lk_trace *b);

#endif
