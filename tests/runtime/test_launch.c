/* The launcher: ranks that end well, badly, or not at all; and how a process finds its rank. */
#include "runtime/rendezvous/launch.h"
#include "runtime/rendezvous/rank_env.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/rng.h"
#include "runtime/rendezvous/net.h"
#include "tests/rigs/suite.h"
#include "tests/rigs/waits.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static const uint64_t never_ns = UINT64_MAX;
static const uint64_t short_ns = 100 * LK_NS_PER_MS;

/* Launches `ranks` shells with a script. */
static enum lk_status launch(int ranks, const char *script, uint64_t grace_ns, uint64_t timeout_ns)
{
    char text[1024];
    char *argv[] = {(char *)(uintptr_t) "sh", (char *)(uintptr_t) "-c", text, NULL};
    const char *const env[] = {"MORE=is here", "RANKS_OF_TEST=yes", NULL};
    struct lk_launch_config config = {.ranks = ranks,
                                      .program = "/bin/sh",
                                      .argv = argv,
                                      .env = env,
                                      .grace_ns = grace_ns,
                                      .timeout_ns = timeout_ns};

    snprintf(text, sizeof text, "%s", script);
    return lk_launch(&config);
}

/* Check that no child of this process, nor orphan of a child, is left. */
static void assert_nothing_left(void)
{
    int status;

    ck_assert_int_eq(waitpid(-1, &status, WNOHANG), -1);
    ck_assert_int_eq(errno, ECHILD);
}

/* Adopt orphans, so that this process can see them. */
static void adopt_orphans(void)
{
    ck_assert_int_eq(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
}

static const struct {
    int ranks;
    const char *script;
    const char *message; /* NULL: success */
} endings[] = {
    {1, "true", NULL},
    {3,
     "[ $WORLD_SIZE = 3 ] && [ $LOCAL_WORLD_SIZE = 3 ] && [ $RANK = $LOCAL_RANK ] && "
     "[ $MASTER_ADDR = 127.0.0.1 ] && [ $MASTER_PORT -gt 0 ] && [ $LOCKSTEP_STORE_SERVED = 1 ] && "
     "[ \"$MORE\" = 'is here' ] && [ -n \"$PATH\" ] && [ -z \"$TORCHELASTIC_RUN_ID\" ]",
     NULL},
    {3, "[ $RANK = 1 ] && exit 3; exec sleep 1000", "rank 1 exited with code 3"},
    {2, "[ $RANK = 1 ] && kill -9 $$; exec sleep 1000", "rank 1 was killed by signal 9 (Killed)"},
    {2, "[ $RANK = 0 ] && kill -SEGV $$; trap '' TERM; while :; do :; done",
     "rank 0 was killed by signal 11 (Segmentation fault)"},
    {2, "[ $RANK = 0 ] && exit 1; kill -STOP $$", "rank 0 exited with code 1"},
    {2, "exit 127", "exited with code 127"},
};

START_TEST(how_ranks_end)
{
    enum lk_status st;

    adopt_orphans();
    setenv("TORCHELASTIC_RUN_ID", "stale", 1);
    st = launch(endings[_i].ranks, endings[_i].script, short_ns, never_ns);
    ck_assert_msg(st == (endings[_i].message ? LK_EPEER : LK_OK), "%d %s", (int)st,
                  lk_error_text());
    if (endings[_i].message)
        ck_assert_ptr_nonnull(strstr(lk_error_text(), endings[_i].message));
    assert_nothing_left();
}
END_TEST

/* Counts its calls, and fails when it is told to. */
struct collected {
    int calls;
    bool fails;
};

static enum lk_status collect(void *ctx, struct lk_store_server *store)
{
    struct collected *c = ctx;
    char *text = NULL;
    size_t size;

    c->calls++;
    ck_assert_int_eq(lk_store_server_text(store, "nobody's", &text, &size), LK_EPEER);
    return c->fails ? lk_fail(LK_EIO, "the part cannot be read") : LK_OK;
}

/* The launcher collects once, when all ranks ended well; a failure there is the launch's. */
START_TEST(what_ranks_left_is_collected)
{
    static const struct {
        const char *script;
        bool fails;
        int calls;
        enum lk_status want;
        const char *text;
    } rows[] = {
        {"true", false, 1, LK_OK, NULL},
        {"true", true, 1, LK_EIO, "the part cannot be read"},
        {"[ $RANK = 0 ] || exit 3; true", false, 0, LK_EPEER, "rank 1 exited with code 3"},
    };
    char text[64];
    char *argv[] = {(char *)(uintptr_t) "sh", (char *)(uintptr_t) "-c", text, NULL};
    struct collected c = {.fails = rows[_i].fails};
    const struct lk_launch_config config = {.ranks = 2,
                                            .program = "/bin/sh",
                                            .argv = argv,
                                            .grace_ns = short_ns,
                                            .timeout_ns = never_ns,
                                            .collect = collect,
                                            .ctx = &c};

    snprintf(text, sizeof text, "%s", rows[_i].script);
    ck_assert_int_eq(lk_launch(&config), rows[_i].want);
    ck_assert_int_eq(c.calls, rows[_i].calls);
    if (rows[_i].text)
        ck_assert_ptr_nonnull(strstr(lk_error_text(), rows[_i].text));
    assert_nothing_left();
}
END_TEST

START_TEST(a_run_that_takes_too_long)
{
    adopt_orphans();
    ck_assert_int_eq(launch(2, "exec sleep 1000", short_ns, 200 * LK_NS_PER_MS), LK_EPEER);
    ck_assert_str_eq(lk_error_text(), "the run took longer than 0.2 s");
    assert_nothing_left();
}
END_TEST

START_TEST(a_program_that_is_not_there)
{
    char *argv[] = {(char *)(uintptr_t) "x", NULL};
    struct lk_launch_config config = {.ranks = 2,
                                      .program = "/no/such/program",
                                      .argv = argv,
                                      .grace_ns = short_ns,
                                      .timeout_ns = never_ns};

    adopt_orphans();
    ck_assert_int_eq(lk_launch(&config), LK_EPEER);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "could not be started: No such file"));
    config.ranks = 0;
    ck_assert_int_eq(lk_launch(&config), LK_EUSAGE);
    assert_nothing_left();
}
END_TEST

/* Each rank may use one CPU only, and not the same as another. */
START_TEST(pinned_ranks)
{
    char *argv[] = {(char *)(uintptr_t) "sh", (char *)(uintptr_t) "-c",
                    (char *)(uintptr_t) "[ $(nproc) = 1 ]", NULL};
    struct lk_launch_config config = {.ranks = 1,
                                      .program = "/bin/sh",
                                      .argv = argv,
                                      .grace_ns = short_ns,
                                      .timeout_ns = never_ns,
                                      .pin = true};

    ck_assert_msg(lk_launch(&config) == LK_OK, "%s", lk_error_text());
}
END_TEST

/* ---- signals to the launcher ---- */

enum { LAUNCHED = 3, UP = 9 };

/*
 * Fork a process that launches; its exit code tells the result. A script writes a byte to
 * descriptor UP, the returned pipe's other end, when it is up; the caller closes the read end.
 */
static pid_t fork_launcher(const char *script, uint64_t grace_ns, int *out_up)
{
    int up[2];
    pid_t pid;

    /* libcheck's own handlers would signal the whole test. */
    ck_assert(signal(SIGTERM, SIG_DFL) != SIG_ERR && signal(SIGINT, SIG_DFL) != SIG_ERR);
    ck_assert_int_eq(pipe(up), 0);
    pid = fork();
    ck_assert_int_ge(pid, 0);
    if (!pid) {
        enum lk_status st;

        if (dup2(up[1], UP) != UP)
            _exit(1);
        st = launch(LAUNCHED, script, grace_ns, never_ns);
        if (st == LK_EPEER && strstr(lk_error_text(), "the run was stopped by signal"))
            _exit(7);
        _exit(st == LK_OK ? 0 : 1);
    }
    close(up[1]);
    *out_up = up[0];
    return pid;
}

/* Check that all descendants end by themselves; those left are adopted. */
static void assert_all_end(void)
{
    struct lk_deadline deadline = lk_deadline_in(WAIT_PLENTY_NS);

    while (waitpid(-1, NULL, WNOHANG) >= 0) {
        ck_assert_msg(lk_deadline_left_ns(deadline) > 0, "a process was left behind");
        usleep(1000);
    }
    ck_assert_int_eq(errno, ECHILD);
}

static const struct {
    const char *script;
    int signals[2];
    int code; /* -1: killed */
} stops[] = {
    {"printf x >&9; exec sleep 1000", {SIGTERM, 0}, 7},
    {"printf x >&9; exec sleep 1000", {SIGINT, 0}, 7},
    {"trap '' TERM INT; printf x >&9; while :; do sleep 0.05; done", {SIGHUP, SIGINT}, 7},
    {"printf x >&9; exec sleep 1000", {SIGKILL, 0}, -1},
};

/* Without a grace period that ends: ranks that will not stop end by the second signal only. */

START_TEST(signals_stop_everything)
{
    int status, up;
    char byte;
    pid_t pid;

    adopt_orphans();
    pid = fork_launcher(stops[_i].script, never_ns, &up);
    for (int r = 0; r < LAUNCHED; r++)
        ck_assert_int_eq(read(up, &byte, 1), 1);
    for (int i = 0; i < 2 && stops[_i].signals[i]; i++)
        ck_assert_int_eq(kill(pid, stops[_i].signals[i]), 0);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    if (stops[_i].code < 0)
        ck_assert(WIFSIGNALED(status));
    else
        ck_assert_int_eq(WEXITSTATUS(status), stops[_i].code);
    assert_all_end();
    close(up);
}
END_TEST

/* The launcher is killed or stopped at a random moment of a start. */
START_TEST(no_process_survives_the_launcher)
{
    struct lk_rng g = lk_rng_init(11, 0);

    adopt_orphans();
    for (int i = 0; i < 20; i++) {
        int up;
        pid_t pid = fork_launcher("sleep 0.01; exec sleep 1000", short_ns, &up);

        usleep((unsigned)lk_rng_below(&g, 30000));
        ck_assert_int_eq(kill(pid, i % 2 ? SIGKILL : SIGTERM), 0);
        assert_all_end();
        close(up);
    }
}
END_TEST

/* ---- Finding the rank ---- */

static const struct {
    const char *vars[12]; /* NAME=value, NULL-ended */
    enum lk_status status;
    const char *message; /* part of it */
    struct lk_rank_env want;
} environments[] = {
    {{NULL}, LK_OK, NULL, {.present = false}},
    {{"RANK=1", "WORLD_SIZE=4", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=2", "MASTER_ADDR=a",
      "MASTER_PORT=29500", NULL},
     LK_OK,
     NULL,
     {true, 1, 4, 1, 2, 2, "a", 29500, false, true, false, {.job = ""}}},
    {{"RANK=0", "WORLD_SIZE=4", "MASTER_ADDR=::1", "MASTER_PORT=1",
      "TORCHELASTIC_USE_AGENT_STORE=True", NULL},
     LK_OK,
     NULL,
     {true, 0, 4, 0, 4, 1, "::1", 2, true, true, false, {.job = ""}}},
    {{"RANK=0", "WORLD_SIZE=1", "MASTER_ADDR=h", "MASTER_PORT=5", "LOCKSTEP_STORE_SERVED=1", NULL},
     LK_OK,
     NULL,
     {true, 0, 1, 0, 1, 1, "h", 5, false, true, false, {.job = ""}}},
    {{"RANK=0", "MASTER_ADDR=h", "MASTER_PORT=5", NULL}, LK_EUSAGE, "WORLD_SIZE is not set", {0}},
    {{"WORLD_SIZE=2", NULL}, LK_EUSAGE, "RANK is not set", {0}},
    {{"RANK=2", "WORLD_SIZE=2", NULL}, LK_EUSAGE, "RANK: ", {0}},
    {{"RANK=x", "WORLD_SIZE=2", NULL}, LK_EUSAGE, "RANK: ", {0}},
    {{"RANK=0", "WORLD_SIZE=2", NULL}, LK_EUSAGE, "MASTER_ADDR is not set", {0}},
    {{"RANK=0", "WORLD_SIZE=2", "MASTER_ADDR=h", NULL}, LK_EUSAGE, "MASTER_PORT is not set", {0}},
    {{"RANK=0", "WORLD_SIZE=2", "MASTER_ADDR=h", "MASTER_PORT=70000", NULL},
     LK_EUSAGE,
     "MASTER_PORT: ",
     {0}},
    {{"OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_LOCAL_RANK=1",
      "OMPI_COMM_WORLD_LOCAL_SIZE=2", "MASTER_PORT=7", NULL},
     LK_OK,
     NULL,
     {true, 1, 2, 1, 2, 1, "127.0.0.1", 7, false, true, false, {.job = "mpirun"}}},
    {{"OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_LOCAL_RANK=0",
      "OMPI_COMM_WORLD_LOCAL_SIZE=1", NULL},
     LK_EUSAGE,
     "mpirun -x MASTER_ADDR",
     {0}},
    {{"PMI_RANK=1", "PMI_SIZE=2", "MPI_LOCALRANKID=1", "MPI_LOCALNRANKS=2", "MASTER_PORT=7",
      "SLURM_PROCID=0", "SLURM_STEP_ID=0", NULL},
     LK_OK,
     NULL,
     {true, 1, 2, 1, 2, 1, "127.0.0.1", 7, false, true, false, {.job = "mpirun"}}},
    {{"PMI_RANK=0", "PMI_SIZE=4", "MPI_LOCALRANKID=0", "MPI_LOCALNRANKS=2", NULL},
     LK_EUSAGE,
     "mpirun -genv MASTER_ADDR HOST",
     {0}},
    {{"RANK=3", "WORLD_SIZE=4", "LOCAL_WORLD_SIZE=1", "GROUP_WORLD_SIZE=2", "MASTER_ADDR=a",
      "MASTER_PORT=1", NULL},
     LK_OK,
     NULL,
     {true, 3, 4, 0, 1, 2, "a", 1, false, true, false, {.job = ""}}},
    {{"SLURM_PROCID=0", "SLURM_STEP_ID=0", "SLURM_NTASKS=5", "SLURM_LOCALID=0", "SLURM_NODEID=0",
      "SLURM_TASKS_PER_NODE=2(x2),1", "SLURM_JOB_NODELIST=gpu[07-09],x", "SLURM_STEP_NUM_NODES=3",
      "MASTER_PORT=9", NULL},
     LK_OK,
     NULL,
     {true, 0, 5, 0, 2, 3, "gpu07", 9, true, true, true, {.job = ".0"}}},
    {{"SLURM_PROCID=4", "SLURM_STEP_ID=0", "SLURM_NTASKS=5", "SLURM_LOCALID=0", "SLURM_NODEID=2",
      "SLURM_TASKS_PER_NODE=2(x2),1", "SLURM_JOB_NODELIST=a[1,3]-b,c", "MASTER_PORT=9", NULL},
     LK_OK,
     NULL,
     {true, 4, 5, 0, 1, 5, "a1-b", 9, false, true, true, {.job = ".0"}}},
    {{"SLURM_PROCID=4", "SLURM_STEP_ID=0", "SLURM_NTASKS=5", "SLURM_LOCALID=0", "SLURM_NODEID=3",
      "SLURM_TASKS_PER_NODE=2(x2),1", "SLURM_JOB_NODELIST=a", NULL},
     LK_EUSAGE,
     "has no entry for node 3",
     {0}},
    /* A batch script is not a step, and neither is an interactive one. */
    {{"SLURM_PROCID=0", "SLURM_NTASKS=4", NULL}, LK_OK, NULL, {.present = false}},
    {{"SLURM_PROCID=0", "SLURM_NTASKS=4", "SLURM_STEP_ID=4294967290", NULL},
     LK_OK,
     NULL,
     {.present = false}},
};

START_TEST(who_a_rank_is)
{
    struct lk_rank_env e;
    enum lk_status st;

    clearenv();
    for (const char *const *v = environments[_i].vars; *v; v++)
        ck_assert_int_eq(putenv((char *)(uintptr_t)*v), 0);
    st = lk_rank_env_read(&e);
    ck_assert_msg(st == environments[_i].status, "%d: %s", (int)st, lk_error_text());
    if (st != LK_OK) {
        ck_assert_msg(strstr(lk_error_text(), environments[_i].message) != NULL, "%s",
                      lk_error_text());
        return;
    }
    ck_assert_int_eq(e.present, environments[_i].want.present);
    if (!e.present)
        return;
    ck_assert_int_eq(e.rank, environments[_i].want.rank);
    ck_assert_int_eq(e.world_size, environments[_i].want.world_size);
    ck_assert_int_eq(e.local_rank, environments[_i].want.local_rank);
    ck_assert_int_eq(e.local_world_size, environments[_i].want.local_world_size);
    ck_assert_int_eq(e.nodes, environments[_i].want.nodes);
    ck_assert_str_eq(e.master_addr, environments[_i].want.master_addr);
    ck_assert_int_eq(e.master_port, environments[_i].want.master_port);
    ck_assert_int_eq(e.serve, environments[_i].want.serve);
    ck_assert_int_eq(e.port_given, environments[_i].want.port_given);
    ck_assert_int_eq(e.slurm_name, environments[_i].want.slurm_name);
    ck_assert_str_eq(e.ticket.job, environments[_i].want.ticket.job);
}
END_TEST

/* Without MASTER_PORT all ranks of a job choose the same port, and those
 * of another job another one. */
START_TEST(a_port_is_made_from_the_job)
{
    static const char *const jobs[] = {"PMIX_NAMESPACE=job1", "PMIX_NAMESPACE=job2"};
    int port[2];

    clearenv();
    putenv((char *)(uintptr_t) "OMPI_COMM_WORLD_RANK=0");
    putenv((char *)(uintptr_t) "OMPI_COMM_WORLD_SIZE=1");
    putenv((char *)(uintptr_t) "OMPI_COMM_WORLD_LOCAL_RANK=0");
    putenv((char *)(uintptr_t) "OMPI_COMM_WORLD_LOCAL_SIZE=1");
    for (int i = 0; i < 2; i++) {
        struct lk_rank_env e;

        putenv((char *)(uintptr_t)jobs[i]);
        ck_assert_int_eq(lk_rank_env_read(&e), LK_OK);
        port[i] = e.master_port;
        ck_assert_int_ge(port[i], 20000);
        ck_assert_int_lt(port[i], 30000);
    }
    ck_assert_int_ne(port[0], port[1]);
}
END_TEST

struct found {
    struct lk_rank_env env;
    struct lk_store_server *server;
    struct lk_store *store;
    enum lk_status st;
};

static void *find_store(void *arg)
{
    struct found *f = arg;

    f->st = lk_rank_env_connect(&f->env, NULL, WAIT_PLENTY_NS, &f->server, &f->store);
    return NULL;
}

/* If another program has the port that the job's name gives, all ranks meet at the next. */
START_TEST(a_taken_port_is_passed_over)
{
    static const char *const common[] = {"OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_LOCAL_SIZE=2",
                                         "PMIX_NAMESPACE=a job of this test"};
    static const char *const own[2][2] = {
        {"OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_LOCAL_RANK=0"},
        {"OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_LOCAL_RANK=1"}};
    struct found f[2] = {{.env = {0}}, {.env = {0}}};
    pthread_t threads[2];
    int other, port;

    clearenv();
    for (size_t i = 0; i < LK_COUNT(common); i++)
        putenv((char *)(uintptr_t)common[i]);
    for (int r = 0; r < 2; r++) {
        for (int i = 0; i < 2; i++)
            putenv((char *)(uintptr_t)own[r][i]);
        ck_assert_int_eq(lk_rank_env_read(&f[r].env), LK_OK);
    }
    (void)lk_net_listen("127.0.0.1", f[0].env.master_port, 8, &other,
                        &port); /* or taken by others */
    for (int r = 0; r < 2; r++)
        ck_assert_int_eq(pthread_create(&threads[r], NULL, find_store, &f[r]), 0);
    for (int r = 0; r < 2; r++)
        ck_assert_int_eq(pthread_join(threads[r], NULL), 0);
    ck_assert_int_eq(f[0].st, LK_OK);
    ck_assert_int_eq(f[1].st, LK_OK);
    ck_assert_int_ne(lk_store_server_port(f[0].server), f[0].env.master_port);
    for (int r = 0; r < 2; r++)
        lk_store_close(f[r].store);
    lk_store_server_stop(f[0].server, 0);
}
END_TEST

SUITE(launch, c)
{
    tcase_add_loop_test(c, how_ranks_end, 0, (int)(sizeof endings / sizeof *endings));
    tcase_add_loop_test(c, what_ranks_left_is_collected, 0, 3);
    tcase_add_test(c, a_run_that_takes_too_long);
    tcase_add_test(c, a_program_that_is_not_there);
    tcase_add_test(c, pinned_ranks);
    tcase_add_loop_test(c, signals_stop_everything, 0, (int)(sizeof stops / sizeof *stops));
    tcase_add_test(c, no_process_survives_the_launcher);
    tcase_add_loop_test(c, who_a_rank_is, 0, (int)(sizeof environments / sizeof *environments));
    tcase_add_test(c, a_port_is_made_from_the_job);
    tcase_add_test(c, a_taken_port_is_passed_over);
}
