/* The scenarios of a what-if: its grid, each axis alone, and what both are compared with. */
#include "sim/whatif_state.h"

#include "base/array.h"

#include <string.h>

double lk_whatif_samples(const struct lk_config *c)
{
    return (double)c->gpus * c->local_batch * c->accumulation;
}

enum lk_status lk_whatif_refuse(struct lk_whatif_state *w, struct lk_whatif_item *i,
                                enum lk_status st)
{
    i->status = st;
    w->n_refused += i->role == LK_WHATIF_GRID;
    return w->refusal || i->role != LK_WHATIF_GRID ? LK_OK
                                                   : lk_strdup(&w->refusal, lk_error_text());
}

/* A global batch may yet bring accumulation. */
static bool matters(const struct lk_whatif_state *w, enum lk_axis a, const struct lk_config *c)
{
    return (a == LK_AXIS_NO_SYNC && w->request->global_batch > 0) || lk_axis_matters(a, c);
}

/* Nodes and accumulation follow from what the axes set. */
static enum lk_status finish(struct lk_whatif_state *w, struct lk_whatif_item *i)
{
    enum lk_status st = LK_OK;
    struct lk_cluster c = *w->cluster;

    if (i->s.change.gpus_per_node)
        c.gpus_per_node = i->s.change.gpus_per_node;
    if (i->s.config.compression == LK_COMPRESSION_POWERSGD && !i->s.config.powersgd_rank)
        i->s.config.powersgd_rank = 1; /* PyTorch's default */
    st = lk_config_nodes(&c, i->s.config.gpus, &i->s.config.nodes);
    if (st == LK_OK)
        st = lk_config_split_global(w->request->global_batch, &i->s.config);
    lk_axis_settle(w->job, &i->s.config);
    return st == LK_EUSAGE || st == LK_EEVIDENCE ? lk_whatif_refuse(w, i, st) : st;
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

/* What an axis needs beside its value comes with it: the first value that was asked for. */
static void apply_companions(const struct lk_whatif_state *w, enum lk_axis of,
                             struct lk_scenario *s)
{
    static const struct {
        enum lk_axis of, companion;
    } rows[] = {
        {LK_AXIS_COMPRESSION,      LK_AXIS_POWERSGD_RANK   },
        {LK_AXIS_SHARDING,         LK_AXIS_SHARD_GROUP     },
        {LK_AXIS_SHARDING,         LK_AXIS_PERIOD          },
        {LK_AXIS_OVERSUBSCRIPTION, LK_AXIS_NODES_PER_SWITCH},
    };

    for (size_t i = 0; i < LK_COUNT(rows); i++) {
        enum lk_axis a = rows[i].companion;

        if (rows[i].of == of && w->request->axes[a].n && lk_axis_matters(a, &s->config))
            lk_axis_apply(a, &w->request->axes[a].v[0], w->job, s);
    }
}

/* The current configuration at each GPU count, then each axis moved alone. */
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

/* The n-th point, the last axis running fastest; false where an axis without meaning would only
 * repeat another point. */
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

enum lk_status lk_whatif_add_grid(struct lk_whatif_state *w)
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

/* What a point's efficiency refers to: plain DDP on the same machine at the reference's count. */
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

enum lk_status lk_whatif_add_references(struct lk_whatif_state *w)
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
            LK_TRY(lk_whatif_refuse(w, &w->items[i], LK_EUSAGE));
        while (at < w->n_items && !same_reference(&r.s, &w->items[at].s))
            at++;
        if (at == w->n_items)
            LK_TRY(add_item(w, r, &at));
        w->items[i].reference = at;
    }
out:
    return st;
}
