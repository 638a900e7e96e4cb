/* The algorithms of tcp's collectives: the pipelined ring, the tree, and the exchange of two ranks;
 * see comm_tcp.h. */
#include "runtime/comm/comm_tcp.h"
#include "runtime/comm/reduce.h"

#include <stdint.h>

/*
 * ---- The ring ----
 *
 * Every rank sends to the next and receives from the one before. The buffer is cut into K parts; in
 * step s a rank sends part first + rank - s and receives the one before that, which it sends in
 * step s + 1. K - 1 adding steps leave each part complete on one rank (reduce-scatter), K - 1
 * copying steps carry it round (all-gather), both together are the all-reduce: 2(K-1)/K of the
 * buffer sent by each rank (Patarasuk and Yuan, JPDC 69, 2009). Each part is summed along one path
 * and then copied, so results are bit-identical.
 *
 * Parts are cut into chunks, the g-th chunks of all parts being segment g. Item (g, s) is the chunk
 * of segment g sent in step s; items go in the order of g + s, ties by s, which is the same on all
 * ranks. So a chunk that was received and added is sent on while it is still in cache, and sending,
 * receiving and adding of different segments overlap.
 */

struct ring {
    struct lk_tcp *t;
    const struct lk_tcp_parts *p;
    size_t elem_bytes, chunk_elems, segments;
    struct lk_tcp_link *next, *prev;
};

/* A position in the order of items. */
struct cursor {
    size_t diagonal; /* g + s */
    int step;
    size_t done; /* bytes of the item moved so far */
    unsigned char *at;
    size_t bytes; /* bytes of the item; 0: past the last item */
};

struct lk_tcp_members lk_tcp_everyone(const struct lk_tcp *t)
{
    return (struct lk_tcp_members){.stride = 1, .n = t->base.world_size, .at = t->base.rank};
}

struct lk_tcp_members lk_tcp_group(const struct lk_tcp *t, const struct lk_rank_group *g)
{
    return g->n ? (struct lk_tcp_members){.first = g->first,
                                          .stride = g->stride,
                                          .n = g->n,
                                          .at = (t->base.rank - g->first) / g->stride}
                : lk_tcp_everyone(t);
}

/* Return the link to the member `by` places on. */
static struct lk_tcp_link *member_link(const struct lk_tcp *t, const struct lk_tcp_members *ring,
                                       int by)
{
    int at = (ring->at + by + ring->n) % ring->n;

    return &t->links[ring->ranks ? ring->ranks[at] : ring->first + at * ring->stride];
}

struct lk_tcp_link *lk_tcp_next(const struct lk_tcp *t, const struct lk_tcp_members *ring)
{
    return member_link(t, ring, 1);
}

void lk_tcp_share(size_t elems, int parts, int at, size_t *from, size_t *n)
{
    size_t share = elems / (size_t)parts, rest = elems % (size_t)parts, part = (size_t)at;

    *from = part * share + (part < rest ? part : rest);
    *n = share + (part < rest);
}

static size_t diagonals(const struct ring *r)
{
    return r->segments + (size_t)r->p->steps - 1;
}

/* Set `at` and `bytes` for item (g, s) of the part `lag` behind the one that is sent. */
static void locate(const struct ring *r, struct cursor *c, int lag)
{
    int members = r->p->ring.n, raw = r->p->first + r->p->ring.at - c->step - lag;
    size_t skip = (c->diagonal - (size_t)c->step) * r->chunk_elems, from, n;

    lk_tcp_share(r->p->elems, members, (raw % members + members) % members, &from, &n);
    n = skip < n ? n - skip : 0;
    n = n < r->chunk_elems ? n : r->chunk_elems;
    c->at = r->p->buf + (from + skip) * r->elem_bytes;
    c->bytes = n * r->elem_bytes;
    c->done = 0;
}

/* Move to the next item that is not empty, or to the end. */
static void advance(const struct ring *r, struct cursor *c, int lag)
{
    for (;;) {
        if (++c->step >= r->p->steps || (size_t)c->step > c->diagonal) {
            c->step = 0;
            c->diagonal++;
        }
        if (c->diagonal >= diagonals(r)) {
            c->bytes = 0;
            return;
        }
        if (c->diagonal - (size_t)c->step >= r->segments)
            continue;
        locate(r, c, lag);
        if (c->bytes)
            return;
    }
}

static struct cursor start(const struct ring *r, int lag)
{
    struct cursor c = {0};

    locate(r, &c, lag);
    if (!c.bytes)
        advance(r, &c, lag);
    return c;
}

/* Return true if the data of item `out` have been received: item (g, s - 1) lies before `in`. */
static bool may_send(const struct cursor *out, const struct cursor *in)
{
    if (!out->bytes)
        return false;
    if (out->step == 0 || !in->bytes)
        return true;
    return out->diagonal - 1 < in->diagonal ||
           (out->diagonal - 1 == in->diagonal && out->step - 1 < in->step);
}

static enum lk_status send_some(struct ring *r, struct cursor *c, bool *out_moved)
{
    size_t n = 0;
    enum lk_status st = lk_tcp_send(r->t, r->next, c->at + c->done, c->bytes - c->done, &n);

    c->done += n;
    *out_moved |= n > 0;
    if (c->done == c->bytes)
        advance(r, c, 0);
    return st;
}

/* Receive into the buffer; or, in an adding step, into scratch, and add every complete element. */
static enum lk_status recv_some(struct ring *r, struct cursor *c, bool *out_moved)
{
    bool adds = c->step < r->p->adds;
    unsigned char *base = adds ? r->t->scratch : c->at;
    size_t n = 0, e = r->elem_bytes;
    enum lk_status st = lk_tcp_recv(r->t, r->prev, base + c->done, c->bytes - c->done, &n);
    size_t from = c->done / e, to = (c->done + n) / e;

    if (adds && to > from)
        lk_reduce_add(r->p->dtype, c->at + from * e, base + from * e, to - from);
    c->done += n;
    *out_moved |= n > 0;
    if (c->done == c->bytes)
        advance(r, c, 1);
    return st;
}

static enum lk_status wait_ring(struct ring *r, bool to_send, bool to_recv)
{
    struct pollfd *p = r->t->polls;
    short out = to_send ? POLLOUT : 0, in = to_recv ? POLLIN : 0;

    if (r->next == r->prev) {
        p[0] = (struct pollfd){.fd = r->next->fd, .events = (short)(out | in)};
        return lk_tcp_wait(r->t, 1);
    }
    p[0] = (struct pollfd){.fd = to_send ? r->next->fd : -1, .events = out};
    p[1] = (struct pollfd){.fd = to_recv ? r->prev->fd : -1, .events = in};
    return lk_tcp_wait(r->t, 2);
}

/*
 * Return the chunk size for parts of this many bytes. A chunk must be large enough to amortise the
 * system calls, and small enough for data in flight to stay in the second-level cache of a core
 * that several ranks share; a part that fits the cache is best cut in two. Measured with
 * bench/allreduce.sh on 2 cores with 2 MiB each.
 */
static size_t chunk_for(const struct lk_tcp *t, size_t part_bytes)
{
    const size_t usual = 96 << 10, least = 128 << 10, most = 256 << 10;
    size_t half = (part_bytes / 2 + 63) / 64 * 64;

    if (t->fixed_chunk || half > most)
        return t->fixed_chunk ? t->chunk_bytes : usual;
    return half > least ? half : least;
}

enum lk_status lk_tcp_ring(struct lk_tcp *t, const struct lk_tcp_parts *p)
{
    size_t e = lk_dtype_bytes(p->dtype), members = (size_t)p->ring.n;
    size_t largest = (p->elems + members - 1) / members;
    struct ring r = {.t = t, .p = p, .elem_bytes = e};
    struct cursor out, in;

    r.chunk_elems = chunk_for(t, largest * e) / e;
    r.segments = (largest + r.chunk_elems - 1) / r.chunk_elems;
    r.next = member_link(t, &p->ring, 1);
    r.prev = member_link(t, &p->ring, -1);
    lk_tcp_use(t, r.next);
    lk_tcp_use(t, r.prev);
    out = start(&r, 0);
    in = start(&r, 1);
    while (out.bytes || in.bytes) {
        bool moved = false;

        if (may_send(&out, &in))
            LK_PASS(send_some(&r, &out, &moved));
        if (in.bytes)
            LK_PASS(recv_some(&r, &in, &moved));
        if (!moved && (out.bytes || in.bytes))
            LK_PASS(wait_ring(&r, may_send(&out, &in), in.bytes > 0));
    }
    return LK_OK;
}

/*
 * ---- The tree, and the exchange ----
 *
 * A rank adds what its children send, chunk by chunk and child by child in a fixed order, and
 * passes the sum to its parent. Data from the parent go down to its children as they arrive. Only
 * the root's sum counts, the others copy it, so results are bit-identical.
 */

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
    size_t n = 0;

    if (w->summed < w->bytes)
        LK_PASS(gather(w, out_moved));
    if (w->sent_up < w->summed && w->parent) {
        LK_PASS(lk_tcp_send(w->t, w->parent, w->buf + w->sent_up, w->summed - w->sent_up, &n));
        w->sent_up += n;
        *out_moved |= n > 0;
    }
    if (w->final < w->bytes && w->parent) {
        LK_PASS(lk_tcp_recv(w->t, w->parent, w->buf + w->final, w->bytes - w->final, &n));
        w->final += n;
        *out_moved |= n > 0;
    }
    for (int i = 0; i < w->tree->n_children; i++) {
        if (w->sent_down[i] == w->final)
            continue;
        LK_PASS(lk_tcp_send(w->t, child_link(w, i), w->buf + w->sent_down[i],
                            w->final - w->sent_down[i], &n));
        w->sent_down[i] += n;
        *out_moved |= n > 0;
    }
    return LK_OK;
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
static enum lk_status wait_walk(struct walk *w)
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

        LK_PASS(turn(&w, &moved));
        if (!moved && !over(&w))
            LK_PASS(wait_walk(&w));
    }
    return LK_OK;
}

enum lk_status lk_tcp_exchange(struct lk_tcp *t, unsigned char *buf, enum lk_dtype dtype,
                               size_t elems)
{
    struct lk_tcp_link *l = &t->links[1 - t->base.rank];
    size_t e = lk_dtype_bytes(dtype), bytes = elems * e;
    size_t sent = 0, received = 0; /* data are added only where this rank's own were already sent */
    size_t filled = 0;             /* bytes in scratch, which begins at `received` */

    lk_tcp_use(t, l);
    while (sent < bytes || received < bytes) {
        size_t left = bytes - received, room = left < t->chunk_bytes ? left : t->chunk_bytes;
        size_t n = 0, k = 0, whole;

        if (sent < bytes)
            LK_PASS(lk_tcp_send(t, l, buf + sent, bytes - sent, &n));
        sent += n;
        if (filled < room)
            LK_PASS(lk_tcp_recv(t, l, t->scratch + filled, room - filled, &k));
        filled += k;
        if (filled == room && received + filled <= sent) {
            whole = filled / e;
            lk_reduce_add(dtype, buf + received, t->scratch, whole);
            received += filled;
            filled = 0;
        } else if (!n && !k) {
            short out = sent < bytes ? POLLOUT : 0, in = filled < room ? POLLIN : 0;

            t->polls[0] = (struct pollfd){.fd = l->fd, .events = (short)(out | in)};
            LK_PASS(lk_tcp_wait(t, 1));
        }
    }
    return LK_OK;
}
