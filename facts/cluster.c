/* The cluster artefact: its words, its members as rows (base/member.h), and the checks that rows
 * cannot say. */
#include "facts/cluster.h"

#include "base/array.h"
#include "facts/bounds.h"
#include "facts/preset.h"

#include <stdlib.h>

const struct lk_words lk_timing_words = LK_WORDS("a timing", LK_TIMING_LIST);
const struct lk_words lk_link_words = LK_WORDS("a link", LK_LINK_LIST);
const struct lk_words lk_gpu_link_words = LK_WORDS("a link of GPUs", LK_GPU_LINK_LIST);
const struct lk_words lk_network_words = LK_WORDS("a network", LK_NETWORK_LIST);
const struct lk_words lk_cpu_words = LK_WORDS("a maker of processors", LK_CPU_LIST);

/* ---- Collectives ---- */

static enum lk_status check_point(struct lk_json *v, void *base)
{
    struct lk_cluster_point *p = base;

    return lk_json_int32(v, "nodes", 1, p->ranks, &p->nodes);
}

#define ROW(field, key, ...) LK_MEMBER(struct lk_cluster_point, field, key, __VA_ARGS__)
static const struct lk_member point_rows[] = {
    ROW(coll, "collective", WORD, REQUIRED, .words = &lk_modelled_coll_words, .help = "collective"),
    ROW(algo, "algorithm", WORD, REQUIRED, .words = &lk_algo_words, .help = "algorithm"),
    ROW(timing, "timing", WORD, REQUIRED, .words = &lk_timing_words,
        .help = "many in a row, or each between barriers"),
    ROW(ranks, "ranks", INT, REQUIRED, .min = 1, .max = LK_RANKS_MAX, .help = "ranks"),
    ROW(nodes, "nodes", INT, REQUIRED, .min = 1, .max = LK_RANKS_MAX, .help = "nodes they are on"),
    ROW(bytes, "bytes", UINT, REQUIRED, .max = INT64_MAX, .help = "nccl-tests' size, see below"),
    ROW(time_s, "time", QUANTITY, REQUIRED, .dim = LK_DIM_TIME, .range = LK_RANGE_ABOVE_0,
        .help = "time of one collective"),
    LK_MEMBER_END,
};
#undef ROW
static const struct lk_record point_record = {.size = sizeof(struct lk_cluster_point),
                                              .rows = point_rows,
                                              .one_line = true,
                                              .check = check_point};

#define ROW(field, key, ...) LK_MEMBER(struct lk_cluster_fit, field, key, __VA_ARGS__)
static const struct lk_member fit_rows[] = {
    ROW(coll, "collective", WORD, REQUIRED, .words = &lk_modelled_coll_words, .help = "collective"),
    ROW(algo, "algorithm", WORD, REQUIRED, .words = &lk_algo_words, .help = "algorithm"),
    ROW(link, "link", WORD, REQUIRED, .words = &lk_link_words,
        .help = "links inside a node, or between nodes"),
    ROW(launch_s, "launch", QUANTITY, REQUIRED, .dim = LK_DIM_TIME, .help = "fixed cost"),
    ROW(alpha_s, "alpha", QUANTITY, REQUIRED, .dim = LK_DIM_TIME, .help = "latency of one hop"),
    ROW(bandwidth_Bps, "bandwidth", QUANTITY, REQUIRED, .dim = LK_DIM_RATE,
        .range = LK_RANGE_ABOVE_0, .help = "rate of one rank's link, one direction"),
    ROW(error, "error", QUANTITY, REQUIRED, .dim = LK_DIM_NONE,
        .help = "typical relative error of the fit on its own points"),
    LK_MEMBER_END,
};
#undef ROW
static const struct lk_record fit_record = {.size = sizeof(struct lk_cluster_fit),
                                            .rows = fit_rows};

static bool has_bandwidth(const void *base)
{
    const struct lk_cluster_link *l = base;

    return lk_quantity_known(&l->bandwidth_Bps);
}

#define ROW(field, key, ...) LK_MEMBER(struct lk_cluster_link, field, key, __VA_ARGS__)
static const struct lk_member link_rows[] = {
    ROW(latency_s, "latency", QUANTITY, REQUIRED, .dim = LK_DIM_TIME, .help = "of one hop"),
    ROW(bandwidth_Bps, "bandwidth", QUANTITY, REQUIRED, .dim = LK_DIM_RATE,
        .range = LK_RANGE_ABOVE_0, .help = "of one direction"),
    LK_MEMBER_END,
};
#undef ROW
static const struct lk_record link_record = {
    .size = sizeof(struct lk_cluster_link), .rows = link_rows, .given = has_bandwidth};

/* ---- Machine ---- */

#define ROW(field, key, ...) LK_MEMBER(struct lk_cluster_device, field, key, __VA_ARGS__)
static const struct lk_member device_rows[] = {
    ROW(compute_capability, "compute_capability", INT, SPARSE, .min = 10, .max = 999,
        .help = "CUDA's: 90 for 9.0", .without = "not known, or no CUDA device"),
    ROW(flops, "flops", QUANTITY, OPTIONAL, .dim = LK_DIM_FLOPS,
        .help = "operations a second, dense, in the precision that jobs train in"),
    ROW(memory_bytes, "memory", QUANTITY, OPTIONAL, .dim = LK_DIM_BYTES, .help = "memory"),
    ROW(memory_Bps, "memory_bandwidth", QUANTITY, OPTIONAL, .dim = LK_DIM_RATE,
        .help = "rate of its memory"),
    LK_MEMBER_END,
};
#undef ROW
static const struct lk_record device_record = {.size = sizeof(struct lk_cluster_device),
                                               .rows = device_rows};

#define ROW(field, key, ...) LK_MEMBER(struct lk_cluster_topology, field, key, __VA_ARGS__)
static const struct lk_member topology_rows[] = {
    ROW(gpu_link, "gpu_link", WORD, OPTIONAL, .words = &lk_gpu_link_words,
        .help = "what the GPUs of a node move bytes over"),
    ROW(network, "network", WORD, OPTIONAL, .words = &lk_network_words,
        .help = "network between nodes"),
    ROW(cpu, "cpu", WORD, OPTIONAL, .words = &lk_cpu_words, .help = "maker of the processors"),
    ROW(nvlink_domain, "nvlink_domain", INT, SPARSE, .min = 1, .max = LK_RANKS_MAX,
        .help = "GPUs that NVLink joins, over nodes too", .without = "those of a node"),
    ROW(nics_per_node, "nics_per_node", INT, SPARSE, .min = 1, .max = LK_NICS_MAX,
        .help = "network cards of a node, each with `inter`'s bandwidth: a node has that of all",
        .without = "1"),
    ROW(nodes_per_switch, "nodes_per_switch", INT, SPARSE, .min = 1, .max = LK_RANKS_MAX,
        .help = "nodes below one leaf switch", .without = "all"),
    ROW(oversubscription, "oversubscription", QUANTITY, OPTIONAL, .dim = LK_DIM_NONE,
        .range = LK_RANGE_FROM_1, .help = "bandwidth below a leaf switch over that above it"),
    ROW(nvls, "nvls", TRISTATE, SPARSE, .help = "NVSwitches reduce", .without = "not known"),
    ROW(sharp, "sharp", TRISTATE, SPARSE, .help = "network switches reduce",
        .without = "not known"),
    LK_MEMBER_END,
};
#undef ROW
static const struct lk_record topology_record = {.size = sizeof(struct lk_cluster_topology),
                                                 .rows = topology_rows};

#define ROW(field, key, ...) LK_MEMBER(struct lk_cluster_kappa, field, key, __VA_ARGS__)
static const struct lk_member kappa_rows[] = {
    ROW(ranks, "ranks", INT, REQUIRED, .min = 1, .max = LK_RANKS_MAX,
        .help = "ranks of a node that compute at once"),
    ROW(kappa, "kappa", QUANTITY, REQUIRED, .dim = LK_DIM_NONE,
        .help = "their compute takes 1 + kappa times as long"),
    LK_MEMBER_END,
};
#undef ROW
static const struct lk_record kappa_record = {
    .size = sizeof(struct lk_cluster_kappa), .rows = kappa_rows, .one_line = true};

#define ROW(field, key, ...) LK_MEMBER(struct lk_cluster_pair, field, key, __VA_ARGS__)
static const struct lk_member pair_rows[] = {
    ROW(from, "from", TEXT, REQUIRED, .help = "host that sends"),
    ROW(to, "to", TEXT, REQUIRED, .help = "host that receives"),
    ROW(bandwidth_Bps, "bandwidth", QUANTITY, REQUIRED, .dim = LK_DIM_RATE,
        .range = LK_RANGE_ABOVE_0, .help = "bytes over the time from the first to the last"),
    LK_MEMBER_END,
};
#undef ROW
static const struct lk_record pair_record = {
    .size = sizeof(struct lk_cluster_pair), .rows = pair_rows, .one_line = true};

#define ROW(field, key, ...) LK_MEMBER(struct lk_cluster, field, key, __VA_ARGS__)
static const struct lk_member overlap_rows[] = {
    ROW(gamma_wait, "gamma_wait", QUANTITY, OPTIONAL, .dim = LK_DIM_NONE,
        .help = "compute takes 1 + gamma times as long while a collective waits"),
    ROW(gamma_wire, "gamma_wire", QUANTITY, OPTIONAL, .dim = LK_DIM_NONE,
        .help = "the same while a collective transfers"),
    ROW(delta, "delta", QUANTITY, OPTIONAL, .dim = LK_DIM_NONE,
        .help = "a collective takes 1 + delta times as long beside compute"),
    ROW(start_s, "start", QUANTITY, OPTIONAL, .dim = LK_DIM_TIME,
        .help = "a collective in training takes so much longer than alone, whatever its size"),
    ROW(launch_s, "launch", QUANTITY, OPTIONAL, .dim = LK_DIM_TIME,
        .help = "what a collective's launch takes of compute"),
    ROW(tensor_s, "tensor", QUANTITY, OPTIONAL, .dim = LK_DIM_TIME,
        .help = "the same of each tensor that a collective gathers or scatters"),
    ROW(overlap_proxy, "proxy", BOOL, REQUIRED, .help = "measured by a surrogate"),
    LK_MEMBER_END,
};
#undef ROW
static const struct lk_record overlap_record = {.size = sizeof(struct lk_cluster),
                                                .rows = overlap_rows};

/* ---- Stragglers ---- */

static enum lk_status check_slow(struct lk_json *v, void *base)
{
    const struct lk_cluster_slow *s = base;

    if ((s->rank < 0) == (s->node < 0))
        return lk_json_error(v, "expected a rank or a node, and not both");
    if (!lk_quantity_known(&s->compute) && !lk_quantity_known(&s->link))
        return lk_json_error(v, "what is slow? Expected compute or link");
    return LK_OK;
}

#define ROW(field, key, ...) LK_MEMBER(struct lk_cluster_slow, field, key, __VA_ARGS__)
static const struct lk_member slow_rows[] = {
    ROW(rank, "rank", INT, SPARSE, .max = LK_RANKS_MAX - 1, .absent = -1, .help = "the slow rank",
        .without = "a node is"),
    ROW(node, "node", INT, SPARSE, .max = LK_RANKS_MAX - 1, .absent = -1, .help = "the slow node",
        .without = "a rank is"),
    ROW(compute, "compute", QUANTITY, OPTIONAL, .dim = LK_DIM_NONE, .range = LK_RANGE_ABOVE_0,
        .help = "compute time over the others'"),
    ROW(link, "link", QUANTITY, OPTIONAL, .dim = LK_DIM_NONE, .range = LK_RANGE_ABOVE_0,
        .help = "transfer time over the others', of the node"),
    ROW(since, "since", BOOL, SPARSE,
        .help = "not yet so when the file's points and the job's runs were measured"),
    LK_MEMBER_END,
};
#undef ROW
static const struct lk_record slow_record = {.size = sizeof(struct lk_cluster_slow),
                                             .rows = slow_rows,
                                             .one_line = true,
                                             .check = check_slow};

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
    return a->node != b->node ? LK_ORDER(a->node, b->node) : LK_ORDER(a, b);
}

/* Nothing is said twice of one place. One place has four entries at most before it is. */
static enum lk_status check_slow_places(struct lk_json *list, const struct lk_cluster *c)
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

static enum lk_status check_slow_list(struct lk_json *stragglers, void *base)
{
    struct lk_cluster *c = base;
    struct lk_json *list = lk_json_optional(stragglers, "known");

    for (size_t i = 0; i < c->n_slow; i++)
        if (c->nodes && c->slow[i].node >= c->nodes)
            return lk_json_error(lk_json_item(list, i), "node %d: there are %d, from 0",
                                 c->slow[i].node, c->nodes);
    return check_slow_places(list, c);
}

/* A relative standard deviation, or a share, of the straggler law. */
#define ROW(field, key, ...) LK_MEMBER(struct lk_cluster, field, key, __VA_ARGS__)
#define LAW(field, text, max, help_)                                                               \
    ROW(field, #field, QUANTITY, OPTIONAL, .dim = LK_DIM_NONE, .help = help_),
static const struct lk_member straggler_rows[] = {
    LK_STRAGGLER_LIST(LAW)
        ROW(slow, "known", LIST, SPARSE, .of = &slow_record,
            .count = offsetof(struct lk_cluster, n_slow),
            .help = "ranks and nodes that are known to be slow", .without = "none"),
    LK_MEMBER_END,
};
#undef LAW
static const struct lk_record straggler_record = {
    .size = sizeof(struct lk_cluster), .rows = straggler_rows, .check = check_slow_list};

/* ---- The file ---- */

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
    return a->nodes != b->nodes ? LK_ORDER(a->nodes, b->nodes) : LK_ORDER(a->timing, b->timing);
}

static int compare_kappa(const void *x, const void *y)
{
    const struct lk_cluster_kappa *a = x;
    const struct lk_cluster_kappa *b = y;

    return LK_ORDER(a->ranks, b->ranks);
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
                                     lk_link_words.names[c->fits[i].link]);
    return LK_OK;
}

static enum lk_status check_cluster(struct lk_json *root, void *base)
{
    struct lk_cluster *c = base;

    if ((int64_t)c->nodes * c->gpus_per_node > LK_RANKS_MAX)
        return lk_json_error(lk_json_optional(root, "nodes"), "%d nodes of %d GPUs are too many",
                             c->nodes, c->gpus_per_node);
    free(c->base); /* its members are in *c: what is written needs no base */
    c->base = NULL;
    return order_lists(root, c);
}

static const struct lk_member cluster_rows[] = {
    ROW(base, "base", TEXT, SPARSE,
        .help =
            "preset or file (relative to this one) whose members count where this file has none",
        .without = "none"),
    ROW(name, "name", TEXT, REQUIRED, .help = "name of the cluster"),
    ROW(preset, "preset", BOOL, REQUIRED,
        .help = "a file of datasheet numbers; what a number is worth its own `n` says: samples, or "
                "0 of a datasheet"),
    ROW(nodes, "nodes", INT, REQUIRED, .max = LK_RANKS_MAX,
        .help = "nodes that exist; 0: as many as asked for"),
    ROW(gpus_per_node, "gpus_per_node", INT, REQUIRED, .min = 1, .max = LK_RANKS_MAX,
        .help = "GPUs of a node"),
    ROW(gpu, "gpu", TEXT, REQUIRED, .help = "name of the device"),
    ROW(device, "device", OBJECT, OPTIONAL, .of = &device_record, .help = "one GPU"),
    ROW(topology, "topology", OBJECT, OPTIONAL, .of = &topology_record,
        .help = "how nodes are built and joined"),
    ROW(machine, "machine", PAIRS, SPARSE, .count = offsetof(struct lk_cluster, n_machine),
        .help = "texts that nothing is computed from: what calibrate found on the first host"),
    ROW(intra, "intra", OBJECT, OPTIONAL, .of = &link_record,
        .help = "link of one GPU to all others of its node"),
    ROW(inter, "inter", OBJECT, OPTIONAL, .of = &link_record, .help = "one network card"),
    ROW(points, "collectives", LIST, OPTIONAL, .of = &point_record,
        .count = offsetof(struct lk_cluster, n_points), .help = "measured points"),
    ROW(fits, "fits", LIST, OPTIONAL, .of = &fit_record,
        .count = offsetof(struct lk_cluster, n_fits),
        .help = "fitted or preset cost of a collective, algorithm and link"),
    ROW(kappa, "colocation", LIST, OPTIONAL, .of = &kappa_record,
        .count = offsetof(struct lk_cluster, n_kappa),
        .help = "how much ranks of a node slow each other without communicating"),
    ROW(pairs, "pairs", LIST, SPARSE, .of = &pair_record,
        .count = offsetof(struct lk_cluster, n_pairs),
        .help = "rates between two hosts, one direction: of calibrate --pairs; nothing is computed "
                "from them"),
    LK_MEMBER_GROUP("overlap", &overlap_record, "how much compute and collectives slow each other"),
    LK_MEMBER_GROUP("stragglers", &straggler_record, "straggler law: how uneven ranks are"),
    ROW(price_per_hour, "price_per_hour", QUANTITY, OPTIONAL, .dim = LK_DIM_PRICE,
        .help = "price of one GPU"),
    ROW(currency, "currency", TEXT, SPARSE, .absent_text = "", .help = "of the price, e.g. USD",
        .without = "not known"),
    ROW(power_W, "power", QUANTITY, OPTIONAL, .dim = LK_DIM_POWER, .help = "power of one GPU"),
    ROW(gpu_mtbf_s, "gpu_mtbf", QUANTITY, OPTIONAL, .dim = LK_DIM_TIME,
        .help = "mean time between failures of one GPU that stop a job: for goodput"),
    ROW(restart_s, "restart", QUANTITY, OPTIONAL, .dim = LK_DIM_TIME,
        .help = "time from a failure to the next step"),
    ROW(checkpoint_Bps, "checkpoint_bandwidth", QUANTITY, OPTIONAL, .dim = LK_DIM_RATE,
        .help = "rate at which a job writes checkpoints, all ranks together"),
    LK_MEMBER_END,
};
#undef ROW
const struct lk_record lk_cluster_record = {.size = sizeof(struct lk_cluster),
                                            .rows = cluster_rows,
                                            .schema = LK_CLUSTER_SCHEMA,
                                            .version = LK_CLUSTER_VERSION,
                                            .check = check_cluster,
                                            .find_base = lk_preset_find};

enum lk_status lk_cluster_add_fact(struct lk_cluster *c, const char *key, const char *text)
{
    return lk_pairs_add(&c->machine, &c->n_machine, key, text);
}
