/* Experiments of the doctor, and what they would tell. Divisions: experiments / worth. */
#include "base/array.h"
#include "base/rng.h"
#include "sim/throughput/doctor_impl.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Experiments ---- */

typedef bool change(struct lk_trial *t); /* false: it makes no sense there */

static bool keep(struct lk_trial *t)
{
    (void)t;
    return true;
}

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
    t->config.world_size = doctor_ranks_of_node(&t->config);
    t->config.nodes = t->config.nodes > 1 ? 1 : 0;
    return t->config.nodes == 1 && t->config.world_size > 1;
}

static const struct {
    const char *name;
    change *make;
    change *then; /* NULL: it is one run */
    bool profiled;
} experiments[] = {
    {"synthetic", make_synthetic, NULL, false},
    {"apart", set_apart, NULL, false},
    {"apart-synthetic", set_both, NULL, false},
    {"accumulate-x4", accumulate, NULL, false},
    {"batch-x2", enlarge_batch, NULL, false},
    {"no-sync", set_no_sync, NULL, false},
    {"half", take_half, NULL, false},
    {"one-node", take_node, NULL, false},
    {"profile", keep, NULL, true},
    {"profile-nodes", keep, take_node, true},
};

static bool make_experiment(const struct doctor *w, size_t i, struct lk_experiment *out)
{
    const struct lk_trial plain = {.config = w->most->trial.config};

    *out = (struct lk_experiment){
        .trials = {plain, plain}, .n_trials = 1, .profiled = experiments[i].profiled};
    snprintf(out->name, sizeof out->name, "%s", experiments[i].name);
    if (experiments[i].then && !experiments[i].then(&out->trials[out->n_trials++]))
        return false;
    return experiments[i].make(&out->trials[0]);
}

/* Return true if a run of an experiment tells a measure. A profile tells own times in parts. */
static bool tells(const struct lk_experiment *e, enum lk_measure m)
{
    return m == LK_MEASURE_RATE || (e->profiled && m != LK_MEASURE_OWN) ||
           (m == LK_MEASURE_SLOWEST && e->trials[0].apart);
}

static bool same_trial(const struct lk_trial *a, const struct lk_trial *b)
{
    return lk_config_equal(&a->config, &b->config) && a->no_sync == b->no_sync &&
           a->synthetic == b->synthetic && a->apart == b->apart;
}

/* Return true if a measure of a trial is known. */
static bool is_known(const struct lk_doctor_question *q, const struct lk_trial *t,
                     enum lk_measure m)
{
    for (size_t i = 0; i < q->n_rows; i++)
        if (same_trial(&q->rows[i].trial, t) && !isnan(q->rows[i].measured[m]))
            return true;
    return false;
}

/* Return true if a run of an experiment was made. Ranks' own times alone are no profile. */
static bool was_made(const struct lk_doctor_question *q, const struct lk_experiment *e)
{
    for (size_t i = 0; i < e->n_trials; i++)
        if (e->profiled ? is_known(q, &e->trials[i], LK_MEASURE_INPUT) ||
                              is_known(q, &e->trials[i], LK_MEASURE_WIRE)
                        : is_known(q, &e->trials[i], LK_MEASURE_RATE))
            return true;
    return false;
}

enum lk_status lk_doctor_trial(const struct lk_doctor_question *q, const char *name,
                               struct lk_trial *out)
{
    const struct doctor w = {.q = q, .most = lk_doctor_end(q, true)};
    enum lk_status st = LK_OK;
    struct lk_experiment e;
    char *list = NULL;

    if (!w.most)
        return lk_fail(LK_EUSAGE, "--result: of which rates?");
    for (size_t i = 0; i < LK_COUNT(experiments); i++) {
        if (experiments[i].profiled)
            continue;
        if (!strcmp(experiments[i].name, name)) {
            if (make_experiment(&w, i, &e))
                *out = e.trials[0];
            else
                st = lk_fail(LK_EUSAGE, "--result: '%s' makes no sense with %d GPUs on %d node%s",
                             name, w.most->trial.config.world_size, w.most->trial.config.nodes,
                             w.most->trial.config.nodes == 1 ? "" : "s");
            goto out;
        }
        LK_TRY(lk_text_add(&list, "%s%s", list ? ", " : "", experiments[i].name));
    }
    st = lk_fail(LK_EUSAGE, "--result: there is no experiment '%s'; there are: %s", name, list);
out:
    free(list);
    return st;
}

/* ---- Worth ---- */

/* A particle is a draw with what the experiment tells in it, scaled. */
enum { TOLD_MAX = LK_EXPERIMENT_TRIALS * LK_MEASURE_COUNT };
struct particle {
    enum lk_cause cause;
    double odds; /* of the draw; all sum to 1 */
    double told[TOLD_MAX];
};

struct particles {
    struct particle *at; /* by cause */
    size_t n, n_told;
};

/* Set what the draw tells of the measures that are not known, and the rate of the first run. What
 * is NaN is so in all draws, and left out. */
static enum lk_status tell(const struct doctor *w, const struct lk_experiment *e,
                           const struct doctor_draw *d, struct particle *p, size_t *n_told,
                           double *rate)
{
    *n_told = 0;
    *rate = NAN;
    for (size_t i = 0; i < e->n_trials; i++) {
        double told[LK_MEASURE_COUNT];

        LK_PASS(doctor_predict(w, d, &e->trials[i], told));
        if (i == 0)
            *rate = told[LK_MEASURE_RATE];
        for (int m = 0; m < LK_MEASURE_COUNT; m++)
            if (tells(e, (enum lk_measure)m) && !isnan(told[m]) &&
                !is_known(w->q, &e->trials[i], (enum lk_measure)m))
                p->told[(*n_told)++] = doctor_scaled(w, (enum lk_measure)m, told[m]);
    }
    return LK_OK;
}

/* Make the particles of an experiment, and the rates that each cause makes likely. */
static enum lk_status make_particles(const struct doctor *w, const struct lk_diagnosis *d,
                                     struct lk_experiment *e, struct particles *out)
{
    const double LEAST = 1e-4; /* of a cause's odds: lighter draws change nothing */

    LK_PASS(lk_alloc(&out->at, LK_CAUSE_COUNT * w->q->draws, sizeof *out->at));
    for (int c = 0; c < LK_CAUSE_COUNT; c++) {
        double total = w->mean_weight[c] * (double)w->q->draws, sum = 0, rate = NAN;

        e->rate[c] = NAN;
        if (!(d->odds[c] > 1e-3))
            continue;
        for (size_t i = 0; i < w->q->draws; i++) {
            const struct doctor_draw *draw = &w->draws[c][i];
            double weight = draw->weight / total;
            struct particle *p = &out->at[out->n];

            if (weight < LEAST)
                continue;
            LK_PASS(tell(w, e, draw, p, &out->n_told, &rate));
            p->cause = (enum lk_cause)c;
            p->odds = weight * d->odds[c];
            sum += weight * log(rate);
            out->n++;
        }
        e->rate[c] = exp(sum);
    }
    return LK_OK;
}

static double bits_of(const double odds[LK_CAUSE_COUNT])
{
    double bits = 0;

    for (int c = 0; c < LK_CAUSE_COUNT; c++)
        bits -= odds[c] > 0 ? odds[c] * log2(odds[c]) : 0;
    return bits;
}

/* Return the bits that are missing to the cause of a particle once the experiment told `told`,
 * which is of it. It does not explain itself. */
static double bits_after(const struct particles *all, const double told[TOLD_MAX], size_t teller)
{
    const double LEAST = 1e-3; /* few particles cannot tell smaller odds */
    enum lk_cause cause = all->at[teller].cause;
    double sum = 0, right = 0;

    for (size_t i = 0; i < all->n; i++) {
        const struct particle *p = &all->at[i];
        double likelihood = p->odds;

        for (size_t k = 0; k < all->n_told && likelihood > 0; k++)
            likelihood *= doctor_likelihood(told[k] - p->told[k]);
        if (i == teller)
            continue;
        sum += likelihood;
        right += p->cause == cause ? likelihood : 0;
    }
    return -log2(fmax(sum > 0 ? right / sum : 0, LEAST));
}

/* Set the information of an experiment: the bits that are missing on the cause, less those that are
 * after what a few particles of each cause, by their odds, would tell with noise. */
static enum lk_status judge(const struct doctor *w, const struct lk_diagnosis *d,
                            struct lk_experiment *e)
{
    enum { TELLERS = 16 };
    struct lk_rng g = lk_rng_init(w->q->seed, lk_rng_stream(e->name, 0));
    enum lk_status st = LK_OK;
    struct particles all = {0};
    double missing = 0, told[TOLD_MAX];

    LK_TRY(make_particles(w, d, e, &all));
    for (size_t i = 0, of = 0; i < all.n; of = i) { /* a cause's particles are those from `of` on */
        double sum = 0, odds = d->odds[all.at[of].cause];
        int n = 0;

        for (; i < all.n && all.at[i].cause == all.at[of].cause; i++)
            for (sum += all.at[i].odds; n < TELLERS && sum > (n + 0.5) / TELLERS * odds; n++) {
                for (size_t k = 0; k < all.n_told; k++)
                    told[k] = all.at[i].told[k] + lk_rng_normal(&g);
                missing += odds / TELLERS * bits_after(&all, told, i);
            }
    }
    e->bits = fmax(0, bits_of(d->odds) - missing);
out:
    free(all.at);
    return st;
}

static int by_bits(const void *x, const void *y)
{
    const struct lk_experiment *a = x, *b = y;

    return LK_ORDER(b->bits, a->bits);
}

enum lk_status doctor_judge(const struct doctor *w, struct lk_diagnosis *out)
{
    for (size_t i = 0; i < LK_COUNT(experiments); i++) {
        struct lk_experiment *e = &out->experiments[out->n_experiments];

        if (!make_experiment(w, i, e) || was_made(w->q, e))
            continue;
        LK_PASS(judge(w, out, e));
        out->n_experiments++;
    }
    qsort(out->experiments, out->n_experiments, sizeof *out->experiments, by_bits);
    return LK_OK;
}
