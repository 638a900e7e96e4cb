/* Communication hooks on given gradients, over tcp: against their definitions in float64. */
#include "runtime/train/hook.h"

#include "base/array.h"
#include "base/rng.h"
#include "tests/rigs/ranks.h"
#include "tests/rigs/suite.h"
#include "tests/rigs/waits.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Two buckets: a matrix, a vector and a matrix; a matrix that is not worth it, and one more. */
enum { PARAMS = 5, ELEMS = 12 * 10 + 7 + 9 * 14 + 2 * 3 + 8 * 8, BUCKETS = 2, STEPS_MAX = 64 };
static const struct {
    size_t rows, columns;
} shapes[PARAMS] = {{12, 10}, {0, 7}, {9, 14}, {2, 3}, {8, 8}};
static const size_t first_elems[PARAMS] = {0, 120, 127, 253, 259};
static size_t firsts[BUCKETS + 1] = {0, 3, PARAMS}, indices[PARAMS] = {0, 1, 2, 3, 4};

static size_t elems_of(size_t p)
{
    return shapes[p].rows ? shapes[p].rows * shapes[p].columns : shapes[p].columns;
}

struct setting {
    struct lk_hook_config hook;
    int ranks, steps;
    float range;   /* gradients are uniform within it */
    bool constant; /* the same in every step */
    bool whole;    /* small integers */
};

struct outcome {
    struct setting setting;
    float (*sent)[STEPS_MAX][ELEMS]; /* by rank: what every step's buckets became */
};

/* Return an element of a rank's gradient in a step, already divided by the ranks. */
static float gradient(const struct setting *s, int rank, int step, size_t i)
{
    struct lk_rng g = lk_rng_init((uint64_t)rank * 1000 + (s->constant ? 0 : (uint64_t)step),
                                  lk_rng_stream("gradient", i));
    double x = (2 * lk_rng_uniform(&g) - 1) * (double)s->range;

    return (float)(s->whole ? floor(x) : x / s->ranks);
}

static enum lk_status reduce(struct rank *me)
{
    struct outcome *o = me->ctx;
    const struct setting *s = &o->setting;
    const struct lk_device_config dc = {.slowdown = 1};
    const struct lk_track_info track = {.name = "net", .kind = LK_TRACK_COMM};
    uint64_t bytes[BUCKETS] = {253 * sizeof(float), 70 * sizeof(float)};
    const struct lk_bucket_plan plan = {
        .n_buckets = BUCKETS, .first = firsts, .index = indices, .bytes = bytes};
    struct lk_param params[PARAMS] = {{0}};
    struct lk_store *store = NULL;
    struct lk_comm *comm = NULL;
    struct lk_device *d = NULL;
    struct lk_stream *net = NULL;
    struct lk_hook *hook = NULL;
    float *slab = NULL;
    enum lk_status st = LK_OK;

    for (size_t p = 0; p < PARAMS; p++)
        params[p] = (struct lk_param){.name = "p", .elems = elems_of(p), .rows = shapes[p].rows};
    LK_TRY(lk_alloc(&slab, ELEMS, sizeof *slab));
    LK_TRY(lk_device_open("cpu", &dc, &d));
    LK_TRY(lk_stream_create(d, &track, &net));
    LK_TRY(rank_open_tcp(me, 0, WAIT_PLENTY_NS, &store, &comm));
    LK_TRY(lk_hook_create(&s->hook, comm, net, params, PARAMS, &hook));
    LK_TRY(lk_hook_set_buckets(hook, &plan));
    for (int step = 0; step < s->steps; step++) {
        for (size_t i = 0; i < ELEMS; i++)
            slab[i] = gradient(s, me->rank, step, i);
        for (size_t b = 0; b < BUCKETS; b++) {
            const struct lk_coll_call call = {.coll = LK_ALL_REDUCE,
                                              .dtype = LK_F32,
                                              .buf = slab + (b ? 253 : 0),
                                              .count = bytes[b] / sizeof(float),
                                              .index = (int32_t)b};

            LK_TRY(lk_hook_reduce(hook, comm, net, &call, b, (uint32_t)step));
        }
        LK_TRY(lk_stream_sync(net, lk_deadline_in(WAIT_PLENTY_NS)));
        memcpy(o->sent[me->rank][step], slab, ELEMS * sizeof *slab);
    }
out:
    lk_stream_destroy(net);
    lk_hook_destroy(hook);
    lk_comm_close(comm);
    lk_device_close(d);
    lk_store_close(store);
    free(slab);
    return st;
}

static void run(struct outcome *o)
{
    struct rank ranks[RANKS_MAX];

    o->setting.hook.timeout_ns = WAIT_PLENTY_NS;
    o->sent = calloc((size_t)o->setting.ranks, sizeof *o->sent);
    ck_assert_ptr_nonnull(o->sent);
    ranks_run_threads(o->setting.ranks, WAIT_PLENTY_NS, reduce, o, ranks);
    for (int r = 0; r < o->setting.ranks; r++) {
        ck_assert_msg(ranks[r].status == LK_OK, "rank %d: %s", r, ranks[r].text);
        ck_assert_mem_eq(o->sent[r], o->sent[0], sizeof *o->sent);
    }
}

/* The mean gradient of a step, in float64. */
static double mean(const struct setting *s, int step, size_t i)
{
    double sum = 0;

    for (int r = 0; r < s->ranks; r++)
        sum += (double)gradient(s, r, step, i);
    return sum;
}

/* ---- fp16 and bf16 ---- */

static const struct {
    enum lk_compression how;
    int ranks;
} halves[] = {{LK_COMPRESSION_FP16, 2},
              {LK_COMPRESSION_BF16, 2},
              {LK_COMPRESSION_FP16, 3},
              {LK_COMPRESSION_BF16, 4},
              {LK_COMPRESSION_NONE, 3}};

START_TEST(halves_round_once_a_rank_and_once_a_sum)
{
    struct outcome o = {
        .setting = {
            .hook.compression = halves[_i].how, .ranks = halves[_i].ranks, .steps = 2, .range = 3}};
    const struct setting *s = &o.setting;
    double u = halves[_i].how == LK_COMPRESSION_NONE
                   ? 0x1p-24
                   : lk_dtype_unit_roundoff(lk_hook_wire(&s->hook));
    double largest = 0;

    run(&o);
    for (int step = 0; step < s->steps; step++)
        for (size_t i = 0; i < ELEMS; i++) {
            double most = 0, error = fabs((double)o.sent[0][step][i] - mean(s, step, i));

            for (int r = 0; r < s->ranks; r++)
                most += fabs((double)gradient(s, r, step, i));
            ck_assert_double_le(error, s->ranks * u * most + 0x1p-24);
            largest = fmax(largest, error / most);
        }
    ck_assert_double_ge(largest, u / 4); /* and it does round to that type */
    free(o.sent);
}
END_TEST

START_TEST(halves_of_whole_numbers_are_exact)
{
    struct outcome o = {.setting = {.hook.compression = halves[_i].how,
                                    .ranks = halves[_i].ranks,
                                    .steps = 1,
                                    .range = 30,
                                    .whole = true}};

    run(&o);
    for (size_t i = 0; i < ELEMS; i++)
        ck_assert_double_eq((double)o.sent[0][0][i], mean(&o.setting, 0, i));
    free(o.sent);
}
END_TEST

/* ---- PowerSGD ---- */

enum { SIDE_MAX = 14 };

/* Gram and Schmidt's columns, in float64; x is (n, r). */
static void orthonormal(double (*x)[SIDE_MAX], size_t n, size_t r)
{
    for (size_t j = 0; j < r; j++) {
        double norm = 0;

        for (size_t k = 0; k < j; k++) {
            double dot = 0;

            for (size_t i = 0; i < n; i++)
                dot += x[i][j] * x[i][k];
            for (size_t i = 0; i < n; i++)
                x[i][j] -= dot * x[i][k];
        }
        for (size_t i = 0; i < n; i++)
            norm += x[i][j] * x[i][j];
        for (size_t i = 0; i < n; i++)
            x[i][j] /= sqrt(norm);
    }
}

/* A matrix's state by definition: errors of all ranks, Q. */
struct matrix {
    double error[RANKS_MAX][SIDE_MAX][SIDE_MAX], q[SIDE_MAX][SIDE_MAX];
};

/* Compute the approximate mean gradient of a step into `out`, as runtime/train/hook_powersgd.c
 * defines it. */
static void defined(const struct setting *s, size_t param, int step, size_t r, struct matrix *x,
                    double (*out)[SIDE_MAX])
{
    double m[RANKS_MAX][SIDE_MAX][SIDE_MAX], p[SIDE_MAX][SIDE_MAX] = {{0}};
    double q[SIDE_MAX][SIDE_MAX] = {{0}};
    size_t rows = shapes[param].rows, columns = shapes[param].columns;

    orthonormal(x->q, columns, r);
    for (int k = 0; k < s->ranks; k++)
        for (size_t i = 0; i < rows; i++)
            for (size_t j = 0; j < columns; j++) {
                m[k][i][j] = (double)gradient(s, k, step, first_elems[param] + i * columns + j) +
                             x->error[k][i][j];
                for (size_t c = 0; c < r; c++)
                    p[i][c] += m[k][i][j] * x->q[j][c];
            }
    orthonormal(p, rows, r);
    for (int k = 0; k < s->ranks; k++)
        for (size_t i = 0; i < rows; i++)
            for (size_t j = 0; j < columns; j++)
                for (size_t c = 0; c < r; c++)
                    q[j][c] += m[k][i][j] * p[i][c];
    memcpy(x->q, q, sizeof q);
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < columns; j++) {
            out[i][j] = 0;
            for (size_t c = 0; c < r; c++)
                out[i][j] += p[i][c] * q[j][c];
            for (int k = 0; k < s->ranks; k++)
                x->error[k][i][j] = m[k][i][j] - out[i][j] / s->ranks;
        }
}

static void start(const struct setting *s, size_t param, size_t r, struct matrix *x)
{
    struct lk_rng g = lk_rng_init(s->hook.seed, lk_rng_stream("powersgd", param));

    memset(x, 0, sizeof *x);
    for (size_t c = 0; c < r; c++)
        for (size_t j = 0; j < shapes[param].columns; j++)
            x->q[j][c] = (double)(float)lk_rng_normal(&g);
}

static const struct {
    int ranks, rank;
    double min_rate;
    bool compressed[PARAMS];
} factors[] = {{2, 1, 2, {true, false, true, false, true}},
               {3, 1, 2, {true, false, true, false, true}},
               {4, 2, 2, {true, false, true, false, false}}, /* (8 + 8) 2 2 = 8 8 */
               {2, 2, 3, {false, false, false, false, false}},
               {2, 3, 1, {true, false, true, false, true}}};

START_TEST(powersgd_follows_its_definition)
{
    struct outcome o = {.setting = {.hook = {.compression = LK_COMPRESSION_POWERSGD,
                                             .powersgd_rank = factors[_i].rank,
                                             .powersgd_start = 2,
                                             .powersgd_min_rate = factors[_i].min_rate,
                                             .seed = 4},
                                    .ranks = factors[_i].ranks,
                                    .steps = 6,
                                    .range = 3}};
    const struct setting *s = &o.setting;
    static struct matrix x;
    double want[SIDE_MAX][SIDE_MAX];

    run(&o);
    for (size_t p = 0; p < PARAMS; p++) {
        start(s, p, (size_t)factors[_i].rank, &x);
        for (int step = 0; step < s->steps; step++) {
            bool low = step >= 2 && factors[_i].compressed[p];

            if (low)
                defined(s, p, step, (size_t)factors[_i].rank, &x, want);
            for (size_t i = 0; i < elems_of(p); i++)
                ck_assert_double_eq_tol((double)o.sent[0][step][first_elems[p] + i],
                                        low ? want[i / shapes[p].columns][i % shapes[p].columns]
                                            : mean(s, step, first_elems[p] + i),
                                        low ? 1e-4 : 1e-6);
        }
    }
    free(o.sent);
}
END_TEST

START_TEST(powersgd_of_full_rank_is_exact)
{
    struct outcome o = {.setting = {.hook = {.compression = LK_COMPRESSION_POWERSGD,
                                             .powersgd_rank = 100,
                                             .powersgd_start = 2,
                                             .powersgd_min_rate = 1e-3},
                                    .ranks = 2 + _i,
                                    .steps = 5,
                                    .range = 3}};

    run(&o);
    for (int step = 0; step < o.setting.steps; step++)
        for (size_t i = 0; i < ELEMS; i++)
            ck_assert_double_eq_tol((double)o.sent[0][step][i], mean(&o.setting, step, i), 1e-5);
    free(o.sent);
}
END_TEST

/* Return how much of the sum of the first n steps' gradients was not sent, relative. */
static double missing(const struct outcome *o, int n)
{
    double gap = 0, norm = 0;

    for (size_t i = 0; i < 120; i++) { /* the first matrix */
        double sent = 0, sum = 0;

        for (int step = 2; step < n; step++) {
            sent += (double)o->sent[0][step][i];
            sum += mean(&o->setting, step, i);
        }
        gap += (sent - sum) * (sent - sum);
        norm += sum * sum;
    }
    return sqrt(gap / norm);
}

START_TEST(powersgd_sends_later_what_it_left_out)
{
    struct outcome o = {.setting = {.hook = {.compression = LK_COMPRESSION_POWERSGD,
                                             .powersgd_rank = 1,
                                             .powersgd_start = 2,
                                             .powersgd_min_rate = 2},
                                    .ranks = 2,
                                    .steps = STEPS_MAX,
                                    .range = 3,
                                    .constant = true}};

    run(&o);
    /* What is missing is bounded by the errors of one step, and the sum grows with the steps. */
    ck_assert_double_gt(missing(&o, 3), 0.5);
    ck_assert_double_lt(missing(&o, 18), 0.5);
    ck_assert_double_lt(missing(&o, STEPS_MAX), missing(&o, 18) / 2);
    free(o.sent);
}
END_TEST

static const struct lk_hook_config bad[] = {
    {LK_COMPRESSION_POWERSGD, 0, 2, 2, 0, 0},
    {LK_COMPRESSION_POWERSGD, 1, 1, 2, 0, 0},
    {LK_COMPRESSION_POWERSGD, 1, 2, 0, 0, 0},
};

static enum lk_status create_bad(struct rank *me)
{
    struct outcome o = {.setting = {.hook = *(const struct lk_hook_config *)me->ctx, .ranks = 2}};

    me->ctx = &o;
    return reduce(me);
}

START_TEST(powersgd_refuses_what_makes_no_sense)
{
    struct rank ranks[RANKS_MAX];

    ranks_run_threads(2, WAIT_PLENTY_NS, create_bad, (void *)&bad[_i], ranks);
    for (int r = 0; r < 2; r++) {
        ck_assert_int_eq(ranks[r].status, LK_EUSAGE);
        ck_assert_ptr_nonnull(strstr(ranks[r].text, "powersgd of rank"));
    }
}
END_TEST

SUITE(hook, tc)
{
    tcase_add_loop_test(tc, halves_round_once_a_rank_and_once_a_sum, 0, LK_COUNT(halves));
    tcase_add_loop_test(tc, halves_of_whole_numbers_are_exact, 0, LK_COUNT(halves));
    tcase_add_loop_test(tc, powersgd_follows_its_definition, 0, LK_COUNT(factors));
    tcase_add_loop_test(tc, powersgd_of_full_rank_is_exact, 0, 2);
    tcase_add_test(tc, powersgd_sends_later_what_it_left_out);
    tcase_add_loop_test(tc, powersgd_refuses_what_makes_no_sense, 0, LK_COUNT(bad));
}
