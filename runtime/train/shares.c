/* Shares of ranks in micro-batches; see the header. */
#include "runtime/train/data.h"

#include "base/array.h"

#include <stdlib.h>

const char *const lk_divides[] = {LK_DIVIDE_LIST(LK_WORD_NAME) NULL};

struct lk_shares {
    struct lk_shares_config config;
    size_t *counts;    /* samples of an epoch, by rank */
    int64_t batch;     /* samples of a whole micro-batch of all ranks */
    uint64_t an_epoch; /* micro-batches; where epochs end steps, those of whole steps */
    uint64_t whole;    /* the first ones of an epoch, in which all batches are whole */
    bool closed;       /* epochs end steps */
};

static size_t batch_of(const struct lk_shares *s, int rank)
{
    const int64_t *batches = s->config.sampler.batches;

    return batches ? (size_t)batches[rank] : (size_t)s->config.local_batch;
}

/* Count the micro-batches of an epoch: those of the rank with most, and those that are whole. */
static void count(struct lk_shares *s)
{
    uint64_t accumulation = (uint64_t)s->config.accumulation;

    s->whole = UINT64_MAX;
    for (int r = 0; r < s->config.sampler.ranks; r++) {
        size_t batch = batch_of(s, r);
        uint64_t whole = s->counts[r] / batch, all = (s->counts[r] + batch - 1) / batch;

        s->batch += (int64_t)batch;
        s->whole = whole < s->whole ? whole : s->whole;
        s->an_epoch = all > s->an_epoch ? all : s->an_epoch;
    }
    s->an_epoch =
        s->closed ? (s->an_epoch + accumulation - 1) / accumulation * accumulation : s->whole;
}

enum lk_status lk_shares_create(const struct lk_shares_config *c, struct lk_shares **out)
{
    const struct lk_sampler_config *sampler = &c->sampler;
    struct lk_shares *s = NULL;
    enum lk_status st = LK_OK;

    if (!sampler->batches && c->local_batch < 1)
        return lk_fail(LK_EUSAGE, "a local batch of %d", c->local_batch);
    LK_TRY(lk_alloc(&s, 1, sizeof *s));
    s->config = *c;
    s->closed = sampler->uneven == LK_UNEVEN_PAD || sampler->uneven == LK_UNEVEN_JOIN;
    LK_TRY(lk_alloc(&s->counts, (size_t)sampler->ranks, sizeof *s->counts));
    for (int r = 0; r < sampler->ranks; r++)
        s->counts[r] = lk_sampler_count_of(sampler, r);
    for (int r = 0; r < sampler->ranks; r++)
        if (s->counts[r] < (s->closed ? 1 : batch_of(s, r)))
            LK_TRY(
                lk_fail(LK_EUSAGE,
                        "rank %d has %zu samples an epoch, fewer than %s%zu (%zu samples in all)",
                        r, s->counts[r], s->closed ? "" : "its local batch of ",
                        s->closed ? (size_t)1 : batch_of(s, r), sampler->samples));
    count(s);
    LK_HAND_OVER(out, s);
out:
    lk_shares_destroy(s);
    return st;
}

void lk_shares_destroy(struct lk_shares *s)
{
    if (!s)
        return;
    free(s->counts);
    free(s);
}

enum lk_status lk_shares_check(const struct lk_shares *s, const char *data, uint64_t n)
{
    const struct lk_sampler_config *c = &s->config.sampler;
    size_t rest = c->samples % (size_t)s->batch;

    if (c->uneven != LK_UNEVEN_ERROR || !rest || n <= s->an_epoch)
        return LK_OK;
    return lk_fail(LK_EUSAGE,
                   "%s: %zu samples are no whole number of micro-batches of %lld samples on %d "
                   "rank%s: %zu of each epoch are left over, and the run's %llu micro-batches come "
                   "to them. --uneven=drop leaves them out, --uneven=pad repeats the first "
                   "samples, --uneven=join lets ranks that ran out shadow the others' collectives",
                   data, c->samples, (long long)s->batch, c->ranks, c->ranks == 1 ? "" : "s", rest,
                   (unsigned long long)n);
}

int64_t lk_shares_batch(const struct lk_shares *s)
{
    return s->batch;
}

double lk_shares_steps_an_epoch(const struct lk_shares *s)
{
    return (double)s->an_epoch / s->config.accumulation;
}

struct lk_share lk_shares_of(const struct lk_shares *s, int rank, uint64_t n)
{
    size_t batch = batch_of(s, rank), first = (size_t)(n % s->an_epoch) * batch;
    size_t left = first < s->counts[rank] ? s->counts[rank] - first : 0;

    return (struct lk_share){n / s->an_epoch, first, (int)(left < batch ? left : batch)};
}

/* ---- A step ---- */

bool lk_shares_is_whole(const struct lk_shares *s, uint64_t n)
{
    return !s->closed || n % s->an_epoch + (uint64_t)s->config.accumulation <= s->whole;
}

bool lk_shares_ends_epoch(const struct lk_shares *s, uint64_t n)
{
    return s->closed && n % s->an_epoch + (uint64_t)s->config.accumulation == s->an_epoch;
}

/* Return the samples of all ranks in a micro-batch, or their whole batches where they have any. */
static int64_t of_all(const struct lk_shares *s, uint64_t n, bool whole)
{
    int64_t sum = 0;

    for (int r = 0; r < s->config.sampler.ranks; r++) {
        int samples = lk_shares_of(s, r, n).samples;

        sum += whole && samples ? (int64_t)batch_of(s, r) : samples;
    }
    return sum;
}

int lk_shares_micro_batches(const struct lk_shares *s, uint64_t n)
{
    int m = s->config.accumulation;

    if (lk_shares_is_whole(s, n))
        return m;
    while (m > 1 && !of_all(s, n + (uint64_t)m - 1, false))
        m--;
    return m;
}

int64_t lk_shares_samples(const struct lk_shares *s, uint64_t n)
{
    int64_t sum = 0;

    if (lk_shares_is_whole(s, n))
        return s->batch * s->config.accumulation;
    for (int m = 0; m < s->config.accumulation; m++)
        sum += of_all(s, n + (uint64_t)m, false);
    return sum;
}

double lk_shares_of_samples(const struct lk_shares *s, int rank, uint64_t n, int m)
{
    const struct lk_shares_config *c = &s->config;
    double of = (double)lk_shares_of(s, rank, n + (uint64_t)m).samples;

    return of * c->sampler.ranks * c->accumulation / (double)lk_shares_samples(s, n);
}

double lk_shares_weight(const struct lk_shares *s, int rank, uint64_t n, int m)
{
    const struct lk_shares_config *c = &s->config;
    double of = (double)batch_of(s, rank) * c->sampler.ranks;

    if (c->sampler.uneven != LK_UNEVEN_JOIN || c->divide == LK_DIVIDE_SAMPLES)
        return lk_shares_of_samples(s, rank, n, m);
    if (!lk_shares_of(s, rank, n + (uint64_t)m).samples)
        return 0;
    return of /
           (double)(c->divide == LK_DIVIDE_ACTIVE ? of_all(s, n + (uint64_t)m, true) : s->batch);
}

int lk_shares_last_rank(const struct lk_shares *s, uint64_t n, int m)
{
    int r = s->config.sampler.ranks - 1;

    while (r > 0 && !lk_shares_of(s, r, n + (uint64_t)m).samples)
        r--;
    return r;
}
