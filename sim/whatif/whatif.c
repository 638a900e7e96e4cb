/*
 * What-ifs: the scenarios and their forecasts.
 *
 * Divisions: scenarios / machines / the whole.
 */
#include "sim/whatif/whatif_state.h"

#include "base/array.h"
#include "sim/forecast/backtest.h"
#include "sim/step/measured_runs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Scenarios ---- */

static enum lk_status refuse(struct lk_whatif_state *w, struct lk_whatif_item *i, enum lk_status st)
{
    i->status = st;
    w->n_refused += i->role == LK_WHATIF_GRID;
    return w->refusal || i->role != LK_WHATIF_GRID ? LK_OK
                                                   : lk_strdup(&w->refusal, lk_error_text());
}

/* Returns true if the axis has a meaning here; a global batch may still bring accumulation. */
static bool matters(const struct lk_whatif_state *w, enum lk_axis a, const struct lk_config *c)
{
    return (a == LK_AXIS_NO_SYNC && w->request->global_batch > 0) || lk_axis_matters(a, c);
}

/* Sets nodes and accumulation, which follow from the axes' values. */
static enum lk_status finish(struct lk_whatif_state *w, struct lk_whatif_item *i)
{
    enum lk_status st = LK_OK;
    struct lk_cluster c = *w->cluster;

    if (i->s.change.gpus_per_node)
        c.gpus_per_node = i->s.change.gpus_per_node;
    if (i->s.config.compression == LK_COMPRESSION_POWERSGD && !i->s.config.powersgd_rank)
        i->s.config.powersgd_rank = 1; /* PyTorch's default */
    st = lk_config_nodes(&c, &i->s.config);
    if (st == LK_OK)
        st = lk_config_split_global(w->request->global_batch, &i->s.config);
    lk_axis_settle(w->job, &i->s.config);
    return st == LK_EUSAGE || st == LK_EEVIDENCE ? refuse(w, i, st) : st;
}

static enum lk_status add_item(struct lk_whatif_state *w, struct lk_whatif_item i, size_t *out)
{
    enum lk_status st = LK_OK;

    LK_TRY(finish(w, &i));
    LK_TRY(lk_array_grow(&w->items, &w->capacity, w->n_items + 1, sizeof *w->items));
    *out = w->n_items;
    w->items[w->n_items++] = i;
out:
    return st;
}

/* Sets the other axes that this one needs, to the first value that was asked for. */
static void apply_companions(const struct lk_whatif_state *w, enum lk_axis of,
                             struct lk_scenario *s)
{
    static const struct {
        enum lk_axis of, companion;
    } rows[] = {
        {LK_AXIS_COMPRESSION, LK_AXIS_POWERSGD_RANK},
        {LK_AXIS_SHARDING, LK_AXIS_SHARD_GROUP},
        {LK_AXIS_SHARDING, LK_AXIS_PERIOD},
        {LK_AXIS_OVERSUBSCRIPTION, LK_AXIS_NODES_PER_SWITCH},
    };

    for (size_t i = 0; i < LK_COUNT(rows); i++) {
        enum lk_axis a = rows[i].companion;

        if (rows[i].of == of && w->request->axes[a].n && lk_axis_matters(a, &s->config))
            lk_axis_apply(a, &w->request->axes[a].v[0], w->job, s);
    }
}

/* Adds the current configuration at each GPU count, then each axis moved alone. */
static enum lk_status add_current(struct lk_whatif_state *w)
{
    enum lk_status st = LK_OK;
    const struct lk_whatif_request *q = w->request;

    for (size_t g = 0; g < q->axes[LK_AXIS_GPUS].n; g++) {
        struct lk_whatif_item i = {.role = LK_WHATIF_CURRENT,
                                   .s.config = lk_config_current(w->job)};
        size_t at, current;

        lk_axis_apply(LK_AXIS_GPUS, &q->axes[LK_AXIS_GPUS].v[g], w->job, &i.s);
        LK_TRY(add_item(w, i, &current));
        for (int a = LK_AXIS_GPUS + 1; a < LK_AXIS_COUNT; a++)
            for (size_t v = 0; v < q->axes[a].n; v++) {
                struct lk_whatif_item e = i;

                e.role = LK_WHATIF_EFFECT;
                e.axis = (enum lk_axis)a;
                e.value = v;
                e.current = current;
                lk_axis_apply((enum lk_axis)a, &q->axes[a].v[v], w->job, &e.s);
                apply_companions(w, e.axis, &e.s);
                if (matters(w, (enum lk_axis)a, &e.s.config))
                    LK_TRY(add_item(w, e, &at));
            }
    }
out:
    return st;
}

static size_t current_of(const struct lk_whatif_state *w, int gpus)
{
    size_t i = 0;

    while (w->items[i].role != LK_WHATIF_CURRENT || w->items[i].s.config.gpus != gpus)
        i++;
    return i;
}

/* Makes the n-th point; the last axis varies fastest. Returns false where an axis without meaning
 * would repeat another point. */
static bool make_point(const struct lk_whatif_state *w, size_t n, struct lk_whatif_item *out)
{
    const struct lk_whatif_request *q = w->request;

    *out = (struct lk_whatif_item){.role = LK_WHATIF_GRID, .s.config = lk_config_current(w->job)};
    for (int a = LK_AXIS_COUNT; a-- > 0;) {
        if (!q->axes[a].n)
            continue;
        out->index[a] = n % q->axes[a].n;
        n /= q->axes[a].n;
    }
    for (int a = 0; a < LK_AXIS_COUNT; a++)
        if (q->axes[a].n)
            lk_axis_apply((enum lk_axis)a, &q->axes[a].v[out->index[a]], w->job, &out->s);
    for (int a = 0; a < LK_AXIS_COUNT; a++)
        if (q->axes[a].n && out->index[a] && !matters(w, (enum lk_axis)a, &out->s.config))
            return false;
    return true;
}

static enum lk_status add_grid(struct lk_whatif_state *w)
{
    enum lk_status st = LK_OK;
    double size = 1;
    size_t at;

    for (int a = 0; a < LK_AXIS_COUNT; a++)
        size *= w->request->axes[a].n ? (double)w->request->axes[a].n : 1;
    if (size > LK_WHATIF_POINTS_MAX)
        return lk_fail(LK_EUSAGE, "the grid has %.0f points, more than %d: give shorter lists",
                       size, LK_WHATIF_POINTS_MAX);
    LK_TRY(add_current(w));
    for (size_t n = 0; n < (size_t)size; n++) {
        struct lk_whatif_item i;

        if (!make_point(w, n, &i))
            continue;
        i.current = current_of(w, i.s.config.gpus);
        LK_TRY(add_item(w, i, &at));
    }
out:
    return st;
}

/* Returns the reference of a point's efficiency: plain DDP on the same machine at the reference's
 * count. */
static struct lk_scenario reference_of(const struct lk_whatif_state *w, const struct lk_scenario *s)
{
    struct lk_scenario r = *s;

    r.config = lk_config_current(w->job);
    r.config.gpus = w->reference_gpus;
    r.config.local_batch = s->config.local_batch;
    r.config.accumulation = s->config.accumulation;
    r.config.no_sync = s->config.no_sync;
    r.config.grad_dtype = s->config.grad_dtype;
    return r;
}

static bool same_reference(const struct lk_scenario *a, const struct lk_scenario *b)
{
    struct lk_config x = a->config;

    x.nodes = b->config.nodes;
    return lk_config_equal(&x, &b->config) && lk_change_equal(&a->change, &b->change);
}

static enum lk_status add_references(struct lk_whatif_state *w)
{
    enum lk_status st = LK_OK;
    size_t n = w->n_items, first = w->n_items;

    for (size_t i = 0; i < n; i++) {
        struct lk_whatif_item r = {.role = LK_WHATIF_REFERENCE};
        size_t at = first;

        if (w->items[i].role != LK_WHATIF_GRID || w->items[i].status != LK_OK)
            continue;
        r.s = reference_of(w, &w->items[i].s);
        if (lk_config_split_global(w->request->global_batch, &r.s.config) != LK_OK)
            LK_TRY(refuse(w, &w->items[i], LK_EUSAGE));
        while (at < w->n_items && !same_reference(&r.s, &w->items[at].s))
            at++;
        if (at == w->n_items)
            LK_TRY(add_item(w, r, &at));
        w->items[i].reference = at;
    }
out:
    return st;
}

/* ---- Machines, as they are or changed ---- */

static enum lk_status machine_of(struct lk_whatif_state *w, const struct lk_change *c,
                                 struct lk_whatif_machine **out)
{
    enum lk_status st = LK_OK;
    size_t i = 0;

    while (i < w->n_machines && !lk_change_equal(&w->machines[i].change, c))
        i++;
    if (i == w->n_machines) {
        LK_TRY(lk_array_grow(&w->machines, &w->machines_capacity, i + 1, sizeof *w->machines));
        w->machines[w->n_machines++] = (struct lk_whatif_machine){.change = *c};
    }
    *out = &w->machines[i];
out:
    return st;
}

static enum lk_status gather(struct lk_whatif_state *w)
{
    enum lk_status st = LK_OK;
    struct lk_whatif_machine *machine;

    for (size_t i = 0; i < w->n_items; i++) {
        if (w->items[i].status != LK_OK)
            continue;
        LK_TRY(machine_of(w, &w->items[i].s.change, &machine));
        LK_TRY(lk_array_grow(&machine->items, &machine->capacity, machine->n_items + 1,
                             sizeof *machine->items));
        machine->items[machine->n_items++] = i;
        if (w->items[i].s.config.gpus > machine->gpus)
            machine->gpus = w->items[i].s.config.gpus;
    }
out:
    return st;
}

static enum lk_status refuse_machine(struct lk_whatif_state *w,
                                     const struct lk_whatif_machine *machine, enum lk_status why)
{
    enum lk_status st = LK_OK;

    for (size_t i = 0; i < machine->n_items; i++)
        LK_TRY(refuse(w, &w->items[machine->items[i]], why));
out:
    return st;
}

/*
 * Sets the factor of measured runs over the model, from the current configuration at the largest
 * count that was measured, forecast with its runs and without them, draw by draw.
 */
static enum lk_status set_anchor(struct lk_whatif_state *w, struct lk_predictor *anchored)
{
    enum lk_status st = LK_OK;
    const struct lk_change none = {0};
    struct lk_changed bare = {0};
    struct lk_predictor *model = NULL;
    struct lk_prediction a = {0}, b = {0};
    struct lk_config c = lk_config_current(w->job);
    size_t n = (size_t)w->options.draws;

    LK_TRY(lk_alloc(&w->anchor_draws, n, sizeof *w->anchor_draws));
    w->anchor = 1;
    for (size_t i = 0; i < n; i++)
        w->anchor_draws[i] = 1;
    for (size_t i = 0; i < w->job->n_runs; i++)
        if (lk_run_counts(w->cluster, &w->job->runs[i]) && w->job->runs[i].config.gpus >= c.gpus) {
            c.gpus = w->job->runs[i].config.gpus;
            c.nodes = w->job->runs[i].config.nodes;
        }
    LK_TRY(lk_changed_init(&bare, w->job, w->cluster, &none, c.gpus));
    LK_TRY(lk_predictor_create(&bare.job, &bare.cluster, &w->options, &model));
    st = lk_predictor_at(anchored, &c, &a);
    if (st == LK_OK)
        st = lk_predictor_at(model, &c, &b);
    if (st == LK_EEVIDENCE) { /* without evidence there is nothing to compare */
        st = LK_OK;
        goto out;
    }
    if (st != LK_OK)
        goto out;
    w->anchor = a.step_s / b.step_s;
    for (size_t i = 0; i < n; i++)
        w->anchor_draws[i] = a.draws_s[i] / b.draws_s[i];
out:
    lk_prediction_fini(&a);
    lk_prediction_fini(&b);
    lk_predictor_destroy(model);
    lk_changed_fini(&bare);
    return st;
}

/* Multiplies a changed machine's point by the anchor, sets its interval anew, and grades it no
 * better than extrapolated. */
static void anchor_point(const struct lk_whatif_state *w, struct lk_whatif_item *i, double *sorted)
{
    struct lk_prediction *p = &i->at;
    struct lk_estimate e;
    size_t n = (size_t)w->options.draws;

    p->step_s *= w->anchor;
    for (int l = 0; l < LK_LOSS_COUNT; l++)
        p->losses_s[l] *= w->anchor;
    for (size_t d = 0; d < n; d++)
        sorted[d] = p->draws_s[d] *= w->anchor_draws[d];
    e = lk_stats_interval(p->step_s, sorted, n, w->options.level);
    p->lo_s = e.lo;
    p->hi_s = e.hi;
    if (p->evidence < LK_EVIDENCE_EXTRAPOLATED) {
        p->evidence = LK_EVIDENCE_EXTRAPOLATED;
        snprintf(p->evidence_text, sizeof p->evidence_text, "extrapolated to a changed machine");
    }
}

static enum lk_status take_sweep(struct lk_whatif_state *w, struct lk_whatif_machine *machine)
{
    enum lk_status st = LK_OK;
    struct lk_sweep *s = &machine->sweep;
    double *sorted = NULL;

    LK_TRY(lk_alloc(&sorted, s->n_draws, sizeof *sorted));
    for (size_t k = 0; k < s->n; k++) {
        struct lk_whatif_item *i = &w->items[machine->items[k]];

        i->at = s->points[k];
        if (i->at.status != LK_OK) {
            if (s->refusal)
                (void)lk_fail(i->at.status, "%s", s->refusal);
            LK_TRY(refuse(w, i, i->at.status));
        } else if (!lk_change_is_none(&machine->change)) {
            anchor_point(w, i, sorted);
        }
    }
out:
    free(sorted);
    return st;
}

static void tell(void *user, size_t done)
{
    const struct lk_whatif_state *w = user;

    if (w->request->progress)
        w->request->progress(w->request->user, w->done + done, w->n_items);
}

static enum lk_status sweep_machine(struct lk_whatif_state *w, struct lk_whatif_machine *machine)
{
    enum lk_status st = LK_OK;
    struct lk_config *configs = NULL;

    LK_TRY(lk_alloc(&configs, machine->n_items, sizeof *configs));
    for (size_t k = 0; k < machine->n_items; k++)
        configs[k] = w->items[machine->items[k]].s.config;
    LK_TRY(lk_sweep_run(machine->predictor, configs, machine->n_items,
                        &(struct lk_sweep_watch){tell, w}, &machine->sweep));
    w->done += machine->n_items;
    LK_TRY(take_sweep(w, machine));
out:
    free(configs);
    return st;
}

static enum lk_status run_machine(struct lk_whatif_state *w, struct lk_whatif_machine *machine)
{
    enum lk_status st = LK_OK;
    const struct lk_job *job = w->job;
    const struct lk_cluster *cluster = w->cluster;

    if (!lk_change_is_none(&machine->change)) {
        st = lk_changed_init(&machine->changed, job, cluster, &machine->change, machine->gpus);
        if (st == LK_EEVIDENCE || st == LK_EUSAGE)
            return refuse_machine(w, machine, st);
        if (st != LK_OK)
            return st;
        job = &machine->changed.job;
        cluster = &machine->changed.cluster;
    }
    LK_TRY(lk_predictor_create(job, cluster, &w->options, &machine->predictor));
    LK_TRY(sweep_machine(w, machine));
out:
    return st;
}

static enum lk_status run_machines(struct lk_whatif_state *w)
{
    enum lk_status st = LK_OK;
    struct lk_predictor *p = NULL;

    LK_TRY(gather(w));
    LK_TRY(lk_predictor_create(w->job, w->cluster, &w->options, &p));
    LK_TRY(set_anchor(w, p));
    for (size_t i = 0; i < w->n_machines; i++)
        LK_TRY(run_machine(w, &w->machines[i]));
out:
    lk_predictor_destroy(p);
    return st;
}

/* ---- The whole ---- */

static enum lk_status set_header(struct lk_whatif_state *w)
{
    enum lk_status st = LK_OK;
    struct lk_forecast *f = &w->out->forecast;
    int gpus = w->reference_gpus ? w->reference_gpus : 1;

    f->level = w->options.level;
    LK_TRY(lk_strdup(&f->job, w->job->name));
    LK_TRY(lk_strdup(&f->cluster, w->cluster->name));
    LK_TRY(lk_strdup(&f->sample_unit, w->job->sample_unit));
    LK_TRY(lk_asprintf(&f->reference, "%d GPU%s, %s, plain DDP on the same machine", gpus,
                       gpus == 1 ? "" : "s", w->reference_gpus ? "measured" : "modelled"));
    w->reference_gpus = gpus;
    for (int a = 0; a < LK_AXIS_COUNT; a++)
        if (lk_whatif_worded(w, (enum lk_axis)a))
            snprintf(f->axes[f->n_axes++], sizeof *f->axes, "%s", lk_axis_column((enum lk_axis)a));
out:
    return st;
}

static enum lk_status set_options(struct lk_whatif_state *w)
{
    enum lk_status st = LK_OK;
    struct lk_backtests b = {0};

    w->options = (struct lk_predictor_options){
        .level = w->request->level, .draws = w->request->draws, .seed = w->request->seed};
    LK_TRY(lk_predict_calibrate(w->job, w->cluster, &w->options, &b));
    w->reference_gpus = lk_runs_smallest(w->job, w->cluster);
out:
    lk_backtests_fini(&b);
    return st;
}

static void machine_fini(struct lk_whatif_machine *machine)
{
    lk_sweep_fini(&machine->sweep);
    free(machine->items);
    lk_predictor_destroy(machine->predictor);
    lk_changed_fini(&machine->changed);
}

enum lk_status lk_whatif_run(const struct lk_job *job, const struct lk_cluster *cluster,
                             const struct lk_whatif_request *request, struct lk_whatif *out)
{
    enum lk_status st = LK_OK;
    struct lk_whatif o = {0};
    struct lk_whatif_state w = {.job = job, .cluster = cluster, .request = request, .out = &o};

    if (!request->axes[LK_AXIS_GPUS].n)
        return lk_fail(LK_EUSAGE, "no GPU counts to look at");
    if (request->global_batch > 0 && request->axes[LK_AXIS_ACCUMULATION].n)
        return lk_fail(LK_EUSAGE, "a global batch sets the accumulation: give one or the other");
    LK_TRY(set_options(&w));
    LK_TRY(set_header(&w));
    LK_TRY(add_grid(&w));
    LK_TRY(add_references(&w));
    LK_TRY(run_machines(&w));
    LK_TRY(lk_whatif_add_results(&w));
    *out = o;
    o = (struct lk_whatif){0};
out:
    for (size_t i = 0; i < w.n_machines; i++)
        machine_fini(&w.machines[i]);
    free(w.machines);
    free(w.items);
    free(w.point_items);
    free(w.anchor_draws);
    free(w.resolution);
    free(w.ratios);
    free(w.refusal);
    lk_whatif_fini(&o);
    return st;
}

void lk_whatif_fini(struct lk_whatif *w)
{
    lk_forecast_fini(&w->forecast);
    free(w->scenarios);
    free(w->effects);
    *w = (struct lk_whatif){0};
}
