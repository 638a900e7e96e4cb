/* Find the user at the other end of a connection within the host; see lk_net_peer_user.
 *
 * sock_diag(7) looks one socket up by its two ends: /proc/net/tcp would print all of the host's. */
#include "runtime/rendezvous/net.h"

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Write an end's address and port, in the order of the network. Return false if it has none. */
static bool take_end(const struct sockaddr_storage *a, __be32 address[4], __be16 *port)
{
    const struct sockaddr_in6 *six = (const void *)a;
    const struct sockaddr_in *four = (const void *)a;

    if (a->ss_family == AF_INET6) {
        memcpy(address, &six->sin6_addr, sizeof six->sin6_addr);
        *port = six->sin6_port;
    } else {
        address[0] = four->sin_addr.s_addr;
        *port = four->sin_port;
    }
    return a->ss_family == AF_INET6 || a->ss_family == AF_INET;
}

/* Name the socket at the other end of fd: its local end is fd's peer. */
static bool other_end(int fd, struct inet_diag_req_v2 *out)
{
    struct sockaddr_storage here, there;
    socklen_t n_here = sizeof here, n_there = sizeof there;

    memset(&here, 0, sizeof here);
    memset(&there, 0, sizeof there);
    if (getsockname(fd, (struct sockaddr *)&here, &n_here) ||
        getpeername(fd, (struct sockaddr *)&there, &n_there))
        return false;
    *out = (struct inet_diag_req_v2){
        .sdiag_family = (__u8)there.ss_family,
        .sdiag_protocol = IPPROTO_TCP,
        .idiag_states = ~0U,
        .id.idiag_cookie = {INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE},
    };
    return take_end(&there, out->id.idiag_src, &out->id.idiag_sport) &&
           take_end(&here, out->id.idiag_dst, &out->id.idiag_dport);
}

/* Ask the kernel, which answers before it returns from send(2). */
static bool ask(const struct inet_diag_req_v2 *which, struct inet_diag_msg *out)
{
    struct {
        struct nlmsghdr head;
        struct inet_diag_req_v2 which;
    } request = {
        .head = {.nlmsg_len = sizeof request,
                 .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                 .nlmsg_flags = NLM_F_REQUEST},
        .which = *which,
    };
    struct {
        struct nlmsghdr head;
        struct inet_diag_msg socket;
        char rest[1024]; /* attributes that this kernel adds */
    } answer;
    int diag = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    ssize_t n = -1;

    if (diag < 0)
        return false;
    if (send(diag, &request, sizeof request, 0) == (ssize_t)sizeof request)
        n = recv(diag, &answer, sizeof answer, MSG_DONTWAIT);
    close(diag);
    if (n < (ssize_t)(sizeof answer.head + sizeof answer.socket) ||
        answer.head.nlmsg_type != SOCK_DIAG_BY_FAMILY)
        return false;
    *out = answer.socket;
    return true;
}

/* Look up the socket that has these ends. The kernel gives one that listens there, where none is
 * connected. */
static bool look_up(const struct inet_diag_req_v2 *which, uid_t *out)
{
    struct inet_diag_msg found;

    if (!ask(which, &found) || found.id.idiag_dport != which->id.idiag_dport)
        return false;
    *out = found.idiag_uid;
    return true;
}

/* Return the same request for the socket at the near end. */
static struct inet_diag_req_v2 near_end(struct inet_diag_req_v2 which)
{
    const struct inet_diag_sockid far = which.id;

    which.id.idiag_sport = far.idiag_dport;
    which.id.idiag_dport = far.idiag_sport;
    memcpy(which.id.idiag_src, far.idiag_dst, sizeof far.idiag_dst);
    memcpy(which.id.idiag_dst, far.idiag_src, sizeof far.idiag_src);
    return which;
}

enum lk_net_peer lk_net_peer_user(int fd, uid_t *out)
{
    struct inet_diag_req_v2 which, own;
    uid_t uid;

    if (!other_end(fd, &which))
        return LK_PEER_ELSEWHERE;
    if (look_up(&which, out))
        return LK_PEER_FOUND;
    /* A kernel that answers knows this process's own socket. */
    own = near_end(which);
    return look_up(&own, &uid) ? LK_PEER_ELSEWHERE : LK_PEER_UNKNOWN;
}
