/*
 * A stand-in for CUPTI, libcupti.so.13, that the preload library opens as it opens the real one;
 * libcupti.so.12 lacks what older versions do.
 * The program that it is loaded into says what its GPU does; the stand-in delivers records of that
 * in buffers that it requests, as CUPTI does.
 */
#ifndef LK_TESTS_CUPTI_H
#define LK_TESTS_CUPTI_H

#include <stdbool.h>
#include <stdint.h>

/* All members but the first ones are guarded by the stand-in's lock: read them when it is idle. */
struct fake_cupti {
    /* The test sets these before CUPTI is opened. */
    uint32_t version;      /* default 130001 */
    const char *fail_call; /* cuptiSubscribe and so on: it returns fail_with */
    int fail_with;
    int64_t ahead_ns;  /* its clock minus CLOCK_MONOTONIC_RAW */
    bool keeps;        /* buffers are never returned */
    bool is_late;      /* they are returned by fake_cupti_deliver alone */
    int64_t linger_ns; /* the thread that unsubscribes takes so long to end, in a destructor */
    /* How it ended. */
    _Atomic int subscribed, enabled, registered; /* now; now; ever */
    _Atomic int lent, refused;                   /* buffers that are out; requests that got none */
    _Atomic int watched;                         /* calls that are called back on */
    _Atomic bool lingered;                       /* linger_ns are over */
    int thread_id_type;
    uint32_t n_launched;
};

/* The functions of the stand-in, for dlsym: fake_state, fake_kernel and so on. */
typedef struct fake_cupti *fake_cupti_state(void);
/* A kernel that this thread launches now, on a stream, and that runs from start to end, by
 * CLOCK_MONOTONIC_RAW; end 0: it has not ended. */
typedef void fake_cupti_kernel(const char *name, uint32_t stream, int64_t start_ns, int64_t end_ns);
/* A copy from the host of so many bytes; a memset; a wait of this thread; a call that nobody asked
 * for. */
typedef void fake_cupti_copy(uint64_t bytes, int64_t start_ns, int64_t end_ns);
typedef void fake_cupti_memset(uint64_t bytes, int64_t start_ns, int64_t end_ns);
typedef void fake_cupti_wait(int64_t start_ns, int64_t end_ns);
/* Return the open buffer. */
typedef void fake_cupti_deliver(void);
/* CUPTI's own function, as another profiler calls it. */
typedef int fake_cupti_enable(int kind);

#endif
