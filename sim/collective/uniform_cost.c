/*
 * This file gives the cost of a collective where links are alike.
 *
 * Divisions: creation / measured / rescaled from another rank count / evaluation.
 */
#include "sim/collective/uniform_cost.h"

#include "base/array.h"
#include "sim/collective/alpha_beta_fit.h"
#include "sim/collective/coll_model.h"
#include "sim/collective/coll_points.h"

#include <math.h>
#include <stdlib.h>

/* Sizes that differ by less than this, relatively, are the same. */
static const double SAME_SIZE = 1e-3;

/* A set of points rescaled to another rank count. */
struct rescaled {
    struct lk_coll_key at;
    struct lk_loglog_curve curve;
    double *sd; /* of the logarithm, by the set's points */
};

/* The curves rescaled so far: forecasts ask for the same rank counts again and again. */
struct rescaled_list {
    struct rescaled *list;
    size_t n, capacity;
};

struct lk_uniform_cost {
    struct lk_coll_sets sets;
    struct lk_coll_model *model;
    struct rescaled_list *rescaled; /* a cache, which lk_uniform_cost_eval fills */
    double error_shift;             /* of a draw, in standard deviations of the fits' errors */
    bool preset;
};

/* ---- Creation ---- */

enum lk_status lk_uniform_cost_create(const struct lk_cluster *c, struct lk_rng *draw,
                                      const struct lk_nccl_factors *prior,
                                      struct lk_uniform_cost **out)
{
    enum lk_status st = LK_OK;
    struct lk_uniform_cost *m = NULL;
    struct lk_cluster with_fits = {0};
    struct lk_coll_shifts by = {0};
    double shift = 0;
    bool own_fits = false;

    LK_TRY(lk_alloc(&m, 1, sizeof *m));
    LK_TRY(lk_alloc(&m->rescaled, 1, sizeof *m->rescaled));
    m->preset = c->preset;
    if (draw) {
        shift = lk_rng_normal(draw);
        by.time = lk_rng_normal(draw);
        by.rate = lk_rng_normal(draw);
        by.error = lk_rng_normal(draw);
    }
    m->error_shift = by.error;
    LK_TRY(lk_coll_sets_init(&m->sets, c, shift));
    LK_TRY(lk_alpha_beta_fit_missing(c, &with_fits, &own_fits));
    LK_TRY(lk_coll_model_create(&with_fits, &m->sets, prior, by, draw, &m->model));
    LK_TRY(lk_coll_model_from_all_reduce(m->model, c, &m->sets));
    *out = m;
    m = NULL;
out:
    if (own_fits)
        lk_alpha_beta_fits_free(with_fits.fits, with_fits.n_fits);
    lk_uniform_cost_destroy(m);
    return st;
}

void lk_uniform_cost_destroy(struct lk_uniform_cost *m)
{
    if (!m)
        return;
    lk_coll_sets_fini(&m->sets);
    lk_coll_model_destroy(m->model);
    for (size_t i = 0; m->rescaled && i < m->rescaled->n; i++) {
        lk_loglog_curve_fini(&m->rescaled->list[i].curve);
        free(m->rescaled->list[i].sd);
    }
    if (m->rescaled)
        free(m->rescaled->list);
    free(m->rescaled);
    free(m);
}

/* ---- Measured ---- */

/* Set the evidence and a 90 % interval, whose lower end stays above the bound by the links. */
static void grade(const struct lk_uniform_cost *m, struct lk_coll_key at, double bytes,
                  struct lk_cost *c, enum lk_evidence evidence, double sd)
{
    double bound_s = lk_coll_model_bound_s(m->model, at, bytes, true);

    c->evidence = m->preset && evidence < LK_EVIDENCE_PRESET ? LK_EVIDENCE_PRESET : evidence;
    c->lo = fmax(c->seconds * exp(-LK_Z90 * sd), fmin(c->seconds, bound_s));
    c->hi = c->seconds * exp(LK_Z90 * sd);
}

static void eval_measured(const struct lk_uniform_cost *m, const struct lk_coll_set *s,
                          double bytes, struct lk_cost *out)
{
    double last = s->bytes[s->n - 1];
    enum lk_evidence evidence = LK_EVIDENCE_INTERPOLATED;

    *out = (struct lk_cost){.extrapolation = 1};
    bytes = fmax(bytes, 1);
    out->seconds = lk_loglog_curve_at(&s->curve, bytes);
    for (size_t i = 0; i < s->n; i++)
        if (fabs(bytes / s->bytes[i] - 1) <= SAME_SIZE)
            evidence = LK_EVIDENCE_MEASURED;
    if (s->derived)
        evidence = LK_EVIDENCE_EXTRAPOLATED;
    if (bytes > last * (1 + SAME_SIZE)) {
        evidence = LK_EVIDENCE_EXTRAPOLATED;
        out->extrapolation = bytes / last;
        out->extrapolates_bytes = true;
    }
    grade(m, s->at, bytes, out, evidence,
          evidence == LK_EVIDENCE_MEASURED
              ? lk_coll_set_sd(s, bytes)
              : hypot(lk_coll_set_sd(s, bytes), lk_coll_set_between_sd(s, bytes)));
}

/*
 * Rescale the points of the nearest set into a curve (case 2 of the header). Between a smaller and
 * a larger count both sets are averaged in the logarithm, with more weight for the nearer one.
 */
static enum lk_status rescale(const struct lk_uniform_cost *m, const struct lk_coll_near *near,
                              struct lk_coll_key at, struct rescaled *out)
{
    enum lk_status st = LK_OK;
    const struct lk_coll_set *from = near->set[0], *other = near->set[1];
    struct rescaled c = {.at = at}, second = {0};
    double *seconds = NULL, share = near->share;

    LK_TRY(lk_alloc(&seconds, from->n, sizeof *seconds));
    LK_TRY(lk_alloc(&c.sd, from->n, sizeof *c.sd));
    LK_TRY(lk_coll_model_rescale(m->model, from, at, seconds, c.sd));
    if (other)
        LK_TRY(rescale(m, &(struct lk_coll_near){{other}, 1}, at, &second));
    for (size_t i = 0; other && i < from->n; i++) {
        size_t k = lk_coll_set_at(other, from->bytes[i]);
        double ln;

        if (from->bytes[i] < other->bytes[0] || from->bytes[i] > other->bytes[other->n - 1])
            continue;
        ln = log(lk_loglog_curve_at(&second.curve, from->bytes[i]) / seconds[i]);
        seconds[i] *= exp((1 - share) * ln);
        /* The sd is that of two independent estimates and of their difference. */
        c.sd[i] = sqrt(pow(share * c.sd[i], 2) + pow((1 - share) * second.sd[k], 2) +
                       share * (1 - share) * ln * ln);
    }
    LK_TRY(lk_loglog_curve_init(&c.curve, from->bytes, seconds, from->n, LK_COLL_REAL_FALL));
    *out = c;
    c.sd = NULL;
out:
    lk_loglog_curve_fini(&second.curve);
    free(second.sd);
    free(c.sd);
    free(seconds);
    return st;
}

/* Find the curve of a key; make it at the first request. */
static enum lk_status find_rescaled(const struct lk_uniform_cost *m,
                                    const struct lk_coll_near *near, struct lk_coll_key at,
                                    const struct rescaled **out)
{
    enum lk_status st = LK_OK;
    struct rescaled_list *l = m->rescaled;

    for (size_t i = 0; i < l->n; i++)
        if (lk_coll_key_equal(l->list[i].at, at)) {
            *out = &l->list[i];
            return LK_OK;
        }
    LK_TRY(lk_array_grow(&l->list, &l->capacity, l->n + 1, sizeof *l->list));
    LK_TRY(rescale(m, near, at, &l->list[l->n]));
    *out = &l->list[l->n++];
out:
    return st;
}

static enum lk_status eval_rescaled(const struct lk_uniform_cost *m,
                                    const struct lk_coll_near *near, struct lk_coll_key at,
                                    const uint64_t *bytes, size_t n, struct lk_cost *out)
{
    enum lk_status st = LK_OK;
    const struct lk_coll_set *from = near->set[0];
    const struct rescaled *c;

    LK_TRY(find_rescaled(m, near, at, &c));
    for (size_t i = 0; i < n; i++) {
        double b = fmax((double)bytes[i], 1);

        out[i] = (struct lk_cost){.seconds = lk_loglog_curve_at(&c->curve, b),
                                  .extrapolation = fmax(1, (double)at.ranks / from->at.ranks)};
        grade(m, at, b, &out[i],
              near->set[1] && !from->derived ? LK_EVIDENCE_INTERPOLATED : LK_EVIDENCE_EXTRAPOLATED,
              hypot(lk_coll_set_sd(from, b), c->sd[lk_coll_set_at(from, b)]));
    }
out:
    return st;
}

static enum lk_status no_evidence(struct lk_coll_key at)
{
    return lk_fail(
        LK_EEVIDENCE,
        "nothing is known of %s%s%s on %d ranks over %d node%s: no points, no fit and no "
        "link in the cluster file. The cheapest run that would supply it: lockstep "
        "calibrate -n %d --collectives %s --out cluster.json%s",
        lk_coll_name(at.coll), at.algo == LK_ALGO_AUTO ? "" : " by ",
        at.algo == LK_ALGO_AUTO ? "" : lk_algo_name(at.algo), at.ranks, at.nodes,
        at.nodes == 1 ? "" : "s",
        at.nodes > 1   ? 2
        : at.ranks < 4 ? at.ranks
                       : 2,
        lk_coll_name(at.coll), at.nodes > 1 ? ", one rank on each of two nodes" : "");
}

static enum lk_status eval_formula(const struct lk_uniform_cost *m, struct lk_coll_key at,
                                   const uint64_t *bytes, size_t n, struct lk_cost *out)
{
    for (size_t i = 0; i < n; i++) {
        struct lk_coll_modelled f = lk_coll_model_at(m->model, at, (double)bytes[i]);

        if (isnan(f.seconds))
            return no_evidence(at);
        out[i] = (struct lk_cost){.seconds = f.seconds, .extrapolation = at.ranks / 2.0};
        grade(m, at, (double)bytes[i], &out[i],
              f.fitted ? LK_EVIDENCE_EXTRAPOLATED : LK_EVIDENCE_PRESET, f.error);
    }
    return LK_OK;
}

/*
 * Evaluate one algorithm, or AUTO as it was measured. *out_found is false if no measured set fits.
 */
static enum lk_status eval_points(const struct lk_uniform_cost *m, struct lk_coll_key at,
                                  const uint64_t *bytes, size_t n, struct lk_cost *out,
                                  bool *out_found)
{
    const struct lk_coll_set *s = lk_coll_sets_find(&m->sets, at);
    struct lk_coll_near near;

    *out_found = true;
    if (s) {
        for (size_t i = 0; i < n; i++)
            eval_measured(m, s, (double)bytes[i], &out[i]);
        return LK_OK;
    }
    near = lk_coll_sets_near(&m->sets, at);
    if (near.set[0] && !isnan(lk_coll_model_at(m->model, at, 1).seconds) &&
        !isnan(lk_coll_model_at(m->model, near.set[0]->at, 1).seconds))
        return eval_rescaled(m, &near, at, bytes, n, out);
    *out_found = false;
    return LK_OK;
}

/* Evaluate AUTO without points of its own: take the fastest measured algorithm at each size. */
static enum lk_status eval_fastest(const struct lk_uniform_cost *m, struct lk_coll_key at,
                                   const uint64_t *bytes, size_t n, struct lk_cost *out,
                                   bool *out_found)
{
    enum lk_status st = LK_OK;
    struct lk_cost *other = NULL;

    *out_found = false;
    LK_TRY(lk_alloc(&other, n, sizeof *other));
    for (int a = LK_ALGO_AUTO + 1; a < LK_ALGO_COUNT; a++) {
        bool found;

        at.algo = (enum lk_algo)a;
        LK_TRY(eval_points(m, at, bytes, n, other, &found));
        for (size_t i = 0; found && i < n; i++)
            if (!*out_found || other[i].seconds < out[i].seconds)
                out[i] = other[i];
        *out_found |= found;
    }
out:
    free(other);
    return st;
}

enum lk_status lk_uniform_cost_eval(const struct lk_uniform_cost *m, enum lk_coll coll,
                                    enum lk_algo algo, int ranks, int nodes, const uint64_t *bytes,
                                    size_t n, struct lk_cost *out)
{
    enum lk_status st = LK_OK;
    struct lk_coll_key at = {coll, algo, ranks, nodes};
    bool found;

    if (ranks == 1) {
        for (size_t i = 0; i < n; i++)
            out[i] = (struct lk_cost){.evidence = LK_EVIDENCE_MEASURED, .extrapolation = 1};
        return LK_OK;
    }
    LK_TRY(eval_points(m, at, bytes, n, out, &found));
    if (!found && algo == LK_ALGO_AUTO)
        LK_TRY(eval_fastest(m, at, bytes, n, out, &found));
    if (!found)
        LK_TRY(eval_formula(m, at, bytes, n, out));
out:
    return st;
}
