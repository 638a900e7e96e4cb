/*
 * The cluster artefact (cluster.json) describes the machine: link rates, measured collectives,
 * overlap, stragglers. `calibrate` and `import` write it, or a person; presets are in clusters/.
 * sim/ reads it. A quantity has base units (s, bytes, bytes/s, W); one that is "optional" may be
 * absent (base/quantity.h).
 */
#ifndef LK_FACTS_CLUSTER_H
#define LK_FACTS_CLUSTER_H

#include "base/member.h"
#include "base/quantity.h"
#include "base/status.h"
#include "base/words.h"
#include "facts/coll.h"
#include "facts/straggler.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LK_CLUSTER_SCHEMA  "lockstep-cluster"
#define LK_CLUSTER_VERSION 1

/* X(timing, name): how a point was timed. back_to_back: the time of a call in a burst of calls;
 * alone: one collective from the last rank's arrival, then a barrier. */
#define LK_TIMING_LIST(X)                                                                          \
    X(LK_TIMING_BACK_TO_BACK, "back_to_back")                                                      \
    X(LK_TIMING_ALONE, "alone")

enum lk_timing { LK_TIMING_LIST(LK_WORD_VALUE) LK_TIMING_COUNT };

/* X(link, name): the link that a fit describes, inside a node or between nodes. */
#define LK_LINK_LIST(X)                                                                            \
    X(LK_LINK_INTRA, "intra")                                                                      \
    X(LK_LINK_INTER, "inter")

enum lk_link { LK_LINK_LIST(LK_WORD_VALUE) LK_LINK_COUNT };

/* X(kind, name): the link between the GPUs of a node. */
#define LK_GPU_LINK_LIST(X)                                                                        \
    X(LK_GPU_LINK_UNKNOWN, "unknown")                                                              \
    X(LK_GPU_LINK_NVSWITCH, "nvswitch")                                                            \
    X(LK_GPU_LINK_NVLINK, "nvlink")                                                                \
    X(LK_GPU_LINK_INFINITY_FABRIC, "infinity_fabric")                                              \
    X(LK_GPU_LINK_PCIE, "pcie")                                                                    \
    X(LK_GPU_LINK_SHARED_MEMORY, "shared_memory")

enum lk_gpu_link { LK_GPU_LINK_LIST(LK_WORD_VALUE) LK_GPU_LINK_COUNT };

/* X(kind, name): the network between nodes, distinguished as far as latency laws differ. */
#define LK_NETWORK_LIST(X)                                                                         \
    X(LK_NETWORK_UNKNOWN, "unknown")                                                               \
    X(LK_NETWORK_INFINIBAND, "infiniband")                                                         \
    X(LK_NETWORK_ROCE, "roce")                                                                     \
    X(LK_NETWORK_EFA, "efa")                                                                       \
    X(LK_NETWORK_SLINGSHOT, "slingshot")                                                           \
    X(LK_NETWORK_TCPX, "tcpx")                                                                     \
    X(LK_NETWORK_TCP, "tcp")

enum lk_network { LK_NETWORK_LIST(LK_WORD_VALUE) LK_NETWORK_COUNT };

/* X(maker, name): maker of the hosts' processors, an input of NCCL's cost model. */
#define LK_CPU_LIST(X)                                                                             \
    X(LK_CPU_UNKNOWN, "unknown")                                                                   \
    X(LK_CPU_INTEL, "intel")                                                                       \
    X(LK_CPU_AMD, "amd")                                                                           \
    X(LK_CPU_ARM, "arm")

enum lk_cpu { LK_CPU_LIST(LK_WORD_VALUE) LK_CPU_COUNT };

/* The accelerator's datasheet; every number is optional. */
struct lk_cluster_device {
    int compute_capability;   /* CUDA's, e.g. 90 for 9.0; 0: not known, or no CUDA device */
    struct lk_quantity flops; /* flop/s, dense, in the precision that jobs train in */
    struct lk_quantity memory_bytes;
    struct lk_quantity memory_Bps;
};

/* Topology inside and between nodes; every member is optional. */
struct lk_cluster_topology {
    enum lk_gpu_link gpu_link;
    int nvlink_domain; /* GPUs that NVLink joins, across nodes too (NVL72: 72); 0: of a node */
    int nics_per_node; /* network cards a node, each with inter.bandwidth; 0: one */
    enum lk_network network;
    enum lk_cpu cpu;
    int nodes_per_switch;                /* nodes below one leaf switch; 0: all */
    struct lk_quantity oversubscription; /* downlink over uplink bandwidth of a leaf switch, >= 1 */
    int nvls, sharp; /* in-switch reduction in a node, between nodes: 1 yes, -1 no, 0 unknown */
};

/* A measured collective: one algorithm, size and number of ranks. */
struct lk_cluster_point {
    enum lk_coll coll;
    enum lk_algo algo;
    enum lk_timing timing;
    int ranks, nodes;
    uint64_t bytes;            /* nccl-tests' size (facts/coll.h) */
    struct lk_quantity time_s; /* median of n samples, with its interval */
};

/*
 * Alpha-beta cost of one algorithm on one kind of link, fitted or preset. For K ranks:
 * ring all-reduce: launch + 2(K-1) alpha + 2(K-1)/K bytes / bandwidth;
 * tree all-reduce: launch + 2 ceil(log2 K) alpha + 2 bytes / bandwidth (pipelined).
 */
struct lk_cluster_fit {
    enum lk_coll coll;
    enum lk_algo algo;
    enum lk_link link;                /* inside a node, or between nodes */
    struct lk_quantity launch_s;      /* fixed time of a call */
    struct lk_quantity alpha_s;       /* latency of one hop */
    struct lk_quantity bandwidth_Bps; /* of one rank's link, one direction */
    struct lk_quantity error;         /* typical relative error of the fit on its own points */
};

/* Latency of one hop and bandwidth of a link. */
struct lk_cluster_link {
    struct lk_quantity latency_s, bandwidth_Bps;
};

/* Compute slows by 1 + kappa when this many ranks of a node run at once without communicating. */
struct lk_cluster_kappa {
    int ranks;
    struct lk_quantity kappa;
};

/*
 * A rank or node known to be slow, relative to the others; it replaces the straggler law's draw for
 * that rank or node. Rank r and node n are the same devices at every world size. Where a rank and
 * its node both have a compute factor, the rank's counts. A link factor of 2 is half the rate; the
 * slowest of a collective's nodes sets its rate.
 */
struct lk_cluster_slow {
    int rank, node; /* one of them; the other is -1. A rank's link is its node's */
    /* Optional, at least one of the two: time over that of the others, above 0. */
    struct lk_quantity compute; /* of compute */
    struct lk_quantity link;    /* of a collective between nodes */
    bool since; /* not yet slow when the file's points and the job's runs were measured */
};

/* A pair tells what moves from one host to another while nothing else of the two does. */
struct lk_cluster_pair {
    char *from, *to; /* hosts; owned */
    struct lk_quantity bandwidth_Bps;
};

/* A whole cluster file; owns all strings and lists. */
struct lk_cluster {
    char *base; /* NULL; while reading, the file or preset that the file inherits from */
    char *name;
    bool preset; /* one of clusters/; nothing is computed from it: each number says what it is from
                  */
    bool network_stated; /* in no file: the user said what the network's rate is */
    int nodes;           /* nodes that exist; 0: as many as asked for */
    int gpus_per_node;
    char *gpu; /* name of the device, e.g. "cpu" */
    struct lk_cluster_device device;
    /* intra: from one GPU to all others of its node; inter: of one network card, of which a
     * node has topology.nics_per_node (lk_link_node_bandwidth); both in one direction. */
    struct lk_cluster_link intra, inter;
    struct lk_cluster_topology topology;
    /* Facts found out about the machine when the file was made; nothing is computed from them. */
    struct lk_pair *machine;
    size_t n_machine;
    struct lk_cluster_point *points; /* by coll, algo, ranks, bytes; the reader sorts */
    size_t n_points;
    struct lk_cluster_fit *fits;
    size_t n_fits;
    struct lk_cluster_pair *pairs; /* nothing is computed from them */
    size_t n_pairs;
    /* Overlap: a collective that waits for its last rank slows compute by 1+gamma_wait, one that
     * moves bytes by 1+gamma_wire, and compute slows a collective by 1+delta. Optional. */
    struct lk_quantity gamma_wait, gamma_wire, delta;
    /* Optional: how much longer a collective takes in training than alone, whatever its size; what
     * its launch takes of compute, and each tensor that it gathers or scatters. */
    struct lk_quantity start_s, launch_s, tensor_s;
    bool overlap_proxy;             /* measured with a surrogate of the collective */
    struct lk_cluster_kappa *kappa; /* by ranks */
    size_t n_kappa;
    /* The straggler law (facts/straggler.h), optional. */
#define LK_STRAGGLER_FIELD_(field, text, max, help) struct lk_quantity field;
    LK_STRAGGLER_LIST(LK_STRAGGLER_FIELD_)
#undef LK_STRAGGLER_FIELD_
    struct lk_cluster_slow *slow; /* stragglers.known */
    size_t n_slow;
    /* Price and power of one GPU, optional; costs are in the currency of the price. */
    struct lk_quantity price_per_hour, power_W;
    char *currency; /* e.g. "USD"; "": not known */
    /* Failures, all optional: mean time between failures of one GPU that stop a job; time from a
     * failure to the first step after it; rate of writing checkpoints, all ranks together. */
    struct lk_quantity gpu_mtbf_s, restart_s, checkpoint_Bps;
};

/* lk_cluster_init, _fini, _read and _write: base/member.h. */
LK_RECORD_FILE(lk_cluster);
/* Append a fact to `machine`; key and text are copied. */
enum lk_status lk_cluster_add_fact(struct lk_cluster *c, const char *key, const char *text);

extern const struct lk_words lk_timing_words, lk_link_words, lk_gpu_link_words, lk_network_words;
extern const struct lk_words lk_cpu_words;

#endif
