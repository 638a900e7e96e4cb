/*
 * A profiling daemon for one job: PyTorch processes ask it whether they are to record, and it tells
 * each what and into which file (profiler/daemon/protocol.h).
 *
 * The daemon listens in a folder of its own, which the job learns by KINETO_IPC_SOCKET_DIR (Kineto
 * of 2022-12, PyTorch 2.0, and newer): it takes no name that another daemon could have, no other
 * job asks it, and only this user can. It blocks nowhere: the caller polls its descriptor.
 */
#ifndef LK_PROFILER_DAEMON_SERVER_H
#define LK_PROFILER_DAEMON_SERVER_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lk_daemon_request {
    const char *folder; /* for traces: it exists; absolute; copied */
    int64_t iterations; /* optimizer steps to record; 0: record by time */
    int64_t after;      /* optimizer steps before */
    uint64_t delay_ns;  /* from a process's first question until it is told */
    uint64_t length_ns; /* to record by time */
};

/* A process that asked. */
struct lk_daemon_process {
    int32_t pid; /* in its own PID namespace */
    int64_t job;
    int rank, world_size; /* as its environment says; -1: it does not */
    uint64_t asked_ns;    /* its first question, lk_monotonic_ns */
    uint64_t quiet_ns;    /* it is not told again before this */
    unsigned told;        /* how often */
    char address[108];    /* its socket's path */
    char *trace;          /* the file that it writes, ".tmp" at its end until it is complete; the
                             daemon's */
};

struct lk_daemon;

/* Make the socket. LK_EUSAGE: traces cannot be written to such a folder. LK_EIO. */
enum lk_status lk_daemon_open(const struct lk_daemon_request *r, struct lk_daemon **out);
/*
 * Return the texts "NAME=value" that the environment of the job's processes needs so that they ask
 * this daemon; borrowed. A PyTorch of 2.1 or newer then asks every second instead of every five,
 * unless the user has a configuration for Kineto.
 */
const char *const *lk_daemon_environment(const struct lk_daemon *d, size_t *n);
int lk_daemon_descriptor(const struct lk_daemon *d); /* readable: lk_daemon_serve has work */
/* Answer what has come, at most some hundreds of messages. Never blocks or fails: a message that
 * makes no sense, or an answer that nobody takes, is counted. */
void lk_daemon_serve(struct lk_daemon *d);

/* Return the processes that asked, by the order of their first question. Borrowed: valid until
 * lk_daemon_serve or lk_daemon_close. */
const struct lk_daemon_process *lk_daemon_processes(const struct lk_daemon *d, size_t *n);
/* Return how many messages were left out because they made no sense. */
uint64_t lk_daemon_ignored(const struct lk_daemon *d);
/* Return true if a dynolog daemon listens on this machine, at the name that PyTorch asks without
 * KINETO_IPC_SOCKET_DIR, or in the folder that the environment has of it. */
bool lk_daemon_other(void);
void lk_daemon_close(struct lk_daemon *d); /* NULL is legal; removes the folder of the socket */

#endif
