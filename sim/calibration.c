/* This file fits numbers of a cluster file to the samples of a calibration. */
#include "sim/calibration.h"

#include "base/array.h"
#include "base/rng.h"
#include "base/stats.h"
#include "facts/straggler.h"
#include "sim/prior.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RESAMPLES = 400 };
static const double LEVEL = 0.90;
static const double MOST_DISTURBED = 0.8; /* beyond it nothing was measured: five times as long */

enum lk_status lk_calibration_median(const double *v, size_t n, uint64_t stream,
                                     struct lk_estimate *out)
{
    struct lk_rng g = lk_rng_init(1, lk_rng_stream("calibrate.median", stream));

    return lk_stats_bootstrap_median(v, n, RESAMPLES, LEVEL, &g, out);
}

/* Set a slowdown; negative values, which are noise, become 0. */
static enum lk_status set_not_negative(struct lk_quantity *q, const struct lk_estimate *e,
                                       const char *source)
{
    return lk_quantity_set(q, fmax(e->value, 0), fmax(e->lo, 0), fmax(e->hi, 0), e->n, "%s",
                           source);
}

const double *lk_calibration_samples(const struct lk_probe_row *r)
{
    return (r->timing == LK_TIMING_ALONE || r->on_stream ? r->wire_s : r->time_s) + r->warmup;
}

static enum lk_status add_point(const struct lk_probe_row *row, int nodes, uint64_t stream,
                                struct lk_cluster_point *out)
{
    bool alone = row->timing == LK_TIMING_ALONE;
    struct lk_estimate e;

    LK_PASS(lk_calibration_median(lk_calibration_samples(row), row->n - row->warmup, stream, &e));
    *out = (struct lk_cluster_point){.coll = row->coll,
                                     .algo = row->algo,
                                     .timing = row->timing,
                                     .ranks = row->ranks,
                                     .nodes = row->inside ? 1 : nodes,
                                     .bytes = row->bytes,
                                     .time_s = lk_quantity_none()};
    if (e.n < 2)
        e.lo = e.hi = NAN; /* one sample has no interval */
    return lk_quantity_set(&out->time_s, e.value, e.lo, e.hi, e.n,
                           alone ? "calibrate: median from the last arrival%s"
                                 : "calibrate: median of bursts, a call%s",
                           row->on_stream ? ", by the GPU's events" : "");
}

enum lk_status lk_calibration_add_points(const struct lk_probe_rows *rows, int nodes,
                                         struct lk_cluster *c)
{
    LK_PASS(lk_alloc(&c->points, rows->n, sizeof *c->points));
    for (size_t i = 0; i < rows->n; i++)
        if (rows->row[i].n > rows->row[i].warmup && !rows->row[i].out_of_place &&
            rows->row[i].dtype == rows->row[0].dtype) {
            LK_PASS(add_point(&rows->row[i], nodes, i, &c->points[c->n_points]));
            c->n_points++;
        }
    return LK_OK;
}

/* Set the mean over ranks, or the time of the last, of each repetition after the warm-up. */
static void over_ranks(const double *v, const struct lk_probe_colocation *s, bool last, double *out)
{
    size_t ranks = (size_t)s->ranks;

    for (size_t i = s->warmup; i < s->n; i++) {
        double *to = &out[i - s->warmup];

        *to = last ? 0 : lk_stats_mean(v + i * ranks, ranks);
        for (size_t r = 0; last && r < ranks; r++)
            *to = fmax(*to, v[i * ranks + r]);
    }
}

/* Copy the times of the ranks that are not slow to `out`, side by side; list the others as slow. */
static enum lk_status without_slow(const struct lk_probe_colocation *s, struct lk_cluster *c,
                                   double *out, size_t *out_ranks)
{
    enum lk_status st = LK_OK;
    size_t n = s->n - s->warmup, ranks = (size_t)s->ranks, kept = 0;
    const double *v = s->together_s + s->warmup * ranks;
    double *means = NULL, *sorted = NULL, noise = 0;
    struct lk_normal_ranks normal;

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
    normal = lk_straggler_normal_ranks(sorted, ranks, lk_prior_value(LK_PRIOR_RANK_SD),
                                       sqrt(noise / (double)n));
    /* With two ranks, a difference may come from the machine as well as from the slower rank. */
    if (ranks < 3)
        normal = (struct lk_normal_ranks){
            .mean = lk_stats_mean(sorted, ranks), .slowest = INFINITY, .n = ranks};
    for (size_t r = 0; r < ranks; r++) {
        struct lk_cluster_slow *e = &c->slow[c->n_slow];

        if (means[r] <= normal.slowest) {
            for (size_t i = 0; i < n; i++)
                out[i * normal.n + kept] = v[i * ranks + r];
            kept++;
            continue;
        }
        *e = (struct lk_cluster_slow){.rank = (int)r, .node = -1};
        e->compute = e->link = lk_quantity_none();
        c->n_slow++;
        LK_TRY(lk_quantity_set(&e->compute, means[r] / normal.mean, NAN, NAN, n,
                               "calibrate: co-location of %d ranks", s->ranks));
    }
    *out_ranks = kept;
out:
    free(means);
    free(sorted);
    return st;
}

/* Set the slow ranks and the law of the others; what the repetitions cannot tell stays unknown. */
static enum lk_status add_law(const struct lk_probe_colocation *s, struct lk_cluster *c)
{
    enum lk_status st = LK_OK;
    size_t n = s->n - s->warmup, ranks = (size_t)s->ranks;
    struct lk_straggler_fit fit;
    double *v = NULL;
    const struct {
        struct lk_quantity *to;
        const struct lk_estimate *from;
    } rows[] = {
#define LAW_ROW_(field, text, max, help) {&c->field, &fit.field},
        LK_STRAGGLER_LIST(LAW_ROW_)
#undef LAW_ROW_
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

enum lk_status lk_calibration_add_colocation(const struct lk_probe_colocation *s,
                                             int ranks_per_node, bool take_turns,
                                             struct lk_cluster *c)
{
    enum lk_status st = LK_OK;
    size_t n = s->n - s->warmup;
    struct lk_rng g = lk_rng_init(1, lk_rng_stream("calibrate.kappa", (uint64_t)s->ranks));
    double *alone = NULL, *together = NULL;
    struct lk_estimate e;
    char source[80];

    if (s->n < s->warmup + LK_PROBE_SAMPLES_MIN)
        return LK_OK;
    snprintf(source, sizeof source, "calibrate: %d ranks computing at once against one%s", s->ranks,
             take_turns ? ", until the last" : "");
    LK_TRY(lk_alloc(&alone, n, sizeof *alone));
    LK_TRY(lk_alloc(&together, n, sizeof *together));
    over_ranks(s->alone_s, s, false, alone);
    over_ranks(s->together_s, s, take_turns, together);
    LK_TRY(lk_stats_bootstrap_ratio(together, alone, n, RESAMPLES, LEVEL, &g, &e));
    e.value -= 1;
    e.lo -= 1;
    e.hi -= 1;
    LK_TRY(lk_alloc(&c->kappa, 1, sizeof *c->kappa));
    c->kappa[0] = (struct lk_cluster_kappa){.ranks = ranks_per_node, .kappa = lk_quantity_none()};
    c->n_kappa = 1;
    LK_TRY(set_not_negative(&c->kappa[0].kappa, &e, source));
    if (!take_turns)
        LK_TRY(add_law(s, c));
out:
    free(alone);
    free(together);
    return st;
}

enum lk_status lk_calibration_add_overlap(const struct lk_probe_overlap *s, bool proxy,
                                          const char *source, struct lk_cluster *c)
{
    const struct {
        const double *samples;
        struct lk_quantity *to;
    } rows[] = {
        {s->gamma_wait, &c->gamma_wait}, {s->gamma_wire, &c->gamma_wire}, {s->delta, &c->delta}};

    if (s->n < s->warmup + LK_PROBE_SAMPLES_MIN)
        return LK_OK; /* too few for an interval: unknown */
    for (size_t i = 0; i < LK_COUNT(rows); i++) {
        struct lk_estimate e;

        LK_PASS(lk_calibration_median(rows[i].samples + s->warmup, s->n - s->warmup, 1000 + i, &e));
        LK_PASS(set_not_negative(rows[i].to, &e, source));
    }
    c->overlap_proxy = proxy;
    return LK_OK;
}

/* ---- Other work ---- */

/* Widen the interval of plus + q to both sides. */
static enum lk_status widen(struct lk_quantity *q, double plus, double share)
{
    double lo = isnan(q->lo) ? q->value : q->lo, hi = isnan(q->hi) ? q->value : q->hi;
    char source[160];

    snprintf(source, sizeof source, "%s; other work took %.0f %% of a processor", q->source,
             100 * share);
    return lk_quantity_set(q, q->value, fmax(0, (plus + lo) * (1 - share) - plus),
                           (plus + hi) / (1 - share) - plus, q->n, "%s", source);
}

enum lk_status lk_calibration_disturbed(struct lk_cluster *c, double share)
{
#define FIELD(field, text, max, help) &c->field,
    struct lk_quantity *unknown[] = {LK_STRAGGLER_LIST(FIELD) & c->gamma_wait, &c->gamma_wire,
                                     &c->delta};
#undef FIELD

    share = fmin(share, MOST_DISTURBED);
    for (size_t i = 0; i < c->n_points; i++)
        LK_PASS(widen(&c->points[i].time_s, 0, share));
    for (size_t i = 0; i < c->n_kappa; i++)
        LK_PASS(widen(&c->kappa[i].kappa, 1, share));
    for (size_t i = 0; i < LK_COUNT(unknown); i++)
        lk_quantity_fini(unknown[i]);
    for (size_t i = 0; i < c->n_slow; i++) {
        lk_quantity_fini(&c->slow[i].compute);
        lk_quantity_fini(&c->slow[i].link);
    }
    free(c->slow);
    c->slow = NULL;
    c->n_slow = 0;
    return LK_OK;
}

/* ---- Rates ---- */

/*
 * Find the row that gives a device's rate: the fastest product, or the largest copy, since smaller
 * ones stay in its cache. *out_row is NULL if none has samples.
 */
static enum lk_status telling_row(const struct lk_rate_rows *rows, enum lk_rate_kind kind,
                                  const struct lk_rate_row **out_row, struct lk_estimate *out)
{
    double best = 0;

    *out_row = NULL;
    for (size_t i = 0; i < rows->n; i++) {
        const struct lk_rate_row *r = &rows->row[i];
        struct lk_estimate e;
        double merit;

        if (r->kind != kind || r->n <= r->warmup)
            continue;
        LK_PASS(lk_calibration_median(r->time_s + r->warmup, r->n - r->warmup, i, &e));
        merit = kind == LK_RATE_PRODUCT ? lk_rate_work(r) / e.value : lk_rate_work(r);
        if (merit <= best)
            continue;
        best = merit;
        *out_row = r;
        *out = e;
    }
    return LK_OK;
}

enum lk_status lk_calibration_add_rates(const struct lk_rate_rows *rows, struct lk_cluster *c)
{
    const struct lk_rate_row *r;
    struct lk_estimate e;
    double work;

    LK_PASS(telling_row(rows, LK_RATE_PRODUCT, &r, &e));
    if (r) {
        work = lk_rate_work(r);
        LK_PASS(lk_quantity_set(&c->device.flops, work / e.value, work / e.hi, work / e.lo, e.n,
                                "calibrate: the fastest product, %s, %zu x %zu x %zu, in %s",
                                r->shape.name, r->shape.rows, r->shape.inner, r->shape.columns,
                                r->dtype == LK_F32 ? "tf32" : lk_dtype_name(r->dtype)));
    }
    LK_PASS(telling_row(rows, LK_RATE_DEVICE_TO_DEVICE, &r, &e));
    if (r) {
        work = 2 * lk_rate_work(r); /* read and written */
        LK_PASS(lk_quantity_set(&c->device.memory_Bps, work / e.value, work / e.hi, work / e.lo,
                                e.n,
                                "calibrate: copy of %llu bytes within the GPU, read and written",
                                (unsigned long long)r->bytes));
    }
    return LK_OK;
}

/* ---- Merging ---- */

/* Move n items of `size` bytes to the end of another list. */
static enum lk_status append(void *to, size_t *n_to, void *from, size_t *n_from, size_t size)
{
    size_t capacity = *n_to;
    char **list = to, **more = from;

    LK_PASS(lk_array_grow(list, &capacity, *n_to + *n_from, size));
    if (*n_from)
        memcpy(*list + *n_to * size, *more, *n_from * size);
    *n_to += *n_from;
    *n_from = 0;
    return LK_OK;
}

static void take_if_absent(struct lk_quantity *to, struct lk_quantity *from)
{
    if (lk_quantity_known(to) || !lk_quantity_known(from))
        return;
    lk_quantity_fini(to);
    *to = *from;
    *from = lk_quantity_none();
}

/* Move the description of the GPUs. */
static void take_device(struct lk_cluster *c, struct lk_cluster *part)
{
    if (!c->device.compute_capability && part->device.compute_capability) {
        free(c->gpu);
        c->gpu = part->gpu;
        part->gpu = NULL;
        c->gpus_per_node = part->gpus_per_node;
        c->device.compute_capability = part->device.compute_capability;
        c->topology.gpu_link = part->topology.gpu_link;
        c->topology.network = part->topology.network;
        c->topology.cpu = part->topology.cpu;
    }
    if (!c->n_machine) {
        c->machine = part->machine;
        c->n_machine = part->n_machine;
        part->machine = NULL;
        part->n_machine = 0;
    }
    take_if_absent(&c->device.memory_bytes, &part->device.memory_bytes);
    take_if_absent(&c->device.memory_Bps, &part->device.memory_Bps);
    take_if_absent(&c->device.flops, &part->device.flops);
}

enum lk_status lk_calibration_merge(struct lk_cluster *c, struct lk_cluster *part)
{
    if (!lk_quantity_known(&c->gamma_wire) && lk_quantity_known(&part->gamma_wire))
        c->overlap_proxy = part->overlap_proxy;
    take_device(c, part);
    take_if_absent(&c->gamma_wait, &part->gamma_wait);
    take_if_absent(&c->gamma_wire, &part->gamma_wire);
    take_if_absent(&c->delta, &part->delta);
#define TAKE_(field, text, max, help) take_if_absent(&c->field, &part->field);
    LK_STRAGGLER_LIST(TAKE_)
#undef TAKE_
    if (!c->n_slow)
        LK_PASS(append(&c->slow, &c->n_slow, &part->slow, &part->n_slow, sizeof *c->slow));
    if (!c->n_pairs)
        LK_PASS(append(&c->pairs, &c->n_pairs, &part->pairs, &part->n_pairs, sizeof *c->pairs));
    LK_PASS(append(&c->points, &c->n_points, &part->points, &part->n_points, sizeof *c->points));
    return append(&c->kappa, &c->n_kappa, &part->kappa, &part->n_kappa, sizeof *c->kappa);
}
