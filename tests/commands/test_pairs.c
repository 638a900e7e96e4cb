/* calibrate --pairs: every pair is measured, the matrix is in the file, and a slow host is named.
 */
#include "base/array.h"
#include "commands/calibrate.h"
#include "facts/cluster.h"
#include "runtime/probe/probe.h"
#include "tests/rigs/must.h"
#include "tests/rigs/program.h"
#include "tests/rigs/ranks.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/skip.h"
#include "tests/rigs/suite.h"
#include "tests/rigs/waits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

/* ---- The probe ---- */

enum { WORLD_MOST = 7, REPETITIONS = 3 };

static const struct {
    int world, members[WORLD_MOST];
    size_t n;
} tournaments[] = {
    {2, {0, 1}, 2},
    {3, {0, 1, 2}, 3},
    {4, {0, 1, 2, 3}, 4},
    {5, {0, 1, 2, 3, 4}, 5},
    {7, {1, 2, 6}, 3}, /* the others wait */
    {7, {0, 1, 2, 3, 4, 5, 6}, 7},
};

static enum lk_status probe(struct rank *me)
{
    const int i = *(const int *)me->ctx;
    const struct lk_probe_pairs_config config = {.members = tournaments[i].members,
                                                 .n_members = tournaments[i].n,
                                                 .bytes = 200001,
                                                 .effort = {REPETITIONS, 1, 0}};
    size_t n = tournaments[i].n;
    struct lk_probe_pairs out = {0};
    struct lk_store *store = NULL;
    struct lk_comm *comm = NULL;
    enum lk_status st = LK_OK;

    LK_TRY(rank_open_tcp(me, 0, me->timeout_ns, &store, &comm));
    LK_TRY(lk_probe_pairs(comm, &config, &out));
    ck_assert_uint_eq(out.n, REPETITIONS + 1);
    ck_assert_uint_eq(out.n_members, n);
    for (size_t k = 0; k < out.n; k++)
        for (size_t from = 0; from < n; from++)
            for (size_t to = 0; to < n; to++)
                ck_assert((out.Bps[(k * n + from) * n + to] > 0) == (from != to));
out:
    lk_probe_pairs_fini(&out);
    lk_comm_close(comm);
    lk_store_close(store);
    return st;
}

/* In a tournament of any size each member meets every other, in both directions; all ranks get all
 * rates. */
START_TEST(every_pair_is_measured)
{
    struct rank ranks[RANKS_MAX];
    int i = _i;

    ranks_run_threads(tournaments[i].world, WAIT_PLENTY_NS, probe, &i, ranks);
    for (int r = 0; r < tournaments[i].world; r++)
        ck_assert_msg(ranks[r].status == LK_OK, "rank %d: %s", r, ranks[r].text);
}
END_TEST

static enum lk_status wrong(struct rank *me)
{
    const struct lk_pass absent = {.to = 5, .from = -1, .bytes = 1}, own = {-1, me->rank, 1};
    const struct lk_pass unlike = {
        .to = 1 - me->rank, .from = 1 - me->rank, .bytes = (uint64_t)(1000 + me->rank)};
    struct lk_store *store = NULL;
    struct lk_comm *comm = NULL;
    enum lk_status st = LK_OK;
    double Bps;

    LK_TRY(rank_open_tcp(me, 0, me->timeout_ns, &store, &comm));
    ck_assert_int_eq(lk_comm_pass(comm, &absent, &Bps), LK_EUSAGE);
    ck_assert_int_eq(lk_comm_pass(comm, &own, &Bps), LK_EUSAGE);
    LK_TRY(lk_comm_pass(comm, &unlike, &Bps));
out:
    lk_comm_close(comm);
    lk_store_close(store);
    return st;
}

/* Ranks that are not there, and transfers on which the ends do not agree, are errors. */
START_TEST(wrong_transfers_are_refused)
{
    const struct lk_comm_config alone = {.world_size = 1};
    struct rank ranks[RANKS_MAX];
    struct lk_comm *self;
    double Bps;

    ranks_run_threads(2, WAIT_PLENTY_NS, wrong, NULL, ranks);
    for (int r = 0; r < 2; r++)
        ck_assert_int_ne(ranks[r].status, LK_OK);
    ck_assert_ptr_nonnull(strstr(ranks[0].text, "send"));
    must(lk_comm_open("self", &alone, &self));
    ck_assert_int_eq(lk_comm_pass(self, &(struct lk_pass){-1, -1, 1}, &Bps), LK_EUNSUPPORTED);
    lk_comm_close(self);
}
END_TEST

/* ---- The command ---- */

#define QUICK                                                                                      \
    "--no-overlap --no-colocation --sizes 64KiB --algorithms ring --budget 8s --timeout 60s "      \
    "--repetitions 12 --warmup 1 --pair-bytes 256KiB"

/* On one host the ranks' own pairs are measured, and no link is judged. */
START_TEST(one_host_has_no_links)
{
    struct lk_cluster c = {0};
    struct program p;
    char *path;

    program_run(&p, scratch_dir, 0, "calibrate -n 3 --pairs %s --out %s/c.json --format json",
                QUICK, scratch_dir);
    ck_assert_ptr_nonnull(strstr(p.out, "All pairs are on one host"));
    path = scratch_path(scratch_dir, "c.json");
    must(lk_cluster_read(path, &c));
    ck_assert_uint_eq(c.n_pairs, 6);
    for (size_t i = 0; i < c.n_pairs; i++) {
        ck_assert_str_ne(c.pairs[i].from, c.pairs[i].to);
        ck_assert_double_gt(c.pairs[i].bandwidth_Bps.value, 0);
    }
    lk_cluster_fini(&c);
    program_fini(&p);
    free(path);
}
END_TEST

/* A matrix says this, by what it can tell. */
START_TEST(what_is_said_of_pairs)
{
    static char slow[] = "a to and from all 1 MB/s", hosts[] = "a";
    static const struct {
        struct calibrate_pairs p;
        const char *answer, *next;
    } cases[] = {
        {{.n = 0}, NULL, NULL},
        {{.n = 4}, "on one host", NULL},
        {{.n = 2, .network = true}, "no other to be compared", NULL},
        {{.n = 4, .network = true}, "No host and no pair of 4", NULL},
        {{.n = 4, .network = true, .few = 3}, "3 repetitions are too few", NULL},
        {{.n = 4, .network = true, .few = 1}, "1 repetition is too few", NULL},
        {{.n = 4, .network = true, .few = 3, .slow = slow}, "Slow: a to", NULL},
        {{.n = 4, .network = true, .slow = slow, .exclude = hosts}, "Slow: a to", "--exclude=a"},
    };
    struct lk_page page = {0};

    for (size_t i = 0; i < LK_COUNT(cases); i++) {
        lk_page_fini(&page);
        must(calibrate_pairs_say(&cases[i].p, &page));
        ck_assert_uint_eq(page.n_answer, cases[i].answer != NULL);
        ck_assert(!cases[i].answer || strstr(page.answer[0], cases[i].answer));
        ck_assert_uint_eq(page.n_next, cases[i].next != NULL);
        ck_assert(!cases[i].next || strstr(page.next[0], cases[i].next));
    }
    lk_page_fini(&page);
}
END_TEST

/* Return the exit code of a command of the shell. */
static int shell(const char *line)
{
    int status =
        system(line); /* NOLINT(cert-env33-c): a constant of this file and a scratch path */

    ck_assert_msg(status != -1 && WIFEXITED(status), "%s", line);
    return WEXITSTATUS(status);
}

/* On hosts of a network, under another launcher: the one with a link of half the rate is named, for
 * Slurm, too; without one nobody is. */
START_TEST(a_slow_host_of_a_network_is_named)
{
    static const char *const slow[] = {"--slow 2:40mbit", ""};
    static const char *const says[] = {"exclude=node2$", "No host and no pair of 4 hosts is slow"};
    char *line = NULL;
    int code;

    must(lk_asprintf(&line,
                     "tests/net/hosts %s 4 80mbit -- unshare -u sh -c 'hostname node$RANK; exec "
                     "\"$@\"' - %s calibrate --pairs %s --out %s/c.json > %s/out 2>&1",
                     slow[_i], LK_BUILD_DIR "/lockstep", QUICK, scratch_dir, scratch_dir));
    code = shell(line);
    free(line);
    if (code == 77) {
        skip("no network namespaces here");
        return;
    }
    must(lk_asprintf(&line, "grep -q -e '%s' %s/out || { cat %s/out >&2; exit 1; }", says[_i],
                     scratch_dir, scratch_dir));
    ck_assert_int_eq(code, 0);
    ck_assert_int_eq(shell(line), 0);
    free(line);
}
END_TEST

SUITE(pairs, t)
{
    tcase_add_checked_fixture(t, scratch_set_up, scratch_tear_down);
    tcase_add_loop_test(t, every_pair_is_measured, 0, LK_COUNT(tournaments));
    tcase_add_test(t, wrong_transfers_are_refused);
    tcase_add_test(t, one_host_has_no_links);
    tcase_add_test(t, what_is_said_of_pairs);
    tcase_add_loop_test(t, a_slow_host_of_a_network_is_named, 0, 2);
}
