/*
 * What public nccl-tests tables say of NCCL's constants, a row a kind of place.
 *
 * Printed by `build/bench/accuracy_collectives nccl_tables.csv --rows`: the factors that each
 * source's tables give, and their median over sources with that of all places inside nodes (or of
 * all networks) as one more. PCIe inside a node and TCP have no table: theirs are those medians.
 * Errors: set by eye towards 90 % of the sources left out (the same program, "preset alone"). Above
 * 1 MB about that many are covered; below, 54 to 73 %: too narrow there.
 */
#include "sim/nccl_fit.h"

#include <string.h>

/* Logarithms of launch, hop_ll, hop_simple, fill, rate_ll, rate; errors to 32 MB and above. */
static const struct {
    double ln[LK_NCCL_FACTOR_COUNT];
    double error_small, error_large;
} rows[LK_NCCL_PLACE_COUNT] = {
    [LK_NCCL_IN_NVLINK] = {{0.05, 0, 0.10, 0.19, 0, 0.02},         0.6, 0.1},
    [LK_NCCL_IN_PCI] = {{0.03, 0, 0.06, 0.16, 0, 0.01},         0.7, 0.2},
    [LK_NCCL_OVER + LK_NETWORK_UNKNOWN] = {{0.08, 0.22, 0.77, 0, 0.31, 0},         0.7, 0.2},
    [LK_NCCL_OVER + LK_NETWORK_INFINIBAND] = {{0.18, 0.39, 0.28, -0.01, 0.21, -0.01}, 0.7, 0.2},
    [LK_NCCL_OVER + LK_NETWORK_ROCE] = {{0, 0.22, 0.21, 0, 0.31, 0},            0.7, 0.2},
    [LK_NCCL_OVER + LK_NETWORK_EFA] = {{0.08, 1.23, 1.32, 0.25, 0.31, 0.02},   0.7, 0.2},
    [LK_NCCL_OVER + LK_NETWORK_SLINGSHOT] = {{0.10, 0.11, 0.95, -0.01, 1.43, -0.02}, 0.7, 0.2},
    [LK_NCCL_OVER + LK_NETWORK_TCPX] = {{0.11, 0.89, 0.77, -0.03, 0.57, 0.10},  0.7, 0.2},
    [LK_NCCL_OVER + LK_NETWORK_TCP] = {{0.08, 0.22, 0.77, 0, 0.31, 0},         0.7, 0.2},
};

/* Spread of the factors over sources, the prior's own when points move it. */
static const double sd[LK_NCCL_FACTOR_COUNT] = {0.5, 0.5, 0.5, 0.7, 0.4, 0.12};

struct lk_nccl_factors lk_nccl_prior(enum lk_nccl_place place)
{
    struct lk_nccl_factors f = {.error_small = rows[place].error_small,
                                .error_large = rows[place].error_large};

    memcpy(f.ln, rows[place].ln, sizeof f.ln);
    memcpy(f.sd, sd, sizeof f.sd);
    return f;
}
