/* The cost of launches. Divisions: the cost / positions / charging. */
#include "sim/step/bucket_cost.h"

#include "sim/collective/coll_points.h"
#include "sim/prior.h"

#include <math.h>

/* ---- The cost ---- */

/* The sd of a half-normal number over its mean. */
static const double HALF_NORMAL_SD = 0.7555;

static double sd_of(const struct lk_quantity *q)
{
    double sd = (q->hi - q->lo) / 2 / LK_Z90;

    return isfinite(sd) ? sd : 0;
}

struct lk_bucket_cost lk_bucket_cost_of(const struct lk_cluster *c)
{
    double s = lk_prior_value(LK_PRIOR_BUCKET);
    struct lk_bucket_cost b = {
        .s = s, .sd = HALF_NORMAL_SD * s, .tensor_s = lk_prior_value(LK_PRIOR_TENSOR)};

    if (lk_quantity_known(&c->launch_s)) {
        b.s = c->launch_s.value;
        b.sd = sd_of(&c->launch_s);
        b.measured = true;
    }
    if (lk_quantity_known(&c->tensor_s)) {
        b.tensor_s = c->tensor_s.value;
        b.tensor_sd = sd_of(&c->tensor_s);
        b.tensor_measured = true;
    }
    return b;
}

double lk_bucket_cost_draw(const struct lk_bucket_cost *b, double z)
{
    return b->measured ? fmax(0, b->s + b->sd * z) : lk_prior_half_normal(b->s, z);
}

double lk_bucket_cost_draw_tensor(const struct lk_bucket_cost *b, double z)
{
    return b->tensor_measured ? fmax(0, b->tensor_s + b->tensor_sd * z)
                              : lk_prior_within(b->tensor_s, z);
}

static bool is_bucket(const struct lk_step_coll *c)
{
    return c->bucket >= 0 && c->ready > LK_STEP_BACKWARD;
}

int lk_bucket_count(const struct lk_step_coll *colls, size_t n)
{
    int buckets = 0;

    for (size_t i = 0; i < n; i++)
        buckets += is_bucket(&colls[i]);
    return buckets;
}

/* ---- Positions ---- */

enum phase { FORWARD, BACKWARD, OPTIMIZER, PHASES };

/* A part of a micro-batch, or of a step, that grows by what is launched in it. */
struct part {
    double was_s, launched_s, grown_s;
};

static enum phase phase_at(double position)
{
    return position <= LK_STEP_BACKWARD    ? FORWARD
           : position <= LK_STEP_OPTIMIZER ? BACKWARD
                                           : OPTIMIZER;
}

/* Return a position after its part has grown, with this much of it charged before. */
static double moved(const struct part *parts, double position, double before_s)
{
    enum phase at = phase_at(position);
    const struct part *p = &parts[at];

    if (position > LK_STEP_END || !(p->grown_s > 0) || p->launched_s == 0)
        return position;
    return (int)at + fmax(0, fmin(1, ((position - (int)at) * p->was_s + before_s) / p->grown_s));
}

/* Return what is charged in a part up to a position, from the last of the n collectives, by ready,
 * that are launched at or before it. */
static double charged_before(const struct part *parts, const struct lk_step_coll *plain,
                             const struct lk_step_coll *colls, size_t n, double position)
{
    size_t lo = 0, hi = n;
    enum phase at = phase_at(position);

    while (lo < hi) {
        size_t mid = (lo + hi) / 2;

        if (plain[mid].ready <= position)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (!lo || phase_at(plain[lo - 1].ready) != at)
        return 0;
    return (colls[lo - 1].ready - (int)at) * parts[at].grown_s -
           (plain[lo - 1].ready - (int)at) * parts[at].was_s;
}

/* ---- Charging ---- */

/* The cost of a launch: of a bucket (those of the job's own are not charged), of a gather, and of a
 * tensor. */
struct price {
    double bucket_s, gather_s, tensor_s;
};

/* Return what a collective costs a micro-batch, or the optimizer. */
static double launch_of(const struct lk_step_model *m, const struct lk_step_coll *c,
                        const struct price *p)
{
    double s = c->tensors * p->tensor_s + (is_bucket(c) ? p->bucket_s
                                           : c->tensors ? p->gather_s
                                                        : 0);

    return c->every_micro_batch || phase_at(c->ready) == OPTIMIZER ? s : s / m->accumulation;
}

static void grow(struct lk_step_model *m, const struct lk_step_coll *plain,
                 const struct price *price, struct part *parts)
{
    double *durations[PHASES] = {&m->forward_s, &m->backward_s, &m->optimizer_s};

    for (size_t i = 0; i < m->n_colls; i++)
        parts[phase_at(plain[i].ready)].launched_s += launch_of(m, &plain[i], price);
    for (int k = 0; k < PHASES; k++) {
        parts[k].was_s = *durations[k];
        parts[k].grown_s = fmax(parts[k].was_s / 2, parts[k].was_s + parts[k].launched_s);
        *durations[k] = parts[k].grown_s;
    }
}

double lk_bucket_cost_charge(struct lk_step_model *m, const struct lk_step_coll *plain,
                             struct lk_step_coll *colls, int own, const struct lk_bucket_cost *cost)
{
    int buckets = lk_bucket_count(plain, m->n_colls);
    struct price price = {.bucket_s = buckets ? cost->s * (buckets - own) / buckets : 0,
                          .gather_s = cost->s,
                          .tensor_s = cost->tensor_s};
    struct part parts[PHASES] = {{0}};
    double done_s[PHASES] = {0}, more_s = 0, latest = 0;

    grow(m, plain, &price, parts);
    for (size_t i = 0; i < m->n_colls; i++) {
        double ready = plain[i].ready;
        enum phase at = phase_at(ready);
        const struct part *p = &parts[at];

        if (p->launched_s != 0)
            done_s[at] += launch_of(m, &plain[i], &price) * (p->grown_s - p->was_s) / p->launched_s;
        latest = fmax(latest, moved(parts, ready, done_s[at]));
        colls[i].ready = latest;
    }
    for (size_t i = 0; i < m->n_colls; i++) {
        double need = plain[i].need;

        colls[i].need =
            fmax(colls[i].ready,
                 moved(parts, need, charged_before(parts, plain, colls, m->n_colls, need)));
    }
    for (int k = 0; k < PHASES; k++)
        more_s += (parts[k].grown_s - parts[k].was_s) * (k == OPTIMIZER ? 1 : m->accumulation);
    return more_s;
}
