/* Collectives: names and byte formulas. */
#include "facts/coll.h"

const struct lk_words lk_coll_words = LK_WORDS("a collective", LK_COLL_LIST);
const struct lk_words lk_algo_words = LK_WORDS("an algorithm", LK_ALGO_LIST);

/*
 * Bytes that a rank sends in a ring of K, over the collective's bytes, are
 * rounds (K-1)/K + whole: nccl-tests doc/PERFORMANCE.md, "Bus bandwidth".
 */
static const struct {
    const char *kineto;
    int rounds; /* passes over (K-1)/K of the buffer */
    int whole;  /* passes over the whole buffer */
} rows[LK_COLL_COUNT] = {
#define LK_COLL_ROW_(coll, name, kineto, rounds, whole) [coll] = {kineto, rounds, whole},
    LK_COLL_LIST(LK_COLL_ROW_)
#undef LK_COLL_ROW_
};

const char *lk_coll_kineto_name(enum lk_coll c)
{
    return rows[c].kineto;
}

double lk_coll_wire_bytes(enum lk_coll c, double bytes, int ranks)
{
    return ranks > 1 ? bytes * lk_coll_busbw_factor(c, ranks) : 0;
}

double lk_coll_busbw_factor(enum lk_coll c, int ranks)
{
    return (double)rows[c].rounds * (ranks - 1) / ranks + rows[c].whole;
}
