/* This file writes a simulated run as traces. */
#include "sim/step/sim_trace.h"

#include "base/array.h"
#include "base/clockfit.h"
#include "base/file.h"

#include <stdlib.h>
#include <string.h>

/* The order is that of enum lk_track_kind, so that a kind is its track's index. */
static const struct {
    const char *name;
    enum lk_track_kind kind;
    int stream;
} tracks[] = {
    {"main thread", LK_TRACK_HOST, 0},
    {"compute stream", LK_TRACK_COMPUTE, 7},
    {"communication stream", LK_TRACK_COMM, 20},
};

/* Add the names that spans point to, from 1: those of the collectives. */
static enum lk_status add_names(struct lk_trace *t)
{
    LK_PASS(lk_alloc(&t->names, LK_COLL_MODELLED, sizeof *t->names));
    for (; t->n_names < LK_COLL_MODELLED; t->n_names++)
        LK_PASS(lk_strdup(&t->names[t->n_names], lk_coll_kineto_name((enum lk_coll)t->n_names)));
    return LK_OK;
}

uint16_t lk_sim_trace_name(enum lk_coll coll)
{
    return (uint16_t)(coll + 1);
}

static enum lk_status add_tracks(struct lk_trace *t)
{
    LK_PASS(lk_alloc(&t->tracks, LK_COUNT(tracks), sizeof *t->tracks));
    for (size_t i = 0; i < LK_COUNT(tracks); i++) {
        t->tracks[i].kind = tracks[i].kind;
        t->tracks[i].stream = tracks[i].stream;
        LK_PASS(lk_strdup(&t->tracks[i].name, tracks[i].name));
        t->n_tracks++;
    }
    return LK_OK;
}

void lk_sim_trace_fini(struct lk_sim_trace *r)
{
    for (size_t i = 0; i < r->n; i++)
        lk_trace_fini(&r->traces[i]);
    free(r->traces);
    free(r->capacity);
    free(r->marks);
    memset(r, 0, sizeof *r);
}

static int by_share(const void *a, const void *b)
{
    const struct lk_sim_mark *p = a, *q = b;

    if (p->ready < q->ready || p->ready > q->ready)
        return p->ready < q->ready ? -1 : 1;
    return (p->tensor > q->tensor) - (p->tensor < q->tensor);
}

static enum lk_status set_marks(struct lk_sim_trace *r, const struct lk_job *j)
{
    LK_PASS(lk_alloc(&r->marks, j->n_tensors, sizeof *r->marks));
    for (; r->n_marks < j->n_tensors; r->n_marks++)
        r->marks[r->n_marks] =
            (struct lk_sim_mark){j->tensors[r->n_marks].ready, (int32_t)r->n_marks};
    qsort(r->marks, r->n_marks, sizeof *r->marks, by_share);
    return LK_OK;
}

enum lk_status lk_sim_trace_init(struct lk_sim_trace *r, const struct lk_run_info *info,
                                 const struct lk_job *job)
{
    enum lk_status st = LK_OK;
    size_t n = (size_t)info->world_size;

    *r = (struct lk_sim_trace){0};
    if (job)
        LK_TRY(set_marks(r, job));
    LK_TRY(lk_alloc(&r->traces, n, sizeof *r->traces));
    LK_TRY(lk_alloc(&r->capacity, n, sizeof *r->capacity));
    r->n = n;
    for (size_t i = 0; i < n; i++) {
        struct lk_trace *t = &r->traces[i];

        LK_TRY(lk_run_info_copy(&t->info, info));
        t->info.rank = (int)i;
        t->info.local_rank = info->nodes > 0 ? (int)i % (info->world_size / info->nodes) : (int)i;
        t->info.simulated = true;
        t->clock = lk_clock_identity();
        LK_TRY(add_tracks(t));
        LK_TRY(add_names(t));
    }
out:
    if (st != LK_OK)
        lk_sim_trace_fini(r);
    return st;
}

void lk_sim_trace_span(struct lk_sim_trace *r, int rank, enum lk_track_kind track,
                       const struct lk_span *s)
{
    struct lk_trace *t;

    if (!r || r->status != LK_OK)
        return;
    t = &r->traces[rank];
    r->status = lk_array_grow(&t->spans, &r->capacity[rank], t->n_spans + 1, sizeof *t->spans);
    if (r->status == LK_OK)
        t->spans[t->n_spans++] = (struct lk_trace_span){.span = *s, .track = (uint32_t)track};
}

/* Sort by start; of equals the longer span goes first, so that a container precedes its content. */
static int by_start(const void *a, const void *b)
{
    const struct lk_span *p = &((const struct lk_trace_span *)a)->span;
    const struct lk_span *q = &((const struct lk_trace_span *)b)->span;

    if (p->start_ns != q->start_ns)
        return p->start_ns < q->start_ns ? -1 : 1;
    if (p->end_ns != q->end_ns)
        return p->end_ns > q->end_ns ? -1 : 1;
    return (p->kind > q->kind) - (p->kind < q->kind);
}

enum lk_status lk_sim_trace_write(struct lk_sim_trace *r, const char *dir)
{
    enum lk_status st = r->status;
    char *path = NULL;

    if (st != LK_OK)
        return st;
    LK_TRY(lk_mkdirs(dir));
    for (size_t i = 0; i < r->n; i++) {
        struct lk_trace *t = &r->traces[i];

        qsort(t->spans, t->n_spans, sizeof *t->spans, by_start);
        free(path);
        path = NULL;
        LK_TRY(lk_asprintf(&path, "%s/rank%05zu.trace.json.gz", dir, i));
        LK_TRY(lk_trace_write(path, t));
    }
out:
    free(path);
    return st;
}
