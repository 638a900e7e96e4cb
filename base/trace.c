/* Traces in memory, and the traces of a run directory. */
#include "base/trace.h"

#include "base/array.h"
#include "base/bounds.h"
#include "base/file.h"
#include "base/trace_format.h"

#include <stdlib.h>
#include <string.h>

const char *const lk_trace_keys[LK_TRACE_KEY_COUNT] = {
#define LK_TRACE_KEY_ROW_(constant, key, meaning) key,
    LK_TRACE_KEY_LIST(LK_TRACE_KEY_ROW_)
#undef LK_TRACE_KEY_ROW_
};

const struct lk_words lk_track_kind_words = LK_WORDS("a kind of track", LK_TRACK_KIND_LIST);

void lk_trace_fini(struct lk_trace *t)
{
    lk_run_info_fini(&t->info);
    free(t->failure);
    for (size_t i = 0; i < t->n_tracks; i++)
        free(t->tracks[i].name);
    free(t->tracks);
    for (size_t i = 0; i < t->n_names; i++)
        free(t->names[i]);
    free(t->names);
    free(t->spans);
    *t = (struct lk_trace){0};
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
    return (*x > *y) - (*x < *y); /* by order: they lie in one array */
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

    return (x->info.rank > y->info.rank) - (x->info.rank < y->info.rank);
}

void lk_traces_sort(struct lk_trace *traces, size_t n)
{
    if (n)
        qsort(traces, n, sizeof *traces, by_rank);
}

/* Check that all traces are of one run and every rank appears once. */
static enum lk_status check_run(const char *dir, const struct lk_trace *t, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        if (strcmp(t[i].info.run_id, t[0].info.run_id) != 0 ||
            t[i].info.world_size != t[0].info.world_size)
            return lk_fail(LK_EPARSE, "%s: the traces of ranks %d and %d are of different runs",
                           dir, t[0].info.rank, t[i].info.rank);
        if (t[i].info.rank == t[i - 1].info.rank)
            return lk_fail(LK_EPARSE, "%s: two traces are of rank %d", dir, t[i].info.rank);
    }
    return LK_OK;
}

static enum lk_status read_named(const char *dir, const char *name, struct lk_trace *out)
{
    enum lk_status st = LK_OK;
    char *path = NULL;

    LK_TRY(lk_path_join(&path, dir, name));
    LK_TRY(lk_trace_read(path, out));
out:
    free(path);
    return st;
}

enum lk_status lk_traces_read(const char *dir, struct lk_trace **out, size_t *out_n)
{
    enum lk_status st = LK_OK;
    struct lk_trace *traces = NULL;
    char **names = NULL;
    size_t n_names = 0;
    size_t n = 0;

    LK_TRY(lk_dir_list(dir, ".trace.json.gz", &names, &n_names));
    LK_TRY(lk_alloc(&traces, n_names, sizeof *traces));
    for (size_t i = 0; i < n_names; i++)
        if (rank_of(names[i]) >= 0) {
            LK_TRY(read_named(dir, names[i], &traces[n]));
            n++;
        }
    if (!n) {
        st = lk_fail(LK_EIO, "%s: no rank*.trace.json.gz there", dir);
        goto out;
    }
    lk_traces_sort(traces, n);
    LK_TRY(check_run(dir, traces, n));
    *out = traces;
    *out_n = n;
    traces = NULL;
out:
    lk_traces_free(traces, n);
    lk_names_free(names, n_names);
    return st;
}
