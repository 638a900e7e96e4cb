/*
 * The parts of the communicator nccl. Private to runtime/comm/comm_nccl*_cuda.c.
 *
 *   comm_nccl_cuda.c             open, close, memory
 *   comm_nccl_collective_cuda.c  collectives, enqueued and run
 *   comm_nccl_group_cuda.c       communicators of a part of the ranks
 *   comm_nccl_estimate_cuda.c    NCCL's estimate of a collective's duration
 *   comm_nccl_watch_cuda.c       opening the library, entering and leaving it, its status codes,
 * the watchdog
 *
 * The NCCL communicator is non-blocking: a call returns at once and is in progress until
 * ncclCommGetAsyncError reports another state, which we poll with a deadline after every call.
 * (NCCL then launches each collective from a thread that it makes for it, group.cc of 2.28; the
 * collective is on the stream only once that call has succeeded.) Only one thread at a time calls
 * NCCL: lk_nccl_enter.
 *
 * The watchdog is a thread that checks a hundred times a second: has the run a verdict, has the
 * device failed, does NCCL report an error, has the oldest collective that this rank has arrived at
 * ended in time? It answers the store's progress questions, so that a rank whose host is busy or
 * asleep is not taken for a dead one. On a failure it asks the store which rank is to blame, makes
 * the device fail with that verdict, and aborts the communicator, because kernels that wait for a
 * lost rank end in no other way. All ranks do so, since all get the same verdict. Only the watchdog
 * aborts; another thread that finds a failure tells it (lk_nccl_break).
 */
#ifndef LK_RUNTIME_COMM_NCCL_CUDA_H
#define LK_RUNTIME_COMM_NCCL_CUDA_H

#include "runtime/comm/calls_nccl_cuda.h"
#include "runtime/comm/comm.h"
#include "runtime/device/calls_cuda.h"

#ifdef LK_NCCL_BUILT

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One thing that the watchdog watches: a collective, or a launch of a graph, on a stream. */
struct lk_nccl_entry {
    struct lk_coll_call call;
    uint64_t seq;
    uint32_t step;
    bool graph;                  /* a launch of a graph; `call` is not set */
    cudaEvent_t before, after;   /* created without timing */
    bool arrived;                /* the GPU has passed `before`, */
    struct lk_deadline deadline; /* and must pass `after` by then */
};

/* Memory of lk_comm_alloc that is registered with NCCL. */
struct lk_nccl_buffer {
    void *p;
    void *handle; /* of the registration */
};

/* A communicator of a part of the ranks. */
struct lk_nccl_group {
    struct lk_rank_group ranks;
    ncclComm_t comm;
};
enum { LK_NCCL_GROUPS_MAX = 4 };

struct lk_nccl {
    struct lk_comm base;
    struct lk_nccl_calls own;
    const struct lk_nccl_calls *call; /* own, or a test's */
    const struct lk_cuda_calls *cuda;
    struct lk_library *library; /* NULL: a test's calls */
    struct lk_device *device;   /* borrowed */
    struct lk_store *store;     /* borrowed; NULL for one rank */
    uint64_t timeout_ns;
    struct lk_nccl_options options;
    int gpu, version;

    cudaStream_t stream; /* for collectives that are run, not enqueued */
    cudaEvent_t ended;   /* recorded at their end */
    void *scratch;       /* device copy of buffers in host memory, */
    void *staging;       /* and page-locked memory of the same size */
    size_t scratch_bytes;
    struct lk_nccl_buffer *buffers;
    size_t n_buffers, cap_buffers;
    struct lk_nccl_entry graph; /* the launch that has begun. Host thread only */
    bool joined;                /* all ranks have initialised the communicator. Host thread only */
    ncclComm_t estimator;       /* blocking, for estimates; NULL: none yet. Host thread only */
    bool lost;                  /* an estimate's thread did not return and may still use all this */

    pthread_t watchdog;
    bool watched; /* the thread was started and not yet joined */
    int wake_fd;

    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t changed;
    ncclComm_t comm; /* NULL: not yet, or no longer. Used by the thread that is inside */
    struct lk_nccl_group groups[LK_NCCL_GROUPS_MAX]; /* likewise; their ranks: host thread only */
    size_t n_groups;                                 /* host thread only */
    bool inside;                                     /* a thread is in NCCL */
    bool broken;     /* something failed: threads enter only to abort */
    bool stop, gone; /* the watchdog is asked to end; it has ended */
    bool looking;    /* it is using store or device, which must stay open meanwhile */
    bool deserted;   /* it did not end in time */
    enum lk_status status;
    char text[1024]; /* the reason for `broken` */
    struct lk_nccl_entry *entries;
    size_t first, n_entries, cap_entries;
    cudaEvent_t *spare;
    size_t n_spare, cap_spare;
};

/* ---- comm_nccl_collective_cuda.c ---- */

/* The hooks run, enqueue and graph of struct lk_comm_ops. */
enum lk_status lk_nccl_run(struct lk_comm *c, const struct lk_coll_call *call, uint64_t seq);
enum lk_status lk_nccl_enqueue(struct lk_comm *c, struct lk_stream *s,
                               const struct lk_coll_call *call, uint64_t seq);
enum lk_status lk_nccl_graph(struct lk_comm *c, struct lk_stream *s, uint64_t seq, bool end);
/* Call NCCL's function for the collective. pre: inside (lk_nccl_enter). */
ncclResult_t lk_nccl_call(const struct lk_nccl *n, ncclComm_t comm, const struct lk_coll_call *call,
                          cudaStream_t s);
/* Grow scratch and staging to at least `bytes`. */
enum lk_status lk_nccl_make_scratch(struct lk_nccl *n, size_t bytes);

/* ---- comm_nccl_group_cuda.c ---- */

/* Find the communicator of a collective's ranks, or make it: all ranks of the group then call, the
 * others with a group of their own. */
enum lk_status lk_nccl_group(struct lk_nccl *n, const struct lk_rank_group *g, ncclComm_t *out);
/* Abort all communicators, which are NULL then. pre: inside. */
void lk_nccl_abort(struct lk_nccl *n);

/* ---- comm_nccl_estimate_cuda.c ---- */

/* The hook estimate of struct lk_comm_ops. */
enum lk_status lk_nccl_estimate(struct lk_comm *c, const struct lk_coll_call *call, double *out_s);
void lk_nccl_close_estimator(struct lk_nccl *n);

/* ---- comm_nccl_cuda.c ---- */

/* Copy rank 0's value to all ranks. Collective. */
enum lk_status lk_nccl_share(struct lk_nccl *n, void *value, size_t size);
/* Initialise a communicator with an id, as rank `rank` of `ranks`; *out is set while NCCL does so,
 * so that it can be aborted. */
enum lk_status lk_nccl_join(struct lk_nccl *n, const ncclUniqueId *id, int rank, int ranks,
                            ncclComm_t *out);
/* Return the NCCL configuration that n->options ask for. */
ncclConfig_t lk_nccl_config(const struct lk_nccl *n, bool blocking);

/* ---- comm_nccl_watch_cuda.c ---- */

/* Enter NCCL: wait until no other thread is inside. Return LK_ETIMEOUT, or the failure when the
 * communicator is broken. */
enum lk_status lk_nccl_enter(struct lk_nccl *n, struct lk_deadline deadline);
void lk_nccl_leave(struct lk_nccl *n);

/* Mark the communicator broken for this reason (the first one counts) and wake the watchdog. */
void lk_nccl_break(struct lk_nccl *n, enum lk_status st, const char *text);
/* Return the failure that broke the communicator, or LK_OK. */
enum lk_status lk_nccl_alive(struct lk_nccl *n);

/* Convert an NCCL result: LK_OK for ncclSuccess, else an error "NCCL: text". Not for
 * ncclInProgress. */
enum lk_status lk_nccl_status(const struct lk_nccl *n, ncclResult_t result);
/* Leave NCCL after a call on *comm whose result was `result`, and wait until it is no longer in
 * progress. On a failure break the communicator and return the run's verdict, when the communicator
 * is aborted: NCCL's threads then use the call's stream and buffers no more. */
enum lk_status lk_nccl_end(struct lk_nccl *n, ncclComm_t const *comm, ncclResult_t result,
                           struct lk_deadline deadline);
/* Report a failure that this rank found, after giving others time to report the actual culprit.
 * Return the run's verdict. */
enum lk_status lk_nccl_blame(struct lk_nccl *n, enum lk_status st, const char *text);
/* Report that a wait passed its deadline, so that the store finds the ranks that are behind. Return
 * the verdict. */
enum lk_status lk_nccl_late(struct lk_nccl *n);

/* Wait briefly: yield the CPU at first, then sleep, twice as long each time. *ns starts at 0. */
void lk_nccl_nap(uint64_t *ns);

enum lk_status lk_nccl_watch_start(struct lk_nccl *n);
/* Stop the watchdog, which first aborts a broken communicator. Return false if it did not end in
 * time and goes on using n. */
bool lk_nccl_watch_stop(struct lk_nccl *n);
/* Take an event without timing from the pool. */
enum lk_status lk_nccl_take_event(struct lk_nccl *n, cudaEvent_t *out);
/* Let the watchdog watch an entry. pre: its events are recorded. */
enum lk_status lk_nccl_watch(struct lk_nccl *n, const struct lk_nccl_entry *e);
/* Return the events of an entry that is not watched to the pool. */
void lk_nccl_drop_events(struct lk_nccl *n, const struct lk_nccl_entry *e);
/* Query the entries' events, oldest first, and retire those that the GPU has passed. */
enum lk_status lk_nccl_look(struct lk_nccl *n);

#endif
#endif
