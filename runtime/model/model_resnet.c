/*
 * Residual networks (He et al. 2015, "Deep Residual Learning for Image Recognition"), as
 * torchvision's: the stride of a bottleneck is in its 3 x 3 convolution. `layers` counts
 * convolutions and the linear layer; `channels` is the width of the first stage, which doubles from
 * stage to stage.
 *
 * Images above 64 pixels get the stem for ImageNet, a 7 x 7 convolution of stride 2 and a max
 * pooling; smaller ones that for CIFAR, a 3 x 3 convolution and no pooling.
 */
#include "base/array.h"
#include "runtime/model/model_image.h"

#include <math.h>
#include <stdio.h>

enum { STAGES = 4, EXPANSION = 4, SMALL_IMAGE = 64 };

/* Blocks of each stage, by the number of layers. */
static const struct depth {
    int layers;
    bool bottleneck;
    int blocks[STAGES];
} depths[] = {
    {10, false, {1, 1, 1, 1}},  {18, false, {2, 2, 2, 2}}, {34, false, {3, 4, 6, 3}},
    {14, true, {1, 1, 1, 1}},   {50, true, {3, 4, 6, 3}},  {101, true, {3, 4, 23, 3}},
    {152, true, {3, 8, 36, 3}},
};

static enum lk_status find_depth(int layers, const struct depth **out)
{
    char known[80] = "";
    size_t used = 0;

    for (size_t i = 0; i < LK_COUNT(depths); i++) {
        if (depths[i].layers == layers) {
            *out = &depths[i];
            return LK_OK;
        }
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%d", i ? ", " : "",
                                 depths[i].layers);
    }
    return lk_fail(LK_EUSAGE, "layers %d: there are networks of %s", layers, known);
}

/* Add a convolution "PREFIX.convN" with its norm "PREFIX.bnN". */
static enum lk_status conv(struct lk_image *g, const char *prefix, int n, size_t outputs,
                           size_t kernel, size_t stride, bool relu, struct lk_image_out *at)
{
    char name[48], norm[48];

    snprintf(name, sizeof name, "%s.conv%d", prefix, n);
    snprintf(norm, sizeof norm, "%s.bn%d", prefix, n);
    return lk_image_conv(g,
                         &(struct lk_image_conv){.name = name,
                                                 .norm = norm,
                                                 .outputs = outputs,
                                                 .kernel = kernel,
                                                 .stride = stride,
                                                 .padding = kernel / 2,
                                                 .relu = relu},
                         at, at);
}

/* Add a block: two or three convolutions, and the sum with its input, which is convolved where the
 * sizes differ. */
static enum lk_status block(struct lk_image *g, const struct depth *d, const char *prefix,
                            size_t width, size_t stride, struct lk_image_out *at)
{
    size_t outputs = d->bottleneck ? EXPANSION * width : width;
    struct lk_image_out past = *at, residual = *at;
    char name[48], norm[48];

    if (d->bottleneck) {
        LK_PASS(conv(g, prefix, 1, width, 1, 1, true, &past));
        LK_PASS(conv(g, prefix, 2, width, 3, stride, true, &past));
        LK_PASS(conv(g, prefix, 3, outputs, 1, 1, false, &past));
    } else {
        LK_PASS(conv(g, prefix, 1, width, 3, stride, true, &past));
        LK_PASS(conv(g, prefix, 2, outputs, 3, 1, false, &past));
    }
    if (stride != 1 || at->channels != outputs) {
        snprintf(name, sizeof name, "%s.downsample.0", prefix);
        snprintf(norm, sizeof norm, "%s.downsample.1", prefix);
        LK_PASS(lk_image_conv(
            g,
            &(struct lk_image_conv){
                .name = name, .norm = norm, .outputs = outputs, .kernel = 1, .stride = stride},
            at, &residual));
    }
    return lk_image_add_relu(g, &past, &residual, at);
}

static enum lk_status build(struct lk_image *g, const struct lk_model_config *c, char *text,
                            size_t size)
{
    bool small = c->image <= SMALL_IMAGE;
    struct lk_image_out at = {-1, (size_t)c->image, (size_t)c->image, (size_t)c->colours};
    struct lk_image_conv stem = {.name = "conv1",
                                 .norm = "bn1",
                                 .outputs = (size_t)c->channels,
                                 .kernel = small ? 3 : 7,
                                 .stride = small ? 1 : 2,
                                 .padding = small ? 1 : 3,
                                 .relu = true};
    const struct depth *d = NULL;
    char prefix[32];

    LK_PASS(find_depth(c->layers, &d));
    LK_PASS(lk_image_conv(g, &stem, &at, &at));
    if (!small)
        LK_PASS(lk_image_maxpool(g, &at, 3, 2, 1, &at));
    for (int stage = 0; stage < STAGES; stage++)
        for (int b = 0; b < d->blocks[stage]; b++) {
            snprintf(prefix, sizeof prefix, "layer%d.%d", stage + 1, b);
            LK_PASS(block(g, d, prefix, (size_t)c->channels << stage, stage && !b ? 2 : 1, &at));
        }
    LK_PASS(lk_image_avgpool(g, &at, 1, &at));
    snprintf(text, size, "layers %d, channels %d, stem of %s", c->layers, c->channels,
             small ? "3 x 3 (CIFAR)" : "7 x 7 and max pooling (ImageNet)");
    /* The deviation of PyTorch's initial values, which are uniform. */
    return lk_image_linear(g, "fc", &at, (size_t)c->vocab, sqrt(1 / (3 * (double)at.channels)),
                           false, &at);
}

static enum lk_status create(struct lk_device *d, struct lk_stream *s,
                             const struct lk_model_config *config, struct lk_model **out)
{
    return lk_image_create(&lk_model_resnet, d, s, config, build, out);
}

const struct lk_model_ops lk_model_resnet = {
    .name = "resnet",
    .help = "residual network: layers, channels (of the first stage), image, colours, vocab",
    .create = create,
    .destroy = lk_image_destroy,
    .forward = lk_image_forward,
    .backward = lk_image_backward,
    .join = lk_image_join,
};
