/*
 * Write traces. Divisions: times, preparation, events, header, files. The events are metadata
 * (names of tracks), then per rank its spans in order, each device span preceded by its synthetic
 * launch.
 */
#include "facts/trace.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/file.h"
#include "facts/coll.h"
#include "facts/trace_format.h"
#include "facts/trace_out.h"
#include "facts/trace_work.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Times are relative to a base shared by all ranks, because tools that do not add it (HTA) would
 * otherwise see ranks apart. The base is the epoch floored to 90 days, as Kineto floors to about
 * three months, so microseconds with three decimals still fit a double.
 */
#define BASE_STEP_NS (90ULL * 24 * 3600 * LK_NS_PER_S)

/* Convert a rank's local time to file time: ns since base_ns; may be negative. */
int64_t lk_trace_file_ns(const struct trace_out *f, const struct rank_out *r, uint64_t local_ns)
{
    uint64_t ns = r->on_reference ? lk_clock_apply(&r->t->clock, local_ns) : local_ns;

    return (int64_t)(ns - r->base_local_ns + r->base_epoch_ns - f->base_ns);
}

/* Write ns as microseconds with three decimals. */
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
    const struct step_range *x = a;
    const struct step_range *y = b;

    return x->step != y->step ? LK_ORDER(x->step, y->step) : LK_ORDER(x->start_ns, y->start_ns);
}

/* Check the spans and find the steps, the device's work and the track of launches. */
static enum lk_status rank_init(const struct trace_out *f, struct rank_out *r)
{
    const struct lk_trace *t = r->t;
    size_t capacity = 0;

    for (size_t i = t->n_tracks; i-- > 0;)
        if (t->tracks[i].kind == LK_TRACK_HOST)
            r->launch_track = (uint32_t)i;
    for (size_t i = 0; i < t->n_spans; i++) {
        const struct lk_trace_span *s = &t->spans[i];

        LK_PASS(check_span(t, s));
        if (s->span.kind != LK_SPAN_STEP)
            continue;
        LK_PASS(lk_array_grow(&r->steps, &capacity, r->n_steps + 1, sizeof *r->steps));
        r->steps[r->n_steps++] =
            (struct step_range){.step = s->span.step,
                                .start_ns = lk_trace_file_ns(f, r, s->span.start_ns),
                                .end_ns = lk_trace_file_ns(f, r, s->span.end_ns),
                                .track = s->track};
    }
    if (r->n_steps)
        qsort(r->steps, r->n_steps, sizeof *r->steps, by_step);
    LK_PASS(lk_alloc(&r->work, 1, sizeof *r->work));
    return lk_trace_work_init(r->work, t);
}

/* ---- Events ---- */

void lk_trace_write_metadata(struct lk_json_out *o, const char *name, int pid, size_t tid,
                             const char *arg, const char *text, int64_t number)
{
    lk_json_out_compact(o);
    lk_json_out_object(o, NULL);
    lk_json_out_text(o, "ph", "M");
    lk_json_out_text(o, "name", name);
    lk_trace_put_us(o, "ts", 0);
    lk_json_out_int(o, "pid", pid);
    lk_json_out_uint(o, "tid", tid);
    lk_json_out_object(o, "args");
    if (text)
        lk_json_out_text(o, arg, text);
    else
        lk_json_out_int(o, arg, number);
    lk_json_out_close(o);
    lk_json_out_close(o);
}

/* Return the position at which viewers show a track: tracks of one stream are adjacent. */
static int64_t sort_index(const struct lk_trace *t, size_t track)
{
    for (size_t i = 0; i < track; i++)
        if (t->tracks[i].kind == t->tracks[track].kind &&
            t->tracks[i].stream == t->tracks[track].stream)
            return 2 * (int64_t)i + 1;
    return 2 * (int64_t)track;
}

static enum lk_status write_names(struct lk_json_out *o, const struct lk_trace *t)
{
    enum lk_status st = LK_OK;
    int rank = t->info.rank;
    char *name = NULL;

    LK_TRY(lk_asprintf(&name, "rank %d%s%s%s", rank, t->info.host && *t->info.host ? " on " : "",
                       t->info.host ? t->info.host : "", t->truncated ? " (truncated)" : ""));
    lk_trace_write_metadata(o, "process_name", rank, 0, "name", name, 0);
    lk_trace_write_metadata(o, "process_labels", rank, 0, "labels",
                            t->info.device ? t->info.device : "", 0);
    lk_trace_write_metadata(o, "process_sort_index", rank, 0, "sort_index", NULL, rank);
    for (size_t i = 0; i < t->n_tracks; i++) {
        lk_trace_write_metadata(o, "thread_name", rank, i + 1, "name", t->tracks[i].name, 0);
        lk_trace_write_metadata(o, "thread_sort_index", rank, i + 1, "sort_index", NULL,
                                sort_index(t, i));
    }
    LK_TRY(lk_trace_write_launch_rows(o, t));
out:
    free(name);
    return st;
}

void lk_trace_begin_event(struct lk_json_out *o, const char *ph, const char *cat, const char *name,
                          const struct rank_out *r, uint32_t track, int64_t ts_ns)
{
    lk_json_out_compact(o);
    lk_json_out_object(o, NULL);
    lk_json_out_text(o, "ph", ph);
    lk_json_out_text(o, "cat", cat);
    lk_json_out_text(o, "name", name);
    lk_json_out_int(o, "pid", r->t->info.rank);
    lk_json_out_int(o, "tid", (int64_t)track + 1);
    lk_trace_put_us(o, "ts", ts_ns);
}

/* Return the element type to count a span's bytes in, since Kineto wants elements: the gradients'
 * type if they share one, else bytes; of a bucket that a hook rounds, the type it is rounded to. */
static enum lk_dtype wire_dtype(const struct lk_run_info *i, const struct lk_span *s)
{
    uint64_t bytes = s->bytes;

    bool hooked = s->index >= 0 && i->world_size > 1; /* a rank alone rounds nothing */

    if (hooked && i->compression == LK_COMPRESSION_FP16)
        return LK_F16;
    if (hooked && i->compression == LK_COMPRESSION_BF16)
        return LK_BF16;
    for (size_t t = 1; t < i->n_tensors; t++)
        if (i->tensors[t].dtype != i->tensors[0].dtype)
            return LK_U8;
    if (!i->n_tensors || bytes % lk_dtype_bytes(i->tensors[0].dtype))
        return LK_U8;
    return i->tensors[0].dtype;
}

/* Return the collective's name; a bucket's collective without a name is its all-reduce. */
static const char *collective_name(const struct rank_out *r, const struct lk_span *s)
{
    return s->name == 0 && s->index >= 0 ? lk_coll_name(LK_ALL_REDUCE)
                                         : lk_trace_span_name(r->t, s);
}

enum { RANKS_SHOWN = 30, RANKS_TEXT = 16 * (RANKS_SHOWN + 1) };

/* Write "[0, 1, 2]"; as PyTorch does, no more than 30. */
static const char *ranks_text(int n, char buf[RANKS_TEXT])
{
    size_t at = (size_t)snprintf(buf, RANKS_TEXT, "[");

    for (int r = 0; r < n && r < RANKS_SHOWN; r++)
        at += (size_t)snprintf(buf + at, RANKS_TEXT - at, "%s%d", r ? ", " : "", r);
    (void)snprintf(buf + at, RANKS_TEXT - at, n > RANKS_SHOWN ? ", ...]" : "]");
    return buf;
}

/* Return how many ranks a name speaks of, "all_gather of 2 ranks"; without a word of it, all. */
static int ranks_of(const char *name, int world_size)
{
    const char *of = strstr(name, " of ");
    int n;

    return of && sscanf(of, " of %d ranks", &n) == 1 && n > 0 ? n : world_size;
}

static void write_collective(const struct rank_out *r, struct lk_json_out *o,
                             const struct lk_span *s)
{
    const struct lk_run_info *i = &r->t->info;
    const char *name = collective_name(r, s);
    enum lk_dtype dtype = wire_dtype(i, s);
    uint64_t elems = s->bytes / lk_dtype_bytes(dtype), parts;
    char ranks[RANKS_TEXT];
    enum lk_coll coll = LK_ALL_REDUCE;
    int group = ranks_of(name, i->world_size);

    if (lk_coll_find(name, strcspn(name, " "), &coll))
        name = lk_coll_kineto_name(coll);
    parts = (uint64_t)group;
    lk_json_out_text(o, "Collective name", name);
    lk_json_out_uint(o, "In msg nelems", coll == LK_ALL_GATHER ? elems / parts : elems);
    lk_json_out_uint(o, "Out msg nelems", coll == LK_REDUCE_SCATTER ? elems / parts : elems);
    lk_json_out_int(o, "Group size", group);
    lk_json_out_text(o, "dtype", lk_dtype_torch_name(dtype));
    lk_json_out_text(o, "In split size", "[]");
    lk_json_out_text(o, "Out split size", "[]");
    lk_json_out_text(o, "Process Group Name", "0");
    lk_json_out_text(o, "Process Group Ranks", ranks_text(i->world_size, ranks));
    lk_json_out_text(o, "Process Group Description", "default_pg");
    lk_json_out_text(o, lk_trace_keys[LK_TRACE_BACKEND], i->comm ? i->comm : "");
}

static void write_own(const struct trace_out *f, const struct rank_out *r, const struct lk_span *s)
{
    struct lk_json_out *o = f->o;

    lk_json_out_text(o, lk_trace_keys[LK_TRACE_KIND],
                     lk_span_kind_name((enum lk_span_kind)s->kind));
    lk_json_out_uint(o, lk_trace_keys[LK_TRACE_STEP], s->step);
    if (s->index != -1)
        lk_json_out_int(o, lk_trace_keys[LK_TRACE_INDEX], s->index);
    if (s->name)
        lk_json_out_uint(o, lk_trace_keys[LK_TRACE_NAME], s->name);
    if (s->kind != LK_SPAN_COUNTER && s->bytes)
        lk_json_out_uint(o, lk_trace_keys[LK_TRACE_BYTES], s->bytes);
    if (s->ready_ns)
        lk_trace_put_us(o, lk_trace_keys[LK_TRACE_READY], lk_trace_file_ns(f, r, s->ready_ns));
    if (s->seq)
        lk_json_out_uint(
            o, lk_trace_keys[s->kind == LK_SPAN_COLLECTIVE ? LK_TRACE_SEQ : LK_TRACE_CALL], s->seq);
}

/* Write an instant: ready, start and end are the same time. */
static void write_gradient(const struct trace_out *f, const struct rank_out *r,
                           const struct lk_trace_span *s)
{
    const struct lk_run_info *i = &r->t->info;
    const char *name = lk_trace_span_name(r->t, &s->span);
    struct lk_json_out *o = f->o;

    if (!s->span.name && s->span.index >= 0 && (size_t)s->span.index < i->n_tensors &&
        i->tensors[s->span.index].name)
        name = i->tensors[s->span.index].name;
    lk_trace_begin_event(o, "i", lk_span_kind_category(LK_SPAN_GRADIENT), name, r, s->track,
                         lk_trace_file_ns(f, r, s->span.start_ns));
    lk_json_out_text(o, "s", "t");
    lk_json_out_object(o, "args");
    write_own(f, r, &s->span);
    lk_json_out_close(o);
    lk_json_out_close(o);
}

static void write_counter(const struct trace_out *f, const struct rank_out *r,
                          const struct lk_trace_span *s)
{
    struct lk_json_out *o = f->o;
    double v = s->span.value;

    lk_trace_begin_event(o, "C", lk_span_kind_category(LK_SPAN_COUNTER),
                         lk_trace_span_name(r->t, &s->span), r, s->track,
                         lk_trace_file_ns(f, r, s->span.start_ns));
    write_own(f, r, &s->span);
    lk_json_out_object(o, "args");
    if (isfinite(v))
        lk_json_out_number(o, "value", v);
    else
        lk_json_out_text(o, "value", isnan(v) ? "nan" : v > 0 ? "inf" : "-inf");
    lk_json_out_close(o);
    lk_json_out_close(o);
}

/* Return the category of an annotation. Kineto too shows a collective as range and kernel. */
static const char *annotation_category(enum lk_span_kind kind)
{
    return kind == LK_SPAN_COLLECTIVE ? "gpu_user_annotation" : lk_span_kind_category(kind);
}

/* Return the name that viewers and HTA's classification use: buf or a name. */
static const char *shown_name(const struct rank_out *r, const struct lk_span *s, char *buf,
                              size_t size)
{
    const char *name = lk_trace_span_name(r->t, s);

    if (s->kind == LK_SPAN_STEP)
        snprintf(buf, size, "ProfilerStep#%" PRIu32, s->step);
    else if (s->kind == LK_SPAN_COLLECTIVE)
        snprintf(buf, size, "nccl:%s", collective_name(r, s));
    else if (s->kind == LK_SPAN_COPY)
        snprintf(buf, size, "Memcpy%s%s", s->name ? " " : "", s->name ? name : "");
    else if (s->kind == LK_SPAN_MEMSET)
        snprintf(buf, size, "Memset (Device)");
    else
        return name;
    return buf;
}

static void write_range(struct trace_out *f, const struct rank_out *r,
                        const struct lk_trace_span *s)
{
    const char *device = lk_trace_work_category(r->work, s);
    const struct lk_span *collective = lk_trace_work_collective(r->work, s);
    struct lk_json_out *o = f->o;
    char name[160];

    if (device) {
        f->correlation++;
        lk_trace_write_launch(f, r, s);
    }
    lk_trace_begin_event(o, "X",
                         device ? device : annotation_category((enum lk_span_kind)s->span.kind),
                         shown_name(r, &s->span, name, sizeof name), r, s->track,
                         lk_trace_file_ns(f, r, s->span.start_ns));
    lk_trace_put_us(o, "dur",
                    lk_trace_file_ns(f, r, s->span.end_ns) -
                        lk_trace_file_ns(f, r, s->span.start_ns));
    lk_json_out_object(o, "args");
    if (device) {
        lk_json_out_int(o, "device", r->t->info.local_rank);
        lk_json_out_int(o, "stream", (int64_t)s->track + 1);
        lk_json_out_uint(o, "correlation", f->correlation);
    }
    if (s->span.kind == LK_SPAN_COPY || s->span.kind == LK_SPAN_MEMSET) {
        uint64_t ns = s->span.end_ns - s->span.start_ns;

        lk_json_out_uint(o, "bytes", s->span.bytes);
        lk_json_out_number(o, "memory bandwidth (GB/s)",
                           ns ? (double)s->span.bytes / (double)ns : 0);
    }
    if (collective)
        write_collective(r, o, collective);
    write_own(f, r, &s->span);
    lk_json_out_close(o);
    lk_json_out_close(o);
}

static enum lk_status write_events(struct trace_out *f)
{
    lk_json_out_array(f->o, "traceEvents");
    for (size_t i = 0; i < f->n_ranks; i++)
        LK_PASS(write_names(f->o, f->ranks[i].t));
    for (size_t i = 0; i < f->n_ranks; i++) {
        const struct rank_out *r = &f->ranks[i];

        for (size_t j = 0; j < r->t->n_spans; j++) {
            const struct lk_trace_span *s = &r->t->spans[j];

            if (s->span.kind == LK_SPAN_GRADIENT)
                write_gradient(f, r, s);
            else if (s->span.kind == LK_SPAN_COUNTER)
                write_counter(f, r, s);
            else
                write_range(f, r, s);
        }
    }
    lk_json_out_close(f->o);
    return LK_OK;
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
static enum lk_status write_ours(const struct trace_out *f, bool merged)
{
    enum lk_status st = LK_OK;
    struct lk_trace_header h = {.merged = merged, .n_ranks = f->n_ranks};

    LK_TRY(lk_alloc(&h.ranks, f->n_ranks, sizeof *h.ranks));
    for (size_t i = 0; i < f->n_ranks; i++) {
        const struct rank_out *r = &f->ranks[i];
        struct lk_trace *t = &h.ranks[i];

        *t = *r->t;
        t->base_epoch_ns = r->base_epoch_ns;
        t->base_local_ns = r->base_local_ns;
        if (r->on_reference) {
            t->clock = lk_clock_identity();
            t->clock.uncertainty_ns = r->t->clock.uncertainty_ns;
        }
    }
    lk_record_write(&lk_trace_header_record, f->o, "lockstep", &h);
out:
    free(h.ranks);
    return st;
}

static enum lk_status write_header(const struct trace_out *f, bool merged)
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

static enum lk_status write_document(struct trace_out *f, struct lk_writer *w, const char *path,
                                     bool merged)
{
    const char *slash = strrchr(path, '/');
    enum lk_status st = lk_json_out_begin(w, &f->o);

    if (st != LK_OK)
        return st;
    lk_json_out_object(f->o, NULL);
    st = write_header(f, merged);
    if (st == LK_OK)
        st = write_events(f);
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
    struct trace_out f = {.base_ns = traces[0].base_epoch_ns / BASE_STEP_NS * BASE_STEP_NS};
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
    for (size_t i = 0; i < f.n_ranks; i++) {
        free(f.ranks[i].steps);
        if (f.ranks[i].work)
            lk_trace_work_fini(f.ranks[i].work);
        free(f.ranks[i].work);
    }
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
