/*
 * The graphs that NCCL's search would find (src/graph/search.cc), from what a cluster file says:
 * channels, and the rate of a channel inside a node and between nodes, for each algorithm. The
 * search itself looks for paths; here links are alike and only their rates decide, so the result is
 * the fastest grid speed times channels that fits a GPU's link and the node's NICs.
 *
 * 8 H100 on NVSwitch: Ring and Tree 12 channels of 30, NVLS 8 of 40 (known from a dump,
 * github.com/NVIDIA/nccl issue 1197).
 */
#ifndef LK_SIM_NCCL_GRAPH_H
#define LK_SIM_NCCL_GRAPH_H

#include "base/cluster.h"
#include "sim/nccl_constants.h"

#include <stdbool.h>

/* A graph; rates in GB/s a channel. channels 0: NCCL would not have it. */
struct lk_nccl_graph {
    int channels;
    double intra, inter;
};

/* What a cluster file says of the machine, as NCCL counts it. */
struct lk_nccl_machine {
    int compute_capability, gpus_per_node;
    double gpu_GBps, nic_GBps; /* 0: not known */
    double intra_us, inter_us; /* latencies that the file gives; NaN: it gives none */
    double oversubscription;
    struct lk_cluster_topology topology; /* but its quantity */
};

/*
 * How a hop over a kind of link differs from what the rows of sim/nccl_prior.c were made with,
 * because the file gives another latency: times `share` (<= 1) where it is less, `more_us` where
 * it is more (Simple: twice, as NCCL counts a NIC plugin's latency, tuning.cc:353-401).
 */
struct lk_nccl_latency {
    double share, more_us;
};

/* What NCCL knows of a communicator. */
struct lk_nccl_comm {
    enum lk_nccl_gen gen;
    int ranks, nodes;       /* nodes as NCCL sees them: NVLink domains */
    enum lk_nccl_wire wire; /* inside a node */
    bool amd_cpu, ll128, plain_tree, nvls, collnet;
    struct lk_nccl_graph ring, tree, nvls_graph, collnet_graph;
    /* Not NCCL's: how much slower than it thinks links between nodes are, because switches are
     * oversubscribed (>= 1), or faster, because the rate lies between two of its grid's (<= 1). */
    double slowdown;
    struct lk_nccl_latency intra, inter;
    double choice_us; /* that NCCL is told a hop between nodes takes more; counts for its choice */
};

/* Whether GPUs of a node can sum in the NVSwitch. */
bool lk_nccl_has_nvls(const struct lk_cluster_topology *t, int compute_capability);
/* Nodes as NCCL counts them: NVLink domains, where these are larger than nodes. */
int lk_nccl_nodes(int nvlink_domain, int ranks, int nodes);

/*
 * By how much oversubscribed uplinks slow links between nodes, >= 1: a ring enters and leaves a
 * leaf switch once a channel, with one node's traffic, so its uplinks are short only when
 * oversubscription exceeds the nodes below the switch.
 */
double lk_nccl_uplink_factor(int nodes_per_switch, double oversubscription, int nodes);

/* False without compute capability or kind of GPU link: then NCCL's model cannot be used. */
bool lk_nccl_machine_of(const struct lk_cluster *c, struct lk_nccl_machine *out);
/* False when the rate of a link that is needed is not known. pre: 2 <= ranks, nodes divides. */
bool lk_nccl_comm_of(const struct lk_nccl_machine *c, int ranks, int nodes,
                     struct lk_nccl_comm *out);

#endif
