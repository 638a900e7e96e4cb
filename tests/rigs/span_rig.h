/* Span files for tests: numbered spans, of which each differs from all others, written and checked.
 */
#ifndef LK_TESTS_SPAN_RIG_H
#define LK_TESTS_SPAN_RIG_H

#include "profiler/record/span_file.h"

/* Tracks of three kinds: compute, comm and host. */
enum { SPAN_RIG_TRACKS = 3 };
extern const struct lk_track_info span_rig_tracks[SPAN_RIG_TRACKS];

/* Emits spans 0 .. n - 1 of a track. */
struct span_emitter {
    struct lk_track *track;
    uint64_t n;
    uint16_t name;
};
void *span_rig_emit(void *emitter);

/* Describe a rank: the step model's. */
void span_rig_info(struct lk_run_info *info, int rank);
/* Create a span file of rank 0, and a recorder with it. */
struct lk_span_file *span_rig_create(const char *path, uint64_t n_spans, struct lk_recorder **rec);
/* Return span i of a track: every field differs from span to span. */
struct lk_span span_rig_span(uint64_t i, uint16_t name);

/* Read a file that is whole. */
void span_rig_read(const char *path, struct lk_trace *out);
uint64_t span_rig_bytes(const char *path);
/* Check that a track has spans first, first + 1, ... first + n - 1, in order of emission. */
void span_rig_assert_track(const struct lk_trace *t, uint32_t track, uint64_t first, uint64_t n);

#endif
