/*
 * Training by schemes against PyTorch's over gloo, from the same weights on the same text: hooks,
 * with PowerSGD's errors, ZeRO-1 and local SGD. bench/torch_schemes.py trains and compares. Left
 * out where PyTorch is not.
 */
#include "base/array.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/shell.h"
#include "tests/rigs/skip.h"
#include "tests/rigs/suite.h"

#include <stdio.h>
#include <string.h>

enum { RANKS = 3 };

/* PyTorch's factors start from those of our checkpoints, which it reads. */
static const struct {
    const char *name, *scheme, *options;
} schemes[] = {
    {"ddp", "ddp", "--optimizer=sgd --momentum=0"},
    {"fp16", "fp16", "--optimizer=sgd --momentum=0 --compression=fp16"},
    {"zero1", "zero1", "--optimizer=sgd --momentum=0.9 --sharding=zero1"},
    {"adamw", "zero1-adamw",
     "--optimizer=adamw --beta1=0.9 --beta2=0.95 --epsilon=1e-3 --sharding=zero1"},
    {"local", "local-sgd",
     "--optimizer=sgd --momentum=0 --sharding=local-sgd --period=3 --averaging-warmup=2"},
    {"power", "powersgd:checkpoints",
     "--optimizer=sgd --momentum=0 --compression=powersgd --powersgd-rank=2 --powersgd-start=3 "
     "--checkpoint-every=1 --keep=100 --checkpoint-dir=checkpoints"},
};

static void train(int ranks, const char *steps, const char *options, const char *name)
{
    struct shell_result r =
        shell_program(scratch_dir,
                      "run -n%d --model=mlp --layers=2 --channels=24 --context=12 --vocab=256 "
                      "--data=$OLDPWD/docs/ddp.md --no-shuffle -b4 --warmup=0 --weight-decay=0 "
                      "--no-pin %s %s --export=%s --out=run-%s",
                      ranks, steps, options, name, name);

    ck_assert_msg(r.code == 0, "%s", r.text);
}

START_TEST(learns_what_pytorch_learns)
{
    static struct shell_result r;
    char cases[512] = "";

    r = shell_run("/usr/bin/python3 -c 'import torch.distributed.algorithms.ddp_comm_hooks."
                  "powerSGD_hook, numpy' 2>&1");
    if (r.code) {
        skip("no PyTorch with gloo for /usr/bin/python3");
        return;
    }
    train(1, "--steps=1 --learning-rate=1e-30", "--optimizer=sgd --momentum=0", "before");
    for (size_t i = 0; i < LK_COUNT(schemes); i++) {
        size_t n = strlen(cases);

        train(RANKS, "--steps=9 --learning-rate=0.05", schemes[i].options, schemes[i].name);
        snprintf(cases + n, sizeof cases - n, " %s=%s", schemes[i].scheme, schemes[i].name);
    }
    r = shell_run("root=$PWD; cd %s && OMP_NUM_THREADS=1 timeout 120 /usr/bin/python3 "
                  "\"$root\"/bench/torch_schemes.py --ranks=%d --steps=9 --local-batch=4 "
                  "--context=12 --data=\"$root\"/docs/ddp.md --learning-rate=0.05 before %s 2>&1",
                  scratch_dir, RANKS, cases);
    ck_assert_msg(r.code == 0 && strstr(r.text, "powersgd: weights") != NULL, "%s", r.text);
}
END_TEST

SUITE(torch_schemes, c)
{
    tcase_add_checked_fixture(c, scratch_set_up, scratch_tear_down);
    tcase_add_test(c, learns_what_pytorch_learns);
}
