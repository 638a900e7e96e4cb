/* Log lines: the levels of subsystems, and that lines of several threads do not mix. */
#include "base/array.h"
#include "base/log.h"
#include "tests/rigs/suite.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static FILE *captured;
static int stderr_before;

static void setup(void)
{
    captured = tmpfile();
    ck_assert_ptr_nonnull(captured);
    stderr_before = dup(STDERR_FILENO);
    ck_assert_int_eq(dup2(fileno(captured), STDERR_FILENO), STDERR_FILENO);
}

static void teardown(void)
{
    ck_assert_int_eq(dup2(stderr_before, STDERR_FILENO), STDERR_FILENO);
    close(stderr_before);
    fclose(captured);
    lk_log_set_rank(-1);
    ck_assert_int_eq(lk_log_configure("warn"), LK_OK);
}

/* Return the lines logged since the last call, in a static buffer. */
static const char *logged(void)
{
    static char text[65536];
    size_t n;

    rewind(captured);
    n = fread(text, 1, sizeof text - 1, captured);
    text[n] = '\0';
    ck_assert_int_eq(ftruncate(fileno(captured), 0), 0);
    rewind(captured);
    ck_assert_int_eq((int)lseek(STDERR_FILENO, 0, SEEK_SET), 0);
    return text;
}

START_TEST(lines)
{
    lk_log(LK_LOG_COMM, LK_WARN, "slow link to %d", 3);
    ck_assert_str_eq(logged(), "lockstep comm: warning: slow link to 3\n");
    lk_log(LK_LOG_MAIN, LK_ERROR, "stopped");
    ck_assert_str_eq(logged(), "lockstep main: error: stopped\n");
    lk_log(LK_LOG_COMM, LK_INFO, "nobody asked");
    ck_assert_str_eq(logged(), "");
    lk_log_set_rank(2);
    ck_assert_int_eq(lk_log_configure("debug"), LK_OK);
    lk_log(LK_LOG_SIM, LK_DEBUG, "x");
    ck_assert_str_eq(logged(), "lockstep[rank 2] sim: x\n");
}
END_TEST

START_TEST(levels_by_subsystem)
{
    ck_assert_int_eq(lk_log_configure("error,comm=debug,sim=info"), LK_OK);
    ck_assert(lk_log_enabled(LK_LOG_COMM, LK_DEBUG));
    ck_assert(lk_log_enabled(LK_LOG_SIM, LK_INFO));
    ck_assert(!lk_log_enabled(LK_LOG_SIM, LK_DEBUG));
    ck_assert(lk_log_enabled(LK_LOG_DDP, LK_ERROR));
    ck_assert(!lk_log_enabled(LK_LOG_DDP, LK_WARN));
    ck_assert_int_eq(lk_log_configure("info"), LK_OK); /* all, comm too */
    ck_assert(!lk_log_enabled(LK_LOG_COMM, LK_DEBUG));
}
END_TEST

static const char *const wrong[] = {"",         "loud",      "comm",  "comm=",       "=debug",
                                    "com=info", "comm=loud", "info,", ",info",       "info,,warn",
                                    "infox",    "inf",       "Infos", "comm=info=x", "debug,loud"};

START_TEST(wrong_levels_change_nothing)
{
    ck_assert_int_eq(lk_log_configure(wrong[_i]), LK_EUSAGE);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "levels: error warn info debug"));
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "subsystems: main device"));
    for (int i = 0; i < LK_LOG_COUNT; i++) {
        ck_assert(lk_log_enabled((enum lk_log_subsystem)i, LK_WARN));
        ck_assert(!lk_log_enabled((enum lk_log_subsystem)i, LK_INFO));
    }
}
END_TEST

START_TEST(long_lines_are_cut)
{
    char text[5000];
    const char *line;

    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    lk_log(LK_LOG_MAIN, LK_ERROR, "%s", text);
    line = logged();
    ck_assert_uint_lt(strlen(line), 2048);
    ck_assert_uint_gt(strlen(line), 2000);
    ck_assert_int_eq(line[strlen(line) - 1], '\n');
    ck_assert_ptr_eq(strchr(line, '\n'), line + strlen(line) - 1);
}
END_TEST

START_TEST(errno_survives)
{
    errno = ENOSPC;
    close(STDERR_FILENO); /* write fails with EBADF */
    lk_log(LK_LOG_MAIN, LK_ERROR, "x");
    ck_assert_int_eq(errno, ENOSPC);
}
END_TEST

enum { THREADS = 4, LINES = 100 };

static void *log_many(void *argument)
{
    const int *number = argument;

    for (int i = 0; i < LINES; i++)
        lk_log(LK_LOG_MAIN, LK_ERROR, "thread %d line %03d ends", *number, i);
    return NULL;
}

START_TEST(lines_of_threads_do_not_mix)
{
    pthread_t threads[THREADS];
    int numbers[THREADS];
    int next[THREADS] = {0};
    int count = 0;

    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        ck_assert_int_eq(pthread_create(&threads[i], NULL, log_many, &numbers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    for (const char *line = logged(); *line; line = strchr(line, '\n') + 1) {
        int thread;
        int number;
        char end[8];

        ck_assert_int_eq(
            sscanf(line, "lockstep main: error: thread %d line %d %7s", &thread, &number, end), 3);
        ck_assert_str_eq(end, "ends");
        ck_assert_int_eq(number, next[thread]++);
        count++;
    }
    ck_assert_int_eq(count, THREADS * LINES);
}
END_TEST

SUITE(log, c)
{
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, lines);
    tcase_add_test(c, levels_by_subsystem);
    tcase_add_loop_test(c, wrong_levels_change_nothing, 0, (int)LK_COUNT(wrong));
    tcase_add_test(c, long_lines_are_cut);
    tcase_add_test(c, errno_survives);
    tcase_add_test(c, lines_of_threads_do_not_mix);
}
