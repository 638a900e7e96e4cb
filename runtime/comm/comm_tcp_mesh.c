/*
 * Connections between all ranks; see comm_tcp.h.
 *
 * Each rank listens on a free port and publishes its address in the store. A rank connects to all
 * lower ranks and accepts all higher ones. Both ends prove that they belong to the run, and to the
 * same communicator of it (runtime/rendezvous/ticket.h):
 *
 *     higher rank    greeting: who it is, whom it wants, a random number
 *     lower rank     answer: a random number, and its proof over all of these
 *     higher rank    its own proof
 *
 * A peer that proves nothing is disconnected. One loop serves all, since each rank is both.
 */
#include "runtime/comm/comm_tcp.h"

#include "base/array.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/units.h"
#include "runtime/rendezvous/net.h"
#include "runtime/rendezvous/ticket.h"

#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    STRANGERS_MAX = 16,
    ADDRESS_MAX = 128,
    /* Between ranks of one host, data in flight should stay in their caches (measured with
     * bench/allreduce.sh). Between hosts the kernel's automatic buffer tuning is better. */
    SAME_HOST_SEND_BYTES = 256 << 10,
    CONNECT_SLICE_MS = 3000, /* between looks at the store while connecting: one slow attempt */
};

/* The higher rank sends this first. */
struct greeting {
    uint64_t comm_id;
    uint32_t from, to;
    unsigned char nonce[LK_NONCE_BYTES];
};

/* The lower rank answers with this. */
struct answer {
    unsigned char nonce[LK_NONCE_BYTES], proof[LK_PROOF_BYTES];
};

/* Both prove the secret over this. */
struct meeting {
    struct greeting greeting;
    unsigned char nonce[LK_NONCE_BYTES]; /* the lower rank's */
};
#define LABEL_LOWER  "lockstep: a rank accepts"
#define LABEL_HIGHER "lockstep: a rank connects"

/* An accepted connection that has proved nothing yet. */
struct guest {
    int fd;
    size_t done; /* bytes of the greeting, then of the proof */
    struct meeting meeting;
    bool answered;
    unsigned char proof[LK_PROOF_BYTES];
};

/* A connection to a lower rank, which has not answered yet. */
struct host {
    int peer;
    size_t done;
    struct greeting greeting;
    struct answer said;
};

struct mesh {
    struct lk_tcp *t;
    uint64_t comm_id;
    struct lk_deadline deadline;
    int listen_fd, missing; /* ranks still to be accepted */
    struct guest *guests;
    size_t n_guests, cap_guests;
    struct host *hosts;
    size_t n_hosts;
};

/* Wait for n descriptors in t->polls and the store until the mesh's deadline. Behind it the store
 * asks all ranks, and names the one that does not answer. */
static enum lk_status wait(struct mesh *m, size_t n)
{
    int ready;
    enum lk_status st = lk_tcp_poll(m->t, n, m->deadline, &ready);

    if (st == LK_OK && !lk_deadline_left_ns(m->deadline))
        st = lk_store_report(m->t->store, LK_ETIMEOUT, "");
    return st;
}

static bool is_loopback(const char *address)
{
    return !strncmp(address, "127.", 4) || !strcmp(address, "::1");
}

/* Read a peer's listening address. If some ranks listen on the loopback interface and others do
 * not, the former cannot be reached: report that instead of timing out. */
static enum lk_status read_address(struct mesh *m, int peer, char *host, int *out_port)
{
    char key[64], mine[ADDRESS_MAX], *space;
    int64_t port = 0;
    void *value = NULL;
    size_t n = 0;
    enum lk_status st = LK_OK;

    snprintf(key, sizeof key, "comm %" PRIu64 " rank %d", m->comm_id, peer);
    LK_TRY(lk_store_get(m->t->store, key, &value, &n));
    space = memchr(value, ' ', n);
    if (!space || n - (size_t)(space - (char *)value) > ADDRESS_MAX) {
        st = lk_fail(LK_EPARSE, "rank %d published no address", peer);
        goto out;
    }
    *space++ = '\0';
    snprintf(host, ADDRESS_MAX, "%s", space);
    LK_TRY(lk_parse_int64(value, 1, 65535, &port));
    *out_port = (int)port;
    LK_TRY(lk_net_local_address(lk_store_fd(m->t->store), mine, sizeof mine));
    if (is_loopback(host) != is_loopback(mine))
        st = lk_fail(LK_EUSAGE,
                     "rank %d listens on %s, rank %d is at %s: one cannot reach the other; give an "
                     "address to listen on",
                     peer, host, m->t->base.rank, mine);
out:
    free(value);
    return st;
}

static enum lk_status publish(struct mesh *m, const char *listen)
{
    char host[ADDRESS_MAX], key[64], value[ADDRESS_MAX + 16];
    int port = 0;

    if (listen)
        snprintf(host, sizeof host, "%s", listen);
    else
        LK_PASS(lk_net_local_address(lk_store_fd(m->t->store), host, sizeof host));
    m->t->host = lk_hash(host, strlen(host));
    LK_PASS(lk_net_listen(host, 0, m->t->base.world_size + STRANGERS_MAX, &m->listen_fd, &port));
    snprintf(key, sizeof key, "comm %" PRIu64 " rank %d", m->comm_id, m->t->base.rank);
    snprintf(value, sizeof value, "%d %s", port, host);
    return lk_store_set(m->t->store, key, value, strlen(value) + 1);
}

/* Send to a peer; a connection that is closed is the peer's failure. */
static enum lk_status send_to(struct mesh *m, int peer, const void *data, size_t n)
{
    enum lk_status st = lk_net_send(m->t->links[peer].fd, data, n, m->deadline);

    return st == LK_EPEER ? lk_store_report_peer(m->t->store, peer, lk_error_text()) : st;
}

static enum lk_status send_greeting(struct mesh *m, int peer)
{
    struct host *h = &m->hosts[m->n_hosts++];

    *h = (struct host){.peer = peer,
                       .greeting = {.comm_id = m->comm_id,
                                    .from = (uint32_t)m->t->base.rank,
                                    .to = (uint32_t)peer}};
    LK_PASS(lk_nonce(h->greeting.nonce));
    return send_to(m, peer, &h->greeting, sizeof h->greeting);
}

/* Connect to a rank that has been listening since the rendezvous. If it is lost meanwhile, no
 * attempt succeeds: the store's verdict ends them. */
static enum lk_status connect_lower(struct mesh *m, int peer)
{
    enum lk_status st = LK_OK;
    char host[ADDRESS_MAX];
    int port = 0;

    LK_TRY(read_address(m, peer, host, &port));
    do {
        struct lk_deadline slice = lk_deadline_in(CONNECT_SLICE_MS * LK_NS_PER_MS);

        LK_TRY(lk_store_check(m->t->store));
        st = lk_net_connect(host, port, slice.at_ns < m->deadline.at_ns ? slice : m->deadline,
                            &m->t->links[peer].fd);
    } while (st == LK_ETIMEOUT && lk_deadline_left_ns(m->deadline));
    if (st == LK_ETIMEOUT)
        st = lk_store_report_peer(m->t->store, peer, lk_error_text());
    LK_TRY(st);
    LK_TRY(send_greeting(m, peer));
out:
    return st;
}

/* Take a guest off the list, which stays in order of arrival. */
static void forget(struct mesh *m, size_t i)
{
    memmove(&m->guests[i], &m->guests[i + 1], (--m->n_guests - i) * sizeof *m->guests);
}

static void dismiss(struct mesh *m, size_t i)
{
    close(m->guests[i].fd);
    forget(m, i);
}

/* Receive up to n bytes, of which *done are there. Return true while the connection is good. */
static bool receive(int fd, void *buf, size_t n, size_t *done)
{
    ssize_t k = recv(fd, (char *)buf + *done, n - *done, MSG_DONTWAIT);

    if (k < 0)
        return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
    *done += (size_t)k;
    return k > 0 || n == *done;
}

/* Answer a whole greeting. Return false if it is not from this run. */
static bool answer(struct mesh *m, struct guest *g)
{
    const struct greeting *said = &g->meeting.greeting;
    struct answer a;

    if (said->comm_id != m->comm_id || said->to != (uint32_t)m->t->base.rank ||
        said->from <= (uint32_t)m->t->base.rank || said->from >= (uint32_t)m->t->base.world_size ||
        m->t->links[said->from].fd >= 0 || lk_nonce(a.nonce) != LK_OK)
        return false;
    memcpy(g->meeting.nonce, a.nonce, sizeof a.nonce);
    lk_store_prove(m->t->store, LABEL_LOWER, &g->meeting, sizeof g->meeting, a.proof);
    g->answered = true;
    g->done = 0;
    /* A new connection has room for this. */
    return send(g->fd, &a, sizeof a, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)sizeof a;
}

/* Turn a guest whose proof is whole into a link. Return false if it does not belong here. */
static bool let_in(struct mesh *m, const struct guest *g)
{
    unsigned char want[LK_PROOF_BYTES];
    uint32_t from = g->meeting.greeting.from;

    lk_store_prove(m->t->store, LABEL_HIGHER, &g->meeting, sizeof g->meeting, want);
    if (!lk_equal_secret(want, g->proof, sizeof want) || m->t->links[from].fd >= 0)
        return false;
    m->t->links[from].fd = g->fd;
    m->missing--;
    return true;
}

/* Hear a guest: its greeting, then its proof. It leaves the list once it is a link, or refused. */
static void hear(struct mesh *m, size_t i)
{
    struct guest *g = &m->guests[i];
    struct greeting *said = &g->meeting.greeting;
    bool good = g->answered ? receive(g->fd, g->proof, sizeof g->proof, &g->done)
                            : receive(g->fd, said, sizeof *said, &g->done);

    if (good && !g->answered && g->done == sizeof *said)
        good = answer(m, g);
    if (good && g->answered && g->done == sizeof g->proof) {
        good = let_in(m, g);
        if (good)
            forget(m, i);
    }
    if (good)
        return;
    lk_log(LK_LOG_COMM, LK_INFO, "refused a connection that is not from this run");
    dismiss(m, i);
}

/* Hear a lower rank's answer, check its proof and send one. */
static enum lk_status hear_answer(struct mesh *m, size_t i)
{
    struct host *h = &m->hosts[i];
    struct meeting meeting = {.greeting = h->greeting};
    unsigned char proof[LK_PROOF_BYTES];
    int fd = m->t->links[h->peer].fd;

    if (!receive(fd, &h->said, sizeof h->said, &h->done))
        return lk_store_report_peer(m->t->store, h->peer, "connection closed");
    if (h->done < sizeof h->said)
        return LK_OK;
    memcpy(meeting.nonce, h->said.nonce, sizeof meeting.nonce);
    lk_store_prove(m->t->store, LABEL_LOWER, &meeting, sizeof meeting, proof);
    if (!lk_equal_secret(proof, h->said.proof, sizeof proof))
        return lk_store_report_peer(m->t->store, h->peer, "it answered for another run");
    lk_store_prove(m->t->store, LABEL_HIGHER, &meeting, sizeof meeting, proof);
    LK_PASS(send_to(m, h->peer, proof, sizeof proof));
    *h = m->hosts[--m->n_hosts];
    return LK_OK;
}

static enum lk_status welcome(struct mesh *m)
{
    for (;;) {
        int fd = -1;
        enum lk_status st = lk_net_accept(m->listen_fd, &fd);

        if (st != LK_OK || fd < 0)
            return st;
        if (m->n_guests == m->cap_guests) /* full: the oldest that has proved nothing goes */
            dismiss(m, 0);
        m->guests[m->n_guests++] = (struct guest){.fd = fd};
    }
}

/* Meet all higher and lower ranks, in whatever order they come. */
static enum lk_status meet(struct mesh *m)
{
    while (m->missing || m->n_hosts) {
        size_t n = m->n_guests, hosts = m->n_hosts;

        m->t->polls[0] = (struct pollfd){.fd = m->listen_fd, .events = POLLIN};
        for (size_t i = 0; i < n; i++)
            m->t->polls[i + 1] = (struct pollfd){.fd = m->guests[i].fd, .events = POLLIN};
        for (size_t i = 0; i < hosts; i++)
            m->t->polls[n + 1 + i] =
                (struct pollfd){.fd = m->t->links[m->hosts[i].peer].fd, .events = POLLIN};
        LK_PASS(wait(m, n + 1 + hosts));
        for (size_t i = hosts; i-- > 0;)
            if (m->t->polls[n + 1 + i].revents)
                LK_PASS(hear_answer(m, i));
        for (size_t i = n; i-- > 0;)
            if (m->t->polls[i + 1].revents)
                hear(m, i);
        LK_PASS(welcome(m));
    }
    return LK_OK;
}

/* Return true if both ends have the same address: the connection is within a host. */
static bool on_same_host(int fd)
{
    struct sockaddr_storage a, b;
    socklen_t na = sizeof a, nb = sizeof b;

    memset(&a, 0, sizeof a);
    memset(&b, 0, sizeof b);
    if (getsockname(fd, (struct sockaddr *)&a, &na) || getpeername(fd, (struct sockaddr *)&b, &nb))
        return false;
    if (a.ss_family == AF_INET)
        return ((struct sockaddr_in *)&a)->sin_addr.s_addr ==
               ((struct sockaddr_in *)&b)->sin_addr.s_addr;
    return a.ss_family == AF_INET6 &&
           !memcmp(&((struct sockaddr_in6 *)&a)->sin6_addr, &((struct sockaddr_in6 *)&b)->sin6_addr,
                   sizeof(struct in6_addr));
}

static void tune(struct lk_tcp_link *l)
{
    int bytes = SAME_HOST_SEND_BYTES;

    l->leaves = !on_same_host(l->fd);
    if (!l->leaves) /* a failure costs only speed */
        (void)setsockopt(l->fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
}

enum lk_status lk_tcp_connect(struct lk_tcp *t, const struct lk_comm_config *config)
{
    enum lk_status st = LK_OK;
    int rank = t->base.rank, world = t->base.world_size;
    struct mesh m = {.t = t,
                     .comm_id = lk_store_next_id(t->store),
                     .deadline = lk_deadline_in(t->timeout_ns),
                     .listen_fd = -1,
                     .missing = world - 1 - rank};
    char name[64];

    m.cap_guests = (size_t)world + STRANGERS_MAX;
    LK_TRY(lk_alloc(&m.guests, m.cap_guests, sizeof *m.guests));
    LK_TRY(lk_alloc(&m.hosts, (size_t)rank, sizeof *m.hosts));
    LK_TRY(publish(&m, config->listen));
    snprintf(name, sizeof name, "the rendezvous of communicator %" PRIu64, m.comm_id);
    LK_TRY(lk_store_barrier(t->store, name));
    m.deadline = lk_deadline_in(t->timeout_ns);
    for (int peer = 0; peer < rank; peer++)
        LK_TRY(connect_lower(&m, peer));
    LK_TRY(meet(&m));
    for (int peer = 0; peer < world; peer++)
        if (peer != rank)
            tune(&t->links[peer]);
out:
    while (m.n_guests)
        dismiss(&m, 0);
    free(m.guests);
    free(m.hosts);
    if (m.listen_fd >= 0)
        close(m.listen_fd);
    return st;
}
