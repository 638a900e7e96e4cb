/*
 * Every collective of every type with known results, for the communicator nccl: over the fake NCCL,
 * and on GPUs.
 */
#ifndef LK_TESTS_NCCL_CASES_H
#define LK_TESTS_NCCL_CASES_H

#include "runtime/comm/comm.h"

#include <stdbool.h>

struct nccl_way {
    bool on_stream; /* enqueued on a stream; otherwise run */
    bool of_host;   /* the buffer is in host memory */
};

/* Run the cases on all ranks; `net` is a stream of the communicator's device. LK_EVERIFY names the
 * wrong element. Calls are numbered from the communicator's next on. */
enum lk_status nccl_cases_run(struct lk_comm *comm, struct lk_stream *net,
                              const struct nccl_way *way);

#endif
