/*
 * VGG networks (Simonyan, Zisserman 2014), as torchvision's without batch norm, but without
 * dropout, as all models here. `layers` counts convolutions and linear layers; `channels` is the
 * width of the first stage; the linear layers are 64 times as wide.
 */
#include "base/array.h"
#include "runtime/model/model_image.h"

#include <stdio.h>

enum { STAGES = 5, LEAST_IMAGE = 1 << STAGES, FEATURES = 7, LINEAR = 64, WIDEST = 8 };

/* Convolutions of each stage, by the number of layers. */
static const struct depth {
    int layers;
    int convs[STAGES];
} depths[] = {
    {11, {1, 1, 2, 2, 2}}, {13, {2, 2, 2, 2, 2}}, {16, {2, 2, 3, 3, 3}}, {19, {2, 2, 4, 4, 4}}};

static enum lk_status check(const struct lk_model_config *c, const struct depth **out)
{
    if (c->image < LEAST_IMAGE)
        return lk_fail(LK_EUSAGE, "image %d is below %d: five poolings halve it", c->image,
                       LEAST_IMAGE);
    for (size_t i = 0; i < LK_COUNT(depths); i++)
        if (depths[i].layers == c->layers) {
            *out = &depths[i];
            return LK_OK;
        }
    return lk_fail(LK_EUSAGE, "layers %d: there are networks of 11, 13, 16, 19", c->layers);
}

static enum lk_status build(struct lk_image *g, const struct lk_model_config *c, char *text,
                            size_t size)
{
    struct lk_image_out at = {-1, (size_t)c->image, (size_t)c->image, (size_t)c->colours};
    size_t wide = LINEAR * (size_t)c->channels;
    const struct depth *d = NULL;
    char name[32];
    int module = 0; /* number in torchvision's Sequential, where relus and poolings count */

    LK_PASS(check(c, &d));
    for (int stage = 0; stage < STAGES; stage++, module++) {
        size_t width = (size_t)c->channels << stage;

        width = width > WIDEST * (size_t)c->channels ? WIDEST * (size_t)c->channels : width;
        for (int i = 0; i < d->convs[stage]; i++, module += 2) {
            snprintf(name, sizeof name, "features.%d", module);
            LK_PASS(lk_image_conv(g,
                                  &(struct lk_image_conv){.name = name,
                                                          .outputs = width,
                                                          .kernel = 3,
                                                          .stride = 1,
                                                          .padding = 1,
                                                          .relu = true},
                                  &at, &at));
        }
        LK_PASS(lk_image_maxpool(g, &at, 2, 2, 0, &at));
    }
    LK_PASS(lk_image_avgpool(g, &at, FEATURES, &at));
    snprintf(text, size, "layers %d, channels %d", c->layers, c->channels);
    LK_PASS(lk_image_linear(g, "classifier.0", &at, wide, 0.01, true, &at));
    LK_PASS(lk_image_linear(g, "classifier.3", &at, wide, 0.01, true, &at));
    return lk_image_linear(g, "classifier.6", &at, (size_t)c->vocab, 0.01, false, &at);
}

static enum lk_status create(struct lk_device *d, struct lk_stream *s,
                             const struct lk_model_config *config, struct lk_model **out)
{
    return lk_image_create(&lk_model_vgg, d, s, config, build, out);
}

const struct lk_model_ops lk_model_vgg = {
    .name = "vgg",
    .help = "VGG network: layers, channels (of the first stage), image, colours, vocab (classes)",
    .create = create,
    .destroy = lk_image_destroy,
    .forward = lk_image_forward,
    .backward = lk_image_backward,
    .join = lk_image_join,
};
