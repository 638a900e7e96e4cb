/*
 * NVML's readings of a GPU at rest and under load: the GPU of CUDA's UUID is found, its figures are
 * plausible, and the energy counter and the power readings agree. The readings are printed.
 */
#include "facts/trace.h"
#include "kernels/ops.h"
#include "profiler/record/nvml.h"
#include "runtime/device/device.h"
#include "tests/cuda/gpu.h"
#include "tests/rigs/must.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static struct {
    struct lk_device *device;
    struct lk_stream *stream;
    struct lk_nvml *nvml;
} rig;

static void setup(void)
{
    const struct lk_device_config config = {.share_gpu = true};
    const struct lk_track_info info = {.name = "compute", .kind = LK_TRACK_COMPUTE};
    struct lk_run_info about = {0};
    const char *uuid = NULL;

    must(lk_device_open("cuda", &config, &rig.device));
    must(lk_stream_create(rig.device, &info, &rig.stream));
    must(lk_device_describe(rig.device, &about));
    for (size_t i = 0; i < about.n_config; i++)
        if (!strcmp(about.config[i].key, "gpu_uuid"))
            uuid = about.config[i].value;
    ck_assert_ptr_nonnull(uuid);
    printf("%s\n", uuid);
    must(lk_nvml_open(uuid, NULL, &rig.nvml));
    lk_run_info_fini(&about);
}

static void teardown(void)
{
    lk_nvml_close(rig.nvml);
    lk_stream_destroy(rig.stream);
    lk_device_close(rig.device);
    memset(&rig, 0, sizeof rig);
}

/* Check a reading's range. NaN is allowed: a GPU need not report everything. */
static void check_between(const char *what, double v, double lo, double hi)
{
    printf("  %s: %g\n", what, v);
    ck_assert_msg(isnan(v) || (v >= lo && v <= hi), "%s is %g", what, v);
}

START_TEST(figures_are_of_a_kind)
{
    struct lk_gpu_limits limits;
    struct lk_gpu_sample s;

    lk_nvml_limits(rig.nvml, &limits);
    check_between("highest SM clock (MHz)", limits.max_sm_clock_mhz, 500, 5000);
    check_between("power limit (W)", limits.power_limit_w, 20, 3000);
    must(lk_nvml_read(rig.nvml, &s));
    for (size_t q = 0; q < LK_GPU_QUANTITY_COUNT; q++)
        printf("  %s: %g\n", lk_gpu_quantity_name((enum lk_gpu_quantity)q), s.value[q]);
    ck_assert(!isnan(s.value[LK_GPU_SM_CLOCK_MHZ]));
    check_between("SM clock (MHz)", s.value[LK_GPU_SM_CLOCK_MHZ], 50, 5000);
    check_between("power (W)", s.value[LK_GPU_POWER_W], 1, 3000);
    check_between("temperature (C)", s.value[LK_GPU_TEMPERATURE_C], 5, 120);
}
END_TEST

START_TEST(a_busy_gpu_is_sampled)
{
    const struct lk_nvml_sampler_config config = {.period_s = 0.05, .timeout_s = 10};
    struct lk_nvml_sampler *sampler = NULL;
    struct lk_gpu_summary sum;
    char text[LK_GPU_TEXT];

    must(lk_nvml_sampler_start(rig.nvml, &config, &sampler));
    rig.nvml = NULL; /* the sampler owns it */
    for (int i = 0; i < 20; i++)
        must(LK_LAUNCH(rig.stream, wait, .seconds = 0.1));
    must(lk_stream_sync(rig.stream, lk_deadline_in(60 * LK_NS_PER_S)));
    must(lk_nvml_sampler_stop(sampler, &sum));
    lk_gpu_summary_text(&sum, text);
    printf("  %zu samples: %s\n", sum.n, text);
    printf("figure sm_clock_mhz %g\n", sum.quantity[LK_GPU_SM_CLOCK_MHZ].mean);
    printf("figure power_w %g\n", sum.power_w);
    ck_assert_uint_ge(sum.n, 10); /* of about forty: a driver may respond slowly */
    ck_assert(sum.quantity[LK_GPU_SM_CLOCK_MHZ].mean > 0);
    ck_assert(isnan(sum.energy_j) || sum.energy_j > 0);
}
END_TEST

/* The library comes with the driver, but is not in every container. */
static const char *reason_to_skip(void)
{
    struct lk_nvml *n = NULL;

    if (lk_nvml_open("GPU-none", NULL, &n) == LK_EUNSUPPORTED &&
        strstr(lk_error_text(), "was not found"))
        return "no NVML (libnvidia-ml.so.1)";
    lk_nvml_close(n);
    return NULL;
}

static Suite *make(void)
{
    Suite *s = suite_create("NVML on a GPU");
    TCase *tc = tcase_create("nvml");

    suite_add_tcase(s, tc);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, figures_are_of_a_kind);
    tcase_add_test(tc, a_busy_gpu_is_sampled);
    return s;
}

const struct gpu_suite gpu_suite_nvml = {.reason_to_skip = reason_to_skip, .make = make};
