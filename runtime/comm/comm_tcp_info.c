/* Read what the kernel tells of a connection; see comm_tcp.h. The C library's struct tcp_info ends
 * before the members that are read here, and its header cannot be included beside the kernel's. */
#include "runtime/comm/comm_tcp.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <stddef.h>
#include <sys/socket.h>

bool lk_tcp_info(int fd, struct lk_hop *out)
{
    enum { ENOUGH = offsetof(struct tcp_info, tcpi_sndbuf_limited) + sizeof(uint64_t) };
    struct tcp_info i = {0};
    socklen_t n = sizeof i;

    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &i, &n) || n < (socklen_t)ENOUGH)
        return false;
    out->v[LK_HOP_BYTES] = (double)i.tcpi_bytes_acked;
    out->v[LK_HOP_BUSY] = (double)i.tcpi_busy_time * 1e-6;
    out->v[LK_HOP_RECEIVER] = (double)i.tcpi_rwnd_limited * 1e-6;
    out->v[LK_HOP_BUFFER] = (double)i.tcpi_sndbuf_limited * 1e-6;
    return true;
}

void lk_tcp_read_hop(struct lk_tcp *t, const struct lk_tcp_members *ring)
{
    const struct lk_tcp_link *next = lk_tcp_next(t, ring);
    struct lk_hop now = {0};

    if (!t->tells_hops || !next->leaves || !lk_tcp_info(next->fd, &now))
        return;
    for (int i = 0; i < LK_HOP_VALUES; i++)
        t->hop.v[i] = now.v[i] - t->at.v[i];
    now.to = next->peer;
    t->has_hop = t->has_ring && t->at.to == now.to;
    t->has_ring = true;
    t->hop.to = now.to;
    t->at = now;
}
