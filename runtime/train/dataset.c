/* Datasets: synthetic tokens, and the bytes of a file; and the sampler, which is PyTorch's
 * DistributedSampler (torch/utils/data/distributed.py). */
#include "runtime/train/data.h"

#include "base/array.h"
#include "base/rng.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct lk_dataset {
    enum lk_status (*read)(const struct lk_dataset *d, size_t i, int32_t *inputs, int32_t *targets);
    size_t samples;
    size_t context;
    /* synthetic */
    uint32_t vocab;
    uint64_t seed;
    /* file */
    char *path;
    int fd;
    const uint8_t *bytes;
    size_t size;
};

static enum lk_status read_synthetic(const struct lk_dataset *d, size_t i, int32_t *inputs,
                                     int32_t *targets)
{
    struct lk_rng g = lk_rng_init(d->seed, lk_rng_stream("tokens", i));
    uint64_t token = lk_rng_below(&g, d->vocab);

    for (size_t t = 0; t < d->context; t++) {
        inputs[t] = (int32_t)token;
        if (lk_rng_below(&g, 4) == 0)
            token = lk_rng_below(&g, d->vocab);
        else
            token = (5 * token + 1) % d->vocab;
        targets[t] = (int32_t)token;
    }
    return LK_OK;
}

enum lk_status lk_dataset_synthetic(size_t samples, int context, int vocab, uint64_t seed,
                                    struct lk_dataset **out)
{
    struct lk_dataset *d;

    if (samples == 0 || context < 1 || vocab < 1)
        return lk_fail(LK_EUSAGE, "synthetic data of %zu samples, context %d, %d tokens", samples,
                       context, vocab);
    LK_PASS(lk_alloc(&d, 1, sizeof *d));
    d->read = read_synthetic;
    d->samples = samples;
    d->context = (size_t)context;
    d->vocab = (uint32_t)vocab;
    d->seed = seed;
    d->fd = -1;
    *out = d;
    return LK_OK;
}

/* Check the size before access: a page past the end of a truncated file raises SIGBUS. */
static enum lk_status check_size(const struct lk_dataset *d)
{
    struct stat s;

    if (fstat(d->fd, &s) < 0)
        return lk_fail(LK_EIO, "%s: %s", d->path, strerror(errno));
    if ((uint64_t)s.st_size < d->size)
        return lk_fail(LK_EIO, "%s: became shorter while it was read: %zu bytes, then %lld",
                       d->path, d->size, (long long)s.st_size);
    return LK_OK;
}

static enum lk_status read_file(const struct lk_dataset *d, size_t i, int32_t *inputs,
                                int32_t *targets)
{
    const uint8_t *from = d->bytes + i * d->context;

    LK_PASS(check_size(d));
    for (size_t t = 0; t < d->context; t++) {
        inputs[t] = from[t];
        targets[t] = from[t + 1];
    }
    return LK_OK;
}

static enum lk_status map_file(struct lk_dataset *d)
{
    struct stat s;
    void *map;

    /* Without O_NONBLOCK a FIFO would wait for its writer for ever. */
    d->fd = open(d->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (d->fd < 0 || fstat(d->fd, &s) < 0)
        return lk_fail(LK_EIO, "%s: cannot read training data: %s", d->path, strerror(errno));
    if (!S_ISREG(s.st_mode))
        return lk_fail(LK_EUSAGE, "%s: training data must be a regular file", d->path);
    d->size = (size_t)s.st_size;
    if (d->size < d->context + 1)
        return lk_fail(LK_EUSAGE,
                       "%s: %zu bytes are too few for one sample of %zu tokens and its "
                       "next",
                       d->path, d->size, d->context);
    map = mmap(NULL, d->size, PROT_READ, MAP_PRIVATE, d->fd, 0);
    if (map == MAP_FAILED)
        return lk_fail(LK_EIO, "%s: cannot map: %s", d->path, strerror(errno));
    d->bytes = map;
    d->samples = (d->size - 1) / d->context;
    return LK_OK;
}

enum lk_status lk_dataset_file(const char *path, int context, struct lk_dataset **out)
{
    enum lk_status st = LK_OK;
    struct lk_dataset *d = NULL;

    if (context < 1)
        return lk_fail(LK_EUSAGE, "context %d is below 1", context);
    LK_TRY(lk_alloc(&d, 1, sizeof *d));
    d->fd = -1;
    d->read = read_file;
    d->context = (size_t)context;
    LK_TRY(lk_strdup(&d->path, path));
    LK_TRY(map_file(d));
    LK_HAND_OVER(out, d);
out:
    lk_dataset_destroy(d);
    return st;
}

void lk_dataset_destroy(struct lk_dataset *d)
{
    if (!d)
        return;
    if (d->bytes)
        munmap((void *)(uintptr_t)d->bytes, d->size);
    if (d->fd >= 0)
        close(d->fd);
    free(d->path);
    free(d);
}

size_t lk_dataset_samples(const struct lk_dataset *d)
{
    return d->samples;
}

enum lk_status lk_dataset_read(const struct lk_dataset *d, size_t i, int32_t *inputs,
                               int32_t *targets)
{
    return d->read(d, i, inputs, targets);
}

/* ---- The sampler ---- */

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
