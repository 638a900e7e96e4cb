/* A rank that fails between two of its calls, to test the other ranks' messages about it. */
#ifndef LK_TESTS_CULPRIT_H
#define LK_TESTS_CULPRIT_H

#include "tests/rigs/ranks.h"

enum culprit_way {
    KILLED,
    STOPPED, /* SIGSTOP, until the others have ended */
    LATE,    /* waits until the others have ended */
    LEAVES,
    REPORTS, /* that its disk is full */
    CULPRIT_WAYS
};

/* Fail in this way on the calling rank. The returned status is that of the rank. */
enum lk_status culprit_go(enum culprit_way way, struct lk_store *store);

/*
 * Run fn with ctx as processes, one of which calls culprit_go with this way, or fails in a way of
 * the test's own. Stores wait for WAIT_PLENTY; fn chooses a communicator's timeout.
 */
void culprit_run(int world_size, int culprit, int way, rank_fn fn, void *ctx, struct rank *ranks);

#endif
