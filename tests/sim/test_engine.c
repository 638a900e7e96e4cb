/* The step model: pencil-and-paper cases, event engine against closed form, determinism. */
#include "base/array.h"
#include "sim/step/closed_form.h"
#include "sim/step/engine.h"
#include "tests/rigs/step_ways.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <string.h>

#define BUCKET(share, cost)                                                                        \
    {                                                                                              \
        .bytes = 1000, .ready = 1 + (share), .need = 2, .cost_s = (cost)                           \
    }

static const struct lk_step_coll two_buckets[] = {
    {.bytes = 1000, .ready = 1.5, .need = 2, .cost_s = 8e-3, .bucket = 0},
    {.bytes = 1000, .ready = 2.0, .need = 2, .cost_s = 4e-3, .bucket = 1}};
static struct lk_step_coll free_buckets[] = {BUCKET(0.5, 0), BUCKET(1.0, 0)};
/* Buckets reduced after every micro-batch. */
static const struct lk_step_coll synchronised[] = {
    {.bytes = 1000, .ready = 1.5, .need = 2, .cost_s = 8e-3, .every_micro_batch = true},
    {.bytes = 1000, .ready = 2.0, .need = 2, .cost_s = 4e-3, .every_micro_batch = true}};
/* SyncBatchNorm in the middle of forward and of backward, every micro-batch. */
static const struct lk_step_coll sync_batch_norm[] = {
    {.ready = 0.5,
     .need = 0.5,
     .cost_s = 1e-3,
     .every_micro_batch = true,
     .coll = LK_ALL_GATHER,
     .bucket = -1},
    BUCKET(0.25, 8e-3),
    {.ready = 1.5, .need = 1.5, .cost_s = 2e-3, .every_micro_batch = true, .bucket = -1},
    BUCKET(1.0, 4e-3)};
static const struct lk_step_coll find_unused[] = {
    BUCKET(0.5, 8e-3), BUCKET(1.0, 4e-3), {.ready = 2, .need = 2, .cost_s = 1e-3, .bucket = -1}};
/* Reduce-scatter in backward, all-gather after the optimizer: at once, or behind the next forward's
 * first half. */
static const struct lk_step_coll zero1[] = {
    BUCKET(1.0, 4e-3),
    {.coll = LK_ALL_GATHER, .ready = 3, .need = 3, .cost_s = 3e-3, .bucket = -1}};
static const struct lk_step_coll zero1_overlapped[] = {
    BUCKET(1.0, 4e-3),
    {.coll = LK_ALL_GATHER, .ready = 3, .need = 3.5, .cost_s = 8.5e-3, .bucket = -1}};
/* Two units, gathered before each half of forward and backward, the second one ahead. */
static const struct lk_step_coll fsdp[] = {
    {.coll = LK_ALL_GATHER, .ready = 0, .need = 0, .cost_s = 2e-3, .bucket = -1},
    {.coll = LK_ALL_GATHER, .ready = 0, .need = 0.5, .cost_s = 4e-3, .bucket = -1},
    {.coll = LK_ALL_GATHER, .ready = 1, .need = 1.5, .cost_s = 4e-3, .bucket = -1},
    {.coll = LK_REDUCE_SCATTER, .ready = 1.5, .need = 2, .cost_s = 4e-3},
    {.coll = LK_REDUCE_SCATTER, .ready = 2, .need = 2, .cost_s = 2e-3, .bucket = 1}};
static const double second_rank_slow[] = {0, 0.1};

/*
 * Two ranks, forward 10 ms, backward 20 ms, buckets at half (8 ms) and at the end (4 ms), optimizer
 * 1 ms, gap 0.5 ms. Each case changes something; worked out by hand, in ms from the step's start:
 */
struct hand_case {
    const char *name;
    struct lk_step_model change; /* non-zero members replace the base's */
    double step_ms;
    double losses_ms[LK_LOSS_COUNT];
};

static const struct hand_case hand_cases[] = {
    /* b0 20..28, b1 30..34, + 1.5. */
    {"plain", {0}, 35.5, {[LK_LOSS_IDEAL] = 31.5, [LK_LOSS_WIRE] = 4}},
    /* Rank 1: forward 11, backward 22. b0: begin 22 (rank 1), end 30. b1: rank 0 is ready at 30,
     * rank 1 at 33: begin 33, end 37. Rank 0 waits 3 exposed; the mean over ranks is half. */
    {"slow rank",
     {.rank_slowness = second_rank_slow},
     38.5,
     {[LK_LOSS_IDEAL] = 31.5,
      [LK_LOSS_SLOW_RANK] = 1.5,
      [LK_LOSS_STRAGGLER] = 1.5,
      [LK_LOSS_WIRE] = 4}},
    /* b0 20..28: backward goes on by 8 / 1.25 = 6.4, so 16.4 of 20 is done at 28, all at 31.6.
     * b1 31.6..35.6. */
    {"gamma wire",
     {.gamma_wire = 0.25},
     37.1,
     {[LK_LOSS_IDEAL] = 31.5, [LK_LOSS_OVERLAP] = 1.6, [LK_LOSS_WIRE] = 4}},
    /* As "slow rank", but rank 0, waiting from 20 to 22, gets on by 1 instead of 2: 19 of 20 at
     * 30, backward ends at 31, exposed wait 31..33. */
    {"gamma wait",
     {.rank_slowness = second_rank_slow, .gamma_wait = 1},
     38.5,
     {[LK_LOSS_IDEAL] = 31.5,
      [LK_LOSS_SLOW_RANK] = 1.5,
      [LK_LOSS_OVERLAP] = 0.5,
      [LK_LOSS_STRAGGLER] = 1,
      [LK_LOSS_WIRE] = 4}},
    /* b0 from 20: while backward runs (to 30) it advances by 10 / 1.25 = 8 of 8: end 30. b1 30..34,
     * without concurrent compute: at its own speed. */
    {"delta", {.delta = 0.25}, 35.5, {[LK_LOSS_IDEAL] = 31.5, [LK_LOSS_WIRE] = 4}},
    /* b0 from 20: 5 of 8 done at 30, end 33. b1 33..37: exposed 3 + 4. */
    {"delta beyond backward", {.delta = 1}, 38.5, {[LK_LOSS_IDEAL] = 31.5, [LK_LOSS_WIRE] = 7}},
    /* First micro-batch 30 without communication; then as "plain". */
    {"accumulation, no_sync",
     {.accumulation = 2},
     65.5,
     {[LK_LOSS_IDEAL] = 61.5, [LK_LOSS_WIRE] = 4}},
    /* Each micro-batch ends at 34. */
    {"accumulation, synchronised",
     {.accumulation = 2, .colls = synchronised, .n_colls = 2},
     69.5,
     {[LK_LOSS_IDEAL] = 61.5, [LK_LOSS_WIRE] = 8}},
    /* Forward 11, backward 22: b0 22..30, b1 33..37, optimizer 1.1. */
    {"kappa",
     {.kappa = 0.1},
     38.6,
     {[LK_LOSS_IDEAL] = 31.5,
      [LK_LOSS_COLOCATION] = 3,
      [LK_LOSS_WIRE] = 4,
      [LK_LOSS_OPTIMIZER] = 0.1}},
    {"input waited for",
     {.load_s = 5e-3, .input_s = 1e-3},
     41.5,
     {[LK_LOSS_IDEAL] = 37.5, [LK_LOSS_WIRE] = 4}},
    /* The loader is slower than the step and sets the step's time. */
    {"input bound",
     {.load_s = 50e-3, .prefetch_depth = 2},
     50,
     {[LK_LOSS_IDEAL] = 31.5, [LK_LOSS_INPUT] = 14.5, [LK_LOSS_WIRE] = 4}},
    {"input hidden",
     {.load_s = 30e-3, .prefetch_depth = 1},
     35.5,
     {[LK_LOSS_IDEAL] = 31.5, [LK_LOSS_WIRE] = 4}},
    {"one rank", {.ranks = 1}, 31.5, {[LK_LOSS_IDEAL] = 31.5}},
    /* 5..6, b0 16..24; the one at 1.5 (21) queues behind it: 24..26; backward to 36, b1 36..40. */
    {"SyncBatchNorm",
     {.colls = sync_batch_norm, .n_colls = 4},
     41.5,
     {[LK_LOSS_IDEAL] = 31.5, [LK_LOSS_WIRE] = 10}},
    /* The first micro-batch has its own pair only: 1 + 2 more. */
    {"SyncBatchNorm, accumulation",
     {.colls = sync_batch_norm, .n_colls = 4, .accumulation = 2},
     74.5,
     {[LK_LOSS_IDEAL] = 61.5, [LK_LOSS_WIRE] = 13}},
    {"find_unused_parameters",
     {.colls = find_unused, .n_colls = 3},
     36.5,
     {[LK_LOSS_IDEAL] = 31.5, [LK_LOSS_WIRE] = 5}},
    {"ZeRO-1", {.colls = zero1, .n_colls = 2}, 38.5, {[LK_LOSS_IDEAL] = 31.5, [LK_LOSS_WIRE] = 7}},
    /* The gather continues through the gap (0.5) and 5 of forward: a stall of 3. */
    {"ZeRO-1, overlapped",
     {.colls = zero1_overlapped, .n_colls = 2},
     38.5,
     {[LK_LOSS_IDEAL] = 31.5, [LK_LOSS_WIRE] = 7}},
    /* 0..2 stalled; 2..6 behind 2..7; backward 12..22, 12..16 behind it; 22..26
     * behind 22..32, 32..34. */
    {"FSDP", {.colls = fsdp, .n_colls = 5}, 35.5, {[LK_LOSS_IDEAL] = 31.5, [LK_LOSS_WIRE] = 4}},
};

static struct lk_step_model base_model(void)
{
    return (struct lk_step_model){.ranks = 2,
                                  .nodes = 1,
                                  .accumulation = 1,
                                  .forward_s = 10e-3,
                                  .backward_s = 20e-3,
                                  .optimizer_s = 1e-3,
                                  .gap_s = 0.5e-3,
                                  .colls = two_buckets,
                                  .n_colls = 2};
}

static struct lk_step_model changed(const struct lk_step_model *c)
{
    struct lk_step_model m = base_model();

    if (c->ranks) {
        m.ranks = c->ranks;
        m.colls = free_buckets;
    }
    if (c->colls) {
        m.colls = c->colls;
        m.n_colls = c->n_colls;
    }
    m.accumulation = c->accumulation ? c->accumulation : 1;
    m.gamma_wait = c->gamma_wait;
    m.gamma_wire = c->gamma_wire;
    m.delta = c->delta;
    m.kappa = c->kappa;
    m.load_s = c->load_s;
    m.input_s = c->input_s;
    m.prefetch_depth = c->prefetch_depth;
    m.rank_slowness = c->rank_slowness;
    return m;
}

START_TEST(by_hand)
{
    const struct hand_case *h = &hand_cases[_i / 2];
    struct lk_step_model m = changed(&h->change);
    struct lk_sim_request q = {.steps = 5, .seed = 1};
    struct lk_sim_result r;

    ck_assert_int_eq(step_ways[_i % 2](&m, &q, &r), LK_OK);
    ck_assert_uint_eq(r.n, 5);
    /* Durations are rounded to ns and slowdowns to 2^-20: 1e-5 ms covers a step's roundings. */
    for (size_t i = 0; i < r.n; i++)
        ck_assert_msg(fabs(r.step_s[i] * 1e3 - h->step_ms) < 1e-5,
                      "%s: step %zu is %.7f ms, not %g", h->name, i, r.step_s[i] * 1e3, h->step_ms);
    for (int l = 0; l < LK_LOSS_COUNT; l++)
        ck_assert_msg(fabs(r.losses_s[l] * 1e3 - h->losses_ms[l]) < 1e-5,
                      "%s: loss %d is %g ms, not %g", h->name, l, r.losses_s[l] * 1e3,
                      h->losses_ms[l]);
    lk_sim_result_fini(&r);
}
END_TEST

/* Make random collectives in a possible order: none is needed before those up to it are ready, nor
 * beyond `furthest`, 3 to 5. */
static size_t random_colls(struct lk_rng *g, double furthest, struct lk_step_coll *colls,
                           size_t max)
{
    size_t n = (size_t)lk_rng_below(g, max + 1);
    bool ddp = lk_rng_below(g, 3) == 0, every = lk_rng_below(g, 2);
    double latest = 0;

    for (size_t k = 0; k < n; k++) {
        struct lk_step_coll *c = &colls[k];
        double u = lk_rng_below(g, 4) ? lk_rng_uniform(g) : (double)k / (double)n;

        *c = (struct lk_step_coll){.coll = (enum lk_coll)lk_rng_below(g, 3),
                                   .bytes = 1000,
                                   .ready = ddp ? 1 + u : 3 * u,
                                   .need = 2,
                                   .cost_s = 10e-3 * lk_rng_uniform(g),
                                   .behind = fmax(0, 2 * lk_rng_uniform(g) - 1),
                                   .every_micro_batch = every,
                                   .bucket = (int)k};
        latest = fmax(latest, c->ready);
        if (ddp)
            continue;
        switch (lk_rng_below(g, 4)) {
        case 0:
            c->need = c->ready = latest; /* blocking */
            break;
        case 1:
            c->need = fmin(latest + lk_rng_uniform(g), fmin(furthest, c->ready + 2.9));
            break;
        case 2:
            c->need = fmax(latest, 2);
            break;
        default:
            c->need = fmin(latest + 3 * lk_rng_uniform(g), fmin(furthest, c->ready + 2.9));
            break;
        }
        c->need = fmax(c->need, latest);
        if (c->need >= c->ready + 3)
            c->ready = latest;
        c->every_micro_batch = c->need <= 2 && lk_rng_below(g, 2);
    }
    return n;
}

/* Make a random model from a case number, with random features. */
static struct lk_step_model random_model(uint64_t seed, double furthest, struct lk_step_coll *colls,
                                         size_t max)
{
    struct lk_rng g = lk_rng_init(seed, 99);
    struct lk_step_model m = base_model();

    m.ranks = 1 + (int)lk_rng_below(&g, 12);
    m.nodes = 1 + (int)lk_rng_below(&g, (uint64_t)m.ranks);
    m.accumulation = 1 + (int)lk_rng_below(&g, 3);
    m.gamma_wait = lk_rng_below(&g, 2) ? lk_rng_uniform(&g) : 0;
    m.gamma_wire = lk_rng_below(&g, 2) ? lk_rng_uniform(&g) : 0;
    m.delta = lk_rng_below(&g, 2) ? 2 * lk_rng_uniform(&g) : 0;
    m.kappa = lk_rng_below(&g, 2) ? lk_rng_uniform(&g) : 0;
    m.law.rank_sd = lk_rng_below(&g, 2) ? 0.1 : 0;
    m.law.node_sd = lk_rng_below(&g, 2) ? 0.05 : 0;
    m.law.transient_sd = lk_rng_below(&g, 2) ? 0.1 : 0;
    m.law.common_sd = lk_rng_below(&g, 2) ? 0.02 : 0;
    m.law.link_sd = lk_rng_below(&g, 2) ? 0.1 : 0;
    m.law.tail_share = lk_rng_below(&g, 2) ? 0.1 : 0;
    m.law.tail_scale = 0.2;
    m.law.tail_shape = lk_rng_below(&g, 2) ? 0.3 : 0;
    m.prefetch_depth = (int)lk_rng_below(&g, 4);
    m.load_s = lk_rng_below(&g, 2) ? 60e-3 * lk_rng_uniform(&g) : 0;
    m.input_s = lk_rng_below(&g, 2) ? 1e-3 * lk_rng_uniform(&g) : 0;
    m.n_colls = random_colls(&g, furthest, colls, max);
    m.colls = colls;
    return m;
}

static void check_that_both_ways_agree(const struct lk_step_model *m, int steps, uint64_t seed)
{
    struct lk_sim_request q = {.steps = steps, .seed = seed};
    struct lk_sim_result a, b;

    ck_assert_int_eq(lk_engine_run(m, &q, NULL, &a), LK_OK);
    ck_assert_int_eq(lk_closed_form_run(m, &q, &b), LK_OK);
    ck_assert_uint_eq(a.n, b.n);
    ck_assert_mem_eq(a.step_s, b.step_s, a.n * sizeof *a.step_s);
    ck_assert_mem_eq(a.losses_s, b.losses_s, sizeof a.losses_s);
    lk_sim_result_fini(&a);
    lk_sim_result_fini(&b);
}

START_TEST(both_ways_agree_to_the_ns)
{
    struct lk_step_coll colls[8];
    struct lk_step_model m = random_model((uint64_t)_i, LK_STEP_END, colls, LK_COUNT(colls));

    check_that_both_ways_agree(&m, 20, (uint64_t)_i);
}
END_TEST

/* Test more ranks than are drawn at a time, and a number that no vector width divides. */
START_TEST(both_ways_agree_on_many_ranks)
{
    struct lk_step_coll colls[8];
    struct lk_step_model m = random_model((uint64_t)_i, LK_STEP_END, colls, LK_COUNT(colls));

    m.ranks = 517 + _i;
    m.nodes = 65;
    check_that_both_ways_agree(&m, 2, (uint64_t)_i);
}
END_TEST

/* Test durations and slowdowns around those whose products fit into 64 bits: a step of 18
 * minutes, and a slowdown of 16. */
START_TEST(both_ways_agree_at_any_size)
{
    static const struct {
        double longer, slower;
    } rows[] = {{36e3, 1}, {37e3, 1}, {3e5, 1}, {1e7, 1}, {1, 14},
                {1, 15},   {1, 16},   {1, 99},  {1e7, 99}};

    for (size_t i = 0; i < LK_COUNT(rows); i++) {
        struct lk_step_coll colls[8];
        struct lk_step_model m = random_model((uint64_t)_i, LK_STEP_END, colls, LK_COUNT(colls));

        m.forward_s *= rows[i].longer;
        m.backward_s *= rows[i].longer;
        for (size_t k = 0; k < m.n_colls; k++)
            colls[k].cost_s *= rows[i].longer;
        m.gamma_wait *= rows[i].slower;
        m.gamma_wire *= rows[i].slower;
        m.delta *= rows[i].slower;
        check_that_both_ways_agree(&m, 3, (uint64_t)_i);
    }
}
END_TEST

/* Where nothing is random and no loader works ahead, one rank's first step is as those after the
 * warm-up. */
START_TEST(a_steady_step_is_the_first)
{
    const struct lk_sim_request one = {.steps = 1, .seed = 1, .steady = true},
                                several = {.steps = 3, .seed = 1};

    for (uint64_t i = 0; i < 2000; i++) {
        struct lk_step_coll colls[8];
        struct lk_step_model m = random_model(i, LK_STEP_END, colls, LK_COUNT(colls));
        struct lk_sim_result a, b;

        m.ranks = m.nodes = 1;
        m.law = (struct lk_straggler_law){0};
        m.load_s = 0;
        ck_assert_int_eq(lk_closed_form_run(&m, &one, &a), LK_OK);
        ck_assert_int_eq(lk_closed_form_run(&m, &several, &b), LK_OK);
        for (size_t s = 0; s < b.n; s++)
            ck_assert_double_eq(b.step_s[s], a.step_s[0]);
        for (int l = 0; l < LK_LOSS_COUNT; l++)
            ck_assert_double_eq_tol(a.losses_s[l], b.losses_s[l], 1e-12);
        lk_sim_result_fini(&a);
        lk_sim_result_fini(&b);
    }
}
END_TEST

START_TEST(the_rows_sum_to_the_step)
{
    struct lk_step_coll colls[8];
    struct lk_step_model m = random_model((uint64_t)_i, 5, colls, LK_COUNT(colls));
    struct lk_sim_request q = {.steps = 20, .seed = 5};
    struct lk_sim_result r;
    double sum = 0;

    ck_assert_int_eq(lk_engine_run(&m, &q, NULL, &r), LK_OK);
    for (int l = 0; l < LK_LOSS_COUNT; l++)
        sum += r.losses_s[l];
    ck_assert_double_eq_tol(sum, r.mean_s, 1e-12);
    /* The unexplained rest is rounding: some ns a micro-batch. */
    ck_assert_double_eq_tol(r.losses_s[LK_LOSS_REST], 0, 50e-9);
    ck_assert_double_ge(r.losses_s[LK_LOSS_STRAGGLER], 0);
    ck_assert_double_ge(r.losses_s[LK_LOSS_WIRE], 0);
    lk_sim_result_fini(&r);
}
END_TEST

START_TEST(seeds_matter_and_repeat)
{
    struct lk_step_model m = base_model();
    struct lk_sim_request q = {.steps = 30, .seed = 1};
    struct lk_sim_result a, b, c;

    m.ranks = 8;
    m.law = (struct lk_straggler_law){.rank_sd = 0.05, .transient_sd = 0.05};
    ck_assert_int_eq(lk_engine_run(&m, &q, NULL, &a), LK_OK);
    ck_assert_int_eq(lk_engine_run(&m, &q, NULL, &b), LK_OK);
    q.seed = 2;
    ck_assert_int_eq(lk_engine_run(&m, &q, NULL, &c), LK_OK);
    ck_assert_mem_eq(a.step_s, b.step_s, a.n * sizeof *a.step_s);
    ck_assert_mem_ne(a.step_s, c.step_s, a.n * sizeof *a.step_s);
    lk_sim_result_fini(&a);
    lk_sim_result_fini(&b);
    lk_sim_result_fini(&c);
}
END_TEST

/*
 * With all communication at the end and sd small, the step waits for the slowest rank: its mean
 * excess over K normal draws is E[max] (Harter 1961: 1.1630 for 5, 1.5388 for 10, 2.5076 for 100).
 */
START_TEST(stragglers_cost_the_expected_maximum)
{
    static const struct {
        int ranks;
        double expected;
    } rows[] = {{5, 1.1630}, {10, 1.5388}, {100, 2.5076}};
    static const struct lk_step_coll at_end[] = {BUCKET(1.0, 1e-3)};
    struct lk_step_model m = base_model();
    struct lk_sim_request q = {.steps = 2000, .seed = 3};
    struct lk_sim_result r;
    double excess;

    m.ranks = rows[_i].ranks;
    m.law.transient_sd = 0.002; /* small: the law is skewed */
    m.colls = at_end;
    m.n_colls = 1;
    ck_assert_int_eq(lk_closed_form_run(&m, &q, &r), LK_OK);
    excess = (r.mean_s - 32.5e-3) / (0.002 * 30e-3);
    /* 2,000 steps determine the mean of the maximum (sd 0.67 or less) to 0.015; four of these. */
    ck_assert_double_eq_tol(excess, rows[_i].expected, 0.06);
    lk_sim_result_fini(&r);
}
END_TEST

/*
 * One rank's mean does not depend on its tail. Among K ranks that wait for each other, with a tail
 * that almost surely hits one of them, the step exceeds it by E[max]: for an exponential excess on
 * every rank, H(K) scales minus the mean.
 */
START_TEST(tails_keep_the_mean_and_grow_the_maximum)
{
    static const struct lk_step_coll at_end[] = {BUCKET(1.0, 1e-3)};
    struct lk_step_model m = base_model();
    struct lk_sim_request q = {.steps = 4000, .seed = 7};
    struct lk_sim_result r;

    m.ranks = 1;
    m.law = (struct lk_straggler_law){.tail_share = 0.1, .tail_scale = 0.25, .tail_shape = 0.2};
    m.colls = at_end;
    m.n_colls = 1;
    ck_assert_int_eq(lk_closed_form_run(&m, &q, &r), LK_OK);
    /* sd of an excess 0.32, of a step 0.13 x 30 ms; four standard errors of 4,000. */
    ck_assert_double_eq_tol(r.mean_s, 32.5e-3, 4 * 0.13 * 30e-3 / sqrt(4000));
    lk_sim_result_fini(&r);
    m.ranks = 10;
    m.law = (struct lk_straggler_law){.tail_share = 1, .tail_scale = 0.05};
    ck_assert_int_eq(lk_closed_form_run(&m, &q, &r), LK_OK);
    /* H(10) = 2.9290; sd of the maximum 1.24 scales. */
    ck_assert_double_eq_tol((r.mean_s - 32.5e-3) / (0.05 * 30e-3), 2.9290 - 1,
                            4 * 1.24 / sqrt(4000));
    lk_sim_result_fini(&r);
}
END_TEST

/* Every collective takes the time of the slowest node's link: with twice
 * the nodes it is not faster. */
START_TEST(the_slowest_link_sets_the_pace)
{
    struct lk_step_model m = base_model();
    struct lk_sim_request q = {.steps = 1, .seed = 7};
    double before = 35.5e-3;

    m.law.link_sd = 0.1;
    for (m.ranks = 2; m.ranks <= 256; m.ranks *= 2) {
        struct lk_sim_result r;

        m.nodes = m.ranks;
        ck_assert_int_eq(lk_closed_form_run(&m, &q, &r), LK_OK);
        ck_assert_double_ge(r.mean_s, before - 1e-9);
        before = r.mean_s;
        lk_sim_result_fini(&r);
    }
    /* Of 256 normals the largest is 2.8 on average and above 2 in 99.7 % of cases; 4 ms exposed. */
    ck_assert_double_ge(before, 35.5e-3 + 0.1 * 2 * 4e-3);
}
END_TEST

START_TEST(slowdowns_convert_both_ways)
{
    struct lk_rng g = lk_rng_init(1, 1);

    for (int i = 0; i < 100000; i++) {
        uint64_t work = lk_rng_below(&g, 1ULL << (1 + i % 50));
        uint64_t slow = LK_SLOWDOWN_ONE + lk_rng_below(&g, 1 << 23);
        uint64_t time = lk_slowdown_time_ns(work, slow);

        ck_assert_uint_eq(lk_slowdown_work_ns(time, slow), work);
        if (time)
            ck_assert(work == 0 || lk_slowdown_work_ns(time - 1, slow) < work);
    }
}
END_TEST

START_TEST(bad_models_are_named)
{
    /* The second is needed at 1.0 on a stream that the first occupies until 1.5. */
    static const struct lk_step_coll waits_for_itself[] = {{.ready = 1.5, .need = 2},
                                                           {.ready = 1.0, .need = 1.0}};
    struct lk_step_model m = base_model();
    struct lk_sim_request q = {.steps = 1, .seed = 1};
    struct lk_sim_result r;

    m.gamma_wait = -0.5;
    ck_assert_int_eq(lk_engine_run(&m, &q, NULL, &r), LK_EUSAGE);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "gamma_wait"));
    m = base_model();
    m.forward_s = NAN;
    ck_assert_int_eq(lk_closed_form_run(&m, &q, &r), LK_EUSAGE);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "forward"));
    m = base_model();
    m.colls = waits_for_itself;
    ck_assert_int_eq(lk_closed_form_run(&m, &q, &r), LK_EUSAGE);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "collective 1"));
    m = base_model();
    m.ranks = 0;
    ck_assert_int_eq(lk_engine_run(&m, &q, NULL, &r), LK_EUSAGE);
    m = base_model();
    q.steps = 0;
    ck_assert_int_eq(lk_engine_run(&m, &q, NULL, &r), LK_EUSAGE);
}
END_TEST

/* In the trace of "slow rank" the spans are at the times that the case derives. */
START_TEST(spans_are_where_they_were_computed)
{
    struct lk_step_model m = base_model();
    struct lk_sim_request q = {.steps = 1, .seed = 1};
    struct lk_run_info info = {.world_size = 2, .nodes = 1, .local_batch = 1, .accumulation = 1};
    struct lk_sim_trace record;
    struct lk_sim_result r;
    size_t collectives = 0;

    m.rank_slowness = second_rank_slow;
    ck_assert_int_eq(lk_sim_trace_init(&record, &info, NULL), LK_OK);
    ck_assert_int_eq(lk_engine_run(&m, &q, &record, &r), LK_OK);
    for (size_t i = 0; i < record.traces[0].n_spans; i++) {
        const struct lk_span *s = &record.traces[0].spans[i].span;

        if (s->kind != LK_SPAN_COLLECTIVE || s->step != 0)
            continue;
        ck_assert_uint_eq(s->start_ns, s->index ? 30000000 : 20000000);
        ck_assert_uint_eq(s->end_ns, s->index ? 37000000 : 30000000);
        ck_assert_uint_eq(s->ready_ns, s->index ? 30000000 : 20000000);
        collectives++;
    }
    ck_assert_uint_eq(collectives, 2);
    ck_assert_int_eq(record.traces[1].info.rank, 1);
    ck_assert(record.traces[1].info.simulated);
    lk_sim_result_fini(&r);
    lk_sim_trace_fini(&record);
}
END_TEST

SUITE(engine, c)
{
    tcase_add_test(c, a_steady_step_is_the_first);
    tcase_add_loop_test(c, by_hand, 0, 2 * (int)LK_COUNT(hand_cases));
    tcase_add_loop_test(c, both_ways_agree_to_the_ns, 0, 1000);
    tcase_add_loop_test(c, both_ways_agree_on_many_ranks, 0, 10);
    tcase_add_loop_test(c, both_ways_agree_at_any_size, 0, 30);
    tcase_add_loop_test(c, the_rows_sum_to_the_step, 0, 30);
    tcase_add_test(c, seeds_matter_and_repeat);
    tcase_add_loop_test(c, stragglers_cost_the_expected_maximum, 0, 3);
    tcase_add_test(c, tails_keep_the_mean_and_grow_the_maximum);
    tcase_add_test(c, the_slowest_link_sets_the_pace);
    tcase_add_test(c, slowdowns_convert_both_ways);
    tcase_add_test(c, bad_models_are_named);
    tcase_add_test(c, spans_are_where_they_were_computed);
}
