/* The store's server: its keys and its state. Private to its parts (the keys, the choice of
 * the rank to blame, the messages, the poll loop) and their tests. */
#ifndef LK_RUNTIME_STORE_SERVER_IMPL_H
#define LK_RUNTIME_STORE_SERVER_IMPL_H

#include "runtime/rendezvous/net.h"
#include "runtime/rendezvous/store.h"
#include "runtime/rendezvous/store_wire.h"
#include "runtime/rendezvous/ticket.h"

#include <poll.h>
#include <pthread.h>

/* ---- store_keys.c ---- */

struct lk_store_entry {
    const char *key; /* behind the value */
    size_t bytes;
    char value[];
};

/* All zero: empty. */
struct lk_store_keys {
    void *root; /* of tsearch(3), by key */
    size_t values_bytes;
};
void lk_store_keys_fini(struct lk_store_keys *k);

/* Return a key's entry, or NULL. */
const struct lk_store_entry *lk_store_keys_find(const struct lk_store_keys *k, const char *key);
/* Add a key with a copy of its value. LK_EUSAGE: the key exists already. LK_ENOMEM: no memory, or
 * more than the store's limit of 256 MiB of values. */
enum lk_status lk_store_keys_put(struct lk_store_keys *k, const char *key, const char *value,
                                 size_t bytes, const struct lk_store_entry **out);
/*
 * Copy the text that lk_store_set_text put under the key. *out is NUL-terminated and freed by the
 * caller. LK_EPEER: the key or a part is missing.
 */
enum lk_status lk_store_keys_text(const struct lk_store_keys *k, const char *key, char **out,
                                  size_t *out_size);

/* ---- store_verdict.c ---- */

enum lk_rank_state {
    LK_RANK_ABSENT, /* never connected */
    LK_RANK_HERE,
    LK_RANK_LEFT, /* said goodbye */
    LK_RANK_LOST  /* its connection ended without a goodbye */
};

struct lk_rank_view {
    enum lk_rank_state state;
    bool answered; /* it answered the progress question; the rest is valid only then */
    bool inside;   /* inside collective `next` - 1; else between two */
    uint64_t next; /* number of collectives entered so far */
};

/* Write the culprit of a stall: the ranks that left; else those that did not answer; else those
 * furthest behind; else no rank in particular. */
void lk_verdict_stall(const struct lk_rank_view *ranks, int n, char *buf, size_t size);

/* ---- store_server.c: the poll loop ---- */

struct client {
    int fd;
    int rank;               /* -1 before it has proved to belong to the run */
    char join[LK_JOIN_MAX]; /* what it has to prove the secret over; hello and the nonce sent to it
                             */
    size_t join_bytes;      /* 0 before hello */
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
    char sum[LK_STORE_SUM_BYTES]; /* of a barrier: what the rank brings along, else zeros */
    char name[LK_STORE_KEY_MAX + 1];
};

/* The provisional verdict, in rising order of certainty: a later report may replace it. */
enum pending { PENDING_NOTHING, PENDING_PEER, PENDING_LOST };

struct lk_store_server {
    pthread_t thread;
    pthread_mutex_t lock;
    int listen_fd, wake_fd, port, world_size;
    struct lk_ticket ticket;
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

/* ---- store_messages.c. pre of all functions: the server's lock is held ---- */

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
