/*
 * Issue windows: when each collective was being issued, and its id (lk_cupti_id). A non-blocking
 * communicator launches on a thread of its own, where no id of ours is pushed; but it has launched
 * everything when the call that issues the collective returns (runtime/comm/comm_nccl_cuda.h), and
 * collectives are issued one after the other. So all that NCCL launched in a window, one kernel or
 * several, belongs to that collective.
 *
 * Times are of the clock of CUPTI's records (cuptiGetTimestamp). One thread writes, any other
 * reads. The last LK_ISSUE_WINDOWS windows are kept: CUPTI delivers launches at least once a
 * second.
 */
#ifndef LK_PROFILER_ISSUE_WINDOWS_H
#define LK_PROFILER_ISSUE_WINDOWS_H

#include "base/status.h"

#include <stdatomic.h>
#include <stdint.h>

enum { LK_ISSUE_WINDOWS = 1 << 14 }; /* a power of two */

struct lk_issue_windows {
    struct lk_issue_window {
        _Atomic uint64_t begin_ns, end_ns, id; /* end 0: still being issued */
    } * ring;
    _Atomic uint64_t n; /* windows begun so far */
};

enum lk_issue_found {
    LK_ISSUE_WITHIN,    /* in a window */
    LK_ISSUE_BETWEEN,   /* between windows: nothing was being issued */
    LK_ISSUE_FORGOTTEN, /* too long ago: the window was overwritten */
};

enum lk_status lk_issue_windows_init(struct lk_issue_windows *t);
void lk_issue_windows_fini(struct lk_issue_windows *t); /* safe on a zeroed one */
/* Begin and end a window. A time before the last window's begin, where the clock was set or failed
 * (0), counts as that begin. An end of 0 leaves the window without one. */
void lk_issue_windows_begin(struct lk_issue_windows *t, uint64_t now_ns, uint64_t id);
void lk_issue_windows_end(struct lk_issue_windows *t, uint64_t now_ns);
/* Find the window of a time, which is not in the future; *id is written when WITHIN. */
enum lk_issue_found lk_issue_windows_find(const struct lk_issue_windows *t, uint64_t at_ns,
                                          uint64_t *id);

#endif
