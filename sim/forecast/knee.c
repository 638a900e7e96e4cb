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

/* Returns the next count of nodes to look at: a quarter more, or a measured one before. */
static int next_of(const struct lk_evidence_source *e, int at, int most)
{
    int next = at + (at / 4 > 1 ? at / 4 : 1);

    next = next < most ? next : most;
    for (size_t i = 0; i < e->n_measured; i++) {
        int nodes = e->measured[i].config.nodes;

        if (nodes > at && nodes < next)
            next = nodes;
    }
    return next;
}

enum lk_status lk_knee_find(const struct lk_evidence_source *e, const struct lk_config *like,
                            int most, int *out_nodes)
{
    enum lk_status st;
    double first, best;
    int knee = 1, at = 1;

    LK_PASS(throughput_of_nodes(e, *like, 1, &first));
    best = first / 2;
    while (at < most) {
        double all, beyond;

        at = next_of(e, at, most);
        st = throughput_of_nodes(e, *like, at, &all);
        if (st == LK_EEVIDENCE && knee < at - 1)
            break;
        LK_PASS(st);
        beyond = all - at * first / 2;
        if (beyond >= best) {
            best = beyond;
            knee = at;
        }
    }
    *out_nodes = knee;
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
                            "No knee within %d nodes: up to there a node adds at least half of "
                            "what the first delivers.",
                            most);
}
