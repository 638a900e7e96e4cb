/* Collectives: names and byte formulas. */
#include "base/coll.h"

#include <string.h>

/*
 * Bytes that a rank sends in a ring of K, over the collective's bytes, are
 * rounds (K-1)/K + whole: nccl-tests doc/PERFORMANCE.md, "Bus bandwidth".
 */
static const struct {
    const char *name;
    const char *kineto;
    int rounds; /* passes over (K-1)/K of the buffer */
    int whole;  /* passes over the whole buffer */
} rows[LK_COLL_COUNT] = {
#define LK_COLL_ROW_(coll, name, kineto, rounds, whole) [coll] = {name, kineto, rounds, whole},
    LK_COLL_LIST(LK_COLL_ROW_)
#undef LK_COLL_ROW_
};

static const char *const algo_names[LK_ALGO_COUNT] = {
#define LK_ALGO_ROW_(algo, name) [algo] = (name),
    LK_ALGO_LIST(LK_ALGO_ROW_)
#undef LK_ALGO_ROW_
};

const char *lk_coll_name(enum lk_coll c)
{
    return rows[c].name;
}

const char *lk_coll_kineto_name(enum lk_coll c)
{
    return rows[c].kineto;
}

enum lk_status lk_coll_from_name(const char *name, enum lk_coll *out)
{
    for (int i = 0; i < LK_COLL_COUNT; i++)
        if (!strcmp(rows[i].name, name)) {
            *out = (enum lk_coll)i;
            return LK_OK;
        }
#define LK_COLL_WORD_(coll, word, kineto, rounds, whole) " " word
    return lk_fail(LK_EPARSE, "'%s' is not a collective (known:%s)", name,
                   LK_COLL_LIST(LK_COLL_WORD_));
#undef LK_COLL_WORD_
}

const char *lk_algo_name(enum lk_algo a)
{
    return algo_names[a];
}

enum lk_status lk_algo_from_name(const char *name, enum lk_algo *out)
{
    for (int i = 0; i < LK_ALGO_COUNT; i++)
        if (!strcmp(algo_names[i], name)) {
            *out = (enum lk_algo)i;
            return LK_OK;
        }
#define LK_ALGO_WORD_(algo, word) " " word
    return lk_fail(LK_EPARSE, "'%s' is not an algorithm (known:%s)", name,
                   LK_ALGO_LIST(LK_ALGO_WORD_));
#undef LK_ALGO_WORD_
}

double lk_coll_wire_bytes(enum lk_coll c, double bytes, int ranks)
{
    return ranks > 1 ? bytes * lk_coll_busbw_factor(c, ranks) : 0;
}

double lk_coll_busbw_factor(enum lk_coll c, int ranks)
{
    return (double)rows[c].rounds * (ranks - 1) / ranks + rows[c].whole;
}
