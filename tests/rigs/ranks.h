/*
 * Run the ranks of a test as threads of one process (so that sanitizers see all of them) or as
 * processes (so that they can be killed), with a store that they can connect to.
 */
#ifndef LK_TESTS_RANKS_H
#define LK_TESTS_RANKS_H

#include "base/status.h"
#include "runtime/comm/comm.h"
#include "runtime/rendezvous/store.h"

#include <stdint.h>
#include <sys/types.h>

enum { RANKS_MAX = 16 };

struct rank {
    int rank, world_size, port;
    void *ctx; /* the test's own */
    uint64_t timeout_ns;
    enum lk_status status; /* what the function returned */
    char text[1024];       /* and its error text */
    pid_t pid;             /* as a process */
    int wait_status;       /* as a process, from waitpid; status is valid when it exited with 0 */
};

typedef enum lk_status (*rank_fn)(struct rank *me);

/* Run fn on all ranks to the end; the results are in ranks[0..world_size). */
void ranks_run_threads(int world_size, uint64_t timeout_ns, rank_fn fn, void *ctx,
                       struct rank *ranks);

/*
 * Run fn on all ranks as processes. `meanwhile` (NULL: nothing) is called once all are forked, with
 * their pids filled in; it may signal them. If `tell`, deaths are reported to the store as the
 * launcher would. Processes that never end are killed, and the test fails.
 */
void ranks_run_processes(int world_size, uint64_t timeout_ns, rank_fn fn, void *ctx, int tell,
                         void (*meanwhile)(struct rank *ranks, void *ctx), struct rank *ranks);

/* For `meanwhile`: wait until the process has ended. */
void rank_await_end(const struct rank *r);

/* Connect to the store of the test. */
enum lk_status rank_connect(const struct rank *me, struct lk_store **out);
/* Connect, and open the communicator tcp over the store (chunk_bytes and timeout_ns as in its
 * configuration). The caller closes both. */
enum lk_status rank_open_tcp(const struct rank *me, size_t chunk_bytes, uint64_t timeout_ns,
                             struct lk_store **store, struct lk_comm **comm);

#endif
