/*
 * The doctor. Divisions: causes / a draw / the step of a draw / weights / experiments / interface.
 */
#include "sim/throughput/doctor.h"

#include "base/array.h"
#include "base/rng.h"
#include "base/words.h"
#include "sim/prior.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A rate is known to NOISE (relative, the scale of Student's t): steps vary, and so does what a
 * program counts. Assumed. */
static const double NOISE = 0.03;
/* A GPU reaches PEAK_SHARE of its peak, known to PEAK_SD (of ln): between training in full
 * precision and large multiplications in bfloat16. Assumed. */
static const double PEAK_SHARE = 0.2, PEAK_SD = 0.7;

/* ---- Causes ---- */

static const struct {
    const char *name, *text;
} causes[] = {
#define CAUSE_(cause, name, text, drawn) [cause] = {name, text},
    LK_CAUSE_LIST(CAUSE_)
#undef CAUSE_
};

const char *lk_cause_name(enum lk_cause c)
{
    return causes[c].name;
}

const char *lk_cause_text(enum lk_cause c)
{
    return causes[c].text;
}

/* ---- A draw ---- */

/* A draw says what is wrong, and what the rates then say of the compute. */
struct draw {
    size_t prior;     /* number of the step prior's draw */
    double noise;     /* of the rate of fewest GPUs, of ln */
    double floor;     /* of a micro-batch's compute, what more samples do not lengthen */
    double batch;     /* samples of a micro-batch over those that the rows say */
    double sample_s;  /* INPUT: a rank's loader takes so long for a sample; 0: no time */
    bool hidden;      /* and that beside the step */
    double share;     /* INPUT: of the step of fewest GPUs that is loading, or not */
    double node_rate; /* INPUT: samples a second that a node's loaders make; 0: any number */
    double host;      /* HOST: its time for a micro-batch over the compute, on one rank */
    double crowding;  /* HOST: each other rank of its node makes that longer by so much */
    double collectives, between; /* times as long as they should take */
    double slow;                 /* STRAGGLER: its time over that of the others */
    int slow_gpu;
    bool sync;
    double size;      /* of the cause, for people; NaN: it has none */
    double compute_s; /* of a micro-batch of the row of fewest GPUs */
    double weight;    /* likelihood of all rows; 0: it explains nothing */
};

struct doctor {
    const struct lk_doctor_question *q;
    struct lk_step_prior *prior;
    const struct lk_doctor_row *least, *most; /* rows of fewest and most GPUs */
    struct draw *draws[LK_CAUSE_COUNT];       /* q->draws of each; NULL: not possible */
    double mean_weight[LK_CAUSE_COUNT];
};

/* Return a number from lo to hi, whose logarithm is uniform. */
static double log_uniform(struct lk_rng *g, double lo, double hi)
{
    return lo * pow(hi / lo, lk_rng_uniform(g));
}

static struct draw make_draw(const struct doctor *w, enum lk_cause c, size_t i)
{
    struct lk_rng g = lk_rng_init(w->q->seed, lk_rng_stream(causes[c].name, i));
    struct draw d = {.prior = i % lk_step_prior_draws(w->prior),
                     .collectives = 1,
                     .between = 1,
                     .slow = 1,
                     .slow_gpu = -1,
                     .batch = 1,
                     .size = NAN};

    d.noise = NOISE * lk_rng_normal(&g);
    if (w->q->batch_guessed)
        d.batch = log_uniform(&g, 0.25, 4);
    d.floor = fmin(lk_prior_value(LK_PRIOR_FLOOR_SHARE) * exp(0.6 * lk_rng_normal(&g)), 0.8);
    if (c == LK_CAUSE_INPUT) {
        double kind = lk_rng_uniform(&g);

        d.size = log_uniform(&g, 1.05, 8);
        d.share = kind < 0.5 ? 0 : 1 - 1 / d.size;
        d.hidden = kind < 0.75;
    } else if (c == LK_CAUSE_HOST) {
        d.host = d.size = log_uniform(&g, 0.5, 5);
        d.crowding = log_uniform(&g, 0.005, 0.5);
    } else if (c == LK_CAUSE_NETWORK) {
        d.collectives = d.size = log_uniform(&g, 1.5, 30);
    } else if (c == LK_CAUSE_NODES) {
        d.between = d.size = log_uniform(&g, 1.5, 30);
    } else if (c == LK_CAUSE_STRAGGLER) {
        d.slow = d.size = log_uniform(&g, 1.05, 3);
        d.slow_gpu = (int)(lk_rng_uniform(&g) * w->most->trial.config.world_size);
    }
    d.sync = c == LK_CAUSE_SYNC;
    return d;
}

/* ---- The step of a draw ---- */

static int ranks_of_node(const struct lk_config *c)
{
    return (c->world_size + c->nodes - 1) / c->nodes;
}

/* Compute the step of training alone: without input. slow: the slow GPU takes part. */
static enum lk_status step_without_input(const struct doctor *w, const struct draw *d,
                                         const struct lk_trial *t, bool slow, double *out_s)
{
    const struct lk_config *least = &w->least->trial.config;
    struct lk_config c = t->config;
    double samples = (double)c.local_batch / least->local_batch;
    double compute_s = d->compute_s * (d->floor + (1 - d->floor) * samples);
    double host_s = d->compute_s * d->host * (1 + d->crowding * (ranks_of_node(&c) - 1));
    size_t shape;

    compute_s = fmax(compute_s, host_s) * (slow ? d->slow : 1);
    if (t->apart)
        c.world_size = c.nodes = 1;
    c.reduce = d->sync && !t->no_sync ? LK_REDUCTION_EVERY : LK_REDUCTION_LAST;
    LK_PASS(lk_step_prior_shape(w->prior, &c, &shape));
    return lk_step_prior_step_s(w->prior, d->prior, shape,
                                d->collectives * (c.nodes > 1 ? d->between : 1), compute_s,
                                d->compute_s, NULL, out_s);
}

static double samples_of_rank(const struct draw *d, const struct lk_config *c)
{
    return d->batch * c->local_batch * c->accumulation;
}

static enum lk_status step_with_input(const struct doctor *w, const struct draw *d,
                                      const struct lk_trial *t, bool slow, double *out_s)
{
    double step_s, load_s = samples_of_rank(d, &t->config) * d->sample_s;

    LK_PASS(step_without_input(w, d, t, slow, &step_s));
    if (!t->synthetic) {
        step_s = d->hidden ? fmax(step_s, load_s) : step_s + load_s;
        if (d->node_rate > 0)
            step_s = fmax(step_s, samples_of_rank(d, &t->config) * ranks_of_node(&t->config) /
                                      d->node_rate);
    }
    *out_s = step_s;
    return LK_OK;
}

/* Compute the step of a trial; of copies apart the one in which they make as many samples. */
static enum lk_status step_of(const struct doctor *w, const struct draw *d,
                              const struct lk_trial *t, double *out_s)
{
    int gpus = t->config.world_size;
    bool slow = d->slow_gpu >= 0 && d->slow_gpu < gpus;
    double others_s;

    LK_PASS(step_with_input(w, d, t, slow, out_s));
    if (!t->apart || t->slowest || !slow)
        return LK_OK;
    LK_PASS(step_with_input(w, d, t, false, &others_s));
    *out_s = gpus / ((gpus - 1) / others_s + 1 / *out_s);
    return LK_OK;
}

static double rate_of(const struct draw *d, const struct lk_trial *t, double step_s)
{
    return d->batch * lk_config_samples(&t->config) / step_s;
}

/* Find the compute with which the row of fewest GPUs takes `step_s`; 0: none does. */
static enum lk_status find_compute(const struct doctor *w, struct draw *d, double step_s)
{
    enum { HALVINGS = 40 };
    double lo = log(step_s * 1e-4), hi = log(step_s), at_s;

    for (int i = 0; i < HALVINGS; i++) {
        double middle = (lo + hi) / 2;

        d->compute_s = exp(middle);
        LK_PASS(step_of(w, d, &w->least->trial, &at_s));
        if (at_s > step_s)
            hi = middle;
        else
            lo = middle;
    }
    if (fabs(at_s / step_s - 1) > NOISE)
        d->compute_s = 0; /* its collectives or the host alone take longer */
    return LK_OK;
}

/* Set the compute, and what is relative to it, so that the row of fewest GPUs is met. */
static enum lk_status meet_least(const struct doctor *w, struct draw *d)
{
    const struct lk_trial *t = &w->least->trial;
    double step_s =
        d->batch * lk_config_samples(&t->config) / (w->least->throughput * exp(d->noise));
    double healthy_s;

    if (d->share > 0 && d->hidden) { /* loading is all that one sees of the step */
        LK_PASS(find_compute(w, d, step_s * (1 - d->share)));
        d->sample_s = step_s / samples_of_rank(d, &t->config);
    } else if (d->share > 0) {
        LK_PASS(find_compute(w, d, step_s * (1 - d->share)));
        d->sample_s = d->share * step_s / samples_of_rank(d, &t->config);
    } else {
        LK_PASS(find_compute(w, d, step_s));
    }
    if (!(d->compute_s > 0) || d->share > 0 || isnan(d->size) || d->slow != 1 || d->host > 0 ||
        d->collectives != 1 || d->between != 1)
        return LK_OK;
    t = &w->most->trial; /* a node's loaders are too slow for its ranks together */
    LK_PASS(step_of(w, d, t, &healthy_s));
    d->node_rate = fmax(rate_of(d, t, healthy_s) / t->config.nodes / d->size,
                        1.02 * w->least->throughput / w->least->trial.config.nodes);
    return LK_OK;
}

/* ---- Weights ---- */

/* Return the likelihood of a rate, up to a factor that all causes share. */
static double likelihood(double measured, double predicted)
{
    const double freedom = 4;
    double z = log(measured / predicted) / NOISE;

    return pow(1 + z * z / freedom, -(freedom + 1) / 2);
}

static double peak_share(const struct doctor *w, const struct draw *d)
{
    return w->q->flops_per_sample * d->batch * w->least->trial.config.local_batch / d->compute_s /
           w->q->peak_flops;
}

static double weight_of_peak(const struct doctor *w, const struct draw *d)
{
    double share = peak_share(w, d), z = log(share / PEAK_SHARE) / PEAK_SD;

    if (isnan(share))
        return 1;
    return share > 1 ? 0 : exp(-z * z / 2);
}

static enum lk_status weigh(const struct doctor *w, struct draw *d)
{
    double step_s;

    LK_PASS(meet_least(w, d));
    d->weight = d->compute_s > 0 ? weight_of_peak(w, d) : 0;
    for (size_t i = 0; i < w->q->n_rows && d->weight > 0; i++) {
        const struct lk_doctor_row *r = &w->q->rows[i];

        if (r == w->least)
            continue;
        LK_PASS(step_of(w, d, &r->trial, &step_s));
        d->weight *= likelihood(r->throughput, rate_of(d, &r->trial, step_s));
    }
    return LK_OK;
}

static bool is_possible(const struct doctor *w, enum lk_cause c)
{
    if (c == LK_CAUSE_SYNC)
        return w->most->trial.config.accumulation > 1;
    return c != LK_CAUSE_NODES || w->most->trial.config.nodes > 1;
}

static enum lk_status weigh_all(struct doctor *w, struct lk_diagnosis *out)
{
    double all = 0;

    for (int c = 0; c < LK_CAUSE_COUNT; c++) {
        double sum = 0, size = 0;

        out->size[c] = NAN;
        if (!is_possible(w, (enum lk_cause)c))
            continue;
        LK_PASS(lk_alloc(&w->draws[c], w->q->draws, sizeof *w->draws[c]));
        for (size_t i = 0; i < w->q->draws; i++) {
            struct draw *d = &w->draws[c][i];

            *d = make_draw(w, (enum lk_cause)c, i);
            LK_PASS(weigh(w, d));
            sum += d->weight;
            size += d->weight * d->size;
        }
        w->mean_weight[c] = out->odds[c] = sum / (double)w->q->draws;
        out->size[c] = sum > 0 ? size / sum : NAN;
        all += out->odds[c];
    }
    if (!(all > 0))
        return lk_fail(LK_EEVIDENCE, "no cause explains these rates: is a row of another batch, or "
                                     "are rates of single GPUs among rates of all?");
    for (int c = 0; c < LK_CAUSE_COUNT; c++)
        out->odds[c] /= all;
    return LK_OK;
}

/* Set the rate that nothing wrong would give, whatever was measured of more GPUs. */
static enum lk_status set_expected(const struct doctor *w, struct lk_diagnosis *out)
{
    double sum = 0, weights = 0, share = 0;

    for (size_t i = 0; i < w->q->draws; i++) {
        const struct draw *d = &w->draws[LK_CAUSE_NONE][i];
        double weight = d->compute_s > 0 ? weight_of_peak(w, d) : 0, step_s;

        if (!(weight > 0))
            continue;
        LK_PASS(step_of(w, d, &w->most->trial, &step_s));
        sum += weight * log(rate_of(d, &w->most->trial, step_s));
        share += weight * peak_share(w, d);
        weights += weight;
    }
    out->expected = exp(sum / weights);
    out->peak_share = share / weights;
    return LK_OK;
}

/* ---- Experiments ---- */

typedef bool change(struct lk_trial *t); /* false: it makes no sense there */

static bool make_synthetic(struct lk_trial *t)
{
    t->synthetic = true;
    return true;
}

static bool set_apart(struct lk_trial *t)
{
    t->apart = true;
    return true;
}

static bool set_both(struct lk_trial *t)
{
    return make_synthetic(t) && set_apart(t);
}

static bool accumulate(struct lk_trial *t)
{
    t->config.accumulation *= 4;
    t->no_sync = true;
    return true;
}

static bool set_no_sync(struct lk_trial *t)
{
    t->no_sync = true;
    return t->config.accumulation > 1;
}

static bool enlarge_batch(struct lk_trial *t)
{
    t->config.local_batch *= 2;
    return true;
}

static bool take_half(struct lk_trial *t)
{
    t->config.world_size /= 2;
    return t->config.nodes == 1 && t->config.world_size > 1;
}

static bool take_node(struct lk_trial *t)
{
    t->config.world_size = ranks_of_node(&t->config);
    t->config.nodes = t->config.nodes > 1 ? 1 : 0;
    return t->config.nodes == 1 && t->config.world_size > 1;
}

static const struct {
    const char *name;
    change *make;
} experiments[] = {{"synthetic", make_synthetic}, {"apart", set_apart},
                   {"apart-synthetic", set_both}, {"accumulate-x4", accumulate},
                   {"batch-x2", enlarge_batch},   {"no-sync", set_no_sync},
                   {"half", take_half},           {"one-node", take_node}};

static bool make_trial(const struct doctor *w, size_t i, struct lk_trial *out)
{
    *out = (struct lk_trial){.config = w->most->trial.config};
    return experiments[i].make(out);
}

static bool was_made(const struct lk_doctor_question *q, const struct lk_trial *t)
{
    for (size_t i = 0; i < q->n_rows; i++) {
        const struct lk_trial *r = &q->rows[i].trial;

        if (lk_config_equal(&r->config, &t->config) && r->no_sync == t->no_sync &&
            r->synthetic == t->synthetic && r->apart == t->apart && r->slowest == t->slowest)
            return true;
    }
    return false;
}

/* The distribution of what a trial tells: ln of its rate over that of the row of most GPUs, in
 * columns of NOISE that each rate is spread over, and, in layers of twice that, of the rate of
 * copies apart over the slowest one's. */
enum { COLUMNS = 240, LAYERS = 16, CELLS = COLUMNS * LAYERS };

static void add_rate(double ratio, double over_slowest, double weight, double cells[CELLS])
{
    int column = (int)fmin(fmax(log(ratio) / NOISE + COLUMNS / 2.0, 1), COLUMNS - 2);
    int layer = (int)fmin(fmax(log(over_slowest) / (2 * NOISE) + 0.5, 0), LAYERS - 1);

    cells += layer * COLUMNS;
    cells[column] += weight / 2;
    cells[column - 1] += weight / 4;
    cells[column + 1] += weight / 4;
}

static double entropy(const double cells[CELLS])
{
    double sum = 0;

    for (int i = 0; i < CELLS; i++)
        sum -= cells[i] > 0 ? cells[i] * log2(cells[i]) : 0;
    return sum;
}

/* Set the rates of an experiment by each cause, and its information: the entropy of its rate, less
 * that with the cause known. */
static enum lk_status judge(const struct doctor *w, const struct lk_diagnosis *d,
                            struct lk_experiment *e)
{
    double all[CELLS] = {0}, known = 0;

    for (int c = 0; c < LK_CAUSE_COUNT; c++) {
        double cells[CELLS] = {0}, sum = 0;
        double total = w->mean_weight[c] * (double)w->q->draws;

        e->rate[c] = NAN;
        if (!(d->odds[c] > 1e-3))
            continue;
        for (size_t i = 0; i < w->q->draws; i++) {
            const struct draw *draw = &w->draws[c][i];
            double step_s, slowest_s, weight = draw->weight / total;
            struct lk_trial slowest = e->trial;

            if (weight < 1e-4)
                continue;
            slowest.slowest = slowest.apart;
            LK_PASS(step_of(w, draw, &e->trial, &step_s));
            LK_PASS(step_of(w, draw, &slowest, &slowest_s));
            sum += weight * log(rate_of(draw, &e->trial, step_s));
            add_rate(rate_of(draw, &e->trial, step_s) / w->most->throughput, slowest_s / step_s,
                     weight, cells);
        }
        e->rate[c] = exp(sum);
        known += d->odds[c] * entropy(cells);
        for (int i = 0; i < CELLS; i++)
            all[i] += d->odds[c] * cells[i];
    }
    e->bits = fmax(0, entropy(all) - known);
    return LK_OK;
}

static int by_bits(const void *x, const void *y)
{
    const struct lk_experiment *a = x, *b = y;

    return LK_ORDER(b->bits, a->bits);
}

static enum lk_status judge_all(const struct doctor *w, struct lk_diagnosis *out)
{
    for (size_t i = 0; i < LK_COUNT(experiments); i++) {
        struct lk_experiment *e = &out->experiments[out->n_experiments];

        if (!make_trial(w, i, &e->trial) || was_made(w->q, &e->trial))
            continue;
        snprintf(e->name, sizeof e->name, "%s", experiments[i].name);
        LK_PASS(judge(w, out, e));
        out->n_experiments++;
    }
    qsort(out->experiments, out->n_experiments, sizeof *out->experiments, by_bits);
    return LK_OK;
}

/* ---- Interface ---- */

static bool is_plain(const struct lk_trial *t)
{
    return !t->no_sync && !t->synthetic && !t->apart;
}

/* Find the rows of fewest and most GPUs among those of training as it is; the first of several. */
static enum lk_status find_ends(const struct lk_doctor_question *q, struct doctor *w)
{
    for (size_t i = 0; i < q->n_rows; i++) {
        const struct lk_doctor_row *r = &q->rows[i];

        if (!is_plain(&r->trial))
            continue;
        if (!w->least || r->trial.config.world_size < w->least->trial.config.world_size)
            w->least = r;
        if (!w->most || r->trial.config.world_size > w->most->trial.config.world_size)
            w->most = r;
    }
    if (!w->least || w->least->trial.config.world_size == w->most->trial.config.world_size)
        return lk_fail(LK_EUSAGE, "a loss shows in rates of two counts of GPUs or more, e.g. of 1 "
                                  "and of 8");
    return LK_OK;
}

enum lk_status lk_doctor(const struct lk_doctor_question *q, struct lk_diagnosis *out)
{
    enum lk_status st = LK_OK;
    struct doctor w = {.q = q};
    struct lk_diagnosis d = {0};

    LK_TRY(find_ends(q, &w));
    LK_TRY(lk_step_prior_create(q->job, false, q->cluster, q->draws, q->seed, &w.prior));
    LK_TRY(weigh_all(&w, &d));
    LK_TRY(set_expected(&w, &d));
    LK_TRY(judge_all(&w, &d));
    *out = d;
out:
    for (int c = 0; c < LK_CAUSE_COUNT; c++)
        free(w.draws[c]);
    lk_step_prior_destroy(w.prior);
    return st;
}

enum lk_status lk_doctor_trial(const struct lk_doctor_question *q, const char *name,
                               struct lk_trial *out)
{
    enum lk_status st = LK_OK;
    struct doctor w = {.q = q};
    char *list = NULL;

    LK_TRY(find_ends(q, &w));
    for (size_t i = 0; i < LK_COUNT(experiments); i++) {
        if (!strcmp(experiments[i].name, name)) {
            if (!make_trial(&w, i, out))
                st = lk_fail(LK_EUSAGE, "--result: '%s' makes no sense with %d GPUs on %d node%s",
                             name, w.most->trial.config.world_size, w.most->trial.config.nodes,
                             w.most->trial.config.nodes == 1 ? "" : "s");
            goto out;
        }
        LK_TRY(lk_text_add(&list, "%s%s", i ? ", " : "", experiments[i].name));
    }
    st = lk_fail(LK_EUSAGE, "--result: there is no experiment '%s'; there are: %s", name, list);
out:
    free(list);
    return st;
}

enum lk_cause lk_diagnosis_first(const struct lk_diagnosis *d, bool *tells)
{
    int first = 0, next = -1;

    for (int c = 1; c < LK_CAUSE_COUNT; c++)
        if (d->odds[c] > d->odds[first])
            first = c;
    for (int c = 0; c < LK_CAUSE_COUNT; c++)
        if (c != first && (next < 0 || d->odds[c] > d->odds[next]))
            next = c;
    *tells = d->odds[first] > 0.5 && d->odds[first] >= 1.5 * d->odds[next];
    return (enum lk_cause)first;
}
