/*
 * Convert CUPTI's records to spans. Divisions: kinds, buffers. cupti_match_cuda.c finds the op,
 * step and track of each.
 */
#include "profiler/record/cupti_impl_cuda.h"

#ifdef LK_HAVE_CUPTI

#include "base/array.h"
#include "facts/cupti_abi.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum lk_status lk_cupti_records_init(struct lk_cupti_records *r,
                                     const struct lk_cupti_config *config,
                                     const struct lk_cupti_calls *call)
{
    enum lk_status st = LK_OK;

    *r = (struct lk_cupti_records){.recorder = config->recorder, .call = call};
    atomic_init(&r->n_tracks, 0);
    atomic_init(&r->window.began_ns, UINT64_MAX);
    atomic_init(&r->window.ended_ns, UINT64_MAX);
    r->window.end_step = config->end_step;
    r->earliest_ns = lk_now_ns() - LK_NS_PER_S; /* the clock fit errs a little */
    r->other = (struct lk_cupti_track){.kind = LK_TRACK_COPY};
    snprintf(r->other.gpu_name, sizeof r->other.gpu_name, "other streams, GPU records");
    LK_TRY(lk_cupti_issues_init(&r->issues));
    LK_TRY(lk_alloc(&r->pending, LK_CUPTI_PENDING, sizeof *r->pending));
    LK_TRY(lk_issue_windows_init(&r->windows));
    LK_TRY(lk_cupti_marks_init(&r->marks));
    LK_TRY(lk_cupti_names_init(&r->names, config->recorder));
out:
    if (st != LK_OK)
        lk_cupti_records_fini(r);
    return st;
}

void lk_cupti_records_fini(struct lk_cupti_records *r)
{
    lk_cupti_names_fini(&r->names);
    lk_cupti_marks_fini(&r->marks);
    lk_issue_windows_fini(&r->windows);
    lk_cupti_issues_fini(&r->issues);
    free(r->pending);
    r->pending = NULL;
}

/* ---- Kinds ---- */

enum times { TIMED, UNTIMED, BROKEN, OUTSIDE };

/* Convert times to our clock. CUPTI writes 0 for an unknown time. Impossible times point to another
 * record layout. */
static enum times read_times(const struct lk_cupti_records *r, uint64_t *start, uint64_t *end)
{
    if (*start == 0 || *end == 0)
        return UNTIMED;
    *start = lk_cupti_clock_ours_ns(&r->clock, *start);
    *end = lk_cupti_clock_ours_ns(&r->clock, *end);
    if (*end < *start || *start < r->earliest_ns || *end > lk_now_ns() + LK_NS_PER_S)
        return BROKEN;
    return *end >= atomic_load(&r->window.began_ns) && *start < atomic_load(&r->window.ended_ns)
               ? TIMED
               : OUTSIDE;
}

/*
 * Return true if work without times was launched after the last step to be recorded: CUPTI is
 * switched off while the GPU is in the next one, and may then return what it is doing so. A call
 * that it did not record was made after that, too.
 */
static bool is_after_window(const struct lk_cupti_records *r, uint32_t correlation)
{
    const struct lk_cupti_issue_entry *e = lk_cupti_issues_find(&r->issues, correlation);
    const uint64_t ended_ns = atomic_load(&r->window.ended_ns);

    if (ended_ns == UINT64_MAX)
        return false;
    if (e && e->call == LK_CUPTI_CALL_OURS) /* ids are pushed in the window; batches go ahead */
        return lk_cupti_id_read(e->id).step >= r->window.end_step;
    return !e || lk_cupti_clock_ours_ns(&r->clock, e->called_ns) >= ended_ns;
}

/* Convert the times of GPU work and count the records without. Work that ended before the run began
 * (a model is made to describe it), or began after the last step to be recorded, is left out. */
static bool has_times(struct lk_cupti_records *r, uint64_t *start, uint64_t *end,
                      uint32_t correlation)
{
    enum times t = read_times(r, start, end);

    if (t == UNTIMED && is_after_window(r, correlation))
        t = OUTSIDE;
    r->counts.untimed += t == UNTIMED;
    r->counts.broken += t == BROKEN;
    return t == TIMED;
}

static void take_kernel(struct lk_cupti_records *r, const void *record)
{
    struct cupti_kernel k;
    struct lk_cupti_work w;

    memcpy(&k, record, sizeof k);
    if (!has_times(r, &k.start, &k.end, k.correlation))
        return;
    r->n_kernels++;
    w = (struct lk_cupti_work){
        .span = {.start_ns = k.start, .end_ns = k.end, .kind = LK_SPAN_KERNEL},
        .correlation = k.correlation,
        .context = k.context,
        .stream = k.stream};
    w.kernel = lk_cupti_names_kernel(&r->names, k.name ? k.name : "kernel without a name");
    lk_cupti_match_work(r, &w);
}

static uint16_t name_of(struct lk_cupti_records *r, const char *text)
{
    uint16_t id = 0;

    (void)lk_recorder_name(r->recorder, text, &id);
    return id;
}

/* Take a copy or a memset. correlation_at: offset of the correlation id in the record. */
static void take_copy_of(struct lk_cupti_records *r, const void *record, size_t correlation_at,
                         enum lk_span_kind kind)
{
    static const char *const names[] = {
        [CUPTI_ACTIVITY_MEMCPY_KIND_HTOD] = "HtoD", [CUPTI_ACTIVITY_MEMCPY_KIND_DTOH] = "DtoH",
        [CUPTI_ACTIVITY_MEMCPY_KIND_HTOA] = "HtoA", [CUPTI_ACTIVITY_MEMCPY_KIND_ATOH] = "AtoH",
        [CUPTI_ACTIVITY_MEMCPY_KIND_ATOA] = "AtoA", [CUPTI_ACTIVITY_MEMCPY_KIND_ATOD] = "AtoD",
        [CUPTI_ACTIVITY_MEMCPY_KIND_DTOA] = "DtoA", [CUPTI_ACTIVITY_MEMCPY_KIND_DTOD] = "DtoD",
        [CUPTI_ACTIVITY_MEMCPY_KIND_HTOH] = "HtoH", [CUPTI_ACTIVITY_MEMCPY_KIND_PTOP] = "PtoP",
    };
    struct cupti_copy c;
    struct lk_cupti_work w;
    uint32_t correlation;

    memcpy(&c, record, sizeof c);
    memcpy(&correlation, (const char *)record + correlation_at, sizeof correlation);
    if (!has_times(r, &c.start, &c.end, correlation))
        return;
    w = (struct lk_cupti_work){
        .span = {.start_ns = c.start, .end_ns = c.end, .kind = (uint16_t)kind},
        .correlation = correlation,
        .context = c.context,
        .stream = c.stream};
    w.span.bytes = c.bytes;
    if (kind == LK_SPAN_COPY && c.copy_kind < LK_COUNT(names) && names[c.copy_kind])
        w.span.name = name_of(r, names[c.copy_kind]);
    lk_cupti_match_work(r, &w);
}

static void take_copy(struct lk_cupti_records *r, const void *record)
{
    take_copy_of(r, record, offsetof(struct cupti_copy, correlation), LK_SPAN_COPY);
}

static void take_peer_copy(struct lk_cupti_records *r, const void *record)
{
    take_copy_of(r, record, offsetof(struct cupti_peer_copy, correlation), LK_SPAN_COPY);
}

static void take_memset(struct lk_cupti_records *r, const void *record)
{
    take_copy_of(r, record, offsetof(struct cupti_copy, correlation), LK_SPAN_MEMSET);
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

    if (lk_cupti_match_calls_track(r))
        lk_span_emit(r->calls, &s);
}

/* Take an overhead record: CUpti_ActivityOverheadKind >> 16. One without times is ignored and not
 * counted: CUPTI may have none for its own activity. Some kinds are newer than the oldest
 * supported headers. For a full command buffer newer versions attach some bytes that the client
 * should free; they are leaked, because this depends on the version. */
static void take_overhead(struct lk_cupti_records *r, const void *record)
{
    static const char *const names[] = {"compiling",           "flush of records",
                                        "instrumentation",     "resources of CUPTI",
                                        "loading a module",    "loading a function",
                                        "command buffer full", "request of a record buffer"};
    struct cupti_overhead o;
    size_t kind;

    memcpy(&o, record, sizeof o);
    kind = o.overhead >> 16;
    if (read_times(r, &o.start, &o.end) == TIMED)
        emit_call(r, LK_SPAN_OVERHEAD, kind < LK_COUNT(names) ? names[kind] : NULL, o.start, o.end,
                  LK_SPAN_STEP_UNKNOWN);
}

static void take_issue(struct lk_cupti_records *r, const void *record)
{
    struct cupti_external e;

    memcpy(&e, record, sizeof e);
    if (e.external == CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0)
        lk_cupti_match_issue(r, e.correlation, e.id);
}

static void take_call(struct lk_cupti_records *r, const void *record)
{
    struct cupti_call c;

    memcpy(&c, record, sizeof c);
    if (c.start != 0)
        lk_cupti_match_call(r, c.correlation, c.start, c.end);
}

/* Ignore a record that was not requested or has no use. */
static void pass_over(struct lk_cupti_records *r, const void *record)
{
    (void)r;
    (void)record;
}

static const struct {
    uint32_t kind;
    size_t bytes; /* bytes that are read */
    bool first;   /* read before a buffer's other records, so that fewer wait */
    void (*take)(struct lk_cupti_records *r, const void *record);
} kinds[] = {
    {CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, sizeof(struct cupti_external), true, take_issue},
    {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, sizeof(struct cupti_kernel), false, take_kernel},
    {CUPTI_ACTIVITY_KIND_KERNEL, sizeof(struct cupti_kernel), false, take_kernel},
    {CUPTI_ACTIVITY_KIND_MEMCPY, sizeof(struct cupti_copy), false, take_copy},
    {CUPTI_ACTIVITY_KIND_MEMCPY2, sizeof(struct cupti_peer_copy), false, take_peer_copy},
    {CUPTI_ACTIVITY_KIND_MEMSET, sizeof(struct cupti_copy), false, take_memset},
    {CUPTI_ACTIVITY_KIND_OVERHEAD, sizeof(struct cupti_overhead), false, take_overhead},
    {CUPTI_ACTIVITY_KIND_RUNTIME, sizeof(struct cupti_call), true, take_call},
    {CUPTI_ACTIVITY_KIND_DRIVER, sizeof(struct cupti_call), true, take_call},
    {CUPTI_ACTIVITY_KIND_INTERNAL_LAUNCH_API, sizeof(struct cupti_call), true, take_call},
    {CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, 0, false, pass_over},
    {CUPTI_ACTIVITY_KIND_CUDA_EVENT, 0, false, pass_over},
};

/* ---- Buffers ---- */

static size_t find_kind(uint32_t kind)
{
    size_t i = 0;

    while (i < LK_COUNT(kinds) && kinds[i].kind != kind)
        i++;
    return i;
}

/* Read the records of a buffer in one pass. */
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
        r->counts.broken++; /* the rest of the buffer is lost */
}

/* Return how many records of work are missing so far. */
static uint64_t missing(const struct lk_cupti_counts *c)
{
    return c->dropped + c->untimed + c->broken + c->lost;
}

void lk_cupti_records_dropped(struct lk_cupti_records *r, size_t n)
{
    r->counts.dropped += n;
    if (n > 0)
        lk_cupti_marks_lose(&r->marks, lk_cupti_match_mark, r);
}

void lk_cupti_records_read(struct lk_cupti_records *r, uint8_t *buffer, size_t bytes)
{
    const uint64_t before = missing(&r->counts);

    if (bytes == 0)
        return;
    lk_cupti_marks_take(&r->marks, lk_cupti_match_mark, r);
    walk(r, buffer, bytes, true);
    lk_cupti_match_pending(r, 0);
    walk(r, buffer, bytes, false);
    if (missing(&r->counts) != before)
        lk_cupti_marks_lose(&r->marks, lk_cupti_match_mark, r);
    lk_cupti_marks_settle(&r->marks, lk_cupti_match_mark, r);
}

bool lk_cupti_records_lack_ids(const struct lk_cupti_records *r)
{
    if (r->n_kernels < LK_CUPTI_KERNELS_TELL || r->n_owned > 0)
        return false;
    for (size_t i = 0; i < r->n_pending; i++)
        if (r->pending[i].kernel && lk_cupti_match_is_owned(r, &r->pending[i]))
            return false;
    return true;
}

void lk_cupti_records_drain(struct lk_cupti_records *r, bool complete)
{
    lk_cupti_match_pending(r, 0); /* the last records may have told more streams */
    lk_cupti_match_pending(r, r->n_pending);
    if (!complete)
        lk_cupti_marks_lose(&r->marks, lk_cupti_match_mark, r);
    lk_cupti_marks_drain(&r->marks, lk_cupti_match_mark, r);
}

void lk_cupti_records_report(struct lk_cupti_records *r)
{
    const struct {
        const char *name;
        uint64_t n;
    } rows[] = {
#define ROW(field, counter, missing, text) {counter, r->counts.field},
        LK_CUPTI_COUNT_LIST(ROW)
#undef ROW
    };

    if (!lk_cupti_match_calls_track(r))
        return;
    for (size_t i = 0; i < LK_COUNT(rows); i++)
        lk_span_counter(r->calls, name_of(r, rows[i].name), 0, (double)rows[i].n);
}

#endif
