/*
 * Communicators: collectives over the ranks of a run, enqueued on a stream.
 *
 *   self   one rank: every collective is the identity
 *   tcp    sockets between all ranks, rendezvous by the store; ring and tree, chunked, pipelined.
 *          Buffers in host memory
 *   mpi    the MPI that started the ranks, Open MPI or MPICH (runtime/comm/comm_mpi.h). Buffers in
 *          host memory
 *   nccl   NCCL between GPUs, on streams of the device cuda; rendezvous by the store
 *          (runtime/comm/comm_nccl_cuda.h)
 *   fault  wraps another: fails, delays or slows chosen collectives, for tests and known-truth runs
 *          (runtime/comm/comm_fault.h)
 *
 * All ranks issue the same collectives in the same order. Every wait has the communicator's
 * timeout; a failure names the rank and the collective: "all_reduce 17 (bucket 2, step 5): rank 3
 * was killed by signal 9". After a failure the communicator is dead.
 */
#ifndef LK_RUNTIME_COMM_H
#define LK_RUNTIME_COMM_H

#include "base/status.h"
#include "facts/coll.h"
#include "facts/dtype.h"
#include "facts/hops.h"
#include "runtime/device/device.h"
#include "runtime/rendezvous/store.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lk_comm;

struct lk_nccl_calls;

/* Settings passed to NCCL; 0 leaves NCCL's own default. */
struct lk_nccl_options {
    int min_ctas, max_ctas; /* thread blocks per collective; each occupies an SM */
    int cga_cluster;        /* thread blocks per cluster */
    bool register_buffers;  /* register the gradient buckets with NCCL */
};

enum { LK_TCP_POLL_NS = 50000 }; /* bench/allreduce.c */

struct lk_comm_config {
    int rank, world_size;
    struct lk_store *store; /* borrowed, outlives the communicator; NULL for world_size 1 */
    uint64_t timeout_ns;
    size_t chunk_bytes; /* pipeline unit of tcp; 0: its default */
    /* tcp: a wait polls for so long before it sleeps; 0: LK_TCP_POLL_NS where the host has two CPUs
     * for each of the ranks on it, so that no rank's backward loses one to it, else not at all. */
    uint64_t poll_ns;
    const char *listen; /* (optional) address to listen on; NULL: the route to the store */
    const char *fault;  /* (optional) faults to inject: runtime/comm/comm_fault.h */
    struct lk_recorder *recorder; /* (optional) registers the collectives' span names; borrowed */
    struct lk_device *device;     /* nccl: its streams and memory are used; borrowed */
    struct lk_nccl_options nccl;
    const struct lk_nccl_calls *nccl_calls; /* for tests; NULL: the library's */
};

/*
 * Open the backend "self", "tcp", "mpi" or, in builds with CUDA, "nccl"; wrap it in "fault" when
 * config->fault is set. Return LK_EUNSUPPORTED when config->device is given and the backend cannot
 * access its memory.
 */
enum lk_status lk_comm_open(const char *name, const struct lk_comm_config *config,
                            struct lk_comm **out);
void lk_comm_close(struct lk_comm *c); /* NULL is legal */
/* X(CONSTANT, name): the backends that users may ask for by name, in every build. */
#define LK_COMM_LIST(X) X(SELF, "self") X(TCP, "tcp") X(MPI, "mpi") X(NCCL, "nccl")
/* Return true if this build has the backend. */
bool lk_comm_built(const char *name);
/*
 * Write name, version and file of the backend's library, "NCCL 2.28.9 (FILE)", into buf; "" for a
 * backend without one. Return LK_EUNSUPPORTED, with the reason, when the library cannot be opened
 * on this machine.
 */
enum lk_status lk_comm_library(const char *name, char *buf, size_t size);
int lk_comm_rank(const struct lk_comm *c);
int lk_comm_world_size(const struct lk_comm *c);
/* Check that a backend of this name has the algorithm for the collective. LK_EUSAGE names those
 * that it has. */
enum lk_status lk_comm_check_algo(const char *name, enum lk_coll coll, enum lk_algo algo);
/* Return true if collectives of a part of the ranks are implemented (lk_coll_call.group). */
bool lk_comm_has_groups(const struct lk_comm *c);
/* Register the names of spans of collectives of n ranks, "all_reduce of 2 ranks": of two sizes at
 * most. Spans of groups of another size have the names of collectives of all ranks. */
enum lk_status lk_comm_name_groups(struct lk_comm *c, struct lk_recorder *recorder, int n);
/* Return true if the communicator implements the collective with this algorithm; AUTO always is. */
bool lk_comm_has(const struct lk_comm *c, enum lk_coll coll, enum lk_algo algo);
struct lk_coll_call;
/* Return the algorithm that would run the call: of AUTO the one that the backend chooses, and AUTO
 * where it does not say. */
enum lk_algo lk_comm_choice(const struct lk_comm *c, const struct lk_coll_call *call);

/* A part of the ranks: first, first + stride, ..., n of them. n 0: all ranks. */
struct lk_rank_group {
    int first, stride, n;
};

/* The arguments of one collective. Sum is the only reduction; the caller averages
 * (runtime/train/reducer.h). */
struct lk_coll_call {
    enum lk_coll coll;
    enum lk_algo algo; /* AUTO: chosen by message size and world size */
    enum lk_dtype dtype;
    void *buf;        /* in place: all-reduce and broadcast `count` elements; reduce-scatter and
                         all-gather world_size parts of `count` elements, in rank order. A
                         reduce-scatter leaves its result in part `rank` and overwrites the others.
                         Barrier: not used. */
    const void *from; /* NULL: in place. Else the input, separate from buf, for backends that
                         support it (nccl): all-gather reads this rank's `count` elements,
                         reduce-scatter all parts, and writes its `count` results to buf */
    size_t count;
    /* The ranks that take part; world_size and rank above are then theirs. Every rank of the
     * communicator calls, each with a group that it is in: groups of one size that share no rank.
     * All-reduce, reduce-scatter and all-gather have groups, where the backend has them. */
    struct lk_rank_group group;
    int root;               /* broadcast */
    int32_t index;          /* bucket, or -1; for spans and messages */
    struct lk_event *ready; /* (optional) recorded when the bucket was full; for spans */
};

/*
 * Enqueue the collective on s, as a host function or, with nccl, as native work of the stream, and
 * emit its COLLECTIVE span (arrival to end, ready, bytes, seq) there, and what the backend knows of
 * the link that it sends on (facts/hops.h). float16 and bfloat16 are
 * added in float32 and rounded once per hop; all ranks end with bit-identical results (except the
 * payload when several NaNs are added). A failure makes the device fail. pre: c and the buffer
 * outlive the stream's work.
 */
enum lk_status lk_comm_enqueue(struct lk_comm *c, struct lk_stream *s,
                               const struct lk_coll_call *call);
/*
 * Enqueue a collective of `net` between two points of `compute`: it runs behind what is enqueued
 * there so far, and what is enqueued later waits for its end. call->ready is recorded at the first,
 * `back` at the second: each may be used again when the span has been read, and when compute has
 * passed it.
 */
enum lk_status lk_comm_between(struct lk_comm *c, struct lk_stream *compute, struct lk_stream *net,
                               struct lk_event *back, const struct lk_coll_call *call);
/* Run it on the calling thread to its end, without a span: for set-up and probes. With nccl the
 * buffer may also be in host memory. */
enum lk_status lk_comm_run(struct lk_comm *c, const struct lk_coll_call *call);
/* Run a barrier, or gather n elements of every rank into `all`, in rank order, on the calling
 * thread. */
enum lk_status lk_comm_barrier(struct lk_comm *c);
enum lk_status lk_comm_gather(struct lk_comm *c, enum lk_dtype dtype, const void *own, size_t n,
                              void *all);

/* A transfer: what this rank sends, and receives, of contents that do not matter. */
struct lk_pass {
    int to, from; /* ranks; -1: it sends, receives nothing */
    uint64_t bytes;
};
/*
 * Move bytes between pairs of ranks. All ranks call it, also those that only wait for the next
 * collective. *out_Bps, of a rank that receives: bytes over the time from the first to the last.
 * LK_EUNSUPPORTED: the backend has no transfers.
 */
enum lk_status lk_comm_pass(struct lk_comm *c, const struct lk_pass *p, double *out_Bps);

/*
 * Allocate zeroed memory of d, as lk_device_alloc does, for a buffer that many collectives of c
 * will use, and register it with the backend where that helps (lk_nccl_options.register_buffers,
 * the same on all ranks). Free it with lk_comm_free before c is closed. pre of both: no collective
 * on the buffer is in flight, or d has failed.
 */
enum lk_status lk_comm_alloc(struct lk_comm *c, struct lk_device *d, size_t bytes, void **out);
void lk_comm_free(struct lk_comm *c, struct lk_device *d, void *p); /* NULL is legal */

/*
 * Collectives in a captured graph. Where lk_comm_can_capture returns true, lk_comm_enqueue on a
 * stream under capture makes the collective part of the graph; it then runs with every launch of
 * the graph, on all ranks alike. Capture in cudaStreamCaptureModeThreadLocal, because the backend's
 * own threads go on calling CUDA, and only after the first steps have run. A launch with all its
 * collectives has one sequence number and is watched as one collective: call graph_begin before it
 * and graph_end after it, for the stream that it is launched on.
 */
bool lk_comm_can_capture(const struct lk_comm *c);
enum lk_status lk_comm_graph_begin(struct lk_comm *c, struct lk_stream *s);
enum lk_status lk_comm_graph_end(struct lk_comm *c, struct lk_stream *s);

/* As lk_comm_enqueue, without a span and the events that time one: for probes, which time a burst.
 */
enum lk_status lk_comm_put(struct lk_comm *c, struct lk_stream *s, const struct lk_coll_call *call);
/*
 * Return the backend's own estimate of the collective's duration (NCCL's cost model), without
 * running it: not a measurement. All ranks ask for the same collectives in the same order. Return
 * LK_EUNSUPPORTED where the backend, or its version, has no such model; the communicator stays
 * usable.
 */
enum lk_status lk_comm_estimate(struct lk_comm *c, const struct lk_coll_call *call, double *out_s);

/* Private part: the interface that a backend implements. */
struct lk_comm_ops {
    const char *name;
    enum lk_status (*open)(const struct lk_comm_config *config, struct lk_comm **out);
    /* Run a collective to its end on the calling thread; seq numbers the collectives from 0. */
    enum lk_status (*run)(struct lk_comm *c, const struct lk_coll_call *call, uint64_t seq);
    void (*close)(struct lk_comm *c);
    /* (optional) Put a collective on a stream instead of running it. The backend itself detects
     * later errors and a collective that does not end in time, and makes the device fail. */
    enum lk_status (*enqueue)(struct lk_comm *c, struct lk_stream *s,
                              const struct lk_coll_call *call, uint64_t seq);
    /* (optional) As lk_comm_has, for algorithms other than AUTO; NULL: all. c: NULL in a backend
     * that wraps no other. */
    bool (*has)(const struct lk_comm *c, enum lk_coll coll, enum lk_algo algo);
    /* (optional) Hint for messages: how to select an algorithm that the backend does not
     * implement. */
    const char *algo_help;
    /* (optional, both) As lk_comm_alloc and lk_comm_free; NULL: the device's. */
    enum lk_status (*alloc)(struct lk_comm *c, struct lk_device *d, size_t bytes, void **out);
    void (*free)(struct lk_comm *c, struct lk_device *d, void *p);
    /* (optional) Called before a graph is launched on s, and after it (end). NULL: not
     * capturable. */
    enum lk_status (*graph)(struct lk_comm *c, struct lk_stream *s, uint64_t seq, bool end);
    /* (optional) As lk_comm_choice, of a call by AUTO. */
    enum lk_algo (*choice)(const struct lk_comm *c, const struct lk_coll_call *call);
    /* (optional) As lk_comm_estimate. */
    enum lk_status (*estimate)(struct lk_comm *c, const struct lk_coll_call *call, double *out_s);
    /* (optional) Return what the link that this rank sends on did until the collective that `run`
     * ended last began, since the one before it did that this was returned of; NULL: not known. */
    const struct lk_hop *(*hop)(const struct lk_comm *c);
    /* (optional) As lk_comm_pass. */
    enum lk_status (*pass)(struct lk_comm *c, const struct lk_pass *p, uint64_t seq,
                           double *out_Bps);
    bool out_of_place; /* collectives may be out of place (`from`) */
    bool groups;       /* collectives may be of a part of the ranks (`group`) */
    /* (optional) As lk_comm_library. */
    enum lk_status (*library)(char *buf, size_t size);
};
struct lk_comm { /* first member of a backend's own struct */
    const struct lk_comm_ops *ops;
    int rank, world_size;
    uint64_t next_seq;
    enum lk_status failed; /* LK_OK: alive; else the status that every later call returns, */
    char *failed_text;     /* with this text */
    uint16_t span_names[LK_COLL_MODELLED], hop_names[LK_HOP_VALUES];
    /* Names of spans of collectives of n ranks, of up to two sizes; n 0: none. */
    struct {
        int n;
        uint16_t names[LK_COLL_MODELLED];
    } groups[2];
};
extern const struct lk_comm_ops lk_comm_tcp, lk_comm_mpi;
extern const struct lk_comm_ops lk_comm_nccl; /* in builds with CUDA */

/* Open a backend and fill in the struct above: for comm.c and for backends that wrap another. */
enum lk_status lk_comm_open_ops(const struct lk_comm_ops *ops, const struct lk_comm_config *config,
                                struct lk_comm **out);
/* Run a collective as part of optimizer step `step` (UINT32_MAX: none), which messages name; used
 * by enqueue and run. s: put it on this stream; NULL: run it to its end. */
enum lk_status lk_comm_run_step(struct lk_comm *c, struct lk_stream *s,
                                const struct lk_coll_call *call, uint32_t step, uint64_t *out_seq);
/* Write a collective's name for messages, "all_reduce 17 (bucket 2, step 5)", into buf. */
void lk_comm_name_call(const struct lk_coll_call *call, uint64_t seq, uint32_t step, char *buf,
                       size_t size);
/* Return how many ranks take part, of `world_size`. */
int lk_coll_call_ranks(const struct lk_coll_call *call, int world_size);
/* Return the collective's size as nccl-tests defines it (facts/coll.h); in place: the buffer's
 * bytes. */
size_t lk_coll_call_bytes(const struct lk_coll_call *call, int world_size);

#endif
