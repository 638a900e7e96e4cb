/* Find what ran on a rank's GPU, and which step and pass launched it. */
#include "profiler/import/rank_impl.h"

#include "base/array.h"
#include "profiler/import/breakdown.h"

#include <stdlib.h>

bool lk_import_on_gpu_(const struct lk_import_event *x)
{
    return x->kind <= LK_EVENT_MEMSET;
}

bool lk_import_of_host_(const struct trace_builder *tb, const struct lk_import_event *x)
{
    return !lk_import_on_gpu_(x) && (tb->owner < 0 || tb->e->lanes[x->lane].process == tb->owner);
}

int64_t lk_import_owner_(const struct lk_events *e, int64_t device)
{
    for (size_t i = 0; i < e->n_lanes; i++)
        if (e->lanes[i].gpu && e->lanes[i].process == device)
            return e->lanes[i].owner;
    return -1;
}

int64_t lk_import_busiest_(const struct lk_events *e)
{
    size_t of_lane[LK_LANES_MAX] = {0}, most = 0;
    int64_t best = -1;

    for (size_t i = 0; i < e->n_events; i++)
        of_lane[e->events[i].lane] += lk_import_on_gpu_(&e->events[i]);
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
    size_t n = lk_import_begun_(r, at);

    return n > 0 && at < r->at[n - 1].end_ns;
}

enum lk_span_kind lk_import_phase_at_(const struct trace_builder *tb, size_t step, int64_t at,
                                      size_t *pass)
{
    size_t n = lk_import_begun_(&tb->backwards, at);

    *pass = n;
    if (n > 0 && at < tb->backwards.at[n - 1].end_ns)
        return LK_SPAN_BACKWARD;
    if (within(&tb->optimizers, at))
        return LK_SPAN_OPTIMIZER;
    /* Behind a step's last backward, e.g. clipping of gradients. */
    if (n > 0 && step != SIZE_MAX &&
        lk_import_step_at_(tb, tb->backwards.at[n - 1].start_ns) == step &&
        (n == tb->backwards.n || lk_import_step_at_(tb, tb->backwards.at[n].start_ns) != step))
        return LK_SPAN_OPTIMIZER;
    *pass = n + 1;
    return LK_SPAN_FORWARD;
}

static bool is_communication(const struct trace_builder *tb, const struct lk_import_event *x)
{
    return lk_event_is_communication(x, tb->communication) ||
           (x->kind == LK_EVENT_COLLECTIVE && tb->by_host);
}

bool lk_import_by_host_(const struct trace_builder *tb)
{
    for (size_t i = 0; i < tb->e->n_events; i++) {
        const struct lk_import_event *x = &tb->e->events[i];

        if (lk_event_is_communication(x, tb->communication) &&
            tb->e->lanes[x->lane].process == tb->device)
            return false;
    }
    return true;
}

/* When the host asked for collectives, of which ranges tell when they ran, on other threads. */
struct enqueues {
    int64_t *at;
    size_t n, next;
    bool all_ran; /* there are as many ranges */
};

static enum lk_status find_enqueues(const struct trace_builder *tb, struct enqueues *out)
{
    size_t ranges = 0;

    LK_PASS(lk_alloc(&out->at, tb->by_host ? tb->e->n_events : 0, sizeof *out->at));
    for (size_t i = 0; i < tb->e->n_events && tb->by_host; i++) {
        const struct lk_import_event *x = &tb->e->events[i];

        ranges += x->kind == LK_EVENT_COLLECTIVE && lk_import_of_host_(tb, x);
        if (x->kind == LK_EVENT_ENQUEUE && lk_import_of_host_(tb, x))
            out->at[out->n++] = x->start_ns;
    }
    out->all_ran = out->n == ranges;
    return LK_OK;
}

/* Return when the host asked for the next range; 0: not known. They run in order. Where some ranges
 * are missing, as the last ones are that ended after the recording, the order holds in each step.
 */
static int64_t next_enqueued(const struct trace_builder *tb, struct enqueues *q, int64_t start_ns)
{
    size_t step = lk_import_step_at_(tb, start_ns);

    while (!q->all_ran && q->next < q->n && q->at[q->next] <= start_ns &&
           lk_import_step_at_(tb, q->at[q->next]) != step)
        q->next++;
    if (q->next == q->n || (!q->all_ran && q->at[q->next] > start_ns))
        return 0;
    return q->at[q->next++];
}

static int done_order(const void *a, const void *b)
{
    const struct done *x = a, *y = b;

    return LK_ORDER(x->launched_ns, y->launched_ns);
}

static enum lk_status find_done(struct trace_builder *tb)
{
    LK_PASS(lk_alloc(&tb->done, tb->n_work, sizeof *tb->done));
    for (size_t i = 0; i < tb->n_work; i++) {
        const struct work *w = &tb->work[i];

        if (w->phase != LK_SPAN_COLLECTIVE && w->launch && lk_import_on_gpu_(w->event))
            tb->done[tb->n_done++] = (struct done){w->launch->start_ns, w->event->end_ns};
    }
    if (tb->n_done)
        qsort(tb->done, tb->n_done, sizeof *tb->done, done_order);
    for (size_t i = 1; i < tb->n_done; i++)
        if (tb->done[i].end_ns < tb->done[i - 1].end_ns)
            tb->done[i].end_ns = tb->done[i - 1].end_ns;
    return LK_OK;
}

int64_t lk_import_done_before_(const struct trace_builder *tb, int64_t launched)
{
    size_t lo;

    LK_BISECT(lo, tb->n_done, tb->done[lo].launched_ns < launched);
    return lo > 0 ? tb->done[lo - 1].end_ns : 0;
}

/*
 * Return when the first step begins: where the work launched before it ended. A host that runs
 * ahead of its GPU begins a step while the GPU still has the one before to do, of which the trace
 * may lack the launches: work without one counts up to the first work that the step launched.
 */
static int64_t find_begin(const struct trace_builder *tb)
{
    int64_t start = tb->steps.at[0].start_ns, begin = start;
    bool own = false; /* the step has launched something that runs */

    for (size_t i = 0; i < tb->e->n_events && !tb->o->steps_by_gpu; i++) {
        const struct lk_import_event *x = &tb->e->events[i];
        const struct lk_launch *launch;

        if (!lk_import_on_gpu_(x) || tb->e->lanes[x->lane].process != tb->device)
            continue;
        launch = lk_events_launch(tb->e, x);
        own = own || (launch && launch->start_ns >= start);
        if ((launch ? launch->start_ns < start : !own) && x->end_ns > begin)
            begin = x->end_ns;
    }
    return begin;
}

/* Passes are told by launches: work that runs in another step than its launch is of no pass there.
 */
static enum lk_status check_steps_by_gpu(const struct trace_builder *tb)
{
    size_t n = 0;

    for (size_t i = 0; i < tb->n_work && tb->o->steps_by_gpu && !tb->period; i++)
        n += tb->work[i].launch &&
             lk_import_step_at_(tb, tb->work[i].launch->start_ns) != tb->work[i].step;
    if (!n)
        return LK_OK;
    return lk_fail(LK_EEVIDENCE,
                   "%s: --steps-by=gpu: %zu of its %zu events on the GPU run in another step than "
                   "the one that launched them, and passes are told by launches: leave the option "
                   "out",
                   tb->o->source, n, tb->n_work);
}

enum lk_status lk_import_find_work_(struct trace_builder *tb)
{
    enum lk_status st = LK_OK;
    struct enqueues enqueues = {0};

    tb->begin_ns = find_begin(tb);
    LK_TRY(find_enqueues(tb, &enqueues));
    LK_TRY(lk_alloc(&tb->work, tb->e->n_events, sizeof *tb->work));
    for (size_t i = 0; i < tb->e->n_events; i++) {
        const struct lk_import_event *x = &tb->e->events[i];
        struct work *w = &tb->work[tb->n_work];
        bool communication = is_communication(tb, x);
        int64_t at;

        if (lk_import_on_gpu_(x) ? tb->e->lanes[x->lane].process != tb->device
                                 : !(communication && lk_import_of_host_(tb, x)))
            continue;
        *w = (struct work){.event = x,
                           .launch = lk_import_on_gpu_(x) ? lk_events_launch(tb->e, x) : NULL};
        if (!lk_import_on_gpu_(x))
            w->enqueued_ns = next_enqueued(tb, &enqueues, x->start_ns);
        at = w->launch ? w->launch->start_ns : w->enqueued_ns ? w->enqueued_ns : x->start_ns;
        w->step = lk_import_step_at_(tb, tb->o->steps_by_gpu ? x->start_ns : at);
        if (lk_import_on_gpu_(x) && !w->launch && x->start_ns < tb->begin_ns)
            w->step = SIZE_MAX;
        w->phase = lk_import_phase_at_(tb, w->step, at, &w->pass);
        w->in_backward = w->phase == LK_SPAN_BACKWARD;
        if (communication)
            w->phase = LK_SPAN_COLLECTIVE;
        tb->n_work += w->step != SIZE_MAX;
    }
    LK_TRY(check_steps_by_gpu(tb));
    st = find_done(tb);
out:
    free(enqueues.at);
    return st;
}
