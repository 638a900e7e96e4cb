/* Read a span file. Divisions: the header, the rings, steps of spans without one. */
#include "profiler/record/span_file.h"

#include "base/array.h"
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* The JSON of a run's description is some kB; a larger size is a corrupt header. */
#define INFO_BYTES_MAX (64ULL << 20)

struct source {
    const char *path;
    int fd;
    uint64_t size;
    struct lk_span_file_header *header; /* a copy, on the heap */
    bool running;                       /* the writer did not close it in order */
    bool live;                          /* it is read whether its writer is there or not */
    bool held;                          /* its writer is there */
    uint64_t most;                      /* records of a ring that are read: the last ones */
};

/* ---- The header ---- */

#define CORRUPT(source, ...) lk_fail_context(lk_fail(LK_EPARSE, __VA_ARGS__), "%s", (source)->path)

static enum lk_status read_at(const struct source *s, uint64_t offset, void *to, size_t bytes)
{
    char *p = to;

    if (offset > s->size || bytes > s->size - offset)
        return CORRUPT(s, "the span file ends too early");
    while (bytes) {
        ssize_t n = pread(s->fd, p, bytes, (off_t)offset);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return lk_fail(LK_EIO, "%s: cannot read: %s", s->path,
                           n ? strerror(errno) : "it became shorter");
        p += n;
        offset += (uint64_t)n;
        bytes -= (size_t)n;
    }
    return LK_OK;
}

static enum lk_status open_source(struct source *s)
{
    struct stat info;

    s->fd = open(s->path, O_RDONLY | O_CLOEXEC);
    if (s->fd < 0 || fstat(s->fd, &info))
        return lk_fail(LK_EIO, "%s: cannot open: %s", s->path, strerror(errno));
    s->held = flock(s->fd, LOCK_SH | LOCK_NB) && errno == EWOULDBLOCK;
    if (s->held && !s->live)
        return lk_fail(LK_EIO, "%s: is still being written", s->path);
    s->size = info.st_size > 0 ? (uint64_t)info.st_size : 0;
    return LK_OK;
}

static enum lk_status check_track(const struct source *s, uint32_t i)
{
    const struct lk_span_file_track *t = &s->header->tracks[i];

    if (!memchr(t->name, '\0', sizeof t->name) || t->kind < LK_TRACK_HOST ||
        t->kind >= LK_TRACK_KIND_COUNT)
        return CORRUPT(s, "track %u has no valid name and kind", i);
    if (t->capacity < LK_SPAN_FILE_RING_MIN || t->capacity > LK_SPAN_FILE_RING_MAX ||
        (t->capacity & (t->capacity - 1)))
        return CORRUPT(s, "the ring of track %u has %llu records", i,
                       (unsigned long long)t->capacity);
    if (t->n_segments > (t->capacity + LK_SPAN_FILE_SEGMENT - 1) / LK_SPAN_FILE_SEGMENT)
        return CORRUPT(s, "the ring of track %u has %u segments", i, (unsigned)t->n_segments);
    return LK_OK;
}

static enum lk_status check_header(const struct source *s)
{
    const struct lk_span_file_header *h = s->header;

    if (memcmp(h->magic, LK_SPAN_FILE_MAGIC, sizeof h->magic))
        return CORRUPT(s, "not a span file");
    if (h->order != LK_SPAN_FILE_ORDER)
        return CORRUPT(s, "the span file was written on a machine of another byte order");
    if (h->version != LK_SPAN_FILE_VERSION)
        return CORRUPT(s, "version %u of the span file; this program reads version %d", h->version,
                       LK_SPAN_FILE_VERSION);
    if (h->header_bytes != sizeof *h || h->span_bytes != sizeof(struct lk_span))
        return CORRUPT(s, "record sizes %u and %u are not this program's", h->header_bytes,
                       h->span_bytes);
    if (h->info_offset != sizeof *h || h->info_bytes > INFO_BYTES_MAX)
        return CORRUPT(s, "the description of the run has no valid place");
    if (h->state < LK_SPAN_FILE_RUNNING || h->state > LK_SPAN_FILE_ABANDONED)
        return CORRUPT(s, "state %u is unknown", (unsigned)h->state);
    if (h->n_tracks > LK_SPAN_FILE_TRACKS || h->names_bytes > sizeof h->names ||
        h->facts_bytes > sizeof h->facts || h->n_names > UINT16_MAX ||
        h->n_samples[LK_CLOCK_START] > LK_SPAN_FILE_SAMPLES ||
        h->n_samples[LK_CLOCK_END] > LK_SPAN_FILE_SAMPLES)
        return CORRUPT(s, "a count in the header is out of range");
    for (uint32_t i = 0; i < h->n_tracks; i++) {
        enum lk_status st = check_track(s, i);

        if (st != LK_OK)
            return st;
    }
    return LK_OK;
}

static enum lk_status read_info(const struct source *s, struct lk_run_info *out)
{
    enum lk_status st = LK_OK;
    char *text = NULL;
    size_t bytes = (size_t)s->header->info_bytes;

    LK_TRY(lk_alloc(&text, bytes + 1, 1));
    LK_TRY(read_at(s, s->header->info_offset, text, bytes));
    LK_TRY(lk_record_load_text(&lk_run_info_record, s->path, text, bytes, out));
out:
    free(text);
    return st;
}

/* Put what was told during the run in place of what its description says. */
static enum lk_status read_facts(const struct source *s, struct lk_run_info *info)
{
    const char *p = s->header->facts, *end = p + s->header->facts_bytes;

    while (p < end) {
        const char *value = memchr(p, '\0', (size_t)(end - p)), *stop;

        stop = value && value + 1 < end ? memchr(value + 1, '\0', (size_t)(end - value - 1)) : NULL;
        if (!stop)
            return CORRUPT(s, "a fact of the run is cut off");
        LK_PASS(lk_run_info_config(info, p, value + 1));
        p = stop + 1;
    }
    return LK_OK;
}

static enum lk_status read_names(const struct source *s, struct lk_trace *t)
{
    const char *p = s->header->names, *end = p + s->header->names_bytes;

    LK_PASS(lk_alloc(&t->names, s->header->n_names, sizeof *t->names));
    for (; t->n_names < s->header->n_names; t->n_names++) {
        const char *stop = p < end ? memchr(p, '\0', (size_t)(end - p)) : NULL;

        if (!stop)
            return CORRUPT(s, "span name %zu is cut off", t->n_names + 1);
        LK_PASS(lk_strdup(&t->names[t->n_names], p));
        p = stop + 1;
    }
    return LK_OK;
}

static enum lk_status fit_clock(const struct source *s, struct lk_trace *t)
{
    const struct lk_span_file_header *h = s->header;
    enum lk_status st;

    t->clock = lk_clock_identity();
    if (t->info.rank == 0)
        return LK_OK;
    if (!h->n_samples[LK_CLOCK_START]) {
        t->clock.at_ns = t->base_local_ns;
        t->clock.uncertainty_ns = LK_CLOCK_UNKNOWN_NS;
        return LK_OK;
    }
    st = lk_clock_fit(h->samples[LK_CLOCK_START], h->n_samples[LK_CLOCK_START],
                      h->samples[LK_CLOCK_END], h->n_samples[LK_CLOCK_END], &t->clock);
    return lk_fail_context(st, "%s: clock", s->path);
}

static enum lk_status read_header(struct source *s, struct lk_trace *t)
{
    const struct lk_span_file_header *h;

    LK_PASS(lk_alloc(&s->header, 1, sizeof *s->header));
    h = s->header;
    LK_PASS(read_at(s, 0, s->header, sizeof *h));
    LK_PASS(check_header(s));
    LK_PASS(read_info(s, &t->info));
    LK_PASS(read_facts(s, &t->info));
    LK_PASS(read_names(s, t));
    s->running = h->state != LK_SPAN_FILE_CLOSED;
    t->truncated = s->running || h->failed;
    if (h->failed)
        LK_PASS(lk_strndup(&t->failure, h->failure, strnlen(h->failure, sizeof h->failure)));
    t->base_epoch_ns = h->base_epoch_ns;
    t->base_local_ns = h->base_local_ns;
    return fit_clock(s, t);
}

/* ---- The rings ---- */

static enum lk_status check_span(const struct source *s, const struct lk_trace *t, size_t track,
                                 const struct lk_span *span)
{
    if (span->kind >= LK_SPAN_KIND_COUNT || span->name > t->n_names ||
        span->end_ns < span->start_ns || span->ready_ns > span->end_ns)
        return CORRUPT(s, "track '%s' has a record that is no span", t->tracks[track].name);
    return LK_OK;
}

/* Read the records from..to - 1 that a track ever had, which are in the ring still. */
static enum lk_status read_records(const struct source *s, size_t track, uint64_t from, uint64_t to,
                                   struct lk_span *records)
{
    const struct lk_span_file_track *row = &s->header->tracks[track];

    while (from < to) {
        uint64_t place = from % row->capacity, in_segment = place % LK_SPAN_FILE_SEGMENT;
        uint64_t n = LK_SPAN_FILE_SEGMENT - in_segment, segment = place / LK_SPAN_FILE_SEGMENT;
        uint64_t offset;

        n = n < row->capacity - place ? n : row->capacity - place;
        n = n < to - from ? n : to - from;
        offset =
            segment < row->n_segments ? (uint64_t)row->segments[segment] * LK_SPAN_FILE_ALIGN : 0;
        if (offset < s->header->info_offset ||
            offset + (in_segment + n) * sizeof *records > s->size)
            return CORRUPT(s, "the ring of track %zu lies outside the file", track);
        LK_PASS(read_at(s, offset + in_segment * sizeof *records, records,
                        (size_t)n * sizeof *records));
        records += n;
        from += n;
    }
    return LK_OK;
}

/* Set *first to the oldest record of a track that its writer has not begun to write over since. */
static enum lk_status leave_out_new(const struct source *s, size_t track, uint64_t *first)
{
    const struct lk_span_file_track *row = &s->header->tracks[track];
    uint64_t head;

    LK_PASS(read_at(s, offsetof(struct lk_span_file_header, tracks) + track * sizeof *row, &head,
                    sizeof head)); /* the first member */
    if (head >= row->capacity && head - row->capacity + 1 > *first)
        *first = head - row->capacity + 1;
    return LK_OK;
}

/* Return how many records a track ever had, of which its ring keeps the last. */
static uint64_t records_kept(const struct source *s, const struct lk_span_file_track *row)
{
    return s->header->state == LK_SPAN_FILE_ABANDONED && row->kept < row->head ? row->kept
                                                                               : row->head;
}

/* Append the complete spans of one ring, oldest first. */
static enum lk_status read_ring(const struct source *s, struct lk_trace *t, size_t track,
                                size_t *capacity)
{
    enum lk_status st = LK_OK;
    const struct lk_span_file_track *row = &s->header->tracks[track];
    struct lk_span *records = NULL;
    uint64_t head = records_kept(s, row), first = head > row->capacity ? head - row->capacity : 0;
    uint64_t from;

    /* The span at `head` may have been half written, over the oldest one, when the process died. */
    if (s->running && head >= row->capacity)
        first = head - row->capacity + 1;
    if (s->live && head - first > s->most)
        first = head - s->most;
    from = first;
    LK_TRY(lk_alloc(&records, (size_t)(head - from), sizeof *records));
    LK_TRY(read_records(s, track, from, head, records));
    if (s->live)
        LK_TRY(leave_out_new(s, track, &first));
    first = first < head ? first : head;
    LK_TRY(
        lk_array_grow(&t->spans, capacity, t->n_spans + (size_t)(head - first), sizeof *t->spans));
    for (uint64_t i = first; i < head; i++) {
        const struct lk_span *span = &records[i - from];

        LK_TRY(check_span(s, t, track, span));
        t->spans[t->n_spans++] = (struct lk_trace_span){.span = *span, .track = (uint32_t)track};
    }
    t->dropped += first;
out:
    free(records);
    return st;
}

static enum lk_status read_rings(const struct source *s, struct lk_trace *t)
{
    size_t capacity = 0;

    LK_PASS(lk_alloc(&t->tracks, s->header->n_tracks, sizeof *t->tracks));
    for (; t->n_tracks < s->header->n_tracks; t->n_tracks++) {
        const struct lk_span_file_track *row = &s->header->tracks[t->n_tracks];
        struct lk_trace_track *track = &t->tracks[t->n_tracks];

        track->kind = (enum lk_track_kind)row->kind;
        track->stream = row->stream;
        LK_PASS(lk_strdup(&track->name, row->name));
    }
    for (size_t i = 0; i < t->n_tracks; i++)
        LK_PASS(read_ring(s, t, i, &capacity));
    return lk_trace_sort_spans(&t->spans, t->n_spans);
}

/* ---- Steps of spans without one ---- */

enum family { COLLECTIVES, PASSES, STEPS, FAMILIES };

/* Ranges of one family by start; they do not overlap. */
struct ranges {
    const struct lk_span **spans;
    size_t n, capacity;
};

static enum family family_of_track(enum lk_track_kind kind)
{
    static const enum family families[LK_TRACK_KIND_COUNT] = {
        [LK_TRACK_HOST] = STEPS,    [LK_TRACK_COMPUTE] = PASSES, [LK_TRACK_COMM] = COLLECTIVES,
        [LK_TRACK_LOADER] = PASSES, [LK_TRACK_COPY] = PASSES,    [LK_TRACK_GPU] = STEPS,
        [LK_TRACK_UPDATE] = PASSES,
    };

    return families[kind];
}

/* Return true if spans of this kind on such a track are the ranges that tell a step. */
static bool tells_step(enum lk_span_kind kind, enum lk_track_kind track)
{
    static const struct {
        bool tells;
        enum lk_track_kind on;
    } rows[LK_SPAN_KIND_COUNT] = {
        [LK_SPAN_STEP] = {true, LK_TRACK_HOST},
        [LK_SPAN_FORWARD] = {true, LK_TRACK_COMPUTE},
        [LK_SPAN_BACKWARD] = {true, LK_TRACK_COMPUTE},
        [LK_SPAN_OPTIMIZER] = {true, LK_TRACK_COMPUTE},
        [LK_SPAN_COLLECTIVE] = {true, LK_TRACK_COMM},
    };

    return rows[kind].tells && rows[kind].on == track;
}

static enum lk_status collect(const struct lk_trace *t, struct ranges families[static FAMILIES])
{
    for (size_t i = 0; i < t->n_spans; i++) {
        const struct lk_trace_span *s = &t->spans[i];
        enum lk_track_kind track = t->tracks[s->track].kind;
        struct ranges *r = &families[family_of_track(track)];

        if (!tells_step((enum lk_span_kind)s->span.kind, track))
            continue;
        LK_PASS(lk_array_grow(&r->spans, &r->capacity, r->n + 1, sizeof(struct lk_span *)));
        r->spans[r->n++] = &s->span;
    }
    return LK_OK;
}

/* Return the last range that starts at or before `at`, else the first; NULL: there is none. */
static const struct lk_span *range_at(const struct ranges *r, uint64_t at)
{
    size_t lo;

    LK_BISECT(lo, r->n, r->spans[lo]->start_ns <= at);
    return r->n == 0 ? NULL : r->spans[lo > 0 ? lo - 1 : 0];
}

static void assign_step(struct lk_span *s, const struct ranges *r)
{
    uint64_t middle = s->start_ns + (s->end_ns - s->start_ns) / 2;
    const struct lk_span *range = range_at(r, middle);

    s->step = range ? range->step : 0;
    if (range && range->kind == LK_SPAN_COLLECTIVE && s->kind == LK_SPAN_KERNEL &&
        middle >= range->start_ns && middle <= range->end_ns)
        s->index = range->index;
}

enum lk_status lk_spans_assign_step(struct lk_trace *t)
{
    struct ranges families[FAMILIES] = {0};
    enum lk_status st = LK_OK;

    LK_TRY(collect(t, families));
    for (size_t i = 0; i < t->n_spans; i++)
        if (t->spans[i].span.step == LK_SPAN_STEP_UNKNOWN)
            assign_step(&t->spans[i].span,
                        &families[family_of_track(t->tracks[t->spans[i].track].kind)]);
out:
    for (size_t f = 0; f < FAMILIES; f++)
        free(families[f].spans);
    return st;
}

static enum lk_status read_file(struct source *s, struct lk_trace *out)
{
    enum lk_status st = LK_OK;
    struct lk_trace t = {0};
    struct stat info;

    LK_TRY(open_source(s));
    LK_TRY(read_header(s, &t));
    if (s->live && !fstat(s->fd, &info)) /* it may have grown before its header was read */
        s->size = (uint64_t)info.st_size;
    LK_TRY(read_rings(s, &t));
    LK_TRY(lk_spans_assign_step(&t));
    *out = t;
    t = (struct lk_trace){0};
out:
    lk_trace_fini(&t);
    free(s->header);
    if (s->fd >= 0)
        close(s->fd);
    return st;
}

bool lk_span_file_is_named(const char *name)
{
    return !strncmp(name, "rank", 4) && lk_ends_with(name, ".spans");
}

enum lk_status lk_spans_read(const char *path, struct lk_trace *out)
{
    struct source s = {.path = path, .fd = -1};

    return read_file(&s, out);
}

enum lk_status lk_spans_read_live(const char *path, uint64_t most, struct lk_trace *out,
                                  bool *written)
{
    struct source s = {.path = path, .fd = -1, .live = true, .most = most};

    LK_PASS(read_file(&s, out));
    *written = s.held;
    return LK_OK;
}
