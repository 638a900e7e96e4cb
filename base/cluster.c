/* The cluster artefact: names, memory, reading and writing. */
#include "base/cluster.h"

#include "base/array.h"
#include "base/bounds.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const timing_names[] = {
#define LK_TIMING_NAME_(timing, name) [timing] = name,
    LK_TIMING_LIST(LK_TIMING_NAME_)
#undef LK_TIMING_NAME_
};

static const char *const link_names[LK_LINK_COUNT] = {
#define LK_LINK_NAME_(link, name) [link] = name,
    LK_LINK_LIST(LK_LINK_NAME_)
#undef LK_LINK_NAME_
};

static const char *const gpu_link_names[] = {
#define LK_GPU_LINK_NAME_(kind, name) [kind] = name,
    LK_GPU_LINK_LIST(LK_GPU_LINK_NAME_)
#undef LK_GPU_LINK_NAME_
};

static const char *const network_names[LK_NETWORK_COUNT] = {
#define LK_NETWORK_NAME_(kind, name) [kind] = name,
    LK_NETWORK_LIST(LK_NETWORK_NAME_)
#undef LK_NETWORK_NAME_
};

static const char *const cpu_names[] = {
#define LK_CPU_NAME_(maker, name) [maker] = name,
    LK_CPU_LIST(LK_CPU_NAME_)
#undef LK_CPU_NAME_
};

/* X(field, key, dimension): the optional quantities that stand alone. */
#define OVERLAP_LIST(X)                                                                            \
    X(gamma_wait, "gamma_wait", LK_DIM_NONE)                                                       \
    X(gamma_wire, "gamma_wire", LK_DIM_NONE)                                                       \
    X(delta, "delta", LK_DIM_NONE)

#define STRAGGLER_LIST(X)                                                                          \
    X(rank_sd, "rank_sd", LK_DIM_NONE)                                                             \
    X(node_sd, "node_sd", LK_DIM_NONE)                                                             \
    X(link_sd, "link_sd", LK_DIM_NONE)                                                             \
    X(transient_sd, "transient_sd", LK_DIM_NONE)                                                   \
    X(common_sd, "common_sd", LK_DIM_NONE)                                                         \
    X(tail_share, "tail_share", LK_DIM_NONE)                                                       \
    X(tail_scale, "tail_scale", LK_DIM_NONE)                                                       \
    X(tail_shape, "tail_shape", LK_DIM_NONE)

#define DEVICE_LIST(X)                                                                             \
    X(device.flops, "flops", LK_DIM_FLOPS)                                                         \
    X(device.memory_bytes, "memory", LK_DIM_BYTES)                                                 \
    X(device.memory_Bps, "memory_bandwidth", LK_DIM_RATE)

#define TOPOLOGY_LIST(X) X(topology.oversubscription, "oversubscription", LK_DIM_NONE)

#define ROOT_LIST(X)                                                                               \
    X(price_per_hour, "price_per_hour", LK_DIM_PRICE)                                              \
    X(power_W, "power", LK_DIM_POWER)                                                              \
    X(gpu_mtbf_s, "gpu_mtbf", LK_DIM_TIME)                                                         \
    X(restart_s, "restart", LK_DIM_TIME)                                                           \
    X(checkpoint_Bps, "checkpoint_bandwidth", LK_DIM_RATE)

#define LINK_LIST(X)                                                                               \
    X(latency_s, "latency", LK_DIM_TIME)                                                           \
    X(bandwidth_Bps, "bandwidth", LK_DIM_RATE)

#define FIT_LIST(X)                                                                                \
    X(launch_s, "launch", LK_DIM_TIME)                                                             \
    X(alpha_s, "alpha", LK_DIM_TIME)                                                               \
    X(bandwidth_Bps, "bandwidth", LK_DIM_RATE)                                                     \
    X(error, "error", LK_DIM_NONE)

const char *lk_timing_name(enum lk_timing t)
{
    return timing_names[t];
}

const char *lk_link_name(enum lk_link l)
{
    return link_names[l];
}

const char *lk_gpu_link_name(enum lk_gpu_link l)
{
    return gpu_link_names[l];
}

const char *lk_network_name(enum lk_network n)
{
    return network_names[n];
}

const char *lk_cpu_name(enum lk_cpu c)
{
    return cpu_names[c];
}

void lk_cluster_fini(struct lk_cluster *c)
{
    for (size_t i = 0; i < c->n_points; i++)
        lk_quantity_fini(&c->points[i].time_s);
#define FINI_FIT(field, key, dim) lk_quantity_fini(&c->fits[i].field);
    for (size_t i = 0; i < c->n_fits; i++) {
        FIT_LIST(FINI_FIT)
    }
#undef FINI_FIT
    for (size_t i = 0; i < c->n_kappa; i++)
        lk_quantity_fini(&c->kappa[i].kappa);
#define FINI(field, key, dim) lk_quantity_fini(&c->field);
    OVERLAP_LIST(FINI)
    STRAGGLER_LIST(FINI)
    ROOT_LIST(FINI)
    DEVICE_LIST(FINI)
    TOPOLOGY_LIST(FINI)
#undef FINI
#define FINI_LINK(field, key, dim)                                                                 \
    lk_quantity_fini(&c->intra.field);                                                             \
    lk_quantity_fini(&c->inter.field);
    LINK_LIST(FINI_LINK)
#undef FINI_LINK
    free(c->points);
    free(c->fits);
    free(c->kappa);
    free(c->name);
    free(c->gpu);
    *c = (struct lk_cluster){0};
}

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

static enum lk_status read_point(struct lk_json *v, struct lk_cluster_point *p)
{
    enum lk_status st = LK_OK;
    int64_t bytes;
    int timing = 0;

    LK_TRY(read_coll(v, &p->coll, &p->algo));
    LK_TRY(lk_json_choice(v, "timing", timing_names, LK_COUNT(timing_names), &timing));
    p->timing = (enum lk_timing)timing;
    LK_TRY(lk_json_int32(v, "ranks", 1, LK_RANKS_MAX, &p->ranks));
    LK_TRY(lk_json_int32(v, "nodes", 1, p->ranks, &p->nodes));
    LK_TRY(lk_json_int(v, "bytes", 0, INT64_MAX, &bytes));
    p->bytes = (uint64_t)bytes;
    LK_TRY(lk_quantity_read(v, "time", LK_DIM_TIME, &p->time_s));
    if (p->time_s.value <= 0)
        LK_TRY(lk_json_error(v, "time: must be above 0"));
    LK_TRY(lk_json_end(v));
out:
    return st;
}

static enum lk_status read_fit(struct lk_json *v, struct lk_cluster_fit *f)
{
    enum lk_status st = LK_OK;
    int link = 0;

    LK_TRY(read_coll(v, &f->coll, &f->algo));
    LK_TRY(lk_json_choice(v, "link", link_names, LK_COUNT(link_names), &link));
    f->link = (enum lk_link)link;
#define READ(field, key, dim) LK_TRY(lk_quantity_read(v, key, dim, &f->field));
    FIT_LIST(READ)
#undef READ
    if (f->bandwidth_Bps.value <= 0)
        LK_TRY(lk_json_error(v, "bandwidth: must be above 0"));
    LK_TRY(lk_json_end(v));
out:
    return st;
}

static enum lk_status read_kappa(struct lk_json *v, struct lk_cluster_kappa *k)
{
    enum lk_status st = LK_OK;

    LK_TRY(lk_json_int32(v, "ranks", 1, LK_RANKS_MAX, &k->ranks));
    LK_TRY(lk_quantity_read(v, "kappa", LK_DIM_NONE, &k->kappa));
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
                                     lk_link_name(c->fits[i].link));
    return LK_OK;
}

/* The three optional lists. Each grows its count item by item, so that fini frees what was read. */
static enum lk_status read_lists(struct lk_json *root, struct lk_cluster *c)
{
    enum lk_status st = LK_OK;
    struct lk_json *list;

#define READ_LIST(key, array, count, read)                                                         \
    list = lk_json_optional(root, key);                                                            \
    if (list && lk_json_type(list) != LK_JSON_ARRAY)                                               \
        LK_TRY(lk_json_error(list, "expected a list"));                                            \
    if (list && lk_json_count(list)) {                                                             \
        LK_TRY(lk_alloc(&c->array, lk_json_count(list), sizeof *c->array));                        \
        while (c->count < lk_json_count(list)) {                                                   \
            size_t i = c->count++;                                                                 \
                                                                                                   \
            LK_TRY(read(lk_json_item(list, i), &c->array[i]));                                     \
        }                                                                                          \
    }
    READ_LIST("collectives", points, n_points, read_point)
    READ_LIST("fits", fits, n_fits, read_fit)
    READ_LIST("colocation", kappa, n_kappa, read_kappa)
#undef READ_LIST
    LK_TRY(order_lists(root, c));
out:
    return st;
}

static enum lk_status read_link(struct lk_json *root, const char *key, struct lk_cluster_link *out)
{
    enum lk_status st = LK_OK;
    struct lk_json *v = lk_json_optional(root, key);

    if (!v)
        return LK_OK;
#define READ(field, name, dim) LK_TRY(lk_quantity_read(v, name, dim, &out->field));
    LINK_LIST(READ)
#undef READ
    if (out->bandwidth_Bps.value <= 0)
        LK_TRY(lk_json_error(v, "bandwidth: must be above 0"));
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

    LK_TRY(lk_json_choice_optional(v, "gpu_link", gpu_link_names, LK_COUNT(gpu_link_names), &link));
    LK_TRY(lk_json_choice_optional(v, "network", network_names, LK_COUNT(network_names), &network));
    LK_TRY(lk_json_choice_optional(v, "cpu", cpu_names, LK_COUNT(cpu_names), &cpu));
    t->gpu_link = (enum lk_gpu_link)link;
    t->network = (enum lk_network)network;
    t->cpu = (enum lk_cpu)cpu;
    LK_TRY(lk_json_int32_optional(v, "nvlink_domain", 1, LK_RANKS_MAX, &t->nvlink_domain));
    LK_TRY(lk_json_int32_optional(v, "nics_per_node", 1, LK_NICS_MAX, &t->nics_per_node));
    LK_TRY(lk_json_int32_optional(v, "nodes_per_switch", 1, LK_RANKS_MAX, &t->nodes_per_switch));
    LK_TRY(read_tristate(v, "nvls", &t->nvls));
    LK_TRY(read_tristate(v, "sharp", &t->sharp));
    if (lk_quantity_known(&t->oversubscription) && t->oversubscription.value < 1)
        LK_TRY(lk_json_error(lk_json_optional(v, "oversubscription"), "must be 1 or more"));
    LK_TRY(lk_json_end(v));
out:
    return st;
}

static enum lk_status read_groups(struct lk_json *root, struct lk_cluster *c)
{
    enum lk_status st = LK_OK;
    struct lk_json *v;

#define READ(field, key, dim) LK_TRY(lk_quantity_read_optional(v, key, dim, &c->field));
    v = lk_json_optional(root, "overlap");
    if (v) {
        OVERLAP_LIST(READ)
        LK_TRY(lk_json_bool(v, "proxy", &c->overlap_proxy));
        LK_TRY(lk_json_end(v));
    }
    v = lk_json_optional(root, "stragglers");
    if (v) {
        STRAGGLER_LIST(READ)
        LK_TRY(lk_json_end(v));
    }
    v = lk_json_optional(root, "device");
    if (v) {
        LK_TRY(lk_json_int32_optional(v, "compute_capability", 10, 999,
                                      &c->device.compute_capability));
        DEVICE_LIST(READ)
        LK_TRY(lk_json_end(v));
    }
    v = lk_json_optional(root, "topology");
    if (v) {
        TOPOLOGY_LIST(READ)
        LK_TRY(read_topology(v, &c->topology));
    }
    v = root;
    ROOT_LIST(READ)
#undef READ
out:
    return st;
}

static enum lk_status read_root(struct lk_json *root, struct lk_cluster *c)
{
    enum lk_status st = LK_OK;

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
    enum lk_status st = LK_OK;
    struct lk_cluster c = {0};
    struct lk_json_doc *doc = NULL;

    /* Absent: NaN, so that nobody calculates with a 0. */
#define NONE(field, key, dim) c.field = lk_quantity_none();
    OVERLAP_LIST(NONE)
    STRAGGLER_LIST(NONE)
    DEVICE_LIST(NONE)
    TOPOLOGY_LIST(NONE)
#undef NONE
#define NONE_LINK(field, key, dim)                                                                 \
    c.intra.field = lk_quantity_none();                                                            \
    c.inter.field = lk_quantity_none();
    LINK_LIST(NONE_LINK)
#undef NONE_LINK

    LK_TRY(lk_json_load(path, &doc));
    LK_TRY(read_root(lk_json_root(doc), &c));
    *out = c;
    c = (struct lk_cluster){0};
out:
    lk_cluster_fini(&c);
    lk_json_free(doc);
    return st;
}

/* ---- Writing ---- */

static void write_link(struct lk_json_out *o, const char *key, const struct lk_cluster_link *l)
{
    if (!lk_quantity_known(&l->bandwidth_Bps))
        return;
    lk_json_out_object(o, key);
#define WRITE(field, name, dim) lk_quantity_write(o, name, dim, &l->field);
    LINK_LIST(WRITE)
#undef WRITE
    lk_json_out_close(o);
}

static void write_device(struct lk_json_out *o, const struct lk_cluster *c)
{
    lk_json_out_object(o, "device");
    if (c->device.compute_capability)
        lk_json_out_int(o, "compute_capability", c->device.compute_capability);
#define WRITE(field, key, dim) lk_quantity_write(o, key, dim, &c->field);
    DEVICE_LIST(WRITE)
#undef WRITE
    lk_json_out_close(o);
}

/* What was not said is left out, so that reading it back says the same. */
static void write_topology(struct lk_json_out *o, const struct lk_cluster *c)
{
    const struct lk_cluster_topology *t = &c->topology;

    lk_json_out_object(o, "topology");
    lk_json_out_text(o, "gpu_link", lk_gpu_link_name(t->gpu_link));
    lk_json_out_text(o, "network", lk_network_name(t->network));
    lk_json_out_text(o, "cpu", lk_cpu_name(t->cpu));
    if (t->nvlink_domain)
        lk_json_out_int(o, "nvlink_domain", t->nvlink_domain);
    if (t->nics_per_node)
        lk_json_out_int(o, "nics_per_node", t->nics_per_node);
    if (t->nodes_per_switch)
        lk_json_out_int(o, "nodes_per_switch", t->nodes_per_switch);
#define WRITE(field, key, dim) lk_quantity_write(o, key, dim, &c->field);
    TOPOLOGY_LIST(WRITE)
#undef WRITE
    if (t->nvls)
        lk_json_out_bool(o, "nvls", t->nvls > 0);
    if (t->sharp)
        lk_json_out_bool(o, "sharp", t->sharp > 0);
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
        lk_json_out_text(o, "timing", lk_timing_name(p->timing));
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
        lk_json_out_text(o, "link", lk_link_name(c->fits[i].link));
#define WRITE(field, key, dim) lk_quantity_write(o, key, dim, &c->fits[i].field);
        FIT_LIST(WRITE)
#undef WRITE
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

static void write_root(struct lk_json_out *o, const struct lk_cluster *c)
{
    lk_json_out_object(o, NULL);
    lk_json_out_text(o, "schema", LK_CLUSTER_SCHEMA);
    lk_json_out_int(o, "version", LK_CLUSTER_VERSION);
    lk_json_out_text(o, "name", c->name);
    lk_json_out_bool(o, "preset", c->preset);
    lk_json_out_int(o, "nodes", c->nodes);
    lk_json_out_int(o, "gpus_per_node", c->gpus_per_node);
    lk_json_out_text(o, "gpu", c->gpu);
    write_device(o, c);
    write_topology(o, c);
    write_link(o, "intra", &c->intra);
    write_link(o, "inter", &c->inter);
    write_lists(o, c);
#define WRITE(field, key, dim) lk_quantity_write(o, key, dim, &c->field);
    lk_json_out_object(o, "overlap");
    OVERLAP_LIST(WRITE)
    lk_json_out_bool(o, "proxy", c->overlap_proxy);
    lk_json_out_close(o);
    lk_json_out_object(o, "stragglers");
    STRAGGLER_LIST(WRITE)
    lk_json_out_close(o);
    ROOT_LIST(WRITE)
#undef WRITE
    lk_json_out_close(o);
}

enum lk_status lk_cluster_write(const char *path, const struct lk_cluster *c)
{
    enum lk_status st = LK_OK;
    struct lk_writer *w = NULL;
    struct lk_json_out *o;

    LK_TRY(lk_writer_open(path, false, &w));
    LK_TRY(lk_json_out_begin(w, &o));
    write_root(o, c);
    LK_TRY(lk_json_out_end(o));
    st = lk_writer_commit(w);
    w = NULL;
out:
    lk_writer_abandon(w);
    return st;
}
