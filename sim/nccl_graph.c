/* The graphs that NCCL's search would find. */
#include "sim/nccl_graph.h"

#include <math.h>

/* src/graph/search.cc:961-974 and src/include/nccl_common.h: channels that a search looks for. */
enum { MAX_CHANNELS = 32, FEW_CHANNELS = 4 };
static const double DOUBLE_FROM_GBPS = 25, DOUBLE_HOPPER_FROM_GBPS = 50;

/* PCIe x16 generation 4 as NCCL counts it (topo.cc:423-426); taken for the CPU's memory path. */
static const double SHARED_MEMORY_GBPS = 24;

static const double GIGA = 1e9, MICRO = 1e6;

/* Rates of a GPU's link and of the node's NICs, GB/s; nics 0: one node. */
struct room {
    double gpu, nic;
    int nics;
};

/* Pass 1: the speed and channels that carry the most; the faster one of equals, but between nodes
 * one that uses all NICs, so that faster NICs do not leave fewer channels and with them less under
 * the caps of a channel. */
static struct lk_nccl_graph search(enum lk_nccl_gen gen, struct room r, int channels_max)
{
    struct lk_nccl_graph best = {0};
    size_t n;
    const double *speed = lk_nccl_speeds(gen, r.nics > 0, &n);

    for (size_t i = 0; i < n; i++) {
        double fit = floor(r.gpu / speed[i] * (1 + 1e-9));

        if (r.nics)
            fit = fmin(fit, r.nics * floor(r.nic / speed[i] * (1 + 1e-9)));
        fit = fmin(fit, channels_max);
        if (fit >= 1 && (fit * speed[i] > best.channels * best.intra ||
                         (best.channels < r.nics && fit * speed[i] >= best.channels * best.intra)))
            best = (struct lk_nccl_graph){(int)fit, speed[i], speed[i]};
    }
    return best;
}

/* search.cc:961-974: twice the channels of half the speed. */
static void duplicate(enum lk_nccl_gen gen, struct lk_nccl_graph *g)
{
    bool hopper = gen >= LK_NCCL_HOPPER;

    if (!g->channels || g->intra < DOUBLE_FROM_GBPS || g->channels * 2 > MAX_CHANNELS ||
        (hopper && g->intra < DOUBLE_HOPPER_FROM_GBPS && g->channels > FEW_CHANNELS))
        return;
    g->channels *= 2;
    g->intra /= 2;
    g->inter /= 2;
}

/* search.cc:1168-1190, pass 2: the rate inside the node is raised to twice that between nodes. */
static void raise_intra(enum lk_nccl_gen gen, struct room r, struct lk_nccl_graph *g)
{
    size_t n;
    const double *speed = lk_nccl_speeds(gen, true, &n);

    for (size_t i = n; i-- && g->intra < 2 * g->inter;)
        if (speed[i] > g->intra && g->channels * speed[i] <= r.gpu * (1 + 1e-9))
            g->intra = speed[i];
}

/* NVLS has a channel a GPU: the fastest speed that fits all of them; NICs are filled up to twice.
 */
static struct lk_nccl_graph search_nvls(enum lk_nccl_gen gen, struct room r, int local)
{
    struct lk_nccl_graph g = {.channels = local < MAX_CHANNELS ? local : MAX_CHANNELS};
    size_t n;
    const double *speed = lk_nccl_speeds(gen, r.nics > 0, &n);

    for (size_t i = 0; i < n && g.intra <= 0; i++)
        if (g.channels * speed[i] <= r.gpu * (1 + 1e-9))
            g.intra = speed[i];
    g.inter = r.nics ? fmin(r.nic * r.nics / g.channels, 2 * g.intra) : g.intra;
    return g;
}

static double link_GBps(const struct lk_quantity *q)
{
    return lk_quantity_known(q) ? q->value / GIGA : 0;
}

static double latency_us(const struct lk_quantity *q)
{
    return lk_quantity_known(q) ? q->value * MICRO : NAN;
}

/* What one GPU moves inside its node, as NCCL counts it. */
static double gpu_GBps(const struct lk_cluster *c)
{
    double line = link_GBps(&c->intra.bandwidth_Bps);

    switch (c->topology.gpu_link) {
    case LK_GPU_LINK_NVSWITCH:
    case LK_GPU_LINK_NVLINK:
        return line > 0 ? lk_nccl_nvlink_GBps(c->device.compute_capability, line) : 0;
    case LK_GPU_LINK_SHARED_MEMORY:
        return line > 0 ? line : SHARED_MEMORY_GBPS;
    default:
        return line;
    }
}

static void set_graphs(struct lk_nccl_comm *m, struct room r, int local)
{
    m->ring = search(m->gen, r, MAX_CHANNELS);
    duplicate(m->gen, &m->ring);
    m->tree = m->ring;
    if (m->nodes > 1)
        raise_intra(m->gen, r, &m->tree);
    if (m->nvls)
        m->nvls_graph = search_nvls(m->gen, r, local);
    if (m->collnet)
        m->collnet_graph = search(m->gen, r, local);
}

double lk_nccl_uplink_factor(int nodes_per_switch, double oversubscription, int nodes)
{
    if (nodes < 2 || !nodes_per_switch || nodes <= nodes_per_switch)
        return 1;
    return fmax(1, oversubscription / nodes_per_switch);
}

/* Speeds of the grid are at most 16 % apart where NICs are common; below 3 GB/s they are far apart
 * and the wire carries what it can, WIRE_SHARE of the line rate (measured: 189 to 192 of 200). */
static double grid_factor(const struct lk_nccl_graph *g, const struct room *r)
{
    static const double WIRE_SHARE = 0.95;
    double found = g->channels * g->inter, wire = r->nics * r->nic * WIRE_SHARE;

    return r->nics && wire <= r->gpu && wire > found ? found / wire : 1;
}

bool lk_nccl_machine_of(const struct lk_cluster *c, struct lk_nccl_machine *out)
{
    const struct lk_cluster_topology *t = &c->topology;

    *out = (struct lk_nccl_machine){
        .compute_capability = c->device.compute_capability,
        .gpus_per_node = c->gpus_per_node,
        .gpu_GBps = gpu_GBps(c),
        .nic_GBps = link_GBps(&c->inter.bandwidth_Bps),
        .intra_us = latency_us(&c->intra.latency_s),
        .inter_us = latency_us(&c->inter.latency_s),
        .oversubscription = lk_quantity_known(&t->oversubscription) ? t->oversubscription.value : 1,
        .topology = *t};
    out->topology.oversubscription = lk_quantity_none();
    return c->device.compute_capability && t->gpu_link;
}

int lk_nccl_nodes(int nvlink_domain, int ranks, int nodes)
{
    if (nvlink_domain <= ranks / nodes)
        return nodes;
    return ranks <= nvlink_domain ? 1 : ranks % nvlink_domain ? nodes : ranks / nvlink_domain;
}

bool lk_nccl_has_nvls(const struct lk_cluster_topology *t, int compute_capability)
{
    if (t->nvls)
        return t->nvls > 0;
    return t->gpu_link == LK_GPU_LINK_NVSWITCH && compute_capability >= 90;
}

/*
 * us: the latencies with which clusters/ describes the places that the rows of sim/nccl_prior.c
 * were made of; each file has the source of its own. Unknown networks: InfiniBand's.
 */
static const double network_us[LK_NETWORK_COUNT] = {
    [LK_NETWORK_UNKNOWN] = 7.6, [LK_NETWORK_INFINIBAND] = 7.6, [LK_NETWORK_ROCE] = 12.3,
    [LK_NETWORK_EFA] = 25,      [LK_NETWORK_SLINGSHOT] = 5.9,  [LK_NETWORK_TCPX] = 54,
    [LK_NETWORK_TCP] = 35,
};
/* us that the network's plugin tells NCCL a hop takes, with which NCCL chooses: aws-ofi-nccl's
 * platform table says 75 of p4d and p5; the others leave it at 0. */
static const double plugin_us[LK_NETWORK_COUNT] = {[LK_NETWORK_EFA] = 75};

static const double nvlink_us = 1.9, pci_us = 2.5;

static struct lk_nccl_latency latency_of(double us, double row_us)
{
    struct lk_nccl_latency l = {1, 0};

    if (us < row_us)
        l.share = us / row_us;
    else if (us > row_us)
        l.more_us = us - row_us;
    return l;
}

static struct room room_of(const struct lk_nccl_machine *c, int local, int nodes)
{
    struct room r = {c->gpu_GBps, c->nic_GBps, 0};

    /* One GPU a node: its PCIe only, which the NIC is on as well. */
    if (local == 1)
        r.gpu = fmax(r.gpu, r.nic);
    if (nodes == 1)
        return r;
    r.nics = c->topology.nics_per_node > 1 ? c->topology.nics_per_node : 1;
    /* NICs of a domain over several nodes: its nodes' together. */
    if (c->gpus_per_node > 0 && local > c->gpus_per_node)
        r.nics *= local / c->gpus_per_node;
    return r;
}

/*
 * tuning.cc:478-494: GPUs of a node joined by NVLink, and the NIC below the GPU's own PCIe switch.
 * That is so on HGX and DGX; a Grace's NICs are reached over its CPU, for which NCCL has LL128
 * since 2.27 only (NCCL_LL128_C2C), so that machines made before have none.
 */
static bool has_ll128(const struct lk_nccl_machine *c, int local, int nodes)
{
    const struct lk_cluster_topology *t = &c->topology;
    bool nvlink = t->gpu_link == LK_GPU_LINK_NVSWITCH || t->gpu_link == LK_GPU_LINK_NVLINK;
    bool over_cpu = !nvlink || (t->cpu == LK_CPU_ARM && c->compute_capability < 100);

    return c->compute_capability >= 70 && (local == 1 || nvlink) && (nodes == 1 || !over_cpu);
}

bool lk_nccl_comm_of(const struct lk_nccl_machine *c, int ranks, int nodes,
                     struct lk_nccl_comm *out)
{
    const struct lk_cluster_topology *t = &c->topology;
    int local;
    struct room r;

    nodes = lk_nccl_nodes(t->nvlink_domain, ranks, nodes);
    local = ranks / nodes;
    if ((local > 1 && c->gpu_GBps <= 0) || (nodes > 1 && c->nic_GBps <= 0))
        return false;
    r = room_of(c, local, nodes);
    *out = (struct lk_nccl_comm){.gen = lk_nccl_gen_of(c->compute_capability),
                                 .ranks = ranks,
                                 .nodes = nodes,
                                 .wire = t->gpu_link == LK_GPU_LINK_NVSWITCH ||
                                                 t->gpu_link == LK_GPU_LINK_NVLINK
                                             ? LK_NCCL_NVLINK
                                             : LK_NCCL_PCI,
                                 .amd_cpu = t->cpu == LK_CPU_AMD,
                                 .ll128 = has_ll128(c, local, nodes),
                                 .choice_us = nodes > 1 ? plugin_us[t->network] : 0,
                                 .plain_tree = local == 1,
                                 .nvls = lk_nccl_has_nvls(t, c->compute_capability) && local > 1,
                                 .collnet = t->sharp > 0 && nodes > 1};
    out->intra = latency_of(c->intra_us, out->wire == LK_NCCL_NVLINK ? nvlink_us : pci_us);
    out->inter = latency_of(c->inter_us, network_us[t->network]);
    set_graphs(out, r, local);
    out->slowdown = lk_nccl_uplink_factor(t->nodes_per_switch, c->oversubscription, nodes) *
                    grid_factor(&out->ring, &r);
    return out->ring.channels > 0;
}
