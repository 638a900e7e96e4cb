/* Finds the step of spans that have none, by time. */
#include "profiler/place.h"

#include "base/array.h"

#include <stdbool.h>
#include <stdlib.h>

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
    };

    return families[kind];
}

/* Whether a span is one of the ranges that others are placed by. */
static bool places(enum lk_span_kind kind, enum lk_track_kind track)
{
    static const struct {
        bool places;
        enum lk_track_kind on;
    } rows[LK_SPAN_KIND_COUNT] = {
        [LK_SPAN_STEP] = {true, LK_TRACK_HOST   },
        [LK_SPAN_FORWARD] = {true, LK_TRACK_COMPUTE},
        [LK_SPAN_BACKWARD] = {true, LK_TRACK_COMPUTE},
        [LK_SPAN_OPTIMIZER] = {true, LK_TRACK_COMPUTE},
        [LK_SPAN_COLLECTIVE] = {true, LK_TRACK_COMM   },
    };

    return rows[kind].places && rows[kind].on == track;
}

static enum lk_status collect(const struct lk_trace *t, struct ranges families[static FAMILIES])
{
    enum lk_status st = LK_OK;

    for (size_t i = 0; i < t->n_spans; i++) {
        const struct lk_trace_span *s = &t->spans[i];
        enum lk_track_kind track = t->tracks[s->track].kind;
        struct ranges *r = &families[family_of_track(track)];

        if (!places((enum lk_span_kind)s->span.kind, track))
            continue;
        LK_TRY(lk_array_grow(&r->spans, &r->capacity, r->n + 1, sizeof(struct lk_span *)));
        r->spans[r->n++] = &s->span;
    }
out:
    return st;
}

/* The last range that starts at or before `at`, else the first; NULL: there is none. */
static const struct lk_span *range_at(const struct ranges *r, uint64_t at)
{
    size_t lo = 0, hi = r->n;

    while (lo < hi) {
        size_t mid = (lo + hi) / 2;

        if (r->spans[mid]->start_ns <= at)
            lo = mid + 1;
        else
            hi = mid;
    }
    return r->n == 0 ? NULL : r->spans[lo > 0 ? lo - 1 : 0];
}

static void place(struct lk_span *s, const struct ranges *r)
{
    uint64_t middle = s->start_ns + (s->end_ns - s->start_ns) / 2;
    const struct lk_span *range = range_at(r, middle);

    s->step = range ? range->step : 0;
    if (range && range->kind == LK_SPAN_COLLECTIVE && s->kind == LK_SPAN_KERNEL &&
        middle >= range->start_ns && middle <= range->end_ns)
        s->index = range->index;
}

enum lk_status lk_spans_place(struct lk_trace *t)
{
    struct ranges families[FAMILIES] = {0};
    enum lk_status st = LK_OK;

    LK_TRY(collect(t, families));
    for (size_t i = 0; i < t->n_spans; i++)
        if (t->spans[i].span.step == LK_SPAN_STEP_UNKNOWN)
            place(&t->spans[i].span, &families[family_of_track(t->tracks[t->spans[i].track].kind)]);
out:
    for (size_t f = 0; f < FAMILIES; f++)
        free(families[f].spans);
    return st;
}
