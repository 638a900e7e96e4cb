/* From the samples of a calibration to the numbers of a cluster file. */
#include "base/array.h"
#include "base/rng.h"
#include "base/stats.h"
#include "base/straggler.h"
#include "commands/calibrate.h"
#include "sim/prior.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { RESAMPLES = 400 };
static const double LEVEL = 0.90;

/*
 * Median of the samples and its bootstrap interval. The median, because a call that another process
 * of the machine held up says nothing of the collective.
 */
static enum lk_status median_of(const double *v, size_t n, uint64_t stream, struct lk_estimate *out)
{
    enum lk_status st = LK_OK;
    struct lk_rng g = lk_rng_init(1, lk_rng_stream("calibrate.median", stream));
    double *copy = NULL, *draws = NULL;

    LK_TRY(lk_alloc(&copy, n, sizeof *copy));
    LK_TRY(lk_alloc(&draws, RESAMPLES, sizeof *draws));
    for (size_t d = 0; d < RESAMPLES; d++) {
        for (size_t i = 0; i < n; i++)
            copy[i] = v[lk_rng_below(&g, n)];
        draws[d] = lk_stats_median(copy, n);
    }
    memcpy(copy, v, n * sizeof *copy);
    out->value = lk_stats_median(copy, n);
    out->lo = fmin(out->value, lk_stats_quantile(draws, RESAMPLES, (1 - LEVEL) / 2));
    out->hi = fmax(out->value, lk_stats_quantile_sorted(draws, RESAMPLES, (1 + LEVEL) / 2));
    out->n = n;
out:
    free(copy);
    free(draws);
    return st;
}

/* Slowdowns are not negative in the model: what noise put below 0 is 0. */
static enum lk_status set_not_negative(struct lk_quantity *q, const struct lk_estimate *e,
                                       const char *source, int ranks)
{
    return lk_quantity_set(q, fmax(e->value, 0), fmax(e->lo, 0), fmax(e->hi, 0), e->n, source,
                           ranks);
}

static enum lk_status add_point(const struct lk_sweep_row *row, int nodes, uint64_t stream,
                                struct lk_cluster_point *out)
{
    enum lk_status st = LK_OK;
    /* Alone: from the last arrival, as in the step model. In a burst ranks arrive as they come. */
    bool alone = row->timing == LK_TIMING_ALONE;
    const double *samples = alone ? row->wire_s : row->time_s;
    struct lk_estimate e;

    LK_TRY(median_of(samples + row->warmup, row->n - row->warmup, stream, &e));
    *out = (struct lk_cluster_point){.coll = row->coll,
                                     .algo = row->algo,
                                     .timing = row->timing,
                                     .ranks = row->ranks,
                                     .nodes = nodes,
                                     .bytes = row->bytes,
                                     .time_s = lk_quantity_none()};
    LK_TRY(lk_quantity_set(&out->time_s, e.value, e.lo, e.hi, e.n,
                           alone ? "calibrate: median from the last arrival"
                                 : "calibrate: median of bursts, a call"));
out:
    return st;
}

enum lk_status calibrate_add_points(const struct lk_sweep_rows *rows, int nodes,
                                    struct lk_cluster *c)
{
    enum lk_status st = LK_OK;

    LK_TRY(lk_alloc(&c->points, rows->n, sizeof *c->points));
    for (size_t i = 0; i < rows->n; i++)
        if (rows->row[i].n > rows->row[i].warmup) {
            LK_TRY(add_point(&rows->row[i], nodes, i, &c->points[c->n_points]));
            c->n_points++;
        }
out:
    return st;
}

/* Mean over ranks of every repetition that is no warm-up. */
static void mean_over_ranks(const double *v, const struct lk_sweep_colocation *s, double *out)
{
    for (size_t i = s->warmup; i < s->n; i++)
        out[i - s->warmup] = lk_stats_mean(v + i * (size_t)s->ranks, (size_t)s->ranks);
}

/* The ranks that keep the common pace, side by side in `out`; the others are known to be slow. */
static enum lk_status without_slow(const struct lk_sweep_colocation *s, struct lk_cluster *c,
                                   double *out, size_t *out_ranks)
{
    enum lk_status st = LK_OK;
    size_t n = s->n - s->warmup, ranks = (size_t)s->ranks, kept = 0;
    const double *v = s->together_s + s->warmup * ranks;
    double *means = NULL, *sorted = NULL, noise = 0, slowest;
    struct lk_pace pace;

    LK_TRY(lk_alloc(&means, ranks, sizeof *means));
    LK_TRY(lk_alloc(&sorted, ranks, sizeof *sorted));
    LK_TRY(lk_alloc(&c->slow, ranks, sizeof *c->slow));
    for (size_t r = 0; r < ranks; r++) {
        for (size_t i = 0; i < n; i++)
            means[r] += v[i * ranks + r] / (double)n;
        sorted[r] = means[r];
    }
    for (size_t i = 0; i < n * ranks; i++)
        noise += pow(v[i] / means[i % ranks] - 1, 2) / (double)((n - 1) * ranks);
    pace =
        lk_straggler_pace(sorted, ranks, lk_prior_value(LK_PRIOR_RANK_SD), sqrt(noise / (double)n));
    /* Of two ranks, a difference is as well the machine's doing as the slower one's. */
    if (ranks < 3)
        pace = (struct lk_pace){.mean = lk_stats_mean(sorted, ranks), .n = ranks};
    slowest = sorted[pace.n - 1];
    for (size_t r = 0; r < ranks; r++) {
        struct lk_cluster_slow *e = &c->slow[c->n_slow];

        if (means[r] <= slowest) {
            for (size_t i = 0; i < n; i++)
                out[i * pace.n + kept] = v[i * ranks + r];
            kept++;
            continue;
        }
        *e = (struct lk_cluster_slow){.rank = (int)r, .node = -1};
        e->compute = e->link = lk_quantity_none();
        c->n_slow++;
        LK_TRY(lk_quantity_set(&e->compute, means[r] / pace.mean, NAN, NAN, n,
                               "calibrate: co-location of %d ranks", s->ranks));
    }
    *out_ranks = kept;
out:
    free(means);
    free(sorted);
    return st;
}

/* Slow ranks, and the law of the others: what these repetitions cannot tell stays unknown. */
static enum lk_status add_law(const struct lk_sweep_colocation *s, struct lk_cluster *c)
{
    enum lk_status st = LK_OK;
    size_t n = s->n - s->warmup, ranks = (size_t)s->ranks;
    struct lk_straggler_fit fit;
    double *v = NULL;
    const struct {
        struct lk_quantity *to;
        const struct lk_estimate *from;
    } rows[] = {
        {&c->rank_sd,      &fit.rank_sd     },
        {&c->transient_sd, &fit.transient_sd},
        {&c->common_sd,    &fit.common_sd   },
        {&c->tail_share,   &fit.tail_share  },
        {&c->tail_scale,   &fit.tail_scale  },
        {&c->tail_shape,   &fit.tail_shape  }
    };

    if (n < 2 || ranks < 2)
        return LK_OK;
    LK_TRY(lk_alloc(&v, n * ranks, sizeof *v));
    LK_TRY(without_slow(s, c, v, &ranks));
    LK_TRY(lk_straggler_fit(v, n, ranks, &fit));
    for (size_t i = 0; i < LK_COUNT(rows); i++)
        if (rows[i].from->n)
            LK_TRY(lk_quantity_set(rows[i].to, rows[i].from->value, rows[i].from->lo,
                                   rows[i].from->hi, rows[i].from->n,
                                   "calibrate: co-location of %d ranks", s->ranks));
out:
    free(v);
    return st;
}

enum lk_status calibrate_add_colocation(const struct lk_sweep_colocation *s, int ranks_per_node,
                                        struct lk_cluster *c)
{
    enum lk_status st = LK_OK;
    size_t n = s->n - s->warmup;
    struct lk_rng g = lk_rng_init(1, lk_rng_stream("calibrate.kappa", (uint64_t)s->ranks));
    double *alone = NULL, *together = NULL;
    struct lk_estimate e;

    if (s->n < s->warmup + LK_SWEEP_SAMPLES_MIN)
        return LK_OK;
    LK_TRY(lk_alloc(&alone, n, sizeof *alone));
    LK_TRY(lk_alloc(&together, n, sizeof *together));
    mean_over_ranks(s->alone_s, s, alone);
    mean_over_ranks(s->together_s, s, together);
    LK_TRY(lk_stats_bootstrap_ratio(together, alone, n, RESAMPLES, LEVEL, &g, &e));
    e.value -= 1;
    e.lo -= 1;
    e.hi -= 1;
    LK_TRY(lk_alloc(&c->kappa, 1, sizeof *c->kappa));
    c->kappa[0] = (struct lk_cluster_kappa){.ranks = ranks_per_node, .kappa = lk_quantity_none()};
    c->n_kappa = 1;
    LK_TRY(set_not_negative(&c->kappa[0].kappa, &e,
                            "calibrate: %d ranks computing at once against one", s->ranks));
    LK_TRY(add_law(s, c));
out:
    free(alone);
    free(together);
    return st;
}

enum lk_status calibrate_add_overlap(const struct lk_sweep_overlap *s, int ranks,
                                     struct lk_cluster *c)
{
    enum lk_status st = LK_OK;
    const struct {
        const double *samples;
        struct lk_quantity *to;
    } rows[] = {
        {s->gamma_wait, &c->gamma_wait},
        {s->gamma_wire, &c->gamma_wire},
        {s->delta,      &c->delta     }
    };

    if (s->n < s->warmup + LK_SWEEP_SAMPLES_MIN)
        return LK_OK; /* too few to say how sure they are: unknown */
    for (size_t i = 0; i < LK_COUNT(rows); i++) {
        struct lk_estimate e;

        LK_TRY(median_of(rows[i].samples + s->warmup, s->n - s->warmup, 1000 + i, &e));
        LK_TRY(set_not_negative(rows[i].to, &e, "calibrate: overlap probe of %d ranks", ranks));
    }
    c->overlap_proxy = true;
out:
    return st;
}

/* ---- Merging ---- */

/* Moves n items of `size` bytes from one list behind another. */
static enum lk_status append(void *to, size_t *n_to, void *from, size_t *n_from, size_t size)
{
    enum lk_status st = LK_OK;
    size_t capacity = *n_to;
    char **list = to, **more = from;

    LK_TRY(lk_array_grow(list, &capacity, *n_to + *n_from, size));
    if (*n_from)
        memcpy(*list + *n_to * size, *more, *n_from * size);
    *n_to += *n_from;
    *n_from = 0;
out:
    return st;
}

static void take_if_absent(struct lk_quantity *to, struct lk_quantity *from)
{
    if (lk_quantity_known(to) || !lk_quantity_known(from))
        return;
    lk_quantity_fini(to);
    *to = *from;
    *from = lk_quantity_none();
}

enum lk_status calibrate_merge(struct lk_cluster *c, struct lk_cluster *part)
{
    enum lk_status st = LK_OK;

    if (!lk_quantity_known(&c->gamma_wire) && lk_quantity_known(&part->gamma_wire))
        c->overlap_proxy = part->overlap_proxy;
    take_if_absent(&c->gamma_wait, &part->gamma_wait);
    take_if_absent(&c->gamma_wire, &part->gamma_wire);
    take_if_absent(&c->delta, &part->delta);
    take_if_absent(&c->rank_sd, &part->rank_sd);
    take_if_absent(&c->transient_sd, &part->transient_sd);
    take_if_absent(&c->common_sd, &part->common_sd);
    take_if_absent(&c->tail_share, &part->tail_share);
    take_if_absent(&c->tail_scale, &part->tail_scale);
    take_if_absent(&c->tail_shape, &part->tail_shape);
    if (!c->n_slow)
        LK_TRY(append(&c->slow, &c->n_slow, &part->slow, &part->n_slow, sizeof *c->slow));
    LK_TRY(append(&c->points, &c->n_points, &part->points, &part->n_points, sizeof *c->points));
    LK_TRY(append(&c->kappa, &c->n_kappa, &part->kappa, &part->n_kappa, sizeof *c->kappa));
out:
    return st;
}
