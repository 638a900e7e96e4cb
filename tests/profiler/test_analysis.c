/* Analyse runs whose truth is known: every row of the waterfall, and which rank was late. */
#include "profiler/analysis/analysis.h"

#include "base/array.h"
#include "tests/rigs/findings.h"
#include "tests/rigs/step_model.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Without spread the rows are exact but for rounding to ns. */
static const double share_allowed = 0.03;
static const double share_exact = 1e-4;

/* clang-format off: it would align the last column of rows that span lines */
static const struct {
    const char *name;
    const char *finding;      /* first words of the expected finding; NULL: none */
    struct step_model change; /* from the defaults of step_model_default */
} scenarios[] = {
    {"nothing wrong", NULL, {0}},
    {"slow rank", "late rank: rank 1 is the last at 100 %", {.slow = {0, 0.2}}},
    {"slow link", "wire bound", {.bandwidth_Bps = 2e8}},
    {"slow link and rank", NULL, {.bandwidth_Bps = 3e8, .slow = {0.15, 0}}},
    {"co-location", "co-location", {.kappa = 0.3}},
    {"overlap", "overlap slowdown", {.gamma_wire = 0.5, .bandwidth_Bps = 5e8}},
    {"overlap while waiting",
     NULL,
     {.gamma_wait = 0.4, .gamma_wire = 0.2, .slow = {0, 0.1}, .bandwidth_Bps = 5e8}},
    {"input", "input bound", {.extra_input_s = {3e-3, 3e-3}}},
    {"late by its input", "late rank: rank 1", {.extra_input_s = {0, 4e-3}}},
    {"optimizer", "optimizer", {.extra_optimizer_s = 2e-3}},
    {"four ranks", "late rank: rank 2", {.ranks = 4, .slow = {0, 0, 0.25, 0}}},
    {"one bucket", "first bucket", {.buckets = 1, .bucket_bytes = 4 << 20}},
    {"accumulation",
     NULL,
     {.accumulation = 3,
      .no_sync = true,
      .slow = {0.1, 0},
      .kappa = 0.1,
      .gamma_wire = 0.3,
      .bandwidth_Bps = 5e8}},
    {"all synchronised",
     "accumulation without no_sync: gradients are reduced in each of 3",
     {.accumulation = 3, .slow = {0.1, 0}, .bandwidth_Bps = 5e8}},
    {"all at once",
     NULL,
     {.ranks = 4,
      .slow = {0, 0, 0, 0.2},
      .kappa = 0.2,
      .gamma_wait = 0.1,
      .gamma_wire = 0.3,
      .extra_input_s = {1e-3, 0, 0, 0},
      .extra_optimizer_s = 1e-3,
      .bandwidth_Bps = 4e8}},
    {"clocks apart",
     "late rank: rank 1",
     {.slow = {0, 0.2}, .clock_offset_ns = {0, -123456789012}, .clock_uncertainty_ns = 2000}},
    {"launches", "late launches: NCCL's kernels start 1.00 ms", {.launch_s = {1e-3, 1e-3}}},
    {"late by its launches",
     "late rank: rank 1 is the last at 100 % of the collectives, by 1.95 ms on average "
     "(persistent: "
     "in 25 of 25 steps)",
     {.launch_s = {5e-5, 2e-3}, .clock_offset_ns = {0, 55555}, .clock_uncertainty_ns = 2000}},
    {"transients",
     "late rank: rank 1",
     {.steps = 200, .slow = {0, 0.2}, .transient = 0.03, .kappa = 0.1, .seed = 7}},
};
/* clang-format on */

/* Make a run from the model's traces. */
static void make_run(const struct step_model *m, struct lk_run *run, struct step_truth *truth)
{
    struct lk_trace *traces = NULL;

    ck_assert_int_eq(step_model_run(m, &traces, truth), LK_OK);
    ck_assert_msg(lk_run_take("model", traces, (size_t)m->ranks, run) == LK_OK, "%s",
                  lk_error_text());
}

/* Return the same job alone: one rank, no slowdowns, accumulation 1. */
static struct step_model alone(const struct step_model *m)
{
    struct step_model one = *m;

    one.ranks = 1;
    one.kappa = one.gamma_wait = one.gamma_wire = one.extra_optimizer_s = 0;
    memset(one.slow, 0, sizeof one.slow);
    memset(one.extra_input_s, 0, sizeof one.extra_input_s);
    memset(one.launch_s, 0, sizeof one.launch_s);
    one.seed++;
    return one;
}

static void assert_rows(const char *name, const struct lk_analysis *a,
                        const struct step_truth *truth, double share)
{
    double sum = 0;

    ck_assert_double_eq_tol(a->step_s, truth->step_s, 1e-8);
    for (int i = 0; i < LK_LOSS_COUNT; i++) {
        double error = a->losses_s[i] - truth->losses_s[i];

        sum += a->losses_s[i];
        ck_assert_msg(fabs(error) <= share * truth->step_s, "%s: row %s is %.4f ms, not %.4f", name,
                      lk_loss_key((enum lk_loss)i), 1e3 * a->losses_s[i], 1e3 * truth->losses_s[i]);
    }
    ck_assert_double_eq_tol(sum, a->step_s, 1e-12); /* rounding of ten additions */
}

START_TEST(rows_come_back)
{
    const struct step_model model = step_model_default(scenarios[_i].change);
    const struct step_model *m = &model;
    struct step_model one = alone(m);
    struct step_truth truth;
    struct lk_run run = {0}, ref = {0};
    const struct lk_run *refs[] = {&ref};
    struct lk_analysis a = {0};

    make_run(m, &run, &truth);
    make_run(&one, &ref, NULL);
    ck_assert_msg(lk_analyze(&run, refs, 1, &a) == LK_OK, "%s", lk_error_text());
    ck_assert(!a.modelled);
    assert_rows(scenarios[_i].name, &a, &truth, m->transient > 0 ? share_allowed : share_exact);
    assert_adds_up(&a);
    if (scenarios[_i].finding && !has_finding(&a, scenarios[_i].finding)) {
        print_findings(&a);
        ck_abort_msg("%s: no finding '%s'", scenarios[_i].name, scenarios[_i].finding);
    }
    lk_analysis_fini(&a);
    lk_run_fini(&ref);
    lk_run_fini(&run);
}
END_TEST

/* What to do about a slow overlap is another matter on a GPU than on a CPU. */
START_TEST(advice_is_the_devices)
{
    static const struct {
        const char *device, *next;
    } cases[] = {{"cpu", "give a rank's communication a processor of its own"},
                 {"NVIDIA H100 80GB HBM3", "give collectives fewer SMs (NCCL_MAX_CTAS)"}};
    const struct step_model m =
        step_model_default((struct step_model){.gamma_wire = 0.5, .bandwidth_Bps = 5e8});
    struct step_model one = alone(&m);
    struct lk_run run = {0}, ref = {0};
    const struct lk_run *refs[] = {&ref};
    struct lk_analysis a = {0};
    const char *next = NULL;

    make_run(&m, &run, NULL);
    make_run(&one, &ref, NULL);
    for (size_t k = 0; k < run.n; k++) {
        free(run.traces[k].info.device);
        ck_assert_int_eq(lk_strdup(&run.traces[k].info.device, cases[_i].device), LK_OK);
    }
    ck_assert_int_eq(lk_analyze(&run, refs, 1, &a), LK_OK);
    for (size_t i = 0; i < a.n_findings; i++)
        if (a.findings[i].id == LK_FINDING_OVERLAP_SLOWDOWN)
            next = a.findings[i].next;
    ck_assert_ptr_nonnull(next);
    ck_assert_str_eq(next, cases[_i].next);
    lk_analysis_fini(&a);
    lk_run_fini(&ref);
    lk_run_fini(&run);
}
END_TEST

/* Per rank: the slow one is slow, the others wait for it. */
START_TEST(rows_of_a_rank)
{
    const struct step_model m =
        step_model_default((struct step_model){.ranks = 3, .slow = {0, 0.2, 0}});
    struct step_model one = alone(&m);
    struct step_truth truth;
    struct lk_run run = {0}, ref = {0};
    const struct lk_run *refs[] = {&ref};
    struct lk_analysis a = {0};

    make_run(&m, &run, &truth);
    make_run(&one, &ref, NULL);
    ck_assert_int_eq(lk_analyze(&run, refs, 1, &a), LK_OK);
    for (int k = 0; k < m.ranks; k++) {
        ck_assert_double_eq_tol(a.ranks[k].losses_s[LK_LOSS_SLOW_RANK], truth.rank_slow_s[k],
                                share_exact * a.step_s);
        ck_assert_double_eq_tol(a.ranks[k].losses_s[LK_LOSS_STRAGGLER], truth.rank_wait_s[k],
                                share_exact * a.step_s);
    }
    ck_assert_double_eq_tol(a.ranks[1].slowdown, 0.2, 1e-6);
    ck_assert_uint_eq(a.ranks[1].n_late, a.n_collectives);
    lk_analysis_fini(&a);
    lk_run_fini(&ref);
    lk_run_fini(&run);
}
END_TEST

/* wire is the model's cost; wait and queue follow from it. */
START_TEST(buckets_come_back)
{
    const struct step_model m =
        step_model_default((struct step_model){.slow = {0, 0.2}, .bandwidth_Bps = 1e8});
    const double cost = 2 * (20e-6 + (1 << 20) / 2.0 / 1e8);
    struct lk_run run = {0};
    struct lk_analysis a = {0};

    make_run(&m, &run, NULL);
    ck_assert_int_eq(lk_analyze(&run, NULL, 0, &a), LK_OK);
    ck_assert_uint_eq(a.n_buckets, 4);
    for (size_t b = 0; b < a.n_buckets; b++) {
        ck_assert_int_eq(a.buckets[b].bucket, (int)b);
        ck_assert_uint_eq(a.buckets[b].n, m.steps - m.warmup);
        ck_assert_double_eq_tol(a.buckets[b].wire_s, cost, 2e-9); /* two roundings to ns */
    }
    /* Bucket 0 is ready after a quarter of the backward, at the rank's speed. */
    ck_assert_double_eq_tol(a.buckets[0].ready_s, 2.5e-3 * 1.1, 1e-8);
    ck_assert_double_eq_tol(a.buckets[0].queue_s, 0, 1e-12);
    /* Rank 1 is late by 20 % of forward and a quarter of the backward; rank 0 waits for it. */
    ck_assert_double_eq_tol(a.buckets[0].wait_s, 0.5 * 0.2 * 7.5e-3, 1e-8);
    ck_assert_int_eq(a.buckets[0].late_rank, 1);
    ck_assert_double_eq_tol(a.buckets[0].late_by_s, 0.2 * 7.5e-3, 1e-8);
    /* The collectives take longer than the time between buckets: later ones queue. */
    ck_assert(a.buckets[3].queue_s > a.buckets[1].queue_s && a.buckets[1].queue_s > 0);
    for (size_t b = 0; b < a.n_buckets; b++)
        ck_assert_double_eq_tol(a.buckets[b].queued, b > 0, 1e-9);
    ck_assert_double_eq_tol(a.first_ready, 0.25, 1e-6);
    lk_analysis_fini(&a);
    lk_run_fini(&run);
}
END_TEST

/*
 * Kernels tell when a rank joined a collective, also if their records do not say which bucket's
 * they are, or lie on a clock that is off by a little. Without kernels nothing is known of
 * launches.
 */
START_TEST(launches_come_back)
{
    static const struct {
        double launch_s;
        int32_t shift_ns;
        bool unnamed;
    } cases[] = {{2e-4, 0, false},
                 {2e-4, 0, true},
                 {2e-4, 3000, false},
                 {2e-4, -3000, false},
                 {0, 0, false}};
    const double launch_s = cases[_i].launch_s, off = 1e-9 * cases[_i].shift_ns;
    const struct step_model m =
        step_model_default((struct step_model){.launch_s = {launch_s, launch_s}});
    struct lk_analysis a = {0};
    struct lk_run run = {0};
    struct lk_trace *traces = NULL;
    struct lk_table *t = NULL;

    ck_assert_int_eq(step_model_run(&m, &traces, NULL), LK_OK);
    for (size_t k = 0; k < 2; k++)
        for (size_t i = 0; i < traces[k].n_spans; i++) {
            struct lk_span *s = &traces[k].spans[i].span;

            if (s->kind != LK_SPAN_KERNEL)
                continue;
            s->index = cases[_i].unnamed ? -1 : s->index;
            s->start_ns += (uint64_t)cases[_i].shift_ns;
            s->end_ns += (uint64_t)cases[_i].shift_ns;
        }
    ck_assert_int_eq(lk_run_take("model", traces, 2, &run), LK_OK);
    ck_assert_int_eq(lk_analyze(&run, NULL, 0, &a), LK_OK);
    ck_assert(a.launches == (launch_s > 0));
    for (size_t b = 0; b < a.n_buckets; b++) {
        ck_assert(isnan(a.buckets[b].launch_s) == (launch_s == 0));
        if (launch_s > 0)
            ck_assert_double_eq_tol(a.buckets[b].launch_s, launch_s + off, 2e-9);
        ck_assert_double_eq_tol(a.buckets[b].wait_s, 0, 2e-9);
    }
    ck_assert_uint_eq(a.ranks[1].launch.n, launch_s > 0 ? a.n_collectives : 0);
    ck_assert_double_eq_tol(a.ranks[1].launch.called_s,
                            0.75 * launch_s * (double)a.ranks[1].launch.n, 1e-6);
    ck_assert_int_eq(lk_analysis_table(&a, LK_ANALYSIS_WATERFALL, &t), LK_OK);
    ck_assert_str_eq(lk_table_cell(t, 5, "loss")->text, launch_s > 0 ? "launch" : "straggler");
    lk_table_destroy(t);
    lk_analysis_fini(&a);
    lk_run_fini(&run);
}
END_TEST

/* Skew below the clocks' uncertainty is attributed to no rank; unknown
 * clocks leave the durations. */
START_TEST(uncertain_clocks)
{
    struct step_model m =
        step_model_default((struct step_model){.slow = {0, 0.01}, .clock_uncertainty_ns = 1000000});
    struct lk_run run = {0};
    struct lk_analysis a = {0};

    make_run(&m, &run, NULL);
    ck_assert_int_eq(lk_analyze(&run, NULL, 0, &a), LK_OK);
    ck_assert_uint_eq(a.ranks[0].n_late + a.ranks[1].n_late, 0);
    ck_assert_uint_eq(a.buckets[0].n_unresolved, a.buckets[0].n);
    ck_assert_int_eq(a.buckets[0].late_rank, -1);
    ck_assert(has_finding(&a, "clocks: at 100 %"));
    lk_analysis_fini(&a);
    lk_run_fini(&run);

    m.clock_uncertainty_ns = LK_CLOCK_UNKNOWN_NS;
    m.clock_offset_ns[1] = 5000000000; /* wrong by 5 s, but undetected */
    make_run(&m, &run, NULL);
    run.ranks[1].uncertainty_ns = LK_CLOCK_UNKNOWN_NS;
    ck_assert_int_eq(lk_analyze(&run, NULL, 0, &a), LK_OK);
    ck_assert(!a.aligned);
    ck_assert_double_eq_tol(a.buckets[0].wire_s, 2 * (20e-6 + (1 << 20) / 2.0 / 2e9), 2e-9);
    ck_assert_int_eq(a.buckets[0].late_rank, 1);
    ck_assert(has_finding(&a, "clocks: some rank's clock was never compared"));
    lk_analysis_fini(&a);
    lk_run_fini(&run);
}
END_TEST

/* All-reduces that take 50 us and a fifth of their time longer than alone are found to, and small
 * ones to be slowed more times; on a cluster whose costs are not known nothing is said. */
START_TEST(training_is_compared_with_alone)
{
    const struct step_model m = step_model_default(
        (struct step_model){.last_share = 0.1, .latency_s = 1e-4, .bandwidth_Bps = 4e8});
    struct lk_run run = {0};
    struct lk_analysis a = {0};
    double *alone_s = NULL;
    const char *said;

    make_run(&m, &run, NULL);
    ck_assert_int_eq(lk_analyze(&run, NULL, 0, &a), LK_OK);
    ck_assert_uint_gt(a.n_buckets, 1);
    ck_assert_int_eq(lk_alloc(&alone_s, a.n_buckets, sizeof *alone_s), LK_OK);
    for (size_t i = 0; i < a.n_buckets; i++)
        alone_s[i] = NAN;
    ck_assert_int_eq(lk_analysis_set_alone(&a, "hand", alone_s), LK_OK);
    ck_assert(!has_finding(&a, "collectives in this job"));
    for (size_t i = 0; i < a.n_buckets; i++)
        alone_s[i] = (a.buckets[i].wire_s - 50e-6) / 1.2;
    ck_assert_int_eq(lk_analysis_set_alone(&a, "hand", alone_s), LK_OK);
    ck_assert(has_finding(
        &a, "collectives in this job take 1.2 times as long as outside of training on hand: "));
    ck_assert_ptr_nonnull(strstr(a.findings[a.n_findings - 1].text,
                                 "each starts 50.0 us late, and takes +20 % beside"));
    for (size_t i = 1; i < a.n_buckets; i++)
        alone_s[i] = NAN;
    ck_assert_int_eq(lk_analysis_set_alone(&a, "hand", alone_s), LK_OK);
    said = strstr(a.findings[a.n_findings - 1].text, "training on hand, at "); /* one size, once */
    ck_assert_msg(said && !strchr(said, ':'), "%s", a.findings[a.n_findings - 1].text);
    free(alone_s);
    lk_analysis_fini(&a);
    lk_run_fini(&run);
}
END_TEST

/* Without a reference the micro-batches without communication serve as one. */
START_TEST(modelled_reference)
{
    const struct step_model m = step_model_default((struct step_model){.accumulation = 3,
                                                                       .no_sync = true,
                                                                       .slow = {0, 0.2},
                                                                       .gamma_wire = 0.4,
                                                                       .bandwidth_Bps = 4e8});
    struct step_truth truth;
    struct lk_run run = {0};
    struct lk_analysis a = {0};

    make_run(&m, &run, &truth);
    ck_assert_int_eq(lk_analyze(&run, NULL, 0, &a), LK_OK);
    ck_assert(a.modelled);
    ck_assert_str_eq(a.reference, "modelled from this run");
    ck_assert_double_eq_tol(a.losses_s[LK_LOSS_OVERLAP], truth.losses_s[LK_LOSS_OVERLAP],
                            share_exact * truth.step_s);
    ck_assert_double_eq_tol(a.losses_s[LK_LOSS_SLOW_RANK], truth.losses_s[LK_LOSS_SLOW_RANK],
                            share_exact * truth.step_s);
    /* All input wait is a loss then: the ideal has none. */
    ck_assert_double_eq_tol(a.losses_s[LK_LOSS_INPUT], m.input_s, 1e-8);
    lk_analysis_fini(&a);
    lk_run_fini(&run);
}
END_TEST

/* A gap larger than the reference's belongs to no row, and is reported. */
START_TEST(rest_is_a_finding)
{
    const struct step_model m = step_model_default((struct step_model){.gap_s = 2.3e-3});
    struct step_model one = alone(&m);
    struct lk_run run = {0}, ref = {0};
    const struct lk_run *refs[] = {&ref};
    struct lk_analysis a = {0};

    one.gap_s = 0.3e-3;
    make_run(&m, &run, NULL);
    make_run(&one, &ref, NULL);
    ck_assert_int_eq(lk_analyze(&run, refs, 1, &a), LK_OK);
    ck_assert_double_eq_tol(a.losses_s[LK_LOSS_REST], 2e-3, 1e-8);
    ck_assert(has_finding(&a, "host gaps: nothing runs in "));
    lk_analysis_fini(&a);
    lk_run_fini(&ref);
    lk_run_fini(&run);
}
END_TEST

START_TEST(wrong_references)
{
    struct step_model m = step_model_default((struct step_model){0});
    struct step_model one = alone(&m);
    struct lk_run run = {0}, ref = {0};
    const struct lk_run *refs[] = {&ref};
    struct lk_analysis a = {0};

    one.local_batch = 8;
    make_run(&m, &run, NULL);
    make_run(&one, &ref, NULL);
    ck_assert_int_eq(lk_analyze(&run, refs, 1, &a), LK_EUSAGE);
    lk_run_fini(&run);
    m.warmup = m.steps;
    make_run(&m, &run, NULL);
    ck_assert_int_eq(lk_analyze(&run, NULL, 0, &a), LK_EEVIDENCE);
    lk_run_fini(&ref);
    lk_run_fini(&run);
}
END_TEST

/* Every table can be made, and its rows are there. */
START_TEST(tables)
{
    const struct step_model m = step_model_default((struct step_model){.slow = {0, 0.2}});
    struct lk_run run = {0};
    struct lk_analysis a = {0};
    struct lk_table *t = NULL;

    make_run(&m, &run, NULL);
    ck_assert_int_eq(lk_analyze(&run, NULL, 0, &a), LK_OK);
    ck_assert_int_eq(lk_analysis_table(&a, LK_ANALYSIS_WATERFALL, &t), LK_OK);
    ck_assert_uint_eq(t->n_rows,
                      LK_LOSS_COUNT - 1 /* no launches, a row of forecasts alone; the step's */);
    ck_assert_double_eq(lk_table_cell(t, LK_LOSS_STRAGGLER - 1, "mean_s")->number,
                        a.losses_s[LK_LOSS_STRAGGLER]);
    lk_table_destroy(t);
    ck_assert_int_eq(lk_analysis_table(&a, LK_ANALYSIS_RANKS, &t), LK_OK);
    ck_assert_uint_eq(t->n_rows, 2);
    lk_table_destroy(t);
    ck_assert_int_eq(lk_analysis_table(&a, LK_ANALYSIS_OVERLAP, &t), LK_OK);
    ck_assert_uint_eq(t->n_rows, 2);
    lk_table_destroy(t);
    ck_assert_int_eq(lk_analysis_table(&a, LK_ANALYSIS_BUCKETS, &t), LK_OK);
    ck_assert_uint_eq(t->n_rows, 4);
    ck_assert_double_eq(lk_table_cell(t, 0, "late_rank")->number, 1);
    lk_table_destroy(t);
    ck_assert_int_eq(lk_analysis_table(&a, LK_ANALYSIS_STRAGGLERS, &t), LK_OK);
    ck_assert_uint_eq(t->n_rows, 2);
    lk_table_destroy(t);
    ck_assert_int_eq(lk_analysis_table(&a, LK_ANALYSIS_FINDINGS, &t), LK_OK);
    ck_assert_uint_eq(t->n_rows, a.n_findings);
    lk_table_destroy(t);
    ck_assert_int_eq(lk_analysis_step_table(&a, 7, &t), LK_OK);
    ck_assert_uint_eq(t->n_rows, 8);
    lk_table_destroy(t);
    ck_assert_int_eq(lk_analysis_step_table(&a, 2, &t), LK_EUSAGE); /* warm-up */
    lk_analysis_fini(&a);
    lk_run_fini(&run);
}
END_TEST

/* What a bucket's size or no_sync mends is advice for gradients that are reduced so: parameters
 * that are averaged are in no buckets, and PowerSGD takes three collectives each time. */
START_TEST(advice_is_for_how_gradients_are_reduced)
{
    static const struct {
        enum lk_finding_id id;
        bool found;
        enum lk_sharding sharding;
        enum lk_compression compression;
        struct step_model change;
    } cases[] = {
        {LK_FINDING_FIRST_BUCKET,
         true,
         LK_SHARDING_DDP,
         LK_COMPRESSION_NONE,
         {.buckets = 1, .bucket_bytes = 4 << 20}},
        {LK_FINDING_FIRST_BUCKET,
         false,
         LK_SHARDING_LOCAL_SGD,
         LK_COMPRESSION_NONE,
         {.buckets = 1, .bucket_bytes = 4 << 20}},
        {LK_FINDING_ACCUMULATION,
         true,
         LK_SHARDING_DDP,
         LK_COMPRESSION_NONE,
         {.accumulation = 3, .bandwidth_Bps = 5e8}},
        {LK_FINDING_ACCUMULATION,
         false,
         LK_SHARDING_DDP,
         LK_COMPRESSION_POWERSGD,
         {.accumulation = 3, .bandwidth_Bps = 5e8}},
    };
    const struct step_model m = step_model_default(cases[_i].change);
    struct lk_trace *traces = NULL;
    struct lk_run run = {0};
    struct lk_analysis a = {0};
    const struct lk_finding *found = NULL;

    ck_assert_int_eq(step_model_run(&m, &traces, NULL), LK_OK);
    for (int k = 0; k < m.ranks; k++) {
        traces[k].info.sharding = cases[_i].sharding;
        traces[k].info.compression = cases[_i].compression;
    }
    ck_assert_int_eq(lk_run_take("model", traces, (size_t)m.ranks, &run), LK_OK);
    ck_assert_int_eq(lk_analyze(&run, NULL, 0, &a), LK_OK);
    for (size_t i = 0; i < a.n_findings; i++)
        found = a.findings[i].id == cases[_i].id ? &a.findings[i] : found;
    ck_assert_msg((found != NULL) == cases[_i].found, "%s", found ? found->text : "nothing");
    lk_analysis_fini(&a);
    lk_run_fini(&run);
}
END_TEST

SUITE(analysis, t)
{
    tcase_add_loop_test(t, rows_come_back, 0, (int)LK_COUNT(scenarios));
    tcase_add_loop_test(t, advice_is_the_devices, 0, 2);
    tcase_add_test(t, rows_of_a_rank);
    tcase_add_test(t, buckets_come_back);
    tcase_add_loop_test(t, launches_come_back, 0, 5);
    tcase_add_test(t, uncertain_clocks);
    tcase_add_test(t, training_is_compared_with_alone);
    tcase_add_test(t, modelled_reference);
    tcase_add_test(t, rest_is_a_finding);
    tcase_add_test(t, wrong_references);
    tcase_add_test(t, tables);
    tcase_add_loop_test(t, advice_is_for_how_gradients_are_reduced, 0, 4);
}
