/* TCP sockets; see the header. */
#include "runtime/rendezvous/net.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    RETRY_FIRST_MS = 5, /* pause between attempts to connect, doubled up to the last value */
    RETRY_LAST_MS = 200,
    ATTEMPT_MS = 3000, /* limit of one attempt, for a host that does not answer at all */
};

static enum lk_status resolve(const char *host, int port, int flags, struct addrinfo **out)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = flags};
    char service[16];
    int rc;

    if (port < 0 || port > 65535)
        return lk_fail(LK_EUSAGE, "port %d is outside 0 to 65535", port);
    snprintf(service, sizeof service, "%d", port);
    rc = getaddrinfo(host && *host ? host : NULL, service, &hints, out);
    if (rc)
        return lk_fail(LK_EIO, "cannot resolve '%s': %s", host ? host : "", gai_strerror(rc));
    return LK_OK;
}

enum lk_status lk_net_resolves(const char *host)
{
    struct addrinfo *list = NULL;

    LK_PASS(resolve(host, 0, 0, &list));
    freeaddrinfo(list);
    return LK_OK;
}

static int socket_port(int fd)
{
    struct sockaddr_storage a;
    socklen_t n = sizeof a;

    memset(&a, 0, sizeof a);
    if (getsockname(fd, (struct sockaddr *)&a, &n))
        return -1;
    if (a.ss_family == AF_INET6)
        return ntohs(((struct sockaddr_in6 *)&a)->sin6_port);
    return ntohs(((struct sockaddr_in *)&a)->sin_port);
}

static int listen_at(const struct addrinfo *a, int backlog)
{
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int one = 1;
    int reason;

    if (fd < 0)
        return -1;
    if (!setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) &&
        !bind(fd, a->ai_addr, a->ai_addrlen) && !listen(fd, backlog))
        return fd;
    reason = errno;
    close(fd);
    errno = reason;
    return -1;
}

enum lk_status lk_net_listen(const char *host, int port, int backlog, int *out_fd, int *out_port)
{
    enum lk_status st = LK_OK;
    struct addrinfo *list = NULL;
    int fd = -1;
    int reason = 0;

    LK_TRY(resolve(host, port, AI_PASSIVE, &list));
    for (const struct addrinfo *a = list; a && fd < 0; a = a->ai_next) {
        fd = listen_at(a, backlog);
        if (fd < 0 && !reason)
            reason = errno;
    }
    if (fd < 0)
        LK_TRY(lk_fail(LK_EIO, "cannot listen on %s:%d: %s", host && *host ? host : "*", port,
                       strerror(reason)));
    *out_fd = fd;
    *out_port = socket_port(fd);
out:
    if (list)
        freeaddrinfo(list);
    return st;
}

static void no_delay(int fd)
{
    int one = 1;

    /* A failure costs speed, not correctness. */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

enum lk_status lk_net_accept(int listen_fd, int *out_fd)
{
    *out_fd = accept4(listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (*out_fd >= 0) {
        no_delay(*out_fd);
        return LK_OK;
    }
    switch (errno) {
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case ENOMEM:
        return lk_fail(LK_EIO, "cannot accept a connection: %s", strerror(errno));
    default: /* nobody there, or gone already */
        return LK_OK;
    }
}

/* Return true if the socket is connected to itself: connecting to a free ephemeral port of this
 * host, the kernel may choose that very port as the source. */
static bool connected_to_itself(int fd)
{
    struct sockaddr_storage a, b;
    socklen_t na = sizeof a, nb = sizeof b;

    memset(&a, 0, sizeof a);
    memset(&b, 0, sizeof b);
    return !getsockname(fd, (struct sockaddr *)&a, &na) &&
           !getpeername(fd, (struct sockaddr *)&b, &nb) && na == nb && !memcmp(&a, &b, na);
}

/* Try once to connect. Return the descriptor, or -1 with errno. */
static int connect_to(const struct addrinfo *a, struct lk_deadline deadline)
{
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct lk_deadline attempt = lk_deadline_in(ATTEMPT_MS * LK_NS_PER_MS);
    int reason = 0;
    socklen_t n = sizeof reason;

    if (fd < 0)
        return -1;
    if (attempt.at_ns > deadline.at_ns)
        attempt = deadline;
    if (connect(fd, a->ai_addr, a->ai_addrlen))
        reason = errno;
    if (reason == EINPROGRESS) {
        if (lk_net_wait(fd, POLLOUT, attempt) != LK_OK)
            reason = ETIMEDOUT;
        else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &reason, &n))
            reason = errno;
    }
    if (!reason && connected_to_itself(fd))
        reason = ECONNREFUSED;
    if (!reason) {
        no_delay(fd);
        return fd;
    }
    close(fd);
    errno = reason;
    return -1;
}

enum lk_status lk_net_connect(const char *host, int port, struct lk_deadline deadline, int *out_fd)
{
    enum lk_status st = LK_OK;
    struct addrinfo *list = NULL;
    uint64_t pause_ms = RETRY_FIRST_MS;
    int fd = -1;

    LK_TRY(resolve(host, port, 0, &list));
    while (fd < 0) {
        int reason = 0;
        uint64_t left_ns;

        for (const struct addrinfo *a = list; a && fd < 0; a = a->ai_next) {
            fd = connect_to(a, deadline);
            reason = errno;
        }
        left_ns = lk_deadline_left_ns(deadline);
        if (fd < 0 && !left_ns)
            LK_TRY(
                lk_fail(LK_ETIMEOUT, "cannot connect to %s:%d: %s", host, port, strerror(reason)));
        if (fd < 0) {
            uint64_t pause_ns = pause_ms * LK_NS_PER_MS;

            lk_sleep_until_ns(lk_monotonic_ns() + (pause_ns < left_ns ? pause_ns : left_ns));
            pause_ms = pause_ms * 2 < RETRY_LAST_MS ? pause_ms * 2 : RETRY_LAST_MS;
        }
    }
    *out_fd = fd;
out:
    if (list)
        freeaddrinfo(list);
    return st;
}

bool lk_net_other_host(int fd, char *buf, size_t size)
{
    struct sockaddr_storage here, there;
    socklen_t n_here = sizeof here, n_there = sizeof there;
    char own[NI_MAXHOST];

    memset(&here, 0, sizeof here);
    memset(&there, 0, sizeof there);
    return !getsockname(fd, (struct sockaddr *)&here, &n_here) &&
           !getpeername(fd, (struct sockaddr *)&there, &n_there) &&
           !getnameinfo((struct sockaddr *)&here, n_here, own, sizeof own, NULL, 0,
                        NI_NUMERICHOST) &&
           !getnameinfo((struct sockaddr *)&there, n_there, buf, (socklen_t)size, NULL, 0,
                        NI_NUMERICHOST) &&
           strcmp(own, buf) != 0;
}

enum lk_status lk_net_local_address(int fd, char *buf, size_t size)
{
    struct sockaddr_storage a;
    socklen_t n = sizeof a;
    int rc;

    if (getsockname(fd, (struct sockaddr *)&a, &n))
        return lk_fail(LK_EIO, "cannot tell a socket's address: %s", strerror(errno));
    rc = getnameinfo((struct sockaddr *)&a, n, buf, (socklen_t)size, NULL, 0, NI_NUMERICHOST);
    if (rc)
        return lk_fail(LK_EIO, "cannot tell a socket's address: %s", gai_strerror(rc));
    return LK_OK;
}

enum lk_status lk_net_route(const char *host, char *buf, size_t size)
{
    enum { DISCARD = 9 }; /* any port: a datagram's socket is connected without a packet */
    enum lk_status st = LK_OK;
    struct addrinfo *list = NULL;
    int fd = -1;

    LK_TRY(resolve(host, DISCARD, 0, &list));
    fd = socket(list->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, list->ai_addr, list->ai_addrlen))
        LK_TRY(lk_fail(LK_EIO, "no route to %s: %s", host, strerror(errno)));
    LK_TRY(lk_net_local_address(fd, buf, size));
out:
    if (fd >= 0)
        close(fd);
    if (list)
        freeaddrinfo(list);
    return st;
}

bool lk_net_is_loopback(const char *host)
{
    return !strncmp(host, "127.", 4) || !strcmp(host, "::1") || !strcmp(host, "localhost");
}

enum lk_status lk_net_wait(int fd, short events, struct lk_deadline deadline)
{
    struct pollfd p = {.fd = fd, .events = events};

    for (;;) {
        int n = poll(&p, 1, lk_deadline_poll_ms(deadline));

        if (n > 0)
            return LK_OK;
        if (n < 0 && errno != EINTR)
            return lk_fail(LK_EIO, "poll: %s", strerror(errno));
        if (!lk_deadline_left_ns(deadline))
            return lk_fail(LK_ETIMEOUT, "deadline passed");
    }
}

enum lk_status lk_net_send(int fd, const void *data, size_t n, struct lk_deadline deadline)
{
    const char *at = data;

    while (n) {
        ssize_t k = send(fd, at, n, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (k > 0) {
            at += k;
            n -= (size_t)k;
        } else if (k < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            enum lk_status st = lk_net_wait(fd, POLLOUT, deadline);

            if (st != LK_OK)
                return st;
        } else if (errno != EINTR) {
            return lk_fail(LK_EPEER, "%s", strerror(errno));
        }
    }
    return LK_OK;
}
