/*
 * Ranks that run out of samples against PyTorch's Join with DistributedDataParallel: weights and
 * running statistics after an epoch, for both ways to divide. tests/runtime/torch_join.py computes
 * in float64; the bound is its own, 1e-4. Left out where PyTorch is not.
 */
#include "base/array.h"
#include "tests/rigs/pytorch.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/shell.h"
#include "tests/rigs/suite.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { RECORD = 3073, RECORDS = 14 };

static const struct {
    const char *model, *kind, *layers, *channels, *divide, *counts;
    int ranks, steps; /* an epoch of the rank with most samples, by 2 */
} cases[] = {
    {"vgg16", "vgg", "11", "2", "initial", "7,2", 2, 4},
    {"vgg16", "vgg", "11", "2", "active", "2,5", 2, 3},
    /* Ranks 0 and 2 come to the end, and rank 2 has the buffers. */
    {"resnet-small", "resnet", "10", "2", "active", "4,2,4", 3, 2},
};

static void put_data(void)
{
    static unsigned char cifar[RECORDS * RECORD];
    unsigned state = 1;

    for (size_t i = 0; i < sizeof cifar; i++) {
        state = state * 1664525u + 1013904223u;
        cifar[i] = (unsigned char)(i % RECORD ? state >> 24 : i / RECORD % 10);
    }
    free(scratch_put("cifar.bin", cifar, sizeof cifar));
}

/* Train; before: one step that moves nothing. */
static void train(size_t i, bool before)
{
    struct shell_result r = shell_program(
        scratch_dir,
        "run -n%d --model=%s --layers=%s --channels=%s --image=32 --vocab=10 --data=cifar.bin -b2 "
        "--steps=%d --warmup=0 --no-shuffle --optimizer=sgd --momentum=0 --weight-decay=0 --no-pin "
        "--learning-rate=%s --uneven=join --join-divide=%s --rank-samples=%s --export=%s "
        "--out=run-%s",
        cases[i].ranks, cases[i].model, cases[i].layers, cases[i].channels,
        before ? 1 : cases[i].steps, before ? "1e-30" : "0.05", cases[i].divide, cases[i].counts,
        before ? "before" : "after", before ? "before" : "after");

    ck_assert_msg(r.code == 0, "%s", r.text);
}

START_TEST(an_epoch_is_joins)
{
    static struct shell_result r;

    if (!pytorch_is_here())
        return;
    put_data();
    train((size_t)_i, true);
    train((size_t)_i, false);
    r = shell_run("root=$PWD; cd %s && OMP_NUM_THREADS=1 GLOO_SOCKET_IFNAME=lo timeout 120 "
                  "/usr/bin/python3 \"$root\"/tests/runtime/torch_join.py before after cifar.bin "
                  "%s %s %s 2 %s %s 2>&1",
                  scratch_dir, cases[_i].kind, cases[_i].layers, cases[_i].channels,
                  cases[_i].divide, cases[_i].counts);
    ck_assert_msg(r.code == 0 && strstr(r.text, "worst") != NULL, "%s", r.text);
}
END_TEST

SUITE(torch_join, c)
{
    tcase_add_checked_fixture(c, scratch_set_up, scratch_tear_down);
    tcase_add_loop_test(c, an_epoch_is_joins, 0, LK_COUNT(cases));
}
