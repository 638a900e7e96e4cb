/*
 * Communicators: collectives over the ranks of a run, enqueued on a stream.
 *
 *   self   one rank: every collective is the identity
 *   tcp    sockets between all ranks, rendezvous by the store; ring and tree, chunked, pipelined.
 *          Buffers in host memory
 *   nccl   NCCL between GPUs, on streams of the device cuda; rendezvous by the store
 *          (runtime/comm_nccl_cuda.h)
 *   fault  wraps another: fails, delays or slows chosen calls, for tests and known-truth runs
 *          (runtime/comm_fault.h)
 *
 * All ranks issue the same collectives in the same order. Every wait has the communicator's
 * timeout; a failure names the rank and the collective: "all_reduce 17 (bucket 2, step 5): rank 3
 * was killed by signal 9". After a failure the communicator is dead.
 */
#ifndef LK_RUNTIME_COMM_H
#define LK_RUNTIME_COMM_H

#include "base/coll.h"
#include "base/dtype.h"
#include "base/status.h"
#include "runtime/device.h"
#include "runtime/store.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lk_comm;

struct lk_nccl_calls;

/* What NCCL is asked for; 0: its own default. */
struct lk_nccl_options {
    int min_ctas, max_ctas; /* thread blocks, each on an SM of its own, of a collective */
    int cga_cluster;        /* thread blocks of a cluster */
    bool register_buffers;  /* tell NCCL of the gradient buckets, where it can use that */
};

struct lk_comm_config {
    int rank, world_size;
    struct lk_store *store; /* borrowed, outlives the communicator; NULL for world_size 1 */
    uint64_t timeout_ns;
    size_t chunk_bytes; /* pipeline unit of tcp; 0: its default */
    const char *listen; /* (optional) address to listen on; NULL: the route to the store */
    const char *fault;  /* (optional) what goes wrong: runtime/comm_fault.h */
    struct lk_recorder *recorder; /* (optional) gives spans the collective's name; borrowed */
    struct lk_device *device;     /* nccl: on whose streams and memory; borrowed */
    struct lk_nccl_options nccl;
    const struct lk_nccl_calls *nccl_calls; /* for tests; NULL: the library's */
};

/*
 * Opens "self", "tcp" or, in builds with CUDA, "nccl" (wrapped by "fault" when config->fault is
 * set). LK_EUNSUPPORTED when config->device is given and its memory is out of the backend's reach.
 */
enum lk_status lk_comm_open(const char *name, const struct lk_comm_config *config,
                            struct lk_comm **out);
void lk_comm_close(struct lk_comm *c); /* NULL is legal */
/* The library behind a backend, "NCCL 2.28.9 (FILE)", or "": whether it would open on this machine.
 * LK_EUNSUPPORTED says what is missing. */
enum lk_status lk_comm_library(const char *name, char *buf, size_t size);
const char *lk_comm_name(const struct lk_comm *c);
int lk_comm_rank(const struct lk_comm *c);
int lk_comm_world_size(const struct lk_comm *c);
/* Whether the communicator can do a collective by an algorithm; AUTO always. */
bool lk_comm_has(const struct lk_comm *c, enum lk_coll coll, enum lk_algo algo);

/* One collective. Sum is the only reduction: averaging is the caller's (runtime/reducer.h). */
struct lk_coll_call {
    enum lk_coll coll;
    enum lk_algo algo; /* AUTO: by bytes and ranks */
    enum lk_dtype dtype;
    void *buf;        /* in place: all-reduce and broadcast `count` elements; reduce-scatter and
                         all-gather world_size parts of `count` elements, in rank order. Of a
                         reduce-scatter only part `rank` is a result, the others are overwritten.
                         Barrier: not used. */
    const void *from; /* NULL: in place. Else what is read, apart from buf, where the backend has
                         that (nccl): of all-gather this rank's `count` elements, of reduce-scatter
                         all parts, and buf is then the `count` elements of the result alone */
    size_t count;
    int root;               /* broadcast */
    int32_t index;          /* bucket, or -1: for spans and messages */
    struct lk_event *ready; /* (optional) the bucket was full: for spans */
};

/*
 * Enqueues the collective on s, as a host function or, with nccl, as the stream's own work; emits a
 * COLLECTIVE span (arrival to end, ready, bytes, seq) there.
 * float16 and bfloat16 are added in float32 and rounded once a hop; all ranks end with
 * bit-identical results (of a sum of several NaNs, the payload is any of theirs). A failure becomes
 * the device's. pre: c and the buffer outlive the stream's work.
 */
enum lk_status lk_comm_enqueue(struct lk_comm *c, struct lk_stream *s,
                               const struct lk_coll_call *call);
/* Runs it on the calling thread to its end, without a span: for set-up and sweeps. With nccl the
 * buffer may also be in host memory. */
enum lk_status lk_comm_run(struct lk_comm *c, const struct lk_coll_call *call);

/*
 * Memory of d for buffers that many collectives of c will use: zeroed, as of lk_device_alloc, and
 * where the backend can make use of it, made known to it (lk_nccl_options.register_buffers, the
 * same on all ranks). Freed by lk_comm_free before c is closed. pre of both: no collective on the
 * buffer is in flight, or d has failed.
 */
enum lk_status lk_comm_alloc(struct lk_comm *c, struct lk_device *d, size_t bytes, void **out);
void lk_comm_free(struct lk_comm *c, struct lk_device *d, void *p); /* NULL is legal */

/*
 * Collectives in a captured graph. Where lk_comm_can_capture, lk_comm_enqueue on a stream that is
 * being captured makes the collective part of the graph; it then runs with every launch of it, on
 * all ranks alike. Capture in cudaStreamCaptureModeThreadLocal, when the first steps have run: the
 * backend's own threads go on calling CUDA. Each launch, of all collectives of a graph together,
 * has a number and is watched as one collective: graph_begin comes before it and graph_end behind
 * it, on the stream that it is launched on.
 */
bool lk_comm_can_capture(const struct lk_comm *c);
enum lk_status lk_comm_graph_begin(struct lk_comm *c, struct lk_stream *s);
enum lk_status lk_comm_graph_end(struct lk_comm *c, struct lk_stream *s);

/* As lk_comm_enqueue, without a span and the events that time one: for sweeps, which time a burst.
 */
enum lk_status lk_comm_put(struct lk_comm *c, struct lk_stream *s, const struct lk_coll_call *call);
/*
 * What the backend itself expects the call to take, without running it: NCCL's model of time. It
 * is no measurement. All ranks ask for the same calls in the same order. LK_EUNSUPPORTED where the
 * backend, or its version, has no such model; the communicator goes on.
 */
enum lk_status lk_comm_estimate(struct lk_comm *c, const struct lk_coll_call *call, double *out_s);

/* Private part: what a backend implements. */
struct lk_comm_ops {
    const char *name;
    enum lk_status (*open)(const struct lk_comm_config *config, struct lk_comm **out);
    /* Runs a call to its end on the calling thread; seq numbers the calls from 0. */
    enum lk_status (*run)(struct lk_comm *c, const struct lk_coll_call *call, uint64_t seq);
    void (*close)(struct lk_comm *c);
    /* (optional) Puts a call on a stream instead of running it; what goes wrong later, and a call
     * that does not end in time, the backend notices by itself and makes the device fail. */
    enum lk_status (*enqueue)(struct lk_comm *c, struct lk_stream *s,
                              const struct lk_coll_call *call, uint64_t seq);
    /* (optional) As lk_comm_has, for algorithms other than AUTO; NULL: all. */
    bool (*has)(const struct lk_comm *c, enum lk_coll coll, enum lk_algo algo);
    /* (optional) How to ask for an algorithm that it has not, for messages. */
    const char *algo_help;
    /* (optional, both) As lk_comm_alloc and lk_comm_free; NULL: the device's. */
    enum lk_status (*alloc)(struct lk_comm *c, struct lk_device *d, size_t bytes, void **out);
    void (*free)(struct lk_comm *c, struct lk_device *d, void *p);
    /* (optional) Before a launch of a graph on s, and at its end. NULL: cannot be captured. */
    enum lk_status (*graph)(struct lk_comm *c, struct lk_stream *s, uint64_t seq, bool end);
    /* (optional) As lk_comm_estimate. */
    enum lk_status (*estimate)(struct lk_comm *c, const struct lk_coll_call *call, double *out_s);
    bool out_of_place; /* calls may have `from` */
    /* (optional) As lk_comm_library. */
    enum lk_status (*library)(char *buf, size_t size);
};
struct lk_comm { /* first member of a backend's own struct */
    const struct lk_comm_ops *ops;
    int rank, world_size;
    uint64_t next_seq;
    enum lk_status failed; /* LK_OK: alive; else what every later call returns, with... */
    char *failed_text;     /* ...this text */
    uint16_t span_names[LK_COLL_COUNT];
};
extern const struct lk_comm_ops lk_comm_self, lk_comm_tcp;
extern const struct lk_comm_ops lk_comm_nccl; /* in builds with CUDA */

/* Opens a backend and fills in the struct above: for comm.c, and backends that wrap another. */
enum lk_status lk_comm_open_ops(const struct lk_comm_ops *ops, const struct lk_comm_config *config,
                                struct lk_comm **out);
/* Runs a call as step `step` of a job (UINT32_MAX: of none), for messages: behind enqueue and run.
 * s: puts it on this stream instead; NULL: runs it to its end. */
enum lk_status lk_comm_run_step(struct lk_comm *c, struct lk_stream *s,
                                const struct lk_coll_call *call, uint32_t step, uint64_t *out_seq);
/* "all_reduce 17 (bucket 2, step 5)": a call in messages. */
void lk_comm_name_call(const struct lk_coll_call *call, uint64_t seq, uint32_t step, char *buf,
                       size_t size);
/* nccl-tests' size of the call (base/coll.h): of a call in place the bytes of its buffer. */
size_t lk_coll_call_bytes(const struct lk_coll_call *call, int world_size);

#endif
