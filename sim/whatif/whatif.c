/*
 * What-ifs: the scenarios and their predictions.
 *
 * Divisions: scenarios / machines / the whole.
 */
#include "sim/step/config.h"
#include "sim/whatif/whatif_state.h"

#include "base/array.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Scenarios ---- */

/* Returns true if the status refuses one scenario; others may still be predicted. */
static bool refuses(enum lk_status st)
{
    return st == LK_EUSAGE || st == LK_EEVIDENCE;
}

static enum lk_status refuse(struct lk_whatif_state *w, struct lk_whatif_item *i, enum lk_status st)
{
    bool asked_for = i->role == LK_WHATIF_GRID && !i->is_current;

    i->status = st;
    w->n_refused += asked_for;
    if (i->role == LK_WHATIF_REFERENCE && !w->no_reference)
        LK_PASS(lk_strdup(&w->no_reference, lk_error_text()));
    return w->refusal || !asked_for ? LK_OK : lk_strdup(&w->refusal, lk_error_text());
}

/* Returns true if the axis has a meaning here; a global batch may still bring accumulation. */
static bool matters(const struct lk_whatif_state *w, enum lk_axis a, const struct lk_config *c)
{
    return (a == LK_AXIS_NO_SYNC && w->request->global_batch > 0) || lk_axis_matters(a, c);
}

/* Sets nodes and accumulation, which follow from the axes' values; the source set a reference's
 * nodes on the machine as it is. */
static enum lk_status finish(struct lk_whatif_state *w, struct lk_whatif_item *i)
{
    enum lk_status st = LK_OK;
    struct lk_cluster c = *w->source->cluster;

    if (i->s.change.gpus_per_node)
        c.gpus_per_node = i->s.change.gpus_per_node;
    if (i->s.config.compression == LK_COMPRESSION_POWERSGD && !i->s.config.powersgd_rank)
        i->s.config.powersgd_rank = 1; /* PyTorch's default */
    if (i->role != LK_WHATIF_REFERENCE || i->s.change.gpus_per_node)
        st = lk_config_nodes(&c, &i->s.config);
    if (st == LK_OK)
        st = lk_config_split_global(w->request->global_batch, &i->s.config);
    lk_axis_settle(&w->source->current, &i->s.config);
    return refuses(st) ? refuse(w, i, st) : st;
}

static enum lk_status add_item(struct lk_whatif_state *w, struct lk_whatif_item i, size_t *out)
{
    LK_PASS(finish(w, &i));
    LK_PASS(lk_array_grow(&w->items, &w->capacity, w->n_items + 1, sizeof *w->items));
    *out = w->n_items;
    w->items[w->n_items++] = i;
    return LK_OK;
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
            lk_axis_apply(a, &w->request->axes[a].v[0], w->source->job, s);
    }
}

/* Adds the current configuration at each GPU count, then each axis moved alone. */
static enum lk_status add_current(struct lk_whatif_state *w)
{
    const struct lk_whatif_request *q = w->request;

    for (size_t g = 0; g < q->axes[LK_AXIS_GPUS].n; g++) {
        struct lk_whatif_item i = {.role = LK_WHATIF_CURRENT, .s.config = w->source->current};
        size_t at, current;

        lk_axis_apply(LK_AXIS_GPUS, &q->axes[LK_AXIS_GPUS].v[g], w->source->job, &i.s);
        LK_PASS(add_item(w, i, &current));
        for (int a = LK_AXIS_GPUS + 1; a < LK_AXIS_COUNT; a++)
            for (size_t v = 0; v < q->axes[a].n; v++) {
                struct lk_whatif_item e = i;

                e.role = LK_WHATIF_EFFECT;
                e.axis = (enum lk_axis)a;
                e.value = v;
                e.current = current;
                lk_axis_apply((enum lk_axis)a, &q->axes[a].v[v], w->source->job, &e.s);
                apply_companions(w, e.axis, &e.s);
                if (matters(w, (enum lk_axis)a, &e.s.config))
                    LK_PASS(add_item(w, e, &at));
            }
    }
    return LK_OK;
}

static size_t current_of(const struct lk_whatif_state *w, int world_size)
{
    size_t i = 0;

    while (w->items[i].role != LK_WHATIF_CURRENT || w->items[i].s.config.world_size != world_size)
        i++;
    return i;
}

/* Makes the n-th point; the last axis varies fastest. Returns false where an axis without meaning
 * would repeat another point. */
static bool make_point(const struct lk_whatif_state *w, size_t n, struct lk_whatif_item *out)
{
    const struct lk_whatif_request *q = w->request;

    *out = (struct lk_whatif_item){.role = LK_WHATIF_GRID, .s.config = w->source->current};
    for (int a = LK_AXIS_COUNT; a-- > 0;) {
        if (!q->axes[a].n)
            continue;
        out->index[a] = n % q->axes[a].n;
        n /= q->axes[a].n;
    }
    for (int a = 0; a < LK_AXIS_COUNT; a++)
        if (q->axes[a].n)
            lk_axis_apply((enum lk_axis)a, &q->axes[a].v[out->index[a]], w->source->job, &out->s);
    for (int a = 0; a < LK_AXIS_COUNT; a++)
        if (q->axes[a].n && out->index[a] && !matters(w, (enum lk_axis)a, &out->s.config))
            return false;
    return true;
}

/* Adds the current configuration to the points of a count, unless it is one of them: what is named
 * the best is never worse than it. */
static enum lk_status add_current_point(struct lk_whatif_state *w, size_t gpus, size_t first)
{
    const struct lk_whatif_request *q = w->request;
    struct lk_whatif_item i = {.role = LK_WHATIF_GRID, .is_current = true};
    size_t at;

    i.current = current_of(w, (int)q->axes[LK_AXIS_GPUS].v[gpus].number.value);
    i.s = w->items[i.current].s;
    i.index[LK_AXIS_GPUS] = gpus;
    for (at = first; at < w->n_items; at++)
        if (lk_config_equal(&w->items[at].s.config, &i.s.config) &&
            lk_change_equal(&w->items[at].s.change, &i.s.change))
            return LK_OK;
    return w->items[i.current].status == LK_OK ? add_item(w, i, &at) : LK_OK;
}

/* Refuses an axis that was asked for and has no meaning at any point. */
static enum lk_status check_meaning(const struct lk_whatif_state *w)
{
    for (int a = 0; a < LK_AXIS_COUNT; a++) {
        bool has_meaning = !w->request->axes[a].n;

        for (size_t i = 0; i < w->n_items && !has_meaning; i++)
            has_meaning = w->items[i].role == LK_WHATIF_GRID &&
                          lk_axis_matters((enum lk_axis)a, &w->items[i].s.config);
        if (!has_meaning)
            return lk_fail(LK_EUSAGE,
                           "--%s changes nothing at the points asked for: it goes with %s",
                           lk_axis_option((enum lk_axis)a), lk_axis_partner((enum lk_axis)a));
    }
    return LK_OK;
}

static enum lk_status add_grid(struct lk_whatif_state *w)
{
    size_t counts = w->request->axes[LK_AXIS_GPUS].n, of_count, first, at;
    double size = 1;

    for (int a = 0; a < LK_AXIS_COUNT; a++)
        size *= w->request->axes[a].n ? (double)w->request->axes[a].n : 1;
    if (size > LK_WHATIF_POINTS_MAX)
        return lk_fail(LK_EUSAGE, "the grid has %.0f points, more than %d: give shorter lists",
                       size, LK_WHATIF_POINTS_MAX);
    LK_PASS(add_current(w));
    of_count = (size_t)size / counts;
    first = w->n_items;
    for (size_t n = 0; n < (size_t)size; n++) {
        struct lk_whatif_item i;

        if (make_point(w, n, &i)) {
            i.current = current_of(w, i.s.config.world_size);
            LK_PASS(add_item(w, i, &at));
        }
        if ((n + 1) % of_count == 0) {
            LK_PASS(add_current_point(w, n / of_count, first));
            first = w->n_items;
        }
    }
    return check_meaning(w);
}

/* Returns the local batch of the reference of a global batch: the largest that was asked for and
 * divides it there; else the current one. */
static int reference_batch(const struct lk_whatif_state *w, const struct lk_config *reference)
{
    const struct lk_axis_value *asked = w->request->axes[LK_AXIS_LOCAL_BATCH].v;
    size_t n = w->request->axes[LK_AXIS_LOCAL_BATCH].n;
    int most = 0;

    for (size_t i = 0; i < n; i++) {
        int batch = (int)asked[i].number.value;

        if (batch > most && lk_config_splits(w->request->global_batch, reference, batch))
            most = batch;
    }
    return most ? most : w->source->current.local_batch;
}

/* Sets the reference of a point's efficiency: plain DDP on the same machine at the count that the
 * source refers to; gpus 0: none is known. */
static enum lk_status reference_of(const struct lk_whatif_state *w, const struct lk_scenario *s,
                                   struct lk_scenario *out)
{
    *out = *s;
    out->config = w->source->current;
    out->config.local_batch = s->config.local_batch;
    out->config.accumulation = s->config.accumulation;
    out->config.no_sync = s->config.no_sync;
    out->config.grad_dtype = s->config.grad_dtype;
    LK_PASS(w->source->ops->set_reference(w->source->self, &out->config));
    if (w->request->global_batch > 0 && out->config.world_size)
        out->config.local_batch = reference_batch(w, &out->config);
    return LK_OK;
}

static bool same_reference(const struct lk_scenario *a, const struct lk_scenario *b)
{
    struct lk_config x = a->config;

    x.nodes = b->config.nodes;
    return lk_config_equal(&x, &b->config) && lk_change_equal(&a->change, &b->change);
}

static enum lk_status add_reference(struct lk_whatif_state *w, size_t first, size_t i)
{
    enum lk_status st = LK_OK;
    struct lk_whatif_item r = {.role = LK_WHATIF_REFERENCE};
    size_t at = first;

    w->items[i].reference = SIZE_MAX;
    st = reference_of(w, &w->items[i].s, &r.s);
    if (refuses(st) || (st == LK_OK && !r.s.config.world_size))
        return LK_OK;
    LK_TRY(st);
    (void)lk_config_split_global(w->request->global_batch, &r.s.config); /* add_item refuses it */
    while (at < w->n_items && !same_reference(&r.s, &w->items[at].s))
        at++;
    if (at == w->n_items)
        LK_TRY(add_item(w, r, &at));
    w->items[i].reference = at;
out:
    return st;
}

static enum lk_status add_references(struct lk_whatif_state *w)
{
    size_t n = w->n_items;

    for (size_t i = 0; i < n; i++)
        if (w->items[i].role == LK_WHATIF_GRID && w->items[i].status == LK_OK)
            LK_PASS(add_reference(w, n, i));
    return LK_OK;
}

/* ---- Machines and predictions ---- */

/* Returns the most GPUs of the scenarios on a machine. */
static int most_gpus(const struct lk_whatif_state *w, const struct lk_change *c)
{
    int most = 0;

    for (size_t i = 0; i < w->n_items; i++)
        if (w->items[i].status == LK_OK && w->items[i].s.config.world_size > most &&
            lk_change_equal(&w->items[i].s.change, c))
            most = w->items[i].s.config.world_size;
    return most;
}

/* A source that knows counts alone is told of another machine by the configuration's nodes. */
static enum lk_status machine_init(const struct lk_whatif_state *w, struct lk_whatif_machine *m)
{
    const struct lk_evidence_source *e = w->source;

    m->self = e->self;
    if (lk_change_is_none(&m->change) || e->knows == LK_KNOWS_COUNTS)
        return LK_OK;
    return e->ops->alter(e->self, &m->change, most_gpus(w, &m->change), &m->self);
}

static void machine_fini(const struct lk_whatif_state *w, struct lk_whatif_machine *m)
{
    if (m->self && m->self != w->source->self)
        w->source->ops->close(m->self);
    free(m->refusal);
}

static enum lk_status machine_of(struct lk_whatif_state *w, const struct lk_change *c,
                                 const struct lk_whatif_machine **out)
{
    enum lk_status st = LK_OK;
    struct lk_whatif_machine m = {.change = *c};
    size_t i = 0;

    while (i < w->n_machines && !lk_change_equal(&w->machines[i].change, c))
        i++;
    if (i == w->n_machines) {
        m.status = machine_init(w, &m);
        if (refuses(m.status))
            LK_TRY(lk_strdup(&m.refusal, lk_error_text()));
        else
            LK_TRY(m.status);
        LK_TRY(lk_array_grow(&w->machines, &w->machines_capacity, i + 1, sizeof *w->machines));
        w->machines[w->n_machines++] = m;
        m = (struct lk_whatif_machine){0};
    }
    *out = &w->machines[i];
out:
    machine_fini(w, &m);
    return st;
}

static enum lk_status predict(struct lk_whatif_state *w, struct lk_whatif_item *i)
{
    enum lk_status st = LK_OK;
    const struct lk_whatif_machine *m = NULL;

    LK_TRY(machine_of(w, &i->s.change, &m));
    st = m->refusal ? lk_fail(m->status, "%s", m->refusal)
                    : w->source->ops->at(m->self, &i->s.config, &i->at);
    if (refuses(st))
        st = refuse(w, i, st);
out:
    return st;
}

static enum lk_status predict_all(struct lk_whatif_state *w)
{
    enum { TELL = 64 }; /* scenarios between two calls of progress */
    const struct lk_whatif_request *q = w->request;

    for (size_t i = 0; i < w->n_items; i++) {
        if (w->items[i].status == LK_OK)
            LK_PASS(predict(w, &w->items[i]));
        if (q->progress && ((i + 1) % TELL == 0 || i + 1 == w->n_items))
            q->progress(q->user, i + 1, w->n_items);
    }
    return LK_OK;
}

/* ---- The whole ---- */

static enum lk_status check_request(const struct lk_evidence_source *e,
                                    const struct lk_whatif_request *q)
{
    if (!q->axes[LK_AXIS_GPUS].n)
        return lk_fail(LK_EUSAGE, "no GPU counts to look at");
    if (q->global_batch > 0 && q->axes[LK_AXIS_ACCUMULATION].n)
        return lk_fail(LK_EUSAGE, "a global batch sets the accumulation: give one or the other");
    for (int a = 0; a < LK_AXIS_COUNT; a++) {
        enum lk_knowledge needs = lk_axis_needs((enum lk_axis)a);

        if (!q->axes[a].n || needs <= e->knows)
            continue;
        if (needs == LK_KNOWS_RANKS)
            return lk_fail(LK_EUSAGE,
                           "--%s takes the measured compute of each rank, which throughputs do not "
                           "tell: give JOB and CLUSTER without --throughput",
                           lk_axis_option((enum lk_axis)a));
        return lk_fail(LK_EUSAGE,
                       "--%s takes the step model, and throughputs alone do not tell it: say what "
                       "the job (JOB, --parameters or --gradients) and its cluster (CLUSTER or "
                       "--cluster) are",
                       lk_axis_option((enum lk_axis)a));
    }
    return LK_OK;
}

static enum lk_status set_header(struct lk_whatif_state *w)
{
    struct lk_forecast *f = &w->out->forecast;

    f->level = w->request->level;
    LK_PASS(w->source->ops->prepare(w->source->self, f));
    for (int a = 0; a < LK_AXIS_COUNT; a++)
        if (lk_whatif_worded(w, (enum lk_axis)a))
            snprintf(f->axes[f->n_axes++], sizeof *f->axes, "%s", lk_axis_column((enum lk_axis)a));
    return LK_OK;
}

static void state_fini(struct lk_whatif_state *w)
{
    for (size_t i = 0; i < w->n_machines; i++)
        machine_fini(w, &w->machines[i]);
    for (size_t i = 0; i < w->n_items; i++)
        lk_prediction_fini(&w->items[i].at);
    free(w->machines);
    free(w->items);
    free(w->point_items);
    free(w->resolution);
    free(w->ratios);
    free(w->refusal);
    free(w->no_reference);
}

enum lk_status lk_whatif_run(const struct lk_evidence_source *source,
                             const struct lk_whatif_request *request, struct lk_whatif *out)
{
    enum lk_status st = LK_OK;
    struct lk_whatif o = {0};
    struct lk_whatif_state w = {.source = source, .request = request, .out = &o};

    LK_TRY(check_request(source, request));
    LK_TRY(set_header(&w));
    LK_TRY(add_grid(&w));
    LK_TRY(add_references(&w));
    LK_TRY(predict_all(&w));
    LK_TRY(lk_whatif_add_results(&w));
    *out = o;
    o = (struct lk_whatif){0};
out:
    state_fini(&w);
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
