/* The operations of a pipeline, analysed: profiler/pipeline/stragglers.h. */
#ifndef LK_TESTS_ANALYZED_H
#define LK_TESTS_ANALYZED_H

#include "profiler/pipeline/stragglers.h"

struct analyzed {
    struct lk_pipe_ops ops;
    struct lk_replay replay;
    struct lk_pipe_stragglers s;
};

/* Read a table and analyse all of its steps; *a is freed by analyzed_fini, after a failure, too. */
enum lk_status analyzed_read(const char *path, struct analyzed *a);
void analyzed_fini(struct analyzed *a); /* zeroes it; safe on a zeroed one */
/* Return a cause; without it the test fails. */
const struct lk_pipe_cause *analyzed_cause(const struct analyzed *a, enum lk_pipe_kind kind,
                                           int number);

#endif
