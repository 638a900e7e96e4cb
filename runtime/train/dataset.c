/* Synthetic data sets, of texts and of images, and what all data sets share. */
#include "runtime/train/dataset_impl.h"

#include "base/array.h"
#include "base/rng.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static enum lk_status read_text(const struct lk_dataset *d, size_t i, void *inputs,
                                int32_t *targets)
{
    struct lk_rng g = lk_rng_init(d->seed, lk_rng_stream("tokens", i));
    uint64_t vocab = (uint64_t)d->classes, token = lk_rng_below(&g, vocab);
    int32_t *tokens = inputs;

    for (int t = 0; t < d->shape.width; t++) {
        tokens[t] = (int32_t)token;
        if (lk_rng_below(&g, 4) == 0)
            token = lk_rng_below(&g, vocab);
        else
            token = (5 * token + 1) % vocab;
        targets[t] = (int32_t)token;
    }
    return LK_OK;
}

/* Patterns of classes: the level of each of PATCHES x PATCHES patches of a plane. Levels and noise
 * are at most SWING, so that their sum about the middle is a byte. */
enum { PATCHES = 4, SWING = 48, MIDDLE = 128 };

static enum lk_status read_image(const struct lk_dataset *d, size_t i, void *inputs,
                                 int32_t *targets)
{
    const struct lk_sample_shape *s = &d->shape;
    struct lk_rng g = lk_rng_init(d->seed, lk_rng_stream("image", i));
    size_t class = (size_t)lk_rng_below(&g, (uint64_t)d->classes);
    const int8_t *pattern = d->patterns + class * (size_t)s->channels * PATCHES * PATCHES;
    uint8_t *pixel = inputs;
    uint64_t noise = 0;
    unsigned left = 0;

    for (int row = 0; row < s->channels * s->height; row++)
        for (int x = 0; x < s->width; x++, noise >>= 8, left--) {
            int patch = row % s->height * PATCHES / s->height * PATCHES + x * PATCHES / s->width;

            if (left == 0) {
                noise = lk_rng_u64(&g);
                left = sizeof noise;
            }
            *pixel++ = (uint8_t)(MIDDLE + pattern[row / s->height * PATCHES * PATCHES + patch] +
                                 (int)(noise & 0xff) * 2 * SWING / 256 - SWING);
        }
    *targets = (int32_t) class;
    return LK_OK;
}

static enum lk_status make_patterns(struct lk_dataset *d)
{
    size_t n = (size_t)d->classes * (size_t)d->shape.channels * PATCHES * PATCHES;
    struct lk_rng g = lk_rng_init(d->seed, lk_rng_stream("image patterns", 0));

    LK_PASS(lk_alloc(&d->patterns, n, sizeof *d->patterns));
    for (size_t i = 0; i < n; i++)
        d->patterns[i] = (int8_t)((int)lk_rng_below(&g, 2 * SWING + 1) - SWING);
    return LK_OK;
}

enum lk_status lk_dataset_synthetic(size_t samples, const struct lk_sample_shape *shape,
                                    int classes, uint64_t seed, struct lk_dataset **out)
{
    bool images = shape->dtype == LK_U8;
    struct lk_dataset *d = NULL;
    enum lk_status st = LK_OK;
    char text[64];

    lk_sample_describe(shape, text, sizeof text);
    if (samples == 0 || lk_sample_inputs(shape) == 0 || classes < 1)
        return lk_fail(LK_EUSAGE, "synthetic data of %zu samples, each %s, %d %s", samples, text,
                       classes, images ? "classes" : "tokens");
    LK_TRY(lk_alloc(&d, 1, sizeof *d));
    *d = (struct lk_dataset){.read = images ? read_image : read_text,
                             .samples = samples,
                             .shape = *shape,
                             .classes = classes,
                             .seed = seed};
    lk_dataset_file_none(d);
    if (images)
        LK_TRY(make_patterns(d));
    LK_HAND_OVER(out, d);
out:
    lk_dataset_destroy(d);
    return st;
}

void lk_dataset_destroy(struct lk_dataset *d)
{
    if (!d)
        return;
    for (size_t i = 0; i < LK_COUNT(d->files); i++) {
        if (d->files[i].bytes)
            munmap((void *)(uintptr_t)d->files[i].bytes, d->files[i].size);
        if (d->files[i].fd >= 0)
            close(d->files[i].fd);
        free(d->files[i].path);
    }
    free(d->patterns);
    free(d);
}

size_t lk_dataset_samples(const struct lk_dataset *d)
{
    return d->samples;
}

const struct lk_sample_shape *lk_dataset_shape(const struct lk_dataset *d)
{
    return &d->shape;
}

enum lk_status lk_dataset_read(const struct lk_dataset *d, size_t i, void *inputs, int32_t *targets)
{
    return d->read(d, i, inputs, targets);
}
