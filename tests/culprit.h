/* A rank that goes wrong between two of its calls, for tests of what the others say of it then. */
#ifndef LK_TESTS_CULPRIT_H
#define LK_TESTS_CULPRIT_H

#include "tests/ranks.h"

enum culprit_way {
    KILLED,
    STOPPED, /* until the others have ended */
    LATE,    /* likewise */
    LEAVES,
    REPORTS, /* that its disk is full */
    CULPRIT_WAYS
};

/* What the calling rank does in its turn. A failure is how it ends. */
enum lk_status culprit_go(enum culprit_way way, struct lk_store *store);

/*
 * Runs fn with ctx as processes, one of which calls culprit_go with this way, or goes wrong in a
 * way of the test's own. Stores wait in plenty; for how long a communicator does is fn's to say.
 */
void culprit_run(int world_size, int culprit, int way, rank_fn fn, void *ctx, struct rank *ranks);

#endif
