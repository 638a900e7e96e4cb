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

struct lk_cluster {
    char *name;
    bool preset; /* numbers from datasheets: forecasts are graded "preset" */
    int nodes;   /* that exist; 0: as many as asked for */
    int gpus_per_node;
    char *gpu; /* name of the device, e.g. "cpu" */
    struct lk_cluster_link intra, inter;
    struct lk_cluster_point *points; /* by coll, algo, ranks, bytes; the reader sorts */
    size_t n_points;
    struct lk_cluster_fit *fits;
    size_t n_fits;
    /* Overlap: compute advances at 1/(1+gamma), collectives take 1+delta times as long. */
    struct lk_quantity gamma_wait, gamma_wire, delta; /* optional */
    bool overlap_proxy;                               /* measured by a stand-in */
    struct lk_cluster_kappa *kappa;                   /* by ranks */
    size_t n_kappa;
    /* Straggler law: relative sd of compute time. Optional. */
    struct lk_quantity rank_sd, node_sd, transient_sd, common_sd;
    struct lk_quantity price_per_hour, power_W; /* a GPU; optional */
};

void lk_cluster_fini(struct lk_cluster *c); /* zeroes it; safe on a zeroed cluster */
enum lk_status lk_cluster_read(const char *path, struct lk_cluster *out);
enum lk_status lk_cluster_write(const char *path, const struct lk_cluster *c);
const char *lk_timing_name(enum lk_timing t);
const char *lk_link_name(enum lk_link l);

#endif
