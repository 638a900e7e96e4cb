/*
 * More of a resource never costs: on every preset, random jobs are never slower by links of twice
 * the bandwidth or half the latency, with what is assumed of overlap there. All-reduces go by a
 * ring, without NCCL's choice of a protocol: on faster links it may choose a slower one, as it does
 * on machines; each of them is tested in tests/sim/test_nccl_model.c.
 *
 * LOCKSTEP_CASES=100000 build/test_lockstep resource tries as many; the default is quick.
 */
#include "base/array.h"
#include "base/rng.h"
#include "facts/preset.h"
#include "sim/forecast/predictor.h"
#include "sim/step/altered_cluster.h"
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

/* Return the step on the machine as it is, or changed. */
static double step_of(const struct lk_job *j, const struct lk_cluster *cluster,
                      const struct lk_change *change, int gpus)
{
    const struct lk_predictor_options o = {.level = 0.9, .draws = 2, .seed = 1, .scale_error = NAN};
    struct lk_altered a;
    struct lk_predictor *p;
    struct lk_config c = lk_config_current(j);
    double out;

    c.world_size = gpus;
    c.algo = LK_ALGO_RING;
    ck_assert_msg(lk_altered_init(&a, j, cluster, change, gpus) == LK_OK, "%s", lk_error_text());
    ck_assert_int_eq(lk_predictor_create(&a.job, &a.cluster, &o, &p), LK_OK);
    ck_assert_int_eq(lk_config_nodes(&a.cluster, &c), LK_OK);
    ck_assert_msg(lk_predictor_estimate(p, &c, &out) == LK_OK, "%s", lk_error_text());
    lk_predictor_destroy(p);
    lk_altered_fini(&a);
    return out;
}

static void check(const struct lk_cluster *cluster, uint64_t number)
{
    struct lk_rng g = lk_rng_init(17, number);
    int gpus = 2 << lk_rng_below(&g, 10);
    struct lk_job job;
    double now, then;

    make_job(&g, &job);
    now = step_of(&job, cluster, &(struct lk_change){0}, gpus);
    for (size_t i = 0; i < LK_COUNT(better); i++) {
        bool inside = i >= 2;

        if (inside ? cluster->gpus_per_node < 2 : gpus <= cluster->gpus_per_node)
            continue;
        then = step_of(&job, cluster, &better[i].change, gpus);
        ck_assert_msg(then <= now * (1 + ROUNDING),
                      "case %llu, %d GPUs of %s: step of %.9g s, with better %s %.9g s",
                      (unsigned long long)number, gpus, cluster->name, now, better[i].what, then);
    }
    lk_job_fini(&job);
}

static uint64_t cases(void)
{
    const char *wanted = getenv("LOCKSTEP_CASES");

    return wanted ? strtoull(wanted, NULL, 10) : CASES;
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
        c.device.compute_capability = 0;
        for (uint64_t i = k; i < cases(); i += n)
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
