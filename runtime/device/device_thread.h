/*
 * Private to the devices cpu and timed: a stream that is a thread with a bounded queue of commands.
 *
 * The host thread appends, the stream's thread runs; neither spins. Several commands run per
 * wake-up, and a host that waits for the last of them is woken once. After a failure of the device
 * the thread skips queued commands but still counts them, so that waiters for a count are released.
 */
#ifndef LK_RUNTIME_DEVICE_THREAD_H
#define LK_RUNTIME_DEVICE_THREAD_H

#include "runtime/device/device_impl.h"

/* Commands that a stream can hold; a GPT-2 step is about 600, so enqueuing a step rarely blocks. */
enum { LK_THREAD_QUEUE = 1024 };

struct lk_thread_slot {
    struct lk_command command;
    _Alignas(max_align_t) unsigned char args[LK_OP_ARGS_MAX];
};

struct lk_thread_stream {
    struct lk_stream base;
    pthread_t thread;
    pthread_mutex_t lock;    /* guards all below; a thread holds at most one stream's lock */
    pthread_cond_t work;     /* to the stream's thread: something is queued, or stop */
    pthread_cond_t progress; /* to others: done reached wake_at, or the device failed */
    struct lk_thread_slot *slots;
    uint64_t queued, done; /* commands so far; done == UINT64_MAX: closed */
    uint64_t wake_at;      /* smallest count that a thread waits for */
    bool idle;             /* the thread waits for work */
    atomic_bool stop;
    /* timed: the time until which this stream is busy, in lk_now_ns. Its thread only. */
    uint64_t busy_until_ns;
};

/* Hooks of struct lk_device_ops, implemented by threads. */
enum lk_status lk_thread_stream_open(struct lk_stream *s);
void lk_thread_stream_close(struct lk_stream *s);
void lk_thread_stream_free(struct lk_stream *s);
enum lk_status lk_thread_submit(struct lk_stream *s, const struct lk_command *c, uint64_t *out_seq);
enum lk_status lk_thread_sync(struct lk_stream *s, uint64_t seq, struct lk_deadline deadline);
void lk_thread_wake(struct lk_stream *s);

/* Sleep until the deadline, or until the device fails or the stream closes. Stream's thread
 * only. */
void lk_thread_sleep(struct lk_thread_stream *t, struct lk_deadline deadline);

#endif
