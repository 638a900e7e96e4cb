/*
 * Plans that cuDNN itself makes for our graphs of attention, for a GPU that a description names: no
 * GPU and no driver are needed (tests/driver/driver.c). Skipped where there is no cuDNN.
 */
#include "kernels/dnn.h"

#ifdef LK_HAVE_CUDNN

#include "base/array.h"
#include "base/library.h"
#include "kernels/calls_dnn_cuda.h"
#include "tests/rigs/skip.h"
#include "tests/rigs/suite.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#endif

/* An H100's, as CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION of cuDNN 9.19 has it, with another
 * compute capability (hundreds). */
static const char format[] =
    "{\"deviceVer\":%d,\"driverVer\":13000,\"cudaDeviceId\":0,\"totalGlobalMem\":85000000000,"
    "\"deviceName\":\"NVIDIA H100 80GB HBM3\",\"maxGridSize\":[2147483647,65535,65535],"
    "\"maxBlockSize\":[1024,1024,64],\"regsPerBlock\":65536,\"multiProcessorCount\":132,"
    "\"warpSize\":32,\"maxSharedMemoryPerBlock\":49152,\"maxSharedMemoryPerBlockOptin\":232448,"
    "\"reservedSharedMemoryPerBlock\":1024,\"maxRegistersPerSM\":65536,\"maxCtasPerSM\":32,"
    "\"maxThreadsPerBlock\":1024,\"maxThreadsPerSM\":2048,\"pciDeviceId\":1,\"isTccDriver\":0,"
    "\"supportCoopLaunch\":1,\"smClockRateKHz\":1980000,\"memClockRateKHz\":2619000,"
    "\"l2CacheSize\":52428800}";

static struct lk_dnn_calls call;
static const char *kernel; /* the driver's driver_kernel */
static int *refuses;       /* its driver_refuses */

static bool opened;

/* Open cuDNN behind the stand-in of the driver: the name by which cuDNN opens it is then taken.
 * This takes seconds, so it is done once, before the tests fork. */
static void open_cudnn(void)
{
#define ROW(function) {"cudnn" #function, offsetof(struct lk_dnn_calls, function)},
    static const struct lk_library_symbol symbols[] = {LK_DNN_CALL_LIST(ROW)};
#undef ROW
    static const char *const files[] = {"libcudnn.so.9", NULL};
    static const struct lk_library_spec spec = {.name = "cuDNN",
                                                .files = files,
                                                .symbols = symbols,
                                                .n_symbols = LK_COUNT(symbols),
                                                .stays = true};
    struct lk_library *library;
    void *driver = dlopen(LK_BUILD_DIR "/driver.so", RTLD_NOW | RTLD_GLOBAL);

    ck_assert_msg(driver != NULL, "%s", dlerror());
    kernel = dlsym(driver, "driver_kernel");
    refuses = dlsym(driver, "driver_refuses");
    ck_assert(kernel && refuses);
#if defined(__SANITIZE_ADDRESS__)
    __lsan_disable(); /* what the library leaves behind is not ours */
#endif
    opened = lk_library_open(&spec, &call, &library) == LK_OK;
    if (opened)
        lk_library_close(library); /* it stays loaded */
}

/* Return whether there is a cuDNN; a test without one is skipped. */
static bool has_cudnn(void)
{
    if (!opened)
        skip("%s", lk_error_text());
    return opened;
}

enum way { FORWARD, BACKWARD, DETERMINISTIC };

static const struct row {
    int device; /* compute capability in hundreds */
    struct lk_attention_shape shape;
    enum way way;
    const char *kernel; /* part of its name */
    double workspace;   /* of the scores of all heads in bfloat16, which a plan may keep */
} rows[] = {
    /* gpt2-124m; samples and heads of this size choose no other engine */
    {900, {16, 1024, 768, 12}, FORWARD, "sdpa_sm90_flash_fprop_wgmma", 0},
    {900, {16, 1024, 768, 12}, BACKWARD, "sdpa_sm90_flash_bprop_wgmma", 0},
    {900, {16, 1024, 768, 12}, DETERMINISTIC, "sdpa_sm90_flash_bprop_wgmma", 1},
    /* heads of 128 channels; the shortest context is that of kernels_that_do_not_load_are_no_choice
     */
    {900, {4, 2048, 2048, 16}, FORWARD, "sdpa_sm90_flash_fprop_wgmma", 0},
    {900, {4, 2048, 2048, 16}, BACKWARD, "sdpa_sm90_flash_bprop_wgmma", 0},
    /* A100, B200 */
    {800, {2, 1024, 768, 12}, FORWARD, "sdpa_sm80_flash_fprop", 0},
    {800, {2, 1024, 768, 12}, BACKWARD, "sdpa_sm80_flash_bprop", 0.125},
    {1000, {2, 1024, 768, 12}, FORWARD, "sdpa_sm100_flash_fprop", 0},
    {1000, {2, 1024, 768, 12}, BACKWARD, "sdpa_sm100_flash_bprop", 0},
};

static void describe(struct lk_attention_graph *g, const struct row *r)
{
    if (r->way == FORWARD)
        lk_attention_graph_forward(&r->shape, g);
    else
        lk_attention_graph_backward(&r->shape, r->way == DETERMINISTIC, g);
}

static void check_plan(const struct row *r)
{
    const struct lk_attention_shape *s = &r->shape;
    double scores = 2.0 * (double)(s->samples * s->heads * s->context * s->context);
    char json[1024];
    const struct lk_dnn_target target = {.json = json};
    struct lk_attention_graph g;
    struct lk_dnn_plan p;

    (void)snprintf(json, sizeof json, format, r->device);
    describe(&g, r);
    ck_assert_msg(lk_dnn_plan_find(&call, &target, &g) == LK_OK, "%s", lk_error_text());
    ck_assert_msg(lk_dnn_plan_make(&call, &target, &g, &p) == LK_OK, "%s", lk_error_text());
    printf("%zu x %zu x %zu, %zu heads: engine %lld, workspace %zu bytes, %s\n", s->samples,
           s->context, s->channels, s->heads, (long long)p.engine, p.workspace_bytes, kernel);
    ck_assert_msg(strstr(kernel, r->kernel) != NULL, "%s", kernel);
    ck_assert_double_ge((double)p.workspace_bytes, r->workspace * scores);
    ck_assert_double_le((double)p.workspace_bytes, r->workspace * scores + 4096);
    lk_dnn_bag_empty(&p.bag);
}

START_TEST(cudnn_makes_fused_plans)
{
    if (!has_cudnn())
        return;
    for (size_t i = 0; i < LK_COUNT(rows); i++)
        check_plan(&rows[i]);
}
END_TEST

/* What the library says no to must come as LK_EUNSUPPORTED: attention is our own then. */
START_TEST(cudnn_says_what_it_does_not_support)
{
    const struct lk_attention_shape s = {2, 128, 2 * 64, 2};
    char json[1024];
    const struct lk_dnn_target turing = {.json = json};
    struct lk_attention_graph g;

    if (!has_cudnn())
        return;
    (void)snprintf(json, sizeof json, format, 750);
    lk_attention_graph_forward(&s, &g);
    ck_assert_int_eq(lk_dnn_plan_find(&call, &turing, &g), LK_EUNSUPPORTED);
    ck_assert_msg(strstr(lk_error_text(), "cuDNN") != NULL, "%s", lk_error_text());
}
END_TEST

/* An engine that the library's heuristic names, and whose kernels the driver does not load, as one
 * that is too old for them: it is found out by the choice, which is then our own kernels. What
 * becomes of a user's demand for cuDNN, the fake one tells (tests/kernels/test_dnn_cuda.c). */
START_TEST(kernels_that_do_not_load_are_no_choice)
{
    enum { NO_BINARY_FOR_GPU = 209 };
    const struct lk_attention_shape s = {1, 128, 64, 1};
    char json[1024], text[LK_ATTENTION_TEXT];
    const struct lk_dnn_target target = {.json = json, .major = 9};
    struct lk_cuda_dnn *dnn = NULL;
    bool taken = false;

    if (!has_cudnn())
        return;
    (void)snprintf(json, sizeof json, format, 900);
    for (int fails = 0; fails < 2; fails++) {
        *refuses = fails ? NO_BINARY_FOR_GPU : 0;
        ck_assert_int_eq(lk_cuda_dnn_open_calls(&call, &target, LK_ATTENTION_AUTO, false, &dnn),
                         LK_OK);
        ck_assert_int_eq(lk_cuda_dnn_ask(dnn, LK_BF16, &s, text), LK_OK);
        ck_assert_int_eq(strncmp(text, "cudnn 9.", 8), 0);
        ck_assert_int_eq(lk_cuda_dnn_choose(dnn, LK_BF16, &s, &taken, text), LK_OK);
        printf("%s\n", text);
        ck_assert_int_eq(taken, !fails);
        ck_assert_int_eq(strncmp(text, fails ? "own: cuDNN: a plan: " : "cudnn 9.", 8), 0);
        lk_cuda_dnn_close(dnn);
    }
}
END_TEST

SUITE(dnn_plans_cuda, tc)
{
    tcase_add_unchecked_fixture(tc, open_cudnn, NULL);
    tcase_add_test(tc, cudnn_makes_fused_plans);
    tcase_add_test(tc, cudnn_says_what_it_does_not_support);
    tcase_add_test(tc, kernels_that_do_not_load_are_no_choice);
}

#else

#include "tests/rigs/suite.h"

SUITE(dnn_plans_cuda, tc)
{
    (void)tc;
}

#endif
