/* Name the collectives and their algorithms, and compute the bytes that a collective moves
 * (nccl-tests doc/PERFORMANCE.md). */
#ifndef LK_FACTS_COLL_H
#define LK_FACTS_COLL_H

#include "base/words.h"

/*
 * X(collective, name, Kineto's name, passes over (K-1)/K of the buffer, passes over all of it). The
 * passes count what each rank sends in a ring of K.
 */
#define LK_COLL_LIST(X)                                                                            \
    X(LK_ALL_REDUCE, "all_reduce", "allreduce", 2, 0)                                              \
    X(LK_REDUCE_SCATTER, "reduce_scatter", "_reduce_scatter_base", 1, 0)                           \
    X(LK_ALL_GATHER, "all_gather", "_allgather_base", 1, 0)                                        \
    X(LK_BROADCAST, "broadcast", "broadcast", 0, 1)                                                \
    X(LK_BARRIER, "barrier", "barrier", 0, 0)

enum lk_coll { LK_COLL_LIST(LK_WORD_VALUE) LK_COLL_COUNT };

/*
 * X(algorithm, name): NCCL's algorithms, and hierarchical: inside the node, between nodes, inside
 * the node. nvls sums in the NVSwitch; collnet sums in the network's switches (SHARP); pat:
 * parallel aggregated trees, one rank a node. auto: the library chooses, or the cost model for it.
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

enum lk_algo { LK_ALGO_LIST(LK_WORD_VALUE) LK_ALGO_COUNT };

LK_WORDS_DECLARE(lk_coll, enum lk_coll);
LK_WORDS_DECLARE(lk_algo, enum lk_algo);
/* Return the name in PyTorch's traces; static storage. */
const char *lk_coll_kineto_name(enum lk_coll c);

/*
 * "bytes" of a collective, everywhere in this program, is nccl-tests' size: the buffer for
 * all-reduce and broadcast; the larger side, all ranks together, for all-gather and reduce-scatter.
 */

/* Return the bytes that each of K ranks sends in a ring for a collective of m bytes: all-reduce
 * 2(K-1)/K m, reduce-scatter and all-gather (K-1)/K m, broadcast m, barrier 0. 0 for K = 1. pre:
 * ranks >= 1. */
double lk_coll_wire_bytes(enum lk_coll c, double bytes, int ranks);
/* Return the factor of busbw = algbw * factor, where algbw = bytes / time. pre: ranks >= 1. */
double lk_coll_busbw_factor(enum lk_coll c, int ranks);

#endif
