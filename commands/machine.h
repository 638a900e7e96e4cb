/*
 * What this host's processors, network devices and their links are, as far as Linux tells anybody:
 * texts for the traces of runs and for the cluster files of GPUs, and what the model of NCCL asks
 * for.
 * What is not found is left out; nothing fails.
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
#ifndef LK_COMMANDS_MACHINE_H
#define LK_COMMANDS_MACHINE_H

#include "base/cluster.h"

/* X(fact, key in traces and cluster files) */
#define MACHINE_LIST(X)                                                                            \
    X(MACHINE_PROCESSOR, "processor")                                                              \
    X(MACHINE_NUMA_NODES, "numa_nodes")                                                            \
    X(MACHINE_RDMA, "rdma")                                                                        \
    X(MACHINE_INTERFACES, "interfaces")

enum machine_fact {
#define MACHINE_ENUM_(fact, key) fact,
    MACHINE_LIST(MACHINE_ENUM_)
#undef MACHINE_ENUM_
        MACHINE_FACTS
};

enum { MACHINE_TEXT = 2048 };

struct machine {
    char text[MACHINE_FACTS][MACHINE_TEXT]; /* "": not found; "; ..." at its end: there are more */
    enum lk_cpu cpu;
    /* Of the fastest RDMA ports that are up. Unknown: there are none, or of several kinds. */
    enum lk_network network;
};

extern const char *const machine_keys[MACHINE_FACTS];

/* root: "" for this machine, else a folder that has its "proc" and "sys". */
void machine_find(const char *root, struct machine *out);

#endif
