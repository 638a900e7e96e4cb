/* The line of progress: at a terminal, over itself, erased in the end; nowhere else. */
#include "base/array.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/progress.h"
#include "tests/rigs/suite.h"

#include <poll.h>
#include <pty.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { COLUMNS = 40, READ_MAX = 4096 };

/* Do the work of 100 steps, begun ten seconds ago, with standard error on fd; the process ends. */
static void work(int fd, bool end)
{
    char outer[128];

    dup2(fd, STDERR_FILENO);
    snprintf(outer, sizeof outer, "%llu 0.5 1 run 2 of 2",
             (unsigned long long)(lk_monotonic_ns() - 10 * LK_NS_PER_S));
    setenv(LK_PROGRESS_ENV, outer, 1);
    lk_progress_begin(0, 1, "training a model whose name is too long for the line");
    lk_progress_begin(0, 1, "%s", "");
    lk_nap_ns(300 * LK_NS_PER_MS);
    lk_progress("step", 50, 100);
    lk_progress("step", 51, 100); /* too soon */
    lk_log(LK_LOG_MAIN, LK_WARN, "something");
    if (end)
        lk_progress_end();
    lk_progress("step", 99, 100);
    _exit(0);
}

/* Return what the process wrote to the terminal or the pipe, until it ended. */
static void read_all(int fd, char *buf)
{
    size_t used = 0;
    ssize_t n;

    while (used < READ_MAX - 1 && (n = read(fd, buf + used, READ_MAX - 1 - used)) > 0)
        used += (size_t)n;
    buf[used] = '\0';
}

START_TEST(at_a_terminal)
{
    struct winsize size = {.ws_row = 24, .ws_col = COLUMNS};
    char said[READ_MAX];
    int master, slave, status;
    pid_t pid;

    ck_assert_int_eq(openpty(&master, &slave, NULL, NULL, &size), 0);
    pid = fork();
    ck_assert_int_ge(pid, 0);
    if (!pid)
        work(slave, true);
    close(slave);
    read_all(master, said);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_ptr_nonnull(strstr(said, "\rrun 2 of 2, training a model whose nam")); /* cut */
    ck_assert_ptr_nonnull(strstr(said, "\rrun 2 of 2: step 50 of 100, 3 s left "));
    ck_assert_ptr_null(strstr(said, "step 51"));
    ck_assert_ptr_null(strstr(said, "step 99"));
    ck_assert_ptr_null(strchr(said, '\033'));
    ck_assert_ptr_nonnull(strstr(said, " \rlockstep main: warning: something\r\n"));
    for (const char *at = said; *at; at += strcspn(at, "\r\n") + 1)
        ck_assert_uint_lt(strcspn(at, "\r\n"), COLUMNS);
    close(master);
}
END_TEST

START_TEST(in_a_pipe)
{
    char said[READ_MAX];
    int ends[2], status;
    pid_t pid;

    ck_assert_int_eq(pipe(ends), 0);
    pid = fork();
    ck_assert_int_ge(pid, 0);
    if (!pid)
        work(ends[1], false);
    close(ends[1]);
    read_all(ends[0], said);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_str_eq(said, "lockstep main: warning: something\n");
    close(ends[0]);
}
END_TEST

/* A process hands a part of its work, and of its time, to one that it starts. */
START_TEST(handed_on)
{
    char buf[LK_PROGRESS_TEXT];
    unsigned long long begun_ns;
    double from, to;
    int at = 0;

    ck_assert_str_eq(lk_progress_child(1, 4, buf, "run %d of %d", 2, 4), buf);
    ck_assert_int_eq(sscanf(buf, LK_PROGRESS_ENV "=%llu %lf %lf %n", &begun_ns, &from, &to, &at),
                     3);
    ck_assert_double_eq(from, 0.25);
    ck_assert_double_eq(to, 0.5);
    ck_assert_str_eq(buf + at, "run 2 of 4");
    ck_assert_uint_le(begun_ns, lk_monotonic_ns());
}
END_TEST

SUITE(progress, t)
{
    tcase_add_test(t, at_a_terminal);
    tcase_add_test(t, in_a_pipe);
    tcase_add_test(t, handed_on);
}
