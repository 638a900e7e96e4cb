/* The scaling law: normal given scale, irregularity and contention, summed over a grid of them. */
#include "sim/throughput/scaling.h"

#include "base/array.h"
#include "sim/curve_shapes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const struct lk_scaling_prior lk_scaling_default = {
#define LK_SCALING_VALUE_(field, value, text) .field = (value),
    LK_SCALING_LIST(LK_SCALING_VALUE_)
#undef LK_SCALING_VALUE_
};

/* ---- The law ---- */

enum effect { ONCE, EXCHANGE, SKEW, CONTENTION, CROSSING, HOPS, GROWTH, EFFECT_COUNT };

/* The share of communication that a step model leaves to the law. */
static const double SHARE_BESIDE_STEPS = 0.3;
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
    double lg_batch;                    /* log2 of the local batch over the reference's */
    double lg_accumulation;             /* log2 */
    double floor;                       /* y by the share of a step that no batch shortens */
    double lg_samples;                  /* log2 of the samples a rank and step */
};

double lk_scaling_y(const struct lk_scaling_point *p)
{
    return log(p->config.world_size / p->throughput);
}

/* Make a row whose local batch is still absolute. */
static struct row make_row(const struct lk_scaling_point *p)
{
    const struct lk_config *c = &p->config;
    double l = (double)c->world_size / c->nodes;

    return (struct row){.y = p->throughput > 0 ? lk_scaling_y(p) : 0,
                        .lg_gpus = log2(c->world_size),
                        .lg_ranks = log2(l),
                        .lg_nodes = log2(c->nodes),
                        .lg_batch = c->local_batch > 0 ? log2(c->local_batch) : 0,
                        .lg_accumulation = c->accumulation > 0 ? log2(c->accumulation) : 0};
}

/* Return the effects of communication over those at the reference's batch without accumulation. */
static double effects_ratio(const struct lk_scaling_prior *p, const struct row *r)
{
    return exp2(-fmin(1, p->hidden) * r->lg_batch - p->amortised * r->lg_accumulation);
}

static void set_effects(struct row *r, double ratio)
{
    r->effect[ONCE] = r->lg_gpus > 0 ? ratio : 0;
    r->effect[EXCHANGE] = ratio * (1 - exp2(-r->lg_ranks));
    r->effect[SKEW] = ratio * r->lg_ranks;
    r->effect[CONTENTION] = (exp2(r->lg_ranks) - 1) / 8;
    r->effect[CROSSING] = ratio * (1 - exp2(-r->lg_nodes));
    r->effect[HOPS] = ratio * r->lg_nodes;
    r->effect[GROWTH] = ratio * r->lg_nodes * fmax(0, r->lg_nodes - 1) / 2;
}

enum { CELLS = LK_COUNT(scale_nodes) * LK_COUNT(regularity_nodes) * 2 };

/* One cell of the grid, with what does not depend on measurements: the means of all rows before
 * any is seen, and the factor of the covariance of the measured ones, with the projections of the
 * last two on these, n + 2 rows of n. */
struct cell {
    double s, u, theta[EFFECT_COUNT], log_weight;
    double *mean, *lower;
    double alone_var, shared_var,
        between;      /* of the last two and their covariance, given the rows */
    double noise_var; /* of a measurement of the target */
};

/*
 * The rows are the measured ones, the target as it would be with the batch and accumulation of the
 * reference, which is the row that has the nearest, and the target without effects of
 * communication.
 */
struct lk_scaling_law {
    struct lk_scaling_prior prior;
    struct row rows[LK_SCALING_POINTS_MAX + 2];
    size_t order[LK_SCALING_POINTS_MAX]; /* of the caller's points: those of the curve come last */
    size_t n, curve;                     /* first row of the curve */
    /* The curve is of the target's global batch, and not of the reference's batch and accumulation.
     */
    bool global;
    bool beside_steps;
    /* The target's batch and accumulation: by how many times they multiply the effects, and what
     * the floor adds to a step of the reference's batch, a sample and in shares of it. */
    double ratio, longer, reference_samples;
    struct cell cells[CELLS];
    double *numbers; /* of all cells */
};

static double mean_of(const struct cell *c, const struct row *r)
{
    double sum = r->floor;

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
                         const struct row *a, const struct row *b)
{
    double su = c->s * c->u, v = 0;

    for (int f = 0; f < EFFECT_COUNT; f++)
        v += c->theta[f] * c->theta[f] * a->effect[f] * b->effect[f] *
             (f == ONCE ? p->once_spread * p->once_spread : p->spread * p->spread);
    v *= c->s * c->s;
    v += su * su * p->walk * p->walk * brownian(a->lg_ranks, b->lg_ranks);
    v += su * su * p->walk_nodes * p->walk_nodes * brownian(a->lg_nodes, b->lg_nodes);
    v += p->batch_walk * p->batch_walk * brownian(a->lg_batch, b->lg_batch);
    return v + FREE_SD * FREE_SD;
}

/* Return the variance of a measurement. */
static double noise(const struct lk_scaling_prior *p, const struct cell *c, const struct row *r)
{
    double su = c->s * c->u;

    return c->u * c->u * p->sigma * p->sigma + (r->lg_gpus > 0 ? su * su * p->kappa * p->kappa : 0);
}

/* Return the covariance of rows i and k that is left given the measured rows before both. */
static double left(const struct lk_scaling_law *law, const struct cell *c, size_t i, size_t k)
{
    size_t n = law->n, before = i < k ? i : k;
    const double *li = &c->lower[i * n], *lk = &c->lower[k * n];
    double v = covariance(&law->prior, c, &law->rows[i], &law->rows[k]);

    for (size_t j = 0; j < n && j < before; j++)
        v -= li[j] * lk[j];
    return v;
}

/* Compute Cholesky's factor of the measured rows' covariance, row by row. */
static void factorise(const struct lk_scaling_law *law, struct cell *c)
{
    const struct row *rows = law->rows;
    size_t n = law->n;

    for (size_t i = 0; i < n + 2; i++) {
        c->mean[i] = mean_of(c, &rows[i]);
        for (size_t j = 0; j < n && j < i; j++)
            c->lower[i * n + j] = left(law, c, i, j) / c->lower[j * n + j];
        if (i < n)
            c->lower[i * n + i] =
                sqrt(fmax(left(law, c, i, i) + noise(&law->prior, c, &rows[i]), 1e-12));
    }
    c->shared_var = left(law, c, n, n);
    c->alone_var = left(law, c, n + 1, n + 1);
    c->between = left(law, c, n, n + 1);
    c->noise_var = noise(&law->prior, c, &rows[n]);
}

/* Compute the means of the two last rows given y of the measured ones, and the log evidence of
 * these up to each. */
static void condition(const struct cell *c, const double *y, size_t n, double *out_log_evidence,
                      double out_means[2])
{
    double z[LK_SCALING_POINTS_MAX], evidence = 0;

    for (size_t i = 0; i < n + 2; i++) {
        const double *li = &c->lower[i * n];
        double predicted = c->mean[i];

        for (size_t j = 0; j < n && j < i; j++)
            predicted += li[j] * z[j];
        if (i >= n) {
            out_means[i - n] = predicted;
            continue;
        }
        z[i] = (y[i] - predicted) / li[i];
        evidence -= z[i] * z[i] / 2 + log(li[i]) + LN_SQRT_2PI;
        out_log_evidence[i] = evidence;
    }
}

/*
 * Return what y gains from the reference's batch and accumulation to the target's: a step, of which
 * communication takes exp(e) - 1 times what it would take alone, is a sum of parts that each change
 * by their own rule. So a step of fewer samples is never a longer one. *out_slope: by e.
 */
static double moved(const struct lk_scaling_law *law, double e, double *out_slope)
{
    double sum = 1 + law->longer + expm1(fmax(0, e)) * law->ratio;

    *out_slope = 1;
    if (law->ratio == 1 && law->longer == 0)
        return 0;
    *out_slope = exp(fmax(0, e)) * law->ratio / sum;
    return log(sum) - fmax(0, e);
}

/* By how many times the last doubling's a doubling's growth of throughput may exceed it: of 501
 * pairs of neighbouring steps in published_scaling.csv one has 3.9 times, the next 2.4. Two grew
 * after a fall, by which no law could forecast them. */
static const double GROWTH_MOST = 4;

/*
 * Set the bounds of the mean of y at the target, on its curve, by the curve's counts below it;
 * infinite: there are none. Ranks that share a saturated host or network take turns: more of them
 * bring no more samples a second, but fewer only where the last two steps between counts did so.
 * Nor does a curve that grew no more grow again. The step from one GPU is no trend: communication
 * begins with it.
 */
static void set_bounds(const struct lk_scaling_law *law, const double *y, double *out_least,
                       double *out_most)
{
    const struct row *rows = law->rows, *t = &rows[law->n];
    double slope[2] = {LN2, LN2}, d;
    size_t last = law->n, steps = 0;

    *out_least = -INFINITY;
    *out_most = INFINITY;
    for (size_t i = law->curve; i < law->n && rows[i].lg_gpus < t->lg_gpus; i++) {
        d = last < law->n && rows[last].lg_gpus > 0 ? rows[i].lg_gpus - rows[last].lg_gpus : 0;
        if (d > 0) {
            slope[0] = steps++ ? slope[1] : LN2;
            slope[1] = (y[i] - y[last]) / d;
        }
        last = i;
    }
    if (last == law->n)
        return;
    d = t->lg_gpus - rows[last].lg_gpus;
    *out_most = y[last] + d * fmax(LN2, fmin(slope[0], slope[1]));
    if (steps && !law->beside_steps)
        *out_least = y[last] + d * (LN2 - GROWTH_MOST * fmax(0, LN2 - slope[1]));
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

/* Add a cell's parts, and to *log_evidence, of each row up to it, what this cell has. */
static enum lk_status add_cell(const struct lk_scaling_law *law, const struct cell *c,
                               const double *y, double least, double most, double log_weight,
                               double *log_evidence, struct lk_mixture *out)
{
    size_t n = law->n;
    const struct lk_scaling_prior *p = &law->prior;
    double mean, sd, slope, means[2], upto[LK_SCALING_POINTS_MAX], evidence;
    double jump = 1 - pow(1 - fmin(p->jump, 0.9), doublings(law->rows, n));
    double size = c->s * p->jump_size, recovery = p->recovery * jump;

    condition(c, y, n, upto, means);
    mean = law->global ? means[0] : fmax(least, fmin(means[0], most));
    mean += moved(law, mean - means[1], &slope);
    mean = law->global ? fmax(least, fmin(mean, most)) : mean;
    sd = sqrt(fmax(1e-12, c->noise_var + c->alone_var + 2 * slope * (c->between - c->alone_var) +
                              slope * slope * (c->shared_var - 2 * c->between + c->alone_var)));
    for (size_t i = law->curve; i < n; i++)
        log_evidence[i] = lk_log_add(log_evidence[i], c->log_weight + upto[i]);
    evidence = upto[n - 1] + log_weight + c->log_weight - log1p(recovery);
    LK_PASS(lk_mixture_add(out, evidence + log1p(-jump), mean, sd));
    if (jump > 0)
        LK_PASS(lk_mixture_add(out, evidence + log(jump), mean + size, hypot(sd, size)));
    if (recovery > 0)
        LK_PASS(lk_mixture_add(out, evidence + log(recovery), mean - size, hypot(sd, size)));
    return LK_OK;
}

static void make_cells(struct lk_scaling_law *law)
{
    const struct lk_scaling_prior *p = &law->prior;
    double contended = fmin(p->contended, 0.9), *numbers = law->numbers;
    double share = law->beside_steps ? SHARE_BESIDE_STEPS : 1;
    size_t n = law->n, at = 0;

    for (size_t i = 0; i < LK_COUNT(scale_nodes); i++)
        for (size_t j = 0; j < LK_COUNT(regularity_nodes); j++)
            for (int full = 0; full < 2; full++) {
                struct cell *c = &law->cells[at++];

                *c = (struct cell){.s = exp(p->omega * scale_nodes[i][0]),
                                   .u = exp(p->omega_u * regularity_nodes[j][0]),
                                   .theta = {share * p->once, share * p->exchange, p->skew,
                                             full ? p->contention : 0, share * p->crossing,
                                             share * p->hops, share * p->growth},
                                   .log_weight = log(scale_nodes[i][1] * regularity_nodes[j][1] *
                                                     (full ? contended : 1 - contended)),
                                   .mean = numbers,
                                   .lower = numbers + n + 2};
                numbers += (n + 2) * (n + 1);
                factorise(law, c);
            }
}

/* Return true if a row is on the curve of the reference's batch and accumulation, or on that of the
 * target's global batch. */
static bool is_on_curve(const struct lk_scaling_law *law, const struct row *r, bool global)
{
    const struct row *t = &law->rows[law->n];

    return fabs(global ? r->lg_samples + r->lg_gpus - t->lg_samples - t->lg_gpus
                       : r->lg_samples - law->reference_samples) < 1e-6;
}

/* Order the rows: those of the curve, of which there are more, come last, by GPUs. */
static void sort_rows(struct lk_scaling_law *law)
{
    size_t counts[2] = {0, 0};
    double key[LK_SCALING_POINTS_MAX];

    for (size_t i = 0; i < law->n; i++)
        for (int k = 0; k < 2; k++)
            counts[k] += is_on_curve(law, &law->rows[i], k);
    law->global = counts[1] > counts[0];
    law->curve = law->n - counts[law->global];
    for (size_t i = 0; i < law->n; i++) {
        struct row r = law->rows[i];
        double own = is_on_curve(law, &r, law->global) ? r.lg_gpus : -1;
        size_t k = i;

        for (; k > 0 && key[k - 1] > own; k--) {
            key[k] = key[k - 1];
            law->rows[k] = law->rows[k - 1];
            law->order[k] = law->order[k - 1];
        }
        key[k] = own;
        law->rows[k] = r;
        law->order[k] = i;
    }
}

/* Return the row whose batch is nearest to the target's, and of these the accumulation. */
static const struct row *reference_of(const struct lk_scaling_law *law)
{
    const struct row *t = &law->rows[law->n], *best = t;
    double least = INFINITY;

    for (size_t i = 0; i < law->n; i++) {
        const struct row *r = &law->rows[i];
        double off =
            fabs(r->lg_batch - t->lg_batch) + 1e-3 * fabs(r->lg_accumulation - t->lg_accumulation);

        if (off < least) {
            least = off;
            best = r;
        }
    }
    return best;
}

/*
 * Set what depends on batches: the effects, and the floor, which is the host's time and launches
 * and takes the share `batch` of a step of the largest measured batch.
 */
static void set_batches(struct lk_scaling_law *law)
{
    const struct lk_scaling_prior *p = &law->prior;
    struct row *target = &law->rows[law->n];
    const struct row reference = *reference_of(law);
    double largest = -INFINITY, share;

    for (size_t i = 0; i < law->n; i++)
        largest = fmax(largest, law->rows[i].lg_batch);
    for (size_t i = 0; i <= law->n; i++) {
        struct row *r = &law->rows[i];

        r->lg_samples = r->lg_batch + r->lg_accumulation;
        r->floor = log1p(p->batch * (exp2(largest - r->lg_batch) - 1));
        r->lg_batch -= reference.lg_batch;
        set_effects(r, effects_ratio(p, r));
    }
    law->reference_samples = reference.lg_batch + reference.lg_accumulation;
    law->ratio = exp2(-p->amortised * (target->lg_accumulation - reference.lg_accumulation)) *
                 exp2(-fmin(1, p->hidden) * target->lg_batch);
    share = p->batch * exp2(largest - reference.lg_batch) /
            (1 + p->batch * (exp2(largest - reference.lg_batch) - 1));
    law->longer = share * (exp2(-target->lg_batch) - 1);
    target->floor = log1p(p->batch * (exp2(largest - reference.lg_batch) - 1));
    set_effects(target, exp2(-p->amortised * reference.lg_accumulation));
    law->rows[law->n + 1] = *target;
    set_effects(&law->rows[law->n + 1], 0);
}

enum lk_status lk_scaling_law_create(const struct lk_scaling_prior *prior,
                                     const struct lk_scaling_point *points, size_t n,
                                     const struct lk_scaling_point *target, bool beside_steps,
                                     struct lk_scaling_law **out)
{
    enum lk_status st = LK_OK;
    struct lk_scaling_law *law = NULL;

    if (!n || n > LK_SCALING_POINTS_MAX)
        return lk_fail(LK_EEVIDENCE, "a forecast takes 1 to %d measured throughputs, got %zu",
                       LK_SCALING_POINTS_MAX, n);
    LK_TRY(lk_alloc(&law, 1, sizeof *law));
    law->prior = *prior;
    law->n = n;
    law->beside_steps = beside_steps;
    if (beside_steps) {
        law->prior.batch = law->prior.batch_walk = 0;
        law->prior.hidden = law->prior.amortised = 0;
    }
    LK_TRY(lk_alloc(&law->numbers, CELLS * (n + 1) * (n + 2), sizeof *law->numbers));
    for (size_t i = 0; i <= n; i++)
        law->rows[i] = make_row(i < n ? &points[i] : target);
    set_batches(law);
    sort_rows(law);
    make_cells(law);
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

/* Add what the shapes say of a curve of two rows or more. log_evidence: of rows up to each. What
 * the curve lost from its first row counts as communication. */
static enum lk_status add_shapes(const struct lk_scaling_law *law, const double *y,
                                 const double *log_evidence, double least, double log_weight,
                                 struct lk_mixture *out)
{
    const struct lk_scaling_prior *p = &law->prior;
    const struct lk_shape_prior shapes = {.saturated = p->saturated,
                                          .falling = p->falling,
                                          .falling_spread = p->falling_spread,
                                          .levelled = p->levelled,
                                          .jump = p->jump,
                                          .jump_size = p->jump_size,
                                          .recovery = p->recovery,
                                          .serial = p->serial,
                                          .serial_share = p->serial_share,
                                          .serial_spread = p->serial_spread,
                                          .serial_error = p->serial_error};
    double lg_gpus[LK_SCALING_POINTS_MAX];
    const struct lk_shape_rows rows = {.lg_gpus = lg_gpus,
                                       .y = y + law->curve,
                                       .n = law->n - law->curve,
                                       .target_lg_gpus = law->rows[law->n].lg_gpus,
                                       .least_y = least,
                                       .log_evidence = log_evidence + law->curve};

    size_t first = out->n;
    double slope;

    for (size_t i = 0; i < rows.n; i++)
        lg_gpus[i] = law->rows[law->curve + i].lg_gpus;
    LK_PASS(lk_shapes_add(&shapes, &rows, log_weight, out));
    for (size_t i = first; i < out->n && !law->global; i++) {
        struct lk_mixture_part *part = &out->parts[i];

        part->mean += moved(law, part->mean - rows.y[0], &slope);
        part->sd *= slope;
    }
    return LK_OK;
}

enum lk_status lk_scaling_law_add(const struct lk_scaling_law *law, const double *model,
                                  double log_weight, struct lk_mixture *out)
{
    double y[LK_SCALING_POINTS_MAX], log_evidence[LK_SCALING_POINTS_MAX], least, most;
    bool shapes = !law->beside_steps && law->n - law->curve > 1;
    size_t first = out->n;

    for (size_t i = 0; i < law->n; i++) {
        y[i] = law->rows[i].y - (model ? model[law->order[i]] : 0);
        log_evidence[i] = -INFINITY;
    }
    set_bounds(law, y, &least, &most);
    for (size_t i = 0; i < CELLS; i++)
        LK_PASS(add_cell(law, &law->cells[i], y, least, most, log_weight, log_evidence, out));
    if (shapes)
        LK_PASS(add_shapes(law, y, log_evidence, least, log_weight, out));
    for (size_t i = first; i < out->n && model; i++)
        out->parts[i].mean += model[law->n];
    return LK_OK;
}

enum lk_status lk_scaling_predict(const struct lk_scaling_prior *prior,
                                  const struct lk_scaling_point *points, size_t n,
                                  const struct lk_scaling_point *target, struct lk_mixture *out)
{
    enum lk_status st = LK_OK;
    struct lk_scaling_law *law = NULL;

    LK_TRY(lk_scaling_law_create(prior, points, n, target, false, &law));
    LK_TRY(lk_scaling_law_add(law, NULL, 0, out));
out:
    lk_scaling_law_destroy(law);
    return st;
}
