/* Find what ran on a rank's GPU, and which step and pass launched it. */
#include "profiler/import/rank_impl.h"

#include "base/array.h"
#include "profiler/import/breakdown.h"

#include <stdlib.h>

bool lk_rank_on_gpu_(const struct lk_event *x)
{
    return x->kind <= LK_EVENT_MEMSET;
}

bool lk_rank_of_host_(const struct maker *m, const struct lk_event *x)
{
    return !lk_rank_on_gpu_(x) && (m->owner < 0 || m->e->lanes[x->lane].process == m->owner);
}

int64_t lk_rank_owner_(const struct lk_events *e, int64_t device)
{
    for (size_t i = 0; i < e->n_lanes; i++)
        if (e->lanes[i].gpu && e->lanes[i].process == device)
            return e->lanes[i].owner;
    return -1;
}

int64_t lk_rank_busiest_(const struct lk_events *e)
{
    size_t of_lane[LK_LANES_MAX] = {0}, most = 0;
    int64_t best = -1;

    for (size_t i = 0; i < e->n_events; i++)
        of_lane[e->events[i].lane] += lk_rank_on_gpu_(&e->events[i]);
    for (size_t i = 0; i < e->n_lanes; i++) {
        size_t n = 0;

        for (size_t k = 0; k < e->n_lanes && e->lanes[i].gpu; k++)
            n += e->lanes[k].gpu && e->lanes[k].process == e->lanes[i].process ? of_lane[k] : 0;
        if (n > most) {
            most = n;
            best = e->lanes[i].process;
        }
    }
    return best;
}

static bool within(const struct ranges *r, int64_t at)
{
    size_t n = lk_rank_begun_(r, at);

    return n > 0 && at < r->at[n - 1].end_ns;
}

enum lk_span_kind lk_rank_phase_at_(const struct maker *m, size_t step, int64_t at, size_t *pass)
{
    size_t n = lk_rank_begun_(&m->backwards, at);

    *pass = n;
    if (n > 0 && at < m->backwards.at[n - 1].end_ns)
        return LK_SPAN_BACKWARD;
    if (within(&m->optimizers, at))
        return LK_SPAN_OPTIMIZER;
    /* Behind a step's last backward, e.g. clipping of gradients. */
    if (n > 0 && step != SIZE_MAX &&
        m->backwards.at[n - 1].start_ns >= m->steps.at[step].start_ns &&
        (n == m->backwards.n ||
         (step + 1 < m->steps.n && m->backwards.at[n].start_ns >= m->steps.at[step + 1].start_ns)))
        return LK_SPAN_OPTIMIZER;
    *pass = n + 1;
    return LK_SPAN_FORWARD;
}

static bool is_communication(const struct maker *m, const struct lk_event *x)
{
    return lk_event_is_communication(x, m->communication) ||
           (x->kind == LK_EVENT_COLLECTIVE && m->by_host);
}

bool lk_rank_by_host_(const struct maker *m)
{
    for (size_t i = 0; i < m->e->n_events; i++) {
        const struct lk_event *x = &m->e->events[i];

        if (lk_event_is_communication(x, m->communication) &&
            m->e->lanes[x->lane].process == m->device)
            return false;
    }
    return true;
}

/* Collect when the host asked for collectives, if it did so as often as there are ranges of them.
 */
static enum lk_status find_enqueues(const struct maker *m, int64_t **out, size_t *n)
{
    size_t ranges = 0;

    LK_PASS(lk_alloc(out, m->by_host ? m->e->n_events : 0, sizeof **out));
    for (size_t i = 0; i < m->e->n_events && m->by_host; i++) {
        const struct lk_event *x = &m->e->events[i];

        ranges += x->kind == LK_EVENT_COLLECTIVE && lk_rank_of_host_(m, x);
        if (x->kind == LK_EVENT_ENQUEUE && lk_rank_of_host_(m, x))
            (*out)[(*n)++] = x->start_ns;
    }
    *n = *n == ranges ? *n : 0;
    return LK_OK;
}

static int done_order(const void *a, const void *b)
{
    const struct done *x = a, *y = b;

    return (x->launched_ns > y->launched_ns) - (x->launched_ns < y->launched_ns);
}

static enum lk_status find_done(struct maker *m)
{
    LK_PASS(lk_alloc(&m->done, m->n_work, sizeof *m->done));
    for (size_t i = 0; i < m->n_work; i++) {
        const struct work *w = &m->work[i];

        if (w->phase != LK_SPAN_COLLECTIVE && w->launch && lk_rank_on_gpu_(w->event))
            m->done[m->n_done++] = (struct done){w->launch->start_ns, w->event->end_ns};
    }
    if (m->n_done)
        qsort(m->done, m->n_done, sizeof *m->done, done_order);
    for (size_t i = 1; i < m->n_done; i++)
        if (m->done[i].end_ns < m->done[i - 1].end_ns)
            m->done[i].end_ns = m->done[i - 1].end_ns;
    return LK_OK;
}

int64_t lk_rank_done_before_(const struct maker *m, int64_t launched)
{
    size_t lo = 0, hi = m->n_done;

    while (lo < hi) {
        size_t mid = (lo + hi) / 2;

        if (m->done[mid].launched_ns < launched)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo > 0 ? m->done[lo - 1].end_ns : 0;
}

/*
 * Return when the first step begins. A host that runs ahead of its GPU begins it while the GPU
 * still has the step before to do, which the trace may have in part: then it begins when the GPU
 * has done what was launched before, at the latest when it does the step's own first work.
 */
static int64_t find_begin(const struct maker *m)
{
    int64_t start = m->steps.at[0].start_ns, begin = start;

    for (size_t i = 0; i < m->e->n_events && !m->o->steps_by_gpu; i++) {
        const struct lk_event *x = &m->e->events[i];
        const struct lk_launch *launch;

        if (!lk_rank_on_gpu_(x) || m->e->lanes[x->lane].process != m->device)
            continue;
        launch = lk_events_launch(m->e, x);
        if (launch && launch->start_ns >= start) {
            begin = begin < x->start_ns ? begin : x->start_ns;
            return begin > start ? begin : start;
        }
        begin = x->end_ns > begin ? x->end_ns : begin;
    }
    return start;
}

enum lk_status lk_rank_find_work_(struct maker *m)
{
    enum lk_status st = LK_OK;
    int64_t *enqueued = NULL;
    size_t n_enqueued = 0, of_host = 0;

    m->begin_ns = find_begin(m);
    LK_TRY(find_enqueues(m, &enqueued, &n_enqueued));
    LK_TRY(lk_alloc(&m->work, m->e->n_events, sizeof *m->work));
    for (size_t i = 0; i < m->e->n_events; i++) {
        const struct lk_event *x = &m->e->events[i];
        struct work *w = &m->work[m->n_work];
        bool communication = is_communication(m, x);
        int64_t at;

        if (lk_rank_on_gpu_(x) ? m->e->lanes[x->lane].process != m->device
                               : !(communication && lk_rank_of_host_(m, x)))
            continue;
        *w = (struct work){.event = x,
                           .launch = lk_rank_on_gpu_(x) ? lk_events_launch(m->e, x) : NULL};
        if (!lk_rank_on_gpu_(x) && of_host < n_enqueued)
            w->enqueued_ns = enqueued[of_host++];
        at = w->launch ? w->launch->start_ns : w->enqueued_ns ? w->enqueued_ns : x->start_ns;
        w->step = lk_rank_step_at_(m, m->o->steps_by_gpu ? x->start_ns : at);
        if (lk_rank_on_gpu_(x) && !w->launch && x->start_ns < m->begin_ns)
            w->step = SIZE_MAX;
        w->phase = lk_rank_phase_at_(m, w->step, at, &w->pass);
        w->in_backward = w->phase == LK_SPAN_BACKWARD;
        if (communication)
            w->phase = LK_SPAN_COLLECTIVE;
        m->n_work += w->step != SIZE_MAX;
    }
    st = find_done(m);
out:
    free(enqueued);
    return st;
}
