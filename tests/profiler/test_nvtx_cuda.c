/*
 * NVTX ranges of a run on the device cuda, without a GPU (tests/fakes/fake_cuda.h): the host thread
 * issues the work of all streams, so its ranges nest, and a tool projects onto the GPU the
 * work launched within them.
 */
#include "base/array.h"
#include "profiler/record/nvtx.h"
#include "runtime/train/trainer.h"
#include "tests/fakes/fake_cuda.h"
#include "tests/rigs/nvtx_log.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/small_train.h"
#include "tests/rigs/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef LK_HAVE_NVTX

enum { STEPS = 3, ACCUMULATION = 2 };

static char *dir;

static void setup(void)
{
    char *log;

    dir = scratch_create_for_gpus();
    log = scratch_path(dir, "nvtx");
    ck_assert_int_eq(setenv("NVTX_INJECTION64_PATH", NVTX_TOOL, 1), 0);
    ck_assert_int_eq(setenv("NVTX_LOG", log, 1), 0);
    free(log);
    fake_cuda_reset(1);
}

static void teardown(void)
{
    fake_cuda_check_clean();
    scratch_remove(dir);
}

static struct lk_train_config config(struct lk_recorder *r)
{
    struct lk_train_config c = small_train("cuda", STEPS);

    c.recorder = r;
    c.device_config.cuda_calls = &fake_cuda_calls;
    c.reducer.accumulation = ACCUMULATION;
    c.reducer.noise_every = 1;
    return c;
}

static void train(void)
{
    struct lk_recorder *r = NULL;
    struct lk_nvtx *n = NULL;
    struct lk_train_result result;
    struct lk_train_config c;

    ck_assert_int_eq(lk_recorder_create(&r), LK_OK);
    ck_assert_msg(lk_nvtx_open(&n) == LK_OK, "%s", lk_error_text());
    ck_assert_int_eq(lk_recorder_attach(r, &lk_nvtx_ops, n), LK_OK);
    c = config(r);
    ck_assert_msg(lk_train(&c, &result) == LK_OK, "%s", lk_error_text());
    lk_train_result_fini(&result);
    lk_recorder_destroy(r);
    lk_nvtx_close(n);
}

/* Return the range around a with this text; the test fails if there is none. */
static const struct nvtx_range *within(const struct nvtx_range *a, const char *text)
{
    ck_assert_msg(a->within && !strcmp(a->within->text, text), "'%s' is within '%s', not '%s'",
                  a->text, a->within ? a->within->text : "nothing", text);
    return a->within;
}

static void check_range(const struct nvtx_range *a, int counts[static 5])
{
    if (!strcmp(a->text, "forward") || !strcmp(a->text, "backward")) {
        ck_assert_str_eq(within(a, "step")->thread, "host");
        counts[0]++;
    } else if (!strcmp(a->text, "optimizer") || !strcmp(a->text, "input")) {
        (void)within(a, "step");
    } else if (!strncmp(a->text, "bucket", 6)) {
        /* It lies where the bucket becomes full: in the backward of the last micro-batch. */
        ck_assert_str_eq(a->category, "bucket");
        ck_assert_int_eq(within(a, "backward")->payload, ACCUMULATION - 1);
        ck_assert_int_gt(a->payload, 0);
        counts[3]++;
    } else if (!strncmp(a->text, "all_reduce bucket", 17)) {
        ck_assert_int_eq(within(a, a->text + 11)->payload, a->payload);
        counts[1]++;
    } else if (!strcmp(a->text, "sum_squares")) { /* of its gradients, before and after */
        ck_assert(a->within && !strncmp(a->within->text, "bucket", 6));
        counts[4]++;
    } else if (strstr(a->text, "_forward")) {
        ck_assert_str_eq(a->category, "op");
        (void)within(a, "forward");
        counts[2]++;
    }
}

START_TEST(ranges_nest_on_the_host_thread)
{
    int counts[5] = {0};
    struct nvtx_log l;
    size_t at = 0;

    train();
    nvtx_logs_read(dir, "nvtx.", &l, 1);
    for (int s = 0; s < STEPS; s++) {
        const struct nvtx_range *step = nvtx_next(&l, &at, "step");

        ck_assert_ptr_nonnull(step);
        ck_assert_int_eq(step->payload, s);
        ck_assert_ptr_null(step->within);
    }
    for (size_t i = 0; i < l.n; i++)
        check_range(&l.ranges[i], counts);
    ck_assert_int_eq(counts[0], 2 * STEPS * ACCUMULATION);
    ck_assert_int_gt(counts[1], STEPS); /* more than one bucket, once their order is known */
    ck_assert_int_eq(counts[3], counts[1]);
    ck_assert_int_eq(counts[4], 2 * counts[1]);
    ck_assert_int_gt(counts[2], 20 * STEPS); /* layers of the model */
    ck_assert_str_eq(l.streams, "compute stream;comm stream;copy stream;");
    nvtx_log_fini(&l);
}
END_TEST

#endif

SUITE(nvtx_cuda, t)
{
#ifdef LK_HAVE_NVTX
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, ranges_nest_on_the_host_thread);
#endif
}
