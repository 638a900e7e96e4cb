/*
 * The doctor (sim/throughput/doctor.h) on planted causes.
 *
 *     build/bench/accuracy_doctor [CASES]     prints tables in Markdown; default 200 cases
 *
 * A case is a job of a known model on a preset's machine, with a share of the GPU's peak, ready
 * times, stragglers and costs of collectives of its own, drawn; and one cause of a known size, so
 * large that a step on all GPUs is 15 % longer for it, or, for the cause "batch", a batch so small
 * that over 10 % is lost with nothing wrong. The event engine (sim/step/engine.h) simulates every
 * rank of every run, and each rate has a noise of 2 %. The doctor knows the model's name, the
 * preset and the rates. Its first cause is compared with the planted one, of two rates (1 GPU and
 * all) and of rates at every doubling, before and after the experiment that it names, which is
 * simulated, too.
 *
 * Divisions: cases / the truth / scores / tables.
 */
#include "base/array.h"
#include "base/rng.h"
#include "facts/cluster.h"
#include "facts/gradients.h"
#include "facts/known_models.h"
#include "facts/preset.h"
#include "sim/collective/coll_cost.h"
#include "sim/step/config.h"
#include "sim/step/engine.h"
#include "sim/throughput/doctor.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CASES = 200, ROWS_MAX = 8, DRAWS = 400, STEPS = 6 };
static const double RATE_NOISE = 0.02, LEAST_EFFECT = 1.15, BATCH_LOSS = 0.1;

/* ---- Cases ---- */

static const char *const presets[] = {"dgx-a100",    "dgx-h100",     "dgx-1-v100",
                                      "pcie-a100",   "hgx-h100-tcp", "ethernet-25g-8gpu",
                                      "hgx-a100-efa"};
enum { N_PRESETS = sizeof presets / sizeof *presets };

/* A diagnosis is of a sick machine, whose truth is known. */
struct sick {
    const struct lk_known_model *model;
    const struct lk_cluster *cluster;
    struct lk_job job;
    struct lk_cost_model *cost; /* a draw of the cluster's */
    struct lk_config most;
    double compute_s; /* of a sample, on a GPU */
    double fixed_s;   /* of a micro-batch, whatever its samples */
    double rate;      /* collectives over the cost model's */
    enum lk_cause cause;
    double size, crowding;
    bool own; /* INPUT: each rank's loader, not the node's */
    int slow_gpu;
    double healthy_step_s; /* of all GPUs */
    uint64_t seed;
};

static double log_uniform(struct lk_rng *g, double lo, double hi)
{
    return lo * pow(hi / lo, lk_rng_uniform(g));
}

static int choose(struct lk_rng *g, int n)
{
    return (int)(lk_rng_uniform(g) * n) % n;
}

static double peak_of(const struct lk_cluster *c)
{
    return lk_quantity_known(&c->device.flops) ? c->device.flops.value : NAN;
}

static void sick_fini(struct sick *s)
{
    lk_job_fini(&s->job);
    lk_cost_model_destroy(s->cost);
    *s = (struct sick){0};
}

/* ---- The truth ---- */

static int ranks_of_node(const struct lk_config *c)
{
    return (c->world_size + c->nodes - 1) / c->nodes;
}

/* Simulate a run, or a copy of one; healthy: without the cause; slow: with the slow GPU. */
static enum lk_status simulate(const struct sick *s, const struct lk_trial *t, bool healthy,
                               bool slow, double *out_s)
{
    enum lk_status st = LK_OK;
    enum lk_cause cause = healthy ? LK_CAUSE_NONE : s->cause;
    struct lk_config_model m = {0};
    struct lk_sim_result r = {0};
    struct lk_sim_request q = {.steps = STEPS, .seed = s->seed};
    struct lk_config c = t->config;
    double *slowness = NULL;
    double compute_s = s->fixed_s + s->compute_s * c.local_batch;
    double node_ranks = ranks_of_node(&c), slower = s->rate;

    if (cause == LK_CAUSE_HOST)
        compute_s = fmax(compute_s, s->size * (s->fixed_s + s->compute_s * s->most.local_batch) *
                                        (1 + s->crowding * (node_ranks - 1)));
    c.reduce = cause == LK_CAUSE_SYNC && !t->no_sync ? LK_REDUCTION_EVERY : LK_REDUCTION_LAST;
    if (t->apart)
        c.world_size = c.nodes = 1;
    if (cause == LK_CAUSE_NETWORK || (cause == LK_CAUSE_NODES && c.nodes > 1))
        slower *= s->size;
    LK_TRY(lk_config_model_init(&m, &s->job, s->cluster, s->cost, NULL, &c));
    for (size_t i = 0; i < m.step.n_colls; i++)
        m.colls[i].cost_s *= slower;
    m.step.colls = m.colls;
    LK_TRY(lk_alloc(&slowness, (size_t)c.world_size, sizeof *slowness));
    for (int i = 0; i < c.world_size; i++)
        slowness[i] = NAN;
    if (cause == LK_CAUSE_STRAGGLER && s->slow_gpu < t->config.world_size && slow)
        slowness[t->apart ? 0 : s->slow_gpu] = s->size - 1;
    m.step.rank_slowness = slowness;
    m.step.forward_s = compute_s / 3;
    m.step.backward_s = compute_s * 2 / 3;
    m.step.optimizer_s = 0.02 * compute_s;
    m.step.law = (struct lk_straggler_law){.rank_sd = 0.01, .transient_sd = 0.01};
    if (cause == LK_CAUSE_INPUT && !t->synthetic) {
        double sample_s =
            s->healthy_step_s * s->size / ((double)s->most.local_batch * s->most.accumulation);

        m.step.prefetch_depth = 2;
        m.step.load_s =
            sample_s * c.local_batch * (s->own ? 1 : node_ranks / ranks_of_node(&s->most));
    }
    LK_TRY(lk_engine_run(&m.step, &q, NULL, &r));
    *out_s = r.mean_s;
out:
    lk_sim_result_fini(&r);
    free(slowness);
    lk_config_model_fini(&m);
    return st;
}

static enum lk_status step_of(const struct sick *s, const struct lk_trial *t, bool healthy,
                              double *out_s)
{
    double gpus = t->config.world_size, others_s;

    LK_PASS(simulate(s, t, healthy, true, out_s));
    if (!t->apart || t->slowest)
        return LK_OK;
    LK_PASS(simulate(s, t, healthy, false, &others_s));
    *out_s = gpus / ((gpus - 1) / others_s + 1 / *out_s);
    return LK_OK;
}

static enum lk_status rate_of(const struct sick *s, const struct lk_trial *t, double *out)
{
    struct lk_rng g = lk_rng_init(
        s->seed, lk_rng_stream("accuracy_doctor.rate",
                               (uint64_t)t->config.world_size * 64 + (uint64_t)t->no_sync * 8 +
                                   (uint64_t)t->synthetic * 4 + (uint64_t)t->slowest * 2 +
                                   (uint64_t)t->apart));
    double step_s;

    LK_PASS(step_of(s, t, false, &step_s));
    *out = lk_config_samples(&t->config) / step_s * exp(RATE_NOISE * lk_rng_normal(&g));
    return LK_OK;
}

/* Draw a case, which may not be one: its cause must count. */
static enum lk_status draw_case(uint64_t seed, const struct lk_cluster *clusters, struct sick *s,
                                bool *counts)
{
    enum lk_status st = LK_OK;
    struct lk_rng g = lk_rng_init(seed, lk_rng_stream("accuracy_doctor", 0));
    const struct lk_cluster *c = &clusters[choose(&g, N_PRESETS)];
    double share = fmin(0.25 * exp(0.5 * lk_rng_normal(&g)), 0.7), batch_s, sick_s, alone_s;
    double peak = isnan(peak_of(c)) ? 100e12 : peak_of(c);

    *s = (struct sick){.model = &lk_known_models[choose(&g, (int)lk_n_known_models - 1)],
                       .cluster = c,
                       .seed = seed};
    s->cause = (enum lk_cause)choose(&g, LK_CAUSE_COUNT);
    s->compute_s = s->model->flops / (share * peak);
    batch_s = s->cause == LK_CAUSE_NONE ? log_uniform(&g, 0.002, 0.1) : log_uniform(&g, 0.03, 0.5);
    s->most = (struct lk_config){
        .nodes = s->cause == LK_CAUSE_NODES || lk_rng_uniform(&g) < 0.3 ? 2 : 1,
        .local_batch = (int)fmax(1, batch_s / s->compute_s),
        .accumulation = s->cause == LK_CAUSE_SYNC || lk_rng_uniform(&g) < 0.3 ? 4 : 1,
        .reduce = LK_REDUCTION_LAST};
    s->most.world_size = s->most.nodes * c->gpus_per_node;
    s->fixed_s = 0.2 * exp(0.5 * lk_rng_normal(&g)) * s->compute_s * s->most.local_batch;
    s->rate = exp(0.15 * lk_rng_normal(&g));
    s->size = s->cause == LK_CAUSE_INPUT || s->cause == LK_CAUSE_HOST ? log_uniform(&g, 1.05, 4)
              : s->cause == LK_CAUSE_STRAGGLER                        ? log_uniform(&g, 1.1, 2.5)
                                                                      : log_uniform(&g, 2, 20);
    s->crowding = log_uniform(&g, 0.005, 0.1);
    s->own = lk_rng_uniform(&g) < 0.5;
    s->slow_gpu = choose(&g, s->most.world_size);
    LK_TRY(lk_gradients_of_count(s->model->parameters, LK_F32, &s->job));
    LK_TRY(lk_alloc(&s->job.compute, 1, sizeof *s->job.compute));
    s->job.n_compute = 1;
    s->job.compute[0].local_batch = s->most.local_batch;
    LK_TRY(lk_quantity_set(&s->job.compute[0].forward_s, 1, NAN, NAN, 0, "planted"));
    LK_TRY(lk_quantity_set(&s->job.compute[0].backward_s, 2, NAN, NAN, 0, "planted"));
    s->job.compute[0].input_s = s->job.compute[0].optimizer_s = lk_quantity_none();
    s->job.compute[0].optimizer_hidden_s = s->job.compute[0].gap_s = lk_quantity_none();
    s->job.compute[0].transient = lk_quantity_none();
    LK_TRY(lk_job_order_gradients(&s->job));
    lk_config_set_cap(&s->most, &s->job, s->job.cap_bytes);
    LK_TRY(lk_cost_model_create(c, &g, NULL, &s->cost));
    LK_TRY(step_of(s, &(struct lk_trial){.config = s->most}, true, &s->healthy_step_s));
    LK_TRY(step_of(s, &(struct lk_trial){.config = s->most}, false, &sick_s));
    LK_TRY(step_of(s, &(struct lk_trial){.config = s->most, .apart = true}, true, &alone_s));
    *counts = s->cause == LK_CAUSE_NONE ? alone_s < (1 - BATCH_LOSS) * sick_s
                                        : sick_s > LEAST_EFFECT * s->healthy_step_s;
out:
    return st;
}

/* ---- Scores ---- */

struct scores {
    size_t seen[LK_CAUSE_COUNT][LK_CAUSE_COUNT]; /* planted, first */
    size_t n, right, second, told, told_right;
};

static void score(const struct sick *s, const struct lk_diagnosis *d, struct scores *out)
{
    bool tells;
    enum lk_cause first = lk_diagnosis_first(d, &tells);
    size_t before = 0;

    for (int c = 0; c < LK_CAUSE_COUNT; c++)
        before += d->odds[c] > d->odds[s->cause];
    out->seen[s->cause][first]++;
    out->n++;
    out->right += first == s->cause;
    out->second += before < 2;
    out->told += tells;
    out->told_right += tells && first == s->cause;
}

static enum lk_status add_row(const struct sick *s, const struct lk_trial *t,
                              struct lk_doctor_row *rows, size_t *n)
{
    rows[*n].trial = *t;
    LK_PASS(rate_of(s, t, &rows[*n].throughput));
    ++*n;
    return LK_OK;
}

/* Ask the doctor, run what it names, and ask again. doublings: rates between the ends, too. */
static enum lk_status ask(const struct sick *s, bool doublings, struct scores *before,
                          struct scores *after)
{
    struct lk_doctor_row rows[ROWS_MAX];
    struct lk_doctor_question q = {.rows = rows,
                                   .job = &s->job,
                                   .cluster = s->cluster,
                                   .flops_per_sample = s->model->flops,
                                   .peak_flops = peak_of(s->cluster),
                                   .draws = DRAWS,
                                   .seed = 1};
    struct lk_job bare = s->job;
    struct lk_trial t = {.config = s->most};
    struct lk_diagnosis d;

    bare.n_compute = 0; /* nobody measured it */
    q.job = &bare;
    for (int gpus = 1; gpus < s->most.world_size; gpus *= 2) {
        t.config.world_size = gpus;
        t.config.nodes = gpus > s->cluster->gpus_per_node ? s->most.nodes : 1;
        if (doublings || gpus == 1)
            LK_PASS(add_row(s, &t, rows, &q.n_rows));
    }
    t.config = s->most;
    LK_PASS(add_row(s, &t, rows, &q.n_rows));
    LK_PASS(lk_doctor(&q, &d));
    score(s, &d, before);
    t = d.experiments[0].trial;
    LK_PASS(add_row(s, &t, rows, &q.n_rows));
    t.slowest = t.apart;
    if (t.apart)
        LK_PASS(add_row(s, &t, rows, &q.n_rows));
    LK_PASS(lk_doctor(&q, &d));
    score(s, &d, after);
    return LK_OK;
}

/* ---- Tables ---- */

static void print_scores(const char *what, const struct scores *s)
{
    printf("\n%s: right first in %.0f %% of %zu, among the first two in %.0f %%; tells in %.0f %%, "
           "and is then right in %.0f %%.\n\n| planted | cases | right |",
           what, 100.0 * (double)s->right / (double)s->n, s->n,
           100.0 * (double)s->second / (double)s->n, 100.0 * (double)s->told / (double)s->n,
           100.0 * (double)s->told_right / (double)(s->told ? s->told : 1));
    for (int c = 0; c < LK_CAUSE_COUNT; c++)
        printf(" %s |", lk_cause_name((enum lk_cause)c));
    printf("\n|---|---|---|");
    for (int c = 0; c < LK_CAUSE_COUNT; c++)
        printf("---|");
    for (int c = 0; c < LK_CAUSE_COUNT; c++) {
        size_t n = 0;

        for (int k = 0; k < LK_CAUSE_COUNT; k++)
            n += s->seen[c][k];
        printf("\n| %s | %zu | %.0f %% |", lk_cause_name((enum lk_cause)c), n,
               100.0 * (double)s->seen[c][c] / (double)(n ? n : 1));
        for (int k = 0; k < LK_CAUSE_COUNT; k++)
            printf(" %zu |", s->seen[c][k]);
    }
    printf("\n");
}

static enum lk_status run(size_t cases)
{
    static const char *const texts[2][2] = {
        {"Two rates", "Two rates and the experiment"},
        {"Rates of every doubling", "Rates of every doubling and the experiment"}};
    enum lk_status st = LK_OK;
    struct lk_cluster clusters[N_PRESETS] = {0};
    struct scores scores[2][2] = {0};
    struct sick s = {0};
    char *path = NULL;
    size_t n = 0;

    for (int i = 0; i < N_PRESETS; i++) {
        free(path);
        path = NULL;
        LK_TRY(lk_preset_find(NULL, presets[i], &path));
        LK_TRY(lk_cluster_read(path, &clusters[i]));
    }
    for (uint64_t seed = 1; n < cases; seed++) {
        bool counts;

        sick_fini(&s);
        LK_TRY(draw_case(seed, clusters, &s, &counts));
        if (!counts)
            continue;
        for (int k = 0; k < 2; k++)
            LK_TRY(ask(&s, k == 1, &scores[k][0], &scores[k][1]));
        n++;
    }
    for (int k = 0; k < 2; k++)
        for (int after = 0; after < 2; after++)
            print_scores(texts[k][after], &scores[k][after]);
out:
    sick_fini(&s);
    for (int i = 0; i < N_PRESETS; i++)
        lk_cluster_fini(&clusters[i]);
    free(path);
    return st;
}

int main(int argc, char **argv)
{
    enum lk_status st = run(argc > 1 ? (size_t)atoi(argv[1]) : CASES);

    if (st != LK_OK)
        fprintf(stderr, "accuracy_doctor: %s\n", lk_error_text());
    return lk_status_exit_code(st);
}
