/*
 * Instants on a stream without an event of their own: "gradient 7 is final" happens when the kernel
 * that makes it has ended, and CUPTI's record of the kernel has that time.
 *
 * Ops of a stream are numbered in each step, in the order of issue, and CUPTI's external ids carry
 * the number. A mark is put behind the op that was issued last; its time is the latest end of the
 * kernels of that op, which may be several, and of the ops before it in the step. The thread that
 * issues puts marks, another one reads records: an inbox passes marks on, without a lock. An op's
 * kernel runs after the marks behind earlier ops were put, so the reader, who empties the inbox
 * first, knows all marks in front of any kernel.
 *
 * An op without a record had no kernel (there was nothing to do), and the mark has the time of the
 * ops before it. But if CUPTI loses a record of any kind, nobody can tell which: then all marks
 * behind ops issued so far are lost, too, never wrong, and no more are taken.
 */
#ifndef LK_PROFILER_RECORD_CUPTI_MARKS_H
#define LK_PROFILER_RECORD_CUPTI_MARKS_H

#include "base/status.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LK_CUPTI_MARKS = 1 << 14 }; /* a power of two */

struct lk_cupti_mark {
    uint32_t step, op;
    int32_t index; /* as the span's */
    uint16_t kind;
    bool known;      /* a kernel of its op was read */
    uint64_t end_ns; /* latest end of kernels since the mark before it; 0: none */
};

struct lk_cupti_marks {
    struct lk_cupti_mark *inbox; /* a ring */
    _Atomic uint64_t n_put, n_taken;
    atomic_bool proven;      /* a kernel was read with the number of its op, and none was lost */
    _Atomic uint64_t issued; /* the last op: step, number */
    /* The rest is the reader's. */
    struct lk_cupti_mark *waiting; /* in the order of issue */
    size_t n_waiting;
    struct lk_cupti_mark behind; /* the kernels behind the last mark, as if they had one */
    uint32_t newest_step;
    bool losing;      /* a record was lost */
    uint64_t lost_to; /* the last op issued by then */
};

/* What becomes of a mark: it has a time, or (end_ns 0) is lost. */
typedef void lk_cupti_mark_fn(void *ctx, const struct lk_cupti_mark *mark);

enum lk_status lk_cupti_marks_init(struct lk_cupti_marks *m);
void lk_cupti_marks_fini(struct lk_cupti_marks *m); /* safe on a zeroed one */

/* Return true as long as records are known to tell marks. Any thread. */
bool lk_cupti_marks_are_proven(const struct lk_cupti_marks *m);
/* Note that an op is about to be issued, and put a mark behind the last one. False: there is no
 * room. One thread at a time. */
void lk_cupti_marks_issue(struct lk_cupti_marks *m, uint32_t step, uint32_t op);
bool lk_cupti_marks_put(struct lk_cupti_marks *m, uint16_t kind, int32_t index);

/* The rest is for the thread that reads records. */

/* Take the marks put so far; before each buffer of records. If too many wait, the oldest end. */
void lk_cupti_marks_take(struct lk_cupti_marks *m, lk_cupti_mark_fn *fn, void *ctx);
/* Note the end of a kernel of an op. */
void lk_cupti_marks_kernel(struct lk_cupti_marks *m, uint32_t step, uint32_t op, uint64_t end_ns);
/* End the marks that are known, of steps whose kernels have all come: a kernel of the next step but
 * one is there. */
void lk_cupti_marks_settle(struct lk_cupti_marks *m, lk_cupti_mark_fn *fn, void *ctx);
/* Note that a record was lost. */
void lk_cupti_marks_lose(struct lk_cupti_marks *m, lk_cupti_mark_fn *fn, void *ctx);
/* End all marks: no records come any more. */
void lk_cupti_marks_drain(struct lk_cupti_marks *m, lk_cupti_mark_fn *fn, void *ctx);

#endif
