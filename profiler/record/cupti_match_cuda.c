/*
 * Find the op, step and track of CUPTI's records. Divisions: ids, tracks, matching.
 *
 * A record of work has a correlation id, which it shares with the API call that caused it; an
 * external correlation record tells which of our ids (lk_cupti_id) was on top of the calling
 * thread's stack then. Calls on NCCL's own threads have only a call record, with the time of the
 * call. Kinds arrive in no order, not even between buffers, so work whose id is still missing
 * waits. So does work on a stream whose track is not known yet: the first op, copy or collective of
 * ours that ran on the stream tells it.
 */
#include "profiler/record/cupti_impl_cuda.h"

#ifdef LK_HAVE_CUPTI

#include "base/log.h"

#include <stdio.h>

/* ---- Ids ---- */

/* Layout of an id: 24 bits of the step, 14 of the index plus one (0: none), 16 of the name, 4 of
 * the kind, 6 of the track. A span file holds no step of 2^24 or more. */
enum { INDEX_BITS = 14, NAME_BITS = 16, KIND_BITS = 4, TRACK_BITS = 6, STEP_BITS = 24 };

_Static_assert(INDEX_BITS + NAME_BITS + KIND_BITS + TRACK_BITS + STEP_BITS == 64, "an id");
_Static_assert(LK_SPAN_KIND_COUNT <= 1 << KIND_BITS, "kinds in an id");
_Static_assert(LK_CUPTI_INDEX_MAX == (1 << INDEX_BITS) - 2, "indices in an id");
_Static_assert(LK_CUPTI_TRACKS <= 1 << TRACK_BITS, "tracks in an id");

static uint64_t field(uint64_t id, int shift, int bits)
{
    return id >> shift & ((UINT64_C(1) << bits) - 1);
}

uint64_t lk_cupti_id(const struct lk_span *s, int track)
{
    uint64_t id = s->step & ((1U << STEP_BITS) - 1);

    id = id << INDEX_BITS |
         (s->index < 0 || s->index > LK_CUPTI_INDEX_MAX ? 0 : (uint64_t)s->index + 1);
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

/* Return true for a track that we made ourselves: its name lies in r. */
static bool is_ours(const struct lk_cupti_records *r, const char *name)
{
    uintptr_t at = (uintptr_t)name;

    return at >= (uintptr_t)r && at < (uintptr_t)(r + 1);
}

static const char calls_name[] = "CUDA calls";

/* Return the first of n tracks of a kind, or NULL. */
static struct lk_cupti_track *first_track(struct lk_cupti_records *r, int n,
                                          enum lk_track_kind kind)
{
    for (int i = 0; i < n; i++)
        if (r->tracks[i].kind == kind)
            return &r->tracks[i];
    return NULL;
}

struct lk_cupti_track *lk_cupti_records_track(struct lk_cupti_records *r,
                                              const struct lk_track_info *info)
{
    int n = atomic_load_explicit(&r->n_tracks, memory_order_relaxed);
    struct lk_cupti_track *t = &r->tracks[n];

    if (n == LK_CUPTI_TRACKS || info->name == calls_name || is_ours(r, info->name))
        return NULL;
    *t = (struct lk_cupti_track){.call = r->call,
                                 .window = &r->window,
                                 .number = n,
                                 .kind = info->kind,
                                 .stream = info->stream};
    if (info->kind == LK_TRACK_COMM && first_track(r, n + 1, LK_TRACK_COMM) == t)
        t->windows = &r->windows;
    if (info->kind == LK_TRACK_COMPUTE && first_track(r, n + 1, LK_TRACK_COMPUTE) == t)
        t->marks = &r->marks;
    snprintf(t->gpu_name, sizeof t->gpu_name, "%.40s, GPU records", info->name);
    if (n == 0)
        atomic_store(&r->window.began_ns, lk_now_ns());
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

/* Make a track's companion, if it is missing. False: it cannot be made. */
static bool has_companion(struct lk_cupti_records *r, struct lk_cupti_track *t)
{
    if (!t->gpu && !t->failed)
        t->failed = !make_track(
            r, &(struct lk_track_info){.name = t->gpu_name, .kind = t->kind, .stream = t->stream},
            &t->gpu);
    return !t->failed;
}

static void emit(struct lk_cupti_records *r, struct lk_cupti_track *t, const struct lk_span *s)
{
    if (!has_companion(r, t)) {
        r->counts.lost++;
        return;
    }
    r->counts.records++;
    lk_span_emit(t->gpu, s);
}

void lk_cupti_match_mark(void *records, const struct lk_cupti_mark *mark)
{
    struct lk_cupti_records *r = records;
    const int n = atomic_load_explicit(&r->n_tracks, memory_order_acquire);
    struct lk_cupti_track *t = first_track(r, n, LK_TRACK_COMPUTE);
    const struct lk_span s = {.start_ns = mark->end_ns,
                              .end_ns = mark->end_ns,
                              .step = mark->step,
                              .index = mark->index,
                              .kind = mark->kind};

    if (mark->end_ns && has_companion(r, t))
        lk_span_emit(t->gpu, &s);
    else
        r->counts.timeless++;
}

bool lk_cupti_match_calls_track(struct lk_cupti_records *r)
{
    const struct lk_track_info info = {.name = calls_name, .kind = LK_TRACK_HOST, .stream = 1};

    return r->calls || make_track(r, &info, &r->calls);
}

/* Return a track that shows a device's stream; NULL for a thread's. */
static struct lk_cupti_track *device_track(struct lk_cupti_records *r, int number)
{
    const bool of_device[LK_TRACK_KIND_COUNT] = {[LK_TRACK_COMPUTE] = true,
                                                 [LK_TRACK_COMM] = true,
                                                 [LK_TRACK_COPY] = true,
                                                 [LK_TRACK_UPDATE] = true};

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

/* Return the only stream of collectives, or NULL. */
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

/* Return the issuer of a call; *out is written if an id is known. */
static enum lk_cupti_call find_issue(const struct lk_cupti_records *r, uint32_t correlation,
                                     struct lk_cupti_issue *out)
{
    const struct lk_cupti_issue_entry *e = lk_cupti_issues_find(&r->issues, correlation);

    if (e && (e->call == LK_CUPTI_CALL_OURS || e->call == LK_CUPTI_CALL_IN_WINDOW))
        *out = lk_cupti_id_read(e->id);
    return e ? e->call : LK_CUPTI_CALL_UNKNOWN;
}

/* Return true if work issued in such a range runs on the track's own stream. All work in a copy
 * stream's ranges does; ranges of other kinds enclose work of any stream. New memory is cleared
 * (MEMSET) on a stream that is nobody's. */
static bool names_its_stream(const struct lk_cupti_track *t, enum lk_span_kind kind)
{
    return t && kind != LK_SPAN_MEMSET &&
           (t->kind == LK_TRACK_COPY || kind == LK_SPAN_KERNEL || kind == LK_SPAN_COPY ||
            kind == LK_SPAN_COLLECTIVE);
}

/* Return the track of the work, or NULL while it may still become known. */
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
        t = issuer && i->kind != LK_SPAN_MEMSET ? issuer : &r->other;
    return t;
}

/* Return true if work issued in a collective's window is the collective's: other threads work at
 * the same time, so only NCCL's kernels and work on the collectives' stream count. */
static bool is_of_collective(struct lk_cupti_records *r, const struct lk_cupti_work *w)
{
    const struct lk_cupti_track *t = stream_track(r, w);

    return lk_cupti_names_is_nccl(&r->names, w->kernel) || (t && t->kind == LK_TRACK_COMM);
}

/* Note the call that launched the work. By the error of the clocks it may seem to begin later. */
static void add_call(const struct lk_cupti_records *r, struct lk_cupti_work *w)
{
    const struct lk_cupti_issue_entry *e = lk_cupti_issues_find(&r->issues, w->correlation);
    uint64_t called;

    if (!e || !e->called_ns)
        return;
    called = lk_cupti_clock_ours_ns(&r->clock, e->called_ns);
    w->span.ready_ns = called < w->span.start_ns ? called : w->span.start_ns;
    w->span.seq = e->call_ns;
}

bool lk_cupti_match_is_owned(const struct lk_cupti_records *r, const struct lk_cupti_work *w)
{
    const struct lk_cupti_issue_entry *e = lk_cupti_issues_find(&r->issues, w->correlation);

    return e && e->call == LK_CUPTI_CALL_OURS;
}

/* Emit the work unless its step or track may still become known. */
static bool settle(struct lk_cupti_records *r, struct lk_cupti_work *w, bool last)
{
    struct lk_cupti_issue issue;
    enum lk_cupti_call call = find_issue(r, w->correlation, &issue);
    bool issued =
        call == LK_CUPTI_CALL_OURS || (call == LK_CUPTI_CALL_IN_WINDOW && is_of_collective(r, w));
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
    if (issued && issue.kind == LK_SPAN_KERNEL && issue.index >= 0 && t->marks)
        lk_cupti_marks_kernel(&r->marks, issue.step, (uint32_t)issue.index, w->span.end_ns);
    if (w->span.kind == LK_SPAN_KERNEL)
        w->span.name = lk_cupti_names_span(&r->names, w->kernel, op);
    add_call(r, w);
    r->n_owned += w->span.kind == LK_SPAN_KERNEL && call == LK_CUPTI_CALL_OURS;
    r->counts.unmatched += !issued;
    r->counts.by_time += !issued && t->kind == LK_TRACK_COMM && call == LK_CUPTI_CALL_UNKNOWN;
    emit(r, t, &w->span);
    return true;
}

void lk_cupti_match_pending(struct lk_cupti_records *r, size_t oldest)
{
    size_t kept = 0;

    for (size_t i = 0; i < r->n_pending; i++)
        if (!settle(r, &r->pending[i], i < oldest))
            r->pending[kept++] = r->pending[i];
    r->n_pending = kept;
}

void lk_cupti_match_work(struct lk_cupti_records *r, struct lk_cupti_work *w)
{
    if (settle(r, w, false))
        return;
    if (r->n_pending == LK_CUPTI_PENDING)
        lk_cupti_match_pending(r, LK_CUPTI_PENDING / 2);
    r->pending[r->n_pending++] = *w;
}

void lk_cupti_match_issue(struct lk_cupti_records *r, uint32_t correlation, uint64_t id)
{
    lk_cupti_issues_put(&r->issues, correlation, LK_CUPTI_CALL_OURS, id);
}

void lk_cupti_match_call(struct lk_cupti_records *r, uint32_t correlation, uint64_t start_ns,
                         uint64_t end_ns)
{
    static const enum lk_cupti_call calls[] = {[LK_ISSUE_WITHIN] = LK_CUPTI_CALL_IN_WINDOW,
                                               [LK_ISSUE_BETWEEN] = LK_CUPTI_CALL_NOBODYS,
                                               [LK_ISSUE_FORGOTTEN] = LK_CUPTI_CALL_UNKNOWN};
    const struct lk_cupti_issue_entry *known = lk_cupti_issues_find(&r->issues, correlation);
    uint64_t id = 0;
    enum lk_issue_found found;

    if (comm_track(r) && !(known && known->call == LK_CUPTI_CALL_OURS)) {
        found = lk_issue_windows_find(&r->windows, start_ns, &id);
        lk_cupti_issues_put(&r->issues, correlation, calls[found], id);
    }
    lk_cupti_issues_time(&r->issues, correlation, start_ns, end_ns);
}

#endif
