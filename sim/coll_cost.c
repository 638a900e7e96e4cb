/*
 * What a collective takes on a cluster.
 *
 * Divisions: sets (points of one kind) / constants (fits and links) / NCCL / creation / evaluation.
 */
#include "sim/coll_cost.h"

#include "base/array.h"
#include "sim/coll_fit.h"
#include "sim/curve.h"
#include "sim/nccl_fit.h"
#include "sim/prior.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A 90 % interval of a normal distribution is this many standard deviations to each side. */
static const double Z90 = 1.6448536269514722;

/* A size this near to a point's is the point's. */
static const double SAME_SIZE = 1e-3;

static const double MICRO = 1e6;

/* The points of one collective, algorithm and place, by bytes. */
struct set {
    enum lk_coll coll;
    enum lk_algo algo;
    int ranks, nodes;
    size_t n;
    double *bytes, *seconds, *sd; /* sd of the logarithm */
    struct lk_curve curve;
};

struct constants {
    bool known[LK_LINK_COUNT];
    struct lk_coll_constants k;
    double error; /* relative, of the fit */
    bool fitted;  /* from points of this machine, not from a datasheet */
};

struct place {
    enum lk_coll coll;
    enum lk_algo algo;
    int ranks, nodes;
};

/* A set carried to another rank count. */
struct carried {
    struct place at;
    struct lk_curve curve;
    double *error; /* of the model, by the set's points */
};

/* Curves carried so far: a sweep asks for the same rank counts again and again. */
struct carried_list {
    struct carried *list;
    size_t n, capacity;
};

struct lk_cost_model {
    struct set *sets;
    size_t n_sets;
    struct carried_list *carried; /* grows while the model is asked */
    struct constants constants[LK_COLL_COUNT][LK_ALGO_COUNT];
    double error_shift; /* of a draw, in standard deviations of the fits' errors */
    bool preset;
    bool has_nccl; /* the cluster file says what NCCL's model asks for */
    struct lk_nccl_machine machine;
    struct lk_nccl_factors factors[LK_NCCL_PLACE_COUNT];
    bool refitted[LK_NCCL_PLACE_COUNT];
};

/* ---- Sets ---- */

/* Relative sd of a quantity from its interval; 0 when that is unknown. */
static double log_sd(const struct lk_quantity *q)
{
    return q->lo > 0 && q->hi >= q->lo ? log(q->hi / q->lo) / (2 * Z90) : 0;
}

static bool same_set(const struct lk_cluster_point *a, const struct lk_cluster_point *b)
{
    return a->coll == b->coll && a->algo == b->algo && a->ranks == b->ranks && a->nodes == b->nodes;
}

/*
 * Points timed alone are the ones that match the step model, in which a collective begins when the
 * last rank arrives. Where a set has only back-to-back ones (nccl-tests), they are taken.
 */
static bool has_alone(const struct lk_cluster *c, const struct lk_cluster_point *like)
{
    for (size_t i = 0; i < c->n_points; i++)
        if (same_set(&c->points[i], like) && c->points[i].timing == LK_TIMING_ALONE)
            return true;
    return false;
}

static int by_bytes(const void *a, const void *b)
{
    const struct lk_cluster_point *const *p = a, *const *q = b;

    return ((*p)->bytes > (*q)->bytes) - ((*p)->bytes < (*q)->bytes);
}

static void set_fini(struct set *s)
{
    free(s->bytes);
    free(s->seconds);
    free(s->sd);
    lk_curve_fini(&s->curve);
}

/* The points like c's point `first`; several of one size are averaged in the logarithm. */
static enum lk_status set_init(struct set *s, const struct lk_cluster *c, size_t first,
                               double shift)
{
    enum lk_status st = LK_OK;
    const struct lk_cluster_point *like = &c->points[first], **picked = NULL;
    bool alone = has_alone(c, like);
    size_t n = 0;

    *s = (struct set){
        .coll = like->coll, .algo = like->algo, .ranks = like->ranks, .nodes = like->nodes};
    LK_TRY(lk_alloc(&picked, c->n_points, sizeof *picked));
    for (size_t i = 0; i < c->n_points; i++)
        if (same_set(&c->points[i], like) && (c->points[i].timing == LK_TIMING_ALONE) == alone &&
            c->points[i].time_s.value > 0)
            picked[n++] = &c->points[i];
    qsort(picked, n, sizeof *picked, by_bytes);
    LK_TRY(lk_alloc(&s->bytes, n, sizeof *s->bytes));
    LK_TRY(lk_alloc(&s->seconds, n, sizeof *s->seconds));
    LK_TRY(lk_alloc(&s->sd, n, sizeof *s->sd));
    for (size_t i = 0; i < n;) {
        double sum = 0, sd = 0;
        size_t same = 0;

        for (; i + same < n && picked[i + same]->bytes == picked[i]->bytes; same++) {
            sum += log(picked[i + same]->time_s.value);
            sd += log_sd(&picked[i + same]->time_s);
        }
        sd /= (double)same;
        /* A size of 0 (barrier) has no logarithm; it is the cost of anything up to a byte. */
        s->bytes[s->n] = fmax((double)picked[i]->bytes, 1);
        s->seconds[s->n] = exp(sum / (double)same + shift * sd);
        s->sd[s->n++] = sd;
        i += same;
    }
    if (s->n)
        LK_TRY(lk_curve_init(&s->curve, s->bytes, s->seconds, s->n, 1));
out:
    free(picked);
    if (st != LK_OK)
        set_fini(s);
    return st;
}

/* sd at a size: linear in the logarithm between the points, held outside. */
static double set_sd(const struct set *s, double bytes)
{
    size_t i = 0;

    if (bytes <= s->bytes[0])
        return s->sd[0];
    while (i + 1 < s->n && s->bytes[i + 1] < bytes)
        i++;
    if (i + 1 == s->n)
        return s->sd[i];
    return s->sd[i] + (s->sd[i + 1] - s->sd[i]) * log(bytes / s->bytes[i]) /
                          log(s->bytes[i + 1] / s->bytes[i]);
}

/* ln of how far point i lies off the straight line between its neighbours; ends: 0. */
static double off_line(const struct set *s, size_t i)
{
    double x;

    if (!i || i + 1 >= s->n)
        return 0;
    x = log(s->bytes[i] / s->bytes[i - 1]) / log(s->bytes[i + 1] / s->bytes[i - 1]);
    return fabs(log(s->seconds[i] / s->seconds[i - 1]) -
                x * log(s->seconds[i + 1] / s->seconds[i - 1]));
}

/*
 * sd between points: a curve can be wrong there by about what its own points next to the size are
 * off the line of their neighbours. ROUGH_SHARE and ROUGH_FLOOR: from sizes left out of public
 * tables (bench/accuracy_collectives).
 */
static double between_sd(const struct set *s, double bytes)
{
    static const double ROUGH_SHARE = 0.6, ROUGH_FLOOR = 0.02;
    size_t i = 0;

    while (i + 1 < s->n && s->bytes[i + 1] < bytes)
        i++;
    return fmax(ROUGH_FLOOR,
                ROUGH_SHARE * fmax(off_line(s, i), i + 1 < s->n ? off_line(s, i + 1) : 0));
}

static const struct set *find_set(const struct lk_cost_model *m, enum lk_coll coll,
                                  enum lk_algo algo, int ranks, int nodes)
{
    for (size_t i = 0; i < m->n_sets; i++) {
        const struct set *s = &m->sets[i];

        if (s->coll == coll && s->algo == algo && s->ranks == ranks && s->nodes == nodes)
            return s;
    }
    return NULL;
}

/* ---- Constants ---- */

static double moved(const struct lk_quantity *q, double shift)
{
    return lk_quantity_known(q) ? q->value * exp(shift * log_sd(q)) : 0;
}

/* A draw moves latency and bandwidth by two independent normal numbers, the same for all. */
struct shifts {
    double time, rate, error;
};

static void constants_from_fit(struct constants *k, const struct lk_cluster_fit *f,
                               struct shifts by)
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
                                const struct lk_cluster_link *from, int links, struct shifts by)
{
    if (k->known[link] || !lk_quantity_known(&from->bandwidth_Bps) ||
        !lk_quantity_known(&from->latency_s))
        return;
    k->known[link] = true;
    k->error = fmax(k->error, lk_prior_value(LK_PRIOR_PRESET_ERROR));
    k->k.alpha_s[link] = moved(&from->latency_s, by.time);
    k->k.bandwidth_Bps[link] = links * moved(&from->bandwidth_Bps, by.rate);
}

static void set_constants(struct lk_cost_model *m, const struct lk_cluster *c, struct shifts by)
{
    for (size_t i = 0; i < c->n_fits; i++)
        constants_from_fit(&m->constants[c->fits[i].coll][c->fits[i].algo], &c->fits[i], by);
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

/* Points that a fit looks at; more say little new, and a model is made for every draw. */
enum { NCCL_POINTS_MAX = 160 };

static size_t points_of(const struct lk_cost_model *m, enum lk_nccl_place place, size_t every,
                        struct lk_nccl_point *out)
{
    size_t n = 0, seen = 0;

    for (size_t i = 0; i < m->n_sets; i++) {
        const struct set *s = &m->sets[i];
        struct lk_nccl_comm comm;

        if (s->ranks < 2 || !lk_nccl_comm_of(&m->machine, s->ranks, s->nodes, &comm) ||
            lk_nccl_place_of(&comm, m->machine.topology.network) != place)
            continue;
        for (size_t j = 0; j < s->n; j++, seen++) {
            if (seen % every)
                continue;
            if (out)
                out[n] = (struct lk_nccl_point){comm, s->coll, s->algo, s->bytes[j],
                                                s->seconds[j] * MICRO};
            n++;
        }
    }
    return n;
}

/* Factors of each place: the prior, moved by the cluster's points, moved by the draw. */
static enum lk_status set_factors(struct lk_cost_model *m, const struct lk_nccl_factors *prior,
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

static enum lk_status add_sets(struct lk_cost_model *m, const struct lk_cluster *c, double shift)
{
    enum lk_status st = LK_OK;

    LK_TRY(lk_alloc(&m->sets, c->n_points, sizeof *m->sets));
    for (size_t i = 0; i < c->n_points; i++) {
        const struct lk_cluster_point *p = &c->points[i];

        if (find_set(m, p->coll, p->algo, p->ranks, p->nodes))
            continue;
        LK_TRY(set_init(&m->sets[m->n_sets], c, i, shift));
        if (m->sets[m->n_sets].n)
            m->n_sets++;
        else
            set_fini(&m->sets[m->n_sets]);
    }
out:
    return st;
}

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
    struct shifts by = {0};
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
    LK_TRY(add_sets(m, c, shift));
    LK_TRY(lk_coll_fit_missing(c, &with_fits, &own_fits));
    set_constants(m, &with_fits, by);
    m->has_nccl = lk_nccl_machine_of(c, &m->machine);
    if (m->has_nccl)
        LK_TRY(set_factors(m, prior, draw));
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
    for (size_t i = 0; i < m->n_sets; i++)
        set_fini(&m->sets[i]);
    free(m->sets);
    for (size_t i = 0; m->carried && i < m->carried->n; i++) {
        lk_curve_fini(&m->carried->list[i].curve);
        free(m->carried->list[i].error);
    }
    if (m->carried)
        free(m->carried->list);
    free(m->carried);
    free(m);
}

/* ---- Evaluation ---- */

/* What the alpha-beta model says. */
struct modelled {
    double seconds; /* NaN: nothing is known */
    double error;   /* relative, of the constants */
    bool fitted;
};

/* By NCCL's model; seconds NaN: it does not say. */
static struct modelled nccl(const struct lk_cost_model *m, struct place at, double bytes)
{
    struct modelled out = {.seconds = NAN};
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
static struct modelled formula(const struct lk_cost_model *m, struct place at, double bytes)
{
    struct modelled best = nccl(m, at, bytes);

    if (!isnan(best.seconds))
        return best;
    for (int a = 0; a < LK_ALGO_COUNT; a++) {
        const struct constants *k = &m->constants[at.coll][a];
        struct lk_coll_shape shape;
        double s;

        if (at.algo != LK_ALGO_AUTO && a != (int)at.algo)
            continue;
        if (!lk_coll_shape(at.coll, (enum lk_algo)a, bytes, at.ranks, at.nodes, &shape))
            continue;
        s = lk_coll_formula_s(&k->k, &shape);
        if (!isnan(s) && (isnan(best.seconds) || s < best.seconds))
            best = (struct modelled){s, k->error, k->fitted};
    }
    return best;
}

static void grade(const struct lk_cost_model *m, struct lk_cost *c, enum lk_evidence evidence,
                  double sd)
{
    c->evidence = m->preset && evidence < LK_EVIDENCE_PRESET ? LK_EVIDENCE_PRESET : evidence;
    c->lo = c->seconds * exp(-Z90 * sd);
    c->hi = c->seconds * exp(Z90 * sd);
}

static void eval_measured(const struct lk_cost_model *m, const struct set *s, double bytes,
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
    if (bytes > last * (1 + SAME_SIZE)) {
        evidence = LK_EVIDENCE_EXTRAPOLATED;
        out->reach = bytes / last;
        out->reach_is_bytes = true;
    }
    grade(m, out, evidence,
          evidence == LK_EVIDENCE_MEASURED ? set_sd(s, bytes)
                                           : hypot(set_sd(s, bytes), between_sd(s, bytes)));
}

/* Inside a node, one rank a node, or several: places that a model may be carried between. */
static int kind_of_place(int ranks, int nodes)
{
    return nodes == 1 ? 0 : nodes == ranks ? 1 : 2;
}

/* The measured set nearest in ranks, of the same kind of place; *out_inside: between two such. */
static const struct set *nearest_set(const struct lk_cost_model *m, struct place at,
                                     bool *out_inside)
{
    const struct set *best = NULL;
    bool below = false, above = false;

    for (size_t i = 0; i < m->n_sets; i++) {
        const struct set *s = &m->sets[i];
        double d = fabs(log((double)s->ranks / at.ranks));

        if (s->coll != at.coll || s->algo != at.algo || s->ranks < 2 ||
            kind_of_place(s->ranks, s->nodes) != kind_of_place(at.ranks, at.nodes))
            continue;
        below |= s->ranks < at.ranks;
        above |= s->ranks > at.ranks;
        if (!best || d < fabs(log((double)best->ranks / at.ranks)))
            best = s;
    }
    *out_inside = below && above;
    return best;
}

/*
 * Case 2 of the header: the nearest set's points, each carried over by the ratio of the model at
 * the two rank counts, as a curve of its own, so that the result is monotone.
 */
static enum lk_status carry(const struct lk_cost_model *m, const struct set *from, struct place at,
                            struct carried *out)
{
    enum lk_status st = LK_OK;
    struct place there = {at.coll, at.algo, from->ranks, from->nodes};
    double doublings = fabs(log2((double)at.ranks / from->ranks)), *seconds = NULL;
    struct carried c = {.at = at};

    LK_TRY(lk_alloc(&seconds, from->n, sizeof *seconds));
    LK_TRY(lk_alloc(&c.error, from->n, sizeof *c.error));
    for (size_t i = 0; i < from->n; i++) {
        struct modelled here = formula(m, at, from->bytes[i]);

        c.error[i] = here.error;
        seconds[i] = from->seconds[i] * here.seconds / formula(m, there, from->bytes[i]).seconds *
                     exp(m->error_shift * here.error * doublings);
    }
    LK_TRY(lk_curve_init(&c.curve, from->bytes, seconds, from->n, 1));
    *out = c;
    c.error = NULL;
out:
    free(c.error);
    free(seconds);
    return st;
}

/* The curve of a place, made when it is asked for first. */
static enum lk_status find_carried(const struct lk_cost_model *m, const struct set *from,
                                   struct place at, const struct carried **out)
{
    enum lk_status st = LK_OK;
    struct carried_list *l = m->carried;

    for (size_t i = 0; i < l->n; i++) {
        const struct place *p = &l->list[i].at;

        if (p->coll == at.coll && p->algo == at.algo && p->ranks == at.ranks &&
            p->nodes == at.nodes) {
            *out = &l->list[i];
            return LK_OK;
        }
    }
    LK_TRY(lk_array_grow(&l->list, &l->capacity, l->n + 1, sizeof *l->list));
    LK_TRY(carry(m, from, at, &l->list[l->n]));
    *out = &l->list[l->n++];
out:
    return st;
}

static enum lk_status carry_over(const struct lk_cost_model *m, const struct set *from,
                                 struct place at, bool inside, const uint64_t *bytes, size_t n,
                                 struct lk_cost *out)
{
    enum lk_status st = LK_OK;
    double doublings = fabs(log2((double)at.ranks / from->ranks));
    const struct carried *c;

    LK_TRY(find_carried(m, from, at, &c));
    for (size_t i = 0; i < n; i++) {
        double b = fmax((double)bytes[i], 1);
        size_t k = 0;

        while (k + 1 < from->n && from->bytes[k] < b)
            k++;
        out[i] = (struct lk_cost){.seconds = lk_curve_at(&c->curve, b),
                                  .reach = fmax(1, (double)at.ranks / from->ranks)};
        grade(m, &out[i], inside ? LK_EVIDENCE_INTERPOLATED : LK_EVIDENCE_EXTRAPOLATED,
              hypot(set_sd(from, b), c->error[k] * doublings));
    }
out:
    return st;
}

static enum lk_status no_evidence(struct place at)
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

static enum lk_status eval_formula(const struct lk_cost_model *m, struct place at,
                                   const uint64_t *bytes, size_t n, struct lk_cost *out)
{
    for (size_t i = 0; i < n; i++) {
        struct modelled f = formula(m, at, (double)bytes[i]);

        if (isnan(f.seconds))
            return no_evidence(at);
        out[i] = (struct lk_cost){.seconds = f.seconds, .reach = at.ranks / 2.0};
        grade(m, &out[i], f.fitted ? LK_EVIDENCE_EXTRAPOLATED : LK_EVIDENCE_PRESET, f.error);
    }
    return LK_OK;
}

/* One algorithm, or AUTO as it was measured. *out_found false: nothing measured that fits. */
static enum lk_status eval_points(const struct lk_cost_model *m, struct place at,
                                  const uint64_t *bytes, size_t n, struct lk_cost *out,
                                  bool *out_found)
{
    const struct set *s = find_set(m, at.coll, at.algo, at.ranks, at.nodes);
    bool inside;

    *out_found = true;
    if (s) {
        for (size_t i = 0; i < n; i++)
            eval_measured(m, s, (double)bytes[i], &out[i]);
        return LK_OK;
    }
    s = nearest_set(m, at, &inside);
    if (s && !isnan(formula(m, at, 1).seconds) &&
        !isnan(formula(m, (struct place){at.coll, at.algo, s->ranks, s->nodes}, 1).seconds))
        return carry_over(m, s, at, inside, bytes, n, out);
    *out_found = false;
    return LK_OK;
}

/* AUTO without points of its own: the fastest of the measured algorithms, size by size. */
static enum lk_status eval_fastest(const struct lk_cost_model *m, struct place at,
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
    struct place at = {coll, algo, ranks, nodes};
    bool found;

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
