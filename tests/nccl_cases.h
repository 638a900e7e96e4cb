/*
 * Every collective of every type with known results, for the communicator nccl: over an NCCL that
 * is none, and on GPUs.
 */
#ifndef LK_TESTS_NCCL_CASES_H
#define LK_TESTS_NCCL_CASES_H

#include "runtime/comm.h"

#include <stdbool.h>

struct nccl_way {
    bool on_stream; /* enqueued; else run */
    bool of_host;   /* the buffer is the host's */
};

/* Runs them on all ranks; `net` is a stream of the communicator's device. LK_EVERIFY names the
 * element that is wrong. Calls are numbered from the communicator's next on. */
enum lk_status nccl_cases_run(struct lk_comm *comm, struct lk_stream *net,
                              const struct nccl_way *way);

#endif
