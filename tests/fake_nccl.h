/*
 * An NCCL that is none, for tests: the table of functions in NCCL's place
 * (runtime/calls_nccl_cuda.h) over tests/fake_cuda.h. Ranks are processes that were forked after
 * fake_nccl_create; a collective is work of a stream that ends when all ranks' streams have come to
 * it, with real sums. What it answers is told by the fields of fake_nccl, each process's own.
 *
 * As NCCL's, a communicator is in progress for a while after each call, and a collective is on its
 * stream only then. What NCCL forbids ends the test: two threads inside at once, calls while in
 * progress, destroying what was not finalized, anything after the end.
 */
#ifndef LK_TESTS_FAKE_NCCL_H
#define LK_TESTS_FAKE_NCCL_H

#include "runtime/calls_nccl_cuda.h"

#ifdef LK_NCCL_BUILT

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FAKE_NCCL_RANKS_MAX = 4, FAKE_NCCL_SLOT_BYTES = 4 << 20, FAKE_NCCL_COMMS_MAX = 4 };

struct fake_nccl {
    int version;
    int in_progress;        /* answers of ncclInProgress after a call */
    bool init_hangs;        /* it stays in progress */
    ncclResult_t init_says; /* what its first question after that answers; ncclSuccess: well */
    int fail_call;          /* this collective, from 1, answers fail_with at once; 0: none */
    int error_from;         /* from this question on, counted from 1, the error is fail_with */
    ncclResult_t fail_with;
    bool finalize_hangs;
    bool abort_hangs;
    atomic_int collectives, questions;
    bool estimates_hang;
    atomic_int comms_alive, inits, finalized, destroyed, aborted, registered, memory_alive;
    ncclConfig_t config; /* of the last init */
};
extern struct fake_nccl fake_nccl;
extern const struct lk_nccl_calls fake_nccl_calls;

/* The ranks' common memory; before they are forked. */
void fake_nccl_create(void);
/* The same for programs that start one another: the first one makes the memory, and keeps it as
 * long as it lives; the environment's FAKE_NCCL_MEMORY tells the others. */
void fake_nccl_share(void);
void fake_nccl_destroy(void);
/* Nothing was asked, all will be well. */
void fake_nccl_reset(void);

#endif
#endif
