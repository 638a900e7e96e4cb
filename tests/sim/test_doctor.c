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
    struct lk_doctor_row *r = &rig.rows[rig.q.n_rows++];

    *r = (struct lk_doctor_row){.throughput = rate};
    r->trial.config = (struct lk_config){.world_size = gpus,
                                         .nodes = (gpus + 7) / 8,
                                         .local_batch = 128,
                                         .accumulation = 1,
                                         .reduce = LK_REDUCTION_LAST};
    return r;
}

static void add_result(const char *name, double rate, bool slowest)
{
    struct lk_doctor_row *r = &rig.rows[rig.q.n_rows];

    must(lk_doctor_trial(&rig.q, name, &r->trial));
    r->trial.slowest = slowest;
    r->throughput = rate;
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
    rig.rows[1].throughput = d.expected;
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
    add_result(results[_i].name, results[_i].rate, false);
    if (results[_i].slowest > 0)
        add_result(results[_i].name, results[_i].slowest, true);
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
    rig.rows[1].throughput = 1e9; /* over the peak */
    ck_assert_int_eq(lk_doctor(&rig.q, &d), LK_EEVIDENCE);
}
END_TEST

SUITE(doctor, c)
{
    tcase_add_checked_fixture(c, set_up, tear_down);
    tcase_add_test(c, causes_are_of_the_configuration);
    tcase_add_test(c, what_is_to_be_expected_is_no_fault);
    tcase_add_loop_test(c, results_are_evidence, 0, LK_COUNT(results));
    tcase_add_test(c, order_does_not_count);
    tcase_add_test(c, refusals);
}
