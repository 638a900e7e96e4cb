/*
 * Find steps that nobody marked. A step is the smallest period of the collectives' sequence, told
 * apart by group, function and size. The kernels between them check it: where they repeat only
 * every other period, as with accumulation, that is the step. Without collectives the kernels' own
 * period is it, if something is copied to the GPU in each.
 *
 * A step begins behind the longest pause between two of its collectives, which is when the host
 * finishes one step and begins the next. Where collectives have numbers in their group, all ranks
 * begin a step behind the same ones, and have the same number for it: those of the first rank that
 * is read. Forward, backward and optimizer cannot be told apart.
 */
#include "profiler/import/rank_impl.h"

#include "base/array.h"
#include "base/stats.h"
#include "facts/coll.h"
#include "profiler/import/breakdown.h"
#include "profiler/import/period.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A collective or a kernel; or all of them that one call launched, as that of a CUDA graph. */
struct item {
    const struct lk_import_event *event; /* the first, in the list of events, which is by start */
    const struct lk_launch *launch;
    int64_t at_ns, done_ns; /* the host launched it; has launched it, or has run it */
    uint64_t key;
    size_t n;          /* of collectives or kernels */
    uint64_t sequence; /* of a collective: its number in the group; 0: not known */
    uint32_t group;
};

struct items {
    struct item *at;
    size_t n;
};

/* Mix a number into a key: FNV-1a's step, by words. */
static uint64_t mix(uint64_t key, uint64_t v)
{
    key = (key ^ v) * 0x100000001b3u;
    return key ^ key >> 29;
}

static int item_order(const void *a, const void *b)
{
    const struct item *x = a, *y = b;

    return x->at_ns != y->at_ns ? LK_ORDER(x->at_ns, y->at_ns) : LK_ORDER(x->event, y->event);
}

/* Add an event by when the host put it on the GPU, or did it itself. */
static void add_item(struct items *to, const struct lk_import_event *x,
                     const struct lk_launch *launch, uint64_t key)
{
    to->at[to->n++] = (struct item){
        .event = x,
        .launch = launch,
        .at_ns = launch ? launch->start_ns : x->start_ns,
        .done_ns = launch                 ? launch->start_ns + launch->length_ns
                   : lk_import_on_gpu_(x) ? x->start_ns
                                          : x->end_ns,
        .key = key,
        .n = 1,
    };
}

/* Put items in order, and make one of those that one call launched: between them is no time in
 * which a step could end. */
static void arrange(struct items *items)
{
    size_t n = 0;

    if (items->n)
        qsort(items->at, items->n, sizeof *items->at, item_order);
    for (size_t i = 0; i < items->n; i++) {
        struct item *x = &items->at[i], *last = n ? &items->at[n - 1] : NULL;

        if (last && x->done_ns < last->done_ns) /* of another thread */
            x->done_ns = last->done_ns;
        if (!last || !x->launch || x->launch != last->launch) {
            items->at[n++] = *x;
            continue;
        }
        last->key = mix(last->key, x->key);
        last->n++;
    }
    items->n = n;
}

/* ---- Lists ---- */

/* Return true for a kernel of the GPU. One without a launch, in a trace that has some, was launched
 * before the trace began: its place among the others is not known. */
static bool is_kernel(const struct trace_builder *tb, const struct lk_import_event *x,
                      bool communication)
{
    return x->kind == LK_EVENT_KERNEL && tb->e->lanes[x->lane].process == tb->device &&
           lk_event_is_communication(x, tb->communication) == communication &&
           (!tb->e->n_launches || lk_events_launch(tb->e, x));
}

static enum lk_status list_kernels(const struct trace_builder *tb, struct items *out)
{
    LK_PASS(lk_alloc(&out->at, tb->e->n_events, sizeof *out->at));
    for (size_t i = 0; i < tb->e->n_events; i++) {
        const struct lk_import_event *x = &tb->e->events[i];

        if (!is_kernel(tb, x, false))
            continue;
        add_item(out, x, lk_events_launch(tb->e, x), mix(1, x->name));
    }
    arrange(out);
    return LK_OK;
}

/* The functions that no step of data-parallel training is without. */
static bool reduces_gradients(const char *function)
{
    return !*function || lk_coll_is(function, LK_ALL_REDUCE) ||
           lk_coll_is(function, LK_REDUCE_SCATTER);
}

/* Return the kind of the host's events that tell its collectives: where none is timed, as in a dump
 * of Flight Recorder, the requests for them. */
static enum lk_event_kind kind_of_host(const struct trace_builder *tb)
{
    for (size_t i = 0; i < tb->e->n_events; i++)
        if (tb->e->events[i].kind == LK_EVENT_COLLECTIVE &&
            lk_import_of_host_(tb, &tb->e->events[i]))
            return LK_EVENT_COLLECTIVE;
    return LK_EVENT_ENQUEUE;
}

/* List the collectives. *sizes: all have one; *reduce: one of them may be of gradients. */
static enum lk_status list_collectives(const struct trace_builder *tb, struct items *out,
                                       bool *sizes, bool *reduce)
{
    const enum lk_event_kind of_host = kind_of_host(tb);
    struct hosts hosts = {0};
    enum lk_status st = LK_OK;

    *sizes = true;
    *reduce = false;
    LK_TRY(lk_import_find_hosts_(tb, &hosts));
    LK_TRY(lk_alloc(&out->at, tb->e->n_events, sizeof *out->at));
    for (size_t i = 0; i < tb->e->n_events; i++) {
        const struct lk_import_event *x = &tb->e->events[i];
        const struct lk_launch *launch = lk_events_launch(tb->e, x);
        struct lk_event_detail c;

        if (tb->by_host ? x->kind != of_host || !lk_import_of_host_(tb, x)
                        : !is_kernel(tb, x, true))
            continue;
        c = lk_import_about_(tb, &hosts, x, launch);
        *sizes = *sizes && c.elements > 0;
        *reduce = *reduce || reduces_gradients(lk_events_text(tb->e, c.function));
        add_item(out, x, launch,
                 mix(mix(mix(mix(1, c.function), c.group), c.elements),
                     c.dtype_known ? (uint64_t)c.dtype + 1 : 0));
        out->at[out->n - 1].sequence = c.sequence;
        out->at[out->n - 1].group = c.group;
    }
    arrange(out);
out:
    free(hosts.at);
    return st;
}

/* ---- The period ---- */

/* Return in *out a key a period, of the kernels that were launched in it. */
static enum lk_status kernels_of_periods(const struct trace_builder *tb, const struct items *items,
                                         const struct lk_period *p, uint64_t **out)
{
    struct items kernels = {0};
    enum lk_status st = LK_OK;
    size_t k = 0;

    LK_TRY(list_kernels(tb, &kernels));
    LK_TRY(lk_alloc(out, p->n, sizeof **out));
    while (k < kernels.n && kernels.at[k].at_ns < items->at[p->first].at_ns)
        k++;
    for (size_t i = 0; i < p->n; i++) {
        size_t next = p->first + (i + 1) * p->length;

        for (; k < kernels.n && (next >= items->n || kernels.at[k].at_ns < items->at[next].at_ns);
             k++)
            (*out)[i] = mix((*out)[i], kernels.at[k].key);
    }
out:
    free(kernels.at);
    return st;
}

/* Lengthen the period to that of the kernels in it. *confirmed: they have one. */
static enum lk_status check_kernels(const struct trace_builder *tb, const struct items *items,
                                    struct lk_period *p, bool *confirmed)
{
    struct lk_period of_kernels;
    enum lk_status st = LK_OK;
    uint64_t *keys = NULL;

    LK_TRY(kernels_of_periods(tb, items, p, &keys));
    *confirmed = lk_period_find(keys, p->n, &of_kernels);
    if (*confirmed) {
        p->length *= of_kernels.length;
        p->n /= of_kernels.length;
    }
out:
    free(keys);
    return st;
}

static enum lk_status find_period(const struct items *items, struct lk_period *out, bool *found)
{
    uint64_t *keys = NULL;

    *found = false;
    if (!items->n)
        return LK_OK;
    LK_PASS(lk_alloc(&keys, items->n, sizeof *keys));
    for (size_t i = 0; i < items->n; i++)
        keys[i] = items->at[i].key;
    *found = lk_period_find(keys, items->n, out);
    free(keys);
    return LK_OK;
}

/* ---- Steps ---- */

/* Move p->first to the item before the longest pause, by the median over periods. */
static enum lk_status end_at_pause(const struct items *items, struct lk_period *p)
{
    double *pauses = NULL, longest = -INFINITY;
    size_t last = 0;

    LK_PASS(lk_alloc(&pauses, p->n, sizeof *pauses));
    for (size_t i = 0; i < p->length; i++) {
        double median;

        for (size_t k = 0; k + 1 < p->n; k++) {
            const struct item *x = &items->at[p->first + i + k * p->length];

            pauses[k] = (double)(x[1].at_ns - x->done_ns);
        }
        median = lk_stats_median(pauses, p->n - 1);
        if (median > longest) {
            longest = median;
            last = i;
        }
    }
    free(pauses);
    p->first += last;
    return LK_OK;
}

/* Return how many of a period's items are in a group, at least 1. */
static uint64_t count_in_group(const struct items *items, const struct lk_period *p, uint32_t group)
{
    uint64_t n = 0;

    for (size_t i = 0; i < p->length; i++)
        n += items->at[p->first + i].group == group;
    return n ? n : 1;
}

/* Move p->first to the item behind which steps begin on the ranks that were read before; false: it
 * is not known, or not here. */
static bool end_as_others(const struct trace_builder *tb, const struct items *items,
                          struct lk_period *p)
{
    const struct lk_step_phase *phase = tb->o->phase;

    if (!phase || !phase->group)
        return false;
    for (size_t i = 0; i < p->length; i++) {
        const struct item *x = &items->at[p->first + i];

        if (x->sequence && x->sequence % phase->every == phase->at &&
            count_in_group(items, p, x->group) == phase->every &&
            !strcmp(lk_events_text(tb->e, x->group), phase->group)) {
            p->first += i;
            return true;
        }
    }
    return false;
}

/* Remember for other ranks behind which item steps begin. */
static enum lk_status note_phase(const struct trace_builder *tb, const struct items *items,
                                 const struct lk_period *p)
{
    const struct item *x = &items->at[p->first];
    struct lk_step_phase *phase = tb->o->phase;

    if (!phase || phase->group || !x->sequence)
        return LK_OK;
    phase->every = count_in_group(items, p, x->group);
    phase->at = x->sequence % phase->every;
    return lk_strdup(&phase->group, lk_events_text(tb->e, x->group));
}

/* Return the number of the step that an item ends, the k-th: all ranks have the same. */
static uint32_t number_of(const struct items *items, const struct lk_period *p,
                          const struct item *last, size_t k)
{
    return (uint32_t)(last->sequence ? last->sequence / count_in_group(items, p, last->group) : k);
}

/* Make steps: each from behind the last item of the one before to behind its own last one. */
static enum lk_status add_steps(struct trace_builder *tb, const struct items *items,
                                const struct lk_period *p)
{
    for (size_t k = 0; k + 1 < p->n; k++) {
        const struct item *before = &items->at[p->first + k * p->length];

        if (before[p->length].done_ns == before->done_ns) { /* what takes no time is no step */
            tb->steps.n = 0;
            return LK_OK;
        }
        LK_PASS(lk_import_add_range_(&tb->steps, before->done_ns, before[p->length].done_ns,
                                     number_of(items, p, &before[p->length], k)));
    }
    for (size_t i = 0; i < p->length; i++)
        tb->period += items->at[p->first + i].n;
    tb->forwards.n = tb->optimizers.n = 0;
    if (tb->steps.n)
        tb->end_ns = tb->steps.at[tb->steps.n - 1].end_ns;
    return LK_OK;
}

static bool is_from_host(const struct trace_builder *tb, const struct lk_import_event *x)
{
    const char *name = lk_events_text(tb->e, x->name);

    return x->kind == LK_EVENT_COPY && tb->e->lanes[x->lane].process == tb->device &&
           (strstr(name, "HtoD") || strstr(name, "HostToDevice")); /* ROCm's */
}

/*
 * Drop the steps unless the host copies something to the GPU in each of them, as it does a batch. A
 * model whose layers are alike repeats its kernels in every layer: these are no steps.
 */
static enum lk_status check_input(struct trace_builder *tb)
{
    size_t n = 0;
    bool *has;

    LK_PASS(lk_alloc(&has, tb->steps.n, sizeof *has));
    for (size_t i = 0; i < tb->e->n_events; i++) {
        const struct lk_import_event *x = &tb->e->events[i];
        const struct lk_launch *launch = lk_events_launch(tb->e, x);
        size_t step;

        if (!is_from_host(tb, x))
            continue;
        step = lk_import_step_at_(tb, launch ? launch->start_ns : x->start_ns);
        if (step != SIZE_MAX && !has[step]) {
            has[step] = true;
            n++;
        }
    }
    free(has);
    if (n < tb->steps.n)
        tb->steps.n = tb->period = 0;
    return LK_OK;
}

enum lk_status lk_import_steps_of_period_(struct trace_builder *tb)
{
    struct items items = {0};
    struct lk_period p;
    enum lk_status st = LK_OK;
    bool sizes = false, reduce = false, found, confirmed = true;

    LK_TRY(list_collectives(tb, &items, &sizes, &reduce));
    if (items.n) {
        LK_TRY(find_period(&items, &p, &found));
        if (found)
            LK_TRY(check_kernels(tb, &items, &p, &confirmed));
        found = found && reduce && (sizes || confirmed);
    } else {
        tb->of_kernels = true;
        free(items.at);
        items.at = NULL;
        LK_TRY(list_kernels(tb, &items));
        LK_TRY(find_period(&items, &p, &found));
    }
    if (found) {
        if (!end_as_others(tb, &items, &p))
            LK_TRY(end_at_pause(&items, &p));
        LK_TRY(note_phase(tb, &items, &p));
        LK_TRY(add_steps(tb, &items, &p));
    }
    if (tb->of_kernels)
        LK_TRY(check_input(tb));
out:
    free(items.at);
    return st;
}
