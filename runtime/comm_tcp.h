/*
 * The parts of the tcp communicator. Private to runtime/comm_tcp*.c.
 *
 *   comm_tcp.c        open, close, which algorithm a call runs on
 *   comm_tcp_mesh.c   connections between all ranks
 *   comm_tcp_link.c   sending, receiving and waiting, with failures turned into verdicts
 *   comm_tcp_ring.c   pipelined ring: all-reduce, reduce-scatter, all-gather
 *   comm_tcp_tree.c   pipelined tree or chain: all-reduce, broadcast; exchange for two ranks
 *
 * A call is a stream of bytes in each direction of the links that it uses: one head, then data in
 * an order that both ends derive from the call. The head says which call it is, so ranks that
 * disagree find out instead of adding apples to pears.
 */
#ifndef LK_RUNTIME_COMM_TCP_H
#define LK_RUNTIME_COMM_TCP_H

#include "runtime/comm.h"

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LK_TCP_HEAD_BYTES = 32 };

/* One direction of a connection, within a call. */
struct lk_tcp_flow {
    unsigned char head[LK_TCP_HEAD_BYTES];
    size_t head_done; /* of it sent or received; LK_TCP_HEAD_BYTES: over to data */
};

struct lk_tcp_link {
    int fd; /* -1: none (this rank itself) */
    int peer;
    struct lk_tcp_flow out, in;
};

struct lk_tcp {
    struct lk_comm base;
    struct lk_store *store; /* borrowed */
    uint64_t timeout_ns;
    size_t chunk_bytes; /* of trees, and of rings at most; of rings exactly when fixed_chunk */
    bool fixed_chunk;
    struct lk_tcp_link *links; /* one a rank */
    struct pollfd *polls;      /* room for one a rank and the store */
    unsigned char *scratch;    /* chunk_bytes that were received and are not yet added */
    unsigned char head[LK_TCP_HEAD_BYTES]; /* of the call in progress */
};

/* Connects all ranks with each other; fills links[].fd. */
enum lk_status lk_tcp_connect(struct lk_tcp *t, const struct lk_comm_config *config);

/* Starts a call: writes its head. */
void lk_tcp_begin(struct lk_tcp *t, const struct lk_coll_call *call, enum lk_algo algo,
                  uint64_t seq);
/* Makes a link take part in the call. */
void lk_tcp_use(struct lk_tcp *t, struct lk_tcp_link *l);

/*
 * Sends or receives up to n > 0 bytes of the call's data without waiting; *out_n says how many, 0
 * for none now. LK_EPEER is the run's verdict when the connection broke.
 */
enum lk_status lk_tcp_send(struct lk_tcp *t, struct lk_tcp_link *l, const void *data, size_t n,
                           size_t *out_n);
enum lk_status lk_tcp_recv(struct lk_tcp *t, struct lk_tcp_link *l, void *data, size_t n,
                           size_t *out_n);
/*
 * Waits until one of t->polls[0..n) has something, or the run has a verdict, or the timeout has
 * passed (which makes a verdict).
 */
enum lk_status lk_tcp_wait(struct lk_tcp *t, size_t n);

/* The part of a collective that a ring moves. */
struct lk_tcp_parts {
    unsigned char *buf;
    enum lk_dtype dtype;
    size_t elems; /* of all parts together; part p is the p-th of world_size even shares */
    int steps;    /* of the ring */
    int adds;     /* of those, the first ones that add what arrives */
    int first;    /* part sent first, relative to this rank */
};
enum lk_status lk_tcp_ring(struct lk_tcp *t, const struct lk_tcp_parts *p);

/* Where a rank stands in a tree. */
struct lk_tcp_tree {
    int parent; /* -1: the root */
    int children[32];
    int n_children;
};
/* Binomial tree, or chain, of world_size ranks from root. */
struct lk_tcp_tree lk_tcp_binomial(int rank, int world_size, int root);
struct lk_tcp_tree lk_tcp_chain(int rank, int world_size, int root);
/* Sums up to the root (when `up`), then copies down from it. */
enum lk_status lk_tcp_tree_run(struct lk_tcp *t, const struct lk_tcp_tree *tree, bool up,
                               unsigned char *buf, enum lk_dtype dtype, size_t elems);
/* All-reduce of two ranks: each sends all it has. */
enum lk_status lk_tcp_exchange(struct lk_tcp *t, unsigned char *buf, enum lk_dtype dtype,
                               size_t elems);

#endif
