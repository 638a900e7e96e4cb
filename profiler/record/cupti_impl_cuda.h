/*
 * Private to profiler/record/cupti*_cuda.c and their tests: the CUPTI functions in use, as a table,
 * so that the handling of their results can be tested without a GPU (cupti_calls_cuda.c);
 * converting records to spans (cupti_records_cuda.c); finding their op, step and track
 * (cupti_match_cuda.c). The session that delivers them is in cupti_cuda.c, what it asks for in
 * cupti_enable_cuda.c, what it hears of the recorder in cupti_sink_cuda.c.
 */
#ifndef LK_PROFILER_RECORD_CUPTI_IMPL_CUDA_H
#define LK_PROFILER_RECORD_CUPTI_IMPL_CUDA_H

#include "profiler/record/cupti.h"
#include "profiler/record/cupti_clock.h"
#include "profiler/record/cupti_issues.h"
#include "profiler/record/cupti_marks.h"
#include "profiler/record/cupti_names.h"

#include <cupti.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- Functions of CUPTI ---- */

/* X(call): cupti<call>. */
#define LK_CUPTI_CALL_LIST(X)                                                                      \
    X(GetVersion)                                                                                  \
    X(GetResultString)                                                                             \
    X(GetTimestamp)                                                                                \
    X(ActivityRegisterCallbacks)                                                                   \
    X(ActivitySetAttribute)                                                                        \
    X(ActivityEnable)                                                                              \
    X(ActivityDisable)                                                                             \
    X(ActivityFlushAll)                                                                            \
    X(ActivityGetNextRecord)                                                                       \
    X(ActivityGetNumDroppedRecords)                                                                \
    X(ActivityPushExternalCorrelationId)                                                           \
    X(ActivityPopExternalCorrelationId)                                                            \
    X(Subscribe)                                                                                   \
    X(Unsubscribe)

/* X(call, parameters): functions of newer versions; NULL where the library lacks them. */
#define LK_CUPTI_NEWER_LIST(X)                                                                     \
    X(ActivityEnableRuntimeApi, (CUpti_CallbackId id, uint8_t enable))                             \
    X(ActivityEnableDriverApi, (CUpti_CallbackId id, uint8_t enable))

struct lk_cupti_calls {
#define LK_CUPTI_CALL_MEMBER_(call) __typeof__(cupti##call) *call;
    LK_CUPTI_CALL_LIST(LK_CUPTI_CALL_MEMBER_)
#undef LK_CUPTI_CALL_MEMBER_
#define LK_CUPTI_NEWER_MEMBER_(call, parameters) CUptiResult(*call) parameters;
    LK_CUPTI_NEWER_LIST(LK_CUPTI_NEWER_MEMBER_)
#undef LK_CUPTI_NEWER_MEMBER_
    /* For tests: read both clocks at once. NULL: GetTimestamp between two readings of ours. */
    void (*clocks)(uint64_t *theirs_ns, uint64_t *ours_ns);
};

/*
 * Load the functions of CUPTI's next library from number *which, 0 at first, and count on: the one
 * that this process has already, then the newest first. LK_EUNSUPPORTED when there are no more. It
 * is never closed. path: set to the file.
 */
enum lk_status lk_cupti_library(int *which, struct lk_cupti_calls *out, char *path, size_t size);
/* Get the API version. LK_EUNSUPPORTED for one whose records are not known; path is for the text.
 */
enum lk_status lk_cupti_version(const struct lk_cupti_calls *call, const char *path, uint32_t *out);
/* Return LK_OK for CUPTI_SUCCESS, else LK_EUNSUPPORTED with a remedy, if the error has one. */
enum lk_status lk_cupti_check(const struct lk_cupti_calls *call, CUptiResult e, const char *what);

/* Start recording what a run needs, or nothing (cupti_enable_cuda.c): of API calls only some, where
 * the library can choose. Start recording all of them, too. Stop it all; chose: not all of them
 * were recorded. */
enum lk_status lk_cupti_enable(const struct lk_cupti_calls *call);
bool lk_cupti_can_choose(const struct lk_cupti_calls *call);
enum lk_status lk_cupti_enable_all_calls(const struct lk_cupti_calls *call);
void lk_cupti_disable(const struct lk_cupti_calls *call, bool chose);

/* ---- Records ---- */

enum {
    LK_CUPTI_TRACKS = 64,       /* numbers of 6 bits in an id */
    LK_CUPTI_STREAMS = 64,      /* CUDA streams whose track is known */
    LK_CUPTI_PENDING = 1 << 16, /* records that wait for their id or their stream's track */
};

/* The time in which work is recorded. */
struct lk_cupti_window {
    _Atomic uint64_t began_ns; /* the first track was made; earlier work is not the run's */
    _Atomic uint64_t ended_ns; /* UINT64_MAX: not yet */
    uint32_t end_step;         /* 0: none */
};

/* A track of the recorder, and its companion track for the GPU's records. */
struct lk_cupti_track {
    const struct lk_cupti_calls *call;
    struct lk_cupti_window *window;
    int number;
    enum lk_track_kind kind;
    int stream;
    char gpu_name[64];
    struct lk_track *gpu;             /* made with the first record */
    bool failed;                      /* the companion could not be made */
    struct lk_issue_windows *windows; /* set for the first track of collectives only; else NULL */
    struct lk_cupti_marks *marks;     /* set for the first track of compute only; else NULL */
    uint32_t op_step, n_ops;          /* ops issued in that step. The issuing thread's */
};

static inline bool lk_cupti_window_is_over(const struct lk_cupti_window *w)
{
    return atomic_load_explicit(&w->ended_ns, memory_order_relaxed) != UINT64_MAX;
}

/* The fields of an external correlation id. */
enum { LK_CUPTI_INDEX_MAX = (1 << 14) - 2 };
struct lk_cupti_issue {
    uint32_t step;
    int32_t index; /* of an op: its number in the step and on its track */
    uint16_t name;
    enum lk_span_kind kind;
    int track;
};

uint64_t lk_cupti_id(const struct lk_span *s, int track);
struct lk_cupti_issue lk_cupti_id_read(uint64_t id);

/* An activity on the GPU. */
struct lk_cupti_work {
    struct lk_span span; /* step, index, track and a kernel's name are set later */
    uint32_t correlation, context, stream;
    int kernel; /* index into lk_cupti_names; 0: no kernel */
};

struct lk_cupti_records {
    struct lk_recorder *recorder;
    const struct lk_cupti_calls *call;
    struct lk_cupti_clock clock; /* for the times in records */
    uint64_t earliest_ns;        /* no record can be older */
    struct lk_cupti_window window;
    struct lk_cupti_track tracks[LK_CUPTI_TRACKS];
    atomic_int n_tracks;
    struct {
        uint32_t context, stream;
        int track;
    } streams[LK_CUPTI_STREAMS];
    size_t n_streams;
    struct lk_cupti_issues issues;
    struct lk_issue_windows windows;
    struct lk_cupti_marks marks;
    struct lk_cupti_work *pending;
    size_t n_pending;
    uint64_t n_kernels, n_owned; /* kernels; those emitted that were launched with an id of ours */
    struct lk_cupti_track other; /* for streams without a track of the recorder */
    struct lk_track *calls;      /* host: overhead, and the counters */
    struct lk_cupti_names names;
    struct lk_cupti_counts counts;
};

enum lk_status lk_cupti_records_init(struct lk_cupti_records *r,
                                     const struct lk_cupti_config *config,
                                     const struct lk_cupti_calls *call);
void lk_cupti_records_fini(struct lk_cupti_records *r);
/* Read a buffer of CUPTI's. One thread at a time, as for the two functions below. pre: the clock
 * has a point after the buffer's records. */
void lk_cupti_records_read(struct lk_cupti_records *r, uint8_t *buffer, size_t bytes);
/* Return true if so many kernels were read that some ought to have been launched with an id of
 * ours, and none was: CUPTI gives no ids. */
enum { LK_CUPTI_KERNELS_TELL = 1000 };
bool lk_cupti_records_lack_ids(const struct lk_cupti_records *r);
/* Count records that CUPTI dropped. */
void lk_cupti_records_dropped(struct lk_cupti_records *r, size_t n);
/* Emit all pending records with what is known of them: no further records come. complete: all came
 * that were not counted as lost. */
void lk_cupti_records_drain(struct lk_cupti_records *r, bool complete);
/* Emit the counters. */
void lk_cupti_records_report(struct lk_cupti_records *r);

/* The records of an open session. */
struct lk_cupti_records *lk_cupti_records_of(struct lk_cupti *g);

/* ---- Matching ---- */

/* Register a new track of the recorder. NULL: the ids have no room for it, or it is one of our own.
 * Any thread, one at a time. */
struct lk_cupti_track *lk_cupti_records_track(struct lk_cupti_records *r,
                                              const struct lk_track_info *info);
/* Make the host track "CUDA calls", r->calls, if it is missing. False: it cannot be made. */
bool lk_cupti_match_calls_track(struct lk_cupti_records *r);
/* Remember that a call was made with an id of ours pushed. */
void lk_cupti_match_issue(struct lk_cupti_records *r, uint32_t correlation, uint64_t id);
/* Remember an API call and its times; one for which no id was pushed may be NCCL's. */
void lk_cupti_match_call(struct lk_cupti_records *r, uint32_t correlation, uint64_t start_ns,
                         uint64_t end_ns);
/* Return true if the work was launched with an id of ours. */
bool lk_cupti_match_is_owned(const struct lk_cupti_records *r, const struct lk_cupti_work *w);
/* Emit work, or keep it until its step and track are known. */
void lk_cupti_match_work(struct lk_cupti_records *r, struct lk_cupti_work *w);
/* Emit a mark, or count it if it is lost (lk_cupti_mark_fn). */
void lk_cupti_match_mark(void *records, const struct lk_cupti_mark *mark);
/* Try all pending work again; the `oldest` first ones wait no longer. */
void lk_cupti_match_pending(struct lk_cupti_records *r, size_t oldest);

#endif
