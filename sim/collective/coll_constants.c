/* The alpha-beta constants of a cluster's collectives; see the header. */
#include "sim/collective/coll_constants.h"

#include "base/array.h"
#include "sim/prior.h"

#include <math.h>

double lk_coll_cards(const struct lk_link_rates *r, int per_node)
{
    return per_node < r->gpus_per_node ? fmax(1, (double)r->cards * per_node / r->gpus_per_node)
                                       : r->cards;
}

/*
 * An all-reduce by a ring gives these collectives: it is a reduce-scatter and an all-gather, each
 * half of it, and a broadcast is one pass of the whole buffer.
 */
static const enum lk_coll given[] = {LK_REDUCE_SCATTER, LK_ALL_GATHER, LK_BROADCAST};

bool lk_coll_from_all_reduce(const struct lk_cluster *c, enum lk_coll coll)
{
    bool is = false;

    for (size_t i = 0; i < LK_COUNT(given); i++)
        is |= given[i] == coll;
    for (size_t i = 0; is && i < c->n_points; i++)
        is = c->points[i].coll != coll;
    for (size_t i = 0; is && i < c->n_fits; i++)
        is = c->fits[i].coll != coll;
    return is;
}

/* Relative error of constants that come from an all-reduce's fit. */
static const double DERIVED_ERROR = 0.3;

static double moved(const struct lk_quantity *q, double shift)
{
    return lk_quantity_known(q) ? q->value * exp(shift * lk_prior_log_sd(q)) : 0;
}

/* Return the most ranks of a node among the points of a fit between nodes; all, where none is
 * left. */
static int fitted_per_node(const struct lk_cluster *c, const struct lk_cluster_fit *f)
{
    int most = 0;

    for (size_t i = 0; i < c->n_points; i++) {
        const struct lk_cluster_point *p = &c->points[i];

        if (p->nodes > 1 && p->coll == f->coll && p->algo == f->algo && p->ranks / p->nodes > most)
            most = p->ranks / p->nodes;
    }
    return most ? most : c->gpus_per_node;
}

static void constants_from_fit(struct lk_coll_constants *k, const struct lk_cluster *c,
                               const struct lk_cluster_fit *f, struct lk_coll_shifts by)
{
    k->known[f->link] = true;
    if (f->link == LK_LINK_INTER)
        k->per_node = fitted_per_node(c, f);
    k->fitted |= f->bandwidth_Bps.n > 0;
    k->k.launch_s = fmax(k->k.launch_s, moved(&f->launch_s, by.time));
    k->k.alpha_s[f->link] = moved(&f->alpha_s, by.time);
    k->k.bandwidth_Bps[f->link] = moved(&f->bandwidth_Bps, by.rate);
    if (lk_quantity_known(&f->error))
        k->error = fmax(k->error, f->error.value);
}

static void constants_from_link(struct lk_coll_constants *k, enum lk_link link,
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

/* Use the constants of the all-reduce's fit with the shape of each other collective. */
static void constants_from_all_reduce(struct lk_coll_constants (*k)[LK_ALGO_COUNT],
                                      const struct lk_cluster *c)
{
    for (int coll = 0; coll < LK_COLL_MODELLED; coll++)
        for (int algo = 0; algo < LK_ALGO_COUNT && lk_coll_from_all_reduce(c, (enum lk_coll)coll);
             algo++) {
            k[coll][algo] = k[LK_ALL_REDUCE][algo];
            k[coll][algo].error = hypot(k[coll][algo].error, DERIVED_ERROR);
        }
}

void lk_coll_constants_set(struct lk_coll_constants (*of)[LK_ALGO_COUNT],
                           const struct lk_cluster *c, bool with_fits, struct lk_coll_shifts by)
{
    for (size_t i = 0; with_fits && i < c->n_fits; i++)
        constants_from_fit(&of[c->fits[i].coll][c->fits[i].algo], c, &c->fits[i], by);
    constants_from_all_reduce(of, c);
    for (int coll = 0; coll < LK_COLL_MODELLED; coll++)
        for (int algo = 0; algo < LK_ALGO_COUNT; algo++) {
            struct lk_coll_constants *k = &of[coll][algo];
            struct lk_alpha_beta_shape shape;
            double factor;

            /* A datasheet does not say what "auto" would pick; the named algorithms use it. */
            if (algo != LK_ALGO_AUTO &&
                lk_alpha_beta_shape((enum lk_coll)coll, (enum lk_algo)algo, 1, 2, 1, &shape)) {
                constants_from_link(k, LK_LINK_INTRA, &c->intra, 1, by);
                constants_from_link(k, LK_LINK_INTER, &c->inter, lk_link_cards(c), by);
                k->per_node = k->per_node ? k->per_node : c->gpus_per_node;
            }
            /* The error of a fit moves all costs that come from it in the same direction. */
            factor = exp(by.error * k->error);
            k->k.launch_s *= factor;
            for (int l = 0; l < LK_LINK_COUNT; l++) {
                k->k.alpha_s[l] *= factor;
                k->k.bandwidth_Bps[l] /= factor;
            }
        }
}
