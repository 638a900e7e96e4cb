/* Slurm names the nodes of a job step by lists in variables of the environment, and knows the
 * addresses of nodes whose names are not the names of hosts. */
#ifndef LK_RUNTIME_SLURM_H
#define LK_RUNTIME_SLURM_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

/* Copy the first host of a list into out: "node[003-007,9],other" gives "node003". Brackets may
 * hold lists and ranges, anywhere in the name. */
void lk_slurm_first_host(const char *list, char *out, size_t size);

/* Return the number of tasks on node `node` from a list, "4(x2),3" for 4, 4 and 3. -1: malformed.
 */
int lk_slurm_tasks_on_node(const char *list, int node);

/*
 * Write an address of a node into out: its name, if that resolves; else the address that
 * SLURM_NODE_ALIASES gives; else NodeAddr of `scontrol show node`, which is asked once and killed
 * after timeout_ns. LK_EIO says what each of them answered. pre: no handler of SIGCHLD takes the
 * children of others.
 */
enum lk_status lk_slurm_address(const char *node, uint64_t timeout_ns, char *out, size_t size);

#endif
