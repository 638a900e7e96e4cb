/* These tests ask what a device did: intervals, the instants of a rank, own runs and imports. */
#include "profiler/analysis/breakdown.h"

#include "base/array.h"
#include "base/rng.h"
#include "profiler/analysis/analysis.h"
#include "profiler/import/import.h"
#include "tests/rigs/cases.h"
#include "tests/rigs/kineto_text.h"
#include "tests/rigs/must.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/split.h"
#include "tests/rigs/step_model.h"
#include "tests/rigs/suite.h"
#include "tests/rigs/trace_add.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Compute 10-30 and, within it, 12-20; communication 25-50 and 25-40; a copy 60-70. */
START_TEST(intervals_sum)
{
    struct lk_uses u = {0};
    struct lk_breakdown b = lk_uses_sum(&u);

    ck_assert_uint_eq(b.n, 0);
    ck_assert(isnan(lk_breakdown_s(&b, b.span_ns)));
    ck_assert(isnan(lk_breakdown_overlap(&b)));
    must(lk_uses_add(&u, LK_USE_MEMORY, 60, 70));
    must(lk_uses_add(&u, LK_USE_COMMUNICATION, 25, 50));
    must(lk_uses_add(&u, LK_USE_COMPUTE, 10, 30));
    must(lk_uses_add(&u, LK_USE_COMPUTE, 12, 20));
    must(lk_uses_add(&u, LK_USE_COMMUNICATION, 25, 40));
    b = lk_uses_sum(&u);
    ck_assert_uint_eq(b.n, 5);
    ck_assert_int_eq(b.span_ns, 60);
    ck_assert_int_eq(b.idle_ns, 10);
    ck_assert_int_eq(b.compute_ns, 20);
    ck_assert_int_eq(b.comm_ns, 25);
    ck_assert_int_eq(b.exposed_ns, 20);
    ck_assert_double_eq_tol(lk_breakdown_overlap(&b), 0.2, 1e-12);
    lk_uses_fini(&u);
}
END_TEST

/* ---- Labels of a rank's instants ---- */

enum { END = 400, TRACKS = 4 };

static void add(struct lk_trace *t, uint32_t track, struct lk_span s, uint64_t from, uint64_t to)
{
    s.start_ns = from;
    s.end_ns = to;
    t->spans[t->n_spans++] = (struct lk_trace_span){.track = track, .span = s};
}

/* Make a step of random kernels on two streams, of copies and of collectives in order. */
static void make_step(struct lk_rng *g, struct lk_trace *t)
{
    uint64_t at = 1 + lk_rng_below(g, 20);

    t->n_spans = 0;
    add(t, 0, (struct lk_span){.kind = LK_SPAN_STEP, .index = -1}, 1, END);
    for (int i = 0; i < 2; i++) {
        uint64_t length = 50 + lk_rng_below(g, 80);

        add(t, 1, (struct lk_span){.kind = i ? LK_SPAN_BACKWARD : LK_SPAN_FORWARD}, at,
            at + length);
        at += length + lk_rng_below(g, 20);
    }
    for (int i = 0; i < 30; i++) {
        uint64_t from = 1 + lk_rng_below(g, END - 30);
        enum lk_span_kind kind = lk_rng_below(g, 8) ? LK_SPAN_KERNEL : LK_SPAN_COPY;

        add(t, lk_rng_below(g, 6) ? 1 : 3, (struct lk_span){.kind = (uint16_t)kind, .index = -1},
            from, from + 1 + lk_rng_below(g, 12));
    }
    at = lk_rng_below(g, 100);
    for (uint32_t i = 0; i < 4; i++) {
        uint64_t from = at + 1 + lk_rng_below(g, 40);

        at = from + lk_rng_below(g, 40);
        add(t, 2,
            (struct lk_span){.kind = LK_SPAN_COLLECTIVE,
                             .index = (int32_t)i,
                             .seq = i,
                             .ready_ns = from - lk_rng_below(g, from)},
            from, at);
    }
}

/* Return true if some kernel or copy of the stream lies in a range: else all of it is compute. */
static bool is_recorded(const struct lk_trace *t, const struct lk_span *range)
{
    for (size_t i = 0; i < t->n_spans; i++)
        if (t->spans[i].track == 1 &&
            (t->spans[i].span.kind == LK_SPAN_KERNEL || t->spans[i].span.kind == LK_SPAN_COPY) &&
            t->spans[i].span.start_ns < range->end_ns && t->spans[i].span.end_ns > range->start_ns)
            return true;
    return false;
}

static bool computes_at(const struct lk_trace *t, uint64_t ns)
{
    for (size_t i = 0; i < t->n_spans; i++)
        if (t->spans[i].span.start_ns <= ns && ns < t->spans[i].span.end_ns &&
            (t->spans[i].span.kind == LK_SPAN_KERNEL ||
             ((t->spans[i].span.kind == LK_SPAN_FORWARD ||
               t->spans[i].span.kind == LK_SPAN_BACKWARD) &&
              !is_recorded(t, &t->spans[i].span))))
            return true;
    return false;
}

/* Every instant is looked at alone: kernels are compute, collectives run from arrival to end, and
 * what of them has no compute beside it is exposed; the parts and their gaps tile the window. */
START_TEST(labels_are_those_of_each_instant)
{
    static struct lk_trace_track tracks[TRACKS] = {{.kind = LK_TRACK_HOST},
                                                   {.kind = LK_TRACK_COMPUTE},
                                                   {.kind = LK_TRACK_COMM},
                                                   {.kind = LK_TRACK_UPDATE}};
    char device[] = "NVIDIA H100";
    struct lk_trace_span spans[64];

    for (uint64_t c = 0; c < cases_or(500); c++) {
        struct lk_rng g = lk_rng_init(41, c);
        struct lk_trace t = {.info = {.world_size = 2, .accumulation = 1, .device = device},
                             .tracks = tracks,
                             .n_tracks = TRACKS,
                             .spans = spans};
        uint64_t compute = 0, comm = 0, exposed = 0;
        struct lk_step_split x;
        struct lk_rank_steps r;
        double sum = 0;

        make_step(&g, &t);
        must(lk_rank_steps_read(&t, &r));
        ck_assert_uint_eq(r.n_steps, 1);
        lk_step_split(&r, &r.steps[0], NULL, &x);
        for (uint64_t ns = r.steps[0].begin_ns; ns < r.steps[0].end_ns; ns++) {
            bool exchanges = false, computes = computes_at(&t, ns);

            for (size_t i = 0; i < r.n_collectives; i++)
                exchanges = exchanges ||
                            (r.collectives[i].arrival_ns <= ns && ns < r.collectives[i].end_ns);
            compute += computes;
            comm += exchanges;
            exposed += exchanges && !computes;
        }
        for (int part = 0; part < LK_PART_COUNT; part++) {
            sum += x.s[part];
            ck_assert_double_le(x.gap_s[part], x.s[part]);
            ck_assert(part <= LK_PART_OPTIMIZER || x.gap_s[part] == 0);
        }
        ck_assert_double_eq_tol(sum, lk_step_window_s(&r.steps[0]), 1e-15);
        ck_assert_double_eq_tol(x.compute_s, 1e-9 * (double)compute, 1e-15);
        ck_assert_double_eq_tol(x.comm_s, 1e-9 * (double)comm, 1e-15);
        ck_assert_double_eq_tol(x.exposed_s, 1e-9 * (double)exposed, 1e-15);
        ck_assert_double_le(x.s[LK_PART_STRAGGLER] + x.s[LK_PART_WIRE], x.exposed_s + 1e-15);
        lk_rank_steps_fini(&r);
    }
}
END_TEST

/* The model's steps: compute is forward, backward and optimizer; three of four collectives end
 * within the backward, the last is exposed. A GPU of which no kernel is known is as a host. */
START_TEST(passes_compute_where_no_kernel_is_known)
{
    const double wire_s = 2 * (20e-6 + (1 << 20) / 2.0 / 2e9), launch_s = _i == 2 ? 1e-4 : 0;
    const struct step_model m =
        step_model_default((struct step_model){.launch_s = {launch_s, launch_s}});
    struct lk_trace *traces = NULL;
    struct lk_run run = {0};
    struct lk_analysis a = {0};
    struct lk_table *t = NULL;
    double of_buckets_s = 0;

    must(step_model_run(&m, &traces, NULL));
    for (int k = 0; k < 2 && _i; k++) {
        free(traces[k].info.device);
        must(lk_strdup(&traces[k].info.device, "NVIDIA H100"));
    }
    must(lk_run_take("model", traces, 2, &run));
    must(lk_analyze(&run, NULL, 0, &a));
    must(lk_analysis_table(&a, LK_ANALYSIS_OVERLAP, &t));
    for (size_t k = 0; k < 2; k++) { /* times are rounded to ns */
        ck_assert_double_eq_tol(lk_table_cell(t, k, "compute_s")->number, 16e-3, 1e-8);
        ck_assert_double_eq_tol(lk_table_cell(t, k, "pending_s")->number, 4 * wire_s, 1e-8);
        ck_assert_double_eq_tol(lk_table_cell(t, k, "exposed_s")->number, wire_s, 1e-8);
        ck_assert_double_eq_tol(lk_table_cell(t, k, "in_gaps_s")->number, 0, 1e-8);
        ck_assert_double_eq_tol(lk_table_cell(t, k, "overlap")->number, 0.75, 1e-5);
    }
    for (size_t b = 0; b < a.n_buckets; b++) /* each once a step: the tables agree */
        of_buckets_s += a.buckets[b].exposed_s;
    ck_assert_double_eq_tol(of_buckets_s, wire_s, 1e-8);
    lk_table_destroy(t);
    lk_analysis_fini(&a);
    lk_run_fini(&run);
}
END_TEST

/* ---- Imports ---- */

/* Write the parts of the trace in the mask. */
static char *put_parts(unsigned mask)
{
    char text[8192] = "";

    for (size_t i = 0; i < KINETO_PARTS; i++)
        if (mask >> i & 1)
            strncat(text, kineto_parts[i], sizeof text - strlen(text) - 1);
    return scratch_put(mask == 15 ? "rank1.json" : "part-rank1.json", text, strlen(text));
}

/* An import's breakdown is that of what its file's steps launched, also where a user's kernels
 * communicate. With the last step left out it is that of a file without it. */
START_TEST(an_import_is_its_file)
{
    const struct lk_import_options o = {.patterns = _i == 1 ? "sgd" : NULL, .drop_last = _i == 2};
    struct lk_import run = {0}, of = {0};
    const struct lk_breakdown *want;
    char *paths[2];

    paths[0] = put_parts(15);
    paths[1] = put_parts(_i == 2 ? 11 : 15);
    must(lk_import_run(&paths[0], 1, &o, &run));
    must(lk_import_run(&paths[1], 1, &(struct lk_import_options){.patterns = o.patterns}, &of));
    want = &of.rows[0].linked;
    assert_split(&run.traces[0], want);
    ck_assert_int_eq(want->comm_ns, _i == 0 ? 32000 : _i == 1 ? 42000 : 16000);
    lk_import_fini(&of);
    lk_import_fini(&run);
    free(paths[0]);
    free(paths[1]);
}
END_TEST

SUITE(breakdown, t)
{
    tcase_add_checked_fixture(t, scratch_set_up, scratch_tear_down);
    tcase_add_test(t, intervals_sum);
    tcase_add_test(t, labels_are_those_of_each_instant);
    tcase_add_loop_test(t, passes_compute_where_no_kernel_is_known, 0, 3);
    tcase_add_loop_test(t, an_import_is_its_file, 0, 3);
}
