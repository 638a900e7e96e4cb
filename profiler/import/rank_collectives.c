/* The collectives of a rank: which they are, when they were ready, what buckets they move. */
#include "profiler/import/rank_impl.h"

#include "base/array.h"
#include "facts/coll.h"
#include "profiler/import/event_kind.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum lk_status lk_import_find_hosts_(const struct trace_builder *tb, struct hosts *out)
{
    LK_PASS(lk_alloc(&out->at, tb->e->n_events, sizeof(struct lk_import_event *)));
    for (size_t i = 0; i < tb->e->n_events; i++)
        if (tb->e->events[i].kind == LK_EVENT_COLLECTIVE && tb->e->events[i].detail)
            out->at[out->n++] = &tb->e->events[i];
    return LK_OK;
}

/* Return the range of the host that a call lies in, or NULL. Ranges do not last long: those that
 * began long before are not looked at. */
static const struct lk_import_event *host_around(const struct hosts *h,
                                                 const struct lk_launch *call)
{
    enum { LOOK = 64 };
    size_t lo;

    LK_BISECT(lo, h->n, h->at[lo]->start_ns <= call->start_ns);
    for (size_t i = lo; i-- > 0 && lo - i <= LOOK;)
        if (h->at[i]->lane == call->lane && h->at[i]->end_ns >= call->start_ns)
            return h->at[i];
    return NULL;
}

/* Count in elements what the source has in bytes, if the kernel's name says what they are. */
static void use_kernel_dtype(const char *kernel, struct lk_event_detail *c)
{
    enum lk_dtype dtype;

    if (!c->dtype_known || c->dtype != LK_U8 || !lk_event_dtype_of_kernel(kernel, &dtype) ||
        c->elements % lk_dtype_bytes(dtype))
        return;
    c->elements /= lk_dtype_bytes(dtype);
    c->dtype = dtype;
}

struct lk_event_detail lk_import_about_(const struct trace_builder *tb, const struct hosts *hosts,
                                        const struct lk_import_event *x,
                                        const struct lk_launch *launch)
{
    const struct lk_import_event *host = x->detail || !launch ? x : host_around(hosts, launch);
    struct lk_event_detail c = {0};

    if (host && host->detail)
        c = tb->e->details[host->detail - 1];
    if (!c.function) {
        const char *function = lk_event_function_of_nccl(lk_events_text(tb->e, x->name));

        (void)lk_events_name(tb->e, function, strlen(function), &c.function);
    }
    use_kernel_dtype(lk_events_text(tb->e, x->name), &c);
    return c;
}

static bool is_all_reduce(const struct trace_builder *tb, const struct lk_event_detail *c)
{
    return c->function && lk_coll_is(lk_events_text(tb->e, c->function), LK_ALL_REDUCE);
}

/* Return true for a collective of some of the job's ranks. */
static bool in_group(const struct trace_builder *tb, const struct lk_event_detail *c)
{
    return c->ranks > 1 && (int)c->ranks < tb->world_size;
}

/* Integers are no gradients: DDP's map of used parameters is. */
static bool may_be_gradients(const struct lk_event_detail *c)
{
    return !c->dtype_known || c->dtype != LK_I32;
}

/* So many collectives tell which groups there are. */
enum { GROUP_SAMPLE = 256 };

/* A collective with its place in the step. */
struct transfer {
    const struct work *work;
    struct lk_event_detail about;
    uint32_t ordinal; /* in the step */
    int32_t bucket;   /* of the pass; -1: no gradients */
    int64_t ready_ns, start_ns, end_ns;
};

struct transfers {
    struct transfer *at;
    size_t n, capacity;
};

/* Remember the largest list of buckets that a pass had. */
static enum lk_status note_bucket(struct trace_builder *tb, const struct transfer *x)
{
    if (x->bucket < 0 || (size_t)x->bucket < tb->n_buckets)
        return LK_OK;
    LK_PASS(
        lk_array_grow(&tb->buckets, &tb->buckets_capacity, tb->n_buckets + 1, sizeof *tb->buckets));
    tb->buckets[tb->n_buckets++] = x->about;
    return LK_OK;
}

/*
 * Set a transfer's times. On a GPU it is ready when the compute work launched before it has ended;
 * without a kernel it takes no time, unless the host waits in its call. On the host it is ready
 * when it was asked for (0: not known).
 */
static void set_times(const struct trace_builder *tb, struct transfer *x)
{
    const struct work *w = x->work;

    x->start_ns = x->ready_ns = w->event->start_ns;
    x->end_ns = w->event->end_ns;
    if (w->launch) {
        x->ready_ns = lk_import_done_before_(tb, w->launch->start_ns);
    } else if (tb->by_host && tb->device >= 0 && !tb->e->source.blocking) {
        x->ready_ns = lk_import_done_before_(tb, w->event->start_ns);
        if (x->ready_ns < w->event->start_ns)
            x->ready_ns = w->event->start_ns;
        x->start_ns = x->end_ns = x->ready_ns;
    } else if (w->enqueued_ns > 0) {
        x->ready_ns = w->enqueued_ns;
    }
    if (x->ready_ns <= 0 || x->ready_ns > x->start_ns)
        x->ready_ns = x->start_ns;
}

enum lk_status lk_import_sizes_of_(const struct trace_builder *tb, const char *function,
                                   const struct lk_event_detail ***out, size_t *n)
{
    const struct lk_events *sizes = tb->o->sizes;

    *n = 0;
    LK_PASS(lk_alloc(out, sizes ? sizes->n_details + 1 : 1, sizeof **out));
    for (size_t i = 0; sizes && i < sizes->n_details; i++)
        if (!strcmp(lk_events_text(sizes, sizes->details[i].function), function))
            (*out)[(*n)++] = &sizes->details[i];
    return LK_OK;
}

/* Take the sizes from the other file, which has the all-reduces of a step in order. */
static enum lk_status add_sizes(const struct trace_builder *tb, struct transfers *list)
{
    const struct lk_event_detail **sizes = NULL;
    size_t n;

    LK_PASS(lk_import_sizes_of_(tb, lk_coll_name(LK_ALL_REDUCE), &sizes, &n));
    for (size_t i = 0; i < list->n; i++) {
        struct transfer *x = &list->at[i];

        if (x->bucket < 0 || x->about.elements || (size_t)x->bucket >= n)
            continue;
        x->about.elements = sizes[x->bucket]->elements;
        x->about.dtype = sizes[x->bucket]->dtype;
        x->about.dtype_known = true;
    }
    free(sizes);
    return LK_OK;
}

static enum lk_status list_transfers(struct trace_builder *tb, struct transfers *out)
{
    enum lk_status st = LK_OK;
    struct hosts hosts = {0};

    LK_TRY(lk_import_find_hosts_(tb, &hosts));
    for (size_t i = 0; i < tb->n_work; i++) { /* by start */
        struct transfer x = {.work = &tb->work[i], .bucket = -1};

        if (x.work->phase != LK_SPAN_COLLECTIVE)
            continue;
        x.about = lk_import_about_(tb, &hosts, x.work->event, x.work->launch);
        set_times(tb, &x);
        LK_TRY(lk_array_grow(&out->at, &out->capacity, out->n + 1, sizeof x));
        out->at[out->n++] = x;
    }
out:
    free(hosts.at);
    return st;
}

/*
 * Return the group whose all-reduces are the gradients': the one that moves most of the elements.
 * *in_backward: those that backwards launched alone, if there are any; others are of losses, norms.
 */
static uint32_t gradient_group(const struct trace_builder *tb, const struct transfers *list,
                               bool *in_backward)
{
    uint32_t best = 0;
    uint64_t most = 0;

    *in_backward = false;
    for (size_t i = 0; i < list->n; i++)
        *in_backward = *in_backward ||
                       (list->at[i].work->in_backward && is_all_reduce(tb, &list->at[i].about));
    for (size_t i = 0; i < list->n; i++) {
        uint32_t group = list->at[i].about.group;
        uint64_t sum = 0;

        if (group == best && most > 0)
            continue;
        for (size_t k = 0; k < list->n; k++)
            if (list->at[k].about.group == group && is_all_reduce(tb, &list->at[k].about))
                sum += list->at[k].about.elements + 1;
        if (sum > most) {
            most = sum;
            best = group;
        }
        if (i > GROUP_SAMPLE)
            break;
    }
    return best;
}

/* Number the collectives of each step, and the buckets of each pass. */
static enum lk_status find_transfers(struct trace_builder *tb, struct transfers *out)
{
    size_t step = SIZE_MAX, pass = 0;
    uint32_t ordinal = 0, group;
    int32_t bucket = 0;
    bool in_backward;

    LK_PASS(list_transfers(tb, out));
    group = gradient_group(tb, out, &in_backward);
    for (size_t i = 0; i < out->n; i++) {
        struct transfer *x = &out->at[i];
        const struct work *w = x->work;

        ordinal = w->step == step ? ordinal : 0;
        bucket = w->step == step && w->pass == pass ? bucket : 0;
        step = w->step;
        pass = w->pass;
        x->ordinal = ordinal++;
        if (is_all_reduce(tb, &x->about) && x->about.group == group &&
            may_be_gradients(&x->about) && (w->in_backward || !in_backward))
            x->bucket = bucket++;
    }
    LK_PASS(add_sizes(tb, out));
    for (size_t i = 0; i < out->n; i++)
        LK_PASS(note_bucket(tb, &out->at[i]));
    return LK_OK;
}

/* Remember when a bucket was ready. */
static enum lk_status add_ready(struct trace_builder *tb, const struct transfer *x)
{
    if (x->bucket < 0)
        return LK_OK;
    LK_PASS(lk_array_grow(&tb->ready, &tb->ready_capacity, tb->n_ready + 1, sizeof *tb->ready));
    tb->ready[tb->n_ready++] = (struct ready){.step = x->work->step,
                                              .pass = x->work->pass,
                                              .index = (size_t)x->bucket,
                                              .at_ns = x->ready_ns};
    return LK_OK;
}

/* Return a span's id of a collective's name: its function and, if they are not all, its ranks. */
static enum lk_status name_of(struct trace_builder *tb, const struct lk_event_detail *c,
                              uint16_t *out)
{
    uint32_t name = c->function;
    char text[128];

    if (in_group(tb, c)) {
        tb->grouped = true;
        snprintf(text, sizeof text, "%.64s of %u ranks", lk_events_text(tb->e, c->function),
                 c->ranks);
        LK_PASS(lk_events_name(tb->e, text, strlen(text), &name));
    }
    return lk_import_name_id_(tb, name, out);
}

/* Emit a collective: its span, and of a GPU its kernel, which tells when the rank joined it. */
static enum lk_status add_collective(struct trace_builder *tb, const struct transfer *x)
{
    const struct lk_import_event *event = x->work->event;
    const uint32_t step = tb->steps.at[x->work->step].number;
    struct lk_span span = {.kind = LK_SPAN_COLLECTIVE,
                           .step = step,
                           .index = x->bucket,
                           .seq = (step & 0xFFFF) << 16 | (x->ordinal & 0xFFFF)};

    LK_PASS(name_of(tb, &x->about, &span.name));
    if (x->about.dtype_known)
        span.bytes = x->about.elements * lk_dtype_bytes(x->about.dtype);
    span.ready_ns = (uint64_t)(x->ready_ns > 0 ? x->ready_ns : 1);
    LK_PASS(lk_import_add_span_(tb, LK_IMPORT_COMM, span, x->start_ns, x->end_ns));
    LK_PASS(add_ready(tb, x));
    if (tb->by_host || !tb->tracks[event->lane])
        return LK_OK;
    span = (struct lk_span){.kind = LK_SPAN_KERNEL, .step = step, .index = x->bucket};
    LK_PASS(lk_import_name_id_(tb, event->name, &span.name));
    lk_import_set_launch_(&span, x->work);
    return lk_import_add_span_(tb, tb->tracks[event->lane] - 1, span, event->start_ns,
                               event->end_ns);
}

enum lk_status lk_import_add_collectives_(struct trace_builder *tb)
{
    enum lk_status st = LK_OK;
    struct transfers list = {0};

    LK_TRY(find_transfers(tb, &list));
    for (size_t i = 0; i < list.n; i++)
        LK_TRY(add_collective(tb, &list.at[i]));
out:
    free(list.at);
    return st;
}
