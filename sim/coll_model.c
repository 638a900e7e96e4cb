/*
 * A cluster's model of collectives.
 *
 * Divisions: constants (fits and links) / NCCL / creation / evaluation.
 */
#include "sim/coll_model.h"

#include "base/array.h"
#include "sim/coll_carry.h"
#include "sim/coll_derive.h"
#include "sim/coll_formula.h"
#include "sim/nccl_carry.h"
#include "sim/prior.h"

#include <math.h>
#include <stdlib.h>

static const double MICRO = 1e6;

struct constants {
    bool known[LK_LINK_COUNT];
    struct lk_coll_constants k;
    double error; /* relative, of the fit */
    bool fitted;  /* from points of this machine, not from a datasheet */
};

struct lk_coll_model {
    const struct lk_coll_sets *sets;
    struct constants constants[LK_COLL_COUNT][LK_ALGO_COUNT];
    double error_shift; /* of a draw, in standard deviations of the fits' errors */
    bool has_nccl;      /* the cluster file says what NCCL's model asks for */
    struct lk_nccl_machine machine;
    struct lk_nccl_factors factors[LK_NCCL_PLACE_COUNT];
    bool refitted[LK_NCCL_PLACE_COUNT];
    struct lk_coll_lines line, best_line;
    /* Of what the lines allow at least, the least share of time that a point took; <= 1: where
     * points were faster than the file's links, these are faster than the file says. */
    double line_share[LK_LINK_COUNT];
    bool draw;
};

/* ---- Constants ---- */

/* Relative, of constants that another collective's points gave (sim/coll_derive.h). */
static const double DERIVED_ERROR = 0.3;

static double moved(const struct lk_quantity *q, double shift)
{
    return lk_quantity_known(q) ? q->value * exp(shift * lk_coll_log_sd(q)) : 0;
}

static void constants_from_fit(struct constants *k, const struct lk_cluster_fit *f,
                               struct lk_coll_shifts by)
{
    k->known[f->link] = true;
    k->fitted |= f->bandwidth_Bps.n > 0;
    k->k.launch_s = fmax(k->k.launch_s, moved(&f->launch_s, by.time));
    k->k.alpha_s[f->link] = moved(&f->alpha_s, by.time);
    k->k.bandwidth_Bps[f->link] = moved(&f->bandwidth_Bps, by.rate);
    if (lk_quantity_known(&f->error))
        k->error = fmax(k->error, f->error.value);
}

static void constants_from_link(struct constants *k, enum lk_link link,
                                const struct lk_cluster_link *from, int links,
                                struct lk_coll_shifts by)
{
    if (k->known[link] || !lk_quantity_known(&from->bandwidth_Bps) ||
        !lk_quantity_known(&from->latency_s))
        return;
    k->known[link] = true;
    k->error = fmax(k->error, lk_prior_value(LK_PRIOR_PRESET_ERROR));
    k->k.alpha_s[link] = moved(&from->latency_s, by.time);
    k->k.bandwidth_Bps[link] = links * moved(&from->bandwidth_Bps, by.rate);
}

/* What an all-reduce's fit knows of the links; the shape of the collective does the rest. */
static void constants_from_all_reduce(struct lk_coll_model *m, const struct lk_cluster *c)
{
    for (int coll = 0; coll < LK_COLL_COUNT; coll++)
        for (int algo = 0; algo < LK_ALGO_COUNT && lk_coll_is_derived(c, (enum lk_coll)coll);
             algo++) {
            m->constants[coll][algo] = m->constants[LK_ALL_REDUCE][algo];
            m->constants[coll][algo].error = hypot(m->constants[coll][algo].error, DERIVED_ERROR);
        }
}

static void set_constants(struct lk_coll_model *m, const struct lk_cluster *c,
                          struct lk_coll_shifts by)
{
    for (size_t i = 0; i < c->n_fits; i++)
        constants_from_fit(&m->constants[c->fits[i].coll][c->fits[i].algo], &c->fits[i], by);
    constants_from_all_reduce(m, c);
    for (int coll = 0; coll < LK_COLL_COUNT; coll++)
        for (int algo = 0; algo < LK_ALGO_COUNT; algo++) {
            struct constants *k = &m->constants[coll][algo];
            struct lk_coll_shape shape;

            /* A datasheet says nothing of what "auto" would pick: the algorithms themselves do. */
            if (algo == LK_ALGO_AUTO ||
                !lk_coll_shape((enum lk_coll)coll, (enum lk_algo)algo, 1, 2, 1, &shape))
                continue;
            constants_from_link(k, LK_LINK_INTRA, &c->intra, 1, by);
            constants_from_link(k, LK_LINK_INTER, &c->inter,
                                c->topology.nics_per_node > 1 ? c->topology.nics_per_node : 1, by);
        }
    /* The fit's own error moves every cost that comes from it the same way. */
    m->error_shift = by.error;
    for (int coll = 0; coll < LK_COLL_COUNT; coll++)
        for (int algo = 0; algo < LK_ALGO_COUNT; algo++) {
            struct constants *k = &m->constants[coll][algo];
            double factor = exp(by.error * k->error);

            k->k.launch_s *= factor;
            for (int l = 0; l < LK_LINK_COUNT; l++) {
                k->k.alpha_s[l] *= factor;
                k->k.bandwidth_Bps[l] /= factor;
            }
        }
}

/* ---- NCCL ---- */

/* What is left of a prior row's error once this machine's own points moved it: rank counts left out
 * of public tables (bench/accuracy_collectives). */
static const double REFITTED_SHARE = 0.5;
/* What is left of that where points are carried by NCCL's model, a doubling of ranks, beside doubt
 * about the regime: the same. */
static const double CARRIED_SHARE = 0.4;

/* Points that a fit looks at; more say little new, and a model is made for every draw. */
enum { NCCL_POINTS_MAX = 160 };

static size_t points_of(const struct lk_coll_model *m, enum lk_nccl_place place, size_t every,
                        struct lk_nccl_point *out)
{
    size_t n = 0, seen = 0;

    for (size_t i = 0; i < m->sets->n; i++) {
        const struct lk_coll_set *s = &m->sets->list[i];
        struct lk_nccl_comm comm;

        if (s->at.ranks < 2 || !lk_nccl_comm_of(&m->machine, s->at.ranks, s->at.nodes, &comm) ||
            lk_nccl_place_of(&comm, m->machine.topology.network) != place)
            continue;
        for (size_t j = 0; j < s->n; j++, seen++) {
            if (seen % every)
                continue;
            if (out)
                out[n] = (struct lk_nccl_point){comm, s->at.coll, s->at.algo, s->bytes[j],
                                                s->seconds[j] * MICRO};
            n++;
        }
    }
    return n;
}

/* Factors of each place: the prior, moved by the cluster's points, moved by the draw. */
static enum lk_status set_factors(struct lk_coll_model *m, const struct lk_nccl_factors *prior,
                                  struct lk_rng *draw)
{
    enum lk_status st = LK_OK;
    struct lk_nccl_point *points = NULL;

    for (int p = 0; p < LK_NCCL_PLACE_COUNT; p++) {
        enum lk_nccl_place place = (enum lk_nccl_place)p;
        struct lk_nccl_factors row = prior ? prior[p] : lk_nccl_prior(place), *f = &m->factors[p];
        size_t n = points_of(m, place, 1, NULL), every = n / NCCL_POINTS_MAX + 1;

        *f = row;
        if (n) {
            LK_TRY(lk_alloc(&points, n, sizeof *points));
            n = points_of(m, place, every, points);
            *f = lk_nccl_fit(points, n, &row);
            m->refitted[p] = true;
            free(points);
            points = NULL;
        }
        for (int i = 0; draw && i < LK_NCCL_FACTOR_COUNT; i++)
            f->ln[i] += f->sd[i] * (m->refitted[p] ? lk_rng_normal(draw) : 0);
    }
out:
    free(points);
    return st;
}

/* ---- Creation ---- */

static void set_line_shares(struct lk_coll_model *m)
{
    m->line_share[LK_LINK_INTRA] = m->line_share[LK_LINK_INTER] = 1;
    for (size_t i = 0; i < m->sets->n; i++) {
        const struct lk_coll_set *s = &m->sets->list[i];
        double *share = &m->line_share[s->at.nodes > 1 ? LK_LINK_INTER : LK_LINK_INTRA];

        for (size_t j = 0; j < s->n; j++) {
            double floor_s = lk_coll_floor_s(m->draw ? &m->best_line : &m->line, s->at.coll,
                                             s->bytes[j], s->at.ranks, s->at.nodes);

            if (floor_s > 0)
                *share = fmin(*share, s->seconds[j] / floor_s);
        }
    }
}

enum lk_status lk_coll_model_create(const struct lk_cluster *c, const struct lk_coll_sets *sets,
                                    const struct lk_nccl_factors *prior, struct lk_coll_shifts by,
                                    struct lk_rng *draw, struct lk_coll_model **out)
{
    enum lk_status st = LK_OK;
    struct lk_coll_model *m = NULL;

    LK_TRY(lk_alloc(&m, 1, sizeof *m));
    m->sets = sets;
    m->draw = draw;
    m->line = lk_coll_lines_of(c, false);
    m->best_line = lk_coll_lines_of(c, true);
    set_line_shares(m);
    set_constants(m, c, by);
    m->has_nccl = lk_nccl_machine_of(c, &m->machine);
    if (m->has_nccl)
        LK_TRY(set_factors(m, prior, draw));
    *out = m;
    m = NULL;
out:
    lk_coll_model_destroy(m);
    return st;
}

void lk_coll_model_destroy(struct lk_coll_model *m)
{
    free(m);
}

/* ---- Evaluation ---- */

/* By NCCL's model; seconds NaN: it does not say. */
static struct lk_coll_modelled nccl(const struct lk_coll_model *m, struct lk_coll_place at,
                                    double bytes)
{
    struct lk_coll_modelled out = {.seconds = NAN};
    struct lk_nccl_comm comm;
    enum lk_nccl_place place;

    if (!m->has_nccl || !lk_nccl_comm_of(&m->machine, at.ranks, at.nodes, &comm))
        return out;
    place = lk_nccl_place_of(&comm, m->machine.topology.network);
    out.seconds = lk_nccl_refit_us(&comm, &m->factors[place], at.coll, at.algo, bytes) / MICRO;
    out.fitted = m->refitted[place];
    out.error = lk_nccl_error(&m->factors[place], bytes) * (out.fitted ? REFITTED_SHARE : 1);
    if (!out.fitted)
        out.seconds *= exp(m->error_shift * out.error);
    return out;
}

/* By one algorithm or, for AUTO, the fastest known. */
static struct lk_coll_modelled formula(const struct lk_coll_model *m, struct lk_coll_place at,
                                       double bytes)
{
    struct lk_coll_modelled best = nccl(m, at, bytes);
    double uplinks;

    if (!isnan(best.seconds))
        return best;
    uplinks = lk_nccl_uplink_factor(m->machine.topology.nodes_per_switch,
                                    m->machine.oversubscription, at.nodes);
    for (int a = 0; a < LK_ALGO_COUNT; a++) {
        const struct constants *k = &m->constants[at.coll][a];
        struct lk_coll_constants constants;
        struct lk_coll_shape shape;
        double s;

        if (at.algo != LK_ALGO_AUTO && a != (int)at.algo)
            continue;
        if (!lk_coll_shape(at.coll, (enum lk_algo)a, bytes, at.ranks, at.nodes, &shape))
            continue;
        constants = k->k;
        constants.bandwidth_Bps[LK_LINK_INTER] /= uplinks;
        s = lk_coll_formula_s(&constants, &shape);
        if (!isnan(s) && (isnan(best.seconds) || s < best.seconds))
            best =
                (struct lk_coll_modelled){s, k->error, k->fitted,
                                          a <= LK_ALGO_RING && uplinks <= 1 &&
                                              (!(shape.hops_intra > 0) || !(shape.hops_inter > 0))};
    }
    return best;
}

double lk_coll_model_floor_s(const struct lk_coll_model *m, struct lk_coll_place at, double bytes,
                             bool best)
{
    return lk_coll_floor_s(best || m->draw ? &m->best_line : &m->line, at.coll, bytes, at.ranks,
                           at.nodes) *
           m->line_share[at.nodes > 1 ? LK_LINK_INTER : LK_LINK_INTRA];
}

struct lk_coll_modelled lk_coll_model_at(const struct lk_coll_model *m, struct lk_coll_place at,
                                         double bytes)
{
    struct lk_coll_modelled out = formula(m, at, bytes);

    if (!isnan(out.seconds))
        out.seconds = fmax(out.seconds, lk_coll_model_floor_s(m, at, bytes, false));
    return out;
}

double lk_coll_model_shift(const struct lk_coll_model *m)
{
    return m->error_shift;
}

bool lk_coll_model_by_nccl(const struct lk_coll_model *m, struct lk_coll_place at)
{
    return !isnan(nccl(m, at, 1).seconds);
}

static enum lk_status carry_by_nccl(const struct lk_coll_model *m, const struct lk_coll_set *from,
                                    struct lk_coll_place at, double *seconds, double *sd)
{
    enum lk_status st = LK_OK;
    struct lk_nccl_measured measured = {
        .bytes = from->bytes, .seconds = from->seconds, .n = from->n};
    struct lk_nccl_carried *carried = NULL;
    struct lk_nccl_comm comm;
    enum lk_nccl_place place;

    LK_TRY(lk_alloc(&carried, from->n, sizeof *carried));
    lk_nccl_comm_of(&m->machine, at.ranks, at.nodes, &comm);
    lk_nccl_comm_of(&m->machine, from->at.ranks, from->at.nodes, &measured.comm);
    place = lk_nccl_place_of(&comm, m->machine.topology.network);
    LK_TRY(lk_nccl_carry(&comm, &measured, &m->factors[place], at.coll, at.algo, carried));
    for (size_t i = 0; i < from->n; i++) {
        seconds[i] = carried[i].seconds;
        sd[i] = hypot(sd[i], carried[i].sd);
    }
out:
    free(carried);
    return st;
}

enum lk_status lk_coll_model_carry(const struct lk_coll_model *m, const struct lk_coll_set *from,
                                   struct lk_coll_place at, double *seconds, double *sd)
{
    enum lk_status st = LK_OK;
    double doublings = fabs(log2((double)at.ranks / from->at.ranks));
    bool nccl_at = lk_coll_model_by_nccl(m, at) && lk_coll_model_by_nccl(m, from->at);

    for (size_t i = 0; i < from->n; i++) {
        struct lk_coll_modelled here = lk_coll_model_at(m, at, from->bytes[i]);
        struct lk_coll_modelled there = lk_coll_model_at(m, from->at, from->bytes[i]);
        double error = nccl_at ? CARRIED_SHARE * here.error : here.error;

        seconds[i] = here.is_ring && there.is_ring
                         ? lk_coll_carry_s(from, i, at, m, &error)
                         : from->seconds[i] * here.seconds / there.seconds;
        sd[i] = error * doublings;
    }
    if (nccl_at)
        LK_TRY(carry_by_nccl(m, from, at, seconds, sd));
    for (size_t i = 0; i < from->n; i++)
        seconds[i] = fmax(seconds[i] * exp(m->error_shift * sd[i]),
                          lk_coll_model_floor_s(m, at, from->bytes[i], false));
out:
    return st;
}
