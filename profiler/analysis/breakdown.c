/* Sum up what a device did of a time; see the header. */
#include "profiler/analysis/breakdown.h"

#include "base/array.h"

#include <math.h>
#include <stdlib.h>

static int by_start(const void *a, const void *b)
{
    const struct lk_used *x = a, *y = b;

    return (x->start_ns > y->start_ns) - (x->start_ns < y->start_ns);
}

/* Return the length of the union of the intervals of the uses in `mask`, sorted by start. */
static int64_t union_ns(const struct lk_uses *u, unsigned mask)
{
    int64_t sum = 0, end = INT64_MIN;

    for (size_t i = 0; i < u->n; i++) {
        const struct lk_used *x = &u->at[i];
        int64_t from = x->start_ns > end ? x->start_ns : end;

        if (!(mask >> x->use & 1) || x->end_ns <= from)
            continue;
        sum += x->end_ns - from;
        end = x->end_ns;
    }
    return sum;
}

enum lk_status lk_uses_add(struct lk_uses *u, enum lk_use use, int64_t start_ns, int64_t end_ns)
{
    LK_PASS(lk_array_grow(&u->at, &u->capacity, u->n + 1, sizeof *u->at));
    u->at[u->n++] = (struct lk_used){start_ns, end_ns, use};
    return LK_OK;
}

void lk_uses_fini(struct lk_uses *u)
{
    free(u->at);
    *u = (struct lk_uses){0};
}

struct lk_breakdown lk_uses_sum(struct lk_uses *u)
{
    const unsigned compute = 1U << LK_USE_COMPUTE, comm = 1U << LK_USE_COMMUNICATION;
    struct lk_breakdown b = {.n = u->n, .comm_alone = u->n > 0};
    int64_t end = INT64_MIN;

    if (!u->n)
        return b;
    qsort(u->at, u->n, sizeof *u->at, by_start);
    for (size_t i = 0; i < u->n; i++) {
        end = u->at[i].end_ns > end ? u->at[i].end_ns : end;
        b.comm_alone = b.comm_alone && u->at[i].use == LK_USE_COMMUNICATION;
    }
    b.span_ns = end - u->at[0].start_ns;
    b.idle_ns = b.span_ns - union_ns(u, compute | comm | 1U << LK_USE_MEMORY);
    b.compute_ns = union_ns(u, compute);
    b.comm_ns = union_ns(u, comm);
    b.exposed_ns = union_ns(u, compute | comm) - b.compute_ns;
    return b;
}

double lk_breakdown_s(const struct lk_breakdown *b, int64_t ns)
{
    return b->n ? 1e-9 * (double)ns : NAN;
}

double lk_breakdown_own_s(const struct lk_breakdown *b, int64_t ns)
{
    return b->comm_alone ? NAN : lk_breakdown_s(b, ns);
}

double lk_breakdown_overlap(const struct lk_breakdown *b)
{
    return b->comm_ns > 0 && !b->comm_alone ? 1 - (double)b->exposed_ns / (double)b->comm_ns : NAN;
}
