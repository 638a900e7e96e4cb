/* Make a rank's trace of its events. Divisions: steps, passes of the host, work of the GPU,
 * collectives, spans, the description. */
#include "profiler/import/rank.h"

#include "base/array.h"
#include "base/bucket.h"
#include "base/run_facts.h"
#include "profiler/import/breakdown.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct range {
    int64_t start_ns, end_ns;
    uint32_t number; /* of a step */
};

struct ranges {
    struct range *at;
    size_t n, capacity;
};

struct launch {
    uint64_t link;
    int64_t start_ns, end_ns;
    uint32_t lane;
};

/* A piece of work on the GPU, or a collective of the host's. */
struct work {
    const struct lk_event *event;
    const struct launch *launch; /* NULL: not in the trace */
    size_t step;                 /* index; SIZE_MAX: before the first */
    size_t pass;                 /* index of the backward it is of, or before */
    enum lk_span_kind phase;     /* FORWARD, BACKWARD, OPTIMIZER; COLLECTIVE */
};

/* The passes of a step on the GPU, or of the host: by phase and pass, from the first work to the
 * last. */
struct pass {
    enum lk_span_kind phase;
    size_t step, pass;
    int64_t start_ns, end_ns;
};

struct passes {
    struct pass *at;
    size_t n, capacity;
};

struct maker {
    struct lk_events *e;
    const struct lk_rank_options *o;
    bool *communication; /* by name */
    struct ranges steps, backwards, forwards, optimizers;
    struct launch *launches;
    size_t n_launches, launches_capacity;
    struct work *work;
    size_t n_work;
    int64_t device; /* the GPU; -1: none */
    struct passes passes;
    struct lk_event_collective *buckets; /* of gradients, in order */
    size_t n_buckets, buckets_capacity;
    int accumulation;
    uint32_t *tracks; /* of the lanes: index plus one; 0: none */
    struct lk_trace t;
    size_t spans_capacity, tracks_capacity;
};

/* ---- Steps ---- */

static enum lk_status add_range(struct ranges *r, const struct lk_event *x)
{
    LK_PASS(lk_array_grow(&r->at, &r->capacity, r->n + 1, sizeof *r->at));
    r->at[r->n++] = (struct range){x->start_ns, x->end_ns, x->detail};
    return LK_OK;
}

static int by_start(const void *a, const void *b)
{
    const struct lk_event *x = a, *y = b;

    return (x->start_ns > y->start_ns) - (x->start_ns < y->start_ns);
}

/* Return how many of the ranges start at or before a time. */
static size_t begun(const struct ranges *r, int64_t at)
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

static bool within(const struct ranges *r, int64_t at)
{
    size_t n = begun(r, at);

    return n > 0 && at < r->at[n - 1].end_ns;
}

/* Return the index of the step that a time is in, or of the last one before; SIZE_MAX: none. */
static size_t step_at(const struct maker *m, int64_t at)
{
    return begun(&m->steps, at) - 1;
}

/* A backward ends where the next forward, step or optimizer starts. */
static enum lk_status add_backward(struct maker *m, const struct lk_event *x)
{
    struct ranges *r = &m->backwards;
    struct range *last = r->n ? &r->at[r->n - 1] : NULL;

    if (last && begun(&m->forwards, x->start_ns) == begun(&m->forwards, last->end_ns) &&
        begun(&m->steps, x->start_ns) == begun(&m->steps, last->end_ns) &&
        begun(&m->optimizers, x->start_ns) == begun(&m->optimizers, last->end_ns)) {
        last->end_ns = x->end_ns > last->end_ns ? x->end_ns : last->end_ns;
        return LK_OK;
    }
    return add_range(r, x);
}

/* Without marks of steps, each optimizer's end is one's. */
static enum lk_status steps_of_optimizers(struct maker *m)
{
    for (size_t i = 0; i + 1 < m->optimizers.n; i++)
        LK_PASS(add_range(&m->steps, &(struct lk_event){.start_ns = m->optimizers.at[i].end_ns,
                                                        .end_ns = m->optimizers.at[i + 1].end_ns,
                                                        .detail = (uint32_t)i}));
    return LK_OK;
}

static enum lk_status find_ranges(struct maker *m)
{
    struct ranges *const of_kind[] = {[LK_EVENT_STEP] = &m->steps,
                                      [LK_EVENT_FORWARD] = &m->forwards,
                                      [LK_EVENT_OPTIMIZER] = &m->optimizers};
    const struct lk_event *end = m->e->events + m->e->n_events;

    for (const struct lk_event *x = m->e->events; x < end; x++)
        if (x->kind < LK_COUNT(of_kind) && of_kind[x->kind])
            LK_PASS(add_range(of_kind[x->kind], x));
    if (!m->steps.n)
        LK_PASS(steps_of_optimizers(m));
    if (!m->steps.n)
        return lk_fail(LK_EEVIDENCE,
                       "%s: no steps: neither ProfilerStep (torch.profiler's step()) nor two "
                       "optimizer steps are in it",
                       m->o->source);
    for (const struct lk_event *x = m->e->events; x < end; x++)
        if (x->kind == LK_EVENT_BACKWARD)
            LK_PASS(add_backward(m, x));
    return LK_OK;
}

/* ---- Work of the GPU ---- */

static int by_link(const void *a, const void *b)
{
    const struct launch *x = a, *y = b;

    return (x->link > y->link) - (x->link < y->link);
}

static enum lk_status find_launches(struct maker *m)
{
    for (size_t i = 0; i < m->e->n_events; i++) {
        const struct lk_event *x = &m->e->events[i];
        const struct launch l = {x->link, x->start_ns, x->end_ns, x->lane};

        if (x->kind != LK_EVENT_LAUNCH || !x->link)
            continue;
        LK_PASS(lk_array_grow(&m->launches, &m->launches_capacity, m->n_launches + 1, sizeof l));
        m->launches[m->n_launches++] = l;
    }
    if (m->n_launches)
        qsort(m->launches, m->n_launches, sizeof *m->launches, by_link);
    return LK_OK;
}

static const struct launch *launch_of(const struct maker *m, const struct lk_event *x)
{
    const struct launch key = {.link = x->link};

    if (!x->link || !m->n_launches)
        return NULL;
    return bsearch(&key, m->launches, m->n_launches, sizeof key, by_link);
}

static bool on_gpu(const struct lk_event *x)
{
    return x->kind <= LK_EVENT_MEMSET;
}

/* Choose the GPU with most events. */
static int64_t busiest(const struct lk_events *e)
{
    int64_t best = -1;
    size_t most = 0;

    for (size_t i = 0; i < e->n_lanes; i++) {
        size_t n = 0;

        if (!e->lanes[i].gpu)
            continue;
        for (size_t k = 0; k < e->n_events; k++)
            n +=
                on_gpu(&e->events[k]) && e->lanes[e->events[k].lane].process == e->lanes[i].process;
        if (n > most) {
            most = n;
            best = e->lanes[i].process;
        }
    }
    return best;
}

/* Tell the phase of work that the host launched, or did, at a time. */
static enum lk_span_kind phase_at(const struct maker *m, size_t step, int64_t at, size_t *pass)
{
    size_t n = begun(&m->backwards, at);

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
    return (x->kind == LK_EVENT_KERNEL && m->communication[x->name]) ||
           (x->kind == LK_EVENT_COLLECTIVE && m->device < 0);
}

static enum lk_status find_work(struct maker *m)
{
    LK_PASS(lk_alloc(&m->work, m->e->n_events, sizeof *m->work));
    for (size_t i = 0; i < m->e->n_events; i++) {
        const struct lk_event *x = &m->e->events[i];
        struct work *w = &m->work[m->n_work];
        int64_t at;

        if (on_gpu(x) ? m->e->lanes[x->lane].process != m->device : !is_communication(m, x))
            continue;
        *w = (struct work){.event = x, .launch = on_gpu(x) ? launch_of(m, x) : NULL};
        at = w->launch ? w->launch->start_ns : x->start_ns;
        w->step = step_at(m, at);
        w->phase = phase_at(m, w->step, at, &w->pass);
        if (is_communication(m, x))
            w->phase = LK_SPAN_COLLECTIVE;
        m->n_work += w->step != SIZE_MAX;
    }
    return LK_OK;
}

/* ---- Spans ---- */

static enum lk_status add_track(struct maker *m, const char *name, enum lk_track_kind kind,
                                int stream, uint32_t *out)
{
    LK_PASS(
        lk_array_grow(&m->t.tracks, &m->tracks_capacity, m->t.n_tracks + 1, sizeof *m->t.tracks));
    m->t.tracks[m->t.n_tracks] = (struct lk_trace_track){.kind = kind, .stream = stream};
    LK_PASS(lk_strdup(&m->t.tracks[m->t.n_tracks].name, name));
    *out = (uint32_t)m->t.n_tracks++;
    return LK_OK;
}

static enum lk_status add_span(struct maker *m, uint32_t track, struct lk_span span, int64_t start,
                               int64_t end)
{
    span.start_ns = start > 0 ? (uint64_t)start : 0;
    span.end_ns = end > start ? (uint64_t)(end > 0 ? end : 0) : span.start_ns;
    LK_PASS(lk_array_grow(&m->t.spans, &m->spans_capacity, m->t.n_spans + 1, sizeof *m->t.spans));
    m->t.spans[m->t.n_spans++] = (struct lk_trace_span){.span = span, .track = track};
    return LK_OK;
}

/* Tracks of the trace; those of streams are in m->tracks. */
enum { HOST, COMPUTE, COMM, FIXED };

static enum lk_status add_tracks(struct maker *m)
{
    const struct lk_events *e = m->e;
    uint32_t track;
    char name[64];

    LK_PASS(add_track(m, "host", LK_TRACK_HOST, 0, &track));
    LK_PASS(add_track(m, "compute", LK_TRACK_COMPUTE, 1, &track));
    LK_PASS(add_track(m, "comm", LK_TRACK_COMM, 2, &track));
    LK_PASS(lk_alloc(&m->tracks, e->n_lanes + 1, sizeof *m->tracks));
    for (size_t lane = 0; lane < e->n_lanes; lane++) {
        size_t comm = 0, kernels = 0;
        enum lk_track_kind kind;

        if (!e->lanes[lane].gpu || e->lanes[lane].process != m->device)
            continue;
        for (size_t i = 0; i < m->n_work; i++) {
            if (m->work[i].event->lane != lane)
                continue;
            comm += m->work[i].phase == LK_SPAN_COLLECTIVE;
            kernels += m->work[i].event->kind == LK_EVENT_KERNEL;
        }
        kind = 2 * comm > kernels ? LK_TRACK_COMM : kernels ? LK_TRACK_COMPUTE : LK_TRACK_COPY;
        snprintf(name, sizeof name, "stream %lld, GPU records", (long long)e->lanes[lane].thread);
        LK_PASS(add_track(m, name, kind,
                          kind == LK_TRACK_COMPUTE ? COMPUTE
                          : kind == LK_TRACK_COMM  ? COMM
                                                   : (int)lane + FIXED,
                          &track));
        m->tracks[lane] = track + 1;
    }
    return LK_OK;
}

static uint16_t name_id(const struct maker *m, uint32_t name)
{
    return name > 0 && name <= UINT16_MAX && name < m->e->n_names ? (uint16_t)name : 0;
}

/* Give the trace the names: a span's id is that of the events. */
static enum lk_status add_names(struct maker *m)
{
    size_t n = m->e->n_names > UINT16_MAX ? (size_t)UINT16_MAX : m->e->n_names;

    LK_PASS(lk_alloc(&m->t.names, n, sizeof *m->t.names));
    for (size_t i = 1; i < n; i++) {
        LK_PASS(lk_strdup(&m->t.names[i - 1], lk_events_text(m->e, (uint32_t)i)));
        m->t.n_names = i;
    }
    return LK_OK;
}

static enum lk_status add_host_spans(struct maker *m)
{
    static const enum lk_span_kind kinds[] = {[LK_EVENT_STEP] = LK_SPAN_STEP,
                                              [LK_EVENT_INPUT] = LK_SPAN_INPUT,
                                              [LK_EVENT_SYNC] = LK_SPAN_SYNC};

    for (size_t i = 0; i < m->steps.n; i++)
        LK_PASS(add_span(
            m, HOST,
            (struct lk_span){.kind = LK_SPAN_STEP, .step = m->steps.at[i].number, .index = -1},
            m->steps.at[i].start_ns, m->steps.at[i].end_ns));
    for (size_t i = 0; i < m->e->n_events; i++) {
        const struct lk_event *x = &m->e->events[i];
        size_t step = step_at(m, x->start_ns);

        if ((x->kind != LK_EVENT_INPUT && x->kind != LK_EVENT_SYNC) || step == SIZE_MAX)
            continue;
        LK_PASS(
            add_span(m, HOST,
                     (struct lk_span){.kind = (uint16_t)kinds[x->kind],
                                      .step = m->steps.at[step].number,
                                      .index = x->kind == LK_EVENT_INPUT ? 0 : -1,
                                      .name = x->kind == LK_EVENT_SYNC ? name_id(m, x->name) : 0},
                     x->start_ns, x->end_ns));
    }
    return LK_OK;
}

static enum lk_status extend(struct passes *p, const struct pass *x)
{
    for (size_t i = p->n; i-- > 0 && p->at[i].step + 1 >= x->step;) {
        struct pass *known = &p->at[i];

        if (known->phase != x->phase || known->step != x->step ||
            (x->phase != LK_SPAN_OPTIMIZER && known->pass != x->pass))
            continue;
        known->start_ns = x->start_ns < known->start_ns ? x->start_ns : known->start_ns;
        known->end_ns = x->end_ns > known->end_ns ? x->end_ns : known->end_ns;
        return LK_OK;
    }
    LK_PASS(lk_array_grow(&p->at, &p->capacity, p->n + 1, sizeof *p->at));
    p->at[p->n++] = *x;
    return LK_OK;
}

/* Passes of the GPU: from the work on compute streams. */
static enum lk_status gpu_passes(struct maker *m, struct passes *p)
{
    for (size_t i = 0; i < m->n_work; i++) {
        const struct work *w = &m->work[i];
        const uint32_t track = m->tracks[w->event->lane];

        if (w->phase == LK_SPAN_COLLECTIVE || !w->launch || !track ||
            m->t.tracks[track - 1].kind != LK_TRACK_COMPUTE)
            continue;
        LK_PASS(extend(p, &(struct pass){.phase = w->phase,
                                         .step = w->step,
                                         .pass = w->pass,
                                         .start_ns = w->event->start_ns,
                                         .end_ns = w->event->end_ns}));
    }
    return LK_OK;
}

/* Passes of the host: a forward ends where its backward begins. */
static enum lk_status host_passes(struct maker *m, struct passes *p)
{
    for (size_t i = 0; i < m->backwards.n; i++) {
        const struct range *b = &m->backwards.at[i];
        struct pass x = {LK_SPAN_BACKWARD, step_at(m, b->start_ns), i + 1, b->start_ns, b->end_ns};
        size_t f = begun(&m->forwards, b->start_ns);

        if (x.step == SIZE_MAX)
            continue;
        LK_PASS(extend(p, &x));
        x.phase = LK_SPAN_FORWARD;
        x.end_ns = b->start_ns;
        x.start_ns = f > 0 ? m->forwards.at[f - 1].start_ns : m->steps.at[x.step].start_ns;
        if (x.start_ns >= m->steps.at[x.step].start_ns)
            LK_PASS(extend(p, &x));
    }
    for (size_t i = 0; i < m->optimizers.n; i++) {
        const struct range *o = &m->optimizers.at[i];
        struct pass x = {LK_SPAN_OPTIMIZER, step_at(m, o->start_ns), 0, o->start_ns, o->end_ns};

        if (x.step != SIZE_MAX)
            LK_PASS(extend(p, &x));
    }
    return LK_OK;
}

static int pass_order(const void *a, const void *b)
{
    const struct pass *x = a, *y = b;

    return (x->start_ns > y->start_ns) - (x->start_ns < y->start_ns);
}

/* Emit the passes, cut where they overlap: work of two streams may. */
static enum lk_status add_passes(struct maker *m)
{
    struct passes *p = &m->passes;
    int64_t end = INT64_MIN;
    size_t step = SIZE_MAX, backward = 0, forward = 0;

    LK_PASS(m->device >= 0 ? gpu_passes(m, p) : host_passes(m, p));
    if (p->n)
        qsort(p->at, p->n, sizeof *p->at, pass_order);
    for (struct pass *x = p->at; x < p->at + p->n; x++) {
        struct lk_span span = {.kind = (uint16_t)x->phase, .index = -1};

        if (x->step != step)
            forward = backward = 0;
        step = x->step;
        span.step = m->steps.at[step].number;
        if (x->phase == LK_SPAN_FORWARD)
            span.index = (int32_t)forward++;
        if (x->phase == LK_SPAN_BACKWARD)
            span.index = (int32_t)backward++;
        if ((int)backward > m->accumulation)
            m->accumulation = (int)backward;
        x->start_ns = x->start_ns > end ? x->start_ns : end;
        x->end_ns = x->end_ns > x->start_ns ? x->end_ns : x->start_ns;
        end = x->end_ns;
        LK_PASS(add_span(m, COMPUTE, span, x->start_ns, x->end_ns));
    }
    return LK_OK;
}

/* ---- Collectives ---- */

/* Compute work by the time of its launch, with the last end of all up to it. */
struct done {
    int64_t launched_ns, end_ns;
};

static int done_order(const void *a, const void *b)
{
    const struct done *x = a, *y = b;

    return (x->launched_ns > y->launched_ns) - (x->launched_ns < y->launched_ns);
}

static enum lk_status find_done(const struct maker *m, struct done **out, size_t *n)
{
    LK_PASS(lk_alloc(out, m->n_work, sizeof **out));
    for (size_t i = 0; i < m->n_work; i++) {
        const struct work *w = &m->work[i];

        if (w->phase != LK_SPAN_COLLECTIVE && w->launch && on_gpu(w->event))
            (*out)[(*n)++] = (struct done){w->launch->start_ns, w->event->end_ns};
    }
    if (*n)
        qsort(*out, *n, sizeof **out, done_order);
    for (size_t i = 1; i < *n; i++)
        if ((*out)[i].end_ns < (*out)[i - 1].end_ns)
            (*out)[i].end_ns = (*out)[i - 1].end_ns;
    return LK_OK;
}

/* Return when the compute work launched before a time had ended; 0: none was. */
static int64_t done_before(const struct done *done, size_t n, int64_t launched)
{
    size_t lo = 0, hi = n;

    while (lo < hi) {
        size_t mid = (lo + hi) / 2;

        if (done[mid].launched_ns < launched)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo > 0 ? done[lo - 1].end_ns : 0;
}

/* X(in a kernel's name, name of the collective) */
static const struct {
    const char *in, *name;
} of_kernels[] = {
    {"AllReduce", "all_reduce"}, {"AllGather", "all_gather"}, {"ReduceScatter", "reduce_scatter"},
    {"Broadcast", "broadcast"},  {"SendRecv", "send_recv"},   {"Reduce_", "reduce"},
};

/* Return what is known of a collective: its own detail, else that of the host's range around its
 * launch. The result is valid until the next call. */
static struct lk_event_collective about(struct maker *m, const struct work *w)
{
    struct lk_event_collective c = {.seq = -1};
    const struct lk_event *x = w->event;
    const char *kernel = lk_events_text(m->e, x->name);

    if (x->detail)
        c = m->e->details[x->detail - 1];
    for (size_t i = 0; !x->detail && w->launch && i < m->e->n_events; i++) {
        const struct lk_event *host = &m->e->events[i];

        if (host->start_ns > w->launch->start_ns)
            break;
        if (host->kind == LK_EVENT_COLLECTIVE && host->detail && host->lane == w->launch->lane &&
            host->end_ns >= w->launch->start_ns)
            c = m->e->details[host->detail - 1];
    }
    for (size_t i = 0; !c.function && i < LK_COUNT(of_kernels); i++)
        if (strstr(kernel, of_kernels[i].in))
            (void)lk_events_name(m->e, of_kernels[i].name, strlen(of_kernels[i].name), &c.function);
    return c;
}

static bool is_gradient(const struct maker *m, const struct lk_event_collective *c)
{
    return c->function && !strcmp(lk_events_text(m->e, c->function), "all_reduce");
}

/* A collective with its place in the step. */
struct transfer {
    const struct work *work;
    struct lk_event_collective about;
    uint32_t ordinal; /* in the step */
    int32_t bucket;   /* of the pass; -1: no gradients */
    int64_t ready_ns;
};

struct transfers {
    struct transfer *at;
    size_t n, capacity;
};

/* Remember the largest list of buckets that a pass had. */
static enum lk_status note_bucket(struct maker *m, const struct transfer *x)
{
    if (x->bucket < 0 || (size_t)x->bucket < m->n_buckets)
        return LK_OK;
    LK_PASS(lk_array_grow(&m->buckets, &m->buckets_capacity, m->n_buckets + 1, sizeof *m->buckets));
    m->buckets[m->n_buckets++] = x->about;
    return LK_OK;
}

static enum lk_status find_transfers(struct maker *m, struct transfers *out)
{
    enum lk_status st = LK_OK;
    struct done *done = NULL;
    size_t n_done = 0, step = SIZE_MAX, pass = 0;
    uint32_t ordinal = 0;
    int32_t bucket = 0;

    LK_TRY(find_done(m, &done, &n_done));
    for (size_t i = 0; i < m->n_work; i++) { /* by start */
        struct transfer x = {.work = &m->work[i], .ready_ns = m->work[i].event->start_ns};
        const struct work *w = x.work;

        if (w->phase != LK_SPAN_COLLECTIVE)
            continue;
        ordinal = w->step == step ? ordinal : 0;
        bucket = w->step == step && w->pass == pass ? bucket : 0;
        step = w->step;
        pass = w->pass;
        x.about = about(m, w);
        x.ordinal = ordinal++;
        x.bucket = is_gradient(m, &x.about) ? bucket++ : -1;
        if (w->launch)
            x.ready_ns = done_before(done, n_done, w->launch->start_ns);
        if (x.ready_ns <= 0 || x.ready_ns > w->event->start_ns)
            x.ready_ns = w->event->start_ns;
        LK_TRY(note_bucket(m, &x));
        LK_TRY(lk_array_grow(&out->at, &out->capacity, out->n + 1, sizeof x));
        out->at[out->n++] = x;
    }
out:
    free(done);
    return st;
}

static bool sizes_known(const struct maker *m)
{
    for (size_t i = 0; i < m->n_buckets; i++)
        if (!m->buckets[i].elements || !m->buckets[i].dtype_known)
            return false;
    return m->n_buckets > 0;
}

/* Mark in the backward when a bucket was ready: it stands for its tensors, one for all. The last
 * bucket has the first tensor, as DDP assigns them. */
static enum lk_status add_mark(struct maker *m, const struct transfer *x)
{
    int64_t at = x->ready_ns;
    const struct pass *p = m->passes.at, *end = p + m->passes.n;

    if (x->bucket < 0 || !sizes_known(m))
        return LK_OK;
    while (p < end &&
           !(p->phase == LK_SPAN_BACKWARD && p->step == x->work->step && p->pass == x->work->pass))
        p++;
    if (p == end)
        return LK_OK;
    at = at < p->start_ns ? p->start_ns : at > p->end_ns ? p->end_ns : at;
    return add_span(m, COMPUTE,
                    (struct lk_span){.kind = LK_SPAN_GRADIENT,
                                     .step = m->steps.at[x->work->step].number,
                                     .index = (int32_t)m->n_buckets - 1 - x->bucket},
                    at, at);
}

/* Set when a kernel was launched, which is before it starts, by whatever clock. */
static void set_launch(struct lk_span *span, const struct work *w)
{
    if (!w->launch || w->launch->start_ns <= 0)
        return;
    span->ready_ns = (uint64_t)(w->launch->start_ns < w->event->start_ns ? w->launch->start_ns
                                                                         : w->event->start_ns);
    span->seq = (uint32_t)(w->launch->end_ns - w->launch->start_ns);
}

/* Emit a collective: its span, and of a GPU its kernel, which tells when the rank joined it. */
static enum lk_status add_collective(struct maker *m, const struct transfer *x)
{
    const struct lk_event *event = x->work->event;
    const uint32_t step = m->steps.at[x->work->step].number;
    struct lk_span span = {.kind = LK_SPAN_COLLECTIVE,
                           .step = step,
                           .index = x->bucket,
                           .seq = (step & 0xFFFF) << 16 | (x->ordinal & 0xFFFF),
                           .name = name_id(m, x->about.function)};

    if (x->about.dtype_known)
        span.bytes = x->about.elements * lk_dtype_bytes(x->about.dtype);
    span.ready_ns = (uint64_t)(x->ready_ns > 0 ? x->ready_ns : 1);
    LK_PASS(add_span(m, COMM, span, event->start_ns, event->end_ns));
    LK_PASS(add_mark(m, x));
    if (m->device < 0 || !m->tracks[event->lane])
        return LK_OK;
    span = (struct lk_span){
        .kind = LK_SPAN_KERNEL, .step = step, .index = x->bucket, .name = name_id(m, event->name)};
    set_launch(&span, x->work);
    return add_span(m, m->tracks[event->lane] - 1, span, event->start_ns, event->end_ns);
}

static enum lk_status add_collectives(struct maker *m)
{
    enum lk_status st = LK_OK;
    struct transfers list = {0};

    LK_TRY(find_transfers(m, &list));
    for (size_t i = 0; i < list.n; i++)
        LK_TRY(add_collective(m, &list.at[i]));
out:
    free(list.at);
    return st;
}

static enum lk_status add_gpu_work(struct maker *m)
{
    static const enum lk_span_kind kinds[] = {LK_SPAN_KERNEL, LK_SPAN_COPY, LK_SPAN_MEMSET};

    for (size_t i = 0; i < m->n_work; i++) {
        const struct work *w = &m->work[i];
        struct lk_span span = {.kind = (uint16_t)kinds[on_gpu(w->event) ? w->event->kind : 0],
                               .step = m->steps.at[w->step].number,
                               .index = -1,
                               .bytes = w->event->bytes,
                               .name = name_id(m, w->event->name)};

        if (w->phase == LK_SPAN_COLLECTIVE || !m->tracks[w->event->lane])
            continue;
        if (w->launch && w->launch->start_ns > 0) {
            span.ready_ns =
                (uint64_t)(w->launch->start_ns < w->event->start_ns ? w->launch->start_ns
                                                                    : w->event->start_ns);
            span.seq = (uint32_t)(w->launch->end_ns - w->launch->start_ns);
        }
        LK_PASS(
            add_span(m, m->tracks[w->event->lane] - 1, span, w->event->start_ns, w->event->end_ns));
    }
    return LK_OK;
}

/* ---- The description ---- */

/*
 * Give the buckets as tensors, and limits with which DDP makes these buckets of them: a bucket is
 * closed when it has reached its limit, the last one is what is left.
 */
static enum lk_status describe_buckets(const struct maker *m, struct lk_run_info *i)
{
    i->first_bytes = LK_BUCKET_FIRST_BYTES;
    i->cap_bytes = LK_BUCKET_CAP_BYTES;
    if (!sizes_known(m))
        return LK_OK;
    LK_PASS(lk_alloc(&i->tensors, m->n_buckets, sizeof *i->tensors));
    for (; i->n_tensors < m->n_buckets; i->n_tensors++) {
        size_t bucket = m->n_buckets - 1 - i->n_tensors;
        const struct lk_event_collective *b = &m->buckets[bucket];
        uint64_t *limit = bucket ? &i->cap_bytes : &i->first_bytes;
        uint64_t bytes = b->elements * lk_dtype_bytes(b->dtype);

        i->tensors[i->n_tensors] = (struct lk_run_tensor){.elems = b->elements, .dtype = b->dtype};
        LK_PASS(lk_asprintf(&i->tensors[i->n_tensors].name, "bucket %zu", bucket));
        if (bucket + 1 < m->n_buckets && bytes < *limit)
            *limit = bytes;
    }
    return LK_OK;
}

static enum lk_status describe(struct maker *m)
{
    const struct lk_events *e = m->e;
    struct lk_run_info *i = &m->t.info;

    *i = (struct lk_run_info){.rank = e->rank >= 0 ? e->rank : m->o->rank,
                              .world_size = e->world_size ? e->world_size : m->o->world_size,
                              .nodes = 1,
                              .local_batch = m->o->local_batch ? m->o->local_batch : 1,
                              .accumulation = m->accumulation > 0 ? m->accumulation : 1,
                              .steps = m->steps.n,
                              .flops_per_sample = NAN};
    i->world_size = i->world_size > i->rank ? i->world_size : i->rank + 1;
    LK_PASS(lk_strdup(&i->run_id, "imported"));
    LK_PASS(lk_strdup(&i->host, e->host ? e->host : "unknown"));
    LK_PASS(lk_strdup(&i->device, e->device ? e->device : m->device >= 0 ? "GPU" : "cpu"));
    LK_PASS(lk_strdup(&i->comm, e->backend ? e->backend : "unknown"));
    LK_PASS(lk_strdup(&i->model, "imported"));
    LK_PASS(lk_strdup(&i->sample_unit, m->o->local_batch ? "sample" : "micro-batch"));
    LK_PASS(describe_buckets(m, i));
    LK_PASS(lk_run_info_config(i, LK_IMPORT_CONFIG_KEY, m->o->source));
    LK_PASS(lk_run_info_config(i, "imported_format", e->format));
    m->t.clock = lk_clock_identity();
    m->t.truncated = e->cut;
    return LK_OK;
}

/* Times of a trace are from its first event; the wall clock is that of the source. */
static void set_base(struct maker *m)
{
    m->t.base_local_ns =
        m->e->n_events ? (uint64_t)(m->e->events[0].start_ns > 0 ? m->e->events[0].start_ns : 0)
                       : 0;
    m->t.base_epoch_ns = m->t.base_local_ns;
}

static void maker_fini(struct maker *m)
{
    free(m->communication);
    free(m->steps.at);
    free(m->backwards.at);
    free(m->forwards.at);
    free(m->optimizers.at);
    free(m->launches);
    free(m->work);
    free(m->tracks);
    free(m->passes.at);
    free(m->buckets);
    lk_trace_fini(&m->t);
}

enum lk_status lk_rank_trace(struct lk_events *e, const struct lk_rank_options *o,
                             struct lk_trace *out)
{
    struct maker m = {.e = e, .o = o};
    enum lk_status st = LK_OK;

    if (e->n_events)
        qsort(e->events, e->n_events, sizeof *e->events, by_start);
    LK_TRY(lk_communication_names(e, o->patterns, &m.communication));
    m.device = busiest(e);
    LK_TRY(find_ranges(&m));
    LK_TRY(find_launches(&m));
    LK_TRY(find_work(&m));
    LK_TRY(add_tracks(&m));
    LK_TRY(add_host_spans(&m));
    LK_TRY(add_passes(&m));
    LK_TRY(add_collectives(&m));
    LK_TRY(add_gpu_work(&m));
    LK_TRY(add_names(&m));
    LK_TRY(describe(&m));
    set_base(&m);
    LK_TRY(lk_trace_sort_spans(&m.t.spans, m.t.n_spans));
    *out = m.t;
    m.t = (struct lk_trace){0};
out:
    maker_fini(&m);
    return st;
}
