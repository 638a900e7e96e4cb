#include "sim/step/bucket_cost.h"

#include "sim/prior.h"

#include <math.h>

/* The sd of a half-normal number over its mean. */
static const double HALF_NORMAL_SD = 0.7555;

struct lk_bucket_cost lk_bucket_cost_assumed(void)
{
    double s = lk_prior_value(LK_PRIOR_BUCKET);

    return (struct lk_bucket_cost){.s = s, .sd = HALF_NORMAL_SD * s};
}

double lk_bucket_cost_draw(const struct lk_bucket_cost *b, double z)
{
    return b->measured ? fmax(0, b->s + b->sd * z) : lk_prior_half_normal(b->s, z);
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

/* Return a position after the backward has grown, with this much of it charged before. */
static double moved(double position, double before_s, double backward_s, double grown_s)
{
    if (position <= LK_STEP_BACKWARD || position >= LK_STEP_OPTIMIZER)
        return position;
    return LK_STEP_BACKWARD +
           fmax(0, fmin(1, ((position - LK_STEP_BACKWARD) * backward_s + before_s) / grown_s));
}

double lk_bucket_cost_charge(struct lk_step_model *m, const struct lk_step_coll *plain,
                             struct lk_step_coll *colls, int own, double cost_s)
{
    int n = lk_bucket_count(plain, m->n_colls), done = 0;
    double backward_s = m->backward_s, each_s, grown_s;
    bool every = false;

    for (size_t i = 0; i < m->n_colls; i++)
        every |= is_bucket(&plain[i]) && plain[i].every_micro_batch;
    each_s = n ? cost_s * (n - own) / n / (every ? 1 : m->accumulation) : 0;
    grown_s = fmax(backward_s / 2, backward_s + each_s * n);
    each_s = n ? (grown_s - backward_s) / n : 0;
    for (size_t i = 0; i < m->n_colls; i++) {
        const struct lk_step_coll *at = &plain[i];

        done += is_bucket(at);
        colls[i].ready = at->ready;
        colls[i].need = at->need;
        if (grown_s > 0 && each_s != 0) {
            colls[i].ready = moved(at->ready, done * each_s, backward_s, grown_s);
            colls[i].need = moved(at->need, done * each_s, backward_s, grown_s);
        }
    }
    m->backward_s = grown_s;
    return (grown_s - backward_s) * m->accumulation;
}
