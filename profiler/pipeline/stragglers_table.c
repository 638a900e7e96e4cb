/* Tables of what stragglers cost a pipeline. */
#include "profiler/pipeline/stragglers.h"

#include "base/array.h"

#include <math.h>
#include <stdio.h>

/* A cause that slows a step less is not shown first. */
static const double slow = 1.005;

static const char *const kinds[LK_PIPE_KINDS] = {
#define NAME_(value, name) [value] = name,
    LK_PIPE_KIND_LIST(NAME_)
#undef NAME_
};

/* ---- The step ---- */

/* A way to see the steps. */
struct view {
    const char *key, *name;
    double mean_s, min_s, max_s, slowdown;
};

/* clang-format off */
#define STEP_ROWS(X)                                                                               \
    X("step",     "step",         LK_DIM_NONE, -1, v->key)                                         \
    X("meaning",  "",             LK_DIM_NONE, -1, v->name)                                        \
    X("mean_s",   "mean",         LK_DIM_TIME, 0,  v->mean_s)                                      \
    X("min_s",    "least",        LK_DIM_TIME, 0,  v->min_s)                                       \
    X("max_s",    "most",         LK_DIM_TIME, 0,  v->max_s)                                       \
    X("slowdown", "over ideal",   LK_DIM_NONE, 4,  v->slowdown)                                    \
    X("lost",     "share lost",   LK_DIM_NONE, LK_TABLE_PERCENT, 1 - 1 / v->slowdown)

static const struct lk_column step_columns[] = {STEP_ROWS(LK_TABLE_COLUMN)};
/* clang-format on */

static void see(struct view *v, double step_s)
{
    v->min_s = fmin(v->min_s, step_s);
    v->max_s = fmax(v->max_s, step_s);
}

static enum lk_status add_views(const struct lk_pipe_stragglers *s, struct lk_table *t)
{
    enum lk_status st = LK_OK;
    struct view views[] = {
        {"measured", "as recorded", s->measured_s, INFINITY, 0, s->measured_s / s->ideal_s},
        {"launched", "without delays of launches", s->launched_s, INFINITY, 0,
         s->launched_s / s->ideal_s},
        {"ideal", "without stragglers", s->ideal_s, INFINITY, 0, 1},
    };

    for (size_t i = 0; i < s->n_steps; i++) {
        see(&views[0], s->steps[i].measured_s);
        see(&views[1], s->steps[i].launched_s);
        see(&views[2], s->steps[i].ideal_s);
    }
    for (const struct view *v = views; v < views + LK_COUNT(views); v++) {
        LK_TRY(lk_table_row(t));
        STEP_ROWS(LK_TABLE_CELL)
    }
out:
    return st;
}

static enum lk_status note_input(const struct lk_pipe_stragglers *s, struct lk_table *t)
{
    const struct lk_replay *r = s->replay;
    const struct lk_pipe_ops *ops = r->ops;

    double share = 1 - s->ideal_s / s->launched_s;

    LK_PASS(lk_table_note(t, "slowdown by stragglers: %.4f; they take %.1f %% of the step%s",
                          s->launched_s / s->ideal_s, 100 * fmax(share, 0),
                          share < 0 ? ", which is shorter than the typical one" : ""));
    LK_PASS(
        lk_table_note(t, "ideal: each compute takes the mean of its type over all ranks and steps, "
                         "communication the median"));
    if (r->n_left_out)
        LK_PASS(lk_table_note(t, "%zu of %zu steps are left out; %s", r->n_left_out, ops->n_steps,
                              r->left_out));
    if (ops->n_unknown)
        LK_PASS(lk_table_note(t,
                              "%zu rows are left out, of types that are not known; the first is %s",
                              ops->n_unknown, ops->unknown));
    if (r->n_negative)
        LK_PASS(lk_table_note(t,
                              "%zu transfers end more than 10 ms before their last member starts: "
                              "they count as 0",
                              r->n_negative));
    return LK_OK;
}

static enum lk_status step_table(const struct lk_pipe_stragglers *s, struct lk_table *t)
{
    LK_PASS(add_views(s, t));
    return note_input(s, t);
}

/* ---- Causes ---- */

/* Return how a cause behaves: one that is the worst in half of the steps, or in fewer. A few steps
 * tell neither. */
static const char *behaviour(const struct lk_pipe_stragglers *s, const struct lk_pipe_cause *c)
{
    enum { FEW = 3 };

    return !c->n_worst || s->n_steps < FEW ? NULL
           : 2 * c->n_worst >= s->n_steps  ? "persistent"
                                           : "transient";
}

/* Return the name of one of a kind, of -1 NULL. A number is written to buf. */
static const char *name_of(enum lk_pipe_kind kind, int number, char *buf, size_t size)
{
    if (number < 0)
        return NULL;
    if (kind == LK_PIPE_BY_TYPE)
        return lk_pipe_types[number].shown;
    snprintf(buf, size, "%d", number);
    return buf;
}

/* clang-format off */
#define CAUSE_ROWS(X)                                                                              \
    X("by",        "by",             LK_DIM_NONE, -1, kinds[c->kind])                              \
    X("cause",     "which",          LK_DIM_NONE, -1, name)                                        \
    X("slowdown",  "slowdown",       LK_DIM_NONE, 4,  c->slowdown)                                 \
    X("most",      "in its worst step", LK_DIM_NONE, 4, c->most)                                   \
    X("share",     "share of lost",  LK_DIM_NONE, LK_TABLE_PERCENT, c->share)                      \
    X("worst",     "worst in share of steps", LK_DIM_NONE, 3,                                      \
      (double)c->n_worst / (double)s->n_steps)                                                     \
    X("behaviour", "behaviour",      LK_DIM_NONE, -1, behaviour(s, c))

static const struct lk_column cause_columns[] = {CAUSE_ROWS(LK_TABLE_COLUMN)};
/* clang-format on */

/* Add the causes that slow a step at least so much. */
static enum lk_status add_causes(const struct lk_pipe_stragglers *s, double least,
                                 struct lk_table *t)
{
    enum lk_status st = LK_OK;

    for (const struct lk_pipe_cause *c = s->causes; c < s->causes + s->n_causes; c++) {
        char buf[16];
        const char *name = name_of(c->kind, c->number, buf, sizeof buf);

        if (c->slowdown < least)
            continue;
        LK_TRY(lk_table_row(t));
        CAUSE_ROWS(LK_TABLE_CELL)
    }
out:
    return st;
}

static enum lk_status slow_table(const struct lk_pipe_stragglers *s, struct lk_table *t)
{
    return add_causes(s, slow, t);
}

static enum lk_status cause_table(const struct lk_pipe_stragglers *s, struct lk_table *t)
{
    LK_PASS(add_causes(s, 0, t));
    LK_PASS(lk_table_note(t, "slowdown: of the ideal step, when this one alone has its recorded "
                             "times"));
    LK_PASS(lk_table_note(
        t, "share of lost: of the time that stragglers take, what is won when this "
           "one alone is typical (below 0: it is faster than that); shares need not sum to 1"));
    LK_PASS(lk_table_note(t,
                          "worst: of its kind, in steps that it slows by 1 %%; persistent: in half "
                          "of the steps or more"));
    for (int k = 0; k < LK_PIPE_KINDS; k++)
        if (s->n_others[k])
            LK_PASS(lk_table_note(t,
                                  "by %s: the %d whose operations take the most time above the "
                                  "typical; %zu others are not replayed",
                                  kinds[k], (int)LK_PIPE_CAUSES_MAX, s->n_others[k]));
    return LK_OK;
}

/* ---- Steps ---- */

/* clang-format off */
#define TIME_ROWS(X)                                                                               \
    X("step",       "step",            LK_DIM_NONE, -1, (double)p->step)                           \
    X("measured_s", "measured",        LK_DIM_TIME, 0,  p->measured_s)                             \
    X("launched_s", "without launch delays", LK_DIM_TIME, 0, p->launched_s)                        \
    X("ideal_s",    "ideal",           LK_DIM_TIME, 0,  p->ideal_s)                                \
    X("slowdown",   "slowdown",        LK_DIM_NONE, 4,  p->launched_s / p->ideal_s)                \
    X("stage",      "worst stage",     LK_DIM_NONE, -1, worst[LK_PIPE_BY_STAGE])                   \
    X("dp_rank",    "dp rank",         LK_DIM_NONE, -1, worst[LK_PIPE_BY_DP])                      \
    X("rank",       "rank",            LK_DIM_NONE, -1, worst[LK_PIPE_BY_WORKER])                  \
    X("operation",  "operation",       LK_DIM_NONE, -1, worst[LK_PIPE_BY_TYPE])

static const struct lk_column time_columns[] = {TIME_ROWS(LK_TABLE_COLUMN)};
/* clang-format on */

static enum lk_status steps_table(const struct lk_pipe_stragglers *s, struct lk_table *t)
{
    enum lk_status st = LK_OK;

    for (const struct lk_pipe_step_times *p = s->steps; p < s->steps + s->n_steps; p++) {
        const char *worst[LK_PIPE_KINDS];
        char buf[LK_PIPE_KINDS][16];

        for (int k = 0; k < LK_PIPE_KINDS; k++)
            worst[k] = name_of((enum lk_pipe_kind)k, p->worst[k], buf[k], sizeof buf[k]);
        LK_TRY(lk_table_row(t));
        TIME_ROWS(LK_TABLE_CELL)
    }
out:
    return st;
}

enum lk_status lk_pipe_stragglers_table(const struct lk_pipe_stragglers *s,
                                        enum lk_pipe_table which, struct lk_table **out)
{
    static const struct {
        const char *title;
        const struct lk_column *columns;
        size_t n_columns;
        enum lk_status (*fill)(const struct lk_pipe_stragglers *s, struct lk_table *t);
    } tables[LK_PIPE_TABLES] = {
        [LK_PIPE_TABLE_STEP] = {"Pipeline", step_columns, LK_COUNT(step_columns), step_table},
        [LK_PIPE_TABLE_SLOW] = {"What slows it", cause_columns, LK_COUNT(cause_columns),
                                slow_table},
        [LK_PIPE_TABLE_CAUSES] = {"Stragglers", cause_columns, LK_COUNT(cause_columns),
                                  cause_table},
        [LK_PIPE_TABLE_STEPS] = {"Steps", time_columns, LK_COUNT(time_columns), steps_table},
    };
    const struct lk_pipe_ops *ops = s->replay->ops;
    enum lk_status st = LK_OK;
    struct lk_table *t = NULL;
    char title[512];

    snprintf(title, sizeof title, "%s: %s (%zu dp rank%s, %zu stage%s, %zu step%s)",
             tables[which].title, ops->path, ops->n_dp, ops->n_dp == 1 ? "" : "s", ops->n_stages,
             ops->n_stages == 1 ? "" : "s", s->n_steps, s->n_steps == 1 ? "" : "s");
    LK_TRY(lk_table_create(title, tables[which].columns, tables[which].n_columns, &t));
    LK_TRY(tables[which].fill(s, t));
    *out = t;
    t = NULL;
out:
    lk_table_destroy(t);
    return st;
}
