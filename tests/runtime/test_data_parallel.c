/*
 * DataParallel: one process on several devices has the losses and weights of one device on the
 * whole batch, and copies what it is said to copy.
 */
#include "runtime/model/replicas.h"

#include "base/array.h"
#include "base/file.h"
#include "tests/rigs/kept_spans.h"
#include "tests/rigs/must.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/small_train.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 4 };

static const struct lk_model_config models[] = {
    {.name = "gpt", .layers = 1, .heads = 2, .channels = 14, .context = 6, .vocab = 31, .seed = 3},
    {.name = "mlp", .layers = 2, .channels = 18, .context = 7, .vocab = 23, .seed = 3},
    {.name = "vgg16", .layers = 11, .channels = 2, .image = 32, .vocab = 5, .seed = 3},
};
/* The last have chunks of unequal size, and a device without samples. */
static const struct {
    int devices, batch, accumulation;
} cases[] = {{2, 6, 1}, {3, 6, 2}, {4, 8, 1}, {3, 7, 1}, {4, 6, 2}};

static struct lk_train_config config(int i, int devices, const char *weights)
{
    size_t model = (size_t)i % LK_COUNT(models), k = (size_t)i / LK_COUNT(models);
    struct lk_train_config c = small_train("cpu", STEPS);

    c.model = models[model];
    c.model.replicas = devices ? cases[k].devices : 0;
    c.local_batch = cases[k].batch;
    c.reducer.accumulation = cases[k].accumulation;
    c.samples = 100;
    c.optim =
        (struct lk_optim_config){.kind = LK_OPTIM_SGD, .learning_rate = 0.02, .momentum = 0.9};
    c.export_path = weights;
    return c;
}

START_TEST(is_one_device_on_the_whole_batch)
{
    char *paths[] = {scratch_path(scratch_dir, "one"), scratch_path(scratch_dir, "several")};
    struct lk_train_result results[2] = {{0}, {0}};
    char *text[2];
    size_t size[2], head;

    for (int k = 0; k < 2; k++) {
        struct lk_train_config c = config(_i, k, paths[k]);

        must(lk_train(&c, &results[k]));
        must(lk_file_read_max(paths[k], SIZE_MAX, &text[k], &size[k]));
    }
    for (int s = 0; s < STEPS; s++)
        ck_assert_double_eq_tol(results[0].loss[s], results[1].loss[s], 1e-5);
    ck_assert_double_gt(fabs(results[0].loss[1] - results[0].loss[0]), 1e-5);
    ck_assert_uint_eq(size[0], size[1]);
    head = (size_t)((char *)memchr(text[0], '\n', size[0]) - text[0]) + 1;
    for (size_t at = head; at < size[0]; at += sizeof(float)) {
        float x, y;

        memcpy(&x, text[0] + at, sizeof x);
        memcpy(&y, text[1] + at, sizeof y);
        ck_assert_msg(fabs((double)x - (double)y) <= 1e-5, "byte %zu: %g and %g", at, (double)x,
                      (double)y);
    }
    for (int k = 0; k < 2; k++) {
        lk_train_result_fini(&results[k]);
        free(text[k]);
        free(paths[k]);
    }
}
END_TEST

static uint64_t copied(const char *track)
{
    const struct kept_track *t = kept_track(track);
    uint64_t bytes = 0;

    for (size_t i = 0; i < t->n; i++)
        if (t->spans[i].kind == LK_SPAN_COPY)
            bytes += t->spans[i].bytes;
    return bytes;
}

/* In each micro-batch all weights go to each other device, with its samples, and as many gradients
 * come back: what device 0's links carry grows with the devices, where a rank's share of a ring
 * stays below twice the gradients. Tensors are padded to 64 bytes. */
START_TEST(copies_weights_and_gradients)
{
    enum { DEVICES = 3, ACCUMULATION = 2, PASSES = STEPS * ACCUMULATION, TENSORS = 6 };
    const double weights = 4 * (18 * (7 + 1) + 18 * (18 + 1) + 23 * (18 + 1));
    const double samples = 2 * 2 * 7 * 4; /* two of 7 tokens and targets */
    struct lk_train_config c = config(1, 1, NULL);
    struct lk_train_result result = {0};

    c.model.replicas = DEVICES;
    c.local_batch = 6;
    c.reducer.accumulation = ACCUMULATION;
    kept_reset();
    must(lk_recorder_create(&c.recorder));
    must(lk_recorder_attach(c.recorder, &kept_ops, &kept));
    must(lk_train(&c, &result));
    lk_recorder_destroy(c.recorder);
    for (int d = 1; d < DEVICES; d++) {
        double out = (double)copied(d == 1 ? "device 1" : "device 2") / PASSES;

        ck_assert_double_ge(out, weights + samples);
        ck_assert_double_le(out, weights + samples + 64 * TENSORS);
    }
    /* Beside them the batch, and a loss. */
    ck_assert_double_ge((double)copied("compute stream") / PASSES, (DEVICES - 1) * weights);
    ck_assert_double_le((double)copied("compute stream") / PASSES, 1.1 * (DEVICES - 1) * weights);
    lk_train_result_fini(&result);
}
END_TEST

SUITE(data_parallel, c)
{
    tcase_add_checked_fixture(c, scratch_set_up, scratch_tear_down);
    tcase_add_loop_test(c, is_one_device_on_the_whole_batch, 0,
                        (int)(LK_COUNT(models) * LK_COUNT(cases)));
    tcase_add_test(c, copies_weights_and_gradients);
}
