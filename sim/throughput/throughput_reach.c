/* How far a table of throughputs reaches; see the header. */
#include "sim/throughput/throughput_reach.h"

#include "sim/throughput/scaling_interval.h"

#include <math.h>
#include <stdio.h>

/* Returns the extrapolation factor of the batch from the nearest measured one. */
static double batch_extrapolation(const struct lk_throughput_reach *r, const struct lk_config *c)
{
    double reach = INFINITY;

    for (size_t i = 0; i < r->table->n; i++)
        reach =
            fmin(reach, c->local_batch > 0 ? exp(fabs(log((double)c->local_batch /
                                                          r->table->points[i].config.local_batch)))
                                           : 1);
    return reach;
}

/* Fails where the step model alone would tell, and is refuted. */
static enum lk_status check_model(const struct lk_throughput_reach *r, const struct lk_config *c)
{
    bool alike = false;

    for (size_t i = 0; i < r->table->n; i++) {
        const struct lk_config *row = &r->table->points[i].config;

        alike |= lk_config_same_scheme(row, c) && row->cap_bytes == c->cap_bytes;
    }
    if (r->refuted && r->asked_elsewhere)
        return lk_fail(LK_EEVIDENCE,
                       "%s: the step model, which the rows contradict, would alone tell what "
                       "another machine does",
                       r->table->name);
    if (!r->refuted || (alike && (c->nodes < 2 || r->most_nodes > 1)))
        return LK_OK;
    return lk_fail(
        LK_EEVIDENCE, "%s: the step model, which the rows contradict, would alone tell %s",
        r->table->name, alike ? "what several nodes do" : "what other buckets or exchanges do");
}

enum lk_status lk_throughput_check_reach(const struct lk_throughput_reach *r,
                                         const struct lk_config *c, double *out_batch)
{
    double reach = batch_extrapolation(r, c);
    int most = r->has_model ? LK_THROUGHPUT_MODEL_REACH : LK_THROUGHPUT_REACH;
    bool is_smaller = c->local_batch < r->table->points[0].config.local_batch;

    LK_PASS(check_model(r, c));

    if (reach > (is_smaller ? LK_THROUGHPUT_SMALLER_REACH : LK_THROUGHPUT_BATCH_REACH))
        return lk_fail(LK_EEVIDENCE,
                       "a local batch of %d is %.1f times beyond the nearest in %s. The cheapest "
                       "run that would supply it: %d GPUs at local batch %d",
                       c->local_batch, reach, r->table->name, r->table->points[0].config.world_size,
                       c->local_batch);
    if (c->nodes > 1 && r->most_nodes < 2 && !r->has_model)
        return lk_fail(LK_EEVIDENCE,
                       "%d GPUs take %d nodes, and %s has no run on two: nothing is known of the "
                       "network: say what the job and the cluster are (--parameters, --cluster). "
                       "The cheapest run that would supply it: 2 nodes, %d GPUs%s",
                       c->world_size, c->nodes, r->table->name, 2 * r->cluster->gpus_per_node,
                       r->per_node_assumed ? " (or say how many a node has: --gpus-per-node)" : "");
    if ((double)c->world_size > (double)most * r->largest)
        return lk_fail(LK_EEVIDENCE,
                       "%d GPUs are %.0f times the largest count in %s; a forecast reaches %d "
                       "times. The cheapest run that would supply it: %d GPUs",
                       c->world_size, (double)c->world_size / r->largest, r->table->name, most,
                       ((c->world_size - 1) / most / r->cluster->gpus_per_node + 1) *
                           r->cluster->gpus_per_node);
    *out_batch = reach;
    return LK_OK;
}

enum lk_status lk_throughput_say_width(const struct lk_throughput_table *t,
                                       const struct lk_prediction *const *points, size_t n,
                                       struct lk_forecast *out)
{
    const struct lk_scaling_judged *far = NULL;

    for (size_t i = 0; i < n; i++) {
        const struct lk_scaling_judged *j =
            lk_scaling_judged(lk_scaling_kind_of(t->points, t->n, &points[i]->config));

        far = j && (!far || j->doublings > far->doublings) ? j : far;
    }
    if (!far)
        return LK_OK;
    return lk_forecast_note(out,
                            "interval at %d times the rows' GPUs%s%s: of %s width; on %d published "
                            "counts of %d sources the law's own scores %.2f, a constant one %.2f "
                            "(smaller is better)",
                            1 << far->doublings,
                            far->doublings == LK_SCALING_DOUBLINGS ? " and more" : "",
                            far->strong ? ", the same global batch" : "",
                            far->half > 0 ? "a constant" : "the law's own", far->tests,
                            far->sources, far->law, far->constant);
}

/* Returns the setting in which every row differs from a configuration, its batch first. */
static const char *differs(const struct lk_throughput_table *t, const struct lk_config *c)
{
    const char *what = "local batch";

    for (size_t i = 0; i < t->n; i++) {
        const struct lk_config *row = &t->points[i].config;

        if (row->local_batch != c->local_batch)
            continue;
        if (row->accumulation != c->accumulation)
            what = "accumulation";
        else
            what = row->cap_bytes != c->cap_bytes ? "bucket cap" : "exchange of gradients";
    }
    return what;
}

void lk_throughput_say_beyond(const struct lk_throughput_table *t, const char *machine,
                              struct lk_prediction *p)
{
    const struct lk_config *c = &p->config;
    double least = INFINITY, most = 0;
    bool alike = false;
    const char *joint;

    for (size_t i = 0; i < t->n; i++)
        alike |= lk_throughput_same_batch(&t->points[i].config, c);
    for (size_t i = 0; i < t->n; i++) {
        const struct lk_config *row = &t->points[i].config;

        if (alike && !lk_throughput_same_batch(row, c))
            continue;
        least = fmin(least, row->world_size);
        most = fmax(most, row->world_size);
    }
    joint = machine || !alike ? "," : "";
    snprintf(p->evidence_text, sizeof p->evidence_text, "extrapolated%s%s%s", *joint ? " to " : "",
             machine || alike ? "" : "another ",
             machine ? machine
             : alike ? ""
                     : differs(t, c));
    lk_evidence_add_reach(p->evidence_text, &joint,
                          fmax(least / c->world_size, c->world_size / most), "gpus");
    lk_evidence_add_reach(p->evidence_text, &joint, p->batch_extrapolation, "local batch");
}

enum lk_status lk_throughput_check_request(const struct lk_throughput_table *t,
                                           const struct lk_throughput_request *q)
{
    const struct lk_forecast_request *grid = &q->grid;

    if (q->model)
        return LK_OK;
    if (grid->global_batch && !t->points[0].config.local_batch &&
        !grid->axes[LK_AXIS_LOCAL_BATCH].n)
        return lk_fail(LK_EEVIDENCE,
                       "%s: no column local_batch, so a global batch of %lld cannot be split; "
                       "--local-batch says that of all rows",
                       t->name, (long long)grid->global_batch);
    return LK_OK;
}
