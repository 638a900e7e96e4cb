/* The hosts that a launcher starts ranks on: "a:2,user@b,[2001:db8::1]:4". Ranks fill them in the
 * list's order. */
#ifndef LK_RUNTIME_HOSTS_H
#define LK_RUNTIME_HOSTS_H

#include "base/status.h"

#include <stddef.h>

struct lk_host {
    char name[256]; /* as ssh takes it */
    int slots;      /* ranks that it may have; 1 when not given */
};

struct lk_hosts {
    struct lk_host *v;
    size_t n;
    int slots; /* of all */
};

/* A rank of a launch has this place. */
struct lk_rank_place {
    const char *host; /* NULL: here */
    int local_rank, local_size;
    int hosts; /* that have ranks */
};

/* Read a list. LK_EUSAGE: a name is missing, twice there, or nothing that ssh should be given. *out
 * is freed by lk_hosts_fini. */
enum lk_status lk_hosts_parse(const char *text, struct lk_hosts *out);
void lk_hosts_fini(struct lk_hosts *h); /* zeroes it; safe on a zeroed one */

/* Return the place of a rank. hosts: NULL: all ranks are here. pre: ranks <= hosts->slots. */
struct lk_rank_place lk_hosts_place(const struct lk_hosts *hosts, int rank, int ranks);

/*
 * Write the address by which the hosts reach this one: MASTER_ADDR if it is set, else the address
 * that this host takes to the first of them that is another. LK_EUSAGE: the name of a host does not
 * resolve here.
 */
enum lk_status lk_hosts_address(const struct lk_hosts *h, char *out, size_t size);

#endif
