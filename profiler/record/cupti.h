/*
 * Record the work that a GPU ran: CUPTI's activity records become spans of the recorder.
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
 * It is a sink and a source. As a sink it learns from enter and leave what a thread issues, and
 * pushes that as CUPTI's external correlation id, so that a record can be attributed to an op, step
 * and bucket. As a source it emits, on a track of its own beside each stream's ("compute stream,
 * GPU records"):
 *
 *   KERNEL    name "OP: KERNEL", or the kernel's alone where that has the op's name in it; index:
 *             the bucket, where a collective launched it
 *   COPY      name HtoD, DtoH, DtoD, ..., bytes
 *   MEMSET    bytes
 *   GRADIENT  an instant that the device left to the records (lk_span_mark): the end of the last
 *             kernel of the op before it. The first ones it does not
 * (profiler/record/cupti_marks.h)
 *
 * and on a host track "CUDA calls": OVERHEAD. Times are lk_now_ns: CUPTI maps the GPU's clock to
 * its own, and we map CUPTI's to ours (profiler/record/cupti_clock.h says why not by
 * cuptiActivityRegisterTimestampCallback).
 *
 * Kernels that NCCL launches on threads of its own carry no id (non-blocking communicators do
 * that). They belong to the collective that was being issued at the time of the launch
 * (profiler/record/cupti_clock.h): CUPTI's record of the launch has the kernel's correlation id and
 * the time. Where that record is missing, the kernel has step LK_SPAN_STEP_UNKNOWN, the reader of
 * span files assigns it by its own time, and it is counted. NCCL's work outside any bucket is
 * treated likewise, but not counted. All records have the same fields at the same offsets in CUPTI
 * 9 to 13; a newer major version is refused.
 *
 * Work before the recorder's first track was made is not recorded, nor is work after a STEP span
 * of end_step was entered: what ended before is complete, since a step ends when its work has.
 * CUPTI itself is switched off by the thread that fetches, within its period. It is on from the
 * start, before CUDA, since what it is asked for later it may not see (graphs, calls chosen by id).
 *
 * Buffers come from one pool for all threads: CUPTI 13's default, one pool for each thread, would
 * fill it with buffers of the threads that NCCL starts for every collective. Without a free one
 * CUPTI drops records and counts them, and so do we; CUPTI before 12.9 would crash, and gets more.
 * A thread of the session fetches complete records every second; what is in a buffer with an
 * incomplete one comes when it is full, or when the session is closed. CUPTI's
 * callbacks carry no context, so
 * there is one session a process, and one a recorder, which gets no spans from it after it is
 * closed.
 */
#ifndef LK_PROFILER_RECORD_CUPTI_H
#define LK_PROFILER_RECORD_CUPTI_H

#include "base/clock.h"
#include "base/status.h"
#include "facts/run_facts.h"
#include "facts/span.h"

#include <stddef.h>
#include <stdint.h>

/*
 * Counts of records; closing emits each as a counter into the trace.
 * X(field, counter, missing, text): missing 1: the records are not in the trace, and closing warns
 * of them. The text, where there is one, continues "N records" for the user: in that warning and in
 * the findings of analyze.
 */
#define LK_CUPTI_COUNT_LIST(X)                                                                     \
    X(records, "GPU records", 0, "")                 /* that became spans */                       \
    X(unmatched, "GPU records without an op", 0, "") /* of these: nothing of ours issued */        \
    X(by_time, "GPU records placed by time", 0,      /* of these */                                \
      "of NCCL's kernels have step and bucket by their time alone")                                \
    X(dropped, "GPU records dropped", 1, "were dropped by CUPTI, which had no free buffer")        \
    X(untimed, "GPU records without times", 1, "had no times")                                     \
    X(broken, "GPU records broken", 1, "were cut off or on no clock")                              \
    X(unknown, "GPU records unknown", 1, "are of kinds that nobody asked for")                     \
    X(lost, "GPU records lost", 1, "found no memory or no track")                                  \
    X(timeless, "gradients without a time", 1,                                                     \
      "of kernels that make gradients may be missing: these have no time in their step")

struct lk_cupti_counts {
#define LK_CUPTI_COUNT_MEMBER_(field, counter, missing, text) uint64_t field;
    LK_CUPTI_COUNT_LIST(LK_CUPTI_COUNT_MEMBER_)
#undef LK_CUPTI_COUNT_MEMBER_
};

struct lk_cupti;
struct lk_cupti_calls;

struct lk_cupti_config {
    struct lk_recorder *recorder;       /* borrowed, outlives the session */
    const struct lk_cupti_calls *calls; /* for tests; NULL: the library's, found at run time */
    size_t buffer_bytes, buffers;       /* buffers of the pool: size, maximum number; 0: defaults */
    uint64_t fetch_ns;                  /* period in which records are fetched; 0: a second */
    uint32_t end_step;                  /* from this step on nothing is recorded; 0: all is */
};

/*
 * Load CUPTI and start recording. LK_EUNSUPPORTED, with a remedy in the text: no library, an
 * unknown version, no permission, another profiler is attached. LK_EINTERNAL: a session is open.
 */
enum lk_status lk_cupti_open(const struct lk_cupti_config *config, struct lk_cupti **out);

/* The sink's table; the struct lk_cupti is the sink. */
extern const struct lk_sink_ops lk_cupti_ops;

/* Return "CUPTI API 130001, FILE, calls by id", or "..., all calls" where the library cannot choose
 * API calls, or gives kernels no ids then: the trace is told of the latter (lk_recorder_fact). */
const char *lk_cupti_text(const struct lk_cupti *g);

/*
 * Fetch CUPTI's last records, stop it, emit the counters and warn of missing records. pre: the
 * streams are idle, and nothing is issued any more. NULL is legal. LK_ETIMEOUT if CUPTI does not
 * return its buffers in time; they stay allocated then. out (optional) is always written.
 */
enum lk_status lk_cupti_close(struct lk_cupti *g, struct lk_deadline deadline,
                              struct lk_cupti_counts *out);

#endif
