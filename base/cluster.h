/*
 * The cluster artefact (cluster.json): what the machine is. Written by `calibrate` and `import`, or
 * by hand; presets are in clusters/. Read by sim/.
 */
#ifndef LK_BASE_CLUSTER_H
#define LK_BASE_CLUSTER_H

#include "base/coll.h"
#include "base/quantity.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LK_CLUSTER_SCHEMA  "lockstep-cluster"
#define LK_CLUSTER_VERSION 1

/* X(timing, name): how a point was timed. Alone: one, then a barrier. */
#define LK_TIMING_LIST(X)                                                                          \
    X(LK_TIMING_BACK_TO_BACK, "back_to_back")                                                      \
    X(LK_TIMING_ALONE, "alone")

enum lk_timing {
#define LK_TIMING_ENUM_(timing, name) timing,
    LK_TIMING_LIST(LK_TIMING_ENUM_)
#undef LK_TIMING_ENUM_
        LK_TIMING_COUNT
};

/* X(link, name): which wires a fit is about. */
#define LK_LINK_LIST(X)                                                                            \
    X(LK_LINK_INTRA, "intra")                                                                      \
    X(LK_LINK_INTER, "inter")

enum lk_link {
#define LK_LINK_ENUM_(link, name) link,
    LK_LINK_LIST(LK_LINK_ENUM_)
#undef LK_LINK_ENUM_
        LK_LINK_COUNT
};

/* X(kind, name): what the GPUs of a node move bytes over. */
#define LK_GPU_LINK_LIST(X)                                                                        \
    X(LK_GPU_LINK_UNKNOWN, "unknown")                                                              \
    X(LK_GPU_LINK_NVSWITCH, "nvswitch")                                                            \
    X(LK_GPU_LINK_NVLINK, "nvlink")                                                                \
    X(LK_GPU_LINK_PCIE, "pcie")                                                                    \
    X(LK_GPU_LINK_SHARED_MEMORY, "shared_memory")

enum lk_gpu_link {
#define LK_GPU_LINK_ENUM_(kind, name) kind,
    LK_GPU_LINK_LIST(LK_GPU_LINK_ENUM_)
#undef LK_GPU_LINK_ENUM_
        LK_GPU_LINK_COUNT
};

/* X(kind, name): the network between nodes, as far as its latency law differs. */
#define LK_NETWORK_LIST(X)                                                                         \
    X(LK_NETWORK_UNKNOWN, "unknown")                                                               \
    X(LK_NETWORK_INFINIBAND, "infiniband")                                                         \
    X(LK_NETWORK_ROCE, "roce")                                                                     \
    X(LK_NETWORK_EFA, "efa")                                                                       \
    X(LK_NETWORK_SLINGSHOT, "slingshot")                                                           \
    X(LK_NETWORK_TCPX, "tcpx")                                                                     \
    X(LK_NETWORK_TCP, "tcp")

enum lk_network {
#define LK_NETWORK_ENUM_(kind, name) kind,
    LK_NETWORK_LIST(LK_NETWORK_ENUM_)
#undef LK_NETWORK_ENUM_
        LK_NETWORK_COUNT
};

/* X(maker, name): of the hosts' processors; NCCL's model asks. */
#define LK_CPU_LIST(X)                                                                             \
    X(LK_CPU_UNKNOWN, "unknown")                                                                   \
    X(LK_CPU_INTEL, "intel")                                                                       \
    X(LK_CPU_AMD, "amd")                                                                           \
    X(LK_CPU_ARM, "arm")

enum lk_cpu {
#define LK_CPU_ENUM_(maker, name) maker,
    LK_CPU_LIST(LK_CPU_ENUM_)
#undef LK_CPU_ENUM_
        LK_CPU_COUNT
};

/* The accelerator by its datasheet; every number optional. */
struct lk_cluster_device {
    int compute_capability;   /* CUDA's, e.g. 90 for 9.0; 0: not known, or no CUDA device */
    struct lk_quantity flops; /* a second, dense, in the precision that jobs train in */
    struct lk_quantity memory_bytes;
    struct lk_quantity memory_Bps;
};

/* How nodes are built and joined; every member optional. */
struct lk_cluster_topology {
    enum lk_gpu_link gpu_link;
    int nvlink_domain; /* GPUs that NVLink joins, over nodes too (NVL72: 72); 0: those of a node */
    int nics_per_node; /* network links that inter.bandwidth is one of; 0: one */
    enum lk_network network;
    enum lk_cpu cpu;
    int nodes_per_switch;                /* below one leaf switch; 0: all */
    struct lk_quantity oversubscription; /* above the leaf: bandwidth below over above, >= 1 */
    int nvls, sharp; /* in-switch reduction in a node, between nodes: 1 yes, -1 no, 0 not said */
};

/* A measured point. */
struct lk_cluster_point {
    enum lk_coll coll;
    enum lk_algo algo;
    enum lk_timing timing;
    int ranks, nodes;
    uint64_t bytes; /* see base/coll.h */
    struct lk_quantity time_s;
};

/*
 * Alpha-beta cost of one algorithm on one kind of link, fitted or preset:
 * ring all-reduce: launch + 2(K-1) alpha + 2(K-1)/K bytes / bandwidth;
 * tree all-reduce: launch + 2 ceil(log2 K) alpha + 2 bytes / bandwidth (pipelined).
 */
struct lk_cluster_fit {
    enum lk_coll coll;
    enum lk_algo algo;
    enum lk_link link; /* inside a node, or between nodes */
    struct lk_quantity launch_s;
    struct lk_quantity alpha_s;       /* latency of one hop */
    struct lk_quantity bandwidth_Bps; /* of one rank's link, one direction */
    struct lk_quantity error;         /* typical relative error of the fit on its own points */
};

struct lk_cluster_link {
    struct lk_quantity latency_s, bandwidth_Bps;
};

/* Compute slows by 1 + kappa when this many ranks of a node run at once without communicating. */
struct lk_cluster_kappa {
    int ranks;
    struct lk_quantity kappa;
};

/*
 * A rank or node that is known to be slow, against the others' pace: a fact in place of the law's
 * draws. Rank r and node n are the same devices at every size. Of a rank's and its node's compute,
 * the rank's counts. link: a link's time over the others', 2 for half the rate; the slowest of a
 * collective's nodes sets its pace.
 */
struct lk_cluster_slow {
    int rank, node;             /* one of them; the other is -1. A rank's link is its node's */
    struct lk_quantity compute; /* optional: factors above 0, at least one of them */
    struct lk_quantity link;
    bool since; /* not yet so when the file's points and the job's runs were measured */
};

/* What was found out about the machine when the file was made; nothing is computed from it. */
struct lk_cluster_fact {
    char *key, *text;
};

struct lk_cluster {
    char *name;
    bool preset; /* numbers from datasheets: forecasts are graded "preset" */
    int nodes;   /* that exist; 0: as many as asked for */
    int gpus_per_node;
    char *gpu; /* name of the device, e.g. "cpu" */
    struct lk_cluster_device device;
    /* intra: of one GPU to all others of its node; inter: of one NIC; both one direction. */
    struct lk_cluster_link intra, inter;
    struct lk_cluster_topology topology;
    struct lk_cluster_fact *machine;
    size_t n_machine;
    struct lk_cluster_point *points; /* by coll, algo, ranks, bytes; the reader sorts */
    size_t n_points;
    struct lk_cluster_fit *fits;
    size_t n_fits;
    /* Overlap: compute advances at 1/(1+gamma), collectives take 1+delta times as long. */
    struct lk_quantity gamma_wait, gamma_wire, delta; /* optional */
    bool overlap_proxy;                               /* measured by a stand-in */
    struct lk_cluster_kappa *kappa;                   /* by ranks */
    size_t n_kappa;
    /* Straggler law: relative sd of compute time; link_sd: of a node's link speed. Optional. */
    struct lk_quantity rank_sd, node_sd, link_sd, transient_sd, common_sd;
    /* Heavy tail of transients, peaks over threshold: the share of micro-batches beyond it, the
     * mean excess (relative to the compute time) and the shape of the generalised Pareto law. */
    struct lk_quantity tail_share, tail_scale, tail_shape;
    struct lk_cluster_slow *slow; /* stragglers.known */
    size_t n_slow;
    struct lk_quantity price_per_hour, power_W; /* a GPU; optional */
    /* Failures, all optional: mean time between those of one GPU that stop a job, from one to the
     * first step after it, and the rate at which a job writes checkpoints, all ranks together. */
    struct lk_quantity gpu_mtbf_s, restart_s, checkpoint_Bps;
};

void lk_cluster_init(struct lk_cluster *c); /* empty: every quantity unknown */
void lk_cluster_fini(struct lk_cluster *c); /* zeroes it; safe on a zeroed cluster */
/* Adds a fact. */
enum lk_status lk_cluster_add_fact(struct lk_cluster *c, const char *key, const char *text);
/* LK_EPARSE names file, line and key. */
enum lk_status lk_cluster_read(const char *path, struct lk_cluster *out);
enum lk_status lk_cluster_write(const char *path, const struct lk_cluster *c);

extern const char *const lk_timing_names[LK_TIMING_COUNT];
extern const char *const lk_link_names[LK_LINK_COUNT];
extern const char *const lk_gpu_link_names[LK_GPU_LINK_COUNT];
extern const char *const lk_network_names[LK_NETWORK_COUNT];
extern const char *const lk_cpu_names[LK_CPU_COUNT];

#endif
