#include "tests/rigs/trace_add.h"

#include "facts/hops.h"

#include "base/array.h"
#include "tests/rigs/must.h"

#include <string.h>

uint16_t trace_add_name(struct lk_trace *t, const char *name)
{
    size_t capacity = t->n_names;

    for (size_t i = 0; i < t->n_names; i++)
        if (!strcmp(t->names[i], name))
            return (uint16_t)(i + 1);
    must(lk_array_grow(&t->names, &capacity, t->n_names + 1, sizeof *t->names));
    must(lk_strdup(&t->names[t->n_names], name));
    return (uint16_t)++t->n_names;
}

uint32_t trace_add_track(struct lk_trace *t, const char *name, enum lk_track_kind kind, int stream)
{
    size_t capacity = t->n_tracks;

    must(lk_array_grow(&t->tracks, &capacity, t->n_tracks + 1, sizeof *t->tracks));
    t->tracks[t->n_tracks] = (struct lk_trace_track){.kind = kind, .stream = stream};
    must(lk_strdup(&t->tracks[t->n_tracks].name, name));
    return (uint32_t)t->n_tracks++;
}

void trace_add_span(struct lk_trace *t, uint32_t track, struct lk_span span)
{
    size_t capacity = t->n_spans;

    must(lk_array_grow(&t->spans, &capacity, t->n_spans + 1, sizeof *t->spans));
    t->spans[t->n_spans++] = (struct lk_trace_span){.span = span, .track = track};
}

void trace_add_done(struct lk_trace *t)
{
    must(lk_trace_sort_spans(&t->spans, t->n_spans));
}

const struct lk_span *trace_find(const struct lk_trace *t, enum lk_span_kind kind, uint32_t step)
{
    for (size_t i = 0; i < t->n_spans; i++)
        if (t->spans[i].span.kind == kind && t->spans[i].span.step == step)
            return &t->spans[i].span;
    return NULL;
}

void trace_add_hop(struct lk_trace *t, int to, double Bps, double part)
{
    uint16_t names[LK_HOP_VALUES];
    size_t n = t->n_spans;

    for (int v = 0; v < LK_HOP_VALUES; v++)
        names[v] = trace_add_name(t, lk_hop_value_name((enum lk_hop_value)v));
    for (size_t i = 0; i < n; i++) {
        const struct lk_span s = t->spans[i].span;
        const uint32_t track = t->spans[i].track;
        const double bytes = part * (double)s.bytes;
        const double values[LK_HOP_VALUES] = {bytes, bytes / Bps + 0.001, 0.001, 0};

        if (s.kind != LK_SPAN_COLLECTIVE)
            continue;
        for (int v = 0; v < LK_HOP_VALUES; v++)
            trace_add_span(t, track,
                           (struct lk_span){.kind = LK_SPAN_COUNTER,
                                            .name = names[v],
                                            .step = s.step,
                                            .index = to,
                                            .seq = s.seq,
                                            .start_ns = s.end_ns,
                                            .end_ns = s.end_ns,
                                            .value = values[v]});
    }
}
