/*
 * Messages between the store's server and its clients.
 *
 * The server trusts no client: every length is checked, and whoever breaks the protocol is
 * disconnected, which for a rank means that it is lost.
 */
#include "runtime/rendezvous/rank_names.h"
#include "runtime/rendezvous/store_server_impl.h"

#include "base/array.h"
#include "base/log.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    BACKLOG_MAX = 64 << 20, /* bytes that a client may leave unread */
    LOST_MS = 2000, /* time for the launcher to report how a lost rank died, on a busy machine */
    ASK_MIN_MS = 100,
    ASK_MAX_MS = 3000, /* limits of the time for ranks to answer, else timeout / 4 */
};

/* ---- messages to clients ---- */

/* Queue a message. A client that cannot take it is disconnected. */
static void tell(struct client *c, enum lk_msg type, uint64_t id, const void *head, size_t n_head,
                 const void *tail, size_t n_tail)
{
    if (c->out.n - c->out.at > BACKLOG_MAX ||
        lk_frame_put(&c->out, type, id, head, n_head, tail, n_tail) != LK_OK)
        c->closing = true;
}

static void tell_status(struct client *c, enum lk_msg type, uint64_t id, enum lk_status status,
                        const char *text)
{
    char head[4];

    lk_wire_put(head, (uint64_t)status, sizeof head);
    tell(c, type, id, head, sizeof head, text, strlen(text));
}

void lk_store_server_decide(struct lk_store_server *s, enum lk_status status, const char *text)
{
    s->pending = PENDING_NOTHING;
    s->asking = false;
    if (s->verdict != LK_OK)
        return;
    s->verdict = status;
    snprintf(s->verdict_text, sizeof s->verdict_text, "%.*s", LK_STORE_TEXT_MAX - 1, text);
    lk_log(LK_LOG_COMM, LK_INFO, "verdict: %s", s->verdict_text);
    for (size_t i = 0; i < s->n_clients; i++)
        if (s->clients[i]->rank >= 0)
            tell_status(s->clients[i], LK_MSG_VERDICT, 0, status, s->verdict_text);
}

void lk_store_server_suspect(struct lk_store_server *s, enum pending why, int rank,
                             const char *text)
{
    if (s->verdict != LK_OK || why <= s->pending)
        return;
    if (s->pending == PENDING_NOTHING)
        s->pending_until = lk_deadline_in(LOST_MS * LK_NS_PER_MS);
    s->pending = why;
    s->pending_rank = rank;
    snprintf(s->pending_text, sizeof s->pending_text, "%.*s", LK_STORE_TEXT_MAX - 1, text);
}

/* Add where the first ranks that did not answer are. */
static void add_addresses(const struct lk_store_server *s, char *text, size_t size)
{
    enum { MOST = 4 };
    int added = 0;

    for (size_t i = 0; i < s->n_clients && added < MOST; i++) {
        const struct client *c = s->clients[i];
        char address[64];
        size_t used = strlen(text);

        if (c->rank < 0 || s->ranks[c->rank].state != LK_RANK_HERE || s->ranks[c->rank].answered ||
            !lk_net_other_host(c->fd, address, sizeof address))
            continue;
        snprintf(text + used, size - used, "; rank %d is at %s", c->rank, address);
        added++;
    }
}

void lk_store_server_decide_stall(struct lk_store_server *s)
{
    char text[LK_STORE_TEXT_MAX];

    lk_verdict_stall(s->ranks, s->world_size, text, sizeof text);
    add_addresses(s, text, sizeof text);
    lk_store_server_decide(s, LK_ETIMEOUT, text);
}

static void ask_all(struct lk_store_server *s, uint64_t timeout_ns)
{
    uint64_t ns = timeout_ns / 4;

    if (s->asking || s->verdict != LK_OK)
        return;
    ns = ns < ASK_MIN_MS * LK_NS_PER_MS ? ASK_MIN_MS * LK_NS_PER_MS : ns;
    ns = ns > ASK_MAX_MS * LK_NS_PER_MS ? ASK_MAX_MS * LK_NS_PER_MS : ns;
    s->asking = true;
    s->ask_until = lk_deadline_in(ns);
    for (int r = 0; r < s->world_size; r++)
        s->ranks[r].answered = false;
    for (size_t i = 0; i < s->n_clients; i++)
        if (s->clients[i]->rank >= 0)
            tell(s->clients[i], LK_MSG_ASK, 0, NULL, 0, NULL, 0);
}

/* ---- requests ---- */

/* Copy a key or name into a string. Return false if it is not a valid one. */
static bool take_name(const char *p, size_t n, char name[LK_STORE_KEY_MAX + 1])
{
    if (n == 0 || n > LK_STORE_KEY_MAX || memchr(p, '\0', n))
        return false;
    memcpy(name, p, n);
    name[n] = '\0';
    return true;
}

static void take_text(const struct lk_frame *f, size_t from, char text[LK_STORE_TEXT_MAX])
{
    snprintf(text, LK_STORE_TEXT_MAX, "%.*s", (int)(f->bytes - from), f->payload + from);
}

/* Refuse a client: it gets the reason, and is disconnected. */
static bool refuse(struct client *c, uint64_t id, enum lk_status st, const char *text)
{
    tell_status(c, LK_MSG_REFUSED, id, st, text);
    c->closing = true;
    return true;
}

/* Say why a process of this host may not join: another user started it, and no secret tells who
 * may.
 * "": it may. */
static void check_user(const struct lk_store_server *s, const struct client *c, char *text,
                       size_t size)
{
    static atomic_flag told = ATOMIC_FLAG_INIT;
    enum lk_net_peer peer;
    uid_t uid = 0;

    if (s->ticket.has_secret)
        return;
    peer = lk_net_peer_user(c->fd, &uid);
    if (peer == LK_PEER_FOUND && uid != geteuid() && uid != 0)
        snprintf(text, size,
                 "the run has no secret, so only processes of its own user may join: see "
                 "--secret-file");
    if (peer == LK_PEER_UNKNOWN && !atomic_flag_test_and_set(&told))
        lk_log(LK_LOG_COMM, LK_WARN,
               "the kernel does not tell whose a connection is (sock_diag), so every user of this "
               "host can join: give all ranks a --secret-file");
}

/* Check what a client says of itself before it has proved anything; "" if all is well. LK_EPEER:
 * another job serves here. */
static enum lk_status check_hello(const struct lk_store_server *s, const struct client *c,
                                  const struct lk_frame *f, char *text, size_t size)
{
    uint64_t rank = lk_wire_get(f->payload + 16, 4), world = lk_wire_get(f->payload + 20, 4);
    const char *job = f->payload + LK_HELLO_BYTES;
    size_t n = f->bytes - LK_HELLO_BYTES;

    text[0] = '\0';
    if (lk_wire_get(f->payload + 8, 8) != LK_STORE_VERSION) {
        snprintf(text, size, "another version of lockstep serves this run's store");
        return LK_EUSAGE;
    }
    if (n && *s->ticket.job && (n != strlen(s->ticket.job) || memcmp(job, s->ticket.job, n) != 0)) {
        snprintf(text, size, "job %s serves this port, and this rank is one of job %.*s",
                 s->ticket.job, (int)n, job);
        return LK_EPEER;
    }
    if (world != (uint64_t)s->world_size)
        snprintf(text, size, "this run has %d ranks, not %u%s", s->world_size, (unsigned)world,
                 strcmp(s->ticket.job, LK_JOB_UNNAMED) == 0
                     ? ". If it is another of this host, name each in " LK_JOB_ENV
                     : "");
    else if (rank >= world)
        snprintf(text, size, "there is no rank %u of %u", (unsigned)rank, (unsigned)world);
    else
        check_user(s, c, text, size);
    return LK_EUSAGE;
}

_Static_assert(LK_HELLO_BYTES + LK_JOB_MAX + LK_NONCE_BYTES + 8 <= LK_JOIN_MAX,
               "a proof covers all that was said");

static bool handle_hello(struct lk_store_server *s, struct client *c, const struct lk_frame *f)
{
    unsigned char nonce[LK_NONCE_BYTES];
    char text[320];
    enum lk_status st;

    if (c->rank >= 0 || c->join_bytes || f->bytes < LK_HELLO_BYTES ||
        f->bytes > LK_HELLO_BYTES + LK_JOB_MAX || lk_wire_get(f->payload, 8) != LK_STORE_MAGIC)
        return false;
    st = check_hello(s, c, f, text, sizeof text);
    if (*text)
        return refuse(c, f->id, st, text);
    if (lk_nonce(nonce) != LK_OK)
        return refuse(c, f->id, LK_EIO, lk_error_text());
    c->timeout_ns = lk_wire_get(f->payload + 24, 8);
    memcpy(c->join, f->payload, f->bytes);
    memcpy(c->join + f->bytes, nonce, sizeof nonce);
    c->join_bytes = f->bytes + sizeof nonce;
    tell(c, LK_MSG_REPLY, f->id, nonce, sizeof nonce, NULL, 0);
    return true;
}

static bool handle_proof(struct lk_store_server *s, struct client *c, const struct lk_frame *f)
{
    unsigned char want[LK_PROOF_BYTES], own[LK_PROOF_BYTES];
    char token[8], text[128];
    uint64_t rank;

    if (c->rank >= 0 || !c->join_bytes || f->bytes != LK_PROOF_BYTES)
        return false;
    lk_ticket_prove(&s->ticket, LK_JOIN_CLIENT, c->join, c->join_bytes, want);
    if (!lk_equal_secret(want, f->payload, sizeof want)) {
        lk_log(LK_LOG_COMM, LK_WARN, "the store refused a connection without the run's secret");
        return refuse(c, f->id, LK_EUSAGE, "this rank's secret is not the run's");
    }
    rank = lk_wire_get(c->join + 16, 4);
    if (s->ranks[rank].state != LK_RANK_ABSENT) {
        snprintf(text, sizeof text, "rank %u is taken by another process", (unsigned)rank);
        return refuse(c, f->id, LK_EUSAGE, text);
    }
    c->rank = (int)rank;
    s->ranks[rank].state = LK_RANK_HERE;
    lk_wire_put(token, s->token, sizeof token);
    memcpy(c->join + c->join_bytes, token, sizeof token);
    lk_ticket_prove(&s->ticket, LK_JOIN_SERVER, c->join, c->join_bytes + sizeof token, own);
    tell(c, LK_MSG_REPLY, f->id, token, sizeof token, own, sizeof own);
    if (s->verdict != LK_OK)
        tell_status(c, LK_MSG_VERDICT, 0, s->verdict, s->verdict_text);
    return true;
}

/* Answer and remove the waiters for this name. */
static void release(struct lk_store_server *s, bool barrier, const char *name, const char *value,
                    size_t bytes)
{
    size_t kept = 0;

    for (size_t i = 0; i < s->n_waiters; i++) {
        struct waiter *w = &s->waiters[i];

        if (w->barrier == barrier && !strcmp(w->name, name))
            tell(w->client, LK_MSG_REPLY, w->id, value, bytes, NULL, 0);
        else
            s->waiters[kept++] = *w;
    }
    s->n_waiters = kept;
}

/* sum (optional): what the client brings to the barrier. */
static void add_waiter(struct lk_store_server *s, struct client *c, uint64_t id, bool barrier,
                       const char *name, const char *sum)
{
    struct waiter *w;

    if (lk_array_grow(&s->waiters, &s->cap_waiters, s->n_waiters + 1, sizeof *w) != LK_OK) {
        tell_status(c, LK_MSG_REFUSED, id, LK_ENOMEM, lk_error_text());
        return;
    }
    w = &s->waiters[s->n_waiters++];
    *w = (struct waiter){.client = c, .id = id, .barrier = barrier};
    if (sum)
        memcpy(w->sum, sum, sizeof w->sum);
    snprintf(w->name, sizeof w->name, "%s", name);
}

static bool handle_set(struct lk_store_server *s, struct client *c, const struct lk_frame *f)
{
    char key[LK_STORE_KEY_MAX + 1];
    size_t n = f->bytes ? (size_t)lk_wire_get(f->payload, 1) : 0;
    const struct lk_store_entry *e = NULL;
    enum lk_status st;

    if (f->bytes < 1 + n || !take_name(f->payload + 1, n, key))
        return false;
    st = lk_store_keys_put(&s->keys, key, f->payload + 1 + n, f->bytes - 1 - n, &e);
    if (st != LK_OK) {
        tell_status(c, LK_MSG_REFUSED, f->id, st, lk_error_text());
        return true;
    }
    tell(c, LK_MSG_REPLY, f->id, NULL, 0, NULL, 0);
    release(s, false, key, e->value, e->bytes);
    return true;
}

static bool handle_get(struct lk_store_server *s, struct client *c, const struct lk_frame *f)
{
    char key[LK_STORE_KEY_MAX + 1];
    const struct lk_store_entry *e;

    if (!take_name(f->payload, f->bytes, key))
        return false;
    e = lk_store_keys_find(&s->keys, key);
    if (e)
        tell(c, LK_MSG_REPLY, f->id, e->value, e->bytes, NULL, 0);
    else
        add_waiter(s, c, f->id, false, key, NULL);
    return true;
}

struct absence {
    const struct lk_store_server *s;
    const char *name;
};

/* Return true if this rank does not wait in the barrier. ctx: struct absence. */
static bool is_absent(const void *ctx, int rank)
{
    const struct absence *a = ctx;

    for (size_t i = 0; i < a->s->n_waiters; i++) {
        const struct waiter *w = &a->s->waiters[i];

        if (w->barrier && w->client->rank == rank && !strcmp(w->name, a->name))
            return false;
    }
    return true;
}

/* Return true if all in the barrier brought the same sum. */
static bool agreed(const struct lk_store_server *s, const char *name)
{
    const char *first = NULL;

    for (size_t i = 0; i < s->n_waiters; i++) {
        const struct waiter *w = &s->waiters[i];

        if (!w->barrier || strcmp(w->name, name) != 0)
            continue;
        first = first ? first : w->sum;
        if (memcmp(first, w->sum, sizeof w->sum) != 0)
            return false;
    }
    return true;
}

/* Let a client wait in a barrier, and all go on once they are there. */
static bool enter(struct lk_store_server *s, struct client *c, const struct lk_frame *f,
                  size_t sum_bytes)
{
    char name[LK_STORE_KEY_MAX + 1], equal;
    struct absence a = {s, name};

    if (f->bytes < sum_bytes || !take_name(f->payload + sum_bytes, f->bytes - sum_bytes, name))
        return false;
    add_waiter(s, c, f->id, true, name, sum_bytes ? f->payload : NULL);
    for (int r = 0; r < s->world_size; r++)
        if (is_absent(&a, r))
            return true;
    equal = agreed(s, name) ? 1 : 0;
    release(s, true, name, &equal, 1);
    return true;
}

static bool handle_barrier(struct lk_store_server *s, struct client *c, const struct lk_frame *f)
{
    return enter(s, c, f, 0);
}

static bool handle_agree(struct lk_store_server *s, struct client *c, const struct lk_frame *f)
{
    return enter(s, c, f, LK_STORE_SUM_BYTES);
}

static bool handle_absent(struct lk_store_server *s, struct client *c, const struct lk_frame *f)
{
    char name[LK_STORE_KEY_MAX + 1], names[256] = "", text[LK_STORE_TEXT_MAX];
    struct absence a = {s, name};

    if (!take_name(f->payload, f->bytes, name))
        return false;
    if (is_absent(&a, c->rank)) /* the barrier opened while this message was on its way */
        return true;
    lk_rank_names(is_absent, &a, s->world_size, names, sizeof names);
    snprintf(text, sizeof text, "%s never arrived at %s within %.1f s", names, name,
             (double)c->timeout_ns / 1e9);
    lk_store_server_decide(s, LK_ETIMEOUT, text);
    return true;
}

/* Decide if a broken connection is that of a rank that left: then the network is not at fault. */
static void decide_if_left(struct lk_store_server *s)
{
    char text[128];

    if (s->pending != PENDING_PEER || s->ranks[s->pending_rank].state != LK_RANK_LEFT)
        return;
    snprintf(text, sizeof text, "rank %d left the run before the others", s->pending_rank);
    lk_store_server_decide(s, LK_EPEER, text);
}

static bool handle_report(struct lk_store_server *s, struct client *c, const struct lk_frame *f)
{
    char text[LK_STORE_TEXT_MAX], verdict[LK_STORE_TEXT_MAX + 64];
    uint64_t why, peer;

    if (f->bytes < 8)
        return false;
    why = lk_wire_get(f->payload, 4);
    peer = lk_wire_get(f->payload + 4, 4);
    take_text(f, 8, text);
    if (s->pending == PENDING_LOST) /* the lost rank is the cause; its verdict comes */
        return true;
    if (peer == LK_STORE_ALL_RANKS) {
        lk_store_server_decide(s, LK_EPEER, text);
    } else if (why == LK_ETIMEOUT) {
        ask_all(s, c->timeout_ns);
    } else if (peer < (uint64_t)s->world_size) {
        snprintf(verdict, sizeof verdict, "rank %d lost the connection to rank %u: %s", c->rank,
                 (unsigned)peer, text);
        lk_store_server_suspect(s, PENDING_PEER, (int)peer, verdict);
        decide_if_left(s);
    } else {
        snprintf(verdict, sizeof verdict, "rank %d failed: %s", c->rank, text);
        lk_store_server_decide(s, LK_EPEER, verdict);
    }
    return true;
}

static bool handle_progress(struct lk_store_server *s, struct client *c, const struct lk_frame *f)
{
    struct lk_rank_view *r = &s->ranks[c->rank];

    if (f->bytes != 9)
        return false;
    r->next = lk_wire_get(f->payload, 8);
    r->inside = lk_wire_get(f->payload + 8, 1) != 0;
    if (r->inside && r->next == 0)
        return false;
    r->answered = true;
    if (!s->asking)
        return true;
    for (int i = 0; i < s->world_size; i++)
        if (s->ranks[i].state == LK_RANK_HERE && !s->ranks[i].answered)
            return true;
    lk_store_server_decide_stall(s);
    return true;
}

static bool handle_clock(struct lk_store_server *s, struct client *c, const struct lk_frame *f)
{
    char now[8];

    (void)s;
    lk_wire_put(now, lk_now_ns(), sizeof now);
    tell(c, LK_MSG_REPLY, f->id, now, sizeof now, NULL, 0);
    return true;
}

static bool handle_bye(struct lk_store_server *s, struct client *c, const struct lk_frame *f)
{
    (void)f;
    s->ranks[c->rank].state = LK_RANK_LEFT;
    c->closing = true;
    decide_if_left(s);
    return true;
}

bool lk_store_server_handle(struct lk_store_server *s, struct client *c, const struct lk_frame *f)
{
    static bool (*const handlers[LK_MSG_COUNT])(struct lk_store_server *, struct client *,
                                                const struct lk_frame *) = {
        [LK_MSG_HELLO] = handle_hello,       [LK_MSG_PROOF] = handle_proof,
        [LK_MSG_SET] = handle_set,           [LK_MSG_GET] = handle_get,
        [LK_MSG_BARRIER] = handle_barrier,   [LK_MSG_AGREE] = handle_agree,
        [LK_MSG_ABSENT] = handle_absent,     [LK_MSG_REPORT] = handle_report,
        [LK_MSG_PROGRESS] = handle_progress, [LK_MSG_CLOCK] = handle_clock,
        [LK_MSG_BYE] = handle_bye,
    };

    if (!handlers[f->type] || (c->rank < 0 && f->type != LK_MSG_HELLO && f->type != LK_MSG_PROOF))
        return false;
    return handlers[f->type](s, c, f);
}
