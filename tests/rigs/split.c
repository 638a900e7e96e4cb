#include "tests/rigs/split.h"

#include "profiler/analysis/steps.h"
#include "tests/rigs/must.h"

#include <check.h>
#include <math.h>

void assert_split(const struct lk_trace *t, const struct lk_breakdown *events)
{
    struct lk_step_split sum = {.compute_s = 0};
    struct lk_rank_steps r;

    must(lk_rank_steps_read(t, &r));
    for (size_t i = 0; i < r.n_steps; i++) {
        struct lk_step_split x;

        lk_step_split(&r, &r.steps[i], NULL, &x);
        lk_step_split_add(&sum, &x, 1);
    }
    ck_assert_int_eq(llround(1e9 * sum.compute_s), events->compute_ns);
    ck_assert_int_eq(llround(1e9 * sum.comm_s), events->comm_ns);
    ck_assert_int_eq(llround(1e9 * sum.exposed_s), events->exposed_ns);
    lk_rank_steps_fini(&r);
}
