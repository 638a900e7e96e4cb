/* A rank that goes wrong. */
#include "tests/culprit.h"

#include <signal.h>
#include <unistd.h>

enum lk_status culprit_go(enum culprit_way way, struct lk_store *store, uint64_t timeout_ns)
{
    switch (way) {
    case KILLED:
        raise(SIGKILL);
        return LK_OK;
    case STOPPED:
        raise(SIGSTOP);
        return LK_OK;
    case LATE:
        lk_sleep_until_ns(lk_monotonic_ns() + 3 * timeout_ns);
        return LK_OK;
    case REPORTS:
        return lk_store_report(store, LK_EIO, "disk full");
    default:
        return lk_fail(LK_EUSAGE, "it leaves");
    }
}

void culprit_wake(enum culprit_way way, pid_t pid)
{
    if (way != STOPPED)
        return;
    usleep(1500000);
    kill(pid, SIGCONT);
}
