/* What runs take beyond the model, by hand: where it stays in other configurations. */
#include "base/array.h"
#include "facts/loss.h"
#include "sim/forecast/misfit.h"
#include "tests/rigs/suite.h"

#include <math.h>

/* A step of 100 ms as modelled: own work 70, exposed 30. Runs of one rank told own work; those of
 * several take 115: 11 more of it, and 4 exposed longer. */
static const struct lk_step_parts modelled = {0.070, 0.030};
static const double modelled_s[LK_LOSS_COUNT] = {[LK_LOSS_IDEAL] = 0.070, [LK_LOSS_WIRE] = 0.030};

static const struct {
    double slow_ms; /* of the 11, slow ranks' */
    double beside, own;
} rows[] = {
    {0, 11.0 / 70, 1},
    {5, 6.0 / 70, 81.0 / 76},
    {20, 0, 81.0 / 70},
};

/* Own work beyond the model that slow ranks do not explain is what the exchange takes from compute;
 * what is then left is as it was, and the runs' step is theirs again. */
START_TEST(own_work_by_hand)
{
    double losses_s[LK_LOSS_COUNT] = {[LK_LOSS_IDEAL] = 0.081 - 1e-3 * rows[_i].slow_ms,
                                      [LK_LOSS_SLOW_RANK] = 1e-3 * rows[_i].slow_ms,
                                      [LK_LOSS_WIRE] = 0.034};
    struct lk_misfit_seen seen = lk_misfit_seen(losses_s, modelled_s, true);
    double beside = lk_misfit_beside(&seen, 0.115, &modelled);
    const struct lk_step_parts slowed = {(1 + beside) * modelled.own_s, modelled.exposed_s};
    struct lk_misfit m = lk_misfit_of(&seen, 0.115, &slowed);

    ck_assert_double_eq_tol(beside, rows[_i].beside, 1e-9);
    ck_assert_double_eq_tol(m.own, rows[_i].own, 1e-9);
    ck_assert_double_eq_tol(m.exposed_s, 4e-3, 1e-9);
    ck_assert_double_eq_tol(lk_misfit_step(&m, &(struct lk_misfit_carry){1, 1, 1}, &slowed), 0.115,
                            1e-9);
    seen = lk_misfit_seen(NULL, modelled_s, true); /* nobody knows the parts */
    ck_assert_double_eq(lk_misfit_beside(&seen, 0.115, &modelled), 0);
}
END_TEST

/* A slower network, or more ranks, makes compute no slower than the runs saw it; less exchange
 * does. */
START_TEST(compute_follows_the_exchange)
{
    static const double cost[] = {0, 0.5, 1, 10}, want[] = {0, 0.5, 1, 1};
    const struct lk_meeting runs = {.cost_s = 1, .bytes = 1, .times = 1};

    for (size_t i = 0; i < LK_COUNT(cost); i++) {
        const struct lk_meeting other = {.cost_s = cost[i], .bytes = 1, .times = 1};
        struct lk_misfit_carry carry = lk_misfit_carry(&runs, &other);

        ck_assert_double_eq_tol(carry.exposed, cost[i], 1e-12);
        ck_assert_double_eq_tol(carry.beside, want[i], 1e-12);
    }
}
END_TEST

SUITE(misfit, c)
{
    tcase_add_test(c, compute_follows_the_exchange);
    tcase_add_loop_test(c, own_work_by_hand, 0, LK_COUNT(rows));
}
