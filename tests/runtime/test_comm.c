/* Communicators: compare every collective with a double reference; all ranks get the same bits. */
#include "runtime/comm/comm.h"

#include "facts/span.h"
#include "runtime/comm/comm_tcp.h"
#include "runtime/comm/reduce.h"
#include "tests/rigs/ranks.h"
#include "tests/rigs/suite.h"
#include "tests/rigs/waits.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t plenty_ns = WAIT_PLENTY_NS;

static void assert_all_ok(const struct rank *ranks, int n)
{
    for (int r = 0; r < n; r++)
        ck_assert_msg(ranks[r].status == LK_OK, "rank %d: %s", r, ranks[r].text);
}

/* ---- values ---- */

static void put(enum lk_dtype t, void *buf, size_t i, double v)
{
    switch (t) {
    case LK_F32:
        ((float *)buf)[i] = (float)v;
        break;
    case LK_F64:
        ((double *)buf)[i] = v;
        break;
    case LK_F16:
        ((uint16_t *)buf)[i] = lk_f16_from_f32((float)v);
        break;
    case LK_BF16:
        ((uint16_t *)buf)[i] = lk_bf16_from_f32((float)v);
        break;
    case LK_I32:
        ((int32_t *)buf)[i] = (int32_t)v;
        break;
    case LK_I64:
        ((int64_t *)buf)[i] = (int64_t)v;
        break;
    default:
        ((uint8_t *)buf)[i] = (uint8_t)v;
    }
}

static double get(enum lk_dtype t, const void *buf, size_t i)
{
    switch (t) {
    case LK_F32:
        return (double)((const float *)buf)[i];
    case LK_F64:
        return ((const double *)buf)[i];
    case LK_F16:
        return (double)lk_f32_from_f16(((const uint16_t *)buf)[i]);
    case LK_BF16:
        return (double)lk_f32_from_bf16(((const uint16_t *)buf)[i]);
    case LK_I32:
        return ((const int32_t *)buf)[i];
    case LK_I64:
        return (double)((const int64_t *)buf)[i];
    default:
        return ((const uint8_t *)buf)[i];
    }
}

/* Return the relative error of one rounding, half a unit in the last place. 0: exact. */
static double rounding(enum lk_dtype t)
{
    switch (t) {
    case LK_F32:
        return ldexp(1, -24);
    case LK_F64:
        return ldexp(1, -53);
    case LK_F16:
        return ldexp(1, -11);
    case LK_BF16:
        return ldexp(1, -8);
    default:
        return 0;
    }
}

/* Return rank r's value at index i: small whole numbers for integers, else any in [-1, 1). Each
 * rank asks for those of all: they are a hash (splitmix64, Steele, Lea, Flood 2014). */
static double value(enum lk_dtype t, uint64_t seed, int r, size_t i)
{
    uint64_t z = (seed << 40 ^ (uint64_t)r << 32 ^ i) * 0x9e3779b97f4a7c15U;
    double v;
    union {
        uint64_t bits;
        uint16_t half;
    } rounded = {0};

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9U;
    z = (z ^ z >> 27) * 0x94d049bb133111ebU;
    v = (double)((z ^ z >> 31) >> 11) * 0x1p-53;
    if (rounding(t) == 0)
        return floor(v * (t == LK_U8 ? 16 : 1000));
    put(t, &rounded, 0, 2 * v - 1);
    return get(t, &rounded, 0);
}

/* ---- one collective ---- */

struct shape {
    enum lk_coll coll;
    enum lk_algo algo;
    enum lk_dtype dtype;
    size_t count;
    int root;
};

static size_t elements(const struct shape *s, int world)
{
    bool parted = s->coll == LK_REDUCE_SCATTER || s->coll == LK_ALL_GATHER;

    return s->coll == LK_BARRIER ? 0 : parted ? s->count * (size_t)world : s->count;
}

static double expected(const struct shape *s, uint64_t seed, int world, size_t i, double *out_size)
{
    double sum = 0, size = 0;

    if (s->coll == LK_BROADCAST || s->coll == LK_ALL_GATHER) {
        *out_size = 0;
        return value(s->dtype, seed, s->coll == LK_BROADCAST ? s->root : (int)(i / s->count), i);
    }
    for (int r = 0; r < world; r++) {
        double v = value(s->dtype, seed, r, i);

        sum += v;
        size += fabs(v);
    }
    /* world - 1 roundings, each of a partial sum no larger than the sum of sizes. */
    *out_size = size * (world - 1) * 1.01;
    return sum;
}

/* Run it and check this rank's result; *out_hash covers the data that must
 * be equal on all ranks. */
static enum lk_status run_shape(struct lk_comm *c, const struct shape *s, uint64_t seed,
                                uint64_t *out_hash)
{
    int world = lk_comm_world_size(c), rank = lk_comm_rank(c);
    size_t n = elements(s, world), bytes = n * lk_dtype_bytes(s->dtype);
    size_t from = s->coll == LK_REDUCE_SCATTER ? (size_t)rank * s->count : 0;
    size_t to = s->coll == LK_REDUCE_SCATTER ? from + s->count : n;
    unsigned char *buf = malloc(bytes + 1);
    struct lk_coll_call call = {.coll = s->coll,
                                .algo = s->algo,
                                .dtype = s->dtype,
                                .buf = buf,
                                .count = s->count,
                                .root = s->root,
                                .index = -1};
    enum lk_status st;

    for (size_t i = 0; i < n; i++)
        put(s->dtype, buf, i, value(s->dtype, seed, rank, i));
    buf[bytes] = 0xA5;
    st = lk_comm_run(c, &call);
    *out_hash = 14695981039346656037ULL;
    for (size_t i = 0; i < bytes && s->coll != LK_REDUCE_SCATTER; i++)
        *out_hash = (*out_hash ^ buf[i]) * 1099511628211ULL;
    for (size_t i = from; i < to && st == LK_OK; i++) {
        double size, want = expected(s, seed, world, i, &size);

        if (!(fabs(get(s->dtype, buf, i) - want) <= rounding(s->dtype) * size))
            st = lk_fail(LK_EVERIFY, "%s %s %s of %zu: [%zu] is %.17g, not %.17g",
                         lk_algo_name(s->algo), lk_coll_name(s->coll), lk_dtype_name(s->dtype),
                         s->count, i, get(s->dtype, buf, i), want);
    }
    if (st == LK_OK && buf[bytes] != 0xA5)
        st = lk_fail(LK_EVERIFY, "%s wrote past its buffer", lk_coll_name(s->coll));
    free(buf);
    return st;
}

/* ---- all of them ---- */

static const struct {
    enum lk_coll coll;
    enum lk_algo algo;
} ways[] = {
    {LK_ALL_REDUCE, LK_ALGO_RING},         {LK_ALL_REDUCE, LK_ALGO_TREE},
    {LK_ALL_REDUCE, LK_ALGO_AUTO},         {LK_REDUCE_SCATTER, LK_ALGO_RING},
    {LK_ALL_GATHER, LK_ALGO_RING},         {LK_BROADCAST, LK_ALGO_RING},
    {LK_BROADCAST, LK_ALGO_TREE},          {LK_BARRIER, LK_ALGO_AUTO},
    {LK_ALL_REDUCE, LK_ALGO_HIERARCHICAL},
};
enum {
    N_WAYS = sizeof ways / sizeof *ways,
    N_SIZES = 9,
    CALLS = N_WAYS * N_SIZES * LK_DTYPE_COUNT
};

/* Ranks are threads, and differ in their addresses on the loopback interface as hosts do. */
struct matrix {
    size_t chunk_bytes;
    int hosts;    /* that the ranks are on; 0: all at one address */
    bool in_turn; /* rank r on host r % hosts, else neighbours are together */
    uint64_t hash[RANKS_MAX][CALLS];
};

static size_t size_of(int i, int world)
{
    const size_t k = (size_t)world;
    const size_t sizes[N_SIZES] = {0, 1, k - 1, k, k + 1, 17, 257, 1001, 64 * k};

    return sizes[i];
}

static enum lk_status open_on_hosts(struct rank *me, size_t chunk_bytes, int hosts, bool in_turn,
                                    struct lk_store **out_store, struct lk_comm **out)
{
    struct lk_comm_config config = {.rank = me->rank,
                                    .world_size = me->world_size,
                                    .timeout_ns = me->timeout_ns,
                                    .chunk_bytes = chunk_bytes,
                                    .poll_ns = in_turn ? 20000 : 0};
    int host = !hosts ? 0 : in_turn ? me->rank % hosts : me->rank * hosts / me->world_size;
    char listen[32];

    snprintf(listen, sizeof listen, "127.0.0.%d", host + 2);
    config.listen = hosts ? listen : NULL;
    LK_PASS(rank_connect(me, out_store));
    config.store = *out_store;
    return lk_comm_open("tcp", &config, out);
}

static enum lk_status run_matrix(struct rank *me)
{
    struct matrix *m = me->ctx;
    struct lk_store *store = NULL;
    struct lk_comm *c = NULL;
    enum lk_status st = LK_OK;
    int call = 0;

    LK_TRY(open_on_hosts(me, m->chunk_bytes, m->hosts, m->in_turn, &store, &c));
    for (int w = 0; w < N_WAYS; w++)
        for (int z = 0; z < N_SIZES; z++)
            for (int t = 0; t < LK_DTYPE_COUNT; t++, call++) {
                struct shape s = {.coll = ways[w].coll,
                                  .algo = ways[w].algo,
                                  .dtype = (enum lk_dtype)t,
                                  .count = size_of(z, me->world_size),
                                  .root = call % me->world_size};

                LK_TRY(run_shape(c, &s, (uint64_t)call, &m->hash[me->rank][call]));
            }
out:
    lk_comm_close(c);
    lk_store_close(store);
    return st;
}

static const struct {
    int world;
    size_t chunk_bytes;
    int hosts;
    bool in_turn;
} matrices[] = {{1, 0, 0, false},  {2, 64, 0, false}, {2, 0, 2, false},
                {3, 64, 0, false}, {3, 64, 3, false}, {4, 128, 2, false},
                {6, 0, 3, true},   {8, 64, 2, false}, {8, 0, 4, true}};

START_TEST(every_collective_on_threads)
{
    struct rank ranks[RANKS_MAX];
    struct matrix *m = calloc(1, sizeof *m);

    m->chunk_bytes = matrices[_i].chunk_bytes;
    m->hosts = matrices[_i].hosts;
    m->in_turn = matrices[_i].in_turn;
    ranks_run_threads(matrices[_i].world, plenty_ns, run_matrix, m, ranks);
    assert_all_ok(ranks, matrices[_i].world);
    for (int r = 1; r < matrices[_i].world; r++)
        ck_assert_msg(!memcmp(m->hash[0], m->hash[r], sizeof m->hash[0]),
                      "rank %d has other bits than rank 0", r);
    free(m);
}
END_TEST

static enum lk_status sum_on_two_hosts(struct rank *me)
{
    struct lk_store *store = NULL;
    struct lk_comm *c = NULL;
    enum lk_status st = LK_OK;
    float x = 1;

    LK_TRY(open_on_hosts(me, 0, 2, false, &store, &c));
    LK_TRY(lk_comm_run(c, &(struct lk_coll_call){.coll = LK_ALL_REDUCE,
                                                 .algo = LK_ALGO_HIERARCHICAL,
                                                 .dtype = LK_F32,
                                                 .buf = &x,
                                                 .count = 1,
                                                 .index = -1}));
out:
    lk_comm_close(c);
    lk_store_close(store);
    return st;
}

START_TEST(hosts_of_other_numbers_of_ranks_have_no_hierarchy)
{
    struct rank ranks[RANKS_MAX];

    ranks_run_threads(3, plenty_ns, sum_on_two_hosts, NULL, ranks);
    for (int r = 0; r < 3; r++) {
        ck_assert_int_eq(ranks[r].status, LK_EUSAGE);
        ck_assert_msg(strstr(ranks[r].text, "needs as many on each"), "%s", ranks[r].text);
    }
}
END_TEST

/* Several default chunks, a last one that is not full, and parts of unequal size. */
static enum lk_status run_large(struct rank *me)
{
    static const size_t counts[] = {(1 << 20) + 1, 700001, 300000};
    uint64_t(*hash)[6] = me->ctx;
    struct lk_store *store = NULL;
    struct lk_comm *c = NULL;
    enum lk_status st = LK_OK;

    LK_TRY(rank_open_tcp(me, 0, me->timeout_ns, &store, &c));
    for (int i = 0; i < 6; i++) {
        struct shape s = {.coll = LK_ALL_REDUCE,
                          .algo = i % 2 ? LK_ALGO_TREE : LK_ALGO_RING,
                          .dtype = i < 3 ? LK_F32 : LK_BF16,
                          .count = counts[i / 2]};

        LK_TRY(run_shape(c, &s, (uint64_t)i, &hash[me->rank][i]));
    }
out:
    lk_comm_close(c);
    lk_store_close(store);
    return st;
}

START_TEST(large_buffers_on_processes)
{
    struct rank ranks[RANKS_MAX];
    uint64_t(*hash)[6] = calloc(RANKS_MAX, sizeof *hash);

    ranks_run_processes(_i, plenty_ns, run_large, hash, 1, NULL, ranks);
    assert_all_ok(ranks, _i);
    ranks_run_threads(_i, plenty_ns, run_large, hash, ranks);
    assert_all_ok(ranks, _i);
    for (int r = 1; r < _i; r++)
        ck_assert(!memcmp(hash[0], hash[r], sizeof hash[0]));
    free(hash);
}
END_TEST

/* ---- sums ---- */

START_TEST(halves_are_rounded_as_the_conversions_do)
{
    enum lk_dtype t = _i ? LK_BF16 : LK_F16;
    float (*up)(uint16_t) = _i ? lk_f32_from_bf16 : lk_f32_from_f16;
    uint16_t (*down)(float) = _i ? lk_bf16_from_f32 : lk_f16_from_f32;
    uint16_t *a = malloc(65536 * sizeof *a), *b = malloc(65536 * sizeof *b);

    for (unsigned shift = 0; shift < 65536; shift += 4099) {
        for (unsigned i = 0; i < 65536; i++) {
            a[i] = (uint16_t)i;
            b[i] = (uint16_t)(i * 7 + shift);
        }
        lk_reduce_add(t, a, b, 65536);
        for (unsigned i = 0; i < 65536; i++) {
            uint16_t want = down(up((uint16_t)i) + up(b[i]));

            if (isnan(up(want))) /* any NaN is as good as another */
                ck_assert(isnan(up(a[i])));
            else
                ck_assert_msg(a[i] == want, "%04x + %04x is %04x, not %04x", i, b[i], a[i], want);
        }
    }
    free(a);
    free(b);
}
END_TEST

START_TEST(integers_wrap)
{
    int32_t a = INT32_MAX, b = 1;
    int64_t c = INT64_MIN, d = -1;
    uint8_t e = 255, f = 2;

    lk_reduce_add(LK_I32, &a, &b, 1);
    lk_reduce_add(LK_I64, &c, &d, 1);
    lk_reduce_add(LK_U8, &e, &f, 1);
    ck_assert_int_eq(a, INT32_MIN);
    ck_assert(c == INT64_MAX);
    ck_assert_int_eq(e, 1);
}
END_TEST

/* ---- on a stream ---- */

struct kept {
    struct lk_span spans[8];
    size_t n;
    char names[64][32];
};

static enum lk_status keep_open(void *sink, const struct lk_track_info *info, void **out_ctx)
{
    (void)info;
    *out_ctx = sink;
    return LK_OK;
}

static enum lk_status keep_name(void *sink, uint16_t id, const char *name)
{
    struct kept *k = sink;

    if (id < 64)
        snprintf(k->names[id], sizeof k->names[id], "%s", name);
    return LK_OK;
}

static void keep_span(void *ctx, const struct lk_span *s)
{
    struct kept *k = ctx;

    if (k->n < 8)
        k->spans[k->n++] = *s;
}

/* Three all-reduces on a stream; the last one fails on all ranks. */
static enum lk_status enqueue(struct rank *me)
{
    static const struct lk_sink_ops sink = {
        .name = "kept", .track_open = keep_open, .name_added = keep_name, .emit = keep_span};
    struct kept *kept = (struct kept *)me->ctx + me->rank;
    struct lk_comm_config config = {.rank = me->rank,
                                    .world_size = me->world_size,
                                    .timeout_ns = me->timeout_ns,
                                    .fault = "fail:call=2"};
    struct lk_device_config dc = {.timed_flops = 1, .timed_Bps = 1, .slowdown = 1};
    struct lk_recorder *recorder = NULL;
    struct lk_device *device = NULL;
    struct lk_stream *s = NULL;
    struct lk_event *full = NULL;
    struct lk_comm *c = NULL;
    enum lk_status st = LK_OK;
    float x[2] = {1, 2};
    struct lk_coll_call call = {
        .coll = LK_ALL_REDUCE, .dtype = LK_F32, .buf = x, .count = 2, .index = 4};

    LK_TRY(lk_recorder_create(&recorder));
    LK_TRY(lk_recorder_attach(recorder, &sink, kept));
    dc.recorder = config.recorder = recorder;
    LK_TRY(lk_device_open("cpu", &dc, &device));
    LK_TRY(lk_stream_create(
        device, &(struct lk_track_info){.name = "net", .kind = LK_TRACK_COMM, .stream = 1}, &s));
    LK_TRY(lk_event_create(device, &full));
    LK_TRY(rank_connect(me, &config.store));
    LK_TRY(lk_comm_open("tcp", &config, &c));
    call.ready = full;
    for (uint32_t step = 7; step < 10; step++) {
        lk_stream_set_step(s, step);
        LK_TRY(lk_event_record(full, s));
        LK_TRY(lk_comm_enqueue(c, s, &call));
        LK_TRY(lk_stream_sync(s, lk_deadline_in(me->timeout_ns)));
        if (x[0] < (step == 7 ? 2 : 4) || x[0] > (step == 7 ? 2 : 4))
            st = lk_fail(LK_EVERIFY, "step %u gives %g", (unsigned)step, (double)x[0]);
        if (st != LK_OK)
            goto out;
    }
out:
    lk_event_destroy(full);
    lk_stream_destroy(s);
    lk_comm_close(c);
    lk_store_close(config.store);
    lk_device_close(device);
    lk_recorder_destroy(recorder);
    return st;
}

START_TEST(on_a_stream_with_spans)
{
    struct kept kept[2];
    struct rank ranks[RANKS_MAX];

    memset(kept, 0, sizeof kept);
    ranks_run_threads(2, plenty_ns, enqueue, kept, ranks);
    for (int r = 0; r < 2; r++) {
        ck_assert_int_eq(ranks[r].status, LK_EIO);
        ck_assert_str_eq(ranks[r].text, "all_reduce 2 (bucket 4, step 9): a planted failure");
        ck_assert_uint_eq(kept[r].n, 2);
        for (uint32_t i = 0; i < 2; i++) {
            const struct lk_span *s = &kept[r].spans[i];

            ck_assert_int_eq(s->kind, LK_SPAN_COLLECTIVE);
            ck_assert_str_eq(kept[r].names[s->name], "all_reduce");
            ck_assert_uint_eq(s->step, 7 + i);
            ck_assert_uint_eq(s->seq, i);
            ck_assert_int_eq(s->index, 4);
            ck_assert_uint_eq(s->bytes, 8);
            ck_assert_uint_le(s->ready_ns, s->start_ns);
            ck_assert_uint_lt(s->start_ns, s->end_ns);
            ck_assert_uint_gt(s->ready_ns, i ? kept[r].spans[0].end_ns : 0);
        }
    }
}
END_TEST

/* ---- wrong use ---- */

START_TEST(wrong_configurations)
{
    struct lk_comm *c = NULL;
    struct lk_comm_config config = {.rank = 0, .world_size = 2, .timeout_ns = plenty_ns};

    ck_assert_int_eq(lk_comm_open("tcp", &config, &c), LK_EUSAGE); /* no store */
    config.rank = 2;
    ck_assert_int_eq(lk_comm_open("tcp", &config, &c), LK_EUSAGE);
    config.rank = 0;
    config.world_size = 1;
    ck_assert_int_eq(lk_comm_open("smoke", &config, &c), LK_EUNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "smoke"));
    ck_assert_ptr_null(c);
}
END_TEST

START_TEST(wrong_calls_kill_the_communicator)
{
    struct lk_comm *c = NULL;
    struct lk_comm_config config = {.world_size = 1, .timeout_ns = plenty_ns};
    float x = 1;
    struct lk_coll_call call = {.coll = LK_BROADCAST, .dtype = LK_F32, .buf = &x, .count = 1};

    ck_assert_int_eq(lk_comm_open("self", &config, &c), LK_OK);
    ck_assert_int_eq(lk_comm_run(c, &call), LK_OK);
    call.root = 1;
    ck_assert_int_eq(lk_comm_run(c, &call), LK_EUSAGE);
    ck_assert_str_eq(lk_error_text(), "broadcast 1: there is no rank 1 of 1 to broadcast from");
    call.root = 0;
    ck_assert_int_eq(lk_comm_run(c, &call), LK_EUSAGE);
    ck_assert_str_eq(lk_error_text(), "broadcast 1: there is no rank 1 of 1 to broadcast from");
    lk_comm_close(c);
}
END_TEST

static enum lk_status call_something_else(struct rank *me)
{
    struct lk_store *store = NULL;
    struct lk_comm *c = NULL;
    enum lk_status st = LK_OK;
    float x[8] = {0};
    struct lk_coll_call call = {.coll = LK_ALL_REDUCE, .dtype = LK_F32, .buf = x, .index = -1};

    LK_TRY(rank_open_tcp(me, 0, me->timeout_ns, &store, &c));
    LK_TRY(lk_store_barrier(store, "all are open"));
    call.count = me->rank == 1 ? 7 : 8;
    st = lk_comm_run(c, &call);
out:
    lk_comm_close(c);
    lk_store_close(store);
    return st;
}

START_TEST(ranks_that_disagree_are_told)
{
    struct rank ranks[RANKS_MAX];

    ranks_run_threads(3, plenty_ns, call_something_else, NULL, ranks);
    for (int r = 0; r < 3; r++) {
        ck_assert_int_eq(ranks[r].status, LK_EPEER);
        ck_assert_str_eq(ranks[r].text, ranks[0].text);
        ck_assert_ptr_nonnull(strstr(ranks[r].text, "all_reduce 0: rank "));
        ck_assert_ptr_nonnull(strstr(ranks[r].text, "collectives differ"));
        ck_assert_ptr_nonnull(strstr(ranks[r].text, "of 7 float32"));
        ck_assert_ptr_nonnull(strstr(ranks[r].text, "of 8 float32"));
    }
}
END_TEST

SUITE(comm, c)
{
    tcase_add_loop_test(c, every_collective_on_threads, 0,
                        (int)(sizeof matrices / sizeof *matrices));
    tcase_add_test(c, hosts_of_other_numbers_of_ranks_have_no_hierarchy);
    tcase_add_loop_test(c, large_buffers_on_processes, 2, 5);
    tcase_add_loop_test(c, halves_are_rounded_as_the_conversions_do, 0, 2);
    tcase_add_test(c, integers_wrap);
    tcase_add_test(c, on_a_stream_with_spans);
    tcase_add_test(c, wrong_configurations);
    tcase_add_test(c, wrong_calls_kill_the_communicator);
    tcase_add_test(c, ranks_that_disagree_are_told);
}
