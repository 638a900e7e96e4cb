/* What the files of the writer and the reader of traces share. For base/trace*.c only. */
#ifndef LK_BASE_TRACE_FORMAT_H
#define LK_BASE_TRACE_FORMAT_H

#include "base/json.h"
#include "base/trace.h"

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

enum lk_trace_key {
#define LK_TRACE_KEY_ENUM_(constant, key, meaning) constant,
    LK_TRACE_KEY_LIST(LK_TRACE_KEY_ENUM_)
#undef LK_TRACE_KEY_ENUM_
        LK_TRACE_KEY_COUNT
};

extern const char *const lk_trace_keys[LK_TRACE_KEY_COUNT];

/* Ids of names and numbers of tracks have 16 bits. */
enum { LK_TRACE_IDS_MAX = UINT16_MAX };

/* ---- Reading ---- */

/* What the file says of one rank. */
struct lk_trace_rank_in {
    struct lk_trace trace; /* but its spans */
    uint64_t n_spans;      /* announced */
};
/* Reads the object "lockstep"; *out freed by lk_trace_ranks_free. */
enum lk_status lk_trace_read_header(struct lk_json *v, bool *out_merged,
                                    struct lk_trace_rank_in **out, size_t *out_n);
void lk_trace_ranks_free(struct lk_trace_rank_in *ranks, size_t n);

/* ready_ns 0 means none, and file time 0 is a time: this marks "none" until the base is known. */
#define LK_TRACE_NO_READY ((uint64_t)INT64_MIN)

/*
 * An event, where it is a span of ours. Its times are file time: int64_t ns in the fields of the
 * span. A key with our prefix that we do not know is an error.
 */
enum lk_status lk_trace_read_event(struct lk_json *event, bool *out_ours, int *out_rank,
                                   struct lk_trace_span *out);

/* ---- Writing ---- */

/* A step's range on the host, file time. */
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
    bool *has_kernels; /* of each track: its stream has KERNEL spans */
    uint32_t launch_track;
};

struct lk_trace_out {
    struct lk_json_out *o;
    uint64_t base_ns;
    uint64_t correlation;
    struct lk_trace_rank_out *ranks;
    size_t n_ranks;
};

/* A rank's local time in the file: ns since base_ns; may be negative. */
int64_t lk_trace_file_ns(const struct lk_trace_out *f, const struct lk_trace_rank_out *r,
                         uint64_t local_ns);
/* ns as microseconds with three decimals. */
void lk_trace_put_us(struct lk_json_out *o, const char *key, int64_t ns);
/* The array "traceEvents" (trace_event.c). */
enum lk_status lk_trace_write_events(struct lk_trace_out *f);

#endif
