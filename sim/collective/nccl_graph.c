/* This file finds the graphs that NCCL's search would find. */
#include "sim/collective/nccl_graph.h"

#include "base/array.h"

#include <math.h>

/* The channels that a search looks for: src/graph/search.cc:961-974, src/include/nccl_common.h. */
enum { MAX_CHANNELS = 32, FEW_CHANNELS = 4 };
static const double DOUBLE_FROM_GBPS = 25, DOUBLE_HOPPER_FROM_GBPS = 50;

/* PCIe x16 generation 4 as NCCL counts it (topo.cc:423-426); taken for the CPU's memory path. */
static const double SHARED_MEMORY_GBPS = 24;

static const double GIGA = 1e9, MICRO = 1e6;

static enum lk_nccl_gen gen_of(int compute_capability)
{
    return compute_capability >= 100  ? LK_NCCL_BLACKWELL
           : compute_capability >= 90 ? LK_NCCL_HOPPER
           : compute_capability >= 80 ? LK_NCCL_AMPERE
                                      : LK_NCCL_VOLTA;
}

/*
 * The speeds that the search tries inside a node, in GB/s, fastest first, before a 0:
 * src/graph/search.cc:976-989. The first row is that of Volta and Ampere.
 */
enum { SPEEDS = 14 };
static const double speeds[LK_NCCL_GEN_COUNT - LK_NCCL_AMPERE][SPEEDS] = {
    {40, 30, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3},
    {60, 50, 40, 30, 24, 20, 15, 12, 11, 6, 3},
    {90, 80, 70, 60, 50, 40, 30, 24, 20, 19, 18},
};

static const double *speeds_of(enum lk_nccl_gen gen)
{
    return speeds[gen > LK_NCCL_AMPERE ? gen - LK_NCCL_AMPERE : 0];
}

/*
 * Between nodes the search has a grid of its own, which has 96 % of the rates of common NICs (12,
 * 24, 48 and 96 GB/s). A NIC of any rate gets this share, so that a faster one never costs more.
 * Measured: 189 to 192 of 200 GB/s a node.
 */
static const double WIRE_SHARE = 0.96;

/*
 * GB/s of one NVLink in one direction as NCCL counts it (topo.h:17-22, topo.cc:263-272), the line
 * rate of the same link, and the links of the largest GPU (NVIDIA's architecture papers), newest
 * first.
 */
static const struct {
    int compute_capability;
    double counted_GBps, line_GBps;
    int links;
} nvlinks[] = {{100, 40.1, 50, 18}, {90, 20.6, 25, 18}, {86, 12, 14.0625, 4},
               {80, 20, 25, 12},    {70, 20, 25, 6},    {60, 18, 20, 4}};

/*
 * Return the rate that NCCL counts for all NVLinks of a GPU in one direction. A larger rate than
 * that of the most links of this generation is the line rate of a datasheet.
 */
static double nvlink_GBps(int compute_capability, double GBps)
{
    size_t i = 0;

    while (i + 1 < LK_COUNT(nvlinks) && compute_capability < nvlinks[i].compute_capability)
        i++;
    if (GBps <= nvlinks[i].counted_GBps * nvlinks[i].links)
        return GBps;
    return fmin(nvlinks[i].links, round(GBps / nvlinks[i].line_GBps)) * nvlinks[i].counted_GBps;
}

/* Rates of a GPU's link and of the node's NICs, GB/s; nics 0: one node. */
struct room {
    double gpu, nic;
    int nics;
};

/*
 * Run pass 1. Inside a node, find the speed and channels that carry the most, and the faster speed
 * of equals, below all speeds one channel; between nodes, a channel for each NIC.
 */
static struct lk_nccl_graph search(enum lk_nccl_gen gen, struct room r, int channels_max)
{
    struct lk_nccl_graph best = {0};

    if (r.nics) {
        best.channels = r.nics < channels_max ? r.nics : channels_max;
        best.intra = best.inter = fmin(WIRE_SHARE * r.nic, r.gpu / best.channels);
        return best;
    }
    for (const double *speed = speeds_of(gen); *speed > 0; speed++) {
        double fit = fmin(floor(r.gpu / *speed * (1 + 1e-9)), channels_max);

        if (fit >= 1 && fit * *speed > best.channels * best.intra)
            best = (struct lk_nccl_graph){(int)fit, *speed, *speed};
    }
    if (!best.channels && r.gpu > 0)
        best = (struct lk_nccl_graph){1, r.gpu, r.gpu};
    return best;
}

/* Double the channels at half the speed (search.cc:961-974). */
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

/* Run pass 2 (search.cc:1168-1190): raise the rate inside the node to twice that between nodes. */
static void raise_intra(struct room r, struct lk_nccl_graph *g)
{
    g->intra = fmax(g->intra, fmin(2 * g->inter, r.gpu / g->channels));
}

/*
 * Find the graph of NVLS, which has a channel per GPU: the fastest speed that fits all of them,
 * which is the switch's also where nodes are joined. NICs are filled up to twice.
 */
static struct lk_nccl_graph search_nvls(enum lk_nccl_gen gen, struct room r, int local)
{
    struct lk_nccl_graph g = {.channels = local < MAX_CHANNELS ? local : MAX_CHANNELS};

    for (const double *s = speeds_of(gen); *s > 0 && g.intra <= 0; s++)
        if (g.channels * *s <= r.gpu * (1 + 1e-9))
            g.intra = *s;
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

/* Return true if links of their own join the GPUs of a node. Infinity Fabric counts as NVLink:
 * RCCL has NCCL's algorithms. */
static bool joined_directly(enum lk_gpu_link link)
{
    return link == LK_GPU_LINK_NVSWITCH || link == LK_GPU_LINK_NVLINK ||
           link == LK_GPU_LINK_INFINITY_FABRIC;
}

/* Return the rate of one GPU inside its node, as NCCL counts it. */
static double gpu_GBps(const struct lk_cluster *c)
{
    double line = link_GBps(&c->intra.bandwidth_Bps);

    switch (c->topology.gpu_link) {
    case LK_GPU_LINK_NVSWITCH:
    case LK_GPU_LINK_NVLINK:
        return line > 0 ? nvlink_GBps(c->device.compute_capability, line) : 0;
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
        raise_intra(r, &m->tree);
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
 * us: the latencies with which clusters/ describes the fabrics that the rows of nccl_fit.c were
 * made from; each file names its source. Unknown networks take InfiniBand's.
 */
static const double network_us[LK_NETWORK_COUNT] = {
    [LK_NETWORK_UNKNOWN] = 7.6, [LK_NETWORK_INFINIBAND] = 7.6, [LK_NETWORK_ROCE] = 12.3,
    [LK_NETWORK_EFA] = 25,      [LK_NETWORK_SLINGSHOT] = 5.9,  [LK_NETWORK_TCPX] = 54,
    [LK_NETWORK_TCP] = 35,
};
/*
 * us that the network's plugin declares for a hop, which NCCL uses to choose: aws-ofi-nccl's
 * platform table has 75 for p4d and p5; the others leave it at 0.
 */
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

    /* One GPU a node uses its PCIe only, which the NIC shares. */
    if (local == 1)
        r.gpu = fmax(r.gpu, r.nic);
    if (nodes == 1)
        return r;
    r.nics = c->topology.nics_per_node;
    /* A GPU uses the NICs beside it, so a part of a node's GPUs uses a part of its NICs. */
    if (local < c->gpus_per_node)
        r.nics = r.nics * local / c->gpus_per_node;
    r.nics = r.nics > 1 ? r.nics : 1;
    /* An NVLink domain over several nodes has the NICs of all of them. */
    if (c->gpus_per_node > 0 && local > c->gpus_per_node)
        r.nics *= local / c->gpus_per_node;
    return r;
}

/*
 * Return true if NCCL offers LL128 (tuning.cc:478-494): NVLink joins the GPUs of a node, and the
 * NIC is below the GPU's own PCIe switch. HGX and DGX are built so; a Grace's NICs are behind its
 * CPU, for which NCCL has LL128 since 2.27 only (NCCL_LL128_C2C), so older machines have none.
 */
static bool has_ll128(const struct lk_nccl_machine *c, int local, int nodes)
{
    const struct lk_cluster_topology *t = &c->topology;
    bool nvlink = joined_directly(t->gpu_link);
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
    *out =
        (struct lk_nccl_comm){.gen = gen_of(c->compute_capability),
                              .ranks = ranks,
                              .nodes = nodes,
                              .wire = joined_directly(t->gpu_link) ? LK_NCCL_NVLINK : LK_NCCL_PCI,
                              .amd_cpu = t->cpu == LK_CPU_AMD,
                              .ll128 = has_ll128(c, local, nodes),
                              .choice_us = nodes > 1 ? plugin_us[t->network] : 0,
                              .plain_tree = local == 1,
                              .nvls = lk_nccl_has_nvls(t, c->compute_capability) && local > 1,
                              .collnet = t->sharp > 0 && nodes > 1};
    out->intra = latency_of(c->intra_us, out->wire == LK_NCCL_NVLINK ? nvlink_us : pci_us);
    out->inter = latency_of(c->inter_us, network_us[t->network]);
    set_graphs(out, r, local);
    out->slowdown = lk_nccl_uplink_factor(t->nodes_per_switch, c->oversubscription, nodes);
    return out->ring.channels > 0;
}
