/* Sending, receiving and waiting; see comm_tcp.h. */
#include "runtime/comm/comm_tcp.h"

#include "base/log.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

/* The header: what both ends must agree on. Host byte order: all ranks of a run have the same. */
struct head {
    uint64_t seq;
    uint64_t count;
    uint32_t root;
    uint8_t coll, algo, dtype, zero;
    uint64_t magic;
};
_Static_assert(sizeof(struct head) == LK_TCP_HEAD_BYTES, "the head has no padding");
#define HEAD_MAGIC 0x6C6C6F63736B636CULL

void lk_tcp_begin(struct lk_tcp *t, const struct lk_coll_call *call, enum lk_algo algo,
                  uint64_t seq)
{
    struct head h = {
        .seq = seq, .coll = (uint8_t)call->coll, .algo = (uint8_t)algo, .magic = HEAD_MAGIC};

    if (call->coll != LK_BARRIER) {
        h.count = call->count;
        h.dtype = (uint8_t)call->dtype;
    }
    if (call->coll == LK_BROADCAST)
        h.root = (uint32_t)call->root;
    memcpy(t->head, &h, sizeof h);
}

void lk_tcp_use(struct lk_tcp *t, struct lk_tcp_link *l)
{
    memcpy(l->out.head, t->head, sizeof t->head);
    l->out.head_done = l->in.head_done = 0;
}

static void name_head(const struct head *h, char *buf, size_t size)
{
    if (h->coll >= LK_COLL_COUNT || h->dtype >= LK_DTYPE_COUNT || h->algo >= LK_ALGO_COUNT)
        snprintf(buf, size, "noise");
    else
        snprintf(buf, size, "%s %" PRIu64 " of %" PRIu64 " %s (%s, root %" PRIu32 ")",
                 lk_coll_name((enum lk_coll)h->coll), h->seq, h->count,
                 lk_dtype_name((enum lk_dtype)h->dtype), lk_algo_name((enum lk_algo)h->algo),
                 h->root);
}

/* Report to all ranks that this link's two ends run different collectives, and which. */
static enum lk_status disagree(struct lk_tcp *t, const struct lk_tcp_link *l)
{
    struct head mine, theirs;
    char a[128], b[128], text[400];

    memcpy(&mine, t->head, sizeof mine);
    memcpy(&theirs, l->in.head, sizeof theirs);
    name_head(&mine, a, sizeof a);
    name_head(&theirs, b, sizeof b);
    snprintf(text, sizeof text, "collectives differ: this rank is in %s, rank %d in %s", a, l->peer,
             theirs.magic == HEAD_MAGIC ? b : "noise");
    return lk_store_report(t->store, LK_EPEER, text);
}

static enum lk_status broken(struct lk_tcp *t, const struct lk_tcp_link *l, const char *why)
{
    lk_log(LK_LOG_COMM, LK_DEBUG, "rank %d: %s", l->peer, why);
    return lk_store_report_peer(t->store, l->peer, why);
}

enum lk_status lk_tcp_send(struct lk_tcp *t, struct lk_tcp_link *l, const void *data, size_t n,
                           size_t *out_n)
{
    size_t head_left = LK_TCP_HEAD_BYTES - l->out.head_done;
    union { /* an iovec's base is not const: it serves receiving, too */
        const void *from;
        void *base;
    } payload = {data};
    struct iovec v[2] = {{.iov_base = l->out.head + l->out.head_done, .iov_len = head_left},
                         {.iov_base = payload.base, .iov_len = n}};
    struct msghdr m = {.msg_iov = head_left ? v : v + 1, .msg_iovlen = head_left ? 2 : 1};
    ssize_t k;

    *out_n = 0;
    do {
        k = sendmsg(l->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
    } while (k < 0 && errno == EINTR);
    if (k < 0)
        return errno == EAGAIN || errno == EWOULDBLOCK ? LK_OK : broken(t, l, strerror(errno));
    if ((size_t)k <= head_left) {
        l->out.head_done += (size_t)k;
        return LK_OK;
    }
    l->out.head_done = LK_TCP_HEAD_BYTES;
    *out_n = (size_t)k - head_left;
    return LK_OK;
}

enum lk_status lk_tcp_recv(struct lk_tcp *t, struct lk_tcp_link *l, void *data, size_t n,
                           size_t *out_n)
{
    size_t head_left = LK_TCP_HEAD_BYTES - l->in.head_done;
    struct iovec v[2] = {{l->in.head + l->in.head_done, head_left}, {data, n}};
    struct msghdr m = {.msg_iov = head_left ? v : v + 1, .msg_iovlen = head_left ? 2 : 1};
    ssize_t k;

    *out_n = 0;
    do {
        k = recvmsg(l->fd, &m, MSG_DONTWAIT);
    } while (k < 0 && errno == EINTR);
    if (k == 0)
        return broken(t, l, "connection closed");
    if (k < 0)
        return errno == EAGAIN || errno == EWOULDBLOCK ? LK_OK : broken(t, l, strerror(errno));
    if ((size_t)k < head_left) {
        l->in.head_done += (size_t)k;
        return LK_OK;
    }
    l->in.head_done = LK_TCP_HEAD_BYTES;
    if (head_left && memcmp(l->in.head, t->head, LK_TCP_HEAD_BYTES))
        return disagree(t, l);
    *out_n = (size_t)k - head_left;
    return LK_OK;
}

enum lk_status lk_tcp_poll(struct lk_tcp *t, size_t n, struct lk_deadline deadline, int *out_ready)
{
    int k;

    t->polls[n] = (struct pollfd){.fd = lk_store_fd(t->store), .events = POLLIN};
    k = poll(t->polls, (nfds_t)n + 1, lk_deadline_poll_ms(deadline));
    if (k < 0 && errno != EINTR)
        return lk_fail(LK_EIO, "poll: %s", strerror(errno));
    if (k > 0 && t->polls[n].revents) {
        *out_ready = k - 1;
        return lk_store_check(t->store);
    }
    *out_ready = k;
    return LK_OK;
}

enum lk_status lk_tcp_wait(struct lk_tcp *t, size_t n)
{
    struct lk_deadline deadline = lk_deadline_in(t->timeout_ns);
    int ready = 0;
    enum lk_status st = LK_OK;

    while (st == LK_OK && ready <= 0) {
        st = lk_tcp_poll(t, n, deadline, &ready);
        if (st == LK_OK && ready <= 0 && !lk_deadline_left_ns(deadline))
            return lk_store_report(t->store, LK_ETIMEOUT, "");
    }
    return st;
}
