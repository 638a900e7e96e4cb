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

/* Other configurations: half of the exchange, none of it, and twice the own work. */
static const struct {
    struct lk_step_parts parts;
    struct lk_misfit_carry carry;
} others[] = {{{0.070, 0.030}, {1, 1}},
              {{0.070, 0.015}, {0.5, 1}},
              {{0.070, 0}, {0, 0}},
              {{0.140, 0.030}, {1, 1}}};

static const struct {
    const char *name;
    bool beside;    /* one rank a node */
    double slow_ms; /* of the 11, slow ranks' */
    double want_ms[LK_COUNT(others)];
} rows[] = {
    /* 11 are of the exchange. */
    {"one rank a node", true, 0, {115, 70 + 5.5 + 15 + 2, 70, 140 + 11 + 34}},
    /* Ranks of a node share more than the exchange: own work takes 81/70 of its time wherever. */
    {"several ranks a node", false, 0, {115, 81 + 15 + 2, 81, 162 + 34}},
    /* 6 are of the exchange, and own work takes 75/70. */
    {"a slow rank", true, 5, {115, 75 + 3 + 15 + 2, 75, 150 + 6 + 34}},
};

START_TEST(own_work_by_hand)
{
    double losses_s[LK_LOSS_COUNT] = {[LK_LOSS_IDEAL] = 0.081 - 1e-3 * rows[_i].slow_ms,
                                      [LK_LOSS_SLOW_RANK] = 1e-3 * rows[_i].slow_ms,
                                      [LK_LOSS_WIRE] = 0.034};
    struct lk_misfit_seen seen = lk_misfit_seen(losses_s, modelled_s, true);
    struct lk_misfit m;

    seen.beside = rows[_i].beside;
    m = lk_misfit_of(&seen, 0.115, &modelled);
    for (size_t i = 0; i < LK_COUNT(others); i++) {
        double ms = 1e3 * lk_misfit_step(&m, &others[i].carry, &others[i].parts);

        ck_assert_msg(fabs(ms - rows[_i].want_ms[i]) < 1e-6, "%s, %zu: %g ms", rows[_i].name, i,
                      ms);
    }
}
END_TEST

SUITE(misfit, c)
{
    tcase_add_loop_test(c, own_work_by_hand, 0, LK_COUNT(rows));
}
