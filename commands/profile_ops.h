/*
 * The ways in which `lockstep profile` records a job. A way sets the environment of the job's
 * processes, may serve a descriptor while the job runs, and names the traces that were made.
 */
#ifndef LK_COMMANDS_PROFILE_OPS_H
#define LK_COMMANDS_PROFILE_OPS_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct profile_request {
    const char *traces; /* folder for what is recorded: it exists; absolute; outlives the way */
    int64_t steps;      /* iterations to record; 0: record by time */
    int64_t after;      /* iterations before */
    double delay_s;     /* from a process's first sign until it is told to record; 0: the way's */
    double length_s;    /* to record by time; 0: the way's */
    const char *step_range; /* ranges of steps, as of `lockstep import`; or NULL */
    bool asked;             /* --with names the way: one that cannot work is an error */
    bool alone;             /* no other way is on */
};

/* The traces that a way recorded. */
struct profile_found {
    char **files; /* traces, each of a rank (lk_names_add) */
    size_t n, capacity;
    int world_size; /* as the ranks' environment says; 0: it does not */
};

struct profile_ops {
    const char *name;     /* for --with */
    const char *text;     /* for messages: "Kineto's daemon protocol" */
    const char *overhead; /* what is said of its cost where the traces do not tell it */
    const char *apart;    /* what to do about ranks that recorded at different times; or NULL */
    enum lk_status (*open)(const struct profile_request *r, void **way);
    /* Return the texts "NAME=value" for the job's environment, borrowed. */
    const char *const *(*environment)(const void *way, size_t *n);
    int (*descriptor)(const void *way); /* to poll for input while the job runs; -1: none */
    void (*serve)(void *way); /* its descriptor has input; never blocks. NULL: it has none */
    /* After the job: give the traces their names, and list them. */
    enum lk_status (*collect)(void *way, struct profile_found *out);
    /* After the job: say (profile_say) what a user should know, and why nothing was recorded. */
    void (*explain)(const void *way, size_t n_recorded);
    void (*close)(void *way); /* NULL is legal */
};

extern const struct profile_ops profile_daemon, profile_preload;

/* Print a line of ours on standard error; the job has ended. */
void profile_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
