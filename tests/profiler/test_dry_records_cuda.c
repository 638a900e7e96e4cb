/*
 * CUPTI's records from end to end: the real program on the fake machine of tests/dry, where CUPTI
 * can be a library that chooses API calls, an older one that cannot, or one that gives no ids for
 * calls that were chosen.
 */
#include "tests/rigs/suite.h"

#if defined(LK_HAVE_CUDA) && defined(LK_HAVE_CUPTI) && defined(LK_HAVE_NCCL) &&                    \
    defined(LK_HAVE_NVTX)

#include "base/array.h"
#include "facts/trace.h"
#include "profiler/record/cupti.h"
#include "tests/rigs/must.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/shell.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *dir;

static void setup(void)
{
    struct shell_result r;

    dir = scratch_create();
    r = shell_run("mkdir '%s/lib' && for name in libcublasLt.so.13 libcudnn.so.9 libnccl.so.2 "
                  "libcupti.so.13 libnvidia-ml.so.1; do cp " LK_BUILD_DIR
                  "/dry/libraries.so '%s/lib/'$name || exit 1; done 2>&1",
                  dir, dir);
    ck_assert_msg(r.code == 0, "%s", r.text);
}

static void teardown(void)
{
    scratch_remove(dir);
}

/* Run the program as a user would on a machine with a GPU, and read rank 0's trace. */
static void run(const char *environment, const char *options, struct lk_trace *out)
{
    char *path = NULL;
    struct shell_result r =
        shell_run("LD_LIBRARY_PATH='%s/lib' LOCKSTEP_LIBRARY_PATH='%s/lib' LOCKSTEP_GPU_LOCKS='%s' "
                  "%s " LK_BUILD_DIR "/dry/lockstep run -n 1 --device cuda --model gpt-nano "
                  "--gpu-state=no %s --out '%s/out' 2>&1",
                  dir, dir, dir, environment, options, dir);

    ck_assert_msg(r.code == 0, "%s", r.text);
    r = shell_run("ls '%s'/out/*/rank0.trace.json.gz | tr -d '\\n'", dir);
    must(lk_strdup(&path, r.text));
    must(lk_trace_read(path, out));
    r = shell_run("python3 tests/check_trace.py '%s' 2>&1", path);
    ck_assert_msg(r.code == 0, "%s", r.text);
    free(path);
}

/* Return the last value of a counter. */
static double counter(const struct lk_trace *t, const char *name)
{
    double value = -1;

    for (size_t i = 0; i < t->n_spans; i++)
        if (t->spans[i].span.kind == LK_SPAN_COUNTER &&
            !strcmp(lk_trace_span_name(t, &t->spans[i].span), name))
            value = t->spans[i].span.value;
    return value;
}

static const struct {
    const char *environment, *says;
    bool late; /* ids do not come at first */
} ways[] = {
    {"", ", calls by id", false},
    {"DRY_CUPTI_OLD=1", ", all calls", false},
    {"DRY_CUPTI_NO_IDS=1", ", all calls, since those chosen by id gave the first kernels no op",
     true},
};

/* Whichever way the library records calls, kernels have their ops; where ids do not come at first,
 * those behind the first thousand or so, and the trace tells. */
START_TEST(each_way_of_recording_calls)
{
    struct lk_trace t = {0};
    double without;
    const char *by;

    run(ways[_i].environment, "--steps 30 --gpu-record-steps 0", &t);
    by = lk_run_info_value(&t.info, LK_CUPTI_CONFIG_KEY);
    ck_assert_ptr_nonnull(by);
    ck_assert_msg(strlen(by) > strlen(ways[_i].says) &&
                      !strcmp(by + strlen(by) - strlen(ways[_i].says), ways[_i].says),
                  "%s", by);
    without = counter(&t, "GPU records without an op");
    ck_assert_double_gt(counter(&t, "GPU records"), 1500);
    ck_assert_double_ge(without, ways[_i].late ? 1000 : 0);
    ck_assert_double_lt(without, ways[_i].late ? counter(&t, "GPU records") : 1);
    ck_assert_double_eq(counter(&t, "GPU records dropped"), 0);
    lk_trace_fini(&t);
}
END_TEST

SUITE(dry_records_cuda, tc)
{
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_loop_test(tc, each_way_of_recording_calls, 0, (int)LK_COUNT(ways));
}

#else

SUITE(dry_records_cuda, tc)
{
    (void)tc;
}

#endif
