/*
 * CUPTI's buffers, and records made of those that it fills.
 *
 * CUPTI asks for buffers on the threads that launch work, and returns them, filled, on one of its
 * own or on the one that flushes. Both take no lock here and call nothing of CUDA. A buffer is
 * small, since CUPTI keeps one back as long as a kernel in it runs.
 */
#ifndef LK_PRELOAD_CUPTI_RECORDS_H
#define LK_PRELOAD_CUPTI_RECORDS_H

#include "preload/cupti_library.h"

enum { LK_CUPTI_BUFFERS = 64, LK_CUPTI_BUFFER_BYTES = 1 << 17 };

/* Both clocks at one time. */
struct lk_cupti_moment {
    int64_t theirs_ns, ours_ns;
};

struct lk_cupti_buffers {
    const struct lk_cupti_library *library;
    uint8_t *bytes;        /* all buffers, one after the other; never freed: CUPTI may write late */
    _Atomic uint64_t lent; /* a bit each */
    _Atomic bool exhausted;       /* CUPTI asked for more */
    struct lk_cupti_moment began; /* before the window */
    _Atomic int64_t start_ns;     /* from when on all is recorded */
};

/* Make the buffers. False: there is no memory. */
bool lk_cupti_buffers_init(struct lk_cupti_buffers *b, const struct lk_cupti_library *library);
/* Read both clocks: the shortest of several readings. False: CUPTI refuses. */
bool lk_cupti_moment(const struct lk_cupti_library *library, struct lk_cupti_moment *out);
/* Lend CUPTI a buffer. If all are lent the window ends: what it then puts into a buffer is lost.
 * NULL: CUPTI drops records, and counts them. */
uint8_t *lk_cupti_buffers_lend(struct lk_cupti_buffers *b);
/* Take back a buffer, with so many bytes of records. What is none of ours is left alone. */
void lk_cupti_buffers_take(struct lk_cupti_buffers *b, uint8_t *buffer, size_t valid);

#endif
