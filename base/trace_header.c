/* The object "lockstep" of a trace: what it says of each rank, but its spans; as rows
 * (base/member.h). */
#include "base/trace.h"

#include "base/trace_format.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

/* No clock drifts by more than a tenth. */
#define DRIFT_PPB_MAX 1e8

static enum lk_status check_clock(struct lk_json *v, void *base)
{
    const struct lk_clock_fit *c = base;

    return fabs(c->drift_ppb) > DRIFT_PPB_MAX
               ? lk_json_error(v, "a drift of %g ppb is out of range", c->drift_ppb)
               : LK_OK;
}

#define ROW(field, ...) LK_MEMBER(struct lk_clock_fit, field, #field, __VA_ARGS__)
static const struct lk_member clock_rows[] = {
    ROW(at_ns, UINT, REQUIRED, .max = INT64_MAX, .help = "local time that the offset belongs to"),
    ROW(offset_ns, INT64, REQUIRED, .min = INT64_MIN, .help = "rank 0's time minus local time"),
    ROW(drift_ppb, NUMBER, REQUIRED, .help = "change of the offset"),
    ROW(uncertainty_ns, UINT, REQUIRED, .max = INT64_MAX, .help = "bound of the error"),
    LK_MEMBER_END,
};
#undef ROW
static const struct lk_record clock_record = {.size = sizeof(struct lk_clock_fit),
                                              .rows = clock_rows,
                                              .one_line = true,
                                              .check = check_clock};

#define ROW(field, ...) LK_MEMBER(struct lk_trace_track, field, #field, __VA_ARGS__)
static const struct lk_member track_rows[] = {
    ROW(name, TEXT, REQUIRED, .help = "name of the track"),
    ROW(kind, WORD, REQUIRED, .words = &lk_track_kind_words, .help = "what it shows"),
    ROW(stream, INT, REQUIRED, .min = INT32_MIN, .help = "stream or thread"),
    LK_MEMBER_END,
};
#undef ROW
static const struct lk_record track_record = {
    .size = sizeof(struct lk_trace_track), .rows = track_rows, .one_line = true};

static enum lk_status check_rank(struct lk_json *v, void *base)
{
    const struct lk_trace_rank_in *r = base;

    return r->trace.n_names > LK_TRACE_IDS_MAX
               ? lk_json_error(lk_json_optional(v, "names"), "more than %d names", LK_TRACE_IDS_MAX)
               : LK_OK;
}

#define ROW(field, key, ...) LK_MEMBER(struct lk_trace_rank_in, field, key, __VA_ARGS__)
static const struct lk_member rank_rows[] = {
    ROW(trace.info, "info", OBJECT, REQUIRED, .of = &lk_run_info_record, .help = "the run"),
    ROW(trace.base_epoch_ns, "base_epoch_ns", UINT, REQUIRED, .max = INT64_MAX,
        .help = "wall clock at local time `base_local_ns`"),
    ROW(trace.base_local_ns, "base_local_ns", UINT, REQUIRED, .max = INT64_MAX,
        .help = "local time of the trace's start"),
    ROW(trace.clock, "clock", OBJECT, REQUIRED, .of = &clock_record, .help = "clock fit"),
    ROW(trace.truncated, "truncated", BOOL, REQUIRED, .help = "the rank stopped early"),
    ROW(trace.dropped, "dropped", UINT, REQUIRED, .help = "spans lost to a full ring"),
    ROW(trace.failure, "failure", TEXT, SPARSE, .help = "why it stopped"),
    ROW(trace.tracks, "tracks", LIST, REQUIRED, .of = &track_record,
        .count = offsetof(struct lk_trace_rank_in, trace.n_tracks), .help = "tracks"),
    ROW(trace.names, "names", TEXTS, REQUIRED,
        .count = offsetof(struct lk_trace_rank_in, trace.n_names), .help = "names of spans"),
    ROW(n_spans, "spans", UINT, REQUIRED, .max = INT64_MAX, .help = "spans in this file"),
    LK_MEMBER_END,
};
#undef ROW
static const struct lk_record rank_record = {
    .size = sizeof(struct lk_trace_rank_in), .rows = rank_rows, .check = check_rank};

/* Check that each rank appears once, and that only merged traces have more than one. */
static enum lk_status check_ranks(struct lk_json *v, void *base)
{
    const struct lk_trace_header *h = base;
    struct lk_json *array = lk_json_optional(v, "ranks");
    const struct lk_trace_rank_in *ranks = h->ranks;

    if (h->n_ranks == 0 || (h->n_ranks > 1 && !h->merged))
        return lk_json_error(array, "%zu ranks in a trace that is %s", h->n_ranks,
                             h->merged ? "merged" : "not merged");
    for (size_t i = 0; i < h->n_ranks; i++)
        for (size_t j = 0; j < i; j++)
            if (ranks[j].trace.info.rank == ranks[i].trace.info.rank)
                return lk_json_error(lk_json_item(array, i), "rank %d is there twice",
                                     ranks[i].trace.info.rank);
    return LK_OK;
}

static const struct lk_member header_rows[] = {
    LK_MEMBER(struct lk_trace_header, merged, "merged", BOOL, REQUIRED,
              .help = "several ranks in one file, on rank 0's clock"),
    LK_MEMBER(struct lk_trace_header, ranks, "ranks", LIST, REQUIRED, .of = &rank_record,
              .count = offsetof(struct lk_trace_header, n_ranks), .help = "ranks of the file"),
    LK_MEMBER_END,
};
const struct lk_record lk_trace_header_record = {.size = sizeof(struct lk_trace_header),
                                                 .rows = header_rows,
                                                 .schema = LK_TRACE_SCHEMA,
                                                 .version = LK_TRACE_VERSION,
                                                 .check = check_ranks};
