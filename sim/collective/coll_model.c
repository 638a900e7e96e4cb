/*
 * This file models the collectives of a cluster.
 *
 * Divisions: NCCL / creation / evaluation / outside the sizes of a set
 * / rescaling to another rank count / other collectives from an all-reduce.
 */
#include "sim/collective/coll_model.h"

#include "base/array.h"
#include "sim/collective/coll_constants.h"
#include "sim/collective/nccl_fit.h"
#include "sim/prior.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const double MICRO = 1e6;
enum { CHOICE_BYTES = 64 };

/* The constants of both models. */
struct knowledge {
    struct lk_coll_constants constants[LK_COLL_MODELLED][LK_ALGO_COUNT];
    struct lk_nccl_factors factors[LK_NCCL_FABRIC_COUNT];
};

struct lk_coll_model {
    const struct lk_coll_sets *sets;
    struct knowledge own, datasheet; /* with the cluster's points and fits, and without them */
    bool from_all_reduce[LK_COLL_MODELLED]; /* the cluster has nothing of them itself */
    double error_shift;                     /* of a draw, in standard deviations */
    bool has_nccl;                          /* the cluster file has what NCCL's model needs */
    struct lk_nccl_machine machine;
    const struct lk_nccl_machine *choices; /* NCCL chooses as on this one; NULL: as on its own */
    bool refitted[LK_NCCL_FABRIC_COUNT];
    struct lk_link_rates rates, best_rates; /* in a draw both are the best */
    /*
     * The smallest ratio of a measured time to the bound by the link rates, <= 1: where points
     * were faster than the file's links allow, the links are faster than the file says.
     */
    double rate_share[LK_LINK_COUNT];
};

/* ---- NCCL ---- */

/*
 * The share of a prior's error that is left after this machine's points moved its factors, from
 * rank counts left out of public tables (bench/accuracy_collectives).
 */
static const double REFITTED_SHARE = 0.5;
/* A fit uses at most this many points: more add little, and each Monte Carlo draw makes a model. */
enum { NCCL_POINTS_MAX = 160 };

static size_t points_of(const struct lk_coll_model *m, enum lk_nccl_fabric fabric, size_t every,
                        struct lk_nccl_point *out)
{
    size_t n = 0, seen = 0;

    for (size_t i = 0; i < m->sets->n; i++) {
        const struct lk_coll_set *s = &m->sets->list[i];
        struct lk_nccl_comm comm;

        if (s->at.ranks < 2 || !lk_nccl_comm_of(&m->machine, s->at.ranks, s->at.nodes, &comm) ||
            lk_nccl_fabric_of(&comm, m->machine.topology.network) != fabric)
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

/* Set the factors of each fabric: the prior, moved by the cluster's points, then by the draw. */
static enum lk_status set_factors(struct lk_coll_model *m, const struct lk_nccl_factors *prior,
                                  struct lk_rng *draw)
{
    enum lk_status st = LK_OK;
    struct lk_nccl_point *points = NULL;

    for (int p = 0; p < LK_NCCL_FABRIC_COUNT; p++) {
        enum lk_nccl_fabric fabric = (enum lk_nccl_fabric)p;
        struct lk_nccl_factors row = prior ? prior[p] : lk_nccl_prior(fabric);
        struct lk_nccl_factors *f = &m->own.factors[p];
        size_t n = points_of(m, fabric, 1, NULL), every = n / NCCL_POINTS_MAX + 1;

        *f = m->datasheet.factors[p] = row;
        if (n) {
            LK_TRY(lk_alloc(&points, n, sizeof *points));
            n = points_of(m, fabric, every, points);
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

static void set_rate_shares(struct lk_coll_model *m)
{
    m->rate_share[LK_LINK_INTRA] = m->rate_share[LK_LINK_INTER] = 1;
    for (size_t i = 0; i < m->sets->n; i++) {
        const struct lk_coll_set *s = &m->sets->list[i];
        double *share = &m->rate_share[s->at.nodes > 1 ? LK_LINK_INTER : LK_LINK_INTRA];

        for (size_t j = 0; j < s->n; j++) {
            double bound_s =
                lk_link_bound_s(&m->rates, s->at.coll, s->bytes[j], s->at.ranks, s->at.nodes);

            if (bound_s > 0)
                *share = fmin(*share, s->seconds[j] / bound_s);
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
    m->rates = lk_link_rates_of(c, draw != NULL);
    m->best_rates = lk_link_rates_of(c, true);
    set_rate_shares(m);
    m->error_shift = by.error;
    for (int coll = 0; coll < LK_COLL_MODELLED; coll++)
        m->from_all_reduce[coll] = lk_coll_from_all_reduce(c, (enum lk_coll)coll);
    lk_coll_constants_set(m->own.constants, c, true, by);
    lk_coll_constants_set(m->datasheet.constants, c, false, (struct lk_coll_shifts){0});
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

/* Return the time by NCCL's model; seconds is NaN if the model does not apply. */
static struct lk_coll_modelled nccl(const struct lk_coll_model *m, const struct knowledge *k,
                                    struct lk_coll_key at, double bytes)
{
    struct lk_coll_modelled out = {.seconds = NAN};
    struct lk_nccl_comm comm, like;
    enum lk_nccl_fabric fabric;

    if (!m->has_nccl || !lk_nccl_comm_of(&m->machine, at.ranks, at.nodes, &comm))
        return out;
    fabric = lk_nccl_fabric_of(&comm, m->machine.topology.network);
    if (m->choices && lk_nccl_comm_of(m->choices, at.ranks, at.nodes, &like))
        out.seconds =
            lk_nccl_refit_as_us(&comm, &like, &k->factors[fabric], at.coll, at.algo, bytes) / MICRO;
    else
        out.seconds = lk_nccl_refit_us(&comm, &k->factors[fabric], at.coll, at.algo, bytes) / MICRO;
    out.fitted = k == &m->own && m->refitted[fabric];
    out.error =
        lk_nccl_error(&k->factors[fabric], bytes, comm.nodes) * (out.fitted ? REFITTED_SHARE : 1);
    if (k == &m->own && !out.fitted)
        out.seconds *= exp(m->error_shift * out.error);
    return out;
}

/* Return the time by one algorithm or, for AUTO, by the fastest known. */
static struct lk_coll_modelled formula(const struct lk_coll_model *m, const struct knowledge *of,
                                       struct lk_coll_key at, double bytes)
{
    struct lk_coll_modelled best = nccl(m, of, at, bytes);
    double uplinks;
    int per_node;

    if (!isnan(best.seconds))
        return best;
    per_node = at.ranks / at.nodes;
    uplinks = lk_nccl_uplink_factor(m->machine.topology.nodes_per_switch,
                                    m->machine.oversubscription, at.nodes);
    for (int a = 0; a < LK_ALGO_COUNT; a++) {
        const struct lk_coll_constants *k = &of->constants[at.coll][a];
        struct lk_alpha_beta_constants constants;
        struct lk_alpha_beta_shape shape;
        double s;

        if (at.algo != LK_ALGO_AUTO && a != (int)at.algo)
            continue;
        if (!lk_alpha_beta_shape(at.coll, (enum lk_algo)a, bytes, at.ranks, at.nodes, &shape))
            continue;
        constants = k->k;
        constants.bandwidth_Bps[LK_LINK_INTER] *=
            lk_coll_cards(&m->rates, per_node) / lk_coll_cards(&m->rates, k->per_node) / uplinks;
        s = lk_alpha_beta_s(&constants, &shape);
        if (!isnan(s) && (isnan(best.seconds) || s < best.seconds))
            best = (struct lk_coll_modelled){s, k->error, k->fitted,
                                             a <= LK_ALGO_RING && uplinks <= 1};
    }
    return best;
}

double lk_coll_model_bound_s(const struct lk_coll_model *m, struct lk_coll_key at, double bytes,
                             bool best)
{
    return lk_link_bound_s(best ? &m->best_rates : &m->rates, at.coll, bytes, at.ranks, at.nodes) *
           m->rate_share[at.nodes > 1 ? LK_LINK_INTER : LK_LINK_INTRA];
}

/*
 * Return the time by what is known, but not below the bound by the links, nor below the time of
 * fewer ranks, for which the library might choose a slower algorithm: more never cost less.
 */
static struct lk_coll_modelled bounded(const struct lk_coll_model *m, const struct knowledge *of,
                                       struct lk_coll_key at, double bytes)
{
    struct lk_coll_modelled out = formula(m, of, at, bytes);

    if (isnan(out.seconds))
        return out;
    out.seconds = fmax(out.seconds, lk_coll_model_bound_s(m, at, bytes, false));
    while (lk_coll_key_fewer(&at, m->rates.nvls))
        out.seconds = fmax(out.seconds, formula(m, of, at, bytes).seconds);
    return out;
}

struct lk_coll_modelled lk_coll_model_at(const struct lk_coll_model *m, struct lk_coll_key at,
                                         double bytes)
{
    return bounded(m, &m->own, at, bytes);
}

static bool offer(const struct lk_coll_model *m, struct lk_coll_key at, double bytes,
                  struct lk_nccl_choice *out)
{
    struct lk_nccl_choice all[LK_NCCL_OFFERS_MAX];
    struct lk_nccl_comm comm;

    if (!m->has_nccl || !lk_nccl_comm_of(&m->machine, at.ranks, at.nodes, &comm) ||
        !lk_nccl_offers(&comm, at.coll, at.algo, bytes, all))
        return false;
    *out = all[0];
    return true;
}

double lk_coll_model_choice(const struct lk_coll_model *m, const struct lk_coll_model *like,
                            struct lk_coll_key at, double bytes, char *text)
{
    struct lk_coll_model kept = *m;
    struct lk_nccl_choice here, there;
    double own_s, kept_s;

    kept.choices = &like->machine;
    *text = '\0';
    if (!offer(m, at, bytes, &here) || !offer(like, at, bytes, &there))
        return 1;
    own_s = lk_coll_model_at(m, at, bytes).seconds;
    kept_s = lk_coll_model_at(&kept, at, bytes).seconds;
    if (here.algo == there.algo && here.proto == there.proto) /* the more often, not always */
        snprintf(text, CHOICE_BYTES, "%s %s less often", lk_algo_name(there.algo),
                 lk_nccl_proto_name(there.proto));
    else
        snprintf(text, CHOICE_BYTES, "%s %s instead of %s %s", lk_algo_name(here.algo),
                 lk_nccl_proto_name(here.proto), lk_algo_name(there.algo),
                 lk_nccl_proto_name(there.proto));
    return isnan(kept_s) ? 1 : own_s / kept_s;
}

/* Return true if NCCL's model, and not alpha-beta, gives the time. */
static bool by_nccl(const struct lk_coll_model *m, struct lk_coll_key at)
{
    return !isnan(nccl(m, &m->own, at, 1).seconds);
}

/* ---- Outside the sizes of a set ---- */

/* Either of two estimates may be right: the error is the distance from their mean. */
static const double DIFFERENCE_SHARE = 0.5;

/*
 * How far NCCL's model is off the nearest measured size holds for sizes near it: the difference
 * halves in SHIFT_OCTAVES octaves of bytes, since other algorithms follow. The error grows to that
 * of a datasheet alone, half of it in DOUBT_OCTAVES. Both are from sizes outside a part of public
 * tables (bench/accuracy_collectives, "sizes outside the sweep").
 */
static const double SHIFT_OCTAVES = 1.4, DOUBT_OCTAVES = 0.5;

/* Return the error (ln) of a datasheet alone, of alpha-beta the one of a network of unknown kind.
 */
static double datasheet_error(const struct lk_coll_model *m, struct lk_coll_key at, double bytes)
{
    struct lk_coll_modelled by_nccl = nccl(m, &m->datasheet, at, bytes);
    enum lk_nccl_fabric other =
        at.nodes > 1 ? LK_NCCL_OVER + (int)LK_NETWORK_UNKNOWN : LK_NCCL_IN_PCI;
    struct lk_nccl_factors row = lk_nccl_prior(other);

    return isnan(by_nccl.seconds) ? lk_nccl_error(&row, bytes, at.nodes) : by_nccl.error;
}

/*
 * Return ln of the seconds by what is known, moved to meet `end_s` at `end` bytes; NaN without a
 * model. Alpha-beta has no algorithms that follow one another, so that it is moved as a whole.
 */
static double moved_to_meet(const struct lk_coll_model *m, const struct knowledge *of,
                            struct lk_coll_key at, double bytes, double end, double end_s)
{
    double off = log(end_s / bounded(m, of, at, end).seconds);

    if (!isnan(nccl(m, of, at, bytes).seconds))
        off *= exp2(-fabs(log2(bytes / end)) / SHIFT_OCTAVES);
    return log(bounded(m, of, at, bytes).seconds) + off;
}

/*
 * Return the error (ln) of a time outside the sizes of a set. One algorithm's share of bytes in its
 * time grows with them: below the sizes its time falls by no greater slope than at their end, and
 * above them it grows by no lesser one; the error is at most half of what this leaves open.
 * NCCL's algorithms follow one another, so that nothing bounds their error but a datasheet's.
 */
static double outside_error(const struct lk_coll_model *m, const struct lk_coll_set *s,
                            double bytes, double octaves)
{
    double error = datasheet_error(m, s->at, bytes), slope;

    if (by_nccl(m, s->at))
        return error * (1 - exp2(-octaves / DOUBT_OCTAVES));
    if (s->n < 2)
        return error;
    slope = bytes < s->bytes[0] ? lk_coll_set_slope(s, 0) : 1 - lk_coll_set_slope(s, s->n - 1);
    return fmin(error, DIFFERENCE_SHARE * slope * octaves * log(2));
}

/*
 * Return the time at any size of a set, before the shifts of a draw. The points move all constants,
 * also those of algorithms that only other sizes use, which the datasheet may know better: outside
 * the sizes the time is the mean of both in the logarithm.
 */
static struct lk_coll_modelled of_set(const struct lk_coll_model *m, const struct lk_coll_set *s,
                                      double bytes)
{
    double end = fmin(fmax(bytes, s->bytes[0]), s->bytes[s->n - 1]);
    double end_s = lk_loglog_curve_at(&s->curve, end), octaves = fabs(log2(bytes / end)), own,
           other;
    struct lk_coll_modelled out = {.seconds = lk_loglog_curve_at(&s->curve, bytes)};

    if (!(octaves > 0))
        return out;
    own = moved_to_meet(m, &m->own, s->at, bytes, end, end_s);
    other = moved_to_meet(m, &m->datasheet, s->at, bytes, end, end_s);
    if (isnan(other))
        other = isnan(own) ? log(out.seconds) : own;
    if (isnan(own))
        own = other;
    out.seconds = exp((own + other) / 2);
    out.error = hypot(outside_error(m, s, bytes, octaves), DIFFERENCE_SHARE * fabs(own - other));
    return out;
}

struct lk_coll_modelled lk_coll_model_of_set(const struct lk_coll_model *m,
                                             const struct lk_coll_set *s, double bytes)
{
    struct lk_coll_modelled out = of_set(m, s, bytes);
    double bound_s = lk_coll_model_bound_s(m, s->at, bytes, false);

    if (out.error > 0)
        out.seconds = fmax(out.seconds * exp(m->error_shift * out.error), bound_s);
    return out;
}

/* ---- Rescaling to another rank count ---- */

/*
 * Rescale a ring's measured time of point i to another rank count. This applies where only
 * alpha-beta models the collective. Between nodes of several ranks, too, each hop waits for the
 * slowest one, which is between nodes. *out_error is the relative sd for each doubling of the
 * ranks.
 *
 * A ring on K ranks passes chunks of m/K from rank to rank, once a hop. So the hops of m bytes on
 * K ranks are those of m0 bytes with the same chunk on K0 ranks:
 *
 *     T(K, m) = T(K0, m0) x model(K, m) / model(K0, m0)    m0 = m K0/K
 *
 * The ratio is that of the hops, apart from the launch. This keeps effects that no straight line
 * has: bursts that a link passes at once, delayed acknowledgements, a protocol that changes with
 * the size.
 *
 * The model at equal bytes gives another estimate. The error is half the difference between the
 * two, at least LK_PRIOR_RESCALE_ERROR.
 */
static double rescale_ring(const struct lk_coll_model *m, const struct lk_coll_set *from, size_t i,
                           struct lk_coll_key at, double *out_error)
{
    double bytes = from->bytes[i], ratio = (double)at.ranks / from->at.ranks;
    double chunk_bytes = fmax(1, bytes / ratio);
    double here = lk_coll_model_at(m, at, bytes).seconds;
    double by_chunk = of_set(m, from, chunk_bytes).seconds * here /
                      lk_coll_model_at(m, from->at, chunk_bytes).seconds;
    double by_bytes = from->seconds[i] * here / lk_coll_model_at(m, from->at, bytes).seconds;

    *out_error = hypot(lk_prior_value(LK_PRIOR_RESCALE_ERROR),
                       DIFFERENCE_SHARE * log(by_chunk / by_bytes) / log2(ratio));
    return by_chunk;
}

/*
 * How far NCCL's model is off the measured count holds for counts near it: the difference halves in
 * SHIFT_DOUBLINGS doublings of the ranks, and the datasheet's time comes in its place. The error
 * grows to the datasheet's, half of it in DOUBT_DOUBLINGS; doubt about the regime is added. From 2
 * to 512 nodes of GH200 (bench/accuracy_collectives, "carried" and "left-out rank counts").
 */
static const double SHIFT_DOUBLINGS = 8, DOUBT_DOUBLINGS = 1.5;

static enum lk_status rescale_by_nccl(const struct lk_coll_model *m, const struct lk_coll_set *from,
                                      const double *typical, struct lk_coll_key at, double *seconds,
                                      double *sd)
{
    struct lk_nccl_measured measured = {
        .bytes = from->bytes, .seconds = from->seconds, .typical = typical, .n = from->n};
    struct lk_nccl_comm comm;
    enum lk_nccl_fabric fabric;

    lk_nccl_comm_of(&m->machine, at.ranks, at.nodes, &comm);
    lk_nccl_comm_of(&m->machine, from->at.ranks, from->at.nodes, &measured.comm);
    fabric = lk_nccl_fabric_of(&comm, m->machine.topology.network);
    return lk_nccl_rescale(&comm, &measured, &m->own.factors[fabric], at.coll, at.algo, seconds,
                           sd);
}

enum lk_status lk_coll_model_rescale(const struct lk_coll_model *m, const struct lk_coll_set *from,
                                     struct lk_coll_key at, double *seconds, double *sd)
{
    enum lk_status st = LK_OK;
    double doublings = fabs(log2((double)at.ranks / from->at.ranks));
    double left = exp2(-doublings / SHIFT_DOUBLINGS);
    double doubt = 1 - exp2(-doublings / DOUBT_DOUBLINGS);
    bool nccl_at = by_nccl(m, at) && by_nccl(m, from->at);
    struct lk_coll_set typical = {0};
    struct lk_coll_modelled *there = NULL;
    double *misfit = NULL;

    LK_TRY(lk_alloc(&there, from->n, sizeof *there));
    LK_TRY(lk_alloc(&misfit, from->n, sizeof *misfit));
    for (size_t i = 0; i < from->n; i++) {
        there[i] = lk_coll_model_at(m, from->at, from->bytes[i]);
        misfit[i] = log(from->seconds[i] / there[i].seconds);
    }
    LK_TRY(lk_coll_set_typical(from, misfit, &typical));
    for (size_t i = 0; i < from->n; i++) {
        struct lk_coll_modelled here = lk_coll_model_at(m, at, from->bytes[i]);
        double error = here.error, off = log(from->seconds[i] / typical.seconds[i]);

        seconds[i] = here.is_ring && there[i].is_ring
                         ? rescale_ring(m, &typical, i, at, &error)
                         : typical.seconds[i] * here.seconds / there[i].seconds;
        error = nccl_at ? doubt * datasheet_error(m, at, from->bytes[i]) : error * doublings;
        sd[i] = hypot(error, DIFFERENCE_SHARE * off);
    }
    if (nccl_at)
        LK_TRY(rescale_by_nccl(m, from, typical.seconds, at, seconds, sd));
    for (size_t i = 0; i < from->n; i++) {
        struct lk_coll_modelled datasheet = bounded(m, &m->datasheet, at, from->bytes[i]);
        double off = nccl_at ? log(seconds[i] / datasheet.seconds) : 0;

        seconds[i] *= exp(off * (left - 1) + m->error_shift * sd[i]);
        seconds[i] = fmax(seconds[i], lk_coll_model_bound_s(m, at, from->bytes[i], false));
    }
out:
    free(there);
    free(misfit);
    lk_coll_set_fini(&typical);
    return st;
}

/* ---- Other collectives from an all-reduce ---- */

bool lk_coll_model_derives(const struct lk_coll_model *m, struct lk_coll_key from,
                           enum lk_coll coll)
{
    return from.coll == LK_ALL_REDUCE && from.ranks > 1 && m->from_all_reduce[coll] &&
           !by_nccl(m, from);
}
