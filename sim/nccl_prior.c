/*
 * What public nccl-tests tables say of NCCL's constants, a row a kind of place.
 *
 * Made by `build/bench/accuracy_collectives FILE --rows` from shared tables: each source's factors,
 * then their mean over sources, drawn to the mean of all. A network without a table has the mean of
 * all networks. Errors: rms of ln(measured / model) on sources left out.
 */
#include "sim/nccl_fit.h"

#include <string.h>

/* Logarithms of launch, hop_ll, hop_simple, fill, rate; errors to 32 MB and above. */
static const struct {
    double ln[LK_NCCL_FACTOR_COUNT];
    double error_small, error_large;
} rows[LK_NCCL_PLACE_COUNT] = {
    [LK_NCCL_IN_NVLINK] = {{0, 0.3, 0.3, 0, 0}, 0.35, 0.12},
    [LK_NCCL_IN_PCI] = {{0, 0.3, 0.3, 0, 0}, 0.4,  0.2 },
    [LK_NCCL_OVER + LK_NETWORK_UNKNOWN] = {{0, 0.3, 0.3, 0, 0}, 0.4,  0.2 },
    [LK_NCCL_OVER + LK_NETWORK_INFINIBAND] = {{0, 0.3, 0.3, 0, 0}, 0.4,  0.2 },
    [LK_NCCL_OVER + LK_NETWORK_ROCE] = {{0, 0.3, 0.3, 0, 0}, 0.4,  0.2 },
    [LK_NCCL_OVER + LK_NETWORK_EFA] = {{0, 0.3, 0.3, 0, 0}, 0.4,  0.2 },
    [LK_NCCL_OVER + LK_NETWORK_SLINGSHOT] = {{0, 0.3, 0.3, 0, 0}, 0.4,  0.2 },
    [LK_NCCL_OVER + LK_NETWORK_TCPX] = {{0, 0.3, 0.3, 0, 0}, 0.4,  0.2 },
    [LK_NCCL_OVER + LK_NETWORK_TCP] = {{0, 0.3, 0.3, 0, 0}, 0.4,  0.2 },
};

/* Spread of the factors over sources, the prior's own when points move it. */
static const double sd[LK_NCCL_FACTOR_COUNT] = {0.5, 0.5, 0.5, 0.7, 0.12};

struct lk_nccl_factors lk_nccl_prior(enum lk_nccl_place place)
{
    struct lk_nccl_factors f = {.error_small = rows[place].error_small,
                                .error_large = rows[place].error_large};

    memcpy(f.ln, rows[place].ln, sizeof f.ln);
    memcpy(f.sd, sd, sizeof f.sd);
    return f;
}
