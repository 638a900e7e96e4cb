/*
 * Private to the fake machine (tests/fakes/fake_cuda.h): declarations shared by its files.
 * fake_cuda.c has the machine and its contexts, fake_memory_cuda.c memory, fake_stream_cuda.c
 * streams, fake_event_cuda.c events, fake_graph_cuda.c graphs.
 */
#ifndef LK_TESTS_FAKE_MACHINE_CUDA_H
#define LK_TESTS_FAKE_MACHINE_CUDA_H

#include "tests/fakes/fake_cuda.h"

/* Lock the machine's state; a thread that holds the lock may take it again. */
void fake_lock(void);
void fake_unlock(void);
/* Return a seeded random number below `below`. pre: the lock is held. */
uint64_t fake_draw(uint64_t below);

/* Begin a call that may fail: count it, and fail if a test planned that. */
cudaError_t fake_called(void);
#define FAKE_CALLED()                                                                              \
    do {                                                                                           \
        cudaError_t error_ = fake_called();                                                        \
        if (error_ != cudaSuccess)                                                                 \
            return error_;                                                                         \
    } while (0)

/* Begin a call that is unsafe in a thread that captures in mode "thread local". */
cudaError_t fake_unsafe(void);
#define FAKE_UNSAFE()                                                                              \
    do {                                                                                           \
        cudaError_t unsafe_ = fake_unsafe();                                                       \
        if (unsafe_ != cudaSuccess)                                                                \
            return unsafe_;                                                                        \
    } while (0)

/* Begin work, to which the memory is accessible that it checks; fake_cuda_close ends it. */
void fake_work_begin(void);
/* As fake_cuda_check_device, for page-locked host memory, too. */
void fake_check_any(const void *p, size_t bytes);
/* Run a host function, to which device memory is inaccessible. pre: the lock is held. */
void fake_run_host(cudaHostFn_t fn, void *arg);
/* Begin and end a run of ops, between which device memory stays accessible. */
void fake_step_begin(void);
void fake_step_end(void);

/* End the test if this call would wait for a stuck GPU: with work on `s`, or on any (NULL). */
void fake_waits(cudaStream_t s);

/* Return the memory that contains [p, p + bytes), or NULL. pre: the lock is held. */
struct fake_memory *fake_memory_of(const void *p, size_t bytes);

/* Put work on a stream, or into its capture, where it also waits for the node `other`. pre: the
 * lock is held. */
cudaError_t fake_put(struct fake_stream *f, const struct fake_work *w, size_t other);
/* Put work on a stream; takes the lock. */
cudaError_t fake_enqueue(cudaStream_t s, struct fake_work w);
/* Note that the host has seen this time pass. pre: the lock is held. */
void fake_saw(double ms);

/* The calls, with the prototypes of cuda<call>. */
#define FAKE_DECLARE_(call) __typeof__(cuda##call) fake_cuda##call;
LK_CUDA_CALL_LIST(FAKE_DECLARE_)
#undef FAKE_DECLARE_

#endif
