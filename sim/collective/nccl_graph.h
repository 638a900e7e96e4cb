/*
 * These functions predict the graphs of NCCL's search (src/graph/search.cc) from a cluster file:
 * channels, and the rate of a channel inside a node and between nodes, for each algorithm. NCCL
 * searches for paths; here links are alike and only their rates decide. Inside a node the result is
 * the fastest speed of the grid times channels that fits a GPU's link, between nodes a channel for
 * each NIC at nearly its rate, or what the GPU's link leaves of that.
 *
 * 8 H100 on NVSwitch: Ring and Tree 12 channels of 30, NVLS 8 of 40 (known from a dump,
 * github.com/NVIDIA/nccl issue 1197).
 */
#ifndef LK_SIM_NCCL_GRAPH_H
#define LK_SIM_NCCL_GRAPH_H

#include "facts/cluster.h"

#include <stdbool.h>

/* GPU generations by compute capability: 7x (and before), 8x, 9x, 10x and later. */
enum lk_nccl_gen {
    LK_NCCL_VOLTA,
    LK_NCCL_AMPERE,
    LK_NCCL_HOPPER,
    LK_NCCL_BLACKWELL,
    LK_NCCL_GEN_COUNT
};

/* The kind of link that a hop goes over. */
enum lk_nccl_wire { LK_NCCL_NVLINK, LK_NCCL_PCI, LK_NCCL_NET, LK_NCCL_WIRE_COUNT };

/* A graph, with rates in GB/s a channel. NCCL rejects a graph with 0 channels. */
struct lk_nccl_graph {
    int channels;
    double intra, inter;
};

/* The machine of a cluster file, as NCCL counts it. */
struct lk_nccl_machine {
    int compute_capability, gpus_per_node;
    double gpu_GBps, nic_GBps; /* 0: not known */
    double intra_us, inter_us; /* latencies that the file gives; NaN: it gives none */
    double oversubscription;
    struct lk_cluster_topology topology; /* without its quantity */
};

/*
 * The file's latency of a link relative to the one that the rows of nccl_fit.c were made with:
 * hops are multiplied by `share` (<= 1) if the file's is less, and take `more_us` longer if it is
 * more (Simple twice that, as NCCL counts a NIC plugin's latency, tuning.cc:353-401).
 */
struct lk_nccl_latency {
    double share, more_us;
};

/* A communicator, as NCCL sees it. */
struct lk_nccl_comm {
    enum lk_nccl_gen gen;
    int ranks, nodes;       /* nodes as NCCL sees them: NVLink domains */
    enum lk_nccl_wire wire; /* inside a node */
    bool amd_cpu, ll128, plain_tree, nvls, collnet;
    struct lk_nccl_graph ring, tree, nvls_graph, collnet_graph;
    /* >= 1: where oversubscribed switches make links between nodes slower than NCCL assumes. */
    double slowdown;
    struct lk_nccl_latency intra, inter;
    double choice_us; /* added to a hop between nodes when NCCL chooses */
};

/* Return true if the GPUs of a node can sum in the NVSwitch. */
bool lk_nccl_has_nvls(const struct lk_cluster_topology *t, int compute_capability);
/* Return the nodes as NCCL counts them: NVLink domains, where these are larger than nodes. */
int lk_nccl_nodes(int nvlink_domain, int ranks, int nodes);

/*
 * Return the factor, >= 1, by which oversubscribed uplinks slow links between nodes. A ring enters
 * and leaves a leaf switch once a channel, with one node's traffic, so its uplinks are short only
 * if the oversubscription exceeds the nodes below the switch.
 */
double lk_nccl_uplink_factor(int nodes_per_switch, double oversubscription, int nodes);

/*
 * Describe the machine. Return false without compute capability or kind of GPU link, when NCCL's
 * model does not apply.
 */
bool lk_nccl_machine_of(const struct lk_cluster *c, struct lk_nccl_machine *out);
/*
 * Describe a communicator. Return false if the rate of a link that it needs is unknown. pre: 2 <=
 * ranks, nodes divides ranks.
 */
bool lk_nccl_comm_of(const struct lk_nccl_machine *c, int ranks, int nodes,
                     struct lk_nccl_comm *out);

#endif
