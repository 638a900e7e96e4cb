/* Measured times carried to another communicator. */
#include "sim/nccl_carry.h"

#include "base/array.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A fall by this much (ln) and no further from a boundary than these sizes is that boundary. */
static const double LEFT_SLOW = 0.2;
enum { BOUNDARY_POINTS = 2 };

/* Beyond, bytes matter more than the regime. FAR: farther than any two sizes, in octaves. */
static const double ALIKE_OCTAVES = 1.1, FAR = 1e3;

/* Of the difference between neighbouring sizes, what a carried one may be off. */
static const double ROUGH_SHARE = 0.5;

struct regime {
    enum lk_algo algo;
    enum lk_nccl_proto proto;
};

static bool same(struct regime a, struct regime b)
{
    return a.algo == b.algo && a.proto == b.proto;
}

/* Whether something else begins after size i: times fall there, or grow by more than bytes do. */
static bool breaks(const struct lk_nccl_measured *from, size_t i)
{
    double grown = log(from->seconds[i + 1] / from->seconds[i]);

    return grown < -LEFT_SLOW || grown > log(from->bytes[i + 1] / from->bytes[i]) + LEFT_SLOW;
}

/* A boundary of the model's, between sizes i and i + 1, that nothing measured confirms. */
static bool unconfirmed(const struct lk_nccl_measured *from, const struct regime *r, size_t i)
{
    return i + 1 < from->n && !same(r[i], r[i + 1]) && !breaks(from, i);
}

/* Moves the unconfirmed boundary nearest to a fall there. */
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

/* The measured size nearest to `bytes`, of regime k where one is within ALIKE octaves. */
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

/* What a carry reads: the measured side with its regimes, and the model of both. */
struct job {
    const struct lk_nccl_comm *here;
    const struct lk_nccl_measured *from;
    const struct lk_nccl_factors *f;
    enum lk_coll coll;
    struct regime *regime; /* of the measured sizes */
    double *misfit;        /* ln of measured over model */
};

/* The unevenness about a measured size. */
static double rough(const struct job *j, size_t i)
{
    double down = i ? fabs(j->misfit[i] - j->misfit[i - 1]) : 0;
    double up = i + 1 < j->from->n ? fabs(j->misfit[i + 1] - j->misfit[i]) : 0;

    return ROUGH_SHARE * fmax(down, up);
}

/* ln of seconds of choice k, by the measured size nearest to one alike. */
static double carried(const struct job *j, const struct lk_nccl_choice *k, double bytes,
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

static struct lk_nccl_carried carry_size(const struct job *j, enum lk_algo algo, double bytes)
{
    struct lk_nccl_choice all[LK_NCCL_OFFERS_MAX];
    size_t n = lk_nccl_offers(j->here, j->coll, algo, bytes, all);
    double sum = 0, ln = 0, squares = 0, rough_squares = 0, variance;

    for (size_t i = 0; i < n; i++) {
        double w = lk_nccl_choice_weight(&all[0], &all[i]), r, x;

        if (w <= 0)
            continue;
        x = carried(j, &all[i], bytes, &r);
        sum += w;
        ln += w * x;
        squares += w * x * x;
        rough_squares += w * r * r;
    }
    if (sum <= 0)
        return (struct lk_nccl_carried){NAN, 0};
    variance = fmax(0, squares / sum - ln / sum * (ln / sum)) + rough_squares / sum;
    return (struct lk_nccl_carried){exp(ln / sum), sqrt(variance)};
}

enum lk_status lk_nccl_carry(const struct lk_nccl_comm *here, const struct lk_nccl_measured *from,
                             const struct lk_nccl_factors *f, enum lk_coll coll, enum lk_algo algo,
                             struct lk_nccl_carried *out)
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
        out[i] = carry_size(&j, algo, from->bytes[i]);
out:
    free(j.regime);
    free(j.misfit);
    return st;
}
