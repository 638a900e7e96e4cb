/* When collectives were being issued; see the header. */
#include "profiler/cupti_turns.h"

#include "base/array.h"

#include <stdlib.h>

enum lk_status lk_cupti_turns_init(struct lk_cupti_turns *t)
{
    atomic_init(&t->n, 0);
    return lk_alloc(&t->ring, LK_CUPTI_TURNS, sizeof *t->ring);
}

void lk_cupti_turns_fini(struct lk_cupti_turns *t)
{
    free(t->ring);
    t->ring = NULL;
}

static struct lk_cupti_turn *turn_of(const struct lk_cupti_turns *t, uint64_t i)
{
    return &t->ring[i & (LK_CUPTI_TURNS - 1)];
}

void lk_cupti_turns_begin(struct lk_cupti_turns *t, uint64_t now_ns, uint64_t id)
{
    uint64_t n = atomic_load(&t->n);
    struct lk_cupti_turn *turn = turn_of(t, n);
    uint64_t last_ns = n > 0 ? atomic_load(&turn_of(t, n - 1)->begin_ns) : 0;

    atomic_store(&turn->end_ns, 0);
    atomic_store(&turn->begin_ns, now_ns < last_ns ? last_ns : now_ns);
    atomic_store(&turn->id, id);
    atomic_store(&t->n, n + 1);
}

void lk_cupti_turns_end(struct lk_cupti_turns *t, uint64_t now_ns)
{
    uint64_t n = atomic_load(&t->n);

    if (n > 0)
        atomic_store(&turn_of(t, n - 1)->end_ns, now_ns);
}

/* Turns below this one may be written over at any time. */
static uint64_t oldest(uint64_t n)
{
    return n < LK_CUPTI_TURNS ? 0 : n - LK_CUPTI_TURNS + 1;
}

enum lk_cupti_found lk_cupti_turns_find(const struct lk_cupti_turns *t, uint64_t at_ns,
                                        uint64_t *id)
{
    const uint64_t n = atomic_load(&t->n), first = oldest(n);
    uint64_t lo = first, hi = n, end_ns, found;

    /* lo: the first turn that began after at_ns. */
    while (lo < hi) {
        uint64_t mid = lo + (hi - lo) / 2;

        if (atomic_load(&turn_of(t, mid)->begin_ns) <= at_ns)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo == first) /* before all that are kept */
        return oldest(atomic_load(&t->n)) == 0 ? LK_CUPTI_BETWEEN : LK_CUPTI_FORGOTTEN;
    end_ns = atomic_load(&turn_of(t, lo - 1)->end_ns);
    found = atomic_load(&turn_of(t, lo - 1)->id);
    if (lo - 1 < oldest(atomic_load(&t->n))) /* written over meanwhile */
        return LK_CUPTI_FORGOTTEN;
    if (end_ns != 0 && at_ns > end_ns)
        return LK_CUPTI_BETWEEN;
    *id = found;
    return LK_CUPTI_WITHIN;
}
