/* The probes: their rows, and that all ranks get the same numbers. The times are the machine's. */
#include "runtime/probe/probe.h"
#include "sim/calibration.h"

#include "base/array.h"
#include "kernels/ops.h"
#include "tests/rigs/ranks.h"
#include "tests/rigs/suite.h"
#include "tests/rigs/waits.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { WORLD = 3, REPETITIONS = 4, WARMUP = 1, SAMPLES = REPETITIONS + WARMUP };

static const uint64_t plenty_ns = WAIT_PLENTY_NS;

/* Each rank's measurements, to be compared. */
struct results {
    struct lk_probe_rows rows[WORLD];
    struct lk_probe_colocation colocation[WORLD];
    struct lk_probe_overlap overlap[WORLD];
    atomic_int units;
};

static void count_unit(void *ctx)
{
    struct results *r = ctx;

    atomic_fetch_add(&r->units, 1);
    lk_sleep_until_ns(lk_monotonic_ns() + 20000);
}

/* Collectives to be probed, and what each rank measured. */
struct asked {
    struct lk_probe_collectives_config config;
    struct lk_probe_rows rows[RANKS_MAX];
};

static const enum lk_dtype float32[] = {LK_F32};
#define LISTS(c, a, b)                                                                             \
    .colls = (c), .n_colls = LK_COUNT(c), .algos = (a), .n_algos = LK_COUNT(a), .bytes = (b),      \
    .n_bytes = LK_COUNT(b), .dtypes = float32, .n_dtypes = 1

static enum lk_status probe(struct rank *me)
{
    struct asked *asked = me->ctx;
    struct lk_store *store = NULL;
    struct lk_comm *c = NULL;
    enum lk_status st = LK_OK;

    LK_TRY(rank_open_tcp(me, 0, me->timeout_ns, &store, &c));
    LK_TRY(lk_probe_collectives(c, &asked->config, &asked->rows[me->rank]));
out:
    lk_comm_close(c);
    lk_store_close(store);
    return st;
}

static void ask(int world, struct asked *asked)
{
    struct rank ranks[RANKS_MAX];

    ranks_run_threads(world, plenty_ns, probe, asked, ranks);
    for (int r = 0; r < world; r++)
        ck_assert_msg(ranks[r].status == LK_OK, "rank %d: %s", r, ranks[r].text);
}

static void asked_fini(struct asked *asked)
{
    for (int r = 0; r < RANKS_MAX; r++)
        lk_probe_rows_fini(&asked->rows[r]);
}

static void check_row(const struct lk_probe_row *a, const struct lk_probe_row *b)
{
    ck_assert_uint_eq(a->n, SAMPLES);
    ck_assert_uint_eq(a->warmup, WARMUP);
    ck_assert_int_eq(a->ranks, WORLD);
    ck_assert_uint_eq(a->burst, b->burst);
    ck_assert(a->timing == LK_TIMING_ALONE ? a->burst == 1 : a->burst >= 2);
    for (size_t i = 0; i < a->n; i++) {
        ck_assert_double_gt(a->wire_s[i], 0);
        ck_assert_double_ge(a->time_s[i], a->wire_s[i]);
        ck_assert(!memcmp(&a->time_s[i], &b->time_s[i], sizeof(double)));
        ck_assert(!memcmp(&a->wire_s[i], &b->wire_s[i], sizeof(double)));
    }
}

START_TEST(collectives)
{
    /* Collective, algorithm, and the usable part of 4, 1000 and 4096 bytes; both timings each. */
    static const struct {
        enum lk_coll coll;
        enum lk_algo algo;
        uint64_t bytes;
    } want[] = {
        {LK_ALL_REDUCE, LK_ALGO_RING, 4},    {LK_ALL_REDUCE, LK_ALGO_RING, 1000},
        {LK_ALL_REDUCE, LK_ALGO_RING, 4096}, {LK_ALL_REDUCE, LK_ALGO_TREE, 4},
        {LK_ALL_REDUCE, LK_ALGO_TREE, 1000}, {LK_ALL_REDUCE, LK_ALGO_TREE, 4096},
        {LK_ALL_GATHER, LK_ALGO_RING, 996},  {LK_ALL_GATHER, LK_ALGO_RING, 4092},
        {LK_BARRIER, LK_ALGO_TREE, 0},
    };
    static const enum lk_coll colls[] = {LK_ALL_REDUCE, LK_ALL_GATHER, LK_BARRIER};
    static const enum lk_algo algos[] = {LK_ALGO_RING, LK_ALGO_TREE};
    static const uint64_t bytes[] = {4, 1000, 4096};
    struct asked asked = {.config = {LISTS(colls, algos, bytes), .effort.repetitions = REPETITIONS,
                                     .effort.warmup = WARMUP, .burst_s = 0.0005}};
    size_t found = 0;

    ask(WORLD, &asked);
    for (int r = 0; r < WORLD; r++)
        ck_assert_uint_eq(asked.rows[r].n, 2 * LK_COUNT(want));
    for (size_t i = 0; i < asked.rows[0].n; i++) {
        const struct lk_probe_row *row = &asked.rows[0].row[i];

        check_row(row, &asked.rows[1].row[i]);
        for (size_t w = 0; w < LK_COUNT(want); w++)
            found += want[w].coll == row->coll && want[w].algo == row->algo &&
                     want[w].bytes == row->bytes;
    }
    ck_assert_uint_eq(found, 2 * LK_COUNT(want));
    asked_fini(&asked);
}
END_TEST

/* AUTO has a row on each side of the size from which tcp takes the ring, on 3 ranks above 128 KiB
 * for an all-reduce and 64 KiB for a broadcast; and each row has the fewest samples that have a
 * spread, without a warm-up. */
START_TEST(sides_of_a_switch)
{
    static const uint64_t want[LK_COLL_MODELLED][6] = {
        [LK_ALL_REDUCE] = {4096, 65536, 131072, 131076, 262144, 524288},
        [LK_BROADCAST] = {4096, 65536, 65540, 262144, 524288},
    };
    static const enum lk_coll colls[] = {LK_ALL_REDUCE, LK_BROADCAST};
    static const enum lk_algo algos[] = {LK_ALGO_AUTO, LK_ALGO_RING};
    static const uint64_t bytes[] = {4096, 65536, 262144, 524288};
    struct asked asked = {
        .config = {
            LISTS(colls, algos, bytes),
            .effort = {.repetitions = 20, .warmup = 2, .budget_s = 1e-9}}}; /* over at once */
    size_t at = 0, of_auto = 0;

    ask(WORLD, &asked);
    for (size_t i = 0; i < asked.rows[0].n; i++) {
        const struct lk_probe_row *row = &asked.rows[0].row[i];

        ck_assert_uint_eq(row->n, LK_PROBE_SAMPLES_MIN);
        ck_assert_uint_eq(row->warmup, 0);
        if (row->algo != LK_ALGO_AUTO)
            continue;
        at = row->bytes == want[row->coll][0] ? 0 : at + 1;
        ck_assert_uint_eq(row->bytes, want[row->coll][at]);
        of_auto++;
    }
    ck_assert_uint_eq(of_auto, 2 * (6 + 5));
    ck_assert_uint_eq(asked.rows[0].n, of_auto + 2 * (4 + 4));
    asked_fini(&asked);
}
END_TEST

/* Pairs of four ranks are two nodes: what has groups is measured inside them, too. */
START_TEST(inside_nodes)
{
    /* Ranks, and the bytes of equal parts: of 249 elements 248 for two ranks and for four */
    static const struct {
        enum lk_coll coll;
        enum lk_algo algo;
        int ranks;
        uint64_t bytes;
    } want[] = {{LK_ALL_REDUCE, LK_ALGO_RING, 4, 996}, {LK_ALL_REDUCE, LK_ALGO_RING, 2, 996},
                {LK_ALL_REDUCE, LK_ALGO_TREE, 4, 996}, {LK_ALL_REDUCE, LK_ALGO_TREE, 2, 996},
                {LK_ALL_GATHER, LK_ALGO_RING, 4, 992}, {LK_ALL_GATHER, LK_ALGO_RING, 2, 992},
                {LK_BARRIER, LK_ALGO_TREE, 4, 0}};
    static const enum lk_coll colls[] = {LK_ALL_REDUCE, LK_ALL_GATHER, LK_BARRIER};
    static const enum lk_algo algos[] = {LK_ALGO_RING, LK_ALGO_TREE};
    static const uint64_t bytes[] = {996};
    struct asked asked = {.config = {LISTS(colls, algos, bytes), .inside = 2,
                                     .effort.repetitions = 2, .burst_s = 0.0005}};
    struct lk_cluster c;
    size_t n = 0;

    ask(4, &asked);
    lk_cluster_init(&c);
    ck_assert_int_eq(lk_calibration_add_points(&asked.rows[0], 2, &c), LK_OK);
    for (size_t w = 0; w < LK_COUNT(want); w++)
        for (size_t i = 0; i < c.n_points; i++) {
            const struct lk_cluster_point *p = &c.points[i];

            n += p->coll == want[w].coll && p->algo == want[w].algo && p->ranks == want[w].ranks &&
                 p->nodes == want[w].ranks / 2 && p->bytes == want[w].bytes;
        }
    ck_assert_uint_eq(n, c.n_points);
    ck_assert_uint_eq(n, 2 * LK_COUNT(want)); /* alone and back to back */
    lk_cluster_fini(&c);
    asked_fini(&asked);
}
END_TEST

static enum lk_status probe_compute(struct rank *me)
{
    struct results *results = me->ctx;
    struct lk_probe_compute_config config = {.work = {count_unit, results},
                                             .unit_target_s = 0.001,
                                             .effort.repetitions = REPETITIONS,
                                             .effort.warmup = WARMUP};
    struct lk_store *store = NULL;
    struct lk_comm *c = NULL;
    enum lk_status st = LK_OK;

    LK_TRY(rank_open_tcp(me, 0, me->timeout_ns, &store, &c));
    LK_TRY(lk_probe_colocation(c, &config, &results->colocation[me->rank]));
    config.work = (struct lk_probe_work){0}; /* the built-in one */
    LK_TRY(lk_probe_overlap(c, &config, 100000, &results->overlap[me->rank]));
out:
    lk_comm_close(c);
    lk_store_close(store);
    return st;
}

static void check_same(const double *a, const double *b, size_t n, double above)
{
    for (size_t i = 0; i < n; i++) {
        ck_assert(isfinite(a[i]));
        ck_assert_double_gt(a[i], above);
        ck_assert(!memcmp(&a[i], &b[i], sizeof *a));
    }
}

START_TEST(compute)
{
    struct results *results = calloc(1, sizeof *results);
    struct rank ranks[RANKS_MAX];

    ranks_run_threads(WORLD, plenty_ns, probe_compute, results, ranks);
    for (int r = 0; r < WORLD; r++) {
        const struct lk_probe_colocation *c = &results->colocation[r];
        const struct lk_probe_overlap *o = &results->overlap[r];

        ck_assert_msg(ranks[r].status == LK_OK, "rank %d: %s", r, ranks[r].text);
        ck_assert_int_eq(c->ranks, WORLD);
        ck_assert_uint_eq(c->n, SAMPLES);
        ck_assert_uint_eq(o->n, SAMPLES);
        check_same(c->alone_s, results->colocation[0].alone_s, SAMPLES * WORLD, 0);
        check_same(c->together_s, results->colocation[0].together_s, SAMPLES * WORLD, 0);
        check_same(o->gamma_wait, results->overlap[0].gamma_wait, SAMPLES, -1);
        check_same(o->gamma_wire, results->overlap[0].gamma_wire, SAMPLES, -1);
        check_same(o->delta, results->overlap[0].delta, SAMPLES, -1);
    }
    /* Every stretch has at least one unit, alone and together, on every rank. */
    ck_assert_int_ge(atomic_load(&results->units), 2 * SAMPLES * WORLD);
    for (int r = 0; r < WORLD; r++) {
        lk_probe_colocation_fini(&results->colocation[r]);
        lk_probe_overlap_fini(&results->overlap[r]);
    }
    free(results);
}
END_TEST

/* Wait on the stream: a device that waits instead of computing, with collectives over sockets. */
static enum lk_status put_wait(void *ctx, struct lk_stream *s)
{
    (void)ctx;
    return LK_LAUNCH(s, wait, .seconds = 0.0005);
}

static enum lk_status probe_streams(struct rank *me)
{
    static const struct lk_device_config dc = {
        .timed_flops = 1e12, .timed_Bps = 1e11, .slowdown = 1};
    static const struct lk_probe_beside beside = {.bytes = 100000};
    struct lk_probe_stream_config config = {.unit = put_wait,
                                            .unit_target_s = 0.02,
                                            .effort.repetitions = REPETITIONS,
                                            .effort.warmup = WARMUP,
                                            .timeout_ns = plenty_ns};
    struct results *results = me->ctx;
    struct lk_device *d = NULL;
    struct lk_store *store = NULL;
    struct lk_comm *c = NULL;
    enum lk_status st = LK_OK;

    LK_TRY(rank_open_tcp(me, 0, me->timeout_ns, &store, &c));
    LK_TRY(lk_device_open("timed", &dc, &d));
    LK_TRY(lk_stream_create(d, &(struct lk_track_info){.name = "compute"}, &config.compute));
    LK_TRY(lk_stream_create(d, &(struct lk_track_info){.name = "net"}, &config.net));
    LK_TRY(lk_probe_overlap_streams(c, &config, &beside, &results->overlap[me->rank]));
out:
    lk_stream_destroy(config.compute);
    lk_stream_destroy(config.net);
    lk_device_close(d);
    lk_comm_close(c);
    lk_store_close(store);
    return st;
}

/* On a busy machine, collectives over sockets may never last as long as the concurrent waits; then
 * all ranks report it. test_calibrate_cuda tests the figures on a model of time. */
START_TEST(overlap_on_streams)
{
    struct results *results = calloc(1, sizeof *results);
    struct rank ranks[RANKS_MAX];

    ranks_run_threads(WORLD, plenty_ns, probe_streams, results, ranks);
    for (int r = 0; r < WORLD; r++) {
        const struct lk_probe_overlap *o = &results->overlap[r];

        ck_assert_int_eq(ranks[r].status, ranks[0].status);
        if (ranks[r].status == LK_EEVIDENCE) {
            ck_assert_ptr_nonnull(strstr(ranks[r].text, "did not last as long as each other"));
            continue;
        }
        ck_assert_msg(ranks[r].status == LK_OK, "rank %d: %s", r, ranks[r].text);
        ck_assert_uint_eq(o->n, SAMPLES);
        check_same(o->gamma_wait, results->overlap[0].gamma_wait, SAMPLES, -1);
        check_same(o->gamma_wire, results->overlap[0].gamma_wire, SAMPLES, -1);
        check_same(o->delta, results->overlap[0].delta, SAMPLES, -1);
    }
    for (int r = 0; r < WORLD; r++)
        lk_probe_overlap_fini(&results->overlap[r]);
    free(results);
}
END_TEST

/* Parts of the buffer are multiples of 16 bytes there, as GPUs' collectives want. */
static enum lk_status probe_gather_on_stream(struct rank *me)
{
    static const struct lk_device_config dc = {
        .timed_flops = 1e12, .timed_Bps = 1e11, .slowdown = 1};
    static const enum lk_coll colls[] = {LK_ALL_GATHER};
    static const enum lk_algo algos[] = {LK_ALGO_RING};
    static const uint64_t bytes[] = {40, 1000, 4096};
    static const enum lk_dtype dtypes[] = {LK_F32};
    struct results *results = me->ctx;
    struct lk_probe_collectives_config config = {.colls = colls,
                                                 .n_colls = LK_COUNT(colls),
                                                 .algos = algos,
                                                 .n_algos = LK_COUNT(algos),
                                                 .bytes = bytes,
                                                 .n_bytes = LK_COUNT(bytes),
                                                 .dtypes = dtypes,
                                                 .n_dtypes = LK_COUNT(dtypes),
                                                 .timeout_ns = plenty_ns,
                                                 .effort.repetitions = 1,
                                                 .burst_s = 0.0005};
    struct lk_device *d = NULL;
    struct lk_store *store = NULL;
    struct lk_comm *c = NULL;
    enum lk_status st = LK_OK;

    LK_TRY(rank_open_tcp(me, 0, me->timeout_ns, &store, &c));
    LK_TRY(lk_device_open("timed", &dc, &d));
    LK_TRY(lk_stream_create(d, &(struct lk_track_info){.name = "net"}, &config.stream));
    LK_TRY(lk_probe_collectives(c, &config, &results->rows[me->rank]));
out:
    lk_stream_destroy(config.stream);
    lk_device_close(d);
    lk_comm_close(c);
    lk_store_close(store);
    return st;
}

START_TEST(parts_on_streams)
{
    static const uint64_t want[] = {960, 4080}; /* of 1000 and 4096; of 40 nothing is usable */
    struct results *results = calloc(1, sizeof *results);
    struct rank ranks[RANKS_MAX];

    ranks_run_threads(WORLD, plenty_ns, probe_gather_on_stream, results, ranks);
    for (int r = 0; r < WORLD; r++) {
        ck_assert_msg(ranks[r].status == LK_OK, "rank %d: %s", r, ranks[r].text);
        ck_assert_uint_eq(results->rows[r].n, 2 * LK_COUNT(want));
        for (size_t i = 0; i < results->rows[r].n; i++)
            ck_assert_uint_eq(results->rows[r].row[i].bytes, want[i % LK_COUNT(want)]);
        lk_probe_rows_fini(&results->rows[r]);
    }
    free(results);
}
END_TEST

START_TEST(one_rank)
{
    struct lk_comm_config config = {.world_size = 1};
    struct lk_probe_collectives_config sizes = {.effort.repetitions = 1};
    struct lk_probe_compute_config work = {.unit_target_s = 0.001, .effort.repetitions = 2};
    struct lk_probe_colocation c = {0};
    struct lk_probe_overlap o = {0};
    struct lk_probe_rows rows = {0};
    struct lk_comm *self = NULL;

    ck_assert_int_eq(lk_comm_open("self", &config, &self), LK_OK);
    ck_assert_int_eq(lk_probe_collectives(self, &sizes, &rows), LK_OK);
    ck_assert_uint_eq(rows.n, 0);
    ck_assert_int_eq(lk_probe_colocation(self, &work, &c), LK_OK);
    ck_assert_uint_eq(c.n, 2);
    ck_assert_double_gt(c.alone_s[1], 0);
    ck_assert_int_eq(lk_probe_overlap(self, &work, 1000, &o), LK_EUSAGE);
    lk_probe_colocation_fini(&c);
    lk_comm_close(self);
}
END_TEST

SUITE(probe, c)
{
    tcase_add_test(c, collectives);
    tcase_add_test(c, inside_nodes);
    tcase_add_test(c, sides_of_a_switch);
    tcase_add_test(c, compute);
    tcase_add_test(c, overlap_on_streams);
    tcase_add_test(c, parts_on_streams);
    tcase_add_test(c, one_rank);
}
