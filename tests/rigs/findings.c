#include "tests/rigs/findings.h"

#include "profiler/analysis/analysis_pool.h"
#include "tests/rigs/must.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

bool has_finding(const struct lk_analysis *a, const char *start)
{
    for (size_t i = 0; i < a->n_findings; i++)
        if (!strncmp(a->findings[i].text, start, strlen(start)))
            return true;
    return false;
}

/* Fail unless the points of each finding are within those that the efficiency lacks. */
static void assert_points(const struct lk_analysis *a)
{
    struct lk_pool pool;

    must(lk_pool(a, 1, &pool));
    for (size_t i = 0; i < pool.n_findings; i++)
        ck_assert_msg(isnan(pool.findings[i].points) ||
                          pool.findings[i].points <= 100 - 100 * a->efficiency + 1e-6,
                      "%.2f points of %.2f: %s", pool.findings[i].points, 100 - 100 * a->efficiency,
                      pool.findings[i].is->text);
    lk_pool_fini(&pool);
}

void assert_adds_up(const struct lk_analysis *a)
{
    double rows = 0, worth = 0, lost = a->step_s - a->losses_s[LK_LOSS_IDEAL] - a->reference_own_s;

    lost += a->own_input_s + a->own_gap_s;

    for (int i = 0; i < LK_LOSS_COUNT; i++)
        rows += a->losses_s[i];
    ck_assert_double_le(a->late.own_s, a->late.lag_s);
    for (size_t i = 0; i < a->n_findings; i++) {
        const struct lk_finding *f = &a->findings[i];

        if (isnan(f->cost_s))
            continue;
        ck_assert_double_ge(f->cost_s, 0);
        worth += f->cause < 0 ? f->cost_s : 0;
        if (f->cause >= 0 && !isnan(a->findings[f->cause].cost_s))
            ck_assert_double_le(f->cost_s, a->step_s);
    }
    ck_assert_double_le(worth, a->step_s + 1e-12);
    if (!a->exposure_known)
        return;
    ck_assert_double_eq_tol(rows, a->step_s, 1e-9);
    ck_assert(!a->modelled || a->losses_s[LK_LOSS_IDEAL] <= a->step_s + 1e-9);
    ck_assert_msg(worth <= fmax(0, lost) + 1e-9, "findings are worth %g s of %g s", worth, lost);
    assert_points(a);
}

void print_findings(const struct lk_analysis *a)
{
    for (size_t i = 0; i < a->n_findings; i++)
        fprintf(stderr, "  found: %s\n", a->findings[i].text);
}
