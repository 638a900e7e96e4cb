/*
 * More of a resource never costs without a named cause: on every preset, random jobs are never
 * slower by links of twice the bandwidth or half the latency, with what is assumed of overlap
 * there, but for what NCCL's own choice of an algorithm and protocol costs, which it makes by
 * estimates of its own. The forecast names that choice and what it costs, and without it no step is
 * longer.
 *
 * LOCKSTEP_CASES=100000 build/test_lockstep resource tries as many; the default is quick.
 */
#include "base/array.h"
#include "base/rng.h"
#include "facts/preset.h"
#include "sim/forecast/step_evidence.h"
#include "sim/step/config.h"
#include "tests/rigs/cases.h"
#include "tests/rigs/suite.h"

#include <math.h>
#include <stdlib.h>

enum { CASES = 4000, CHUNKS = 8, TENSORS_MAX = 12 };

/* Durations are rounded to whole ns, in every bucket. */
static const double ROUNDING = 1e-5;

static double between(struct lk_rng *g, double a, double b)
{
    return a * exp(lk_rng_uniform(g) * log(b / a));
}

static struct lk_quantity known(double v)
{
    struct lk_quantity q = lk_quantity_none();

    ck_assert_int_eq(lk_quantity_set(&q, v, NAN, NAN, 0, "made up for this test"), LK_OK);
    return q;
}

static void make_job(struct lk_rng *g, struct lk_job *j)
{
    size_t n = 1 + lk_rng_below(g, TENSORS_MAX);
    double forward_s = between(g, 1e-4, 1);

    lk_job_init(j);
    j->accumulation = 1 + (int)lk_rng_below(g, 4);
    j->reduce = lk_rng_below(g, 2) ? LK_REDUCTION_LAST : LK_REDUCTION_EVERY;
    j->ddp_rule = LK_DDP_TORCH_2;
    j->first_bytes = 1 << 20;
    j->cap_bytes = (uint64_t)between(g, 1e5, 1e8);
    ck_assert_int_eq(lk_strdup(&j->name, "random"), LK_OK);
    ck_assert_int_eq(lk_strdup(&j->sample_unit, "sample"), LK_OK);
    ck_assert_int_eq(lk_alloc(&j->tensors, n, sizeof *j->tensors), LK_OK);
    ck_assert_int_eq(lk_alloc(&j->compute, 1, sizeof *j->compute), LK_OK);
    for (; j->n_tensors < n; j->n_tensors++) {
        struct lk_job_tensor *t = &j->tensors[j->n_tensors];

        *t = (struct lk_job_tensor){
            .elems = (uint64_t)between(g, 1e2, 1e8), .dtype = LK_F32, .ready = NAN};
        ck_assert_int_eq(lk_asprintf(&t->name, "t%zu", j->n_tensors), LK_OK);
    }
    ck_assert_int_eq(lk_job_order_gradients(j), LK_OK);
    j->compute[0] = (struct lk_job_compute){.local_batch = 8,
                                            .forward_s = known(forward_s),
                                            .backward_s = known(forward_s * between(g, 0.5, 3)),
                                            .input_s = lk_quantity_none(),
                                            .optimizer_s = lk_quantity_none(),
                                            .optimizer_hidden_s = lk_quantity_none(),
                                            .gap_s = lk_quantity_none(),
                                            .transient = lk_quantity_none()};
    j->n_compute = 1;
}

/* Each row: what of the links gets better. */
static const struct {
    const char *what;
    struct lk_change change;
} better[] = {
    {"bandwidth between nodes", {.bandwidth_Bps[LK_LINK_INTER] = {2, true}}},
    {"latency between nodes", {.latency_s[LK_LINK_INTER] = {0.5, true}}},
    {"bandwidth inside nodes", {.bandwidth_Bps[LK_LINK_INTRA] = {2, true}}},
    {"latency inside nodes", {.latency_s[LK_LINK_INTRA] = {0.5, true}}},
};

static void predict(const struct lk_evidence_source *e, void *self, const struct lk_config *c,
                    struct lk_prediction *out)
{
    ck_assert_msg(e->ops->at(self, c, out) == LK_OK, "%s", lk_error_text());
    ck_assert_double_ge(out->choice_s, 0);
    ck_assert((out->choice_s > 0) == (*out->choice_text != '\0'));
}

/* Check a better machine: what its step is longer, NCCL's choices there take. */
static void check_better(const struct lk_evidence_source *e, const struct lk_prediction *now,
                         size_t row, uint64_t number)
{
    struct lk_prediction then;
    void *self;

    ck_assert_msg(e->ops->alter(e->self, &better[row].change, now->config.world_size, &self) ==
                      LK_OK,
                  "%s", lk_error_text());
    predict(e, self, &now->config, &then);
    ck_assert_msg(then.step_s - then.choice_s <= now->step_s * (1 + ROUNDING),
                  "case %llu, %d GPUs of %s: step of %.9g s, with better %s %.9g s, of which "
                  "%.9g s are NCCL's choice: %s",
                  (unsigned long long)number, now->config.world_size, e->cluster->name, now->step_s,
                  better[row].what, then.step_s, then.choice_s, then.choice_text);
    lk_prediction_fini(&then);
    e->ops->close(self);
}

static void check(const struct lk_cluster *cluster, uint64_t number)
{
    struct lk_rng g = lk_rng_init(17, number);
    const struct lk_axis_value gpus = {.count = 2 << lk_rng_below(&g, 10)};
    const struct lk_forecast_request q = {
        .axes[LK_AXIS_GPUS] = {&gpus, 1}, .level = 0.9, .draws = 2, .seed = 1};
    struct lk_evidence_source e;
    struct lk_prediction now;
    struct lk_forecast f = {0};
    struct lk_config c;
    struct lk_job job;

    make_job(&g, &job);
    ck_assert_msg(lk_step_evidence(&job, cluster, &q, &e) == LK_OK, "%s", lk_error_text());
    ck_assert_msg(e.ops->prepare(e.self, &f) == LK_OK, "%s", lk_error_text());
    c = e.current;
    c.world_size = (int)gpus.count;
    c.algo = number % 2 ? LK_ALGO_RING : LK_ALGO_AUTO;
    ck_assert_int_eq(lk_config_nodes(cluster, &c), LK_OK);
    predict(&e, e.self, &c, &now);
    ck_assert(now.choice_s == 0); /* on the machine as it is NCCL chooses as it does */
    for (size_t i = 0; i < LK_COUNT(better); i++) {
        bool inside = i >= 2;

        if (inside ? cluster->gpus_per_node >= 2 : c.world_size > cluster->gpus_per_node)
            check_better(&e, &now, i, number);
    }
    lk_prediction_fini(&now);
    e.ops->close(e.self);
    lk_forecast_fini(&f);
    lk_job_fini(&job);
}

START_TEST(better_links_never_take_longer)
{
    char **names = NULL, *path;
    size_t n = 0;

    ck_assert_int_eq(lk_preset_names(&names, &n), LK_OK);
    for (size_t k = (size_t)_i; k < n; k += CHUNKS) {
        struct lk_cluster c;

        ck_assert_int_eq(lk_preset_find(NULL, names[k], &path), LK_OK);
        ck_assert_msg(lk_cluster_read(path, &c) == LK_OK, "%s", lk_error_text());
        if (k / CHUNKS % 4 == 3) /* by alpha-beta */
            c.device.compute_capability = 0;
        for (uint64_t i = k; i < cases_or(CASES); i += n)
            check(&c, i);
        lk_cluster_fini(&c);
        free(path);
    }
    lk_names_free(names, n);
}
END_TEST

SUITE(resource, c)
{
    tcase_add_loop_test(c, better_links_never_take_longer, 0, CHUNKS);
}
