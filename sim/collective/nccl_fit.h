/*
 * Factors adapt the parts of NCCL's model to a real machine. A prior row for each fabric (inside a
 * node, or a network) comes from public nccl-tests tables (bench/accuracy_collectives --rows
 * prints them); the points of a cluster file move it.
 *
 *     us = LAUNCH base + HOP_x hops + FILL fill + RATE_x bytes / rate,   x: LL and LL128, or Simple
 *
 * Beyond hundreds of nodes a term of scale is added. Factors are logarithms, so 0 is NCCL's own.
 */
#ifndef LK_SIM_NCCL_FIT_H
#define LK_SIM_NCCL_FIT_H

#include "base/status.h"
#include "sim/collective/nccl_model.h"

#include <stddef.h>

enum lk_nccl_factor {
    LK_NCCL_LAUNCH,
    LK_NCCL_HOP_LL,
    LK_NCCL_HOP_SIMPLE,
    LK_NCCL_FILL,
    LK_NCCL_RATE_LL,
    LK_NCCL_RATE_LL128,
    LK_NCCL_RATE,
    LK_NCCL_FACTOR_COUNT
};

/* The fabrics: the wire inside a node, else the kind of network. */
enum lk_nccl_fabric {
    LK_NCCL_IN_NVLINK,
    LK_NCCL_IN_PCI,
    LK_NCCL_OVER, /* + enum lk_network */
    LK_NCCL_FABRIC_COUNT = LK_NCCL_OVER + LK_NETWORK_COUNT
};

/*
 * Logarithms of the factors with their sd, and the remaining sd of a time: up to 1 MiB, at about
 * 16 MiB, from 128 MiB on.
 */
enum { LK_NCCL_ERRORS = 3 };
struct lk_nccl_factors {
    double ln[LK_NCCL_FACTOR_COUNT], sd[LK_NCCL_FACTOR_COUNT];
    double error[LK_NCCL_ERRORS];
};

enum lk_nccl_fabric lk_nccl_fabric_of(const struct lk_nccl_comm *m, enum lk_network network);
/* Return the prior row of a fabric, from public tables. */
struct lk_nccl_factors lk_nccl_prior(enum lk_nccl_fabric fabric);

/*
 * Return the us of NCCL's choice by one algorithm or, for AUTO, among all; NaN if nothing is
 * offered. Where NCCL's estimates are close, its version, a tuner or another graph decides; the
 * result is then the mean of the logarithms, weighted by how fast NCCL estimates each choice. NCCL
 * does choose slow algorithms, so this may fall as bytes grow.
 */
double lk_nccl_refit_us(const struct lk_nccl_comm *m, const struct lk_nccl_factors *f,
                        enum lk_coll coll, enum lk_algo algo, double bytes);

/* Return the us on m of what NCCL chooses on `like`, other links of the same node. A better link
 * never makes it longer, since no algorithm is slower on one. */
double lk_nccl_refit_as_us(const struct lk_nccl_comm *m, const struct lk_nccl_comm *like,
                           const struct lk_nccl_factors *f, enum lk_coll coll, enum lk_algo algo,
                           double bytes);

/* Return the us of one choice. */
double lk_nccl_choice_us(const struct lk_nccl_comm *m, const struct lk_nccl_factors *f,
                         enum lk_coll coll, const struct lk_nccl_choice *k, double bytes);
/* Return the weight of a choice; the best has 1, and a choice with 0 is left out. */
double lk_nccl_choice_weight(const struct lk_nccl_choice *best, const struct lk_nccl_choice *k);

struct lk_nccl_point {
    struct lk_nccl_comm comm;
    enum lk_coll coll;
    enum lk_algo algo;
    double bytes, us;
};

/*
 * Return the most probable factors by Gauss-Newton on the logarithms of the times with Huber's
 * weights and the prior as further observations. The points reduce the sds. n 0 returns the prior.
 */
struct lk_nccl_factors lk_nccl_fit(const struct lk_nccl_point *points, size_t n,
                                   const struct lk_nccl_factors *prior);

/* Return the remaining sd of the logarithm of a time of a size on so many nodes. */
double lk_nccl_error(const struct lk_nccl_factors *f, double bytes, int nodes);

struct lk_nccl_measured {
    struct lk_nccl_comm comm;
    const double *bytes, *seconds; /* bytes ascending */
    const double *typical;         /* seconds to rescale: those, without single odd sizes */
    size_t n;
};

/*
 * Rescale times that were measured on one communicator to `here`. seconds and sd_io have from->n
 * elements; seconds are NaN where the model offers nothing. Doubt about the regime is added to
 * sd_io, the sd of the logarithm: how far the choices that count differ, and how unevenly the
 * neighbouring sizes were measured.
 *
 * A size is compared with one of the same regime: the same algorithm and protocol, and for a ring
 * the same bytes a step (bytes over ranks), because the network treats messages by their size.
 * NCCL's model gives the regime of a measured size. Where times fall much as bytes grow, NCCL left
 * a slow algorithm, and the model's next boundary is moved there.
 */
enum lk_status lk_nccl_rescale(const struct lk_nccl_comm *here, const struct lk_nccl_measured *from,
                               const struct lk_nccl_factors *f, enum lk_coll coll,
                               enum lk_algo algo, double *seconds, double *sd_io);

#endif
