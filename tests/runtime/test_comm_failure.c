/*
 * Messages of a communicator's ranks when one of them is killed, stopped, late, gone or absent: all
 * ranks report the same, in time, and correctly.
 */
#include "base/rng.h"
#include "runtime/comm/comm.h"
#include "runtime/rendezvous/net.h"
#include "runtime/rendezvous/ticket.h"
#include "tests/rigs/culprit.h"
#include "tests/rigs/ranks.h"
#include "tests/rigs/suite.h"
#include "tests/rigs/waits.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORLD = 3, CULPRIT = 1, CALLS = 8, AT = 5 };

struct scene {
    enum culprit_way way;
    enum lk_coll coll;
    enum lk_algo algo;
    size_t count;
};

static bool stalls(const struct scene *s)
{
    return s->way == STOPPED || s->way == LATE;
}

static enum lk_status play(struct rank *me)
{
    const struct scene *s = me->ctx;
    uint64_t timeout_ns = stalls(s) ? WAIT_SHORT_NS : WAIT_PLENTY_NS;
    struct lk_store *store = NULL;
    struct lk_comm *c = NULL;
    enum lk_status st = LK_OK;
    size_t parts = s->coll == LK_ALL_GATHER || s->coll == LK_REDUCE_SCATTER ? WORLD : 1;
    float *buf = calloc(parts * s->count + 1, sizeof *buf);

    LK_TRY(rank_open_tcp(me, 0, timeout_ns, &store, &c));
    for (int i = 0; i < CALLS; i++) {
        struct lk_coll_call call = {.coll = s->coll,
                                    .algo = s->algo,
                                    .dtype = LK_F32,
                                    .buf = buf,
                                    .count = s->count,
                                    .index = -1};

        if (i == AT && me->rank == CULPRIT)
            LK_TRY(culprit_go(s->way, store));
        LK_TRY(lk_comm_run(c, &call));
    }
out:
    if (st != LK_OK && c && me->rank != CULPRIT) { /* a dead communicator repeats its error */
        char first[1024];

        snprintf(first, sizeof first, "%s", lk_error_text());
        if (lk_comm_run(c, &(struct lk_coll_call){.coll = LK_BARRIER}) != st ||
            strcmp(first, lk_error_text()) != 0)
            st = lk_fail(LK_EVERIFY, "after '%s' comes '%s'", first, lk_error_text());
    }
    lk_comm_close(c);
    lk_store_close(store);
    free(buf);
    return st;
}

static const char *const says[] = {
    [KILLED] = "rank 1 was killed by signal 9",
    [STOPPED] = "rank 1 did not answer: stopped, or busy outside of collectives",
    [LATE] = "rank 1 did not answer: stopped, or busy outside of collectives",
    [LEAVES] = "rank 1 left the run before the others",
    [REPORTS] = "rank 1 failed: disk full",
};

static const struct scene scenes[] = {
    {KILLED, LK_ALL_REDUCE, LK_ALGO_RING, 1 << 20},
    {KILLED, LK_ALL_REDUCE, LK_ALGO_TREE, 10},
    {KILLED, LK_BROADCAST, LK_ALGO_RING,
     1 << 22}, /* more than sockets hold: the root may be ahead */
    {KILLED, LK_REDUCE_SCATTER, LK_ALGO_AUTO, 1 << 20},
    {KILLED, LK_ALL_GATHER, LK_ALGO_AUTO, 1 << 20},
    {KILLED, LK_BARRIER, LK_ALGO_AUTO, 0},
    {STOPPED, LK_ALL_REDUCE, LK_ALGO_RING, 1 << 16},
    {LATE, LK_ALL_REDUCE, LK_ALGO_TREE, 100},
    {LEAVES, LK_ALL_REDUCE, LK_ALGO_RING, 100000},
    {REPORTS, LK_ALL_REDUCE, LK_ALGO_AUTO, 100000},
};

/* Check a text "COLLECTIVE N: WHAT". N is AT or near it: a rank may learn of the failure
 * early, or be ahead as a root. */
static void assert_says(const char *text, enum lk_coll coll, const char *what)
{
    const char *name = lk_coll_name(coll);
    char *end;

    ck_assert_msg(!strncmp(text, name, strlen(name)), "%s", text);
    ck_assert_msg(strtol(text + strlen(name), &end, 10) < CALLS, "%s", text);
    ck_assert_msg(!strncmp(end, ": ", 2) && !strncmp(end + 2, what, strlen(what)), "%s", text);
}

START_TEST(all_name_the_culprit)
{
    struct scene scene = scenes[_i];
    struct rank ranks[RANKS_MAX];

    culprit_run(WORLD, CULPRIT, (int)scene.way, play, &scene, ranks);
    for (int r = 0; r < WORLD; r++) {
        if (r == CULPRIT)
            continue;
        ck_assert_msg(ranks[r].status == (stalls(&scene) ? LK_ETIMEOUT : LK_EPEER), "rank %d: %s",
                      r, ranks[r].text);
        assert_says(ranks[r].text, scene.coll, says[scene.way]);
    }
    if (scene.way == KILLED)
        ck_assert_int_eq(WTERMSIG(ranks[CULPRIT].wait_status), SIGKILL);
    else if (stalls(&scene)) /* it learns the others' verdict on it */
        ck_assert_ptr_nonnull(strstr(ranks[CULPRIT].text, "rank 1 did not answer"));
}
END_TEST

/* ---- kills at random moments ---- */

static enum lk_status run_until_stopped(struct rank *me)
{
    struct lk_store *store = NULL;
    struct lk_comm *c = NULL;
    enum lk_status st = LK_OK;
    size_t count = 300000;
    float *buf = calloc(count * WORLD, sizeof *buf);
    static const enum lk_coll colls[] = {LK_ALL_REDUCE, LK_ALL_GATHER, LK_BROADCAST, LK_BARRIER,
                                         LK_ALL_REDUCE};

    LK_TRY(rank_open_tcp(me, 0, me->timeout_ns, &store, &c));
    for (uint64_t i = 0;; i++) {
        struct lk_coll_call call = {.coll = colls[i % 5],
                                    .dtype = LK_F32,
                                    .buf = buf,
                                    .count = i % 5 == 4 ? 10 : count,
                                    .root = (int)(i % WORLD),
                                    .index = -1};

        LK_TRY(lk_comm_run(c, &call));
    }
out:
    lk_comm_close(c);
    lk_store_close(store);
    free(buf);
    return st;
}

struct shot {
    int victim;
    unsigned after_us;
};

static void shoot(struct rank *ranks, void *ctx)
{
    const struct shot *s = ctx;

    usleep(s->after_us);
    kill(ranks[s->victim].pid, SIGKILL);
}

START_TEST(random_kills)
{
    struct lk_rng g = lk_rng_init(5, (uint64_t)_i);
    struct shot s = {.victim = (int)lk_rng_below(&g, WORLD),
                     .after_us = (unsigned)lk_rng_below(&g, 60000)};
    struct rank ranks[RANKS_MAX];
    char verdict[64];

    snprintf(verdict, sizeof verdict, "rank %d was killed by signal 9", s.victim);
    ranks_run_processes(WORLD, WAIT_PLENTY_NS, run_until_stopped, &s, 1, shoot, ranks);
    for (int r = 0; r < WORLD; r++) {
        const char *end;

        if (r == s.victim)
            continue;
        ck_assert_msg(ranks[r].status == LK_EPEER, "%s", ranks[r].text);
        end = strstr(ranks[r].text, verdict);
        ck_assert_msg(end && !strcmp(end, verdict), "rank %d: %s", r, ranks[r].text);
    }
}
END_TEST

/* ---- rendezvous ---- */

/* Rank 1 never arrives. Rank 0, the only one with a short timeout, waits until the last rank is
 * about to enter the rendezvous' barrier, so that this barrier times out. */
static enum lk_status one_stays_away(struct rank *me)
{
    struct rank impatient = *me;
    struct lk_store *store = NULL;
    struct lk_comm *c = NULL;
    enum lk_status st = LK_OK;
    void *where = NULL;
    size_t bytes;

    if (me->rank == 0) {
        impatient.timeout_ns = WAIT_SHORT_NS;
        LK_TRY(rank_connect(&impatient, &store));
        while ((st = lk_store_get(store, "comm 0 rank 2", &where, &bytes)) == LK_ETIMEOUT)
            ;
        free(where);
        LK_TRY(st);
        LK_TRY(lk_comm_open("tcp",
                            &(struct lk_comm_config){.rank = me->rank,
                                                     .world_size = me->world_size,
                                                     .timeout_ns = me->timeout_ns,
                                                     .store = store},
                            &c));
    } else if (me->rank != CULPRIT) {
        st = rank_open_tcp(me, 0, me->timeout_ns, &store, &c);
    }
out:
    lk_comm_close(c);
    lk_store_close(store);
    return st;
}

START_TEST(a_rank_that_never_arrives)
{
    struct rank ranks[RANKS_MAX];

    ranks_run_threads(WORLD, WAIT_PLENTY_NS, one_stays_away, NULL, ranks);
    for (int r = 0; r < WORLD; r += 2) {
        ck_assert_int_eq(ranks[r].status, LK_ETIMEOUT);
        ck_assert_str_eq(ranks[r].text, "rank 1 never arrived at the rendezvous of communicator 0 "
                                        "within 3.0 s");
    }
}
END_TEST

/* Rank 1 publishes an address where nothing listens, as if it had died since, and is killed once
 * the last rank has passed the rendezvous and tries to connect. */
static enum lk_status dies_before_connections(struct rank *me)
{
    static const char nowhere[] = "1 127.0.0.1"; /* port 1 */
    struct lk_store *store = NULL;
    struct lk_comm *c = NULL;
    enum lk_status st = LK_OK;

    if (me->rank != CULPRIT)
        return rank_open_tcp(me, 0, me->timeout_ns, &store, &c);
    LK_TRY(rank_connect(me, &store));
    LK_TRY(lk_store_set(store, "comm 0 rank 1", nowhere, sizeof nowhere));
    LK_TRY(lk_store_barrier(store, "the rendezvous of communicator 0"));
    raise(SIGKILL);
out:
    return st;
}

START_TEST(a_rank_that_dies_before_connections)
{
    struct rank ranks[RANKS_MAX];

    ranks_run_processes(WORLD, WAIT_PLENTY_NS, dies_before_connections, NULL, 1, NULL, ranks);
    for (int r = 0; r < WORLD; r++) {
        if (r == CULPRIT)
            continue;
        ck_assert_msg(ranks[r].status == LK_EPEER, "rank %d: %s", r, ranks[r].text);
        ck_assert_ptr_nonnull(strstr(ranks[r].text, "rank 1 was killed by signal 9"));
    }
}
END_TEST

/* Rank 1 listens and is at the rendezvous, but accepts nobody and is silent until the others have
 * given up, as if it were stopped between the two. */
static enum lk_status is_silent_before_connections(struct rank *me)
{
    atomic_int *given_up = me->ctx;
    struct lk_store *store = NULL;
    struct lk_comm *c = NULL;
    enum lk_status st = LK_OK;
    char where[64];
    int fd = -1, port;

    if (me->rank != CULPRIT) {
        st = rank_open_tcp(me, 0, WAIT_SHORT_NS, &store, &c);
        atomic_fetch_add(given_up, 1);
        goto out;
    }
    LK_TRY(rank_connect(me, &store));
    LK_TRY(lk_net_listen("127.0.0.1", 0, WORLD, &fd, &port));
    snprintf(where, sizeof where, "%d 127.0.0.1", port);
    LK_TRY(lk_store_set(store, "comm 0 rank 1", where, strlen(where) + 1));
    LK_TRY(lk_store_barrier(store, "the rendezvous of communicator 0"));
    for (int i = 0; i < 6000 && atomic_load(given_up) < WORLD - 1; i++)
        usleep(10000);
out:
    if (fd >= 0)
        close(fd);
    lk_comm_close(c);
    lk_store_close(store);
    return st;
}

START_TEST(a_rank_that_is_silent_before_connections)
{
    struct rank ranks[RANKS_MAX];
    atomic_int given_up = 0;

    ranks_run_threads(WORLD, WAIT_PLENTY_NS, is_silent_before_connections, &given_up, ranks);
    for (int r = 0; r < WORLD; r += 2) {
        ck_assert_msg(ranks[r].status == LK_ETIMEOUT, "rank %d: %s", r, ranks[r].text);
        ck_assert_msg(strstr(ranks[r].text, "rank 1 did not answer") != NULL, "%s", ranks[r].text);
    }
}
END_TEST

/* The last rank first makes connections as a stranger: silent and talkative ones, and thieves. */
static enum lk_status with_strangers(struct rank *me)
{
    struct lk_store *store = NULL;
    struct lk_comm *c = NULL;
    struct lk_comm_config config = {
        .rank = me->rank, .world_size = me->world_size, .timeout_ns = me->timeout_ns};
    enum lk_status st = LK_OK;
    int strangers[15], n = 0, port;
    char *where = NULL;
    size_t bytes;
    float x = 1;

    LK_TRY(rank_connect(me, &store));
    if (me->rank == WORLD - 1) {
        LK_TRY(lk_store_get(store, "comm 0 rank 0", (void **)&where, &bytes));
        port = atoi(where);
        for (; n < 15; n++) {
            struct lk_deadline soon = lk_deadline_in(me->timeout_ns);
            static const char junk[100] = "GET / HTTP/1.1\r\n";
            /* A rank's greeting, and a proof of nothing. */
            static const struct {
                uint64_t comm;
                uint32_t from, to;
                char nonce[LK_NONCE_BYTES], proof[LK_PROOF_BYTES];
            } thief = {.from = WORLD - 1};

            LK_TRY(lk_net_connect("127.0.0.1", port, soon, &strangers[n]));
            if (n % 3 == 1)
                LK_TRY(lk_net_send(strangers[n], junk, sizeof junk, soon));
            if (n % 3 == 2)
                LK_TRY(lk_net_send(strangers[n], &thief, sizeof thief, soon));
        }
    }
    config.store = store;
    LK_TRY(lk_comm_open("tcp", &config, &c));
    LK_TRY(lk_comm_run(c, &(struct lk_coll_call){.dtype = LK_F32, .buf = &x, .count = 1}));
    if (x < WORLD || x > WORLD)
        st = lk_fail(LK_EVERIFY, "the sum is %g", (double)x);
out:
    while (n)
        close(strangers[--n]);
    free(where);
    lk_comm_close(c);
    lk_store_close(store);
    return st;
}

START_TEST(strangers_are_refused)
{
    struct rank ranks[RANKS_MAX];

    ranks_run_threads(WORLD, WAIT_PLENTY_NS, with_strangers, NULL, ranks);
    for (int r = 0; r < WORLD; r++)
        ck_assert_msg(ranks[r].status == LK_OK, "rank %d: %s", r, ranks[r].text);
}
END_TEST

SUITE(comm_failure, c)
{
    tcase_add_loop_test(c, all_name_the_culprit, 0, (int)(sizeof scenes / sizeof *scenes));
    tcase_add_loop_test(c, random_kills, 0, 24);
    tcase_add_test(c, a_rank_that_never_arrives);
    tcase_add_test(c, a_rank_that_dies_before_connections);
    tcase_add_test(c, a_rank_that_is_silent_before_connections);
    tcase_add_test(c, strangers_are_refused);
}
