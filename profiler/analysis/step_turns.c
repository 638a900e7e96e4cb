/* Who is slowest in each step; see profiler/analysis/step_turns.h. */
#include "profiler/analysis/step_turns.h"

#include "base/array.h"
#include "base/stats.h"

#include <math.h>
#include <stdlib.h>

double lk_share_of_one(size_t n)
{
    return fmin(2.0 / (double)n, 0.75);
}

bool lk_is_persistent(size_t last, size_t steps, size_t n)
{
    return (double)n * lk_stats_binomial_tail(last, steps, 1 / (double)n) < 0.01;
}

/* The two slowest ranks of a step. */
struct slowest {
    size_t at; /* index; the first of equal ones */
    double first_s, second_s, sum_s;
};

/* Read the columns of the table by rows, as they lie: the slowest of each step become known
 * together. A step with a time that is not known has the sum NaN. */
static void find_slowest(const struct lk_step_times *t, struct slowest *steps)
{
    for (size_t k = 0; k < t->n_ranks; k++)
        for (size_t i = 0; i < t->n_steps; i++) {
            struct slowest *s = &steps[i];
            double own = t->own_s[k * t->n_steps + i];

            s->sum_s += own;
            if (own > s->first_s || !k) {
                s->second_s = k ? s->first_s : 0;
                s->first_s = own;
                s->at = k;
            } else if (own > s->second_s) {
                s->second_s = own;
            }
        }
}

/* Sum what the steps cost, and whom; then mean over the steps that count. */
static void sum_steps(const struct lk_step_times *t, const struct slowest *steps,
                      struct lk_turns *out)
{
    for (size_t i = 0; i < t->n_steps; i++) {
        struct lk_turns_rank *r = &out->ranks[steps[i].at];

        if (isnan(steps[i].sum_s))
            continue;
        out->n_steps++;
        out->step_s += steps[i].first_s;
        out->mean_s += steps[i].sum_s / (double)t->n_ranks;
        r->last++;
        r->cost_s += steps[i].first_s - steps[i].second_s;
    }
    for (size_t k = 0; k < t->n_ranks; k++) {
        struct lk_turns_rank *r = &out->ranks[k];

        r->at = k;
        for (size_t i = 0; i < t->n_steps; i++)
            r->mean_s += isnan(steps[i].sum_s) ? 0 : t->own_s[k * t->n_steps + i];
        r->mean_s /= (double)out->n_steps;
        r->cost_s /= (double)out->n_steps;
        r->persistent = (double)r->last >= lk_share_of_one(t->n_ranks) * (double)out->n_steps &&
                        lk_is_persistent(r->last, out->n_steps, t->n_ranks);
        out->n_persistent += r->persistent;
    }
    out->step_s /= (double)out->n_steps;
    out->mean_s /= (double)out->n_steps;
}

static int by_blame(const void *a, const void *b)
{
    const struct lk_turns_rank *x = a, *y = b;

    if (x->persistent != y->persistent)
        return x->persistent ? -1 : 1;
    if (x->mean_s != y->mean_s)
        return x->mean_s > y->mean_s ? -1 : 1;
    return (x->at > y->at) - (x->at < y->at);
}

/* Compute the mean step of the ranks that are not persistently slow. */
static enum lk_status without(const struct lk_step_times *t, const struct slowest *steps,
                              struct lk_turns *out)
{
    double *most = NULL;

    LK_PASS(lk_alloc(&most, t->n_steps, sizeof *most));
    for (size_t k = out->n_persistent; k < t->n_ranks; k++)
        for (size_t i = 0; i < t->n_steps; i++)
            most[i] = fmax(most[i], t->own_s[out->ranks[k].at * t->n_steps + i]);
    for (size_t i = 0; i < t->n_steps; i++)
        out->without_s += isnan(steps[i].sum_s) ? 0 : most[i];
    out->without_s /= (double)out->n_steps; /* as step_s, which it is if none is left out */
    free(most);
    return LK_OK;
}

enum lk_status lk_turns_of(const struct lk_step_times *t, struct lk_turns *out)
{
    enum lk_status st = LK_OK;
    struct slowest *steps = NULL;
    double *means = NULL;

    *out = (struct lk_turns){.n_ranks = t->n_ranks};
    LK_TRY(lk_alloc(&out->ranks, t->n_ranks, sizeof *out->ranks));
    LK_TRY(lk_alloc(&steps, t->n_steps, sizeof *steps));
    LK_TRY(lk_alloc(&means, t->n_ranks, sizeof *means));
    find_slowest(t, steps);
    sum_steps(t, steps, out);
    if (!out->n_steps)
        LK_TRY(lk_fail(LK_EEVIDENCE, "none of the %zu steps has the times of all %zu ranks",
                       t->n_steps, t->n_ranks));
    for (size_t k = 0; k < t->n_ranks; k++)
        means[k] = out->ranks[k].mean_s;
    out->median_s = lk_stats_median(means, t->n_ranks);
    qsort(out->ranks, t->n_ranks, sizeof *out->ranks, by_blame);
    st = without(t, steps, out);
out:
    free(steps);
    free(means);
    if (st != LK_OK)
        lk_turns_fini(out);
    return st;
}

void lk_turns_fini(struct lk_turns *t)
{
    free(t->ranks);
    *t = (struct lk_turns){0};
}
