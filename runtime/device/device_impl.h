/*
 * Private to the devices: the interface between runtime/device/device.c and a backend.
 *
 * Every call of runtime/device/device.h that puts work on a stream becomes one struct
 * lk_stream_command. The wrapper checks it, the backend's submit runs it (reference) or queues it
 * (cpu, timed: runtime/device/device_host.c). Commands of a stream are numbered from 1; an event is
 * the pair (stream, number), so waiting for an event is waiting for a stream's count. Recording an
 * event again therefore does not affect those who already wait for its old point.
 */
#ifndef LK_RUNTIME_DEVICE_IMPL_H
#define LK_RUNTIME_DEVICE_IMPL_H

#include "base/words.h"
#include "runtime/device/device.h"

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

enum lk_command_kind { LK_COMMAND_LIST(LK_WORD_VALUE) LK_COMMAND_COUNT };

struct lk_stream_command {
    enum lk_command_kind kind;
    struct lk_span span; /* kind, name, step and index of the work; more for a collective */
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
    uint64_t queued_ns;   /* when it was enqueued; only for devices with `stamps` */
    const void *args;     /* OP, HOST: the arguments, args_bytes of them */
    size_t args_bytes;
};

struct lk_event {
    struct lk_device *device;
    struct lk_stream *stream; /* of the last recorded point; NULL: none. Driving thread only */
    uint64_t seq;             /* of the last recorded point. Driving thread only */
    atomic_uint refs;         /* one for the owner, one per queued command */
    pthread_mutex_t lock;     /* guards the last passed point, below */
    const struct lk_stream *passed_stream;
    uint64_t passed_seq;
    uint64_t passed_ns;
};

struct lk_stream { /* first member of a backend's own struct */
    struct lk_device *device;
    struct lk_stream *next; /* next in the device's list */
    struct lk_track *track; /* NULL: nothing is recorded */
    char name[48];
    enum lk_track_kind kind;
    uint32_t step;        /* step of work enqueued from now on. Driving thread only */
    struct lk_span range; /* the open range. Executing thread only */
    bool open;            /* until lk_stream_destroy. Driving thread only */
};

struct lk_graph { /* first member of a backend's own struct */
    struct lk_device *device;
};

/* X(part, member of struct lk_op, name in messages) */
#define LK_OP_PART_LIST(X)                                                                         \
    X(LK_OP_CPU, cpu, "cpu implementation")                                                        \
    X(LK_OP_REF, ref, "reference implementation")                                                  \
    X(LK_OP_CUDA, cuda, "CUDA kernel")                                                             \
    X(LK_OP_COST, cost, "cost")

enum lk_op_part { LK_OP_PART_LIST(LK_WORD_VALUE) };

struct lk_device_ops {
    const char *name;
    const char *help;
    enum lk_dtype real; /* default type of lk_real buffers */
    unsigned reals; /* bits 1 << type: types that the configuration may ask for instead of `real` */
    double unit_roundoff;              /* unit roundoff of the factors of products in `real` */
    size_t device_bytes, stream_bytes; /* sizes of the backend's own structs */
    bool stamps;                       /* set queued_ns in commands */
    bool keeps_log_sum;                /* attention keeps log_sum for backward, not probs */
    bool fuses;                        /* as lk_device_fuses */
    /* (optional) Check the configuration and open the backend. */
    enum lk_status (*open)(struct lk_device *d);
    /* (optional) Undo open, including one that failed half way. */
    void (*close)(struct lk_device *d);
    /* (optional) As lk_device_describe. */
    enum lk_status (*describe)(const struct lk_device *d, struct lk_run_info *info);
    /* (optional) As lk_device_clock_error_ns. */
    uint64_t (*clock_error_ns)(const struct lk_device *d);
    /* (optional) As lk_device_attention. */
    enum lk_status (*attention)(const struct lk_device *d, const struct lk_attention_shape *shape,
                                bool ask, char text[LK_ATTENTION_TEXT]);
    /* (optional) As lk_device_attach. */
    enum lk_status (*attach)(struct lk_device *d);
    /* (optional, both) Allocate and free zeroed device memory, bytes > 0; NULL: ordinary host
     * memory. */
    enum lk_status (*alloc)(struct lk_device *d, size_t bytes, void **out);
    void (*free)(struct lk_device *d, void *p);
    enum lk_op_part needs; /* an op without it cannot run on the device */
    enum lk_status (*stream_open)(struct lk_stream *s); /* (optional) */
    /* (optional) Finish the running command and drop the others (lk_command_drop). The struct stays
     * until the device is closed, and counts as having run everything. */
    void (*stream_close)(struct lk_stream *s);
    /* (optional) Called when the device closes: release what others could still wait on. */
    void (*stream_free)(struct lk_stream *s);
    /* Run or queue a command (copied, with its arguments) and return its number. */
    enum lk_status (*submit)(struct lk_stream *s, const struct lk_stream_command *c,
                             uint64_t *out_seq);
    /* Wait until s has run `seq` commands, or all of them (UINT64_MAX), or the device failed. */
    enum lk_status (*sync)(struct lk_stream *s, uint64_t seq, struct lk_deadline deadline);
    /* (optional) Wake all waiters to check again: the device failed, or a stream closes. Any
     * thread. */
    void (*wake)(struct lk_stream *s);
    /* (optional) Run an op and end its span; NULL: call its definition, `ref`. */
    void (*run_op)(struct lk_stream *s, const struct lk_stream_command *c, struct lk_span *span);
    /* (optional) As lk_stream_native. */
    void *(*native)(struct lk_stream *s);
    /* (optional, both) As lk_device_alloc_host and lk_device_free_host. */
    enum lk_status (*alloc_host)(struct lk_device *d, size_t bytes, void **out);
    void (*free_host)(struct lk_device *d, void *p);
    /* (optional, both) As lk_device_properties and lk_device_count. */
    enum lk_status (*properties)(const struct lk_device *d, struct lk_device_properties *out);
    enum lk_status (*count)(const struct lk_device_config *config, int *out);
    /* (optional, all) As lk_graph_...; commands between begin and end still go through submit. */
    enum lk_status (*graph_begin)(struct lk_stream *s);
    enum lk_status (*graph_end)(struct lk_stream *s, struct lk_graph **out);
    enum lk_status (*graph_launch)(struct lk_graph *g, struct lk_stream *s);
    void (*graph_destroy)(struct lk_graph *g);
    /* (optional) Return the time on the stream; NULL: lk_now_ns. */
    uint64_t (*now_ns)(struct lk_stream *s);
    /* (optional) Advance the stream's time to at_ns: commands that took real time ended then. */
    void (*advance)(struct lk_stream *s, uint64_t at_ns);
};

/* The name id of an op's spans. */
struct lk_op_name {
    const struct lk_op *op;
    uint16_t id;
};

struct lk_device { /* first member of a backend's own struct */
    const struct lk_device_ops *ops;
    enum lk_dtype real;
    struct lk_device_config config;
    struct lk_op_name *names; /* of the ops that the device met; host thread only */
    size_t n_names, names_capacity;
    pthread_mutex_t lock; /* guards streams and the failure's text; taken before a stream's lock */
    struct lk_stream *streams; /* closed ones included */
    atomic_int failed;         /* enum lk_status of the first failure */
    char failure[1024];
};

extern const struct lk_device_ops lk_device_cpu, lk_device_timed, lk_device_reference;
extern const struct lk_device_ops lk_device_cuda; /* in builds with CUDA */
/* Hooks of lk_device_cuda (device_properties_cuda.c). */
enum lk_status lk_cuda_properties(const struct lk_device *d, struct lk_device_properties *out);
enum lk_status lk_cuda_count(const struct lk_device_config *config, int *out);

/* Release what a command holds, after it ran or when it is dropped. */
void lk_command_drop(const struct lk_stream_command *c);
/* Return a command's name for messages: "op gelu_forward". */
const char *lk_command_text(const struct lk_stream_command *c);

/* Wake all waiters of all streams of the device. */
void lk_device_wake(struct lk_device *d);

static inline bool lk_device_failed(const struct lk_device *d)
{
    return atomic_load_explicit(&d->failed, memory_order_acquire) != LK_OK;
}

#endif
