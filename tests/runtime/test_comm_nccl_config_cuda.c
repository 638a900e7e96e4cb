/* What opening the communicator nccl asks of NCCL, and what it refuses: tests/fakes/fake_nccl.h. */
#include "runtime/comm/calls_nccl_cuda.h"

#include "tests/rigs/suite.h"

#ifdef LK_NCCL_BUILT

#include "runtime/comm/comm.h"
#include "tests/fakes/fake_cuda.h"
#include "tests/fakes/fake_nccl.h"
#include "tests/rigs/must.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/waits.h"

#include <string.h>

static char *locks;

static void setup(void)
{
    locks = scratch_create_for_gpus();
    fake_nccl_create();
}

static void teardown(void)
{
    fake_nccl_destroy();
    scratch_remove(locks);
}

static void refuse(const char *name, struct lk_device *d, const char *fault, const char *why)
{
    const struct lk_comm_config config = {.world_size = 1,
                                          .timeout_ns = 1,
                                          .device = d,
                                          .fault = fault,
                                          .nccl_calls = &fake_nccl_calls};
    struct lk_comm *c = NULL;

    ck_assert_int_eq(lk_comm_open(name, &config, &c), LK_EUNSUPPORTED);
    ck_assert_msg(strstr(lk_error_text(), why) != NULL, "%s", lk_error_text());
}

/* NCCL rejects a minimum without a maximum as a contradiction. */
START_TEST(a_minimum_alone_is_a_limit)
{
    const struct lk_device_config dc = {.cuda_calls = &fake_cuda_calls};
    struct lk_comm_config cc = {.world_size = 1,
                                .timeout_ns = WAIT_PLENTY_NS,
                                .nccl = {.min_ctas = 8},
                                .nccl_calls = &fake_nccl_calls};
    struct lk_comm *comm = NULL;

    fake_cuda_reset(1);
    must(lk_device_open("cuda", &dc, &cc.device));
    must(lk_comm_open("nccl", &cc, &comm));
    ck_assert_int_eq(fake_nccl.config.minCTAs, 8);
    ck_assert_int_ge(fake_nccl.config.maxCTAs, 8);
    lk_comm_close(comm);
    lk_device_close(cc.device);
    fake_cuda_check_clean();
}
END_TEST

START_TEST(devices_and_communicators_that_do_not_fit)
{
    const struct lk_device_config dc = {.cuda_calls = &fake_cuda_calls};
    struct lk_device *cuda = NULL, *cpu = NULL;

    fake_cuda_reset(1);
    ck_assert_int_eq(lk_device_open("cuda", &dc, &cuda), LK_OK);
    ck_assert_int_eq(lk_device_open("cpu", &dc, &cpu), LK_OK);
    refuse("tcp", cuda, NULL, "needs buffers in host memory");
    refuse("nccl", cpu, NULL, "nccl is for the device cuda, not cpu");
    refuse("nccl", NULL, NULL, "nccl is for the device cuda, not none");
    refuse("self", cuda, "slow:latency=1ms", "slow links");
    refuse("gloo", cuda, NULL, "known: self tcp mpi nccl");
    lk_device_close(cuda);
    lk_device_close(cpu);
    fake_cuda_check_clean();
}
END_TEST

/* The build's library, if it is installed: no GPU is needed to ask for its version. */
START_TEST(library_tells_its_version)
{
    char text[512] = "";
    enum lk_status st = lk_comm_library("nccl", text, sizeof text);

    if (st == LK_OK)
        ck_assert_msg(!strncmp(text, "NCCL 2.", 7) && strstr(text, "libnccl.so.2"), "%s", text);
    else
        ck_assert_msg(strstr(lk_error_text(), "NCCL") != NULL, "%s", lk_error_text());
    ck_assert_int_eq(lk_comm_library("tcp", text, sizeof text), LK_OK);
    ck_assert_str_eq(text, "");
}
END_TEST

#endif

SUITE(comm_nccl_config_cuda, c)
{
#ifdef LK_NCCL_BUILT
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, a_minimum_alone_is_a_limit);
    tcase_add_test(c, devices_and_communicators_that_do_not_fit);
    tcase_add_test(c, library_tells_its_version);
#else
    (void)c;
#endif
}
