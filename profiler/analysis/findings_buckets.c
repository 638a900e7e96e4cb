/* Findings about what is reduced. Divisions: reductions that are not needed, sizes of buckets. */
#include "base/array.h"
#include "base/stats.h"
#include "facts/run_facts.h"
#include "profiler/analysis/analysis_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double late_first_bucket = 0.5; /* of the backward */

/* ---- Reductions that are not needed ---- */

/* Return true if gradients are reduced in every micro-batch: each bucket as often as there are
 * some. PowerSGD takes three collectives each time. */
static bool reduces_every_time(const struct lk_analysis *a, int accumulation)
{
    size_t times = lk_run_about(a->run)->compression == LK_COMPRESSION_POWERSGD ? 3 : 1;
    size_t buckets = 0;

    for (size_t i = 0; i < a->n_buckets; i++) {
        if (a->buckets[i].bucket < 0)
            continue;
        buckets++;
        if (a->buckets[i].n < times * (size_t)accumulation * a->run->n_steps)
            return false;
    }
    return buckets > 0;
}

enum lk_status lk_find_accumulation_(struct lk_analysis *a)
{
    int n = lk_run_about(a->run)->accumulation;
    double exposed = a->losses_s[LK_LOSS_WIRE] + a->losses_s[LK_LOSS_STRAGGLER];
    double cost = exposed * (n - 1) / n;

    /* Ranks that divide gradients have no room for whole ones between micro-batches. */
    if (n < 2 || lk_run_world_size(a->run) < 2 || cost < LK_FINDING_HOST_SHARE * a->step_s ||
        lk_sharding_traits(lk_run_about(a->run)->sharding)->gradients || !reduces_every_time(a, n))
        return LK_OK;
    return lk_finding_add_(
        a, LK_FINDING_ACCUMULATION, -1, cost,
        "accumulation without no_sync: gradients are reduced in each of %d micro-batches; in the "
        "last alone it would be about %s a step less",
        n, lk_time_text_(cost).buf);
}

/* Return the number of gradients that every backward gives; 0: not known. */
static size_t gradients_of(const struct lk_analysis *a)
{
    const struct lk_run_info *info = lk_run_about(a->run);
    const char *n = lk_run_info_value(info, LK_GRADIENTS_CONFIG_KEY);

    if (info->n_tensors && !lk_run_info_value(info, LK_BUCKETS_CONFIG_KEY))
        return info->n_tensors;
    return n ? strtoul(n, NULL, 10) : 0;
}

/* Return true for the all-reduce of DDP's map of used parameters: behind the last bucket, an int32
 * for each parameter (PyTorch, reducer.cpp: initialize_local_used_map). */
static bool is_used_map(const struct lk_analysis *a, size_t i, size_t n_parameters)
{
    const struct lk_analysis_collective *m = &a->collectives[i];
    const struct lk_collective *x = lk_collective_of_(a, 0, m);

    return m->index > 0 && x->bucket < 0 && x->bytes == 4 * n_parameters &&
           lk_collective_of_(a, 0, m - 1)->bucket >= 0;
}

/* Return the time of a collective that no compute of the rank covers. */
static double exposed_s(const struct lk_analysis *a, size_t rank,
                        const struct lk_analysis_collective *m)
{
    const struct lk_collective *x = lk_collective_of_(a, rank, m);
    const struct lk_rank_steps *r = &a->run->ranks[rank];
    const struct lk_step *p = lk_rank_step(r, a->run->steps[m->step]);

    return lk_ns_to_s_(x->end_ns - x->arrival_ns -
                       lk_step_compute_ns(r, p, x->arrival_ns, x->end_ns));
}

/*
 * Report DDP's find_unused_parameters where all parameters are used: the map of used ones has as
 * many elements as there are gradients in every backward, and is reduced in every step.
 */
enum lk_status lk_find_unused_parameters_(struct lk_analysis *a)
{
    size_t parameters = gradients_of(a), maps = 0;
    double cost = 0, weight = 1 / (double)(a->run->n * a->run->n_steps);

    if (parameters < LK_FINDING_FEW || lk_run_world_size(a->run) < 2)
        return LK_OK;
    for (size_t s = 0; s < a->run->n_steps; s++) {
        size_t before = maps;

        for (size_t i = a->first_collective[s]; i < a->first_collective[s + 1]; i++) {
            if (!is_used_map(a, i, parameters))
                continue;
            maps++;
            for (size_t k = 0; k < a->run->n; k++)
                cost += weight * exposed_s(a, k, &a->collectives[i]);
        }
        if (maps == before)
            return LK_OK;
    }
    return lk_finding_add_(
        a, LK_FINDING_UNUSED_PARAMETERS, -1, cost,
        "find_unused_parameters without need: behind the buckets a map of %zu parameters is "
        "reduced, and every backward has %zu gradients: all are used; %s a step exposed, beside "
        "the host's search for unused ones",
        parameters, parameters, lk_time_text_(cost).buf);
}

/* ---- Sizes of buckets ---- */

/* Return the mean time of the last backwards of the steps, over the ranks. */
static double backward_s(const struct lk_analysis *a)
{
    double sum = 0;

    for (size_t k = 0; k < a->run->n; k++)
        sum += a->ranks[k].split.s[LK_PART_BACKWARD];
    return sum / (double)a->run->n / fmax(1, lk_run_about(a->run)->accumulation);
}

/* Report buckets that are too large: they start too late, and the last one is always exposed.
 * Collectives can start at most earlier by the time until the first. */
enum lk_status lk_find_first_bucket_(struct lk_analysis *a)
{
    double exposed = lk_exposed_wire_(a);

    if (isnan(a->first_ready) || lk_run_world_size(a->run) < 2 ||
        lk_sharding_traits(lk_run_about(a->run)->sharding)->pace != LK_PACE_STEP ||
        a->first_ready < late_first_bucket || exposed < LK_FINDING_EXPOSED_SHARE * a->step_s)
        return LK_OK;
    return lk_finding_add_(
        a, LK_FINDING_FIRST_BUCKET, -1, fmin(exposed, a->first_ready * backward_s(a)),
        "first bucket: it is ready only after %.0f %% of the backward; smaller buckets let "
        "collectives start earlier",
        100 * a->first_ready);
}

/* Fewer buckets tell little of a bucket's fixed time. */
enum { FEW_BUCKETS = 4 };
static const double fixed_share = 0.5; /* of the buckets' time on the wire */

/* Fit time = fixed + bytes / rate to the buckets, by relative errors. *fixed NaN: their number or
 * their sizes are not enough. */
static enum lk_status fit_buckets(const struct lk_analysis *a, double *fixed, double *sum,
                                  size_t *n)
{
    uint64_t least = UINT64_MAX, most = 0;
    double *rows = NULL, *ones = NULL, fit[2];
    enum lk_status st = LK_OK;

    *fixed = NAN;
    *sum = 0;
    *n = 0;
    LK_TRY(lk_alloc(&rows, 2 * a->n_buckets, sizeof *rows));
    LK_TRY(lk_alloc(&ones, a->n_buckets, sizeof *ones));
    for (size_t i = 0; i < a->n_buckets; i++) {
        const struct lk_analysis_bucket *b = &a->buckets[i];

        if (b->bucket < 0)
            continue;
        if (!b->bytes || b->wire_s <= 0)
            goto out;
        least = b->bytes < least ? b->bytes : least;
        most = b->bytes > most ? b->bytes : most;
        rows[2 * *n] = 1 / b->wire_s;
        rows[2 * *n + 1] = (double)b->bytes / b->wire_s;
        ones[*n] = 1;
        *sum += b->wire_s;
        ++*n;
    }
    if (*n < FEW_BUCKETS || most < 2 * least)
        goto out;
    LK_TRY(lk_stats_nnls(rows, ones, *n, 2, fit));
    *fixed = fit[0];
out:
    free(rows);
    free(ones);
    return st;
}

/* Report buckets that are too small: most of their time on the wire is the same whatever their
 * size. One bucket has it once. Missing ranks' waits would look the same. */
enum lk_status lk_find_small_buckets_(struct lk_analysis *a)
{
    double exposed = lk_exposed_wire_(a), fixed, sum;
    size_t n;

    if (lk_run_world_size(a->run) < 2 || (int)a->run->n < lk_run_world_size(a->run) ||
        exposed < LK_FINDING_EXPOSED_SHARE * a->step_s)
        return LK_OK;
    LK_PASS(fit_buckets(a, &fixed, &sum, &n));
    if (isnan(fixed) || fixed * (double)n < fixed_share * sum)
        return LK_OK;
    return lk_finding_add_(
        a, LK_FINDING_SMALL_BUCKETS, -1, fmin(exposed, fixed * (double)(n - 1)),
        "small buckets: each of %zu takes %s on the wire whatever its size, %.0f %% of their time",
        n, lk_time_text_(fixed).buf, 100 * fmin(1, fixed * (double)n / sum));
}
