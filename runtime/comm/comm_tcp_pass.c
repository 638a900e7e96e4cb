/* A transfer from one rank to another; see comm_tcp.h. */
#include "runtime/comm/comm_tcp.h"

#include "base/clock.h"
#include "base/units.h"

struct transfer {
    struct lk_tcp *t;
    struct lk_tcp_link *to, *from; /* NULL: this rank does not send, receive */
    size_t bytes, sent, received;
    size_t first; /* bytes that came with the first; their time is not known */
    uint64_t first_ns, last_ns;
};

static size_t room(const struct transfer *x, size_t done)
{
    size_t left = x->bytes - done;

    return left < x->t->chunk_bytes ? left : x->t->chunk_bytes;
}

/* The first piece is received at once, and is no part of the rate: it is a small one. */
static size_t piece(const struct transfer *x)
{
    size_t most = room(x, x->received), small = x->bytes / 64 + 1;

    return x->received || most < small ? most : small;
}

/* Send and receive what is possible now. What is in a chunk does not matter. */
static enum lk_status turn(struct transfer *x, bool *moved)
{
    size_t n = 0;

    if (x->to && x->sent < x->bytes) {
        LK_PASS(lk_tcp_send(x->t, x->to, x->t->scratch, room(x, x->sent), &n));
        x->sent += n;
        *moved |= n > 0;
    }
    if (x->from && x->received < x->bytes) {
        LK_PASS(lk_tcp_recv(x->t, x->from, x->t->scratch, piece(x), &n));
        if (!n)
            return LK_OK;
        x->last_ns = lk_now_ns();
        if (!x->received) {
            x->first = n;
            x->first_ns = x->last_ns;
        }
        x->received += n;
        *moved = true;
    }
    return LK_OK;
}

static enum lk_status wait(struct transfer *x)
{
    struct pollfd *p = x->t->polls;
    size_t n = 0;

    if (x->to && x->sent < x->bytes)
        p[n++] = (struct pollfd){.fd = x->to->fd, .events = POLLOUT};
    if (x->from && x->received < x->bytes)
        p[n++] = (struct pollfd){.fd = x->from->fd, .events = POLLIN};
    return lk_tcp_wait(x->t, n);
}

enum lk_status lk_tcp_pass(struct lk_tcp *t, const struct lk_pass *p, double *out_Bps)
{
    struct transfer x = {.t = t,
                         .to = p->to < 0 ? NULL : &t->links[p->to],
                         .from = p->from < 0 ? NULL : &t->links[p->from],
                         .bytes = p->bytes};

    if (x.to)
        lk_tcp_use(t, x.to);
    if (x.from)
        lk_tcp_use(t, x.from);
    while ((x.to && x.sent < x.bytes) || (x.from && x.received < x.bytes)) {
        bool moved = false;

        LK_PASS(turn(&x, &moved));
        if (!moved)
            LK_PASS(wait(&x));
    }
    if (x.from)
        *out_Bps = x.last_ns > x.first_ns
                       ? (double)(x.bytes - x.first) / lk_s_from_ns(x.last_ns - x.first_ns)
                       : 0;
    return LK_OK;
}
