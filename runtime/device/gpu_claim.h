/*
 * Claims of this host's GPUs: a lock on a file named by the GPU's UUID, since ranks may each see
 * their GPU as number 0, and by the user, since nobody should open a file that another user left in
 * a shared folder. The file lies in LOCKSTEP_GPU_LOCKS if set, else in XDG_RUNTIME_DIR if writable,
 * else in /tmp; it stays behind, unlocked, and is used again.
 */
#ifndef LK_RUNTIME_GPU_CLAIM_H
#define LK_RUNTIME_GPU_CLAIM_H

#include "base/status.h"

#include <stdbool.h>

struct lk_gpu_claim {
    int fd; /* descriptor of the locked file; 0: none */
};

/* Claim the GPU for this process until released, or until the process ends. gpu: its UUID. Shared
 * claims are compatible; LK_EUSAGE names both ranks when one of the two is not shared. */
enum lk_status lk_gpu_claim(struct lk_gpu_claim *c, const char *gpu, int local_rank, bool shared);
/* Safe on a zeroed claim. */
void lk_gpu_claim_release(struct lk_gpu_claim *c);

#endif
