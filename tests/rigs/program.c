#include "tests/rigs/program.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/units.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/waits.h"

#include <arpa/inet.h>
#include <check.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORDS_MAX = 64 };

static void redirect(const char *path, int to)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    if (fd < 0 || dup2(fd, to) < 0)
        _exit(125);
    close(fd);
}

static void start(struct program *p, const char *dir, program_setup setup, void *ctx,
                  const char *format, va_list ap)
{
    static const char program[] = LK_BUILD_DIR "/lockstep";
    char line[2048];
    char *words[WORDS_MAX] = {(char *)(uintptr_t)program};
    char *rest = line;
    size_t n = 1;

    memset(p, 0, sizeof *p);
    ck_assert_int_lt(vsnprintf(line, sizeof line, format, ap), (int)sizeof line);
    while (n < WORDS_MAX - 1 && (words[n] = strsep(&rest, " ")) != NULL)
        if (*words[n])
            n++;
    words[n] = NULL;
    p->out_path = scratch_path(dir, "stdout");
    p->err_path = scratch_path(dir, "stderr");
    ck_assert_int_eq(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    p->pid = fork();
    ck_assert_int_ge(p->pid, 0);
    if (p->pid == 0) {
        setpgid(0, 0);
        (void)signal(SIGHUP, SIG_DFL); /* nohup ignores it, and a shell cannot trap it then */
        redirect(p->out_path, STDOUT_FILENO);
        redirect(p->err_path, STDERR_FILENO);
        if (setup)
            setup(ctx);
        execv(program, words);
        _exit(126);
    }
    setpgid(p->pid, p->pid); /* parent and child both call this: whichever is first */
}

void program_start(struct program *p, const char *dir, program_setup setup, void *ctx,
                   const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    start(p, dir, setup, ctx, format, ap);
    va_end(ap);
}

static void nap(void)
{
    lk_sleep_until_ns(lk_monotonic_ns() + 2 * LK_NS_PER_MS);
}

void program_wait(struct program *p)
{
    struct lk_deadline end = lk_deadline_in(WAIT_PLENTY_NS);
    int status = 0;
    pid_t got;
    size_t size;

    while ((got = waitpid(p->pid, &status, WNOHANG)) == 0 && lk_deadline_left_ns(end) > 0)
        nap();
    if (got == 0) {
        kill(-p->pid, SIGKILL);
        ck_abort_msg("the program did not end within %d s", WAIT_PLENTY_S);
    }
    ck_assert_int_eq(got, p->pid);
    p->code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    p->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    ck_assert_int_eq(lk_file_read(p->out_path, &p->out, &size), LK_OK);
    ck_assert_int_eq(lk_file_read(p->err_path, &p->err, &size), LK_OK);
}

void program_fini(struct program *p)
{
    free(p->out_path);
    free(p->err_path);
    free(p->out);
    free(p->err);
    memset(p, 0, sizeof *p);
}

/* Find the process group of a process; false when it is gone. */
static bool process_group(const char *pid, pid_t *group)
{
    char path[64];
    char text[512];
    const char *after;
    long pgrp;
    FILE *f;
    size_t n;

    snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
    f = fopen(path, "r");
    if (!f)
        return false;
    n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = '\0';
    after = strrchr(text, ')'); /* the name before it may hold anything */
    if (!after || sscanf(after, ") %*c %*d %ld", &pgrp) != 1)
        return false;
    *group = (pid_t)pgrp;
    return true;
}

/* Call `see` for every process of the group until it returns false. */
static void each_process(pid_t group, bool (*see)(pid_t pid, void *ctx), void *ctx)
{
    DIR *proc = opendir("/proc");
    const struct dirent *entry;

    ck_assert_ptr_nonnull(proc);
    while ((entry = readdir(proc)) != NULL) {
        pid_t of;

        if (!isdigit((unsigned char)entry->d_name[0]) || !process_group(entry->d_name, &of) ||
            of != group)
            continue;
        if (!see((pid_t)strtol(entry->d_name, NULL, 10), ctx))
            break;
    }
    closedir(proc);
}

static bool count(pid_t pid, void *ctx)
{
    (void)pid;
    (*(int *)ctx)++;
    return true;
}

int program_left(const struct program *p)
{
    struct lk_deadline end = lk_deadline_in(WAIT_PLENTY_NS);
    int n;

    for (;;) {
        /* A process whose main thread is a zombie may live on in its other threads: only one that
         * was waited for is gone. */
        while (waitpid(-p->pid, NULL, WNOHANG) > 0)
            ;
        n = 0;
        each_process(p->pid, count, &n);
        if (n == 0 || lk_deadline_left_ns(end) == 0)
            return n;
        nap();
    }
}

struct wanted {
    char entry[32]; /* "RANK=1" */
    pid_t pid;
};

static bool is_rank(pid_t pid, void *ctx)
{
    struct wanted *w = ctx;
    char path[64];
    char *text = NULL;
    size_t size = 0;

    snprintf(path, sizeof path, "/proc/%ld/environ", (long)pid);
    if (lk_file_read(path, &text, &size) != LK_OK)
        return true;
    for (size_t at = 0; at < size; at += strlen(text + at) + 1)
        if (!strcmp(text + at, w->entry))
            w->pid = pid;
    free(text);
    return w->pid == 0;
}

pid_t program_rank(const struct program *p, int rank)
{
    struct lk_deadline end = lk_deadline_in(WAIT_PLENTY_NS);
    struct wanted w = {.pid = 0};

    snprintf(w.entry, sizeof w.entry, "RANK=%d", rank);
    for (;;) {
        each_process(p->pid, is_rank, &w);
        if (w.pid || lk_deadline_left_ns(end) == 0)
            return w.pid;
        nap();
    }
}

int program_hold_port(int *port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int one = 1;

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one), 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&a, &size), 0);
    *port = ntohs(a.sin_port);
    return fd;
}

void program_run(struct program *p, const char *dir, int code, const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    start(p, dir, NULL, NULL, format, ap);
    va_end(ap);
    program_wait(p);
    ck_assert_msg(p->code == code, "exit code %d, signal %d, expected %d; it said:\n%s", p->code,
                  p->signal, code, p->err);
}

void program_assert_says(const struct program *p, const char *words)
{
    ck_assert_msg(strstr(p->err, words) != NULL, "no '%s' in:\n%s", words, p->err);
}

int program_error_lines(const struct program *p)
{
    int n = 0;

    for (const char *at = p->err; (at = strstr(at, "lockstep run: ")) != NULL; at++)
        n++;
    return n;
}
