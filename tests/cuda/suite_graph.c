/*
 * Steps launched as a CUDA graph, on a GPU: CUDA must accept the captured work, and the results
 * must have the bits of the same steps launched one by one.
 */
#include "base/array.h"
#include "runtime/train/trainer.h"
#include "tests/cuda/gpu.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { STEPS = 5 };

static const struct {
    enum lk_dtype real;
    int accumulation, noise_every, vocab;
    bool no_sync;
    const char *fuse; /* by name or not at all: "auto" may choose otherwise in the second run */
} runs[] = {
    {LK_F32, 1, 0, 256, true, "none"},  {LK_BF16, 1, 0, 257, true, "none"},
    {LK_BF16, 3, 0, 256, true, "none"}, {LK_F32, 2, 3, 257, false, "none"},
    {LK_BF16, 3, 0, 257, true, "loss"}, {LK_F32, 1, 0, 256, true, "loss"},
    {LK_BF16, 3, 0, 256, true, "bias"}, {LK_F32, 3, 0, 256, true, "bias"},
    {LK_BF16, 1, 0, 256, true, "gelu"}, {LK_BF16, 3, 0, 257, true, "loss,bias,gelu,optimizer"},
};

static struct lk_train_config config(int i)
{
    struct lk_train_config c = {.device = "cuda",
                                .comm = "self",
                                .local_batch = 1,
                                .steps = STEPS,
                                .samples = 256,
                                .prefetch = 2,
                                .sampler.shuffle = true,
                                .seed = 5,
                                .graph = LK_GRAPH_YES,
                                .timeout_ns = 30 * LK_NS_PER_S};

    c.device_config.real = runs[i].real;
    c.device_config.share_gpu = true;
    c.device_config.slowdown = 1;
    c.comm_config.world_size = 1;
    c.model = (struct lk_model_config){.name = "gpt",
                                       .layers = 2,
                                       .heads = 1,
                                       .channels = 64,
                                       .context = 64,
                                       .vocab = runs[i].vocab,
                                       .seed = 3};
    c.optim = (struct lk_optim_config){
        .kind = LK_OPTIM_ADAMW, .learning_rate = 1e-3, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8};
    c.reducer.ddp_rule = LK_DDP_TORCH_2;
    c.reducer.first_bytes = 1 << 14;
    c.reducer.cap_bytes = 1 << 16;
    c.reducer.accumulation = runs[i].accumulation;
    c.reducer.no_sync = runs[i].no_sync;
    c.reducer.noise_every = runs[i].noise_every;
    ck_assert_int_eq(lk_fuse_parse(runs[i].fuse, &c.fuse), LK_OK);
    return c;
}

START_TEST(losses_are_those_without_a_graph)
{
    struct lk_train_config c = config(_i);
    struct lk_train_result with = {0}, without = {0};
    enum lk_status st = lk_train(&c, &with);

    if (st == LK_EUNSUPPORTED && strstr(lk_error_text(), "--fuse=")) {
        printf("# fuse %s, %s: %s\n", runs[_i].fuse, lk_dtype_name(runs[_i].real), lk_error_text());
        return;
    }
    ck_assert_msg(st == LK_OK, "with a graph, fuse %s: %s", runs[_i].fuse, lk_error_text());
    c.graph = LK_GRAPH_NO;
    ck_assert_msg(lk_train(&c, &without) == LK_OK, "without a graph: %s", lk_error_text());
    for (int k = 0; k < STEPS; k++)
        ck_assert_msg(isfinite(with.loss[k]) && with.loss[k] == without.loss[k],
                      "step %d, fuse %s: %.9g with a graph, %.9g without", k, runs[_i].fuse,
                      with.loss[k], without.loss[k]);
    ck_assert_double_lt(with.loss[STEPS - 1], with.loss[0]);
    lk_train_result_fini(&with);
    lk_train_result_fini(&without);
}
END_TEST

static Suite *make(void)
{
    Suite *s = suite_create("graphs on a GPU");
    TCase *tc = tcase_create("steps");

    suite_add_tcase(s, tc);
    tcase_add_loop_test(tc, losses_are_those_without_a_graph, 0, (int)LK_COUNT(runs));
    return s;
}

const struct gpu_suite gpu_suite_graph = {.make = make};
