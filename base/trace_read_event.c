/* Reading one event of a trace. */
#include "base/trace_format.h"

#include "base/array.h"
#include "base/bounds.h"

#include <math.h>
#include <string.h>

/*
 * Whether the event is a span of ours. *out_own has our keys: of counters the event, else its args.
 * A key with our prefix that we do not know is an error.
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
    enum lk_status st = LK_OK;
    const char *text = NULL;

    LK_TRY(lk_json_text(own, lk_trace_keys[LK_TRACE_KIND], &text));
    for (int k = 0; k < LK_SPAN_KIND_COUNT; k++)
        if (!strcmp(text, lk_span_kind_name((enum lk_span_kind)k))) {
            *out = (uint16_t)k;
            return LK_OK;
        }
    return lk_json_error(lk_json_optional(own, lk_trace_keys[LK_TRACE_KIND]),
                         "'%.40s' is no kind of span", text);
out:
    return st;
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
    enum lk_status st = LK_OK;
    struct lk_json *v;
    uint64_t n = 0;
    int64_t index = -1;
    int64_t ready = 0;

    LK_TRY(lk_json_uint(own, lk_trace_keys[LK_TRACE_STEP], UINT32_MAX, &n));
    s->step = (uint32_t)n;
    v = lk_json_optional(own, lk_trace_keys[LK_TRACE_INDEX]);
    if (v)
        LK_TRY(lk_json_as_int(v, -1, INT32_MAX, &index));
    s->index = (int32_t)index;
    LK_TRY(optional_uint(own, LK_TRACE_NAME, LK_TRACE_IDS_MAX, &n));
    s->name = (uint16_t)n;
    LK_TRY(optional_uint(own, LK_TRACE_SEQ, UINT32_MAX, &n));
    s->seq = (uint32_t)n;
    LK_TRY(optional_uint(own, LK_TRACE_BYTES, UINT64_MAX, &s->bytes));
    v = lk_json_optional(own, lk_trace_keys[LK_TRACE_READY]);
    if (v)
        LK_TRY(lk_json_as_fixed(v, 3, &ready));
    s->ready_ns = (uint64_t)ready;
out:
    return st;
}

static enum lk_status read_value(struct lk_json *event, double *out)
{
    static const struct {
        const char *text;
        double value;
    } others[] = {
        {"nan",  NAN      },
        {"inf",  INFINITY },
        {"-inf", -INFINITY}
    };
    enum lk_status st = LK_OK;
    struct lk_json *args = NULL;
    struct lk_json *v;
    const char *text = NULL;

    LK_TRY(lk_json_object(event, "args", &args));
    v = lk_json_optional(args, "value");
    if (!v)
        return lk_json_error(args, "value is missing");
    if (lk_json_type(v) == LK_JSON_NUMBER)
        return lk_json_as_number(v, out);
    LK_TRY(lk_json_as_text(v, &text));
    for (size_t i = 0; i < LK_COUNT(others); i++)
        if (!strcmp(text, others[i].text)) {
            *out = others[i].value;
            return LK_OK;
        }
    return lk_json_error(v, "'%.40s' is no number", text);
out:
    return st;
}

/* The phase that a kind is written with. */
static const char *phase_of(uint16_t kind)
{
    return kind == LK_SPAN_GRADIENT ? "i" : kind == LK_SPAN_COUNTER ? "C" : "X";
}

static enum lk_status read_times(struct lk_json *event, struct lk_json *own, struct lk_span *s)
{
    enum lk_status st = LK_OK;
    const char *ph = NULL;
    int64_t ts = 0;
    int64_t dur = 0;

    LK_TRY(lk_json_text(event, "ph", &ph));
    if (strcmp(ph, phase_of(s->kind)) != 0)
        return lk_json_error(lk_json_optional(event, "ph"),
                             "expected \"%s\" for a %s, got \"%.8s\"", phase_of(s->kind),
                             lk_span_kind_name((enum lk_span_kind)s->kind), ph);
    LK_TRY(read_fixed(event, "ts", &ts));
    if (*ph == 'X')
        LK_TRY(read_fixed(event, "dur", &dur));
    if (dur < 0 || ts > INT64_MAX - dur)
        return lk_json_error(lk_json_optional(event, "dur"), "out of range");
    s->start_ns = (uint64_t)ts;
    s->end_ns = (uint64_t)(ts + dur);
    if (!lk_json_optional(own, lk_trace_keys[LK_TRACE_READY]))
        s->ready_ns = LK_TRACE_NO_READY;
out:
    return st;
}

enum lk_status lk_trace_read_event(struct lk_json *event, bool *out_ours, int *out_rank,
                                   struct lk_trace_span *out)
{
    enum lk_status st = LK_OK;
    struct lk_trace_span s = {0};
    struct lk_json *own = NULL;
    int64_t pid = 0;
    int64_t tid = 0;

    *out_ours = false;
    if (lk_json_type(event) != LK_JSON_OBJECT)
        return lk_json_error(event, "an event is an object");
    LK_TRY(find_own(event, &own));
    if (!own)
        return LK_OK;
    LK_TRY(read_kind(own, &s.span.kind));
    LK_TRY(read_own(own, &s.span));
    LK_TRY(read_times(event, own, &s.span));
    if (s.span.kind == LK_SPAN_COUNTER)
        LK_TRY(read_value(event, &s.span.value));
    LK_TRY(lk_json_int(event, "pid", 0, LK_RANKS_MAX - 1, &pid));
    LK_TRY(lk_json_int(event, "tid", 1, LK_TRACE_IDS_MAX, &tid));
    s.track = (uint32_t)(tid - 1);
    *out_ours = true;
    *out_rank = (int)pid;
    *out = s;
out:
    return st;
}
