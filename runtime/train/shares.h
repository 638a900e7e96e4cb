/*
 * Shares: how many samples each rank has in every micro-batch of a run, and what its mean loss
 * weighs there. All ranks compute them alike from the sampler's configuration, so nobody has to be
 * asked who has run out.
 *
 * Micro-batches are numbered from the run's first; a step has `accumulation` of them. Where samples
 * of an epoch are left out (`drop`, `error`) all micro-batches are whole, and steps go on across
 * the ends of epochs. Where none is (`pad`, `join`) an epoch ends with a step of its own, which may
 * have fewer micro-batches; its numbers are as many all the same, so that step s begins at s times
 * accumulation. A rank's last batch of an epoch may be short, and behind it come empty ones.
 *
 * The gradient of a step is the sum over ranks r and micro-batches m of w(r, m) times the mean
 * gradient of r's samples in m. With n(r, m) samples, b(r) of a whole batch, A micro-batches:
 *
 *   samples    n(r, m) / sum of n        the mean over all samples of the step: one rank on the
 *                                        global batch, exactly
 *   initial    b(r) / sum of b / A       PyTorch's divide_by_initial_world_size: 1 / (ranks A)
 *   active     the same, the sum over ranks that have samples in m
 *
 * All agree where all batches are whole. `initial` and `active` are for `join`; else it is
 * `samples`.
 */
#ifndef LK_RUNTIME_SHARES_H
#define LK_RUNTIME_SHARES_H

#include "base/status.h"
#include "base/words.h"
#include "runtime/train/data.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* X(divide, name, help) */
#define LK_DIVIDE_LIST(X)                                                                          \
    X(LK_DIVIDE_INITIAL, "initial", "by all ranks, as Join does")                                  \
    X(LK_DIVIDE_ACTIVE, "active", "by those that have samples")                                    \
    X(LK_DIVIDE_SAMPLES, "samples", "by their samples, as one rank on all of them")
enum lk_divide { LK_DIVIDE_LIST(LK_WORD_VALUE) };
/* Their names, and NULL. */
extern const char *const lk_divides[];

struct lk_shares_config {
    struct lk_sampler_config sampler; /* its rank is not read */
    int local_batch;                  /* of every rank, where the sampler has no batches */
    int accumulation;
    enum lk_divide divide; /* with LK_UNEVEN_JOIN */
};

/* Of one rank, in one micro-batch. */
struct lk_share {
    uint64_t epoch;
    size_t first; /* of its samples, in sampler order */
    int samples;  /* 0: it has run out */
};

struct lk_shares;
/* The batches are borrowed. LK_EUSAGE: an epoch has no whole micro-batch where only whole ones
 * count, or no sample for some rank. */
enum lk_status lk_shares_create(const struct lk_shares_config *c, struct lk_shares **out);
void lk_shares_destroy(struct lk_shares *s); /* NULL is legal */
/*
 * LK_EUSAGE with LK_UNEVEN_ERROR, if n micro-batches from the first come to samples that do not
 * fill one of all ranks. The text names `data`, the counts and the options.
 */
enum lk_status lk_shares_check(const struct lk_shares *s, const char *data, uint64_t n);

/* Return the samples of a micro-batch of all ranks, whole. */
int64_t lk_shares_batch(const struct lk_shares *s);
/* Return the steps of an epoch, a fraction where they go on across its end. */
double lk_shares_steps_an_epoch(const struct lk_shares *s);
/* Return a rank's share of micro-batch n. */
struct lk_share lk_shares_of(const struct lk_shares *s, int rank, uint64_t n);

/* ---- A step; n is its first micro-batch ---- */

/* Return true if all its batches are whole. */
bool lk_shares_is_whole(const struct lk_shares *s, uint64_t n);
/* Return true if an epoch ends with it, where epochs end steps. */
bool lk_shares_ends_epoch(const struct lk_shares *s, uint64_t n);
/* Return how many of its micro-batches any rank has samples in, 1 or more. */
int lk_shares_micro_batches(const struct lk_shares *s, uint64_t n);
int64_t lk_shares_samples(const struct lk_shares *s, uint64_t n); /* of all ranks */
/*
 * Return what the mean gradient of a rank's micro-batch n + m weighs, times ranks and accumulation:
 * 1 where all batches are whole and equal. The same by samples, whatever divides gradients: the
 * mean over ranks and micro-batches of losses times it is the mean loss of all samples.
 */
double lk_shares_weight(const struct lk_shares *s, int rank, uint64_t n, int m);
double lk_shares_of_samples(const struct lk_shares *s, int rank, uint64_t n, int m);
/* Return the highest rank that has samples in micro-batch n + m. pre: m is below the count above.
 */
int lk_shares_last_rank(const struct lk_shares *s, uint64_t n, int m);

#endif
