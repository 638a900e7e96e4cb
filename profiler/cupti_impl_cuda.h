/* Private to profiler/cupti*_cuda.c: records become spans (cupti_records_cuda.c), and where the
 * records come from (cupti_cuda.c). */
#ifndef LK_PROFILER_CUPTI_IMPL_CUDA_H
#define LK_PROFILER_CUPTI_IMPL_CUDA_H

#include "profiler/cupti.h"
#include "profiler/cupti_calls_cuda.h"
#include "profiler/cupti_clock.h"
#include "profiler/cupti_names.h"
#include "profiler/cupti_turns.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    LK_CUPTI_TRACKS = 64,       /* numbers of 6 bits in an id */
    LK_CUPTI_STREAMS = 64,      /* CUDA streams whose track is known */
    LK_CUPTI_ISSUES = 1 << 18,  /* API calls whose id is remembered; a power of two */
    LK_CUPTI_PENDING = 1 << 16, /* records that wait for their id or their stream's track */
};

/* A track of the recorder, and the one beside it that the GPU's records go to. */
struct lk_cupti_track {
    const struct lk_cupti_calls *call;
    int number;
    enum lk_track_kind kind;
    int stream;
    char gpu_name[64];
    struct lk_track *gpu;         /* made with the first record */
    bool failed;                  /* it could not be made */
    struct lk_cupti_turns *turns; /* of the first track of collectives; NULL: of another */
};

/* What is known of an API call. */
enum lk_cupti_call {
    LK_CUPTI_CALL_UNKNOWN,
    LK_CUPTI_CALL_OURS,    /* the id was pushed where it was made */
    LK_CUPTI_CALL_IN_TURN, /* the id is of the collective that was being issued then */
    LK_CUPTI_CALL_NOBODYS, /* no collective was being issued then */
};

/* An external correlation id, taken apart. */
struct lk_cupti_issue {
    uint32_t step;
    int32_t index;
    uint16_t name;
    enum lk_span_kind kind;
    int track;
};

uint64_t lk_cupti_id(const struct lk_span *s, int track);
struct lk_cupti_issue lk_cupti_id_read(uint64_t id);

/* An activity on the GPU. */
struct lk_cupti_work {
    struct lk_span span; /* step, index and track are open; name of a copy */
    uint32_t correlation, context, stream;
    int kernel; /* of lk_cupti_names; 0: none */
};

struct lk_cupti_records {
    struct lk_recorder *recorder;
    const struct lk_cupti_calls *call;
    struct lk_cupti_clock clock; /* of the times in records */
    uint64_t earliest_ns;        /* no record can be older */
    _Atomic uint64_t began_ns;   /* the first track was made; before that nothing is the run's */
    struct lk_cupti_track tracks[LK_CUPTI_TRACKS];
    atomic_int n_tracks;
    struct {
        uint32_t context, stream;
        int track;
    } streams[LK_CUPTI_STREAMS];
    size_t n_streams;
    struct {
        uint32_t correlation;
        enum lk_cupti_call call;
        uint64_t id;
    } * issues;
    struct lk_cupti_turns turns;
    struct lk_cupti_work *pending;
    size_t n_pending;
    struct lk_cupti_track other; /* streams that are nobody's */
    struct lk_track *calls;      /* host: synchronisation and overhead */
    struct lk_cupti_names names;
    struct lk_cupti_counts counts;
};

enum lk_status lk_cupti_records_init(struct lk_cupti_records *r, struct lk_recorder *recorder,
                                     const struct lk_cupti_calls *call);
void lk_cupti_records_fini(struct lk_cupti_records *r);
/* A new track of the recorder; NULL: its ids have no room for it, or it is one of ours. Any thread,
 * one at a time. */
struct lk_cupti_track *lk_cupti_records_track(struct lk_cupti_records *r,
                                              const struct lk_track_info *info);
/* Reads a buffer of CUPTI's. One thread at a time, as the two below. pre: the clock has a point
 * behind the buffer's records. */
void lk_cupti_records_read(struct lk_cupti_records *r, uint8_t *buffer, size_t bytes);
/* Nothing more comes: what still waits becomes spans as it is. */
void lk_cupti_records_drain(struct lk_cupti_records *r);
/* Emits the counters. */
void lk_cupti_records_report(struct lk_cupti_records *r);

#endif
