/* The state of the store's server. Private to the server: its poll loop and its messages. */
#ifndef LK_RUNTIME_STORE_SERVER_IMPL_H
#define LK_RUNTIME_STORE_SERVER_IMPL_H

#include "runtime/rendezvous/net.h"
#include "runtime/rendezvous/store.h"
#include "runtime/rendezvous/store_keys.h"
#include "runtime/rendezvous/store_verdict.h"
#include "runtime/rendezvous/store_wire.h"

#include <poll.h>
#include <pthread.h>

struct client {
    int fd;
    int rank; /* -1 before hello */
    struct lk_bytes in, out;
    uint64_t timeout_ns;
    struct lk_deadline hello;
    bool closing; /* disconnect once `out` is sent */
};

/* A client waiting for a key or in a barrier. */
struct waiter {
    struct client *client;
    uint64_t id;
    bool barrier;
    char name[LK_STORE_KEY_MAX + 1];
};

/* The provisional verdict, in rising order of certainty: a later report may replace it. */
enum pending { PENDING_NOTHING, PENDING_PEER, PENDING_LOST };

struct lk_store_server {
    pthread_t thread;
    pthread_mutex_t lock;
    int listen_fd, wake_fd, port, world_size;
    uint64_t token;

    struct client **clients;
    size_t n_clients, cap_clients;
    struct pollfd *polls; /* [0] listen, [1] wake, then one per client */
    size_t cap_polls;
    struct waiter *waiters;
    size_t n_waiters, cap_waiters;
    struct lk_store_keys keys;
    struct lk_rank_view *ranks;

    enum lk_status verdict; /* LK_OK: none */
    char verdict_text[LK_STORE_TEXT_MAX];
    enum pending pending;
    int pending_rank; /* the rank it is about */
    char pending_text[LK_STORE_TEXT_MAX];
    struct lk_deadline pending_until;
    bool asking;
    struct lk_deadline ask_until;

    bool stopping;
    struct lk_deadline linger;
};

/* All functions here: pre: the server's lock is held. */

/* Handle a message of a client. Return false if it breaks the protocol. */
bool lk_store_server_handle(struct lk_store_server *s, struct client *c, const struct lk_frame *f);
/* Make this the verdict and push it to all ranks, unless there is one already. */
void lk_store_server_decide(struct lk_store_server *s, enum lk_status status, const char *text);
/* Blame a rank when LOST_MS pass without better evidence (a higher `why`, or a verdict). */
void lk_store_server_suspect(struct lk_store_server *s, enum pending why, int rank,
                             const char *text);
/* Decide who is to blame for a stall, from what the ranks answered. */
void lk_store_server_decide_stall(struct lk_store_server *s);

#endif
