/*
 * Who uses a GPU of this host: a lock on a file named by the GPU, since ranks may each see theirs
 * as number 0, and by the user: nobody opens what another left in a folder for all. The file lies
 * in LOCKSTEP_GPU_LOCKS if set, else in XDG_RUNTIME_DIR if that can be written to, else in /tmp; it
 * stays behind, unlocked, and is used again.
 */
#ifndef LK_RUNTIME_GPU_CLAIM_H
#define LK_RUNTIME_GPU_CLAIM_H

#include "base/status.h"

#include <stdbool.h>

struct lk_gpu_claim {
    int fd; /* of the locked file; 0: none */
};

/*
 * Claims the GPU for this process until released, or until it ends. gpu: its UUID. Shared claims go
 * together; LK_EUSAGE names both ranks when one of two is not shared.
 */
enum lk_status lk_gpu_claim(struct lk_gpu_claim *c, const char *gpu, int local_rank, bool shared);
/* Safe on a zeroed claim. */
void lk_gpu_claim_release(struct lk_gpu_claim *c);

#endif
