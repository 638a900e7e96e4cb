/* Define what the writer and the reader of traces share: the keys of events and the header. For
 * facts/trace*.c only. */
#ifndef LK_FACTS_TRACE_FORMAT_H
#define LK_FACTS_TRACE_FORMAT_H

#include "base/words.h"
#include "facts/trace.h"

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
    X(LK_TRACE_READY, "lk_ready_us", "bucket full, or launched, like ts; absent: 0")               \
    X(LK_TRACE_SEQ, "Seq", "number on the communicator; absent: 0")                                \
    X(LK_TRACE_CALL, "lk_call_ns", "duration of the call that launched it; absent: 0")             \
    X(LK_TRACE_BACKEND, "lk_backend", "what carried a collective")                                 \
    X(LK_TRACE_SYNTHETIC, "lk_synthetic", "true: not measured")

enum lk_trace_key { LK_TRACE_KEY_LIST(LK_WORD_VALUE) LK_TRACE_KEY_COUNT };

extern const char *const lk_trace_keys[LK_TRACE_KEY_COUNT];

/* Name ids and track numbers have 16 bits. */
enum { LK_TRACE_IDS_MAX = UINT16_MAX };

/* The object "lockstep". */
struct lk_trace_header {
    bool merged;
    struct lk_trace *ranks; /* all but their spans; n_spans is the number in the file */
    size_t n_ranks;
};
extern const struct lk_record lk_trace_header_record; /* of struct lk_trace_header */

#endif
