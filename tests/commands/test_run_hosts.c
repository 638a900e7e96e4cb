/* lockstep run --hosts: ranks on other hosts, with a script in ssh's place. */
#include "base/array.h"
#include "base/file.h"
#include "tests/rigs/far_ssh.h"
#include "tests/rigs/must.h"
#include "tests/rigs/program.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/shell.h"
#include "tests/rigs/skip.h"
#include "tests/rigs/suite.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MODEL                                                                                      \
    "--model=gpt --layers=1 --heads=2 --channels=16 --context=8 --vocab=32 --samples=4096 -b2 "    \
    "--prefetch=0 "
#define SHORT MODEL "--steps=5 --warmup=1 "
#define LONG  MODEL "--input-delay=20ms --steps=72000 --no-trace "

static void set_up(void)
{
    scratch_set_up();
    far_ssh_put();
}

static void ends(struct program *p, int code, const char *says)
{
    program_wait(p);
    ck_assert_msg(p->code == code, "exit code %d: %s", p->code, p->err);
    ck_assert_msg(strstr(p->err, says) != NULL, "no '%s' in: %s", says, p->err);
    ck_assert_int_eq(program_left(p), 0);
    program_fini(p);
}

/* Three ranks on two hosts train and leave one run, in a folder whose name no shell leaves alone;
 * no command line has the secret. */
START_TEST(ranks_on_hosts)
{
    const char odd[] = "o'$(date)`\"*";
    struct program p;
    char *log, *trace;

    program_start(&p, scratch_dir, far_ssh_set_up, NULL, "run --hosts=a:2,b --out=%s/%s " SHORT,
                  scratch_dir, odd);
    ends(&p, 0, "");
    must(lk_asprintf(&trace, "%s/%s/k3-b2-a1-r0/rank2.trace.json.gz", scratch_dir, odd));
    ck_assert(lk_file_exists(trace));
    free(trace);
    must(lk_asprintf(&trace, "%s/%s/k3-b2-a1-r0/.lockstep-claim", scratch_dir, odd));
    ck_assert(!lk_file_exists(trace));
    free(trace);
    log = scratch_read(scratch_dir, "log");
    ck_assert_ptr_nonnull(strstr(log, "-o BatchMode=yes -o ConnectTimeout=10"));
    ck_assert_ptr_nonnull(strstr(log, " a exec /bin/sh\n"));
    ck_assert_ptr_nonnull(strstr(log, " b exec /bin/sh\n"));
    ck_assert_ptr_null(strstr(log, "SECRET"));
    free(log);
}
END_TEST

static const struct {
    const char *words, *says;
    int code;
} failures[] = {
    {"run --hosts=a,down " SHORT, "rank 1 on host down could not be started: ssh failed", 1},
    {"run --hosts=a,far " SHORT, "does not see the launcher's folder as /nowhere", 1},
    {"run --hosts=a:2,b -n 4 " SHORT, "--hosts has 3 slots, too few for 4 ranks", 2},
    {"run --hosts=a,-x " SHORT, "--hosts: '-x' is not the name of a host", 2},
    {"run --ssh=rsh " SHORT, "--ssh needs --hosts", 2},
    {"run --hosts=a --ssh=/no/such/ssh " SHORT, "could not be started: No such file", 1},
    /* The second rank fails by itself: its host is named. */
    {"run --hosts=a,b --fault=fail:call=12,rank=1 " SHORT, "on host b", 1},
};

START_TEST(what_goes_wrong)
{
    struct program p;

    program_start(&p, scratch_dir, far_ssh_set_up, NULL, "%s --out=%s/run", failures[_i].words,
                  scratch_dir);
    ends(&p, failures[_i].code, failures[_i].says);
}
END_TEST

/* A rank that is killed is named with its host; one that is stopped ends with the launcher. */
START_TEST(a_rank_is_killed)
{
    struct program p;

    program_start(&p, scratch_dir, far_ssh_set_up, NULL, "run --hosts=a:2,b --out=%s/run " LONG,
                  scratch_dir);
    for (int r = 0; r < 3; r++)
        ck_assert_int_ne(program_rank(&p, r), 0);
    ck_assert_int_eq(kill(program_rank(&p, 2), SIGKILL), 0);
    ends(&p, 1, "on host b");
}
END_TEST

static const struct {
    int sig, rank_sig;
} launchers[] = {{SIGKILL, 0}, {SIGTERM, 0}, {SIGKILL, SIGSTOP}};

START_TEST(no_rank_outlives_the_launcher)
{
    struct program p;

    program_start(&p, scratch_dir, far_ssh_set_up, NULL, "run --hosts=a:2,b --out=%s/run " LONG,
                  scratch_dir);
    for (int r = 0; r < 3; r++)
        ck_assert_int_ne(program_rank(&p, r), 0);
    if (launchers[_i].rank_sig)
        ck_assert_int_eq(kill(program_rank(&p, 1), launchers[_i].rank_sig), 0);
    ck_assert_int_eq(kill(p.pid, launchers[_i].sig), 0);
    program_wait(&p);
    ck_assert_int_eq(program_left(&p), 0);
    program_fini(&p);
}
END_TEST

/* Two hosts of their own networks, with an sshd each: ranks of both meet at the address that the
 * first takes to the second, and a rank that fails is named with its host. */
static const struct {
    const char *options, *says;
    int code;
} by_sshd[] = {
    {"", "", 0},
    {"--fault=kill:call=12,rank=3", "on host 10.77.0.2", 1},
};

START_TEST(hosts_with_sshd)
{
    char *program = realpath(LK_BUILD_DIR "/lockstep", NULL);
    struct shell_result r;

    ck_assert_ptr_nonnull(program);
    r = shell_run("tests/net/ssh %s %s/keys " SHORT "--out=%s/run %s 2>&1", program, scratch_dir,
                  scratch_dir, by_sshd[_i].options);
    free(program);
    if (r.code == 77) {
        skip("%.*s", (int)strcspn(r.text, "\n"), r.text);
        return;
    }
    ck_assert_msg(r.code == by_sshd[_i].code && strstr(r.text, by_sshd[_i].says), "code %d: %s",
                  r.code, r.text);
}
END_TEST

SUITE(run_hosts, c)
{
    tcase_add_checked_fixture(c, set_up, scratch_tear_down);
    tcase_add_test(c, ranks_on_hosts);
    tcase_add_loop_test(c, what_goes_wrong, 0, (int)LK_COUNT(failures));
    tcase_add_test(c, a_rank_is_killed);
    tcase_add_loop_test(c, no_rank_outlives_the_launcher, 0, (int)LK_COUNT(launchers));
    tcase_add_loop_test(c, hosts_with_sshd, 0, (int)LK_COUNT(by_sshd));
}
