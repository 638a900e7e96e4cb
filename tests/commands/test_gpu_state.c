/* Sampling of a GPU's state during a run, as commands/ connects it, without
 * a GPU (tests/fakes/fake_nvml.h). */
#include "commands/gpu_state.h"

#include "base/array.h"
#include "base/file.h"
#include "commands/run_grid.h"
#include "tests/fakes/fake_nvml.h"
#include "tests/rigs/program.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *configured(const struct lk_run_info *info, const char *key)
{
    for (size_t i = 0; i < info->n_config; i++)
        if (!strcmp(info->config[i].key, key))
            return info->config[i].value;
    return "";
}

/* Samples of the warm-up and after the last step are not in the summary. */
START_TEST(from_the_warm_up_to_the_last_step)
{
    struct lk_run_info info = {0};
    struct gpu_state g = {0};

    ck_assert_int_eq(lk_run_info_config(&info, "gpu_uuid", FAKE_NVML_GPU), LK_OK);
    atomic_store(&fake_nvml.sm_clock_mhz, 300);
    ck_assert_msg(gpu_state_open(&g, true, &fake_nvml_calls, &info) == LK_OK, "%s",
                  lk_error_text());
    ck_assert_str_eq(configured(&info, LK_GPU_CONFIG_MAX_CLOCK), "1980");
    ck_assert_str_eq(configured(&info, LK_GPU_CONFIG_POWER_LIMIT), "700");
    ck_assert_str_eq(configured(&info, "gpu_instance"), "");
    ck_assert_str_eq(configured(&info, "gpu_nvlinks"), "17");
    ck_assert_str_eq(configured(&info, "gpu_pcie"), "5 x16");
    ck_assert_int_eq(gpu_state_start(&g, NULL), LK_OK);
    gpu_state_step(&g, 1, 2, 4);
    fake_nvml_wait_reads(1);
    atomic_store(&fake_nvml.sm_clock_mhz, 1755);
    fake_nvml_wait_reads(1);
    gpu_state_step(&g, 2, 2, 4);
    fake_nvml_wait_reads(3);
    gpu_state_step(&g, 3, 2, 4);
    gpu_state_step(&g, 4, 2, 4);
    atomic_store(&fake_nvml.sm_clock_mhz, 210);
    fake_nvml_wait_reads(1);
    ck_assert_int_eq(gpu_state_stop(&g), LK_OK);
    ck_assert_int_eq(gpu_state_stop(&g), LK_OK);
    ck_assert_uint_ge(g.summary.n, 2);
    ck_assert_double_eq(g.summary.quantity[LK_GPU_SM_CLOCK_MHZ].min, 1755);
    ck_assert_double_eq(g.summary.quantity[LK_GPU_SM_CLOCK_MHZ].max, 1755);
    ck_assert_int_eq(atomic_load(&fake_nvml.initialised), 0);
    lk_run_info_fini(&info);
}
END_TEST

/* If the driver lacks the calls, or the GPU does not know, no links are reported. */
START_TEST(links_that_are_not_known)
{
    struct lk_nvml_calls calls = fake_nvml_calls;
    struct lk_run_info info = {0};
    struct gpu_state g = {0};

    if (_i == 0)
        atomic_store(&fake_nvml.links_code, NVML_NOT_SUPPORTED);
    else {
        calls.nvlink = NULL;
        calls.pcie_width = NULL;
    }
    ck_assert_int_eq(lk_run_info_config(&info, "gpu_uuid", FAKE_NVML_GPU), LK_OK);
    ck_assert_int_eq(gpu_state_open(&g, true, &calls, &info), LK_OK);
    ck_assert_str_eq(configured(&info, "gpu_nvlinks"), "");
    ck_assert_str_eq(configured(&info, "gpu_pcie"), "");
    ck_assert_int_eq(gpu_state_stop(&g), LK_OK);
    lk_run_info_fini(&info);
}
END_TEST

/* No GPU, no driver, or a GPU lost meanwhile: a failure if sampling was
 * requested, else a run without. */
START_TEST(what_cannot_be_had)
{
    static const struct {
        const char *uuid, *text;
        int init_code, lost_after;
        bool opens;
        enum lk_status st; /* of opening, or at the end, if required */
    } rows[] = {
        {NULL, "is no GPU", NVML_OK, -1, false, LK_EUNSUPPORTED},
        {FAKE_NVML_GPU, "Driver Not Loaded", NVML_DRIVER_NOT_LOADED, -1, false, LK_EUNSUPPORTED},
        {FAKE_NVML_GPU, "GPU is lost", NVML_OK, 0, true, LK_EIO},
    };
    bool needed = _i % 2;
    int i = _i / 2;
    struct lk_run_info info = {0};
    struct gpu_state g = {0};
    enum lk_status st;

    atomic_store(&fake_nvml.init_code, rows[i].init_code);
    atomic_store(&fake_nvml.lost_after, rows[i].lost_after);
    if (rows[i].uuid)
        ck_assert_int_eq(lk_run_info_config(&info, "gpu_uuid", rows[i].uuid), LK_OK);
    st = gpu_state_open(&g, needed, &fake_nvml_calls, &info);
    ck_assert_int_eq(st, needed && !rows[i].opens ? rows[i].st : LK_OK);
    if (rows[i].opens) {
        ck_assert_int_eq(gpu_state_start(&g, NULL), LK_OK);
        fake_nvml_wait_total(1);
        st = gpu_state_stop(&g);
        ck_assert_int_eq(st, needed ? rows[i].st : LK_OK);
    }
    if (needed)
        ck_assert_msg(strstr(lk_error_text(), rows[i].text) != NULL, "%s", lk_error_text());
    ck_assert_uint_eq(g.summary.n, 0);
    ck_assert_int_eq(gpu_state_stop(&g), LK_OK);
    ck_assert_int_eq(atomic_load(&fake_nvml.initialised), 0);
    lk_run_info_fini(&info);
}
END_TEST

static struct gpu_state known_state(void)
{
    struct gpu_state g = {
        .limits = {.max_sm_clock_mhz = 1980, .max_memory_clock_mhz = 2619, .power_limit_w = 700}};
    struct lk_gpu_sums sums = {0};

    for (uint64_t i = 0; i < 4; i++) {
        lk_gpu_sums_add(&sums, LK_GPU_SM_CLOCK_MHZ, i * LK_NS_PER_S, 1700 + 10 * (double)i);
        lk_gpu_sums_add(&sums, LK_GPU_ENERGY_J, i * LK_NS_PER_S, 600 * (double)i);
        lk_gpu_sums_add(&sums, LK_GPU_REASONS, i * LK_NS_PER_S, i == 0 ? 0x4 : 0);
    }
    lk_gpu_summary(&sums, &g.summary);
    return g;
}

START_TEST(result_has_it)
{
    const struct gpu_state sampled = known_state(), none = {0};
    double step_s[2] = {1, 2}, loss[2] = {3, 4};
    struct lk_train_result written = {.step_s = step_s,
                                      .loss = loss,
                                      .n = 2,
                                      .counted_s = 2.5,
                                      .noise = {.value = NAN},
                                      .verify_max_error = NAN,
                                      .verify_allowed = NAN};
    static const char *const parts[] = {"\"samples\": 4",      "\"mean\": 1715",
                                        "\"max\": 1730",       "\"max_sm_clock_mhz\": 1980",
                                        "\"power_w\": 600",    "\"energy_j\": 1800",
                                        "\"throttled\": 0.25", "\"power\": 0.25"};
    char *dir = scratch_create(), *path = scratch_path(dir, "result.json"), *text = NULL;
    struct lk_train_result read = {0};
    size_t size;

    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(run_result_write(path, &written, i ? &none : &sampled), LK_OK);
        ck_assert_int_eq(lk_file_read(path, &text, &size), LK_OK);
        ck_assert_int_eq(strstr(text, "\"gpu\"") != NULL, !i);
        for (size_t k = 0; !i && k < LK_COUNT(parts); k++)
            ck_assert_msg(strstr(text, parts[k]) != NULL, "no %s in %s", parts[k], text);
        ck_assert_msg(run_result_read(path, &read) == LK_OK, "%s", lk_error_text());
        ck_assert_int_eq(read.n, 2);
        ck_assert_double_eq(read.counted_s, 2.5);
        lk_train_result_fini(&read);
        free(text);
    }
    free(path);
    scratch_remove(dir);
}
END_TEST

START_TEST(needs_a_gpu)
{
    char *dir = scratch_create();
    struct program p;

    program_run(&p, dir, 2, "run --gpu-state=yes");
    ck_assert_msg(strstr(p.err, "--gpu-state=yes needs --device=cuda") != NULL, "%s", p.err);
    program_fini(&p);
    scratch_remove(dir);
}
END_TEST

SUITE(gpu_state, t)
{
    tcase_add_checked_fixture(t, fake_nvml_reset, NULL);
    tcase_add_test(t, from_the_warm_up_to_the_last_step);
    tcase_add_loop_test(t, links_that_are_not_known, 0, 2);
    tcase_add_loop_test(t, what_cannot_be_had, 0, 6);
    tcase_add_test(t, result_has_it);
    tcase_add_test(t, needs_a_gpu);
}
