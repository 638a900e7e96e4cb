#include "tests/rigs/trace_add.h"

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
