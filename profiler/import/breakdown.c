#include "profiler/import/breakdown.h"

#include "base/array.h"

#include <stdlib.h>
#include <string.h>

/* ---- Names ---- */

/* NCCL's and RCCL's kernels. */
static bool is_nccl(const char *name)
{
    return strstr(name, "nccl") || strstr(name, "rccl");
}

static bool contains_any(const char *name, const char *patterns)
{
    for (const char *p = patterns; p && *p;) {
        size_t n = strcspn(p, ",");

        if (n > 0 && memmem(name, strlen(name), p, n))
            return true;
        p += n + (p[n] == ',');
    }
    return false;
}

enum lk_status lk_communication_names(const struct lk_events *e, const char *patterns, bool **out)
{
    LK_PASS(lk_alloc(out, e->n_names, sizeof **out));
    for (size_t i = 0; i < e->n_names; i++) {
        const char *name = lk_events_text(e, (uint32_t)i);

        (*out)[i] = is_nccl(name) || contains_any(name, patterns);
    }
    return LK_OK;
}

/* ---- Intervals ---- */

enum class { COMPUTE, COMM, MEMORY };

struct piece {
    int64_t start_ns, end_ns;
    enum class class;
};

struct pieces {
    struct piece *at;
    size_t n, capacity;
};

static int by_start(const void *a, const void *b)
{
    const struct piece *x = a, *y = b;

    return (x->start_ns > y->start_ns) - (x->start_ns < y->start_ns);
}

/* Return the length of the union of the pieces of the classes in `mask`, sorted by start. */
static int64_t union_ns(const struct pieces *p, unsigned mask)
{
    int64_t sum = 0, end = INT64_MIN;

    for (size_t i = 0; i < p->n; i++) {
        const struct piece *x = &p->at[i];
        int64_t from = x->start_ns > end ? x->start_ns : end;

        if (!(mask >> x->class & 1) || x->end_ns <= from)
            continue;
        sum += x->end_ns - from;
        end = x->end_ns;
    }
    return sum;
}

static enum lk_status collect(const struct lk_events *e, int64_t device,
                              const struct lk_convention *c, const bool *communication,
                              struct pieces *p, struct lk_breakdown *out)
{
    for (size_t i = 0; i < e->n_events; i++) {
        const struct lk_event *x = &e->events[i];
        bool linked;
        enum class class = MEMORY;

        if (x->kind > LK_EVENT_MEMSET || (device >= 0 && e->lanes[x->lane].process != device))
            continue;
        linked = lk_events_launch(e, x) != NULL;
        out->n_unlinked += !linked;
        if (c->linked && !linked)
            continue;
        if (x->kind == LK_EVENT_KERNEL)
            class = communication[x->name] ? COMM : COMPUTE;
        else if (x->kind == LK_EVENT_MEMSET && c->memset_is_compute)
            class = COMPUTE;
        LK_PASS(lk_array_grow(&p->at, &p->capacity, p->n + 1, sizeof *p->at));
        p->at[p->n++] = (struct piece){x->start_ns, x->end_ns, class};
    }
    return LK_OK;
}

enum lk_status lk_breakdown(const struct lk_events *e, int64_t device,
                            const struct lk_convention *convention, struct lk_breakdown *out)
{
    const unsigned compute = 1U << COMPUTE, comm = 1U << COMM, all = compute | comm | 1U << MEMORY;
    enum lk_status st = LK_OK;
    struct pieces p = {0};
    bool *communication = NULL;
    int64_t end = INT64_MIN;

    *out = (struct lk_breakdown){0};
    LK_TRY(lk_communication_names(e, convention->patterns, &communication));
    LK_TRY(collect(e, device, convention, communication, &p, out));
    if (p.n == 0)
        goto out;
    qsort(p.at, p.n, sizeof *p.at, by_start);
    for (size_t i = 0; i < p.n; i++)
        end = p.at[i].end_ns > end ? p.at[i].end_ns : end;
    out->n = p.n;
    out->span_ns = end - p.at[0].start_ns;
    out->idle_ns = out->span_ns - union_ns(&p, all);
    out->compute_ns = union_ns(&p, compute);
    out->comm_ns = union_ns(&p, comm);
    out->exposed_ns = union_ns(&p, compute | comm) - out->compute_ns;
out:
    free(p.at);
    free(communication);
    return st;
}
