/*
 * Private to the machine without GPUs (tests/fake_cuda.h): what its files share. fake_cuda.c has
 * the machine and its contexts, fake_memory_cuda.c memory, fake_stream_cuda.c streams,
 * fake_event_cuda.c events, fake_graph_cuda.c graphs.
 */
#ifndef LK_TESTS_FAKE_MACHINE_CUDA_H
#define LK_TESTS_FAKE_MACHINE_CUDA_H

#include "tests/fake_cuda.h"

/* One lock, for all that is the machine's: a thread that has it may take it again. */
void fake_lock(void);
void fake_unlock(void);
/* A number below, by the seed. pre: the lock is held. */
uint64_t fake_draw(uint64_t below);

/* How every call begins that may fail: it is counted, and fails where a test planned that. */
cudaError_t fake_called(void);
#define FAKE_CALLED()                                                                              \
    do {                                                                                           \
        cudaError_t error_ = fake_called();                                                        \
        if (error_ != cudaSuccess)                                                                 \
            return error_;                                                                         \
    } while (0)

/* The same of calls that are unsafe in a thread that captures in mode "thread local". */
cudaError_t fake_unsafe(void);
#define FAKE_UNSAFE()                                                                              \
    do {                                                                                           \
        cudaError_t unsafe_ = fake_unsafe();                                                       \
        if (unsafe_ != cudaSuccess)                                                                \
            return unsafe_;                                                                        \
    } while (0)

/* Ends the test where this call would wait for a GPU that is stuck: with work on `s`, or NULL: on
 * any stream. */
void fake_waits(cudaStream_t s);

/* The memory that [p, p + bytes) lies in, or NULL. pre: the lock is held. */
const struct fake_memory *fake_memory_of(const void *p, size_t bytes);

/* Puts work on a stream, or into the capture that it is part of, where it waits for the node
 * `other`, too. pre: the lock is held. */
cudaError_t fake_put(struct fake_stream *f, const struct fake_work *w, size_t other);
/* The same, for who has not the lock. */
cudaError_t fake_enqueue(cudaStream_t s, struct fake_work w);
/* The host knows that this time has passed. pre: the lock is held. */
void fake_saw(double ms);

/* The calls, as cuda<call> has them. */
#define FAKE_DECLARE_(call) __typeof__(cuda##call) fake_cuda##call;
LK_CUDA_CALL_LIST(FAKE_DECLARE_)
#undef FAKE_DECLARE_

#endif
