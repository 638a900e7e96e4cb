/*
 * Where runs were measured, and what they tell of other configurations: random jobs with a run of
 * several ranks, on random clusters of datasheet numbers.
 *
 * LOCKSTEP_CASES=100000 build/test_lockstep place tries as many cases; the default is quick.
 */
#include "base/array.h"
#include "base/rng.h"
#include "base/stats.h"
#include "facts/place.h"
#include "sim/forecast/forecast.h"
#include "sim/forecast/grid_model.h"
#include "sim/forecast/predictor.h"
#include "tests/rigs/cases.h"
#include "tests/rigs/said.h"
#include "tests/rigs/sim_truth.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CASES = 4000, PER_NODE = 8, STEPS = 3 };

/* ---- Names ---- */

static const struct {
    const char *a, *b;
    int same;
} devices[] = {
    {"AMD Instinct MI300X", "MI300X-192GB", 1},
    {"NVIDIA H100 80GB HBM3", "H100-SXM5-80GB", 1},
    {"NVIDIA A100-SXM4-40GB", "A100-SXM4-80GB", 1},
    {"Tesla V100-SXM2-16GB", "V100-SXM2-32GB", 1},
    {"NVIDIA GeForce RTX 4090", "RTX-4090-24GB", 1},
    {"NVIDIA GH200 480GB", "GH200-120GB", 1},
    {"NVIDIA H100 PCIe", "H100-SXM5-80GB", -1},
    {"NVIDIA A100-SXM4-80GB", "H100-SXM5-80GB", -1},
    {"cpu", "H100-SXM5-80GB", -1},
    {"cpu", "cpu", 1},
    {"cpu", "any", 0},
    {"GPU", "H100-SXM5-80GB", 0},
    {"timed", "cpu", 0},
    {NULL, "cpu", 0},
};

START_TEST(devices_are_compared_by_model)
{
    ck_assert_int_eq(lk_device_same(devices[_i].a, devices[_i].b), devices[_i].same);
    ck_assert_int_eq(lk_device_same(devices[_i].b, devices[_i].a), devices[_i].same);
}
END_TEST

/* ---- Worlds ---- */

struct world {
    struct lk_job job;
    struct lk_cluster cluster;
    struct lk_config run;
    double micro_s, fixed_s; /* of the job's compute */
};

static double between(struct lk_rng *g, double lo, double hi)
{
    return lo * exp(log(hi / lo) * lk_rng_uniform(g));
}

static void put(struct lk_quantity *q, double value)
{
    ck_assert_int_eq(lk_quantity_set(q, value, NAN, NAN, 0, "test"), LK_OK);
}

static void make_cluster(struct lk_rng *g, struct lk_cluster *c)
{
    lk_cluster_init(c);
    ck_assert_int_eq(lk_strdup(&c->name, "made"), LK_OK);
    ck_assert_int_eq(lk_strdup(&c->gpu, "H100-SXM5-80GB"), LK_OK);
    c->gpus_per_node = PER_NODE;
    c->topology.nics_per_node = 1 << lk_rng_below(g, 4);
    put(&c->intra.latency_s, between(g, 1e-6, 1e-5));
    put(&c->intra.bandwidth_Bps, between(g, 2e10, 4e11));
    put(&c->inter.latency_s, between(g, 3e-6, 5e-5));
    put(&c->inter.bandwidth_Bps, between(g, 1e9, 5e10));
}

static void make_job(struct lk_rng *g, struct lk_job *j)
{
    struct lk_job_compute *c;

    lk_job_init(j);
    ck_assert_int_eq(lk_strdup(&j->name, "made"), LK_OK);
    ck_assert_int_eq(lk_strdup(&j->sample_unit, "sample"), LK_OK);
    j->ddp_rule = LK_DDP_TORCH_2;
    j->first_bytes = 1 << 20;
    j->cap_bytes = 25 << 20;
    j->accumulation = 1;
    j->reduce = LK_REDUCTION_LAST;
    j->n_tensors = 4 + lk_rng_below(g, 12);
    ck_assert_int_eq(lk_alloc(&j->tensors, j->n_tensors, sizeof *j->tensors), LK_OK);
    for (size_t i = 0; i < j->n_tensors; i++) {
        j->tensors[i].elems = (uint64_t)between(g, 1e5, 5e6);
        j->tensors[i].ready = NAN;
        ck_assert_int_eq(lk_asprintf(&j->tensors[i].name, "w%zu", i), LK_OK);
    }
    ck_assert_int_eq(lk_job_order_gradients(j), LK_OK);
    ck_assert_int_eq(lk_alloc(&j->compute, 1, sizeof *j->compute), LK_OK);
    j->n_compute = 1;
    c = j->compute;
    *c = (struct lk_job_compute){.local_batch = 8,
                                 .input_s = lk_quantity_none(),
                                 .optimizer_hidden_s = lk_quantity_none(),
                                 .transient = lk_quantity_none()};
    put(&c->forward_s, between(g, 2e-3, 5e-2));
    put(&c->backward_s, 2 * c->forward_s.value);
    put(&c->optimizer_s, c->forward_s.value * between(g, 0.02, 0.5));
    put(&c->gap_s, c->forward_s.value * between(g, 0.01, 0.3));
}

static void add_run(struct world *w, double exposed_s)
{
    struct lk_job_run *r = w->job.runs;

    for (int s = 0; s < STEPS; s++)
        r->step_s[s] = w->micro_s + w->fixed_s + exposed_s;
    r->losses_s[LK_LOSS_IDEAL] = w->micro_s + w->fixed_s;
    r->losses_s[LK_LOSS_WIRE] = exposed_s;
}

static void make_world(uint64_t number, struct world *w)
{
    struct lk_rng g = lk_rng_init(21, number);
    const struct lk_job_compute *c;

    make_cluster(&g, &w->cluster);
    make_job(&g, &w->job);
    c = w->job.compute;
    w->micro_s = c->forward_s.value + c->backward_s.value;
    w->fixed_s = c->optimizer_s.value + c->gap_s.value;
    w->run = lk_config_current(&w->job);
    w->run.world_size = 2 << lk_rng_below(&g, 5); /* 2 to 32 */
    w->run.nodes = (w->run.world_size - 1) / PER_NODE + 1;
    ck_assert_int_eq(lk_alloc(&w->job.runs, 1, sizeof *w->job.runs), LK_OK);
    w->job.n_runs = 1;
    w->job.runs->config = w->run;
    w->job.runs->n_steps = STEPS;
    ck_assert_int_eq(lk_strdup(&w->job.runs->source, "run"), LK_OK);
    ck_assert_int_eq(lk_alloc(&w->job.runs->step_s, STEPS, sizeof(double)), LK_OK);
    ck_assert_int_eq(lk_place_set_device(&w->job.place, "NVIDIA H100 80GB HBM3"), LK_OK);
    add_run(w, w->micro_s * between(&g, 0.02, 3));
}

static void world_fini(struct world *w)
{
    lk_job_fini(&w->job);
    lk_cluster_fini(&w->cluster);
}

/* Set the model's steps of n configurations, anchored at the run but not replaced by it. */
static void steps_of(const struct world *w, const struct lk_config *c, size_t n, double *out)
{
    struct lk_predictor_options o = {.level = 0.9, .draws = 2, .seed = 1, .scale_error = NAN};
    struct lk_predictor *p;

    ck_assert_msg(lk_predictor_create(&w->job, &w->cluster, &o, &p) == LK_OK, "%s",
                  lk_error_text());
    for (size_t i = 0; i < n; i++)
        ck_assert_msg(lk_grid_model_step(p->grid, &c[i], true, &out[i]) == LK_OK, "%s",
                      lk_error_text());
    lk_predictor_destroy(p);
}

/* ---- Conservation ---- */

enum { CHUNKS = 10 };

/* A run at its own place and count is its step, whatever kind of file the cluster is of, and what
 * it communicates longer it takes longer there and at other counts over the same links. */
START_TEST(a_run_is_its_step)
{
    for (uint64_t i = (uint64_t)_i; i < cases_or(CASES); i += CHUNKS) {
        struct world w = {0};
        struct lk_config c[2];
        double measured_s, more_s, steps[2], preset[2], longer[2];

        make_world(i, &w);
        measured_s = w.job.runs->step_s[0];
        c[0] = c[1] = w.run;
        c[1].cap_bytes *= 2;
        steps_of(&w, c, 2, steps);
        ck_assert_double_eq_tol(steps[0] / measured_s, 1, 1e-9);
        w.cluster.preset = true;
        steps_of(&w, c, 2, preset);
        ck_assert(preset[0] == steps[0] && preset[1] == steps[1]);
        more_s = w.micro_s * 0.37;
        add_run(&w, w.job.runs->losses_s[LK_LOSS_WIRE] + more_s);
        steps_of(&w, c, 2, longer);
        ck_assert_double_eq_tol(longer[0] - steps[0], more_s, 1e-9 * measured_s);
        ck_assert_double_eq_tol((longer[1] - steps[1]) / more_s, 1, 0.25);
        world_fini(&w);
    }
}
END_TEST

/* A step of A micro-batches that reduces on the last alone takes A - 1 micro-batches of compute
 * more than one of one, with what its collectives take longer than modelled counted once. */
START_TEST(accumulation_adds_micro_batches_alone)
{
    for (uint64_t i = (uint64_t)_i; i < cases_or(CASES); i += CHUNKS) {
        struct world w = {0};
        struct lk_config c[2];
        double steps[2];

        make_world(i, &w);
        c[0] = c[1] = w.run;
        c[1].accumulation = 2 + (int)(i % 15);
        steps_of(&w, c, 2, steps);
        ck_assert_msg(fabs(steps[1] / (steps[0] + (c[1].accumulation - 1) * w.micro_s) - 1) < 0.03,
                      "case %llu: %d micro-batches of %g s take %g s, one %g s",
                      (unsigned long long)i, c[1].accumulation, w.micro_s, steps[1], steps[0]);
        world_fini(&w);
    }
}
END_TEST

/* Communication that a run takes longer multiplies no compute: one GPU takes its own work, and a
 * step of two micro-batches that both communicate takes one of each more. */
START_TEST(a_longer_wire_is_no_longer_compute)
{
    for (uint64_t i = (uint64_t)_i; i < cases_or(CASES); i += CHUNKS) {
        struct world w = {0};
        struct lk_config c[2];
        double exposed_s, more_s, steps[2];

        make_world(i, &w);
        exposed_s = w.job.runs->losses_s[LK_LOSS_WIRE];
        c[0] = c[1] = w.run;
        c[0].world_size = c[0].nodes = 1;
        c[1].accumulation = 2;
        c[1].reduce = LK_REDUCTION_EVERY;
        steps_of(&w, c, 2, steps);
        ck_assert_double_eq_tol(steps[0] / (w.micro_s + w.fixed_s), 1, 1e-5);
        more_s = steps[1] - w.job.runs->step_s[0] - w.micro_s;
        ck_assert_double_gt(more_s, 0.7 * exposed_s);
        ck_assert_double_lt(more_s, 1.3 * exposed_s + 0.05 * w.micro_s);
        world_fini(&w);
    }
}
END_TEST

/* Where nobody says of which part a run's time beyond the model is, and no run of one rank does,
 * the interval of four micro-batches holds what they take if it is all communication and if it is
 * all of the step, by hand, and the estimate lies between. */
START_TEST(an_unseen_misfit_may_be_of_any_part)
{
    struct lk_predictor_options o = {.level = 0.9, .draws = 100, .seed = 1, .scale_error = NAN};

    for (uint64_t i = (uint64_t)_i; i < cases_or(CASES) / 50; i += CHUNKS) {
        struct lk_rng g = lk_rng_init(23, i);
        struct world w = {0};
        struct lk_config c[2];
        double modelled_s[2], factor = between(&g, 1.3, 3), wire_s, whole_s, all_s;
        struct lk_predictor *predictor;
        struct lk_prediction p;

        make_world(i, &w);
        c[0] = c[1] = w.run;
        c[1].accumulation = 4;
        w.job.n_runs = 0;
        steps_of(&w, c, 2, modelled_s);
        w.job.n_runs = 1;
        memset(w.job.runs->losses_s, 0, sizeof w.job.runs->losses_s);
        for (int s = 0; s < STEPS; s++)
            w.job.runs->step_s[s] = factor * modelled_s[0];
        wire_s = modelled_s[1] + (factor - 1) * modelled_s[0];
        whole_s = factor * modelled_s[1];
        all_s = whole_s - wire_s;
        ck_assert_int_eq(lk_predictor_create(&w.job, &w.cluster, &o, &predictor), LK_OK);
        ck_assert_int_eq(lk_predictor_at(predictor, &c[1], &p), LK_OK);
        ck_assert_msg(p.lo_s < wire_s + 0.2 * all_s && p.hi_s > whole_s - 0.2 * all_s &&
                          p.step_s > wire_s + 0.3 * all_s && p.step_s < whole_s - 0.3 * all_s &&
                          p.assumed.misfit,
                      "case %llu: %g s (%g to %g), by hand from %g to %g", (unsigned long long)i,
                      p.step_s, p.lo_s, p.hi_s, wire_s, whole_s);
        lk_prediction_fini(&p);
        lk_predictor_destroy(predictor);
        world_fini(&w);
    }
}
END_TEST

/* The interval of a forecast holds the step measured there, however far from the model it is. */
START_TEST(the_answer_holds_what_was_measured)
{
    struct lk_predictor_options o = {.level = 0.9, .draws = 20, .seed = 1, .scale_error = NAN};

    for (uint64_t i = (uint64_t)_i; i < cases_or(CASES); i += CHUNKS) {
        struct lk_rng g = lk_rng_init(22, i);
        struct world w = {0};
        struct lk_prediction p;
        struct lk_predictor *predictor;
        double factor = between(&g, 1.0 / 3, 3);

        make_world(i, &w);
        for (int s = 0; s < STEPS; s++)
            w.job.runs->step_s[s] *= factor;
        if (i % 2) /* nobody says where the steps went */
            memset(w.job.runs->losses_s, 0, sizeof w.job.runs->losses_s);
        ck_assert_int_eq(lk_predictor_create(&w.job, &w.cluster, &o, &predictor), LK_OK);
        ck_assert_int_eq(lk_predictor_at(predictor, &w.run, &p), LK_OK);
        ck_assert_double_eq_tol(p.step_s / w.job.runs->step_s[0], 1, 1e-12);
        ck_assert(p.lo_s <= p.step_s && p.step_s <= p.hi_s);
        lk_prediction_fini(&p);
        lk_predictor_destroy(predictor);
        world_fini(&w);
    }
}
END_TEST

/* ---- Places ---- */

static struct lk_forecast_request request(const struct lk_axis_value *gpus, size_t n)
{
    struct lk_forecast_request q = {.level = 0.9, .draws = 20, .seed = 1};

    q.axes[LK_AXIS_GPUS].v = gpus;
    q.axes[LK_AXIS_GPUS].n = n;
    return q;
}

/* A forecast takes this of runs at a place: grades of 1 and 2 GPUs, and whether the runs count. */
static const struct {
    const char *said, *device, *gpu;
    enum lk_evidence one, two;
    bool counts;
} places[] = {
    {NULL, NULL, "any", LK_EVIDENCE_MEASURED, LK_EVIDENCE_MEASURED, true},
    {NULL, "cpu", "cpu", LK_EVIDENCE_MEASURED, LK_EVIDENCE_MEASURED, true},
    {NULL, "cpu", "H100-SXM5-80GB", LK_EVIDENCE_NONE, LK_EVIDENCE_NONE, false},
    {"here", "cpu", "H100-SXM5-80GB", LK_EVIDENCE_MEASURED, LK_EVIDENCE_MEASURED, true},
    {"elsewhere", "cpu", "cpu", LK_EVIDENCE_MEASURED, LK_EVIDENCE_EXTRAPOLATED, false},
};

/* Runs count by where they were measured, and not by the kind of file that the cluster is of. */
START_TEST(runs_count_at_their_place)
{
    static const struct lk_axis_value gpus[] = {{.count = 1}, {.count = 2}, {.count = 8}};
    struct lk_forecast_request q = request(gpus, 3);
    struct lk_place *p;
    struct sim_world w;
    struct lk_forecast f;
    int k = _i / 2;

    sim_world_init(&w, 10, 2);
    w.cluster.preset = _i % 2;
    free(w.cluster.gpu);
    ck_assert_int_eq(lk_strdup(&w.cluster.gpu, places[k].gpu), LK_OK);
    p = &w.job.place;
    if (places[k].said)
        ck_assert_int_eq(lk_place_say(p, places[k].said), LK_OK);
    if (places[k].device)
        ck_assert_int_eq(lk_place_set_device(p, places[k].device), LK_OK);
    ck_assert_int_eq(sim_predict(&w.job, &w.cluster, &q, &f), LK_OK);
    ck_assert_int_eq(f.points[0].evidence, places[k].one);
    ck_assert_int_eq(f.points[1].evidence, places[k].two);
    ck_assert_int_eq(!isnan(f.points[1].measured_step_s), places[k].counts);
    ck_assert_int_eq(forecast_says(&f, "Not used: the run of 2 GPUs measured on ") != NULL,
                     !places[k].counts);
    ck_assert_int_eq(forecast_says(&f, "where the runs were measured") != NULL, k == 0);
    lk_forecast_fini(&f);
    sim_world_fini(&w);
}
END_TEST

/* Efficiency is of the smallest measured count, whatever counts are asked for: one more of them,
 * and fewer GPUs than the run had, change no other's, and none above the run's is above linear. */
START_TEST(efficiency_is_of_the_smallest_run)
{
    static const struct lk_axis_value gpus[] = {{.count = 64}, {.count = 256}, {.count = 1}};

    for (uint64_t i = 0; i < 100; i++) {
        struct lk_forecast_request q = request(gpus, 2), more = request(gpus, 3);
        struct world w = {0};
        struct lk_forecast f, g;
        char reference[64];

        make_world(i, &w);
        q.anyway = more.anyway = true; /* whatever contradicts the random runs */
        ck_assert_msg(sim_predict(&w.job, &w.cluster, &q, &f) == LK_OK, "%s", lk_error_text());
        ck_assert_msg(sim_predict(&w.job, &w.cluster, &more, &g) == LK_OK, "%s", lk_error_text());
        snprintf(reference, sizeof reference, "%d GPUs, ", w.run.world_size);
        ck_assert(!strncmp(f.reference, reference, strlen(reference)));
        ck_assert_str_eq(f.reference, g.reference);
        for (size_t k = 0; k < 2; k++) {
            const struct lk_forecast_point *p = &f.points[k];

            ck_assert_double_le(p->efficiency, 1 + 1e-9);
            for (size_t m = 0; m < g.n_points; m++)
                ck_assert(g.points[m].config.world_size != p->config.world_size ||
                          g.points[m].efficiency == p->efficiency);
        }
        lk_forecast_fini(&f);
        lk_forecast_fini(&g);
        world_fini(&w);
    }
}
END_TEST

SUITE(place, c)
{
    tcase_add_loop_test(c, devices_are_compared_by_model, 0, (int)LK_COUNT(devices));
    tcase_add_loop_test(c, a_run_is_its_step, 0, CHUNKS);
    tcase_add_loop_test(c, accumulation_adds_micro_batches_alone, 0, CHUNKS);
    tcase_add_loop_test(c, a_longer_wire_is_no_longer_compute, 0, CHUNKS);
    tcase_add_loop_test(c, an_unseen_misfit_may_be_of_any_part, 0, CHUNKS);
    tcase_add_loop_test(c, the_answer_holds_what_was_measured, 0, CHUNKS);
    tcase_add_loop_test(c, runs_count_at_their_place, 0, 2 * (int)LK_COUNT(places));
    tcase_add_test(c, efficiency_is_of_the_smallest_run);
}
