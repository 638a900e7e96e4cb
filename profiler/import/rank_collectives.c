/* The collectives of a rank: which they are, when they were ready, what buckets they move. */
#include "profiler/import/rank_impl.h"

#include "base/array.h"

#include <stdlib.h>
#include <string.h>

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

        if (w->phase != LK_SPAN_COLLECTIVE && w->launch && lk_rank_on_gpu_(w->event))
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
    int64_t ready_ns, start_ns, end_ns;
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

/*
 * Set a transfer's times. On a GPU it is ready when the compute work launched before it has ended;
 * without a kernel it takes no time. On the host it is ready when it was asked for (0: not known).
 */
static void set_times(const struct maker *m, const struct done *done, size_t n_done,
                      int64_t enqueued_ns, struct transfer *x)
{
    const struct work *w = x->work;

    x->start_ns = x->ready_ns = w->event->start_ns;
    x->end_ns = w->event->end_ns;
    if (w->launch) {
        x->ready_ns = done_before(done, n_done, w->launch->start_ns);
    } else if (m->by_host && m->device >= 0) {
        x->ready_ns = done_before(done, n_done, w->event->start_ns);
        if (x->ready_ns < w->event->start_ns)
            x->ready_ns = w->event->start_ns;
        x->start_ns = x->end_ns = x->ready_ns;
    } else if (enqueued_ns > 0) {
        x->ready_ns = enqueued_ns;
    }
    if (x->ready_ns <= 0 || x->ready_ns > x->start_ns)
        x->ready_ns = x->start_ns;
}

/* Take the size from the other file, which has the all-reduces of a step in order. */
static void add_size(const struct maker *m, struct transfer *x)
{
    const struct lk_events *sizes = m->o->sizes;

    if (!sizes || x->bucket < 0 || x->about.elements || (size_t)x->bucket >= sizes->n_details)
        return;
    x->about.elements = sizes->details[x->bucket].elements;
    x->about.dtype = sizes->details[x->bucket].dtype;
    x->about.dtype_known = true;
}

static enum lk_status find_transfers(struct maker *m, struct transfers *out)
{
    enum lk_status st = LK_OK;
    struct done *done = NULL;
    int64_t *enqueued = NULL;
    size_t n_done = 0, n_enqueued = 0, of_host = 0, step = SIZE_MAX, pass = 0;
    uint32_t ordinal = 0;
    int32_t bucket = 0;

    LK_TRY(find_done(m, &done, &n_done));
    LK_TRY(find_enqueues(m, &enqueued, &n_enqueued));
    for (size_t i = 0; i < m->n_work; i++) { /* by start */
        struct transfer x = {.work = &m->work[i]};
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
        add_size(m, &x);
        set_times(m, done, n_done, of_host < n_enqueued ? enqueued[of_host] : 0, &x);
        of_host++;
        LK_TRY(note_bucket(m, &x));
        LK_TRY(lk_array_grow(&out->at, &out->capacity, out->n + 1, sizeof x));
        out->at[out->n++] = x;
    }
out:
    free(enqueued);
    free(done);
    return st;
}

bool lk_rank_sizes_known_(const struct maker *m)
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
    size_t i = 0;
    const struct pass *p;

    if (x->bucket < 0 || !lk_rank_sizes_known_(m))
        return LK_OK;
    while (i < m->passes.n &&
           !(m->passes.at[i].phase == LK_SPAN_BACKWARD && m->passes.at[i].step == x->work->step &&
             m->passes.at[i].pass == x->work->pass))
        i++;
    if (i == m->passes.n)
        return LK_OK;
    p = &m->passes.at[i];
    at = at < p->start_ns ? p->start_ns : at > p->end_ns ? p->end_ns : at;
    return lk_rank_add_span_(m, LK_RANK_COMPUTE,
                             (struct lk_span){.kind = LK_SPAN_GRADIENT,
                                              .step = m->steps.at[x->work->step].number,
                                              .index = (int32_t)m->n_buckets - 1 - x->bucket},
                             at, at);
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
                           .name = lk_rank_name_id_(m, x->about.function)};

    if (x->about.dtype_known)
        span.bytes = x->about.elements * lk_dtype_bytes(x->about.dtype);
    span.ready_ns = (uint64_t)(x->ready_ns > 0 ? x->ready_ns : 1);
    LK_PASS(lk_rank_add_span_(m, LK_RANK_COMM, span, x->start_ns, x->end_ns));
    LK_PASS(add_mark(m, x));
    if (m->by_host || !m->tracks[event->lane])
        return LK_OK;
    span = (struct lk_span){.kind = LK_SPAN_KERNEL,
                            .step = step,
                            .index = x->bucket,
                            .name = lk_rank_name_id_(m, event->name)};
    lk_rank_set_launch_(&span, x->work);
    return lk_rank_add_span_(m, m->tracks[event->lane] - 1, span, event->start_ns, event->end_ns);
}

enum lk_status lk_rank_add_collectives_(struct maker *m)
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
