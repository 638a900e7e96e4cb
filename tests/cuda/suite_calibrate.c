/*
 * Calibration on a GPU: surrogate kernels last as long and move bytes as fast as requested,
 * they keep other kernels from the multiprocessors they occupy, and the overlap probe measures
 * that. Figures are printed.
 */
#include "kernels/ops.h"
#include "runtime/comm/comm.h"
#include "runtime/device/device.h"
#include "runtime/probe/probe_block.h"
#include "runtime/probe/probe_impl.h"
#include "tests/cuda/gpu.h"
#include "tests/rigs/must.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const uint64_t timeout_ns = 20 * LK_NS_PER_S;

static struct {
    struct lk_device *device;
    struct lk_stream *compute, *net;
    struct lk_comm *comm;
    struct lk_device_properties properties;
    struct lk_event *begin, *end, *other;
} rig;

static void setup(void)
{
    const struct lk_device_config config = {.real = LK_BF16, .share_gpu = true};

    must(lk_device_open("cuda", &config, &rig.device));
    must(lk_device_properties(rig.device, &rig.properties));
    must(lk_stream_create(rig.device,
                          &(struct lk_track_info){.name = "compute", .kind = LK_TRACK_COMPUTE},
                          &rig.compute));
    must(lk_stream_create(rig.device, &(struct lk_track_info){.name = "net", .kind = LK_TRACK_COMM},
                          &rig.net));
    must(lk_comm_open("self", &(struct lk_comm_config){.world_size = 1, .device = rig.device},
                      &rig.comm));
    must(lk_event_create(rig.device, &rig.begin));
    must(lk_event_create(rig.device, &rig.end));
    must(lk_event_create(rig.device, &rig.other));
}

static void teardown(void)
{
    lk_event_destroy(rig.begin);
    lk_event_destroy(rig.end);
    lk_event_destroy(rig.other);
    lk_comm_close(rig.comm);
    lk_stream_destroy(rig.compute);
    lk_stream_destroy(rig.net);
    lk_device_close(rig.device);
    memset(&rig, 0, sizeof rig);
}

static void sync(void)
{
    must(lk_stream_sync(rig.net, lk_deadline_in(timeout_ns)));
    must(lk_stream_sync(rig.compute, lk_deadline_in(timeout_ns)));
}

/* Return the seconds of an op on the net stream, the second time. */
static double op_s(const struct lk_op *op, const void *args)
{
    for (int i = 0; i < 2; i++) {
        must(lk_event_record(rig.begin, rig.net));
        must(lk_stream_launch(rig.net, op, args));
        must(lk_event_record(rig.end, rig.net));
        sync();
    }
    return lk_probe_between_s(rig.begin, rig.end);
}

START_TEST(a_stand_in_waits_as_long_as_told)
{
    static const double seconds[] = {200e-6, 2e-3, 20e-3};

    for (int i = 0; i < 3; i++)
        for (size_t ctas = 1; ctas <= 32; ctas *= 32) {
            double s =
                op_s(&lk_op_hold, &(struct lk_hold_args){.seconds = seconds[i], .ctas = ctas});

            printf("hold %g ms, %zu blocks: %.4f ms\n", 1e3 * seconds[i], ctas, 1e3 * s);
            /* Launch and end take some microseconds, and the clock may advance by one. */
            ck_assert_double_ge(s, 0.99 * seconds[i]);
            ck_assert_double_le(s, 1.01 * seconds[i] + 20e-6);
        }
}
END_TEST

START_TEST(a_stand_in_copies_as_fast_as_told)
{
    const size_t bytes = 256 << 20;
    struct lk_move_args a = {.bytes = bytes, .ctas = 16};
    void *to = NULL, *from = NULL;
    double free_s;

    must(lk_device_alloc(rig.device, bytes, &to));
    must(lk_device_alloc(rig.device, bytes, &from));
    a.to = to;
    a.from = from;
    free_s = op_s(&lk_op_move, &a);
    printf("move by 16 blocks, all it can: %.1f GB/s\n", 1e-9 * (double)bytes / free_s);
    for (a.Bps = 10e9; a.Bps < 0.7 * (double)bytes / free_s; a.Bps *= 3) {
        double s = op_s(&lk_op_move, &a);

        printf("move at %g GB/s: %.2f GB/s\n", 1e-9 * a.Bps, 1e-9 * (double)bytes / s);
        ck_assert_double_eq_tol(s, (double)bytes / a.Bps, 0.02 * (double)bytes / a.Bps + 20e-6);
    }
    lk_device_free(rig.device, to);
    lk_device_free(rig.device, from);
}
END_TEST

/* A product launched while every multiprocessor is occupied runs when they are released. */
START_TEST(what_is_held_is_not_to_be_had)
{
    enum { N = 2048 };
    const size_t bytes = (size_t)N * N * 2;
    const double held_s = 5e-3;
    void *m[3] = {NULL};

    for (int i = 0; i < 3; i++)
        must(lk_device_alloc(rig.device, bytes, &m[i]));
    for (int i = 0; i < 2; i++) { /* the first time loads code */
        must(LK_LAUNCH(rig.net, hold, .seconds = held_s,
                       .ctas = (size_t)rig.properties.multiprocessors));
        must(lk_event_record(rig.end, rig.net));
        must(LK_LAUNCH(rig.compute, wait, .seconds = 1e-3));
        must(LK_LAUNCH(rig.compute, matmul_forward, .out = m[0], .in = m[1], .weight = m[2],
                       .rows = N, .inputs = N, .outputs = N));
        must(lk_event_record(rig.other, rig.compute));
        sync();
    }
    printf("product ended %.1f us after %d blocks of %g ms\n",
           1e6 * (lk_probe_between_s(rig.end, rig.other) - lk_probe_between_s(rig.other, rig.end)),
           rig.properties.multiprocessors, 1e3 * held_s);
    ck_assert_uint_gt(lk_event_time_ns(rig.other), lk_event_time_ns(rig.end));
    for (int i = 0; i < 3; i++)
        lk_device_free(rig.device, m[i]);
}
END_TEST

static double mean(const double *v, size_t from, size_t n)
{
    double sum = 0;

    for (size_t i = from; i < n; i++)
        sum += v[i] / (double)(n - from);
    return sum;
}

/* Half of the multiprocessors cost a product-bound pass far more than one does. */
START_TEST(the_probe_sees_what_is_held)
{
    static const struct lk_block_size size = {8, 1024, 768, 12};
    struct lk_probe_stream_config config = {.compute = rig.compute,
                                            .net = rig.net,
                                            .unit = lk_block_backward,
                                            .unit_target_s = 0.01,
                                            .effort.repetitions = 5,
                                            .effort.warmup = 2,
                                            .timeout_ns = timeout_ns};
    size_t most = (size_t)rig.properties.multiprocessors / 2;
    struct lk_block *block = NULL;
    double wait[2];

    must(lk_block_create(rig.compute, &size, timeout_ns, &block));
    config.ctx = block;
    for (int i = 0; i < 2; i++) {
        const struct lk_probe_beside beside = {
            .bytes = 25 << 20, .ctas = i ? most : 1, .Bps = 50e9};
        struct lk_probe_overlap o = {0};

        must(lk_probe_overlap_streams(rig.comm, &config, &beside, &o));
        wait[i] = mean(o.gamma_wait, o.warmup, o.n);
        printf("%zu blocks: gamma_wait %.3f, gamma_wire %.3f, delta %.3f\n", beside.ctas, wait[i],
               mean(o.gamma_wire, o.warmup, o.n), mean(o.delta, o.warmup, o.n));
        ck_assert(isfinite(wait[i]));
        lk_probe_overlap_fini(&o);
    }
    ck_assert_double_gt(wait[1], wait[0] + 0.1);
    lk_block_destroy(block);
}
END_TEST

static Suite *make(void)
{
    Suite *s = suite_create("calibrate on a GPU");
    TCase *tc = tcase_create("stand-ins");

    suite_add_tcase(s, tc);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, a_stand_in_waits_as_long_as_told);
    tcase_add_test(tc, a_stand_in_copies_as_fast_as_told);
    tcase_add_test(tc, what_is_held_is_not_to_be_had);
    tcase_add_test(tc, the_probe_sees_what_is_held);
    return s;
}

const struct gpu_suite gpu_suite_calibrate = {.make = make};
