/* Run a job as a child; see the header. */
#include "commands/profile_job.h"

#include "base/array.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NOT_THERE = 127, NOT_EXECUTABLE = 126, BY_SIGNAL = 128 };

static const int handed_on[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

struct job {
    const char *const *command;
    char **environment; /* the strings are borrowed */
    int failure[2];     /* pipe: errno of a command that cannot be executed */
    int signals;        /* signalfd */
    sigset_t mask_before;
    struct sigaction chld_before;
    struct pollfd *polled; /* the signals, then the watches */
    pid_t pid;             /* 0: it has ended */
    int exit_status;
};

/* ---- Its environment ---- */

static bool is_set_in(const char *entry, const char *const *list, size_t n)
{
    size_t length = strcspn(entry, "=") + 1;

    for (size_t i = 0; i < n; i++)
        if (!strncmp(entry, list[i], length))
            return true;
    return false;
}

static enum lk_status make_environment(const char *const *more, size_t n_more, char ***out)
{
    size_t n = 0;

    while (environ[n])
        n++;
    LK_PASS(lk_alloc(out, n + n_more + 1, sizeof **out));
    n = 0;
    for (char **e = environ; *e; e++)
        if (!is_set_in(*e, more, n_more))
            (*out)[n++] = *e;
    for (size_t i = 0; i < n_more; i++)
        (*out)[n++] = (char *)(uintptr_t)more[i];
    return LK_OK;
}

/* ---- Start and signals ---- */

static enum lk_status take_signals(struct job *j)
{
    const struct sigaction normal = {.sa_handler = SIG_DFL};
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    for (size_t i = 0; i < LK_COUNT(handed_on); i++)
        sigaddset(&set, handed_on[i]);
    /* While SIGCHLD is ignored, children leave no exit status. */
    if (sigaction(SIGCHLD, &normal, &j->chld_before) ||
        sigprocmask(SIG_BLOCK, &set, &j->mask_before))
        return lk_fail(LK_EIO, "cannot block signals: %s", strerror(errno));
    j->signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    if (j->signals < 0)
        return lk_fail(LK_EIO, "cannot wait for signals: %s", strerror(errno));
    return LK_OK;
}

static void give_signals_back(const struct job *j)
{
    (void)sigprocmask(SIG_SETMASK, &j->mask_before, NULL);
    (void)sigaction(SIGCHLD, &j->chld_before, NULL);
}

/* Become the command: the child's part. */
static void execute(const struct job *j)
{
    int reason;

    give_signals_back(j);
    (void)execvpe(j->command[0], (char *const *)(uintptr_t)j->command, j->environment);
    reason = errno;
    if (write(j->failure[1], &reason, sizeof reason) < 0)
        _exit(NOT_EXECUTABLE);
    _exit(reason == ENOENT ? NOT_THERE : NOT_EXECUTABLE);
}

static enum lk_status start(struct job *j)
{
    if (pipe2(j->failure, O_CLOEXEC | O_NONBLOCK))
        return lk_fail(LK_EIO, "cannot make a pipe: %s", strerror(errno));
    j->pid = fork();
    if (j->pid < 0) {
        j->pid = 0;
        return lk_fail(LK_EIO, "cannot start %s: %s", j->command[0], strerror(errno));
    }
    if (!j->pid)
        execute(j);
    return LK_OK;
}

/* ---- Its end ---- */

static void reap(struct job *j)
{
    int status;

    if (waitpid(j->pid, &status, WNOHANG) != j->pid)
        return;
    j->pid = 0;
    j->exit_status = WIFSIGNALED(status) ? BY_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
}

/* Handle the signals that have come. */
static void handle_signals(struct job *j)
{
    struct signalfd_siginfo info;

    while (j->pid && read(j->signals, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo == SIGCHLD)
            reap(j);
        else if (info.ssi_code != SI_KERNEL) /* the terminal's reach the whole process group */
            (void)kill(j->pid, (int)info.ssi_signo);
    }
}

/* Wait for the job's end, and serve the watches meanwhile. */
static enum lk_status wait_for_end(struct job *j, const struct profile_watch *watches, size_t n,
                                   const struct profile_tick *tick)
{
    LK_PASS(lk_alloc(&j->polled, n + 1, sizeof *j->polled));
    j->polled[0] = (struct pollfd){.fd = j->signals, .events = POLLIN};
    for (size_t i = 0; i < n; i++)
        j->polled[i + 1] = (struct pollfd){.fd = watches[i].descriptor, .events = POLLIN};
    while (j->pid) {
        int left_ms = tick ? (int)(1e3 * fmin(tick->left_s(tick->ctx), 1)) + 1 : -1;
        int ready = poll(j->polled, n + 1, left_ms);

        if (ready < 0 && errno != EINTR)
            return lk_fail(LK_EIO, "cannot wait for the job: %s", strerror(errno));
        if (ready < 0)
            continue;
        for (size_t i = 0; i < n; i++) {
            if (j->polled[i + 1].revents & POLLIN)
                watches[i].serve(watches[i].ctx);
            else if (j->polled[i + 1].revents)
                j->polled[i + 1].fd = -1; /* broken: poll would return for ever */
        }
        handle_signals(j);
        if (tick && j->pid && tick->left_s(tick->ctx) <= 0)
            tick->call(tick->ctx);
    }
    return LK_OK;
}

enum lk_status profile_job_run(const char *const *command, const char *const *more, size_t n_more,
                               const struct profile_watch *watches, size_t n_watches,
                               const struct profile_tick *tick, int *exit_status)
{
    struct job j = {.command = command, .failure = {-1, -1}, .signals = -1};
    enum lk_status st = LK_OK;
    bool taken = false;
    int reason;

    LK_TRY(make_environment(more, n_more, &j.environment));
    taken = true;
    LK_TRY(take_signals(&j));
    LK_TRY(start(&j));
    LK_TRY(wait_for_end(&j, watches, n_watches, tick));
    *exit_status = j.exit_status;
    if (read(j.failure[0], &reason, sizeof reason) == (ssize_t)sizeof reason)
        st = lk_fail(LK_EIO, "cannot run %s: %s", command[0], strerror(reason));
out:
    if (taken)
        give_signals_back(&j);
    for (int i = 0; i < 2; i++)
        if (j.failure[i] >= 0)
            close(j.failure[i]);
    if (j.signals >= 0)
        close(j.signals);
    free(j.polled);
    free(j.environment);
    return st;
}
