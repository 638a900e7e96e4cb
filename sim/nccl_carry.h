/*
 * Times measured on one communicator, carried to another.
 *
 * A size is compared with one of the same regime: the same algorithm and protocol, and for a ring
 * the same bytes a step (bytes over ranks), because what a network does to a message depends on
 * its size. Which regime a measured size is in, NCCL's model says; where times fall by much as
 * bytes grow, NCCL left what was slow, and the next boundary of the model is moved there.
 */
#ifndef LK_SIM_NCCL_CARRY_H
#define LK_SIM_NCCL_CARRY_H

#include "base/status.h"
#include "sim/nccl_fit.h"

#include <stddef.h>

struct lk_nccl_measured {
    struct lk_nccl_comm comm;
    const double *bytes, *seconds; /* bytes ascending */
    size_t n;
};

/* A carried time, and what its logarithm may be off because the regime is in doubt: how far the
 * choices that count differ, and how unevenly the sizes next to the one alike were measured. */
struct lk_nccl_carried {
    double seconds, sd; /* seconds NaN: the model offers nothing */
};

/* The measured sizes on `here`. out: from->n. */
enum lk_status lk_nccl_carry(const struct lk_nccl_comm *here, const struct lk_nccl_measured *from,
                             const struct lk_nccl_factors *f, enum lk_coll coll, enum lk_algo algo,
                             struct lk_nccl_carried *out);

#endif
