/* TCP sockets for the store and comm_tcp: non-blocking, close-on-exec, without Nagle's delay, and
 * without SIGPIPE. Every wait has a deadline. */
#ifndef LK_RUNTIME_NET_H
#define LK_RUNTIME_NET_H

#include "base/clock.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Listen on host:port; host NULL or "" is every address, port 0 takes a free one. LK_EIO names
 * address and reason. */
enum lk_status lk_net_listen(const char *host, int port, int backlog, int *out_fd, int *out_port);

/* Return LK_OK if the name or address of a host has an address; LK_EIO says why not. */
enum lk_status lk_net_resolves(const char *host);

/* Write the address that this host takes to another into buf; nothing is sent. LK_EIO. */
enum lk_status lk_net_route(const char *host, char *buf, size_t size);
/* Return true for an address or name by which a host reaches itself alone. */
bool lk_net_is_loopback(const char *host);

/* Accept one waiting connection; *out_fd is -1 when there is none. */
enum lk_status lk_net_accept(int listen_fd, int *out_fd);

/* Connect, retrying until the deadline, because the other side may not listen yet. LK_ETIMEOUT
 * names the address and the last reason. */
enum lk_status lk_net_connect(const char *host, int port, struct lk_deadline deadline, int *out_fd);

/* Write the local address of a connected socket into buf. */
enum lk_status lk_net_local_address(int fd, char *buf, size_t size);

/* Write the address of the host at the other end of a connection into buf; false: it is this host,
 * or not known. */
bool lk_net_other_host(int fd, char *buf, size_t size);

/* Find the user of the process at the other end of a connection, from Linux's table of sockets. */
enum lk_net_peer {
    LK_PEER_FOUND,     /* *out is its user */
    LK_PEER_ELSEWHERE, /* it is not in this host's table, or gone */
    LK_PEER_UNKNOWN,   /* the kernel does not tell: it has no INET_DIAG, or a filter */
};
enum lk_net_peer lk_net_peer_user(int fd, uid_t *out);

/* Send all n bytes. LK_ETIMEOUT past the deadline; LK_EPEER when the other side closed or reset. */
enum lk_status lk_net_send(int fd, const void *data, size_t n, struct lk_deadline deadline);

/* Wait for poll(2) events on fd. LK_ETIMEOUT past the deadline. */
enum lk_status lk_net_wait(int fd, short events, struct lk_deadline deadline);

#endif
