/*
 * Reading traces of our own schema. Keys and events may come in any order: spans are kept by rank
 * in file time until the whole file is read, and become traces then.
 */
#include "base/trace.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/trace_format.h"

#include <stdlib.h>
#include <string.h>

/* The spans of one rank. Times are file time: int64_t ns in the fields of the span. */
struct part {
    int rank;
    struct lk_trace_span *spans;
    size_t n, capacity;
};

struct reader {
    const char *path;
    bool has_base, has_header, merged;
    uint64_t base_ns;
    struct lk_trace_rank_in *ranks;
    size_t n_ranks;
    struct part *parts;
    size_t n_parts, parts_capacity;
    struct part *last; /* the part of the last event; NULL: none */
};

static void reader_fini(struct reader *r)
{
    lk_trace_ranks_free(r->ranks, r->n_ranks);
    for (size_t i = 0; i < r->n_parts; i++)
        free(r->parts[i].spans);
    free(r->parts);
}

static enum lk_status on_member(void *ctx, const char *key, struct lk_json *v)
{
    struct reader *r = ctx;
    enum lk_status st = LK_OK;

    if (!strcmp(key, "lockstep")) {
        LK_TRY(lk_trace_read_header(v, &r->merged, &r->ranks, &r->n_ranks));
        r->has_header = true;
    }
    if (!strcmp(key, "baseTimeNanoseconds")) {
        LK_TRY(lk_json_as_uint(v, INT64_MAX, &r->base_ns));
        r->has_base = true;
    }
out:
    return st;
}

/* ---- Events ---- */

static enum lk_status find_part(struct reader *r, int rank, struct part **out)
{
    enum lk_status st = LK_OK;

    for (size_t i = 0; i < r->n_parts; i++)
        if (r->parts[i].rank == rank) {
            *out = &r->parts[i];
            return LK_OK;
        }
    LK_TRY(lk_array_grow(&r->parts, &r->parts_capacity, r->n_parts + 1, sizeof *r->parts));
    r->parts[r->n_parts] = (struct part){.rank = rank};
    *out = &r->parts[r->n_parts++];
out:
    return st;
}

/* What contradicts the header, or NULL. */
static const char *contradiction(const struct lk_trace_rank_in *r, const struct lk_trace_span *s)
{
    if (s->track >= r->trace.n_tracks)
        return "its track (tid) is not in lockstep.ranks[].tracks";
    if (s->span.name > r->trace.n_names)
        return "its lk_name is not in lockstep.ranks[].names";
    return NULL;
}

static const struct lk_trace_rank_in *find_rank(const struct reader *r, int rank)
{
    for (size_t i = 0; i < r->n_ranks; i++)
        if (r->ranks[i].trace.info.rank == rank)
            return &r->ranks[i];
    return NULL;
}

static enum lk_status keep(struct reader *r, struct lk_json *event, int rank,
                           const struct lk_trace_span *s)
{
    enum lk_status st = LK_OK;
    struct part *p = r->last;

    if (!p || p->rank != rank) {
        if (r->has_header && !find_rank(r, rank))
            return lk_json_error(event, "pid %d is no rank of this trace", rank);
        LK_TRY(find_part(r, rank, &p));
    }
    if (r->has_header && contradiction(find_rank(r, rank), s))
        return lk_json_error(event, "%s", contradiction(find_rank(r, rank), s));
    LK_TRY(lk_array_grow(&p->spans, &p->capacity, p->n + 1, sizeof *p->spans));
    p->spans[p->n++] = *s;
    r->last = p;
out:
    return st;
}

static enum lk_status on_event(void *ctx, struct lk_json *event)
{
    enum lk_status st = LK_OK;
    struct lk_trace_span s;
    bool ours;
    int rank;

    LK_TRY(lk_trace_read_event(event, &ours, &rank, &s));
    if (ours)
        LK_TRY(keep(ctx, event, rank, &s));
out:
    return st;
}

/* ---- Traces ---- */

/* File time to the rank's clock; false when it is none of a clock. */
static bool to_local(const struct reader *r, const struct lk_trace *t, uint64_t *ns)
{
    *ns = *ns + r->base_ns - t->base_epoch_ns + t->base_local_ns;
    return *ns <= INT64_MAX;
}

static int by_start(const void *a, const void *b)
{
    const struct lk_trace_span *x = *(const struct lk_trace_span *const *)a;
    const struct lk_trace_span *y = *(const struct lk_trace_span *const *)b;

    return x->span.start_ns != y->span.start_ns
               ? (x->span.start_ns > y->span.start_ns) - (x->span.start_ns < y->span.start_ns)
               : (x > y) - (x < y);
}

/* Our writer sorts; a tool that rewrote the file may not have. */
static enum lk_status sort(struct part *p)
{
    enum lk_status st = LK_OK;
    const struct lk_trace_span **order = NULL;
    struct lk_trace_span *sorted = NULL;
    size_t i = 1;

    while (i < p->n && p->spans[i - 1].span.start_ns <= p->spans[i].span.start_ns)
        i++;
    if (i >= p->n)
        return LK_OK;
    LK_TRY(lk_alloc(&order, p->n, sizeof(const struct lk_trace_span *)));
    LK_TRY(lk_alloc(&sorted, p->n, sizeof *sorted));
    for (i = 0; i < p->n; i++)
        order[i] = &p->spans[i];
    qsort(order, p->n, sizeof(const struct lk_trace_span *), by_start);
    for (i = 0; i < p->n; i++)
        sorted[i] = *order[i];
    free(p->spans);
    p->spans = sorted;
    p->capacity = p->n;
    sorted = NULL;
out:
    free(order);
    free(sorted);
    return st;
}

/* Moves a part's spans into their trace. */
static enum lk_status finish_rank(const struct reader *r, struct lk_trace_rank_in *k,
                                  struct part *p)
{
    enum lk_status st = LK_OK;
    int rank = k->trace.info.rank;
    size_t n = p ? p->n : 0;

    if (n != k->n_spans)
        return lk_fail(LK_EPARSE, "%s: rank %d: %zu spans, but lockstep.ranks[].spans says %llu",
                       r->path, rank, n, (unsigned long long)k->n_spans);
    for (size_t i = 0; i < n; i++) {
        struct lk_span *s = &p->spans[i].span;

        if (contradiction(k, &p->spans[i]))
            return lk_fail(LK_EPARSE, "%s: rank %d: span %zu: %s", r->path, rank, i,
                           contradiction(k, &p->spans[i]));
        if (s->ready_ns == LK_TRACE_NO_READY)
            s->ready_ns = 0;
        else if (!to_local(r, &k->trace, &s->ready_ns))
            return lk_fail(LK_EPARSE, "%s: rank %d: span %zu: lk_ready_us is out of range", r->path,
                           rank, i);
        if (!to_local(r, &k->trace, &s->start_ns) || !to_local(r, &k->trace, &s->end_ns))
            return lk_fail(LK_EPARSE, "%s: rank %d: span %zu: ts is out of range", r->path, rank,
                           i);
    }
    if (!p)
        return LK_OK;
    LK_TRY(sort(p));
    k->trace.spans = p->spans;
    k->trace.n_spans = n;
    p->spans = NULL;
out:
    return st;
}

static enum lk_status finish(struct reader *r)
{
    enum lk_status st = LK_OK;

    if (!r->has_header)
        return lk_fail(LK_EPARSE, "%s: not a trace of lockstep: no \"lockstep\" object", r->path);
    if (!r->has_base)
        return lk_fail(LK_EPARSE, "%s: baseTimeNanoseconds: missing", r->path);
    for (size_t i = 0; i < r->n_parts; i++)
        if (!find_rank(r, r->parts[i].rank))
            return lk_fail(LK_EPARSE, "%s: pid %d is no rank of this trace", r->path,
                           r->parts[i].rank);
    for (size_t i = 0; i < r->n_ranks; i++) {
        struct part *p = NULL;

        for (size_t j = 0; j < r->n_parts; j++)
            if (r->parts[j].rank == r->ranks[i].trace.info.rank)
                p = &r->parts[j];
        LK_TRY(finish_rank(r, &r->ranks[i], p));
    }
out:
    return st;
}

static enum lk_status read_all(const char *path, struct reader *r)
{
    static const struct lk_json_walk walk = {
        .array = "traceEvents", .item = on_event, .member = on_member};
    enum lk_status st = LK_OK;

    r->path = path;
    LK_TRY(lk_json_walk(path, &walk, r));
    LK_TRY(finish(r));
out:
    return st;
}

enum lk_status lk_trace_read(const char *path, struct lk_trace *out)
{
    enum lk_status st = LK_OK;
    struct reader r = {0};

    LK_TRY(read_all(path, &r));
    if (r.merged) {
        st = lk_fail(LK_EPARSE, "%s: a merged trace; this needs the trace of one rank", path);
        goto out;
    }
    *out = r.ranks[0].trace;
    r.ranks[0].trace = (struct lk_trace){0};
out:
    reader_fini(&r);
    return st;
}

enum lk_status lk_trace_read_merged(const char *path, struct lk_trace **out, size_t *out_n)
{
    enum lk_status st = LK_OK;
    struct lk_trace *traces = NULL;
    struct reader r = {0};

    LK_TRY(read_all(path, &r));
    LK_TRY(lk_alloc(&traces, r.n_ranks, sizeof *traces));
    for (size_t i = 0; i < r.n_ranks; i++) {
        traces[i] = r.ranks[i].trace;
        r.ranks[i].trace = (struct lk_trace){0};
    }
    *out = traces;
    *out_n = r.n_ranks;
out:
    reader_fini(&r);
    return st;
}
