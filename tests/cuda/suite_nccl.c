/*
 * The communicator nccl on a GPU: one rank, and two ranks that share it, each a process of its own.
 * These processes run this program again; the environment tells their rank.
 */
#include "base/log.h"
#include "commands/share_gpu.h"
#include "runtime/comm/comm.h"
#include "tests/cuda/gpu.h"
#include "tests/rigs/nccl_cases.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define RANK_ENV "LOCKSTEP_TEST_NCCL_RANK" /* "RANK PORT DIES" */

enum { RANKS = 2, CULPRIT = 1, CALLS = 8, AT = 5, ELEMS = 1 << 20 };

static const uint64_t timeout_ns = 30 * LK_NS_PER_S;
static const uint64_t limit_ns = 60 * LK_NS_PER_S;

static const struct nccl_way ways[] = {
    {false, false},
    {false, true},
    {true, false},
};

struct node {
    struct lk_store *store;
    struct lk_device *device;
    struct lk_stream *net;
    struct lk_comm *comm;
};

static enum lk_status open_node(struct node *n, int rank, int world, bool registers)
{
    const struct lk_device_config dc = {.share_gpu = true};
    const struct lk_track_info net = {.name = "net", .kind = LK_TRACK_COMM};
    struct lk_comm_config cc = {.rank = rank,
                                .world_size = world,
                                .store = n->store,
                                .timeout_ns = timeout_ns,
                                .nccl = {.max_ctas = 2, .register_buffers = registers}};
    enum lk_status st = LK_OK;

    LK_TRY(lk_device_open("cuda", &dc, &n->device));
    LK_TRY(lk_stream_create(n->device, &net, &n->net));
    cc.device = n->device;
    LK_TRY(lk_comm_open("nccl", &cc, &n->comm));
out:
    return st;
}

static void close_node(struct node *n)
{
    lk_stream_destroy(n->net);
    lk_comm_close(n->comm);
    lk_device_close(n->device);
    lk_store_close(n->store);
}

static enum lk_status all_ways(struct node *n)
{
    enum lk_status st = LK_OK;

    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        LK_TRY(nccl_cases_run(n->comm, n->net, &ways[i]));
out:
    return st;
}

START_TEST(one_rank)
{
    struct node n = {.store = NULL};
    enum lk_status st = open_node(&n, 0, 1, _i);

    if (st == LK_OK)
        st = all_ways(&n);
    ck_assert_msg(st == LK_OK, "%s", lk_error_text());
    close_node(&n);
}
END_TEST

/* ---- A rank that shares the GPU ---- */

/* Run collectives until the other rank is gone. */
static enum lk_status go_on(struct node *n, bool dies)
{
    void *buf = NULL;
    enum lk_status st = LK_OK;

    LK_TRY(lk_device_alloc(n->device, ELEMS * sizeof(float), &buf));
    for (int i = 0; i < CALLS; i++) {
        const struct lk_coll_call call = {
            .coll = LK_ALL_REDUCE, .dtype = LK_F32, .buf = buf, .count = ELEMS, .index = i};

        if (i == AT && dies)
            raise(SIGKILL);
        LK_TRY(lk_comm_enqueue(n->comm, n->net, &call));
        LK_TRY(lk_stream_sync(n->net, lk_deadline_in(limit_ns)));
    }
    st = lk_fail(LK_EVERIFY, "nothing went wrong");
out:
    lk_stream_destroy(n->net);
    n->net = NULL;
    lk_device_free(n->device, buf);
    if (st != LK_EVERIFY && strstr(lk_error_text(), "rank 1 was killed by signal 9"))
        return LK_OK;
    return lk_fail_context(LK_EVERIFY, "what rank 0 says of it");
}

/* Run as a rank; the exit code tells the result. */
static void be_rank(const char *told)
{
    struct node n = {.store = NULL};
    int rank = 0, port = 0, dies = 0;
    enum lk_status st = LK_OK;

    ck_assert_int_eq(sscanf(told, "%d %d %d", &rank, &port, &dies), 3);
    alarm(35); /* past timeout_ns, whose error says more */
    lk_log_set_rank(rank);
    LK_TRY(share_gpu_environment(rank, 1));
    LK_TRY(lk_store_connect("127.0.0.1", port, rank, RANKS, timeout_ns, NULL, &n.store));
    LK_TRY(open_node(&n, rank, RANKS, false));
    LK_TRY(dies ? go_on(&n, rank == CULPRIT) : all_ways(&n));
out:
    if (st != LK_OK)
        fprintf(stderr, "rank %d: %s\n", rank, lk_error_text());
    close_node(&n);
    _exit(st != LK_OK);
}

START_TEST(as_rank)
{
    be_rank(getenv(RANK_ENV));
}
END_TEST

/* ---- The parent process ---- */

/* Start a rank. This process has CUDA open: between fork and exec only
 * async-signal-safe calls are allowed. */
static pid_t start_rank(const char *told)
{
    char variable[64];
    char self[] = "/proc/self/exe", suite[] = "nccl";
    char *const argv[] = {self, suite, NULL};
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    pid_t pid;

    snprintf(variable, sizeof variable, "%s", told);
    ck_assert_int_eq(setenv(RANK_ENV, variable, 1), 0);
    ck_assert_int_ge(null, 0);
    pid = fork();
    if (!pid) {
        (void)dup2(null, STDOUT_FILENO); /* only the parent prints to stdout */
        execv(self, argv);
        _exit(127);
    }
    close(null);
    ck_assert_int_eq(unsetenv(RANK_ENV), 0);
    ck_assert_int_gt(pid, 0);
    return pid;
}

static void reap(const pid_t pids[RANKS], struct lk_store_server *server, int status[RANKS])
{
    struct lk_deadline deadline = lk_deadline_in(limit_ns);
    bool gone[RANKS] = {false};

    for (int left = RANKS; left > 0;) {
        for (int r = 0; r < RANKS; r++) {
            if (gone[r] || waitpid(pids[r], &status[r], WNOHANG) != pids[r])
                continue;
            gone[r] = true;
            left--;
            if (WIFSIGNALED(status[r])) {
                char how[64];

                snprintf(how, sizeof how, "was killed by signal %d", WTERMSIG(status[r]));
                lk_store_server_rank_died(server, r, how);
            }
        }
        for (int r = 0; r < RANKS && !lk_deadline_left_ns(deadline); r++)
            if (!gone[r])
                (void)kill(pids[r], SIGKILL);
        usleep(1000);
    }
}

START_TEST(two_ranks_share_the_gpu)
{
    struct lk_store_server *server = NULL;
    bool dies = _i;
    int status[RANKS];
    pid_t pids[RANKS];
    char told[64];

    ck_assert_msg(lk_store_serve("127.0.0.1", 0, RANKS, NULL, &server) == LK_OK, "%s",
                  lk_error_text());
    for (int r = 0; r < RANKS; r++) {
        snprintf(told, sizeof told, "%d %d %d", r, lk_store_server_port(server), dies);
        pids[r] = start_rank(told);
    }
    reap(pids, server, status);
    lk_store_server_stop(server, 0);
    for (int r = 0; r < RANKS; r++)
        ck_assert_msg(status[r] == (dies && r == CULPRIT ? SIGKILL : 0), "rank %d: %d (%s)", r,
                      status[r], dies ? "one dies" : "all well");
}
END_TEST

static const char *reason_to_skip(void)
{
    static char library[512];

    if (getenv(RANK_ENV)) /* NCCL's first call must come after the environment is set */
        return NULL;
    if (lk_comm_library("nccl", library, sizeof library) != LK_OK) {
        snprintf(library, sizeof library, "%s", lk_error_text());
        return library;
    }
    return NULL;
}

static Suite *make(void)
{
    Suite *s = suite_create("NCCL on a GPU");
    TCase *tc = tcase_create("nccl");

    suite_add_tcase(s, tc);
    if (getenv(RANK_ENV)) {
        tcase_add_test(tc, as_rank);
        return s;
    }
    tcase_add_loop_test(tc, one_rank, 0, 2);
    tcase_add_loop_test(tc, two_ranks_share_the_gpu, 0, 2);
    return s;
}

const struct gpu_suite gpu_suite_nccl = {.reason_to_skip = reason_to_skip, .make = make};
