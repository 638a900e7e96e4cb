/* One rank of a calibration on GPUs: what its files share. Private to commands/calibrate_gpu.c and
 * calibrate_probe.c. */
#ifndef LK_COMMANDS_CALIBRATE_GPU_H
#define LK_COMMANDS_CALIBRATE_GPU_H

#include "commands/calibrate.h"
#include "runtime/comm.h"
#include "runtime/device.h"

#include <stdbool.h>
#include <stdint.h>

struct gpu_rank {
    const struct calibrate_gpu *config;
    const struct calibrate_options *options;
    struct lk_device *device;
    struct lk_comm *comm;
    struct lk_stream *compute, *net;
    struct lk_device_properties properties;
    char uuid[64];
    struct lk_cluster *c;
    struct calibrate_tables *tables;
};

bool gpu_rank_first(const struct gpu_rank *g);
uint64_t gpu_rank_timeout_ns(const struct gpu_rank *g);
/* Progress, and a deadline for the next part where ranks share a GPU. */
void gpu_rank_announce(const struct gpu_rank *g, const char *what);
/* A communicator of all ranks; max_ctas: NCCL's limit, 0: as the options have it. */
enum lk_status gpu_rank_open_comm(struct gpu_rank *g, int max_ctas, struct lk_comm **out);

/* The overlap probe (calibrate_probe.c): its lines for the tables, one of them for the file. */
enum lk_status gpu_rank_probe(struct gpu_rank *g);

#endif
