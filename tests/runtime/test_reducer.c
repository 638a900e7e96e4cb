/* The reducer: set-up across ranks, buckets and their order, overlap, accumulation, norms. */
#include "base/array.h"
#include "tests/rigs/ddp_rig.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct rig_rank ranks[RIG_RANKS_MAX];

static void expect_ok(int n)
{
    for (int i = 0; i < n; i++)
        ck_assert_msg(ranks[i].st == LK_OK, "rank %d: %s", i, ranks[i].text);
}

/* Check that all ranks fail with the same text. */
static void expect_failure(int n, enum lk_status st, const char *text)
{
    for (int i = 0; i < n; i++) {
        ck_assert_msg(ranks[i].st == st, "rank %d: %s: %s", i, lk_status_text(ranks[i].st),
                      ranks[i].text);
        ck_assert_msg(strstr(ranks[i].text, text), "rank %d: '%s' has no '%s'", i, ranks[i].text,
                      text);
    }
}

static void tensors_of(struct lk_bucket_tensor *tensors, size_t real_bytes)
{
    for (size_t p = 0; p < RIG_PARAMS; p++)
        tensors[p] =
            (struct lk_bucket_tensor){rig_elems[p] * real_bytes, real_bytes == 8 ? LK_F64 : LK_F32};
}

static void expect_plan(const struct lk_bucket_plan *got, const struct lk_bucket_plan *want)
{
    ck_assert_uint_eq(got->n_buckets, want->n_buckets);
    ck_assert_mem_eq(got->first, want->first, (want->n_buckets + 1) * sizeof *want->first);
    ck_assert_mem_eq(got->index, want->index, RIG_PARAMS * sizeof *want->index);
    ck_assert_mem_eq(got->bytes, want->bytes, want->n_buckets * sizeof *want->bytes);
}

/* ---- Set-up ---- */

static void rename_on_rank_2(struct rig_rank *r)
{
    if (r->rank == 2)
        r->model->params[4].name = "c.wait";
}

static void resize_on_rank_1(struct rig_rank *r)
{
    if (r->rank == 1)
        r->model->params[7].elems--;
}

static void fewer_on_rank_2(struct rig_rank *r)
{
    if (r->rank == 2)
        r->model->n_params--;
}

static const struct {
    void (*prepare)(struct rig_rank *r);
    const char *text;
} mismatches[] = {
    {rename_on_rank_2,
     "parameter 4: rank 0 has 'c.weight' of 200 float32 elements, rank 2 has 'c.wait' of 200"},
    {resize_on_rank_1,
     "parameter 7: rank 0 has 'e.weight' of 31 float32 elements, rank 1 has 'e.weight' of 30"},
    {fewer_on_rank_2, "rank 0 has 9 parameters, rank 2 has 8"},
};

START_TEST(models_that_differ_are_told_apart)
{
    const struct rig_case c = {.ranks = 3, .prepare = mismatches[_i].prepare};

    rig_run(&c, ranks);
    expect_failure(3, LK_EVERIFY, mismatches[_i].text);
    rig_free(ranks, 3);
}
END_TEST

static void remember_weights(struct rig_rank *r, uint32_t step)
{
    (void)step;
    if (!r->note)
        r->note = malloc(sizeof(float));
    memcpy(r->note, r->model->params[0].data, sizeof(float));
}

START_TEST(rank_0_gives_the_values)
{
    const struct rig_case c = {.ranks = 3, .steps = 1, .after_step = remember_weights};

    rig_run(&c, ranks);
    expect_ok(3);
    for (int i = 0; i < 3; i++) {
        /* Ranks 1 and 2 began at 1 and 2; a step moves a weight by less than 0.5. */
        ck_assert_float_lt(fabsf(*(float *)ranks[i].note), 0.5F);
        ck_assert_mem_eq(ranks[i].note, ranks[0].note, sizeof(float));
    }
    for (int i = 0; i < 3; i++)
        free(ranks[i].note);
    rig_free(ranks, 3);
}
END_TEST

/* ---- Buckets ---- */

static const uint64_t caps[] = {1, 400, 1000, UINT64_MAX};
static const enum lk_ddp_rule rules[] = {LK_DDP_TORCH_1_13, LK_DDP_TORCH_2, LK_DDP_TORCH_1_11};

static void copy_plan(struct rig_rank *r, uint32_t step)
{
    const struct lk_bucket_plan *p = lk_reducer_buckets(r->reducer);
    size_t n = p->n_buckets;

    if (step > 0)
        return;
    r->plan = (struct lk_bucket_plan){.n_buckets = n,
                                      .first = malloc((n + 1) * sizeof *p->first),
                                      .index = malloc(RIG_PARAMS * sizeof *p->index),
                                      .bytes = malloc(n * sizeof *p->bytes)};
    memcpy(r->plan.first, p->first, (n + 1) * sizeof *p->first);
    memcpy(r->plan.index, p->index, RIG_PARAMS * sizeof *p->index);
    memcpy(r->plan.bytes, p->bytes, n * sizeof *p->bytes);
}

/* Run backward in a different order on every rank: rank 0's decides. */
static void shuffle_order(struct rig_rank *r)
{
    const size_t steps[] = {2, 4, 5, 7};

    for (size_t k = 0; k < RIG_PARAMS; k++)
        r->order[k] = (k * steps[r->rank] + 3) % RIG_PARAMS;
}

START_TEST(buckets_follow_the_rule_then_rank_0s_ready_order)
{
    const struct rig_case c = {.ranks = 3,
                               .steps = 3,
                               .rule = rules[(size_t)_i % LK_COUNT(rules)],
                               .first_bytes = 300,
                               .cap_bytes = caps[(size_t)_i / LK_COUNT(rules)],
                               .prepare = shuffle_order,
                               .after_step = copy_plan};
    struct lk_bucket_tensor tensors[RIG_PARAMS];
    struct lk_bucket_plan initial = {0}, rebuilt = {0};

    tensors_of(tensors, sizeof(float));
    rig_run(&c, ranks);
    expect_ok(3);
    ck_assert_int_eq(lk_bucket_initial(c.rule, tensors, RIG_PARAMS, 300, c.cap_bytes, &initial),
                     LK_OK);
    ck_assert_int_eq(
        lk_bucket_rebuilt(tensors, RIG_PARAMS, ranks[0].order, 300, c.cap_bytes, &rebuilt), LK_OK);
    for (int i = 0; i < 3; i++) {
        expect_plan(&ranks[i].plan, &initial);
        expect_plan(lk_reducer_buckets(ranks[i].reducer), &rebuilt);
        ck_assert_mem_eq(lk_reducer_ready_order(ranks[i].reducer), ranks[0].order,
                         sizeof ranks[0].order);
    }
    lk_bucket_plan_fini(&initial);
    lk_bucket_plan_fini(&rebuilt);
    rig_free(ranks, 3);
}
END_TEST

START_TEST(gradients_lie_side_by_side_in_their_buckets)
{
    const struct rig_case c = {.ranks = 1, .cap_bytes = caps[_i]};
    const struct lk_bucket_plan *p;

    rig_run(&c, ranks);
    expect_ok(1);
    p = lk_reducer_buckets(ranks[0].reducer);
    for (size_t b = 0; b < p->n_buckets; b++) {
        const char *at = ranks[0].model->params[p->index[p->first[b]]].grad;

        ck_assert_uint_eq((uintptr_t)at % 64, 0);
        for (size_t i = p->first[b]; i < p->first[b + 1]; i++) {
            ck_assert_ptr_eq(ranks[0].model->params[p->index[i]].grad, at);
            at += rig_elems[p->index[i]] * sizeof(float);
        }
    }
    rig_free(ranks, 1);
}
END_TEST

/* ---- Calls of all-reduce, and their times ---- */

START_TEST(buckets_are_reduced_in_index_order_whatever_is_ready_first)
{
    const struct rig_case c = {.ranks = 4,
                               .steps = 4,
                               .accumulation = _i / 2 ? 3 : 1,
                               .no_sync = _i % 2,
                               .cap_bytes = 400,
                               .prepare = shuffle_order,
                               .after_step = copy_plan};

    rig_run(&c, ranks);
    expect_ok(4);
    for (int i = 0; i < 4; i++) {
        const int rounds = c.no_sync ? 1 : c.accumulation;
        size_t at = 0;

        for (int step = 0; step < c.steps; step++) {
            size_t n = step == 0 ? ranks[i].plan.n_buckets
                                 : lk_reducer_buckets(ranks[i].reducer)->n_buckets;

            for (int round = 0; round < rounds; round++)
                for (size_t b = 0; b < n; b++, at++) {
                    while (at < ranks[i].n_calls && ranks[i].calls[at].coll != LK_ALL_REDUCE)
                        at++; /* set-up, and the exchange of the order before step 1 */
                    ck_assert_uint_lt(at, ranks[i].n_calls);
                    ck_assert_int_eq(ranks[i].calls[at].index, (int)b);
                }
        }
        ck_assert_uint_eq(at, ranks[i].n_calls); /* and nothing else */
    }
    rig_free(ranks, 4);
}
END_TEST

START_TEST(buckets_are_reduced_while_backward_goes_on)
{
    /* The last gradient is computed only after the first bucket is all-reduced on all ranks. */
    const struct rig_case c = {
        .ranks = 2, .steps = 3, .cap_bytes = 400, .verify = true, .overlap = true};

    rig_run(&c, ranks);
    expect_ok(2);
    rig_free(ranks, 2);
}
END_TEST

static void skip_one(struct rig_rank *r)
{
    r->skip = 6;
}

static void report_twice(struct rig_rank *r)
{
    r->twice = 0;
}

START_TEST(a_gradient_comes_once)
{
    struct rig_case c = {.ranks = 1, .prepare = skip_one};

    rig_run(&c, ranks);
    expect_failure(1, LK_EINTERNAL, "no gradient for parameter 'd.weight'");
    rig_free(ranks, 1);
    c.prepare = report_twice;
    rig_run(&c, ranks);
    expect_failure(1, LK_EINTERNAL, "parameter 0 became ready twice in step 0");
    rig_free(ranks, 1);
}
END_TEST

START_TEST(wrong_configurations_are_refused)
{
    const struct rig_case c = {.ranks = 1, .noise_every = -1};

    rig_run(&c, ranks);
    expect_failure(1, LK_EUSAGE, "norms every -1 steps");
    rig_free(ranks, 1);
}
END_TEST

/* ---- Norms ---- */

/* Squared norms of this rank's and of all ranks' mean gradient, in the step
 * before `params` moved. */
struct norms {
    float weights[RIG_PARAMS][256];
    double local_sq, mean_sq;
    double got_local, got_mean;
    uint32_t step;
    int micro_batches;
    enum lk_status st;
};

static void keep_norms(struct rig_rank *r, uint32_t step)
{
    struct norms *n = r->note;

    n->st = lk_reducer_norms(r->reducer, &n->step, &n->got_local, &n->got_mean);
    n->micro_batches = lk_reducer_norms_micro_batches(r->reducer);
    if (step == 0) /* those of step 1, which is checked */
        for (size_t p = 0; p < RIG_PARAMS; p++)
            memcpy(n->weights[p], r->model->params[p].data, rig_elems[p] * sizeof(float));
}

/* Compute the norms by definition, in double, for step 1: micro-batches from..to of every rank. */
static void define_norms(const struct rig_case *c, int from, int to)
{
    struct lk_loader *loaders[RIG_RANKS_MAX];
    struct lk_batch batches[RIG_RANKS_MAX][8];

    for (int r = 0; r < c->ranks; r++) {
        const struct lk_loader_config lc = {
            .dataset = ranks[0].dataset,
            .sampler = {.ranks = c->ranks, .rank = r, .shuffle = true, .seed = 3},
            .local_batch = RIG_LOCAL_BATCH,
            .accumulation = c->accumulation};

        ck_assert_int_eq(lk_loader_create(ranks[0].device, &lc, &loaders[r]), LK_OK);
        for (int m = 0; m < 2 * c->accumulation; m++) {
            struct lk_batch b;

            ck_assert_int_eq(lk_loader_next(loaders[r], lk_deadline_in(UINT64_MAX), &b), LK_OK);
            if (m >= c->accumulation)
                batches[r][m - c->accumulation] = b;
        }
    }
    for (size_t p = 0; p < RIG_PARAMS; p++)
        for (size_t i = 0; i < rig_elems[p]; i++) {
            double mean = 0;

            for (int r = 0; r < c->ranks; r++) {
                struct norms *n = ranks[r].note;
                double local = 0;

                for (int m = from; m <= to; m++)
                    local += rig_gradient(p, i, (double)n->weights[p][i], &batches[r][m]) /
                             (to - from + 1);
                n->local_sq += local * local;
                mean += local / c->ranks;
            }
            for (int r = 0; r < c->ranks; r++)
                ((struct norms *)ranks[r].note)->mean_sq += mean * mean;
        }
    for (int r = 0; r < c->ranks; r++)
        lk_loader_destroy(loaders[r]);
}

START_TEST(norms_are_of_mean_gradients)
{
    const struct rig_case c = {.ranks = 3,
                               .steps = 2,
                               .accumulation = _i / 2 ? 4 : 1,
                               .no_sync = _i % 2,
                               .cap_bytes = 400,
                               .noise_every = 1,
                               .after_step = keep_norms};
    const int of = c.no_sync ? c.accumulation : 1;

    for (int i = 0; i < 3; i++)
        ranks[i].note = calloc(1, sizeof(struct norms));
    rig_run(&c, ranks);
    expect_ok(3);
    define_norms(&c, 0, of - 1);
    for (int i = 0; i < 3; i++) {
        const struct norms *n = ranks[i].note;

        ck_assert_int_eq(n->st, LK_OK);
        ck_assert_uint_eq(n->step, 1);
        ck_assert_int_eq(n->micro_batches, of);
        /* Sums of some hundred float32 squares: 1e-5 is a hundred roundings. */
        ck_assert_double_eq_tol(n->got_local / n->local_sq, 1, 1e-5);
        ck_assert_double_eq_tol(n->got_mean / n->mean_sq, 1, 1e-5);
        ck_assert_double_gt(n->got_local, n->got_mean); /* averaging removes noise */
    }
    for (int i = 0; i < 3; i++)
        free(ranks[i].note);
    rig_free(ranks, 3);
}
END_TEST

START_TEST(norms_are_measured_when_asked_for)
{
    struct rig_case c = {.ranks = 1, .steps = 6, .noise_every = 4, .after_step = keep_norms};
    struct norms *n = calloc(1, sizeof *n);

    ranks[0].note = n;
    rig_run(&c, ranks);
    expect_ok(1);
    ck_assert_int_eq(n->st, LK_OK);
    ck_assert_uint_eq(n->step, 4);
    rig_free(ranks, 1);
    c.noise_every = 0;
    rig_run(&c, ranks);
    ck_assert_int_eq(n->st, LK_EEVIDENCE);
    rig_free(ranks, 1);
    free(n);
}
END_TEST

SUITE(reducer, c)
{
    tcase_add_loop_test(c, models_that_differ_are_told_apart, 0, LK_COUNT(mismatches));
    tcase_add_test(c, rank_0_gives_the_values);
    tcase_add_loop_test(c, buckets_follow_the_rule_then_rank_0s_ready_order, 0,
                        LK_COUNT(caps) * LK_COUNT(rules));
    tcase_add_loop_test(c, gradients_lie_side_by_side_in_their_buckets, 0, LK_COUNT(caps));
    tcase_add_loop_test(c, buckets_are_reduced_in_index_order_whatever_is_ready_first, 0, 4);
    tcase_add_test(c, buckets_are_reduced_while_backward_goes_on);
    tcase_add_test(c, a_gradient_comes_once);
    tcase_add_test(c, wrong_configurations_are_refused);
    tcase_add_loop_test(c, norms_are_of_mean_gradients, 0, 4);
    tcase_add_test(c, norms_are_measured_when_asked_for);
}
