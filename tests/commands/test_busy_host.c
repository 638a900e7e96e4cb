/* Runs and calibrations beside busy loops: that the load is recorded and said. How large it is
 * depends on the machine, and is not asserted. */
#include "base/file.h"
#include "facts/cluster.h"
#include "facts/host_load.h"
#include "facts/trace.h"
#include "profiler/analysis/host_load.h"
#include "tests/rigs/foreign.h"
#include "tests/rigs/must.h"
#include "tests/rigs/program.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LOOPS_MAX = 16 };

static pid_t loops[LOOPS_MAX];

/* Keep all processors busy, of a large machine some. */
static void start_loops(void)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);

    memset(loops, 0, sizeof loops);
    for (int i = 0; i < n && i < LOOPS_MAX; i++) {
        loops[i] = fork();
        ck_assert_int_ge(loops[i], 0);
        if (!loops[i]) {
            alarm(100); /* of a test that was killed */
            for (volatile unsigned k = 0;; k++)
                ;
        }
    }
}

static void stop_loops(void)
{
    for (int i = 0; i < LOOPS_MAX && loops[i]; i++) {
        kill(loops[i], SIGKILL);
        waitpid(loops[i], NULL, 0);
    }
}

static void setup(void)
{
    scratch_set_up();
    start_loops();
}

static void teardown(void)
{
    stop_loops();
    scratch_tear_down();
}

/* Each rank has three readings, whose times only grow, and of which the first two are before the
 * counted steps. */
START_TEST(a_run_records_its_hosts)
{
    struct lk_run_set set = {0};
    struct lk_run_host *hosts = NULL;
    struct program p;
    char *dir = scratch_path(scratch_dir, "run");
    size_t n = 0;

    program_run(&p, scratch_dir, 0,
                "run -n2 -b2 --model=gpt --layers=1 --heads=2 --channels=16 --context=8 "
                "--vocab=32 --samples=4096 --no-pin --prefetch=1 --warmup=2 --steps=50 "
                "--out=%s/run",
                scratch_dir);
    program_fini(&p);
    must(lk_run_set_read((const char *const *)&dir, 1, &set));
    ck_assert_uint_eq(set.n, 1);
    for (size_t k = 0; k < set.runs[0].n; k++) {
        const struct lk_trace *t = &set.runs[0].traces[k];
        double last[LK_HOST_TIMES] = {0};
        int readings[LK_HOST_TIMES] = {0};

        ck_assert_ptr_null(lk_run_info_value(&t->info, LK_NO_LOAD_CONFIG_KEY));
        ck_assert_ptr_nonnull(lk_run_info_value(&t->info, LK_BOOT_CONFIG_KEY));
        for (size_t i = 0; i < t->n_spans; i++) {
            const struct lk_span *s = &t->spans[i].span;

            for (int time = 0; s->kind == LK_SPAN_COUNTER && time < LK_HOST_TIMES; time++)
                if (!strcmp(lk_trace_span_name(t, s), lk_host_time_name((enum lk_host_time)time))) {
                    ck_assert_double_ge(s->value, last[time]);
                    last[time] = s->value;
                    readings[time]++;
                }
        }
        for (int time = 0; time < LK_HOST_WAITED; time++) /* not every kernel tells the last */
            ck_assert_int_eq(readings[time], 3);
        ck_assert_double_gt(last[LK_HOST_OWN], 0);
    }
    must(lk_run_hosts(&set.runs[0], &hosts, &n));
    ck_assert_uint_eq(n, 1);
    ck_assert_uint_eq(hosts[0].use.n_ranks, 2);
    ck_assert_double_gt(hosts[0].use.others, 0);
    ck_assert_double_gt(hosts[0].use.processors, 0.5);
    ck_assert(isnan(hosts[0].use.waited_s) || hosts[0].use.waited_s > 0);
    if (lk_host_is_busy(&hosts[0].use)) {
        program_run(&p, scratch_dir, 0, "analyze %s", dir);
        ck_assert_ptr_nonnull(strstr(p.out, "host busy: other work took"));
        program_fini(&p);
    }
    free(hosts);
    lk_run_set_fini(&set);
    free(dir);
}
END_TEST

#define CALIBRATE                                                                                  \
    "calibrate --ranks=2 --sizes=4KiB,64KiB --repetitions=5 --budget=1s --out=%s/c%d.json"

/* A calibration says it under our launcher and under another one; points are widened in both, and
 * the file does not tell how the ranks differ. */
START_TEST(a_calibration_says_it)
{
    struct foreign f[2] = {{.rank = 0, .world_size = 2}, {.rank = 1, .world_size = 2}};
    struct program p[2];
    char *path = scratch_path(scratch_dir, "c0.json");
    struct lk_cluster c;

    if (_i == 0) {
        program_run(&p[0], scratch_dir, 0, CALIBRATE, scratch_dir, 0);
    } else {
        char *sub = scratch_path(scratch_dir, "other");
        int hold = program_hold_port(&f[0].port);

        f[1].port = f[0].port;
        must(lk_mkdirs(sub));
        program_start(&p[1], sub, foreign_as_rank, &f[1], CALIBRATE, scratch_dir, 1);
        program_start(&p[0], scratch_dir, foreign_as_rank, &f[0], CALIBRATE, scratch_dir, 0);
        program_wait(&p[1]);
        program_wait(&p[0]);
        ck_assert_int_eq(close(hold), 0);
        ck_assert_int_eq(p[1].code, 0);
        ck_assert_int_eq(p[0].code, 0);
        program_fini(&p[1]);
        free(sub);
    }
    must(lk_cluster_read(path, &c));
    /* Loops on some processors of a large machine disturb less than is said. */
    if (sysconf(_SC_NPROCESSORS_ONLN) <= LOOPS_MAX) {
        ck_assert_msg(strstr(p[0].err, "during the calibration of 2 ranks other work took") != NULL,
                      "%s", p[0].err);
        ck_assert_ptr_nonnull(strstr(c.points[0].time_s.source, "; other work took "));
        ck_assert(!lk_quantity_known(&c.rank_sd));
    }
    lk_cluster_fini(&c);
    free(path);
    program_fini(&p[0]);
}
END_TEST

SUITE(busy_host, t)
{
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, a_run_records_its_hosts);
    tcase_add_loop_test(t, a_calibration_says_it, 0, 2);
}
