/*
 * The launcher; see the header.
 *
 * One thread waits with sigtimedwait for a child to change, a signal to stop, or the next deadline;
 * the store's server is the only other thread. Between fork and exec a child calls only what is
 * safe after a fork of a process with threads: all that it needs is prepared before.
 */
#include "runtime/rendezvous/launch.h"
#include "runtime/rendezvous/ticket.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/log.h"
#include "runtime/rendezvous/store.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    EXEC_FAILED = 127,
    SLICE_MS = 500, /* check the children at least this often, whatever signals come */
};

/* The stages in which the remaining ranks are ended. */
enum stage { RUNNING, FAILED, TERMINATED, KILLED };

struct child {
    pid_t pid;
    bool running;
};

struct exec_failure {
    int rank, reason; /* errno */
};

struct launcher {
    const struct lk_launch_config *config;
    struct lk_ticket ticket;
    struct lk_store_server *server;
    struct child *children;
    int running;
    enum stage stage;
    struct lk_deadline next, whole; /* end of the stage, and of the run */
    sigset_t waited, mask_before;
    struct sigaction chld_before;
    cpu_set_t cpus;
    int n_cpus;
    int failures[2]; /* pipe: struct exec_failure from children */
};

/* ---- a child's environment and CPU ---- */

enum { N_OWN = 9 };

/* Return true if `entry` ("NAME=value") sets the same variable as an element of list (NULL-ended,
 * or NULL). */
static bool is_set_in(const char *entry, const char *const *list)
{
    size_t n = strcspn(entry, "=") + 1;

    for (; list && *list; list++)
        if (!strncmp(entry, *list, n))
            return true;
    return false;
}

static void free_strings(char **list)
{
    for (char **p = list; p && *p; p++)
        free(*p);
    free(list);
}

static enum lk_status own_variables(const struct launcher *l, int rank, char **out)
{
    char secret[2 * LK_SHA256_BYTES + 1];
    size_t n = 0;

    lk_ticket_secret_text(&l->ticket, secret);
    LK_PASS(lk_asprintf(&out[n++], LK_SECRET_ENV "=%s", secret));
    LK_PASS(lk_asprintf(&out[n++], LK_JOB_ENV "=%s", l->ticket.job));
    LK_PASS(lk_asprintf(&out[n++], "RANK=%d", rank));
    LK_PASS(lk_asprintf(&out[n++], "LOCAL_RANK=%d", rank));
    LK_PASS(lk_asprintf(&out[n++], "WORLD_SIZE=%d", l->config->ranks));
    LK_PASS(lk_asprintf(&out[n++], "LOCAL_WORLD_SIZE=%d", l->config->ranks));
    LK_PASS(lk_strdup(&out[n++], "MASTER_ADDR=127.0.0.1"));
    LK_PASS(lk_asprintf(&out[n++], "MASTER_PORT=%d", lk_store_server_port(l->server)));
    return lk_strdup(&out[n++], "LOCKSTEP_STORE_SERVED=1");
}

static size_t count(const char *const *list)
{
    size_t n = 0;

    while (list && list[n])
        n++;
    return n;
}

/* Make a rank's environment: our variables, the caller's additions, and the remaining inherited
 * ones. */
static enum lk_status make_environment(const struct launcher *l, int rank, char ***out)
{
    enum lk_status st = LK_OK;
    const char *const *more = l->config->env;
    const char *const *inherited = (const char *const *)environ;
    char **env = NULL;
    size_t n = N_OWN;

    LK_TRY(lk_alloc(&env, N_OWN + count(more) + count(inherited) + 1, sizeof *env));
    LK_TRY(own_variables(l, rank, env));
    for (; more && *more; more++)
        LK_TRY(lk_strdup(&env[n++], *more));
    env[n] = NULL;
    for (; *inherited; inherited++) {
        if (is_set_in(*inherited, (const char *const *)env) ||
            !strncmp(*inherited, "TORCHELASTIC_", strlen("TORCHELASTIC_")))
            continue;
        LK_TRY(lk_strdup(&env[n], *inherited));
        n++;
    }
    LK_HAND_OVER(out, env);
out:
    free_strings(env);
    return st;
}

/* Return a rank's CPU: the rank-th of those that this process may use. */
static cpu_set_t cpu_of(const struct launcher *l, int rank)
{
    cpu_set_t one;

    CPU_ZERO(&one);
    for (int cpu = 0, i = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET((size_t)cpu, &l->cpus) && i++ == rank)
            CPU_SET((size_t)cpu, &one);
    return one;
}

/* ---- starting ---- */

static void become_rank(const struct launcher *l, int rank, pid_t parent, const cpu_set_t *cpu,
                        char **env)
{
    const char *program = l->config->program ? l->config->program : "/proc/self/exe";
    struct exec_failure f = {.rank = rank};

    /* The parent may have died before the first call took effect. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent)
        _exit(EXEC_FAILED);
    if (CPU_COUNT(cpu) && sched_setaffinity(0, sizeof *cpu, cpu)) {
        f.reason = errno;
    } else {
        (void)sigaction(SIGCHLD, &l->chld_before, NULL);
        (void)sigprocmask(SIG_SETMASK, &l->mask_before, NULL);
        execve(program, l->config->argv, env);
        f.reason = errno;
    }
    if (write(l->failures[1], &f, sizeof f) < 0)
        _exit(EXEC_FAILED); /* the exit code is the only message left */
    _exit(EXEC_FAILED);
}

static enum lk_status start_rank(struct launcher *l, int rank)
{
    enum lk_status st = LK_OK;
    pid_t parent = getpid(), pid;
    cpu_set_t cpu;
    char **env = NULL;

    CPU_ZERO(&cpu);
    if (l->config->pin && l->config->ranks <= l->n_cpus)
        cpu = cpu_of(l, rank);
    LK_TRY(make_environment(l, rank, &env));
    pid = fork();
    if (pid < 0)
        LK_TRY(lk_fail(LK_EIO, "cannot start rank %d: %s", rank, strerror(errno)));
    if (!pid)
        become_rank(l, rank, parent, &cpu, env);
    l->children[rank] = (struct child){pid, true};
    l->running++;
out:
    free_strings(env);
    return st;
}

/* ---- ending ---- */

static void signal_all(const struct launcher *l, int sig)
{
    for (int r = 0; r < l->config->ranks; r++)
        if (l->children[r].running)
            (void)kill(l->children[r].pid, sig);
}

static void enter_stage(struct launcher *l, enum stage stage)
{
    if (stage <= l->stage)
        return;
    l->stage = stage;
    l->next = lk_deadline_in(l->config->grace_ns);
    if (stage == TERMINATED)
        signal_all(l, SIGTERM);
    if (stage == KILLED) {
        signal_all(l, SIGKILL);
        l->next.at_ns = UINT64_MAX;
    }
}

static void describe_exit(struct launcher *l, int status, char *buf, size_t size)
{
    struct exec_failure f;

    if (WIFSIGNALED(status))
        snprintf(buf, size, "was killed by signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    else if (WEXITSTATUS(status) == EXEC_FAILED &&
             read(l->failures[0], &f, sizeof f) == (ssize_t)sizeof f)
        snprintf(buf, size, "could not be started: %s", strerror(f.reason));
    else
        snprintf(buf, size, "exited with code %d", WEXITSTATUS(status));
}

/* Reap the children that have ended, and report those that failed. */
static void reap(struct launcher *l)
{
    for (int r = 0; r < l->config->ranks; r++) {
        struct child *c = &l->children[r];
        char how[128];
        int status;
        pid_t pid;

        if (!c->running)
            continue;
        pid = waitpid(c->pid, &status, WNOHANG);
        if (pid == 0 || (pid < 0 && errno == EINTR))
            continue;
        c->running = false;
        l->running--;
        if (pid == c->pid && status == 0)
            continue;
        if (pid == c->pid)
            describe_exit(l, status, how, sizeof how);
        else
            snprintf(how, sizeof how, "was lost: %s", strerror(errno));
        lk_log(LK_LOG_MAIN, LK_INFO, "rank %d %s", r, how);
        lk_store_server_rank_died(l->server, r, how);
        enter_stage(l, FAILED);
    }
}

/* Handle a signal to stop: send SIGTERM to the ranks; at the second signal SIGKILL. */
static void stop_by(struct launcher *l, int sig)
{
    char text[128];

    snprintf(text, sizeof text, "the run was stopped by signal %d (%s)", sig, strsignal(sig));
    lk_store_server_fail(l->server, text);
    if (l->stage >= TERMINATED) {
        enter_stage(l, KILLED);
        return;
    }
    enter_stage(l, TERMINATED);
}

static void run_deadlines(struct launcher *l)
{
    if (l->stage == RUNNING && !lk_deadline_left_ns(l->whole)) {
        char text[128];

        snprintf(text, sizeof text, "the run took longer than %.1f s",
                 (double)l->config->timeout_ns / 1e9);
        lk_store_server_fail(l->server, text);
        enter_stage(l, FAILED);
    }
    if (l->stage != RUNNING && !lk_deadline_left_ns(l->next))
        enter_stage(l, (enum stage)(l->stage + 1));
}

/* Wait for a signal until the next deadline. Return 0 if none came. */
static int wait_signal(const struct launcher *l)
{
    uint64_t left = lk_deadline_left_ns(l->stage == RUNNING ? l->whole : l->next);
    struct timespec t;
    int sig;

    left = left < SLICE_MS * LK_NS_PER_MS ? left : SLICE_MS * LK_NS_PER_MS;
    t.tv_sec = (time_t)(left / LK_NS_PER_S);
    t.tv_nsec = (long)(left % LK_NS_PER_S);
    sig = sigtimedwait(&l->waited, NULL, &t);
    return sig > 0 ? sig : 0;
}

/* Return a pending signal to stop, or 0. Ranks get Ctrl-C, too: read the signal before their exits,
 * or they would look like failures. */
static int pending_stop(const struct launcher *l)
{
    const struct timespec now = {0, 0};
    sigset_t stops = l->waited;
    int sig;

    sigdelset(&stops, SIGCHLD);
    sig = sigtimedwait(&stops, NULL, &now);
    return sig > 0 ? sig : 0;
}

static void watch(struct launcher *l)
{
    while (l->running) {
        int sig = wait_signal(l);

        if (sig == 0 || sig == SIGCHLD)
            sig = pending_stop(l);
        if (sig)
            stop_by(l, sig);
        reap(l);
        run_deadlines(l);
    }
}

/* ---- launch ---- */

static enum lk_status take_signals(struct launcher *l)
{
    const struct sigaction dfl = {.sa_handler = SIG_DFL};

    sigemptyset(&l->waited);
    sigaddset(&l->waited, SIGCHLD);
    sigaddset(&l->waited, SIGINT);
    sigaddset(&l->waited, SIGTERM);
    sigaddset(&l->waited, SIGHUP);
    /* Reset SIGCHLD: while it is ignored, children leave no exit status. */
    if (sigaction(SIGCHLD, &dfl, &l->chld_before) ||
        pthread_sigmask(SIG_BLOCK, &l->waited, &l->mask_before))
        return lk_fail(LK_EIO, "cannot block signals: %s", strerror(errno));
    return LK_OK;
}

static enum lk_status start_all(struct launcher *l)
{
    enum lk_status st = LK_OK;

    for (int r = 0; r < l->config->ranks; r++)
        LK_TRY(start_rank(l, r));
    return LK_OK;
out:
    enter_stage(l, KILLED);
    LK_KEEP((watch(l), LK_OK));
    return st;
}

enum lk_status lk_launch(const struct lk_launch_config *config)
{
    enum lk_status st = LK_OK;
    struct launcher l = {.config = config, .next = {UINT64_MAX}, .failures = {-1, -1}};
    char verdict[1024];

    if (config->ranks < 1)
        return lk_fail(LK_EUSAGE, "cannot launch %d ranks", config->ranks);
    LK_TRY(lk_alloc(&l.children, (size_t)config->ranks, sizeof *l.children));
    if (pipe2(l.failures, O_CLOEXEC | O_NONBLOCK) || sched_getaffinity(0, sizeof l.cpus, &l.cpus))
        LK_TRY(lk_fail(LK_EIO, "cannot launch: %s", strerror(errno)));
    l.n_cpus = CPU_COUNT(&l.cpus);
    LK_TRY(lk_ticket_make(&l.ticket));
    LK_TRY(lk_store_serve("127.0.0.1", 0, config->ranks, &l.ticket, &l.server));
    LK_TRY(take_signals(&l));
    l.whole = lk_deadline_in(config->timeout_ns);
    st = start_all(&l);
    if (st == LK_OK)
        watch(&l);
    (void)pthread_sigmask(SIG_SETMASK, &l.mask_before, NULL);
    (void)sigaction(SIGCHLD, &l.chld_before, NULL);
    if (st == LK_OK && lk_store_server_verdict(l.server, verdict, sizeof verdict))
        st = lk_fail(LK_EPEER, "%s", verdict);
    if (st == LK_OK && config->collect)
        st = config->collect(config->ctx, l.server);
out:
    lk_store_server_stop(l.server, 0);
    for (int i = 0; i < 2; i++)
        if (l.failures[i] >= 0)
            close(l.failures[i]);
    free(l.children);
    return st;
}
