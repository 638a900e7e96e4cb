/*
 * Finds this host's processors, network devices and their links in what Linux shows to every user:
 * texts for the traces of runs and for the cluster files of GPUs, and the kinds of processor and
 * network for the model of NCCL. A fact that is not found is left out; nothing fails.
 *
 *   processor    "224 x Intel(R) Xeon(R) Platinum 8480C"
 *   numa_nodes   those that have processors, "2"
 *   rdma         each port of /sys/class/infiniband: "mlx5_0/1 InfiniBand 400 Gb/sec (4X NDR);
 *                mlx5_1/1 Ethernet 100 Gb/sec (4X EDR) DOWN"
 *   interfaces   network devices (no virtual ones) that are up: "eth0 100 Gbit/s; eth1"
 *
 * Kernel documentation: ABI/stable/sysfs-class-infiniband, ABI/testing/sysfs-class-net,
 * ABI/stable/sysfs-devices-node.
 */
#ifndef LK_RUNTIME_MACHINE_H
#define LK_RUNTIME_MACHINE_H

#include "base/words.h"
#include "facts/cluster.h"

/* X(fact, key in traces and cluster files) */
#define LK_MACHINE_LIST(X)                                                                         \
    X(LK_MACHINE_PROCESSOR, "processor")                                                           \
    X(LK_MACHINE_NUMA_NODES, "numa_nodes")                                                         \
    X(LK_MACHINE_RDMA, "rdma")                                                                     \
    X(LK_MACHINE_INTERFACES, "interfaces")

enum lk_machine_fact { LK_MACHINE_LIST(LK_WORD_VALUE) LK_MACHINE_FACTS };

enum { LK_MACHINE_TEXT = 2048 };

struct lk_machine {
    char text[LK_MACHINE_FACTS]
             [LK_MACHINE_TEXT]; /* "": not found; "; ..." at its end: some are left out */
    enum lk_cpu cpu;
    /* The kind of the fastest RDMA ports that are up; unknown without any, or with several kinds.
     */
    enum lk_network network;
};

extern const char *const lk_machine_keys[LK_MACHINE_FACTS];

/* Find the facts. root: "" for this machine, else a folder with its "proc" and "sys". */
void lk_machine_find(const char *root, struct lk_machine *out);

#endif
