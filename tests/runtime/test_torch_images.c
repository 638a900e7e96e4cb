/*
 * One step of networks of images against PyTorch's, from the same weights on the same images: the
 * loss, every gradient and the running statistics. bench/torch_images.py computes in float64;
 * bounds are its own, 1e-4 of a tensor's norm. Left out where PyTorch is not.
 */
#include "base/array.h"
#include "tests/rigs/pytorch.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/shell.h"
#include "tests/rigs/suite.h"

#include <stdlib.h>
#include <string.h>

enum { RECORD = 3073, RECORDS = 8, SIDE = 70 };

static const struct {
    const char *model, *network, *sizes; /* options of both programs */
    const char *options, *data;
} cases[] = {
    {"resnet-small", "resnet", "--layers=10 --channels=8", "--image=32 --vocab=10", "cifar.bin"},
    {"resnet50", "resnet", "--layers=14 --channels=4", "--image=32 --vocab=10", "cifar.bin"},
    {"resnet18", "resnet", "--layers=10 --channels=4", "--image=70 --colours=1 --vocab=10",
     "images-idx3"},
    {"vgg16", "vgg", "--layers=11 --channels=4", "--image=32 --vocab=10", "cifar.bin"},
};

static void put_data(void)
{
    static unsigned char cifar[RECORDS * RECORD], mnist[16 + RECORDS * SIDE * SIDE];
    static const unsigned char header[16] = {0, 0, 8, 3,    0, 0, 0, RECORDS,
                                             0, 0, 0, SIDE, 0, 0, 0, SIDE};
    unsigned char labels[8 + RECORDS] = {0, 0, 8, 1, 0, 0, 0, RECORDS};
    unsigned state = 1;

    for (size_t i = 0; i < sizeof cifar; i++) {
        state = state * 1664525u + 1013904223u;
        cifar[i] = (unsigned char)(i % RECORD ? state >> 24 : i / RECORD % 10);
    }
    for (size_t i = 0; i < sizeof mnist; i++) {
        state = state * 1664525u + 1013904223u;
        mnist[i] = (unsigned char)(state >> 24);
    }
    memcpy(mnist, header, sizeof header);
    for (size_t i = 0; i < RECORDS; i++)
        labels[8 + i] = (unsigned char)(9 - i);
    free(scratch_put("cifar.bin", cifar, sizeof cifar));
    free(scratch_put("images-idx3", mnist, sizeof mnist));
    free(scratch_put("labels-idx1", labels, sizeof labels));
}

static void step(size_t i, const char *rate, const char *name)
{
    struct shell_result r = shell_program(
        scratch_dir,
        "run --model=%s %s %s --data=%s -b6 --steps=1 --warmup=0 --no-shuffle "
        "--optimizer=sgd --momentum=0 --weight-decay=0 --noise-every=0 --no-pin "
        "--learning-rate=%s --export=%s --out=run-%s",
        cases[i].model, cases[i].sizes, cases[i].options, cases[i].data, rate, name, name);

    ck_assert_msg(r.code == 0, "%s", r.text);
}

START_TEST(a_step_is_pytorchs)
{
    static struct shell_result r;

    if (!pytorch_is_here())
        return;
    put_data();
    step((size_t)_i, "1e-30", "before");
    step((size_t)_i, "1", "after");
    r = shell_run(
        "root=$PWD; cd %s && loss=$(grep '\"loss\"' run-after/*/result.json | tr -dc "
        "'0-9.e-') && OMP_NUM_THREADS=1 timeout 120 /usr/bin/python3 "
        "\"$root\"/bench/torch_images.py --model=%s %s --local-batch=6 --loss=$loss before "
        "after %s 2>&1",
        scratch_dir, cases[_i].network, cases[_i].sizes, cases[_i].data);
    ck_assert_msg(r.code == 0 && strstr(r.text, "gradients") != NULL, "%s", r.text);
}
END_TEST

SUITE(torch_images, c)
{
    tcase_add_checked_fixture(c, scratch_set_up, scratch_tear_down);
    tcase_add_loop_test(c, a_step_is_pytorchs, 0, LK_COUNT(cases));
}
