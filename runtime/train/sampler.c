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

/* Return num_samples: floor(N / R) when the tail is dropped (PyTorch: ceil((N - R) / R) for N % R
 * != 0), else ceil(N / R). */
static size_t samples_a_rank(const struct lk_sampler_config *c)
{
    size_t ranks = (size_t)c->ranks;
    size_t whole = c->samples / ranks;

    return c->drop_last || c->samples % ranks == 0 ? whole : whole + 1;
}

enum lk_status lk_sampler_create(const struct lk_sampler_config *config, struct lk_sampler **out)
{
    enum lk_status st = LK_OK;
    struct lk_sampler *s = NULL;

    if (config->samples == 0)
        return lk_fail(LK_EUSAGE, "the dataset has no samples");
    if (config->ranks < 1 || config->rank < 0 || config->rank >= config->ranks)
        return lk_fail(LK_EUSAGE, "rank %d of %d ranks", config->rank, config->ranks);
    LK_TRY(lk_alloc(&s, 1, sizeof *s));
    s->config = *config;
    s->count = samples_a_rank(config);
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

/* Return element i of indices[rank : total : ranks]. The list is padded with itself, as often as
 * needed (N < R / 2 needs more than one copy): position p is indices[p mod N]. */
size_t lk_sampler_index(const struct lk_sampler *s, size_t i)
{
    size_t p = (size_t)s->config.rank + i * (size_t)s->config.ranks;

    p %= s->config.samples;
    return s->order ? (size_t)s->order[p] : p;
}
