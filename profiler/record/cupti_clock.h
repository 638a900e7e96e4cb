/*
 * Make use of the times in CUPTI's records: map them to our clock, and find the collective that was
 * being issued at a time.
 */
#ifndef LK_PROFILER_RECORD_CUPTI_CLOCK_H
#define LK_PROFILER_RECORD_CUPTI_CLOCK_H

#include "base/status.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* ---- CUPTI's clock ---- */

/*
 * CUPTI's clock is the system's (CLOCK_REALTIME), which NTP steers, unlike
 * ours (lk_now_ns): both are read together now and then, and times between two such points are
 * interpolated.
 *
 * CUPTI could be told to call for our clock (cuptiActivityRegisterTimestampCallback). It is not:
 * from 12.6 Update 2 until 13.1 kernels may then have no times at all (NVIDIA, CUPTI release notes,
 * 13.1), and where a context is older than the callback, or it is registered a second time, kernels
 * keep the system's times while calls have ours (pytorch/pytorch issue 192021 and pull request
 * 190354).
 */

enum { LK_CUPTI_POINTS = 128 };

struct lk_cupti_clock {
    struct {
        uint64_t theirs_ns, ours_ns;
    } points[LK_CUPTI_POINTS]; /* the last is the newest */
    size_t n;
    uint64_t apart_ns; /* least distance of the points that are kept */
    uint64_t jump_ns;  /* largest step of CUPTI's clock between two points; 0: none */
};

/* Add a reading of both clocks at one moment, later than the ones before. Any number of times: when
 * there is no room, points are thinned out evenly. pre: *c is zero before the first. */
void lk_cupti_clock_add(struct lk_cupti_clock *c, uint64_t theirs_ns, uint64_t ours_ns);

/* Convert CUPTI's time to our clock. Outside the points the nearest point's difference is used.
 * pre: there is a point. */
uint64_t lk_cupti_clock_ours_ns(const struct lk_cupti_clock *c, uint64_t theirs_ns);

/* ---- Issue windows ---- */

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
