/*
 * The pool of buffers that CUPTI fills with records.
 *
 * CUPTI asks for buffers on the thread that issues work and returns them, filled, on a thread of
 * its own or on the one that flushes; the pool's lock is held for a few instructions only, so that
 * issuing never waits for reading. All functions but init and fini: any thread.
 */
#ifndef LK_PROFILER_RECORD_CUPTI_BUFFERS_H
#define LK_PROFILER_RECORD_CUPTI_BUFFERS_H

#include "profiler/record/cupti.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* NVIDIA recommends buffers of 1 to 10 MiB (CUPTI, Usage, Activity API). Of the first ones CUPTI
 * may fill a part only, so that the first records, of a few steps, are soon there. */
enum {
    LK_CUPTI_BUFFER_BYTES = 2 << 20,
    LK_CUPTI_FIRST_BYTES = 128 << 10,
    LK_CUPTI_FIRST_BUFFERS = 8
};

struct lk_cupti_buffers {
    pthread_mutex_t lock; /* guards all members below */
    bool ready;           /* the lock is made */
    size_t bytes, most;
    size_t n_first; /* to be lent in part */
    uint8_t **free;
    size_t n_free, n_made, n_lent;
    bool refusable; /* this CUPTI tolerates getting no buffer */
};

/* Make the pool with the size and number that the config says. On failure fini is legal, too. */
enum lk_status lk_cupti_buffers_init(struct lk_cupti_buffers *b, const struct lk_cupti_config *c,
                                     bool refusable);
/* Free it and the buffers in it; safe on a zeroed one. */
void lk_cupti_buffers_fini(struct lk_cupti_buffers *b);
/* Return a zeroed buffer and the bytes to be used of it, or NULL: CUPTI then drops records and
 * counts them. */
uint8_t *lk_cupti_buffers_lend(struct lk_cupti_buffers *b, size_t *out_bytes);
/* Return a buffer, zeroed, to the pool. It is freed at once if the pool has too many, or if the
 * pool never lent it: it is then an earlier session's. */
void lk_cupti_buffers_return(struct lk_cupti_buffers *b, uint8_t *buffer, size_t bytes);
/* Return true if CUPTI has none of them. */
bool lk_cupti_buffers_idle(struct lk_cupti_buffers *b);

#endif
