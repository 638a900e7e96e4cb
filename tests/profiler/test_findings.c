/* Findings of runs whose truth is known: causes, order, and what each detector tells or does not.
 */
#include "profiler/analysis/analysis.h"

#include "base/array.h"
#include "facts/run_facts.h"
#include "tests/rigs/findings.h"
#include "tests/rigs/must.h"
#include "tests/rigs/step_model.h"
#include "tests/rigs/suite.h"
#include "tests/rigs/trace_add.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Analyse n traces, which the run then owns. */
static void analyze_traces(struct lk_trace *traces, int n, struct lk_run *run,
                           struct lk_analysis *a)
{
    for (int k = 0; k < n; k++)
        trace_add_done(&traces[k]);
    must(lk_run_take("model", traces, (size_t)n, run));
    must(lk_analyze(run, NULL, 0, a));
    assert_adds_up(a);
}

static void analyze_model(const struct step_model *m, struct lk_run *run, struct lk_analysis *a)
{
    struct lk_trace *traces = NULL;

    must(step_model_run(m, &traces, NULL));
    analyze_traces(traces, m->ranks, run, a);
}

static const struct lk_finding *find(const struct lk_analysis *a, enum lk_finding_id id)
{
    for (size_t i = 0; i < a->n_findings; i++)
        if (a->findings[i].id == id)
            return &a->findings[i];
    return NULL;
}

/* Fail unless there is a finding with this text, or none for NULL. */
static void assert_says(const struct lk_analysis *a, enum lk_finding_id id, const char *text)
{
    const struct lk_finding *f = find(a, id);

    if (!text)
        ck_assert_msg(!f, "%s", f ? f->text : "");
    else
        ck_assert_msg(f && strstr(f->text, text), "'%s' instead of '%s'", f ? f->text : "nothing",
                      text);
}

static void fini(struct lk_analysis *a, struct lk_run *run)
{
    lk_analysis_fini(a);
    lk_run_fini(run);
}

/* ---- Causes ---- */

/* A cause stands once, before its consequences, which are as deep as they have causes; the table
 * indents them, and has no next step for them. */
START_TEST(causes_stand_over_consequences)
{
    static const struct {
        enum lk_finding_id effect, cause;
        int rank; /* of the effect */
        struct step_model change;
    } cases[] = {
        {LK_FINDING_LATE_RANK, LK_FINDING_SLOW_RANK, 1, {.slow = {0, 0.2}}},
        {LK_FINDING_LATE_RANK, LK_FINDING_RANK_INPUT, 1, {.extra_input_s = {0, 4e-3}}},
        {LK_FINDING_LATE_RANK, LK_FINDING_RANK_LAUNCH, 1, {.launch_s = {5e-5, 2e-3}}},
        {LK_FINDING_INPUT, LK_FINDING_RANK_INPUT, -1, {.extra_input_s = {0, 4e-3}}},
        {LK_FINDING_WIRE, LK_FINDING_FIRST_BUCKET, -1, {.buckets = 1, .bucket_bytes = 4 << 20}},
        {LK_FINDING_POOR_OVERLAP, LK_FINDING_WIRE, -1, {.buckets = 1, .bucket_bytes = 4 << 20}},
        {LK_FINDING_WIRE, LK_FINDING_COUNT, -1, {.bandwidth_Bps = 2e8}},
        {LK_FINDING_INPUT, LK_FINDING_COUNT, -1, {.extra_input_s = {3e-3, 3e-3}}},
    };
    const struct step_model m = step_model_default(cases[_i].change);
    const struct lk_finding *effect = NULL;
    struct lk_run run = {0};
    struct lk_analysis a = {0};
    struct lk_table *t = NULL;
    double last = INFINITY;

    analyze_model(&m, &run, &a);
    ck_assert_int_eq(lk_analysis_table(&a, LK_ANALYSIS_FINDINGS, &t), LK_OK);
    for (size_t i = 0; i < a.n_findings; i++) {
        const struct lk_finding *f = &a.findings[i];

        if (f->id == cases[_i].effect)
            effect = f;
        ck_assert_int_lt(f->cause, (int)i);
        ck_assert_int_eq(f->depth, f->cause < 0 ? 0 : a.findings[f->cause].depth + 1);
        ck_assert_int_eq(lk_table_cell(t, i, "finding")->indent, f->depth);
        ck_assert_str_eq(lk_table_cell(t, i, "id")->text, lk_finding_id_name(f->id));
        ck_assert(f->cause < 0 || !f->next);
        if (f->cause >= 0)
            ck_assert_double_eq(lk_table_cell(t, i, "cause")->number, f->cause + 1);
        else
            ck_assert_int_eq(lk_table_cell(t, i, "cause")->type, LK_CELL_EMPTY);
        if (f->cause < 0 && !isnan(f->cost_s)) {
            ck_assert_double_le(f->cost_s, last);
            last = f->cost_s;
        }
    }
    ck_assert_ptr_nonnull(effect);
    ck_assert_int_eq(effect->rank, cases[_i].rank);
    ck_assert_uint_eq(effect->cause < 0 ? LK_FINDING_COUNT : a.findings[effect->cause].id,
                      cases[_i].cause);
    lk_table_destroy(t);
    lk_analysis_fini(&a);
    lk_run_fini(&run);
}
END_TEST

/* A rank with more samples than the others computes longer for that: the finding says it, and what
 * to change; of a slow rank with fewer it does not. */
START_TEST(a_larger_batch_is_named)
{
    static const char *const batches[] = {"8+12", "12+8"};
    const struct step_model m = step_model_default((struct step_model){.slow = {0, 0.5}});
    struct lk_trace *traces = NULL;
    struct lk_run run = {0};
    struct lk_analysis a = {0};
    const struct lk_finding *f;

    must(step_model_run(&m, &traces, NULL));
    for (int k = 0; k < m.ranks; k++) {
        traces[k].info.local_batch = 12;
        strcpy(traces[k].info.local_batches, batches[_i]);
    }
    analyze_traces(traces, m.ranks, &run, &a);
    f = find(&a, LK_FINDING_SLOW_RANK);
    ck_assert_ptr_nonnull(f);
    ck_assert_int_eq(f->rank, 1);
    ck_assert_int_eq(strstr(f->text, "12 samples a micro-batch, where 8 are common") != NULL,
                     _i == 0);
    ck_assert_int_eq(strstr(f->next, "--rank-batches=balanced") != NULL, _i == 0);
    fini(&a, &run);
}
END_TEST

/* ---- Who is to blame ---- */

static struct step_model planted(enum lk_finding_id fault, int rank, double lost_s)
{
    struct step_model m = step_model_default((struct step_model){.ranks = 4});

    if (fault == LK_FINDING_SLOW_RANK)
        m.slow[rank] = lost_s / (m.forward_s + m.backward_s);
    if (fault == LK_FINDING_RANK_INPUT)
        m.extra_input_s[rank] = lost_s;
    if (fault == LK_FINDING_UNEVEN_ENDS)
        m.end_late_s[rank] = lost_s;
    return m;
}

/* Each fault, on each rank, of a few sizes: it is named, with its rank, and nobody else is. Behind
 * a slow link, whose end comes late on a rank, no rank is. */
START_TEST(a_planted_fault_names_its_rank_and_nobody_else)
{
    static const enum lk_finding_id faults[] = {LK_FINDING_SLOW_RANK, LK_FINDING_RANK_INPUT,
                                                LK_FINDING_UNEVEN_ENDS};
    static const double lost_s[] = {1.5e-3, 3e-3, 8e-3};
    const enum lk_finding_id fault = faults[_i % 3];
    const int rank = _i / 3 % 4;
    const struct step_model m = planted(fault, rank, lost_s[_i / 12]);
    struct lk_run run = {0};
    struct lk_analysis a = {0};

    analyze_model(&m, &run, &a);
    ck_assert_ptr_nonnull(find(&a, fault));
    for (size_t i = 0; i < a.n_findings; i++) {
        const struct lk_finding *f = &a.findings[i];

        ck_assert_msg(f->rank < 0 || (fault != LK_FINDING_UNEVEN_ENDS && f->rank == rank),
                      "rank %d has fault %d, and is told: %s", rank, (int)fault, f->text);
    }
    ck_assert_double_le(a.late.own_s, a.late.lag_s);
    for (size_t i = 0; i < a.n_collectives; i++)
        ck_assert_uint_le(a.collectives[i].own_ns, a.collectives[i].late_by_ns);
    fini(&a, &run);
}
END_TEST

/* A rank is named with its host where ranks are on several, and tables have it. */
START_TEST(hosts_are_named)
{
    const struct step_model m = planted(LK_FINDING_SLOW_RANK, 2, 3e-3);
    struct lk_trace *traces = NULL;
    struct lk_run run = {0};
    struct lk_analysis a = {0};
    struct lk_table *t = NULL;

    must(step_model_run(&m, &traces, NULL));
    for (int k = 0; k < m.ranks; k++) {
        free(traces[k].info.host);
        must(lk_asprintf(&traces[k].info.host, "node%d", _i ? 0 : k));
    }
    analyze_traces(traces, m.ranks, &run, &a);
    assert_says(&a, LK_FINDING_SLOW_RANK,
                _i ? "slow rank: rank 2 computes" : "slow rank: rank 2 (node2) computes");
    ck_assert_pstr_eq(find(&a, LK_FINDING_SLOW_RANK)->host, _i ? NULL : "node2");
    must(lk_analysis_table(&a, LK_ANALYSIS_STRAGGLERS, &t));
    ck_assert_str_eq(lk_table_cell(t, 2, "host")->text, _i ? "node0" : "node2");
    lk_table_destroy(t);
    must(lk_analysis_table(&a, LK_ANALYSIS_HOSTS, &t));
    ck_assert((t == NULL) == (_i == 1)); /* on one host there is nothing to compare */
    for (size_t k = 0; t && k < 4; k++) {
        ck_assert_double_eq(lk_table_cell(t, k, "ranks")->number, 1);
        ck_assert_double_eq_tol(lk_table_cell(t, k, "compute_s")->number, k == 2 ? 18e-3 : 15e-3,
                                1e-8);
        ck_assert((lk_table_cell(t, k, "late_n")->number > 0) == (k == 2));
    }
    lk_table_destroy(t);
    fini(&a, &run);
}
END_TEST

/* Equal ranks whose steps vary are named in fewer than 5 of 100 runs, for each number of ranks. */
START_TEST(equal_ranks_are_not_accused)
{
    int named = 0;

    for (int i = 0; i < 100; i++) {
        struct step_model m = step_model_default(
            (struct step_model){.ranks = 2 << _i, .transient = 0.25, .seed = (uint64_t)i + 1});
        struct lk_run run = {0};
        struct lk_analysis a = {0};
        bool one = false;

        m.steps = m.warmup + 8 + (uint32_t)i % 17;
        analyze_model(&m, &run, &a);
        for (size_t k = 0; k < a.n_findings; k++)
            one = one || a.findings[k].rank >= 0;
        named += one;
        fini(&a, &run);
    }
    ck_assert_msg(named < 5, "named in %d of 100 runs", named);
}
END_TEST

/* ---- What makes a run worthless ---- */

/* Ranks 0 and 2 have the same losses in all steps, in all but one, no loss in one, always the same
 * one; or nobody has. */
START_TEST(duplicated_shards)
{
    static const struct {
        double first, slope, other, missing; /* of rank 2: in step 10 another, none */
        const char *text;
    } cases[] = {
        {5, 0.1, 0, 0, "duplicated shards: ranks 0, 2 have the same loss in each of 25 steps"},
        {5, 0.1, 1e-9, 0, NULL},
        {5, 0.1, 0, 1, NULL},
        {5, 0, 0, 0, NULL},
    };
    const struct step_model m = step_model_default((struct step_model){.ranks = 3});
    struct lk_trace *traces = NULL;
    struct lk_run run = {0};
    struct lk_analysis a = {0};

    must(step_model_run(&m, &traces, NULL));
    for (int k = 0; k < m.ranks; k++)
        for (uint32_t step = 0; step < m.steps; step++) {
            struct lk_span s = *trace_find(&traces[k], LK_SPAN_STEP, step);

            s.kind = LK_SPAN_COUNTER;
            s.name = trace_add_name(&traces[k], "loss");
            s.start_ns = s.end_ns;
            s.value = cases[_i].first - cases[_i].slope * step + (k == 1 ? 0.01 * step : 0) +
                      (k == 2 && step == 10 ? cases[_i].other : 0);
            if (!(cases[_i].missing > 0 && k == 2 && step == 10))
                trace_add_span(&traces[k], 0, s);
        }
    analyze_traces(traces, m.ranks, &run, &a);
    assert_says(&a, LK_FINDING_DUPLICATE_SHARDS, cases[_i].text);
    if (cases[_i].text)
        ck_assert_uint_eq(a.findings[0].id, LK_FINDING_DUPLICATE_SHARDS); /* the first of all */
    fini(&a, &run);
}
END_TEST

/* Ranks with one UUID share a GPU, which causes co-location; ranks with one number in one file do,
 * but not in two files. */
START_TEST(shared_gpus)
{
    static const struct {
        const char *key, *values[2], *files[2], *text;
    } cases[] = {
        {LK_GPU_CONFIG_UUID, {"GPU-1", "GPU-1"}, {NULL, NULL}, "shared GPU: ranks 0-1 use"},
        {LK_GPU_CONFIG_UUID, {"GPU-1", "GPU-2"}, {NULL, NULL}, NULL},
        {LK_IMPORT_GPU_CONFIG_KEY, {"0", "0"}, {"a", "a"}, "shared GPU: ranks 0-1 use"},
        {LK_IMPORT_GPU_CONFIG_KEY, {"0", "0"}, {"a", "b"}, NULL},
    };
    const struct step_model m = step_model_default((struct step_model){.kappa = 0.3});
    struct lk_trace *traces = NULL;
    struct lk_run run = {0};
    struct lk_analysis a = {0};

    must(step_model_run(&m, &traces, NULL));
    for (int k = 0; k < 2; k++) {
        must(lk_run_info_config(&traces[k].info, cases[_i].key, cases[_i].values[k]));
        if (cases[_i].files[k])
            must(lk_run_info_config(&traces[k].info, LK_IMPORT_CONFIG_KEY, cases[_i].files[k]));
    }
    analyze_traces(traces, 2, &run, &a);
    assert_says(&a, LK_FINDING_SHARED_GPU, cases[_i].text);
    fini(&a, &run);
}
END_TEST

/* ---- Stragglers ---- */

/* Set the hosts of ranks: "a" for the first half, "b" for the second. */
static void set_hosts(struct lk_trace *traces, int n, const char *first, const char *second)
{
    for (int k = 0; k < n; k++) {
        free(traces[k].info.host);
        must(lk_strdup(&traces[k].info.host, k < n / 2 ? first : second));
    }
}

/* Both ranks of a host are slow; one is; the hosts are one, or not known; the clocks cannot tell.
 */
START_TEST(late_nodes)
{
    static const struct {
        const char *hosts[2], *text;
        struct step_model change;
    } cases[] = {
        {{"a", "b"}, "the 2 ranks of host b, which wait at most 0 s", {.slow = {0, 0, 0.2, 0.2}}},
        {{"a", "b"}, NULL, {.slow = {0, 0, 0, 0.2}}},
        {{"a", "a"}, NULL, {.slow = {0, 0, 0.2, 0.2}}},
        {{LK_HOST_UNKNOWN, "b"}, NULL, {.slow = {0, 0, 0.2, 0.2}}},
        {{"a", "b"}, NULL, {.slow = {0, 0, 0.2, 0.2}, .clock_uncertainty_ns = 10000000}},
    };
    struct step_model m = cases[_i].change;
    struct lk_trace *traces = NULL;
    struct lk_run run = {0};
    struct lk_analysis a = {0};

    m.ranks = 4;
    m = step_model_default(m);
    must(step_model_run(&m, &traces, NULL));
    set_hosts(traces, m.ranks, cases[_i].hosts[0], cases[_i].hosts[1]);
    analyze_traces(traces, m.ranks, &run, &a);
    assert_says(&a, LK_FINDING_LATE_NODE, cases[_i].text);
    if (cases[_i].text) { /* the slow ranks of the host are its consequences */
        ck_assert_uint_eq(a.findings[0].id, LK_FINDING_LATE_NODE);
        for (size_t i = 1; i < a.n_findings; i++)
            if (a.findings[i].id == LK_FINDING_SLOW_RANK)
                ck_assert_int_eq(a.findings[i].cause, 0);
    }
    fini(&a, &run);
}
END_TEST

/* A rank that is slower in all steps is accused from so many steps on that two equal ranks do so in
 * less than one run of a hundred: 2 / 2^7 is above that, 2 / 2^8 below. */
START_TEST(few_steps_accuse_nobody)
{
    const bool few = _i == 0;
    struct step_model m =
        step_model_default((struct step_model){.ranks = 2, .warmup = 1, .slow = {0, 0.2}});
    struct lk_trace *traces = NULL;
    struct lk_run run = {0};
    struct lk_analysis a = {0};
    const struct lk_finding *f;

    m.steps = m.warmup + (few ? 7 : 8);
    must(step_model_run(&m, &traces, NULL));
    analyze_traces(traces, m.ranks, &run, &a);
    f = find(&a, LK_FINDING_SLOW_RANK);
    ck_assert_ptr_nonnull(f);
    ck_assert_int_eq(f->rank, few ? -1 : 1);
    ck_assert_int_eq(strstr(f->text, "may be chance") != NULL, few);
    for (size_t i = 0; i < a.n_findings && few; i++)
        ck_assert(a.findings[i].cause < 0 || &a.findings[a.findings[i].cause] != f);
    fini(&a, &run);
}
END_TEST

/* A rank that is the last of eight in many steps is transient; one that is in all is persistent.
 * Two steps tell neither: one of eight equal ranks is the last in both in one run of eight, and
 * nobody is accused. */
START_TEST(transient_or_persistent)
{
    static const struct {
        const char *text;
        struct step_model change;
    } cases[] = {
        {"(transient: in ", {.steps = 205, .slow = {0, 0.07}, .transient = 0.07}},
        {"(persistent: in 200 of 200 steps)", {.steps = 205, .slow = {0, 0.2}, .transient = 0.01}},
        {"(in 2 of 2 steps, which may be chance)",
         {.steps = 7, .slow = {0, 0.2}, .transient = 0.01}},
    };
    struct step_model m = cases[_i].change;
    struct lk_run run = {0};
    struct lk_analysis a = {0};

    m.ranks = 8;
    m = step_model_default(m);
    analyze_model(&m, &run, &a);
    assert_says(&a, LK_FINDING_LATE_RANK, cases[_i].text);
    ck_assert_int_eq(find(&a, LK_FINDING_LATE_RANK)->rank, _i == 2 ? -1 : 1);
    fini(&a, &run);
}
END_TEST

/* Compute that varies on all ranks in turns, which makes them wait; that hardly varies; that one
 * rank does slowly; on CPUs. */
START_TEST(uneven_batches)
{
    static const struct {
        const char *device, *text;
        struct step_model change;
    } cases[] = {
        {"GPU", "uneven batches: a rank computes ", {.transient = 0.25}},
        {"GPU", NULL, {.transient = 0.05}},
        {"GPU", NULL, {.slow = {0, 0.8, 0, 0}, .transient = 0.05}},
        {"cpu", NULL, {.transient = 0.25}},
        {"timed", NULL, {.transient = 0.25}},
    };
    struct step_model m = cases[_i].change;
    struct lk_trace *traces = NULL;
    struct lk_run run = {0};
    struct lk_analysis a = {0};

    m.ranks = 4;
    m.steps = 105;
    m = step_model_default(m);
    must(step_model_run(&m, &traces, NULL));
    for (int k = 0; k < m.ranks; k++) {
        free(traces[k].info.device);
        must(lk_strdup(&traces[k].info.device, cases[_i].device));
    }
    analyze_traces(traces, m.ranks, &run, &a);
    assert_says(&a, LK_FINDING_UNEVEN_BATCHES, cases[_i].text);
    if (cases[_i].text) {
        assert_says(&a, LK_FINDING_UNEVEN_BATCHES, "GPU clocks: not known");
        ck_assert_uint_eq(a.findings[find(&a, LK_FINDING_STRAGGLERS)->cause].id,
                          LK_FINDING_UNEVEN_BATCHES);
    }
    fini(&a, &run);
}
END_TEST

/* ---- Buckets ---- */

/* Buckets of two sizes whose time is mostly latency, or mostly bytes; of one size; few. */
START_TEST(small_buckets)
{
    static const struct {
        const char *text;
        struct step_model change;
    } cases[] = {
        {"small buckets: each of 12 takes 1.00 ms on the wire",
         {.buckets = 12, .bucket_bytes = 1 << 16, .latency_s = 5e-4, .last_share = 0.25}},
        {NULL, {.buckets = 12, .bandwidth_Bps = 1e9, .latency_s = 1e-5, .last_share = 0.25}},
        {NULL, {.buckets = 12, .bucket_bytes = 1 << 16, .latency_s = 5e-4}},
        {NULL, {.buckets = 3, .bucket_bytes = 1 << 16, .latency_s = 5e-3, .last_share = 0.25}},
    };
    const struct step_model m = step_model_default(cases[_i].change);
    struct lk_run run = {0};
    struct lk_analysis a = {0};

    analyze_model(&m, &run, &a);
    assert_says(&a, LK_FINDING_SMALL_BUCKETS, cases[_i].text);
    ck_assert_ptr_nonnull(find(&a, LK_FINDING_WIRE)); /* in all cases there is time to gain */
    if (cases[_i].text)
        ck_assert_uint_eq(a.findings[find(&a, LK_FINDING_WIRE)->cause].id,
                          LK_FINDING_SMALL_BUCKETS);
    fini(&a, &run);
}
END_TEST

/* A map of as many parameters as there are gradients; of more, so that some are unused; of another
 * size behind no bucket; in some steps only. */
START_TEST(unused_parameters)
{
    static const struct {
        uint64_t bytes;
        bool first; /* before the buckets */
        uint32_t every;
        const char *text;
    } cases[] = {
        {4 * STEP_MODEL_TENSORS, false, 1, "a map of 12 parameters is reduced"},
        {4 * STEP_MODEL_TENSORS + 4, false, 1, NULL},
        {4 * STEP_MODEL_TENSORS, true, 1, NULL},
        {4 * STEP_MODEL_TENSORS, false, 2, NULL},
    };
    const struct step_model m = step_model_default((struct step_model){0});
    struct lk_trace *traces = NULL;
    struct lk_run run = {0};
    struct lk_analysis a = {0};

    must(step_model_run(&m, &traces, NULL));
    for (int k = 0; k < m.ranks; k++) {
        size_t n = traces[k].n_spans;
        uint16_t name = trace_add_name(&traces[k], "all_reduce");

        for (size_t i = 0; i < n; i++) {
            struct lk_span s = traces[k].spans[i].span;

            if (s.kind != LK_SPAN_COLLECTIVE)
                continue;
            traces[k].spans[i].span.seq = s.seq = 2 * s.seq + 1;
            if (s.step % cases[_i].every || s.index != (cases[_i].first ? 0 : m.buckets - 1))
                continue;
            s.seq += cases[_i].first ? -1U : 1;
            s.index = -1;
            s.name = name;
            s.bytes = cases[_i].bytes;
            s.ready_ns = s.start_ns = cases[_i].first ? s.start_ns - 2000 : s.end_ns;
            s.end_ns = s.start_ns + 1000;
            trace_add_span(&traces[k], traces[k].spans[i].track, s);
        }
    }
    analyze_traces(traces, m.ranks, &run, &a);
    assert_says(&a, LK_FINDING_UNUSED_PARAMETERS, cases[_i].text);
    fini(&a, &run);
}
END_TEST

/* ---- Copies to the host ---- */

/* All parameters behind the backward, by rank 0 and by both; a tenth of them; to the GPU; within
 * the backward; too short to matter. */
START_TEST(checkpoints)
{
    static const struct {
        uint64_t bytes;
        int ranks;
        const char *name, *text;
        enum lk_span_kind behind; /* the copy starts at its end, or in its middle */
        uint64_t length_ns;
    } cases[] = {
        {4 << 20, 1, "Memcpy DtoH (Device -> Pageable)",
         "rank 0 copies all parameters (4.00 MiB) to the host behind the backward in 2 of 25 "
         "steps, "
         "400 us a step; the others wait",
         LK_SPAN_OPTIMIZER, 5000000},
        {4 << 20, 2, "DtoH", "2 of 2 ranks copy all parameters", LK_SPAN_OPTIMIZER, 5000000},
        {4 << 18, 2, "DtoH", NULL, LK_SPAN_OPTIMIZER, 5000000},
        {4 << 20, 2, "HtoD", NULL, LK_SPAN_OPTIMIZER, 5000000},
        {4 << 20, 2, "DtoH", NULL, LK_SPAN_BACKWARD, 5000000},
        {4 << 20, 2, "DtoH", NULL, LK_SPAN_OPTIMIZER, 1000},
    };
    const struct step_model m = step_model_default((struct step_model){0});
    struct lk_trace *traces = NULL;
    struct lk_run run = {0};
    struct lk_analysis a = {0};

    must(step_model_run(&m, &traces, NULL));
    for (int k = 0; k < cases[_i].ranks; k++) {
        uint32_t track = trace_add_track(&traces[k], "copies", LK_TRACK_COPY, 9);

        for (uint32_t step = 10; step < 30; step += 10) {
            struct lk_span s = *trace_find(&traces[k], cases[_i].behind, step);

            s.start_ns = s.kind == LK_SPAN_BACKWARD ? (s.start_ns + s.end_ns) / 2 : s.end_ns;
            s.kind = LK_SPAN_COPY;
            s.name = trace_add_name(&traces[k], cases[_i].name);
            s.end_ns = s.start_ns + cases[_i].length_ns;
            s.bytes = cases[_i].bytes;
            trace_add_span(&traces[k], track, s);
        }
    }
    analyze_traces(traces, m.ranks, &run, &a);
    assert_says(&a, LK_FINDING_CHECKPOINTS, cases[_i].text);
    fini(&a, &run);
}
END_TEST

SUITE(findings, t)
{
    tcase_add_loop_test(t, a_larger_batch_is_named, 0, 2);
    tcase_add_loop_test(t, checkpoints, 0, 6);
    tcase_add_loop_test(t, small_buckets, 0, 4);
    tcase_add_loop_test(t, unused_parameters, 0, 4);
    tcase_add_loop_test(t, late_nodes, 0, 5);
    tcase_add_loop_test(t, few_steps_accuse_nobody, 0, 2);
    tcase_add_loop_test(t, transient_or_persistent, 0, 3);
    tcase_add_loop_test(t, uneven_batches, 0, 5);
    tcase_add_loop_test(t, duplicated_shards, 0, 4);
    tcase_add_loop_test(t, shared_gpus, 0, 4);
    tcase_add_loop_test(t, a_planted_fault_names_its_rank_and_nobody_else, 0, 36);
    tcase_add_loop_test(t, hosts_are_named, 0, 2);
    tcase_add_loop_test(t, equal_ranks_are_not_accused, 0, 3);
    tcase_add_loop_test(t, causes_stand_over_consequences, 0, 8);
}
