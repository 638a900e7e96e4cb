/*
 * The inverse of a forecast. Asked with the answer, the forward forecast gives the probability, and
 * so does no configuration on fewer GPUs; a case is worked out by hand.
 *
 * LOCKSTEP_CASES=1000 build/test_lockstep goal tries as many random jobs; the default is quick.
 */
#include "base/array.h"
#include "facts/frontier.h"
#include "sim/forecast/forecast.h"
#include "sim/forecast/step_evidence.h"
#include "sim/planning/plan.h"
#include "tests/rigs/cases.h"
#include "tests/rigs/random_job.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CASES = 60, CHUNKS = 4, DRAWS = 100, VALUES = 4, N_AXES = 4 };

static const enum lk_axis axes[N_AXES] = {LK_AXIS_GPUS, LK_AXIS_ACCUMULATION, LK_AXIS_BUCKET_CAP,
                                          LK_AXIS_SHARDING};

/* A search among a random job's configurations. */
struct search {
    struct random_job of;
    struct lk_axis_value values[N_AXES][VALUES];
    struct lk_plan_request plan;
    struct lk_goal goal;
    struct lk_forecast_request request;
};

static void ask_for(struct search *s, size_t axis, const char *words)
{
    char text[64], *rest = text, *word;
    size_t n = 0;

    snprintf(text, sizeof text, "%s", words);
    while ((word = lk_list_next(&rest)))
        ck_assert_int_eq(lk_axis_parse(axes[axis], word, &s->values[axis][n++]), LK_OK);
    s->request.axes[axes[axis]].v = s->values[axis];
    s->request.axes[axes[axis]].n = n;
}

static void run(const struct search *s, const struct lk_forecast_request *q, struct lk_forecast *f,
                struct lk_gains *c)
{
    struct lk_evidence_source source;

    ck_assert_int_eq(lk_step_evidence(&s->of.job, &s->of.cluster, q, &source), LK_OK);
    ck_assert_msg(lk_forecast_run(&source, q, f, c) == LK_OK, "%s", lk_error_text());
    source.ops->close(source.self);
}

/* Make a goal that some configurations may reach: near what one of them takes. */
static void set_goal(struct search *s, struct lk_rng *g)
{
    struct lk_forecast_request q = s->request;
    struct lk_forecast f;
    const struct lk_forecast_point *p;
    unsigned what = 1 + (unsigned)lk_rng_below(g, 7);

    q.anyway = true;
    run(s, &q, &f, NULL);
    p = &f.points[lk_rng_below(g, f.n_points)];
    s->goal = (struct lk_goal){.probability = 0.5 + 0.45 * lk_rng_uniform(g),
                               .has_samples = !lk_rng_below(g, 2) || what & 3,
                               .has_price = true};
    if (what & 1)
        s->goal.deadline_s = p->plan.time_to_target_h * 3600 * random_between(g, 0.7, 1.5);
    if (what & 2)
        s->goal.budget = p->plan.cost_to_target * random_between(g, 0.7, 1.5);
    if (what & 4)
        s->goal.throughput_per_s = p->throughput_per_s * random_between(g, 0.7, 1.5);
    lk_forecast_fini(&f);
}

static void search_init(struct search *s, uint64_t number)
{
    struct lk_rng g = lk_rng_init(31, number);
    char counts[64];

    memset(s, 0, sizeof *s);
    random_job_init(number, &s->of);
    s->of.job.optimizer = LK_JOB_OPTIMIZER_ADAM;
    ck_assert_int_eq(lk_quantity_set(&s->of.job.memory_per_sample_bytes, 1e6, NAN, NAN, 0, "test"),
                     LK_OK);
    s->plan = (struct lk_plan_request){
        .device_bytes = (uint64_t)random_between(&g, 2e9 + 8 * s->of.bytes, 2e9 + 3 * s->of.bytes),
        .price_per_hour = 2,
        .noise_scale = random_between(&g, 8, 1e4),
        .target_samples = 1e6};
    s->request =
        (struct lk_forecast_request){.level = 0.9, .draws = DRAWS, .seed = 1, .plan = &s->plan};
    snprintf(counts, sizeof counts, "%lld,%lld,%lld,%lld", (long long)s->of.counts[0].count,
             (long long)s->of.counts[1].count, (long long)s->of.counts[2].count,
             (long long)s->of.counts[3].count);
    ask_for(s, 0, counts);
    ask_for(s, 1, "1,2,8");
    ask_for(s, 2, "1MiB,25MiB");
    ask_for(s, 3, "ddp,zero1,zero3");
    set_goal(s, &g);
}

/* Return true if the ends of a point's intervals are within the goal. */
static bool is_within(const struct search *s, const struct lk_forecast_point *p)
{
    const struct lk_goal *g = &s->goal;
    double samples = lk_config_samples(&p->config);

    if (strcmp(p->plan.memory_fit, "no") == 0 || isnan(p->step_s))
        return false;
    return (!(g->deadline_s > 0) || p->plan.time_to_target_hi_h * 3600 <= g->deadline_s) &&
           (!(g->budget > 0) || p->plan.cost_to_target_hi <= g->budget) &&
           (!(g->throughput_per_s > 0) || samples / p->step_hi_s >= g->throughput_per_s) &&
           (g->has_samples || samples <= s->plan.noise_scale);
}

/* Forecast one configuration alone, with intervals whose upper end is at the probability. */
static void check_forward(const struct search *s, uint64_t number, const struct lk_config *c)
{
    const double of[N_AXES] = {c->world_size, c->accumulation, (double)c->cap_bytes, c->sharding};
    struct lk_forecast_request q = s->request;
    struct lk_forecast f;

    for (size_t a = 0; a < N_AXES; a++) {
        size_t n = q.axes[axes[a]].n;

        while (n && q.axes[axes[a]].v->count != (int64_t)of[a]) {
            q.axes[axes[a]].v++;
            n--;
        }
        q.axes[axes[a]].n = n > 0; /* one GPU has the current caps, whatever was asked for */
    }
    q.level = 2 * s->goal.probability - 1;
    run(s, &q, &f, NULL);
    ck_assert_uint_eq(f.n_points, 1);
    ck_assert_msg(is_within(s, &f.points[0]), "case %llu: %d GPUs do not reach the goal",
                  (unsigned long long)number, c->world_size);
    lk_forecast_fini(&f);
}

/* Return the fewest GPUs of plain DDP that reach the goal with a probability that is higher by a
 * few draws, by a forecast of everything; INT_MAX: none do. */
static int fewest(const struct search *s)
{
    struct lk_forecast_request q = s->request;
    struct lk_forecast f;
    int least = INT32_MAX;

    q.level = 2 * fmin(0.985, s->goal.probability + 0.03) - 1;
    q.anyway = true;
    run(s, &q, &f, NULL);
    for (size_t i = 0; i < f.n_points; i++)
        if (f.points[i].config.sharding == LK_SHARDING_DDP && is_within(s, &f.points[i]) &&
            f.points[i].config.world_size < least)
            least = f.points[i].config.world_size;
    lk_forecast_fini(&f);
    return least;
}

static void check(uint64_t number)
{
    struct search s;
    struct lk_forecast_request q;
    struct lk_forecast f;
    struct lk_gains c;
    int least;

    search_init(&s, number);
    least = fewest(&s);
    q = s.request;
    q.goal = &s.goal;
    run(&s, &q, &f, &c);
    if (c.goal.n_reach) {
        const size_t named[] = {c.goal.smallest, c.goal.cheapest, c.goal.fastest};

        for (size_t i = 0; i < LK_COUNT(named); i++) {
            ck_assert(f.points[named[i]].plan.probability >= s.goal.probability);
            check_forward(&s, number, &f.points[named[i]].config);
            /* No other that is named is cheaper or faster, unless that is said. */
            ck_assert(c.goal.cheaper || f.points[c.goal.cheapest].plan.cost_to_target <=
                                            f.points[named[i]].plan.cost_to_target);
            ck_assert(c.goal.faster || f.points[c.goal.fastest].plan.time_to_target_h <=
                                           f.points[named[i]].plan.time_to_target_h);
        }
    }
    ck_assert_msg(least == INT32_MAX ||
                      (c.goal.n_reach && f.points[c.goal.smallest].config.world_size <= least),
                  "case %llu: %d GPUs reach the goal", (unsigned long long)number, least);
    for (size_t i = 0; i < f.n_points; i++) /* what does not fit has no numbers */
        ck_assert(strcmp(f.points[i].plan.memory_fit, "no") != 0 ||
                  (isnan(f.points[i].step_s) && isnan(f.points[i].plan.time_to_target_h)));
    lk_forecast_fini(&f);
    lk_gains_fini(&c);
    random_job_fini(&s.of);
}

START_TEST(the_forward_forecast_agrees)
{
    for (uint64_t i = (uint64_t)_i; i < cases_or(CASES); i += CHUNKS)
        check(i);
}
END_TEST

/* ---- By hand ---- */

/*
 * 3 s of compute for 8 samples and gradients of 4 bytes: K GPUs train 8 K / 3 samples a second. 1e6
 * samples at a noise scale of 640 take 1e6 (1 + K / 80) in batches of 8 K, so
 *
 *     T(K) = 375,000 s / K + 4,687.5 s,    cost at 3 an hour: K T(K) / 1200 = 312.5 + 3.906 K.
 *
 * A deadline of 30,000 s takes K >= 14.8: of 8, 16 and 32 GPUs 16 are the smallest and the cheapest
 * (28,125 s, 375), 32 the fastest (16,406 s, 437.5). With a deadline of 20,000 s, K >= 24.5, a
 * budget of 400, K <= 22.4, is out of reach; without the budget 32 GPUs do.
 */
static void set_exact(struct lk_quantity *q, double v)
{
    ck_assert_int_eq(lk_quantity_set(q, v, v, v, 0, "by hand"), LK_OK);
}

static void search_by_hand(struct search *s, double deadline_s, double budget)
{
    struct lk_cluster *c = &s->of.cluster;
    struct lk_job *j = &s->of.job;

    memset(s, 0, sizeof *s);
    random_job_init(0, &s->of);
    j->tensors[0].elems = 1;
    while (j->n_tensors > 1)
        free(j->tensors[--j->n_tensors].name);
    j->ready_order[0] = 0;
    j->accumulation = 1;
    set_exact(&j->compute[0].forward_s, 1);
    set_exact(&j->compute[0].backward_s, 2);
    set_exact(&j->compute[0].optimizer_s, 0);
    c->n_slow = 0;
    c->gpus_per_node = 8;
#define EXACT_(field, text, max, help) set_exact(&c->field, 0);
    LK_STRAGGLER_LIST(EXACT_)
#undef EXACT_
    s->goal = (struct lk_goal){.deadline_s = deadline_s,
                               .budget = budget,
                               .probability = 0.9,
                               .has_samples = true,
                               .has_price = true};
    s->plan =
        (struct lk_plan_request){.price_per_hour = 3, .noise_scale = 640, .target_samples = 1e6};
    s->request = (struct lk_forecast_request){
        .level = 0.9, .draws = DRAWS, .seed = 1, .plan = &s->plan, .goal = &s->goal};
    ask_for(s, 0, "8,16,32");
}

static void check_point(const struct lk_forecast *f, size_t at, int gpus, double time_s,
                        double cost)
{
    const struct lk_forecast_point *p = &f->points[at];

    ck_assert_int_eq(p->config.world_size, gpus);
    ck_assert_double_eq_tol(p->plan.time_to_target_h * 3600 / time_s, 1, 1e-3);
    ck_assert_double_eq_tol(p->plan.cost_to_target / cost, 1, 1e-3);
}

START_TEST(a_deadline_by_hand)
{
    struct search s;
    struct lk_forecast f;
    struct lk_gains c;
    size_t *at, n;

    search_by_hand(&s, 30000, 0);
    run(&s, &s.request, &f, &c);
    ck_assert_uint_eq(c.goal.n_reach, 2);
    check_point(&f, c.goal.smallest, 16, 28125, 375);
    check_point(&f, c.goal.cheapest, 16, 28125, 375);
    check_point(&f, c.goal.fastest, 32, 16406.25, 437.5);
    ck_assert_int_eq(lk_frontier_list(&f, 0, &at, &n), LK_OK);
    ck_assert_uint_eq(n, 3); /* each count is cheaper and slower than the next */
    check_point(&f, at[2], 8, 51562.5, 343.75);
    free(at);
    ck_assert_int_eq(lk_frontier_list(&f, 0.2, &at, &n), LK_OK);
    ck_assert_uint_eq(n, 2); /* 375 is 14 % below 437.5, 343.75 by 21 % */
    free(at);
    lk_forecast_fini(&f);
    lk_gains_fini(&c);
    random_job_fini(&s.of);
}
END_TEST

START_TEST(what_binds_by_hand)
{
    static const struct {
        double deadline_s, budget;
        bool small; /* GPUs of one byte */
        enum lk_goal_limit limit;
        int without, nearest;
    } rows[] = {
        {20000, 400, false, LK_GOAL_BUDGET, 32, 0},    /* 32 GPUs in time, for 437.5 */
        {20000, 100, false, LK_GOAL_BUDGET, 32, 0},    /* nothing costs so little */
        {10000, 0, false, LK_GOAL_LIMIT_COUNT, 0, 32}, /* more GPUs than were asked for */
        {10000, 360, false, LK_GOAL_DEADLINE, 8, 0},   /* 8 GPUs cost 344 */
        {30000, 0, true, LK_GOAL_MEMORY, 16, 0},       /* no GPU holds the job */
    };

    for (size_t i = 0; i < LK_COUNT(rows); i++) {
        struct search s;
        struct lk_forecast f;
        struct lk_gains c;

        search_by_hand(&s, rows[i].deadline_s, rows[i].budget);
        s.plan.device_bytes = rows[i].small;
        run(&s, &s.request, &f, &c);
        ck_assert_uint_eq(c.goal.n_reach, 0);
        ck_assert_int_eq(c.goal.limit, rows[i].limit);
        if (rows[i].without)
            ck_assert_int_eq(f.points[c.goal.without].config.world_size, rows[i].without);
        if (rows[i].nearest)
            ck_assert_int_eq(f.points[c.goal.nearest].config.world_size, rows[i].nearest);
        lk_forecast_fini(&f);
        lk_gains_fini(&c);
        random_job_fini(&s.of);
    }
}
END_TEST

/* A rate of 20 samples a second takes 8 GPUs (21.3), whose step has 64 samples: past a noise scale
 * of 60, unless samples are given that weigh it. */
START_TEST(a_rate_alone_stays_below_the_critical_batch)
{
    for (int has_samples = 0; has_samples < 2; has_samples++) {
        struct search s;
        struct lk_forecast f;
        struct lk_gains c;

        search_by_hand(&s, 0, 0);
        s.goal.throughput_per_s = 20;
        s.goal.has_samples = has_samples;
        s.plan.noise_scale = 60;
        run(&s, &s.request, &f, &c);
        ck_assert_int_eq(c.goal.n_reach > 0, has_samples);
        ck_assert_int_eq(c.goal.limit, has_samples ? LK_GOAL_LIMIT_COUNT : LK_GOAL_BATCH);
        lk_forecast_fini(&f);
        lk_gains_fini(&c);
        random_job_fini(&s.of);
    }
}
END_TEST

SUITE(goal, c)
{
    tcase_add_loop_test(c, the_forward_forecast_agrees, 0, CHUNKS);
    tcase_add_test(c, a_deadline_by_hand);
    tcase_add_test(c, what_binds_by_hand);
    tcase_add_test(c, a_rate_alone_stays_below_the_critical_batch);
    tcase_set_timeout(c, 300);
}
