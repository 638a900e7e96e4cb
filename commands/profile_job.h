/*
 * A job that `lockstep profile` runs: a child whose standard input and output, process group and
 * signals are those that it would have without us.
 */
#ifndef LK_COMMANDS_PROFILE_JOB_H
#define LK_COMMANDS_PROFILE_JOB_H

#include "base/status.h"

#include <stddef.h>

/* A descriptor to serve while the job runs. */
struct profile_watch {
    int descriptor;
    void (*serve)(void *ctx); /* called when it has input; never blocks */
    void *ctx;
};

/* A tick is called from time to time while the job runs. */
struct profile_tick {
    double (*left_s)(void *ctx); /* return the seconds until the next call */
    void (*call)(void *ctx);
    void *ctx;
};

/*
 * Run a command, NULL-ended and looked for in PATH, to its end. `more` are texts "NAME=value" that
 * its environment has beside, or instead of, ours.
 *
 * A signal that is sent to this process to stop it, or to tell it something (SIGINT, SIGTERM,
 * SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2), is sent on to the job, and the job decides. One that the
 * terminal sent has reached the job already.
 *
 * tick (optional) is called while the job runs.
 *
 * *exit_status is the job's; 128 and the number of the signal that ended it; 127 for a command that
 * is not there and 126 for one that cannot be executed: then the failure is LK_EIO, and
 * *exit_status is written nevertheless.
 */
enum lk_status profile_job_run(const char *const *command, const char *const *more, size_t n_more,
                               const struct profile_watch *watches, size_t n_watches,
                               const struct profile_tick *tick, int *exit_status);

#endif
