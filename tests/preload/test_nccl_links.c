/*
 * What NCCL's proxy sends, as the plugin records it by the link: the library that users get, driven
 * by tests/fakes/fake_nccl_profiler.h.
 */
#include "base/array.h"
#include "tests/fakes/fake_nccl_profiler.h"
#include "tests/rigs/foreign_log.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/suite.h"

#include <stdlib.h>
#include <unistd.h>

static const int versions[] = {FAKE_NCCL_2_27, FAKE_NCCL_2_28, FAKE_NCCL_2_30, FAKE_NCCL_2_31,
                               FAKE_NCCL_2_32};
static const struct fake_call all_reduce = {"AllReduce", "ncclFloat32", 1000, 0, false, false};

static struct fake_plugin plugin;

static void begin(int version, bool links)
{
    foreign_log_to(scratch_dir, 4);
    if (links)
        ck_assert_int_eq(setenv("LOCKSTEP_PROFILE_LINKS", "1", 1), 0);
    fake_plugin_open(&plugin, LK_PRELOAD_TESTED, version);
}

/* Return the time in which something was on its way, which is at most that of the record. */
static uint64_t busy_ns(const struct lk_foreign_record *r)
{
    ck_assert_int_eq(r->kind, LK_FOREIGN_SENT);
    ck_assert_int_gt(r->start_ns, 0);
    ck_assert_int_le(r->start_ns, r->end_ns);
    ck_assert_uint_le(r->link, (uint64_t)(r->end_ns - r->start_ns));
    return r->link;
}

/* Two channels send to rank 1, one to rank 7, all at the same time; a fourth receives. Each peer
 * has one record of a collective, with what was sent to it. */
START_TEST(a_collective_has_a_record_a_peer)
{
    static const struct {
        int peer;
        bool is_send;
    } ops[] = {{1, true}, {1, true}, {7, true}, {7, false}};
    struct fake_transfer t[LK_COUNT(ops)];
    struct fake_call_work w;
    struct foreign_log l;
    struct fake_comm c;

    begin(versions[_i], true);
    fake_comm_init(&c, &plugin, 77, "dp", 8, 0);
    for (size_t k = 0; k < 3; k++) {
        fake_call_enqueue(&c, &all_reduce, &w);
        for (size_t i = 0; i < LK_COUNT(ops); i++)
            fake_transfer_start(&w, (int)i, ops[i].peer, ops[i].is_send, &t[i]);
        for (int s = 0; s < 4; s++)
            for (size_t i = 0; i < LK_COUNT(ops); i++) {
                fake_step_start(&t[i], s);
                fake_step_move(&t[i], s, 1000 * (i + 1));
            }
        for (size_t i = 0; i < LK_COUNT(ops); i++) {
            for (int s = 0; s < 4; s++)
                fake_step_stop(&t[i], s);
            fake_transfer_stop(&t[i]);
        }
    }
    fake_comm_finalize(&c);
    foreign_log_read(&l, scratch_dir);
    ck_assert_uint_eq(foreign_log_count(&l, LK_FOREIGN_SENT), 6);
    for (size_t i = 0; i < 6; i++) {
        const struct lk_foreign_record *r = foreign_log_at(&l, LK_FOREIGN_SENT, i);

        (void)busy_ns(r);
        ck_assert_int_eq(r->peer, i % 2 ? 7 : 1);
        ck_assert_uint_eq(r->count, i % 2 ? 4 * 3000 : 4 * (1000 + 2000));
        ck_assert_uint_eq(l.groups[r->group - 1].identity, 77);
    }
    ck_assert_uint_eq(l.header->lost, 0);
    foreign_log_fini(&l);
}
END_TEST

/* A step that waits for its GPU or its receiver is not on its way; the time in which several are
 * counts once. The record of an operation that waits alone is none. */
START_TEST(busy_is_when_something_is_on_its_way)
{
    const struct lk_foreign_record *r;
    struct fake_transfer t[2];
    struct fake_call_work w;
    struct foreign_log l;
    struct fake_comm c;

    begin(FAKE_NCCL_2_30, true);
    fake_comm_init(&c, &plugin, 77, "dp", 8, 0);
    fake_call_enqueue(&c, &all_reduce, &w);
    for (int i = 0; i < 2; i++)
        fake_transfer_start(&w, i, 1, true, &t[i]);
    fake_step_start(&t[0], 0);
    fake_transfer_stop(&t[1]);
    fake_step_move(&t[0], 0, 100);
    fake_step_stop(&t[0], 0);
    fake_step_stop(&t[0], 0); /* twice */
    usleep(20000);            /* nothing is on its way: not busy */
    fake_step_start(&t[0], 1);
    fake_step_move(&t[0], 1, 50);
    fake_step_stop(&t[0], 1);
    fake_transfer_stop(&t[0]);
    fake_transfer_stop(&t[0]); /* twice: nothing more was sent */
    foreign_log_read(&l, scratch_dir);
    ck_assert_uint_eq(foreign_log_count(&l, LK_FOREIGN_SENT), 1);
    r = foreign_log_at(&l, LK_FOREIGN_SENT, 0);
    ck_assert_uint_eq(r->count, 150);
    ck_assert_uint_le(busy_ns(r) + 20000000, (uint64_t)(r->end_ns - r->start_ns));
    foreign_log_fini(&l);
}
END_TEST

START_TEST(links_are_not_asked_for_unless_the_user_does)
{
    struct fake_transfer t;
    struct fake_call_work w;
    struct foreign_log l;
    struct fake_comm c;

    begin(versions[_i], false);
    fake_comm_init(&c, &plugin, 77, "dp", 8, 0);
    ck_assert_int_eq(plugin.mask & (NCCL_PROXY_OP | NCCL_PROXY_STEP), 0);
    fake_call_enqueue(&c, &all_reduce, &w);
    fake_transfer_start(&w, 0, 1, true, &t);
    ck_assert_ptr_null(t.op);
    foreign_log_read(&l, scratch_dir);
    ck_assert_uint_eq(foreign_log_count(&l, LK_FOREIGN_SENT), 0);
    foreign_log_fini(&l);
}
END_TEST

/* Communicators have links of their own, also one in another's place; what more than the table
 * holds would need is counted as lost. */
START_TEST(links_are_of_their_communicator)
{
    enum { PEERS = 1000, COMMS = 5, ROOM = 1 << 12 };
    struct foreign_log l;
    size_t n = 0;

    begin(FAKE_NCCL_2_28, true);
    for (uint64_t k = 0; k < COMMS; k++) {
        struct fake_call_work w;
        struct fake_comm c;

        fake_comm_init(&c, &plugin, k, NULL, PEERS, 0);
        fake_call_enqueue(&c, &all_reduce, &w);
        for (int peer = 0; peer < PEERS; peer++)
            fake_send(&w, peer, (size_t)peer + 1);
        fake_comm_finalize(&c);
        fake_transfer_start(&w, 0, 1, true, &(struct fake_transfer){0}); /* late: no loss */
    }
    foreign_log_read(&l, scratch_dir);
    for (size_t i = 0; i < l.n; i++) {
        const struct lk_foreign_record *r = &l.records[i];

        if (r->kind != LK_FOREIGN_SENT)
            continue;
        ck_assert_uint_eq(l.groups[r->group - 1].identity, n / PEERS);
        ck_assert_uint_eq(r->count, (uint64_t)r->peer + 1);
        n++;
    }
    ck_assert_uint_eq(n, ROOM);
    ck_assert_uint_eq(l.header->lost, PEERS * COMMS - ROOM);
    foreign_log_fini(&l);
}
END_TEST

SUITE(nccl_links, tests)
{
    tcase_add_checked_fixture(tests, scratch_set_up, scratch_tear_down);
    tcase_add_loop_test(tests, a_collective_has_a_record_a_peer, 0, (int)LK_COUNT(versions));
    tcase_add_test(tests, busy_is_when_something_is_on_its_way);
    tcase_add_loop_test(tests, links_are_not_asked_for_unless_the_user_does, 0,
                        (int)LK_COUNT(versions));
    tcase_add_test(tests, links_are_of_their_communicator);
}
