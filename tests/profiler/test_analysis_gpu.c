/* Findings about the ranks' GPUs, from traces whose clocks are known. */
#include "base/array.h"
#include "base/file.h"
#include "profiler/analysis/analysis.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/step_model.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PER_STEP = 3 };

/* NVML's readings on one rank after the warm-up. */
struct gpu {
    double clock_mhz, power_w;
    unsigned reasons; /* in every fourth sample */
};

/* ---- Traces ---- */

static uint16_t add_name(struct lk_trace *t, const char *name)
{
    size_t capacity = t->n_names;

    ck_assert_int_eq(lk_array_grow(&t->names, &capacity, t->n_names + 1, sizeof *t->names), LK_OK);
    ck_assert_int_eq(lk_strdup(&t->names[t->n_names], name), LK_OK);
    return (uint16_t)++t->n_names;
}

static uint32_t add_track(struct lk_trace *t)
{
    size_t capacity = t->n_tracks;

    ck_assert_int_eq(lk_array_grow(&t->tracks, &capacity, t->n_tracks + 1, sizeof *t->tracks),
                     LK_OK);
    t->tracks[t->n_tracks] = (struct lk_trace_track){.kind = LK_TRACK_GPU};
    ck_assert_int_eq(lk_strdup(&t->tracks[t->n_tracks].name, "GPU"), LK_OK);
    return (uint32_t)t->n_tracks++;
}

static int by_start(const void *a, const void *b)
{
    const struct lk_trace_span *x = a, *y = b;

    return (x->span.start_ns > y->span.start_ns) - (x->span.start_ns < y->span.start_ns);
}

static void add_counter(struct lk_trace *t, size_t *capacity, uint32_t track, uint16_t name,
                        const struct lk_span *at, double value)
{
    struct lk_trace_span s = {
        .span = {.kind = LK_SPAN_COUNTER, .name = name, .step = at->step, .index = -1},
        .track = track};

    s.span.value = value;
    s.span.start_ns = s.span.end_ns = at->start_ns;
    ck_assert_int_eq(lk_array_grow(&t->spans, capacity, t->n_spans + 1, sizeof *t->spans), LK_OK);
    t->spans[t->n_spans++] = s;
}

/* Add samples to every step; an idle GPU in the warm-up and after the last step. */
static void add_samples(struct lk_trace *t, const struct gpu *g, uint32_t warmup)
{
    uint16_t clock = add_name(t, lk_gpu_quantity_name(LK_GPU_SM_CLOCK_MHZ));
    uint16_t power = add_name(t, lk_gpu_quantity_name(LK_GPU_POWER_W));
    uint16_t reasons = add_name(t, lk_gpu_quantity_name(LK_GPU_REASONS));
    uint32_t track = add_track(t);
    size_t capacity = t->n_spans, n = t->n_spans;
    struct lk_span last = {0};
    int sample = 0;

    for (size_t i = 0; i < n; i++) {
        struct lk_span at = t->spans[i].span;
        uint64_t apart_ns = (at.end_ns - at.start_ns) / PER_STEP;
        bool counts = at.step >= warmup;

        if (at.kind != LK_SPAN_STEP)
            continue;
        at.start_ns += 1000;
        for (int k = 0; k < PER_STEP; k++, at.start_ns += apart_ns, sample++) {
            add_counter(t, &capacity, track, clock, &at, counts ? g->clock_mhz : 300);
            add_counter(t, &capacity, track, power, &at, counts ? g->power_w : 70);
            add_counter(t, &capacity, track, reasons, &at, sample % 4 == 0 ? g->reasons : 0);
        }
        last = at;
    }
    last.start_ns += LK_NS_PER_S;
    add_counter(t, &capacity, track, clock, &last, 300);
    qsort(t->spans, t->n_spans, sizeof *t->spans, by_start);
    ck_assert_int_eq(lk_run_info_config(&t->info, LK_GPU_CONFIG_MAX_CLOCK, "1980"), LK_OK);
    ck_assert_int_eq(lk_run_info_config(&t->info, LK_GPU_CONFIG_POWER_LIMIT, "700"), LK_OK);
}

/* Write and read the traces, as analyze gets them. */
static void reread(struct lk_trace **traces, int n)
{
    char *dir = scratch_create();
    size_t got;

    step_model_write(*traces, n, dir, -1);
    ck_assert_msg(lk_traces_read(dir, traces, &got) == LK_OK, "%s", lk_error_text());
    ck_assert_int_eq((int)got, n);
    scratch_remove(dir);
}

static void analyze(struct step_model change, const struct gpu *gpus, struct lk_run *run,
                    struct lk_analysis *a)
{
    const struct step_model m = step_model_default(change);
    struct lk_trace *traces = NULL;

    ck_assert_int_eq(step_model_run(&m, &traces, NULL), LK_OK);
    for (int k = 0; k < m.ranks; k++)
        if (gpus[k].clock_mhz > 0)
            add_samples(&traces[k], &gpus[k], m.warmup);
    reread(&traces, m.ranks);
    ck_assert_msg(lk_run_take("model", traces, (size_t)m.ranks, run) == LK_OK, "%s",
                  lk_error_text());
    ck_assert_msg(lk_analyze(run, NULL, 0, a) == LK_OK, "%s", lk_error_text());
}

static const char *finding(const struct lk_analysis *a, const char *start)
{
    for (size_t i = 0; i < a->n_findings; i++)
        if (!strncmp(a->findings[i].text, start, strlen(start)))
            return a->findings[i].text;
    return NULL;
}

/* Return the finding that causes another one, or NULL. */
static const struct lk_finding *cause_of(const struct lk_analysis *a, enum lk_finding_id id)
{
    for (size_t i = 0; i < a->n_findings; i++)
        if (a->findings[i].id == id && a->findings[i].cause >= 0)
            return &a->findings[a->findings[i].cause];
    return NULL;
}

/* ---- Tests ---- */

/* A slow rank whose GPU is throttled is named so, whatever its clock's offset: the throttling
 * causes the clock, the clock the slow rank, and that the late one. */
START_TEST(throttled_rank_is_named)
{
    static const struct gpu gpus[] = {{1750, 640, 0}, {1400, 350, 0x24}, {1755, 645, 0}};
    static const char by[] = "its GPU runs at 1400 MHz, 20 % below the others' 1752 MHz, throttled "
                             "25 % of the time (power 25 %, temperature 25 %)";
    struct lk_analysis a = {0};
    struct lk_run run = {0};
    const char *text;

    analyze((struct step_model){.ranks = 3,
                                .slow = {0, 0.25, 0},
                                .clock_offset_ns = {0, -123456789012, 0},
                                .clock_uncertainty_ns = 2000},
            gpus, &run, &a);
    ck_assert_double_eq(a.ranks[1].gpu.quantity[LK_GPU_SM_CLOCK_MHZ].min, 1400);
    ck_assert_double_eq(a.ranks[1].gpu.quantity[LK_GPU_SM_CLOCK_MHZ].max, 1400);
    ck_assert_double_eq(a.ranks[0].gpu.quantity[LK_GPU_SM_CLOCK_MHZ].mean, 1750);
    ck_assert_double_eq(a.ranks[1].gpu.power_w, 350);
    ck_assert_double_eq(a.ranks[1].gpu_max_mhz, 1980);
    ck_assert_double_eq(a.ranks[1].gpu_limit_w, 700);
    ck_assert_uint_eq(a.ranks[1].gpu.n, PER_STEP * run.n_steps);
    ck_assert_ptr_nonnull(finding(&a, "late rank: rank 1"));
    ck_assert_ptr_nonnull(finding(&a, "slow rank: rank 1"));
    ck_assert_uint_eq(cause_of(&a, LK_FINDING_LATE_RANK)->id, LK_FINDING_SLOW_RANK);
    ck_assert_uint_eq(cause_of(&a, LK_FINDING_SLOW_RANK)->id, LK_FINDING_GPU_CLOCK);
    ck_assert_uint_eq(cause_of(&a, LK_FINDING_GPU_CLOCK)->id, LK_FINDING_THROTTLED);
    /* What the throttling costs is not known but by what it causes, which comes first of all. */
    ck_assert_uint_eq(a.findings[0].id, LK_FINDING_THROTTLED);
    ck_assert_uint_eq(a.findings[1].id, LK_FINDING_GPU_CLOCK);
    ck_assert_double_eq(a.findings[0].cost_s, a.findings[1].cost_s);
    text = finding(&a, "GPU clock: rank 1");
    ck_assert_msg(text && strstr(text, by), "%s", text ? text : "no clock is slow");
    ck_assert_ptr_null(finding(&a, "GPU clock: rank 0"));
    ck_assert_ptr_null(finding(&a, "GPU clock: rank 2"));
    text = finding(&a, "throttled: 1 of 3 GPUs");
    ck_assert_msg(text && strstr(text, "that of rank 1: 1400 MHz (1400 to 1400), 350 W"), "%s",
                  text ? text : "none is throttled");
    lk_analysis_fini(&a);
    lk_run_fini(&run);
}
END_TEST

/* A clock 2 % lower is within the normal variation; a rank that was not sampled is no reference. */
START_TEST(equal_clocks_are_no_finding)
{
    static const struct gpu gpus[][2] = {{{1750, 640, 0x1}, {1715, 640, 0x102}},
                                         {{1750, 640, 0}, {0, 0, 0}},
                                         {{0, 0, 0}, {0, 0, 0}}};
    struct lk_analysis a = {0};
    struct lk_run run = {0};

    analyze((struct step_model){.ranks = 2, .slow = {0, 0.2}}, gpus[_i], &run, &a);
    ck_assert_ptr_nonnull(finding(&a, "late rank: rank 1"));
    for (size_t i = 0; i < a.n_findings; i++)
        ck_assert_msg(!strstr(a.findings[i].text, "GPU"), "%s", a.findings[i].text);
    lk_analysis_fini(&a);
    lk_run_fini(&run);
}
END_TEST

START_TEST(table_of_gpus)
{
    static const struct gpu gpus[] = {{1750, 640, 0x4}, {0, 0, 0}};
    static const struct gpu none[2];
    struct lk_analysis a = {0};
    struct lk_run run = {0};
    struct lk_table *t = NULL;

    analyze((struct step_model){.ranks = 2}, gpus, &run, &a);
    ck_assert_int_eq(lk_analysis_table(&a, LK_ANALYSIS_GPUS, &t), LK_OK);
    ck_assert_uint_eq(t->n_rows, 2);
    ck_assert_double_eq(lk_table_cell(t, 0, "sm_clock_mhz")->number, 1750);
    ck_assert_double_eq(lk_table_cell(t, 0, "power_limit_w")->number, 700);
    ck_assert_double_eq_tol(lk_table_cell(t, 0, "step_energy_j")->number, 640 * a.step_s, 1e-9);
    ck_assert_double_eq_tol(lk_table_cell(t, 0, "throttled")->number, 0.25, 0.02);
    ck_assert_ptr_nonnull(strstr(lk_table_cell(t, 0, "reasons")->text, "power 2"));
    ck_assert_int_eq(lk_table_cell(t, 0, "memory_clock_mhz")->type, LK_CELL_EMPTY);
    ck_assert_int_eq(lk_table_cell(t, 1, "sm_clock_mhz")->type, LK_CELL_EMPTY);
    ck_assert_double_eq(lk_table_cell(t, 1, "n")->number, 0);
    lk_table_destroy(t);
    lk_analysis_fini(&a);
    lk_run_fini(&run);
    analyze((struct step_model){.ranks = 2}, none, &run, &a);
    ck_assert_int_eq(lk_analysis_table(&a, LK_ANALYSIS_GPUS, &t), LK_OK);
    ck_assert_ptr_null(t);
    lk_analysis_fini(&a);
    lk_run_fini(&run);
}
END_TEST

SUITE(analysis_gpu, t)
{
    tcase_add_test(t, throttled_rank_is_named);
    tcase_add_loop_test(t, equal_clocks_are_no_finding, 0, 3);
    tcase_add_test(t, table_of_gpus);
}
