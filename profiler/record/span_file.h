/*
 * The file sink: spans of one rank in one mapped file, rank%d.spans, which survives SIGKILL.
 *
 *     struct lk_span_file *f = NULL;
 *     LK_TRY(lk_span_file_create(path, &info, n_spans, &f));
 *     LK_TRY(lk_recorder_attach(recorder, &lk_span_file_ops, f));
 *     ... lk_span_file_clock(f, LK_CLOCK_START, samples, n); the run; LK_CLOCK_END ...
 * out:
 *     if (st != LK_OK)
 *         lk_span_file_fail(f, lk_error_text());
 *     lk_recorder_destroy(recorder);
 *     LK_KEEP(lk_span_file_close(f));
 *
 * lk_spans_read reads it back. The file lives between the two on one machine: it is in the
 * machine's own byte order, and no program reads another version than its own.
 *
 * Layout: struct lk_span_file_header (page-aligned size), then segments, page-aligned, in the order
 * in which tracks needed them: LK_SPAN_FILE_SEGMENT records each, or all of a smaller ring. Record
 * i of a track is at place i % capacity, which is in its segment number place /
 * LK_SPAN_FILE_SEGMENT. `head` counts the records ever written and is stored, with release order,
 * after the record. So whatever moment the process dies at, records head - capacity .. head - 1 are
 * whole, except that the oldest may be half overwritten (its place is where the next one goes).
 * When a ring wraps, the newest spans survive, and head - capacity of them are lost and counted.
 *
 * Emitting costs a copy of 48 bytes and one atomic store. The file grows while it is written: when
 * half a segment is left, a thread is woken (one system call in LK_SPAN_FILE_SEGMENT spans), which
 * reserves the next one on disk (posix_fallocate), maps it and touches its pages. A writer that
 * is faster makes its own segment. A full disk is an error of lk_span_file_status, spans are lost
 * from then on, and there is never a SIGBUS. Closing cuts the file behind the last record; of a
 * process that was killed it has at most a segment a track too many.
 */
#ifndef LK_PROFILER_RECORD_SPAN_FILE_H
#define LK_PROFILER_RECORD_SPAN_FILE_H

#include "base/clockfit.h"
#include "base/status.h"
#include "facts/span.h"
#include "facts/trace.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lk_span_file;

/*
 * Create the file (over an old one) and write the rank's description. n_spans: spans expected on a
 * compute track, e.g. steps * spans a step. Its ring gets that many slots, and other tracks an
 * eighth, because they have spans per step or bucket and not per op, unless a track states its own
 * expected number; rounded up to a power of two between 2^10 and 2^20. The file gets its name when
 * the header is complete.
 */
enum lk_status lk_span_file_create(const char *path, const struct lk_run_info *info,
                                   uint64_t n_spans, struct lk_span_file **out);
/* The sink's table: attach it with the struct lk_span_file as sink. */
extern const struct lk_sink_ops lk_span_file_ops;

/*
 * Store round trips to rank 0's clock, measured when the run starts and when it ends; of each the
 * LK_SPAN_FILE_SAMPLES with the shortest round trips are kept. Calling again for the same moment
 * replaces them. Rank 0 needs none.
 */
enum lk_clock_moment { LK_CLOCK_START, LK_CLOCK_END, LK_CLOCK_MOMENTS };
enum lk_status lk_span_file_clock(struct lk_span_file *f, enum lk_clock_moment moment,
                                  const struct lk_clock_sample *samples, size_t n);
/* Store why the run stopped; the first text stays. f NULL: nothing. Any thread. */
void lk_span_file_fail(struct lk_span_file *f, const char *text);
/* Return LK_OK, or the LK_EIO of a file that could not grow: spans are being lost. f NULL: LK_OK.
 * Any thread. */
enum lk_status lk_span_file_status(const struct lk_span_file *f);
/*
 * Store why the process ends at once, and cut the file to what was written. Other threads may go on
 * emitting: what they emit is lost. Safe in a signal handler. pre: the process ends without another
 * call for f.
 */
void lk_span_file_abandon(struct lk_span_file *f, const char *text);
/*
 * Mark the file complete (unless lk_span_file_fail was called), cut, unmap and free it. NULL is
 * legal. LK_EIO of a file that could not grow. pre: nothing is emitted any more.
 */
enum lk_status lk_span_file_close(struct lk_span_file *f);

/* ---- Reading ---- */

/* Return true for the name of a rank's span file, rank*.spans. */
bool lk_span_file_is_named(const char *name);

/*
 * Read one rank's span file. A file whose writer was killed or failed gives all complete spans,
 * with out->truncated set. Nothing in the file is trusted: LK_EPARSE unless it is a whole span file
 * of this machine, LK_EIO while its writer still holds it open.
 *
 * The clock is fitted from the round trips in the file. Rank 0 is the reference; another rank
 * without samples (it died before they were exchanged) gets the identity with uncertainty
 * LK_CLOCK_UNKNOWN_NS. Spans without a step get the step whose time contains them
 * (lk_spans_assign_step).
 */
enum lk_status lk_spans_read(const char *path, struct lk_trace *out);

/*
 * Read the last spans of a file whose writer may be at work: of each ring `most` records, but those
 * that it writes over meanwhile. *written: the writer is there. Failures are those of
 * lk_spans_read, and LK_EPARSE also while the writer lays out a new segment: read again.
 */
enum lk_status lk_spans_read_live(const char *path, uint64_t most, struct lk_trace *out,
                                  bool *written);

/*
 * Assign a step to GPU records without one (LK_SPAN_STEP_UNKNOWN): libraries launch work of their
 * own, NCCL's launches may not be known, and overhead belongs to no op. The step is
 *
 *   on a comm track        that of the collective in which the middle of the span lies, whose
 *                          bucket it moves; between two, that of the earlier
 *   on compute and others  that of forward, backward or optimizer likewise
 *   on the host, and of a  that of the STEP range likewise
 *   GPU's sampled state
 *
 * The middle is used because ranges are timed by events and records by CUPTI, which agree within
 * some microseconds. Spans before all ranges get the first's step, or 0 if there are none. pre:
 * spans are sorted by start.
 */
enum lk_status lk_spans_assign_step(struct lk_trace *t);

/* ---- The format, for the reader and for tests ---- */

#define LK_SPAN_FILE_MAGIC   "LKSPANS\n"
#define LK_SPAN_FILE_VERSION 2
#define LK_SPAN_FILE_ORDER   0x01020304U
enum {
    LK_SPAN_FILE_SAMPLES = 32,
    LK_SPAN_FILE_TRACKS = 64,
    LK_SPAN_FILE_NAMES_BYTES = 1 << 16,
    LK_SPAN_FILE_FAILURE_BYTES = 1024,
    LK_SPAN_FILE_FACTS_BYTES = 1 << 12,
    LK_SPAN_FILE_TRACK_NAME_BYTES = 64,
    LK_SPAN_FILE_ALIGN = 4096, /* alignment of segments in the file */
    LK_SPAN_FILE_RING_MIN = 1 << 10,
    LK_SPAN_FILE_RING_MAX = 1 << 20,
    LK_SPAN_FILE_SEGMENT = 1 << 12, /* records: 192 KiB */
    LK_SPAN_FILE_SEGMENTS = LK_SPAN_FILE_RING_MAX / LK_SPAN_FILE_SEGMENT
};

/* `kept` counts the records of an abandoned file, since `head` may have gone on. */
enum lk_span_file_state {
    LK_SPAN_FILE_RUNNING = 1,
    LK_SPAN_FILE_CLOSED = 2,
    LK_SPAN_FILE_ABANDONED = 3
};

/* A track and its ring: a multiple of a cache line, since every span of the track writes `head`. */
struct lk_span_file_track {
    _Atomic uint64_t head;       /* records ever written */
    uint64_t kept;               /* `head` when the file was cut */
    uint64_t capacity;           /* records; a power of two */
    _Atomic uint32_t n_segments; /* complete entries of segments[] */
    int32_t kind, stream;
    uint32_t unused;
    char name[LK_SPAN_FILE_TRACK_NAME_BYTES];
    uint32_t segments[LK_SPAN_FILE_SEGMENTS]; /* offset in the file, in LK_SPAN_FILE_ALIGN */
    char padding[24];
};

struct lk_span_file_header {
    char magic[8];
    uint32_t version, order;
    uint32_t header_bytes, span_bytes;
    uint64_t info_offset, info_bytes; /* JSON of struct lk_run_info, within the header's pages */
    uint64_t base_epoch_ns, base_local_ns;
    _Atomic uint32_t state;    /* enum lk_span_file_state */
    _Atomic uint32_t failed;   /* set when failure[] is complete */
    _Atomic uint32_t n_tracks; /* complete entries of tracks[] */
    _Atomic uint32_t n_names;  /* complete names */
    _Atomic uint32_t names_bytes;
    _Atomic uint32_t facts_bytes; /* complete facts */
    _Atomic uint32_t n_samples[LK_CLOCK_MOMENTS];
    struct lk_clock_sample samples[LK_CLOCK_MOMENTS][LK_SPAN_FILE_SAMPLES];
    char failure[LK_SPAN_FILE_FAILURE_BYTES];
    char padding[40]; /* tracks begin at a cache line */
    struct lk_span_file_track tracks[LK_SPAN_FILE_TRACKS];
    char names[LK_SPAN_FILE_NAMES_BYTES]; /* ids 1, 2, ..., each ended by NUL */
    /* Pairs of the configuration that were told later (lk_recorder_fact): key, NUL, value, NUL. */
    char facts[LK_SPAN_FILE_FACTS_BYTES];
};

#endif
