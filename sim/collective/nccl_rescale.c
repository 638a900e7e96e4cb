/* This file rescales measured times to another communicator. */
#include "sim/collective/nccl_rescale.h"

#include "base/array.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/*
 * A fall of at least LEFT_SLOW (ln) is a boundary of the model if one lies within BOUNDARY_POINTS
 * sizes.
 */
static const double LEFT_SLOW = 0.2;
enum { BOUNDARY_POINTS = 2 };

/*
 * Beyond ALIKE_OCTAVES, the size matters more than the regime. FAR is more octaves than between
 * any two sizes.
 */
static const double ALIKE_OCTAVES = 1.1, FAR = 1e3;

/*
 * The share of the difference between neighbouring sizes that counts as error of a rescaled time.
 */
static const double ROUGH_SHARE = 0.5;

struct regime {
    enum lk_algo algo;
    enum lk_nccl_proto proto;
};

static bool same(struct regime a, struct regime b)
{
    return a.algo == b.algo && a.proto == b.proto;
}

/*
 * Return true if times show that another regime begins after size i: they fall, or grow faster
 * than bytes.
 */
static bool breaks(const struct lk_nccl_measured *from, size_t i)
{
    double grown = log(from->seconds[i + 1] / from->seconds[i]);

    return grown < -LEFT_SLOW || grown > log(from->bytes[i + 1] / from->bytes[i]) + LEFT_SLOW;
}

/* Return true if the model has a boundary between sizes i and i + 1 that the times do not show. */
static bool unconfirmed(const struct lk_nccl_measured *from, const struct regime *r, size_t i)
{
    return i + 1 < from->n && !same(r[i], r[i + 1]) && !breaks(from, i);
}

/* Move the nearest unconfirmed boundary to a fall of the times. */
static void move_boundary(const struct lk_nccl_measured *from, struct regime *r, size_t fall)
{
    for (size_t d = 1; d <= BOUNDARY_POINTS; d++) {
        if (unconfirmed(from, r, fall + d)) {
            for (size_t i = fall + 1; i <= fall + d; i++)
                r[i] = r[fall + d + 1];
            return;
        }
        if (d <= fall && unconfirmed(from, r, fall - d)) {
            for (size_t i = fall - d + 1; i <= fall; i++)
                r[i] = r[fall - d];
            return;
        }
    }
}

static void set_regimes(const struct lk_nccl_measured *from, enum lk_coll coll, enum lk_algo algo,
                        struct regime *r)
{
    struct lk_nccl_choice all[LK_NCCL_OFFERS_MAX];

    for (size_t i = 0; i < from->n; i++) {
        lk_nccl_offers(&from->comm, coll, algo, from->bytes[i], all);
        r[i] = (struct regime){all[0].algo, all[0].proto};
    }
    for (size_t i = 0; i + 1 < from->n; i++)
        if (same(r[i], r[i + 1]) && log(from->seconds[i] / from->seconds[i + 1]) > LEFT_SLOW)
            move_boundary(from, r, i);
}

/* Return the measured size nearest to `bytes`, of regime k if one lies within ALIKE_OCTAVES. */
static size_t nearest(const struct lk_nccl_measured *from, const struct regime *r, struct regime k,
                      double bytes)
{
    size_t best = 0;
    double least = INFINITY;

    for (size_t i = 0; i < from->n; i++) {
        double d = fabs(log2(from->bytes[i] / bytes));

        if (d > ALIKE_OCTAVES || !same(r[i], k))
            d += FAR;
        if (d < least) {
            least = d;
            best = i;
        }
    }
    return best;
}

/* Inputs of a rescaling: the measured side with its regimes, and the model of both sides. */
struct job {
    const struct lk_nccl_comm *here;
    const struct lk_nccl_measured *from;
    const struct lk_nccl_factors *f;
    enum lk_coll coll;
    struct regime *regime; /* of the measured sizes */
    double *misfit;        /* ln of measured over model */
};

/* Return the unevenness of the misfit around a measured size. */
static double rough(const struct job *j, size_t i)
{
    double down = i ? fabs(j->misfit[i] - j->misfit[i - 1]) : 0;
    double up = i + 1 < j->from->n ? fabs(j->misfit[i + 1] - j->misfit[i]) : 0;

    return ROUGH_SHARE * fmax(down, up);
}

/* Return ln of the seconds of choice k, from the nearest comparable measured size. */
static double rescaled_ln(const struct job *j, const struct lk_nccl_choice *k, double bytes,
                          double *out_rough)
{
    const struct lk_nccl_measured *from = j->from;
    double alike = k->algo == LK_ALGO_RING ? bytes * from->comm.ranks / j->here->ranks : bytes;
    size_t i = nearest(from, j->regime, (struct regime){k->algo, k->proto}, alike);
    struct lk_nccl_choice there = {.algo = j->regime[i].algo, .proto = j->regime[i].proto};

    there.parts = lk_nccl_parts_of(&from->comm, j->coll, there.algo, there.proto, from->bytes[i]);
    *out_rough = rough(j, i);
    return log(from->seconds[i] * lk_nccl_choice_us(j->here, j->f, j->coll, k, bytes) /
               lk_nccl_choice_us(&from->comm, j->f, j->coll, &there, from->bytes[i]));
}

static struct lk_nccl_rescaled rescale_size(const struct job *j, enum lk_algo algo, double bytes)
{
    struct lk_nccl_choice all[LK_NCCL_OFFERS_MAX];
    size_t n = lk_nccl_offers(j->here, j->coll, algo, bytes, all);
    double sum = 0, ln = 0, squares = 0, rough_squares = 0, variance;

    for (size_t i = 0; i < n; i++) {
        double w = lk_nccl_choice_weight(&all[0], &all[i]), r, x;

        if (w <= 0)
            continue;
        x = rescaled_ln(j, &all[i], bytes, &r);
        sum += w;
        ln += w * x;
        squares += w * x * x;
        rough_squares += w * r * r;
    }
    if (sum <= 0)
        return (struct lk_nccl_rescaled){NAN, 0};
    variance = fmax(0, squares / sum - ln / sum * (ln / sum)) + rough_squares / sum;
    return (struct lk_nccl_rescaled){exp(ln / sum), sqrt(variance)};
}

enum lk_status lk_nccl_rescale(const struct lk_nccl_comm *here, const struct lk_nccl_measured *from,
                               const struct lk_nccl_factors *f, enum lk_coll coll,
                               enum lk_algo algo, struct lk_nccl_rescaled *out)
{
    enum lk_status st = LK_OK;
    struct job j = {.here = here, .from = from, .f = f, .coll = coll};

    LK_TRY(lk_alloc(&j.regime, from->n, sizeof *j.regime));
    LK_TRY(lk_alloc(&j.misfit, from->n, sizeof *j.misfit));
    set_regimes(from, coll, algo, j.regime);
    for (size_t i = 0; i < from->n; i++)
        j.misfit[i] =
            log(from->seconds[i] / lk_nccl_refit_us(&from->comm, f, coll, algo, from->bytes[i]));
    for (size_t i = 0; i < from->n; i++)
        out[i] = rescale_size(&j, algo, from->bytes[i]);
out:
    free(j.regime);
    free(j.misfit);
    return st;
}
