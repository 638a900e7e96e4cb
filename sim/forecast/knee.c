/* The knee of weak scaling. */
#include "sim/forecast/forecast.h"
#include "sim/forecast/pipeline.h"

static enum lk_status throughput_of_nodes(const struct lk_evidence_source *e, struct lk_config c,
                                          int nodes, double *out)
{
    double step_s;

    c.nodes = nodes;
    c.world_size = nodes * e->cluster->gpus_per_node;
    LK_PASS(e->ops->estimate(e->self, &c, &step_s));
    *out = lk_config_samples(&c) / step_s;
    return LK_OK;
}

enum lk_status lk_knee_find(const struct lk_evidence_source *e, const struct lk_config *like,
                            int most, int *out_nodes)
{
    double first, last;
    int at = 1;

    LK_PASS(throughput_of_nodes(e, *like, 1, &first));
    last = first;
    while (at < most) {
        int next = at + (at / 4 > 1 ? at / 4 : 1);
        double now;

        if (next > most)
            next = most;
        LK_PASS(throughput_of_nodes(e, *like, next, &now));
        if ((now - last) / (next - at) < first / 2)
            break;
        last = now;
        at = next;
    }
    *out_nodes = at;
    return LK_OK;
}

enum lk_status lk_pipeline_tell_knee(const struct lk_pipeline *w)
{
    enum lk_status st = LK_OK;
    const struct lk_evidence_source *e = w->source;
    int nodes = 0, asked = 1, most, per_node = e->cluster->gpus_per_node;

    for (size_t i = 0; i < w->n_points; i++) {
        int has = w->all.v[w->points[i].item].config.nodes;

        asked = has > asked ? has : asked;
    }
    most = e->knee_nodes ? e->knee_nodes : asked;
    if (w->request->global_batch > 0 || most == 1)
        return LK_OK;
    if (most < 0)
        return lk_forecast_note(w->out, "knee: not known, no run on two nodes");
    st = lk_knee_find(e, &w->all.v[w->points[0].item].config, most, &nodes);
    if (st == LK_EEVIDENCE)
        return lk_forecast_note(w->out, "knee: not known, a count on the way has no evidence");
    if (st != LK_OK)
        return st;
    if (nodes < most)
        return lk_forecast_say(w->out,
                               "The knee is at %d node%s (%d GPUs): a further node adds less than "
                               "half of what the first delivers.",
                               nodes, nodes == 1 ? "" : "s", nodes * per_node);
    return lk_forecast_note(w->out,
                            "No knee within %d nodes: each adds at least half of what the first "
                            "delivers.",
                            most);
}
