/*
 * The inverse of a forecast; see goal.h. Private to the pipeline.
 *
 * Divisions: what can be chosen / probability / choices / what limits / sentences.
 */
#include "sim/forecast/goal.h"

#include "base/array.h"
#include "base/rng.h"
#include "base/stats.h"
#include "base/units.h"
#include "facts/forecast_answer.h"
#include "sim/forecast/contradiction.h"
#include "sim/forecast/forecast.h"
#include "sim/forecast/pipeline.h"
#include "sim/planning/plan.h"
#include "sim/prior.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static const double S_PER_HOUR = 3600;

static const char *const limit_words[LK_GOAL_LIMIT_COUNT] = {LK_GOAL_LIMIT_LIST(LK_WORD_NAME)};

/* A goal and what it is held to; a limit may be lifted. */
struct seek {
    const struct lk_pipeline *w;
    const struct lk_goal *goal;
    enum lk_goal_limit lifted; /* COUNT: none is */
    double reach;              /* of the forecast's intervals, in sd */
    double *z, *z_step;        /* of each draw: standard normal */
    double *probability;       /* of each point; NaN: it cannot be chosen */
    bool *reaches;
};

static const struct lk_item *item_of(const struct lk_pipeline *w, size_t point)
{
    return &w->all.v[w->points[point].item];
}

/* ---- What can be chosen ---- */

/* Returns true if plain DDP of a sharded configuration does not fit in memory. */
static bool needs_sharding(const struct lk_pipeline *w, const struct lk_item *i)
{
    struct lk_item plain = {.config = i->config, .machine = i->machine};

    lk_config_shard(&plain.config, LK_SHARDING_DDP, w->source->current.reduce);
    return lk_pipeline_too_large(w, &plain);
}

/* Returns true if a configuration was run, or (NULL) any sharded one. */
static bool was_run(const struct lk_pipeline *w, const struct lk_config *c)
{
    for (size_t i = 0; i < w->source->n_measured; i++) {
        const struct lk_measured *m = &w->source->measured[i];

        if (!isnan(m->step_s) &&
            (c ? lk_config_equal(&m->config, c) : m->config.sharding != LK_SHARDING_DDP))
            return true;
    }
    return false;
}

static bool learns(const struct lk_pipeline *w, const struct lk_item *i)
{
    const struct lk_job *j = w->source->job;
    double noise = j ? lk_plan_noise_scale(j, w->request->plan) : NAN;

    return w->request->goal->has_samples || !(lk_config_samples(&i->config) > noise);
}

int lk_goal_bar(const struct lk_pipeline *w, const struct lk_item *i)
{
    bool sharded = i->config.sharding != LK_SHARDING_DDP;

    if (!lk_config_is_synchronous(&i->config) ||
        (sharded && !was_run(w, NULL) && !needs_sharding(w, i)))
        return LK_GOAL_NEVER;
    if (!was_run(w, &i->config) && lk_pipeline_too_large(w, i))
        return LK_GOAL_MEMORY;
    return learns(w, i) ? LK_GOAL_LIMIT_COUNT : LK_GOAL_BATCH;
}

static bool can_be_chosen(const struct seek *s, size_t point)
{
    const struct lk_item *i = item_of(s->w, point);
    int bar = lk_goal_bar(s->w, i);

    return !i->hidden && !isnan(i->at.step_s) &&
           (bar == LK_GOAL_LIMIT_COUNT || (bar >= 0 && bar == (int)s->lifted));
}

/* ---- Probability ---- */

/* How far a value moves with what is not the step: logarithms at one sd. */
struct spread {
    double up, down;
};

static double rest(double whole, double step)
{
    return sqrt(fmax(0, whole * whole - step * step));
}

/* An end that is not known is infinitely far. */
static struct spread beyond_step(const struct lk_forecast_point *p, double v, double lo, double hi,
                                 double reach)
{
    return (struct spread){
        .up = isnan(hi) ? INFINITY : rest(log(hi / v), log(p->step_hi_s / p->step_s)) / reach,
        .down = isnan(lo) ? INFINITY : rest(log(v / lo), log(p->step_s / p->step_lo_s)) / reach};
}

static double moved(const struct spread *s, double z)
{
    return exp(z > 0 ? z * s->up : z * s->down);
}

/* Returns a step of a draw over the estimate; without draws, by the ends of its interval. */
static double step_in_draw(const struct seek *s, const struct lk_item *i, size_t draw)
{
    const struct lk_prediction *p = &i->at;
    double z = s->z_step[draw];

    if (p->n_draws == (size_t)s->w->request->draws)
        return p->draws_s[draw] / p->step_s;
    return exp(z > 0 ? z / s->reach * log(p->hi_s / p->step_s)
                     : z / s->reach * log(p->step_s / p->lo_s));
}

/* A point's figures over what the goal allows: above 1 misses. 0: not asked for. */
struct shares {
    double time, cost, rate; /* at the estimate */
    struct spread of_time, of_cost;
};

static struct shares shares_of(const struct seek *s, size_t point)
{
    const struct lk_forecast_point *p = &s->w->out->points[point];
    const struct lk_plan *q = &p->plan;
    const struct lk_goal *g = s->goal;
    double rate = lk_pipeline_speed(s->w, point);
    struct shares r = {.of_time = beyond_step(p, q->time_to_target_h, q->time_to_target_lo_h,
                                              q->time_to_target_hi_h, s->reach),
                       .of_cost = beyond_step(p, q->cost_to_target, q->cost_to_target_lo,
                                              q->cost_to_target_hi, s->reach)};

    if (g->deadline_s > 0 && s->lifted != LK_GOAL_DEADLINE)
        r.time = q->time_to_target_h * S_PER_HOUR / g->deadline_s;
    if (g->budget > 0 && s->lifted != LK_GOAL_BUDGET)
        r.cost = q->cost_to_target / g->budget;
    if (g->throughput_per_s > 0 && s->lifted != LK_GOAL_RATE)
        r.rate = g->throughput_per_s / rate;
    return r;
}

/* Sets the probability of a point, and whether it reaches the goal. */
static void judge(struct seek *s, size_t point)
{
    const struct lk_item *i = item_of(s->w, point);
    size_t n = (size_t)s->w->request->draws, hits = 0;
    struct shares r;

    s->probability[point] = NAN;
    s->reaches[point] = false;
    if (!can_be_chosen(s, point))
        return;
    r = shares_of(s, point);
    for (size_t d = 0; d < n; d++) {
        double step = step_in_draw(s, i, d);
        double time = r.time > 0 ? r.time * step * moved(&r.of_time, s->z[d]) : 0;
        double cost = r.cost > 0 ? r.cost * step * moved(&r.of_cost, s->z[d]) : 0;

        hits += time <= 1 && cost <= 1 && r.rate * step <= 1;
    }
    s->probability[point] = (double)hits / (double)n;
    /* The quantile lies between two draws, both of which must hit. */
    s->reaches[point] = r.time <= 1 && r.cost <= 1 && r.rate <= 1 &&
                        (double)hits > ceil((double)(n - 1) * s->goal->probability);
}

/* ---- Choices ---- */

enum measure { BY_GPUS, BY_COST, BY_TIME };

static double measure_of(const struct seek *s, size_t point, enum measure by)
{
    const struct lk_forecast_point *p = &s->w->out->points[point];

    return by == BY_GPUS   ? p->config.world_size
           : by == BY_COST ? p->plan.cost_to_target
                           : p->plan.time_to_target_h;
}

int lk_goal_changes(const struct lk_pipeline *w, const struct lk_config *c)
{
    const struct lk_config *now = &w->source->current;

    return (c->local_batch != now->local_batch) + (c->accumulation != now->accumulation) +
           (c->cap_bytes != now->cap_bytes) + (c->sharding != now->sharding);
}

static int changes_of(const struct seek *s, size_t point)
{
    return lk_goal_changes(s->w, &item_of(s->w, point)->config);
}

/* Returns the point that reaches the goal with the least of a measure, or of those that the model
 * does not tell from it the one with fewest changes; SIZE_MAX: none does. Of equal counts of GPUs
 * the fastest is taken. *out_less: another has less. */
static size_t pick(const struct seek *s, enum measure by, bool *out_less)
{
    enum measure then = by == BY_GPUS ? BY_TIME : by;
    double least = INFINITY, most;
    size_t best = SIZE_MAX;

    for (size_t i = 0; i < s->w->n_points; i++)
        if (s->reaches[i])
            least = fmin(least, measure_of(s, i, by));
    most = by == BY_GPUS ? least : least * (1 + lk_prior_value(LK_PRIOR_RESOLUTION));
    for (size_t i = 0; i < s->w->n_points; i++) {
        int more;

        if (!s->reaches[i] || !(measure_of(s, i, by) <= most))
            continue;
        more = best == SIZE_MAX ? -1 : changes_of(s, i) - changes_of(s, best);
        if (more < 0 || (more == 0 && measure_of(s, i, then) < measure_of(s, best, then)))
            best = i;
    }
    *out_less = best < SIZE_MAX && measure_of(s, best, by) > least;
    return best;
}

/* Returns the likeliest point of all that can be chosen, the fastest of those that are alike. */
static size_t nearest_of(const struct seek *s)
{
    size_t best = SIZE_MAX;
    double near = INFINITY;

    for (size_t i = 0; i < s->w->n_points; i++) {
        struct shares r;
        double far;

        if (isnan(s->probability[i]))
            continue;
        r = shares_of(s, i);
        far = fmax(fmax(r.time, r.cost), r.rate);
        if (best == SIZE_MAX || s->probability[i] > s->probability[best] ||
            (s->probability[i] == s->probability[best] && far < near)) {
            best = i;
            near = far;
        }
    }
    return best;
}

/* ---- What limits ---- */

static void judge_all(struct seek *s, struct lk_goal_answer *out)
{
    *out = (struct lk_goal_answer){.nearest = SIZE_MAX, .limit = LK_GOAL_LIMIT_COUNT};
    for (size_t i = 0; i < s->w->n_points; i++) {
        judge(s, i);
        out->n_chosen += isnan(s->probability[i]) ? 0 : 1;
        out->n_reach += s->reaches[i];
    }
    out->smallest = pick(s, BY_GPUS, &(bool){false});
    out->cheapest = pick(s, BY_COST, &out->cheaper);
    out->fastest = pick(s, BY_TIME, &out->faster);
    out->without = SIZE_MAX;
}

/* Returns the point that reaches the rest of the goal with the least share of a lifted limit, and
 * the share. */
static size_t least_beyond(const struct seek *s, double *out_share)
{
    struct seek whole = *s;
    size_t best = SIZE_MAX;

    whole.lifted = LK_GOAL_LIMIT_COUNT;
    *out_share = INFINITY;
    for (size_t i = 0; i < s->w->n_points; i++) {
        struct shares r;
        double share;

        if (!s->reaches[i])
            continue;
        r = shares_of(&whole, i);
        share = s->lifted == LK_GOAL_DEADLINE ? r.time
                : s->lifted == LK_GOAL_BUDGET ? r.cost
                                              : r.rate;
        if (best == SIZE_MAX || share < *out_share) {
            best = i;
            *out_share = share;
        }
    }
    return best;
}

/* Finds the limit that alone keeps all points from the goal: memory or the critical batch, or of
 * several figures to be reached the one that is missed by least where the others are reached. */
static void find_limit(struct seek *s, struct lk_goal_answer *a)
{
    const struct lk_goal *g = s->goal;
    int goals = (g->deadline_s > 0) + (g->budget > 0) + (g->throughput_per_s > 0);
    double least = INFINITY, share;

    a->nearest = nearest_of(s);
    for (int l = 0; l < (goals > 1 ? LK_GOAL_LIMIT_COUNT : LK_GOAL_DEADLINE); l++) {
        struct lk_goal_answer without;
        size_t point;

        s->lifted = (enum lk_goal_limit)l;
        judge_all(s, &without);
        point = l < LK_GOAL_DEADLINE ? without.smallest : least_beyond(s, &share);
        if (point == SIZE_MAX || (l >= LK_GOAL_DEADLINE && !(share < least)))
            continue;
        a->limit = s->lifted;
        a->without = point;
        if (l < LK_GOAL_DEADLINE)
            return;
        least = share;
    }
}

static enum lk_status seek_init(struct seek *s)
{
    size_t n = (size_t)s->w->request->draws;

    LK_PASS(lk_alloc(&s->z, n, sizeof *s->z));
    LK_PASS(lk_alloc(&s->z_step, n, sizeof *s->z_step));
    LK_PASS(lk_alloc(&s->probability, s->w->n_points, sizeof *s->probability));
    LK_PASS(lk_alloc(&s->reaches, s->w->n_points, sizeof *s->reaches));
    for (size_t d = 0; d < n; d++) {
        struct lk_rng g = lk_rng_init(s->w->request->seed, lk_rng_stream("goal", d));

        s->z[d] = lk_rng_normal(&g);
        s->z_step[d] = lk_rng_normal(&g);
    }
    return LK_OK;
}

enum lk_status lk_goal_seek(const struct lk_pipeline *w, struct lk_goal_answer *out)
{
    enum lk_status st = LK_OK;
    struct seek s = {.w = w,
                     .goal = w->request->goal,
                     .lifted = LK_GOAL_LIMIT_COUNT,
                     .reach = lk_stats_normal_quantile((1 + w->request->level) / 2)};

    LK_TRY(seek_init(&s));
    judge_all(&s, out);
    for (size_t i = 0; i < w->n_points; i++)
        w->out->points[i].plan.probability = s.probability[i];
    if (!out->n_reach)
        find_limit(&s, out);
out:
    free(s.z);
    free(s.z_step);
    free(s.probability);
    free(s.reaches);
    return st;
}

/* ---- Sentences ---- */

enum { WORDS = LK_ANSWER_WORDS + 32 };

/* Writes "24 GPUs with accumulation 4". */
static void describe(const struct lk_pipeline *w, size_t point, char out[WORDS])
{
    char words[LK_ANSWER_WORDS];
    int n = w->out->points[point].config.world_size;

    lk_answer_config(w->out, &w->out->points[point], words, sizeof words);
    snprintf(out, WORDS, "%d GPU%s%s%s", n, n == 1 ? "" : "s", *words ? " with " : "", words);
}

/* Writes "21.3 h (18.9 to 24.6), 512 GPU-hours (453 to 590), 1,240 samples/s". */
static void figures(const struct lk_pipeline *w, size_t point, char *out, size_t size)
{
    const struct lk_forecast_point *p = &w->out->points[point];
    const struct lk_plan *q = &p->plan;
    char n[4][32];

    snprintf(out, size, "%.3g h (%.3g to %.3g), %s %s (%s to %s), %s samples/s",
             q->time_to_target_h, q->time_to_target_lo_h, q->time_to_target_hi_h,
             w->request->goal->has_price ? "cost" : "GPU-hours",
             lk_answer_number(q->cost_to_target, n[0], sizeof n[0]),
             lk_answer_number(q->cost_to_target_lo, n[1], sizeof n[1]),
             lk_answer_number(q->cost_to_target_hi, n[2], sizeof n[2]),
             lk_answer_number(lk_pipeline_speed(w, point), n[3], sizeof n[3]));
}

static enum lk_status say_choice(const struct lk_pipeline *w, const char *what, size_t point)
{
    char words[WORDS], numbers[192];

    describe(w, point, words);
    figures(w, point, numbers, sizeof numbers);
    return lk_forecast_say(w->out, "%s: %s, with a probability of %.0f %%: %s.", what, words,
                           100 * w->out->points[point].plan.probability, numbers);
}

static enum lk_status tell_choices(const struct lk_pipeline *w, const struct lk_goal_answer *a)
{
    bool all = a->cheapest == a->smallest && a->fastest == a->smallest;

    LK_PASS(say_choice(w,
                       all                          ? "Smallest, cheapest and fastest"
                       : a->cheapest == a->smallest ? "Smallest and cheapest"
                       : a->fastest == a->smallest  ? "Smallest and fastest"
                                                    : "Smallest that reaches it",
                       a->smallest));
    if (a->cheapest != a->smallest)
        LK_PASS(say_choice(w, a->fastest == a->cheapest ? "Cheapest and fastest" : "Cheapest",
                           a->cheapest));
    if (a->fastest != a->smallest && a->fastest != a->cheapest)
        LK_PASS(say_choice(w, "Fastest", a->fastest));
    if (a->cheaper || a->faster)
        LK_PASS(
            lk_forecast_say(w->out,
                            "Another is %s%s%s by less than the model's error, and changes more "
                            "settings.",
                            a->cheaper ? "cheaper" : "", a->cheaper && a->faster ? " or " : "",
                            a->faster ? "faster" : ""));
    return lk_forecast_note(w->out,
                            "%zu configurations were estimated, and %zu that can be an answer "
                            "forecast with intervals: %zu reach the goal",
                            w->n_searched, a->n_chosen, a->n_reach);
}

static int most_gpus(const struct lk_pipeline *w)
{
    int most = 0;

    for (size_t i = 0; i < w->n_points; i++)
        most = LK_ORDER(item_of(w, i)->config.world_size, most) > 0
                   ? item_of(w, i)->config.world_size
                   : most;
    return most;
}

static enum lk_status tell_limit(const struct lk_pipeline *w, const struct lk_goal_answer *a)
{
    const struct lk_goal *g = w->request->goal;
    char words[WORDS], numbers[192];
    int most = most_gpus(w);

    if (a->without < SIZE_MAX) {
        describe(w, a->without, words);
        if (a->limit < LK_GOAL_DEADLINE)
            return lk_forecast_say(w->out, "What binds is %s: without it %s would reach the goal.",
                                   limit_words[a->limit], words);
        figures(w, a->without, numbers, sizeof numbers);
        return lk_forecast_say(w->out, "What binds is %s: without it %s would reach the goal: %s.",
                               limit_words[a->limit], words, numbers);
    }
    if (a->nearest < SIZE_MAX && item_of(w, a->nearest)->config.world_size == most &&
        !(g->budget > 0))
        return lk_forecast_say(
            w->out, "What binds is the number of GPUs: none with more than %d could be forecast.",
            most);
    return lk_forecast_say(w->out, "What binds is %s itself, and no other limit alone.",
                           g->budget > 0       ? limit_words[LK_GOAL_BUDGET]
                           : g->deadline_s > 0 ? limit_words[LK_GOAL_DEADLINE]
                                               : limit_words[LK_GOAL_RATE]);
}

enum lk_status lk_goal_tell(const struct lk_pipeline *w, const struct lk_goal_answer *a)
{
    if (lk_contradictions_refute(w->out) && !w->request->anyway)
        return LK_OK;
    if (a->n_reach)
        return tell_choices(w, a);
    LK_PASS(lk_forecast_say(w->out,
                            "None of %zu configurations reaches the goal with a probability of "
                            "%.0f %%.",
                            w->n_searched, 100 * w->request->goal->probability));
    if (a->nearest < SIZE_MAX)
        LK_PASS(say_choice(w, "Nearest miss", a->nearest));
    return tell_limit(w, a);
}
