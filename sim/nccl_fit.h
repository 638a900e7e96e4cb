/*
 * Factors on the parts of NCCL's model: what its constants are on a real machine. A prior row a
 * kind of place (inside a node, or a network) comes from public nccl-tests tables
 * (bench/accuracy_collectives --rows prints them); the points of a cluster file move it.
 *
 *     us = LAUNCH base + HOP_x hops + FILL fill + RATE_x bytes / rate,   x: LL and LL128, or Simple
 *
 * and beyond hundreds of nodes a term of scale. All factors are logarithms, so 0 is NCCL's own.
 */
#ifndef LK_SIM_NCCL_FIT_H
#define LK_SIM_NCCL_FIT_H

#include "sim/nccl_model.h"

#include <stddef.h>

/* X(factor, name) */
#define LK_NCCL_FACTOR_LIST(X)                                                                     \
    X(LK_NCCL_LAUNCH, "launch")                                                                    \
    X(LK_NCCL_HOP_LL, "hop_ll")                                                                    \
    X(LK_NCCL_HOP_SIMPLE, "hop_simple")                                                            \
    X(LK_NCCL_FILL, "fill")                                                                        \
    X(LK_NCCL_RATE_LL, "rate_ll")                                                                  \
    X(LK_NCCL_RATE_LL128, "rate_ll128")                                                            \
    X(LK_NCCL_RATE, "rate")

enum lk_nccl_factor {
#define LK_NCCL_FACTOR_ENUM_(factor, name) factor,
    LK_NCCL_FACTOR_LIST(LK_NCCL_FACTOR_ENUM_)
#undef LK_NCCL_FACTOR_ENUM_
        LK_NCCL_FACTOR_COUNT
};

/* Kinds of places: inside a node by wire, else the network. */
enum lk_nccl_place {
    LK_NCCL_IN_NVLINK,
    LK_NCCL_IN_PCI,
    LK_NCCL_OVER, /* + enum lk_network */
    LK_NCCL_PLACE_COUNT = LK_NCCL_OVER + LK_NETWORK_COUNT
};

/* Logarithms of the factors with their sd, and the sd of a time that is left: to 1 MB, about 16 MB,
 * from 128 MB (MiB). */
enum { LK_NCCL_ERRORS = 3 };
struct lk_nccl_factors {
    double ln[LK_NCCL_FACTOR_COUNT], sd[LK_NCCL_FACTOR_COUNT];
    double error[LK_NCCL_ERRORS];
};

enum lk_nccl_place lk_nccl_place_of(const struct lk_nccl_comm *m, enum lk_network network);
const char *lk_nccl_place_name(enum lk_nccl_place place);
/* The row of a place, from public tables; its source. */
struct lk_nccl_factors lk_nccl_prior(enum lk_nccl_place place);

/* NCCL's own: factors 1, no fill. */
struct lk_nccl_factors lk_nccl_own(void);

/*
 * us of what NCCL chooses (`algo` AUTO: among all); NaN: nothing is offered. Where NCCL reckons two
 * alike, its version, a tuner or a graph unlike ours decides: the logarithm's mean, weighted by how
 * fast NCCL reckons each. NCCL does choose what is slow, so this may fall as bytes grow.
 */
double lk_nccl_refit_us(const struct lk_nccl_comm *m, const struct lk_nccl_factors *f,
                        enum lk_coll coll, enum lk_algo algo, double bytes);

/* us of one of NCCL's choices. */
double lk_nccl_choice_us(const struct lk_nccl_comm *m, const struct lk_nccl_factors *f,
                         enum lk_coll coll, const struct lk_nccl_choice *k, double bytes);
/* How much a choice counts beside the best, 1; 0: not at all. */
double lk_nccl_choice_weight(const struct lk_nccl_choice *best, const struct lk_nccl_choice *k);

struct lk_nccl_point {
    struct lk_nccl_comm comm;
    enum lk_coll coll;
    enum lk_algo algo;
    double bytes, us;
};

/*
 * The most probable factors: Gauss-Newton on the logarithm of the times with Huber's weights, the
 * prior as further observations. The sds come out reduced by what the points say. n 0: the prior.
 */
struct lk_nccl_factors lk_nccl_fit(const struct lk_nccl_point *points, size_t n,
                                   const struct lk_nccl_factors *prior);

/* What is left at a size: sd of the logarithm. */
double lk_nccl_error(const struct lk_nccl_factors *f, double bytes);

#endif
