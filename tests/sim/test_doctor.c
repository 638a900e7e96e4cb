/* The doctor on rates that a cause makes by hand: a model of 25 M parameters on 8 A100. */
#include "base/array.h"
#include "facts/gradients.h"
#include "facts/known_models.h"
#include "facts/preset.h"
#include "sim/throughput/doctor.h"
#include "tests/rigs/must.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS_MAX = 8 };

static struct {
    struct lk_job job;
    struct lk_cluster cluster;
    struct lk_doctor_row rows[ROWS_MAX];
    struct lk_doctor_question q;
} rig;

static void set_up(void)
{
    const struct lk_known_model *m;
    char *path;

    memset(&rig, 0, sizeof rig);
    must(lk_known_model_find("ResNet_50", &m));
    must(lk_gradients_of_count(m->parameters, LK_F32, &rig.job));
    must(lk_preset_find(NULL, "dgx-a100", &path));
    must(lk_cluster_read(path, &rig.cluster));
    free(path);
    rig.q = (struct lk_doctor_question){.rows = rig.rows,
                                        .job = &rig.job,
                                        .cluster = &rig.cluster,
                                        .flops_per_sample = m->flops,
                                        .peak_flops = rig.cluster.device.flops.value,
                                        .draws = 200,
                                        .seed = 1};
}

static void tear_down(void)
{
    lk_job_fini(&rig.job);
    lk_cluster_fini(&rig.cluster);
}

static struct lk_doctor_row *add(int gpus, double rate)
{
    const struct lk_trial t = {.config = {.world_size = gpus,
                                          .nodes = (gpus + 7) / 8,
                                          .local_batch = 128,
                                          .accumulation = 1,
                                          .reduce = LK_REDUCTION_LAST}};
    struct lk_doctor_row *r = &rig.rows[rig.q.n_rows++];

    *r = lk_doctor_row_of(&t, rate);
    return r;
}

/* slowest: the slowest copy's rate times the GPUs; 0: the run was not of copies. */
static void add_result(const char *name, double rate, double slowest)
{
    struct lk_doctor_row *r = &rig.rows[rig.q.n_rows];
    struct lk_trial t;

    must(lk_doctor_trial(&rig.q, name, &t));
    *r = lk_doctor_row_of(&t, rate);
    if (slowest > 0)
        r->measured[LK_MEASURE_SLOWEST] = (8 * rate - slowest) / 7 / slowest;
    rig.q.n_rows++;
}

static struct lk_diagnosis ask(void)
{
    struct lk_diagnosis d;
    double sum = 0;

    must(lk_doctor(&rig.q, &d));
    for (int c = 0; c < LK_CAUSE_COUNT; c++)
        sum += d.odds[c];
    ck_assert_double_eq_tol(sum, 1, 1e-9);
    return d;
}

static enum lk_cause first_of(const struct lk_diagnosis *d)
{
    bool tells;

    return lk_diagnosis_first(d, &tells);
}

/* What cannot be has no odds; of two nodes and micro-batches it has. */
START_TEST(causes_are_of_the_configuration)
{
    struct lk_diagnosis d;

    add(1, 2500);
    add(8, 12000);
    d = ask();
    ck_assert(d.odds[LK_CAUSE_NODES] == 0 && d.odds[LK_CAUSE_SYNC] == 0);
    ck_assert(isnan(d.experiments[0].rate[LK_CAUSE_SYNC]));
    rig.rows[1].trial.config.world_size = 16;
    rig.rows[1].trial.config.nodes = 2;
    for (size_t i = 0; i < 2; i++)
        rig.rows[i].trial.config.accumulation = 4;
    d = ask();
    ck_assert(d.odds[LK_CAUSE_NODES] > 0 && d.odds[LK_CAUSE_SYNC] > 0);
}
END_TEST

START_TEST(what_is_to_be_expected_is_no_fault)
{
    struct lk_diagnosis d;

    add(1, 2500);
    add(8, 12000);
    d = ask();
    ck_assert(d.expected > 17000 && d.expected < 20000);
    rig.rows[1].measured[LK_MEASURE_RATE] = d.expected;
    d = ask();
    ck_assert_int_eq(first_of(&d), LK_CAUSE_NONE);
}
END_TEST

/* The experiment that mends the loss names its cause, and one that does not clears it. */
static const struct {
    const char *name;
    double rate;    /* of all */
    double slowest; /* of copies apart, times the GPUs; 0: not of copies */
    enum lk_cause is, is_not;
} results[] = {
    {"synthetic", 19300, 0, LK_CAUSE_INPUT, LK_CAUSE_COUNT},
    {"synthetic", 12000, 0, LK_CAUSE_COUNT, LK_CAUSE_INPUT},
    {"apart", 19000, 12000, LK_CAUSE_STRAGGLER, LK_CAUSE_COUNT},
    {"apart-synthetic", 12000, 12000, LK_CAUSE_HOST, LK_CAUSE_STRAGGLER},
    {"accumulate-x4", 17500, 0, LK_CAUSE_NETWORK, LK_CAUSE_STRAGGLER},
};

START_TEST(results_are_evidence)
{
    struct lk_diagnosis before, after;

    add(1, 2500);
    add(8, 12000);
    before = ask();
    add_result(results[_i].name, results[_i].rate, results[_i].slowest);
    after = ask();
    if (results[_i].is < LK_CAUSE_COUNT) {
        ck_assert_int_eq(first_of(&after), results[_i].is);
        ck_assert_double_gt(after.odds[results[_i].is], before.odds[results[_i].is]);
        ck_assert_double_gt(after.odds[results[_i].is], 0.8);
    }
    if (results[_i].is_not < LK_CAUSE_COUNT)
        ck_assert_double_lt(after.odds[results[_i].is_not], 0.02);
    for (size_t i = 0; i < after.n_experiments; i++)
        ck_assert_str_ne(after.experiments[i].name, results[_i].name);
}
END_TEST

/* The loss is the same in all of these steps of 85 ms; a profile tells them apart, and where it is
 * as it would be with nothing wrong but the loss, the network is slow. Times are ms. */
static const struct {
    double work, slowest, input, gap, wire;
    enum lk_cause is;
} profiles[] = {
    {51, 1.67, 0, 0.5, 1, LK_CAUSE_STRAGGLER},
    {51, 1.01, 33, 0.5, 1, LK_CAUSE_INPUT},
    {85, 1.01, 0, 34, 1, LK_CAUSE_HOST},
    {51, 1.01, 0, 0.5, 60, LK_CAUSE_NETWORK},
};

START_TEST(a_profile_tells)
{
    struct lk_doctor_row *r;
    struct lk_diagnosis d;

    add(1, 2500);
    add(8, 12000);
    d = ask();
    ck_assert_str_eq(d.experiments[0].name, "profile");
    r = add(8, NAN);
    r->measured[LK_MEASURE_WORK] = profiles[_i].work * 1e-3;
    r->measured[LK_MEASURE_SLOWEST] = profiles[_i].slowest;
    r->measured[LK_MEASURE_INPUT] = profiles[_i].input * 1e-3;
    r->measured[LK_MEASURE_GAP] = profiles[_i].gap * 1e-3;
    r->measured[LK_MEASURE_WIRE] = profiles[_i].wire * 1e-3;
    d = ask();
    ck_assert_int_eq(first_of(&d), profiles[_i].is);
    ck_assert_double_gt(d.odds[profiles[_i].is], 0.9);
    for (size_t i = 0; i < d.n_experiments; i++)
        ck_assert_str_ne(d.experiments[i].name, "profile");
}
END_TEST

/* Ranks' own times alone, as a table has them, tell a slow rank from what all ranks wait for. */
START_TEST(own_times_tell)
{
    struct lk_doctor_row *r;
    struct lk_diagnosis d;

    add(1, 2500);
    add(8, 12000);
    r = add(8, NAN);
    r->measured[LK_MEASURE_OWN] = 0.051;
    r->measured[LK_MEASURE_SLOWEST] = 1.67;
    d = ask();
    ck_assert_int_eq(first_of(&d), LK_CAUSE_STRAGGLER);
    r->measured[LK_MEASURE_OWN] = 0.085;
    r->measured[LK_MEASURE_SLOWEST] = 1;
    d = ask();
    ck_assert_double_gt(d.odds[LK_CAUSE_INPUT] + d.odds[LK_CAUSE_HOST], 0.95);
}
END_TEST

/* How often gradients are reduced is seen, whatever a step takes. */
START_TEST(reductions_tell)
{
    struct lk_doctor_row *r;
    struct lk_diagnosis d;

    add(1, 1000);
    add(8, 5500);
    r = add(8, NAN);
    for (size_t i = 0; i < 3; i++) { /* so small that each reduction shows */
        rig.rows[i].trial.config.accumulation = 4;
        rig.rows[i].trial.config.local_batch = 2;
    }
    r->measured[LK_MEASURE_REDUCED] = 1;
    d = ask();
    ck_assert_double_lt(d.odds[LK_CAUSE_SYNC], 0.01);
    r->measured[LK_MEASURE_REDUCED] = 4;
    d = ask();
    ck_assert_double_gt(d.odds[LK_CAUSE_SYNC], 0.5);
}
END_TEST

/* A run brings no more than is missing, and where nothing is missing, nothing. */
START_TEST(bits_are_of_the_odds)
{
    struct lk_diagnosis d;
    double missing = 0;

    add(1, 2500);
    add(8, 12000);
    d = ask();
    for (int c = 0; c < LK_CAUSE_COUNT; c++)
        missing -= d.odds[c] > 0 ? d.odds[c] * log2(d.odds[c]) : 0;
    for (size_t i = 0; i < d.n_experiments; i++)
        ck_assert_double_le(d.experiments[i].bits, missing + 1e-9);
    add_result("apart", 19000, 12000);
    d = ask();
    ck_assert_double_gt(d.odds[LK_CAUSE_STRAGGLER], 0.9);
    ck_assert_double_lt(d.experiments[0].bits, 0.5);
}
END_TEST

/* The order of rows is no evidence, and of experiments the first tells most. */
START_TEST(order_does_not_count)
{
    struct lk_doctor_row first;
    struct lk_diagnosis a, b;

    add(1, 2500);
    add(2, 4900);
    add(8, 12000);
    a = ask();
    first = rig.rows[0];
    rig.rows[0] = rig.rows[2];
    rig.rows[2] = first;
    b = ask();
    for (int c = 0; c < LK_CAUSE_COUNT; c++)
        ck_assert_double_eq_tol(a.odds[c], b.odds[c], 1e-12);
    for (size_t i = 1; i < a.n_experiments; i++)
        ck_assert_double_ge(a.experiments[i - 1].bits, a.experiments[i].bits);
}
END_TEST

/* A step of two counts alone shows a loss. */
START_TEST(refusals)
{
    struct lk_trial t;
    struct lk_diagnosis d;

    add(8, 12000);
    ck_assert_int_eq(lk_doctor(&rig.q, &d), LK_EUSAGE);
    add(1, 2500);
    ck_assert_int_eq(lk_doctor_trial(&rig.q, "nothing", &t), LK_EUSAGE);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "accumulate-x4"));
    ck_assert_int_eq(lk_doctor_trial(&rig.q, "one-node", &t), LK_EUSAGE);
    rig.rows[1].measured[LK_MEASURE_RATE] = 1e9; /* over the peak */
    ck_assert_int_eq(lk_doctor(&rig.q, &d), LK_EEVIDENCE);
}
END_TEST

SUITE(doctor, c)
{
    tcase_add_checked_fixture(c, set_up, tear_down);
    tcase_add_test(c, causes_are_of_the_configuration);
    tcase_add_test(c, what_is_to_be_expected_is_no_fault);
    tcase_add_loop_test(c, results_are_evidence, 0, LK_COUNT(results));
    tcase_add_loop_test(c, a_profile_tells, 0, LK_COUNT(profiles));
    tcase_add_test(c, own_times_tell);
    tcase_add_test(c, reductions_tell);
    tcase_add_test(c, bits_are_of_the_odds);
    tcase_add_test(c, order_does_not_count);
    tcase_add_test(c, refusals);
}
