#include "profiler/import/preload_join.h"

#include "base/array.h"
#include "facts/foreign_file.h"

#include <stdlib.h>
#include <string.h>

/* By how much the plugin's times of work on a GPU may be off CUPTI's: an H200 showed up to 30 us.
 */
#define APART_NS 50000

/* A launch of a kernel of NCCL, or the end of a call, on a thread. */
struct item {
    uint32_t lane;
    bool is_call;
    int64_t at_ns;
    struct lk_import_event *event;
};

struct items {
    struct item *at;
    size_t n;
};

static int item_order(const void *a, const void *b)
{
    const struct item *x = a, *y = b;

    if (x->lane != y->lane)
        return x->lane < y->lane ? -1 : 1;
    if (x->at_ns != y->at_ns)
        return x->at_ns < y->at_ns ? -1 : 1;
    return x->is_call - y->is_call;
}

static bool is_of_plugin(const struct lk_import_event *x)
{
    return x->link & LK_FOREIGN_LINK_OF_NCCL;
}

static bool is_kernel_of_nccl(const struct lk_events *e, const struct lk_import_event *x)
{
    return x->kind == LK_EVENT_KERNEL && !is_of_plugin(x) &&
           strstr(lk_events_text(e, x->name), "nccl");
}

/* List launches and calls; *kernels: there is a kernel of NCCL. */
static enum lk_status list_items(const struct lk_events *e, struct items *out, bool *kernels)
{
    *kernels = false;
    LK_PASS(lk_alloc(&out->at, e->n_events + 1, sizeof *out->at));
    for (size_t i = 0; i < e->n_events; i++) {
        struct lk_import_event *x = &e->events[i];
        const struct lk_launch *launch;

        if (x->kind == LK_EVENT_ENQUEUE && x->detail && is_of_plugin(x))
            out->at[out->n++] = (struct item){x->lane, true, x->end_ns, x};
        if (!is_kernel_of_nccl(e, x))
            continue;
        *kernels = true;
        launch = lk_events_launch(e, x);
        if (launch)
            out->at[out->n++] = (struct item){launch->lane, false, launch->start_ns, x};
    }
    if (out->n)
        qsort(out->at, out->n, sizeof *out->at, item_order);
    return LK_OK;
}

/* Give a kernel what its n calls say. Of several, the elements are those of all where they do the
 * same; else they are not known. */
static enum lk_status describe(struct lk_events *e, struct lk_import_event *kernel,
                               const struct item *calls, size_t n)
{
    struct lk_event_detail all = e->details[calls[0].event->detail - 1];

    if (n == 1) {
        kernel->detail = calls[0].event->detail;
        return LK_OK;
    }
    for (size_t i = 1; i < n; i++) {
        const struct lk_event_detail *c = &e->details[calls[i].event->detail - 1];

        if (c->function != all.function || c->group != all.group || c->dtype != all.dtype ||
            c->dtype_known != all.dtype_known || !c->elements || !all.elements ||
            __builtin_add_overflow(all.elements, c->elements, &all.elements))
            all.elements = 0;
        if (c->function != all.function)
            all.function = 0;
    }
    return lk_events_detail(e, &all, &kernel->detail);
}

static enum lk_status join(struct lk_events *e, const struct items *items)
{
    for (size_t i = 0; i < items->n; i++) {
        const struct item *launch = &items->at[i];
        size_t n = 0;

        if (launch->is_call)
            continue;
        while (i + 1 + n < items->n && launch[1 + n].is_call && launch[1 + n].lane == launch->lane)
            n++;
        if (n)
            LK_PASS(describe(e, launch->event, launch + 1, n));
    }
    return LK_OK;
}

/* Add the kernels of NCCL that no thread's calls tell of, or else the plugin's work: by their
 * start, as events are. */
static enum lk_status list_work(struct lk_events *e, bool of_plugin, struct items *out)
{
    LK_PASS(lk_alloc(&out->at, e->n_events + 1, sizeof *out->at));
    for (size_t i = 0; i < e->n_events; i++) {
        struct lk_import_event *x = &e->events[i];

        if (of_plugin ? x->kind == LK_EVENT_KERNEL && is_of_plugin(x) && x->detail
                      : is_kernel_of_nccl(e, x) && !x->detail)
            out->at[out->n++] = (struct item){.event = x};
    }
    return LK_OK;
}

static bool holds(const struct lk_import_event *kernel, const struct lk_import_event *work)
{
    const int64_t middle = work->start_ns + (work->end_ns - work->start_ns) / 2;

    return middle >= kernel->start_ns - APART_NS && middle <= kernel->end_ns + APART_NS;
}

/* Join by time what NCCL launched on a thread of its own, as a non-blocking communicator does: the
 * work whose middle a kernel holds is the kernel's. pre: the kernels are of one stream, or few. */
static enum lk_status join_by_time(struct lk_events *e)
{
    struct items kernels = {0}, work = {0};
    enum lk_status st = LK_OK;
    size_t at = 0;

    LK_TRY(list_work(e, false, &kernels));
    LK_TRY(list_work(e, true, &work));
    for (size_t k = 0; k < kernels.n; k++) {
        struct lk_import_event *kernel = kernels.at[k].event;
        size_t n = 0;

        while (at < work.n && work.at[at].event->start_ns < kernel->start_ns &&
               !holds(kernel, work.at[at].event))
            at++;
        while (at + n < work.n && holds(kernel, work.at[at + n].event) &&
               (k + 1 == kernels.n || !holds(kernels.at[k + 1].event, work.at[at + n].event) ||
                n == 0))
            n++;
        if (n)
            LK_TRY(describe(e, kernel, work.at + at, n));
        at += n;
    }
out:
    free(kernels.at);
    free(work.at);
    return st;
}

/* Leave out what the plugin tells of work in the window. */
static void drop_plugins(struct lk_events *e)
{
    size_t n = 0;

    for (size_t i = 0; i < e->n_events; i++) {
        const struct lk_import_event *x = &e->events[i];

        if (x->kind != LK_EVENT_KERNEL || !is_of_plugin(x) || x->end_ns < e->window_start_ns ||
            x->start_ns > e->window_end_ns)
            e->events[n++] = *x;
    }
    e->n_events = n;
}

enum lk_status lk_preload_join(struct lk_events *e)
{
    struct items items = {0};
    enum lk_status st = LK_OK;
    bool kernels = false;

    lk_events_sort(e);
    LK_TRY(list_items(e, &items, &kernels));
    LK_TRY(join(e, &items));
    LK_TRY(join_by_time(e));
    if (kernels)
        drop_plugins(e);
out:
    free(items.at);
    return st;
}
