/*
 * The parts of the tcp communicator. Private to runtime/comm_tcp*.c.
 *
 *   comm_tcp.c        open, close, choice of a collective's algorithm; sending, receiving and
 *                     waiting, with failures turned into verdicts
 *   comm_tcp_mesh.c   connections between all ranks
 *   comm_tcp_info.c   what the kernel tells of a connection
 *   comm_tcp_pass.c   a transfer from one rank to another
 *   comm_tcp_algo.c   pipelined ring: all-reduce, reduce-scatter, all-gather; pipelined tree or
 *                     chain: all-reduce, broadcast; exchange for two ranks
 *   comm_tcp_hosts.c  which ranks share a host, and rings inside hosts and between them
 *
 * A collective is a stream of bytes in each direction of the links that it uses: one header, then
 * data in an order that both ends derive from the arguments. The header identifies the collective,
 * so that ranks which disagree detect it instead of adding unrelated data.
 */
#ifndef LK_RUNTIME_COMM_TCP_H
#define LK_RUNTIME_COMM_TCP_H

#include "runtime/comm/comm.h"

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LK_TCP_HEAD_BYTES = 32 };

/* One direction of a connection, within a collective. */
struct lk_tcp_flow {
    unsigned char head[LK_TCP_HEAD_BYTES];
    size_t head_done; /* header bytes sent or received; LK_TCP_HEAD_BYTES: data follow */
};

struct lk_tcp_link {
    int fd; /* -1: none (this rank itself) */
    int peer;
    bool leaves; /* the host: the other end has another address */
    struct lk_tcp_flow out, in;
};

struct lk_tcp {
    struct lk_comm base;
    struct lk_store *store; /* borrowed */
    uint64_t timeout_ns, poll_ns;
    size_t chunk_bytes; /* chunk size of trees; upper limit for rings, exact when fixed_chunk */
    bool fixed_chunk;
    struct lk_tcp_link *links;             /* one per rank */
    struct pollfd *polls;                  /* room for one per rank and the store */
    unsigned char *scratch;                /* chunk_bytes received and not yet added */
    unsigned char head[LK_TCP_HEAD_BYTES]; /* of the collective in progress */
    bool tells_hops;                       /* the kernel tells what a connection did */
    struct lk_hop at;                      /* what it told before the last ring */
    bool has_ring, has_hop;                /* there was a ring; the last collective has a hop: */
    struct lk_hop hop;
    uint64_t host; /* a hash of the address that this rank listens on */
    int *rings;    /* the members of lk_tcp_hosts; NULL: not known yet */
    int n_near, n_across, at_near, at_across;
};

/* Ranks in the order of a ring, and this rank's position. */
struct lk_tcp_members {
    const int *ranks; /* NULL: from `first` on every stride-th */
    int first, stride;
    int n, at;
};

/* Connect all ranks with each other; fill links[].fd and host. */
enum lk_status lk_tcp_connect(struct lk_tcp *t, const struct lk_comm_config *config);

/* Find out before a ring what the link to its next rank did since the ring before began. What is
 * on its way when a ring has ended counts so, and the time that it takes. */
void lk_tcp_read_hop(struct lk_tcp *t, const struct lk_tcp_members *ring);
/* Read what the kernel tells of a connection since it was opened; `to` stays. False: it does not
 * tell (Linux before 4.10). */
bool lk_tcp_info(int fd, struct lk_hop *out);

/* Make a link take part in the current collective. */
void lk_tcp_use(struct lk_tcp *t, struct lk_tcp_link *l);

/* Send or receive up to n > 0 bytes of the collective's data without waiting; *out_n is the count,
 * 0 if none was possible now. When the connection broke, LK_EPEER with the run's verdict. */
enum lk_status lk_tcp_send(struct lk_tcp *t, struct lk_tcp_link *l, const void *data, size_t n,
                           size_t *out_n);
enum lk_status lk_tcp_recv(struct lk_tcp *t, struct lk_tcp_link *l, void *data, size_t n,
                           size_t *out_n);
/* Wait once, until one of t->polls[0..n) is ready or the deadline, and check for the run's verdict.
 * *out_ready: how many are ready. */
enum lk_status lk_tcp_poll(struct lk_tcp *t, size_t n, struct lk_deadline deadline, int *out_ready);
/* Wait until one of t->polls[0..n) is ready, the run has a verdict, or the timeout has passed
 * (which makes a verdict). */
enum lk_status lk_tcp_wait(struct lk_tcp *t, size_t n);

/* The steps of a ring collective. */
struct lk_tcp_parts {
    struct lk_tcp_members ring;
    unsigned char *buf;
    enum lk_dtype dtype;
    size_t elems; /* in all parts; part p is the p-th of ring.n even shares */
    int steps;    /* steps of the ring in all */
    int adds;     /* the first `adds` steps add what arrives, the others copy */
    int first;    /* part sent first, relative to this rank's position */
};
enum lk_status lk_tcp_ring(struct lk_tcp *t, const struct lk_tcp_parts *p);
struct lk_tcp_members lk_tcp_everyone(const struct lk_tcp *t);
/* Return the members of a call's group; n 0: all ranks. */
struct lk_tcp_members lk_tcp_group(const struct lk_tcp *t, const struct lk_rank_group *g);
struct lk_tcp_link *lk_tcp_next(const struct lk_tcp *t, const struct lk_tcp_members *ring);
/* Find the elements [*from, *from + *n) of part `at` of `parts` even shares. */
void lk_tcp_share(size_t elems, int parts, int at, size_t *from, size_t *n);

/* A rank's neighbours in a tree. */
struct lk_tcp_tree {
    int parent; /* -1: the root */
    int children[32];
    int n_children;
};
/* Return this rank's neighbours in a binomial tree, or a chain, rooted at `root`. */
struct lk_tcp_tree lk_tcp_binomial(int rank, int world_size, int root);
struct lk_tcp_tree lk_tcp_chain(int rank, int world_size, int root);
/* Sum up to the root (when `up`), then copy down from it. */
enum lk_status lk_tcp_tree_run(struct lk_tcp *t, const struct lk_tcp_tree *tree, bool up,
                               unsigned char *buf, enum lk_dtype dtype, size_t elems);
/*
 * Find out which ranks are on which host, the first time, and write this rank's rings: `near` has
 * the ranks of its host, `across` one of each host. LK_EUSAGE, on all ranks, where hosts have
 * different numbers of ranks.
 */
enum lk_status lk_tcp_hosts(struct lk_tcp *t, struct lk_tcp_members *near,
                            struct lk_tcp_members *across);
/* All-reduce by rings: of each host, which leave a rank a share of the sum, of the ranks with the
 * same share, between hosts, and of each host again. */
enum lk_status lk_tcp_hierarchical(struct lk_tcp *t, unsigned char *buf, enum lk_dtype dtype,
                                   size_t elems);

/* All-reduce of two ranks: each sends its whole buffer. */
enum lk_status lk_tcp_exchange(struct lk_tcp *t, unsigned char *buf, enum lk_dtype dtype,
                               size_t elems);

/* Send to a rank, receive from one; as lk_comm_pass. */
enum lk_status lk_tcp_pass(struct lk_tcp *t, const struct lk_pass *p, double *out_Bps);

#endif
