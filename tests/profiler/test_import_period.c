/* Steps that nobody marked: the smallest period of the collectives, or of the kernels. */
#include "base/array.h"
#include "facts/run_facts.h"
#include "profiler/analysis/analysis.h"
#include "profiler/analysis/job_build.h"
#include "profiler/import/period.h"
#include "profiler/import/rank.h"
#include "tests/rigs/must.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Sequences ---- */

/* A letter a key; length 0: no period is to be found. */
static const struct {
    const char *keys;
    size_t length, first, n;
} sequences[] = {
    {"abcabcabcabc", 3, 0, 4},
    {"xyzabcabcabcabx", 3, 3, 3}, /* a start of its own, and a cut end */
    {"aaaaaaaa", 1, 0, 8},
    {"aaaabaaaabaaaab", 5, 0, 3},         /* the longest stretch, not the shortest period */
    {"abcabcabcxdefghijklmnop", 0, 0, 0}, /* a stretch that is less than half */
    {"abcab", 0, 0, 0},
    {"abcdefgh", 0, 0, 0},
    {"", 0, 0, 0},
    {"a", 0, 0, 0},
};

START_TEST(sequences_have_a_smallest_period)
{
    const char *text = sequences[_i].keys;
    struct lk_period p = {0};
    uint64_t keys[32];
    size_t n = strlen(text);

    for (size_t i = 0; i < n; i++)
        keys[i] = (uint64_t)text[i];
    ck_assert_int_eq(lk_period_find(keys, n, &p), sequences[_i].length > 0);
    ck_assert_uint_eq(p.length, sequences[_i].length);
    ck_assert_uint_eq(p.first, sequences[_i].first);
    ck_assert_uint_eq(p.n, sequences[_i].n);
}
END_TEST

/* The work is bounded: a million equal keys repeat themselves at every distance. */
START_TEST(long_sequences)
{
    enum { KEYS = 1000000 };
    uint64_t *keys = NULL;
    struct lk_period p;

    must(lk_alloc(&keys, KEYS, sizeof *keys));
    ck_assert(lk_period_find(keys, KEYS, &p));
    ck_assert_uint_eq(p.length, 1);
    ck_assert_uint_eq(p.n, KEYS);
    free(keys);
}
END_TEST

/* ---- Runs ---- */

enum { MS = 1000000, STEPS = 8 };

/* A trace under construction: the GPU runs what the host launches 1 ms later. */
struct run {
    struct lk_events e;
    uint32_t host, compute, comm;
    uint64_t link;
    uint64_t graph;    /* the call that launches all work; 0: each piece has its own */
    uint64_t launched; /* the graph whose call is in the trace */
};

static void begin(struct run *r)
{
    *r = (struct run){0};
    must(lk_events_init(&r->e, NULL));
    r->e.source.format = "test";
    r->e.source.rank = 0;
    r->e.source.world_size = 2;
    must(lk_events_lane(&r->e, 9, 1, false, &r->host));
    must(lk_events_lane(&r->e, 0, 7, true, &r->compute));
    must(lk_events_lane(&r->e, 0, 20, true, &r->comm));
    r->e.lanes[r->compute].owner = r->e.lanes[r->comm].owner = -1;
}

/* Launch work of 1 ms at at_ms. */
static struct lk_import_event launch(struct run *r, enum lk_event_kind kind, const char *name,
                                     int at_ms)
{
    struct lk_import_event x = {.kind = LK_EVENT_LAUNCH,
                                .start_ns = (int64_t)at_ms * MS,
                                .end_ns = (int64_t)at_ms * MS + 1000,
                                .lane = r->host,
                                .link = r->graph ? r->graph : ++r->link};

    if (!r->graph || r->graph != r->launched)
        must(lk_events_add(&r->e, &x));
    r->launched = r->graph;
    x.kind = (uint8_t)kind;
    x.start_ns += MS;
    x.end_ns = x.start_ns + MS;
    x.lane = r->compute;
    must(lk_events_name(&r->e, name, strlen(name), &x.name));
    return x;
}

static void copy(struct run *r, int at_ms)
{
    const struct lk_import_event x =
        launch(r, LK_EVENT_COPY, "Memcpy HtoD (Pinned -> Device)", at_ms);

    must(lk_events_add(&r->e, &x));
}

/* Add a kernel of 1 ms, launched at at_ms; elements: of an all-reduce, 0: not known. */
static void kernel(struct run *r, const char *name, bool comm, int at_ms, uint64_t elements)
{
    struct lk_import_event x = launch(r, LK_EVENT_KERNEL, name, at_ms);

    x.lane = comm ? r->comm : r->compute;
    if (elements) {
        struct lk_event_detail c = {.elements = elements, .dtype = LK_F32, .dtype_known = true};

        must(lk_events_name(&r->e, "all_reduce", 10, &c.function));
        must(lk_events_detail(&r->e, &c, &x.detail));
    }
    must(lk_events_add(&r->e, &x));
}

#define REDUCE_KERNEL "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)"

/*
 * A step of 20 ms: forward at 0 and 2, backward at 4 and 7, buckets at 6 and 9, the optimizer at
 * 12. Kernels of the same name are of the same kind; sizes: the buckets have sizes.
 */
static void step(struct run *r, int at_ms, bool sizes, bool optimizer)
{
    kernel(r, "forward", false, at_ms, 0);
    kernel(r, "forward", false, at_ms + 2, 0);
    kernel(r, "backward", false, at_ms + 4, 0);
    kernel(r, REDUCE_KERNEL, true, at_ms + 6, sizes ? 1000 : 0);
    kernel(r, "embedding", false, at_ms + 7, 0);
    kernel(r, REDUCE_KERNEL, true, at_ms + 9, sizes ? 500 : 0);
    if (optimizer)
        kernel(r, "sgd", false, at_ms + 12, 0);
}

static enum lk_status make(struct run *r, struct lk_trace *out)
{
    const struct lk_import_rank_options o = {.source = "test", .device = -1};
    enum lk_status st;

    lk_events_sort(&r->e);
    st = lk_import_trace(&r->e, &o, out);
    lk_events_fini(&r->e);
    return st;
}

/* Fail the test unless a trace has n steps of so many ms, of so many items. */
static void assert_steps(struct lk_trace *t, size_t n, int ms, const char *items)
{
    size_t found = 0;

    ck_assert_str_eq(lk_run_info_value(&t->info, LK_PERIOD_CONFIG_KEY), items);
    for (size_t i = 0; i < t->n_spans; i++) {
        const struct lk_span *s = &t->spans[i].span;

        ck_assert_int_ne(s->kind, LK_SPAN_BACKWARD);
        ck_assert_int_ne(s->kind, LK_SPAN_OPTIMIZER);
        if (s->kind != LK_SPAN_STEP)
            continue;
        ck_assert_uint_eq(s->step, found);
        if (found++) /* the first begins when the GPU has done what comes before */
            ck_assert_uint_eq(s->end_ns - s->start_ns, (uint64_t)ms * MS);
    }
    ck_assert_uint_eq(found, n);
    lk_trace_fini(t);
}

START_TEST(steps_are_the_period_of_the_collectives)
{
    bool sizes = _i;
    struct lk_trace t;
    struct run r;

    begin(&r);
    for (int i = 0; i < STEPS; i++)
        step(&r, 20 * i, sizes, true);
    must(make(&r, &t));
    /* A step ends with its last bucket: the first one has no step before it to begin behind. */
    assert_steps(&t, STEPS - 1, 20, "periods of 2 collectives");
}
END_TEST

START_TEST(accumulation_is_told_by_the_kernels)
{
    struct lk_trace t;
    struct run r;

    begin(&r);
    for (int i = 0; i < 2 * STEPS; i++)
        step(&r, 20 * i, true, i % 2 == 1);
    must(make(&r, &t));
    assert_steps(&t, STEPS - 1, 40, "periods of 4 collectives");
}
END_TEST

/* Each step begins with a batch. Where none comes, the kernels may be those of a model's layers. */
START_TEST(without_collectives_the_kernels_tell)
{
    struct lk_trace t;
    struct run r;

    begin(&r);
    for (int i = 0; i < STEPS; i++) {
        if (_i)
            copy(&r, 20 * i - 1);
        kernel(&r, "forward", false, 20 * i, 0);
        kernel(&r, "backward", false, 20 * i + 3, 0);
        kernel(&r, "sgd", false, 20 * i + 6, 0);
    }
    if (_i) {
        must(make(&r, &t));
        assert_steps(&t, STEPS - 1, 20, "periods of 3 kernels");
    } else {
        ck_assert_int_eq(make(&r, &t), LK_EEVIDENCE);
    }
}
END_TEST

/* One call launches all of a CUDA graph at one time: layers that repeat themselves in it are no
 * steps. Graphs that repeat themselves are; each has two collectives. */
START_TEST(graphs_are_launched_at_once)
{
    bool of_layers = !_i;
    struct lk_trace t;
    struct run r;

    begin(&r);
    for (int i = 0; i < STEPS; i++) {
        r.graph = of_layers && i ? r.graph : ++r.link;
        step(&r, 20 * i, true, true);
    }
    if (of_layers) {
        ck_assert_int_eq(make(&r, &t), LK_EEVIDENCE);
        return;
    }
    must(make(&r, &t));
    assert_steps(&t, STEPS - 1, 20, "periods of 2 collectives");
}
END_TEST

/* Collectives whose sizes are not known, between kernels that never repeat themselves; sends alone,
 * which reduce no gradients. */
START_TEST(what_does_not_repeat_has_no_steps)
{
    struct lk_trace t;
    struct run r;
    char name[24];

    begin(&r);
    for (int i = 0; i < STEPS; i++) {
        snprintf(name, sizeof name, "kernel %d", i);
        kernel(&r, _i ? "forward" : name, false, 20 * i, 0);
        kernel(&r, _i ? "ncclDevKernel_SendRecv(x)" : REDUCE_KERNEL, true, 20 * i + 5, 0);
    }
    ck_assert_int_eq(make(&r, &t), LK_EEVIDENCE);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "test: no steps"));
}
END_TEST

/* Such a run is analysed, and makes no job: its passes are not known. */
START_TEST(passes_stay_unknown)
{
    struct lk_run_set set = {.n = 1};
    struct lk_trace *traces = NULL;
    struct lk_analysis a = {0};
    struct lk_run run = {0};
    struct lk_job job = {0};
    struct run r;

    begin(&r);
    for (int i = 0; i < STEPS; i++)
        step(&r, 20 * i, true, true);
    must(lk_alloc(&traces, 1, sizeof *traces));
    must(make(&r, traces));
    must(lk_run_take("DIR", traces, 1, &run));
    ck_assert_uint_eq(run.n_steps, STEPS - 1);
    must(lk_analyze(&run, NULL, 0, &a));
    ck_assert_double_eq_tol(a.step_s, 0.020, 1e-9);
    ck_assert_uint_eq(a.n_buckets, 2);
    set.runs = &run;
    ck_assert_int_eq(lk_job_build(&set, &job), LK_EEVIDENCE);
    ck_assert_ptr_nonnull(strstr(lk_error_text(), "periods of 2 collectives"));
    lk_analysis_fini(&a);
    lk_run_fini(&run);
}
END_TEST

/* A trace has 65,535 names at most. With more kernels than that the collectives keep theirs. */
START_TEST(many_kernels_leave_room_for_collectives)
{
    size_t collectives = 0;
    struct lk_trace t;
    struct run r;
    char name[24];

    begin(&r);
    for (int i = 0; i < STEPS; i++)
        step(&r, 20 * i, true, true);
    for (int i = 0; i < 70000; i++) {
        snprintf(name, sizeof name, "kernel %d", i);
        kernel(&r, name, false, 22, 0);
    }
    must(make(&r, &t));
    ck_assert_uint_eq(t.n_names, UINT16_MAX);
    for (size_t i = 0; i < t.n_spans; i++) {
        if (t.spans[i].span.kind != LK_SPAN_COLLECTIVE)
            continue;
        ck_assert_str_eq(lk_trace_span_name(&t, &t.spans[i].span), "all_reduce");
        collectives++;
    }
    ck_assert_uint_eq(collectives, 2 * (STEPS - 1));
    lk_trace_fini(&t);
}
END_TEST

/* Collectives alone, as MPI jobs have them: what covers them is not known, nor what they
 * cost. */
START_TEST(without_compute_nothing_is_exposed)
{
    struct lk_trace *traces = NULL;
    struct lk_analysis a = {0};
    struct lk_run run = {0};
    struct run r;

    begin(&r);
    for (int i = 0; i < 2 * STEPS; i++) {
        struct lk_event_detail c = {.elements = i % 2 ? 500 : 1000, .dtype_known = true};
        struct lk_import_event x = {.kind = LK_EVENT_COLLECTIVE, .lane = r.host};

        x.start_ns = (int64_t)(10 * i + 20 * (i / 2)) * MS;
        x.end_ns = x.start_ns + 5 * MS;
        must(lk_events_name(&r.e, "all_reduce", 10, &c.function));
        must(lk_events_detail(&r.e, &c, &x.detail));
        must(lk_events_add(&r.e, &x));
    }
    must(lk_alloc(&traces, 1, sizeof *traces));
    must(make(&r, traces));
    must(lk_run_take("DIR", traces, 1, &run));
    must(lk_analyze(&run, NULL, 0, &a));
    ck_assert(!a.exposure_known);
    ck_assert_double_eq_tol(a.step_s, 0.040, 1e-9);
    ck_assert_double_eq_tol(a.buckets[0].wire_s, 0.005, 1e-9);
    ck_assert(isnan(a.buckets[0].exposed_s) && isnan(a.losses_s[LK_LOSS_WIRE]));
    for (size_t i = 0; i < a.n_findings; i++)
        ck_assert_int_eq(a.findings[i].id, LK_FINDING_MISSING_RANKS);
    lk_analysis_fini(&a);
    lk_run_fini(&run);
}
END_TEST

SUITE(import_period, t)
{
    tcase_add_test(t, without_compute_nothing_is_exposed);
    tcase_add_test(t, many_kernels_leave_room_for_collectives);
    tcase_add_loop_test(t, sequences_have_a_smallest_period, 0, (int)LK_COUNT(sequences));
    tcase_add_test(t, long_sequences);
    tcase_add_loop_test(t, steps_are_the_period_of_the_collectives, 0, 2);
    tcase_add_test(t, accumulation_is_told_by_the_kernels);
    tcase_add_loop_test(t, without_collectives_the_kernels_tell, 0, 2);
    tcase_add_loop_test(t, graphs_are_launched_at_once, 0, 2);
    tcase_add_loop_test(t, what_does_not_repeat_has_no_steps, 0, 2);
    tcase_add_test(t, passes_stay_unknown);
}
