/* tcp records bytes and busy time of the hop to the next rank, of rings that leave a host. */
#include "base/array.h"
#include "facts/hops.h"
#include "runtime/comm/comm_tcp.h"
#include "tests/rigs/kept_spans.h"
#include "tests/rigs/must.h"
#include "tests/rigs/ranks.h"
#include "tests/rigs/suite.h"
#include "tests/rigs/waits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 3, ELEMS = 3 << 18, RINGS = 12, CALLS = RINGS + 2 };

/* Ranks are threads, and differ in their addresses on the loopback interface as hosts do. */
static enum lk_status train(struct rank *me, struct lk_recorder *recorder, struct lk_stream *s,
                            struct lk_store *store, float *buf)
{
    const bool apart = *(const bool *)me->ctx;
    struct lk_comm_config config = {.rank = me->rank,
                                    .world_size = me->world_size,
                                    .store = store,
                                    .recorder = recorder,
                                    .timeout_ns = me->timeout_ns};
    struct lk_comm *c = NULL;
    enum lk_status st = LK_OK;
    char listen[32];

    snprintf(listen, sizeof listen, "127.0.0.%d", me->rank + 2);
    config.listen = apart ? listen : NULL;
    LK_TRY(lk_comm_open("tcp", &config, &c));
    for (int i = 0; i < CALLS; i++) {
        struct lk_coll_call call = {.coll = LK_ALL_REDUCE,
                                    .dtype = LK_F32,
                                    .buf = buf,
                                    .count = i == 1 || i == CALLS - 2 ? 16 : ELEMS, /* a tree */
                                    .index = i};

        lk_stream_set_step(s, (uint32_t)i + 5);
        LK_TRY(lk_comm_enqueue(c, s, &call));
    }
    LK_TRY(lk_stream_sync(s, lk_deadline_in(WAIT_PLENTY_NS)));
out:
    lk_comm_close(c);
    return st;
}

static enum lk_status run(struct rank *me)
{
    const struct lk_track_info info = {.name = "net", .kind = LK_TRACK_COMM};
    struct lk_device_config device = {.recorder = NULL};
    struct lk_recorder *recorder = NULL;
    struct lk_store *store = NULL;
    struct lk_device *d = NULL;
    struct lk_stream *s = NULL;
    enum lk_status st = LK_OK;
    float *buf = NULL;

    LK_TRY(lk_alloc(&buf, ELEMS, sizeof *buf));
    if (me->rank == 0) {
        LK_TRY(lk_recorder_create(&recorder));
        LK_TRY(lk_recorder_attach(recorder, &kept_ops, &kept));
    }
    device.recorder = recorder;
    LK_TRY(lk_device_open("cpu", &device, &d));
    LK_TRY(lk_stream_create(d, &info, &s));
    LK_TRY(rank_connect(me, &store));
    LK_TRY(train(me, recorder, s, store, buf));
out:
    lk_stream_destroy(s);
    lk_device_close(d);
    lk_store_close(store);
    lk_recorder_destroy(recorder);
    free(buf);
    return st;
}

/* Each ring but the first records what rank 0 sent to rank 1 since the one before began: 2 (K - 1)
 * / K of the buffer, and the trees' few bytes; nothing is lost that is acknowledged when a ring has
 * ended. Ranks at one address have no hop. */
START_TEST(rings_that_leave_the_host_are_recorded)
{
    const double sent = (RINGS - 1) * 2.0 * (RANKS - 1) / RANKS * ELEMS * sizeof(float);
    static bool apart;
    double sum[LK_HOP_VALUES] = {0};
    struct rank ranks[RANKS_MAX];
    size_t n = 0;

    apart = _i;
    ranks_run_threads(RANKS, WAIT_PLENTY_NS, run, &apart, ranks);
    for (int r = 0; r < RANKS; r++)
        ck_assert_msg(ranks[r].status == LK_OK, "%s", ranks[r].text);
    for (size_t i = 0; i < kept_track("net")->n; i++) {
        const struct lk_span *s = &kept_track("net")->spans[i];
        int v = 0;

        if (s->kind != LK_SPAN_COUNTER)
            continue;
        must(lk_words_find(&lk_hop_value_words, kept.names[s->name], &v));
        ck_assert_int_eq(s->index, 1);
        ck_assert(s->step == s->seq + 5 && s->seq > 1 && s->seq != CALLS - 2);
        ck_assert_double_ge(s->value, 0);
        sum[v] += s->value;
        n++;
    }
    ck_assert_uint_eq(n, apart ? (RINGS - 1) * LK_HOP_VALUES : 0);
    /* An acknowledgement of the last packet, of 64 KiB at most, may be late. */
    ck_assert_double_le(sum[LK_HOP_BYTES], 1.01 * sent);
    ck_assert(!apart || sum[LK_HOP_BYTES] > 0.99 * sent);
    /* no time at all, where the kernel's clock does not see it */
    ck_assert_double_le(sum[LK_HOP_RECEIVER] + sum[LK_HOP_BUFFER], sum[LK_HOP_BUSY] + 1e-5);
    kept_reset();
}
END_TEST

SUITE(hops_tcp, t)
{
    tcase_add_loop_test(t, rings_that_leave_the_host_are_recorded, 0, 2);
}
