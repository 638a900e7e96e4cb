/* Collectives: names and byte formulas. */
#include "facts/coll.h"

#include "base/array.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

const struct lk_words lk_coll_words = LK_WORDS("a collective", LK_COLL_LIST);
const struct lk_words lk_modelled_coll_words = LK_WORDS("a collective", LK_COLL_MODELLED_LIST);
const struct lk_words lk_algo_words = LK_WORDS("an algorithm", LK_ALGO_LIST);

/*
 * Bytes that a rank sends in a ring of K, over the collective's bytes, are
 * rounds (K-1)/K + whole: nccl-tests doc/PERFORMANCE.md, "Bus bandwidth".
 */
static const struct {
    const char *kineto;
    int rounds; /* passes over (K-1)/K of the buffer */
    int whole;  /* passes over the whole buffer */
    int chakra;
    bool equal;
} rows[LK_COLL_COUNT] = {
#define LK_COLL_ROW_(coll, name, kineto, rounds, whole, chakra, equal)                             \
    [coll] = {kineto, rounds, whole, chakra, equal},
    LK_COLL_LIST(LK_COLL_ROW_)
#undef LK_COLL_ROW_
};

/* Other names, without underscores and in small letters: those of PyTorch's backends (c10d), its
 * Flight Recorder and Kineto, of Chakra and of nccl-tests. */
static const struct {
    const char *name;
    enum lk_coll coll;
} aliases[] = {
    {"allreducecoalesced", LK_ALL_REDUCE},
    {"allreducebarrier", LK_BARRIER},
    {"allgather", LK_ALL_GATHER},
    {"allgatherbase", LK_ALL_GATHER},
    {"allgatherintotensorcoalesced", LK_ALL_GATHER},
    {"reducescatterblock", LK_REDUCE_SCATTER},
    {"reducescattertensorcoalesced", LK_REDUCE_SCATTER},
    {"broadcastoop", LK_BROADCAST},
    {"reduceoop", LK_REDUCE},
    {"alltoallv", LK_ALL_TO_ALL},
};

enum { NAME_MAX_BYTES = 48 }; /* of a folded name with its NUL; longer ones are none of ours */

/* Write a name without underscores and in small letters; false: it does not fit. */
static bool fold(const char *name, size_t n, char out[NAME_MAX_BYTES])
{
    size_t used = 0;

    for (size_t i = 0; i < n; i++) {
        if (name[i] == '_')
            continue;
        if (used + 1 == NAME_MAX_BYTES)
            return false;
        out[used++] = (char)tolower((unsigned char)name[i]);
    }
    out[used] = '\0';
    return used > 0;
}

static bool folds_to(const char *name, const char *folded)
{
    char own[NAME_MAX_BYTES];

    return fold(name, strlen(name), own) && !strcmp(own, folded);
}

bool lk_coll_find(const char *name, size_t n, enum lk_coll *out)
{
    char folded[NAME_MAX_BYTES];

    if (!fold(name, n, folded))
        return false;
    for (int c = 0; c < LK_COLL_COUNT; c++)
        if (folds_to(lk_coll_words.names[c], folded) || folds_to(rows[c].kineto, folded)) {
            *out = (enum lk_coll)c;
            return true;
        }
    for (size_t i = 0; i < LK_COUNT(aliases); i++)
        if (!strcmp(aliases[i].name, folded)) {
            *out = aliases[i].coll;
            return true;
        }
    return false;
}

size_t lk_coll_split(const char *name, int *ranks)
{
    const char *of = strstr(name, " of ");
    int group = 0;

    if (of && sscanf(of, " of %d ranks", &group) == 1 && group > 0 && group < *ranks)
        *ranks = group;
    return of ? (size_t)(of - name) : strlen(name);
}

bool lk_coll_is(const char *name, enum lk_coll c)
{
    enum lk_coll found;

    return lk_coll_find(name, strlen(name), &found) && found == c;
}

const char *lk_coll_kineto_name(enum lk_coll c)
{
    return rows[c].kineto;
}

int lk_coll_chakra(enum lk_coll c)
{
    return rows[c].chakra;
}

bool lk_coll_of_chakra(int64_t number, enum lk_coll *out)
{
    enum { REDUCE_SCATTER_BLOCK = 8 }; /* the same collective with one count for all ranks */

    for (int c = 0; c < LK_COLL_COUNT; c++)
        if (rows[c].chakra >= 0 && rows[c].chakra == number) {
            *out = (enum lk_coll)c;
            return true;
        }
    *out = number == REDUCE_SCATTER_BLOCK ? LK_REDUCE_SCATTER : *out;
    return number == REDUCE_SCATTER_BLOCK;
}

bool lk_coll_equal(enum lk_coll c)
{
    return rows[c].equal;
}

double lk_coll_wire_bytes(enum lk_coll c, double bytes, int ranks)
{
    return ranks > 1 ? bytes * lk_coll_busbw_factor(c, ranks) : 0;
}

double lk_coll_busbw_factor(enum lk_coll c, int ranks)
{
    return (double)rows[c].rounds * (ranks - 1) / ranks + rows[c].whole;
}
