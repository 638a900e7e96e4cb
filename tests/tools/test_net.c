/* tests/net/hosts: virtual hosts on one machine, their links, and their removal. */
#include "base/array.h"
#include "base/file.h"
#include "base/status.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/skip.h"
#include "tests/rigs/suite.h"
#include "tests/rigs/waits.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SKIPPED = 77 };

/* Return the exit code of a shell command line. */
static int shell(const char *line)
{
    int status =
        system(line); /* NOLINT(cert-env33-c): a constant of this file and a scratch path */

    ck_assert_msg(status != -1 && WIFEXITED(status), "%s", line);
    return WEXITSTATUS(status);
}

/* Run hosts with these words; its output goes to DIR/out. */
static int hosts(const char *words)
{
    char *line = NULL;
    int code;

    ck_assert_int_eq(lk_asprintf(&line, "tests/net/hosts %s > %s/out 2>&1", words, scratch_dir),
                     LK_OK);
    code = shell(line);
    free(line);
    return code;
}

static bool printed(const char *what)
{
    char *line = NULL;
    bool found;

    ck_assert_int_eq(lk_asprintf(&line, "grep -q -e '%s' %s/out", what, scratch_dir), LK_OK);
    found = shell(line) == 0;
    free(line);
    return found;
}

static const struct {
    const char *words;
    int code;
    const char *says;
} rows[] = {
    {"0 100mbit -- true", 2, "usage"},
    {"2 100mbit", 2, "usage"},
    {"--colour red 2 100mbit -- true", 2, "usage"},
    {"2 fast -- true", 1, "fast"},
    {"3 100mbit -- sh -c 'echo $RANK of $WORLD_SIZE'", 0, "2 of 3"},
    {"2 100mbit -- sh -c 'exit $((3 * RANK))'", 3, ""},
    {"--limit 1 2 100mbit -- sleep 60", 1, "stopped"},
    {"--slow 1:10mbit 2 100mbit -- tc qdisc show dev eth0", 0, "10Mbit"},
    {"2 100mbit -- sh -c 'ip -o link | grep -vcE \": (lo|eth0)\"'", 0, "^0$"},
};

START_TEST(hosts_do_as_they_say)
{
    int code = hosts(rows[_i].words);

    if (code == SKIPPED) {
        ck_assert(printed("skipped"));
        skip("no network namespaces here");
        return;
    }
    if (strstr(rows[_i].words, "--limit"))
        ck_assert_int_ne(code, 0);
    else if (!strstr(rows[_i].words, "grep -vc"))
        ck_assert_msg(code == rows[_i].code, "'%s' gave %d", rows[_i].words, code);
    ck_assert_msg(!*rows[_i].says || printed(rows[_i].says), "'%s' does not say '%s'",
                  rows[_i].words, rows[_i].says);
}
END_TEST

/* When the script is killed, its command, its hosts and their links disappear, too. */
START_TEST(nothing_is_left_after_a_kill)
{
    char *mark = scratch_path(scratch_dir, "mark"), *line = NULL;
    int seconds = 5000000 + (int)getpid(); /* unique to this test */
    bool ended = false;
    pid_t pid = fork();

    ck_assert_int_ge(pid, 0);
    if (!pid) {
        ck_assert_int_eq(lk_asprintf(&line, "touch %s; exec sleep %d", mark, seconds), LK_OK);
        execl("tests/net/hosts", "hosts", "1", "100mbit", "--", "sh", "-c", line, (char *)NULL);
        _exit(errno);
    }
    while (!ended && !lk_file_exists(mark)) { /* if the test is skipped, it ends */
        ended = waitpid(pid, NULL, WNOHANG) == pid;
        usleep(50000);
    }
    if (!ended) {
        ck_assert_int_eq(kill(pid, SIGKILL), 0);
        waitpid(pid, NULL, 0);
        ck_assert_int_eq(lk_asprintf(&line,
                                     "for i in $(seq %d); do "
                                     "pgrep -f '^sleep %d' > /dev/null || exit 0; sleep 0.5; "
                                     "done; exit 1",
                                     2 * WAIT_PLENTY_S, seconds),
                         LK_OK);
        ck_assert_int_eq(shell(line), 0);
        free(line);
    }
    free(mark);
}
END_TEST

SUITE(net, t)
{
    tcase_add_checked_fixture(t, scratch_set_up, scratch_tear_down);
    tcase_add_loop_test(t, hosts_do_as_they_say, 0, LK_COUNT(rows));
    tcase_add_test(t, nothing_is_left_after_a_kill);
}
