/*
 * A fake NCCL, for tests: a table of functions in NCCL's place (runtime/comm/calls_nccl_cuda.h)
 * over tests/fakes/fake_cuda.h. Ranks are processes that were forked after fake_nccl_create; a
 * collective is work of a stream that ends when all ranks' streams have reached it, with real sums.
 * The fields of fake_nccl, each process's own, choose its results.
 *
 * As in NCCL, a communicator is in progress for a while after each call; a collective is put on its
 * stream meanwhile, by a thread that NCCL makes for it. Calls that NCCL forbids end the test: two
 * threads inside at once, calls while in progress, destroying without finalizing, anything after
 * the end.
 */
#ifndef LK_TESTS_FAKE_NCCL_H
#define LK_TESTS_FAKE_NCCL_H

#include "runtime/comm/calls_nccl_cuda.h"

#ifdef LK_NCCL_BUILT

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FAKE_NCCL_RANKS_MAX = 4, FAKE_NCCL_SLOT_BYTES = 4 << 20, FAKE_NCCL_COMMS_MAX = 8 };

struct fake_nccl {
    int version;
    int in_progress;        /* number of ncclInProgress results after a call */
    bool init_hangs;        /* init stays in progress */
    ncclResult_t init_says; /* first async error after init; ncclSuccess: none */
    int fail_call;          /* this collective, from 1, returns fail_with at once; 0: none */
    int error_from;         /* from this query on, counted from 1, the async error is fail_with */
    ncclResult_t fail_with;
    bool finalize_hangs;
    bool abort_hangs;
    /* (optional) NCCL's thread calls this before it launches a collective, and launches it only
     * some time after the abort has begun: the call stays in progress until then. */
    void (*held)(void);
    atomic_int collectives, questions;
    bool estimates_hang;
    atomic_int comms_alive, inits, finalized, destroyed, aborted, registered, memory_alive;
    ncclConfig_t config; /* config of the last init */
    /* (optional, both) What a profiler sees of a collective: NCCL calls the launch of its kernel,
     * on the thread that does it, which returns the call's correlation id; later the kernel ran on
     * the stream. */
    uint32_t (*called)(void);
    void (*ran)(const char *kernel, cudaStream_t stream, uint32_t correlation, uint64_t start_ns,
                uint64_t end_ns);
};
extern struct fake_nccl fake_nccl;
extern const struct lk_nccl_calls fake_nccl_calls;

/* Create the ranks' common memory, before they are forked. */
void fake_nccl_create(void);
/* Create or join the common memory for programs that start one another: the first one creates it
 * and keeps it while it lives; the variable FAKE_NCCL_MEMORY tells the others. */
void fake_nccl_share(void);
void fake_nccl_destroy(void);
/* Reset the fields: no calls so far, no failures. */
void fake_nccl_reset(void);

#endif
#endif
