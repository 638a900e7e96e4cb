/*
 * What public nccl-tests tables say of NCCL's constants, a row a kind of place.
 *
 * Printed by `build/bench/accuracy_collectives nccl_tables.csv --rows`: the factors that each
 * source's tables give, and their mean over sources with that of all places inside nodes (or of all
 * networks) as one more. PCIe inside a node and TCP have no table: theirs are those means.
 * Errors: so that of sources left out (the same program, "preset alone") about 90 % are covered,
 * one set for all places inside nodes and one for all networks. Most of them is what labs differ:
 * an idle launch takes 8 to 45 us on one kind of node.
 */
#include "sim/nccl_fit.h"

#include <string.h>

/* Logarithms of launch, hop_ll, hop_simple, fill, rate_ll, rate_ll128, rate. */
static const double rows[LK_NCCL_PLACE_COUNT][LK_NCCL_FACTOR_COUNT] = {
    [LK_NCCL_IN_NVLINK] = {0.29,  -0.27, 0.16, 0.13, 0.40,  -0.04, 0.00 },
    [LK_NCCL_IN_PCI] = {0.25,  -0.23, 0.14, 0.11, 0.35,  -0.03, 0.00 },
    [LK_NCCL_OVER + LK_NETWORK_UNKNOWN] = {0.16,  0.42,  0.61, 0.12, -0.30, 0.19,  -0.01},
    [LK_NCCL_OVER + LK_NETWORK_INFINIBAND] = {0.18,  0.52,  0.37, 0.07, -0.15, 0.09,  -0.03},
    [LK_NCCL_OVER + LK_NETWORK_ROCE] = {0.02,  0.28,  0.30, 0.03, -0.29, 0.07,  -0.03},
    [LK_NCCL_OVER + LK_NETWORK_EFA] = {0.10,  0.89,  0.63, 0.26, 0.10,  0.35,  -0.01},
    [LK_NCCL_OVER + LK_NETWORK_SLINGSHOT] = {-0.14, 0.09,  0.78, 0.24, -0.47, 0.05,  -0.04},
    [LK_NCCL_OVER + LK_NETWORK_TCPX] = {0.68,  0.68,  0.94, 0.03, -0.52, 0.40,  0.03 },
    [LK_NCCL_OVER + LK_NETWORK_TCP] = {0.16,  0.42,  0.61, 0.12, -0.30, 0.19,  -0.01},
};

static const double inside[LK_NCCL_ERRORS] = {0.95, 0.4, 0.06};
static const double between[LK_NCCL_ERRORS] = {0.85, 0.6, 0.2};

/* Spread of the factors over sources, the prior's own when points move it. */
static const double sd[LK_NCCL_FACTOR_COUNT] = {0.5, 0.5, 0.5, 0.7, 0.5, 0.4, 0.12};

struct lk_nccl_factors lk_nccl_prior(enum lk_nccl_place place)
{
    struct lk_nccl_factors f = {{0}, {0}, {0}};

    memcpy(f.ln, rows[place], sizeof f.ln);
    memcpy(f.sd, sd, sizeof f.sd);
    memcpy(f.error, place < LK_NCCL_OVER ? inside : between, sizeof f.error);
    return f;
}
