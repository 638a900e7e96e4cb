/* Pool repetitions; see the header. Divisions: which runs are repetitions, numbers, findings, their
 * tables. */
#include "profiler/analysis/analysis_pool.h"

#include "base/array.h"
#include "profiler/analysis/analysis_impl.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Which runs are repetitions ---- */

/* Entries of a run's config that repetitions may have otherwise. */
static const char *const own_entries[] = {"seed", "out", "log"};

static bool is_own(const char *key)
{
    for (size_t i = 0; i < LK_COUNT(own_entries); i++)
        if (!strcmp(key, own_entries[i]))
            return true;
    return false;
}

/* Return true if b has all entries of a, with the same values. */
static bool has_config(const struct lk_run_info *a, const struct lk_run_info *b)
{
    for (size_t i = 0; i < a->n_config; i++) {
        const char *value = lk_run_info_value(b, a->config[i].key);

        if (!is_own(a->config[i].key) && (!value || strcmp(value, a->config[i].value) != 0))
            return false;
    }
    return true;
}

bool lk_pool_agree(const struct lk_run *a, const struct lk_run *b)
{
    const struct lk_run_info *x = lk_run_about(a), *y = lk_run_about(b);

    return x->world_size == y->world_size && x->nodes == y->nodes &&
           lk_run_info_same_batches(x, y) && x->accumulation == y->accumulation &&
           x->no_sync == y->no_sync && x->overlap == y->overlap && x->simulated == y->simulated &&
           x->first_bytes == y->first_bytes && x->cap_bytes == y->cap_bytes &&
           x->n_tensors == y->n_tensors && !strcmp(x->device, y->device) &&
           !strcmp(x->model, y->model) && has_config(x, y) && has_config(y, x);
}

/* ---- Numbers ---- */

static double step_of(const struct lk_analysis *a, int unused)
{
    (void)unused;
    return a->step_s;
}

static double efficiency_of(const struct lk_analysis *a, int unused)
{
    (void)unused;
    return a->efficiency;
}

static double reference_own_of(const struct lk_analysis *a, int unused)
{
    (void)unused;
    return a->reference_own_s;
}

static double loss_of(const struct lk_analysis *a, int loss)
{
    return a->losses_s[loss] - lk_reference_own_(a, (enum lk_loss)loss);
}

/* Sum up a number of all runs; one that a run has not is not known. */
static struct lk_spread spread(const struct lk_pool *p,
                               double (*of)(const struct lk_analysis *a, int which), int which)
{
    struct lk_spread s = {0, INFINITY, -INFINITY};

    for (size_t i = 0; i < p->n; i++) {
        double v = of(&p->runs[i], which);

        s.mean += v / (double)p->n;
        s.lo = v < s.lo ? v : s.lo;
        s.hi = v > s.hi ? v : s.hi;
    }
    return isnan(s.mean) ? (struct lk_spread){NAN, NAN, NAN} : s;
}

bool lk_pool_knows(const struct lk_pool *p, enum lk_loss loss)
{
    for (size_t i = 0; i < p->n; i++)
        if (!p->runs[i].exposure_known || !lk_knows_loss_(&p->runs[i], loss))
            return false;
    return true;
}

enum lk_loss lk_pool_worst(const struct lk_pool *p)
{
    enum lk_loss worst = LK_LOSS_IDEAL;

    for (int loss = LK_LOSS_IDEAL + 1; loss < LK_LOSS_COUNT; loss++) {
        double s = p->losses_s[loss].mean;

        if (lk_pool_knows(p, (enum lk_loss)loss) && s > 0 &&
            (worst == LK_LOSS_IDEAL || s > p->losses_s[worst].mean))
            worst = (enum lk_loss)loss;
    }
    return worst;
}

/* ---- Findings ---- */

bool lk_pool_is_grave(const struct lk_pooled_finding *f)
{
    return lk_finding_is_grave_(f->is->id);
}

static bool is_same_text(const char *a, const char *b)
{
    return a == b || (a && b && !strcmp(a, b));
}

/* Return the index of the pool's finding that is the same; -1: it has none. */
static int find(const struct lk_pool *p, const struct lk_finding *f)
{
    for (size_t i = 0; i < p->n_findings; i++) {
        const struct lk_finding *is = p->findings[i].is;

        if (is->id == f->id && is->rank == f->rank && is_same_text(is->host, f->host))
            return (int)i;
    }
    return -1;
}

/* Add a run's finding: to the one that is the same, or as a new one. */
static enum lk_status add(struct lk_pool *p, const struct lk_analysis *of,
                          const struct lk_finding *f)
{
    int at = find(p, f);

    if (at < 0) {
        LK_PASS(lk_array_grow(&p->findings, &p->capacity, p->n_findings + 1, sizeof *p->findings));
        at = (int)p->n_findings++;
        p->findings[at] = (struct lk_pooled_finding){.is = f, .of = of, .cause = -1};
    }
    p->findings[at].n_runs++;
    p->findings[at].cost_s += f->cost_s;
    return LK_OK;
}

/* Return the step of linear scaling. */
static double linear_of(const struct lk_pool *p)
{
    return p->losses_s[LK_LOSS_IDEAL].mean + p->reference_own_s.mean;
}

/* Take the mean cost, and the run that is nearest to it as the example. */
static void settle(struct lk_pool *p, struct lk_pooled_finding *f)
{
    const struct lk_finding *like = f->is;
    double step_s = p->step_s.mean, linear_s = linear_of(p);

    f->cost_s /= (double)p->n; /* runs without it lose nothing by it */
    for (size_t i = 0; i < p->n; i++)
        for (size_t k = 0; k < p->runs[i].n_findings; k++) {
            const struct lk_finding *x = &p->runs[i].findings[k];

            if (x->id == like->id && x->rank == like->rank && is_same_text(x->host, like->host) &&
                fabs(x->cost_s - f->cost_s) < fabs(f->is->cost_s - f->cost_s)) {
                f->is = x;
                f->of = &p->runs[i];
            }
        }
    f->points = lk_run_world_size(p->runs[0].run) > 1 && f->cost_s > 0 && f->cost_s < step_s
                    ? 100 * (linear_s / (step_s - f->cost_s) - linear_s / step_s)
                    : NAN;
}

/* Order findings that make a run worthless first, then those by their time, then the rest. */
static int by_worth(const void *a, const void *b)
{
    const struct lk_pooled_finding *x = a, *y = b;
    double cx = isnan(x->cost_s) ? -1 : x->cost_s;
    double cy = isnan(y->cost_s) ? -1 : y->cost_s;
    int grave = lk_finding_is_grave_(y->is->id) - lk_finding_is_grave_(x->is->id);

    if (grave)
        return grave;
    if (cx != cy)
        return (cx < cy) - (cx > cy);
    if (x->is->id != y->is->id)
        return x->is->id < y->is->id ? -1 : 1;
    return (x->is->rank > y->is->rank) - (x->is->rank < y->is->rank);
}

/* Append the findings that `cause` has, an index of `from`, each with those that it has itself. The
 * depth is at most the number of kinds, since causes stand before consequences in their list. */
static void place(const struct lk_pooled_finding *from, size_t n, int cause, int at_cause,
                  int depth, struct lk_pooled_finding *to, size_t *used)
{
    for (size_t i = 0; i < n && depth < LK_FINDING_COUNT; i++) {
        size_t at = *used;

        if (from[i].cause != cause)
            continue;
        to[at] = from[i];
        to[at].cause = at_cause;
        to[at].depth = depth;
        ++*used;
        place(from, n, (int)i, (int)at, depth + 1, to, used);
    }
}

/* Put consequences under their causes. */
static enum lk_status order(struct lk_pool *p)
{
    struct lk_pooled_finding *to = NULL;
    size_t used = 0;

    if (!p->n_findings)
        return LK_OK;
    LK_PASS(lk_alloc(&to, p->n_findings, sizeof *to));
    qsort(p->findings, p->n_findings, sizeof *p->findings, by_worth);
    for (struct lk_pooled_finding *f = p->findings; f < p->findings + p->n_findings; f++)
        f->cause = f->is->cause < 0 ? -1 : find(p, &f->of->findings[f->is->cause]);
    place(p->findings, p->n_findings, -1, -1, 0, to, &used);
    free(p->findings);
    p->findings = to;
    p->n_findings = used;
    return LK_OK;
}

static enum lk_status pool_findings(struct lk_pool *p)
{
    for (size_t i = 0; i < p->n; i++)
        for (size_t k = 0; k < p->runs[i].n_findings; k++)
            LK_PASS(add(p, &p->runs[i], &p->runs[i].findings[k]));
    for (size_t i = 0; i < p->n_findings; i++)
        settle(p, &p->findings[i]);
    return order(p);
}

/* ---- The whole ---- */

enum lk_status lk_pool(const struct lk_analysis *runs, size_t n, struct lk_pool *out)
{
    enum lk_status st = LK_OK;
    struct lk_pool p = {.runs = runs, .n = n};

    p.step_s = spread(&p, step_of, 0);
    p.efficiency = spread(&p, efficiency_of, 0);
    p.reference_own_s = spread(&p, reference_own_of, 0);
    for (int loss = 0; loss < LK_LOSS_COUNT; loss++)
        p.losses_s[loss] = spread(&p, loss_of, loss);
    p.efficiency.mean = linear_of(&p) / p.step_s.mean; /* of the mean step */
    LK_TRY(pool_findings(&p));
    *out = p;
    p = (struct lk_pool){0};
out:
    lk_pool_fini(&p);
    return st;
}

void lk_pool_fini(struct lk_pool *p)
{
    free(p->findings);
    *p = (struct lk_pool){0};
}

/* ---- Tables ---- */

/* A number of one run's ranks or of several runs' spread; the other has none. */
#define OF_RUNS(p, v)  ((p)->n > 1 ? (v) : NAN)
#define OF_RANKS(p, v) ((p)->n > 1 ? NAN : (v))

static double share_of_step(const struct lk_pool *p, double s)
{
    return p->step_s.mean > 0 ? s / p->step_s.mean : NAN;
}

/* clang-format off */

/* X(name, heading, dimension, digits, value): see base/table.h. */
#define WATERFALL(X)                                                                               \
    X("loss",      "loss",                LK_DIM_NONE, LK_TABLE_DATA, lk_loss_key(loss))           \
    X("name",      "where the step goes", LK_DIM_NONE, -1, lk_loss_name(loss))                     \
    X("text",      "that is",             LK_DIM_NONE, -1, lk_loss_text(loss))                     \
    X("mean_s",    "time",                LK_DIM_TIME, 0,  s->mean)                                \
    X("lo_s",      "least run",           LK_DIM_TIME, 0,  OF_RUNS(p, s->lo))                      \
    X("hi_s",      "most",                LK_DIM_TIME, 0,  OF_RUNS(p, s->hi))                      \
    X("share",     "share of step",       LK_DIM_NONE, LK_TABLE_PERCENT, share_of_step(p, s->mean))        \
    X("least_s",   "least rank",          LK_DIM_TIME, 0,                                          \
      OF_RANKS(p, a->ranks[least].losses_s[loss] - lk_reference_own_(a, loss)))                                                 \
    X("most_s",    "most",                LK_DIM_TIME, 0,                                          \
      OF_RANKS(p, a->ranks[most].losses_s[loss] - lk_reference_own_(a, loss)))                                                  \
    X("most_rank", "on rank",             LK_DIM_NONE, -1,                                         \
      OF_RANKS(p, (double)lk_run_rank(a->run, most)))
#define FINDINGS(X)                                                                                \
    X("id",      "id",        LK_DIM_NONE, LK_TABLE_DATA,  lk_finding_id_name(f->is->id))          \
    X("number",  "number",    LK_DIM_NONE, LK_TABLE_DATA,  (double)number)                         \
    X("cause",   "cause",     LK_DIM_NONE, LK_TABLE_DATA,                                          \
      f->cause < 0 ? NAN : (double)f->cause + 1)                                                   \
    X("rank",    "rank",      LK_DIM_NONE, LK_TABLE_DATA,                                          \
      f->is->rank < 0 ? NAN : (double)lk_run_rank(f->of->run, (size_t)f->is->rank))                \
    X("host",    "host",      LK_DIM_NONE, LK_TABLE_DATA,  f->is->host)                            \
    X("runs",    "in runs",   LK_DIM_NONE, -1,  OF_RUNS(p, (double)f->n_runs))                     \
    X("cost_s",  "worth",     LK_DIM_TIME, 0,   f->cost_s)                                         \
    X("share",   "of a step", LK_DIM_NONE, LK_TABLE_PERCENT, share_of_step(p, f->cost_s))                  \
    X("points",  "points",    LK_DIM_NONE, 1,   f->points)                                         \
    X("finding", "finding",   LK_DIM_NONE, -1,  f->is->text)                                       \
    X("next",    "next",      LK_DIM_NONE, LK_TABLE_BELOW, f->depth ? NULL : f->is->next)

static const struct lk_column waterfall[] = {WATERFALL(LK_TABLE_COLUMN)};
static const struct lk_column findings[] = {FINDINGS(LK_TABLE_COLUMN)};
/* clang-format on */

/* Create an empty table whose title names the run, or the configuration of several. */
static enum lk_status create(const struct lk_pool *p, const char *what,
                             const struct lk_column *columns, size_t n, struct lk_table **out)
{
    const struct lk_run_info *info = lk_run_about(p->runs[0].run);
    enum lk_status st = LK_OK;
    char *title = NULL, batch[16];

    if (p->n == 1)
        return lk_analysis_create_(&p->runs[0], what, columns, n, out);
    LK_TRY(lk_asprintf(&title, "%s: mean of %zu runs of %d ranks, local batch %s, accumulation %d",
                       what, p->n, info->world_size, lk_run_info_batches(info, batch),
                       info->accumulation));
    LK_TRY(lk_table_create(title, columns, n, out));
out:
    free(title);
    return st;
}

/* ---- Its table: the waterfall ---- */

static enum lk_status add_loss(const struct lk_pool *p, enum lk_loss loss, struct lk_table *t)
{
    const struct lk_analysis *a = &p->runs[0];
    const struct lk_spread *s = &p->losses_s[loss];
    enum lk_status st = LK_OK;
    size_t most = 0, least = 0;

    for (size_t k = 1; k < a->run->n; k++) {
        if (a->ranks[k].losses_s[loss] > a->ranks[most].losses_s[loss])
            most = k;
        if (a->ranks[k].losses_s[loss] < a->ranks[least].losses_s[loss])
            least = k;
    }
    LK_TRY(lk_table_row(t));
    WATERFALL(LK_TABLE_CELL)
out:
    return st;
}

/* Add a row that is no loss of the run's. */
static enum lk_status add_other(const struct lk_pool *p, const char *key, const char *name,
                                const char *text, const struct lk_spread *s, struct lk_table *t)
{
    LK_PASS(lk_table_row(t));
    LK_PASS(lk_table_word(t, "loss", key));
    LK_PASS(lk_table_word(t, "name", name));
    LK_PASS(lk_table_word(t, "text", text));
    LK_PASS(lk_table_number(t, "mean_s", s->mean));
    LK_PASS(lk_table_number(t, "lo_s", OF_RUNS(p, s->lo)));
    LK_PASS(lk_table_number(t, "hi_s", OF_RUNS(p, s->hi)));
    return lk_table_number(t, "share", share_of_step(p, s->mean));
}

/* Say where the ideal is from, and what is not known. */
static enum lk_status note_ideal(const struct lk_analysis *a, struct lk_table *t)
{
    if (a->exposure_known)
        LK_PASS(lk_table_note(t, "ideal: %s", a->reference));
    else
        LK_PASS(lk_table_note(t, "no compute is in these traces: how much of the collectives it "
                                 "covers, and so what they cost, is not known"));
    if (lk_run_periods(a->run))
        LK_PASS(lk_table_note(t,
                              "nobody marked the steps: they are %s; forward, backward and "
                              "optimizer are not told apart",
                              lk_run_periods(a->run)));
    if (a->exposure_known && !lk_run_has_compute(a->run))
        LK_PASS(lk_table_note(t,
                              "nobody recorded what the hosts computed: gaps are all of the time "
                              "outside of collectives, computing or idle, not told apart; where "
                              "a rank has more of it than the ideal is in the rest"));
    return LK_OK;
}

/* Say which steps the means are of. */
static enum lk_status note_steps(const struct lk_run *run, struct lk_table *t)
{
    char warmup[64] = "";

    if (lk_run_about(run)->warmup_steps)
        snprintf(warmup, sizeof warmup, "; the first %" PRIu64 " steps are warm-up and left out",
                 lk_run_about(run)->warmup_steps);
    LK_PASS(lk_table_note(t, "mean of %zu step%s (%" PRIu32 " to %" PRIu32 ")%s", run->n_steps,
                          run->n_steps == 1 ? "" : "s", run->steps[0], run->steps[run->n_steps - 1],
                          warmup));
    if (run->n_steps < run->n_timed)
        LK_PASS(lk_table_note(t,
                              "these have records of kernels; %zu others after the warm-up have "
                              "none and are not split",
                              run->n_timed - run->n_steps));
    return LK_OK;
}

static enum lk_status fill_waterfall(const struct lk_pool *p, struct lk_table *t)
{
    for (int loss = 0; loss < LK_LOSS_COUNT; loss++)
        if (lk_pool_knows(p, (enum lk_loss)loss)) {
            LK_PASS(add_loss(p, (enum lk_loss)loss, t));
            if (loss == LK_LOSS_IDEAL && p->reference_own_s.mean != 0)
                LK_PASS(add_other(p, "reference", "losses of the reference",
                                  "communication and waits that the reference has, too",
                                  &p->reference_own_s, t));
        }
    LK_PASS(add_other(p, "step", "step", "step", &p->step_s, t));
    LK_PASS(note_ideal(&p->runs[0], t));
    return note_steps(p->runs[0].run, t);
}

/* ---- Its table: findings ---- */

static enum lk_status fill_findings(const struct lk_pool *p, struct lk_table *t)
{
    bool indented = false, costs = false;
    enum lk_status st = LK_OK;

    for (size_t number = 1; number <= p->n_findings; number++) {
        const struct lk_pooled_finding *f = &p->findings[number - 1];

        LK_TRY(lk_table_row(t));
        FINDINGS(LK_TABLE_CELL)
        LK_TRY(lk_table_indent(t, "finding", f->depth));
        LK_TRY(lk_table_indent(t, "next", f->depth));
        indented = indented || f->depth > 0;
        costs = costs || !isnan(f->cost_s);
    }
    if (!p->n_findings)
        LK_TRY(lk_table_note(t, "nothing stands out"));
    else if (costs)
        LK_TRY(lk_table_note(t,
                             "worth: what mending it brings a step, at most; points: of the "
                             "efficiency in percent%s",
                             indented ? "; indented: consequences, whose worth is in their cause's"
                                      : ""));
out:
    return st;
}

enum lk_status lk_pool_table(const struct lk_pool *p, enum lk_analysis_kind kind,
                             struct lk_table **out)
{
    bool losses = kind == LK_ANALYSIS_WATERFALL;
    enum lk_status st = LK_OK;
    struct lk_table *t = NULL;

    LK_TRY(create(p, losses ? "Waterfall" : "Findings", losses ? waterfall : findings,
                  losses ? LK_COUNT(waterfall) : LK_COUNT(findings), &t));
    LK_TRY(losses ? fill_waterfall(p, t) : fill_findings(p, t));
    *out = t;
    t = NULL;
out:
    lk_table_destroy(t);
    return st;
}

enum lk_status lk_pool_of_one_(const struct lk_analysis *a, enum lk_analysis_kind kind,
                               struct lk_table **out)
{
    struct lk_pool p;
    enum lk_status st;

    LK_PASS(lk_pool(a, 1, &p));
    st = lk_pool_table(&p, kind, out);
    lk_pool_fini(&p);
    return st;
}
