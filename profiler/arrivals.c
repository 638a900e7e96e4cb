/* Match collectives across ranks, and average them by bucket. */
#include "profiler/analysis_impl.h"

#include "base/array.h"
#include "base/stats.h"

#include <math.h>
#include <stdlib.h>

static const struct lk_step *step_of(const struct lk_analysis *a, size_t rank, size_t step)
{
    return lk_rank_step(&a->run->ranks[rank], a->run->steps[step]);
}

static const struct lk_collective *collective_of(const struct lk_analysis *a, size_t rank,
                                                 const struct lk_analysis_collective *m)
{
    return &a->run->ranks[rank].collectives[step_of(a, rank, m->step)->first_collective + m->index];
}

/* ---- Collectives ---- */

/* Compute begin(k) and wire(k) on the common clock, and who was late. */
static void time_on_common_clock(struct lk_analysis *a, size_t i)
{
    struct lk_analysis_collective *m = &a->collectives[i];
    uint64_t last = 0, before = 0, end = 0;
    size_t late = 0, second = 0;

    for (size_t k = 0; k < a->run->n; k++) {
        const struct lk_collective *x = collective_of(a, k, m);

        if (!k || x->arrival_ns > last) {
            before = last;
            second = late;
            last = x->arrival_ns;
            late = k;
        } else if (k == 1 || x->arrival_ns > before) {
            before = x->arrival_ns;
            second = k;
        }
        end = x->end_ns > end ? x->end_ns : end;
    }
    for (size_t k = 0; k < a->run->n; k++)
        a->begin_ns[k * a->n_collectives + i] = last;
    m->wire_ns = end > last ? end - last : 0;
    if (a->run->n < 2)
        return;
    m->late_rank = (int)late;
    m->late_by_ns = last - before;
    m->resolved =
        m->late_by_ns > a->run->ranks[late].uncertainty_ns + a->run->ranks[second].uncertainty_ns;
}

/* Estimate them from durations alone: the rank with the shortest collective came last. */
static void time_by_duration(struct lk_analysis *a, size_t i)
{
    struct lk_analysis_collective *m = &a->collectives[i];
    uint64_t shortest = UINT64_MAX, second = UINT64_MAX;

    for (size_t k = 0; k < a->run->n; k++) {
        const struct lk_collective *x = collective_of(a, k, m);
        uint64_t duration = x->end_ns - x->arrival_ns;

        if (duration < shortest) {
            second = shortest;
            shortest = duration;
            m->late_rank = (int)k;
        } else if (duration < second) {
            second = duration;
        }
    }
    for (size_t k = 0; k < a->run->n; k++)
        a->begin_ns[k * a->n_collectives + i] = collective_of(a, k, m)->end_ns - shortest;
    m->wire_ns = shortest;
    m->late_by_ns = second - shortest;
    m->resolved = m->late_by_ns > 0;
}

enum lk_status lk_analysis_arrivals_(struct lk_analysis *a)
{
    enum lk_status st = LK_OK;
    const struct lk_run *run = a->run;

    a->aligned = true;
    for (size_t k = 0; k < run->n; k++)
        a->aligned = a->aligned && run->ranks[k].uncertainty_ns < LK_CLOCK_UNKNOWN_NS;
    LK_TRY(lk_alloc(&a->first_collective, run->n_steps + 1, sizeof *a->first_collective));
    for (size_t s = 0; s < run->n_steps; s++)
        a->first_collective[s + 1] = a->first_collective[s] + step_of(a, 0, s)->n_collectives;
    a->n_collectives = a->first_collective[run->n_steps];
    LK_TRY(lk_alloc(&a->collectives, a->n_collectives, sizeof *a->collectives));
    LK_TRY(lk_alloc(&a->begin_ns, a->n_collectives * run->n, sizeof *a->begin_ns));
    for (size_t s = 0; s < run->n_steps; s++)
        for (size_t i = a->first_collective[s]; i < a->first_collective[s + 1]; i++) {
            a->collectives[i] = (struct lk_analysis_collective){
                .step = s, .index = i - a->first_collective[s], .late_rank = -1};
            if (a->aligned)
                time_on_common_clock(a, i);
            else
                time_by_duration(a, i);
        }
out:
    return st;
}

/* ---- Buckets ---- */

static enum lk_status find_buckets(struct lk_analysis *a)
{
    enum lk_status st = LK_OK;
    size_t capacity = 0;

    for (size_t i = 0; i < a->n_collectives; i++) {
        const struct lk_collective *x = collective_of(a, 0, &a->collectives[i]);
        size_t at = 0;

        while (at < a->n_buckets && a->buckets[at].bucket < x->bucket)
            at++;
        if (at < a->n_buckets && a->buckets[at].bucket == x->bucket)
            continue;
        LK_TRY(lk_array_grow(&a->buckets, &capacity, a->n_buckets + 1, sizeof *a->buckets));
        for (size_t b = a->n_buckets; b > at; b--)
            a->buckets[b] = a->buckets[b - 1];
        a->buckets[at] =
            (struct lk_analysis_bucket){.bucket = x->bucket, .bytes = x->bytes, .late_rank = -1};
        a->n_buckets++;
    }
out:
    return st;
}

static const struct lk_range *backward_before(const struct lk_rank_steps *r,
                                              const struct lk_step *p, uint64_t at_ns)
{
    const struct lk_range *found = NULL;

    for (size_t i = p->first_range; i < p->first_range + p->n_ranges; i++)
        if (r->ranges[i].kind == LK_SPAN_BACKWARD && r->ranges[i].start_ns <= at_ns)
            found = &r->ranges[i];
    return found;
}

/* Add one collective seen by one rank, with weight 1 / (collectives * ranks). */
static void add_to_bucket(const struct lk_analysis *a, size_t collective, size_t rank,
                          struct lk_analysis_bucket *b, double weight)
{
    const struct lk_analysis_collective *m = &a->collectives[collective];
    const struct lk_rank_steps *r = &a->run->ranks[rank];
    const struct lk_step *p = step_of(a, rank, m->step);
    const struct lk_collective *x = collective_of(a, rank, m);
    uint64_t begin = a->begin_ns[rank * a->n_collectives + collective];
    uint64_t ready = x->ready_ns && x->ready_ns < x->arrival_ns ? x->ready_ns : x->arrival_ns;
    const struct lk_range *backward = backward_before(r, p, ready);
    uint64_t covered = lk_step_compute_ns(r, p, x->arrival_ns, x->end_ns);

    b->ready_s += weight * lk_ns_to_s_(ready - (backward ? backward->start_ns : p->begin_ns));
    b->queue_s += weight * lk_ns_to_s_(x->arrival_ns - ready);
    b->wait_s += weight * lk_ns_to_s_(begin > x->arrival_ns ? begin - x->arrival_ns : 0);
    b->exposed_s += weight * lk_ns_to_s_(x->end_ns - x->arrival_ns - covered);
}

/* Fill one bucket; wire and late are scratch of n_collectives and n ranks. */
static void fill_bucket(const struct lk_analysis *a, struct lk_analysis_bucket *b, double *wire,
                        size_t *late, double *late_by)
{
    for (size_t k = 0; k < a->run->n; k++) {
        late[k] = 0;
        late_by[k] = 0;
    }
    for (size_t i = 0; i < a->n_collectives; i++) {
        const struct lk_analysis_collective *m = &a->collectives[i];

        if (collective_of(a, 0, m)->bucket != b->bucket)
            continue;
        wire[b->n++] = lk_ns_to_s_(m->wire_ns);
        if (!m->resolved) {
            b->n_unresolved += a->run->n > 1;
            continue;
        }
        late[m->late_rank]++;
        late_by[m->late_rank] += lk_ns_to_s_(m->late_by_ns);
    }
    for (size_t i = 0; i < a->n_collectives; i++)
        for (size_t k = 0;
             k < a->run->n && collective_of(a, 0, &a->collectives[i])->bucket == b->bucket; k++)
            add_to_bucket(a, i, k, b, 1 / (double)(b->n * a->run->n));
    b->wire_s = lk_stats_mean(wire, b->n);
    b->wire_p95_s = lk_stats_quantile(wire, b->n, 0.95);
    for (size_t k = 0; k < a->run->n; k++)
        if (late[k] > b->n_late) {
            b->late_rank = (int)k;
            b->n_late = late[k];
            b->late_by_s = late_by[k] / (double)late[k];
        }
}

/* Count how often each rank was last, and sum its pending time. */
static void fill_ranks(struct lk_analysis *a)
{
    double n_steps = (double)a->run->n_steps;

    for (size_t i = 0; i < a->n_collectives; i++) {
        const struct lk_analysis_collective *m = &a->collectives[i];

        for (size_t k = 0; k < a->run->n; k++) {
            const struct lk_collective *x = collective_of(a, k, m);
            uint64_t begin = a->begin_ns[k * a->n_collectives + i];

            begin = begin > x->arrival_ns ? begin : x->arrival_ns;
            a->ranks[k].pending_s += lk_ns_to_s_(x->end_ns - x->arrival_ns) / n_steps;
            if (x->end_ns > begin)
                a->ranks[k].moving_s += lk_ns_to_s_(x->end_ns - begin) / n_steps;
        }
        if (m->resolved) {
            a->ranks[m->late_rank].n_late++;
            a->ranks[m->late_rank].late_by_s += lk_ns_to_s_(m->late_by_ns);
        }
    }
    for (size_t k = 0; k < a->run->n; k++)
        if (a->ranks[k].n_late)
            a->ranks[k].late_by_s /= (double)a->ranks[k].n_late;
}

/* Return the mean share of the backward after which a bucket is first ready; NaN without any. */
static double first_ready(const struct lk_analysis *a)
{
    double sum = 0;
    size_t n = 0;

    for (size_t s = 0; s < a->run->n_steps; s++)
        for (size_t k = 0; k < a->run->n; k++) {
            const struct lk_rank_steps *r = &a->run->ranks[k];
            const struct lk_step *p = step_of(a, k, s);
            const struct lk_collective *x = &r->collectives[p->first_collective];
            const struct lk_range *b =
                p->n_collectives ? backward_before(r, p, x->arrival_ns) : NULL;

            if (!b || b->end_ns == b->start_ns)
                continue;
            sum +=
                fmin(1, (double)(x->arrival_ns - b->start_ns) / (double)(b->end_ns - b->start_ns));
            n++;
        }
    return n ? sum / (double)n : NAN;
}

enum lk_status lk_analysis_buckets_(struct lk_analysis *a)
{
    enum lk_status st = LK_OK;
    double *wire = NULL, *late_by = NULL;
    size_t *late = NULL;

    LK_TRY(find_buckets(a));
    LK_TRY(lk_alloc(&wire, a->n_collectives, sizeof *wire));
    LK_TRY(lk_alloc(&late, a->run->n, sizeof *late));
    LK_TRY(lk_alloc(&late_by, a->run->n, sizeof *late_by));
    for (size_t b = 0; b < a->n_buckets; b++)
        fill_bucket(a, &a->buckets[b], wire, late, late_by);
    fill_ranks(a);
    a->first_ready = first_ready(a);
out:
    free(wire);
    free(late);
    free(late_by);
    return st;
}
