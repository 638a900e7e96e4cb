/* Datasets: synthetic tokens, and the bytes of a file. */
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
    enum lk_status st;

    if (samples == 0 || context < 1 || vocab < 1)
        return lk_fail(LK_EUSAGE, "synthetic data of %zu samples, context %d, %d tokens", samples,
                       context, vocab);
    st = lk_alloc(&d, 1, sizeof *d);
    if (st != LK_OK)
        return st;
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
    enum lk_status st = check_size(d);

    if (st != LK_OK)
        return st;
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
    *out = d;
    d = NULL;
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
