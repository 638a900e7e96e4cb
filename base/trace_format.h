/* Names that the writer and the reader of traces share. For base/trace*.c only. */
#ifndef LK_BASE_TRACE_FORMAT_H
#define LK_BASE_TRACE_FORMAT_H

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

static const char *const lk_trace_keys[LK_TRACE_KEY_COUNT] = {
#define LK_TRACE_KEY_ROW_(constant, key, meaning) key,
    LK_TRACE_KEY_LIST(LK_TRACE_KEY_ROW_)
#undef LK_TRACE_KEY_ROW_
};

#endif
