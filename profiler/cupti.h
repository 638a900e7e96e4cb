/*
 * What a GPU really ran: CUPTI's activity records become spans of the recorder.
 *
 *     struct lk_cupti *g = NULL;
 *     LK_TRY(lk_recorder_create(&recorder));
 *     LK_TRY(lk_cupti_open(&(struct lk_cupti_config){.recorder = recorder}, &g));   before CUDA
 *     LK_TRY(lk_recorder_attach(recorder, &lk_cupti_ops, g));
 *     ... other sinks; the run ...
 * out:
 *     LK_KEEP(lk_cupti_close(g, lk_deadline_in(10 * LK_NS_PER_S), &counts));
 *     lk_recorder_destroy(recorder);
 *
 * It is a sink and a source. As a sink it hears what a thread issues (enter, leave) and pushes that
 * as CUPTI's external correlation id, so that a record tells which op, step and bucket it was for.
 * As a source it emits, on a track of its own beside each stream's ("compute stream, GPU records"):
 *
 *   KERNEL    name "OP: KERNEL", or the kernel's alone where that has the op's name in it; index:
 *             the bucket, where a collective launched it
 *   COPY      name HtoD, DtoH, DtoD, ..., bytes
 *   MEMSET    bytes
 *
 * and on a host track "CUDA calls": SYNC (waits of LK_CUPTI_SYNC_NS and more) and OVERHEAD. Times
 * are lk_now_ns: CUPTI maps the GPU's clock to its own, and we its own to ours
 * (profiler/cupti_clock.h says why not by cuptiActivityRegisterTimestampCallback).
 *
 * What NCCL launches on threads of its own carries no id (communicators that do not block do that).
 * It belongs to the collective that was being issued when it was launched (profiler/cupti_turns.h):
 * CUPTI's record of the launch has the kernel's correlation id and the time. Where
 * that record is missing, the kernel has step LK_SPAN_STEP_UNKNOWN, the reader of span files places
 * it by its own time, and it is counted. So is, but for the counting, what NCCL ran for nobody's
 * bucket. All records have the same fields at the same places in CUPTI 9 to 13; a newer major
 * version is refused.
 *
 * What ran before the recorder's first track was made is not recorded.
 *
 * Buffers come from a pool, for all threads together: CUPTI 13's default, one for each thread,
 * would fill it with those of the threads that NCCL starts for every collective. Without a free one
 * CUPTI drops records, counts them, and so do we; CUPTI before 12.9 would crash, and gets more.
 * CUPTI's thread delivers full buffers; the rest comes when the session is closed. CUPTI's
 * callbacks carry no context: one session a process, and one a recorder, which hears nothing from
 * it once it is closed.
 */
#ifndef LK_PROFILER_CUPTI_H
#define LK_PROFILER_CUPTI_H

#include "base/clock.h"
#include "base/span.h"
#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

/* Shorter waits are queries of events, of which a run makes thousands. */
#define LK_CUPTI_SYNC_NS (5 * LK_NS_PER_US)

#define LK_CUPTI_DROPPED "GPU records dropped"
#define LK_CUPTI_UNTIMED "GPU records without times"
#define LK_CUPTI_BROKEN  "GPU records broken"
#define LK_CUPTI_LOST    "GPU records lost"
#define LK_CUPTI_BY_TIME "GPU records placed by time"

/* Closing emits a counter of each into the trace. X(field, counter, meaning) */
#define LK_CUPTI_COUNT_LIST(X)                                                                     \
    X(records, "GPU records", "kernels, copies and memsets that became spans")                     \
    X(unmatched, "GPU records without an op", "of these: nothing of ours issued them")             \
    X(by_time, LK_CUPTI_BY_TIME,                                                                   \
      "of these: NCCL's, and CUPTI did not tell when they were launched")                          \
    X(dropped, LK_CUPTI_DROPPED, "lost by CUPTI: no buffer was free")                              \
    X(untimed, LK_CUPTI_UNTIMED, "left out: CUPTI had no times for them")                          \
    X(broken, LK_CUPTI_BROKEN, "left out: cut off, or times that cannot be")                       \
    X(unknown, "GPU records unknown", "left out: kinds that nobody asked for")                     \
    X(lost, LK_CUPTI_LOST, "left out: no memory or no track for them")

/* Of a run's configuration in the trace: lk_cupti_text, or "none: REASON" on a GPU without records.
 */
#define LK_CUPTI_CONFIG_KEY "gpu_records_by"

struct lk_cupti_counts {
#define LK_CUPTI_COUNT_MEMBER_(field, counter, meaning) uint64_t field; /* meaning */
    LK_CUPTI_COUNT_LIST(LK_CUPTI_COUNT_MEMBER_)
#undef LK_CUPTI_COUNT_MEMBER_
};

struct lk_cupti;
struct lk_cupti_calls;

struct lk_cupti_config {
    struct lk_recorder *recorder;       /* borrowed, outlives the session */
    const struct lk_cupti_calls *calls; /* for tests; NULL: the library's, found at run time */
    size_t buffer_bytes, buffers;       /* of the pool, and how many at most; 0: usual ones */
};

/*
 * Finds CUPTI and starts recording. LK_EUNSUPPORTED, with what would help: no library, a version
 * that is not known, no permission, another profiler is attached. LK_EINTERNAL: a session is open.
 */
enum lk_status lk_cupti_open(const struct lk_cupti_config *config, struct lk_cupti **out);

/* The sink's table; the struct lk_cupti is the sink. */
extern const struct lk_sink_ops lk_cupti_ops;

/* "CUPTI API 130001, FILE". */
const char *lk_cupti_text(const struct lk_cupti *g);

/*
 * Takes what CUPTI still has, stops it, emits the counters and warns of what is missing. pre: the
 * streams are idle, and nothing is issued any more. NULL is legal. LK_ETIMEOUT when CUPTI does not
 * hand its buffers over in time; they stay where they are then. out (optional) is always written.
 */
enum lk_status lk_cupti_close(struct lk_cupti *g, struct lk_deadline deadline,
                              struct lk_cupti_counts *out);

#endif
