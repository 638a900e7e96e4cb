/*
 * The launcher: starts K ranks of this program, here or by ssh on other hosts, serves their store,
 * and leaves no process behind, whatever happens.
 *
 * A rank gets RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, GROUP_WORLD_SIZE, MASTER_ADDR,
 * MASTER_PORT (as torchrun sets them), LOCKSTEP_STORE_SERVED=1 and the ticket of this launch
 * (runtime/rendezvous/ticket.h), and SIGTERM when its parent dies (PR_SET_PDEATHSIG: the
 * thread that called lk_launch). When a rank fails, the store tells the others; they get
 * `grace_ns` to stop by themselves, then SIGTERM, then SIGKILL.
 *
 * The ranks stay in the caller's process group: Ctrl-C and Ctrl-Z reach all of them. SIGINT,
 * SIGTERM or SIGHUP to the caller alone ends the ranks by SIGTERM; a second one by SIGKILL.
 *
 * On other hosts ranks run in the directory of the same name, as the file of the same name. One
 * ends when the launcher or its ssh does (launch_ssh.c). The secret is on no command line.
 */
#ifndef LK_RUNTIME_LAUNCH_H
#define LK_RUNTIME_LAUNCH_H

#include "base/status.h"
#include "runtime/rendezvous/hosts.h"
#include "runtime/rendezvous/store.h"

#include <stdbool.h>
#include <stdint.h>

struct lk_launch_config {
    int ranks;
    const char *program;    /* (optional) file to execute; NULL: this program */
    char **argv;            /* a rank's program name and arguments, NULL-ended */
    const char *const *env; /* (optional) additional "NAME=value", NULL-ended */
    uint64_t grace_ns;      /* from the first failure to SIGTERM, and again to SIGKILL */
    uint64_t timeout_ns;    /* limit of the whole run; UINT64_MAX: none */
    /* (optional) Called when all ranks exited 0, for what they left in the store; NULL: nothing. */
    enum lk_status (*collect)(void *ctx, struct lk_store_server *store);
    void *ctx;
    bool *stopped; /* (optional) set to true when a signal to this process ended the run */
    bool
        pin; /* bind rank r to CPU r of this process's CPU set, if there are enough; not on hosts */
    const struct lk_hosts *hosts; /* (optional) with slots for all ranks; NULL: this one */
    const char *ssh; /* with hosts: a command, its words separated by blanks, that runs another on
                        the host named behind it, with its input, its output and its exit code */
};

/*
 * Run the ranks to their end. Return LK_OK when all exited with 0; else LK_EPEER with one message
 * that names the first rank that failed, and how. No child is left in any case. While it runs,
 * SIGCHLD, SIGINT, SIGTERM and SIGHUP are blocked in the calling thread; other threads of the
 * caller should block them, too. pre: no other children of the caller matter to SIGCHLD handlers.
 */
enum lk_status lk_launch(const struct lk_launch_config *config);

#endif
