/* The sampler, which is PyTorch's DistributedSampler (torch/utils/data/distributed.py). */
#include "runtime/train/data.h"

#include "base/array.h"
#include "base/rng.h"

#include <stdlib.h>

struct lk_sampler {
    struct lk_sampler_config config;
    size_t count;    /* samples of this rank */
    uint64_t *order; /* the epoch's permutation of all samples; NULL: in order */
};

const char *const lk_unevens[] = {LK_UNEVEN_LIST(LK_WORD_NAME) NULL};

/* Return the samples that the first `rounds` of a block deal to all ranks. pre: batches differ. */
static uint64_t dealt(const struct lk_sampler_config *c, uint64_t rounds)
{
    uint64_t sum = 0;

    for (int r = 0; r < c->ranks; r++)
        sum += (uint64_t)c->batches[r] < rounds ? (uint64_t)c->batches[r] : rounds;
    return sum;
}

/* Return the position in its block of a rank's sample i of the block: the rounds before, and the
 * ranks before it in its round. */
static uint64_t place(const struct lk_sampler_config *c, int rank, uint64_t i)
{
    uint64_t at = dealt(c, i);

    for (int r = 0; r < rank; r++)
        at += (uint64_t)c->batches[r] > i;
    return at;
}

/* Return how many of the first n positions of a block are a rank's; padded: of the whole rounds
 * that hold them. */
static size_t share(const struct lk_sampler_config *c, int rank, uint64_t n, bool padded)
{
    uint64_t most = (uint64_t)c->batches[rank], i = 0;

    while (i < most && (padded ? dealt(c, i) : place(c, rank, i)) < n)
        i++;
    return (size_t)i;
}

/* Return what a rank is dealt. With equal batches: floor(N / R) when the tail is dropped (PyTorch:
 * ceil((N - R) / R) for N % R != 0), ceil(N / R) when it is padded. */
static size_t dealt_to(const struct lk_sampler_config *c, int rank)
{
    size_t ranks = (size_t)c->ranks, whole = c->samples / ranks, rest = c->samples % ranks;
    bool pads = c->uneven == LK_UNEVEN_PAD, tail = pads || c->uneven == LK_UNEVEN_JOIN;
    uint64_t block;

    if (!c->batches)
        return whole + (pads ? rest > 0 : tail ? (size_t)rank < rest : 0);
    block = dealt(c, UINT64_MAX);
    return (size_t)(c->samples / block * (uint64_t)c->batches[rank]) +
           (tail ? share(c, rank, c->samples % block, pads) : 0);
}

size_t lk_sampler_count_of(const struct lk_sampler_config *c, int rank)
{
    size_t n = dealt_to(c, rank);

    return c->most && (size_t)c->most[rank] < n ? (size_t)c->most[rank] : n;
}

enum lk_status lk_sampler_create(const struct lk_sampler_config *config, struct lk_sampler **out)
{
    enum lk_status st = LK_OK;
    struct lk_sampler *s = NULL;

    if (config->samples == 0)
        return lk_fail(LK_EUSAGE, "the dataset has no samples");
    if (config->ranks < 1 || config->rank < 0 || config->rank >= config->ranks)
        return lk_fail(LK_EUSAGE, "rank %d of %d ranks", config->rank, config->ranks);
    for (int r = 0; config->batches && r < config->ranks; r++)
        if (config->batches[r] < 1)
            return lk_fail(LK_EUSAGE, "rank %d has a local batch of %lld", r,
                           (long long)config->batches[r]);
    LK_TRY(lk_alloc(&s, 1, sizeof *s));
    s->config = *config;
    s->count = lk_sampler_count_of(config, config->rank);
    if (config->shuffle)
        LK_TRY(lk_alloc(&s->order, config->samples, sizeof *s->order));
    lk_sampler_set_epoch(s, 0);
    LK_HAND_OVER(out, s);
out:
    lk_sampler_destroy(s);
    return st;
}

void lk_sampler_destroy(struct lk_sampler *s)
{
    if (!s)
        return;
    free(s->order);
    free(s);
}

void lk_sampler_set_epoch(struct lk_sampler *s, uint64_t epoch)
{
    struct lk_rng g = lk_rng_init(s->config.seed + epoch, lk_rng_stream("sampler", 0));

    if (s->order)
        lk_rng_permutation(&g, s->order, s->config.samples);
}

size_t lk_sampler_count(const struct lk_sampler *s)
{
    return s->count;
}

/* Return element i of indices[rank : total : ranks], or what stands there for batches that differ.
 * The list is padded with itself, as often as needed (N < R / 2 needs more than one copy): position
 * p is indices[p mod N]. */
size_t lk_sampler_index(const struct lk_sampler *s, size_t i)
{
    const struct lk_sampler_config *c = &s->config;
    size_t p = (size_t)c->rank + i * (size_t)c->ranks;

    if (c->batches) {
        size_t batch = (size_t)c->batches[c->rank];

        p = (size_t)(i / batch * dealt(c, UINT64_MAX) + place(c, c->rank, i % batch));
    }
    p %= c->samples;
    return s->order ? (size_t)s->order[p] : p;
}
