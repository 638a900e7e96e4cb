/*
 * What a collective takes on a cluster.
 *
 * Divisions: creation / measured / carried from another rank count / evaluation.
 */
#include "sim/coll_cost.h"

#include "base/array.h"
#include "sim/coll_derive.h"
#include "sim/coll_fit.h"
#include "sim/coll_model.h"
#include "sim/coll_points.h"
#include "sim/cost_level.h"

#include <math.h>
#include <stdlib.h>

/* A size this near to a point's is the point's. */
static const double SAME_SIZE = 1e-3;

/* A set carried to another rank count. */
struct carried {
    struct lk_coll_place at;
    struct lk_curve curve;
    double *sd; /* of the logarithm, by the set's points */
};

/* Curves carried so far: a sweep asks for the same rank counts again and again. */
struct carried_list {
    struct carried *list;
    size_t n, capacity;
};

struct lk_cost_model {
    struct lk_coll_sets sets;
    struct lk_coll_model *model;
    struct carried_list *carried; /* grows while the model is asked */
    double error_shift;           /* of a draw, in standard deviations of the fits' errors */
    bool preset;
    struct lk_cost_levels *levels; /* of other nodes' links; NULL: all links are alike */
};

/* ---- Creation ---- */

enum lk_status lk_cost_model_create(const struct lk_cluster *c, struct lk_rng *draw,
                                    struct lk_cost_model **out)
{
    return lk_cost_model_create_from(c, draw, NULL, out);
}

enum lk_status lk_cost_model_create_from(const struct lk_cluster *c, struct lk_rng *draw,
                                         const struct lk_nccl_factors *prior,
                                         struct lk_cost_model **out)
{
    enum lk_status st = LK_OK;
    struct lk_cost_model *m = NULL;
    struct lk_cluster with_fits = {0};
    struct lk_coll_shifts by = {0};
    struct lk_rng again = draw ? *draw : (struct lk_rng){0};
    double shift = 0;
    bool own_fits = false;

    LK_TRY(lk_alloc(&m, 1, sizeof *m));
    LK_TRY(lk_alloc(&m->carried, 1, sizeof *m->carried));
    m->preset = c->preset;
    if (draw) {
        shift = lk_rng_normal(draw);
        by.time = lk_rng_normal(draw);
        by.rate = lk_rng_normal(draw);
        by.error = lk_rng_normal(draw);
    }
    m->error_shift = by.error;
    LK_TRY(lk_coll_sets_init(&m->sets, c, shift));
    LK_TRY(lk_coll_fit_missing(c, &with_fits, &own_fits));
    LK_TRY(lk_coll_model_create(&with_fits, &m->sets, prior, by, draw, &m->model));
    LK_TRY(lk_coll_derive(c, m->model, &m->sets));
    LK_TRY(lk_cost_levels_create(c, draw ? &again : NULL, prior, &m->levels));
    *out = m;
    m = NULL;
out:
    if (own_fits)
        lk_coll_fits_free(with_fits.fits, with_fits.n_fits);
    lk_cost_model_destroy(m);
    return st;
}

void lk_cost_model_destroy(struct lk_cost_model *m)
{
    if (!m)
        return;
    lk_cost_levels_destroy(m->levels);
    lk_coll_sets_fini(&m->sets);
    lk_coll_model_destroy(m->model);
    for (size_t i = 0; m->carried && i < m->carried->n; i++) {
        lk_curve_fini(&m->carried->list[i].curve);
        free(m->carried->list[i].sd);
    }
    if (m->carried)
        free(m->carried->list);
    free(m->carried);
    free(m);
}

/* ---- Measured ---- */

/* 90 % about seconds, whose lower end is not beyond what the links allow. */
static void grade(const struct lk_cost_model *m, struct lk_coll_place at, double bytes,
                  struct lk_cost *c, enum lk_evidence evidence, double sd)
{
    double floor_s = lk_coll_model_floor_s(m->model, at, bytes, true);

    c->evidence = m->preset && evidence < LK_EVIDENCE_PRESET ? LK_EVIDENCE_PRESET : evidence;
    c->lo = fmax(c->seconds * exp(-LK_Z90 * sd), fmin(c->seconds, floor_s));
    c->hi = c->seconds * exp(LK_Z90 * sd);
}

static void eval_measured(const struct lk_cost_model *m, const struct lk_coll_set *s, double bytes,
                          struct lk_cost *out)
{
    double last = s->bytes[s->n - 1];
    enum lk_evidence evidence = LK_EVIDENCE_INTERPOLATED;

    *out = (struct lk_cost){.reach = 1};
    bytes = fmax(bytes, 1);
    out->seconds = lk_curve_at(&s->curve, bytes);
    for (size_t i = 0; i < s->n; i++)
        if (fabs(bytes / s->bytes[i] - 1) <= SAME_SIZE)
            evidence = LK_EVIDENCE_MEASURED;
    if (s->derived)
        evidence = LK_EVIDENCE_EXTRAPOLATED;
    if (bytes > last * (1 + SAME_SIZE)) {
        evidence = LK_EVIDENCE_EXTRAPOLATED;
        out->reach = bytes / last;
        out->reach_is_bytes = true;
    }
    grade(m, s->at, bytes, out, evidence,
          evidence == LK_EVIDENCE_MEASURED
              ? lk_coll_set_sd(s, bytes)
              : hypot(lk_coll_set_sd(s, bytes), lk_coll_set_between_sd(s, bytes)));
}

/*
 * Case 2 of the header: the points of the sets nearest, each carried over, as a curve of its own.
 * Between a smaller and a larger count both are taken, in the logarithm, the nearer one for more.
 */
static enum lk_status carry(const struct lk_cost_model *m, const struct lk_coll_near *near,
                            struct lk_coll_place at, struct carried *out)
{
    enum lk_status st = LK_OK;
    const struct lk_coll_set *from = near->set[0], *other = near->set[1];
    struct carried c = {.at = at}, second = {0};
    double *seconds = NULL, share = near->share;

    LK_TRY(lk_alloc(&seconds, from->n, sizeof *seconds));
    LK_TRY(lk_alloc(&c.sd, from->n, sizeof *c.sd));
    LK_TRY(lk_coll_model_carry(m->model, from, at, seconds, c.sd));
    if (other)
        LK_TRY(carry(m, &(struct lk_coll_near){{other}, 1}, at, &second));
    for (size_t i = 0; other && i < from->n; i++) {
        size_t k = lk_coll_set_at(other, from->bytes[i]);
        double ln;

        if (from->bytes[i] < other->bytes[0] || from->bytes[i] > other->bytes[other->n - 1])
            continue;
        ln = log(lk_curve_at(&second.curve, from->bytes[i]) / seconds[i]);
        seconds[i] *= exp((1 - share) * ln);
        /* As of two independent ones, and of how far they differ. */
        c.sd[i] = sqrt(pow(share * c.sd[i], 2) + pow((1 - share) * second.sd[k], 2) +
                       share * (1 - share) * ln * ln);
    }
    LK_TRY(lk_curve_init(&c.curve, from->bytes, seconds, from->n, 1, LK_COLL_REAL_FALL));
    *out = c;
    c.sd = NULL;
out:
    lk_curve_fini(&second.curve);
    free(second.sd);
    free(c.sd);
    free(seconds);
    return st;
}

/* The curve of a place, made when it is asked for first. */
static enum lk_status find_carried(const struct lk_cost_model *m, const struct lk_coll_near *near,
                                   struct lk_coll_place at, const struct carried **out)
{
    enum lk_status st = LK_OK;
    struct carried_list *l = m->carried;

    for (size_t i = 0; i < l->n; i++) {
        const struct lk_coll_place *p = &l->list[i].at;

        if (p->coll == at.coll && p->algo == at.algo && p->ranks == at.ranks &&
            p->nodes == at.nodes) {
            *out = &l->list[i];
            return LK_OK;
        }
    }
    LK_TRY(lk_array_grow(&l->list, &l->capacity, l->n + 1, sizeof *l->list));
    LK_TRY(carry(m, near, at, &l->list[l->n]));
    *out = &l->list[l->n++];
out:
    return st;
}

static enum lk_status carry_over(const struct lk_cost_model *m, const struct lk_coll_near *near,
                                 struct lk_coll_place at, const uint64_t *bytes, size_t n,
                                 struct lk_cost *out)
{
    enum lk_status st = LK_OK;
    const struct lk_coll_set *from = near->set[0];
    const struct carried *c;

    LK_TRY(find_carried(m, near, at, &c));
    for (size_t i = 0; i < n; i++) {
        double b = fmax((double)bytes[i], 1);

        out[i] = (struct lk_cost){.seconds = lk_curve_at(&c->curve, b),
                                  .reach = fmax(1, (double)at.ranks / from->at.ranks)};
        grade(m, at, b, &out[i],
              near->set[1] && !from->derived ? LK_EVIDENCE_INTERPOLATED : LK_EVIDENCE_EXTRAPOLATED,
              hypot(lk_coll_set_sd(from, b), c->sd[lk_coll_set_at(from, b)]));
    }
out:
    return st;
}

static enum lk_status no_evidence(struct lk_coll_place at)
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

static enum lk_status eval_formula(const struct lk_cost_model *m, struct lk_coll_place at,
                                   const uint64_t *bytes, size_t n, struct lk_cost *out)
{
    for (size_t i = 0; i < n; i++) {
        struct lk_coll_modelled f = lk_coll_model_at(m->model, at, (double)bytes[i]);

        if (isnan(f.seconds))
            return no_evidence(at);
        out[i] = (struct lk_cost){.seconds = f.seconds, .reach = at.ranks / 2.0};
        grade(m, at, (double)bytes[i], &out[i],
              f.fitted ? LK_EVIDENCE_EXTRAPOLATED : LK_EVIDENCE_PRESET, f.error);
    }
    return LK_OK;
}

/* One algorithm, or AUTO as it was measured. *out_found false: nothing measured that fits. */
static enum lk_status eval_points(const struct lk_cost_model *m, struct lk_coll_place at,
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
        return carry_over(m, &near, at, bytes, n, out);
    *out_found = false;
    return LK_OK;
}

/* AUTO without points of its own: the fastest of the measured algorithms, size by size. */
static enum lk_status eval_fastest(const struct lk_cost_model *m, struct lk_coll_place at,
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

enum lk_status lk_cost_eval(const struct lk_cost_model *m, enum lk_coll coll, enum lk_algo algo,
                            int ranks, int nodes, const uint64_t *bytes, size_t n,
                            struct lk_cost *out)
{
    enum lk_status st = LK_OK;
    struct lk_coll_place at = {coll, algo, ranks, nodes};
    const struct lk_cost_model *level = lk_cost_levels_at(m->levels, nodes);
    bool found;

    if (level)
        return lk_cost_eval(level, coll, algo, ranks, nodes, bytes, n, out);
    if (ranks == 1) {
        for (size_t i = 0; i < n; i++)
            out[i] = (struct lk_cost){.evidence = LK_EVIDENCE_MEASURED, .reach = 1};
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
