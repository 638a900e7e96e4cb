#include "profiler/import/preload_gpu.h"

#include "base/array.h"
#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

/* %globaltimer is ns since 1970 or since the GPU's start. Times beyond are none, and sums of these
 * do not overflow: the year 2116, and 36 years since the host's start. */
#define GPU_MAX_NS  ((int64_t)1 << 62)
#define HOST_MAX_NS ((int64_t)1 << 60)

enum lk_status lk_preload_times_add(struct lk_preload_times *t, const struct lk_foreign_record *p)
{
    const bool seen = p->kind == LK_FOREIGN_COLLECTIVE_GPU && p->flags & LK_FOREIGN_SEEN;
    struct lk_preload_time x = {.link = p->link, .stamp = p->stamp, .group = p->group};

    if (!p->link || !(seen || p->kind == LK_FOREIGN_COLLECTIVE_CALL) || p->start_ns <= 0 ||
        p->end_ns < p->start_ns || p->end_ns > HOST_MAX_NS ||
        (seen && p->count > (uint64_t)GPU_MAX_NS))
        return LK_OK;
    if (seen) {
        x.gpu_ns = (int64_t)p->count;
        x.gpu_end_ns = x.gpu_ns + (p->end_ns - p->start_ns);
        x.seen_ns = p->end_ns;
    } else if (!(p->flags & LK_FOREIGN_GRAPH)) {
        x.called_ns = p->start_ns;
    }
    LK_PASS(lk_array_grow(&t->at, &t->capacity, t->n + 1, sizeof *t->at));
    t->at[t->n++] = x;
    return LK_OK;
}

/* ---- Joining ---- */

static int link_order(const void *a, const void *b)
{
    const struct lk_preload_time *x = a, *y = b;

    return x->link != y->link ? LK_ORDER(x->link, y->link) : LK_ORDER(x->stamp, y->stamp);
}

/* Work is recorded again when more of its channels have ended: the longest is the whole one. */
static void join(struct lk_preload_time *into, const struct lk_preload_time *x)
{
    if (x->called_ns)
        into->called_ns = x->called_ns;
    if (!x->seen_ns ||
        (into->seen_ns && x->gpu_end_ns - x->gpu_ns < into->gpu_end_ns - into->gpu_ns))
        return;
    into->gpu_ns = x->gpu_ns;
    into->gpu_end_ns = x->gpu_end_ns;
    into->seen_ns = x->seen_ns;
    into->stamp = x->stamp;
}

static void join_all(struct lk_preload_times *t)
{
    size_t n = 0;

    qsort(t->at, t->n, sizeof *t->at, link_order);
    for (size_t i = 0; i < t->n; i++)
        if (n > 0 && t->at[n - 1].link == t->at[i].link)
            join(&t->at[n - 1], &t->at[i]);
        else
            t->at[n++] = t->at[i];
    t->n = n;
}

/* ---- Placing ---- */

static int64_t second_of(const struct lk_preload_time *x)
{
    return x->seen_ns ? x->seen_ns / (int64_t)LK_NS_PER_S : -1;
}

static int second_order(const void *a, const void *b)
{
    const struct lk_preload_time *x = a, *y = b;

    return x->group != y->group ? LK_ORDER(x->group, y->group) : LK_ORDER(x->seen_ns, y->seen_ns);
}

/* Place n collectives of a communicator, seen in the same second. */
static void place(struct lk_preload_times *t, struct lk_preload_time *at, size_t n)
{
    int64_t least = INT64_MIN, most = INT64_MAX, distance; /* host minus GPU */

    for (size_t i = 0; i < n; i++) {
        if (at[i].called_ns && at[i].called_ns - at[i].gpu_ns > least)
            least = at[i].called_ns - at[i].gpu_ns;
        if (at[i].seen_ns - at[i].gpu_end_ns < most)
            most = at[i].seen_ns - at[i].gpu_end_ns;
    }
    if (least > INT64_MIN && least <= most) {
        distance = least + (most - least) / 2;
        if (t->error_ns >= 0 && (most - least) / 2 > t->error_ns)
            t->error_ns = (most - least) / 2;
    } else {
        distance = most;
        t->error_ns = -1;
    }
    for (size_t i = 0; i < n; i++) {
        at[i].start_ns = at[i].gpu_ns + distance;
        at[i].end_ns = at[i].gpu_end_ns + distance;
    }
}

void lk_preload_times_place(struct lk_preload_times *t)
{
    size_t first = 0;

    if (!t->n)
        return;
    join_all(t);
    qsort(t->at, t->n, sizeof *t->at, second_order);
    while (first < t->n) {
        size_t n = 1;

        while (first + n < t->n && t->at[first + n].group == t->at[first].group &&
               second_of(&t->at[first + n]) == second_of(&t->at[first]))
            n++;
        if (t->at[first].seen_ns)
            place(t, &t->at[first], n);
        first += n;
    }
    qsort(t->at, t->n, sizeof *t->at, link_order);
}

struct lk_preload_time *lk_preload_times_of(const struct lk_preload_times *t, uint64_t link)
{
    size_t lo;

    LK_BISECT(lo, t->n, t->at[lo].link < link);
    return link && lo < t->n && t->at[lo].link == link ? &t->at[lo] : NULL;
}

void lk_preload_times_fini(struct lk_preload_times *t)
{
    free(t->at);
    *t = (struct lk_preload_times){0};
}
