/*
 * Tables of throughputs.
 *
 * Divisions: reading / one prediction / the forecast / knee.
 */
#include "sim/throughput.h"

#include "base/array.h"
#include "base/csv.h"
#include "sim/throughput_point.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A node holds this many GPUs where nothing says it: DGX and HGX systems, the usual server. */
enum { USUAL_GPUS_PER_NODE = 8, COUNT_MAX = 1 << 24 };

/* ---- Reading ---- */

enum { GPUS, NODES, THROUGHPUT, LOCAL_BATCH, ACCUMULATION, N_COLUMNS };

static const struct lk_csv_column columns[N_COLUMNS] = {
    [GPUS] = {"gpus|n_gpus|ranks|world_size",              true },
    [NODES] = {"nodes|n_nodes",                             false},
    [THROUGHPUT] = {"throughput|throughput_per_s|samples_per_s", true },
    [LOCAL_BATCH] = {"local_batch|batch_per_gpu",                 false},
    [ACCUMULATION] = {"accumulation|grad_accum",                   false},
};

void lk_throughput_fini(struct lk_throughput_table *t)
{
    free(t->name);
    free(t->points);
    memset(t, 0, sizeof *t);
}

bool lk_throughput_same_batch(const struct lk_scaling_point *a, const struct lk_scaling_point *b)
{
    return a->local_batch == b->local_batch && a->accumulation == b->accumulation;
}

static enum lk_status count(const struct lk_csv *csv, size_t row, size_t col, double fallback,
                            double *out)
{
    enum lk_status st = LK_OK;
    int64_t v;

    *out = fallback;
    if (!lk_csv_has(csv, row, col) && !columns[col].required)
        return LK_OK;
    LK_TRY(lk_csv_int(csv, row, col, 1, COUNT_MAX, &v));
    *out = (double)v;
out:
    return st;
}

static enum lk_status read_row(const struct lk_csv *csv, size_t row, struct lk_scaling_point *p)
{
    enum lk_status st = LK_OK;

    LK_TRY(count(csv, row, GPUS, 0, &p->gpus));
    LK_TRY(count(csv, row, NODES, 1, &p->nodes));
    LK_TRY(count(csv, row, LOCAL_BATCH, 0, &p->local_batch));
    LK_TRY(count(csv, row, ACCUMULATION, 1, &p->accumulation));
    LK_TRY(lk_csv_positive(csv, row, THROUGHPUT, &p->throughput));
    if (p->nodes > p->gpus || fmod(p->gpus, p->nodes) != 0)
        st = lk_csv_error(csv, row, NODES, "%g GPUs do not divide among %g nodes", p->gpus,
                          p->nodes);
out:
    return st;
}

static int by_batch_and_gpus(const void *a, const void *b)
{
    const struct lk_scaling_point *x = a, *y = b;
    double d = x->local_batch - y->local_batch;

    d = d != 0 ? d : x->accumulation - y->accumulation;
    d = d != 0 ? d : x->gpus - y->gpus;
    d = d != 0 ? d : x->nodes - y->nodes;
    return (d > 0) - (d < 0);
}

/* Repeats become one point with their mean. */
static void merge(struct lk_throughput_table *t)
{
    size_t kept = 0;

    qsort(t->points, t->n, sizeof *t->points, by_batch_and_gpus);
    for (size_t i = 0; i < t->n;) {
        struct lk_scaling_point p = t->points[i];
        size_t n = 0;

        p.throughput = 0;
        for (; i + n < t->n && !by_batch_and_gpus(&t->points[i + n], &p); n++)
            p.throughput += t->points[i + n].throughput;
        p.throughput /= (double)n;
        i += n;
        t->points[kept++] = p;
    }
    t->n = kept;
}

enum lk_status lk_throughput_read(const char *path, struct lk_throughput_table *out)
{
    enum lk_status st = LK_OK;
    struct lk_csv *csv = NULL;
    struct lk_throughput_table t = {0};

    LK_TRY(lk_csv_load(path, columns, N_COLUMNS, LK_CSV_STRICT, &csv));
    LK_TRY(lk_strdup(&t.name, path));
    t.has_nodes = lk_csv_has_column(csv, NODES);
    LK_TRY(lk_array_grow(&t.points, &t.capacity, lk_csv_rows(csv) + 1, sizeof *t.points));
    for (; t.n < lk_csv_rows(csv); t.n++)
        LK_TRY(read_row(csv, t.n, &t.points[t.n]));
    if (!t.n) {
        st = lk_fail(LK_EPARSE, "%s: no rows", path);
        goto out;
    }
    merge(&t);
    if (t.n > LK_SCALING_POINTS_MAX) {
        st = lk_fail(LK_EPARSE, "%s: %zu configurations; at most %d", path, t.n,
                     LK_SCALING_POINTS_MAX);
        goto out;
    }
    for (size_t i = 1; i < t.n; i++)
        if ((t.points[i].local_batch > 0) != (t.points[0].local_batch > 0)) {
            st = lk_fail(LK_EPARSE, "%s: some rows have a local batch, others none", path);
            goto out;
        }
    *out = t;
    memset(&t, 0, sizeof t);
out:
    lk_throughput_fini(&t);
    lk_csv_free(csv);
    return st;
}

/* ---- One prediction ---- */

enum lk_status lk_throughput_at(const struct lk_scaling_point *points, size_t n,
                                const struct lk_scaling_point *target, double level,
                                struct lk_throughput_estimate *out)
{
    enum lk_status st = LK_OK;
    struct lk_mixture m = {0};

    LK_TRY(lk_scaling_predict(&lk_scaling_default, points, n, target, 1, 0, &m));
    lk_mixture_normalise(&m, NULL);
    out->value = target->gpus / exp(lk_mixture_quantile(&m, 0.5));
    out->lo = target->gpus / exp(lk_mixture_quantile(&m, (1 + level) / 2));
    out->hi = target->gpus / exp(lk_mixture_quantile(&m, (1 - level) / 2));
out:
    lk_mixture_fini(&m);
    return st;
}

/* ---- The forecast ---- */

struct context {
    const struct lk_throughput_table *t;
    const struct lk_throughput_request *q;
    const struct lk_scaling_point *reference; /* smallest count of the batch, or of the table */
    struct lk_scaling_point like;             /* batch and accumulation asked for */
    double per_node, most_gpus, most_nodes;   /* most: measured */
    struct lk_forecast *out;
};

static enum lk_status find_shape(struct context *c)
{
    const struct lk_scaling_point *largest = &c->t->points[0];
    double fullest = 0;

    for (size_t i = 0; i < c->t->n; i++) {
        const struct lk_scaling_point *p = &c->t->points[i];

        largest = p->gpus > largest->gpus ? p : largest;
        c->most_nodes = fmax(c->most_nodes, p->nodes);
        fullest = fmax(fullest, p->gpus / p->nodes);
    }
    c->most_gpus = largest->gpus;
    c->like = *largest;
    if (c->q->local_batch)
        c->like.local_batch = c->q->local_batch;
    if (c->q->accumulation)
        c->like.accumulation = c->q->accumulation;
    if (c->q->local_batch && !(largest->local_batch > 0))
        return lk_fail(LK_EEVIDENCE,
                       "%s: no column local_batch, so nothing is known of a batch of "
                       "%d. The cheapest run: the same table with that column filled",
                       c->t->name, c->q->local_batch);
    c->per_node = c->q->gpus_per_node > 0 ? c->q->gpus_per_node
                  : c->most_nodes > 1     ? fullest
                                          : fmax(fullest, USUAL_GPUS_PER_NODE);
    for (size_t i = 0; i < c->t->n; i++) {
        const struct lk_scaling_point *p = &c->t->points[i];

        if (lk_throughput_same_batch(p, &c->like) &&
            (!c->reference || p->gpus < c->reference->gpus))
            c->reference = p;
    }
    return LK_OK;
}

/* How many times the batch is beyond the nearest measured one. */
static double batch_reach(const struct context *c)
{
    double reach = INFINITY;

    for (size_t i = 0; i < c->t->n; i++)
        reach = fmin(reach, c->like.local_batch > 0
                                ? exp(fabs(log(c->like.local_batch / c->t->points[i].local_batch)))
                                : 1);
    return reach;
}

static enum lk_status check_reach(const struct context *c, const struct lk_scaling_point *target)
{
    double reach = batch_reach(c);

    if (reach > LK_THROUGHPUT_BATCH_REACH)
        return lk_fail(LK_EEVIDENCE,
                       "a local batch of %g is %.1f times beyond the nearest in %s. The cheapest "
                       "run that would supply it: %g GPUs at local batch %g",
                       c->like.local_batch, reach, c->t->name, c->t->points[0].gpus,
                       c->like.local_batch);
    if (target->nodes > 1 && c->most_nodes < 2)
        return lk_fail(LK_EEVIDENCE,
                       "%g GPUs take %g nodes, and %s has no run on two: nothing is known of the "
                       "network. The cheapest run that would supply it: 2 nodes, %g GPUs%s",
                       target->gpus, target->nodes, c->t->name, 2 * c->per_node,
                       c->t->has_nodes ? "" : " (with a column nodes; or give --gpus-per-node)");
    if (target->gpus > LK_THROUGHPUT_REACH * c->most_gpus)
        return lk_fail(LK_EEVIDENCE,
                       "%g GPUs are %.0f times the largest count in %s; a forecast reaches %d "
                       "times. The cheapest run that would supply it: %.0f GPUs",
                       target->gpus, target->gpus / c->most_gpus, c->t->name, LK_THROUGHPUT_REACH,
                       ceil(target->gpus / LK_THROUGHPUT_REACH / c->per_node) * c->per_node);
    return LK_OK;
}

static void grade(const struct context *c, const struct lk_scaling_point *target,
                  struct lk_forecast_point *p)
{
    bool measured = false, below = false, above = false;

    for (size_t i = 0; i < c->t->n; i++) {
        const struct lk_scaling_point *m = &c->t->points[i];

        if (!lk_throughput_same_batch(m, target))
            continue;
        measured |= m->gpus == target->gpus && m->nodes == target->nodes;
        below |= m->gpus <= target->gpus;
        above |= m->gpus >= target->gpus;
    }
    p->evidence = measured         ? LK_EVIDENCE_MEASURED
                  : below && above ? LK_EVIDENCE_INTERPOLATED
                                   : LK_EVIDENCE_EXTRAPOLATED;
    if (p->evidence == LK_EVIDENCE_EXTRAPOLATED && !c->reference)
        snprintf(p->evidence_text, sizeof p->evidence_text, "extrapolated: no run of this batch");
    else if (p->evidence == LK_EVIDENCE_EXTRAPOLATED)
        snprintf(p->evidence_text, sizeof p->evidence_text, "extrapolated x%.3g on gpus",
                 above ? c->reference->gpus / target->gpus : target->gpus / c->most_gpus);
    else
        snprintf(p->evidence_text, sizeof p->evidence_text, "%s", lk_evidence_name(p->evidence));
}

static void set_point(const struct context *c, const struct lk_scaling_point *target,
                      const struct lk_throughput_estimate *e, struct lk_forecast_point *p)
{
    double samples = fmax(target->local_batch, 1) * target->accumulation * target->gpus;

    *p = (struct lk_forecast_point){.gpus = (int)target->gpus,
                                    .nodes = (int)target->nodes,
                                    .local_batch = (int)fmax(target->local_batch, 1),
                                    .accumulation = (int)target->accumulation,
                                    .step_s = samples / e->value,
                                    .step_lo_s = samples / e->hi,
                                    .step_hi_s = samples / e->lo,
                                    .throughput_per_s = e->value,
                                    .efficiency = NAN,
                                    .efficiency_lo = NAN,
                                    .efficiency_hi = NAN,
                                    .measured_step_s = NAN,
                                    .measured_lo_s = NAN,
                                    .measured_hi_s = NAN,
                                    .plan = lk_plan_none};
    if (c->reference) {
        double ideal = c->reference->throughput / c->reference->gpus * target->gpus;

        p->efficiency = e->value / ideal;
        p->efficiency_lo = e->lo / ideal;
        p->efficiency_hi = e->hi / ideal;
    }
    for (int i = 0; i < LK_LOSS_COUNT; i++)
        p->losses_s[i] = NAN;
    for (size_t i = 0; i < c->t->n; i++)
        if (lk_throughput_same_batch(&c->t->points[i], target) &&
            c->t->points[i].gpus == target->gpus && c->t->points[i].nodes == target->nodes)
            p->measured_step_s = samples / c->t->points[i].throughput;
    grade(c, target, p);
}

static enum lk_status make_target(const struct context *c, double gpus,
                                  struct lk_scaling_point *out)
{
    *out = c->like;
    out->gpus = gpus;
    out->nodes = ceil(gpus / c->per_node);
    out->throughput = 0;
    if (fmod(gpus, out->nodes) != 0)
        return lk_fail(LK_EUSAGE, "%g GPUs do not divide among %g nodes of %g", gpus, out->nodes,
                       c->per_node);
    return LK_OK;
}

static enum lk_status add_point(struct context *c, double gpus)
{
    enum lk_status st = LK_OK;
    struct lk_scaling_point target;
    struct lk_throughput_estimate e;
    struct lk_forecast *f = c->out;

    LK_TRY(make_target(c, gpus, &target));
    LK_TRY(check_reach(c, &target));
    LK_TRY(lk_throughput_at(c->t->points, c->t->n, &target, c->q->level, &e));
    LK_TRY(lk_array_grow(&f->points, &f->points_capacity, f->n_points + 1, sizeof *f->points));
    set_point(c, &target, &e, &f->points[f->n_points++]);
out:
    return st;
}

/* ---- Knee ---- */

static enum lk_status of_nodes(struct context *c, double nodes, double *out)
{
    enum lk_status st = LK_OK;
    struct lk_scaling_point target;
    struct lk_throughput_estimate e;

    LK_TRY(make_target(c, nodes * c->per_node, &target));
    LK_TRY(lk_throughput_at(c->t->points, c->t->n, &target, c->q->level, &e));
    *out = e.value;
out:
    return st;
}

/* In whole nodes: beyond it the next node adds less than half of what the first delivers. */
static enum lk_status note_knee(struct context *c)
{
    enum lk_status st = LK_OK;
    double first, last, nodes = 1, most = c->most_nodes * 8;

    if (c->most_nodes < 2)
        return lk_forecast_note(c->out, "knee: not known, no run on two nodes");
    LK_TRY(of_nodes(c, 1, &first));
    last = first;
    while (nodes < most) {
        double next = nodes + fmax(1, floor(nodes / 4)), got;

        LK_TRY(of_nodes(c, next, &got));
        if ((got - last) / (next - nodes) < first / 2)
            return lk_forecast_note(c->out,
                                    "knee: %g nodes; the next adds less than half of what "
                                    "the first delivers",
                                    nodes);
        nodes = next;
        last = got;
    }
    LK_TRY(lk_forecast_note(c->out, "knee: not reached within %g nodes", most));
out:
    return st;
}

static enum lk_status add_notes(struct context *c)
{
    enum lk_status st = LK_OK;
    struct lk_forecast *f = c->out;

    LK_TRY(lk_forecast_note(f, "from throughputs alone: the scaling law of published series; "
                               "docs/accuracy.md has its errors on series held out"));
    if (!(c->like.local_batch > 0))
        LK_TRY(lk_forecast_note(f, "no local batch in the table: a step is one sample a GPU"));
    if (!c->q->gpus_per_node && c->most_nodes < 2)
        LK_TRY(lk_forecast_note(f, "assumed: %g GPUs a node (--gpus-per-node)", c->per_node));
    LK_TRY(note_knee(c));
out:
    return st;
}

enum lk_status lk_throughput_predict(const struct lk_throughput_table *t,
                                     const struct lk_throughput_request *request,
                                     struct lk_forecast *out)
{
    enum lk_status st = LK_OK;
    struct lk_forecast f = {.level = request->level};
    struct context c = {.t = t, .q = request, .out = &f};

    LK_TRY(find_shape(&c));
    LK_TRY(lk_strdup(&f.job, t->name));
    LK_TRY(lk_strdup(&f.cluster, "as measured"));
    LK_TRY(lk_strdup(&f.sample_unit, "sample"));
    if (c.reference)
        LK_TRY(lk_asprintf(&f.reference, "%g GPU%s", c.reference->gpus,
                           c.reference->gpus > 1 ? "s" : ""));
    else
        LK_TRY(lk_strdup(&f.reference, "none: no run of this batch"));
    for (size_t i = 0; i < request->n_gpus; i++)
        LK_TRY(add_point(&c, request->gpus[i]));
    LK_TRY(add_notes(&c));
    *out = f;
    memset(&f, 0, sizeof f);
out:
    lk_forecast_fini(&f);
    return st;
}
