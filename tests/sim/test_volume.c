/* Volumes of every scheme against the closed formulas, and order and
 * position of the collectives. */
#include "base/array.h"
#include "base/rng.h"
#include "sim/planning/memory.h"
#include "sim/step/config.h"
#include "sim/step/step.h"
#include "sim/step/volume.h"
#include "tests/rigs/cases.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* 64 matrices of 256 x 1024 floats: 1 MiB each, ready at equal distances. */
enum { TENSORS = 64, ROWS = 256, COLUMNS = 1024, N = 32, PER_NODE = 8, K = 4, GROUP = 8, H = 50 };
static const double M = (double)TENSORS * ROWS * COLUMNS * 4;

struct fixture {
    struct lk_job job;
    struct lk_job_tensor tensors[TENSORS];
    size_t order[TENSORS];
};

static void fixture_init(struct fixture *f)
{
    memset(f, 0, sizeof *f);
    for (size_t i = 0; i < TENSORS; i++) {
        f->tensors[i] = (struct lk_job_tensor){.elems = ROWS * COLUMNS,
                                               .dtype = LK_F32,
                                               .ready = 1 - (double)i / TENSORS,
                                               .rows = ROWS};
        f->order[i] = TENSORS - 1 - i;
    }
    f->job.tensors = f->tensors;
    f->job.n_tensors = TENSORS;
    f->job.ready_order = f->order;
}

static struct lk_config plain(void)
{
    return (struct lk_config){.world_size = N,
                              .nodes = N / PER_NODE,
                              .local_batch = 1,
                              .accumulation = K,
                              .reduce = LK_REDUCTION_LAST,
                              .first_bytes = 1 << 20,
                              .cap_bytes = 8 << 20};
}

static struct lk_volume volume(const struct fixture *f, const struct lk_config *c)
{
    struct lk_volume v;

    ck_assert_msg(lk_volume_init(&v, &f->job, c) == LK_OK, "%s", lk_error_text());
    return v;
}

/* Returns the bytes that a rank sends in an optimizer step, rings assumed. */
static double sent(const struct fixture *f, const struct lk_config *c)
{
    struct lk_volume v = volume(f, c);
    double bytes = 0;

    for (size_t i = 0; i < v.n; i++) {
        const struct lk_volume_coll *k = &v.colls[i];

        bytes += lk_coll_wire_bytes(v.steps[i].coll, (double)v.steps[i].bytes, k->ranks) *
                 (v.steps[i].every_micro_batch ? c->accumulation : 1) / k->period;
    }
    lk_volume_fini(&v);
    return bytes;
}

/* The table of sim/step/volume.h: bytes = over_n (N-1)/N M + over_s (S-1)/S M + over_r 2 (R-1)/R
 * M/S. */
enum { USUAL = -1 }; /* as the scheme's library does, from a job with no_sync */
static const struct {
    enum lk_sharding sharding;
    int reduce;
    double over_n, over_s, over_r;
} table[] = {
    {LK_SHARDING_DDP, USUAL, 2, 0, 0},
    {LK_SHARDING_DDP, LK_REDUCTION_EVERY, 2 * K, 0, 0},
    {LK_SHARDING_DDP, LK_REDUCTION_SCATTER, 2 * K, 0, 0},
    {LK_SHARDING_DDP, LK_REDUCTION_LAST, 2, 0, 0},
    {LK_SHARDING_ZERO1, USUAL, 2, 0, 0},
    {LK_SHARDING_ZERO1, LK_REDUCTION_EVERY, K + 1, 0, 0},
    {LK_SHARDING_ZERO2, USUAL, K + 1, 0, 0},
    {LK_SHARDING_ZERO2, LK_REDUCTION_LAST, 2, 0, 0},
    {LK_SHARDING_ZERO3, USUAL, 3 * K, 0, 0},
    {LK_SHARDING_ZERO3, LK_REDUCTION_LAST, 2 * K + 1, 0, 0},
    {LK_SHARDING_GRAD_OP, USUAL, 2 * K, 0, 0},
    {LK_SHARDING_GRAD_OP, LK_REDUCTION_LAST, K + 1, 0, 0},
    {LK_SHARDING_HSDP, USUAL, 0, 3 * K, K},
    {LK_SHARDING_HSDP, LK_REDUCTION_EVERY, 0, 3 * K, K},
    {LK_SHARDING_HSDP, LK_REDUCTION_SCATTER, 0, 3 * K, 1},
    {LK_SHARDING_HSDP, LK_REDUCTION_LAST, 0, 2 * K + 1, 1},
    {LK_SHARDING_LOCAL_SGD, USUAL, 2.0 / H, 0, 0},
    {LK_SHARDING_DILOCO, USUAL, 2.0 / H, 0, 0},
    {LK_SHARDING_ASYNC, USUAL, 2, 0, 0},
};

START_TEST(a_scheme_moves_what_its_formula_says)
{
    struct fixture f;
    struct lk_config c = plain();
    double n = (N - 1.0) / N * M, s = (GROUP - 1.0) / GROUP * M;
    double r = 2.0 * (N / GROUP - 1.0) / ((double)N / GROUP) * M / GROUP;

    fixture_init(&f);
    lk_config_shard(&c, table[_i].sharding, LK_REDUCTION_LAST);
    if (table[_i].reduce != USUAL)
        c.reduce = (enum lk_reduction)table[_i].reduce;
    c.averaging_period = H;
    c.shard_group = c.sharding == LK_SHARDING_HSDP ? GROUP : 0;
    ck_assert_double_eq_tol(
        sent(&f, &c), table[_i].over_n * n + table[_i].over_s * s + table[_i].over_r * r, 1e-9 * M);
}
END_TEST

/* Either hook halves the bytes; a gradient dtype changes the buckets, a hook does not. */
START_TEST(two_bytes_halve_float32)
{
    struct fixture f;
    struct lk_config c = plain();
    struct lk_volume v, w;
    double whole;

    fixture_init(&f);
    whole = sent(&f, &c);
    v = volume(&f, &c);
    c.compression = LK_COMPRESSION_FP16;
    w = volume(&f, &c);
    ck_assert_double_eq_tol(sent(&f, &c), whole / 2, 1e-6);
    ck_assert_uint_eq(v.n, w.n);
    /* Read 4 and write 2, divide 2 + 2, read 2 and write 4. */
    ck_assert_double_eq_tol(w.colls[0].memory_bytes, 16 * ROWS * COLUMNS, 1e-6);
    lk_volume_fini(&w);
    c.compression = LK_COMPRESSION_NONE;
    c.grad_dtype = LK_GRAD_BF16;
    w = volume(&f, &c);
    ck_assert_double_eq_tol(sent(&f, &c), whole / 2, 1e-6);
    ck_assert_uint_lt(w.n, v.n);
    c.compression = LK_COMPRESSION_BF16; /* nothing is left to cast */
    ck_assert_double_eq_tol(sent(&f, &c), whole / 2, 1e-6);
    c.compression = LK_COMPRESSION_NONE;
    c.grad_dtype = LK_GRAD_F8;
    ck_assert_double_eq_tol(sent(&f, &c), whole / 4, 1e-6);
    lk_volume_fini(&w);
    lk_volume_fini(&v);
}
END_TEST

/* The ratio is n m / ((n + m) r) where that pays; else the tensor is sent whole. */
START_TEST(powersgd_sends_factors)
{
    struct fixture f;
    struct lk_config c = plain();
    struct lk_volume v;
    double whole;

    fixture_init(&f);
    whole = sent(&f, &c);
    c.compression = LK_COMPRESSION_POWERSGD;
    c.powersgd_rank = 4;
    ck_assert_double_eq_tol(sent(&f, &c), whole * (ROWS + COLUMNS) * 4 / (ROWS * COLUMNS), 1e-3);
    v = volume(&f, &c);
    ck_assert_uint_eq(v.steps[0].bytes, (uint64_t)ROWS * 4 * 4);
    ck_assert_uint_eq(v.steps[1].bytes, (uint64_t)COLUMNS * 4 * 4);
    ck_assert(!v.shapes_assumed);
    lk_volume_fini(&v);
    /* (n + m) r 2 < n m fails from r = 103 on. */
    c.powersgd_rank = 102;
    ck_assert_double_lt(sent(&f, &c), whole);
    c.powersgd_rank = 103;
    ck_assert_double_eq_tol(sent(&f, &c), whole, 1e-6);
    /* A vector is sent whole, in a collective of its own in its bucket. */
    f.tensors[TENSORS - 1].rows = f.tensors[TENSORS - 1].elems;
    c.powersgd_rank = 4;
    v = volume(&f, &c);
    ck_assert_uint_eq(v.steps[0].bytes, (uint64_t)ROWS * COLUMNS * 4);
    lk_volume_fini(&v);
    /* So is a tensor without rows, where others have some. */
    f.tensors[TENSORS - 1].rows = 0;
    v = volume(&f, &c);
    ck_assert_uint_eq(v.steps[0].bytes, (uint64_t)ROWS * COLUMNS * 4);
    ck_assert(!v.shapes_assumed);
    lk_volume_fini(&v);
    /* All are the matrices nearest to squares where none has rows. */
    for (size_t i = 0; i < TENSORS; i++)
        f.tensors[i].rows = 0;
    v = volume(&f, &c);
    ck_assert(v.shapes_assumed);
    ck_assert_uint_eq(lk_tensor_rows(&f.tensors[0], false) * v.steps[1].bytes / 16,
                      (uint64_t)ROWS * COLUMNS);
    lk_volume_fini(&v);
}
END_TEST

/* SyncBatchNorm adds an all-gather of 2C + 1 a rank and an all-reduce of
 * 2C, in each micro-batch. */
START_TEST(what_the_job_adds)
{
    struct fixture f;
    struct lk_config c = plain();
    struct lk_job_sync_bn bn = {.channels = 100, .at = 0.25};
    struct lk_volume v;
    double whole;

    fixture_init(&f);
    whole = sent(&f, &c);
    f.job.sync_bn = &bn;
    f.job.n_sync_bn = 1;
    ck_assert_double_eq_tol(sent(&f, &c) - whole,
                            K * ((N - 1) * 201 * 4.0 + 2.0 * (N - 1) / N * 200 * 4), 1e-6);
    v = volume(&f, &c);
    ck_assert_double_eq(v.steps[0].ready, 0.25);
    ck_assert_double_eq(v.steps[0].need, 0.25);
    lk_volume_fini(&v);
    lk_config_shard(&c, LK_SHARDING_ASYNC, LK_REDUCTION_LAST);
    ck_assert_int_eq(lk_volume_init(&v, &f.job, &c), LK_EUSAGE);
    c.sharding = LK_SHARDING_DDP;
    c.staleness = 0;
    f.job.n_sync_bn = 0;
    f.job.find_unused_parameters = true;
    ck_assert_double_eq_tol(sent(&f, &c) - whole, 2.0 * (N - 1) / N * TENSORS * 4, 1e-6);
}
END_TEST

/* The update asks for a norm of all gradients: 4 bytes among those who share them, behind the last
 * gradient and before parameters are gathered; where every rank has all gradients, nothing. */
START_TEST(update_asks_for_a_norm)
{
    static const struct {
        enum lk_sharding sharding;
        int ranks; /* 0: none tells another */
    } rows[] = {{LK_SHARDING_DDP, 0},   {LK_SHARDING_ZERO1, N},    {LK_SHARDING_ZERO2, N},
                {LK_SHARDING_ZERO3, N}, {LK_SHARDING_GRAD_OP, N},  {LK_SHARDING_HSDP, GROUP},
                {LK_SHARDING_ASYNC, 0}, {LK_SHARDING_LOCAL_SGD, 0}};
    struct fixture f;
    struct lk_config c = plain();

    for (size_t r = 0; r < LK_COUNT(rows); r++)
        for (int because = 0; because < 3; because++) {
            int found = 0;
            struct lk_volume v;

            fixture_init(&f);
            c.averaging_period = H;
            lk_config_shard(&c, rows[r].sharding, LK_REDUCTION_LAST);
            f.job.global_norm = because == 1;
            c.grad_dtype = because == 2 ? LK_GRAD_F16 : LK_GRAD_OWN;
            v = volume(&f, &c);
            for (size_t i = 0; i < v.n; i++) {
                if (v.steps[i].bytes != 4)
                    continue;
                found++;
                ck_assert_int_eq(v.steps[i].coll, LK_ALL_REDUCE);
                ck_assert_int_eq(v.colls[i].ranks, rows[r].ranks);
                ck_assert(!v.steps[i].every_micro_batch);
                ck_assert_double_eq(v.steps[i].need, LK_STEP_OPTIMIZER);
                for (size_t k = i + 1; k < v.n; k++)
                    ck_assert_double_gt(v.steps[k].ready, LK_STEP_OPTIMIZER);
            }
            ck_assert_int_eq(found, because && rows[r].ranks);
            lk_volume_fini(&v);
        }
}
END_TEST

/* On one stream no collective may be needed before all up to it may be launched. */
START_TEST(no_scheme_waits_for_itself)
{
    struct fixture f;
    struct lk_config c = plain();
    struct lk_job_sync_bn bn[] = {{64, 0.1}, {64, 0.9}};
    struct lk_volume v;

    fixture_init(&f);
    lk_config_shard(&c, (enum lk_sharding)_i, LK_REDUCTION_LAST);
    c.averaging_period = H;
    if (c.sharding != LK_SHARDING_ASYNC) {
        f.job.sync_bn = bn;
        f.job.n_sync_bn = 2;
    }
    f.job.find_unused_parameters = true;
    v = volume(&f, &c);
    ck_assert_uint_gt(v.n, 0);
    for (size_t i = 0; i < v.n; i++) {
        const struct lk_volume_coll *x = &v.colls[i];

        ck_assert_double_ge(v.steps[i].need, v.steps[i].ready);
        ck_assert(i == 0 || v.steps[i].ready >= v.steps[i - 1].ready);
        ck_assert(!v.steps[i].every_micro_batch || v.steps[i].need <= LK_STEP_OPTIMIZER);
        ck_assert_int_eq(x->ranks % x->nodes, 0);
    }
    lk_volume_fini(&v);
}
END_TEST

/* Return whether a random scheme divides the gradients that it keeps. */
static bool random_config(struct lk_rng *g, struct lk_config *c)
{
    *c = plain();
    c->world_size = 1 << (1 + lk_rng_below(g, 6));
    c->nodes = c->world_size > PER_NODE ? c->world_size / PER_NODE : 1;
    c->accumulation = 1 + (int)lk_rng_below(g, 8);
    c->cap_bytes = c->first_bytes = (uint64_t)1 << (18 + lk_rng_below(g, 8));
    lk_config_shard(c, (enum lk_sharding)lk_rng_below(g, LK_SHARDING_COUNT), LK_REDUCTION_LAST);
    c->averaging_period = 1 + (int)lk_rng_below(g, 60);
    if (c->staleness) /* it reduces in the last micro-batch alone */
        c->accumulation = 1;
    if (c->sharding == LK_SHARDING_HSDP)
        c->shard_group = c->world_size > 4 && lk_rng_below(g, 2) ? 4 : 2;
    return lk_sharding_traits(c->sharding)->gradients;
}

/* Later reduction never moves more bytes, and never needs less memory: with several micro-batches
 * and divided gradients it keeps those that the group would share. */
START_TEST(bytes_fall_and_memory_grows_with_later_reduction)
{
    static const enum lk_reduction later[] = {LK_REDUCTION_EVERY, LK_REDUCTION_SCATTER,
                                              LK_REDUCTION_LAST};
    struct lk_rng g = lk_rng_init(27, 10);
    struct fixture f;

    fixture_init(&f);
    for (size_t i = 0, n = cases_or(10000); i < n; i++) {
        double bytes[LK_COUNT(later)], memory[LK_COUNT(later)];
        struct lk_config c;
        bool divides = random_config(&g, &c);

        for (size_t r = 0; r < LK_COUNT(later); r++) {
            struct lk_memory m;

            c.reduce = later[r];
            lk_memory_of(&f.job, &c, &m);
            memory[r] = m.rows[LK_MEMORY_GRADIENTS].value;
            bytes[r] = sent(&f, &c);
            ck_assert(!r || bytes[r] <= bytes[r - 1] * (1 + 1e-12));
            ck_assert(!r || memory[r] >= memory[r - 1]);
        }
        ck_assert_double_eq_tol(memory[2],
                                !divides || c.accumulation > 1 ? M : M / lk_config_sharers(&c), 1);
        ck_assert_double_eq_tol(memory[0], divides ? M / lk_config_sharers(&c) : M, 1);
    }
}
END_TEST

/* Groups within a node, of a node and of two nodes: participants, and how
 * many cross links at once. */
START_TEST(groups_sit_where_they_should)
{
    static const struct {
        int size, nodes, replicas, replica_nodes, crossing;
    } rows[] = {
        {4, 1, 8, 4, 4},
        {8, 1, 4, 4, 8},
        {16, 2, 2, 2, 8},
        {32, 4, 1, 1, 1},
    };
    struct fixture f;
    struct lk_config c = plain();

    fixture_init(&f);
    c.sharding = LK_SHARDING_HSDP;
    for (size_t i = 0; i < LK_COUNT(rows); i++) {
        struct lk_volume v;
        size_t k = 0;

        c.shard_group = rows[i].size;
        v = volume(&f, &c);
        ck_assert_int_eq(v.colls[0].ranks, rows[i].size);
        ck_assert_int_eq(v.colls[0].nodes, rows[i].nodes);
        while (v.steps[k].coll != LK_ALL_REDUCE)
            k++;
        ck_assert_int_eq(v.colls[k].ranks, rows[i].replicas);
        ck_assert_int_eq(v.colls[k].nodes, rows[i].replica_nodes);
        ck_assert_int_eq(v.colls[k].groups, rows[i].crossing);
        lk_volume_fini(&v);
    }
}
END_TEST

START_TEST(what_does_not_fit_is_refused)
{
    struct fixture f;
    struct lk_volume v;
    struct lk_config c;

    fixture_init(&f);
    c = plain();
    c.sharding = LK_SHARDING_HSDP;
    c.shard_group = 12;
    ck_assert_int_eq(lk_volume_init(&v, &f.job, &c), LK_EUSAGE);
    c = plain();
    c.sharding = LK_SHARDING_DILOCO;
    ck_assert_int_eq(lk_volume_init(&v, &f.job, &c), LK_EUSAGE);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "period"));
    c = plain();
    c.compression = LK_COMPRESSION_POWERSGD;
    ck_assert_int_eq(lk_volume_init(&v, &f.job, &c), LK_EUSAGE);
    c.powersgd_rank = 1;
    c.sharding = LK_SHARDING_ZERO3;
    ck_assert_int_eq(lk_volume_init(&v, &f.job, &c), LK_EUSAGE);
}
END_TEST

SUITE(volume, tc)
{
    tcase_add_loop_test(tc, a_scheme_moves_what_its_formula_says, 0, (int)LK_COUNT(table));
    tcase_add_test(tc, two_bytes_halve_float32);
    tcase_add_test(tc, powersgd_sends_factors);
    tcase_add_test(tc, what_the_job_adds);
    tcase_add_test(tc, update_asks_for_a_norm);
    tcase_add_loop_test(tc, no_scheme_waits_for_itself, 0, LK_SHARDING_COUNT);
    tcase_add_test(tc, bytes_fall_and_memory_grows_with_later_reduction);
    tcase_add_test(tc, groups_sit_where_they_should);
    tcase_add_test(tc, what_does_not_fit_is_refused);
}
