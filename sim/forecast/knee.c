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

/* Return whether all points that were asked for differ in GPUs alone. */
static bool is_one_curve(const struct lk_pipeline *w, size_t first)
{
    for (size_t i = first + 1; i < w->n_points; i++)
        if (!w->points[i].is_current &&
            !lk_forecast_same_curve(w->out, &w->out->points[first], &w->out->points[i]))
            return false;
    return true;
}

/* Return the first point that was asked for; n_points: there is none. */
static size_t first_asked(const struct lk_pipeline *w)
{
    size_t i = 0;

    while (i < w->n_points && w->points[i].is_current)
        i++;
    return i;
}

/* Say where the knee is, or note that none was found; a comparison's gains are said alone. */
static enum lk_status tell(const struct lk_pipeline *w, int nodes, int most, int per_node)
{
    if (nodes == most)
        return lk_forecast_note(w->out,
                                "No knee within %d nodes: up to there a node adds at least half of "
                                "what the first delivers.",
                                most);
    w->out->knee_gpus = nodes * per_node;
    return (w->request->compare ? lk_forecast_note : lk_forecast_say)(
        w->out,
        "The knee is at %d node%s (%d GPU%s): a further node adds less than half of what the first "
        "delivers.",
        nodes, nodes == 1 ? "" : "s", nodes * per_node, nodes * per_node == 1 ? "" : "s");
}

enum lk_status lk_pipeline_tell_knee(const struct lk_pipeline *w)
{
    enum lk_status st = LK_OK;
    size_t first = first_asked(w);
    struct lk_evidence_source e = *w->source;
    struct lk_cluster cluster = *e.cluster;
    const struct lk_machine *machine;
    int nodes = 0, asked = 1, most;

    if (first == w->n_points || w->request->global_batch > 0)
        return LK_OK;
    machine = &w->all.machines[w->all.v[w->points[first].item].machine];
    e.self = machine->self;
    cluster.gpus_per_node =
        machine->change.gpus_per_node ? machine->change.gpus_per_node : cluster.gpus_per_node;
    e.cluster = &cluster;
    for (size_t i = 0; i < w->n_points; i++) {
        int has = w->all.v[w->points[i].item].config.nodes;

        asked = has > asked ? has : asked;
    }
    most = e.knee_nodes ? e.knee_nodes : asked;
    if (most == 1 || (w->request->compare && !is_one_curve(w, first)))
        return LK_OK;
    if (most < 0)
        return lk_forecast_note(w->out, "knee: not known, no run on two nodes");
    st = lk_knee_find(&e, &w->all.v[w->points[first].item].config, most, &nodes);
    if (st == LK_EEVIDENCE || st == LK_EUSAGE) /* of groups that do not divide it, too */
        return lk_forecast_note(w->out, "knee: not known, a count on the way %s",
                                st == LK_EUSAGE ? "cannot be configured so" : "has no evidence");
    return st == LK_OK ? tell(w, nodes, most, cluster.gpus_per_node) : st;
}
