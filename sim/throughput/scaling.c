/* The scaling law: normal given scale, irregularity and contention, summed over a grid of them. */
#include "sim/throughput/scaling.h"

#include "base/array.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

const struct lk_scaling_prior lk_scaling_default = {
#define LK_SCALING_VALUE_(field, value, text) .field = (value),
    LK_SCALING_LIST(LK_SCALING_VALUE_)
#undef LK_SCALING_VALUE_
};

/* ---- Mixtures ---- */

static const double SQRT2 = 1.4142135623730951;
static const double NEGLIGIBLE_LN = -20.7; /* ln of 1e-9 */

void lk_mixture_fini(struct lk_mixture *m)
{
    free(m->parts);
    memset(m, 0, sizeof *m);
}

enum lk_status lk_mixture_add(struct lk_mixture *m, double log_weight, double mean, double sd)
{
    LK_PASS(lk_array_grow(&m->parts, &m->capacity, m->n + 1, sizeof *m->parts));
    m->parts[m->n++] = (struct lk_mixture_part){log_weight, mean, sd};
    return LK_OK;
}

enum lk_status lk_mixture_append(struct lk_mixture *m, const struct lk_mixture *from,
                                 double log_weight)
{
    LK_PASS(lk_array_grow(&m->parts, &m->capacity, m->n + from->n, sizeof *m->parts));
    for (size_t i = 0; i < from->n; i++) {
        m->parts[m->n] = from->parts[i];
        m->parts[m->n++].log_weight += log_weight;
    }
    return LK_OK;
}

/* Return ln of the sum of the weights. */
static double log_sum(const struct lk_mixture *m)
{
    double max = -INFINITY, sum = 0;

    for (size_t i = 0; i < m->n; i++)
        max = fmax(max, m->parts[i].log_weight);
    for (size_t i = 0; i < m->n; i++)
        sum += exp(m->parts[i].log_weight - max);
    return max + log(sum);
}

void lk_mixture_normalise(struct lk_mixture *m, double *out_log_sum)
{
    double total = log_sum(m);
    size_t kept = 0;

    if (out_log_sum)
        *out_log_sum = total;
    for (size_t i = 0; i < m->n; i++)
        if (m->parts[i].log_weight - total > NEGLIGIBLE_LN)
            m->parts[kept++] = m->parts[i];
    m->n = kept;
    total = log_sum(m);
    for (size_t i = 0; i < m->n; i++)
        m->parts[i].log_weight -= total;
}

double lk_mixture_cdf(const struct lk_mixture *m, double x)
{
    double sum = 0;

    for (size_t i = 0; i < m->n; i++) {
        const struct lk_mixture_part *p = &m->parts[i];

        sum += exp(p->log_weight) * 0.5 * erfc((p->mean - x) / (p->sd * SQRT2));
    }
    return sum;
}

double lk_mixture_quantile(const struct lk_mixture *m, double q)
{
    double lo = INFINITY, hi = -INFINITY, width;

    for (size_t i = 0; i < m->n; i++) {
        lo = fmin(lo, m->parts[i].mean - 7 * m->parts[i].sd);
        hi = fmax(hi, m->parts[i].mean + 7 * m->parts[i].sd);
    }
    width = hi - lo;
    while (hi - lo > 1e-9 * width) {
        double mid = lo + (hi - lo) / 2;

        if (lk_mixture_cdf(m, mid) < q)
            lo = mid;
        else
            hi = mid;
    }
    return lo + (hi - lo) / 2;
}

/* ---- The law ---- */

enum effect { ONCE, EXCHANGE, SKEW, CONTENTION, CROSSING, HOPS, GROWTH, EFFECT_COUNT };

/* The sd of the unknown c, in ln units. */
static const double FREE_SD = 5;
static const double LN_SQRT_2PI = 0.91893853320467274;
static const double LN2 = 0.69314718055994531;

/* Gauss-Hermite nodes and weights of the standard normal distribution (Abramowitz and Stegun,
 * table 25.10, x sqrt 2 and w / sqrt pi). */
static const double scale_nodes[][2] = {
    {-3.7504397177257425, 0.00054826885597221}, {-2.3667594107345416, 0.03075712396758650},
    {-1.1544053947399682, 0.24012317860501271}, {0, 0.45714285714285714},
    {1.1544053947399682, 0.24012317860501271},  {2.3667594107345416, 0.03075712396758650},
    {3.7504397177257425, 0.00054826885597221},
};
static const double regularity_nodes[][2] = {
    {-1.7320508075688773, 1.0 / 6},
    {0, 2.0 / 3},
    {1.7320508075688773, 1.0 / 6},
};

/* A point in the variables of the law. */
struct row {
    double y, effect[EFFECT_COUNT];
    double lg_gpus, lg_ranks, lg_nodes; /* log2; ranks of a node */
    double lg_batch;                    /* log2 of the local batch over the target's */
    double lg_samples;                  /* log2 of the samples a rank and step */
};

double lk_scaling_y(const struct lk_scaling_point *p)
{
    return log(p->config.world_size / p->throughput);
}

static double batch_of(const struct lk_scaling_point *p)
{
    return p->config.local_batch > 0 ? p->config.local_batch : 1;
}

static double samples_a_step(const struct lk_scaling_point *p)
{
    return batch_of(p) * (p->config.accumulation > 0 ? p->config.accumulation : 1);
}

static struct row make_row(const struct lk_scaling_prior *prior, const struct lk_scaling_point *p,
                           double reference_batch)
{
    const struct lk_config *c = &p->config;
    double l = (double)c->world_size / c->nodes;
    struct row r = {.lg_gpus = log2(c->world_size),
                    .lg_ranks = log2(l),
                    .lg_nodes = log2(c->nodes),
                    .lg_samples = log2(samples_a_step(p))};
    double ratio = exp2(-prior->hidden * log2(batch_of(p) / reference_batch)) *
                   pow(samples_a_step(p) / batch_of(p), -prior->amortised);

    r.y = p->throughput > 0 ? lk_scaling_y(p) : 0;
    r.lg_batch = c->local_batch > 0 ? log2(c->local_batch) : 0;
    r.effect[ONCE] = c->world_size > 1 ? ratio : 0;
    r.effect[EXCHANGE] = ratio * (1 - 1 / l);
    r.effect[SKEW] = ratio * r.lg_ranks;
    r.effect[CONTENTION] = (l - 1) / 8;
    r.effect[CROSSING] = ratio * (1 - 1.0 / c->nodes);
    r.effect[HOPS] = ratio * r.lg_nodes;
    r.effect[GROWTH] = ratio * r.lg_nodes * fmax(0, r.lg_nodes - 1) / 2;
    return r;
}

enum { CELLS = LK_COUNT(scale_nodes) * LK_COUNT(regularity_nodes) * 2 };

/* One cell of the grid, with what does not depend on measurements: the means of all rows before
 * any is seen, and the factor of their covariance, (n + 1) x (n + 1). */
struct cell {
    double s, u, theta[EFFECT_COUNT], log_weight;
    double *mean, *lower;
};

/* Row n is the target. */
struct lk_scaling_law {
    struct lk_scaling_prior prior;
    struct row rows[LK_SCALING_POINTS_MAX + 1];
    size_t n;
    struct cell cells[CELLS];
    double *numbers; /* of all cells */
};

static double mean_of(const struct lk_scaling_prior *p, const struct cell *c, const struct row *r)
{
    double sum = -p->batch * r->lg_batch;

    for (int f = 0; f < EFFECT_COUNT; f++)
        sum += c->s * c->theta[f] * r->effect[f];
    return sum;
}

/* Return the covariance of a Brownian motion that is 0 at 0, on both sides of it. */
static double brownian(double a, double b)
{
    return a * b > 0 ? fmin(fabs(a), fabs(b)) : 0;
}

static double covariance(const struct lk_scaling_prior *p, const struct cell *c,
                         const struct row *a, const struct row *b, bool same)
{
    double su = c->s * c->u, v = 0;

    for (int f = 0; f < EFFECT_COUNT; f++)
        v += c->theta[f] * c->theta[f] * a->effect[f] * b->effect[f] *
             (f == ONCE ? p->once_spread * p->once_spread : p->spread * p->spread);
    v *= c->s * c->s;
    v += su * su * p->walk * p->walk * brownian(a->lg_ranks, b->lg_ranks);
    v += su * su * p->walk_nodes * p->walk_nodes * brownian(a->lg_nodes, b->lg_nodes);
    v += p->batch_walk * p->batch_walk * brownian(a->lg_batch, b->lg_batch);
    if (same)
        v += c->u * c->u * p->sigma * p->sigma +
             (a->lg_gpus > 0 ? su * su * p->kappa * p->kappa : 0);
    return v + FREE_SD * FREE_SD;
}

/* Compute Cholesky's factor of the rows' covariance, row by row. */
static void factorise(const struct lk_scaling_law *law, struct cell *c)
{
    const struct row *rows = law->rows;
    size_t m = law->n + 1;

    for (size_t i = 0; i < m; i++) {
        double *li = &c->lower[i * m], rest = covariance(&law->prior, c, &rows[i], &rows[i], true);

        c->mean[i] = mean_of(&law->prior, c, &rows[i]);
        for (size_t j = 0; j < i; j++) {
            double v = covariance(&law->prior, c, &rows[i], &rows[j], false);

            for (size_t k = 0; k < j; k++)
                v -= li[k] * c->lower[j * m + k];
            li[j] = v / c->lower[j * m + j];
            rest -= li[j] * li[j];
        }
        li[i] = sqrt(fmax(rest, 1e-12));
    }
}

/* Compute the target's mean given y of the n rows before it, and the log evidence of these. */
static double condition(const struct cell *c, const double *y, size_t n, double *out_log_evidence)
{
    double z[LK_SCALING_POINTS_MAX], predicted = 0;

    *out_log_evidence = 0;
    for (size_t i = 0; i <= n; i++) {
        const double *li = &c->lower[i * (n + 1)];

        predicted = c->mean[i];
        for (size_t j = 0; j < i; j++)
            predicted += li[j] * z[j];
        if (i == n)
            break;
        z[i] = (y[i] - predicted) / li[i];
        *out_log_evidence -= z[i] * z[i] / 2 + log(li[i]) + LN_SQRT_2PI;
    }
    return predicted;
}

/*
 * Return the most that y is expected to grow to from the largest count of the target's batch below
 * the target; infinity: there is none. Ranks that share a saturated host or network take turns, so
 * more of them bring no more samples a second, but hardly fewer.
 */
static double ceiling(const struct row *rows, const double *y, size_t n)
{
    const struct row *t = &rows[n];
    size_t nearest = n;

    for (size_t i = 0; i < n; i++)
        if (rows[i].lg_gpus < t->lg_gpus && rows[i].lg_samples == t->lg_samples &&
            (nearest == n || rows[i].lg_gpus > rows[nearest].lg_gpus))
            nearest = i;
    return nearest < n ? y[nearest] + (t->lg_gpus - rows[nearest].lg_gpus) * LN2 : INFINITY;
}

/* Return the doublings of ranks and nodes from the nearest row to the target. */
static double doublings(const struct row *rows, size_t n)
{
    double nearest = INFINITY;

    for (size_t i = 0; i < n; i++)
        nearest = fmin(nearest, fabs(rows[n].lg_ranks - rows[i].lg_ranks) +
                                    fabs(rows[n].lg_nodes - rows[i].lg_nodes));
    return nearest;
}

static enum lk_status add_cell(const struct lk_scaling_law *law, const struct cell *c,
                               const double *y, double most, double model, double log_weight,
                               struct lk_mixture *out)
{
    size_t n = law->n;
    const struct lk_scaling_prior *p = &law->prior;
    double mean, sd = c->lower[(n + 1) * (n + 1) - 1], evidence;
    double jump = 1 - pow(1 - fmin(p->jump, 0.9), doublings(law->rows, n));
    double size = c->s * p->jump_size, recovery = p->recovery * jump;

    mean = fmin(condition(c, y, n, &evidence), most) + model;
    evidence += log_weight + c->log_weight - log1p(recovery);
    LK_PASS(lk_mixture_add(out, evidence + log1p(-jump), mean, sd));
    if (jump > 0)
        LK_PASS(lk_mixture_add(out, evidence + log(jump), mean + size, hypot(sd, size)));
    if (recovery > 0)
        LK_PASS(lk_mixture_add(out, evidence + log(recovery), mean - size, hypot(sd, size)));
    return LK_OK;
}

static void make_cells(struct lk_scaling_law *law, double model_share)
{
    const struct lk_scaling_prior *p = &law->prior;
    double contended = fmin(p->contended, 0.9), *numbers = law->numbers;
    size_t m = law->n + 1, at = 0;

    for (size_t i = 0; i < LK_COUNT(scale_nodes); i++)
        for (size_t j = 0; j < LK_COUNT(regularity_nodes); j++)
            for (int full = 0; full < 2; full++) {
                struct cell *c = &law->cells[at++];

                *c = (struct cell){.s = exp(p->omega * scale_nodes[i][0]),
                                   .u = exp(p->omega_u * regularity_nodes[j][0]),
                                   .theta = {model_share * p->once, model_share * p->exchange,
                                             p->skew, full ? p->contention : 0,
                                             model_share * p->crossing, model_share * p->hops,
                                             model_share * p->growth},
                                   .log_weight = log(scale_nodes[i][1] * regularity_nodes[j][1] *
                                                     (full ? contended : 1 - contended)),
                                   .mean = numbers,
                                   .lower = numbers + m};
                numbers += m + m * m;
                factorise(law, c);
            }
}

enum lk_status lk_scaling_law_create(const struct lk_scaling_prior *prior,
                                     const struct lk_scaling_point *points, size_t n,
                                     const struct lk_scaling_point *target, double model_share,
                                     struct lk_scaling_law **out)
{
    enum lk_status st = LK_OK;
    struct lk_scaling_law *law = NULL;
    double reference = batch_of(target);

    if (!n || n > LK_SCALING_POINTS_MAX)
        return lk_fail(LK_EEVIDENCE, "a forecast takes 1 to %d measured throughputs, got %zu",
                       LK_SCALING_POINTS_MAX, n);
    LK_TRY(lk_alloc(&law, 1, sizeof *law));
    law->prior = *prior;
    law->n = n;
    LK_TRY(lk_alloc(&law->numbers, CELLS * (n + 1) * (n + 2), sizeof *law->numbers));
    for (size_t i = 0; i <= n; i++) {
        law->rows[i] = make_row(prior, i < n ? &points[i] : target, reference);
        law->rows[i].lg_batch -= target->config.local_batch > 0 ? log2(reference) : 0;
    }
    make_cells(law, model_share);
    *out = law;
    law = NULL;
out:
    lk_scaling_law_destroy(law);
    return st;
}

void lk_scaling_law_destroy(struct lk_scaling_law *law)
{
    if (law)
        free(law->numbers);
    free(law);
}

enum lk_status lk_scaling_law_add(const struct lk_scaling_law *law, const double *model,
                                  double log_weight, struct lk_mixture *out)
{
    double y[LK_SCALING_POINTS_MAX], most;

    for (size_t i = 0; i < law->n; i++)
        y[i] = law->rows[i].y - (model ? model[i] : 0);
    most = ceiling(law->rows, y, law->n);
    for (size_t i = 0; i < CELLS; i++)
        LK_PASS(add_cell(law, &law->cells[i], y, most, model ? model[law->n] : 0, log_weight, out));
    return LK_OK;
}

enum lk_status lk_scaling_predict(const struct lk_scaling_prior *prior,
                                  const struct lk_scaling_point *points, size_t n,
                                  const struct lk_scaling_point *target, struct lk_mixture *out)
{
    enum lk_status st = LK_OK;
    struct lk_scaling_law *law = NULL;

    LK_TRY(lk_scaling_law_create(prior, points, n, target, 1, &law));
    LK_TRY(lk_scaling_law_add(law, NULL, 0, out));
out:
    lk_scaling_law_destroy(law);
    return st;
}
