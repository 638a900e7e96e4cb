/*
 * The communicator nccl without a GPU (tests/fakes/fake_nccl.h): results, and its reaction to
 * NCCL's errors and to ranks that fail. Ranks are processes.
 */
#include "runtime/comm/calls_nccl_cuda.h"

#include "tests/rigs/suite.h"

#ifdef LK_NCCL_BUILT

#include "runtime/comm/comm.h"
#include "tests/fakes/fake_cuda.h"
#include "tests/fakes/fake_nccl.h"
#include "tests/rigs/culprit.h"
#include "tests/rigs/nccl_cases.h"
#include "tests/rigs/ranks.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/waits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const uint64_t plenty_ns = WAIT_PLENTY_NS;
static const uint64_t short_ns = WAIT_SHORT_NS;

static char *locks;

static void setup(void)
{
    locks = scratch_create_for_gpus();
    fake_nccl_create();
}

static void teardown(void)
{
    fake_nccl_destroy();
    scratch_remove(locks);
}

/* ---- A rank ---- */

/* Objects that a rank has open. */
struct node {
    struct lk_store *store;
    struct lk_device *device;
    struct lk_stream *net;
    struct lk_comm *comm;
};

/* timeout_ns: for the communicator; calls of the store have the rank's own. */
static enum lk_status open_node(const struct rank *me, const char *fault, bool registers,
                                uint64_t timeout_ns, struct node *n)
{
    const struct lk_device_config dc = {.share_gpu = true, .cuda_calls = &fake_cuda_calls};
    const struct lk_track_info net = {.name = "net", .kind = LK_TRACK_COMM};
    struct lk_comm_config cc = {.rank = me->rank,
                                .world_size = me->world_size,
                                .timeout_ns = timeout_ns,
                                .fault = fault,
                                .nccl = {.max_ctas = 2, .register_buffers = registers},
                                .nccl_calls = &fake_nccl_calls};
    enum lk_status st = LK_OK;

    fake_cuda_reset(1);
    fake_cuda.host_threads = true;
    LK_TRY(rank_connect(me, &n->store));
    LK_TRY(lk_device_open("cuda", &dc, &n->device));
    LK_TRY(lk_stream_create(n->device, &net, &n->net));
    cc.store = n->store;
    cc.device = n->device;
    LK_TRY(lk_comm_open("nccl", &cc, &n->comm));
out:
    return st;
}

/* Close as the trainer does: the others learn of a failure through the store. */
static enum lk_status close_node(struct node *n, enum lk_status st)
{
    char text[1024];

    if (st != LK_OK && n->device) {
        snprintf(text, sizeof text, "%s", lk_error_text());
        lk_device_fail(n->device, st, text);
        if (n->store)
            st = lk_store_report(n->store, st, text);
    }
    lk_stream_destroy(n->net);
    lk_comm_close(n->comm);
    if (n->device)
        lk_device_close(n->device);
    lk_store_close(n->store);
    return st;
}

static enum lk_status expect(bool right, const char *what)
{
    return right ? LK_OK : lk_fail(LK_EVERIFY, "not so: %s", what);
}

/* Check that no object of CUDA or NCCL is left, and that the communicator
 * ended by an abort, or not. */
static enum lk_status check_end(bool aborted)
{
    enum lk_status st = LK_OK;

    LK_TRY(expect(!fake_cuda.events_alive && !fake_cuda.streams_alive, "no events and streams"));
    LK_TRY(expect(!fake_cuda.allocated && !fake_nccl.memory_alive, "no memory"));
    LK_TRY(expect(!fake_nccl.registered || aborted, "nothing registered"));
    LK_TRY(expect(fake_nccl.comms_alive == 0, "no communicator"));
    aborted = aborted && fake_nccl.inits > 0; /* no abort if init was never begun */
    LK_TRY(expect(fake_nccl.aborted == aborted, aborted ? "aborted once" : "not aborted"));
    LK_TRY(expect(fake_nccl.destroyed == fake_nccl.inits - aborted, "destroyed, or aborted"));
out:
    return st;
}

static void assert_all_ok(const struct rank *ranks, int n)
{
    for (int r = 0; r < n; r++) {
        ck_assert_msg(ranks[r].status == LK_OK, "rank %d: %s", r, ranks[r].text);
        ck_assert_int_eq(ranks[r].wait_status, 0);
    }
}

/* ---- Results ---- */

struct results {
    struct nccl_way way;
    bool registers;
    int in_progress;
};

static pthread_t caller;
static atomic_int launches_here, launches_elsewhere;

static uint32_t note_launch(void)
{
    atomic_fetch_add(pthread_equal(pthread_self(), caller) ? &launches_here : &launches_elsewhere,
                     1);
    return 0;
}

/* A non-blocking communicator puts its work on the stream by threads that NCCL makes. */
static enum lk_status all_collectives(struct rank *me)
{
    const struct results *r = me->ctx;
    struct node n = {.store = NULL};
    enum lk_status st = LK_OK;

    fake_nccl.in_progress = r->in_progress;
    fake_nccl.called = note_launch;
    caller = pthread_self();
    LK_TRY(open_node(me, NULL, r->registers, plenty_ns, &n));
    LK_TRY(expect(fake_nccl.config.maxCTAs == 2, "at most 2 CTAs"));
    LK_TRY(expect(fake_nccl.config.minCTAs == NCCL_CONFIG_UNDEF_INT, "NCCL's own minimum"));
    LK_TRY(nccl_cases_run(n.comm, n.net, &r->way));
    LK_TRY(expect(r->in_progress ? launches_elsewhere && !launches_here : !launches_elsewhere,
                  "launches on NCCL's threads"));
out:
    st = close_node(&n, st);
    return st == LK_OK ? check_end(false) : st;
}

static const struct results results[] = {
    {{false, false}, false, 0}, {{false, true}, false, 0}, {{true, false}, false, 0},
    {{false, true}, false, 3},  {{true, false}, true, 3},
};

START_TEST(results_are_right)
{
    struct results r = results[_i / 3];
    int world = 1 + _i % 3;
    struct rank ranks[RANKS_MAX];

    if (world == 1) /* in this process, so that leaks show */
        ranks_run_threads(world, plenty_ns, all_collectives, &r, ranks);
    else
        ranks_run_processes(world, plenty_ns, all_collectives, &r, 1, NULL, ranks);
    assert_all_ok(ranks, world);
}
END_TEST

static enum lk_status ring(struct rank *me)
{
    struct node n = {.store = NULL};
    float x = 1;
    enum lk_status st = LK_OK;
    const struct lk_coll_call call = {.coll = LK_ALL_REDUCE,
                                      .algo = LK_ALGO_RING,
                                      .dtype = LK_F32,
                                      .buf = &x,
                                      .count = 1,
                                      .index = -1};

    LK_TRY(open_node(me, NULL, false, plenty_ns, &n));
    LK_TRY(expect(!lk_comm_has(n.comm, LK_ALL_REDUCE, LK_ALGO_RING), "no ring"));
    LK_TRY(expect(lk_comm_run(n.comm, &call) == LK_EUNSUPPORTED, "refused"));
    LK_TRY(expect(strstr(lk_error_text(), "NCCL_ALGO") != NULL, lk_error_text()));
out:
    return close_node(&n, st);
}

START_TEST(algorithms_are_nccls)
{
    struct rank ranks[RANKS_MAX];

    ranks_run_processes(1, plenty_ns, ring, NULL, 1, NULL, ranks);
    assert_all_ok(ranks, 1);
}
END_TEST

/* ---- Failures ---- */

enum { WORLD = 3, CULPRIT = 1, CALLS = 8, AT = 5 };

/* Ways of tests/rigs/culprit.h, and further ones: */
enum {
    BREAKS = CULPRIT_WAYS, /* its device fails */
    REFUSED,               /* NCCL refuses a collective */
    ERROR,                 /* NCCL finds an error by itself */
    PLANTED,               /* by `fault` */
    IN_A_GRAPH,
    HANGS_AT_START,
    ALL_HANG_AT_START,
    OTHER_VERSION,
    WRONG_USE,
};

struct scene {
    int way;
    const char *fault;
    bool stalls;
    const char *says;
};

static const struct scene scenes[] = {
    {KILLED, NULL, false, "rank 1 was killed by signal 9"},
    {STOPPED, NULL, true, "rank 1 did not answer: stopped, or busy outside of collectives"},
    {LATE, NULL, true, "rank 1 fell behind: did not enter collective 5, others are in 5"},
    {LEAVES, NULL, true, "rank 1 left the run before the others"},
    {REPORTS, NULL, false, "rank 1 failed: disk full"},
    {BREAKS, NULL, false, "rank 1 failed: a kernel of ours"},
    {REFUSED, NULL, false, "rank 1 failed: NCCL: unhandled cuda error: what it says last"},
    {ERROR, NULL, false,
     "rank 1 failed: NCCL: remote process exited or there was a network error: what it says last"},
    {PLANTED, "kill:call=5,rank=1", false, "rank 1 was killed by signal 9"},
    {PLANTED, "fail:call=5,rank=1", false,
     "rank 1 failed: all_reduce 5 (bucket 5, step 0): a planted failure"},
    {PLANTED, "stall:call=5,rank=1", true,
     "rank 1 fell behind: did not enter collective 5, others are in 5"},
    {IN_A_GRAPH, NULL, true, "rank 1 fell behind: did not enter collective 5, others are in 5"},
    {HANGS_AT_START, NULL, true, "rank 1 fell behind: did not enter collective 0, others are in 0"},
    {ALL_HANG_AT_START, NULL, true, "no rank is behind in collective 0: its data do not arrive"},
    {OTHER_VERSION, NULL, false,
     "rank 1 failed: opening nccl: all ranks need the same NCCL: rank 0 has 2.28.9"},
    {WRONG_USE, NULL, false, "rank 1 failed: NCCL: invalid usage: what it says last"},
};

static void prepare(const struct scene *s, int rank)
{
    bool culprit = rank == CULPRIT;

    fake_nccl.in_progress = 1;
    fake_nccl.init_hangs = s->way == ALL_HANG_AT_START || (culprit && s->way == HANGS_AT_START);
    if (culprit && s->way == WRONG_USE)
        fake_nccl.init_says = ncclInvalidUsage;
    if (culprit && s->way == OTHER_VERSION)
        fake_nccl.version = NCCL_VERSION(2, 27, 7);
    if (culprit && s->way == REFUSED) {
        fake_nccl.fail_call = AT + 1;
        fake_nccl.fail_with = ncclUnhandledCudaError;
    }
}

/* Fail in the culprit's way. */
static enum lk_status go_wrong(const struct scene *s, struct node *n)
{
    switch (s->way) {
    case IN_A_GRAPH:
        return culprit_go(LATE, n->store);
    case BREAKS:
        return lk_fail(LK_EINTERNAL, "a kernel of ours");
    case ERROR:
        fake_nccl.fail_with = ncclRemoteError;
        fake_nccl.error_from = 1;
        return LK_OK;
    default:
        return s->way < CULPRIT_WAYS ? culprit_go(s->way, n->store) : LK_OK;
    }
}

static enum lk_status step(struct node *n, const struct scene *s, struct lk_graph *g, void *buf,
                           int i)
{
    const struct lk_coll_call call = {
        .coll = LK_ALL_REDUCE, .dtype = LK_F32, .buf = buf, .count = 100, .index = i};
    enum lk_status st = LK_OK;

    if (s->way != IN_A_GRAPH) {
        LK_TRY(lk_comm_enqueue(n->comm, n->net, &call));
    } else {
        LK_TRY(lk_comm_graph_begin(n->comm, n->net));
        LK_TRY(lk_graph_launch(g, n->net));
        LK_TRY(lk_comm_graph_end(n->comm, n->net));
    }
    LK_TRY(lk_stream_sync(n->net, lk_deadline_in(plenty_ns)));
out:
    return st;
}

/* Capture two all-reduces; they take the numbers 0 and 1, so launches count from there. */
static enum lk_status capture(struct node *n, void *buf, struct lk_graph **out)
{
    const struct lk_coll_call call = {
        .coll = LK_ALL_REDUCE, .dtype = LK_F32, .buf = buf, .count = 100, .index = 0};
    enum lk_status st = LK_OK;

    LK_TRY(expect(lk_comm_can_capture(n->comm), "can capture"));
    LK_TRY(lk_graph_begin(n->net));
    LK_TRY(lk_comm_enqueue(n->comm, n->net, &call));
    LK_TRY(lk_comm_enqueue(n->comm, n->net, &call));
    LK_TRY(lk_graph_end(n->net, out));
out:
    return st;
}

static enum lk_status play(struct rank *me)
{
    const struct scene *s = me->ctx;
    bool leaves = me->rank == CULPRIT && s->way == LEAVES;
    struct node n = {.store = NULL};
    struct lk_graph *g = NULL;
    void *buf = NULL;
    enum lk_status st = LK_OK, end;
    char text[1024];

    prepare(s, me->rank);
    LK_TRY(open_node(me, s->fault, false, s->stalls ? short_ns : plenty_ns, &n));
    LK_TRY(lk_device_alloc(n.device, 100 * sizeof(float), &buf));
    if (s->way == IN_A_GRAPH)
        LK_TRY(capture(&n, buf, &g));
    for (int i = s->way == IN_A_GRAPH ? 2 : 0; i < CALLS; i++) {
        if (i == AT && me->rank == CULPRIT)
            LK_TRY(go_wrong(s, &n));
        LK_TRY(step(&n, s, g, buf, i));
    }
out:
    if (leaves) { /* without reporting */
        lk_store_close(n.store);
        _exit(0);
    }
    snprintf(text, sizeof text, "%s", lk_error_text());
    if (st != LK_OK && n.device) /* the stream's failure, in the collective's words */
        lk_device_fail(n.device, st, text);
    if (n.net)
        lk_stream_destroy(n.net);
    n.net = NULL;
    lk_graph_destroy(g);
    if (n.device)
        lk_device_free(n.device, buf);
    if (st != LK_OK)
        st = lk_fail(st, "%s", text);
    st = close_node(&n, st);
    snprintf(text, sizeof text, "%s", lk_error_text());
    end = check_end(true);
    return end != LK_OK ? end : lk_fail(st, "%s", text);
}

START_TEST(all_name_the_culprit)
{
    struct scene s = scenes[_i];
    struct rank ranks[RANKS_MAX];

    culprit_run(WORLD, CULPRIT, s.way == IN_A_GRAPH ? LATE : s.way, play, &s, ranks);
    for (int r = 0; r < WORLD; r++) {
        bool gone = r == CULPRIT && (s.way == LEAVES || ranks[r].wait_status);

        ck_assert_msg(gone || strstr(ranks[r].text, s.says), "rank %d: %s", r, ranks[r].text);
    }
}
END_TEST

/* ---- A failure while NCCL launches ---- */

static struct lk_device *launched_on;

static void fail_device(void)
{
    lk_device_fail(launched_on, LK_EINTERNAL, "a kernel of ours");
}

/* NCCL's own thread has yet to launch the collective when the run fails: the stream is not the
 * caller's to destroy before that thread has ended. */
static enum lk_status fails_while_launching(struct rank *me)
{
    struct node n = {.store = NULL};
    void *buf = NULL;
    enum lk_status st = LK_OK;
    struct lk_coll_call call = {.coll = LK_ALL_REDUCE, .dtype = LK_F32, .count = 100, .index = 0};

    fake_nccl.in_progress = 1;
    LK_TRY(open_node(me, NULL, false, plenty_ns, &n));
    launched_on = n.device;
    LK_TRY(lk_device_alloc(n.device, 100 * sizeof(float), &buf));
    call.buf = buf;
    fake_nccl.held = fail_device;
    LK_TRY(expect(lk_comm_enqueue(n.comm, n.net, &call) == LK_EINTERNAL, "the device's failure"));
    LK_TRY(expect(!strcmp(lk_error_text(), "a kernel of ours"), "in the words of what failed"));
    LK_TRY(expect(fake_nccl.aborted == 1, "aborted before the caller goes on"));
out:
    lk_stream_destroy(n.net);
    n.net = NULL;
    lk_device_free(n.device, buf);
    (void)close_node(&n, LK_EINTERNAL);
    return st == LK_OK ? check_end(true) : st;
}

START_TEST(a_launch_ends_before_its_stream)
{
    struct rank ranks[RANKS_MAX];

    ranks_run_processes(1, plenty_ns, fails_while_launching, NULL, 1, NULL, ranks);
    assert_all_ok(ranks, 1);
}
END_TEST

/* ---- Ends that hang ---- */

static enum lk_status end_hangs(struct rank *me)
{
    const bool *aborts = me->ctx;
    struct node n = {.store = NULL};
    enum lk_status st = LK_OK;

    fake_nccl.finalize_hangs = !*aborts;
    fake_nccl.abort_hangs = *aborts;
    LK_TRY(open_node(me, NULL, false, short_ns, &n));
    LK_TRY(lk_comm_run(n.comm, &(struct lk_coll_call){.coll = LK_BARRIER, .index = -1}));
    if (*aborts)
        lk_device_fail(n.device, LK_EINTERNAL, "a kernel of ours");
    lk_comm_close(n.comm);
    n.comm = NULL;
    LK_TRY(expect(fake_nccl.aborted == 1 && !fake_nccl.destroyed, "aborted"));
    if (!*aborts) {
        st = close_node(&n, st);
        n = (struct node){.store = NULL};
        LK_TRY(st);
        LK_TRY(check_end(true));
    }
out:
    return st;
}

START_TEST(the_end_has_a_deadline)
{
    bool aborts = _i;
    struct rank ranks[RANKS_MAX];

    ranks_run_processes(2, plenty_ns, end_hangs, &aborts, 1, NULL, ranks);
    assert_all_ok(ranks, 2);
}
END_TEST

/* ---- Estimates ---- */

static enum lk_status estimate(struct rank *me)
{
    const bool *hangs = me->ctx;
    const struct lk_coll_call call = {
        .coll = LK_ALL_REDUCE, .dtype = LK_BF16, .buf = me, .count = 1000, .index = -1};
    struct node n = {.store = NULL};
    double s = 0;
    enum lk_status st = LK_OK;

    fake_nccl.estimates_hang = *hangs;
    LK_TRY(open_node(me, NULL, false, *hangs ? short_ns : plenty_ns, &n));
    if (*hangs) {
        LK_TRY(expect(lk_comm_estimate(n.comm, &call, &s) == LK_ETIMEOUT, "late"));
        lk_comm_close(n.comm); /* the communicator is leaked: a thread is inside */
        return LK_OK;
    }
    for (int i = 0; i < 3; i++) {
        LK_TRY(lk_comm_estimate(n.comm, &call, &s));
        LK_TRY(expect(s > 2000.9e-6 && s < 2001.1e-6, "2001 us"));
    }
    LK_TRY(lk_comm_run(n.comm, &(struct lk_coll_call){.coll = LK_BARRIER, .index = -1}));
out:
    st = close_node(&n, st);
    if (st == LK_OK)
        st = check_end(false);
    return st == LK_OK ? expect(fake_nccl.inits == 2 && fake_nccl.collectives == 1,
                                "only the barrier was launched")
                       : st;
}

START_TEST(estimates_launch_nothing)
{
    bool hangs = _i;
    struct rank ranks[RANKS_MAX];

    ranks_run_processes(2, plenty_ns, estimate, &hangs, 1, NULL, ranks);
    assert_all_ok(ranks, 2);
}
END_TEST

/* ---- Impossible requests ---- */

static enum lk_status old_library(struct rank *me)
{
    struct node n = {.store = NULL};
    enum lk_status st;

    fake_nccl.version = NCCL_VERSION(2, 18, 5);
    st = open_node(me, NULL, false, plenty_ns, &n);
    st = expect(st == LK_EUNSUPPORTED &&
                    strstr(lk_error_text(), "NCCL 2.18.5 (a test's) is too old: 2.19.0"),
                lk_error_text());
    (void)close_node(&n, LK_OK);
    return st;
}

START_TEST(old_libraries_are_refused)
{
    struct rank ranks[RANKS_MAX];

    ranks_run_processes(1, plenty_ns, old_library, NULL, 1, NULL, ranks);
    assert_all_ok(ranks, 1);
}
END_TEST

static void add_tests(TCase *c)
{
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_loop_test(c, results_are_right, 0, 3 * (int)(sizeof results / sizeof *results));
    tcase_add_test(c, algorithms_are_nccls);
    tcase_add_loop_test(c, all_name_the_culprit, 0, (int)(sizeof scenes / sizeof *scenes));
    tcase_add_test(c, a_launch_ends_before_its_stream);
    tcase_add_loop_test(c, the_end_has_a_deadline, 0, 2);
    tcase_add_loop_test(c, estimates_launch_nothing, 0, 2);
    tcase_add_test(c, old_libraries_are_refused);
}

#else

static void add_tests(TCase *c)
{
    (void)c;
}

#endif

SUITE(comm_nccl_cuda, c)
{
    add_tests(c);
}
