/*
 * A machine with GPUs that is none, for tests: the table of functions in CUDA's place
 * (runtime/calls_cuda.h). Streams keep queues of their own, and work goes on by one step a stream
 * whenever somebody asks whether an event was passed, so nothing is done when it is submitted. Ops
 * run by their CPU definition. Device memory is the host's. One machine a process.
 */
#ifndef LK_TESTS_FAKE_CUDA_H
#define LK_TESTS_FAKE_CUDA_H

#include "runtime/calls_cuda.h"

#include <stddef.h>

enum { FAKE_STREAMS_MAX = 16, FAKE_WORK_MAX = 16384 };

struct fake_event {
    int recorded, passed; /* numbers of records: submitted, and done */
    double ms;
};

struct fake_work {
    enum { WORK_RUN, WORK_OP, WORK_COPY, WORK_RECORD, WORK_WAIT } kind;
    cudaHostFn_t fn;
    const struct lk_op *op;
    void *arg; /* OP: a copy of its arguments */
    void *to;
    const void *from;
    size_t bytes;
    struct fake_event *event;
    int number; /* RECORD, WAIT: of the record */
};

struct fake_stream {
    struct fake_work work[FAKE_WORK_MAX];
    size_t done, n;
    int priority;
};

struct fake_cuda {
    struct fake_stream streams[FAKE_STREAMS_MAX];
    size_t n_streams;
    int gpus;
    bool stuck;              /* no stream goes on */
    cudaError_t query_error; /* what EventQuery says */
    int fail_at;             /* this call fails, from 1; 0: none */
    cudaError_t fail_with;
    int calls, events_alive, streams_alive, contexts_alive, blas_alive, allocated, resets;
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

#endif
