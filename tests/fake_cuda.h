/*
 * A machine with GPUs that is none, for tests: the table of functions in CUDA's place
 * (runtime/calls_cuda.h). Streams keep queues of their own, and work goes on whenever somebody asks
 * whether an event was passed: without a seed by one step of every stream, the last stream first;
 * with one in a random order that favours a stream for a while, also at other calls. Ops run by
 * their CPU definition (tests/fake_ops.h).
 *
 * Device memory can be accessed only by what runs on a stream: a host that touches it crashes. A
 * copy on a stream ends the test unless each side is wholly device memory or wholly page-locked,
 * since any other would wait, and be a bug that only a GPU shows.
 *
 * Capture as in cudaStreamBeginCapture's text: what is put on a stream that is part of it becomes a
 * node; calls that are unsafe in the thread that captures, waits for work outside, and questions
 * about its events are refused and spoil it; at the end every stream must have come back. A graph's
 * nodes then run in any order that their edges allow.
 *
 * One machine a process. Any thread may call it; what runs on a stream must not wait for another
 * thread (but see host_threads).
 */
#ifndef LK_TESTS_FAKE_CUDA_H
#define LK_TESTS_FAKE_CUDA_H

#include "runtime/calls_cuda.h"

#include <pthread.h>
#include <stddef.h>

enum { FAKE_STREAMS_MAX = 16, FAKE_WORK_MAX = 16384, FAKE_ALLOCATIONS_MAX = 512 };

struct fake_event {
    int recorded, passed; /* numbers of records: submitted, and done */
    double ms;
    bool timed;
    struct fake_graph *graph; /* it was last recorded in this one's capture, as `node` */
    size_t node;
    bool destroyed;
    struct fake_event *next; /* of all that there are */
};

struct fake_work {
    enum { WORK_RUN, WORK_POLL, WORK_OP, WORK_COPY, WORK_RECORD, WORK_WAIT, WORK_GRAPH } kind;
    cudaHostFn_t fn;
    bool (*poll)(void *arg);
    const struct lk_op *op;
    enum lk_dtype real; /* OP: of its stream's context */
    void *arg;          /* OP: a copy of its arguments */
    void *to;
    const void *from;
    size_t bytes;
    struct fake_graph *graph; /* GRAPH: held */
    struct fake_event *event;
    int number; /* RECORD, WAIT: of the record */
    double queued_ms;
};

struct fake_stream {
    size_t done, n;
    int priority;
    bool busy;                  /* with a host function on a thread of its own */
    struct fake_graph *capture; /* what is put on it goes into this one */
    size_t tail;                /* the last of it there; SIZE_MAX: none yet */
    bool *ran;                  /* by node, of the graph that it is working on */
    struct fake_work work[FAKE_WORK_MAX];
    double ms; /* by takes_ms: what ran last ended then */
};

struct fake_memory {
    char *at;
    size_t bytes, mapped; /* asked for; mapped without the page behind, that nobody may touch */
    bool host;            /* page-locked, not the device's */
};

struct fake_cuda {
    struct fake_memory memory[FAKE_ALLOCATIONS_MAX];
    int open;      /* device memory is accessible */
    uint64_t seed; /* of the order of streams; 0: a fixed one */
    bool tf32;     /* float products as on a GPU, not as on the CPU */
    size_t n_streams;
    /* A model of time: how long a piece of work takes that starts when its stream's `ms` says.
     * NULL: events have the host's times. With it, work starts when what came before it on its
     * stream, what it waits for, and what the host knew of when it was put there has ended. */
    double (*takes_ms)(const struct fake_work *w, const struct fake_stream *s);
    double seen_ms;    /* the latest event that the host knows to have passed */
    uint64_t reset_ns; /* what is 0 ms to the model, in lk_now_ns */
    int gpus;
    bool nvlink, apart; /* the links between GPUs: PCIe, unless NVLink or none */
    bool stuck;         /* no stream goes on */
    bool idle;          /* ops and copies do nothing, memory is not filled: for large ones */
    bool host_threads;  /* host functions run on threads of their own, and may wait */
    struct fake_graph *capture; /* the one that is being captured, by this thread: */
    pthread_t capturer;
    int graphs_alive, graph_launches;
    size_t graph_nodes;      /* of the last one captured */
    cudaError_t query_error; /* what EventQuery says */
    int fail_at;             /* this call fails, from 1; 0: none */
    cudaError_t fail_with;
    int calls, events_alive, streams_alive, contexts_alive, blas_alive, allocated, resets;
    struct fake_stream streams[FAKE_STREAMS_MAX]; /* last: a reset leaves their work as it is */
};
extern struct fake_cuda fake_cuda;
extern const struct lk_cuda_calls fake_cuda_calls;

/* No work, no failure. */
void fake_cuda_reset(int gpus);
/* Nothing that was made is left. */
void fake_cuda_check_clean(void);
/* One step of every stream. */
void fake_cuda_step(void);
/* Puts fn on the stream: it runs in stream order. */
void fake_cuda_run_on(cudaStream_t s, cudaHostFn_t fn, void *arg);
/* Puts poll on the stream: it is called, with device memory accessible, until it says true. */
void fake_cuda_poll_on(cudaStream_t s, bool (*poll)(void *arg), void *arg);
/* Makes device memory accessible, for work of a test's own that stands for a kernel; and not again.
 */
void fake_cuda_open(void);
void fake_cuda_close(void);
/* Ends the test unless [p, p + bytes) is device memory. */
void fake_cuda_check_device(const void *p, size_t bytes);
/* Copies device memory to the host at once, whatever the streams do. */
void fake_cuda_peek(void *to, const void *from, size_t bytes);

#endif
