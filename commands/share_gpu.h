/*
 * Several ranks on one GPU, each a process (--share-gpu): for tests of what is computed and of
 * failures. The GPU runs them in turns of about 2 ms, and a collective needs many; so its times
 * mean nothing. NCCL refuses two ranks of one host on one GPU, but takes NCCL_HOSTID's word for
 * which host it is on, and then goes over sockets (NCCL 2.28: init.cc:903, misc/utils.cc:87).
 */
#ifndef LK_COMMANDS_SHARE_GPU_H
#define LK_COMMANDS_SHARE_GPU_H

#include "base/status.h"
#include "runtime/comm.h"

#include <stdint.h>

/* For the user, once a run. */
#define SHARE_GPU_WARNING                                                                          \
    "ranks share a GPU and take turns on it: no time of this run means anything"

/*
 * Sets the environment of a rank that shares its GPU; what the user has set stays. What was set is
 * logged. Comes before NCCL's first call and before other threads. nodes: hosts of the run.
 */
enum lk_status share_gpu_environment(int rank, int nodes);

/* Few thread blocks, so that those of all ranks find room on the GPU; what was asked for stays. */
void share_gpu_limit(struct lk_nccl_options *n);

/*
 * Kills this process (SIGALRM) unless it is called again within four times the timeout, a second at
 * least: whatever hangs, the run ends. 0: not any more.
 */
void share_gpu_deadline(double timeout_s);

#endif
