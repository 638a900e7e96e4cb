#include "profiler/import/step_match.h"

#include "facts/run_facts.h"

#include <math.h>

const struct lk_span *lk_import_first_step(const struct lk_trace *t)
{
    const struct lk_span *first = NULL;

    for (size_t i = 0; i < t->n_spans; i++) {
        const struct lk_span *s = &t->spans[i].span;

        if (s->kind == LK_SPAN_STEP && (!first || s->step < first->step))
            first = s;
    }
    return first;
}

uint64_t lk_import_start_ns(const struct lk_trace *t, const struct lk_span *s)
{
    return t->base_epoch_ns - t->base_local_ns + s->start_ns;
}

/* Return the step of a trace whose start is nearest to a time by the wall clock, if it is nearer
 * than a part of its length; else NULL. */
static const struct lk_span *step_at(const struct lk_trace *t, uint64_t at_ns)
{
    const double NEARLY = 0.25;
    const struct lk_span *nearest = NULL;
    double apart = INFINITY;

    for (size_t i = 0; i < t->n_spans; i++) {
        const struct lk_span *s = &t->spans[i].span;
        double ns = fabs((double)(int64_t)(lk_import_start_ns(t, s) - at_ns));

        if (s->kind == LK_SPAN_STEP && ns < apart) {
            apart = ns;
            nearest = s;
        }
    }
    return nearest && apart < NEARLY * (double)(nearest->end_ns - nearest->start_ns) ? nearest
                                                                                     : NULL;
}

/* Give a rank the numbers of the steps of another one that began at the same times. */
static void take_numbers(struct lk_trace *t, const struct lk_trace *with)
{
    const struct lk_span *first = lk_import_first_step(t);
    const struct lk_span *same = first ? step_at(with, lk_import_start_ns(t, first)) : NULL;
    const uint32_t n = same ? same->step - first->step : 0;

    for (size_t i = 0; i < t->n_spans; i++) {
        struct lk_span *s = &t->spans[i].span;

        if (s->step == LK_SPAN_STEP_UNKNOWN)
            continue;
        s->step += n;
        s->seq += s->kind == LK_SPAN_COLLECTIVE ? n << 16 : 0; /* its step, and its place there */
    }
}

/* Return whether a rank began to record before another one. */
static bool is_earlier(const struct lk_trace *a, const struct lk_trace *b)
{
    const struct lk_span *x = lk_import_first_step(a), *y = lk_import_first_step(b);

    return x && (!y || lk_import_start_ns(a, x) < lk_import_start_ns(b, y));
}

void lk_import_match_steps(struct lk_trace *traces, size_t n, const size_t *clock)
{
    for (size_t c = 0; c < n; c++) {
        size_t base = c;

        if (clock[c] != c)
            continue;
        for (size_t k = c; k < n; k++)
            if (clock[k] == c && is_earlier(&traces[k], &traces[base]))
                base = k;
        for (size_t k = c; k < n; k++)
            if (clock[k] == c && k != base &&
                lk_run_info_value(&traces[k].info, LK_PERIOD_CONFIG_KEY))
                take_numbers(&traces[k], &traces[base]);
    }
}
