/* The communicator that injects faults: parsing of its text, and that each fault happens. */
#include "base/array.h"
#include "base/clock.h"
#include "base/units.h"
#include "runtime/comm/comm.h"
#include "tests/rigs/ranks.h"
#include "tests/rigs/suite.h"
#include "tests/rigs/waits.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

enum { WORLD = 3, CALLS = 6, COUNT = 3000 };

static const uint64_t plenty_ns = WAIT_PLENTY_NS;

static const struct {
    const char *spec;
    const char *message; /* part of the message; NULL: valid */
} texts[] = {
    {"fail:call=12", NULL},
    {"fail:call=12;delay:time=3us", NULL},
    {"slow:rate=25MB/s,latency=1ms,from=1,to=2", NULL},
    {"slow:latency=1ms", NULL},
    {"stall:call=9,rank=0", NULL},
    {"", "'' is no fault"},
    {"fail;", "'' is no fault"},
    {"melt:call=1", "'melt' is no fault; they are fail, kill, stall, delay, flip and slow"},
    {"fail:call", "fail: 'call' is not KEY=VALUE"},
    {"fail:call=x", "fail: call: "},
    {"fail:call=-1", "fail: call: "},
    {"fail:call=1,call=2", "'call' is given twice"},
    {"fail:call=1,to=2", "not both"},
    {"fail:from=3,to=2", "'from' is after 'to'"},
    {"fail:rank=1", "fail: rank: "},
    {"fail:time=1s", "fail has no 'time'"},
    {"fail:color=red", "fail has no 'color'"},
    {"delay:call=1", "delay needs 'time'"},
    {"delay:time=1s", NULL},
    {"delay:time=1", "delay: time: '1': which unit?"},
    {"delay:time=1MB", "delay: time: "},
    {"delay:time=-1ms", "delay: time: '-1ms' is not from 0 to 3600 s"},
    {"delay:time=2h", "delay: time: '2h' is not from 0 to 3600 s"},
    {"slow:latency=-1us", "slow: latency: '-1us' is not from 0 to 3600 s"},
    {"fail:call="
     "0000000000000000000000000000000000000000000000000000000000000000000000000000000000000001",
     "is too long"},
    {"slow:from=1", "slow needs 'rate' or 'latency'"},
    {"slow:rate=0", "a rate must be positive"},
    {"slow:rate=1MB/s,rank=0", "slow has no 'rank'"},
    {"slow:rate=fast", "slow: rate: "},
};

START_TEST(the_text_is_read_strictly)
{
    struct lk_comm_config config = {.world_size = 1, .timeout_ns = plenty_ns};
    struct lk_comm *c = NULL;
    enum lk_status st;

    config.fault = texts[_i].spec;
    st = lk_comm_open("self", &config, &c);
    if (!texts[_i].message) {
        ck_assert_msg(st == LK_OK, "%s", lk_error_text());
    } else {
        ck_assert_int_eq(st, LK_EUSAGE);
        ck_assert_msg(strstr(lk_error_text(), texts[_i].message) != NULL, "%s", lk_error_text());
        ck_assert_ptr_null(c);
    }
    lk_comm_close(c);
}
END_TEST

/* Times of each call on one rank. */
struct times {
    uint64_t arrival_ns[CALLS], end_ns[CALLS];
};

struct scene {
    const char *fault;
    enum lk_coll coll;
    uint64_t timeout_ns; /* for collectives */
    struct times times[WORLD];
};

static enum lk_status play(struct rank *me)
{
    struct scene *s = me->ctx;
    struct lk_comm_config config = {.rank = me->rank,
                                    .world_size = me->world_size,
                                    .timeout_ns = s->timeout_ns ? s->timeout_ns : plenty_ns,
                                    .fault = s->fault};
    struct lk_comm *c = NULL;
    static _Thread_local float buf[COUNT * WORLD];
    struct lk_coll_call call = {
        .coll = s->coll, .dtype = LK_F32, .buf = buf, .count = COUNT, .index = -1};
    enum lk_status st = LK_OK;

    LK_TRY(rank_connect(me, &config.store));
    LK_TRY(lk_comm_open("tcp", &config, &c));
    for (int i = 0; i < CALLS; i++) {
        s->times[me->rank].arrival_ns[i] = lk_monotonic_ns();
        LK_TRY(lk_comm_run(c, &call));
        s->times[me->rank].end_ns[i] = lk_monotonic_ns();
    }
out:
    if (st == LK_EIO) /* as a program whose own call failed */
        st = lk_store_report(config.store, st, lk_error_text());
    lk_comm_close(c);
    lk_store_close(config.store);
    return st;
}

static const struct {
    const char *fault;
    uint64_t timeout_ns;
    enum lk_status status;
    const char *message; /* on rank 0 */
} failures[] = {
    {"fail:call=3,rank=1", WAIT_PLENTY_NS, LK_EPEER,
     "all_reduce 3: rank 1 failed: all_reduce 3: a planted failure"},
    {"kill:call=4,rank=2", WAIT_PLENTY_NS, LK_EPEER, "all_reduce 4: rank 2 was killed by signal 9"},
    {"stall:call=2,rank=1", WAIT_SHORT_NS, LK_ETIMEOUT,
     "all_reduce 2: rank 1 fell behind: did not enter collective 2, others are in 2"},
};

START_TEST(planted_failures)
{
    struct scene s = {
        .fault = failures[_i].fault, .coll = LK_ALL_REDUCE, .timeout_ns = failures[_i].timeout_ns};
    struct rank ranks[RANKS_MAX];

    ranks_run_processes(WORLD, plenty_ns, play, &s, 1, NULL, ranks);
    ck_assert_msg(ranks[0].status == failures[_i].status, "%s", ranks[0].text);
    ck_assert_str_eq(ranks[0].text, failures[_i].message);
}
END_TEST

/* A delay of 20 ms for call 2 on rank 1 only: the others wait for it there. */
START_TEST(a_delay)
{
    struct scene s = {.fault = "delay:call=2,rank=1,time=20ms", .coll = LK_ALL_REDUCE};
    struct rank ranks[RANKS_MAX];

    ranks_run_threads(WORLD, plenty_ns, play, &s, ranks);
    for (int r = 0; r < WORLD; r++) {
        ck_assert_msg(ranks[r].status == LK_OK, "%s", ranks[r].text);
        ck_assert_uint_ge(s.times[r].end_ns[2], s.times[1].arrival_ns[2] + 20 * LK_NS_PER_MS);
    }
}
END_TEST

static const struct {
    enum lk_coll coll;
    const char *fault;
    double hops, copies; /* latencies; bytes sent over bytes of one part */
} slows[] = {
    {LK_ALL_REDUCE, "slow:rate=10MB/s,latency=1ms", 4, 4.0 / 3},
    {LK_ALL_REDUCE, "slow:latency=2ms", 8, 0},
    {LK_ALL_GATHER, "slow:rate=10MB/s,latency=1ms", 2, 2},
    {LK_REDUCE_SCATTER, "slow:rate=10MB/s", 0, 2},
    {LK_BROADCAST, "slow:rate=10MB/s,latency=1ms", 2, 1},
    {LK_BARRIER, "slow:rate=10MB/s,latency=1ms", 4, 0},
};

/* A call never ends before the last arrival plus the modelled time; the arrival
 * is taken inside the call. */
START_TEST(slow_links)
{
    struct scene s = {.fault = slows[_i].fault, .coll = slows[_i].coll};
    struct rank ranks[RANKS_MAX];
    double model_s = slows[_i].hops * 1e-3 + slows[_i].copies * COUNT * 4 / 10e6;

    ranks_run_threads(WORLD, plenty_ns, play, &s, ranks);
    for (int i = 0; i < CALLS; i++) {
        uint64_t last_ns = 0;

        for (int r = 0; r < WORLD; r++)
            last_ns = s.times[r].arrival_ns[i] > last_ns ? s.times[r].arrival_ns[i] : last_ns;
        for (int r = 0; r < WORLD; r++) {
            ck_assert_msg(ranks[r].status == LK_OK, "%s", ranks[r].text);
            ck_assert_uint_ge(s.times[r].end_ns[i], last_ns + lk_ns_from_s(model_s));
        }
    }
}
END_TEST

/* A single rank has no links, and a fault at a call that is not reached does not happen. */
static enum lk_status play_alone(struct rank *me)
{
    struct lk_comm_config config = {
        .world_size = 1, .timeout_ns = me->timeout_ns, .fault = me->ctx};
    struct lk_comm *c = NULL;
    enum lk_status st = LK_OK;
    float x = 1;

    LK_TRY(lk_comm_open("self", &config, &c));
    for (int i = 0; i < CALLS; i++)
        LK_TRY(lk_comm_run(c, &(struct lk_coll_call){.dtype = LK_F32, .buf = &x, .count = 1}));
out:
    lk_comm_close(c);
    return st;
}

static const struct {
    const char *fault;
    enum lk_status status;
    const char *message;
} alone[] = {
    {"slow:rate=1B/s,latency=1h", LK_OK, ""},
    {"fail:call=6", LK_OK, ""},
    {"delay:time=1us;fail:call=5,rank=0", LK_EIO, "all_reduce 5: a planted failure"},
    {"stall:call=1", LK_ETIMEOUT, "all_reduce 1: a planted stall that nobody noticed"},
};

START_TEST(one_rank)
{
    char fault[64];
    struct rank ranks[RANKS_MAX];

    snprintf(fault, sizeof fault, "%s", alone[_i].fault);
    ranks_run_threads(1, 100 * LK_NS_PER_MS, play_alone, fault, ranks);
    ck_assert_msg(ranks[0].status == alone[_i].status, "%s", ranks[0].text);
    ck_assert_str_eq(ranks[0].text, alone[_i].message);
}
END_TEST

/*
 * A rank in a long delay still learns that another rank failed. The message names the collective it
 * was in, which may be the previous one.
 */
START_TEST(a_delay_ends_with_the_run)
{
    struct scene s = {.fault = "delay:call=2,rank=1,time=1h;fail:call=2,rank=2",
                      .coll = LK_ALL_REDUCE};
    struct rank ranks[RANKS_MAX];

    ranks_run_processes(WORLD, plenty_ns, play, &s, 1, NULL, ranks);
    ck_assert_int_eq(ranks[1].status, LK_EPEER);
    ck_assert_msg(strstr(ranks[1].text, ": rank 2 failed: all_reduce 2: a planted failure") != NULL,
                  "%s", ranks[1].text);
}
END_TEST

/* With slow links on one rank only the ranks report their disagreement instead of hanging. */
static enum lk_status play_apart(struct rank *me)
{
    struct scene s = {.fault = me->rank ? "fail:call=100" : "slow:latency=1ms",
                      .coll = LK_ALL_REDUCE};
    struct rank copy = *me;

    copy.ctx = &s;
    return play(&copy);
}

START_TEST(ranks_with_other_links)
{
    struct rank ranks[RANKS_MAX];

    ranks_run_threads(2, plenty_ns, play_apart, NULL, ranks);
    for (int r = 0; r < 2; r++)
        ck_assert_msg(ranks[r].status == LK_EPEER &&
                          strstr(ranks[r].text, "collectives differ: this rank is in all_"),
                      "%s", ranks[r].text);
}
END_TEST

SUITE(comm_fault, c)
{
    tcase_add_loop_test(c, the_text_is_read_strictly, 0, (int)LK_COUNT(texts));
    tcase_add_loop_test(c, planted_failures, 0, (int)LK_COUNT(failures));
    tcase_add_test(c, a_delay);
    tcase_add_loop_test(c, slow_links, 0, (int)LK_COUNT(slows));
    tcase_add_loop_test(c, one_rank, 0, (int)LK_COUNT(alone));
    tcase_add_test(c, a_delay_ends_with_the_run);
    tcase_add_test(c, ranks_with_other_links);
}
