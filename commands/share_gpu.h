/*
 * Several ranks on one GPU, each a process (--share-gpu), for tests of results and of failures. The
 * GPU gives each process time slices of about 2 ms, and a collective needs many; so its times mean
 * nothing. NCCL refuses two ranks of one host on one GPU, but believes NCCL_HOSTID which host it is
 * on, and then uses sockets (NCCL 2.28: init.cc:903, misc/utils.cc:87).
 */
#ifndef LK_COMMANDS_SHARE_GPU_H
#define LK_COMMANDS_SHARE_GPU_H

#include "base/status.h"
#include "runtime/comm/comm.h"

#include <stdint.h>

/* Warning for the user, given once a run. */
#define SHARE_GPU_WARNING                                                                          \
    "ranks share a GPU, which runs one at a time: no time of this run means anything"

/*
 * Set and log the environment of a rank that shares its GPU; variables that the user has set are
 * kept. pre: NCCL was not called yet, and there is no other thread. nodes: hosts of the run.
 */
enum lk_status share_gpu_environment(int rank, int nodes);

/* Limit thread blocks, so that those of all ranks find room on the GPU. The user's limit is kept.
 */
void share_gpu_limit(struct lk_nccl_options *n);

/*
 * Kill this process (SIGALRM) unless called again within four times the timeout, at least a second:
 * the run ends whatever hangs. 0: no longer.
 */
void share_gpu_deadline(double timeout_s);

#endif
