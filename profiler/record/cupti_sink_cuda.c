/* The CUPTI session as a sink: it learns from the recorder what a thread issues. */
#include "profiler/record/cupti_impl_cuda.h"

#ifdef LK_HAVE_CUPTI

static enum lk_status track_open(void *sink, const struct lk_track_info *info, void **out_ctx)
{
    *out_ctx = lk_cupti_records_track(lk_cupti_records_of(sink), info);
    return LK_OK;
}

static enum lk_status name_added(void *sink, uint16_t id, const char *name)
{
    return lk_cupti_names_add(&lk_cupti_records_of(sink)->names, id, name);
}

/* Return the time on the clock of CUPTI's records, which avoids a conversion. 0: it failed. */
static uint64_t their_time_ns(const struct lk_cupti_calls *call)
{
    uint64_t theirs = 0, ours;

    if (call->clocks)
        call->clocks(&theirs, &ours);
    else if (call->GetTimestamp(&theirs) != CUPTI_SUCCESS)
        theirs = 0;
    return theirs;
}

/* Return the id of what the track's thread is issuing. Ops are numbered, so that a mark can name
 * the one that it is behind. */
static uint64_t id_of(struct lk_cupti_track *t, const struct lk_span *s)
{
    struct lk_span numbered = *s;

    if (s->kind != LK_SPAN_KERNEL)
        return lk_cupti_id(s, t->number);
    if (s->step != t->op_step)
        t->n_ops = 0;
    t->op_step = s->step;
    numbered.index = (int32_t)t->n_ops++;
    if (t->marks)
        lk_cupti_marks_issue(t->marks, s->step, t->n_ops - 1);
    return lk_cupti_id(&numbered, t->number);
}

static void enter(void *track_ctx, const struct lk_span *s)
{
    struct lk_cupti_track *t = track_ctx;
    uint64_t id;

    if (t && s->kind == LK_SPAN_STEP && t->window->end_step && s->step >= t->window->end_step &&
        !lk_cupti_window_is_over(t->window))
        atomic_store(&t->window->ended_ns, lk_now_ns());
    if (!t || lk_cupti_window_is_over(t->window))
        return;
    id = id_of(t, s);
    if (t->windows && s->kind == LK_SPAN_COLLECTIVE)
        lk_issue_windows_begin(t->windows, their_time_ns(t->call), id);
    (void)t->call->ActivityPushExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, id);
}

static void leave(void *track_ctx, const struct lk_span *s)
{
    const struct lk_cupti_track *t = track_ctx;
    uint64_t id;

    if (!t || lk_cupti_window_is_over(t->window))
        return;
    if (t->windows && s->kind == LK_SPAN_COLLECTIVE)
        lk_issue_windows_end(t->windows, their_time_ns(t->call));
    (void)t->call->ActivityPopExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, &id);
}

/* Take a mark over while records tell its time. Behind the window nobody wants it: the steps that
 * are analysed are those with records. */
static bool mark(void *track_ctx, const struct lk_span *s)
{
    struct lk_cupti_track *t = track_ctx;

    if (!t || !t->marks || !lk_cupti_marks_are_proven(t->marks))
        return false;
    if (lk_cupti_window_is_over(t->window))
        return true;
    return s->step == t->op_step && t->n_ops > 0 && t->n_ops - 1 <= LK_CUPTI_INDEX_MAX &&
           lk_cupti_marks_put(t->marks, s->kind, s->index);
}

const struct lk_sink_ops lk_cupti_ops = {.name = "cupti",
                                         .track_open = track_open,
                                         .name_added = name_added,
                                         .enter = enter,
                                         .leave = leave,
                                         .mark = mark};

#endif
