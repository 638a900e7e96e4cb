/*
 * Read traces of our own schema. Keys and events may come in any order: spans are kept by rank in
 * file time until the whole file is read, and become traces then.
 */
#include "facts/trace.h"

#include "base/array.h"
#include "facts/bounds.h"
#include "facts/trace_format.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Marks an absent ready_ns until the base is known (file time 0 is a valid time). */
#define NO_READY ((uint64_t)INT64_MIN)

/* ---- One event ---- */

/*
 * Set *out_own to the object with our keys (a counter's event, else the args), or NULL if the event
 * is no span of ours. A key with our prefix that we do not know is an error.
 */
static enum lk_status find_own(struct lk_json *event, struct lk_json **out_own)
{
    static const char prefix[] = "lk_";
    struct lk_json *ph = lk_json_optional(event, "ph");
    struct lk_json *own = event;
    struct lk_json *v;
    const char *key = NULL;
    const char *text = NULL;
    bool span = false;
    bool other = false;

    *out_own = NULL;
    if (!ph || lk_json_as_text(ph, &text) != LK_OK || strcmp(text, "C") != 0)
        own = lk_json_optional(event, "args");
    if (!own || lk_json_type(own) != LK_JSON_OBJECT)
        return LK_OK;
    for (size_t i = 0; (v = lk_json_member(own, i, &key)); i++) {
        size_t k = 0;

        if (strncmp(key, prefix, sizeof prefix - 1) != 0)
            continue;
        while (k < LK_TRACE_KEY_COUNT && strcmp(key, lk_trace_keys[k]) != 0)
            k++;
        if (k == LK_TRACE_KEY_COUNT)
            return lk_json_error(v, "unknown key");
        if (k == LK_TRACE_KIND)
            span = true;
        else if (k != LK_TRACE_SYNTHETIC)
            other = true;
    }
    if (other && !span)
        return lk_json_error(own, "a span without %s", lk_trace_keys[LK_TRACE_KIND]);
    if (span)
        *out_own = own;
    return LK_OK;
}

static enum lk_status read_kind(struct lk_json *own, uint16_t *out)
{
    struct lk_json *v = NULL;
    int kind = 0;

    LK_PASS(lk_json_required(own, lk_trace_keys[LK_TRACE_KIND], &v));
    LK_PASS(lk_json_as_word(v, &lk_span_kind_words, &kind));
    *out = (uint16_t)kind;
    return LK_OK;
}

static enum lk_status optional_uint(struct lk_json *own, enum lk_trace_key key, uint64_t max,
                                    uint64_t *out)
{
    struct lk_json *v = lk_json_optional(own, lk_trace_keys[key]);

    *out = 0;
    return v ? lk_json_as_uint(v, max, out) : LK_OK;
}

static enum lk_status read_fixed(struct lk_json *obj, const char *key, int64_t *out)
{
    struct lk_json *v = lk_json_optional(obj, key);

    if (!v)
        return lk_json_error(obj, "%s is missing", key);
    return lk_json_as_fixed(v, 3, out);
}

static enum lk_status read_own(struct lk_json *own, struct lk_span *s)
{
    struct lk_json *v;
    uint64_t n = 0;
    int64_t index = -1;
    int64_t ready = 0;

    LK_PASS(lk_json_uint(own, lk_trace_keys[LK_TRACE_STEP], UINT32_MAX, &n));
    s->step = (uint32_t)n;
    v = lk_json_optional(own, lk_trace_keys[LK_TRACE_INDEX]);
    if (v)
        LK_PASS(lk_json_as_int(v, -1, INT32_MAX, &index));
    s->index = (int32_t)index;
    LK_PASS(optional_uint(own, LK_TRACE_NAME, LK_TRACE_IDS_MAX, &n));
    s->name = (uint16_t)n;
    LK_PASS(optional_uint(own, LK_TRACE_SEQ, UINT32_MAX, &n));
    s->seq = (uint32_t)n;
    LK_PASS(optional_uint(own, LK_TRACE_CALL, UINT32_MAX, &n));
    s->seq += (uint32_t)n;
    LK_PASS(optional_uint(own, LK_TRACE_BYTES, UINT64_MAX, &s->bytes));
    v = lk_json_optional(own, lk_trace_keys[LK_TRACE_READY]);
    if (v)
        LK_PASS(lk_json_as_fixed(v, 3, &ready));
    s->ready_ns = (uint64_t)ready;
    return LK_OK;
}

static enum lk_status read_value(struct lk_json *event, double *out)
{
    static const struct {
        const char *text;
        double value;
    } others[] = {{"nan", NAN}, {"inf", INFINITY}, {"-inf", -INFINITY}};
    struct lk_json *args = NULL;
    struct lk_json *v;
    const char *text = NULL;

    LK_PASS(lk_json_object(event, "args", &args));
    v = lk_json_optional(args, "value");
    if (!v)
        return lk_json_error(args, "value is missing");
    if (lk_json_type(v) == LK_JSON_NUMBER)
        return lk_json_as_number(v, out);
    LK_PASS(lk_json_as_text(v, &text));
    for (size_t i = 0; i < LK_COUNT(others); i++)
        if (!strcmp(text, others[i].text)) {
            *out = others[i].value;
            return LK_OK;
        }
    return lk_json_error(v, "'%.40s' is no number", text);
    return LK_OK;
}

/* Return the phase ("ph") that a kind is written with. */
static const char *phase_of(uint16_t kind)
{
    return kind == LK_SPAN_GRADIENT ? "i" : kind == LK_SPAN_COUNTER ? "C" : "X";
}

static enum lk_status read_times(struct lk_json *event, struct lk_json *own, struct lk_span *s)
{
    const char *ph = NULL;
    int64_t ts = 0;
    int64_t dur = 0;

    LK_PASS(lk_json_text(event, "ph", &ph));
    if (strcmp(ph, phase_of(s->kind)) != 0)
        return lk_json_error(lk_json_optional(event, "ph"),
                             "expected \"%s\" for a %s, got \"%.8s\"", phase_of(s->kind),
                             lk_span_kind_name((enum lk_span_kind)s->kind), ph);
    LK_PASS(read_fixed(event, "ts", &ts));
    if (*ph == 'X')
        LK_PASS(read_fixed(event, "dur", &dur));
    if (dur < 0 || ts > INT64_MAX - dur)
        return lk_json_error(lk_json_optional(event, "dur"), "out of range");
    s->start_ns = (uint64_t)ts;
    s->end_ns = (uint64_t)(ts + dur);
    if (!lk_json_optional(own, lk_trace_keys[LK_TRACE_READY]))
        s->ready_ns = NO_READY;
    return LK_OK;
}

/*
 * Read an event; *out_ours is false if it is no span of ours. Its times are file time: int64_t ns
 * in the fields of the span.
 */
static enum lk_status read_event(struct lk_json *event, bool *out_ours, int *out_rank,
                                 struct lk_trace_span *out)
{
    struct lk_trace_span s = {0};
    struct lk_json *own = NULL;
    int64_t pid = 0;
    int64_t tid = 0;

    *out_ours = false;
    if (lk_json_type(event) != LK_JSON_OBJECT)
        return lk_json_error(event, "an event is an object");
    LK_PASS(find_own(event, &own));
    if (!own)
        return LK_OK;
    LK_PASS(read_kind(own, &s.span.kind));
    LK_PASS(read_own(own, &s.span));
    LK_PASS(read_times(event, own, &s.span));
    if (s.span.kind == LK_SPAN_COUNTER)
        LK_PASS(read_value(event, &s.span.value));
    LK_PASS(lk_json_int(event, "pid", 0, LK_RANKS_MAX - 1, &pid));
    LK_PASS(lk_json_int(event, "tid", 1, LK_TRACE_IDS_MAX, &tid));
    s.track = (uint32_t)(tid - 1);
    *out_ours = true;
    *out_rank = (int)pid;
    *out = s;
    return LK_OK;
}

/* ---- Spans by rank ---- */

/* The spans of one rank. Times are file time: int64_t ns in the fields of the span. */
struct part {
    int rank;
    struct lk_trace_span *spans;
    size_t n, capacity;
};

struct reader {
    const char *path;
    bool has_base, has_header;
    uint64_t base_ns;
    struct lk_trace_header header;
    struct part *parts;
    size_t n_parts, parts_capacity;
    struct part *last; /* the part of the last event; NULL: none */
};

static void reader_fini(struct reader *r)
{
    for (size_t i = 0; i < r->header.n_ranks; i++)
        free(r->header.ranks[i].spans);
    lk_record_fini(&lk_trace_header_record, &r->header);
    for (size_t i = 0; i < r->n_parts; i++)
        free(r->parts[i].spans);
    free(r->parts);
}

static enum lk_status on_member(void *ctx, const char *key, struct lk_json *v)
{
    struct reader *r = ctx;

    if (!strcmp(key, "lockstep")) {
        LK_PASS(lk_record_read(&lk_trace_header_record, v, &r->header));
        r->has_header = true;
    }
    if (!strcmp(key, "baseTimeNanoseconds")) {
        LK_PASS(lk_json_as_uint(v, INT64_MAX, &r->base_ns));
        r->has_base = true;
    }
    return LK_OK;
}

/* ---- Events ---- */

/* Return the part of a rank, or NULL. */
static struct part *find_part(const struct reader *r, int rank)
{
    for (size_t i = 0; i < r->n_parts; i++)
        if (r->parts[i].rank == rank)
            return &r->parts[i];
    return NULL;
}

/* Describe how a span contradicts the header, or return NULL. */
static const char *contradiction(const struct lk_trace *t, const struct lk_trace_span *s)
{
    if (s->track >= t->n_tracks)
        return "its track (tid) is not in lockstep.ranks[].tracks";
    if (s->span.name > t->n_names)
        return "its lk_name is not in lockstep.ranks[].names";
    return NULL;
}

static const struct lk_trace *find_rank(const struct reader *r, int rank)
{
    for (size_t i = 0; i < r->header.n_ranks; i++)
        if (r->header.ranks[i].info.rank == rank)
            return &r->header.ranks[i];
    return NULL;
}

static enum lk_status keep(struct reader *r, struct lk_json *event, int rank,
                           const struct lk_trace_span *s)
{
    struct part *p = r->last;

    if (!p || p->rank != rank) {
        if (r->has_header && !find_rank(r, rank))
            return lk_json_error(event, "pid %d is no rank of this trace", rank);
        p = find_part(r, rank);
    }
    if (!p) {
        LK_PASS(lk_array_grow(&r->parts, &r->parts_capacity, r->n_parts + 1, sizeof *r->parts));
        p = &r->parts[r->n_parts++];
        *p = (struct part){.rank = rank};
    }
    if (r->has_header && contradiction(find_rank(r, rank), s))
        return lk_json_error(event, "%s", contradiction(find_rank(r, rank), s));
    LK_PASS(lk_array_grow(&p->spans, &p->capacity, p->n + 1, sizeof *p->spans));
    p->spans[p->n++] = *s;
    r->last = p;
    return LK_OK;
}

static enum lk_status on_event(void *ctx, struct lk_json *event)
{
    struct lk_trace_span s;
    bool ours;
    int rank;

    LK_PASS(read_event(event, &ours, &rank, &s));
    if (ours)
        LK_PASS(keep(ctx, event, rank, &s));
    return LK_OK;
}

/* ---- Traces ---- */

/* Convert file time to the rank's clock; false if the result is out of range. */
static bool to_local(const struct reader *r, const struct lk_trace *t, uint64_t *ns)
{
    *ns = *ns + r->base_ns - t->base_epoch_ns + t->base_local_ns;
    return *ns <= INT64_MAX;
}

/* Move a part's spans into their trace. */
static enum lk_status finish_rank(const struct reader *r, struct lk_trace *t, struct part *p)
{
    int rank = t->info.rank;
    size_t n = p ? p->n : 0;

    if (n != t->n_spans)
        return lk_fail(LK_EPARSE, "%s: rank %d: %zu spans, but lockstep.ranks[].spans says %llu",
                       r->path, rank, n, (unsigned long long)t->n_spans);
    for (size_t i = 0; i < n; i++) {
        struct lk_span *s = &p->spans[i].span;

        if (contradiction(t, &p->spans[i]))
            return lk_fail(LK_EPARSE, "%s: rank %d: span %zu: %s", r->path, rank, i,
                           contradiction(t, &p->spans[i]));
        if (s->ready_ns == NO_READY)
            s->ready_ns = 0;
        else if (!to_local(r, t, &s->ready_ns))
            return lk_fail(LK_EPARSE, "%s: rank %d: span %zu: lk_ready_us is out of range", r->path,
                           rank, i);
        if (!to_local(r, t, &s->start_ns) || !to_local(r, t, &s->end_ns))
            return lk_fail(LK_EPARSE, "%s: rank %d: span %zu: ts is out of range", r->path, rank,
                           i);
    }
    if (!p)
        return LK_OK;
    LK_PASS(lk_trace_sort_spans(&p->spans, n)); /* a tool may have rewritten the file */
    t->spans = p->spans;
    p->spans = NULL;
    return LK_OK;
}

static enum lk_status finish(struct reader *r)
{
    if (!r->has_header)
        return lk_fail(LK_EPARSE, "%s: not a trace of lockstep: no \"lockstep\" object", r->path);
    if (!r->has_base)
        return lk_fail(LK_EPARSE, "%s: baseTimeNanoseconds: missing", r->path);
    for (size_t i = 0; i < r->n_parts; i++)
        if (!find_rank(r, r->parts[i].rank))
            return lk_fail(LK_EPARSE, "%s: pid %d is no rank of this trace", r->path,
                           r->parts[i].rank);
    for (size_t i = 0; i < r->header.n_ranks; i++)
        LK_PASS(finish_rank(r, &r->header.ranks[i], find_part(r, r->header.ranks[i].info.rank)));
    return LK_OK;
}

static enum lk_status read_all(const char *path, struct reader *r)
{
    static const struct lk_json_walk walk = {
        .array = "traceEvents", .item = on_event, .member = on_member};

    r->path = path;
    LK_PASS(lk_json_walk(path, &walk, r));
    return finish(r);
}

enum lk_status lk_trace_read(const char *path, struct lk_trace *out)
{
    enum lk_status st = LK_OK;
    struct reader r = {0};

    LK_TRY(read_all(path, &r));
    if (r.header.merged)
        LK_TRY(lk_fail(LK_EPARSE, "%s: a merged trace; this needs the trace of one rank", path));
    *out = r.header.ranks[0];
    r.header.ranks[0] = (struct lk_trace){0};
out:
    reader_fini(&r);
    return st;
}

enum lk_status lk_trace_read_merged(const char *path, struct lk_trace **out, size_t *out_n)
{
    struct reader r = {0};
    enum lk_status st = read_all(path, &r);

    if (st == LK_OK) {
        *out = r.header.ranks;
        *out_n = r.header.n_ranks;
        r.header = (struct lk_trace_header){0};
    }
    reader_fini(&r);
    return st;
}
