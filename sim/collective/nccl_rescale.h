/*
 * This function rescales times that were measured on one communicator to another.
 *
 * A size is compared with one of the same regime: the same algorithm and protocol, and for a ring
 * the same bytes a step (bytes over ranks), because the network treats messages by their size.
 * NCCL's model gives the regime of a measured size. Where times fall much as bytes grow, NCCL left
 * a slow algorithm, and the model's next boundary is moved there.
 */
#ifndef LK_SIM_NCCL_RESCALE_H
#define LK_SIM_NCCL_RESCALE_H

#include "base/status.h"
#include "sim/collective/nccl_fit.h"

#include <stddef.h>

struct lk_nccl_measured {
    struct lk_nccl_comm comm;
    const double *bytes, *seconds; /* bytes ascending */
    size_t n;
};

/*
 * A rescaled time and the sd of its logarithm. The sd expresses doubt about the regime: how far
 * the choices that count differ, and how unevenly the neighbouring sizes were measured.
 */
struct lk_nccl_rescaled {
    double seconds, sd; /* seconds NaN: the model offers nothing */
};

/* Rescale the measured sizes to `here`. out: from->n. */
enum lk_status lk_nccl_rescale(const struct lk_nccl_comm *here, const struct lk_nccl_measured *from,
                               const struct lk_nccl_factors *f, enum lk_coll coll,
                               enum lk_algo algo, struct lk_nccl_rescaled *out);

#endif
