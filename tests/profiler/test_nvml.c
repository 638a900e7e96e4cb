/* A GPU's state by NVML, without a GPU (tests/fakes/fake_nvml.h), and summaries of samples. */
#include "profiler/record/nvml.h"

#include "base/array.h"
#include "base/clock.h"
#include "tests/fakes/fake_nvml.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static const struct lk_nvml_sampler_config fast = {.period_s = 0.001, .timeout_s = 20};

static void check_clean(void)
{
    ck_assert_int_eq(atomic_load(&fake_nvml.initialised), 0);
}

static struct lk_nvml *must_open(const struct lk_nvml_calls *calls)
{
    struct lk_nvml *n = NULL;

    ck_assert_msg(lk_nvml_open(FAKE_NVML_GPU, calls, &n) == LK_OK, "%s", lk_error_text());
    return n;
}

/* ---- One GPU ---- */

START_TEST(a_sample)
{
    struct lk_nvml *n = must_open(&fake_nvml_calls);
    struct lk_gpu_limits limits;
    struct lk_gpu_sample s;
    uint64_t before_ns = lk_now_ns();

    atomic_store(&fake_nvml.reasons, 0x104);
    lk_nvml_limits(n, &limits);
    ck_assert_double_eq(limits.max_sm_clock_mhz, 1980);
    ck_assert_double_eq(limits.max_memory_clock_mhz, 2619);
    ck_assert_double_eq_tol(limits.power_limit_w, 700, 1e-9);
    ck_assert(!limits.instance);
    ck_assert_int_eq(lk_nvml_read(n, &s), LK_OK);
    ck_assert(s.at_ns >= before_ns && s.at_ns <= lk_now_ns());
    ck_assert_double_eq(s.value[LK_GPU_SM_CLOCK_MHZ], 1755);
    ck_assert_double_eq(s.value[LK_GPU_MEMORY_CLOCK_MHZ], 2619);
    ck_assert_double_eq_tol(s.value[LK_GPU_POWER_W], 640, 1e-9);
    ck_assert_double_eq(s.value[LK_GPU_TEMPERATURE_C], 61);
    ck_assert_double_eq(s.value[LK_GPU_REASONS], 0x104);
    ck_assert_double_eq_tol(s.value[LK_GPU_ENERGY_J], 5000, 1e-9);
    lk_nvml_close(n);
    lk_nvml_close(NULL);
    check_clean();
}
END_TEST

/* For a GPU instance clock and power are the whole GPU's, with either prefix. */
START_TEST(a_part_of_a_gpu)
{
    static const char *const uuids[] = {FAKE_NVML_PART, "MIG-00000000-0000-0000-0000-000000000002"};
    struct lk_nvml *n = NULL;
    struct lk_gpu_limits limits;
    struct lk_gpu_sample s;

    ck_assert_msg(lk_nvml_open(uuids[_i], &fake_nvml_calls, &n) == LK_OK, "%s", lk_error_text());
    lk_nvml_limits(n, &limits);
    ck_assert(limits.instance);
    ck_assert_int_eq(lk_nvml_read(n, &s), LK_OK);
    ck_assert_double_eq(s.value[LK_GPU_SM_CLOCK_MHZ], 1755);
    lk_nvml_close(n);
    check_clean();
}
END_TEST

START_TEST(no_such_gpu)
{
    static const struct {
        const char *uuid, *text;
        int init_code;
        enum lk_status st;
    } rows[] = {
        {"GPU-00000000-0000-0000-0000-000000000009", "Not Found", NVML_OK, LK_EUNSUPPORTED},
        {"MIG-00000000-0000-0000-0000-000000000009", "Not Found", NVML_OK, LK_EUNSUPPORTED},
        {FAKE_NVML_GPU, "nvmlInit: Driver Not Loaded", NVML_DRIVER_NOT_LOADED, LK_EUNSUPPORTED},
        {FAKE_NVML_GPU, "nvmlInit: GPU is lost", NVML_GPU_IS_LOST, LK_EIO},
        {"0", "no UUID", NVML_OK, LK_EINTERNAL},
        {"", "no UUID", NVML_OK, LK_EINTERNAL},
    };
    struct lk_nvml_calls calls = fake_nvml_calls;
    struct lk_nvml *n = NULL;

    for (size_t i = 0; i < LK_COUNT(rows); i++)
        for (int mig = 0; mig < 2; mig++) {
            atomic_store(&fake_nvml.init_code, rows[i].init_code);
            calls.device_of_mig = mig ? fake_nvml_calls.device_of_mig : NULL;
            ck_assert_int_eq(lk_nvml_open(rows[i].uuid, &calls, &n), rows[i].st);
            ck_assert_msg(strstr(lk_error_text(), rows[i].text) != NULL, "%s", lk_error_text());
            ck_assert_ptr_null(n);
            check_clean();
        }
}
END_TEST

/* Functions that a driver lacks, and quantities that a GPU does not report, are left out. */
START_TEST(what_is_not_there)
{
    struct lk_nvml_calls calls = fake_nvml_calls;
    struct lk_gpu_limits limits;
    struct lk_gpu_sample s;
    struct lk_nvml *n;

    calls.temperature = NULL;
    calls.max_power = NULL;
    calls.energy = NULL;
    calls.reasons = NULL;
    n = must_open(&calls);
    lk_nvml_limits(n, &limits);
    ck_assert(isnan(limits.power_limit_w));
    atomic_store(&fake_nvml.power_code, 999); /* now and then a reading fails */
    ck_assert_int_eq(lk_nvml_read(n, &s), LK_OK);
    ck_assert(isnan(s.value[LK_GPU_POWER_W]));
    atomic_store(&fake_nvml.power_code, NVML_OK);
    ck_assert_int_eq(lk_nvml_read(n, &s), LK_OK);
    ck_assert_double_eq_tol(s.value[LK_GPU_POWER_W], 640, 1e-9);
    atomic_store(&fake_nvml.power_code, NVML_NOT_SUPPORTED);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(lk_nvml_read(n, &s), LK_OK);
        for (size_t q = 0; q < LK_GPU_QUANTITY_COUNT; q++)
            ck_assert_int_eq(isnan(s.value[q]),
                             q != LK_GPU_SM_CLOCK_MHZ && q != LK_GPU_MEMORY_CLOCK_MHZ);
    }
    ck_assert_int_eq(atomic_load(&fake_nvml.power_reads), 3); /* unsupported: not asked again */
    lk_nvml_close(n);
}
END_TEST

START_TEST(gpu_is_lost)
{
    struct lk_nvml *n = must_open(&fake_nvml_calls);
    struct lk_gpu_sample s;

    atomic_store(&fake_nvml.lost_after, 1);
    ck_assert_int_eq(lk_nvml_read(n, &s), LK_OK);
    ck_assert_int_eq(lk_nvml_read(n, &s), LK_EIO);
    ck_assert_msg(strstr(lk_error_text(), "GPU is lost") != NULL, "%s", lk_error_text());
    lk_nvml_close(n);
    check_clean();
}
END_TEST

/* Open the driver's library, which this machine may lack. */
START_TEST(drivers_own)
{
    struct lk_nvml *n = NULL;

    ck_assert_int_eq(lk_nvml_open("GPU-none", NULL, &n), LK_EUNSUPPORTED);
    ck_assert_msg(strstr(lk_error_text(), "NVML") != NULL, "%s", lk_error_text());
}
END_TEST

/* ---- The sampler ---- */

struct seen {
    struct lk_recorder *recorder;
    pthread_mutex_t lock;
    int counters, wrong, tracks;
    double last[LK_GPU_QUANTITY_COUNT];
    uint16_t ids[LK_GPU_QUANTITY_COUNT];
    uint64_t n_spans;
};

static enum lk_status see_track(void *sink, const struct lk_track_info *info, void **out_ctx)
{
    struct seen *s = sink;

    s->tracks += info->kind == LK_TRACK_GPU;
    s->n_spans = info->n_spans;
    *out_ctx = s;
    return LK_OK;
}

static enum lk_status see_name(void *sink, uint16_t id, const char *name)
{
    struct seen *s = sink;

    for (size_t q = 0; q < LK_GPU_QUANTITY_COUNT; q++)
        if (!strcmp(name, lk_gpu_quantity_name((enum lk_gpu_quantity)q)))
            s->ids[q] = id;
    return LK_OK;
}

static void see(void *ctx, const struct lk_span *span)
{
    struct seen *s = ctx;

    pthread_mutex_lock(&s->lock);
    s->counters++;
    s->wrong += span->kind != LK_SPAN_COUNTER || span->step != LK_SPAN_STEP_UNKNOWN ||
                span->start_ns != span->end_ns || span->start_ns == 0;
    for (size_t q = 0; q < LK_GPU_QUANTITY_COUNT; q++)
        if (span->name == s->ids[q])
            s->last[q] = span->value;
    pthread_mutex_unlock(&s->lock);
}

static const struct lk_sink_ops seen_ops = {
    .name = "seen", .track_open = see_track, .name_added = see_name, .emit = see};

static void seen_open(struct seen *s)
{
    memset(s, 0, sizeof *s);
    ck_assert_int_eq(pthread_mutex_init(&s->lock, NULL), 0);
    ck_assert_int_eq(lk_recorder_create(&s->recorder), LK_OK);
    ck_assert_int_eq(lk_recorder_attach(s->recorder, &seen_ops, s), LK_OK);
}

static double last_clock_mhz(struct seen *s)
{
    double mhz;

    pthread_mutex_lock(&s->lock);
    mhz = s->last[LK_GPU_SM_CLOCK_MHZ];
    pthread_mutex_unlock(&s->lock);
    return mhz;
}

START_TEST(samples_are_shown_and_summed)
{
    struct lk_nvml_sampler_config config = fast;
    struct lk_nvml_sampler *sampler = NULL;
    struct lk_gpu_summary sum;
    struct seen seen;

    seen_open(&seen);
    config.recorder = seen.recorder;
    ck_assert_int_eq(lk_nvml_sampler_start(must_open(&fake_nvml_calls), &config, &sampler), LK_OK);
    fake_nvml_wait_reads(4);
    /* The warm-up does not count; a sample being taken may still belong to it. */
    atomic_store(&fake_nvml.sm_clock_mhz, 1500);
    atomic_store(&fake_nvml.reasons, 0x4);
    fake_nvml_wait_reads(2);
    lk_nvml_sampler_restart(sampler);
    fake_nvml_wait_reads(20);
    lk_nvml_sampler_end(sampler);
    atomic_store(&fake_nvml.sm_clock_mhz, 300);
    atomic_store(&fake_nvml.reasons, 0x1);
    while (last_clock_mhz(&seen) != 300) /* spans continue; later not every sample becomes one */
        fake_nvml_wait_reads(1);
    ck_assert_msg(lk_nvml_sampler_stop(sampler, &sum) == LK_OK, "%s", lk_error_text());
    ck_assert_uint_ge(sum.n, 18);
    ck_assert_double_eq(sum.quantity[LK_GPU_SM_CLOCK_MHZ].mean, 1500);
    ck_assert_double_eq(sum.quantity[LK_GPU_SM_CLOCK_MHZ].max, 1500);
    ck_assert_double_eq(sum.quantity[LK_GPU_SM_CLOCK_MHZ].min, 1500);
    ck_assert_double_eq(sum.throttled, 1);
    ck_assert_double_eq(sum.reason[LK_GPU_POWER_CAP], 1);
    ck_assert_double_eq(sum.reason[LK_GPU_IDLE], 0);
    ck_assert_double_eq_tol(sum.energy_j, 6.4 * (double)(sum.n - 1), 1e-6);
    lk_recorder_destroy(seen.recorder);
    ck_assert_int_eq(seen.tracks, 1);
    ck_assert_uint_eq(seen.n_spans, LK_NVML_SPANS);
    ck_assert_int_eq(seen.wrong, 0);
    /* Every sample is shown at first. */
    ck_assert_int_ge(seen.counters, LK_GPU_QUANTITY_COUNT * 26);
    ck_assert_double_eq(seen.last[LK_GPU_MEMORY_CLOCK_MHZ], 2619);
    pthread_mutex_destroy(&seen.lock);
    check_clean();
}
END_TEST

START_TEST(a_lost_gpu_ends_the_sampling)
{
    struct lk_nvml_sampler *sampler = NULL;
    struct lk_gpu_summary sum;

    atomic_store(&fake_nvml.lost_after, 3);
    ck_assert_int_eq(lk_nvml_sampler_start(must_open(&fake_nvml_calls), &fast, &sampler), LK_OK);
    fake_nvml_wait_total(4);
    ck_assert_int_eq(lk_nvml_sampler_stop(sampler, &sum), LK_EIO);
    ck_assert_msg(strstr(lk_error_text(), "GPU is lost") != NULL, "%s", lk_error_text());
    ck_assert_uint_eq(sum.n, 3);
    ck_assert_int_eq(atomic_load(&fake_nvml.clock_reads), 4);
    check_clean();
}
END_TEST

/* Stopping does not wait for the period: an hour's sampler stops at once, having read once. */
START_TEST(a_stop_is_prompt)
{
    struct lk_nvml_sampler_config config = fast;
    struct lk_nvml_sampler *sampler = NULL;

    config.period_s = 3600;
    ck_assert_int_eq(lk_nvml_sampler_start(must_open(&fake_nvml_calls), &config, &sampler), LK_OK);
    fake_nvml_wait_total(1);
    ck_assert_int_eq(lk_nvml_sampler_stop(sampler, NULL), LK_OK);
    ck_assert_int_eq(atomic_load(&fake_nvml.clock_reads), 1);
    check_clean();
    ck_assert_int_eq(lk_nvml_sampler_stop(NULL, NULL), LK_OK);
    lk_nvml_sampler_restart(NULL);
    lk_nvml_sampler_end(NULL);
}
END_TEST

/* Stop before, while and after it reads; many times, for ThreadSanitizer. */
START_TEST(stops_at_any_moment)
{
    for (int i = 0; i < 50; i++) {
        struct lk_nvml_sampler_config config = fast;
        struct lk_nvml_sampler *sampler = NULL;
        struct lk_gpu_summary sum;
        struct seen seen;

        seen_open(&seen);
        config.recorder = seen.recorder;
        config.period_s = 1e-6;
        ck_assert_int_eq(lk_nvml_sampler_start(must_open(&fake_nvml_calls), &config, &sampler),
                         LK_OK);
        if (i % 3 == 1)
            lk_nvml_sampler_restart(sampler);
        if (i % 5 == 1)
            lk_sleep_until_ns(lk_monotonic_ns() + LK_NS_PER_MS);
        ck_assert_int_eq(lk_nvml_sampler_stop(sampler, &sum), LK_OK);
        if (i % 3 != 1) /* however soon it was stopped */
            ck_assert_uint_ge(sum.n, 1);
        lk_recorder_destroy(seen.recorder);
        ck_assert_int_eq(seen.wrong, 0);
        pthread_mutex_destroy(&seen.lock);
        check_clean();
    }
}
END_TEST

/* A driver that hangs does not hold up the run: its thread is left behind. */
START_TEST(a_driver_hangs)
{
    struct lk_nvml_sampler_config config = fast;
    struct lk_nvml_sampler *sampler = NULL;
    struct lk_gpu_summary sum;

    config.timeout_s = 0.05;
    ck_assert_int_eq(lk_nvml_sampler_start(must_open(&fake_nvml_calls), &config, &sampler), LK_OK);
    fake_nvml_wait_reads(2);
    atomic_store(&fake_nvml.hang, 1);
    while (!atomic_load(&fake_nvml.hanging))
        lk_sleep_until_ns(lk_monotonic_ns() + LK_NS_PER_MS);
    ck_assert_int_eq(lk_nvml_sampler_stop(sampler, &sum), LK_ETIMEOUT);
    ck_assert_msg(strstr(lk_error_text(), "did not answer") != NULL, "%s", lk_error_text());
    ck_assert_uint_ge(sum.n, 1);
    ck_assert_int_eq(atomic_load(&fake_nvml.initialised), 1);
    atomic_store(&fake_nvml.hang, 0);
    while (atomic_load(&fake_nvml.initialised) > 0)
        lk_sleep_until_ns(lk_monotonic_ns() + LK_NS_PER_MS);
    lk_sleep_until_ns(lk_monotonic_ns() + 50 * LK_NS_PER_MS); /* lets the thread finish */
}
END_TEST

/* ---- Summaries ---- */

START_TEST(samples_together)
{
    const uint64_t s_ns = LK_NS_PER_S;
    struct lk_gpu_sums sums = {0};
    struct lk_gpu_summary sum;
    char text[LK_GPU_TEXT];

    lk_gpu_summary(&sums, &sum);
    ck_assert_uint_eq(sum.n, 0);
    ck_assert(isnan(sum.power_w) && isnan(sum.energy_j) && isnan(sum.throttled));
    ck_assert(isnan(sum.quantity[LK_GPU_SM_CLOCK_MHZ].min));
    lk_gpu_summary_text(&sum, text);
    ck_assert_str_eq(text, "nothing");

    for (unsigned i = 0; i < 8; i++) {
        static const double reasons[] = {0, 0x4, 0x4, 0x4, 0x24, 0x1, 0x20, 0x200};

        lk_gpu_sums_add(&sums, LK_GPU_SM_CLOCK_MHZ, i * s_ns, 1980 - 10 * (double)i);
        lk_gpu_sums_add(&sums, LK_GPU_POWER_W, i * s_ns, 500);
        lk_gpu_sums_add(&sums, LK_GPU_POWER_W, i * s_ns, NAN);
        lk_gpu_sums_add(&sums, LK_GPU_ENERGY_J, i * s_ns, 1000 + 640 * (double)i);
        lk_gpu_sums_add(&sums, LK_GPU_REASONS, i * s_ns, reasons[i]);
    }
    lk_gpu_summary(&sums, &sum);
    ck_assert_uint_eq(sum.n, 8);
    ck_assert_double_eq(sum.quantity[LK_GPU_SM_CLOCK_MHZ].mean, 1945);
    ck_assert_double_eq(sum.quantity[LK_GPU_SM_CLOCK_MHZ].min, 1910);
    ck_assert_double_eq(sum.quantity[LK_GPU_SM_CLOCK_MHZ].max, 1980);
    ck_assert_double_eq_tol(sum.power_w, 640, 1e-9); /* from the energy, not the readings */
    ck_assert_double_eq_tol(sum.energy_j, 7 * 640, 1e-9);
    ck_assert_double_eq(sum.throttled, 5.0 / 8); /* neither idle nor an unknown reason */
    ck_assert_double_eq(sum.reason[LK_GPU_POWER_CAP], 0.5);
    ck_assert_double_eq(sum.reason[LK_GPU_SW_THERMAL], 0.25);
    lk_gpu_summary_text(&sum, text);
    ck_assert_str_eq(text, "1945 MHz (1910 to 1980), 640 W, throttled 62 % of the time (power 50 "
                           "%, temperature 25 %)");
}
END_TEST

/* Over less than a second the readings are better than the counter; a counter
 * that restarted is ignored. */
START_TEST(energy_or_readings)
{
    static const struct {
        double seconds, from_j, to_j, power_w, energy_j;
    } rows[] = {{0.5, 100, 420, 600, 320},
                {2, 100, 1380, 640, 1280},
                {2, 100, 20, 600, NAN},
                {0, 100, 100, 600, 0}};

    for (size_t i = 0; i < LK_COUNT(rows); i++) {
        uint64_t end_ns = (uint64_t)(rows[i].seconds * 1e9);
        struct lk_gpu_sums sums = {0};
        struct lk_gpu_summary sum;

        lk_gpu_sums_add(&sums, LK_GPU_POWER_W, 0, 600);
        lk_gpu_sums_add(&sums, LK_GPU_ENERGY_J, 0, rows[i].from_j);
        lk_gpu_sums_add(&sums, LK_GPU_ENERGY_J, end_ns, rows[i].to_j);
        lk_gpu_summary(&sums, &sum);
        ck_assert_double_eq_tol(sum.power_w, rows[i].power_w, 1e-9);
        ck_assert_int_eq(isnan(sum.energy_j), isnan(rows[i].energy_j));
        if (!isnan(rows[i].energy_j))
            ck_assert_double_eq_tol(sum.energy_j, rows[i].energy_j, 1e-9);
    }
}
END_TEST

SUITE(nvml, t)
{
    tcase_add_checked_fixture(t, fake_nvml_reset, NULL);
    tcase_add_test(t, a_sample);
    tcase_add_loop_test(t, a_part_of_a_gpu, 0, 2);
    tcase_add_test(t, no_such_gpu);
    tcase_add_test(t, what_is_not_there);
    tcase_add_test(t, gpu_is_lost);
    tcase_add_test(t, drivers_own);
    tcase_add_test(t, samples_are_shown_and_summed);
    tcase_add_test(t, a_lost_gpu_ends_the_sampling);
    tcase_add_test(t, a_stop_is_prompt);
    tcase_add_test(t, stops_at_any_moment);
    tcase_add_test(t, a_driver_hangs);
    tcase_add_test(t, samples_together);
    tcase_add_test(t, energy_or_readings);
}
