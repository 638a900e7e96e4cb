/* Write traces: files, header, times. trace_event.c writes the events. */
#include "base/trace.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/coll.h"
#include "base/file.h"
#include "base/trace_format.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/*
 * Times are relative to a base shared by all ranks, because tools that do not add it (HTA) would
 * otherwise see ranks apart. The base is the epoch floored to 90 days, as Kineto floors to about
 * three months, so microseconds with three decimals still fit a double.
 */
#define BASE_STEP_NS (90ULL * 24 * 3600 * LK_NS_PER_S)

int64_t lk_trace_file_ns(const struct lk_trace_out *f, const struct lk_trace_rank_out *r,
                         uint64_t local_ns)
{
    uint64_t ns = r->on_reference ? lk_clock_apply(&r->t->clock, local_ns) : local_ns;

    return (int64_t)(ns - r->base_local_ns + r->base_epoch_ns - f->base_ns);
}

void lk_trace_put_us(struct lk_json_out *o, const char *key, int64_t ns)
{
    unsigned long long size = ns < 0 ? 0 - (unsigned long long)ns : (unsigned long long)ns;

    lk_json_out_raw(o, key, "%s%llu.%03llu", ns < 0 ? "-" : "", size / LK_NS_PER_US,
                    size % LK_NS_PER_US);
}

/* ---- Preparation ---- */

static enum lk_status check_span(const struct lk_trace *t, const struct lk_trace_span *s)
{
    const char *what = NULL;

    if (s->span.kind >= LK_SPAN_KIND_COUNT)
        what = "an unknown kind";
    else if (s->track >= t->n_tracks)
        what = "an unknown track";
    else if (s->span.name > t->n_names)
        what = "an unknown name";
    else if (s->span.end_ns < s->span.start_ns)
        what = "an end before its start";
    else if ((s->span.kind == LK_SPAN_GRADIENT || s->span.kind == LK_SPAN_COUNTER) &&
             s->span.end_ns != s->span.start_ns)
        what = "a duration, as an instant";
    if (what)
        return lk_fail(LK_EINTERNAL, "trace of rank %d: span %td has %s", t->info.rank,
                       s - t->spans, what);
    return LK_OK;
}

static int by_step(const void *a, const void *b)
{
    const struct lk_trace_step *x = a;
    const struct lk_trace_step *y = b;

    return x->step != y->step ? (x->step > y->step) - (x->step < y->step)
                              : (x->start_ns > y->start_ns) - (x->start_ns < y->start_ns);
}

static void rank_fini(struct lk_trace_rank_out *r)
{
    free(r->steps);
    free(r->has_kernels);
}

/* Set has_kernels for all tracks of a stream: its ranges, and its GPU's records. */
static void share_kernels(struct lk_trace_rank_out *r)
{
    const struct lk_trace *t = r->t;

    for (size_t i = 0; i < t->n_tracks; i++)
        for (size_t k = 0; k < t->n_tracks; k++)
            if (r->has_kernels[k] && t->tracks[i].kind == t->tracks[k].kind &&
                t->tracks[i].stream == t->tracks[k].stream)
                r->has_kernels[i] = true;
}

/* Check the spans and find the steps, the tracks with kernels and the track of launches. */
static enum lk_status rank_init(const struct lk_trace_out *f, struct lk_trace_rank_out *r)
{
    const struct lk_trace *t = r->t;
    enum lk_status st = LK_OK;
    size_t capacity = 0;

    LK_TRY(lk_alloc(&r->has_kernels, t->n_tracks, sizeof *r->has_kernels));
    for (size_t i = t->n_tracks; i-- > 0;)
        if (t->tracks[i].kind == LK_TRACK_HOST)
            r->launch_track = (uint32_t)i;
    for (size_t i = 0; i < t->n_spans; i++) {
        const struct lk_trace_span *s = &t->spans[i];

        LK_TRY(check_span(t, s));
        if (s->span.kind == LK_SPAN_KERNEL)
            r->has_kernels[s->track] = true;
        if (s->span.kind != LK_SPAN_STEP)
            continue;
        LK_TRY(lk_array_grow(&r->steps, &capacity, r->n_steps + 1, sizeof *r->steps));
        r->steps[r->n_steps++] =
            (struct lk_trace_step){.step = s->span.step,
                                   .start_ns = lk_trace_file_ns(f, r, s->span.start_ns),
                                   .end_ns = lk_trace_file_ns(f, r, s->span.end_ns),
                                   .track = s->track};
    }
    share_kernels(r);
    if (r->n_steps)
        qsort(r->steps, r->n_steps, sizeof *r->steps, by_step);
out:
    return st;
}

/* ---- Header ---- */

static void write_distributed(struct lk_json_out *o, const struct lk_run_info *i)
{
    lk_json_out_object(o, "distributedInfo");
    lk_json_out_text(o, "backend", i->comm ? i->comm : "");
    lk_json_out_int(o, "rank", i->rank);
    lk_json_out_int(o, "world_size", i->world_size);
    lk_json_out_int(o, "pg_count", 1);
    lk_json_out_array(o, "pg_config");
    lk_json_out_compact(o);
    lk_json_out_object(o, NULL);
    lk_json_out_text(o, "pg_name", "0");
    lk_json_out_text(o, "pg_desc", "default_pg");
    lk_json_out_text(o, "backend_config", i->comm ? i->comm : "");
    lk_json_out_int(o, "pg_size", i->world_size);
    lk_json_out_array(o, "ranks");
    for (int r = 0; r < i->world_size; r++)
        lk_json_out_int(o, NULL, r);
    lk_json_out_close(o);
    lk_json_out_close(o);
    lk_json_out_close(o);
    lk_json_out_close(o);
}

/* Writes the object "lockstep". The ranks' structs are borrowed, not freed. */
static enum lk_status write_ours(const struct lk_trace_out *f, bool merged)
{
    enum lk_status st = LK_OK;
    struct lk_trace_header h = {.merged = merged, .n_ranks = f->n_ranks};

    LK_TRY(lk_alloc(&h.ranks, f->n_ranks, sizeof *h.ranks));
    for (size_t i = 0; i < f->n_ranks; i++) {
        const struct lk_trace_rank_out *r = &f->ranks[i];
        struct lk_trace *t = &h.ranks[i].trace;

        *t = *r->t;
        t->base_epoch_ns = r->base_epoch_ns;
        t->base_local_ns = r->base_local_ns;
        if (r->on_reference) {
            t->clock = lk_clock_identity();
            t->clock.uncertainty_ns = r->t->clock.uncertainty_ns;
        }
        h.ranks[i].n_spans = t->n_spans;
    }
    lk_record_write(&lk_trace_header_record, f->o, "lockstep", &h);
out:
    free(h.ranks);
    return st;
}

static enum lk_status write_header(const struct lk_trace_out *f, bool merged)
{
    struct lk_json_out *o = f->o;

    lk_json_out_int(o, "schemaVersion", 1);
    lk_json_out_array(o, "deviceProperties");
    for (size_t i = 0; i < f->n_ranks; i++) {
        const struct lk_run_info *info = &f->ranks[i].t->info;

        lk_json_out_compact(o);
        lk_json_out_object(o, NULL);
        lk_json_out_int(o, "id", info->local_rank);
        lk_json_out_text(o, "name", info->device ? info->device : "");
        lk_json_out_close(o);
    }
    lk_json_out_close(o);
    lk_json_out_text(o, "displayTimeUnit", "ms");
    lk_json_out_uint(o, "baseTimeNanoseconds", f->base_ns);
    write_distributed(o, &f->ranks[0].t->info);
    return write_ours(f, merged);
}

/* ---- Files ---- */

static enum lk_status write_document(struct lk_trace_out *f, struct lk_writer *w, const char *path,
                                     bool merged)
{
    const char *slash = strrchr(path, '/');
    enum lk_status st = lk_json_out_begin(w, &f->o);

    if (st != LK_OK)
        return st;
    lk_json_out_object(f->o, NULL);
    st = write_header(f, merged);
    if (st == LK_OK)
        st = lk_trace_write_events(f);
    if (st == LK_OK) {
        lk_json_out_text(f->o, "traceName", slash ? slash + 1 : path);
        lk_json_out_close(f->o);
    }
    LK_KEEP(lk_json_out_end(f->o));
    return st;
}

static enum lk_status write_file(const char *path, const struct lk_trace *traces, size_t n,
                                 bool merged)
{
    enum lk_status st = LK_OK;
    struct lk_trace_out f = {.base_ns = traces[0].base_epoch_ns / BASE_STEP_NS * BASE_STEP_NS};
    struct lk_writer *w = NULL;

    LK_TRY(lk_alloc(&f.ranks, n, sizeof *f.ranks));
    f.n_ranks = n;
    for (size_t i = 0; i < n; i++) {
        const struct lk_trace *base = merged ? &traces[0] : &traces[i];

        f.ranks[i].t = &traces[i];
        f.ranks[i].on_reference = merged;
        f.ranks[i].base_epoch_ns = base->base_epoch_ns;
        f.ranks[i].base_local_ns = base->base_local_ns;
        LK_TRY(rank_init(&f, &f.ranks[i]));
    }
    LK_TRY(lk_writer_open(path, lk_ends_with(path, ".gz"), &w));
    LK_TRY(write_document(&f, w, path, merged));
    st = lk_writer_commit(w);
    w = NULL;
out:
    lk_writer_abandon(w);
    for (size_t i = 0; i < f.n_ranks; i++)
        rank_fini(&f.ranks[i]);
    free(f.ranks);
    return st;
}

enum lk_status lk_trace_write(const char *path, const struct lk_trace *t)
{
    return lk_fail_context(write_file(path, t, 1, false), "%s", path);
}

enum lk_status lk_trace_write_merged(const char *path, const struct lk_trace *traces, size_t n)
{
    return lk_fail_context(write_file(path, traces, n, true), "%s", path);
}
