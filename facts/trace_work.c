#include "facts/trace_work.h"

#include "base/array.h"

#include <stdlib.h>

static int by_step(const void *a, const void *b)
{
    const struct lk_trace_at *x = a, *y = b;

    if (x->track != y->track)
        return LK_ORDER(x->track, y->track);
    return LK_ORDER(x->step, y->step);
}

static int by_place(const void *a, const void *b)
{
    const struct lk_trace_at *x = a, *y = b;
    int order = by_step(a, b);

    return order ? order : LK_ORDER(x->index, y->index);
}

static int by_bucket(const void *a, const void *b)
{
    const struct lk_span *x = &(*(const struct lk_trace_span *const *)a)->span;
    const struct lk_span *y = &(*(const struct lk_trace_span *const *)b)->span;

    if (x->step != y->step)
        return LK_ORDER(x->step, y->step);
    return LK_ORDER(x->index, y->index);
}

static size_t without_repeats(struct lk_trace_at *a, size_t n)
{
    size_t kept = 0;

    for (size_t i = 0; i < n; i++)
        if (kept == 0 || by_place(&a[kept - 1], &a[i]) != 0)
            a[kept++] = a[i];
    return kept;
}

enum { NCCLS = -1, NO_COLLECTIVES = -2 };

static struct lk_trace_at place_of(const struct lk_trace *t, const struct lk_trace_span *s)
{
    struct lk_trace_at at = {s->track, s->span.step, s->span.index};

    if (at.index < 0)
        at.index = lk_trace_is_nccl(t, &s->span) ? NCCLS : NO_COLLECTIVES;
    return at;
}

enum lk_status lk_trace_work_init(struct lk_trace_work *w, const struct lk_trace *t)
{
    size_t kernels = 0, collectives = 0;

    *w = (struct lk_trace_work){.t = t};
    for (size_t i = 0; i < t->n_spans; i++) {
        const struct lk_trace_span *s = &t->spans[i];

        if (s->span.kind == LK_SPAN_KERNEL) {
            LK_PASS(lk_array_grow(&w->kernels, &kernels, w->n_kernels + 1, sizeof *w->kernels));
            w->kernels[w->n_kernels++] = place_of(t, s);
        } else if (s->span.kind == LK_SPAN_COLLECTIVE) {
            LK_PASS(lk_array_grow(&w->collectives, &collectives, w->n_collectives + 1,
                                  sizeof(struct lk_trace_span *)));
            w->collectives[w->n_collectives++] = s;
        }
    }
    if (w->n_kernels)
        qsort(w->kernels, w->n_kernels, sizeof *w->kernels, by_place);
    w->n_kernels = without_repeats(w->kernels, w->n_kernels);
    if (w->n_collectives)
        qsort(w->collectives, w->n_collectives, sizeof(struct lk_trace_span *), by_bucket);
    return LK_OK;
}

void lk_trace_work_fini(struct lk_trace_work *w)
{
    free(w->kernels);
    free(w->collectives);
    *w = (struct lk_trace_work){0};
}

static bool is_known(const struct lk_trace_work *w, struct lk_trace_at at,
                     int (*order)(const void *a, const void *b))
{
    return bsearch(&at, w->kernels, w->n_kernels, sizeof at, order) != NULL;
}

/* Return true if kernels of the span's stream and step are known: of a collective, its own, which
 * lie on another track. */
static bool has_kernels(const struct lk_trace_work *w, const struct lk_trace_span *s)
{
    const struct lk_trace_track *own = &w->t->tracks[s->track];
    bool collective = s->span.kind == LK_SPAN_COLLECTIVE;

    for (uint32_t k = 0; w->n_kernels && k < w->t->n_tracks; k++) {
        const struct lk_trace_at at = {k, s->span.step, s->span.index};
        const struct lk_trace_at nccls = {k, s->span.step, NCCLS};

        if (w->t->tracks[k].kind != own->kind || w->t->tracks[k].stream != own->stream ||
            (collective && k == s->track))
            continue;
        if (collective ? is_known(w, at, by_place) || is_known(w, nccls, by_place)
                       : is_known(w, at, by_step))
            return true;
    }
    return false;
}

const char *lk_trace_work_category(const struct lk_trace_work *w, const struct lk_trace_span *s)
{
    enum lk_span_kind kind = (enum lk_span_kind)s->span.kind;
    const struct lk_trace_track *track = &w->t->tracks[s->track];

    switch (kind) {
    case LK_SPAN_KERNEL:
    case LK_SPAN_COPY:
    case LK_SPAN_MEMSET:
        return lk_span_kind_category(kind);
    case LK_SPAN_COLLECTIVE:
        return has_kernels(w, s) ? NULL : lk_span_kind_category(kind);
    case LK_SPAN_FORWARD:
    case LK_SPAN_BACKWARD:
    case LK_SPAN_OPTIMIZER:
        return (track->kind != LK_TRACK_COMPUTE && track->kind != LK_TRACK_UPDATE) ||
                       has_kernels(w, s)
                   ? NULL
                   : lk_span_kind_category(LK_SPAN_KERNEL);
    default:
        return NULL;
    }
}

const struct lk_span *lk_trace_work_collective(const struct lk_trace_work *w,
                                               const struct lk_trace_span *s)
{
    const struct lk_trace_span *const *found;

    if (s->span.kind == LK_SPAN_COLLECTIVE)
        return &s->span;
    if (s->span.kind != LK_SPAN_KERNEL || s->span.index < 0 || !w->n_collectives ||
        w->t->tracks[s->track].kind != LK_TRACK_COMM)
        return NULL;
    found =
        bsearch(&s, w->collectives, w->n_collectives, sizeof(struct lk_trace_span *), by_bucket);
    return found ? &(*found)->span : NULL;
}
