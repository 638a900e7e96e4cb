/* Encode and decode frames of the store's protocol; see the header. */
#include "runtime/rendezvous/store_wire.h"

#include "base/array.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum {
    RECV_BYTES = 64 << 10, /* bytes per read */
    RECV_ROUNDS = 16,      /* reads before other connections get their turn */
};

void lk_bytes_fini(struct lk_bytes *b)
{
    free(b->data);
    *b = (struct lk_bytes){0};
}

/* Make room for n more bytes behind the queued ones. */
static enum lk_status reserve(struct lk_bytes *b, size_t n)
{
    if (b->at == b->n) {
        b->at = b->n = 0;
    } else if (b->at > b->cap / 2) {
        memmove(b->data, b->data + b->at, b->n - b->at);
        b->n -= b->at;
        b->at = 0;
    }
    return lk_array_grow(&b->data, &b->cap, b->n + n, 1);
}

enum lk_status lk_bytes_put(struct lk_bytes *b, const void *data, size_t n)
{
    LK_PASS(reserve(b, n));
    if (n)
        memcpy(b->data + b->n, data, n);
    b->n += n;
    return LK_OK;
}

void lk_wire_put(char *at, uint64_t v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        at[i] = (char)(v >> 8 * i & 0xFF);
}

uint64_t lk_wire_get(const char *at, size_t n)
{
    uint64_t v = 0;

    for (size_t i = 0; i < n; i++)
        v |= (uint64_t)(unsigned char)at[i] << 8 * i;
    return v;
}

enum lk_status lk_frame_put(struct lk_bytes *b, enum lk_msg type, uint64_t id, const void *head,
                            size_t head_bytes, const void *tail, size_t tail_bytes)
{
    char h[LK_FRAME_HEAD];
    size_t start = b->n - b->at;
    enum lk_status st;

    lk_wire_put(h, LK_FRAME_HEAD - 4 + head_bytes + tail_bytes, 4);
    lk_wire_put(h + 4, (uint64_t)type, 1);
    lk_wire_put(h + 5, id, 8);
    LK_TRY(lk_bytes_put(b, h, sizeof h));
    LK_TRY(lk_bytes_put(b, head, head_bytes));
    LK_TRY(lk_bytes_put(b, tail, tail_bytes));
    return LK_OK;
out:
    b->n = b->at + start; /* drop the partial frame: the receiver could not parse what follows */
    return st;
}

enum lk_status lk_frame_take(struct lk_bytes *b, struct lk_frame *out, bool *out_whole)
{
    size_t have = b->n - b->at;
    const char *p;
    uint64_t bytes;

    *out_whole = false;
    if (have < LK_FRAME_HEAD)
        return LK_OK;
    p = b->data + b->at;
    bytes = lk_wire_get(p, 4);
    if (bytes < LK_FRAME_HEAD - 4 || bytes > LK_FRAME_HEAD - 4 + LK_FRAME_PAYLOAD_MAX ||
        lk_wire_get(p + 4, 1) >= LK_MSG_COUNT)
        return lk_fail(LK_EPARSE, "not a message of the store's protocol");
    if (have < 4 + bytes)
        return LK_OK;
    *out = (struct lk_frame){.type = (enum lk_msg)lk_wire_get(p + 4, 1),
                             .id = lk_wire_get(p + 5, 8),
                             .payload = p + LK_FRAME_HEAD,
                             .bytes = (size_t)bytes - (LK_FRAME_HEAD - 4)};
    b->at += 4 + (size_t)bytes;
    *out_whole = true;
    return LK_OK;
}

enum lk_status lk_bytes_recv(struct lk_bytes *b, int fd)
{
    for (int round = 0; round < RECV_ROUNDS; round++) {
        enum lk_status st = reserve(b, RECV_BYTES);
        ssize_t k;

        if (st != LK_OK)
            return st;
        k = recv(fd, b->data + b->n, RECV_BYTES, MSG_DONTWAIT);
        if (k > 0) {
            b->n += (size_t)k;
            if (k < RECV_BYTES)
                return LK_OK;
        } else if (k == 0) {
            return lk_fail(LK_EPEER, "connection closed");
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            return LK_OK;
        } else if (errno != EINTR) {
            return lk_fail(LK_EPEER, "%s", strerror(errno));
        }
    }
    return LK_OK;
}

enum lk_status lk_bytes_send(struct lk_bytes *b, int fd)
{
    while (b->at < b->n) {
        ssize_t k = send(fd, b->data + b->at, b->n - b->at, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (k >= 0)
            b->at += (size_t)k;
        else if (errno == EAGAIN || errno == EWOULDBLOCK)
            return LK_OK;
        else if (errno != EINTR)
            return lk_fail(LK_EPEER, "%s", strerror(errno));
    }
    return LK_OK;
}
