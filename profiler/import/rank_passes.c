/* Tell a rank's passes: on the GPU by the work of its compute streams, else by the host's ranges.
 */
#include "profiler/import/rank_impl.h"

#include "base/array.h"

#include <stdlib.h>

/* Order passes by what they are; a step has one optimizer. */
static int kind_order(const void *a, const void *b)
{
    const struct pass *x = a, *y = b;

    if (x->step != y->step)
        return x->step < y->step ? -1 : 1;
    if (x->phase != y->phase)
        return x->phase < y->phase ? -1 : 1;
    if (x->phase == LK_SPAN_OPTIMIZER)
        return 0;
    return LK_ORDER(x->pass, y->pass);
}

static void widen(struct pass *known, const struct pass *x)
{
    known->start_ns = x->start_ns < known->start_ns ? x->start_ns : known->start_ns;
    known->end_ns = x->end_ns > known->end_ns ? x->end_ns : known->end_ns;
    known->launched_ns = x->launched_ns > known->launched_ns ? x->launched_ns : known->launched_ns;
}

/* Make a pass longer by a piece of it, or add it. Only the last ones are looked at: what is in the
 * list twice is joined later. */
static enum lk_status extend(struct passes *p, const struct pass *x)
{
    enum { LAST = 8 };

    for (size_t i = p->n; i-- > 0 && i + LAST >= p->n;)
        if (kind_order(&p->at[i], x) == 0) {
            widen(&p->at[i], x);
            return LK_OK;
        }
    LK_PASS(lk_array_grow(&p->at, &p->capacity, p->n + 1, sizeof *p->at));
    p->at[p->n++] = *x;
    return LK_OK;
}

static void join(struct passes *p)
{
    size_t n = 0;

    if (p->n)
        qsort(p->at, p->n, sizeof *p->at, kind_order);
    for (size_t i = 0; i < p->n; i++)
        if (n && kind_order(&p->at[n - 1], &p->at[i]) == 0)
            widen(&p->at[n - 1], &p->at[i]);
        else
            p->at[n++] = p->at[i];
    p->n = n;
}

/* Passes of the GPU: from the work on compute streams. */
static enum lk_status gpu_passes(struct trace_builder *tb, struct passes *p)
{
    for (size_t i = 0; i < tb->n_work; i++) {
        const struct work *w = &tb->work[i];
        const uint32_t track = tb->tracks[w->event->lane];

        if (w->phase == LK_SPAN_COLLECTIVE || !w->launch || !track ||
            tb->t.tracks[track - 1].kind != LK_TRACK_COMPUTE)
            continue;
        LK_PASS(extend(p, &(struct pass){.phase = w->phase,
                                         .step = w->step,
                                         .pass = w->pass,
                                         .start_ns = w->event->start_ns,
                                         .end_ns = w->event->end_ns,
                                         .launched_ns = w->launch->start_ns}));
    }
    return LK_OK;
}

/* Passes of the host: a forward ends where its backward begins. */
static enum lk_status host_passes(struct trace_builder *tb, struct passes *p)
{
    for (size_t i = 0; i < tb->backwards.n; i++) {
        const struct range *b = &tb->backwards.at[i];
        struct pass x = {
            LK_SPAN_BACKWARD, lk_import_step_at_(tb, b->start_ns), i + 1, b->start_ns, b->end_ns,
            b->start_ns};
        size_t f = lk_import_begun_(&tb->forwards, b->start_ns);

        if (x.step == SIZE_MAX)
            continue;
        LK_PASS(extend(p, &x));
        x.phase = LK_SPAN_FORWARD;
        x.end_ns = b->start_ns;
        x.start_ns = f > 0 ? tb->forwards.at[f - 1].start_ns : tb->steps.at[x.step].start_ns;
        x.launched_ns = x.start_ns;
        if (x.start_ns >= tb->steps.at[x.step].start_ns)
            LK_PASS(extend(p, &x));
    }
    for (size_t i = 0; i < tb->optimizers.n; i++) {
        const struct range *o = &tb->optimizers.at[i];
        struct pass x = {
            LK_SPAN_OPTIMIZER, lk_import_step_at_(tb, o->start_ns), 0, o->start_ns, o->end_ns,
            o->start_ns};

        if (x.step != SIZE_MAX)
            LK_PASS(extend(p, &x));
    }
    return LK_OK;
}

static int pass_order(const void *a, const void *b)
{
    const struct pass *x = a, *y = b;

    if (x->launched_ns != y->launched_ns)
        return x->launched_ns < y->launched_ns ? -1 : 1;
    return kind_order(a, b);
}

enum lk_status lk_import_add_passes_(struct trace_builder *tb)
{
    struct passes *p = &tb->passes;
    int64_t end = tb->device >= 0 ? tb->begin_ns : INT64_MIN;
    size_t step = SIZE_MAX, backward = 0, forward = 0;

    LK_PASS(tb->device >= 0 ? gpu_passes(tb, p) : host_passes(tb, p));
    join(p);
    if (p->n)
        qsort(p->at, p->n, sizeof *p->at, pass_order);
    for (size_t i = 0; i < p->n; i++) {
        struct pass *x = &p->at[i];
        struct lk_span span = {.kind = (uint16_t)x->phase, .index = -1};

        if (x->step != step)
            forward = backward = 0;
        step = x->step;
        span.step = tb->steps.at[step].number;
        if (x->phase == LK_SPAN_FORWARD)
            span.index = (int32_t)forward++;
        if (x->phase == LK_SPAN_BACKWARD)
            span.index = (int32_t)backward++;
        if ((int)backward > tb->accumulation)
            tb->accumulation = (int)backward;
        x->start_ns = x->start_ns > end ? x->start_ns : end;
        x->start_ns = x->start_ns < x->end_ns ? x->start_ns : x->end_ns;
        end = x->end_ns > end ? x->end_ns : end;
        LK_PASS(lk_import_add_span_(tb, LK_IMPORT_COMPUTE, span, x->start_ns, x->end_ns));
    }
    return LK_OK;
}
