/* Jobs with planted causes. Divisions: cases / the truth / drawing / measuring. */
#include "bench/lib/sick.h"

#include "base/array.h"
#include "base/rng.h"
#include "commands/doctor_measures.h"
#include "facts/gradients.h"
#include "facts/preset.h"
#include "sim/step/closed_form.h"
#include "sim/step/config.h"
#include "sim/step/engine.h"

#include <math.h>
#include <stdlib.h>

enum { STEPS = 6 };
static const double RATE_NOISE = 0.02, PART_NOISE = 0.05, LEAST_EFFECT = 1.15, BATCH_LOSS = 0.1;

/* ---- Cases ---- */

static const char *const presets[SICK_CLUSTERS] = {
    "dgx-a100",     "dgx-h100",          "dgx-1-v100",  "pcie-a100",
    "hgx-h100-tcp", "ethernet-25g-8gpu", "hgx-a100-efa"};

enum lk_status sick_clusters(struct lk_cluster out[SICK_CLUSTERS])
{
    enum lk_status st = LK_OK;
    char *path = NULL;

    for (int i = 0; i < SICK_CLUSTERS; i++) {
        free(path);
        path = NULL;
        LK_TRY(lk_preset_find(NULL, presets[i], &path));
        LK_TRY(lk_cluster_read(path, &out[i]));
    }
out:
    free(path);
    return st;
}

static double log_uniform(struct lk_rng *g, double lo, double hi)
{
    return lo * pow(hi / lo, lk_rng_uniform(g));
}

static int choose(struct lk_rng *g, int n)
{
    return (int)(lk_rng_uniform(g) * n) % n;
}

double sick_peak(const struct lk_cluster *c)
{
    return lk_quantity_known(&c->device.flops) ? c->device.flops.value : NAN;
}

static double peak_or_usual(const struct lk_cluster *c)
{
    return isnan(sick_peak(c)) ? 100e12 : sick_peak(c);
}

void sick_fini(struct sick *s)
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

/* A truth is the step model of a run; `busy` is the share of its passes in which a GPU works. */
struct truth {
    struct lk_config_model model;
    double *slowness;
    double busy;
};

static void truth_fini(struct truth *x)
{
    free(x->slowness);
    lk_config_model_fini(&x->model);
}

/* healthy: without the cause; slow: with the slow GPU. truth_fini frees *x, whatever is returned.
 */
static enum lk_status truth_init(struct truth *x, const struct sick *s, const struct lk_trial *t,
                                 bool healthy, bool slow)
{
    enum lk_cause cause = healthy ? LK_CAUSE_NONE : s->cause;
    struct lk_step_model *m = &x->model.step;
    struct lk_config c = t->config;
    double fixed_s = s->fixed * s->compute_s * s->most.local_batch;
    double busy_s = fixed_s + s->compute_s * c.local_batch, pass_s = busy_s;
    double node_ranks = ranks_of_node(&c), slower = s->rate;

    *x = (struct truth){0};
    if (cause == LK_CAUSE_HOST)
        pass_s = fmax(busy_s, s->size * (fixed_s + s->compute_s * s->most.local_batch) *
                                  (1 + s->crowding * (node_ranks - 1)));
    x->busy = busy_s / pass_s;
    c.reduce = cause == LK_CAUSE_SYNC && !t->no_sync ? LK_REDUCTION_EVERY : LK_REDUCTION_LAST;
    if (t->apart)
        c.world_size = c.nodes = 1;
    if (cause == LK_CAUSE_NETWORK || (cause == LK_CAUSE_NODES && c.nodes > 1))
        slower *= s->size;
    LK_PASS(lk_config_model_init(&x->model, &s->job, s->cluster, s->cost, NULL, &c));
    for (size_t i = 0; i < m->n_colls; i++)
        x->model.colls[i].cost_s *= slower;
    m->colls = x->model.colls;
    LK_PASS(lk_alloc(&x->slowness, (size_t)c.world_size, sizeof *x->slowness));
    for (int i = 0; i < c.world_size; i++)
        x->slowness[i] = NAN;
    if (cause == LK_CAUSE_STRAGGLER && s->slow_gpu < t->config.world_size && slow)
        x->slowness[t->apart ? 0 : s->slow_gpu] = s->size - 1;
    m->rank_slowness = x->slowness;
    m->forward_s = pass_s / 3;
    m->backward_s = pass_s * 2 / 3;
    m->optimizer_s = 0.02 * pass_s;
    m->law = (struct lk_straggler_law){.rank_sd = 0.01, .transient_sd = 0.01};
    if (cause == LK_CAUSE_INPUT && !t->synthetic) {
        double sample_s =
            s->healthy_step_s * s->size / ((double)s->most.local_batch * s->most.accumulation);

        m->prefetch_depth = 2;
        m->load_s = sample_s * c.local_batch * (s->own ? 1 : node_ranks / ranks_of_node(&s->most));
    }
    return LK_OK;
}

static enum lk_status simulate(const struct sick *s, const struct lk_trial *t, bool healthy,
                               bool slow, double *out_s)
{
    enum lk_status st = LK_OK;
    const struct lk_sim_request q = {.steps = STEPS, .seed = s->seed};
    struct lk_sim_result r = {0};
    struct truth x;

    LK_TRY(truth_init(&x, s, t, healthy, slow));
    LK_TRY(lk_closed_form_run(&x.model.step, &q, &r));
    *out_s = r.mean_s;
out:
    lk_sim_result_fini(&r);
    truth_fini(&x);
    return st;
}

/* Compute the step of a run; of copies apart the one in which they make as many samples. Of these
 * *slowest is the slowest one's over the others', else NaN. */
static enum lk_status step_of(const struct sick *s, const struct lk_trial *t, bool healthy,
                              double *slowest, double *out_s)
{
    double gpus = t->config.world_size, others_s;

    *slowest = NAN;
    LK_PASS(simulate(s, t, healthy, true, out_s));
    if (!t->apart)
        return LK_OK;
    LK_PASS(simulate(s, t, healthy, false, &others_s));
    *slowest = *out_s / others_s;
    *out_s = gpus / ((gpus - 1) / others_s + 1 / *out_s);
    return LK_OK;
}

/* ---- Drawing ---- */

static enum lk_status make_job(struct sick *s)
{
    struct lk_job_compute *c;

    LK_PASS(lk_gradients_of_count(s->model->parameters, LK_F32, &s->job));
    LK_PASS(lk_alloc(&s->job.compute, 1, sizeof *s->job.compute));
    s->job.n_compute = 1;
    c = &s->job.compute[0];
    c->local_batch = s->most.local_batch;
    LK_PASS(lk_quantity_set(&c->forward_s, 1, NAN, NAN, 0, "planted"));
    LK_PASS(lk_quantity_set(&c->backward_s, 2, NAN, NAN, 0, "planted"));
    c->input_s = c->optimizer_s = c->optimizer_hidden_s = lk_quantity_none();
    c->gap_s = c->transient = lk_quantity_none();
    return lk_job_order_gradients(&s->job);
}

/* Compute the healthy step of all GPUs, and whether the cause counts. */
static enum lk_status judge(struct sick *s, bool *counts)
{
    const struct lk_trial all = {.config = s->most}, apart = {.config = s->most, .apart = true};
    double sick_s, alone_s, unused;

    LK_PASS(step_of(s, &all, true, &unused, &s->healthy_step_s));
    LK_PASS(step_of(s, &all, false, &unused, &sick_s));
    LK_PASS(step_of(s, &apart, true, &unused, &alone_s));
    *counts = s->cause == LK_CAUSE_NONE ? alone_s < (1 - BATCH_LOSS) * sick_s
                                        : sick_s > LEAST_EFFECT * s->healthy_step_s;
    return LK_OK;
}

/* The seconds of a micro-batch that cases are drawn from. */
static void batch_range(enum lk_cause c, double *lo, double *hi)
{
    *lo = c == LK_CAUSE_NONE ? 0.002 : 0.03;
    *hi = c == LK_CAUSE_NONE ? 0.1 : 0.5;
}

static const double USUAL_SHARE = 0.25, SHARE_SD = 0.5, TWO_NODES = 0.3, ACCUMULATE = 0.3;

/* Draw what the doctor is not told. */
static void draw_rest(struct lk_rng *g, struct sick *s)
{
    s->fixed = 0.2 * exp(0.5 * lk_rng_normal(g));
    s->rate = exp(0.15 * lk_rng_normal(g));
    s->size = s->cause == LK_CAUSE_INPUT || s->cause == LK_CAUSE_HOST ? log_uniform(g, 1.05, 4)
              : s->cause == LK_CAUSE_STRAGGLER                        ? log_uniform(g, 1.1, 2.5)
                                                                      : log_uniform(g, 2, 20);
    s->crowding = log_uniform(g, 0.005, 0.1);
    s->own = lk_rng_uniform(g) < 0.5;
    s->slow_gpu = choose(g, s->most.world_size);
}

enum lk_status sick_draw(uint64_t seed, const struct lk_cluster *clusters, struct sick *s,
                         bool *counts)
{
    enum lk_status st = LK_OK;
    struct lk_rng g = lk_rng_init(seed, lk_rng_stream("accuracy_doctor", 0));
    const struct lk_cluster *c = &clusters[choose(&g, SICK_CLUSTERS)];
    double share = fmin(USUAL_SHARE * exp(SHARE_SD * lk_rng_normal(&g)), 0.7), batch_s, lo, hi;

    *s = (struct sick){.model = &lk_known_models[choose(&g, (int)lk_n_known_models - 1)],
                       .cluster = c,
                       .seed = seed};
    s->cause = (enum lk_cause)choose(&g, LK_CAUSE_COUNT);
    s->compute_s = s->model->flops / (share * peak_or_usual(c));
    batch_range(s->cause, &lo, &hi);
    batch_s = log_uniform(&g, lo, hi);
    s->most = (struct lk_config){
        .nodes = s->cause == LK_CAUSE_NODES || lk_rng_uniform(&g) < TWO_NODES ? 2 : 1,
        .local_batch = (int)fmax(1, batch_s / s->compute_s),
        .accumulation = s->cause == LK_CAUSE_SYNC || lk_rng_uniform(&g) < ACCUMULATE ? 4 : 1,
        .reduce = LK_REDUCTION_LAST};
    s->most.world_size = s->most.nodes * c->gpus_per_node;
    draw_rest(&g, s);
    LK_TRY(make_job(s));
    lk_config_set_cap(&s->most, &s->job, s->job.cap_bytes);
    LK_TRY(lk_cost_model_create(c, &g, NULL, &s->cost));
    LK_TRY(judge(s, counts));
out:
    return st;
}

/* Return the probability that a case of a cause has the configuration of another. */
static double chance_of_config(const struct sick *s)
{
    double lo, hi, from = s->most.local_batch > 1 ? s->most.local_batch * s->compute_s : 0;
    double to = (s->most.local_batch + 1) * s->compute_s, p;

    batch_range(s->cause, &lo, &hi);
    p = log(fmin(fmax(to, lo), hi) / fmin(fmax(from, lo), hi)) / log(hi / lo);
    if (s->cause == LK_CAUSE_NODES)
        p *= s->most.nodes == 2;
    else
        p *= s->most.nodes == 2 ? TWO_NODES : 1 - TWO_NODES;
    if (s->cause == LK_CAUSE_SYNC)
        return p * (s->most.accumulation == 4);
    return p * (s->most.accumulation == 4 ? ACCUMULATE : 1 - ACCUMULATE);
}

/* Find the compute with which the least row takes step_s; *slope: of ln of its step by ln of the
 * compute. false: none does. */
static enum lk_status meet(struct sick *s, const struct lk_trial *t, double step_s, double *slope,
                           bool *met)
{
    enum { TRIES = 8 };
    const struct lk_trial all = {.config = s->most};
    double at_s, before_s = NAN, before = NAN, unused;

    *slope = 1;
    for (int i = 0; i < TRIES; i++) {
        if (s->cause == LK_CAUSE_INPUT)
            LK_PASS(step_of(s, &all, true, &unused, &s->healthy_step_s));
        LK_PASS(step_of(s, t, false, &unused, &at_s));
        if (!isnan(before) && fabs(log(s->compute_s / before)) > 1e-9)
            *slope = fmin(fmax(log(at_s / before_s) / log(s->compute_s / before), 0.1), 2);
        *met = fabs(at_s / step_s - 1) < 0.001;
        if (*met && !isnan(before))
            return LK_OK;
        before = s->compute_s;
        before_s = at_s;
        s->compute_s *= *met ? 1.01 : pow(step_s / at_s, 1 / *slope);
    }
    return LK_OK;
}

enum lk_status sick_draw_like(const struct sick *known, const struct lk_doctor_row *least,
                              enum lk_cause cause, uint64_t seed, struct sick *s, double *weight)
{
    enum lk_status st = LK_OK;
    struct lk_rng g = lk_rng_init(seed, lk_rng_stream("accuracy_doctor.like", (uint64_t)cause));
    double rate = least->measured[LK_MEASURE_RATE] * exp(RATE_NOISE * lk_rng_normal(&g));
    double slope, share, z;
    bool met = false, counts;

    *s = (struct sick){.model = known->model,
                       .cluster = known->cluster,
                       .most = known->most,
                       .cause = cause,
                       .seed = seed};
    *weight = 0;
    s->compute_s = s->model->flops / (USUAL_SHARE * peak_or_usual(s->cluster));
    draw_rest(&g, s);
    LK_TRY(make_job(s));
    LK_TRY(lk_cost_model_create(s->cluster, &g, NULL, &s->cost));
    LK_TRY(meet(s, &least->trial, lk_config_samples(&least->trial.config) / rate, &slope, &met));
    if (!met)
        goto out;
    share = s->model->flops / (s->compute_s * peak_or_usual(s->cluster));
    z = log(share / USUAL_SHARE) / SHARE_SD;
    *weight = share > 0.7 ? 0 : exp(-z * z / 2) / slope * chance_of_config(s);
    if (!(*weight > 0))
        goto out;
    LK_TRY(judge(s, &counts));
    *weight *= counts;
out:
    return st;
}

/* ---- Measuring ---- */

enum lk_status sick_rate(const struct sick *s, const struct lk_trial *t, double *out)
{
    double step_s, unused;

    LK_PASS(step_of(s, t, false, &unused, &step_s));
    *out = lk_config_samples(&t->config) / step_s;
    return LK_OK;
}

double sick_log_likelihood(double measured, double rate)
{
    double z = log(measured / rate) / RATE_NOISE;

    return -z * z / 2;
}

/* Cut the kernels of a trace into some, which fill the share `busy` of their time: the host
 * launches each late. */
static enum lk_status cut_kernels(struct lk_sim_trace *record, double busy)
{
    enum { PIECES = 16 };

    for (size_t k = 0; k < record->n; k++) {
        struct lk_trace *t = &record->traces[k];

        for (size_t i = 0, n = t->n_spans; i < n; i++) {
            struct lk_span s = t->spans[i].span;
            uint64_t from = s.start_ns;
            double piece = (double)(s.end_ns - from) / PIECES;

            if (s.kind != LK_SPAN_KERNEL)
                continue;
            t->spans[i].span.end_ns = from + (uint64_t)(busy * piece);
            for (int p = 1; p < PIECES; p++) {
                s.start_ns = from + (uint64_t)(p * piece);
                s.end_ns = from + (uint64_t)((p + busy) * piece);
                lk_sim_trace_span(record, (int)k, LK_TRACK_COMPUTE, &s);
            }
        }
        LK_PASS(record->status);
        LK_PASS(lk_trace_sort_spans(&t->spans, t->n_spans));
    }
    return LK_OK;
}

/* Simulate a run with its trace, and let the analysis read it. */
static enum lk_status profile(const struct sick *s, const struct lk_trial *t,
                              double out[LK_MEASURE_COUNT])
{
    static char name[] = "planted", device[] = "a GPU";
    enum lk_status st = LK_OK;
    const struct lk_sim_request q = {.steps = STEPS, .seed = s->seed};
    const struct lk_run_info info = {.run_id = name,
                                     .world_size = t->config.world_size,
                                     .nodes = t->config.nodes,
                                     .host = name,
                                     .device = device,
                                     .comm = name,
                                     .model = name,
                                     .sample_unit = name,
                                     .local_batch = t->config.local_batch,
                                     .accumulation = t->config.accumulation,
                                     .no_sync = s->cause != LK_CAUSE_SYNC || t->no_sync,
                                     .first_bytes = t->config.first_bytes,
                                     .cap_bytes = t->config.cap_bytes,
                                     .warmup_steps = LK_SIM_WARMUP,
                                     .steps = STEPS + LK_SIM_WARMUP,
                                     .flops_per_sample = NAN};
    struct lk_sim_trace record = {0};
    struct lk_sim_result r = {0};
    struct lk_run run = {0};
    struct truth x;

    LK_TRY(truth_init(&x, s, t, false, true));
    LK_TRY(lk_sim_trace_init(&record, &info, NULL));
    LK_TRY(lk_engine_run(&x.model.step, &q, &record, &r));
    LK_TRY(cut_kernels(&record, x.busy));
    LK_TRY(lk_run_take(name, record.traces, record.n, &run));
    record.traces = NULL; /* they are the run's */
    record.n = 0;
    LK_TRY(doctor_measure_run(&run, out));
out:
    lk_run_fini(&run);
    lk_sim_result_fini(&r);
    lk_sim_trace_fini(&record);
    truth_fini(&x);
    return st;
}

enum lk_status sick_measure(const struct sick *s, const struct lk_trial *t, bool profiled,
                            struct lk_doctor_row *out)
{
    struct lk_rng g =
        lk_rng_init(s->seed, lk_rng_stream("accuracy_doctor.rate",
                                           (uint64_t)t->config.world_size * 64 +
                                               (uint64_t)profiled * 16 + (uint64_t)t->no_sync * 8 +
                                               (uint64_t)t->synthetic * 4 + (uint64_t)t->apart));
    double step_s, slowest;

    *out = lk_doctor_row_of(t, NAN);
    if (profiled) {
        LK_PASS(profile(s, t, out->measured));
        for (int m = 0; m < LK_MEASURE_COUNT; m++)
            if (m != LK_MEASURE_RATE && m != LK_MEASURE_SLOWEST && m != LK_MEASURE_REDUCED)
                out->measured[m] *= exp(PART_NOISE * lk_rng_normal(&g));
    } else {
        LK_PASS(step_of(s, t, false, &slowest, &step_s));
        out->measured[LK_MEASURE_RATE] = lk_config_samples(&t->config) / step_s;
        out->measured[LK_MEASURE_SLOWEST] = slowest * exp(RATE_NOISE * lk_rng_normal(&g));
    }
    out->measured[LK_MEASURE_RATE] *= exp(RATE_NOISE * lk_rng_normal(&g));
    return LK_OK;
}
