/*
 * Lateness of the last rank at a collective: what is its own, and what it inherited.
 *
 * A rank may be the last because it worked longer, or because the collective before, or the step
 * before, ended later on it than on others, as behind a slow link. Arrival tells only the sum. A
 * rank's own time until collective k of a step, a duration by one clock, is
 *
 *     own(r,k) = ready - begin of the step - (time before `ready` in collectives, exposed)
 *              + arrival - due
 *
 * Of the lateness as much is own as the last rank's own time exceeds the others' lower median; the
 * rest is inherited.
 */
#include "base/array.h"
#include "base/stats.h"
#include "profiler/analysis/analysis_impl.h"

#include <math.h>
#include <stdlib.h>

/* Return a rank's own time until collective m, ns. *exposed: of the collectives before it in the
 * step, ns, to which this one is added; 0 at the first. */
static double own_ns(const struct lk_analysis *a, size_t rank,
                     const struct lk_analysis_collective *m, double *exposed)
{
    const struct lk_rank_steps *r = &a->run->ranks[rank];
    const struct lk_step *p = lk_rank_step(r, a->run->steps[m->step]);
    const struct lk_collective *x = lk_collective_of_(a, rank, m);
    uint64_t ready = x->ready_ns && x->ready_ns < x->due_ns ? x->ready_ns : x->due_ns;
    uint64_t before = m->index ? (x - 1)->end_ns : 0;
    double waited = *exposed;

    if (m->index && before > ready) /* the one before still runs: of it only what is past */
        waited -= (double)(before - ready) - (double)lk_step_compute_ns(r, p, ready, before);
    *exposed +=
        (double)(x->end_ns - x->due_ns) - (double)lk_step_compute_ns(r, p, x->due_ns, x->end_ns);
    return (double)ready - (double)p->begin_ns - fmax(0, waited) +
           (double)(x->arrival_ns - x->due_ns);
}

static int number_order(const void *a, const void *b)
{
    const double *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

/* Return the lower median of the ranks' times but one rank's; sorts them. */
static double median_of_others(double *at, size_t n, size_t but)
{
    at[but] = at[n - 1];
    qsort(at, n - 1, sizeof *at, number_order);
    return at[(n - 2) / 2];
}

/* Sum by how much later than on the first rank collectives end on each. */
static void add_ends(const struct lk_analysis *a, const struct lk_analysis_collective *m,
                     double *ends)
{
    uint64_t first = UINT64_MAX;

    for (size_t k = 0; k < a->run->n; k++) {
        const struct lk_collective *x = lk_collective_of_(a, k, m);

        first = x->end_ns < first ? x->end_ns : first;
    }
    for (size_t k = 0; k < a->run->n; k++)
        ends[k] +=
            lk_ns_to_s_(lk_collective_of_(a, k, m)->end_ns - first) / (double)a->n_collectives;
}

static void set_ends(struct lk_analysis *a, const double *ends)
{
    for (size_t k = 1; k < a->run->n; k++) {
        a->late.last_end = ends[k] > ends[a->late.last_end] ? k : a->late.last_end;
        a->late.first_end = ends[k] < ends[a->late.first_end] ? k : a->late.first_end;
    }
    a->late.ends_apart_s = ends[a->late.last_end] - ends[a->late.first_end];
}

enum lk_status lk_analysis_lateness_(struct lk_analysis *a)
{
    size_t n = a->run->n;
    enum lk_status st = LK_OK;
    double *own = NULL, *exposed = NULL, *ends = NULL;

    a->late = (struct lk_analysis_lateness){.ends_apart_s = NAN};
    if (n < 2 || lk_run_is_grouped(a->run))
        return LK_OK;
    LK_TRY(lk_alloc(&own, n, sizeof *own));
    LK_TRY(lk_alloc(&exposed, n, sizeof *exposed));
    LK_TRY(lk_alloc(&ends, n, sizeof *ends));
    for (size_t i = 0; i < a->n_collectives; i++) {
        struct lk_analysis_collective *m = &a->collectives[i];
        double late;

        for (size_t k = 0; k < n; k++) {
            exposed[k] = m->index ? exposed[k] : 0;
            own[k] = own_ns(a, k, m, &exposed[k]);
        }
        add_ends(a, m, ends);
        if (!m->resolved)
            continue;
        late = own[m->late_rank];
        late -= median_of_others(own, n, (size_t)m->late_rank);
        m->own_ns = (uint64_t)fmin(fmax(late, 0), (double)m->late_by_ns);
        a->ranks[m->late_rank].own_late_s += lk_ns_to_s_(m->own_ns);
        a->late.lag_s += lk_ns_to_s_(m->late_by_ns);
        a->late.own_s += lk_ns_to_s_(m->own_ns);
    }
    for (size_t k = 0; k < n; k++)
        if (a->ranks[k].n_late)
            a->ranks[k].own_late_s /= (double)a->ranks[k].n_late;
    if (a->aligned)
        set_ends(a, ends);
out:
    free(own);
    free(exposed);
    free(ends);
    return st;
}
