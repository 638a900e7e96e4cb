/* Issue windows of collectives; see the header. */
#include "profiler/issue_windows.h"

#include "base/array.h"

#include <stdlib.h>

enum lk_status lk_issue_windows_init(struct lk_issue_windows *t)
{
    atomic_init(&t->n, 0);
    return lk_alloc(&t->ring, LK_ISSUE_WINDOWS, sizeof *t->ring);
}

void lk_issue_windows_fini(struct lk_issue_windows *t)
{
    free(t->ring);
    t->ring = NULL;
}

static struct lk_issue_window *window_at(const struct lk_issue_windows *t, uint64_t i)
{
    return &t->ring[i & (LK_ISSUE_WINDOWS - 1)];
}

void lk_issue_windows_begin(struct lk_issue_windows *t, uint64_t now_ns, uint64_t id)
{
    uint64_t n = atomic_load(&t->n);
    struct lk_issue_window *window = window_at(t, n);
    uint64_t last_ns = n > 0 ? atomic_load(&window_at(t, n - 1)->begin_ns) : 0;

    atomic_store(&window->end_ns, 0);
    atomic_store(&window->begin_ns, now_ns < last_ns ? last_ns : now_ns);
    atomic_store(&window->id, id);
    atomic_store(&t->n, n + 1);
}

void lk_issue_windows_end(struct lk_issue_windows *t, uint64_t now_ns)
{
    uint64_t n = atomic_load(&t->n);

    if (n > 0)
        atomic_store(&window_at(t, n - 1)->end_ns, now_ns);
}

/* Return the oldest window that is safe to read: earlier ones may be overwritten at any time. */
static uint64_t oldest(uint64_t n)
{
    return n < LK_ISSUE_WINDOWS ? 0 : n - LK_ISSUE_WINDOWS + 1;
}

enum lk_issue_found lk_issue_windows_find(const struct lk_issue_windows *t, uint64_t at_ns,
                                          uint64_t *id)
{
    const uint64_t n = atomic_load(&t->n), first = oldest(n);
    uint64_t lo = first, hi = n, end_ns, found;

    /* lo: the first window that began after at_ns. */
    while (lo < hi) {
        uint64_t mid = lo + (hi - lo) / 2;

        if (atomic_load(&window_at(t, mid)->begin_ns) <= at_ns)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo == first) /* before all windows that are kept */
        return oldest(atomic_load(&t->n)) == 0 ? LK_ISSUE_BETWEEN : LK_ISSUE_FORGOTTEN;
    end_ns = atomic_load(&window_at(t, lo - 1)->end_ns);
    found = atomic_load(&window_at(t, lo - 1)->id);
    if (lo - 1 < oldest(atomic_load(&t->n))) /* overwritten meanwhile */
        return LK_ISSUE_FORGOTTEN;
    if (end_ns != 0 && at_ns > end_ns)
        return LK_ISSUE_BETWEEN;
    *id = found;
    return LK_ISSUE_WITHIN;
}
