/* Clock offsets from round trips. */
#include "base/clockfit.h"

#include <math.h>
#include <stdbool.h>

/* Two quartz clocks drift apart by less than this (parts per billion); NTP slews no faster. */
#define DRIFT_MAX_PPB 500000.0

/* Estimate from one moment's samples: the offset at a local time, and a bound of its error. */
struct moment {
    uint64_t at_ns;
    int64_t offset_ns;
    uint64_t uncertainty_ns;
};

/* Return true if it was received after it was sent and its times leave room for differences. */
static bool valid(const struct lk_clock_sample *s)
{
    return s->local_recv_ns >= s->local_send_ns && s->local_recv_ns <= INT64_MAX / 2 &&
           s->remote_ns <= INT64_MAX / 2;
}

static uint64_t round_trip(const struct lk_clock_sample *s)
{
    return s->local_recv_ns - s->local_send_ns;
}

static uint64_t middle(const struct lk_clock_sample *s)
{
    return s->local_send_ns + round_trip(s) / 2;
}

/* The valid sample with the shortest round trip, or NULL. */
static const struct lk_clock_sample *shortest(const struct lk_clock_sample *samples, size_t n)
{
    const struct lk_clock_sample *best = NULL;

    for (size_t i = 0; i < n; i++)
        if (valid(&samples[i]) && (!best || round_trip(&samples[i]) < round_trip(best)))
            best = &samples[i];
    return best;
}

/* Return the largest drift expected between two local times. */
static int64_t drift_allowance(uint64_t a_ns, uint64_t b_ns)
{
    uint64_t apart = a_ns > b_ns ? a_ns - b_ns : b_ns - a_ns;

    return (int64_t)ceil((double)apart * DRIFT_MAX_PPB * 1e-9);
}

/*
 * The reference read its clock between send and receive, so each sample bounds the offset: remote -
 * recv <= offset <= remote - send. All bounds hold, so the offset lies in their intersection. If
 * that is empty (a clock was set meanwhile), the shortest round trip is used and the contradiction
 * added to the uncertainty.
 */
static bool fit_moment(const struct lk_clock_sample *samples, size_t n, struct moment *out)
{
    const struct lk_clock_sample *best = shortest(samples, n);
    int64_t lo = INT64_MIN;
    int64_t hi = INT64_MAX;

    if (!best)
        return false;
    out->at_ns = middle(best);
    for (size_t i = 0; i < n; i++) {
        const struct lk_clock_sample *s = &samples[i];
        int64_t slack, low, high;

        if (!valid(s))
            continue;
        slack = drift_allowance(middle(s), out->at_ns);
        low = (int64_t)(s->remote_ns - s->local_recv_ns) - slack;
        high = (int64_t)(s->remote_ns - s->local_send_ns) + slack;
        if (low > lo)
            lo = low;
        if (high < hi)
            hi = high;
    }
    if (lo <= hi) {
        out->offset_ns = lo + (hi - lo) / 2;
        out->uncertainty_ns = (uint64_t)(hi - lo + 1) / 2;
    } else {
        out->offset_ns = (int64_t)(best->remote_ns - out->at_ns);
        out->uncertainty_ns = (round_trip(best) + 1) / 2 + (uint64_t)(lo - hi);
    }
    return true;
}

enum lk_status lk_clock_fit(const struct lk_clock_sample *start, size_t n_start,
                            const struct lk_clock_sample *end, size_t n_end,
                            struct lk_clock_fit *out)
{
    struct moment a;
    struct moment b;

    if (!fit_moment(start, n_start, &a))
        return lk_fail(LK_EEVIDENCE, "no round trip was measured");
    *out = (struct lk_clock_fit){
        .at_ns = a.at_ns, .offset_ns = a.offset_ns, .uncertainty_ns = a.uncertainty_ns};
    if (!fit_moment(end, n_end, &b) || b.at_ns <= a.at_ns)
        return LK_OK;
    out->drift_ppb = (double)(b.offset_ns - a.offset_ns) / (double)(b.at_ns - a.at_ns) * 1e9;
    if (b.uncertainty_ns > out->uncertainty_ns)
        out->uncertainty_ns = b.uncertainty_ns;
    return LK_OK;
}

uint64_t lk_clock_apply(const struct lk_clock_fit *f, uint64_t local_ns)
{
    double since = (double)(int64_t)(local_ns - f->at_ns);
    uint64_t shift = (uint64_t)f->offset_ns + (uint64_t)llround(f->drift_ppb * 1e-9 * since);

    if ((int64_t)shift < 0 && 0 - shift > local_ns)
        return 0;
    return local_ns + shift;
}
