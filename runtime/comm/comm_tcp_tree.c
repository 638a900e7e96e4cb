/*
 * Tree collectives, and the exchange of two ranks; see comm_tcp.h.
 *
 * A rank adds what its children send, chunk by chunk and child by child in a fixed order, and
 * passes the sum to its parent. Data from the parent go down to its children as they arrive. Only
 * the root's sum counts, the others copy it, so results are bit-identical.
 */
#include "runtime/comm/comm_reduce.h"
#include "runtime/comm/comm_tcp.h"

struct lk_tcp_tree lk_tcp_binomial(int rank, int world_size, int root)
{
    struct lk_tcp_tree t = {.parent = -1};
    int v = (rank - root + world_size) % world_size; /* rank relative to the root */

    for (int bit = 1; bit < world_size; bit <<= 1) {
        if (v & bit) {
            t.parent = (v - bit + root) % world_size;
            break;
        }
        if (v + bit < world_size)
            t.children[t.n_children++] = (v + bit + root) % world_size;
    }
    return t;
}

struct lk_tcp_tree lk_tcp_chain(int rank, int world_size, int root)
{
    struct lk_tcp_tree t = {.parent = -1};

    if (rank != root)
        t.parent = (rank + world_size - 1) % world_size;
    if ((rank + 1) % world_size != root)
        t.children[t.n_children++] = (rank + 1) % world_size;
    return t;
}

struct walk {
    struct lk_tcp *t;
    const struct lk_tcp_tree *tree;
    unsigned char *buf;
    enum lk_dtype dtype;
    size_t bytes;
    struct lk_tcp_link *parent;
    /* Upwards: bytes summed over all children (whole chunks); the child whose part of the next
     * chunk is being received, and its bytes so far; bytes sent to the parent. */
    size_t summed, child_done, sent_up;
    int child;
    /* Downwards: bytes of the final result held here, and sent to each child. */
    size_t final;
    size_t sent_down[32];
};

static size_t chunk_at(const struct walk *w, size_t from)
{
    size_t left = w->bytes - from;

    return left < w->t->chunk_bytes ? left : w->t->chunk_bytes;
}

static struct lk_tcp_link *child_link(const struct walk *w, int i)
{
    return &w->t->links[w->tree->children[i]];
}

static enum lk_status gather(struct walk *w, bool *out_moved)
{
    size_t chunk = chunk_at(w, w->summed), n = 0;
    enum lk_status st = lk_tcp_recv(w->t, child_link(w, w->child), w->t->scratch + w->child_done,
                                    chunk - w->child_done, &n);

    w->child_done += n;
    *out_moved |= n > 0;
    if (st != LK_OK || w->child_done < chunk)
        return st;
    lk_reduce_add(w->dtype, w->buf + w->summed, w->t->scratch, chunk / lk_dtype_bytes(w->dtype));
    w->child_done = 0;
    if (++w->child == w->tree->n_children) {
        w->child = 0;
        w->summed += chunk;
        if (!w->parent)
            w->final = w->summed;
    }
    return LK_OK;
}

/* Try once everything that can make progress without waiting. */
static enum lk_status turn(struct walk *w, bool *out_moved)
{
    enum lk_status st = LK_OK;
    size_t n = 0;

    if (w->summed < w->bytes)
        LK_TRY(gather(w, out_moved));
    if (w->sent_up < w->summed && w->parent) {
        LK_TRY(lk_tcp_send(w->t, w->parent, w->buf + w->sent_up, w->summed - w->sent_up, &n));
        w->sent_up += n;
        *out_moved |= n > 0;
    }
    if (w->final < w->bytes && w->parent) {
        LK_TRY(lk_tcp_recv(w->t, w->parent, w->buf + w->final, w->bytes - w->final, &n));
        w->final += n;
        *out_moved |= n > 0;
    }
    for (int i = 0; i < w->tree->n_children; i++) {
        if (w->sent_down[i] == w->final)
            continue;
        LK_TRY(lk_tcp_send(w->t, child_link(w, i), w->buf + w->sent_down[i],
                           w->final - w->sent_down[i], &n));
        w->sent_down[i] += n;
        *out_moved |= n > 0;
    }
out:
    return st;
}

static bool over(const struct walk *w)
{
    if (w->summed < w->bytes || w->final < w->bytes || (w->parent && w->sent_up < w->bytes))
        return false;
    for (int i = 0; i < w->tree->n_children; i++)
        if (w->sent_down[i] < w->bytes)
            return false;
    return true;
}

/* Wait until turn() can make progress. */
static enum lk_status wait(struct walk *w)
{
    struct pollfd *p = w->t->polls;
    size_t n = 0;

    if (w->parent) {
        short out = w->sent_up < w->summed ? POLLOUT : 0, in = w->final < w->bytes ? POLLIN : 0;

        if (in | out)
            p[n++] = (struct pollfd){.fd = w->parent->fd, .events = (short)(out | in)};
    }
    for (int i = 0; i < w->tree->n_children; i++) {
        short in = w->summed < w->bytes && i == w->child ? POLLIN : 0;
        short out = w->sent_down[i] < w->final ? POLLOUT : 0;

        if (in | out)
            p[n++] = (struct pollfd){.fd = child_link(w, i)->fd, .events = (short)(out | in)};
    }
    return lk_tcp_wait(w->t, n);
}

enum lk_status lk_tcp_tree_run(struct lk_tcp *t, const struct lk_tcp_tree *tree, bool up,
                               unsigned char *buf, enum lk_dtype dtype, size_t elems)
{
    enum lk_status st = LK_OK;
    struct walk w = {.t = t, .tree = tree, .buf = buf, .dtype = dtype};

    w.bytes = elems * lk_dtype_bytes(dtype);
    w.parent = tree->parent >= 0 ? &t->links[tree->parent] : NULL;
    if (!up || !tree->n_children)
        w.summed = w.bytes;
    if (!up)
        w.sent_up = w.bytes;
    if (!w.parent)
        w.final = w.summed;
    if (w.parent)
        lk_tcp_use(t, w.parent);
    for (int i = 0; i < tree->n_children; i++)
        lk_tcp_use(t, child_link(&w, i));
    while (!over(&w)) {
        bool moved = false;

        LK_TRY(turn(&w, &moved));
        if (!moved && !over(&w))
            LK_TRY(wait(&w));
    }
out:
    return st;
}

enum lk_status lk_tcp_exchange(struct lk_tcp *t, unsigned char *buf, enum lk_dtype dtype,
                               size_t elems)
{
    enum lk_status st = LK_OK;
    struct lk_tcp_link *l = &t->links[1 - t->base.rank];
    size_t e = lk_dtype_bytes(dtype), bytes = elems * e;
    size_t sent = 0, received = 0; /* data are added only where this rank's own were already sent */
    size_t filled = 0;             /* bytes in scratch, which begins at `received` */

    lk_tcp_use(t, l);
    while (sent < bytes || received < bytes) {
        size_t left = bytes - received, room = left < t->chunk_bytes ? left : t->chunk_bytes;
        size_t n = 0, k = 0, whole;

        if (sent < bytes)
            LK_TRY(lk_tcp_send(t, l, buf + sent, bytes - sent, &n));
        sent += n;
        if (filled < room)
            LK_TRY(lk_tcp_recv(t, l, t->scratch + filled, room - filled, &k));
        filled += k;
        if (filled == room && received + filled <= sent) {
            whole = filled / e;
            lk_reduce_add(dtype, buf + received, t->scratch, whole);
            received += filled;
            filled = 0;
        } else if (!n && !k) {
            short out = sent < bytes ? POLLOUT : 0, in = filled < room ? POLLIN : 0;

            t->polls[0] = (struct pollfd){.fd = l->fd, .events = (short)(out | in)};
            LK_TRY(lk_tcp_wait(t, 1));
        }
    }
out:
    return st;
}
