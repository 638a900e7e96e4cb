/* Jobs that know buckets alone: their parts, and forecasts between whole buckets and parts. */
#include "sim/forecast/recorded_buckets.h"

#include "base/array.h"
#include "tests/rigs/must.h"
#include "tests/rigs/suite.h"

#include <stdlib.h>
#include <string.h>

static struct lk_job_tensor tensors[] = {
    {.name = "bucket 2", .elems = 1, .dtype = LK_F32, .ready = 1},
    {.name = "bucket 1", .elems = 1000001, .dtype = LK_F32, .ready = 0.9},
    {.name = "bucket 0", .elems = 262144, .dtype = LK_BF16, .ready = 0.4},
};
static size_t order[] = {2, 1, 0};
static const struct lk_job job = {.name = "j",
                                  .tensors = tensors,
                                  .n_tensors = LK_COUNT(tensors),
                                  .ready_order = order,
                                  .first_bytes = 1 << 20,
                                  .cap_bytes = 4000004,
                                  .recorded_buckets = true};

/* Parts have the bucket's elements and type, and are ready in order, the last when the bucket is.
 */
START_TEST(buckets_are_cut)
{
    struct lk_job split;
    uint64_t elements[3] = {0};
    double ready = 0;

    must(lk_buckets_split(&job, &split));
    ck_assert_uint_eq(split.n_tensors, 1 + 31 + 4); /* 128 KiB each at most */
    for (size_t i = 0; i < split.n_tensors; i++) {
        const struct lk_job_tensor *t = &split.tensors[i], *next;

        ck_assert_uint_le(t->elems * lk_dtype_bytes(t->dtype), 128 << 10);
        elements['2' - t->name[7]] += t->elems;
        next = &split.tensors[split.ready_order[i]];
        ck_assert(next->ready >= ready);
        ready = next->ready;
    }
    for (size_t i = 0; i < 3; i++)
        ck_assert_uint_eq(elements[i], tensors[i].elems);
    ck_assert_double_eq_tol(split.tensors[split.ready_order[3]].ready, 0.4, 1e-12);
    ck_assert_double_eq_tol(split.tensors[split.ready_order[0]].ready, 0.1, 1e-12);
    ck_assert_double_eq_tol(split.tensors[split.ready_order[34]].ready, 0.9, 1e-12);
    lk_buckets_fini(&split);
}
END_TEST

START_TEST(recorded_limits_are_known)
{
    struct lk_config c = {.world_size = 8, .first_bytes = 1 << 20, .cap_bytes = 4000004};
    struct lk_job own = job;

    ck_assert(!lk_buckets_unknown(&job, &c));
    c.cap_bytes = 25 << 20;
    ck_assert(lk_buckets_unknown(&job, &c));
    c.world_size = 1;
    ck_assert(!lk_buckets_unknown(&job, &c));
    c.world_size = 8;
    own.recorded_buckets = false;
    ck_assert(!lk_buckets_unknown(&own, &c));
}
END_TEST

/* The estimate lies in the middle, the interval reaches from one to the other. */
START_TEST(both_ends_are_in_the_interval)
{
    enum { N = 100 };
    struct lk_prediction p = {
        .step_s = 1, .lo_s = 0.99, .hi_s = 1.01, .bound_s = 0.9, .n_draws = N};
    struct lk_prediction q = {.step_s = 1.2, .bound_s = 0.8, .n_draws = N};

    must(lk_alloc(&p.draws_s, N, sizeof *p.draws_s));
    must(lk_alloc(&q.draws_s, N, sizeof *q.draws_s));
    for (size_t i = 0; i < N; i++) {
        p.draws_s[i] = 1 + 1e-4 * (double)i;
        q.draws_s[i] = 1.2 + 1e-4 * (double)i;
    }
    must(lk_buckets_mix(&p, &q, 0.9));
    ck_assert_double_eq_tol(p.step_s, 1.1, 1e-12);
    ck_assert_double_eq_tol(p.draws_s[10], 1.001, 1e-12);
    ck_assert_double_eq_tol(p.draws_s[11], 1.2011, 1e-12);
    ck_assert(p.lo_s <= 1.002 && p.hi_s >= 1.207);
    ck_assert_double_eq_tol(p.bound_s, 0.8, 1e-12);
    lk_prediction_fini(&p);
    lk_prediction_fini(&q);
}
END_TEST

SUITE(recorded_buckets, t)
{
    tcase_add_test(t, buckets_are_cut);
    tcase_add_test(t, recorded_limits_are_known);
    tcase_add_test(t, both_ends_are_in_the_interval);
}
