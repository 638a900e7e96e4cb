/*
 * The launcher: starts K local ranks of this same program, serves their store, and sees to it that
 * none is left behind, whatever happens.
 *
 * A child gets RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT (as
 * torchrun sets them) and LOCKSTEP_STORE_SERVED=1, and dies with its parent (PR_SET_PDEATHSIG: with
 * the thread that called lk_launch). When a rank ends badly the others learn it through the store,
 * get `grace_ns` to stop by themselves, then SIGTERM, then SIGKILL.
 *
 * The ranks stay in the caller's process group: Ctrl-C and Ctrl-Z reach all of them. SIGINT,
 * SIGTERM and SIGHUP to the caller alone are passed on; a second one kills.
 */
#ifndef LK_RUNTIME_LAUNCH_H
#define LK_RUNTIME_LAUNCH_H

#include "base/status.h"
#include "runtime/store.h"

#include <stdbool.h>
#include <stdint.h>

struct lk_launch_config {
    int ranks;
    const char *program;    /* (optional) file to execute; NULL: this program */
    char **argv;            /* name and arguments of a rank, NULL-ended */
    const char *const *env; /* (optional) more "NAME=value", NULL-ended */
    uint64_t grace_ns;      /* from the first failure to SIGTERM, and again to SIGKILL */
    uint64_t timeout_ns;    /* of the whole run; UINT64_MAX: none */
    bool pin;               /* bind rank r to CPU r of this process's set, where there are enough */
};

/*
 * Runs the ranks to their end. LK_OK when all exited 0; else LK_EPEER with the one message that
 * names the first rank that failed and how. No child is left in any case. While it runs, SIGCHLD,
 * SIGINT, SIGTERM and SIGHUP are blocked in the calling thread; other threads of the caller should
 * block them, too. pre: no other children of the caller matter to SIGCHLD handlers.
 */
enum lk_status lk_launch(const struct lk_launch_config *config);

/*
 * Who this process is, from the variables of torchrun or our launcher (RANK, ...), Open MPI
 * (OMPI_COMM_WORLD_*) or a Slurm job step (SLURM_PROCID, ...), in this order.
 *
 * MASTER_ADDR and MASTER_PORT say where the store is. Where they are not given: Open MPI on one
 * host meets on the loopback interface, Slurm on the first host of the step; the port is then made
 * from the job's number, between 20000 and 29999, so that two jobs on a host do not collide. Under
 * torchrun the agent's own store holds MASTER_PORT (TORCHELASTIC_USE_AGENT_STORE): ours is next to
 * it.
 */
struct lk_rank_env {
    bool present; /* false: not started as a rank */
    int rank, world_size, local_rank, local_world_size, nodes;
    char master_addr[256];
    int master_port;
    bool serve; /* this rank has to serve the store itself: no launcher of ours did */
};
/* LK_EUSAGE names the variable that is missing or malformed. */
enum lk_status lk_rank_env_read(struct lk_rank_env *out);
/*
 * Connects to the store of these ranks, which this one serves first where `serve` says so. Both are
 * the caller's to end, after an error, too. timeout_ns: as of lk_store_connect.
 */
enum lk_status lk_rank_env_connect(const struct lk_rank_env *e, uint64_t timeout_ns,
                                   struct lk_store_server **server, struct lk_store **store);

#endif
