/* Find what stragglers cost a pipeline. Divisions: typical times, causes, replays. */
#include "profiler/pipeline/stragglers.h"

#include "base/array.h"
#include "base/stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A cause that slows a step by less is not called its worst. */
static const double NOTABLE = 1.01;

/* The replays share this state. */
struct state {
    const struct lk_replay *r;
    const struct lk_pipe_ops *ops;
    struct lk_pipe_stragglers *out;
    double typical_s[LK_PIPE_TYPES];
    uint32_t *member; /* of each operation: which of the kind that is tried it belongs to */
    double *duration_s, *end_s; /* of each operation: of the next replay, scratch */
    double *step_s;             /* of each step of the replay */
    size_t from, n_causes;      /* the first step that is asked for; room in out->causes */
};

static double ratio(double a, double b)
{
    return b > 0 ? a / b : NAN;
}

/* ---- Typical times ---- */

/* Set the typical time of each type: the mean or median over the steps that are replayed. */
static void find_typical(struct state *s)
{
    const struct lk_replay *r = s->r;
    double *times = s->end_s;

    for (int type = 0; type < LK_PIPE_TYPES; type++) {
        size_t n = 0;

        for (size_t i = 0; i < r->n_members; i++)
            if (s->ops->ops[r->members[i]].type == type)
                times[n++] = r->actual_s[r->members[i]];
        if (n)
            s->typical_s[type] =
                lk_pipe_types[type].mean ? lk_stats_mean(times, n) : lk_stats_median(times, n);
    }
}

/* ---- Causes ---- */

/* Return the first type that is shown as this one. */
static uint32_t shown_type(int type)
{
    uint32_t i = 0;

    while (strcmp(lk_pipe_types[i].shown, lk_pipe_types[type].shown) != 0)
        i++;
    return i;
}

/* Set which of a kind each operation belongs to; return how many there may be. */
static size_t set_members(const struct state *s, enum lk_pipe_kind kind)
{
    const struct lk_pipe_ops *ops = s->ops;
    uint32_t shown[LK_PIPE_TYPES];
    size_t n[LK_PIPE_KINDS] = {ops->n_stages, ops->n_dp, ops->n_workers, LK_PIPE_TYPES};

    for (int type = 0; type < LK_PIPE_TYPES; type++)
        shown[type] = shown_type(type);
    for (size_t i = 0; i < ops->n; i++) {
        uint32_t w = ops->ops[i].worker, n_stages = (uint32_t)ops->n_stages;
        uint32_t of[LK_PIPE_KINDS] = {w % n_stages, w / n_stages, w, shown[ops->ops[i].type]};

        s->member[i] = of[kind];
    }
    return n[kind];
}

static int number_of(const struct lk_pipe_ops *ops, enum lk_pipe_kind kind, size_t member)
{
    if (kind == LK_PIPE_BY_DP)
        return ops->workers[member * ops->n_stages].dp_rank;
    return kind == LK_PIPE_BY_WORKER ? ops->workers[member].rank : (int)member;
}

/* A candidate for a cause. */
struct candidate {
    uint32_t member;
    size_t n;        /* operations */
    double excess_s; /* of its operations' times above the typical */
};

static int candidate_order(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;

    if (x->excess_s != y->excess_s)
        return x->excess_s > y->excess_s ? -1 : 1;
    return (x->member > y->member) - (x->member < y->member);
}

/* List the members of a kind that have operations, those with the most excess first. */
static enum lk_status list_candidates(const struct state *s, enum lk_pipe_kind kind,
                                      struct candidate **out, size_t *n_out)
{
    const struct lk_replay *r = s->r;
    size_t n = set_members(s, kind);

    *n_out = 0;
    LK_PASS(lk_alloc(out, n, sizeof **out));
    for (size_t i = 0; i < n; i++)
        (*out)[i].member = (uint32_t)i;
    for (size_t i = 0; i < r->n_members; i++) {
        uint32_t op = r->members[i];
        struct candidate *c = &(*out)[s->member[op]];

        c->n++;
        c->excess_s += fmax(r->actual_s[op] - s->typical_s[s->ops->ops[op].type], 0);
    }
    for (size_t i = 0; i < n; i++)
        if ((*out)[i].n)
            (*out)[(*n_out)++] = (*out)[i];
    qsort(*out, *n_out, sizeof **out, candidate_order);
    return LK_OK;
}

/* ---- Replays ---- */

/* Replay, and return the mean of the steps that are asked for. */
static double mean_replayed(const struct state *s, const double *duration_s)
{
    lk_replay_run(s->r, duration_s, s->end_s, s->step_s);
    return lk_stats_mean(s->step_s + s->from, s->out->n_steps);
}

/* Take the recorded times of one member, or of all others, and typical ones for the rest. */
static void mix(const struct state *s, uint32_t member, bool others)
{
    for (size_t i = 0; i < s->ops->n; i++)
        s->duration_s[i] = (s->member[i] == member) != others ? s->r->actual_s[i]
                                                              : s->typical_s[s->ops->ops[i].type];
}

static void try_cause(const struct state *s, struct lk_pipe_cause *c, uint32_t member)
{
    struct lk_pipe_stragglers *out = s->out;
    double lost_s = out->launched_s - out->ideal_s;

    mix(s, member, false);
    c->slowdown = ratio(mean_replayed(s, s->duration_s), out->ideal_s);
    for (size_t i = 0; i < out->n_steps; i++) {
        struct lk_pipe_step_times *step = &out->steps[i];
        double slowdown = ratio(s->step_s[s->from + i], step->ideal_s);

        c->most = fmax(c->most, slowdown);
        if (slowdown > NOTABLE && slowdown > step->worst_slowdown[c->kind]) {
            step->worst_slowdown[c->kind] = slowdown;
            step->worst[c->kind] = c->number;
        }
    }
    mix(s, member, true);
    c->share = lost_s > 0 ? (out->launched_s - mean_replayed(s, s->duration_s)) / lost_s : NAN;
}

static int cause_order(const void *a, const void *b)
{
    const struct lk_pipe_cause *x = a, *y = b;

    if (x->slowdown != y->slowdown)
        return x->slowdown > y->slowdown ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

static enum lk_status try_kind(struct state *s, enum lk_pipe_kind kind)
{
    enum lk_status st = LK_OK;
    struct lk_pipe_stragglers *out = s->out;
    struct candidate *candidates = NULL;
    struct lk_pipe_cause *causes;
    size_t n, tried;

    LK_TRY(list_candidates(s, kind, &candidates, &n));
    tried = n < LK_PIPE_CAUSES_MAX ? n : LK_PIPE_CAUSES_MAX;
    out->n_others[kind] = n - tried;
    LK_TRY(lk_array_grow(&out->causes, &s->n_causes, out->n_causes + tried, sizeof *out->causes));
    causes = out->causes + out->n_causes;
    out->n_causes += tried;
    for (size_t i = 0; i < tried; i++) {
        causes[i] = (struct lk_pipe_cause){.kind = kind,
                                           .number = number_of(s->ops, kind, candidates[i].member)};
        try_cause(s, &causes[i], candidates[i].member);
    }
    for (size_t i = 0; i < tried; i++)
        for (size_t k = 0; k < out->n_steps; k++)
            causes[i].n_worst += out->steps[k].worst[kind] == causes[i].number;
    qsort(causes, tried, sizeof *causes, cause_order);
out:
    free(candidates);
    return st;
}

/* Replay the steps as they are and with typical times. */
static enum lk_status time_steps(const struct state *s)
{
    const struct lk_pipe_ops *ops = s->ops;
    struct lk_pipe_stragglers *out = s->out;

    out->launched_s = mean_replayed(s, s->r->actual_s);
    for (size_t i = 0; i < out->n_steps; i++) {
        struct lk_pipe_step_times *step = &out->steps[i];
        size_t at = s->r->steps[s->from + i];

        *step = (struct lk_pipe_step_times){.step = ops->steps[at],
                                            .launched_s = s->step_s[s->from + i]};
        for (int k = 0; k < LK_PIPE_KINDS; k++)
            step->worst[k] = -1;
        for (size_t o = ops->first[at]; o < ops->first[at + 1]; o++)
            step->measured_s = fmax(step->measured_s, ops->ops[o].start_s + ops->ops[o].duration_s);
        out->measured_s += step->measured_s / (double)out->n_steps;
    }
    for (size_t i = 0; i < ops->n; i++)
        s->duration_s[i] = s->typical_s[ops->ops[i].type];
    out->ideal_s = mean_replayed(s, s->duration_s);
    for (size_t i = 0; i < out->n_steps; i++)
        out->steps[i].ideal_s = s->step_s[s->from + i];
    return out->ideal_s > 0
               ? LK_OK
               : lk_fail(LK_EEVIDENCE, "%s: its typical step takes no time", ops->path);
}

/* Set which steps are asked for. */
static enum lk_status choose_steps(struct state *s, int64_t only)
{
    const struct lk_replay *r = s->r;

    s->out->n_steps = r->n_steps;
    if (only >= 0) {
        while (s->from < r->n_steps && s->ops->steps[r->steps[s->from]] != only)
            s->from++;
        if (s->from == r->n_steps)
            return lk_fail(LK_EUSAGE, "--step=%lld: there is no such step, or it is left out",
                           (long long)only);
        s->out->n_steps = 1;
    }
    return lk_alloc(&s->out->steps, s->out->n_steps, sizeof *s->out->steps);
}

enum lk_status lk_pipe_stragglers(const struct lk_replay *r, int64_t only,
                                  struct lk_pipe_stragglers *out)
{
    enum lk_status st = LK_OK;
    struct lk_pipe_stragglers result = {.replay = r};
    struct state s = {.r = r, .ops = r->ops, .out = &result};

    LK_TRY(choose_steps(&s, only));
    LK_TRY(lk_alloc(&s.member, r->ops->n, sizeof *s.member));
    LK_TRY(lk_alloc(&s.duration_s, r->ops->n, sizeof *s.duration_s));
    LK_TRY(lk_alloc(&s.end_s, r->ops->n, sizeof *s.end_s));
    LK_TRY(lk_alloc(&s.step_s, r->n_steps, sizeof *s.step_s));
    find_typical(&s);
    LK_TRY(time_steps(&s));
    for (int kind = 0; kind < LK_PIPE_KINDS; kind++)
        LK_TRY(try_kind(&s, (enum lk_pipe_kind)kind));
    *out = result;
    result = (struct lk_pipe_stragglers){0};
out:
    free(s.member);
    free(s.duration_s);
    free(s.end_s);
    free(s.step_s);
    lk_pipe_stragglers_fini(&result);
    return st;
}

void lk_pipe_stragglers_fini(struct lk_pipe_stragglers *s)
{
    free(s->steps);
    free(s->causes);
    *s = (struct lk_pipe_stragglers){0};
}
