/*
 * The launcher; see the header.
 *
 * One thread waits with sigtimedwait for a child to change, a signal to stop, or the next deadline;
 * the store's server is the only other thread. Between fork and exec a child calls only what is
 * safe after a fork of a process with threads: all that it needs is prepared before.
 */
#include "runtime/rendezvous/launch.h"
#include "runtime/rendezvous/launch_start.h"
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
    int hold; /* what keeps it alive on another host; -1: nothing */
};

struct exec_failure {
    int rank, reason; /* errno */
};

struct launcher {
    const struct lk_launch_config *config;
    const struct lk_launch_ops *ops;
    struct lk_ticket ticket;
    char address[256]; /* of the store */
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

enum { N_OWN = 10 };

/* Return true if `entry` ("NAME=value") sets the same variable as an element of list (NULL-ended).
 */
static bool is_set_in(const char *entry, const char *const *list)
{
    size_t n = strcspn(entry, "=") + 1;

    for (; *list; list++)
        if (!strncmp(entry, *list, n))
            return true;
    return false;
}

void lk_launch_free_strings(char **list)
{
    for (char **p = list; p && *p; p++)
        free(*p);
    free(list);
}

static enum lk_status own_variables(const struct launcher *l, int rank,
                                    const struct lk_rank_place *place, char **out)
{
    char secret[2 * LK_SHA256_BYTES + 1];
    size_t n = 0;

    lk_ticket_secret_text(&l->ticket, secret);
    LK_PASS(lk_asprintf(&out[n++], LK_SECRET_ENV "=%s", secret));
    LK_PASS(lk_asprintf(&out[n++], LK_JOB_ENV "=%s", l->ticket.job));
    LK_PASS(lk_asprintf(&out[n++], "RANK=%d", rank));
    LK_PASS(lk_asprintf(&out[n++], "LOCAL_RANK=%d", place->local_rank));
    LK_PASS(lk_asprintf(&out[n++], "WORLD_SIZE=%d", l->config->ranks));
    LK_PASS(lk_asprintf(&out[n++], "LOCAL_WORLD_SIZE=%d", place->local_size));
    LK_PASS(lk_asprintf(&out[n++], "GROUP_WORLD_SIZE=%d", place->hosts));
    LK_PASS(lk_asprintf(&out[n++], "MASTER_ADDR=%s", l->address));
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

/* Make a rank's own environment: our variables and the caller's additions. */
static enum lk_status make_own(const struct launcher *l, int rank,
                               const struct lk_rank_place *place, char ***out)
{
    enum lk_status st = LK_OK;
    const char *const *more = l->config->env;
    char **env = NULL;
    size_t n = N_OWN;

    LK_TRY(lk_alloc(&env, N_OWN + count(more) + 1, sizeof *env));
    LK_TRY(own_variables(l, rank, place, env));
    for (; more && *more; more++)
        LK_TRY(lk_strdup(&env[n++], *more));
    LK_HAND_OVER(out, env);
out:
    lk_launch_free_strings(env);
    return st;
}

/* ---- ranks of this host ---- */

static enum lk_status prepare_local(const struct lk_launch_wanted *w, struct lk_launch_start *out)
{
    const char *const *inherited = (const char *const *)environ, *const *own = w->own;
    size_t n = 0;

    out->program = w->program ? w->program : "/proc/self/exe";
    out->argv = w->argv;
    LK_PASS(lk_alloc(&out->env, count(own) + count(inherited) + 1, sizeof *out->env));
    for (; *own; own++)
        out->env[n++] = (char *)(uintptr_t)*own;
    for (; *inherited; inherited++)
        if (!is_set_in(*inherited, (const char *const *)out->env) &&
            strncmp(*inherited, "TORCHELASTIC_", strlen("TORCHELASTIC_")) != 0)
            out->env[n++] = (char *)(uintptr_t)*inherited;
    return LK_OK;
}

static void describe_local(const struct lk_rank_place *place, int code, char *buf, size_t size)
{
    (void)place;
    snprintf(buf, size, "exited with code %d", code);
}

static const struct lk_launch_ops launch_local = {.prepare = prepare_local,
                                                  .describe = describe_local};

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
                        const struct lk_launch_start *start)
{
    struct exec_failure f = {.rank = rank};
    sigset_t mask = l->mask_before;

    /* SIGTERM, so that a rank can end its files; nothing inherited may hold it back. */
    sigdelset(&mask, SIGTERM);
    if (signal(SIGTERM, SIG_DFL) == SIG_ERR || prctl(PR_SET_PDEATHSIG, SIGTERM))
        _exit(EXEC_FAILED);
    /* The parent may have died before the call took effect. */
    if (getppid() != parent)
        _exit(EXEC_FAILED);
    if ((CPU_COUNT(cpu) && sched_setaffinity(0, sizeof *cpu, cpu)) ||
        (start->input >= 0 && dup2(start->input, STDIN_FILENO) < 0)) {
        f.reason = errno;
    } else {
        (void)sigaction(SIGCHLD, &l->chld_before, NULL);
        (void)sigprocmask(SIG_SETMASK, &mask, NULL);
        execvpe(start->program, start->argv, start->env);
        f.reason = errno;
    }
    if (write(l->failures[1], &f, sizeof f) < 0)
        _exit(EXEC_FAILED); /* the exit code is the only message left */
    _exit(EXEC_FAILED);
}

static enum lk_status start_rank(struct launcher *l, int rank)
{
    enum lk_status st = LK_OK;
    struct lk_launch_wanted wanted = {.program = l->config->program,
                                      .argv = l->config->argv,
                                      .ssh = l->config->ssh,
                                      .place =
                                          lk_hosts_place(l->config->hosts, rank, l->config->ranks)};
    struct lk_launch_start start = {.input = -1, .hold = -1};
    pid_t parent = getpid(), pid;
    cpu_set_t cpu;
    char **own = NULL;

    CPU_ZERO(&cpu);
    if (l->config->pin && !l->config->hosts && l->config->ranks <= l->n_cpus)
        cpu = cpu_of(l, rank);
    LK_TRY(make_own(l, rank, &wanted.place, &own));
    wanted.own = (const char *const *)own;
    LK_TRY(l->ops->prepare(&wanted, &start));
    pid = fork();
    if (pid < 0)
        LK_TRY(lk_fail(LK_EIO, "cannot start rank %d: %s", rank, strerror(errno)));
    if (!pid)
        become_rank(l, rank, parent, &cpu, &start);
    l->children[rank] = (struct child){pid, true, start.hold};
    start.hold = -1;
    l->running++;
out:
    if (start.input >= 0)
        close(start.input);
    if (start.hold >= 0)
        close(start.hold);
    if (start.env != environ)
        free(start.env);
    lk_launch_free_strings(start.words);
    lk_launch_free_strings(own);
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

static void describe_exit(struct launcher *l, int rank, int status, char *buf, size_t size)
{
    const struct lk_rank_place place = lk_hosts_place(l->config->hosts, rank, l->config->ranks);
    struct exec_failure f;

    if (WIFSIGNALED(status))
        snprintf(buf, size, "was killed by signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    else if (WEXITSTATUS(status) == EXEC_FAILED &&
             read(l->failures[0], &f, sizeof f) == (ssize_t)sizeof f)
        snprintf(buf, size, "could not be started: %s", strerror(f.reason));
    else
        l->ops->describe(&place, WEXITSTATUS(status), buf, size);
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
        if (c->hold >= 0)
            close(c->hold);
        if (pid == c->pid && status == 0)
            continue;
        if (pid == c->pid)
            describe_exit(l, r, status, how, sizeof how);
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
    if (l->config->stopped)
        *l->config->stopped = true;
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

/* Serve the store where the ranks reach it. */
static enum lk_status serve(struct launcher *l)
{
    snprintf(l->address, sizeof l->address, "127.0.0.1");
    if (l->config->hosts)
        LK_PASS(lk_hosts_address(l->config->hosts, l->address, sizeof l->address));
    LK_PASS(lk_ticket_make(&l->ticket));
    return lk_store_serve(l->address, 0, l->config->ranks, &l->ticket, &l->server);
}

/* Return the run's verdict as a failure, which names the host of a rank that it names. */
static enum lk_status verdict_of(const struct launcher *l)
{
    struct lk_rank_place place = {0};
    char text[1024];
    int rank = -1;

    if (!lk_store_server_verdict(l->server, text, sizeof text))
        return LK_OK;
    if (sscanf(text, "rank %d", &rank) == 1 && rank >= 0 && rank < l->config->ranks)
        place = lk_hosts_place(l->config->hosts, rank, l->config->ranks);
    if (place.host && !strstr(text, "on host "))
        return lk_fail(LK_EPEER, "%s; rank %d is on host %s", text, rank, place.host);
    return lk_fail(LK_EPEER, "%s", text);
}

enum lk_status lk_launch(const struct lk_launch_config *config)
{
    enum lk_status st = LK_OK;
    struct launcher l = {.config = config,
                         .ops = config->hosts ? &lk_launch_ssh : &launch_local,
                         .next = {UINT64_MAX},
                         .failures = {-1, -1}};

    if (config->ranks < 1 || (config->hosts && config->ranks > config->hosts->slots))
        return lk_fail(LK_EUSAGE, "cannot launch %d ranks", config->ranks);
    LK_TRY(lk_alloc(&l.children, (size_t)config->ranks, sizeof *l.children));
    if (pipe2(l.failures, O_CLOEXEC | O_NONBLOCK) || sched_getaffinity(0, sizeof l.cpus, &l.cpus))
        LK_TRY(lk_fail(LK_EIO, "cannot launch: %s", strerror(errno)));
    l.n_cpus = CPU_COUNT(&l.cpus);
    LK_TRY(serve(&l));
    LK_TRY(take_signals(&l));
    l.whole = lk_deadline_in(config->timeout_ns);
    st = start_all(&l);
    if (st == LK_OK)
        watch(&l);
    (void)pthread_sigmask(SIG_SETMASK, &l.mask_before, NULL);
    (void)sigaction(SIGCHLD, &l.chld_before, NULL);
    if (st == LK_OK)
        st = verdict_of(&l);
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
