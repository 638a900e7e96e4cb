/* Private to the device cuda: structs and functions that its files share. */
#ifndef LK_RUNTIME_DEVICE_CUDA_H
#define LK_RUNTIME_DEVICE_CUDA_H

#include "runtime/device/calls_cuda.h"
#include "runtime/device/device_impl.h"
#include "runtime/device/gpu_claim.h"

/* The origin of all times: an event that an idle stream passed at `at_ns`. The GPU's clock and the
 * host's drift apart by tens of microseconds a second, so `rate` is measured from the first origin
 * of the run on. */
struct cuda_origin {
    cudaEvent_t event, trial, spare; /* trial: the next one; spare: NULL once `first` has its own */
    cudaEvent_t first;               /* one of these; NULL: none yet */
    uint64_t at_ns, first_ns;
    uint64_t worst_ns; /* by how much times were off at most: origin and drift */
    double rate;       /* nanoseconds of the host in one of the GPU */
};

struct cuda_device {
    struct lk_device base;
    const struct lk_cuda_calls *call;
    struct lk_cuda_blas *blas;
    struct lk_cuda_dnn *dnn; /* NULL: attention runs on our own kernels */
    struct lk_gpu_claim claim;
    int gpu;
    int least_urgent, most_urgent; /* priorities of streams; a smaller number is more urgent */
    char name[sizeof(((struct cudaDeviceProp *)0)->name)], uuid[64];
    int major, minor, multiprocessors;
    size_t memory_bytes;
    int driver, runtime; /* CUDA versions, 1000 * major + 10 * minor */
    pthread_mutex_t points_lock;
    bool has_lock;
    bool hangs; /* a stream did not end in time: free and destroy nothing from now on */
    struct cuda_stream *capture; /* the stream that a capture was begun on; NULL: none */
    struct cuda_origin origin;
};

/* A command whose time is read once the GPU has passed its CUDA event. */
struct point {
    enum lk_command_kind kind; /* RANGE_BEGIN, RANGE_END, MARK or RECORD */
    uint64_t seq;
    cudaEvent_t passed;         /* its own event, or one shared with adjacent points */
    struct lk_event *event;     /* RECORD, RANGE_BEGIN: held */
    struct lk_span span;        /* RANGE_BEGIN, MARK */
    struct lk_stream *ready_on; /* RANGE_BEGIN: where its event was recorded last; NULL: nowhere */
    uint64_t ready_seq;
};

/* An event recorded into the graph that is being captured. CUDA allows no query of it. */
struct captured {
    uint64_t seq;
    cudaEvent_t event;
};

struct cuda_stream {
    struct lk_stream base;
    cudaStream_t stream;
    struct lk_cuda context;
    struct lk_span issuing; /* the range whose end was not submitted yet */
    uint64_t submitted;
    bool capturing; /* submitted work goes into the graph. Host thread only */
    bool at_point;  /* nothing was enqueued since the last point. Host thread only */
    bool behind_op; /* what was enqueued last is an op. Host thread only */
    /* The rest is guarded by the device's points_lock. */
    struct point *points; /* n_points of them from `first` on, oldest first */
    size_t first, n_points, capacity;
    size_t n_ready;     /* of these, range starts that wait for their event's time */
    cudaEvent_t *spare; /* events to reuse */
    size_t n_spare, spare_capacity;
    struct captured *captured;
    size_t n_captured, captured_capacity;
};

static inline struct cuda_device *device_of(const struct lk_device *d)
{
    return (struct cuda_device *)(uintptr_t)d;
}

static inline struct cuda_stream *stream_of(struct lk_stream *s)
{
    return (struct cuda_stream *)s;
}

static inline const struct lk_cuda_calls *calls_of(const struct cuda_stream *t)
{
    return device_of(t->base.device)->call;
}

static inline void lock_points(const struct cuda_stream *t)
{
    pthread_mutex_lock(&device_of(t->base.device)->points_lock);
}

static inline void unlock_points(const struct cuda_stream *t)
{
    pthread_mutex_unlock(&device_of(t->base.device)->points_lock);
}

/* Return the priority of a stream by what its track shows (device_properties_cuda.c): collectives
 * go first, and early updates last, which only fill what other kernels leave free. */
int lk_cuda_priority(const struct cuda_device *g, enum lk_track_kind kind);

/* Points (runtime/device/device_points_cuda.c). Submit a command that is one; its span is entered
 * or left. */
enum lk_status lk_cuda_point_submit(struct cuda_stream *t, const struct lk_stream_command *c);
/* Query the points' events, oldest first, and process those that the GPU has passed. An error of
 * the GPU shows here and makes the device fail. pre: points_lock is held. */
void lk_cuda_look(struct cuda_stream *t);
/* Add a point after all submitted work. */
enum lk_status lk_cuda_point_add_last(struct cuda_stream *t);
/* Return true if the GPU has passed the stream's points up to `seq`; *out_left: points left. */
bool lk_cuda_was_passed(struct cuda_stream *t, uint64_t seq, size_t *out_left);
void lk_cuda_points_fini(struct cuda_stream *t);
enum lk_status lk_cuda_origin_init(struct cuda_device *g);
void lk_cuda_origin_fini(struct cuda_device *g);
uint64_t lk_cuda_clock_error_ns(const struct lk_device *d);
/* Renew the origin of times when it is old. pre: the stream is idle. */
enum lk_status lk_cuda_refresh_origin(struct cuda_stream *t);
/* Return lk_device_config.hang_ns, or its default. */
uint64_t lk_cuda_hang_ns(const struct cuda_device *g);

/* Graphs (runtime/device/device_graph_cuda.c): hooks of lk_device_ops, and how commands are
 * captured. */
enum lk_status lk_cuda_graph_begin(struct lk_stream *s);
enum lk_status lk_cuda_graph_end(struct lk_stream *s, struct lk_graph **out);
enum lk_status lk_cuda_graph_launch(struct lk_graph *g, struct lk_stream *s);
void lk_cuda_graph_destroy(struct lk_graph *g);
/* Drop the graph that is being captured, if any. */
void lk_cuda_graph_abandon(struct cuda_device *g);
/* Submit functions for RECORD during capture, and for commands that cannot be captured. pre of
 * both: t is capturing. */
enum lk_status lk_cuda_graph_record(struct cuda_stream *t, const struct lk_stream_command *c);
enum lk_status lk_cuda_graph_refuse(struct cuda_stream *t, const struct lk_stream_command *c);
/* Return the event that was recorded into the graph as the stream's command `seq`, or NULL. pre:
 * points_lock is held. */
cudaEvent_t lk_cuda_graph_event(const struct cuda_stream *on, uint64_t seq);

#endif
