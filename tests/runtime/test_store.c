/* The store: keys, barriers, clocks, verdicts, and its reaction to misbehaving clients. */
#include "runtime/rendezvous/store.h"

#include "base/array.h"
#include "base/rng.h"
#include "runtime/rendezvous/net.h"
#include "runtime/rendezvous/store_wire.h"
#include "tests/rigs/ranks.h"
#include "tests/rigs/suite.h"
#include "tests/rigs/waits.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const uint64_t plenty_ns = WAIT_PLENTY_NS;

static void assert_all_ok(const struct rank *ranks, int n)
{
    for (int r = 0; r < n; r++)
        ck_assert_msg(ranks[r].status == LK_OK, "rank %d: %s", r, ranks[r].text);
}

/* Set a key, enter a barrier, read all ranks' keys; a value may be empty and may be a MiB. */
static enum lk_status exchange(struct rank *me)
{
    enum lk_status st = LK_OK;
    struct lk_store *s = NULL;
    char key[32], *value = NULL;
    void *got = NULL;
    size_t bytes = (size_t)me->rank << 19, n = 0;

    LK_TRY(rank_connect(me, &s));
    value = malloc(bytes + 1);
    memset(value, me->rank + 'a', bytes + 1);
    snprintf(key, sizeof key, "key %d", me->rank);
    for (int round = 0; round < 3; round++)
        LK_TRY(lk_store_barrier(s, "again"));
    LK_TRY(lk_store_set(s, key, value, bytes));
    for (int r = 0; r < me->world_size; r++) {
        snprintf(key, sizeof key, "key %d", r);
        LK_TRY(lk_store_get(s, key, &got, &n));
        if (n != (size_t)r << 19 || (n && ((char *)got)[n - 1] != r + 'a'))
            st = lk_fail(LK_EVERIFY, "%zu bytes from %d", n, r);
        free(got);
        got = NULL;
        if (st != LK_OK)
            goto out;
    }
    if (lk_store_set(s, "key 0", "x", 1) != LK_EUSAGE)
        st = lk_fail(LK_EVERIFY, "a key was set twice");
out:
    lk_store_close(s);
    free(value);
    return st;
}

struct watch {
    struct lk_store *store;
    atomic_bool stop;
};

/* Read everything that arrives, for other threads too, as a communicator's watchdog does. */
static void *check_always(void *arg)
{
    struct watch *w = arg;
    struct pollfd p = {.fd = lk_store_fd(w->store), .events = POLLIN};

    while (!atomic_load(&w->stop))
        if (poll(&p, 1, 1) > 0)
            (void)lk_store_check(w->store);
    return NULL;
}

/* A reply read by another thread reaches its waiter long before the deadline, an hour. */
static enum lk_status wait_beside_a_checker(struct rank *me)
{
    enum { ROUNDS = 100 };
    struct lk_clock_sample samples[ROUNDS];
    struct watch watch = {.store = NULL};
    pthread_t thread;
    enum lk_status st = rank_connect(me, &watch.store);

    if (st != LK_OK)
        return st;
    ck_assert_int_eq(pthread_create(&thread, NULL, check_always, &watch), 0);
    st = lk_store_clock(watch.store, ROUNDS, samples);
    if (st == LK_OK)
        st = lk_store_barrier(watch.store, "end");
    atomic_store(&watch.stop, true);
    pthread_join(thread, NULL);
    lk_store_close(watch.store);
    return st;
}

START_TEST(several_threads_read)
{
    struct rank ranks[RANKS_MAX];

    ranks_run_threads(2, 3600 * LK_NS_PER_S, wait_beside_a_checker, NULL, ranks);
    assert_all_ok(ranks, 2);
}
END_TEST

START_TEST(keys_and_barriers)
{
    struct rank ranks[RANKS_MAX];

    ranks_run_threads(3, plenty_ns, exchange, NULL, ranks);
    assert_all_ok(ranks, 3);
}
END_TEST

static enum lk_status clocks(struct rank *me)
{
    enum lk_status st = LK_OK;
    struct lk_store *s = NULL;
    struct lk_clock_sample c[16];

    LK_TRY(rank_connect(me, &s));
    LK_TRY(lk_store_clock(s, 16, c));
    for (int i = 0; i < 16; i++) /* one host, one clock: the answer lies between */
        if (c[i].local_send_ns > c[i].remote_ns || c[i].remote_ns > c[i].local_recv_ns)
            st = lk_fail(LK_EVERIFY, "sample %d is out of order", i);
out:
    lk_store_close(s);
    return st;
}

START_TEST(clock_samples_are_ordered)
{
    struct rank ranks[RANKS_MAX];

    ranks_run_threads(2, plenty_ns, clocks, NULL, ranks);
    assert_all_ok(ranks, 2);
}
END_TEST

/* Send a barrier frame beside the call: it is handled before the connection's next request. */
static enum lk_status arrive(struct lk_store *s, const char *name)
{
    struct lk_bytes frame = {0};
    enum lk_status st;

    LK_TRY(lk_frame_put(&frame, LK_MSG_BARRIER, UINT64_MAX, name, strlen(name), NULL, 0));
    LK_TRY(lk_net_send(lk_store_fd(s), frame.data, frame.n, lk_deadline_in(plenty_ns)));
    st = lk_store_set(s, "arrived", "", 0);
out:
    lk_bytes_fini(&frame);
    return st;
}

/* Rank 0 gives up, but not before rank 3 has arrived. */
static enum lk_status two_skip_the_barrier(struct rank *me)
{
    enum lk_status st = LK_OK;
    struct lk_store *s = NULL;
    void *value = NULL;
    size_t n;

    if (me->rank == 2) /* never even connects */
        return LK_OK;
    LK_TRY(lk_store_connect("127.0.0.1", me->port, me->rank, me->world_size,
                            me->rank ? plenty_ns : WAIT_SHORT_NS, NULL, &s));
    if (me->rank == 3)
        LK_TRY(arrive(s, "the rendezvous"));
    if (me->rank == 0) {
        while ((st = lk_store_get(s, "arrived", &value, &n)) == LK_ETIMEOUT)
            ;
        free(value);
        LK_TRY(st);
    }
    if (me->rank != 1)
        st = lk_store_barrier(s, "the rendezvous");
    else
        while (st == LK_OK &&
               lk_net_wait(lk_store_fd(s), POLLIN, lk_deadline_in(plenty_ns)) == LK_OK)
            st = lk_store_check(s);
out:
    lk_store_close(s);
    return st;
}

START_TEST(a_barrier_names_who_is_missing)
{
    struct rank ranks[RANKS_MAX];

    ranks_run_threads(4, plenty_ns, two_skip_the_barrier, NULL, ranks);
    for (int r = 0; r < 4; r++)
        if (r != 2) {
            ck_assert_int_eq(ranks[r].status, LK_ETIMEOUT);
            ck_assert_str_eq(ranks[r].text,
                             "ranks 1 and 2 never arrived at the rendezvous within 3.0 s");
        }
}
END_TEST

static enum lk_status wait_for_nothing(struct rank *me)
{
    struct lk_store *s = NULL;
    void *value = NULL;
    size_t n = 0;
    enum lk_status st = rank_connect(me, &s);

    if (st == LK_OK)
        st = lk_store_get(s, "no such key", &value, &n);
    lk_store_close(s);
    return st;
}

START_TEST(a_missing_key_is_named)
{
    struct rank ranks[RANKS_MAX];

    ranks_run_threads(1, WAIT_SHORT_NS, wait_for_nothing, NULL, ranks);
    ck_assert_int_eq(ranks[0].status, LK_ETIMEOUT);
    ck_assert_str_eq(ranks[0].text, "no rank set 'no such key' within 3.0 s");
}
END_TEST

/* ---- verdicts ---- */

/* How rank 1 fails while the others wait in a barrier. */
enum wrong { REPORTS, VANISHES, BREAKS_A_LINK, IS_KILLED, STALLS };

static enum lk_status one_goes_wrong(struct rank *me)
{
    enum lk_status st = LK_OK;
    const enum wrong *how = me->ctx;
    struct lk_store *s = NULL;

    LK_TRY(rank_connect(me, &s));
    LK_TRY(lk_store_barrier(s, "start"));
    lk_store_progress(s, me->rank == 1 ? 6 : 7, me->rank != 1);
    LK_TRY(lk_store_barrier(s, "all have said where they are"));
    if (me->rank != 1 && *how == STALLS)
        st = lk_store_report(s, LK_ETIMEOUT, "");
    else if (me->rank != 1 || *how == STALLS)
        st = lk_store_barrier(s, "end");
    else if (*how == REPORTS)
        st = lk_store_report(s, LK_EIO, "disk full");
    else if (*how == BREAKS_A_LINK)
        st = lk_store_report_peer(s, 2, "Connection reset by peer");
    else if (*how == IS_KILLED)
        raise(SIGKILL);
    else
        shutdown(lk_store_fd(s), SHUT_RDWR);
out:
    lk_store_close(s);
    return st;
}

static const struct {
    enum wrong how;
    enum lk_status status;
    const char *text;
} verdicts[] = {
    {REPORTS, LK_EPEER, "rank 1 failed: disk full"},
    {VANISHES, LK_EPEER, "rank 1 ended without a word: its connection closed"},
    {BREAKS_A_LINK, LK_EPEER, "rank 1 lost the connection to rank 2: Connection reset by peer"},
    {IS_KILLED, LK_EPEER, "rank 1 was killed by signal 9"},
    {STALLS, LK_ETIMEOUT, "rank 1 fell behind: did not enter collective 7, others are in 7"},
};

START_TEST(all_ranks_hear_one_verdict)
{
    enum wrong how = verdicts[_i].how;
    struct rank ranks[RANKS_MAX];

    if (how == IS_KILLED)
        ranks_run_processes(4, plenty_ns, one_goes_wrong, &how, 1, NULL, ranks);
    else
        ranks_run_threads(4, plenty_ns, one_goes_wrong, &how, ranks);
    for (int r = 0; r < 4; r++) {
        if (r == 1 && (how == IS_KILLED || how == VANISHES))
            continue;
        ck_assert_int_eq(ranks[r].status, verdicts[_i].status);
        ck_assert_str_eq(ranks[r].text, verdicts[_i].text);
    }
}
END_TEST

/* Rank 1 has vanished, and the others report what they see of it. */
struct aftermath {
    enum lk_status seen;
    atomic_bool vanished;
};

static enum lk_status others_report(struct rank *me)
{
    struct aftermath *a = me->ctx;
    enum lk_status st = LK_OK;
    struct lk_store *s = NULL;

    LK_TRY(rank_connect(me, &s));
    LK_TRY(lk_store_barrier(s, "start"));
    if (me->rank == 1) {
        shutdown(lk_store_fd(s), SHUT_RDWR);
        atomic_store(&a->vanished, true);
        goto out;
    }
    if (me->rank != 0) {
        st = lk_store_barrier(s, "end");
        goto out;
    }
    while (!atomic_load(&a->vanished))
        lk_sleep_until_ns(lk_monotonic_ns() + LK_NS_PER_MS);
    /* Between two replies the server has looked at all connections. */
    LK_TRY(lk_store_set(s, "first", "", 0));
    LK_TRY(lk_store_set(s, "second", "", 0));
    st = lk_store_report(s, a->seen, "remote process exited");
out:
    lk_store_close(s);
    return st;
}

static const enum lk_status aftermaths[] = {LK_EIO, LK_ETIMEOUT};

START_TEST(who_vanished_is_to_blame_for_what_others_report)
{
    struct aftermath a = {.seen = aftermaths[_i]};
    struct rank ranks[RANKS_MAX];

    ranks_run_threads(3, plenty_ns, others_report, &a, ranks);
    for (int r = 0; r < 3; r += 2) {
        ck_assert_int_eq(ranks[r].status, LK_EPEER);
        ck_assert_str_eq(ranks[r].text, "rank 1 ended without a word: its connection closed");
    }
}
END_TEST

/* ---- strangers and bad input ---- */

START_TEST(a_port_in_use_is_an_error)
{
    struct lk_store_server *a = NULL, *b = NULL;
    char port[16];

    ck_assert_int_eq(lk_store_serve("127.0.0.1", 0, 1, NULL, &a), LK_OK);
    snprintf(port, sizeof port, "%d", lk_store_server_port(a));
    ck_assert_int_eq(lk_store_serve("127.0.0.1", lk_store_server_port(a), 1, NULL, &b), LK_EIO);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), port));
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "Address already in use"));
    lk_store_server_stop(a, 0);
}
END_TEST

START_TEST(nobody_listens)
{
    struct lk_store *s = NULL;

    ck_assert_int_eq(lk_store_connect("127.0.0.1", 1, 0, 1, 50 * LK_NS_PER_MS, NULL, &s),
                     LK_ETIMEOUT);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "127.0.0.1:1"));
    ck_assert_int_eq(lk_store_connect("no.such.host.invalid", 1, 0, 1, plenty_ns, NULL, &s),
                     LK_EIO);
    ck_assert_int_eq(lk_store_connect("127.0.0.1", 70000, 0, 1, plenty_ns, NULL, &s), LK_EUSAGE);
    ck_assert_int_eq(lk_store_connect("127.0.0.1", 1, 2, 2, plenty_ns, NULL, &s), LK_EUSAGE);
}
END_TEST

START_TEST(a_wrong_rank_is_refused)
{
    struct lk_store_server *server = NULL;
    struct lk_store *first = NULL, *s = NULL;
    int port;

    ck_assert_int_eq(lk_store_serve("127.0.0.1", 0, 2, NULL, &server), LK_OK);
    port = lk_store_server_port(server);
    ck_assert_int_eq(lk_store_connect("127.0.0.1", port, 1, 2, plenty_ns, NULL, &first), LK_OK);
    ck_assert_int_eq(lk_store_connect("127.0.0.1", port, 1, 2, plenty_ns, NULL, &s), LK_EUSAGE);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "rank 1 is taken"));
    ck_assert_int_eq(lk_store_connect("127.0.0.1", port, 0, 3, plenty_ns, NULL, &s), LK_EUSAGE);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "this run has 2 ranks, not 3"));
    ck_assert_int_eq(lk_store_set(first, "still", "fine", 4), LK_OK);
    lk_store_close(first);
    lk_store_server_stop(server, 0);
}
END_TEST

/* Send garbage of every kind on many connections; the ranks are not affected. */
START_TEST(garbage_is_disconnected)
{
    struct lk_store_server *server = NULL;
    struct lk_store *good = NULL;
    struct lk_rng g = lk_rng_init(7, 0);
    void *value = NULL;
    size_t n = 0;

    ck_assert_int_eq(lk_store_serve("127.0.0.1", 0, 1, NULL, &server), LK_OK);
    ck_assert_int_eq(
        lk_store_connect("127.0.0.1", lk_store_server_port(server), 0, 1, plenty_ns, NULL, &good),
        LK_OK);
    for (int i = 0; i < 200; i++) {
        struct lk_deadline soon = lk_deadline_in(plenty_ns);
        unsigned char junk[300];
        size_t bytes = lk_rng_below(&g, sizeof junk + 1);
        int fd = -1;

        for (size_t j = 0; j < bytes; j++)
            junk[j] = (unsigned char)lk_rng_below(&g, 256);
        if (i % 2 && bytes > 13) { /* with a plausible frame around it */
            uint32_t length = (uint32_t)bytes - 4;

            memcpy(junk, &length, sizeof length);
            junk[4] = (unsigned char)lk_rng_below(&g, LK_MSG_COUNT);
        }
        ck_assert_int_eq(lk_net_connect("127.0.0.1", lk_store_server_port(server), soon, &fd),
                         LK_OK);
        (void)lk_net_send(fd, junk, bytes, soon);
        close(fd);
    }
    ck_assert_int_eq(lk_store_set(good, "a", "b", 1), LK_OK);
    ck_assert_int_eq(lk_store_get(good, "a", &value, &n), LK_OK);
    ck_assert_uint_eq(n, 1);
    free(value);
    lk_store_close(good);
    lk_store_server_stop(server, 0);
}
END_TEST

/* Garbage from a rank that sent a proper hello: the rank is lost, and the store lives. */
START_TEST(a_rank_that_talks_garbage_is_lost)
{
    struct lk_store_server *server = NULL;
    struct lk_store *good = NULL, *bad = NULL;
    static const unsigned char junk[64] = {0xFF, 0xFF, 0xFF, 0xFF};

    ck_assert_int_eq(lk_store_serve("127.0.0.1", 0, 2, NULL, &server), LK_OK);
    ck_assert_int_eq(
        lk_store_connect("127.0.0.1", lk_store_server_port(server), 0, 2, plenty_ns, NULL, &good),
        LK_OK);
    ck_assert_int_eq(
        lk_store_connect("127.0.0.1", lk_store_server_port(server), 1, 2, plenty_ns, NULL, &bad),
        LK_OK);
    ck_assert_int_eq(lk_net_send(lk_store_fd(bad), junk, sizeof junk, lk_deadline_in(plenty_ns)),
                     LK_OK);
    ck_assert_int_eq(lk_store_barrier(good, "x"), LK_EPEER);
    ck_assert_str_eq(lk_error_text(), "rank 1 ended without a word: its connection closed");
    lk_store_close(good);
    lk_store_close(bad);
    lk_store_server_stop(server, 0);
}
END_TEST

START_TEST(limits_of_keys_and_values)
{
    struct lk_store_server *server = NULL;
    struct lk_store *s = NULL;
    char key[300];
    char *big = calloc(1, (1 << 20) + 1);

    memset(key, 'k', sizeof key);
    key[299] = '\0';
    ck_assert_int_eq(lk_store_serve("127.0.0.1", 0, 1, NULL, &server), LK_OK);
    ck_assert_int_eq(
        lk_store_connect("127.0.0.1", lk_store_server_port(server), 0, 1, plenty_ns, NULL, &s),
        LK_OK);
    ck_assert_int_eq(lk_store_set(s, key, "v", 1), LK_EUSAGE);
    ck_assert_int_eq(lk_store_set(s, "", "v", 1), LK_EUSAGE);
    ck_assert_int_eq(lk_store_set(s, "big", big, (1 << 20) + 1), LK_EUSAGE);
    key[255] = '\0';
    ck_assert_int_eq(lk_store_set(s, key, big, 1 << 20), LK_OK);
    for (int i = 0; i < 300; i++) { /* more than the table begins with */
        snprintf(key, sizeof key, "key %d", i);
        ck_assert_int_eq(lk_store_set(s, key, &i, sizeof i), LK_OK);
    }
    for (int i = 0; i < 300; i++) {
        void *value = NULL;
        size_t n = 0;

        snprintf(key, sizeof key, "key %d", i);
        ck_assert_int_eq(lk_store_get(s, key, &value, &n), LK_OK);
        ck_assert_uint_eq(n, sizeof i);
        ck_assert_int_eq(memcmp(value, &i, sizeof i), 0);
        free(value);
    }
    free(big);
    lk_store_close(s);
    lk_store_server_stop(server, 0);
}
END_TEST

START_TEST(a_server_that_stops_is_noticed)
{
    struct lk_store_server *server = NULL;
    struct lk_store *s = NULL;

    ck_assert_int_eq(lk_store_serve("127.0.0.1", 0, 1, NULL, &server), LK_OK);
    ck_assert_int_eq(
        lk_store_connect("127.0.0.1", lk_store_server_port(server), 0, 1, plenty_ns, NULL, &s),
        LK_OK);
    lk_store_server_stop(server, 0);
    ck_assert_int_eq(lk_store_barrier(s, "x"), LK_EPEER);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "is gone"));
    lk_store_close(s);
}
END_TEST

/* The launcher reads what a rank set, of any size; what is not there, or not whole, is named. */
START_TEST(the_launcher_takes_a_text)
{
    static const size_t sizes[] = {0, 5, LK_STORE_VALUE_MAX, 2 * LK_STORE_VALUE_MAX + 7};
    struct lk_store_server *server = NULL;
    struct lk_store *s = NULL;
    char *text = malloc(sizes[3]), *got = NULL, key[8];
    size_t n;

    for (size_t i = 0; i < sizes[3]; i++)
        text[i] = (char)('a' + i % 23);
    ck_assert_int_eq(lk_store_serve("127.0.0.1", 0, 1, NULL, &server), LK_OK);
    ck_assert_int_eq(
        lk_store_connect("127.0.0.1", lk_store_server_port(server), 0, 1, plenty_ns, NULL, &s),
        LK_OK);
    for (size_t i = 0; i < 4; i++) {
        snprintf(key, sizeof key, "t%zu", i);
        ck_assert_int_eq(lk_store_server_text(server, key, &got, &n), LK_EPEER);
        ck_assert_ptr_nonnull(strstr(lk_error_text(), "no rank set 't"));
        ck_assert_msg(lk_store_set_text(s, key, text, sizes[i]) == LK_OK, "%s", lk_error_text());
        ck_assert_msg(lk_store_server_text(server, key, &got, &n) == LK_OK, "%s", lk_error_text());
        ck_assert_uint_eq(n, sizes[i]);
        ck_assert_int_eq(memcmp(got, text, n), 0);
        ck_assert_int_eq(got[n], '\0');
        free(got);
    }
    ck_assert_int_eq(lk_store_set(s, "half", "9", 1), LK_OK);
    ck_assert_int_eq(lk_store_set(s, "half.0", "12345", 5), LK_OK);
    ck_assert_int_eq(lk_store_server_text(server, "half", &got, &n), LK_EPEER);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "'half': 5 of 9 bytes are in the store"));
    lk_store_close(s);
    lk_store_server_stop(server, plenty_ns);
    free(text);
}
END_TEST

SUITE(store, c)
{
    tcase_add_test(c, keys_and_barriers);
    tcase_add_test(c, several_threads_read);
    tcase_add_test(c, clock_samples_are_ordered);
    tcase_add_test(c, a_barrier_names_who_is_missing);
    tcase_add_test(c, a_missing_key_is_named);
    tcase_add_loop_test(c, all_ranks_hear_one_verdict, 0, LK_COUNT(verdicts));
    tcase_add_loop_test(c, who_vanished_is_to_blame_for_what_others_report, 0,
                        LK_COUNT(aftermaths));
    tcase_add_test(c, a_port_in_use_is_an_error);
    tcase_add_test(c, nobody_listens);
    tcase_add_test(c, a_wrong_rank_is_refused);
    tcase_add_test(c, garbage_is_disconnected);
    tcase_add_test(c, a_rank_that_talks_garbage_is_lost);
    tcase_add_test(c, limits_of_keys_and_values);
    tcase_add_test(c, the_launcher_takes_a_text);
    tcase_add_test(c, a_server_that_stops_is_noticed);
}
