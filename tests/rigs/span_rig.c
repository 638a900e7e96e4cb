/* Span files for tests; see the header. */
#include "tests/rigs/span_rig.h"

#include "tests/rigs/step_model.h"
#include "tests/rigs/suite.h"

#include <string.h>
#include <sys/stat.h>

/* The description of some rank: the step model's. */
void span_rig_info(struct lk_run_info *info, int rank)
{
    const struct step_model m = step_model_default((struct step_model){.steps = 1, .warmup = 0});
    struct lk_trace *traces = NULL;

    ck_assert_int_eq(step_model_run(&m, &traces, NULL), LK_OK);
    ck_assert_int_eq(lk_run_info_copy(info, &traces[rank].info), LK_OK);
    ck_assert_int_eq(lk_run_info_config(info, "known early", "one thing"), LK_OK);
    lk_traces_free(traces, (size_t)m.ranks);
}

struct lk_span_file *span_rig_create(const char *path, uint64_t n_spans, struct lk_recorder **rec)
{
    struct lk_run_info info = {0};
    struct lk_span_file *f = NULL;

    span_rig_info(&info, 0);
    ck_assert_msg(lk_span_file_create(path, &info, n_spans, &f) == LK_OK, "%s", lk_error_text());
    lk_run_info_fini(&info);
    ck_assert_int_eq(lk_recorder_create(rec), LK_OK);
    ck_assert_int_eq(lk_recorder_attach(*rec, &lk_span_file_ops, f), LK_OK);
    return f;
}

/* Make span i of a track: every field differs from span to span. */
struct lk_span span_rig_span(uint64_t i, uint16_t name)
{
    struct lk_span s = {.start_ns = 1000 + 10 * i,
                        .end_ns = 1005 + 10 * i,
                        .ready_ns = 1001 + 10 * i,
                        .bytes = i * i,
                        .step = (uint32_t)i,
                        .index = (int32_t)(i % 7) - 1,
                        .seq = (uint32_t)(3 * i),
                        .kind = (uint16_t)(i % LK_SPAN_KIND_COUNT),
                        .name = name};

    return s;
}

const struct lk_track_info span_rig_tracks[SPAN_RIG_TRACKS] = {
    {.name = "compute stream", .kind = LK_TRACK_COMPUTE, .stream = 1},
    {.name = "comm stream", .kind = LK_TRACK_COMM, .stream = 2},
    {.name = "host", .kind = LK_TRACK_HOST},
};

void span_rig_read(const char *path, struct lk_trace *out)
{
    ck_assert_msg(lk_spans_read(path, out) == LK_OK, "%s", lk_error_text());
}

uint64_t span_rig_bytes(const char *path)
{
    struct stat info;

    ck_assert_int_eq(stat(path, &info), 0);
    return (uint64_t)info.st_size;
}

/* Check that a track has span_rig_span(first), span_rig_span(first + 1), ... in order of emission.
 */
void span_rig_assert_track(const struct lk_trace *t, uint32_t track, uint64_t first, uint64_t n)
{
    uint64_t i = first;

    for (size_t k = 0; k < t->n_spans; k++) {
        struct lk_span want = span_rig_span(i, t->spans[k].span.name);

        if (t->spans[k].track != track)
            continue;
        ck_assert_int_eq(memcmp(&want, &t->spans[k].span, sizeof want), 0);
        i++;
    }
    ck_assert_uint_eq(i - first, n);
}

void *span_rig_emit(void *arg)
{
    const struct span_emitter *e = arg;

    for (uint64_t i = 0; i < e->n; i++) {
        struct lk_span s = span_rig_span(i, e->name);

        lk_span_emit(e->track, &s);
    }
    return NULL;
}
