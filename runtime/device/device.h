/*
 * Devices: memory, streams and events. One interface over CPU threads, timed waits and CUDA
 * streams; reducer, trainer and recorder are written once against it.
 *
 * A stream runs enqueued work in order, asynchronously to the host; streams run concurrently. An
 * event marks a point of a stream; another stream or the host can wait for it. The first failure on
 * any stream makes the device fail for good: later work on the device is skipped, and every sync
 * returns that failure.
 *
 *   cpu        a stream is a thread; ops run in float32 (lk_op.cpu), or on buffers of bfloat16 or
 *              float16, where they round each result once (kernels/narrow.h)
 *   timed      a stream is a thread; an op waits, to an absolute deadline, for as long as its cost
 *              takes at the device's rates. Host functions (collectives) and copies run for real.
 *   cuda       a stream is a CUDA stream; float32 with tf32 products, or bfloat16 or float16
 *              (lk_op.cuda).
 *              Builds with CUDA only. Host memory is not device memory: only copies may name both,
 *              and they are asynchronous for memory of lk_device_alloc_host.
 *   reference  no threads: work runs at once on the caller, ops in float64 (lk_op.ref)
 *
 * Thread rule: the thread that opened a device drives it. On cuda another thread may drive a stream
 * of its own, after lk_device_attach: copies, ranges, events and their waits, no ops. Two threads
 * that use one event must hand it over under a lock of theirs. Host functions run on the stream's
 * thread. Any thread may call lk_device_fail, lk_device_status and lk_event_time_ns.
 *
 * A stream holds a bounded number of commands; enqueuing on a full one waits until there is room or
 * the device fails. That wait needs no deadline: ops end by themselves and host functions have
 * deadlines. After a failure waits return at once, though a host function may still run: only
 * lk_stream_destroy guarantees that a stream is done with its buffers.
 */
#ifndef LK_RUNTIME_DEVICE_H
#define LK_RUNTIME_DEVICE_H

#include "base/clock.h"
#include "base/status.h"
#include "facts/cluster.h"
#include "facts/dtype.h"
#include "facts/span.h"
#include "kernels/ops.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lk_cuda_calls;
struct lk_device;
struct lk_run_info;
struct lk_stream;
struct lk_event;

struct lk_device_config {
    struct lk_recorder *recorder; /* borrowed, outlives the device; NULL: nothing is recorded */
    enum lk_dtype
        real; /* type of lk_real; LK_F32: the device's default; LK_BF16, LK_F16 where supported */
    int local_rank;   /* cuda: chooses the GPU */
    bool share_gpu;   /* cuda: allow several ranks on one GPU; timings are meaningless then */
    bool brief;       /* cuda: closing the device resets it: this process needs the GPU no more */
    uint64_t hang_ns; /* cuda: limit for the GPU to answer, also on close; 0: 10 s */
    enum lk_attention attention; /* cuda: whose kernels run attention */
    bool deterministic;          /* cuda: equal inputs give equal bits, also in cuDNN's attention */
    const struct lk_cuda_calls *cuda_calls; /* cuda: for tests; NULL: CUDA's own */
    double timed_flops;                     /* timed: flop/s of an op; > 0 */
    double timed_Bps;                       /* timed: bytes/s of an op; > 0 */
    double slowdown; /* timed: every op takes this many times as long; 1: as modelled */
};

/* X(CONSTANT, name): the devices that users may ask for by name, in every build. */
#define LK_DEVICE_LIST(X) X(CPU, "cpu") X(TIMED, "timed") X(CUDA, "cuda")
/* Return true if this build has the device. */
bool lk_device_built(const char *name);

/* Open "cpu", "timed", "reference" or "cuda". LK_EUNSUPPORTED names the devices of this build. */
enum lk_status lk_device_open(const char *name, const struct lk_device_config *config,
                              struct lk_device **out);
/* Close the device. pre: its streams and events are destroyed. NULL is legal. */
void lk_device_close(struct lk_device *d);
const char *lk_device_name(const struct lk_device *d);
/* Return the element type of lk_real buffers: LK_F64 on reference, else what was asked for. */
enum lk_dtype lk_device_real_dtype(const struct lk_device *d);
/* Return the element size of lk_real buffers. */
size_t lk_device_real_bytes(const struct lk_device *d);
/* Return the element size of lk_wide buffers: that of lk_real, but never below 4. */
size_t lk_device_wide_bytes(const struct lk_device *d);

/* Properties of a device, for files and messages; 0, "" and unknown where the device has none. */
struct lk_device_properties {
    char name[256];
    int compute_capability; /* CUDA's, 90 for 9.0 */
    uint64_t memory_bytes;
    int multiprocessors;
    int gpus;              /* GPUs that this process sees */
    enum lk_gpu_link link; /* the link between them */
};
enum lk_status lk_device_properties(const struct lk_device *d, struct lk_device_properties *out);
/* Count the devices of a kind that this process sees, without opening one: GPUs for "cuda", else 1.
 * Name and config are as for lk_device_open. */
enum lk_status lk_device_count(const char *name, const struct lk_device_config *config, int *out);

/* Return true if ops can use host memory; else their inputs must go through lk_stream_copy. */
bool lk_device_uses_host_memory(const struct lk_device *d);
/* Return true if attention keeps log_sum for backward (kernels/ops.h), not probs. */
bool lk_device_keeps_log_sum(const struct lk_device *d);
/* Return true if it saves the device time when an op does the work of several. */
bool lk_device_fuses(const struct lk_device *d);

/*
 * Return the unit roundoff of the factors of matrix products: 2^-24 for float32, 2^-10 for float32
 * on cuda, whose products are tf32, 2^-8 for bfloat16, 2^-11 for float16, 2^-53 on reference. Sums
 * are float32 or wider.
 */
double lk_device_unit_roundoff(const struct lk_device *d);
/* Add the machine's properties (on cuda: GPU, driver, CUDA) to a run's configuration. */
enum lk_status lk_device_describe(const struct lk_device *d, struct lk_run_info *info);
/* Return by how much the device's times may be off on the host's clock; 0 for a device of the
 * host's. */
uint64_t lk_device_clock_error_ns(const struct lk_device *d);
/* Decide whose kernels run attention of a shape, and say it as lk_cuda_dnn_choose does; with
 * `ask`, only say what is expected, as lk_cuda_dnn_ask does. "" on a device without a choice. */
enum lk_status lk_device_attention(const struct lk_device *d,
                                   const struct lk_attention_shape *shape, bool ask,
                                   char text[LK_ATTENTION_TEXT]);
/* Prepare the calling thread, which did not open d, to drive a stream of it. */
enum lk_status lk_device_attach(struct lk_device *d);

/* Allocate zeroed, 64-byte aligned device memory. */
enum lk_status lk_device_alloc(struct lk_device *d, size_t bytes, void **out);
void lk_device_free(struct lk_device *d, void *p); /* NULL is legal */

/* Allocate and free zeroed host memory that the device copies from and to at full speed and
 * asynchronously to the host (page-locked on cuda). It is not device memory. */
enum lk_status lk_device_alloc_host(struct lk_device *d, size_t bytes, void **out);
void lk_device_free_host(struct lk_device *d, void *p);

/* Create a stream with its own track (info is copied). */
enum lk_status lk_stream_create(struct lk_device *d, const struct lk_track_info *info,
                                struct lk_stream **out);
/* Finish the command that is running, drop those still queued, and destroy. NULL is legal. */
void lk_stream_destroy(struct lk_stream *s);
struct lk_device *lk_stream_device(struct lk_stream *s);
struct lk_track *lk_stream_track(struct lk_stream *s);

/* Set the optimizer step written into the spans of work enqueued from now on. */
void lk_stream_set_step(struct lk_stream *s, uint32_t step);
uint32_t lk_stream_step(const struct lk_stream *s);

/* Return the backend's handle of the stream: cudaStream_t on cuda, NULL on others. */
void *lk_stream_native(struct lk_stream *s);

/* Enqueue an op; args (op->args_bytes) are copied. Emits a KERNEL span when it has run. */
enum lk_status lk_stream_launch(struct lk_stream *s, const struct lk_op *op, const void *args);

/* Enqueue a host function with a copy of arg (at most LK_OP_ARGS_MAX bytes). It runs in stream
 * order on the stream's thread; its failure becomes the device's. It emits its own spans. */
typedef enum lk_status (*lk_host_fn)(struct lk_stream *s, const void *arg);
enum lk_status lk_stream_host(struct lk_stream *s, lk_host_fn fn, const void *arg, size_t bytes);

/* Enqueue the start and the end of a range (FORWARD, BACKWARD, OPTIMIZER), timed on the stream.
 * Ranges of a stream do not nest. */
enum lk_status lk_stream_range_begin(struct lk_stream *s, enum lk_span_kind kind, int32_t index);
enum lk_status lk_stream_range_end(struct lk_stream *s);
/* As lk_stream_range_begin, with every field of the span but its times and step (the step is the
 * stream's). ready (optional): the time of this event's last recorded point becomes ready_ns. */
enum lk_status lk_stream_span_begin(struct lk_stream *s, const struct lk_span *span,
                                    struct lk_event *ready);
/* Enqueue an instant (GRADIENT), timed on the stream. */
enum lk_status lk_stream_mark(struct lk_stream *s, enum lk_span_kind kind, int32_t index);

/* Enqueue a copy between device buffers, or host and device. Both must stay valid until it has
 * run. */
enum lk_status lk_stream_copy(struct lk_stream *s, void *to, const void *from, size_t bytes);

/* Wait until all enqueued work has run. Return the device's first failure, or LK_ETIMEOUT. */
enum lk_status lk_stream_sync(struct lk_stream *s, struct lk_deadline deadline);

enum lk_status lk_event_create(struct lk_device *d, struct lk_event **out);
void lk_event_destroy(struct lk_event *e); /* NULL is legal; so is an event not yet passed */
/* Record the event after all work enqueued on s so far. Recording again moves the event. */
enum lk_status lk_event_record(struct lk_event *e, struct lk_stream *s);
/* Make work enqueued on s from now on run after the event's last recorded point; recording the
 * event again does not change that. An event never recorded counts as passed. */
enum lk_status lk_stream_wait(struct lk_stream *s, struct lk_event *e);
enum lk_status lk_event_sync(struct lk_event *e, struct lk_deadline deadline);
/* Return the time (lk_now_ns) at which the last recorded point was passed. pre: it was passed. */
uint64_t lk_event_time_ns(struct lk_event *e);

/*
 * A graph: work that is captured once and then launched repeatedly as a whole, with the same
 * arguments. Not all devices have graphs.
 *
 * Between begin and end, work enqueued on s is captured instead of run, and so is work on any
 * stream once it waits for an event that was recorded in the graph; s must wait for every such
 * stream before the end. Ops and copies (from and to page-locked memory) can be captured; ranges
 * and marks are left out; host functions, waits of the host and waits for events recorded before
 * are errors. An event recorded in the graph counts as passed after its end: record it again. Run
 * the same work once before, because lazy initialisation is not possible during capture.
 *
 * After an error in between, call end all the same: it fails too, or makes an incomplete graph.
 * Destroying a captured stream drops the graph. pre: one capture at a time on a device; no thread
 * allocates or frees memory of the device meanwhile.
 */
struct lk_graph;
bool lk_device_has_graphs(const struct lk_device *d);
enum lk_status lk_graph_begin(struct lk_stream *s);
enum lk_status lk_graph_end(struct lk_stream *s, struct lk_graph **out);
/* Enqueue the whole graph on s: it begins after earlier work on s, and ends before later work. */
enum lk_status lk_graph_launch(struct lk_graph *g, struct lk_stream *s);
/* Destroy a graph. pre: its launches have run, and its device is open. NULL is legal. */
void lk_graph_destroy(struct lk_graph *g);

/* Make the device fail, from any thread: streams stop as soon as they can. The first failure
 * wins. */
void lk_device_fail(struct lk_device *d, enum lk_status st, const char *text);
/* Return LK_OK, or the device's first failure (its text becomes this thread's). */
enum lk_status lk_device_status(struct lk_device *d);

/* Launch an op with a literal of its arguments: LK_LAUNCH(s, gelu_forward, .n = n, ...). */
#define LK_LAUNCH(stream, name, ...)                                                               \
    lk_stream_launch((stream), &lk_op_##name, &(struct lk_##name##_args){__VA_ARGS__})

#endif
