/*
 * Spans (timed events of a run), and the recorder that passes them from the runtime to sinks.
 *
 * The runtime emits spans through this header and knows no sink; profiler/ has the sinks and a
 * command attaches them before the first track is made. A track is one timeline (a thread or a
 * device stream) with one writer. Emitting takes no lock, allocates nothing and makes no system
 * call. A NULL track emits nothing, so that an uninstrumented run has the same code path.
 *
 *     struct lk_span s = lk_span_begin(track, LK_SPAN_INPUT, 0, step, -1);
 *     wait_for_batch();
 *     lk_span_end(track, &s);
 */
#ifndef LK_FACTS_SPAN_H
#define LK_FACTS_SPAN_H

#include "base/clock.h"
#include "base/status.h"
#include "base/words.h"

#include <stdbool.h>
#include <stdint.h>

/* X(kind, name in traces, Kineto category, meaning of `index`) */
#define LK_SPAN_LIST(X)                                                                            \
    X(LK_SPAN_STEP, "ProfilerStep", "user_annotation", "none")                                     \
    X(LK_SPAN_INPUT, "input", "user_annotation", "micro-batch")                                    \
    X(LK_SPAN_FORWARD, "forward", "user_annotation", "micro-batch")                                \
    X(LK_SPAN_BACKWARD, "backward", "user_annotation", "micro-batch")                              \
    X(LK_SPAN_OPTIMIZER, "optimizer", "user_annotation", "bucket, or -1: all")                     \
    X(LK_SPAN_SYNC, "synchronize", "cuda_runtime", "none")                                         \
    X(LK_SPAN_KERNEL, "kernel", "kernel", "bucket that a collective's kernel moves, else -1")      \
    X(LK_SPAN_COPY, "copy", "gpu_memcpy", "none")                                                  \
    X(LK_SPAN_MEMSET, "memset", "gpu_memset", "none")                                              \
    X(LK_SPAN_OVERHEAD, "overhead", "overhead", "none")                                            \
    X(LK_SPAN_COLLECTIVE, "collective", "kernel", "bucket, or -1")                                 \
    X(LK_SPAN_GRADIENT, "gradient", "cpu_instant_event", "tensor, in registration order")          \
    X(LK_SPAN_COUNTER, "counter", "counter", "none")                                               \
    X(LK_SPAN_BUCKET, "bucket", "user_annotation", "bucket")

enum lk_span_kind { LK_SPAN_LIST(LK_WORD_VALUE) LK_SPAN_KIND_COUNT };

/* Fixed size: 48 bytes; this is also the record of a span file (profiler/record/span_file.h). */
struct lk_span {
    uint64_t start_ns; /* lk_now_ns; for a collective: this rank's arrival */
    uint64_t end_ns;
    uint64_t ready_ns; /* for a collective: when the bucket was full; for work of a GPU: when it was
                          launched; else 0 */
    union {
        uint64_t bytes; /* payload of a collective, copy or memset; else 0 */
        double value;   /* of a counter */
    };
    uint32_t step; /* optimizer step, from 0 */
    int32_t index; /* see LK_SPAN_LIST; -1: none */
    uint32_t seq;  /* for a collective: its number on the communicator, from 0; for work of a GPU:
                      nanoseconds of the call that launched it; else 0 */
    uint16_t kind; /* enum lk_span_kind */
    uint16_t name; /* from lk_recorder_name; 0: the kind's own name */
};

/*
 * Special kinds. GRADIENT is an instant (start_ns == end_ns) on the compute track: the tensor's
 * gradient is final. COUNTER is a value of the step (loss, learning rate, gradient norms) on the
 * host track. OVERHEAD is time that the profiler or the driver took for itself, on a host track.
 * BUCKET is entered and left, but not emitted, by the thread that issues the work of a full bucket,
 * its collective included.
 *
 * Work on a GPU may be recorded without its step: LK_SPAN_STEP_UNKNOWN. The reader of span files
 * then assigns the step whose time range contains it.
 */
#define LK_SPAN_STEP_UNKNOWN UINT32_MAX

/*
 * X(kind, name): what a track shows. FORWARD, BACKWARD and OPTIMIZER ranges lie on the compute
 * stream's track; updates that run beside backward have a stream and a track of their own, with an
 * OPTIMIZER range a bucket. The loader's thread and the copy stream, on which batches go to a
 * device, work for steps to come: their INPUT ranges carry the step that gets the batch, and are no
 * part of the step's time. The GPU's own track has COUNTER spans alone, sampled: its clock, power
 * and the like.
 */
#define LK_TRACK_KIND_LIST(X)                                                                      \
    X(LK_TRACK_HOST, "host")                                                                       \
    X(LK_TRACK_COMPUTE, "compute")                                                                 \
    X(LK_TRACK_COMM, "comm")                                                                       \
    X(LK_TRACK_LOADER, "loader")                                                                   \
    X(LK_TRACK_COPY, "copy")                                                                       \
    X(LK_TRACK_GPU, "gpu")                                                                         \
    X(LK_TRACK_UPDATE, "update")

enum lk_track_kind { LK_TRACK_KIND_LIST(LK_WORD_VALUE) LK_TRACK_KIND_COUNT };

struct lk_track_info {
    const char *name; /* e.g. "compute stream"; borrowed for the call */
    enum lk_track_kind kind;
    int stream;       /* stream number, or thread number on the host */
    uint64_t n_spans; /* expected number; 0: the sink guesses by the kind */
};

/* A receiver of spans. One sink serves all tracks of a rank. */
struct lk_sink_ops {
    const char *name;
    /* Open a new track; *out_ctx goes to the calls below. Not in a timed region; may allocate. */
    enum lk_status (*track_open)(void *sink, const struct lk_track_info *info, void **out_ctx);
    /* (optional) Learn a new span name and its id. Not in a timed region. */
    enum lk_status (*name_added)(void *sink, uint16_t id, const char *name);
    /* (optional) Take a fact of the run that was not known when it was described (lk_run_info). Not
     * in a timed region. */
    enum lk_status (*fact)(void *sink, const char *key, const char *value);
    /*
     * (optional, both) This thread starts, and ends, issuing the work that s describes: it does the
     * work, or enqueues it on a device that runs it later. s has kind, name, step and index, no
     * times. Properly nested on a thread; a failure may leave some open. No lock, no allocation.
     */
    void (*enter)(void *track_ctx, const struct lk_span *s);
    void (*leave)(void *track_ctx, const struct lk_span *s);
    /* (optional) Take over an instant: that the device has done what was issued on the track so
     * far, the last of which was an op. True: this sink records it with its time, or need not. As
     * enter. */
    bool (*mark)(void *track_ctx, const struct lk_span *s);
    /* (optional) Record a complete span. No lock, no allocation, no system call. One thread a
     * track. */
    void (*emit)(void *track_ctx, const struct lk_span *s);
};

struct lk_recorder;
struct lk_track;

/* Create a recorder without sinks. */
enum lk_status lk_recorder_create(struct lk_recorder **out);
/* Free the recorder and its tracks, not the sinks. NULL is legal. No emission may follow. */
void lk_recorder_destroy(struct lk_recorder *r);

/*
 * Attach a sink (at most LK_SINKS_MAX) and tell it all names so far. `sink` outlives r.
 * LK_EINTERNAL when a track exists already: the sink would miss it.
 */
enum { LK_SINKS_MAX = 4 };
enum lk_status lk_recorder_attach(struct lk_recorder *r, const struct lk_sink_ops *ops, void *sink);

/* Create a track that the recorder owns. r NULL gives *out = NULL, a no-op track. Any thread. */
enum lk_status lk_recorder_track(struct lk_recorder *r, const struct lk_track_info *info,
                                 struct lk_track **out);

/* Return the id of a span name, the same for equal texts; from 1. r NULL gives 0. Any thread. */
enum lk_status lk_recorder_name(struct lk_recorder *r, const char *name, uint16_t *out_id);

/*
 * Tell the sinks a fact that was found out after the run was described: a pair of the run's
 * configuration, in place of one with that key. r NULL: nothing. Any thread.
 */
enum lk_status lk_recorder_fact(struct lk_recorder *r, const char *key, const char *value);

/* Pass a finished span to every sink. t NULL: nothing. */
void lk_span_emit(struct lk_track *t, const struct lk_span *s);

/* Tell the sinks that this thread starts, or ends, issuing the work of s. t NULL: nothing. */
void lk_span_enter(struct lk_track *t, const struct lk_span *s);
void lk_span_leave(struct lk_track *t, const struct lk_span *s);

/* Leave an instant to a sink that will know its time, as `mark` above says. False: nobody takes it,
 * and the caller finds out when it was. t NULL: false. */
bool lk_span_mark(struct lk_track *t, const struct lk_span *s);

/* Enter, and start a range at lk_now_ns(); t NULL gives a zero span and reads no clock. */
struct lk_span lk_span_begin(struct lk_track *t, enum lk_span_kind kind, uint16_t name,
                             uint32_t step, int32_t index);
/* Set end_ns to now, leave and emit. t NULL: nothing. */
void lk_span_end(struct lk_track *t, struct lk_span *s);

/* Emit a counter's value for a step, now. t NULL: nothing. */
void lk_span_counter(struct lk_track *t, uint16_t name, uint32_t step, double value);

/* Name and Kineto category of a kind, e.g. "input", "user_annotation". */
LK_WORDS_DECLARE(lk_span_kind, enum lk_span_kind);
const char *lk_span_kind_category(enum lk_span_kind kind);

#endif
