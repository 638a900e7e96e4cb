/* A rank that goes wrong between two of its calls, for tests of what the others say of it then. */
#ifndef LK_TESTS_CULPRIT_H
#define LK_TESTS_CULPRIT_H

#include "runtime/store.h"

#include <stdint.h>
#include <sys/types.h>

enum culprit_way {
    KILLED,
    STOPPED,
    LATE, /* by three times the timeout */
    LEAVES,
    REPORTS, /* that its disk is full */
    CULPRIT_WAYS
};

/* What the calling rank does in its turn. A failure is how it ends. */
enum lk_status culprit_go(enum culprit_way way, struct lk_store *store, uint64_t timeout_ns);
/* Lets a stopped process go on when the others must have given up. */
void culprit_wake(enum culprit_way way, pid_t pid);

#endif
