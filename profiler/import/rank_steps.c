/* Find a rank's steps, and the passes that the host marks in them. */
#include "profiler/import/rank_impl.h"

#include "base/array.h"

#include <stdlib.h>

enum lk_status lk_rank_add_range_(struct ranges *r, int64_t start, int64_t end, uint32_t number)
{
    LK_PASS(lk_array_grow(&r->at, &r->capacity, r->n + 1, sizeof *r->at));
    r->at[r->n++] = (struct range){start, end, number};
    return LK_OK;
}

static enum lk_status add_range(struct ranges *r, const struct lk_event *x)
{
    return lk_rank_add_range_(r, x->start_ns, x->end_ns, x->detail);
}

/* Return how many of the ranges start at or before a time. */
size_t lk_rank_begun_(const struct ranges *r, int64_t at)
{
    size_t lo = 0, hi = r->n;

    while (lo < hi) {
        size_t mid = (lo + hi) / 2;

        if (r->at[mid].start_ns <= at)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* Return the index of the step that a time is in, or of the last one before; SIZE_MAX: none. */
size_t lk_rank_step_at_(const struct maker *m, int64_t at)
{
    return at < m->end_ns ? lk_rank_begun_(&m->steps, at) - 1 : SIZE_MAX;
}

/* A backward ends where the next forward, step or optimizer starts. */
static enum lk_status add_backward(struct maker *m, const struct lk_event *x)
{
    struct ranges *r = &m->backwards;
    struct range *last = r->n ? &r->at[r->n - 1] : NULL;

    if (last &&
        lk_rank_begun_(&m->forwards, x->start_ns) == lk_rank_begun_(&m->forwards, last->end_ns) &&
        lk_rank_begun_(&m->steps, x->start_ns) == lk_rank_begun_(&m->steps, last->end_ns) &&
        lk_rank_begun_(&m->optimizers, x->start_ns) ==
            lk_rank_begun_(&m->optimizers, last->end_ns)) {
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
static enum lk_status steps_of_optimizers(struct maker *m)
{
    const struct ranges *o = &m->optimizers;

    for (size_t i = 0; i + 1 < o->n; i++)
        LK_PASS(lk_rank_add_range_(&m->steps, o->at[i].end_ns, o->at[i + 1].end_ns, (uint32_t)i));
    if (m->steps.n)
        m->end_ns = m->steps.at[m->steps.n - 1].end_ns;
    return LK_OK;
}

static enum lk_status find_passes(struct maker *m)
{
    const struct lk_event *events = m->e->events;

    for (size_t i = 0; i < m->e->n_events; i++)
        if (events[i].kind == LK_EVENT_BACKWARD && lk_rank_of_host_(m, &events[i]))
            LK_PASS(add_backward(m, &events[i]));
    return LK_OK;
}

static bool marks_passes(const struct maker *m)
{
    for (size_t i = 0; i < m->e->n_events; i++) {
        const struct lk_event *x = &m->e->events[i];

        if ((x->kind == LK_EVENT_FORWARD || x->kind == LK_EVENT_BACKWARD ||
             x->kind == LK_EVENT_OPTIMIZER) &&
            lk_rank_of_host_(m, x))
            return true;
    }
    return false;
}

/* Marks of steps alone do not tell passes. Then a step is a period of the collectives, where they
 * have one, and its passes are not told apart. */
static enum lk_status replace_by_periods(struct maker *m)
{
    struct ranges marked = m->steps;
    enum lk_status st = LK_OK;

    m->steps = (struct ranges){0};
    LK_TRY(lk_rank_steps_of_period_(m));
    if (!m->steps.n) {
        free(m->steps.at);
        m->steps = marked;
        marked.at = NULL;
    }
out:
    free(marked.at);
    return st;
}

enum lk_status lk_rank_find_ranges_(struct maker *m)
{
    struct ranges *const of_kind[] = {[LK_EVENT_STEP] = &m->steps,
                                      [LK_EVENT_FORWARD] = &m->forwards,
                                      [LK_EVENT_OPTIMIZER] = &m->optimizers};
    const struct lk_event *events = m->e->events;

    m->end_ns = INT64_MAX;
    for (size_t i = 0; i < m->e->n_events; i++)
        if (events[i].kind < LK_COUNT(of_kind) && of_kind[events[i].kind] &&
            lk_rank_of_host_(m, &events[i]))
            LK_PASS(add_range(of_kind[events[i].kind], &events[i]));
    if (!m->steps.n)
        LK_PASS(steps_of_optimizers(m));
    if (!m->steps.n)
        LK_PASS(lk_rank_steps_of_period_(m));
    else if (!marks_passes(m))
        LK_PASS(replace_by_periods(m));
    number_steps(&m->steps);
    if (m->o->drop_last && m->steps.n > 1)
        m->end_ns = m->steps.at[--m->steps.n].start_ns;
    if (!m->steps.n)
        return lk_fail(LK_EEVIDENCE,
                       "%s: no steps: neither ProfilerStep (torch.profiler's step()) nor two "
                       "optimizer steps are in it, and its collectives do not repeat themselves; "
                       "lockstep import --step-range=TEXT takes ranges whose names start so",
                       m->o->source);
    return m->period ? LK_OK : find_passes(m);
}
