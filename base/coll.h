/* Collectives: names and byte formulas (nccl-tests doc/PERFORMANCE.md). */
#ifndef LK_BASE_COLL_H
#define LK_BASE_COLL_H

#include "base/status.h"

#include <stdint.h>

/*
 * X(collective, name, Kineto's name, passes over (K-1)/K of the buffer, passes over all of it).
 * The last two are what each rank sends in a ring of K.
 */
#define LK_COLL_LIST(X)                                                                            \
    X(LK_ALL_REDUCE, "all_reduce", "allreduce", 2, 0)                                              \
    X(LK_REDUCE_SCATTER, "reduce_scatter", "_reduce_scatter_base", 1, 0)                           \
    X(LK_ALL_GATHER, "all_gather", "_allgather_base", 1, 0)                                        \
    X(LK_BROADCAST, "broadcast", "broadcast", 0, 1)                                                \
    X(LK_BARRIER, "barrier", "barrier", 0, 0)

enum lk_coll {
#define LK_COLL_ENUM_(coll, name, kineto, rounds, whole) coll,
    LK_COLL_LIST(LK_COLL_ENUM_)
#undef LK_COLL_ENUM_
        LK_COLL_COUNT
};

/*
 * X(algorithm, name). NCCL's, and hierarchical: inside the node, between nodes, inside the node.
 * nvls: sums in the NVSwitch; collnet: in the network's switches (SHARP); pat: parallel aggregated
 * trees, one rank a node.
 */
#define LK_ALGO_LIST(X)                                                                            \
    X(LK_ALGO_AUTO, "auto")                                                                        \
    X(LK_ALGO_RING, "ring")                                                                        \
    X(LK_ALGO_TREE, "tree")                                                                        \
    X(LK_ALGO_COLLNET_DIRECT, "collnet_direct")                                                    \
    X(LK_ALGO_COLLNET_CHAIN, "collnet_chain")                                                      \
    X(LK_ALGO_NVLS, "nvls")                                                                        \
    X(LK_ALGO_NVLS_TREE, "nvls_tree")                                                              \
    X(LK_ALGO_PAT, "pat")                                                                          \
    X(LK_ALGO_HIERARCHICAL, "hierarchical")

enum lk_algo {
#define LK_ALGO_ENUM_(algo, name) algo,
    LK_ALGO_LIST(LK_ALGO_ENUM_)
#undef LK_ALGO_ENUM_
        LK_ALGO_COUNT
};

const char *lk_coll_name(enum lk_coll c);
const char *lk_coll_kineto_name(enum lk_coll c);
enum lk_status lk_coll_from_name(const char *name, enum lk_coll *out); /* LK_EPARSE */
const char *lk_algo_name(enum lk_algo a);
enum lk_status lk_algo_from_name(const char *name, enum lk_algo *out); /* LK_EPARSE */

/*
 * "bytes" of a collective, everywhere in this program, is nccl-tests' size: of all-reduce and
 * broadcast the buffer; of all-gather and reduce-scatter the larger side, all ranks together.
 */

/* Bytes that each rank sends in a ring: all-reduce 2(K-1)/K m, reduce-scatter and all-gather
 * (K-1)/K m, broadcast m, barrier 0. 0 for K = 1. pre: ranks >= 1. */
double lk_coll_wire_bytes(enum lk_coll c, double bytes, int ranks);
/* algbw = bytes / time; busbw = algbw * this factor. pre: ranks >= 1. */
double lk_coll_busbw_factor(enum lk_coll c, int ranks);

#endif
