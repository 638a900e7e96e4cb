/* Find out which rank this process is, from whoever started it, and join the ranks' store. */
#ifndef LK_RUNTIME_RANK_ENV_H
#define LK_RUNTIME_RANK_ENV_H

#include "base/status.h"
#include "runtime/rendezvous/store.h"
#include "runtime/rendezvous/ticket.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * This process's rank and world size, from the environment of torchrun or our launcher (RANK, ...),
 * Open MPI (OMPI_COMM_WORLD_*), MPICH (PMI_RANK, MPI_LOCALRANKID, ...) or a Slurm job step
 * (SLURM_PROCID, ...), in this order.
 *
 * MASTER_ADDR and MASTER_PORT give the store's address. Defaults: MPI on one host uses the
 * loopback interface, Slurm the first node of the step (runtime/rendezvous/slurm.h); ports are
 * derived from the job's name, between 20000 and 29999: where another program has the first, the
 * next is taken. Under torchrun the agent's own store occupies MASTER_PORT
 * (TORCHELASTIC_USE_AGENT_STORE): ours takes the next port.
 */
struct lk_rank_env {
    bool present; /* false: not started as a rank */
    int rank, world_size, local_rank, local_world_size, nodes;
    char master_addr[256];
    int master_port;
    bool serve;      /* this rank must serve the store itself, because no launcher of ours does */
    bool port_given; /* else master_port is the first of several that the job's name gives */
    bool slurm_name; /* master_addr is Slurm's name of a node, whose address is to be found */
    struct lk_ticket ticket; /* the job's name, and the secret of our launcher */
};
/* Read the environment. LK_EUSAGE names the variable that is missing or malformed. */
enum lk_status lk_rank_env_read(struct lk_rank_env *out);
/*
 * Serve the ranks' store if e->serve, then connect to it. The caller ends both, after an error,
 * too. timeout_ns: as for lk_store_connect. secret_file: as for lk_ticket_read_file; NULL: none. A
 * run on several hosts without a secret is a warning.
 */
enum lk_status lk_rank_env_connect(const struct lk_rank_env *e, const char *secret_file,
                                   uint64_t timeout_ns, struct lk_store_server **server,
                                   struct lk_store **store);

#endif
