/* The device cuda without a GPU: its reaction to CUDA's results (tests/fakes/fake_cuda.h). */
#include "base/array.h"
#include "tests/fakes/fake_cuda.h"
#include "tests/rigs/cuda_rig_cuda.h"
#include "tests/rigs/small_train.h"
#include "tests/rigs/suite.h"
#include "tests/rigs/waits.h"

#include <stdlib.h>
#include <string.h>

static const uint64_t hang_ns = WAIT_PLENTY_NS;

static enum lk_status log_host(struct lk_stream *s, const void *arg)
{
    const struct cuda_log_args *a = arg;

    (void)s;
    a->log->values[a->log->n++] = a->value;
    return LK_OK;
}

static enum lk_status fail_host(struct lk_stream *s, const void *arg)
{
    (void)s;
    (void)arg;
    return lk_fail(LK_EPEER, "rank 3 was lost");
}

/* ---- Tests ---- */

START_TEST(work_runs_in_order_and_later)
{
    struct cuda_log *log = calloc(1, sizeof *log);
    struct lk_device *d = cuda_rig_device();
    struct lk_stream *s = cuda_rig_stream(d, &cuda_rig_compute);
    struct cuda_log_args third = {.log = log, .value = 3};
    int *host = NULL;
    void *device = NULL;

    ck_assert_int_eq(lk_device_alloc_host(d, 2 * sizeof *host, (void **)&host), LK_OK);
    ck_assert_int_eq(lk_device_alloc(d, sizeof *host, &device), LK_OK);
    host[0] = 4;
    cuda_rig_log(s, log, 1);
    cuda_rig_log(s, log, 2);
    ck_assert_int_eq(lk_stream_host(s, log_host, &third, sizeof third), LK_OK);
    ck_assert_int_eq(lk_stream_copy(s, device, &host[0], sizeof *host), LK_OK);
    ck_assert_int_eq(lk_stream_copy(s, &host[1], device, sizeof *host), LK_OK);
    ck_assert_int_eq(log->n, 0);
    ck_assert_int_eq(lk_stream_sync(s, lk_deadline_in(hang_ns)), LK_OK);
    ck_assert_int_eq(log->n, 3);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(log->values[i], i + 1);
    ck_assert_int_eq(host[1], 4);
    lk_device_free_host(d, host);
    lk_device_free(d, device);
    lk_stream_destroy(s);
    lk_device_close(d);
    free(log);
}
END_TEST

/* Without the event the second stream would run first; recording the event
 * again changes nothing. */
START_TEST(streams_wait_for_events)
{
    struct cuda_log *log = calloc(1, sizeof *log);
    struct lk_device *d;
    struct lk_stream *first, *second;
    struct lk_event *e;
    uint64_t passed_ns;

    fake_cuda.takes_ms = cuda_rig_a_ms;
    d = cuda_rig_device();
    first = cuda_rig_stream(d, &cuda_rig_compute);
    second = cuda_rig_stream(d, &cuda_rig_net);
    ck_assert_int_eq(lk_event_create(d, &e), LK_OK);
    cuda_rig_log(first, log, 1);
    cuda_rig_log(first, log, 2);
    ck_assert_int_eq(lk_event_record(e, first), LK_OK);
    ck_assert_int_eq(lk_stream_wait(second, e), LK_OK);
    cuda_rig_log(second, log, 3);
    cuda_rig_log(first, log, 4);
    ck_assert_int_eq(lk_event_record(e, first), LK_OK);
    ck_assert_int_eq(lk_stream_sync(second, lk_deadline_in(hang_ns)), LK_OK);
    ck_assert_int_eq(log->values[0], 1);
    ck_assert_int_eq(log->values[1], 2);
    ck_assert_int_eq(lk_event_sync(e, lk_deadline_in(hang_ns)), LK_OK);
    ck_assert_int_eq(log->n, 4);
    /* Floats of milliseconds since the origin: a microsecond is near enough. */
    passed_ns = fake_cuda.reset_ns + (uint64_t)(fake_cuda.streams[0].ms * 1e6);
    ck_assert_uint_ge(lk_event_time_ns(e) + 1000 + lk_device_clock_error_ns(d), passed_ns);
    ck_assert_uint_le(lk_event_time_ns(e), passed_ns + 1000);
    lk_event_destroy(e);
    lk_stream_destroy(second);
    lk_stream_destroy(first);
    lk_device_close(d);
    free(log);
}
END_TEST

START_TEST(deadlines_end_waits)
{
    struct lk_device *d = cuda_rig_device();
    struct lk_stream *s = cuda_rig_stream(d, &cuda_rig_compute);

    fake_cuda.stuck = true;
    ck_assert_int_eq(lk_stream_sync(s, lk_deadline_in(1)), LK_ETIMEOUT);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "stream 'compute'"));
    fake_cuda.stuck = false;
    lk_stream_destroy(s);
    lk_device_close(d);
}
END_TEST

/* An error of the GPU makes the device fail for good. */
START_TEST(errors_stick)
{
    struct cuda_log *log = calloc(1, sizeof *log);
    struct lk_device *d = cuda_rig_device();
    struct lk_stream *s = cuda_rig_stream(d, &cuda_rig_compute);
    struct cuda_log_args a = {.log = log};

    fake_cuda.query_error = cudaErrorIllegalAddress;
    ck_assert_int_eq(lk_stream_sync(s, lk_deadline_in(hang_ns)), LK_EINTERNAL);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "cudaErrorIllegalAddress"));
    fake_cuda.query_error = cudaSuccess;
    ck_assert_int_eq(lk_stream_launch(s, &cuda_rig_log_op, &a), LK_EINTERNAL);
    ck_assert_int_eq(lk_stream_sync(s, lk_deadline_in(hang_ns)), LK_EINTERNAL);
    lk_stream_destroy(s);
    lk_device_close(d);
    free(log);
}
END_TEST

START_TEST(host_functions_fail_the_device)
{
    struct lk_device *d = cuda_rig_device();
    struct lk_stream *s = cuda_rig_stream(d, &cuda_rig_net);

    ck_assert_int_eq(lk_stream_host(s, fail_host, "", 1), LK_OK);
    ck_assert_int_eq(lk_stream_sync(s, lk_deadline_in(hang_ns)), LK_EPEER);
    ck_assert_str_eq(lk_error_text(), "rank 3 was lost");
    lk_stream_destroy(s);
    lk_device_close(d);
}
END_TEST

START_TEST(comm_streams_go_first_and_update_streams_last)
{
    static const struct lk_track_info last = {.name = "update", .kind = LK_TRACK_UPDATE};
    struct lk_device *d;
    struct lk_stream *compute, *net, *update;

    fake_cuda.most_urgent = _i;
    d = cuda_rig_device();
    compute = cuda_rig_stream(d, &cuda_rig_compute);
    net = cuda_rig_stream(d, &cuda_rig_net);
    update = cuda_rig_stream(d, &last);
    ck_assert_int_eq(fake_cuda.streams[0].priority, _i < -1 ? -1 : 0); /* never net's */
    ck_assert_int_eq(fake_cuda.streams[1].priority, _i);
    ck_assert_int_eq(fake_cuda.streams[2].priority, 0);
    lk_stream_destroy(compute);
    lk_stream_destroy(net);
    lk_stream_destroy(update);
    lk_device_close(d);
}
END_TEST

static const struct {
    cudaError_t error;
    enum lk_status status;
    const char *says;
} openings[] = {
    {cudaErrorInsufficientDriver, LK_EUNSUPPORTED, "cudaErrorInsufficientDriver"},
    {cudaErrorNoDevice, LK_EUNSUPPORTED, "cudaErrorNoDevice"},
    {cudaErrorUnknown, LK_EINTERNAL, "cudaErrorUnknown"},
};

START_TEST(machines_without_a_gpu)
{
    struct lk_device *d = NULL;

    fake_cuda.fail_at = 1;
    fake_cuda.fail_with = openings[_i].error;
    ck_assert_int_eq(cuda_rig_open(&d, 0, false), openings[_i].status);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "device cuda"));
    ck_assert_ptr_nonnull(strstr(lk_error_text(), openings[_i].says));
    fake_cuda.fail_at = 0;
    fake_cuda.gpus = 0;
    ck_assert_int_eq(cuda_rig_open(&d, 0, false), LK_EUNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "sees no GPU"));
}
END_TEST

/* Open the real CUDA of this machine: a device, or a reason why not. */
START_TEST(this_machine)
{
    const struct lk_device_config config = {.local_rank = 0};
    struct lk_device *d = NULL;
    enum lk_status st = lk_device_open("cuda", &config, &d);

    ck_assert_msg(st == LK_OK || st == LK_EUNSUPPORTED, "%s", lk_error_text());
    ck_assert(st == LK_OK || strlen(lk_error_text()) > 20);
    lk_device_close(d);
}
END_TEST

START_TEST(gpu_by_local_rank)
{
    struct lk_device *first = cuda_rig_device(), *second = NULL, *third = NULL;

    ck_assert_int_eq(cuda_rig_open(&second, 1, false), LK_OK);
    ck_assert_int_eq(cuda_rig_open(&third, 2, false), LK_EUSAGE);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "local ranks 0 (process"));
    ck_assert_ptr_nonnull(
        strstr(lk_error_text(), "and 2 would be on one GPU (GPU-00000000-0000-0000-0000-"));
    lk_device_close(first);
    ck_assert_int_eq(cuda_rig_open(&third, 2, false), LK_OK);
    lk_device_close(second);
    lk_device_close(third);
    ck_assert_int_eq(cuda_rig_open(&first, 0, true), LK_OK);
    ck_assert_int_eq(cuda_rig_open(&third, 2, true), LK_OK);
    lk_device_close(first);
    lk_device_close(third);
}
END_TEST

START_TEST(memory_is_zeroed_and_can_run_out)
{
    struct lk_device *d = cuda_rig_device();
    unsigned char got[100], *p = NULL;

    ck_assert_int_eq(lk_device_alloc(d, sizeof got, (void **)&p), LK_OK);
    fake_cuda_peek(got, p, sizeof got);
    for (int i = 0; i < 100; i++)
        ck_assert_int_eq(got[i], 0);
    lk_device_free(d, p);
    ck_assert_int_eq(lk_device_alloc_host(d, sizeof got, (void **)&p), LK_OK);
    for (int i = 0; i < 100; i++)
        ck_assert_int_eq(p[i], 0);
    lk_device_free_host(d, p);
    lk_device_free(d, NULL);
    fake_cuda.fail_at = fake_cuda.calls + 1;
    fake_cuda.fail_with = cudaErrorMemoryAllocation;
    ck_assert_int_eq(lk_device_alloc(d, 12345, (void **)&p), LK_ENOMEM);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "12345 bytes"));
    lk_device_close(d);
}
END_TEST

/* Run everything once. calls: number of calls into CUDA before closing,
 * which cannot report failures. */
static enum lk_status short_life(int *calls)
{
    struct cuda_log *log = calloc(1, sizeof *log);
    struct cuda_log_args a = {.log = log};
    struct lk_device *d = NULL;
    struct lk_stream *s = NULL, *net = NULL;
    struct lk_event *e = NULL;
    void *p = NULL, *host = NULL;
    enum lk_status st = LK_OK;

    LK_TRY(cuda_rig_open(&d, 1, false));
    LK_TRY(lk_stream_create(d, &cuda_rig_compute, &s));
    LK_TRY(lk_stream_create(d, &cuda_rig_net, &net));
    LK_TRY(lk_event_create(d, &e));
    LK_TRY(lk_device_alloc(d, 64, &p));
    LK_TRY(lk_device_alloc_host(d, 64, &host));
    LK_TRY(lk_stream_host(s, log_host, &a, sizeof a));
    LK_TRY(lk_event_record(e, s));
    LK_TRY(lk_stream_wait(net, e));
    LK_TRY(lk_stream_copy(net, p, host, 64));
    LK_TRY(lk_stream_sync(net, lk_deadline_in(hang_ns)));
out:
    *calls = fake_cuda.calls;
    lk_stream_destroy(net);
    lk_stream_destroy(s);
    lk_event_destroy(e);
    if (d) {
        lk_device_free(d, p);
        lk_device_free_host(d, host);
    }
    lk_device_close(d);
    free(log);
    return st;
}

/* Every call fails once: earlier objects are released (cuda_rig_teardown counts
 * them), and the error returns. A wait asks as often as it takes, so the last call is the one
 * before the first life that ends well. */
START_TEST(any_call_may_fail)
{
    enum lk_status st = LK_ENOMEM;

    for (int i = 1, calls = 0; st != LK_OK; i++) {
        fake_cuda_reset(2);
        fake_cuda.fail_at = i;
        fake_cuda.fail_with = cudaErrorMemoryAllocation;
        st = short_life(&calls);
        ck_assert_msg(st == (calls < i ? LK_OK : LK_ENOMEM), "call %d of %d: %d", i, calls, st);
        ck_assert_int_eq(fake_cuda.events_alive, 0);
        ck_assert_int_eq(fake_cuda.streams_alive, 0);
        ck_assert_int_eq(fake_cuda.contexts_alive, 0);
        ck_assert_int_eq(fake_cuda.blas_alive, 0);
        ck_assert_int_eq(fake_cuda.dnn_alive, 0);
        ck_assert_int_eq(fake_cuda.allocated, 0);
    }
}
END_TEST

static const struct {
    enum lk_attention attention;
    bool deterministic;
    enum lk_dtype real;
    const char *text;
} attentions[] = {
    {LK_ATTENTION_AUTO, false, LK_F32, "own in any order, 1 samples, 3 heads, asked"},
    {LK_ATTENTION_AUTO, false, LK_BF16, "cudnn in any order, 1 samples, 3 heads, asked"},
    {LK_ATTENTION_CUDNN, true, LK_BF16, "cudnn in order, 1 samples, 3 heads, asked"},
    {LK_ATTENTION_OWN, true, LK_BF16, "own"},
};

/* What a model says of itself, and a run's trace with it. */
START_TEST(a_model_says_whose_attention_it_has)
{
    for (size_t i = 0; i < LK_COUNT(attentions); i++) {
        struct lk_train_config config = small_train("cuda", 1);
        struct lk_run_info info = {0};
        const char *said = NULL;

        config.device_config.cuda_calls = &fake_cuda_calls;
        config.device_config.real = attentions[i].real;
        config.device_config.attention = attentions[i].attention;
        config.device_config.deterministic = attentions[i].deterministic;
        ck_assert_msg(lk_train_describe(&config, &info) == LK_OK, "%s", lk_error_text());
        for (size_t k = 0; k < info.n_config; k++)
            if (!strcmp(info.config[k].key, "gpu_attention"))
                said = info.config[k].value;
        ck_assert_str_eq(said, attentions[i].text);
        lk_run_info_fini(&info);
    }
}
END_TEST

/* The links between GPUs follow from CUDA's properties of pairs of them. */
START_TEST(properties_are_those_of_the_gpu)
{
    static const struct {
        int gpus;
        bool nvlink, apart;
        enum lk_gpu_link link;
    } machines[] = {
        {1, true, false, LK_GPU_LINK_UNKNOWN},  {2, false, true, LK_GPU_LINK_UNKNOWN},
        {2, false, false, LK_GPU_LINK_PCIE},    {4, true, false, LK_GPU_LINK_NVLINK},
        {8, true, false, LK_GPU_LINK_NVSWITCH},
    };

    for (size_t i = 0; i < LK_COUNT(machines); i++) {
        struct lk_device_config config = {.cuda_calls = &fake_cuda_calls};
        struct lk_device_properties p;
        struct lk_device *d;
        int n = 0;

        fake_cuda_reset(machines[i].gpus);
        fake_cuda.nvlink = machines[i].nvlink;
        fake_cuda.apart = machines[i].apart;
        ck_assert_int_eq(lk_device_count("cuda", &config, &n), LK_OK);
        ck_assert_int_eq(n, machines[i].gpus);
        d = cuda_rig_device();
        ck_assert_int_eq(lk_device_properties(d, &p), LK_OK);
        ck_assert_str_eq(p.name, "fake");
        ck_assert_int_eq(p.compute_capability, 90);
        ck_assert_int_eq(p.multiprocessors, 132);
        ck_assert_uint_eq(p.memory_bytes, (uint64_t)80 << 30);
        ck_assert_int_eq(p.gpus, machines[i].gpus);
        ck_assert_int_eq(p.link, machines[i].link);
        lk_device_close(d);
    }
}
END_TEST

SUITE(device_cuda, tc)
{
    tcase_add_checked_fixture(tc, cuda_rig_setup, cuda_rig_teardown);
    tcase_add_test(tc, work_runs_in_order_and_later);
    tcase_add_test(tc, streams_wait_for_events);
    tcase_add_test(tc, properties_are_those_of_the_gpu);
    tcase_add_test(tc, deadlines_end_waits);
    tcase_add_test(tc, errors_stick);
    tcase_add_test(tc, host_functions_fail_the_device);
    tcase_add_loop_test(tc, comm_streams_go_first_and_update_streams_last, -5, 0);
    tcase_add_loop_test(tc, machines_without_a_gpu, 0, LK_COUNT(openings));
    tcase_add_test(tc, this_machine);
    tcase_add_test(tc, gpu_by_local_rank);
    tcase_add_test(tc, memory_is_zeroed_and_can_run_out);
    tcase_add_test(tc, any_call_may_fail);
    tcase_add_test(tc, a_model_says_whose_attention_it_has);
}
