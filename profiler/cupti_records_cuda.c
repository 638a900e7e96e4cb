/*
 * CUPTI's records become spans. Divisions: layouts, ids, tracks, matching, kinds, buffers.
 *
 * A record of work has a correlation id, which it shares with the API call that caused it; an
 * external correlation record says which of our ids (lk_cupti_id) was on top of the calling
 * thread's stack then. Of NCCL's own threads there is the call's record alone, which tells when it
 * was. There is no order between the kinds, not even between buffers, so what comes without its id
 * waits. So does work on a stream whose track is not known yet: that is
 * learnt from the first op, copy or collective of ours that ran on it.
 */
#include "profiler/cupti_impl_cuda.h"

#ifdef LK_HAVE_CUPTI

#include "base/array.h"
#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Layouts ---- */

/*
 * What is read of each record. CUPTI appends to its records and gives them new names
 * (CUpti_ActivityKernel4 of CUDA 9 to CUpti_ActivityKernel10 of CUDA 13); these fields have not
 * moved since, which is checked below for the structs of the headers at hand.
 */
struct kernel_record {
    uint32_t kind;
    uint8_t config[12];
    uint64_t start, end, completed;
    uint32_t device, context, stream;
    int32_t launch[8];
    uint32_t local[2], correlation;
    int64_t grid;
    const char *name;
};

/* Of a memset, copy_kind is the value's first byte. */
struct copy_record {
    uint32_t kind;
    uint8_t copy_kind, from, to, flags;
    uint64_t bytes, start, end;
    uint32_t device, context, stream, correlation;
};

struct peer_copy_record {
    uint32_t kind;
    uint8_t copy_kind, from, to, flags;
    uint64_t bytes, start, end;
    uint32_t device, context, stream, ends[4], correlation;
};

struct sync_record {
    uint32_t kind, type;
    uint64_t start, end;
    uint32_t correlation, context;
};

struct overhead_record {
    uint32_t kind, overhead, object[4];
    uint64_t start, end;
};

struct call_record {
    uint32_t kind, function;
    uint64_t start, end;
    uint32_t process, thread, correlation;
};

struct external_record {
    uint32_t kind, external;
    uint64_t id;
    uint32_t correlation;
};

#define SAME(ours, theirs, a, b)                                                                   \
    _Static_assert(offsetof(struct ours, a) == offsetof(theirs, b), #theirs "." #b)
#define SAME_TIMES(ours, theirs)                                                                   \
    SAME(ours, theirs, start, start);                                                              \
    SAME(ours, theirs, end, end)
#define SAME_WORK(ours, theirs)                                                                    \
    SAME_TIMES(ours, theirs);                                                                      \
    SAME(ours, theirs, context, contextId);                                                        \
    SAME(ours, theirs, stream, streamId);                                                          \
    SAME(ours, theirs, correlation, correlationId)

#if CUPTI_API_VERSION >= 130000
SAME_WORK(kernel_record, CUpti_ActivityKernel4);
SAME(kernel_record, CUpti_ActivityKernel4, name, name);
SAME_WORK(kernel_record, CUpti_ActivityKernel9);
SAME(kernel_record, CUpti_ActivityKernel9, name, name);
SAME_WORK(kernel_record, CUpti_ActivityKernel10);
SAME(kernel_record, CUpti_ActivityKernel10, name, name);
SAME_WORK(copy_record, CUpti_ActivityMemcpy4);
SAME_WORK(copy_record, CUpti_ActivityMemcpy5);
SAME_WORK(copy_record, CUpti_ActivityMemcpy6);
SAME(copy_record, CUpti_ActivityMemcpy6, copy_kind, copyKind);
SAME(copy_record, CUpti_ActivityMemcpy6, bytes, bytes);
SAME_WORK(copy_record, CUpti_ActivityMemset3);
SAME_WORK(copy_record, CUpti_ActivityMemset4);
SAME(copy_record, CUpti_ActivityMemset4, bytes, bytes);
SAME_WORK(peer_copy_record, CUpti_ActivityMemcpyPtoP3);
SAME_WORK(peer_copy_record, CUpti_ActivityMemcpyPtoP4);
SAME(peer_copy_record, CUpti_ActivityMemcpyPtoP4, bytes, bytes);
SAME_TIMES(sync_record, CUpti_ActivitySynchronization);
SAME_TIMES(sync_record, CUpti_ActivitySynchronization2);
SAME(sync_record, CUpti_ActivitySynchronization2, correlation, correlationId);
SAME_TIMES(overhead_record, CUpti_ActivityOverhead);
SAME_TIMES(overhead_record, CUpti_ActivityOverhead2);
SAME_TIMES(overhead_record, CUpti_ActivityOverhead3);
#endif
SAME_TIMES(call_record, CUpti_ActivityAPI);
SAME(call_record, CUpti_ActivityAPI, correlation, correlationId);
SAME(external_record, CUpti_ActivityExternalCorrelation, id, externalId);
SAME(external_record, CUpti_ActivityExternalCorrelation, correlation, correlationId);

/* ---- Ids ---- */

/* 24 bits of the step, 14 of the index and one (0: none), 16 of the name, 4 of the kind, 6 of the
 * track. A step of 2^24 and more is beyond what a span file holds. */
enum { INDEX_BITS = 14, NAME_BITS = 16, KIND_BITS = 4, TRACK_BITS = 6, STEP_BITS = 24 };

_Static_assert(INDEX_BITS + NAME_BITS + KIND_BITS + TRACK_BITS + STEP_BITS == 64, "an id");
_Static_assert(LK_SPAN_KIND_COUNT <= 1 << KIND_BITS, "kinds in an id");
_Static_assert(LK_CUPTI_TRACKS <= 1 << TRACK_BITS, "tracks in an id");

static uint64_t field(uint64_t id, int shift, int bits)
{
    return id >> shift & ((UINT64_C(1) << bits) - 1);
}

uint64_t lk_cupti_id(const struct lk_span *s, int track)
{
    const int64_t index_max = (1 << INDEX_BITS) - 2;
    uint64_t id = s->step & ((1U << STEP_BITS) - 1);

    id = id << INDEX_BITS | (s->index < 0 || s->index > index_max ? 0 : (uint64_t)s->index + 1);
    id = id << NAME_BITS | s->name;
    id = id << KIND_BITS | s->kind;
    return id << TRACK_BITS | (uint64_t)track;
}

struct lk_cupti_issue lk_cupti_id_read(uint64_t id)
{
    struct lk_cupti_issue i;
    int at = 0;

    i.track = (int)field(id, at, TRACK_BITS);
    i.kind = (enum lk_span_kind)field(id, at += TRACK_BITS, KIND_BITS);
    i.name = (uint16_t)field(id, at += KIND_BITS, NAME_BITS);
    i.index = (int32_t)field(id, at += NAME_BITS, INDEX_BITS) - 1;
    i.step = (uint32_t)field(id, at + INDEX_BITS, STEP_BITS);
    return i;
}

/* ---- Tracks ---- */

enum lk_status lk_cupti_records_init(struct lk_cupti_records *r, struct lk_recorder *recorder,
                                     const struct lk_cupti_calls *call)
{
    enum lk_status st = LK_OK;

    *r = (struct lk_cupti_records){.recorder = recorder, .call = call};
    atomic_init(&r->n_tracks, 0);
    atomic_init(&r->began_ns, UINT64_MAX);
    r->earliest_ns = lk_now_ns() - LK_NS_PER_S; /* clocks are fitted, and err a little */
    r->other = (struct lk_cupti_track){.kind = LK_TRACK_COPY};
    snprintf(r->other.gpu_name, sizeof r->other.gpu_name, "other streams, GPU records");
    LK_TRY(lk_alloc(&r->issues, LK_CUPTI_ISSUES, sizeof *r->issues));
    LK_TRY(lk_alloc(&r->pending, LK_CUPTI_PENDING, sizeof *r->pending));
    LK_TRY(lk_cupti_turns_init(&r->turns));
    LK_TRY(lk_cupti_names_init(&r->names, recorder));
out:
    if (st != LK_OK)
        lk_cupti_records_fini(r);
    return st;
}

void lk_cupti_records_fini(struct lk_cupti_records *r)
{
    lk_cupti_names_fini(&r->names);
    lk_cupti_turns_fini(&r->turns);
    free(r->issues);
    free(r->pending);
    r->issues = NULL;
    r->pending = NULL;
}

/* The names of tracks that we make lie in r. */
static bool is_ours(const struct lk_cupti_records *r, const char *name)
{
    uintptr_t at = (uintptr_t)name;

    return at >= (uintptr_t)r && at < (uintptr_t)(r + 1);
}

static const char calls_name[] = "CUDA calls";

static bool has_turns(const struct lk_cupti_records *r, int n_tracks)
{
    for (int i = 0; i < n_tracks; i++)
        if (r->tracks[i].turns)
            return true;
    return false;
}

struct lk_cupti_track *lk_cupti_records_track(struct lk_cupti_records *r,
                                              const struct lk_track_info *info)
{
    int n = atomic_load_explicit(&r->n_tracks, memory_order_relaxed);
    struct lk_cupti_track *t = &r->tracks[n];

    if (n == LK_CUPTI_TRACKS || info->name == calls_name || is_ours(r, info->name))
        return NULL;
    *t = (struct lk_cupti_track){
        .call = r->call, .number = n, .kind = info->kind, .stream = info->stream};
    if (info->kind == LK_TRACK_COMM && !has_turns(r, n))
        t->turns = &r->turns;
    snprintf(t->gpu_name, sizeof t->gpu_name, "%.40s, GPU records", info->name);
    if (n == 0)
        atomic_store(&r->began_ns, lk_now_ns());
    atomic_store_explicit(&r->n_tracks, n + 1, memory_order_release);
    return t;
}

static bool make_track(struct lk_cupti_records *r, const struct lk_track_info *info,
                       struct lk_track **out)
{
    if (lk_recorder_track(r->recorder, info, out) == LK_OK)
        return true;
    lk_log(LK_LOG_PROFILE, LK_WARN, "records of '%s' are lost: %s", info->name, lk_error_text());
    return false;
}

static void emit(struct lk_cupti_records *r, struct lk_cupti_track *t, const struct lk_span *s)
{
    if (!t->gpu && !t->failed)
        t->failed = !make_track(
            r, &(struct lk_track_info){.name = t->gpu_name, .kind = t->kind, .stream = t->stream},
            &t->gpu);
    if (t->failed) {
        r->counts.lost++;
        return;
    }
    r->counts.records++;
    lk_span_emit(t->gpu, s);
}

static bool make_calls_track(struct lk_cupti_records *r)
{
    const struct lk_track_info info = {.name = calls_name, .kind = LK_TRACK_HOST, .stream = 1};

    return r->calls || make_track(r, &info, &r->calls);
}

/* Of a device's stream; NULL: of a thread. */
static struct lk_cupti_track *device_track(struct lk_cupti_records *r, int number)
{
    const bool of_device[LK_TRACK_KIND_COUNT] = {
        [LK_TRACK_COMPUTE] = true, [LK_TRACK_COMM] = true, [LK_TRACK_COPY] = true};

    if (number >= atomic_load_explicit(&r->n_tracks, memory_order_acquire) ||
        !of_device[r->tracks[number].kind])
        return NULL;
    return &r->tracks[number];
}

static struct lk_cupti_track *stream_track(struct lk_cupti_records *r,
                                           const struct lk_cupti_work *w)
{
    for (size_t i = 0; i < r->n_streams; i++)
        if (r->streams[i].stream == w->stream && r->streams[i].context == w->context)
            return &r->tracks[r->streams[i].track];
    return NULL;
}

static void learn(struct lk_cupti_records *r, const struct lk_cupti_work *w, int track)
{
    if (r->n_streams == LK_CUPTI_STREAMS || stream_track(r, w))
        return;
    r->streams[r->n_streams].context = w->context;
    r->streams[r->n_streams].stream = w->stream;
    r->streams[r->n_streams++].track = track;
}

/* The only stream of collectives, or NULL. */
static struct lk_cupti_track *comm_track(struct lk_cupti_records *r)
{
    int n = atomic_load_explicit(&r->n_tracks, memory_order_acquire);
    struct lk_cupti_track *found = NULL;

    for (int i = 0; i < n; i++)
        if (r->tracks[i].kind == LK_TRACK_COMM) {
            if (found)
                return NULL;
            found = &r->tracks[i];
        }
    return found;
}

/* ---- Matching ---- */

/* Whose call that was; *out is written where it was somebody's. */
static enum lk_cupti_call find_issue(const struct lk_cupti_records *r, uint32_t correlation,
                                     struct lk_cupti_issue *out)
{
    size_t place = correlation & (LK_CUPTI_ISSUES - 1);

    if (r->issues[place].correlation != correlation)
        return LK_CUPTI_CALL_UNKNOWN;
    if (r->issues[place].call == LK_CUPTI_CALL_OURS ||
        r->issues[place].call == LK_CUPTI_CALL_IN_TURN)
        *out = lk_cupti_id_read(r->issues[place].id);
    return r->issues[place].call;
}

/* These are issued on their own track's stream, as is all that a copy stream's ranges enclose;
 * other ranges enclose work of any stream. */
static bool names_its_stream(const struct lk_cupti_track *t, enum lk_span_kind kind)
{
    return t && (t->kind == LK_TRACK_COPY || kind == LK_SPAN_KERNEL || kind == LK_SPAN_COPY ||
                 kind == LK_SPAN_COLLECTIVE);
}

/* The track of the work, or NULL while it may still become known. */
static struct lk_cupti_track *find_track(struct lk_cupti_records *r, const struct lk_cupti_work *w,
                                         const struct lk_cupti_issue *i, bool last)
{
    struct lk_cupti_track *issuer = i ? device_track(r, i->track) : NULL, *t;

    if (i && names_its_stream(issuer, i->kind)) {
        learn(r, w, issuer->number);
        return issuer;
    }
    t = stream_track(r, w);
    if (!t && last && lk_cupti_names_is_nccl(&r->names, w->kernel))
        t = comm_track(r);
    if (!t && last)
        t = issuer ? issuer : &r->other;
    return t;
}

/* Other threads work beside a collective that is being issued: only NCCL's kernels, and what runs
 * on the collectives' stream, are its own. */
static bool is_of_collective(struct lk_cupti_records *r, const struct lk_cupti_work *w)
{
    const struct lk_cupti_track *t = stream_track(r, w);

    return lk_cupti_names_is_nccl(&r->names, w->kernel) || (t && t->kind == LK_TRACK_COMM);
}

/* Emits the work unless something of it may still become known. */
static bool settle(struct lk_cupti_records *r, struct lk_cupti_work *w, bool last)
{
    struct lk_cupti_issue issue;
    enum lk_cupti_call call = find_issue(r, w->correlation, &issue);
    bool issued =
        call == LK_CUPTI_CALL_OURS || (call == LK_CUPTI_CALL_IN_TURN && is_of_collective(r, w));
    struct lk_cupti_track *t;
    uint16_t op = 0;

    if (!issued && !last)
        return false;
    t = find_track(r, w, issued ? &issue : NULL, last);
    if (!t)
        return false;
    w->span.index = -1;
    w->span.step = issued ? issue.step : LK_SPAN_STEP_UNKNOWN;
    if (issued && issue.kind == LK_SPAN_COLLECTIVE)
        w->span.index = issue.index;
    if (issued && issue.kind == LK_SPAN_KERNEL)
        op = issue.name;
    if (w->span.kind == LK_SPAN_KERNEL)
        w->span.name = lk_cupti_names_span(&r->names, w->kernel, op);
    r->counts.unmatched += !issued;
    r->counts.by_time += !issued && t->kind == LK_TRACK_COMM && call == LK_CUPTI_CALL_UNKNOWN;
    emit(r, t, &w->span);
    return true;
}

/* What waits is looked at again; `oldest` of it is no longer waited for. */
static void sweep(struct lk_cupti_records *r, size_t oldest)
{
    size_t kept = 0;

    for (size_t i = 0; i < r->n_pending; i++)
        if (!settle(r, &r->pending[i], i < oldest))
            r->pending[kept++] = r->pending[i];
    r->n_pending = kept;
}

static void take_work(struct lk_cupti_records *r, struct lk_cupti_work *w)
{
    if (settle(r, w, false))
        return;
    if (r->n_pending == LK_CUPTI_PENDING)
        sweep(r, LK_CUPTI_PENDING / 2);
    r->pending[r->n_pending++] = *w;
}

/* ---- Kinds ---- */

enum times { TIMED, UNTIMED, BROKEN, BEFORE };

/* Makes times ours. CUPTI writes 0 where it has none. Times that cannot be would be another
 * layout's. */
static enum times read_times(const struct lk_cupti_records *r, uint64_t *start, uint64_t *end)
{
    if (*start == 0 || *end == 0)
        return UNTIMED;
    *start = lk_cupti_clock_ours_ns(&r->clock, *start);
    *end = lk_cupti_clock_ours_ns(&r->clock, *end);
    if (*end < *start || *start < r->earliest_ns || *end > lk_now_ns() + LK_NS_PER_S)
        return BROKEN;
    return *end >= atomic_load(&r->began_ns) ? TIMED : BEFORE;
}

/* Of the GPU's work, none of which may be missed unseen. What ended before the run began (a model
 * is made to describe it) is left out. */
static bool has_times(struct lk_cupti_records *r, uint64_t *start, uint64_t *end)
{
    enum times t = read_times(r, start, end);

    r->counts.untimed += t == UNTIMED;
    r->counts.broken += t == BROKEN;
    return t == TIMED;
}

static void take_kernel(struct lk_cupti_records *r, const void *record)
{
    struct kernel_record k;
    struct lk_cupti_work w;

    memcpy(&k, record, sizeof k);
    if (!has_times(r, &k.start, &k.end))
        return;
    w = (struct lk_cupti_work){
        .span = {.start_ns = k.start, .end_ns = k.end, .kind = LK_SPAN_KERNEL},
        .correlation = k.correlation,
        .context = k.context,
        .stream = k.stream
    };
    w.kernel = lk_cupti_names_kernel(&r->names, k.name ? k.name : "kernel without a name");
    take_work(r, &w);
}

static uint16_t name_of(struct lk_cupti_records *r, const char *text)
{
    uint16_t id = 0;

    (void)lk_recorder_name(r->recorder, text, &id);
    return id;
}

static void take_copy_of(struct lk_cupti_records *r, struct copy_record *c, uint32_t correlation,
                         enum lk_span_kind kind)
{
    static const char *const names[] = {
        [CUPTI_ACTIVITY_MEMCPY_KIND_HTOD] = "HtoD", [CUPTI_ACTIVITY_MEMCPY_KIND_DTOH] = "DtoH",
        [CUPTI_ACTIVITY_MEMCPY_KIND_HTOA] = "HtoA", [CUPTI_ACTIVITY_MEMCPY_KIND_ATOH] = "AtoH",
        [CUPTI_ACTIVITY_MEMCPY_KIND_ATOA] = "AtoA", [CUPTI_ACTIVITY_MEMCPY_KIND_ATOD] = "AtoD",
        [CUPTI_ACTIVITY_MEMCPY_KIND_DTOA] = "DtoA", [CUPTI_ACTIVITY_MEMCPY_KIND_DTOD] = "DtoD",
        [CUPTI_ACTIVITY_MEMCPY_KIND_HTOH] = "HtoH", [CUPTI_ACTIVITY_MEMCPY_KIND_PTOP] = "PtoP",
    };
    struct lk_cupti_work w;

    if (!has_times(r, &c->start, &c->end))
        return;
    w = (struct lk_cupti_work){
        .span = {.start_ns = c->start, .end_ns = c->end, .kind = (uint16_t)kind},
        .correlation = correlation,
        .context = c->context,
        .stream = c->stream
    };
    w.span.bytes = c->bytes;
    if (kind == LK_SPAN_COPY && c->copy_kind < LK_COUNT(names) && names[c->copy_kind])
        w.span.name = name_of(r, names[c->copy_kind]);
    take_work(r, &w);
}

static void take_copy(struct lk_cupti_records *r, const void *record)
{
    struct copy_record c;

    memcpy(&c, record, sizeof c);
    take_copy_of(r, &c, c.correlation, LK_SPAN_COPY);
}

static void take_peer_copy(struct lk_cupti_records *r, const void *record)
{
    struct peer_copy_record p;
    struct copy_record c;

    memcpy(&p, record, sizeof p);
    memcpy(&c, record, sizeof c);
    take_copy_of(r, &c, p.correlation, LK_SPAN_COPY);
}

static void take_memset(struct lk_cupti_records *r, const void *record)
{
    struct copy_record c;

    memcpy(&c, record, sizeof c);
    take_copy_of(r, &c, c.correlation, LK_SPAN_MEMSET);
}

static void emit_call(struct lk_cupti_records *r, enum lk_span_kind kind, const char *name,
                      uint64_t start, uint64_t end, uint32_t step)
{
    struct lk_span s = {.start_ns = start,
                        .end_ns = end,
                        .step = step,
                        .index = -1,
                        .kind = (uint16_t)kind,
                        .name = name ? name_of(r, name) : 0};

    if (make_calls_track(r))
        lk_span_emit(r->calls, &s);
}

/* A stream that waits for an event is no waiting of the host. Here and below, a record without
 * times is none that anybody misses: CUPTI may have none of what it does itself. */
static void take_sync(struct lk_cupti_records *r, const void *record)
{
    static const char *const names[] = {
        [CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE] = "event synchronize",
        [CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE] = "stream synchronize",
        [CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE] = "context synchronize",
    };
    struct lk_cupti_issue issue;
    struct sync_record s;

    memcpy(&s, record, sizeof s);
    if (s.type >= LK_COUNT(names) || !names[s.type] || read_times(r, &s.start, &s.end) != TIMED ||
        s.end - s.start < LK_CUPTI_SYNC_NS)
        return;
    emit_call(r, LK_SPAN_SYNC, names[s.type], s.start, s.end,
              find_issue(r, s.correlation, &issue) == LK_CUPTI_CALL_OURS ? issue.step
                                                                         : LK_SPAN_STEP_UNKNOWN);
}

/* CUpti_ActivityOverheadKind >> 16. Some are newer than the oldest headers that serve. A full
 * command buffer has details in newer versions, some bytes that the client is to free: that depends
 * on the version, and is left undone. */
static void take_overhead(struct lk_cupti_records *r, const void *record)
{
    static const char *const names[] = {"compiling",           "flush of records",
                                        "instrumentation",     "resources of CUPTI",
                                        "loading a module",    "loading a function",
                                        "command buffer full", "request of a record buffer"};
    struct overhead_record o;
    size_t kind;

    memcpy(&o, record, sizeof o);
    kind = o.overhead >> 16;
    if (read_times(r, &o.start, &o.end) == TIMED)
        emit_call(r, LK_SPAN_OVERHEAD, kind < LK_COUNT(names) ? names[kind] : NULL, o.start, o.end,
                  LK_SPAN_STEP_UNKNOWN);
}

static void take_issue(struct lk_cupti_records *r, const void *record)
{
    struct external_record e;
    size_t place;

    memcpy(&e, record, sizeof e);
    if (e.external != CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0)
        return;
    place = e.correlation & (LK_CUPTI_ISSUES - 1);
    r->issues[place].correlation = e.correlation;
    r->issues[place].id = e.id;
    r->issues[place].call = LK_CUPTI_CALL_OURS;
}

/* A call that no id was pushed for may be NCCL's. */
static void take_call(struct lk_cupti_records *r, const void *record)
{
    static const enum lk_cupti_call calls[] = {[LK_CUPTI_WITHIN] = LK_CUPTI_CALL_IN_TURN,
                                               [LK_CUPTI_BETWEEN] = LK_CUPTI_CALL_NOBODYS,
                                               [LK_CUPTI_FORGOTTEN] = LK_CUPTI_CALL_UNKNOWN};
    struct call_record c;
    size_t place;

    memcpy(&c, record, sizeof c);
    place = c.correlation & (LK_CUPTI_ISSUES - 1);
    if (c.start == 0 || !comm_track(r) ||
        (r->issues[place].correlation == c.correlation &&
         r->issues[place].call == LK_CUPTI_CALL_OURS))
        return;
    r->issues[place].correlation = c.correlation;
    r->issues[place].call = calls[lk_cupti_turns_find(&r->turns, c.start, &r->issues[place].id)];
}

/* Asked for by nobody, or of no use. */
static void pass_over(struct lk_cupti_records *r, const void *record)
{
    (void)r;
    (void)record;
}

static const struct {
    uint32_t kind;
    size_t bytes; /* that are read */
    bool first;   /* before the others of a buffer, so that fewer wait */
    void (*take)(struct lk_cupti_records *r, const void *record);
} kinds[] = {
    {CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, sizeof(struct external_record),  true,  take_issue    },
    {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,    sizeof(struct kernel_record),    false, take_kernel   },
    {CUPTI_ACTIVITY_KIND_KERNEL,               sizeof(struct kernel_record),    false, take_kernel   },
    {CUPTI_ACTIVITY_KIND_MEMCPY,               sizeof(struct copy_record),      false, take_copy     },
    {CUPTI_ACTIVITY_KIND_MEMCPY2,              sizeof(struct peer_copy_record), false, take_peer_copy},
    {CUPTI_ACTIVITY_KIND_MEMSET,               sizeof(struct copy_record),      false, take_memset   },
    {CUPTI_ACTIVITY_KIND_SYNCHRONIZATION,      sizeof(struct sync_record),      false, take_sync     },
    {CUPTI_ACTIVITY_KIND_OVERHEAD,             sizeof(struct overhead_record),  false, take_overhead },
    {CUPTI_ACTIVITY_KIND_RUNTIME,              sizeof(struct call_record),      true,  take_call     },
    {CUPTI_ACTIVITY_KIND_DRIVER,               sizeof(struct call_record),      true,  take_call     },
    {CUPTI_ACTIVITY_KIND_INTERNAL_LAUNCH_API,  sizeof(struct call_record),      true,  take_call     },
    {CUPTI_ACTIVITY_KIND_CUDA_EVENT,           0,                               false, pass_over     },
};

/* ---- Buffers ---- */

static size_t find_kind(uint32_t kind)
{
    size_t i = 0;

    while (i < LK_COUNT(kinds) && kinds[i].kind != kind)
        i++;
    return i;
}

/* One pass over the records of a buffer. */
static void walk(struct lk_cupti_records *r, uint8_t *buffer, size_t bytes, bool first)
{
    CUpti_Activity *record = NULL;
    CUptiResult e;

    while ((e = r->call->ActivityGetNextRecord(buffer, bytes, &record)) == CUPTI_SUCCESS) {
        size_t left = bytes - (size_t)((uint8_t *)record - buffer);
        uint32_t kind;
        size_t row;

        memcpy(&kind, record, sizeof kind);
        row = find_kind(kind);
        if (row == LK_COUNT(kinds)) {
            r->counts.unknown += !first;
        } else if (kinds[row].first == first) {
            if (left < kinds[row].bytes)
                r->counts.broken++;
            else
                kinds[row].take(r, record);
        }
    }
    if (e != CUPTI_ERROR_MAX_LIMIT_REACHED && !first)
        r->counts.broken++; /* the rest of the buffer */
}

void lk_cupti_records_read(struct lk_cupti_records *r, uint8_t *buffer, size_t bytes)
{
    if (bytes == 0)
        return;
    walk(r, buffer, bytes, true);
    sweep(r, 0);
    walk(r, buffer, bytes, false);
}

void lk_cupti_records_drain(struct lk_cupti_records *r)
{
    sweep(r, 0); /* streams that became known by the last records */
    sweep(r, r->n_pending);
}

void lk_cupti_records_report(struct lk_cupti_records *r)
{
    const struct {
        const char *name;
        uint64_t n;
    } rows[] = {
#define ROW(field, counter, meaning) {counter, r->counts.field},
        LK_CUPTI_COUNT_LIST(ROW)
#undef ROW
    };

    if (!make_calls_track(r))
        return;
    for (size_t i = 0; i < LK_COUNT(rows); i++)
        lk_span_counter(r->calls, name_of(r, rows[i].name), 0, (double)rows[i].n);
}

#endif
