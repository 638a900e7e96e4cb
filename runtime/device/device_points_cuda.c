/* The points of a cuda stream, which give the times at which the GPU passed commands, and the
 * origin of those times. runtime/device/device_cuda.c explains points. */
#include "runtime/device/device_cuda.h"

#include "base/array.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static enum lk_status take_event(struct cuda_stream *t, cudaEvent_t *out)
{
    if (t->n_spare > 0) {
        *out = t->spare[--t->n_spare];
        return LK_OK;
    }
    return lk_cuda_status(calls_of(t)->EventCreateWithFlags(out, cudaEventDefault), "an event");
}

/* Return an event to the spare list. pre: no work refers to it, except work enqueued earlier. */
static void give_event(struct cuda_stream *t, cudaEvent_t e)
{
    if (lk_array_grow(&t->spare, &t->spare_capacity, t->n_spare + 1, sizeof *t->spare) == LK_OK)
        t->spare[t->n_spare++] = e;
    else
        (void)calls_of(t)->EventDestroy(e);
}

/* Make room for one more point at the end, after moving those in use to the front of the array. */
static enum lk_status make_room(struct cuda_stream *t)
{
    if (t->first > 0 && t->first + t->n_points == t->capacity) {
        memmove(t->points, t->points + t->first, t->n_points * sizeof *t->points);
        t->first = 0;
    }
    return lk_array_grow(&t->points, &t->capacity, t->first + t->n_points + 1, sizeof *t->points);
}

/*
 * Return true if a point can share the event of the point directly before it. A CUDA event with
 * timing costs the GPU time between two kernels (2.5 us on a V100, by
 * github.com/harrism/cuda_event_benchmark), and gradients become ready in pairs (where CUPTI
 * records kernels, they are no points at all). The start of something cannot share, since an idle
 * stream may have passed the previous point long ago.
 */
static bool can_share(const struct cuda_stream *t, const struct point *p)
{
    return t->at_point && t->n_points > 0 &&
           (p->kind == LK_COMMAND_MARK || (p->kind == LK_COMMAND_RECORD && !p->event));
}

static enum lk_status record(struct cuda_stream *t, cudaEvent_t *out)
{
    cudaEvent_t e = NULL;
    enum lk_status st;

    LK_PASS(take_event(t, &e));
    st = lk_cuda_status(calls_of(t)->EventRecord(e, t->stream), "recording an event");
    if (st == LK_OK)
        *out = e;
    else
        give_event(t, e);
    return st;
}

/* pre: points_lock is held. */
static enum lk_status add_point(struct cuda_stream *t, const struct point *p)
{
    cudaEvent_t passed = NULL;

    LK_PASS(make_room(t));
    if (can_share(t, p))
        passed = t->points[t->first + t->n_points - 1].passed;
    else
        LK_PASS(record(t, &passed));
    t->points[t->first + t->n_points] = *p;
    t->points[t->first + t->n_points++].passed = passed;
    t->at_point = true;
    return LK_OK;
}

/* Set ready_ns in the ranges that were made ready by this record of their event. */
static void tell_ranges(struct cuda_stream *t, const struct point *record, uint64_t at_ns)
{
    struct lk_device *d = t->base.device;

    pthread_mutex_lock(&d->lock);
    for (struct lk_stream *s = d->streams; s; s = s->next) {
        struct cuda_stream *u = stream_of(s);

        for (size_t i = u->first; i < u->first + u->n_points && u->n_ready > 0; i++)
            if (u->points[i].kind == LK_COMMAND_RANGE_BEGIN &&
                u->points[i].event == record->event && u->points[i].ready_on == &t->base &&
                u->points[i].ready_seq == record->seq)
                u->points[i].span.ready_ns = at_ns;
    }
    pthread_mutex_unlock(&d->lock);
}

static void begin_range(struct cuda_stream *t, struct point *p, uint64_t at_ns)
{
    struct lk_stream *s = &t->base;

    if (p->ready_on) {
        lk_cuda_look(stream_of(p->ready_on)); /* passed before this one, which waited for it */
        t->n_ready--;
    }
    s->range = p->span;
    s->range.start_ns = at_ns;
    if (s->range.ready_ns > at_ns) /* two origins differ within the clock's accuracy */
        s->range.ready_ns = at_ns;
}

static void end_range(struct cuda_stream *t, uint64_t at_ns)
{
    struct lk_stream *s = &t->base;

    s->range.end_ns = at_ns > s->range.start_ns ? at_ns : s->range.start_ns;
    if (s->track)
        lk_span_emit(s->track, &s->range);
}

/* Process a point whose time is known: emit its span or update its event. */
static void pass(struct cuda_stream *t, struct point *p, uint64_t at_ns)
{
    struct lk_stream *s = &t->base;

    if (p->kind == LK_COMMAND_RANGE_BEGIN) {
        begin_range(t, p, at_ns);
    } else if (p->kind == LK_COMMAND_RANGE_END) {
        end_range(t, at_ns);
    } else if (p->kind == LK_COMMAND_MARK) {
        p->span.start_ns = at_ns;
        p->span.end_ns = at_ns;
        if (s->track)
            lk_span_emit(s->track, &p->span);
    } else if (p->kind == LK_COMMAND_RECORD && p->event) {
        pthread_mutex_lock(&p->event->lock);
        p->event->passed_stream = s;
        p->event->passed_seq = p->seq;
        p->event->passed_ns = at_ns;
        pthread_mutex_unlock(&p->event->lock);
        tell_ranges(t, p, at_ns);
    }
}

static void drop_first(struct cuda_stream *t)
{
    const struct point *p = &t->points[t->first++];
    bool shared = --t->n_points > 0 && t->points[t->first].passed == p->passed;

    lk_event_destroy(p->event);
    if (!shared)
        give_event(t, p->passed);
    if (t->n_points == 0)
        t->first = 0;
}

void lk_cuda_look(struct cuda_stream *t)
{
    struct cuda_device *g = device_of(t->base.device);

    while (t->n_points > 0) {
        struct point *p = &t->points[t->first];
        cudaError_t e = g->call->EventQuery(p->passed);
        float ms = 0;

        if (e == cudaErrorNotReady)
            return;
        if (e == cudaSuccess)
            e = g->call->EventElapsedTime(&ms, g->origin.event, p->passed);
        if (e != cudaSuccess) {
            lk_device_fail(t->base.device, lk_cuda_status(e, t->base.name), lk_error_text());
            return;
        }
        /* ms may be slightly negative, if another stream renewed the origin meanwhile. */
        pass(t, p, g->origin.at_ns + (uint64_t)(int64_t)((double)ms * 1e6 * g->origin.rate));
        drop_first(t);
    }
}

/* Remember the point of its event at which a range was ready; the event may move on afterwards. */
static void set_ready(struct lk_event *e, struct point *p)
{
    p->ready_on = e->stream;
    p->ready_seq = e->seq;
    pthread_mutex_lock(&e->lock);
    if (e->stream && e->passed_stream == e->stream && e->passed_seq >= e->seq)
        p->span.ready_ns = e->passed_ns;
    pthread_mutex_unlock(&e->lock);
}

enum lk_status lk_cuda_point_submit(struct cuda_stream *t, const struct lk_stream_command *c)
{
    enum { LONG = 64 };
    struct point p = {.kind = c->kind, .seq = t->submitted};
    enum lk_status st;

    p.span = c->span;
    if (c->kind == LK_COMMAND_RECORD || c->kind == LK_COMMAND_RANGE_BEGIN)
        p.event = c->event;
    if (c->kind == LK_COMMAND_RANGE_BEGIN) {
        t->issuing = c->span;
        lk_span_enter(t->base.track, &t->issuing);
    } else if (c->kind == LK_COMMAND_RANGE_END) {
        lk_span_leave(t->base.track, &t->issuing);
    }
    lock_points(t);
    /* Limit the list, because the host may never wait for this stream. */
    if (t->n_points >= LONG)
        lk_cuda_look(t);
    if (c->kind == LK_COMMAND_RANGE_BEGIN && p.event)
        set_ready(p.event, &p);
    st = add_point(t, &p);
    t->n_ready += st == LK_OK && p.ready_on;
    unlock_points(t);
    return st;
}

/* ---- The origin, and waiting ---- */

uint64_t lk_cuda_hang_ns(const struct cuda_device *g)
{
    return g->base.config.hang_ns ? g->base.config.hang_ns : 10 * LK_NS_PER_S;
}

enum lk_status lk_cuda_origin_init(struct cuda_device *g)
{
    cudaEvent_t *const events[] = {&g->origin.event, &g->origin.trial, &g->origin.spare};

    g->origin.rate = 1;
    for (size_t i = 0; i < LK_COUNT(events); i++)
        LK_PASS(lk_cuda_status(g->call->EventCreateWithFlags(events[i], cudaEventDefault),
                               "the origin of times"));
    return LK_OK;
}

void lk_cuda_origin_fini(struct cuda_device *g)
{
    struct cuda_origin *o = &g->origin;
    const cudaEvent_t events[] = {o->event, o->trial, o->spare,
                                  o->first == o->event ? NULL : o->first};

    for (size_t i = 0; i < LK_COUNT(events); i++)
        if (events[i])
            (void)g->call->EventDestroy(events[i]);
}

uint64_t lk_cuda_clock_error_ns(const struct lk_device *d)
{
    return device_of(d)->origin.worst_ns;
}

/* Make the trial the origin. The first origin's event stays as it is. */
static void take_over(struct cuda_origin *o)
{
    cudaEvent_t old = o->event;

    o->event = o->trial;
    o->trial = old == o->first ? o->spare : old;
    if (old == o->first)
        o->spare = NULL;
}

/*
 * Try to take a new origin, which replaces one of this time with a larger error. The GPU passes the
 * event between the two readings of the host's clock: the middle is off by half of that at most.
 * pre: the stream is idle. *error_ns: of the best so far.
 */
static enum lk_status take_origin(struct cuda_stream *t, struct lk_deadline deadline,
                                  uint64_t *error_ns)
{
    struct cuda_device *g = device_of(t->base.device);
    uint64_t began_ns = g->call->now_ns(), took_ns;
    cudaError_t e;

    LK_PASS(lk_cuda_status(g->call->EventRecord(g->origin.trial, t->stream), "recording an event"));
    while ((e = g->call->EventQuery(g->origin.trial)) == cudaErrorNotReady)
        if (lk_deadline_left_ns(deadline) == 0)
            return lk_fail(LK_ETIMEOUT, "stream '%s' did not finish in time, though it was idle",
                           t->base.name);
    LK_PASS(lk_cuda_status(e, "synchronising"));
    took_ns = g->call->now_ns() - began_ns;
    if (took_ns / 2 >= *error_ns)
        return LK_OK;
    *error_ns = took_ns / 2;
    take_over(&g->origin);
    g->origin.at_ns = began_ns + took_ns / 2;
    return LK_OK;
}

/* Measure the rate of the two clocks from the first origin to this one. *off_ns: by how much times
 * just before this origin, since_ns after the one before, were off by the rate of then. */
static enum lk_status measure_rate(struct cuda_device *g, uint64_t since_ns, uint64_t *off_ns)
{
    const double most = 1e-3; /* clocks differ by less; an error of the host's would be larger */
    struct cuda_origin *o = &g->origin;
    float ms = 0;
    double rate;

    *off_ns = 0;
    if (!o->first) {
        o->first = o->event;
        o->first_ns = o->at_ns;
        return LK_OK;
    }
    LK_PASS(lk_cuda_status(g->call->EventElapsedTime(&ms, o->first, o->event), "the clock's rate"));
    rate = (double)(o->at_ns - o->first_ns) / ((double)ms * 1e6);
    if (fabs(rate - 1) < most) {
        *off_ns = (uint64_t)(fabs(rate - o->rate) * (double)since_ns);
        o->rate = rate;
    }
    return LK_OK;
}

/* Process all passed points with the old origin, because CUDA does not document the result of
 * cudaEventElapsedTime for a time before its start. */
static void look_at_all(struct lk_device *d)
{
    struct lk_stream *s;

    pthread_mutex_lock(&d->lock);
    s = d->streams; /* a new stream goes in front of it */
    pthread_mutex_unlock(&d->lock);
    for (; s; s = s->next)
        lk_cuda_look(stream_of(s));
}

/*
 * Renew the origin if it is old: times are floats of milliseconds since it, and two clocks drift
 * apart. Of several tries the shortest counts: where the host was interrupted, all times until the
 * next origin would be off.
 */
enum lk_status lk_cuda_refresh_origin(struct cuda_stream *t)
{
    enum { TRIES = 5 };
    const uint64_t too_old_ns = LK_NS_PER_S, close_ns = 5 * LK_NS_PER_US;
    struct cuda_device *g = device_of(t->base.device);
    struct lk_deadline deadline = lk_deadline_in(lk_cuda_hang_ns(g));
    enum lk_status st = LK_OK;
    uint64_t error_ns = UINT64_MAX, before_ns, off_ns;

    lock_points(t);
    before_ns = g->origin.at_ns;
    if (g->origin.at_ns > 0 && g->call->now_ns() - g->origin.at_ns < too_old_ns)
        goto out;
    look_at_all(t->base.device);
    for (int i = 0; i < TRIES && error_ns > close_ns; i++)
        LK_TRY(take_origin(t, deadline, &error_ns));
    LK_TRY(measure_rate(g, g->origin.at_ns - before_ns, &off_ns));
    if (error_ns + off_ns > g->origin.worst_ns)
        g->origin.worst_ns = error_ns + off_ns;
out:
    unlock_points(t);
    return st;
}

bool lk_cuda_was_passed(struct cuda_stream *t, uint64_t seq, size_t *out_left)
{
    bool passed;

    lock_points(t);
    lk_cuda_look(t);
    passed = t->n_points == 0 || t->points[t->first].seq > seq;
    *out_left = t->n_points;
    unlock_points(t);
    return passed;
}

enum lk_status lk_cuda_point_add_last(struct cuda_stream *t)
{
    const struct point p = {.kind = LK_COMMAND_RECORD, .seq = ++t->submitted};
    enum lk_status st;

    lock_points(t);
    st = add_point(t, &p);
    unlock_points(t);
    return st;
}

void lk_cuda_points_fini(struct cuda_stream *t)
{
    bool hangs = device_of(t->base.device)->hangs;

    lock_points(t);
    while (t->n_points > 0)
        drop_first(t);
    while (t->n_spare > 0 && !hangs)
        (void)calls_of(t)->EventDestroy(t->spare[--t->n_spare]);
    free(t->points);
    free(t->spare);
    t->points = NULL;
    t->spare = NULL;
    unlock_points(t);
}
