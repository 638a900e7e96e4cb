/* The communicator "tcp": sending, receiving and waiting; open, close, and the choice of a
 * collective's algorithm. */
#include "runtime/comm/comm_tcp.h"

#include "base/array.h"
#include "base/log.h"
#include "base/units.h"
#include "runtime/rendezvous/net.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

/* ---- Sending, receiving and waiting ---- */

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

/* Start a collective: write its header. */
static void begin(struct lk_tcp *t, const struct lk_coll_call *call, enum lk_algo algo,
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
    if (call->group.n)
        h.root = (uint32_t)call->group.first;
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
    struct lk_deadline polling = lk_deadline_in(t->poll_ns);
    int ready = 0;
    enum lk_status st = LK_OK;

    while (st == LK_OK && ready <= 0 && t->poll_ns && lk_deadline_left_ns(polling))
        st = lk_tcp_poll(t, n, lk_deadline_in(0), &ready);
    while (st == LK_OK && ready <= 0) {
        st = lk_tcp_poll(t, n, deadline, &ready);
        if (st == LK_OK && ready <= 0 && !lk_deadline_left_ns(deadline))
            return lk_store_report(t->store, LK_ETIMEOUT, "");
    }
    return st;
}

/* ---- Open and close ---- */

enum {
    CHUNK_BYTES = 256 << 10,
    CHUNK_ALIGN = 64, /* a multiple of every element size */
    SCRATCH_ALIGN = 64,
};

static void tcp_close(struct lk_comm *c)
{
    struct lk_tcp *t = (struct lk_tcp *)c;

    for (int r = 0; t->links && r < t->base.world_size; r++)
        if (t->links[r].fd >= 0)
            close(t->links[r].fd);
    free(t->links);
    free(t->polls);
    free(t->rings);
    free(t->scratch);
    free(t);
}

/* Find out whether the kernel tells what connections do; where one leaves the host and the kernel
 * does not, the run says so. */
static enum lk_status ask_hops(struct lk_tcp *t, struct lk_recorder *recorder)
{
    for (int r = 0; r < t->base.world_size; r++)
        if (r != t->base.rank && t->links[r].leaves) {
            t->tells_hops = lk_tcp_info(t->links[r].fd, &t->hop);
            return t->tells_hops
                       ? LK_OK
                       : lk_recorder_fact(recorder, LK_NO_HOPS_CONFIG_KEY,
                                          "the kernel's TCP_INFO has no busy time (Linux 4.10)");
        }
    return LK_OK;
}

/* Return how long a wait polls: nothing where another thread of a rank would lose its CPU to it. */
static uint64_t choose_poll_ns(const struct lk_tcp *t)
{
    int here = 1;
    cpu_set_t cpus;

    for (int r = 0; r < t->base.world_size; r++)
        here += r != t->base.rank && !t->links[r].leaves;
    return !sched_getaffinity(0, sizeof cpus, &cpus) && CPU_COUNT(&cpus) >= 2 * here
               ? LK_TCP_POLL_NS
               : 0;
}

static enum lk_status tell_poll(const struct lk_tcp *t, struct lk_recorder *recorder)
{
    char text[32];

    lk_units_format(LK_DIM_TIME, lk_s_from_ns(t->poll_ns), text, sizeof text);
    return t->poll_ns ? lk_recorder_fact(recorder, "tcp_poll", text) : LK_OK;
}

static enum lk_status tcp_open(const struct lk_comm_config *config, struct lk_comm **out)
{
    enum lk_status st = LK_OK;
    struct lk_tcp *t = NULL;
    size_t world = (size_t)config->world_size;
    size_t chunk = config->chunk_bytes ? config->chunk_bytes : CHUNK_BYTES;

    LK_TRY(lk_alloc(&t, 1, sizeof *t));
    t->base.rank = config->rank;
    t->base.world_size = config->world_size;
    t->store = config->store;
    t->timeout_ns = config->timeout_ns;
    t->fixed_chunk = config->chunk_bytes > 0;
    t->chunk_bytes = (chunk + CHUNK_ALIGN - 1) / CHUNK_ALIGN * CHUNK_ALIGN;
    LK_TRY(lk_alloc(&t->links, world, sizeof *t->links));
    for (size_t r = 0; r < world; r++)
        t->links[r] = (struct lk_tcp_link){.fd = -1, .peer = (int)r};
    LK_TRY(lk_alloc(&t->polls, 2 * world + 32, sizeof *t->polls));
    t->scratch = aligned_alloc(SCRATCH_ALIGN, t->chunk_bytes);
    if (!t->scratch)
        LK_TRY(lk_fail(LK_ENOMEM, "no memory for a chunk of %zu bytes", t->chunk_bytes));
    if (world > 1) {
        LK_TRY(lk_tcp_connect(t, config));
        LK_TRY(ask_hops(t, config->recorder));
        t->poll_ns = config->poll_ns ? config->poll_ns : choose_poll_ns(t);
        LK_TRY(tell_poll(t, config->recorder));
    }
    *out = &t->base;
    t = NULL;
out:
    if (t)
        tcp_close(&t->base);
    return st;
}

/*
 * Message sizes, by world size, up to which a tree is faster than the ring for an all-reduce (with
 * two ranks: the exchange); measured with bench/allreduce.sh on one host. The last row is for all
 * larger world sizes.
 */
static const struct {
    int ranks;
    size_t tree_bytes;
} all_reduce_rows[] = {
    {2, 128 << 10},
    {3, 128 << 10},
    {0, 256 << 10},
};
/* Largest broadcast that uses the tree: the root sends log2(ranks) copies there, one in a chain. */
static const size_t broadcast_tree_bytes = 64 << 10;

static bool tcp_has(const struct lk_comm *c, enum lk_coll coll, enum lk_algo algo)
{
    (void)c;
    if (algo == LK_ALGO_TREE)
        return coll == LK_ALL_REDUCE || coll == LK_BROADCAST || coll == LK_BARRIER;
    if (algo == LK_ALGO_HIERARCHICAL)
        return coll == LK_ALL_REDUCE;
    return algo == LK_ALGO_RING && coll != LK_BARRIER;
}

static enum lk_algo tcp_choice(const struct lk_comm *c, const struct lk_coll_call *call)
{
    size_t bytes = lk_coll_call_bytes(call, c->world_size);

    if (call->group.n)
        return LK_ALGO_RING; /* the only one with groups */
    if (call->algo != LK_ALGO_AUTO)
        return call->algo;
    switch (call->coll) {
    case LK_BARRIER:
        return LK_ALGO_TREE;
    case LK_BROADCAST:
        return bytes <= broadcast_tree_bytes ? LK_ALGO_TREE : LK_ALGO_RING;
    case LK_ALL_REDUCE:
        for (size_t i = 0;; i++)
            if (!all_reduce_rows[i].ranks || c->world_size <= all_reduce_rows[i].ranks)
                return bytes <= all_reduce_rows[i].tree_bytes ? LK_ALGO_TREE : LK_ALGO_RING;
    default:
        return LK_ALGO_RING;
    }
}

static enum lk_status sum_by_tree(struct lk_tcp *t, unsigned char *buf, enum lk_dtype dtype,
                                  size_t elems)
{
    struct lk_tcp_tree tree;

    if (t->base.world_size == 2)
        return lk_tcp_exchange(t, buf, dtype, elems);
    tree = lk_tcp_binomial(t->base.rank, t->base.world_size, 0);
    return lk_tcp_tree_run(t, &tree, true, buf, dtype, elems);
}

static enum lk_status run_tree(struct lk_tcp *t, const struct lk_coll_call *call)
{
    struct lk_tcp_tree tree;
    unsigned char token = 0;

    switch (call->coll) {
    case LK_BARRIER:
        return sum_by_tree(t, &token, LK_U8, 1);
    case LK_ALL_REDUCE:
        return sum_by_tree(t, call->buf, call->dtype, call->count);
    case LK_BROADCAST:
        tree = lk_tcp_binomial(t->base.rank, t->base.world_size, call->root);
        return lk_tcp_tree_run(t, &tree, false, call->buf, call->dtype, call->count);
    default:
        return lk_fail(LK_EINTERNAL, "no tree for %s", lk_coll_name(call->coll));
    }
}

static enum lk_status run_ring(struct lk_tcp *t, const struct lk_coll_call *call)
{
    struct lk_tcp_parts p = {.ring = lk_tcp_group(t, &call->group),
                             .buf = call->buf,
                             .dtype = call->dtype,
                             .elems = call->count};
    int around = p.ring.n - 1;
    struct lk_tcp_tree chain;

    if (call->coll != LK_BROADCAST)
        lk_tcp_read_hop(t, &p.ring);

    switch (call->coll) {
    case LK_ALL_REDUCE:
        p.steps = 2 * around;
        p.adds = around;
        return lk_tcp_ring(t, &p);
    case LK_REDUCE_SCATTER: /* starting one part back, each rank completes its own part */
        p.elems *= (size_t)p.ring.n;
        p.steps = p.adds = around;
        p.first = -1;
        return lk_tcp_ring(t, &p);
    case LK_ALL_GATHER:
        p.elems *= (size_t)p.ring.n;
        p.steps = around;
        return lk_tcp_ring(t, &p);
    case LK_BROADCAST:
        chain = lk_tcp_chain(t->base.rank, t->base.world_size, call->root);
        return lk_tcp_tree_run(t, &chain, false, call->buf, call->dtype, call->count);
    default:
        return lk_fail(LK_EINTERNAL, "no ring for %s", lk_coll_name(call->coll));
    }
}

static enum lk_status tcp_run(struct lk_comm *c, const struct lk_coll_call *call, uint64_t seq)
{
    struct lk_tcp *t = (struct lk_tcp *)c;
    size_t bytes = lk_coll_call_bytes(call, c->world_size);
    enum lk_algo algo = tcp_choice(c, call);
    enum lk_status st;

    t->has_hop = false;
    if (lk_coll_call_ranks(call, c->world_size) == 1 || (call->coll != LK_BARRIER && !bytes))
        return LK_OK;
    lk_store_progress(t->store, seq, true);
    begin(t, call, algo, seq);
    st = algo == LK_ALGO_TREE ? run_tree(t, call)
         : algo == LK_ALGO_HIERARCHICAL
             ? lk_tcp_hierarchical(t, call->buf, call->dtype, call->count)
             : run_ring(t, call);
    if (st == LK_OK)
        lk_store_progress(t->store, seq, false);
    return st;
}

static enum lk_status tcp_pass(struct lk_comm *c, const struct lk_pass *p, uint64_t seq,
                               double *out_Bps)
{
    const struct lk_coll_call call = {.coll = LK_SEND, .dtype = LK_U8, .count = p->bytes};
    struct lk_tcp *t = (struct lk_tcp *)c;

    lk_store_progress(t->store, seq, true);
    begin(t, &call, LK_ALGO_AUTO, seq);
    LK_PASS(lk_tcp_pass(t, p, out_Bps));
    lk_store_progress(t->store, seq, false);
    return LK_OK;
}

static const struct lk_hop *tcp_hop(const struct lk_comm *c)
{
    const struct lk_tcp *t = (const struct lk_tcp *)c;

    return t->has_hop ? &t->hop : NULL;
}

const struct lk_comm_ops lk_comm_tcp = {.name = "tcp",
                                        .open = tcp_open,
                                        .run = tcp_run,
                                        .close = tcp_close,
                                        .has = tcp_has,
                                        .choice = tcp_choice,
                                        .hop = tcp_hop,
                                        .pass = tcp_pass,
                                        .groups = true};
