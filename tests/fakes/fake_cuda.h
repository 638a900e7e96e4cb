/*
 * A fake machine with GPUs, for tests: a table of functions in CUDA's place
 * (runtime/device/calls_cuda.h). Streams have queues of their own, and work advances whenever a
 * caller asks whether an event has passed: without a seed by one step of every stream, the last
 * stream first; with one in a random order that favours a stream for a while, also at other calls.
 * Ops run by their CPU definition (tests/fakes/fake_ops.h).
 *
 * Device memory is accessible only to work on a stream: a host that touches it crashes. A copy on a
 * stream ends the test unless each side is wholly device memory or wholly page-locked, since any
 * other copy would block, a bug that only a GPU shows.
 *
 * Capture follows the documentation of cudaStreamBeginCapture: work put on a captured stream
 * becomes a node; calls that are unsafe in the capturing thread, waits for work outside, and
 * queries of captured events are refused and invalidate the capture; at the end every stream must
 * have joined. A graph's nodes then run in any order that their edges allow.
 *
 * One machine a process. Any thread may call it; work on a stream must not wait for another thread
 * (but see host_threads).
 */
#ifndef LK_TESTS_FAKE_CUDA_H
#define LK_TESTS_FAKE_CUDA_H

#include "runtime/device/calls_cuda.h"

#include <pthread.h>
#include <stddef.h>

/* Streams: that exist at a time. */
enum { FAKE_STREAMS_MAX = 16, FAKE_WORK_MAX = 16384, FAKE_ALLOCATIONS_MAX = 512 };

struct fake_event {
    int recorded, passed; /* numbers of records: submitted, done */
    double ms;
    bool timed;
    struct fake_graph *graph; /* the capture in which it was last recorded, as `node` */
    size_t node;
    bool destroyed;
    struct fake_event *next; /* in the list of all events */
};

struct fake_work {
    enum {
        WORK_RUN,
        WORK_POLL,
        WORK_OP,
        WORK_COPY,
        WORK_SET,
        WORK_RECORD,
        WORK_WAIT,
        WORK_GRAPH
    } kind;
    cudaHostFn_t fn;
    bool (*poll)(void *arg);
    const struct lk_op *op;
    enum lk_dtype real; /* OP: real type of its stream's context */
    void *arg;          /* OP: a copy of its arguments */
    void *to;
    const void *from;
    size_t bytes;
    int value;                /* SET: of each byte */
    struct fake_graph *graph; /* GRAPH: holds a reference */
    struct fake_event *event;
    int number; /* RECORD, WAIT: number of the record */
    double queued_ms;
    /* The number that fake_cuda.called returned, for this work, and for the launch of its graph or
     * 0. */
    uint64_t call, launch;
};

struct fake_stream {
    size_t done, n;
    int priority;
    bool destroyed;             /* its work still runs */
    bool busy;                  /* runs a host function on a thread of its own */
    struct fake_graph *capture; /* graph that captures this stream */
    size_t tail;                /* last node of this stream in it; SIZE_MAX: none yet */
    bool *ran;                  /* by node, of the graph that is running */
    double ms;                  /* with takes_ms: end of the last work */
    bool began;                 /* the next work has begun, and will end at `ends_ms` */
    double begins_ms, ends_ms;
    struct fake_work work[FAKE_WORK_MAX];
};

struct fake_memory {
    char *at;
    size_t bytes, mapped; /* requested; mapped, without the guard page behind it */
    bool host;            /* page-locked host memory, not device memory */
    bool open;            /* accessible, as host memory always is */
};

struct fake_cuda {
    struct fake_memory memory[FAKE_ALLOCATIONS_MAX];
    int open;      /* device memory is in use: what is checked is made accessible */
    bool stepping; /* it stays so between the ops of a step */
    uint64_t seed; /* seeds the order of streams; 0: a fixed order */
    bool tf32;     /* round float factors of products as a GPU does */
    size_t n_streams;
    /* A model of time: the duration of work that starts at its stream's `ms`. NULL: events have the
     * host's times. With it, work starts when the work before it on its stream, the work it waits
     * for, and all work that the host had seen end when it enqueued it, has ended. */
    double (*takes_ms)(const struct fake_work *w, const struct fake_stream *s);
    /* The model's time is the host's clock: work starts no earlier than it was enqueued, and ends
     * when the clock says so. Programs then see a GPU that takes its time. */
    bool real_time;
    double seen_ms;    /* time of the latest event that the host has seen pass */
    uint64_t reset_ns; /* time 0 of the model, in lk_now_ns */
    double drift;      /* part by which the GPU's clock runs faster than the host's */
    int gpus;
    int most_urgent;    /* priority of streams; the least urgent one is 0 */
    bool nvlink, apart; /* the links between GPUs: PCIe, unless NVLink or none */
    bool stuck;         /* no stream advances */
    bool idle;          /* ops and copies do nothing and memory is not filled: for large models */
    bool host_threads;  /* host functions run on threads of their own, and may wait */
    /* (optional, both) What a profiler sees of ops, copies, memsets and graphs: the call, on the
     * caller's thread, which returns a number of its own, and later the work that it led to; the
     * work of a graph's nodes has the launch's number, too. */
    uint64_t (*called)(const struct fake_work *w);
    void (*ran)(const struct fake_work *w, cudaStream_t s, uint64_t start_ns, uint64_t end_ns);
    struct fake_graph *capture; /* graph being captured, by this thread: */
    pthread_t capturer;
    int graphs_alive, graph_launches;
    size_t graph_nodes;      /* of the last one captured */
    cudaError_t query_error; /* result of EventQuery */
    int fail_at;             /* number, from 1, of the call that fails; 0: none */
    cudaError_t fail_with;
    int calls, events_alive, streams_alive, contexts_alive, blas_alive, dnn_alive, allocated,
        resets;
    struct fake_stream streams[FAKE_STREAMS_MAX]; /* last: reset leaves their work */
};
extern struct fake_cuda fake_cuda;
extern const struct lk_cuda_calls fake_cuda_calls;

/* Reset: no work, no failure. */
void fake_cuda_reset(int gpus);
/* Fail the test if an object was not released. */
void fake_cuda_check_clean(void);
/* Advance every stream by one step. */
void fake_cuda_step(void);
/* As cudaMemsetAsync. */
cudaError_t fake_cuda_set_on(cudaStream_t s, void *p, int value, size_t bytes);
/* Put fn on the stream; it runs in stream order. */
void fake_cuda_run_on(cudaStream_t s, cudaHostFn_t fn, void *arg);
/* Put poll on the stream; it is called until it returns true. Memory that it checks is accessible.
 */
void fake_cuda_poll_on(cudaStream_t s, bool (*poll)(void *arg), void *arg);
/* Make device memory accessible, for a test's code in place of a kernel, and inaccessible again. */
void fake_cuda_open(void);
void fake_cuda_close(void);
/* Return true for page-locked host memory. */
bool fake_cuda_is_host(const void *p);
/* End the test unless [p, p + bytes) is device memory; for work that runs, make it accessible. */
void fake_cuda_check_device(const void *p, size_t bytes);
/* Copy device memory to the host at once, regardless of the streams. */
void fake_cuda_peek(void *to, const void *from, size_t bytes);

#endif
