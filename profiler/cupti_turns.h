/*
 * When each collective was being issued, and as what (lk_cupti_id). A communicator that does not
 * block launches on a thread of its own, where no id of ours is pushed; but it has launched all
 * when the call that issues the collective is over (runtime/comm_nccl_cuda.h), and one is issued
 * after the other. So whatever NCCL launched meanwhile, one kernel or several, is that
 * collective's.
 *
 * Times are of the clock of CUPTI's records (cuptiGetTimestamp). One thread writes, any other
 * reads. The last LK_CUPTI_TURNS are kept: CUPTI hands launches over at least once a second.
 */
#ifndef LK_PROFILER_CUPTI_TURNS_H
#define LK_PROFILER_CUPTI_TURNS_H

#include "base/status.h"

#include <stdatomic.h>
#include <stdint.h>

enum { LK_CUPTI_TURNS = 1 << 14 }; /* a power of two */

struct lk_cupti_turns {
    struct lk_cupti_turn {
        _Atomic uint64_t begin_ns, end_ns, id; /* end 0: not over yet */
    } * ring;
    _Atomic uint64_t n; /* that have begun */
};

enum lk_cupti_found {
    LK_CUPTI_WITHIN,    /* a turn */
    LK_CUPTI_BETWEEN,   /* turns: nothing was being issued */
    LK_CUPTI_FORGOTTEN, /* it was too long ago */
};

enum lk_status lk_cupti_turns_init(struct lk_cupti_turns *t);
void lk_cupti_turns_fini(struct lk_cupti_turns *t); /* safe on a zeroed one */
/* A time below the last turn's begin, where the clock was set or failed (0), counts as that. An end
 * of 0 leaves the turn without one. */
void lk_cupti_turns_begin(struct lk_cupti_turns *t, uint64_t now_ns, uint64_t id);
void lk_cupti_turns_end(struct lk_cupti_turns *t, uint64_t now_ns);
/* What was being issued at that time, which is not in the future; *id is written when WITHIN. */
enum lk_cupti_found lk_cupti_turns_find(const struct lk_cupti_turns *t, uint64_t at_ns,
                                        uint64_t *id);

#endif
