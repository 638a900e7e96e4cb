/* Traces: their header (the object "lockstep", with all that a trace says of a rank but its spans),
 * their memory, and the traces of a run directory. */
#include "facts/trace.h"

#include "base/array.h"
#include "base/file.h"
#include "facts/bounds.h"
#include "facts/trace_format.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const lk_trace_keys[LK_TRACE_KEY_COUNT] = {LK_TRACE_KEY_LIST(LK_WORD_NAME)};

const struct lk_words lk_track_kind_words = LK_WORDS("a kind of track", LK_TRACK_KIND_LIST);

/* ---- The header, as rows (base/member.h) ---- */

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
    const struct lk_trace *t = base;

    return t->n_names > LK_TRACE_IDS_MAX
               ? lk_json_error(lk_json_optional(v, "names"), "more than %d names", LK_TRACE_IDS_MAX)
               : LK_OK;
}

#define ROW(field, key, ...) LK_MEMBER(struct lk_trace, field, key, __VA_ARGS__)
static const struct lk_member rank_rows[] = {
    ROW(info, "info", OBJECT, REQUIRED, .of = &lk_run_info_record, .help = "the run"),
    ROW(base_epoch_ns, "base_epoch_ns", UINT, REQUIRED, .max = INT64_MAX,
        .help = "wall clock at local time `base_local_ns`"),
    ROW(base_local_ns, "base_local_ns", UINT, REQUIRED, .max = INT64_MAX,
        .help = "local time of the trace's start"),
    ROW(clock, "clock", OBJECT, REQUIRED, .of = &clock_record, .help = "clock fit"),
    ROW(truncated, "truncated", BOOL, REQUIRED, .help = "the rank stopped early"),
    ROW(dropped, "dropped", UINT, REQUIRED, .help = "spans lost to a full ring"),
    ROW(failure, "failure", TEXT, SPARSE, .help = "why it stopped"),
    ROW(tracks, "tracks", LIST, REQUIRED, .of = &track_record,
        .count = offsetof(struct lk_trace, n_tracks), .help = "tracks"),
    ROW(names, "names", TEXTS, REQUIRED, .count = offsetof(struct lk_trace, n_names),
        .help = "names of spans"),
    ROW(n_spans, "spans", UINT, REQUIRED, .max = INT64_MAX, .help = "spans in this file"),
    LK_MEMBER_END,
};
#undef ROW
static const struct lk_record rank_record = {
    .size = sizeof(struct lk_trace), .rows = rank_rows, .check = check_rank};

/* Check that each rank appears once, and that only merged traces have more than one. */
static enum lk_status check_ranks(struct lk_json *v, void *base)
{
    const struct lk_trace_header *h = base;
    struct lk_json *array = lk_json_optional(v, "ranks");
    const struct lk_trace *ranks = h->ranks;

    if (h->n_ranks == 0 || (h->n_ranks > 1 && !h->merged))
        return lk_json_error(array, "%zu ranks in a trace that is %s", h->n_ranks,
                             h->merged ? "merged" : "not merged");
    for (size_t i = 0; i < h->n_ranks; i++)
        for (size_t j = 0; j < i; j++)
            if (ranks[j].info.rank == ranks[i].info.rank)
                return lk_json_error(lk_json_item(array, i), "rank %d is there twice",
                                     ranks[i].info.rank);
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

/* ---- In memory ---- */

void lk_trace_fini(struct lk_trace *t)
{
    free(t->spans);
    lk_record_fini(&rank_record, t);
}

void lk_traces_free(struct lk_trace *traces, size_t n)
{
    if (!traces)
        return;
    for (size_t i = 0; i < n; i++)
        lk_trace_fini(&traces[i]);
    free(traces);
}

static int by_start(const void *a, const void *b)
{
    const struct lk_trace_span *const *x = a, *const *y = b;

    if ((*x)->span.start_ns != (*y)->span.start_ns)
        return (*x)->span.start_ns < (*y)->span.start_ns ? -1 : 1;
    return LK_ORDER(*x, *y); /* by order: they lie in one array */
}

enum lk_status lk_trace_sort_spans(struct lk_trace_span **spans, size_t n)
{
    enum lk_status st = LK_OK;
    const struct lk_trace_span **order = NULL;
    struct lk_trace_span *sorted = NULL;
    size_t i = 1;

    while (i < n && (*spans)[i - 1].span.start_ns <= (*spans)[i].span.start_ns)
        i++;
    if (i >= n)
        return LK_OK;
    LK_TRY(lk_alloc(&order, n, sizeof(struct lk_trace_span *)));
    LK_TRY(lk_alloc(&sorted, n, sizeof *sorted));
    for (i = 0; i < n; i++)
        order[i] = &(*spans)[i];
    qsort(order, n, sizeof(struct lk_trace_span *), by_start);
    for (i = 0; i < n; i++)
        sorted[i] = *order[i];
    free(*spans);
    *spans = sorted;
    sorted = NULL;
out:
    free(order);
    free(sorted);
    return st;
}

const char *lk_trace_span_name(const struct lk_trace *t, const struct lk_span *s)
{
    if (s->name > 0 && s->name <= t->n_names)
        return t->names[s->name - 1];
    return lk_span_kind_name((enum lk_span_kind)s->kind);
}

bool lk_run_info_on_host(const struct lk_run_info *i)
{
    static const char *const hosts[] = {"cpu", "timed", "reference"};

    for (size_t k = 0; k < LK_COUNT(hosts); k++)
        if (i->device && !strcmp(i->device, hosts[k]))
            return true;
    return false;
}

/* NCCL's and RCCL's kernels. */
static bool is_nccl(const char *name)
{
    return strstr(name, "nccl") || strstr(name, "rccl");
}

static bool contains_any(const char *name, const char *patterns)
{
    for (const char *p = patterns; p && *p;) {
        size_t n = strcspn(p, ",");

        if (n > 0 && memmem(name, strlen(name), p, n))
            return true;
        p += n + (p[n] == ',');
    }
    return false;
}

bool lk_is_communication(const char *name, const char *patterns)
{
    return is_nccl(name) || contains_any(name, patterns);
}

bool lk_trace_is_nccl(const struct lk_trace *t, const struct lk_span *s)
{
    return s->kind == LK_SPAN_KERNEL && strstr(lk_trace_span_name(t, s), "nccl") != NULL;
}

/* ---- A run directory ---- */

/* Return the rank in "rank12.trace.json.gz", or -1. */
static int rank_of(const char *name)
{
    static const char head[] = "rank";
    char *end;
    long rank;

    if (strncmp(name, head, sizeof head - 1) != 0 || name[sizeof head - 1] < '0' ||
        name[sizeof head - 1] > '9')
        return -1;
    rank = strtol(name + sizeof head - 1, &end, 10);
    return strcmp(end, ".trace.json.gz") == 0 && rank < LK_RANKS_MAX ? (int)rank : -1;
}

static int by_rank(const void *a, const void *b)
{
    const struct lk_trace *x = a;
    const struct lk_trace *y = b;

    return LK_ORDER(x->info.rank, y->info.rank);
}

void lk_traces_sort(struct lk_trace *traces, size_t n)
{
    if (n)
        qsort(traces, n, sizeof *traces, by_rank);
}

enum lk_status lk_traces_read(const char *dir, struct lk_trace **out, size_t *out_n)
{
    enum lk_status st = LK_OK;
    struct lk_trace *traces = NULL;
    char **names = NULL, *path = NULL;
    size_t n_names = 0;
    size_t n = 0;

    LK_TRY(lk_dir_list(dir, ".trace.json.gz", &names, &n_names));
    LK_TRY(lk_alloc(&traces, n_names, sizeof *traces));
    for (size_t i = 0; i < n_names; i++)
        if (rank_of(names[i]) >= 0) {
            free(path);
            path = NULL;
            LK_TRY(lk_path_join(&path, dir, names[i]));
            LK_TRY(lk_trace_read(path, &traces[n]));
            n++;
        }
    if (!n)
        LK_TRY(lk_fail(LK_EIO, "%s: no rank*.trace.json.gz there", dir));
    lk_traces_sort(traces, n);
    *out = traces;
    *out_n = n;
    traces = NULL;
out:
    free(path);
    lk_traces_free(traces, n);
    lk_names_free(names, n_names);
    return st;
}
