/*
 * Fits of throughputs.
 *
 * The step model is fitted draw by draw: in each draw the compute time of every local batch is
 * solved for, so that the step of that batch's smallest count is met; the other rows then weigh the
 * draw. What the step model misses is left to the scaling law (sim/throughput/scaling.h):
 * contention and skew within a node, irregularity, and a share of the communication. What another
 * local batch does is the step model's alone, with the error of its compute. A row is
 *
 *     y = ln(step of the draw) + law with that share
 *
 * so that a forecast is a mixture over draws and cells of the law, and its evidence can be compared
 * with that of the law alone.
 *
 * Divisions: compute times / weights / the step model at a target / the law and both together.
 */
#include "sim/throughput/throughput_fit.h"

#include "base/array.h"
#include "sim/step/batch_curve.h"
#include "sim/throughput/scaling_interval.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { SOLVE_ITERATIONS = 60 };
static const double SOLVE_TOLERANCE = 1e-7; /* of the step */
/* Log of the weight of each model before any row is seen. */
static const double LN_HALF = -0.69314718055994531;

/* One draw of the step model, with what the rows say of it. */
struct account {
    size_t draw;
    bool possible;
    double log_weight;
    double *compute_s; /* of each batch */
    double *y;         /* of each row, by the step model, and of the last again */
};

struct lk_step_fit {
    struct lk_step_prior *prior;
    const struct lk_scaling_point *points; /* borrowed */
    size_t shapes[LK_SCALING_POINTS_MAX], batch_of[LK_SCALING_POINTS_MAX];
    size_t n;
    double batches[LK_SCALING_POINTS_MAX];
    size_t smallest[LK_SCALING_POINTS_MAX]; /* the row with the fewest GPUs of each batch */
    size_t n_batches;
    struct account *accounts; /* first all draws, then those kept */
    size_t n_accounts;
    double *numbers;  /* of all accounts */
    double effective; /* draws' worth of evidence, (sum w)^2 / sum w^2: few make a poor interval */
    double log_evidence; /* ln of the density that the fit gives the rows */
};

static double samples_a_rank(const struct lk_scaling_point *p)
{
    return (double)p->config.local_batch * p->config.accumulation;
}

static double step_of(const struct lk_scaling_point *p)
{
    return samples_a_rank(p) * p->config.world_size / p->throughput;
}

/* ---- Compute times ---- */

static enum lk_status find_batches(struct lk_step_fit *f)
{
    for (size_t i = 0; i < f->n; i++) {
        const struct lk_scaling_point *p = &f->points[i];
        size_t b = 0;

        while (b < f->n_batches && f->batches[b] < p->config.local_batch)
            b++;
        if (b == f->n_batches || f->batches[b] != p->config.local_batch) {
            memmove(&f->batches[b + 1], &f->batches[b], (f->n_batches - b) * sizeof *f->batches);
            memmove(&f->smallest[b + 1], &f->smallest[b], (f->n_batches - b) * sizeof *f->smallest);
            f->batches[b] = p->config.local_batch;
            f->smallest[b] = i;
            f->n_batches++;
        }
        if (p->config.world_size < f->points[f->smallest[b]].config.world_size)
            f->smallest[b] = i;
        LK_PASS(lk_step_prior_shape(f->prior, &p->config, &f->shapes[i]));
    }
    for (size_t i = 0; i < f->n; i++)
        for (size_t b = 0; b < f->n_batches; b++)
            if (f->batches[b] == f->points[i].config.local_batch)
                f->batch_of[i] = b;
    return LK_OK;
}

/*
 * Solve for the compute of a micro-batch that makes the draw's step as long as measured, by regula
 * falsi with the Illinois rule, since the step grows with compute in straight pieces. usual_s 0:
 * this batch's own compute is the reference. *out is 0 if even without compute the step is longer.
 */
static enum lk_status solve(struct lk_step_fit *f, size_t draw, size_t row, double usual_s,
                            double *out)
{
    double target = step_of(&f->points[row]), lo = 0,
           hi = target / f->points[row].config.accumulation;
    double at_lo, at_hi, t = hi, at;
    int side = 0;

    *out = 0;
    LK_PASS(lk_step_prior_step_s(f->prior, draw, f->shapes[row], 1, 0, usual_s, NULL, &at_lo));
    LK_PASS(lk_step_prior_step_s(f->prior, draw, f->shapes[row], 1, hi, usual_s > 0 ? usual_s : hi,
                                 NULL, &at_hi));
    at_lo -= target;
    at_hi -= target;
    if (at_lo >= 0)
        return LK_OK;
    for (int i = 0; i < SOLVE_ITERATIONS && at_hi > 0; i++) {
        t = (lo * at_hi - hi * at_lo) / (at_hi - at_lo);
        LK_PASS(lk_step_prior_step_s(f->prior, draw, f->shapes[row], 1, t,
                                     usual_s > 0 ? usual_s : t, NULL, &at));
        at -= target;
        if (fabs(at) < SOLVE_TOLERANCE * target)
            break;
        if (at > 0) {
            hi = t;
            at_hi = at;
            at_lo *= side == 1 ? 0.5 : 1;
            side = 1;
        } else {
            lo = t;
            at_lo = at;
            at_hi *= side == -1 ? 0.5 : 1;
            side = -1;
        }
    }
    *out = t;
    return LK_OK;
}

/* Solve for the compute of every batch. The fixed cost is scaled from the first batch. */
static enum lk_status explain(struct lk_step_fit *f, struct account *a)
{
    a->possible = true;
    for (size_t b = 0; b < f->n_batches && a->possible; b++) {
        LK_PASS(solve(f, a->draw, f->smallest[b], b ? a->compute_s[0] : 0, &a->compute_s[b]));
        a->possible = a->compute_s[b] > 0;
    }
    for (size_t i = 0; i < f->n && a->possible; i++) {
        double s;

        LK_PASS(lk_step_prior_step_s(f->prior, a->draw, f->shapes[i], 1,
                                     a->compute_s[f->batch_of[i]], a->compute_s[0], NULL, &s));
        a->y[i] = a->y[f->n] = log(s / samples_a_rank(&f->points[i]));
    }
    return LK_OK;
}

/* ---- Weights ---- */

/* Weighs an account by the law of the rows that are left to it. */
static enum lk_status weigh(const struct lk_scaling_law *law, struct account *a,
                            struct lk_mixture *scratch)
{
    a->log_weight = -INFINITY;
    if (!a->possible)
        return LK_OK;
    scratch->n = 0;
    LK_PASS(lk_scaling_law_add(law, a->y, 0, scratch));
    lk_mixture_normalise(scratch, &a->log_weight);
    return LK_OK;
}

/*
 * Keep one draw in LK_STEP_FIT_PROPOSALS by systematic resampling: each is kept as often as its
 * weight says, so that all weigh the same, and the sum of the weights stays.
 */
static enum lk_status resample(struct lk_step_fit *f)
{
    double best = -INFINITY, sum = 0, squares = 0, upto = 0;
    size_t kept = 0, most = f->n_accounts / LK_STEP_FIT_PROPOSALS + 1;
    struct account *v = f->accounts;

    for (size_t i = 0; i < f->n_accounts; i++)
        best = fmax(best, v[i].log_weight);
    if (!(best > -INFINITY))
        return lk_fail(LK_EEVIDENCE,
                       "no account of the step explains the table: by cluster %s its collectives "
                       "take longer than the measured steps. Is it this machine, and are the "
                       "parameters this job's?",
                       lk_step_prior_cluster(f->prior)->name);
    for (size_t i = 0; i < f->n_accounts; i++) {
        double w = exp(v[i].log_weight - best);

        sum += w;
        squares += w * w;
    }
    f->effective = sum * sum / squares;
    f->log_evidence = best + log(sum / (double)f->n_accounts);
    for (size_t i = 0, k = 0; i < f->n_accounts; i++) {
        size_t times = 0;

        upto += exp(v[i].log_weight - best) * (double)most / sum;
        for (; k < most && (double)k + 0.5 <= upto; k++)
            times++;
        if (!times)
            continue;
        v[i].log_weight =
            best + log(sum / (double)most * (double)times / (double)lk_step_prior_draws(f->prior));
        v[kept++] = v[i];
    }
    f->n_accounts = kept;
    return LK_OK;
}

/* ---- The target ---- */

/* Computes the compute of a batch that was not measured by the job's own: the nearest measured
 * batch's in proportion. *out_sd: its relative error. */
static enum lk_status compute_by_job(const struct lk_step_fit *f, const struct account *a,
                                     const struct lk_job *job, double local_batch, double *out,
                                     double *out_sd)
{
    struct lk_batch_point at, nearest;
    size_t best = 0;

    for (size_t b = 1; b < f->n_batches; b++)
        if (fabs(log(f->batches[b] / local_batch)) < fabs(log(f->batches[best] / local_batch)))
            best = b;
    LK_PASS(lk_batch_curve_at(job, (int)local_batch, &at));
    LK_PASS(lk_batch_curve_at(job, (int)f->batches[best], &nearest));
    *out = a->compute_s[best] * (at.forward_s + at.backward_s) /
           (nearest.forward_s + nearest.backward_s);
    *out_sd = at.extrapolation_sd;
    return LK_OK;
}

/* Computes the compute of a batch; one that was not measured is on the job's curve, else on that
 * through those that were. *out_sd: the relative error of being there. */
static enum lk_status compute_of(const struct lk_step_fit *f, const struct account *a,
                                 double local_batch, double *out, double *out_sd)
{
    const struct lk_job *job = lk_step_prior_compute(f->prior);
    struct lk_job_compute rows[LK_SCALING_POINTS_MAX];
    struct lk_batch_point p;
    char assumed[] = "assumed";
    /* Flops a sample only say that one batch's rate holds for the next. */
    struct lk_job j = {.name = "table",
                       .compute = rows,
                       .n_compute = f->n_batches,
                       .flops_per_sample = {.value = 1, .source = assumed}};

    *out_sd = 0;
    for (size_t b = 0; b < f->n_batches; b++) {
        if (f->batches[b] == local_batch) {
            *out = a->compute_s[b];
            return LK_OK;
        }
        rows[b] =
            (struct lk_job_compute){.local_batch = (int)f->batches[b],
                                    .forward_s = {.value = a->compute_s[b], .source = assumed},
                                    .backward_s = lk_quantity_none(),
                                    .input_s = lk_quantity_none(),
                                    .optimizer_s = lk_quantity_none(),
                                    .optimizer_hidden_s = lk_quantity_none(),
                                    .gap_s = lk_quantity_none(),
                                    .transient = lk_quantity_none()};
    }
    if (job)
        return compute_by_job(f, a, job, local_batch, out, out_sd);
    LK_PASS(lk_batch_curve_at(&j, (int)local_batch, &p));
    *out = p.forward_s;
    *out_sd = p.extrapolation_sd;
    return LK_OK;
}

/* prior: of the target's machine. *out_sd (NULL is legal): the step's relative error by that of the
 * compute of a batch that was not measured. */
static enum lk_status step_at(const struct lk_step_fit *f, struct lk_step_prior *prior,
                              const struct account *a, size_t shape,
                              const struct lk_scaling_point *target, double *losses_s, double *out,
                              double *out_sd)
{
    double compute_s, sd;

    LK_PASS(compute_of(f, a, target->config.local_batch, &compute_s, &sd));
    LK_PASS(
        lk_step_prior_step_s(prior, a->draw, shape, 1, compute_s, a->compute_s[0], losses_s, out));
    if (out_sd)
        *out_sd = sd * fmin(1, target->config.accumulation * compute_s / *out);
    return LK_OK;
}

/* Adds to *out what y may be at the target, as lk_scaling_predict does. */
static enum lk_status predict_by_steps(const struct lk_step_fit *f, struct lk_step_prior *prior,
                                       const struct lk_scaling_point *target, double log_weight,
                                       struct lk_mixture *out)
{
    enum lk_status st = LK_OK;
    struct lk_mixture one = {0};
    struct lk_scaling_law *law = NULL;
    double y[LK_SCALING_POINTS_MAX + 1];
    size_t shape;

    LK_TRY(lk_step_prior_shape(prior, &target->config, &shape));
    LK_TRY(lk_scaling_law_create(&lk_scaling_default, f->points, f->n, target, true, &law));
    for (size_t i = 0; i < f->n_accounts; i++) {
        const struct account *a = &f->accounts[i];
        double s, sd;

        one.n = 0;
        LK_TRY(step_at(f, prior, a, shape, target, NULL, &s, &sd));
        memcpy(y, a->y, f->n * sizeof *y);
        y[f->n] = log(s / samples_a_rank(target));
        LK_TRY(lk_scaling_law_add(law, y, 0, &one));
        lk_mixture_normalise(&one, NULL);
        for (size_t k = 0; k < one.n; k++)
            one.parts[k].sd = hypot(one.parts[k].sd, sd);
        LK_TRY(lk_mixture_append(out, &one, a->log_weight + log_weight));
    }
out:
    lk_scaling_law_destroy(law);
    lk_mixture_fini(&one);
    return st;
}

static enum lk_status make_accounts(struct lk_step_fit *f)
{
    enum lk_status st = LK_OK;
    size_t draws = lk_step_prior_draws(f->prior), per = f->n_batches + f->n + 1;
    const struct lk_scaling_point *last = &f->points[f->n - 1];
    struct lk_scaling_law *law = NULL;
    struct lk_mixture scratch = {0};

    LK_TRY(lk_scaling_law_create(&lk_scaling_default, f->points, f->n, last, true, &law));
    LK_TRY(lk_alloc(&f->accounts, draws, sizeof *f->accounts));
    LK_TRY(lk_alloc(&f->numbers, draws * per, sizeof *f->numbers));
    for (; f->n_accounts < draws; f->n_accounts++) {
        struct account *a = &f->accounts[f->n_accounts];

        *a = (struct account){.draw = f->n_accounts,
                              .compute_s = &f->numbers[f->n_accounts * per],
                              .y = &f->numbers[f->n_accounts * per + f->n_batches]};
        LK_TRY(explain(f, a));
        LK_TRY(weigh(law, a, &scratch));
    }
    LK_TRY(resample(f));
out:
    lk_scaling_law_destroy(law);
    lk_mixture_fini(&scratch);
    return st;
}

static void step_fit_destroy(struct lk_step_fit *f)
{
    if (!f)
        return;
    free(f->accounts);
    free(f->numbers);
    free(f);
}

static enum lk_status step_fit_create(struct lk_step_prior *prior,
                                      const struct lk_scaling_point *points, size_t n,
                                      struct lk_step_fit **out)
{
    enum lk_status st = LK_OK;
    struct lk_step_fit *f = NULL;

    LK_TRY(lk_alloc(&f, 1, sizeof *f));
    *f = (struct lk_step_fit){.prior = prior, .points = points, .n = n};
    LK_TRY(find_batches(f));
    LK_TRY(make_accounts(f));
    *out = f;
    f = NULL;
out:
    step_fit_destroy(f);
    return st;
}

/* ---- The law and both together ---- */

/* Returns a row's configuration with the buckets and exchange of gradients of another. */
static struct lk_config with_setting(const struct lk_config *row, const struct lk_config *setting)
{
    struct lk_config c = *setting;

    c.world_size = row->world_size;
    c.nodes = row->nodes;
    c.local_batch = row->local_batch;
    c.accumulation = row->accumulation;
    return row->world_size == 1 ? *row : c;
}

/* Computes ln of a step in one configuration and machine over that in another, mean over draws. */
static enum lk_status mean_change(const struct lk_throughput_fit *fit, struct lk_step_prior *there,
                                  const struct lk_config *to, const struct lk_config *from,
                                  double *out)
{
    const struct lk_step_fit *f = fit->step;
    const struct lk_scaling_point a = {.config = *from}, b = {.config = *to};
    double sum = 0, all = 0;
    size_t shape_a, shape_b;

    LK_PASS(lk_step_prior_shape(f->prior, from, &shape_a));
    LK_PASS(lk_step_prior_shape(there, to, &shape_b));
    for (size_t i = 0; i < f->n_accounts; i++) {
        const struct account *one = &f->accounts[i];
        double w = exp(one->log_weight - f->accounts[0].log_weight), s, t;

        LK_PASS(step_at(f, f->prior, one, shape_a, &a, NULL, &s, NULL));
        LK_PASS(step_at(f, there, one, shape_b, &b, NULL, &t, NULL));
        sum += w * log(t / s);
        all += w;
    }
    *out = sum / all;
    return LK_OK;
}

/* Adds what the law says. What other buckets or another exchange of gradients than the target's do
 * to a row is the step model's to say. */
static enum lk_status add_law_alone(const struct lk_throughput_fit *f,
                                    const struct lk_scaling_point *target, double log_weight,
                                    struct lk_mixture *m)
{
    enum lk_status st = LK_OK;
    double origin = lk_scaling_y(&f->points[0]), y[LK_SCALING_POINTS_MAX + 1];
    struct lk_scaling_law *law = NULL;

    y[f->n] = origin;
    for (size_t i = 0; i < f->n; i++) {
        const struct lk_config *row = &f->points[i].config;
        struct lk_config moved = with_setting(row, &target->config);

        y[i] = 0;
        if (f->step && !lk_config_equal(row, &moved))
            LK_TRY(mean_change(f, f->step->prior, row, &moved, &y[i]));
        y[i] += origin;
    }
    LK_TRY(lk_scaling_law_create(&lk_scaling_default, f->points, f->n, target, false, &law));
    LK_TRY(lk_scaling_law_add(law, y, log_weight, m));
out:
    lk_scaling_law_destroy(law);
    return st;
}

static enum lk_status compare(struct lk_throughput_fit *f)
{
    enum lk_status st = LK_OK;
    struct lk_mixture m = {0};
    double law;

    LK_TRY(add_law_alone(f, &f->points[f->n - 1], 0, &m));
    lk_mixture_normalise(&m, &law);
    f->step_odds = exp(f->step->log_evidence - law);
out:
    lk_mixture_fini(&m);
    return st;
}

enum lk_status lk_throughput_fit_init(struct lk_throughput_fit *f, struct lk_step_prior *step,
                                      const struct lk_scaling_point *points, size_t n)
{
    if (!n || n > LK_SCALING_POINTS_MAX)
        return lk_fail(LK_EEVIDENCE, "a forecast takes 1 to %d measured throughputs, got %zu",
                       LK_SCALING_POINTS_MAX, n);
    *f = (struct lk_throughput_fit){.n = n};
    memcpy(f->points, points, n * sizeof *points);
    if (step) {
        LK_PASS(step_fit_create(step, f->points, n, &f->step));
        f->effective = f->step->effective;
        LK_PASS(compare(f));
    }
    return LK_OK;
}

void lk_throughput_fit_fini(struct lk_throughput_fit *f)
{
    step_fit_destroy(f->step);
    memset(f, 0, sizeof *f);
}

/* Return true if the rows tell the law of several nodes if the target has them. */
static bool law_knows(const struct lk_throughput_fit *f, const struct lk_scaling_point *target)
{
    bool nodes = target->config.nodes <= 1;

    for (size_t i = 0; i < f->n; i++)
        nodes |= f->points[i].config.nodes > 1;
    return nodes;
}

/* Adds what the law says. It knows the rows' machine alone: what a step changes elsewhere is the
 * step model's. */
static enum lk_status mix_law(const struct lk_throughput_fit *f,
                              const struct lk_scaling_point *target, struct lk_mixture *m)
{
    size_t first = m->n;
    double change = 0;

    if (f->elsewhere)
        LK_PASS(mean_change(f, f->elsewhere, &target->config, &target->config, &change));
    LK_PASS(add_law_alone(f, target, LN_HALF, m));
    for (size_t i = first; i < m->n; i++)
        m->parts[i].mean += change;
    return LK_OK;
}

/* Mixes both models. */
static enum lk_status mix(struct lk_throughput_fit *f, const struct lk_scaling_point *target,
                          struct lk_mixture *m)
{
    bool law = law_knows(f, target);

    LK_PASS(predict_by_steps(f->step, f->elsewhere ? f->elsewhere : f->step->prior, target,
                             law ? LN_HALF : 0, m));
    if (law)
        LK_PASS(mix_law(f, target, m));
    return LK_OK;
}

enum lk_status lk_throughput_fit_at(struct lk_throughput_fit *f,
                                    const struct lk_scaling_point *target, double level,
                                    struct lk_estimate *out)
{
    enum lk_status st = LK_OK;
    struct lk_mixture m = {0};
    struct lk_scaling_widths widths;

    if (!f->step) {
        lk_scaling_widths_init(&widths);
        return lk_scaling_interval(&lk_scaling_default, &widths, f->points, f->n, target, level,
                                   out);
    }
    LK_TRY(mix(f, target, &m));
    lk_mixture_normalise(&m, NULL);
    out->value = target->config.world_size / exp(lk_mixture_quantile(&m, 0.5));
    out->lo = target->config.world_size / exp(lk_mixture_quantile(&m, (1 + level) / 2));
    out->hi = target->config.world_size / exp(lk_mixture_quantile(&m, (1 - level) / 2));
out:
    lk_mixture_fini(&m);
    return st;
}

enum lk_status lk_throughput_fit_losses(struct lk_throughput_fit *fit,
                                        const struct lk_scaling_point *target,
                                        double out_shares[LK_LOSS_COUNT])
{
    const struct lk_step_fit *f = fit->step;
    struct lk_step_prior *prior = fit->elsewhere ? fit->elsewhere : f->prior;
    double losses_s[LK_LOSS_COUNT], all = 0;
    size_t shape;

    memset(out_shares, 0, LK_LOSS_COUNT * sizeof *out_shares);
    LK_PASS(lk_step_prior_shape(prior, &target->config, &shape));
    for (size_t i = 0; i < f->n_accounts; i++)
        all += exp(f->accounts[i].log_weight - f->accounts[0].log_weight);
    for (size_t i = 0; i < f->n_accounts; i++) {
        double w = exp(f->accounts[i].log_weight - f->accounts[0].log_weight) / all, s;

        memset(losses_s, 0, sizeof losses_s);
        LK_PASS(step_at(f, prior, &f->accounts[i], shape, target, losses_s, &s, NULL));
        for (int k = 0; k < LK_LOSS_COUNT; k++)
            out_shares[k] += w * losses_s[k] / s;
    }
    return LK_OK;
}
