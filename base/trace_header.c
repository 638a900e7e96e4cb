/* Reading the object "lockstep" of a trace: what it says of each rank, but its spans. */
#include "base/trace.h"

#include "base/array.h"
#include "base/trace_format.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

/* Drift beyond a tenth is no clock. */
#define DRIFT_PPB_MAX 1e8

static enum lk_status read_clock(struct lk_json *obj, struct lk_clock_fit *out)
{
    enum lk_status st = LK_OK;
    struct lk_json *v = NULL;
    double drift = 0.0;

    LK_TRY(lk_json_object(obj, "clock", &v));
    LK_TRY(lk_json_uint(v, "at_ns", INT64_MAX, &out->at_ns));
    LK_TRY(lk_json_int(v, "offset_ns", INT64_MIN, INT64_MAX, &out->offset_ns));
    LK_TRY(lk_json_number(v, "drift_ppb", &drift));
    LK_TRY(lk_json_uint(v, "uncertainty_ns", INT64_MAX, &out->uncertainty_ns));
    LK_TRY(lk_json_end(v));
    if (fabs(drift) > DRIFT_PPB_MAX)
        return lk_json_error(v, "a drift of %g ppb is out of range", drift);
    out->drift_ppb = drift;
out:
    return st;
}

static enum lk_status read_track(struct lk_json *v, void *item)
{
    enum lk_status st = LK_OK;
    struct lk_trace_track *t = item;
    const char *text = NULL;

    LK_TRY(lk_json_text(v, "kind", &text));
    LK_TRY(lk_json_blame(v, "kind", lk_track_kind_from_name(text, &t->kind)));
    LK_TRY(lk_json_int32(v, "stream", INT32_MIN, INT32_MAX, &t->stream));
    LK_TRY(lk_json_text_copy(v, "name", &t->name));
    LK_TRY(lk_json_end(v));
out:
    return st;
}

static enum lk_status read_name(struct lk_json *v, void *item)
{
    const char *text = NULL;
    enum lk_status st = lk_json_as_text(v, &text);

    return st == LK_OK ? lk_strdup(item, text) : st;
}

static enum lk_status read_rank(struct lk_json *v, void *item)
{
    enum lk_status st = LK_OK;
    struct lk_trace_rank_in *r = item;
    struct lk_trace *t = &r->trace;
    struct lk_json *info = NULL;
    struct lk_json *failure;
    const char *text = NULL;

    LK_TRY(lk_json_object(v, "info", &info));
    LK_TRY(lk_run_info_read(info, &t->info));
    LK_TRY(lk_json_uint(v, "base_epoch_ns", INT64_MAX, &t->base_epoch_ns));
    LK_TRY(lk_json_uint(v, "base_local_ns", INT64_MAX, &t->base_local_ns));
    LK_TRY(read_clock(v, &t->clock));
    LK_TRY(lk_json_bool(v, "truncated", &t->truncated));
    LK_TRY(lk_json_uint(v, "dropped", UINT64_MAX, &t->dropped));
    failure = lk_json_optional(v, "failure");
    if (failure) {
        LK_TRY(lk_json_as_text(failure, &text));
        LK_TRY(lk_strdup(&t->failure, text));
    }
    LK_TRY(lk_json_items(v, "tracks", LK_JSON_REQUIRED, read_track, &t->tracks, sizeof *t->tracks,
                         &t->n_tracks));
    LK_TRY(lk_json_items(v, "names", LK_JSON_REQUIRED, read_name, &t->names, sizeof *t->names,
                         &t->n_names));
    if (t->n_names > LK_TRACE_IDS_MAX)
        LK_TRY(lk_json_error(lk_json_optional(v, "names"), "more than %d names", LK_TRACE_IDS_MAX));
    LK_TRY(lk_json_uint(v, "spans", INT64_MAX, &r->n_spans));
    LK_TRY(lk_json_end(v));
out:
    return st;
}

void lk_trace_ranks_free(struct lk_trace_rank_in *ranks, size_t n)
{
    for (size_t i = 0; i < n; i++)
        lk_trace_fini(&ranks[i].trace);
    free(ranks);
}

/* Each rank once, and more than one in merged traces only. */
static enum lk_status check_ranks(struct lk_json *array, const struct lk_trace_rank_in *ranks,
                                  size_t n, bool merged)
{
    if (n == 0 || (n > 1 && !merged))
        return lk_json_error(array, "%zu ranks in a trace that is %s", n,
                             merged ? "merged" : "not merged");
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < i; j++)
            if (ranks[j].trace.info.rank == ranks[i].trace.info.rank)
                return lk_json_error(lk_json_item(array, i), "rank %d is there twice",
                                     ranks[i].trace.info.rank);
    return LK_OK;
}

enum lk_status lk_trace_read_header(struct lk_json *v, bool *out_merged,
                                    struct lk_trace_rank_in **out, size_t *out_n)
{
    enum lk_status st = LK_OK;
    struct lk_trace_rank_in *ranks = NULL;
    bool merged = false;
    size_t n = 0;

    LK_TRY(lk_json_schema(v, LK_TRACE_SCHEMA, LK_TRACE_VERSION));
    LK_TRY(lk_json_bool(v, "merged", &merged));
    LK_TRY(lk_json_items(v, "ranks", LK_JSON_REQUIRED, read_rank, &ranks, sizeof *ranks, &n));
    LK_TRY(lk_json_end(v));
    LK_TRY(check_ranks(lk_json_optional(v, "ranks"), ranks, n, merged));
    *out_merged = merged;
    *out = ranks;
    *out_n = n;
    ranks = NULL;
    n = 0;
out:
    lk_trace_ranks_free(ranks, n);
    return st;
}
