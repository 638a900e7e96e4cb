/*
 * The constants of NCCL's cost model (src/graph/tuning.cc), as data rows: version 2.28.9 unless a
 * row says otherwise. Times are us, rates GB/s (1e9), as NCCL has them; only sim/nccl_model.c turns
 * them into seconds. What public measurements say of these constants (they are optimistic by
 * factors) is a table of its own, sim/nccl_prior.h.
 */
#ifndef LK_SIM_NCCL_CONSTANTS_H
#define LK_SIM_NCCL_CONSTANTS_H

#include "base/coll.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* X(protocol, name), in NCCL's order. */
#define LK_NCCL_PROTO_LIST(X)                                                                      \
    X(LK_NCCL_LL, "ll")                                                                            \
    X(LK_NCCL_LL128, "ll128")                                                                      \
    X(LK_NCCL_SIMPLE, "simple")

enum lk_nccl_proto {
#define LK_NCCL_PROTO_ENUM_(proto, name) proto,
    LK_NCCL_PROTO_LIST(LK_NCCL_PROTO_ENUM_)
#undef LK_NCCL_PROTO_ENUM_
        LK_NCCL_PROTO_COUNT
};

/* Generations by compute capability: 7x (and before), 8x, 9x, 10x and later. */
enum lk_nccl_gen {
    LK_NCCL_VOLTA,
    LK_NCCL_AMPERE,
    LK_NCCL_HOPPER,
    LK_NCCL_BLACKWELL,
    LK_NCCL_GEN_COUNT
};

/* What a hop goes over. */
enum lk_nccl_wire { LK_NCCL_NVLINK, LK_NCCL_PCI, LK_NCCL_NET, LK_NCCL_WIRE_COUNT };

/* Caps of a channel, by nodes. */
enum lk_nccl_cap {
    LK_NCCL_CAP_RING_LL128,
    LK_NCCL_CAP_TREE_LL128,
    LK_NCCL_CAP_TREE,
    LK_NCCL_CAP_NVLS_TREE,
    LK_NCCL_CAP_COUNT
};

/* pre: compute_capability is major * 10 + minor, e.g. 90; >= 30. */
enum lk_nccl_gen lk_nccl_gen_of(int compute_capability);

const char *lk_nccl_proto_name(enum lk_nccl_proto p);

/* us of a launch. */
double lk_nccl_base_us(enum lk_algo algo, enum lk_nccl_proto p);
/* us of a hop over a wire. */
double lk_nccl_hop_us(enum lk_nccl_wire wire, enum lk_algo algo, enum lk_nccl_proto p);
/* Most GB/s of LL on all channels together. amd_cpu counts when nodes > 1. */
double lk_nccl_ll_max(enum lk_nccl_gen gen, int nodes, bool amd_cpu);
/* Most GB/s of a channel. */
double lk_nccl_channel_cap(enum lk_nccl_cap cap, enum lk_nccl_gen gen, int nodes);
/* Share of a link that NVLS gets; 0: no NVLS. */
double lk_nccl_nvls_efficiency(enum lk_nccl_gen gen);
/* Factor of a tree all-reduce's rate at this many bytes. NCCL takes the row of the next smaller
 * power of two; here it is linear between rows, so that a cost does not fall with the size. */
double lk_nccl_tree_correction(enum lk_nccl_proto p, double bytes);

/* X(name, value, unit, source) */
#define LK_NCCL_NUMBER_LIST(X)                                                                     \
    X(LK_NCCL_RING_LL_SHARE, 0.5, "1", "tuning.cc:284-351: ring LL carries 4 of 8 bytes")          \
    X(LK_NCCL_RING_LL128_SHARE, 0.92, "1", "tuning.cc:284-351: 120 of 128 bytes, and less")        \
    X(LK_NCCL_TREE_SHARE, 0.92, "1", "tuning.cc:284-351")                                          \
    X(LK_NCCL_TREE_LL_DIVISOR, 3.8, "1", "tuning.cc:284-351")                                      \
    X(LK_NCCL_TREE_LL128_INTRA, 7.0 / 9, "1", "tuning.cc:284-351: one node")                       \
    X(LK_NCCL_TREE_LL128_INTER, 120.0 / 128, "1", "tuning.cc:284-351: more nodes")                 \
    X(LK_NCCL_PLAIN_TREE_SHARE, 0.85, "1", "tuning.cc:284-351: pattern TREE, not balanced")        \
    X(LK_NCCL_PAT_SHARE, 0.75, "1", "tuning.cc:284-351")                                           \
    X(LK_NCCL_COLLNET_NET_SHARE, 0.9, "1", "tuning.cc:284-351")                                    \
    X(LK_NCCL_COLLNET_HOPPER_SHARE, 0.85, "1", "tuning.cc:284-351: cc >= 90")                      \
    X(LK_NCCL_COLLNET_ARRIVAL_US, 0.4, "us", "tuning.cc:353-401: a rank of the node, Direct")      \
    X(LK_NCCL_NET_OVERHEAD_US, 1, "us", "tuning.cc:212-219: Intel and other CPUs")                 \
    X(LK_NCCL_NET_OVERHEAD_AMD_US, 2, "us", "tuning.cc:212-219: AMD CPUs")                         \
    X(LK_NCCL_NET_OVERHEAD_SIMPLE, 3, "1", "tuning.cc:212-219: times, for Simple")                 \
    X(LK_NCCL_PLATEAU, 1.4, "1", "tuning.cc:584-601: latency of large rings, cc >= 80")            \
    X(LK_NCCL_PLATEAU_VOLTA, 1.9, "1", "tuning.cc:584-601: latency of large rings, cc < 80")       \
    X(LK_NCCL_PLATEAU_BYTES, 64, "B", "tuning.cc:584-601: a channel and rank, and more")           \
    X(LK_NCCL_PAT_NET_DIVISOR, 3.5, "1", "tuning.cc:353-401")                                      \
    X(LK_NCCL_PAT_RANK_US, 2.8, "us", "tuning.cc:353-401: a rank")

enum lk_nccl_number {
#define LK_NCCL_NUMBER_ENUM_(name, value, unit, source) name,
    LK_NCCL_NUMBER_LIST(LK_NCCL_NUMBER_ENUM_)
#undef LK_NCCL_NUMBER_ENUM_
        LK_NCCL_NUMBER_COUNT
};

double lk_nccl_number(enum lk_nccl_number n);

/* Speeds that NCCL's graph search tries, GB/s a channel, fastest first. *out_n of them. */
const double *lk_nccl_speeds(enum lk_nccl_gen gen, bool inter, size_t *out_n);
/*
 * What NCCL counts for all NVLinks of a GPU, one direction (src/graph/topo.h:17-22). A rate beyond
 * what it counts for the most links of this generation is the line rate of a datasheet.
 */
double lk_nccl_nvlink_GBps(int compute_capability, double GBps);

#endif
