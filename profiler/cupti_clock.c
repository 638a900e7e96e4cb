/* CUPTI's clock mapped to ours; see the header. */
#include "profiler/cupti_clock.h"

#include "base/clock.h"

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
