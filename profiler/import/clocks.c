#include "profiler/import/clocks.h"

#include "base/array.h"
#include "base/stats.h"
#include "facts/run_facts.h"
#include "profiler/import/step_match.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Return a time on t's clock, corrected for drift. */
static int64_t without_drift(const struct lk_trace *t, uint64_t at_ns)
{
    int64_t passed = (int64_t)(at_ns - t->base_local_ns);

    return (int64_t)at_ns + (int64_t)(t->clock.drift_ppb * 1e-9 * (double)passed);
}

/* Collect how much later than on `zero` collectives end on t, ns; both by number. */
static enum lk_status differences(const struct lk_trace *zero, const struct lk_trace *t,
                                  double **out, size_t *n)
{
    size_t at = 0, capacity = 0;

    for (size_t i = 0; i < t->n_spans; i++) {
        const struct lk_span *s = &t->spans[i].span;

        if (s->kind != LK_SPAN_COLLECTIVE)
            continue;
        /* Both lists are in the order of their numbers, but for numbers that one of them lacks. */
        while (at < zero->n_spans && (zero->spans[at].span.kind != LK_SPAN_COLLECTIVE ||
                                      zero->spans[at].span.seq < s->seq))
            at++;
        if (at == zero->n_spans)
            break;
        if (zero->spans[at].span.seq != s->seq || zero->spans[at].span.bytes != s->bytes)
            continue;
        LK_PASS(lk_array_grow(out, &capacity, *n + 1, sizeof **out));
        (*out)[(*n)++] =
            (double)(without_drift(t, s->end_ns) - (int64_t)zero->spans[at].span.end_ns);
    }
    return LK_OK;
}

/* Align t, of the source s, with the first trace, of the source `first`. */
static enum lk_status align(const struct lk_trace *zero, const struct lk_source *first,
                            struct lk_trace *t, const struct lk_source *s)
{
    enum lk_status st = LK_OK;
    double *late = NULL, median;
    size_t n = 0;

    t->clock.at_ns = t->base_local_ns;
    if (!isnan(first->clock.drift_ppb) && !isnan(s->clock.drift_ppb))
        t->clock.drift_ppb = s->clock.drift_ppb - first->clock.drift_ppb;
    if (!lk_run_info_value(&zero->info, LK_GROUPS_CONFIG_KEY)) /* else whose ends meet? */
        LK_TRY(differences(zero, t, &late, &n));
    t->clock.uncertainty_ns = LK_CLOCK_UNKNOWN_NS;
    if (n > 0) {
        median = lk_stats_median(late, n);
        for (size_t i = 0; i < n; i++)
            late[i] = fabs(late[i] - median);
        t->clock.offset_ns = -(int64_t)median;
        t->clock.uncertainty_ns = (uint64_t)lk_stats_quantile(late, n, 0.9);
    }
out:
    free(late);
    return st;
}

static bool share_clock(const struct lk_source *a, const struct lk_source *b)
{
    return a->clock.name && b->clock.name && !strcmp(a->clock.name, b->clock.name);
}

/* Fill clock[k]: the first rank that shares rank k's clock. */
static void find_clocks(const struct lk_source *const *sources, size_t n, size_t *clock)
{
    for (size_t k = 0; k < n; k++) {
        clock[k] = 0;
        while (clock[k] < k && !share_clock(sources[k], sources[clock[k]]))
            clock[k]++;
    }
}

enum lk_status lk_import_place(struct lk_trace *traces, const struct lk_source *const *sources,
                               size_t n, bool numbered)
{
    enum lk_status st = LK_OK;
    size_t *clock = NULL;

    LK_TRY(lk_alloc(&clock, n, sizeof *clock));
    find_clocks(sources, n, clock);
    if (!numbered)
        lk_import_match_steps(traces, n, clock);
    for (size_t k = 1; k < n; k++)
        if (clock[k] < k)
            traces[k].clock = traces[clock[k]].clock;
        else
            LK_TRY(align(&traces[0], sources[0], &traces[k], sources[k]));
out:
    free(clock);
    return st;
}
