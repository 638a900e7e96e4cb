/*
 * A fake CUPTI without a GPU, for tests: a table of functions in its place. A test makes records
 * with the structs of CUPTI's headers, and the fake delivers them in buffers that it requests, as
 * CUPTI does. One a process.
 *
 * As in CUPTI: buffers are delivered and asked about under a lock of its own, and FlushAll delivers
 * a buffer that is not full, but one with an unfinished kernel only where it is forced. Not
 * documented, so the worse is assumed: a kernel that is in flight when its kind is switched off
 * still has its record afterwards, without times.
 */
#ifndef LK_TESTS_FAKE_CUPTI_CUDA_H
#define LK_TESTS_FAKE_CUPTI_CUDA_H

#include "profiler/record/cupti_impl_cuda.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FAKE_CUPTI_CALLS = 1024 };

struct fake_cupti {
    uint32_t version;
    const char *fail_call; /* this call fails, after fail_after successful ones */
    int fail_after;
    CUptiResult fail_with;
    size_t dropped;                      /* next result of GetNumDroppedRecords */
    bool other_profiler;                 /* somebody else subscribed before */
    bool checks_order;                   /* GetNumDroppedRecords waits for a buffer to be taken */
    atomic_bool inverted;                /* ... which did not happen: the caller holds a lock */
    atomic_bool stuck;                   /* FlushAll does not return while set */
    atomic_bool stuck_disabling;         /* ActivityDisable does not return while set */
    uint64_t ahead_ns;                   /* CUPTI's clock minus ours */
    uint8_t by_thread;                   /* a buffer for each thread, CUPTI 13's default */
    size_t sizes[256];                   /* record sizes by kind, if not those of the headers */
    atomic_int kinds_enabled;            /* ActivityEnable minus ActivityDisable calls */
    atomic_int flushes, flushes_enabled; /* before kinds were disabled */
    bool enabled[CUPTI_ACTIVITY_KIND_COUNT];
    int calls_enabled;        /* API calls chosen one by one, of these */
    bool ids_with_kinds_only; /* a chosen call has no record of its external id */
    bool deaf;                /* calls can be chosen no more: all calls were switched off */
    bool runtime_calls[FAKE_CUPTI_CALLS], driver_calls[FAKE_CUPTI_CALLS];
    int subscribers;
    CUpti_CallbackFunc callback;
    bool called_back[FAKE_CUPTI_CALLS]; /* calls of the runtime */
    CUpti_BuffersCallbackRequestFunc request;
    CUpti_BuffersCallbackCompleteFunc complete;
    uint8_t *open; /* buffer being filled, or NULL */
    size_t open_size, open_used;
    bool unfinished; /* the open buffer has a kernel that has not ended */
};
extern struct fake_cupti fake_cupti;

/* Ids pushed by this thread. */
struct fake_cupti_stack {
    uint64_t ids[64];
    size_t depth;
};
extern _Thread_local struct fake_cupti_stack fake_cupti_stack;
extern const struct lk_cupti_calls fake_cupti_calls;

void fake_cupti_reset(void);
/* Append a record to the open buffer; request one if there is none. False: no buffer was given, or
 * it is full (it is delivered then, and the record goes into the next). */
bool fake_cupti_put(const void *record, size_t bytes);
/* As CUPTI's function, for a table that has no place for it; and note that a call of the runtime is
 * made. */
CUptiResult fake_cupti_enable_callback(uint32_t on, CUpti_SubscriberHandle s,
                                       CUpti_CallbackDomain domain, CUpti_CallbackId id);
void fake_cupti_called(CUpti_CallbackId id);
/* Return true if CUPTI records an API call; if it records the call's external id, too. */
bool fake_cupti_records_call(bool of_runtime, CUpti_CallbackId id);
bool fake_cupti_gives_id(bool of_runtime, CUpti_CallbackId id);
/* Let CUPTI's own calls wait, so that a test can put several records at one moment. */
void fake_cupti_hold(bool on);
/* Deliver the open buffer without its last `cut` bytes. */
void fake_cupti_deliver(size_t cut);

#endif
