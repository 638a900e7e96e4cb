/*
 * Private to the devices: what runtime/device.c and a backend share.
 *
 * Every call of runtime/device.h that puts work on a stream becomes one struct lk_command. The
 * wrapper checks it, the backend's submit runs it (reference) or queues it (cpu, timed:
 * runtime/device_thread.c). Commands of a stream are numbered from 1; an event is the pair
 * (stream, number), so waiting for an event is waiting for a stream's count. That makes recording
 * an event again harmless for who already waits for its old point.
 */
#ifndef LK_RUNTIME_DEVICE_IMPL_H
#define LK_RUNTIME_DEVICE_IMPL_H

#include "runtime/device.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

/* X(command, name in messages) */
#define LK_COMMAND_LIST(X)                                                                         \
    X(LK_COMMAND_OP, "op")                                                                         \
    X(LK_COMMAND_HOST, "host function")                                                            \
    X(LK_COMMAND_RANGE_BEGIN, "start of a range")                                                  \
    X(LK_COMMAND_RANGE_END, "end of a range")                                                      \
    X(LK_COMMAND_MARK, "mark")                                                                     \
    X(LK_COMMAND_COPY, "copy")                                                                     \
    X(LK_COMMAND_RECORD, "event record")                                                           \
    X(LK_COMMAND_WAIT, "event wait")

enum lk_command_kind {
#define LK_COMMAND_ENUM_(command, name) command,
    LK_COMMAND_LIST(LK_COMMAND_ENUM_)
#undef LK_COMMAND_ENUM_
        LK_COMMAND_COUNT
};

struct lk_command {
    enum lk_command_kind kind;
    struct lk_span span; /* kind, name, step and index: what is issued; of a collective more */
    union {
        const struct lk_op *op; /* OP */
        lk_host_fn fn;          /* HOST */
        struct lk_event *event; /* RECORD, WAIT, RANGE_BEGIN (NULL: none); the command holds it */
        struct {                /* COPY */
            void *to;
            const void *from;
            size_t bytes;
        } copy;
    };
    struct lk_stream *on; /* WAIT: the stream that must have run `seq` commands */
    uint64_t seq;         /* RECORD: its own number; WAIT: see `on` */
    uint64_t queued_ns;   /* when it was enqueued, for devices that ask (stamps) */
    const void *args;     /* OP, HOST: args_bytes of arguments */
    size_t args_bytes;
};

struct lk_event {
    struct lk_device *device;
    struct lk_stream *stream; /* of the last recorded point; NULL: none. Driving thread only */
    uint64_t seq;             /* of the last recorded point. Driving thread only */
    atomic_uint refs;         /* the owner's and one a queued command */
    pthread_mutex_t lock;     /* guards the last passed point, below */
    const struct lk_stream *passed_stream;
    uint64_t passed_seq;
    uint64_t passed_ns;
};

struct lk_stream { /* first member of a backend's own struct */
    struct lk_device *device;
    struct lk_stream *next; /* of the device's list */
    struct lk_track *track; /* NULL: nothing is recorded */
    char name[48];
    enum lk_track_kind kind;
    uint32_t step;        /* of what is enqueued from now on. Driving thread only */
    struct lk_span range; /* the open range. Executing thread only */
    bool open;            /* until lk_stream_destroy. Driving thread only */
};

struct lk_graph { /* first member of a backend's own struct */
    struct lk_device *device;
};

struct lk_device_ops {
    const char *name;
    const char *help;
    enum lk_dtype real;                /* of lk_real buffers */
    bool has_bf16;                     /* ...unless the configuration asks for bfloat16 */
    double unit_roundoff;              /* of what products of `real` multiply */
    size_t device_bytes, stream_bytes; /* of the backend's own structs */
    bool stamps;                       /* commands carry queued_ns */
    bool keeps_log_sum;                /* attention keeps log_sum for backward, not probs */
    /* (optional) Checks the configuration. */
    enum lk_status (*open)(struct lk_device *d);
    /* (optional) Undoes open, also one that failed half way. */
    void (*close)(struct lk_device *d);
    /* (optional) Adds what is known of the machine to a run's configuration. */
    enum lk_status (*describe)(const struct lk_device *d, struct lk_run_info *info);
    /* (optional) The calling thread is about to drive a stream. */
    enum lk_status (*attach)(struct lk_device *d);
    /* (optional, both) Zeroed device memory, bytes > 0; without them it is the host's. */
    enum lk_status (*alloc)(struct lk_device *d, size_t bytes, void **out);
    void (*free)(struct lk_device *d, void *p);
    /* NULL when the device can run the op, else what it lacks. */
    const char *(*lacks)(const struct lk_op *op);
    enum lk_status (*stream_open)(struct lk_stream *s);
    /* Finishes what runs, drops the rest (lk_command_drop). The struct lives until the device is
     * closed, and counts as having run everything. */
    void (*stream_close)(struct lk_stream *s);
    /* (optional) The device closes: releases what others could still wait on. */
    void (*stream_free)(struct lk_stream *s);
    /* Runs or queues a command (copied, with its arguments) and gives its number. */
    enum lk_status (*submit)(struct lk_stream *s, const struct lk_command *c, uint64_t *out_seq);
    /* Waits until s has run `seq` commands, or all of them (UINT64_MAX), or the device failed. */
    enum lk_status (*sync)(struct lk_stream *s, uint64_t seq, struct lk_deadline deadline);
    /* (optional) The device failed, or a stream closes: whoever waits looks again. Any thread. */
    void (*wake)(struct lk_stream *s);
    /* Runs an op and emits its span. */
    void (*run_op)(struct lk_stream *s, const struct lk_command *c);
    /* (optional) The backend's own handle of a stream (lk_stream_native). */
    void *(*native)(struct lk_stream *s);
    /* (optional, both) Host memory that copies to and from the device start from (page-locked). */
    enum lk_status (*alloc_host)(struct lk_device *d, size_t bytes, void **out);
    void (*free_host)(struct lk_device *d, void *p);
    /* (optional, both) As lk_device_properties and lk_device_count. */
    enum lk_status (*properties)(const struct lk_device *d, struct lk_device_properties *out);
    enum lk_status (*count)(const struct lk_device_config *config, int *out);
    /* (optional, all) As lk_graph_...; commands between begin and end come to submit as ever. */
    enum lk_status (*graph_begin)(struct lk_stream *s);
    enum lk_status (*graph_end)(struct lk_stream *s, struct lk_graph **out);
    enum lk_status (*graph_launch)(struct lk_graph *g, struct lk_stream *s);
    void (*graph_destroy)(struct lk_graph *g);
    /* The time on the stream, in lk_now_ns. */
    uint64_t (*now_ns)(struct lk_stream *s);
    /* (optional) Commands ran that took real time, until at_ns. */
    void (*advance)(struct lk_stream *s, uint64_t at_ns);
};

/* Name ids of spans by op, open addressing. Host thread only. */
struct lk_op_names {
    const struct lk_op **ops;
    uint16_t *ids;
    size_t n, capacity; /* a power of two; at most half full */
};

struct lk_device { /* first member of a backend's own struct */
    const struct lk_device_ops *ops;
    enum lk_dtype real;
    struct lk_device_config config;
    struct lk_op_names names;
    pthread_mutex_t lock; /* guards streams and the failure's text; taken before a stream's lock */
    struct lk_stream *streams; /* closed ones included */
    atomic_int failed;         /* enum lk_status of the first failure */
    char failure[1024];
};

extern const struct lk_device_ops lk_device_cpu, lk_device_timed, lk_device_reference;
extern const struct lk_device_ops lk_device_cuda; /* in builds with CUDA */
/* Of it (device_properties_cuda.c). */
enum lk_status lk_cuda_properties(const struct lk_device *d, struct lk_device_properties *out);
enum lk_status lk_cuda_count(const struct lk_device_config *config, int *out);

/* Runs a command other than WAIT on the executing thread; the device's failure is taken note of. */
void lk_device_run_command(struct lk_stream *s, const struct lk_command *c);
/* Releases what a command holds, when it ran and when it is dropped. */
void lk_command_drop(const struct lk_command *c);
/* What a command is, for messages: "op gelu_forward". */
const char *lk_command_text(const struct lk_command *c);

/* Wakes all who wait on any stream of the device. */
void lk_device_wake(struct lk_device *d);

static inline bool lk_device_failed(const struct lk_device *d)
{
    return atomic_load_explicit(&d->failed, memory_order_acquire) != LK_OK;
}

#endif
