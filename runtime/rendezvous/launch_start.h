/* Private to runtime/rendezvous/launch*.c: how a process that becomes a rank, or brings one about
 * on another host, is prepared. */
#ifndef LK_RUNTIME_LAUNCH_START_H
#define LK_RUNTIME_LAUNCH_START_H

#include "base/status.h"
#include "runtime/rendezvous/hosts.h"

#include <stddef.h>

/* The rank that is wanted. Members as in struct lk_launch_config. */
struct lk_launch_wanted {
    const char *program;
    char **argv;
    const char *ssh;
    struct lk_rank_place place;
    const char *const *own; /* its variables beyond the inherited ones, NULL-ended */
};

/* A process to be started. A child only executes after the fork: all is prepared before. */
struct lk_launch_start {
    const char *program; /* searched in PATH if it has no slash */
    char **argv;         /* NULL-ended */
    char **env;          /* NULL-ended; the array is freed with it, unless it is environ */
    char **words;        /* what is freed with it, NULL-ended; or NULL */
    int input;           /* its standard input; -1: the launcher's */
    int hold;            /* the other end of input, which the launcher keeps; -1: none */
};

/* One way to bring about a rank. */
struct lk_launch_ops {
    /* Fill *out, which the caller releases, also after a failure. */
    enum lk_status (*prepare)(const struct lk_launch_wanted *w, struct lk_launch_start *out);
    /* Say how the rank of a process ended that exited with a code above 0: "exited with code 3". */
    void (*describe)(const struct lk_rank_place *place, int code, char *buf, size_t size);
};
extern const struct lk_launch_ops lk_launch_ssh;

void lk_launch_free_strings(char **list); /* NULL is legal */

#endif
