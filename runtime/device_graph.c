/* Graphs of the devices that have them. */
#include "runtime/device_impl.h"

bool lk_device_has_graphs(const struct lk_device *d)
{
    return d->ops->graph_begin != NULL;
}

enum lk_status lk_graph_begin(struct lk_stream *s)
{
    enum lk_status st = lk_device_status(s->device);

    if (st != LK_OK)
        return st;
    if (!s->device->ops->graph_begin)
        return lk_fail(LK_EUNSUPPORTED, "device %s has no graphs", s->device->ops->name);
    return s->device->ops->graph_begin(s);
}

enum lk_status lk_graph_end(struct lk_stream *s, struct lk_graph **out)
{
    if (!s->device->ops->graph_end)
        return lk_fail(LK_EUNSUPPORTED, "device %s has no graphs", s->device->ops->name);
    return s->device->ops->graph_end(s, out);
}

enum lk_status lk_graph_launch(struct lk_graph *g, struct lk_stream *s)
{
    enum lk_status st = lk_device_status(s->device);

    return st == LK_OK ? g->device->ops->graph_launch(g, s) : st;
}

void lk_graph_destroy(struct lk_graph *g)
{
    if (g)
        g->device->ops->graph_destroy(g);
}
