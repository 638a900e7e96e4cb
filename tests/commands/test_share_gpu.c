/* Ranks that share a GPU: their environment, their limits, and their end. */
#include "commands/share_gpu.h"

#include "tests/rigs/suite.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Each rank gets another host id, so that NCCL accepts them on one GPU. */
START_TEST(every_rank_is_a_host)
{
    ck_assert_int_eq(share_gpu_environment(3, 1), LK_OK);
    ck_assert_str_eq(getenv("NCCL_HOSTID"), "lockstep-rank-3");
    ck_assert_str_eq(getenv("NCCL_NET"), "Socket");
    ck_assert_str_eq(getenv("NCCL_SOCKET_IFNAME"), "lo");
    ck_assert_str_eq(getenv("NCCL_NVLS_ENABLE"), "0");
}
END_TEST

START_TEST(what_the_user_set_stays)
{
    ck_assert_int_eq(setenv("NCCL_PROTO", "LL", 1), 0);
    ck_assert_int_eq(share_gpu_environment(0, 2), LK_OK);
    ck_assert_str_eq(getenv("NCCL_PROTO"), "LL");
    ck_assert_str_eq(getenv("NCCL_HOSTID"), "lockstep-rank-0");
    ck_assert_ptr_null(getenv("NCCL_SOCKET_IFNAME")); /* two nodes cannot connect over loopback */
}
END_TEST

static const struct {
    int min, max, limited;
} limits[] = {
    {0, 0, 2},
    {0, 8, 8},
    {4, 0, 4},
    {1, 0, 2},
};

START_TEST(few_thread_blocks_unless_asked_for)
{
    struct lk_nccl_options n = {.min_ctas = limits[_i].min, .max_ctas = limits[_i].max};

    share_gpu_limit(&n);
    ck_assert_int_eq(n.max_ctas, limits[_i].limited);
    ck_assert_int_eq(n.min_ctas, limits[_i].min);
}
END_TEST

/* A rank that hangs is ended; one that makes progress is not. */
START_TEST(what_hangs_is_killed)
{
    int status = 0;
    pid_t pid = fork();

    ck_assert_int_ge(pid, 0);
    if (!pid) {
        share_gpu_deadline(0.1);
        pause();
        _exit(0);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM);
    share_gpu_deadline(1000);
    share_gpu_deadline(0);
    ck_assert_uint_eq(alarm(0), 0); /* none is left */
}
END_TEST

SUITE(share_gpu, c)
{
    tcase_add_test(c, every_rank_is_a_host);
    tcase_add_test(c, what_the_user_set_stays);
    tcase_add_loop_test(c, few_thread_blocks_unless_asked_for, 0,
                        (int)(sizeof limits / sizeof *limits));
    tcase_add_test(c, what_hangs_is_killed);
}
