/* CUPTI's clock mapped to ours, and the issue windows of collectives; see the header. */
#include "profiler/record/cupti_clock.h"

#include "base/array.h"
#include "base/clock.h"

#include <stdlib.h>

/* ---- CUPTI's clock ---- */

/* A steered clock changes its rate by less than STEERED_MAX, and a reading of both clocks errs by
 * less than READING_NS, even if the host is interrupted. A larger difference is a set clock. */
static const double STEERED_MAX = 1e-3;
#define READING_NS LK_NS_PER_MS
#define APART_NS   LK_NS_PER_S

static int64_t ahead_ns(const struct lk_cupti_clock *c, size_t i)
{
    return (int64_t)(c->points[i].ours_ns - c->points[i].theirs_ns);
}

static void note_jump(struct lk_cupti_clock *c, size_t i)
{
    int64_t by = ahead_ns(c, i) - ahead_ns(c, i - 1);
    uint64_t size = by < 0 ? (uint64_t)-by : (uint64_t)by;
    double steered = STEERED_MAX * (double)(c->points[i].ours_ns - c->points[i - 1].ours_ns);

    if (size > READING_NS + (uint64_t)steered && size > c->jump_ns)
        c->jump_ns = size;
}

/* Remove every other point, but keep the first and the last. */
static void thin(struct lk_cupti_clock *c)
{
    size_t kept = 1;

    for (size_t i = 2; i + 1 < c->n; i += 2)
        c->points[kept++] = c->points[i];
    c->points[kept++] = c->points[c->n - 1];
    c->n = kept;
    c->apart_ns *= 2;
}

void lk_cupti_clock_add(struct lk_cupti_clock *c, uint64_t theirs_ns, uint64_t ours_ns)
{
    if (c->n == 0)
        c->apart_ns = APART_NS;
    if (c->n == LK_CUPTI_POINTS)
        thin(c);
    if (c->n < 2 || c->points[c->n - 1].ours_ns - c->points[c->n - 2].ours_ns >= c->apart_ns)
        c->n++;
    c->points[c->n - 1].theirs_ns = theirs_ns;
    c->points[c->n - 1].ours_ns = ours_ns;
    if (c->n > 1)
        note_jump(c, c->n - 1);
}

uint64_t lk_cupti_clock_ours_ns(const struct lk_cupti_clock *c, uint64_t theirs_ns)
{
    size_t i = c->n - 1;
    double share;

    while (i > 0 && c->points[i - 1].theirs_ns > theirs_ns)
        i--;
    if (i == 0 || theirs_ns >= c->points[i].theirs_ns)
        return theirs_ns + (uint64_t)ahead_ns(c, i);
    share = (double)(theirs_ns - c->points[i - 1].theirs_ns) /
            (double)(c->points[i].theirs_ns - c->points[i - 1].theirs_ns);
    return theirs_ns + (uint64_t)ahead_ns(c, i - 1) +
           (uint64_t)(int64_t)(share * (double)(ahead_ns(c, i) - ahead_ns(c, i - 1)));
}

/* ---- Issue windows ---- */

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

static enum lk_issue_found find_once(const struct lk_issue_windows *t, uint64_t n, uint64_t at_ns,
                                     uint64_t *id)
{
    const uint64_t first = oldest(n);
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

enum lk_issue_found lk_issue_windows_find(const struct lk_issue_windows *t, uint64_t at_ns,
                                          uint64_t *id)
{
    enum { TRIES = 8 };
    enum lk_issue_found found = LK_ISSUE_FORGOTTEN;
    uint64_t n = 0, now = atomic_load(&t->n);

    /* A window that was overwritten during a search sends it to older ones, though the one that it
     * looks for is kept. */
    for (int tries = 0; tries < TRIES && found == LK_ISSUE_FORGOTTEN && (!tries || n != now);
         tries++) {
        n = now;
        found = find_once(t, n, at_ns, id);
        now = atomic_load(&t->n);
    }
    return found;
}
