/* cluster.json, in and out. */
#include "base/cluster.h"

#include "base/array.h"
#include "base/bounds.h"
#include "base/cluster_rows.h"

#include <stdlib.h>

/* ---- Reading ---- */

static enum lk_status read_coll(struct lk_json *obj, enum lk_coll *out_coll, enum lk_algo *out_algo)
{
    enum lk_status st = LK_OK;
    const char *text;

    LK_TRY(lk_json_text(obj, "collective", &text));
    LK_TRY(lk_json_blame(obj, "collective", lk_coll_from_name(text, out_coll)));
    LK_TRY(lk_json_text(obj, "algorithm", &text));
    LK_TRY(lk_json_blame(obj, "algorithm", lk_algo_from_name(text, out_algo)));
out:
    return st;
}

static enum lk_status check_positive(struct lk_json *obj, const char *key,
                                     const struct lk_quantity *q)
{
    return q->value > 0 ? LK_OK : lk_json_error(lk_json_optional(obj, key), "must be above 0");
}

static enum lk_status read_point(struct lk_json *v, void *item)
{
    enum lk_status st = LK_OK;
    struct lk_cluster_point *p = item;
    int64_t bytes;
    int timing = 0;

    LK_TRY(read_coll(v, &p->coll, &p->algo));
    LK_TRY(lk_json_choice(v, "timing", lk_timing_names, LK_COUNT(lk_timing_names), &timing));
    p->timing = (enum lk_timing)timing;
    LK_TRY(lk_json_int32(v, "ranks", 1, LK_RANKS_MAX, &p->ranks));
    LK_TRY(lk_json_int32(v, "nodes", 1, p->ranks, &p->nodes));
    LK_TRY(lk_json_int(v, "bytes", 0, INT64_MAX, &bytes));
    p->bytes = (uint64_t)bytes;
    LK_TRY(lk_quantity_read(v, "time", LK_DIM_TIME, &p->time_s));
    LK_TRY(check_positive(v, "time", &p->time_s));
    LK_TRY(lk_json_end(v));
out:
    return st;
}

static enum lk_status read_fit(struct lk_json *v, void *item)
{
    enum lk_status st = LK_OK;
    struct lk_cluster_fit *f = item;
    int link = 0;

    LK_TRY(read_coll(v, &f->coll, &f->algo));
    LK_TRY(lk_json_choice(v, "link", lk_link_names, LK_COUNT(lk_link_names), &link));
    f->link = (enum lk_link)link;
    LK_TRY(lk_quantity_rows_read(v, lk_cluster_fit_rows, f));
    LK_TRY(check_positive(v, "bandwidth", &f->bandwidth_Bps));
    LK_TRY(lk_json_end(v));
out:
    return st;
}

static enum lk_status read_kappa(struct lk_json *v, void *item)
{
    enum lk_status st = LK_OK;
    struct lk_cluster_kappa *k = item;

    LK_TRY(lk_json_int32(v, "ranks", 1, LK_RANKS_MAX, &k->ranks));
    LK_TRY(lk_quantity_read(v, "kappa", LK_DIM_NONE, &k->kappa));
    LK_TRY(lk_json_end(v));
out:
    return st;
}

/* A rank's or a node's number; -1 when it is not the one that is named. */
static enum lk_status read_place(struct lk_json *v, const char *key, int *out)
{
    *out = -1;
    return lk_json_int32_optional(v, key, 0, LK_RANKS_MAX - 1, out);
}

static enum lk_status read_slow(struct lk_json *v, void *item)
{
    enum lk_status st = LK_OK;
    struct lk_cluster_slow *s = item;

    lk_quantity_rows_clear(lk_cluster_slow_rows, s);
    LK_TRY(read_place(v, "rank", &s->rank));
    LK_TRY(read_place(v, "node", &s->node));
    if ((s->rank < 0) == (s->node < 0))
        LK_TRY(lk_json_error(v, "expected a rank or a node, and not both"));
    LK_TRY(lk_quantity_rows_read(v, lk_cluster_slow_rows, s));
    if (!lk_quantity_known(&s->compute) && !lk_quantity_known(&s->link))
        LK_TRY(lk_json_error(v, "what is slow? Expected compute or link"));
    if (lk_quantity_known(&s->compute))
        LK_TRY(check_positive(v, "compute", &s->compute));
    if (lk_quantity_known(&s->link))
        LK_TRY(check_positive(v, "link", &s->link));
    LK_TRY(lk_json_bool_optional(v, "since", &s->since));
    LK_TRY(lk_json_end(v));
out:
    return st;
}

static int compare_points(const void *x, const void *y)
{
    const struct lk_cluster_point *a = x;
    const struct lk_cluster_point *b = y;

    if (a->coll != b->coll)
        return a->coll < b->coll ? -1 : 1;
    if (a->algo != b->algo)
        return a->algo < b->algo ? -1 : 1;
    if (a->ranks != b->ranks)
        return a->ranks < b->ranks ? -1 : 1;
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? -1 : 1;
    if (a->nodes != b->nodes)
        return a->nodes < b->nodes ? -1 : 1;
    return (a->timing > b->timing) - (a->timing < b->timing);
}

static int compare_kappa(const void *x, const void *y)
{
    const struct lk_cluster_kappa *a = x;
    const struct lk_cluster_kappa *b = y;

    return (a->ranks > b->ranks) - (a->ranks < b->ranks);
}

/* Sorts, and refuses what is there twice: which of them would count? Points may repeat. */
static enum lk_status order_lists(struct lk_json *root, struct lk_cluster *c)
{
    if (c->n_points)
        qsort(c->points, c->n_points, sizeof *c->points, compare_points);
    if (c->n_kappa)
        qsort(c->kappa, c->n_kappa, sizeof *c->kappa, compare_kappa);
    for (size_t i = 1; i < c->n_kappa; i++)
        if (c->kappa[i].ranks == c->kappa[i - 1].ranks)
            return lk_json_error(lk_json_optional(root, "colocation"), "%d ranks are there twice",
                                 c->kappa[i].ranks);
    for (size_t i = 0; i < c->n_fits; i++)
        for (size_t j = 0; j < i; j++)
            if (c->fits[i].coll == c->fits[j].coll && c->fits[i].algo == c->fits[j].algo &&
                c->fits[i].link == c->fits[j].link)
                return lk_json_error(lk_json_item(lk_json_optional(root, "fits"), i),
                                     "%s by %s over %s is there twice",
                                     lk_coll_name(c->fits[i].coll), lk_algo_name(c->fits[i].algo),
                                     lk_link_names[c->fits[i].link]);
    return LK_OK;
}

static enum lk_status read_lists(struct lk_json *root, struct lk_cluster *c)
{
    enum lk_status st = LK_OK;

    LK_TRY(lk_json_items(root, "collectives", LK_JSON_OPTIONAL, read_point, &c->points,
                         sizeof *c->points, &c->n_points));
    LK_TRY(lk_json_items(root, "fits", LK_JSON_OPTIONAL, read_fit, &c->fits, sizeof *c->fits,
                         &c->n_fits));
    LK_TRY(lk_json_items(root, "colocation", LK_JSON_OPTIONAL, read_kappa, &c->kappa,
                         sizeof *c->kappa, &c->n_kappa));
    LK_TRY(order_lists(root, c));
out:
    return st;
}

/* Both say what one place's field is. */
static bool same_slow(const struct lk_cluster_slow *a, const struct lk_cluster_slow *b)
{
    return a->rank == b->rank && a->node == b->node && a->since == b->since &&
           ((lk_quantity_known(&a->compute) && lk_quantity_known(&b->compute)) ||
            (lk_quantity_known(&a->link) && lk_quantity_known(&b->link)));
}

/* By place, then as the file has them. */
static int compare_slow(const void *x, const void *y)
{
    const struct lk_cluster_slow *a = *(const struct lk_cluster_slow *const *)x;
    const struct lk_cluster_slow *b = *(const struct lk_cluster_slow *const *)y;

    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    if (a->node != b->node)
        return a->node < b->node ? -1 : 1;
    return (a > b) - (a < b);
}

/* Nothing is said twice of one place. One place has four entries at most before it is. */
static enum lk_status check_slow(struct lk_json *list, const struct lk_cluster *c)
{
    enum lk_status st = LK_OK;
    const struct lk_cluster_slow **order = NULL;

    LK_TRY(lk_alloc(&order, c->n_slow, sizeof *order));
    for (size_t i = 0; i < c->n_slow; i++)
        order[i] = &c->slow[i];
    qsort(order, c->n_slow, sizeof *order, compare_slow);
    for (size_t i = 1; i < c->n_slow; i++) {
        const struct lk_cluster_slow *s = order[i];

        for (size_t k = i; k > 0 && order[k - 1]->rank == s->rank && order[k - 1]->node == s->node;
             k--)
            if (same_slow(s, order[k - 1]))
                LK_TRY(lk_json_error(lk_json_item(list, (size_t)(s - c->slow)),
                                     "%s %d is there twice", s->rank < 0 ? "node" : "rank",
                                     s->rank < 0 ? s->node : s->rank));
    }
out:
    free(order);
    return st;
}

static enum lk_status read_slow_list(struct lk_json *stragglers, struct lk_cluster *c)
{
    enum lk_status st = LK_OK;
    struct lk_json *list = lk_json_optional(stragglers, "known");

    LK_TRY(lk_json_items(stragglers, "known", LK_JSON_OPTIONAL, read_slow, &c->slow,
                         sizeof *c->slow, &c->n_slow));
    for (size_t i = 0; i < c->n_slow; i++)
        if (c->nodes && c->slow[i].node >= c->nodes)
            LK_TRY(lk_json_error(lk_json_item(list, i), "node %d: there are %d, from 0",
                                 c->slow[i].node, c->nodes));
    LK_TRY(check_slow(list, c));
out:
    return st;
}

static enum lk_status read_link(struct lk_json *root, const char *key, struct lk_cluster_link *out)
{
    enum lk_status st = LK_OK;
    struct lk_json *v = lk_json_optional(root, key);

    if (!v)
        return LK_OK;
    LK_TRY(lk_quantity_rows_read(v, lk_cluster_link_rows, out));
    LK_TRY(check_positive(v, "bandwidth", &out->bandwidth_Bps));
    LK_TRY(lk_json_end(v));
out:
    return st;
}

/* 1 for true, -1 for false, 0 when it is not said. */
static enum lk_status read_tristate(struct lk_json *obj, const char *key, int *out)
{
    enum lk_status st = LK_OK;
    bool yes = false;

    *out = 0;
    if (!lk_json_optional(obj, key))
        return LK_OK;
    LK_TRY(lk_json_bool(obj, key, &yes));
    *out = yes ? 1 : -1;
out:
    return st;
}

static enum lk_status read_topology(struct lk_json *v, struct lk_cluster_topology *t)
{
    enum lk_status st = LK_OK;
    int link = LK_GPU_LINK_UNKNOWN;
    int network = LK_NETWORK_UNKNOWN;
    int cpu = LK_CPU_UNKNOWN;

    LK_TRY(lk_json_choice_optional(v, "gpu_link", lk_gpu_link_names, LK_COUNT(lk_gpu_link_names),
                                   &link));
    LK_TRY(lk_json_choice_optional(v, "network", lk_network_names, LK_COUNT(lk_network_names),
                                   &network));
    LK_TRY(lk_json_choice_optional(v, "cpu", lk_cpu_names, LK_COUNT(lk_cpu_names), &cpu));
    t->gpu_link = (enum lk_gpu_link)link;
    t->network = (enum lk_network)network;
    t->cpu = (enum lk_cpu)cpu;
    LK_TRY(lk_json_int32_optional(v, "nvlink_domain", 1, LK_RANKS_MAX, &t->nvlink_domain));
    LK_TRY(lk_json_int32_optional(v, "nics_per_node", 1, LK_NICS_MAX, &t->nics_per_node));
    LK_TRY(lk_json_int32_optional(v, "nodes_per_switch", 1, LK_RANKS_MAX, &t->nodes_per_switch));
    LK_TRY(read_tristate(v, "nvls", &t->nvls));
    LK_TRY(read_tristate(v, "sharp", &t->sharp));
    LK_TRY(lk_quantity_rows_read(v, lk_cluster_topology_rows, t));
    if (lk_quantity_known(&t->oversubscription) && t->oversubscription.value < 1)
        LK_TRY(lk_json_error(lk_json_optional(v, "oversubscription"), "must be 1 or more"));
    LK_TRY(lk_json_end(v));
out:
    return st;
}

static enum lk_status read_machine(struct lk_json *v, struct lk_cluster *c)
{
    enum lk_status st = LK_OK;
    const char *key, *text;
    struct lk_json *fact;

    for (size_t i = 0; (fact = lk_json_member(v, i, &key)); i++) {
        LK_TRY(lk_json_as_text(fact, &text));
        LK_TRY(lk_cluster_add_fact(c, key, text));
    }
out:
    return st;
}

static enum lk_status read_groups(struct lk_json *root, struct lk_cluster *c)
{
    enum lk_status st = LK_OK;
    struct lk_json *v;

    v = lk_json_optional(root, "overlap");
    if (v) {
        LK_TRY(lk_quantity_rows_read(v, lk_cluster_overlap_rows, c));
        LK_TRY(lk_json_bool(v, "proxy", &c->overlap_proxy));
        LK_TRY(lk_json_end(v));
    }
    v = lk_json_optional(root, "stragglers");
    if (v) {
        LK_TRY(lk_quantity_rows_read(v, lk_cluster_straggler_rows, c));
        LK_TRY(read_slow_list(v, c));
        LK_TRY(lk_json_end(v));
    }
    v = lk_json_optional(root, "device");
    if (v) {
        LK_TRY(lk_json_int32_optional(v, "compute_capability", 10, 999,
                                      &c->device.compute_capability));
        LK_TRY(lk_quantity_rows_read(v, lk_cluster_device_rows, &c->device));
        LK_TRY(lk_json_end(v));
    }
    v = lk_json_optional(root, "topology");
    if (v)
        LK_TRY(read_topology(v, &c->topology));
    if (lk_json_optional(root, "machine")) {
        LK_TRY(lk_json_object(root, "machine", &v));
        LK_TRY(read_machine(v, c));
    }
    LK_TRY(lk_quantity_rows_read(root, lk_cluster_root_rows, c));
out:
    return st;
}

static enum lk_status read_root(struct lk_json *root, void *ctx)
{
    enum lk_status st = LK_OK;
    struct lk_cluster *c = ctx;

    LK_TRY(lk_json_schema(root, LK_CLUSTER_SCHEMA, LK_CLUSTER_VERSION));
    LK_TRY(lk_json_text_copy(root, "name", &c->name));
    LK_TRY(lk_json_bool(root, "preset", &c->preset));
    LK_TRY(lk_json_int32(root, "nodes", 0, LK_RANKS_MAX, &c->nodes));
    LK_TRY(lk_json_int32(root, "gpus_per_node", 1, LK_RANKS_MAX, &c->gpus_per_node));
    if ((int64_t)c->nodes * c->gpus_per_node > LK_RANKS_MAX)
        LK_TRY(lk_json_error(lk_json_optional(root, "nodes"), "%d nodes of %d GPUs are too many",
                             c->nodes, c->gpus_per_node));
    LK_TRY(lk_json_text_copy(root, "gpu", &c->gpu));
    LK_TRY(read_link(root, "intra", &c->intra));
    LK_TRY(read_link(root, "inter", &c->inter));
    LK_TRY(read_lists(root, c));
    LK_TRY(read_groups(root, c));
    LK_TRY(lk_json_end(root));
out:
    return st;
}

enum lk_status lk_cluster_read(const char *path, struct lk_cluster *out)
{
    struct lk_cluster c;
    enum lk_status st;

    lk_cluster_init(&c);
    st = lk_json_read(path, read_root, &c);
    if (st == LK_OK)
        *out = c;
    else
        lk_cluster_fini(&c);
    return st;
}

/* ---- Writing ---- */

static void write_link(struct lk_json_out *o, const char *key, const struct lk_cluster_link *l)
{
    if (!lk_quantity_known(&l->bandwidth_Bps))
        return;
    lk_json_out_object(o, key);
    lk_quantity_rows_write(o, lk_cluster_link_rows, l);
    lk_json_out_close(o);
}

static void write_device(struct lk_json_out *o, const struct lk_cluster_device *d)
{
    lk_json_out_object(o, "device");
    if (d->compute_capability)
        lk_json_out_int(o, "compute_capability", d->compute_capability);
    lk_quantity_rows_write(o, lk_cluster_device_rows, d);
    lk_json_out_close(o);
}

/* What was not said is left out, so that reading it back says the same. */
static void write_topology(struct lk_json_out *o, const struct lk_cluster_topology *t)
{
    lk_json_out_object(o, "topology");
    lk_json_out_text(o, "gpu_link", lk_gpu_link_names[t->gpu_link]);
    lk_json_out_text(o, "network", lk_network_names[t->network]);
    lk_json_out_text(o, "cpu", lk_cpu_names[t->cpu]);
    if (t->nvlink_domain)
        lk_json_out_int(o, "nvlink_domain", t->nvlink_domain);
    if (t->nics_per_node)
        lk_json_out_int(o, "nics_per_node", t->nics_per_node);
    if (t->nodes_per_switch)
        lk_json_out_int(o, "nodes_per_switch", t->nodes_per_switch);
    lk_quantity_rows_write(o, lk_cluster_topology_rows, t);
    if (t->nvls)
        lk_json_out_bool(o, "nvls", t->nvls > 0);
    if (t->sharp)
        lk_json_out_bool(o, "sharp", t->sharp > 0);
    lk_json_out_close(o);
}

static void write_machine(struct lk_json_out *o, const struct lk_cluster *c)
{
    if (!c->n_machine)
        return;
    lk_json_out_object(o, "machine");
    for (size_t i = 0; i < c->n_machine; i++)
        lk_json_out_text(o, c->machine[i].key, c->machine[i].text);
    lk_json_out_close(o);
}

static void write_coll(struct lk_json_out *o, enum lk_coll coll, enum lk_algo algo)
{
    lk_json_out_text(o, "collective", lk_coll_name(coll));
    lk_json_out_text(o, "algorithm", lk_algo_name(algo));
}

static void write_lists(struct lk_json_out *o, const struct lk_cluster *c)
{
    lk_json_out_array(o, "collectives");
    for (size_t i = 0; i < c->n_points; i++) {
        const struct lk_cluster_point *p = &c->points[i];

        lk_json_out_compact(o);
        lk_json_out_object(o, NULL);
        write_coll(o, p->coll, p->algo);
        lk_json_out_text(o, "timing", lk_timing_names[p->timing]);
        lk_json_out_int(o, "ranks", p->ranks);
        lk_json_out_int(o, "nodes", p->nodes);
        lk_json_out_uint(o, "bytes", p->bytes);
        lk_quantity_write(o, "time", LK_DIM_TIME, &p->time_s);
        lk_json_out_close(o);
    }
    lk_json_out_close(o);
    lk_json_out_array(o, "fits");
    for (size_t i = 0; i < c->n_fits; i++) {
        lk_json_out_object(o, NULL);
        write_coll(o, c->fits[i].coll, c->fits[i].algo);
        lk_json_out_text(o, "link", lk_link_names[c->fits[i].link]);
        lk_quantity_rows_write(o, lk_cluster_fit_rows, &c->fits[i]);
        lk_json_out_close(o);
    }
    lk_json_out_close(o);
    lk_json_out_array(o, "colocation");
    for (size_t i = 0; i < c->n_kappa; i++) {
        lk_json_out_compact(o);
        lk_json_out_object(o, NULL);
        lk_json_out_int(o, "ranks", c->kappa[i].ranks);
        lk_quantity_write(o, "kappa", LK_DIM_NONE, &c->kappa[i].kappa);
        lk_json_out_close(o);
    }
    lk_json_out_close(o);
}

static void write_slow(struct lk_json_out *o, const struct lk_cluster *c)
{
    if (!c->n_slow)
        return;
    lk_json_out_array(o, "known");
    for (size_t i = 0; i < c->n_slow; i++) {
        const struct lk_cluster_slow *s = &c->slow[i];

        lk_json_out_compact(o);
        lk_json_out_object(o, NULL);
        lk_json_out_int(o, s->rank < 0 ? "node" : "rank", s->rank < 0 ? s->node : s->rank);
        lk_quantity_rows_write(o, lk_cluster_slow_rows, s);
        if (s->since)
            lk_json_out_bool(o, "since", true);
        lk_json_out_close(o);
    }
    lk_json_out_close(o);
}

static void write_root(struct lk_json_out *o, const void *ctx)
{
    const struct lk_cluster *c = ctx;

    lk_json_out_object(o, NULL);
    lk_json_out_text(o, "schema", LK_CLUSTER_SCHEMA);
    lk_json_out_int(o, "version", LK_CLUSTER_VERSION);
    lk_json_out_text(o, "name", c->name);
    lk_json_out_bool(o, "preset", c->preset);
    lk_json_out_int(o, "nodes", c->nodes);
    lk_json_out_int(o, "gpus_per_node", c->gpus_per_node);
    lk_json_out_text(o, "gpu", c->gpu);
    write_device(o, &c->device);
    write_topology(o, &c->topology);
    write_machine(o, c);
    write_link(o, "intra", &c->intra);
    write_link(o, "inter", &c->inter);
    write_lists(o, c);
    lk_json_out_object(o, "overlap");
    lk_quantity_rows_write(o, lk_cluster_overlap_rows, c);
    lk_json_out_bool(o, "proxy", c->overlap_proxy);
    lk_json_out_close(o);
    lk_json_out_object(o, "stragglers");
    lk_quantity_rows_write(o, lk_cluster_straggler_rows, c);
    write_slow(o, c);
    lk_json_out_close(o);
    lk_quantity_rows_write(o, lk_cluster_root_rows, c);
    lk_json_out_close(o);
}

enum lk_status lk_cluster_write(const char *path, const struct lk_cluster *c)
{
    return lk_json_write(path, write_root, c);
}
