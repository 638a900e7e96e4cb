/*
 * The parts of the communicator nccl. Private to runtime/comm_nccl*_cuda.c.
 *
 *   comm_nccl_cuda.c             open, close, memory
 *   comm_nccl_collective_cuda.c  collectives, enqueued and run
 *   comm_nccl_call_cuda.c        the library; being in NCCL, and what its answers mean
 *   comm_nccl_watch_cuda.c       the watchdog
 *   comm_nccl_estimate_cuda.c    NCCL's own idea of how long a collective takes
 *
 * NCCL's communicator is non-blocking: a call returns at once and is in progress until
 * ncclCommGetAsyncError says otherwise, which is asked with a deadline after every call. (Each
 * collective is then launched by a thread that NCCL makes for it: group.cc of 2.28. Only when its
 * answer is in is it on the stream.) One thread at a time is in NCCL: lk_nccl_enter.
 *
 * The watchdog is a thread that looks a hundred times a second: has the run a verdict, has the
 * device failed, does NCCL report an error, has the oldest collective that this rank has arrived at
 * ended in time? It answers the store what this rank is doing, so that a rank whose host is busy or
 * asleep is not taken for a dead one. When something is wrong it finds out from the store who is to
 * blame, makes the device fail with that, and aborts the communicator, for kernels that wait for a
 * lost rank end in no other way. All ranks do so, since all get the same verdict. Only the watchdog
 * aborts; who else finds a failure tells it (lk_nccl_break).
 */
#ifndef LK_RUNTIME_COMM_NCCL_CUDA_H
#define LK_RUNTIME_COMM_NCCL_CUDA_H

#include "runtime/calls_cuda.h"
#include "runtime/calls_nccl_cuda.h"
#include "runtime/comm.h"

#ifdef LK_NCCL_BUILT

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the watchdog watches: a collective, or a launch of a graph, on a stream. */
struct lk_nccl_entry {
    struct lk_coll_call call;
    uint64_t seq;
    uint32_t step;
    bool graph;                  /* call means nothing */
    cudaEvent_t before, after;   /* without times */
    bool arrived;                /* `before` was passed... */
    struct lk_deadline deadline; /* ...and `after` has to be by then */
};

/* Memory of lk_comm_alloc that NCCL knows. */
struct lk_nccl_buffer {
    void *p;
    void *handle; /* of the registration */
};

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

    cudaStream_t stream; /* of collectives that are run */
    cudaEvent_t ended;   /* their end */
    void *scratch;       /* device memory for those with buffers of the host... */
    void *staging;       /* ...page-locked, as large */
    size_t scratch_bytes;
    struct lk_nccl_buffer *buffers;
    size_t n_buffers, cap_buffers;
    struct lk_nccl_entry graph; /* whose launch began. Host thread only */
    bool joined;                /* the ranks have met. Host thread only */
    ncclComm_t estimator; /* a blocking one, for estimates; NULL: none yet. Host thread only */
    bool lost;            /* a thread for estimates did not come back, and may use all this */

    pthread_t watchdog;
    bool watched; /* the thread was made, and not joined */
    int wake_fd;

    pthread_mutex_t lock; /* of all that follows */
    pthread_cond_t changed;
    ncclComm_t comm; /* NULL: none yet, or no more. Used by who is inside */
    bool inside;     /* a thread is in NCCL */
    bool broken;     /* something failed: nobody enters but to abort */
    bool stop, gone; /* the watchdog has to end, has ended */
    bool looking;    /* it is asking store or device, which must live on meanwhile */
    bool deserted;   /* it did not end in time */
    enum lk_status status;
    char text[1024]; /* why it is broken */
    struct lk_nccl_entry *entries;
    size_t first, n_entries, cap_entries;
    cudaEvent_t *spare;
    size_t n_spare, cap_spare;
};

/* ---- comm_nccl_collective_cuda.c ---- */

/* Asks NCCL for the collective. pre: inside. */
ncclResult_t lk_nccl_collective(const struct lk_nccl *n, ncclComm_t comm,
                                const struct lk_coll_call *call, cudaStream_t s);
/* As lk_comm_ops has them. */
enum lk_status lk_nccl_run(struct lk_comm *c, const struct lk_coll_call *call, uint64_t seq);
enum lk_status lk_nccl_enqueue(struct lk_comm *c, struct lk_stream *s,
                               const struct lk_coll_call *call, uint64_t seq);
enum lk_status lk_nccl_graph(struct lk_comm *c, struct lk_stream *s, uint64_t seq, bool end);
/* Makes room in scratch and staging. */
enum lk_status lk_nccl_make_scratch(struct lk_nccl *n, size_t bytes);

/* ---- comm_nccl_cuda.c ---- */

/* Gives rank 0's value to all ranks, which come here together. */
enum lk_status lk_nccl_share(struct lk_nccl *n, void *value, size_t size);
/* What the communicator was asked for. */
ncclConfig_t lk_nccl_config(const struct lk_nccl *n, bool blocking);

/* ---- comm_nccl_estimate_cuda.c ---- */

enum lk_status lk_nccl_estimate(struct lk_comm *c, const struct lk_coll_call *call, double *out_s);
void lk_nccl_close_estimator(struct lk_nccl *n);

/* ---- comm_nccl_call_cuda.c ---- */

/* Takes NCCL for this thread. LK_ETIMEOUT, or why the communicator is broken. */
enum lk_status lk_nccl_enter(struct lk_nccl *n, struct lk_deadline deadline);
/* As enter, also when broken; false: a thread is inside until the deadline. */
bool lk_nccl_enter_last(struct lk_nccl *n, struct lk_deadline deadline);
void lk_nccl_leave(struct lk_nccl *n);

/* The communicator is no more, for this reason (the first one counts); wakes the watchdog. */
void lk_nccl_break(struct lk_nccl *n, enum lk_status st, const char *text);
/* Why it is broken; LK_OK: it is not. */
enum lk_status lk_nccl_alive(struct lk_nccl *n);

/* LK_OK for ncclSuccess, else "NCCL: text". Not for ncclInProgress. */
enum lk_status lk_nccl_status(const struct lk_nccl *n, ncclResult_t result);
/* Waits until NCCL has done what it was last asked for. pre: `result` was its answer. A failure is
 * the run's verdict, and the communicator is broken. */
enum lk_status lk_nccl_await(struct lk_nccl *n, ncclResult_t result, struct lk_deadline deadline);
/* A failure that this rank found: gives others time to say better who is to blame, then reports it.
 * Returns the verdict. */
enum lk_status lk_nccl_blame(struct lk_nccl *n, enum lk_status st, const char *text);
/* A wait that has passed its deadline: asks who is behind. Returns the verdict. */
enum lk_status lk_nccl_late(struct lk_nccl *n);

/* Sleeps a little, longer every time from *ns = 0 on. */
void lk_nccl_nap(uint64_t *ns);

/* ---- comm_nccl_watch_cuda.c ---- */

enum lk_status lk_nccl_watch_start(struct lk_nccl *n);
/* Ends the watchdog, which aborts first when the communicator is broken. false: it did not end in
 * time, and goes on using n. */
bool lk_nccl_watch_stop(struct lk_nccl *n);
/* An event to use: without times. */
enum lk_status lk_nccl_take_event(struct lk_nccl *n, cudaEvent_t *out);
/* Has an entry watched, whose events are recorded. */
enum lk_status lk_nccl_watch(struct lk_nccl *n, const struct lk_nccl_entry *e);
/* Gives back events of an entry that is not watched. */
void lk_nccl_drop_events(struct lk_nccl *n, const struct lk_nccl_entry *e);
/* Takes note of what the GPU has passed. */
enum lk_status lk_nccl_look(struct lk_nccl *n);

#endif
#endif
