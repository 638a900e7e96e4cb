/* Name the collectives and their algorithms, and compute the bytes that a collective moves
 * (nccl-tests doc/PERFORMANCE.md). */
#ifndef LK_FACTS_COLL_H
#define LK_FACTS_COLL_H

#include "base/words.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * X(collective, name, Kineto's name, rounds, whole, Chakra's number, equal): the one list of
 * collectives.
 *
 *     rounds, whole   passes that each rank sends in a ring of K: over (K-1)/K of the buffer, and
 *                     over all of it
 *     Chakra's        value of its attribute comm_type (et_def.proto); -1: it has none
 *     equal           1: the sizes must be the same on all ranks
 *
 * The first ones are those that are run, calibrated and modelled: LK_COLL_MODELLED of them. The
 * others are known from traces of other programs.
 */
#define LK_COLL_MODELLED_LIST(X)                                                                   \
    X(LK_ALL_REDUCE, "all_reduce", "allreduce", 2, 0, 0, 1)                                        \
    X(LK_REDUCE_SCATTER, "reduce_scatter", "_reduce_scatter_base", 1, 0, 7, 1)                     \
    X(LK_ALL_GATHER, "all_gather", "_allgather_base", 1, 0, 2, 1)                                  \
    X(LK_BROADCAST, "broadcast", "broadcast", 0, 1, 5, 1)                                          \
    X(LK_BARRIER, "barrier", "barrier", 0, 0, 9, 1)
#define LK_COLL_LIST(X)                                                                            \
    LK_COLL_MODELLED_LIST(X)                                                                       \
    X(LK_REDUCE, "reduce", "reduce", 0, 1, 1, 1)                                                   \
    X(LK_ALL_TO_ALL, "all_to_all", "all_to_all", 1, 0, 6, 0)                                       \
    X(LK_GATHER, "gather", "gather", 1, 0, 3, 0)                                                   \
    X(LK_SCATTER, "scatter", "scatter", 1, 0, 4, 0)                                                \
    X(LK_SEND, "send", "send", 0, 1, -1, 1)                                                        \
    X(LK_RECV, "recv", "recv", 0, 1, -1, 1)                                                        \
    X(LK_SEND_RECV, "send_recv", "send_recv", 0, 1, -1, 1)

enum lk_coll { LK_COLL_LIST(LK_WORD_VALUE) LK_COLL_COUNT };
#define LK_COLL_MODELLED (LK_BARRIER + 1)

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
extern const struct lk_words lk_modelled_coll_words; /* of files and options: the modelled ones */
LK_WORDS_DECLARE(lk_algo, enum lk_algo);
/* Return the name in PyTorch's traces; static storage. */
const char *lk_coll_kineto_name(enum lk_coll c);

/*
 * Find a collective by the name that any program gives it, `n` bytes: our own, PyTorch's
 * ("_allgather_base", "allreduce_coalesced"), NCCL's ("AllReduce"), nccl-tests' ("sendrecv"). Case
 * and underscores do not count. Return false for a name that is in no list.
 */
bool lk_coll_find(const char *name, size_t n, enum lk_coll *out);
/* Split a name as traces have it, "reduce_scatter of 4 ranks": return the length of the
 * collective's own. *ranks: the run's, and of a group of fewer the group's. */
size_t lk_coll_split(const char *name, int *ranks);
/* Return true if the name, NUL-terminated, is one of that collective's. */
bool lk_coll_is(const char *name, enum lk_coll c);
/* Return Chakra's number of a collective, or -1; find the collective of a number, or return false.
 */
int lk_coll_chakra(enum lk_coll c);
bool lk_coll_of_chakra(int64_t number, enum lk_coll *out);
/* Return true if the sizes must be the same on all ranks. */
bool lk_coll_equal(enum lk_coll c);

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
