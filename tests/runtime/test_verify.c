/* --verify: correct runs pass within the bound, with any buckets; every planted fault fails. */
#include "base/array.h"
#include "tests/rigs/ddp_rig.h"
#include "tests/rigs/suite.h"

#include <stdio.h>
#include <string.h>

static struct rig_rank ranks[RIG_RANKS_MAX];

static const int worlds[] = {1, 2, 3, 4, 8};
static const int accumulations[] = {1, 4};
static const uint64_t caps[] = {1, 500, UINT64_MAX};
static const enum lk_ddp_rule rules[] = {LK_DDP_TORCH_1_13, LK_DDP_TORCH_2, LK_DDP_TORCH_1_11};

enum { SYNC_MODES = 2 };
enum {
    COMBINATIONS =
        LK_COUNT(worlds) * LK_COUNT(accumulations) * LK_COUNT(caps) * LK_COUNT(rules) * SYNC_MODES
};

START_TEST(ranks_compute_what_one_would)
{
    size_t i = (size_t)_i;
    struct rig_case c = {.steps = 3, .verify = true};

    c.ranks = worlds[i % LK_COUNT(worlds)];
    i /= LK_COUNT(worlds);
    c.accumulation = accumulations[i % LK_COUNT(accumulations)];
    i /= LK_COUNT(accumulations);
    c.cap_bytes = caps[i % LK_COUNT(caps)];
    i /= LK_COUNT(caps);
    c.rule = rules[i % LK_COUNT(rules)];
    i /= LK_COUNT(rules);
    c.no_sync = i;
    rig_run(&c, ranks);
    for (int r = 0; r < c.ranks; r++) {
        ck_assert_msg(ranks[r].st == LK_OK, "rank %d: %s", r, ranks[r].text);
        ck_assert_double_le(ranks[r].max_error, ranks[r].bound);
        ck_assert_double_gt(ranks[r].max_error, 0); /* float32 was compared with float64 */
        /* Every rank reports the same, since it is the maximum over all. */
        ck_assert_double_eq(ranks[r].max_error, ranks[0].max_error);
    }
    rig_free(ranks, c.ranks);
}
END_TEST

START_TEST(the_reference_device_is_exact)
{
    const struct rig_case c = {.device = "reference",
                               .ranks = 3,
                               .accumulation = 4,
                               .no_sync = _i,
                               .verify = true,
                               .cap_bytes = 500};

    rig_run(&c, ranks);
    for (int r = 0; r < c.ranks; r++) {
        ck_assert_msg(ranks[r].st == LK_OK, "rank %d: %s", r, ranks[r].text);
        /* Sums of 3 * 4 doubles in another order: a few units in the last place. */
        ck_assert_double_le(ranks[r].max_error, 1e-14);
    }
    rig_free(ranks, c.ranks);
}
END_TEST

static const struct {
    enum lk_plant plant;
    uint32_t step; /* first step in which it shows */
} faults[] = {
    {LK_PLANT_DROPPED_BUCKET, 0}, {LK_PLANT_WRONG_DIVISOR, 0}, {LK_PLANT_SHARED_SHARD, 0},
    {LK_PLANT_STALE_VIEW, 1}, /* there is an old bucket only after the rebuild */
    {LK_PLANT_EARLY_BUCKET, 0},
};
static const struct {
    int ranks, accumulation;
    bool no_sync;
    uint64_t cap_bytes;
} settings[] = {
    {2, 1, false, 1},   {2, 1, false, UINT64_MAX}, {3, 4, true, 500},
    {3, 4, false, 500}, {8, 1, false, 500},        {4, 4, true, UINT64_MAX},
};

START_TEST(a_planted_fault_is_noticed)
{
    const size_t f = (size_t)_i % LK_COUNT(faults);
    const size_t at = (size_t)_i / LK_COUNT(faults);
    const struct rig_case c = {.ranks = settings[at].ranks,
                               .accumulation = settings[at].accumulation,
                               .no_sync = settings[at].no_sync,
                               .cap_bytes = settings[at].cap_bytes,
                               .plant = faults[f].plant,
                               .verify = true};
    char text[80];

    snprintf(text, sizeof text,
             "verify: the gradient check failed in step %u: ", (unsigned)faults[f].step);
    rig_run(&c, ranks);
    for (int r = 0; r < c.ranks; r++) {
        ck_assert_msg(ranks[r].st == LK_EVERIFY, "rank %d: %s", r, ranks[r].text);
        ck_assert_msg(strstr(ranks[r].text, text), "%s", ranks[r].text);
        ck_assert_str_eq(ranks[r].text, ranks[0].text);
    }
    rig_free(ranks, c.ranks);
}
END_TEST

static void flip_a_bit(struct rig_rank *r, uint32_t step)
{
    if (step == 1 && r->rank != 0)
        *((unsigned char *)r->model->params[3].data + 16 * sizeof(float)) ^= 1;
}

START_TEST(one_bit_of_a_parameter_is_noticed)
{
    const struct rig_case c = {.ranks = 3, .verify = true, .before_verify = flip_a_bit};

    rig_run(&c, ranks);
    for (int r = 0; r < c.ranks; r++) {
        ck_assert_int_eq(ranks[r].st, LK_EVERIFY);
        ck_assert_str_eq(ranks[r].text, "verify: the parameters check failed after step 1: "
                                        "'b.weight' is not bit for bit rank 0's on rank 1, 2");
    }
    rig_free(ranks, c.ranks);
}
END_TEST

static void spoil_a_gradient(struct rig_rank *r, uint32_t step)
{
    const float nan = 0.0F / 0.0F;

    if (step == 2 && r->rank == 1)
        memcpy(r->model->params[8].grad, &nan, sizeof nan);
}

START_TEST(a_gradient_that_is_no_number_is_noticed)
{
    const struct rig_case c = {.ranks = 2, .verify = true, .before_verify = spoil_a_gradient};

    rig_run(&c, ranks);
    for (int r = 0; r < c.ranks; r++) {
        ck_assert_int_eq(ranks[r].st, LK_EVERIFY);
        ck_assert_ptr_nonnull(strstr(ranks[r].text, "in step 2: 'e.bias' on rank 1"));
    }
    rig_free(ranks, c.ranks);
}
END_TEST

START_TEST(a_device_that_does_not_compute_is_refused)
{
    const struct rig_case c = {.device = "timed", .verify = true};

    rig_run(&c, ranks);
    ck_assert_int_eq(ranks[0].st, LK_EUSAGE);
    ck_assert_ptr_nonnull(strstr(ranks[0].text, "timed"));
    rig_free(ranks, 1);
}
END_TEST

SUITE(verify, c)
{
    tcase_add_loop_test(c, ranks_compute_what_one_would, 0, COMBINATIONS);
    tcase_add_loop_test(c, the_reference_device_is_exact, 0, SYNC_MODES);
    tcase_add_loop_test(c, a_planted_fault_is_noticed, 0, LK_COUNT(faults) * LK_COUNT(settings));
    tcase_add_test(c, one_bit_of_a_parameter_is_noticed);
    tcase_add_test(c, a_gradient_that_is_no_number_is_noticed);
    tcase_add_test(c, a_device_that_does_not_compute_is_refused);
}
