/* Find a rank's steps, and the passes that the host marks in them. */
#include "profiler/import/rank_impl.h"

#include "base/array.h"
#include "profiler/import/breakdown.h"

#include <stdlib.h>

enum lk_status lk_import_add_range_(struct ranges *r, int64_t start, int64_t end, uint32_t number)
{
    LK_PASS(lk_array_grow(&r->at, &r->capacity, r->n + 1, sizeof *r->at));
    r->at[r->n++] = (struct range){start, end, number};
    return LK_OK;
}

static enum lk_status add_range(struct ranges *r, const struct lk_import_event *x)
{
    return lk_import_add_range_(r, x->start_ns, x->end_ns, x->detail);
}

/* Return how many of the ranges start at or before a time. */
size_t lk_import_begun_(const struct ranges *r, int64_t at)
{
    size_t lo;

    LK_BISECT(lo, r->n, r->at[lo].start_ns <= at);
    return lo;
}

/* Return the index of the step that a time is in, or of the last one before; SIZE_MAX: none. */
size_t lk_import_step_at_(const struct trace_builder *tb, int64_t at)
{
    return at < tb->end_ns ? lk_import_begun_(&tb->steps, at) - 1 : SIZE_MAX;
}

/* A backward ends where the next forward, step or optimizer starts. */
static enum lk_status add_backward(struct trace_builder *tb, const struct lk_import_event *x)
{
    struct ranges *r = &tb->backwards;
    struct range *last = r->n ? &r->at[r->n - 1] : NULL;

    if (last &&
        lk_import_begun_(&tb->forwards, x->start_ns) ==
            lk_import_begun_(&tb->forwards, last->end_ns) &&
        lk_import_begun_(&tb->steps, x->start_ns) == lk_import_begun_(&tb->steps, last->end_ns) &&
        lk_import_begun_(&tb->optimizers, x->start_ns) ==
            lk_import_begun_(&tb->optimizers, last->end_ns)) {
        last->end_ns = x->end_ns > last->end_ns ? x->end_ns : last->end_ns;
        return LK_OK;
    }
    return add_range(r, x);
}

/* Steps without numbers, or with one twice, are numbered from 0. */
static void number_steps(struct ranges *steps)
{
    bool ascending = true;

    for (size_t i = 1; i < steps->n; i++)
        ascending = ascending && steps->at[i].number > steps->at[i - 1].number;
    for (size_t i = 0; i < steps->n && !ascending; i++)
        steps->at[i].number = (uint32_t)i;
}

/* Without marks of steps, each optimizer's end is one's. */
static enum lk_status steps_of_optimizers(struct trace_builder *tb)
{
    const struct ranges *o = &tb->optimizers;

    for (size_t i = 0; i + 1 < o->n; i++)
        LK_PASS(
            lk_import_add_range_(&tb->steps, o->at[i].end_ns, o->at[i + 1].end_ns, (uint32_t)i));
    if (tb->steps.n)
        tb->end_ns = tb->steps.at[tb->steps.n - 1].end_ns;
    return LK_OK;
}

static enum lk_status find_passes(struct trace_builder *tb)
{
    const struct lk_import_event *events = tb->e->events;

    for (size_t i = 0; i < tb->e->n_events; i++)
        if (events[i].kind == LK_EVENT_BACKWARD && lk_import_of_host_(tb, &events[i]))
            LK_PASS(add_backward(tb, &events[i]));
    return LK_OK;
}

static bool marks_passes(const struct trace_builder *tb)
{
    for (size_t i = 0; i < tb->e->n_events; i++) {
        const struct lk_import_event *x = &tb->e->events[i];

        if ((x->kind == LK_EVENT_FORWARD || x->kind == LK_EVENT_BACKWARD ||
             x->kind == LK_EVENT_OPTIMIZER) &&
            lk_import_of_host_(tb, x))
            return true;
    }
    return false;
}

/* Marks of steps alone do not tell passes. Then a step is a period of the collectives, where they
 * have one, and its passes are not told apart. */
static enum lk_status replace_by_periods(struct trace_builder *tb)
{
    struct ranges marked = tb->steps;
    enum lk_status st = LK_OK;

    tb->steps = (struct ranges){0};
    LK_TRY(lk_import_steps_of_period_(tb));
    if (!tb->steps.n) {
        free(tb->steps.at);
        tb->steps = marked;
        marked.at = NULL;
    }
out:
    free(marked.at);
    return st;
}

/* Fail: say what was looked for, what there is of it, and what to record. */
static enum lk_status refuse_steps(const struct trace_builder *tb)
{
    size_t collectives = 0, kernels = 0;

    for (size_t i = 0; i < tb->e->n_events; i++) {
        const struct lk_import_event *x = &tb->e->events[i];

        kernels += x->kind == LK_EVENT_KERNEL;
        collectives +=
            lk_event_is_communication(x, tb->communication) || x->kind == LK_EVENT_COLLECTIVE;
    }
    return lk_fail(
        LK_EEVIDENCE,
        "%s: no steps: it has no ProfilerStep, %zu optimizer step%s (two tell a step), and its %zu "
        "collectives and %zu kernels do not repeat themselves three times. Record a few steps: "
        "with torch.profiler prof.step() after each, with Nsight Systems NVTX ranges of steps; "
        "lockstep import --step-range=TEXT takes ranges whose names start so",
        tb->o->source, tb->optimizers.n, tb->optimizers.n == 1 ? "" : "s", collectives, kernels);
}

enum lk_status lk_import_find_ranges_(struct trace_builder *tb)
{
    struct ranges *const of_kind[] = {[LK_EVENT_STEP] = &tb->steps,
                                      [LK_EVENT_FORWARD] = &tb->forwards,
                                      [LK_EVENT_OPTIMIZER] = &tb->optimizers};
    const struct lk_import_event *events = tb->e->events;

    tb->end_ns = INT64_MAX;
    for (size_t i = 0; i < tb->e->n_events; i++)
        if (events[i].kind < LK_COUNT(of_kind) && of_kind[events[i].kind] &&
            lk_import_of_host_(tb, &events[i]))
            LK_PASS(add_range(of_kind[events[i].kind], &events[i]));
    if (!tb->steps.n)
        LK_PASS(steps_of_optimizers(tb));
    if (!tb->steps.n)
        LK_PASS(lk_import_steps_of_period_(tb));
    else if (!marks_passes(tb))
        LK_PASS(replace_by_periods(tb));
    number_steps(&tb->steps);
    if (tb->o->drop_last && tb->steps.n > 1)
        tb->end_ns = tb->steps.at[--tb->steps.n].start_ns;
    if (!tb->steps.n)
        return refuse_steps(tb);
    return tb->period ? LK_OK : find_passes(tb);
}
