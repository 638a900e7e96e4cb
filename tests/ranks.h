/*
 * Runs the ranks of a test as threads of one process (so that sanitizers see all of them) or as
 * processes (so that they can be killed), with a store that they can connect to.
 */
#ifndef LK_TESTS_RANKS_H
#define LK_TESTS_RANKS_H

#include "base/status.h"
#include "runtime/comm.h"
#include "runtime/store.h"

#include <stdint.h>
#include <sys/types.h>

enum { RANKS_MAX = 16 };

struct rank {
    int rank, world_size, port;
    void *ctx; /* the test's */
    uint64_t timeout_ns;
    enum lk_status status; /* what the function returned */
    char text[1024];       /* and its message */
    pid_t pid;             /* as a process */
    int wait_status;       /* as a process, from waitpid; status is valid when it exited with 0 */
};

typedef enum lk_status (*rank_fn)(struct rank *me);

/* Runs fn on all ranks to the end; the outcome is in ranks[0..world_size). */
void ranks_run_threads(int world_size, uint64_t timeout_ns, rank_fn fn, void *ctx,
                       struct rank *ranks);

/*
 * The same as processes. `meanwhile` (NULL: nothing) is called once all are forked, with their pids
 * filled in; it may signal them. Deaths are told to the store as the launcher would, when `tell`.
 * What never ends is killed, and the test fails.
 */
void ranks_run_processes(int world_size, uint64_t timeout_ns, rank_fn fn, void *ctx, int tell,
                         void (*meanwhile)(struct rank *ranks, void *ctx), struct rank *ranks);

/* For `meanwhile`: until the process has ended. */
void rank_await_end(const struct rank *r);

/* Connects to the store of the test. */
enum lk_status rank_connect(const struct rank *me, struct lk_store **out);
/* The same, and opens the communicator tcp over it (chunk_bytes and timeout_ns: as its
 * configuration has them). Both are the caller's to close. */
enum lk_status rank_open_tcp(const struct rank *me, size_t chunk_bytes, uint64_t timeout_ns,
                             struct lk_store **store, struct lk_comm **comm);

#endif
