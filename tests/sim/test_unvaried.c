/* What no measurement varied is not known: it is drawn, and a note names it. */
#include "sim/forecast/forecast.h"
#include "sim/prior.h"
#include "tests/rigs/sim_truth.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <string.h>

static struct lk_predict_request request(const int64_t *world_sizes, size_t n)
{
    return (struct lk_predict_request){
        .world_sizes = world_sizes, .n_world_sizes = n, .level = 0.9, .draws = 200, .seed = 1};
}

/* One batch was timed: others are answered, 64 times fewer samples, too, each as unsure as public
 * series are, and its compute is no bound. */
START_TEST(one_batch_answers_others_widely)
{
    static const int64_t world_sizes[] = {4}, batches[] = {64, 8, 1};
    struct sim_world w;
    struct lk_forecast f;
    struct lk_predict_request q = request(world_sizes, 1);

    q.local_batches = batches;
    q.n_local_batches = 3;
    sim_world_init(&w, 14, 0);
    w.job.compute[0].local_batch = 64;
    w.job.n_compute = 1;
    ck_assert_msg(sim_predict(&w.job, &w.cluster, &q, &f) == LK_OK, "%s", lk_error_text());
    ck_assert_uint_eq(f.n_points, 3);
    ck_assert_ptr_nonnull(strstr(f.points[1].evidence_text, "x8 on local batch"));
    ck_assert_ptr_nonnull(strstr(f.points[2].evidence_text, "x64 on local batch"));
    for (int i = 1; i < 3; i++) {
        double doublings = 3 * i, sd = doublings * lk_prior_value(LK_PRIOR_ONE_BATCH_ERROR);

        ck_assert_double_lt(f.points[i].step_lo_s, f.points[i].step_s * exp(-sd));
        ck_assert_double_gt(f.points[i].step_hi_s, f.points[i].step_s * exp(sd));
    }
    w.job.n_compute = 3;
    lk_forecast_fini(&f);
    sim_world_fini(&w);
}
END_TEST

SUITE(unvaried, c)
{
    tcase_add_test(c, one_batch_answers_others_widely);
}
