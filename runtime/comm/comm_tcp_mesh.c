/*
 * Connections between all ranks; see comm_tcp.h.
 *
 * Each rank listens on a free port and publishes its address in the store. A rank connects to all
 * lower ranks and accepts all higher ones. Both ends prove with the run's token that they belong to
 * the run, and to the same communicator of it; a peer that does not is disconnected.
 */
#include "runtime/comm/comm_tcp.h"

#include "base/array.h"
#include "base/log.h"
#include "base/units.h"
#include "runtime/rendezvous/net.h"

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

/* The greeting that each end sends first. */
struct greeting {
    uint64_t token, comm_id;
    uint32_t from, to;
};

/* An accepted connection whose greeting is incomplete. */
struct guest {
    int fd;
    size_t done;
    struct greeting said;
};

struct mesh {
    struct lk_tcp *t;
    uint64_t comm_id;
    struct lk_deadline deadline;
    int listen_fd, missing; /* ranks still to be accepted */
    struct guest *guests;
    size_t n_guests, cap_guests;
};

static struct greeting greeting_to(const struct mesh *m, int peer)
{
    return (struct greeting){.token = lk_store_token(m->t->store),
                             .comm_id = m->comm_id,
                             .from = (uint32_t)m->t->base.rank,
                             .to = (uint32_t)peer};
}

/* Wait for n descriptors in t->polls and the store until the mesh's deadline. */
static enum lk_status wait(struct mesh *m, size_t n)
{
    int ready;
    enum lk_status st = lk_tcp_poll(m->t, n, m->deadline, &ready);

    if (st == LK_OK && !lk_deadline_left_ns(m->deadline))
        st = lk_store_report(m->t->store, LK_EIO, "the other ranks cannot be connected to");
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
    LK_PASS(lk_net_listen(host, 0, m->t->base.world_size + STRANGERS_MAX, &m->listen_fd, &port));
    snprintf(key, sizeof key, "comm %" PRIu64 " rank %d", m->comm_id, m->t->base.rank);
    snprintf(value, sizeof value, "%d %s", port, host);
    return lk_store_set(m->t->store, key, value, strlen(value) + 1);
}

static enum lk_status send_greeting(struct mesh *m, int peer)
{
    struct greeting g = greeting_to(m, peer);
    enum lk_status st = lk_net_send(m->t->links[peer].fd, &g, sizeof g, m->deadline);

    return st == LK_EPEER ? lk_store_report_peer(m->t->store, peer, lk_error_text()) : st;
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

static void dismiss(struct mesh *m, size_t i)
{
    close(m->guests[i].fd);
    m->guests[i] = m->guests[--m->n_guests];
}

/* Read a guest's greeting; turn the guest into a link, or disconnect it. Return false if the guest
 * at i was removed. */
static bool hear(struct mesh *m, size_t i)
{
    struct guest *g = &m->guests[i];
    ssize_t k = recv(g->fd, (char *)&g->said + g->done, sizeof g->said - g->done, MSG_DONTWAIT);
    struct greeting want;

    if (k < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return true;
    g->done += k > 0 ? (size_t)k : 0;
    if (k > 0 && g->done < sizeof g->said)
        return true;
    want = greeting_to(m, m->t->base.rank);
    want.from = g->said.from;
    if (k <= 0 || memcmp(&want, &g->said, sizeof want) || (int)want.from <= m->t->base.rank ||
        (int)want.from >= m->t->base.world_size || m->t->links[want.from].fd >= 0) {
        lk_log(LK_LOG_COMM, LK_INFO, "refused a connection that is not from this run");
        dismiss(m, i);
        return false;
    }
    m->t->links[want.from].fd = g->fd;
    m->missing--;
    m->guests[i] = m->guests[--m->n_guests];
    return false;
}

static enum lk_status welcome(struct mesh *m)
{
    for (;;) {
        int fd = -1;
        enum lk_status st = lk_net_accept(m->listen_fd, &fd);

        if (st != LK_OK || fd < 0)
            return st;
        if (m->n_guests == m->cap_guests) /* full: drop the oldest silent connection */
            dismiss(m, 0);
        m->guests[m->n_guests++] = (struct guest){.fd = fd};
    }
}

static enum lk_status accept_higher(struct mesh *m)
{
    while (m->missing) {
        size_t n = m->n_guests;

        m->t->polls[0] = (struct pollfd){.fd = m->listen_fd, .events = POLLIN};
        for (size_t i = 0; i < n; i++)
            m->t->polls[i + 1] = (struct pollfd){.fd = m->guests[i].fd, .events = POLLIN};
        LK_PASS(wait(m, n + 1));
        for (size_t i = n; i-- > 0;)
            if (m->t->polls[i + 1].revents)
                hear(m, i);
        LK_PASS(welcome(m));
    }
    return LK_OK;
}

/* Wait for the greeting that a rank answers when it accepts our connection. */
static enum lk_status await_answer(struct mesh *m, int peer)
{
    struct greeting want = greeting_to(m, peer), said;
    size_t done = 0;

    want.from = (uint32_t)peer;
    want.to = (uint32_t)m->t->base.rank;
    while (done < sizeof said) {
        ssize_t k =
            recv(m->t->links[peer].fd, (char *)&said + done, sizeof said - done, MSG_DONTWAIT);

        if (k > 0) {
            done += (size_t)k;
        } else if (k < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            enum lk_status st;

            m->t->polls[0] = (struct pollfd){.fd = m->t->links[peer].fd, .events = POLLIN};
            st = wait(m, 1);
            if (st != LK_OK)
                return st;
        } else if (k == 0 || errno != EINTR) {
            return lk_store_report_peer(m->t->store, peer,
                                        k == 0 ? "connection closed" : strerror(errno));
        }
    }
    if (memcmp(&want, &said, sizeof said))
        return lk_store_report_peer(m->t->store, peer, "it answered for another run");
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
    LK_TRY(publish(&m, config->listen));
    snprintf(name, sizeof name, "the rendezvous of communicator %" PRIu64, m.comm_id);
    LK_TRY(lk_store_barrier(t->store, name));
    m.deadline = lk_deadline_in(t->timeout_ns);
    for (int peer = 0; peer < rank; peer++)
        LK_TRY(connect_lower(&m, peer));
    LK_TRY(accept_higher(&m));
    for (int peer = rank + 1; peer < world; peer++)
        LK_TRY(send_greeting(&m, peer));
    for (int peer = 0; peer < rank; peer++)
        LK_TRY(await_answer(&m, peer));
    for (int peer = 0; peer < world; peer++)
        if (peer != rank)
            tune(&t->links[peer]);
out:
    while (m.n_guests)
        dismiss(&m, 0);
    free(m.guests);
    if (m.listen_fd >= 0)
        close(m.listen_fd);
    return st;
}
