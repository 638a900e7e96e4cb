/* Format details shared by the writer and the reader of traces. For base/trace*.c only. */
#ifndef LK_BASE_TRACE_FORMAT_H
#define LK_BASE_TRACE_FORMAT_H

#include "base/json.h"
#include "base/trace.h"
#include "base/words.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LK_TRACE_SCHEMA  "lockstep-trace"
#define LK_TRACE_VERSION 1

/* X(constant, key, meaning): keys of our own in an event or its args. */
#define LK_TRACE_KEY_LIST(X)                                                                       \
    X(LK_TRACE_KIND, "lk_kind", "lk_span_kind_name")                                               \
    X(LK_TRACE_STEP, "lk_step", "optimizer step")                                                  \
    X(LK_TRACE_INDEX, "lk_index", "see LK_SPAN_LIST; absent: -1")                                  \
    X(LK_TRACE_NAME, "lk_name", "id of the name; absent: 0")                                       \
    X(LK_TRACE_BYTES, "lk_bytes", "payload; absent: 0")                                            \
    X(LK_TRACE_READY, "lk_ready_us", "bucket full, like ts; absent: 0")                            \
    X(LK_TRACE_SEQ, "Seq", "number on the communicator; absent: 0")                                \
    X(LK_TRACE_BACKEND, "lk_backend", "what carried a collective")                                 \
    X(LK_TRACE_SYNTHETIC, "lk_synthetic", "true: not measured")

enum lk_trace_key { LK_TRACE_KEY_LIST(LK_WORD_VALUE) LK_TRACE_KEY_COUNT };

extern const char *const lk_trace_keys[LK_TRACE_KEY_COUNT];

/* Name ids and track numbers have 16 bits. */
enum { LK_TRACE_IDS_MAX = UINT16_MAX };

/* ---- Reading ---- */

/* One rank of a trace, as the object "lockstep" describes it. */
struct lk_trace_rank_in {
    struct lk_trace trace; /* everything but its spans */
    uint64_t n_spans;      /* number announced in the header */
};
/* The object "lockstep". */
struct lk_trace_header {
    bool merged;
    struct lk_trace_rank_in *ranks;
    size_t n_ranks;
};
extern const struct lk_record lk_trace_header_record; /* of struct lk_trace_header */

/* ---- Writing ---- */

/* A step's range on the host, in file time. */
struct lk_trace_step {
    uint32_t step;
    int64_t start_ns, end_ns;
    uint32_t track;
};

/* One rank while it is written. */
struct lk_trace_rank_out {
    const struct lk_trace *t;
    bool on_reference; /* apply the clock fit: times become rank 0's */
    uint64_t base_epoch_ns, base_local_ns;
    struct lk_trace_step *steps; /* by step */
    size_t n_steps;
    bool *has_kernels; /* for each track: its stream has KERNEL spans */
    uint32_t launch_track;
};

struct lk_trace_out {
    struct lk_json_out *o;
    uint64_t base_ns;
    uint64_t correlation;
    struct lk_trace_rank_out *ranks;
    size_t n_ranks;
};

/* Convert a rank's local time to file time: ns since base_ns; may be negative. */
int64_t lk_trace_file_ns(const struct lk_trace_out *f, const struct lk_trace_rank_out *r,
                         uint64_t local_ns);
/* Write ns as microseconds with three decimals. */
void lk_trace_put_us(struct lk_json_out *o, const char *key, int64_t ns);
/* Write the array "traceEvents" (trace_event.c). */
enum lk_status lk_trace_write_events(struct lk_trace_out *f);

#endif
