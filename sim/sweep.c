/* Many configurations at once. */
#include "sim/sweep.h"

#include "base/array.h"
#include "base/stats.h"
#include "sim/sweep_model.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void take(struct lk_sweep *s, size_t i, const struct lk_prediction *p)
{
    struct lk_sweep_point *point = &s->points[i];

    point->step_s = p->step_s;
    point->lo_s = p->lo_s;
    point->hi_s = p->hi_s;
    point->evidence = p->evidence;
    snprintf(point->evidence_text, sizeof point->evidence_text, "%s", p->evidence_text);
    point->batch_reach = p->batch_reach;
    memcpy(point->losses_s, p->losses_s, sizeof point->losses_s);
    memcpy(&s->draws_s[i * s->n_draws], p->draws_s, s->n_draws * sizeof *s->draws_s);
}

/* By the full way: measured points, and the text of the first refusal. */
static enum lk_status run_whole(struct lk_predictor *p, struct lk_sweep *s, size_t i)
{
    struct lk_prediction one = {0};
    enum lk_status st = lk_predictor_at(p, &s->points[i].config, &one);

    if (st == LK_EEVIDENCE || st == LK_EUSAGE) {
        s->points[i].status = st;
        return s->refusal ? LK_OK : lk_strdup(&s->refusal, lk_error_text());
    }
    if (st != LK_OK)
        return st;
    take(s, i, &one);
    lk_prediction_fini(&one);
    return LK_OK;
}

static enum lk_status run_point(struct lk_predictor *p, struct lk_sweep_model *m,
                                struct lk_sweep *s, size_t i)
{
    enum lk_status st = LK_OK;
    double *draws_s = &s->draws_s[i * s->n_draws];
    bool refused;

    if (lk_predictor_measured(p, &s->points[i].config))
        return run_whole(p, s, i);
    st = lk_sweep_model_at(m, &s->points[i], draws_s);
    refused = st == LK_EEVIDENCE || st == LK_EUSAGE;
    for (size_t d = 0; refused && d < s->n_draws; d++)
        draws_s[d] = NAN;
    s->points[i].status = refused ? st : LK_OK;
    if (refused && !s->refusal)
        return run_whole(p, s, i);
    return refused ? LK_OK : st;
}

enum lk_status lk_sweep_run(struct lk_predictor *p, const struct lk_config *configs, size_t n,
                            const struct lk_sweep_watch *watch, struct lk_sweep *out)
{
    enum { TELL = 64 }; /* points from one word to the next */
    enum lk_status st = LK_OK;
    struct lk_sweep s = {.n = n, .n_draws = lk_predictor_draws(p)};
    struct lk_sweep_model *m = NULL;

    LK_TRY(lk_alloc(&s.points, n, sizeof *s.points));
    LK_TRY(lk_alloc(&s.draws_s, n * s.n_draws, sizeof *s.draws_s));
    LK_TRY(lk_sweep_model_create(p, &m));
    for (size_t i = 0; i < n; i++) {
        s.points[i].config = configs[i];
        LK_TRY(run_point(p, m, &s, i));
        if (watch && ((i + 1) % TELL == 0 || i + 1 == n))
            watch->tell(watch->user, i + 1);
    }
    *out = s;
    s = (struct lk_sweep){0};
out:
    lk_sweep_model_destroy(m);
    lk_sweep_fini(&s);
    return st;
}

void lk_sweep_fini(struct lk_sweep *s)
{
    free(s->points);
    free(s->draws_s);
    free(s->refusal);
    memset(s, 0, sizeof *s);
}

static double samples(const struct lk_config *c)
{
    return (double)c->gpus * c->local_batch * c->accumulation;
}

/* Throughput of a over b in one draw. */
static double gain_in(const struct lk_sweep *s, size_t a, size_t b, size_t draw)
{
    return samples(&s->points[a].config) / samples(&s->points[b].config) *
           s->draws_s[b * s->n_draws + draw] / s->draws_s[a * s->n_draws + draw];
}

enum lk_status lk_sweep_gain(const struct lk_sweep *s, size_t a, size_t b, double level,
                             struct lk_estimate *out)
{
    enum lk_status st = LK_OK;
    const struct lk_sweep_point *p = &s->points[a], *q = &s->points[b];
    struct lk_estimate e = {.n = s->n_draws};
    double *ratios = NULL;

    if (p->status != LK_OK || q->status != LK_OK)
        return lk_fail(LK_EINTERNAL, "gain of a refused point");
    LK_TRY(lk_alloc(&ratios, s->n_draws, sizeof *ratios));
    for (size_t d = 0; d < s->n_draws; d++)
        ratios[d] = gain_in(s, a, b, d);
    e.value = samples(&p->config) / samples(&q->config) * q->step_s / p->step_s;
    e.lo = fmin(e.value, lk_stats_quantile(ratios, s->n_draws, (1 - level) / 2));
    e.hi = fmax(e.value, lk_stats_quantile_sorted(ratios, s->n_draws, (1 + level) / 2));
    *out = e;
out:
    free(ratios);
    return st;
}

double lk_sweep_certainty(const struct lk_sweep *s, size_t a, size_t b)
{
    size_t n = 0;

    for (size_t d = 0; d < s->n_draws; d++)
        n += gain_in(s, a, b, d) > 1;
    return (double)n / (double)s->n_draws;
}
