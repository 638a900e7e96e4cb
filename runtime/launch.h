/*
 * The launcher: starts K local ranks of this same program, serves their store, and sees to it that
 * none is left behind, whatever happens.
 *
 * A child gets RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT (as
 * torchrun sets them) and dies with its parent (PR_SET_PDEATHSIG). When a rank ends badly the
 * others learn it through the store, get `grace_ns` to stop by themselves, then SIGTERM, then
 * SIGKILL.
 */
#ifndef LK_RUNTIME_LAUNCH_H
#define LK_RUNTIME_LAUNCH_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct lk_launch_config {
    int ranks;
    char **argv;            /* program and arguments of a rank, NULL-ended */
    const char *const *env; /* (optional) more "NAME=value", NULL-ended */
    uint64_t grace_ns;      /* from the first failure to SIGTERM, and again to SIGKILL */
    uint64_t timeout_ns;    /* of the whole run; UINT64_MAX: none */
    bool pin;               /* bind rank r to CPU r of this process's set, where there are enough */
};

/*
 * Runs the ranks to their end. LK_OK when all exited 0; else LK_EPEER with the one message that
 * names the first rank that failed and how. No child is left in any case.
 */
enum lk_status lk_launch(const struct lk_launch_config *config);

/* Who this process is, from torchrun's, Open MPI's (OMPI_COMM_WORLD_*) or Slurm's variables. */
struct lk_rank_env {
    bool present; /* false: not started as a rank */
    int rank, world_size, local_rank, local_world_size, nodes;
    char master_addr[256];
    int master_port;
    bool serve; /* this rank has to serve the store itself: no launcher of ours did */
};
/* LK_EUSAGE names the variable that is missing or malformed. */
enum lk_status lk_rank_env_read(struct lk_rank_env *out);

#endif
