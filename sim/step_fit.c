/*
 * The step model fitted to throughputs.
 *
 * Divisions: compute times / weights / the target / interface.
 */
#include "sim/step_fit.h"

#include "base/array.h"
#include "sim/batch_curve.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { SOLVE_ITERATIONS = 60 };
static const double SOLVE_TOLERANCE = 1e-7; /* of the step */

/* One draw as the rows leave it. */
struct account {
    size_t draw;
    bool possible;
    double log_weight;
    double *compute_s; /* of each batch */
    double *y;         /* of each row, by the step model */
};

struct lk_step_fit {
    struct lk_step_prior *prior;
    const struct lk_scaling_prior *law;
    double share;
    struct lk_scaling_point points[LK_SCALING_POINTS_MAX];
    size_t shapes[LK_SCALING_POINTS_MAX], batch_of[LK_SCALING_POINTS_MAX];
    size_t n;
    double batches[LK_SCALING_POINTS_MAX];
    size_t smallest[LK_SCALING_POINTS_MAX]; /* the row with the fewest GPUs of each batch */
    size_t n_batches;
    struct account *accounts; /* first all draws, then those kept */
    size_t n_accounts;
    double *numbers; /* of all accounts */
    double effective, log_evidence;
};

static double samples_a_rank(const struct lk_scaling_point *p)
{
    return p->local_batch * p->accumulation;
}

static double step_of(const struct lk_scaling_point *p)
{
    return samples_a_rank(p) * p->gpus / p->throughput;
}

static enum lk_status shape_of(struct lk_step_fit *f, const struct lk_scaling_point *p, size_t *out)
{
    struct lk_step_shape s = {.gpus = (int)p->gpus,
                              .nodes = (int)p->nodes,
                              .accumulation = (int)p->accumulation,
                              .cap_bytes = p->cap_bytes ? p->cap_bytes
                                                        : lk_step_prior_job(f->prior)->cap_bytes};

    return lk_step_prior_shape(f->prior, &s, out);
}

/* ---- Compute times ---- */

static enum lk_status find_batches(struct lk_step_fit *f)
{
    enum lk_status st = LK_OK;

    for (size_t i = 0; i < f->n; i++) {
        const struct lk_scaling_point *p = &f->points[i];
        size_t b = 0;

        while (b < f->n_batches && f->batches[b] < p->local_batch)
            b++;
        if (b == f->n_batches || f->batches[b] != p->local_batch) {
            memmove(&f->batches[b + 1], &f->batches[b], (f->n_batches - b) * sizeof *f->batches);
            memmove(&f->smallest[b + 1], &f->smallest[b], (f->n_batches - b) * sizeof *f->smallest);
            f->batches[b] = p->local_batch;
            f->smallest[b] = i;
            f->n_batches++;
        }
        if (p->gpus < f->points[f->smallest[b]].gpus)
            f->smallest[b] = i;
        LK_TRY(shape_of(f, p, &f->shapes[i]));
    }
    for (size_t i = 0; i < f->n; i++)
        for (size_t b = 0; b < f->n_batches; b++)
            if (f->batches[b] == f->points[i].local_batch)
                f->batch_of[i] = b;
out:
    return st;
}

/*
 * Compute of a micro-batch that makes the draw's step as long as measured: regula falsi with the
 * Illinois rule, since the step grows with compute, in straight pieces. usual_s 0: this batch's own
 * compute is the usual one. 0: even without compute the step would be longer.
 */
static enum lk_status solve(struct lk_step_fit *f, size_t draw, size_t row, double usual_s,
                            double *out)
{
    enum lk_status st = LK_OK;
    double target = step_of(&f->points[row]), lo = 0, hi = target / f->points[row].accumulation;
    double at_lo, at_hi, t = hi, at;
    int side = 0;

    *out = 0;
    LK_TRY(lk_step_prior_step_s(f->prior, draw, f->shapes[row], 0, usual_s, NULL, &at_lo));
    LK_TRY(lk_step_prior_step_s(f->prior, draw, f->shapes[row], hi, usual_s > 0 ? usual_s : hi,
                                NULL, &at_hi));
    at_lo -= target;
    at_hi -= target;
    if (at_lo >= 0)
        return LK_OK;
    for (int i = 0; i < SOLVE_ITERATIONS && at_hi > 0; i++) {
        t = (lo * at_hi - hi * at_lo) / (at_hi - at_lo);
        LK_TRY(lk_step_prior_step_s(f->prior, draw, f->shapes[row], t, usual_s > 0 ? usual_s : t,
                                    NULL, &at));
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
out:
    return st;
}

/* The fixed part belongs to the first batch. */
static enum lk_status explain(struct lk_step_fit *f, struct account *a)
{
    enum lk_status st = LK_OK;

    a->possible = true;
    for (size_t b = 0; b < f->n_batches && a->possible; b++) {
        LK_TRY(solve(f, a->draw, f->smallest[b], b ? a->compute_s[0] : 0, &a->compute_s[b]));
        a->possible = a->compute_s[b] > 0;
    }
    for (size_t i = 0; i < f->n && a->possible; i++) {
        double s;

        LK_TRY(lk_step_prior_step_s(f->prior, a->draw, f->shapes[i], a->compute_s[f->batch_of[i]],
                                    a->compute_s[0], NULL, &s));
        a->y[i] = log(s / samples_a_rank(&f->points[i]));
    }
out:
    return st;
}

/* ---- Weights ---- */

static enum lk_status add_account(struct lk_step_fit *f, const struct account *a,
                                  const struct lk_scaling_point *target, double target_y,
                                  struct lk_mixture *out)
{
    struct lk_scaling_point rows[LK_SCALING_POINTS_MAX], t = *target;

    for (size_t i = 0; i < f->n; i++) {
        rows[i] = f->points[i];
        rows[i].model = a->y[i];
    }
    t.model = target_y;
    return lk_scaling_predict(f->law, rows, f->n, &t, f->share, 0, out);
}

static enum lk_status weigh(struct lk_step_fit *f, struct account *a, struct lk_mixture *scratch)
{
    enum lk_status st = LK_OK;

    a->log_weight = -INFINITY;
    if (!a->possible)
        return LK_OK;
    scratch->n = 0;
    LK_TRY(add_account(f, a, &f->points[f->n - 1], a->y[f->n - 1], scratch));
    lk_mixture_normalise(scratch, &a->log_weight);
out:
    return st;
}

/*
 * Keeps one draw in LK_STEP_FIT_PROPOSALS, each as often as its weight says (systematic
 * resampling), so that they weigh the same; what they weigh together stays.
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

/* A batch that was not measured: by the curve through those that were. */
static enum lk_status compute_of(const struct lk_step_fit *f, const struct account *a,
                                 double local_batch, double *out)
{
    enum lk_status st = LK_OK;
    struct lk_job_compute rows[LK_SCALING_POINTS_MAX];
    struct lk_batch_point p;
    char assumed[] = "assumed";
    /* Flops a sample only say that one batch's rate holds for the next. */
    struct lk_job j = {
        .name = "table",
        .compute = rows,
        .n_compute = f->n_batches,
        .flops_per_sample = {.value = 1, .source = assumed}
    };

    for (size_t b = 0; b < f->n_batches; b++) {
        if (f->batches[b] == local_batch) {
            *out = a->compute_s[b];
            return LK_OK;
        }
        rows[b] = (struct lk_job_compute){
            .local_batch = (int)f->batches[b],
            .forward_s = {.value = a->compute_s[b], .source = assumed},
            .backward_s = lk_quantity_none(),
            .input_s = lk_quantity_none(),
            .optimizer_s = lk_quantity_none(),
            .gap_s = lk_quantity_none(),
            .transient = lk_quantity_none()
        };
    }
    LK_TRY(lk_batch_curve_at(&j, (int)local_batch, &p));
    *out = p.forward_s;
out:
    return st;
}

static enum lk_status step_at(struct lk_step_fit *f, const struct account *a, size_t shape,
                              const struct lk_scaling_point *target, double *losses_s, double *out)
{
    enum lk_status st = LK_OK;
    double compute_s;

    LK_TRY(compute_of(f, a, target->local_batch, &compute_s));
    LK_TRY(
        lk_step_prior_step_s(f->prior, a->draw, shape, compute_s, a->compute_s[0], losses_s, out));
out:
    return st;
}

/* ---- Interface ---- */

enum lk_status lk_step_fit_predict(struct lk_step_fit *f, const struct lk_scaling_point *target,
                                   double log_weight, struct lk_mixture *out)
{
    enum lk_status st = LK_OK;
    struct lk_mixture one = {0};
    size_t shape;

    LK_TRY(shape_of(f, target, &shape));
    for (size_t i = 0; i < f->n_accounts; i++) {
        const struct account *a = &f->accounts[i];
        double s;

        one.n = 0;
        LK_TRY(step_at(f, a, shape, target, NULL, &s));
        LK_TRY(add_account(f, a, target, log(s / samples_a_rank(target)), &one));
        lk_mixture_normalise(&one, NULL);
        LK_TRY(lk_mixture_append(out, &one, a->log_weight + log_weight));
    }
out:
    lk_mixture_fini(&one);
    return st;
}

enum lk_status lk_step_fit_losses(struct lk_step_fit *f, const struct lk_scaling_point *target,
                                  double out_shares[LK_LOSS_COUNT])
{
    enum lk_status st = LK_OK;
    double losses_s[LK_LOSS_COUNT], all = 0;
    size_t shape;

    memset(out_shares, 0, LK_LOSS_COUNT * sizeof *out_shares);
    LK_TRY(shape_of(f, target, &shape));
    for (size_t i = 0; i < f->n_accounts; i++)
        all += exp(f->accounts[i].log_weight - f->accounts[0].log_weight);
    for (size_t i = 0; i < f->n_accounts; i++) {
        double w = exp(f->accounts[i].log_weight - f->accounts[0].log_weight) / all, s;

        memset(losses_s, 0, sizeof losses_s);
        LK_TRY(step_at(f, &f->accounts[i], shape, target, losses_s, &s));
        for (int k = 0; k < LK_LOSS_COUNT; k++)
            out_shares[k] += w * losses_s[k] / s;
    }
out:
    return st;
}

const struct lk_cluster *lk_step_fit_cluster(const struct lk_step_fit *f)
{
    return lk_step_prior_cluster(f->prior);
}

double lk_step_fit_effective(const struct lk_step_fit *f)
{
    return f->effective;
}

double lk_step_fit_log_evidence(const struct lk_step_fit *f)
{
    return f->log_evidence;
}

static enum lk_status make_accounts(struct lk_step_fit *f)
{
    enum lk_status st = LK_OK;
    size_t draws = lk_step_prior_draws(f->prior), per = f->n_batches + f->n;
    struct lk_mixture scratch = {0};

    LK_TRY(lk_alloc(&f->accounts, draws, sizeof *f->accounts));
    LK_TRY(lk_alloc(&f->numbers, draws * per, sizeof *f->numbers));
    for (; f->n_accounts < draws; f->n_accounts++) {
        struct account *a = &f->accounts[f->n_accounts];

        *a = (struct account){.draw = f->n_accounts,
                              .compute_s = &f->numbers[f->n_accounts * per],
                              .y = &f->numbers[f->n_accounts * per + f->n_batches]};
        LK_TRY(explain(f, a));
        LK_TRY(weigh(f, a, &scratch));
    }
    LK_TRY(resample(f));
out:
    lk_mixture_fini(&scratch);
    return st;
}

enum lk_status lk_step_fit_create(struct lk_step_prior *prior, const struct lk_scaling_prior *law,
                                  double share, const struct lk_scaling_point *points, size_t n,
                                  struct lk_step_fit **out)
{
    enum lk_status st = LK_OK;
    struct lk_step_fit *f = NULL;

    if (!n || n > LK_SCALING_POINTS_MAX)
        return lk_fail(LK_EEVIDENCE, "a forecast takes 1 to %d measured throughputs, got %zu",
                       LK_SCALING_POINTS_MAX, n);
    LK_TRY(lk_alloc(&f, 1, sizeof *f));
    f->prior = prior;
    f->law = law;
    f->share = share;
    f->n = n;
    memcpy(f->points, points, n * sizeof *points);
    LK_TRY(find_batches(f));
    LK_TRY(make_accounts(f));
    *out = f;
    f = NULL;
out:
    lk_step_fit_destroy(f);
    return st;
}

void lk_step_fit_destroy(struct lk_step_fit *f)
{
    if (!f)
        return;
    free(f->accounts);
    free(f->numbers);
    free(f);
}
