/* The store's client. Requests carry an id; a thread that waits reads what arrives and hands
 * replies to the requests they belong to, its own or another thread's. */
#include "runtime/rendezvous/store.h"

#include "base/array.h"
#include "runtime/rendezvous/net.h"
#include "runtime/rendezvous/store_wire.h"
#include "runtime/rendezvous/ticket.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    WAIT_SLICE_MS = 20,    /* another thread may have read our reply: check again after this */
    BYE_MS = 1000,         /* limit for sending the goodbye */
    VERDICT_MS = 5000,     /* for the server's decision, after its questions to the ranks */
    FIND_CONNECT_MS = 300, /* for one of several ports to be there, */
    FIND_ANSWER_MS = 3000, /* and for what is there to answer */
};

/* A request in flight; lives on the stack of its thread. */
struct request {
    struct request *next;
    uint64_t id;
    bool done;
    enum lk_status status; /* once done */
    char *data;            /* malloced; the value, or the refusal's text */
    size_t bytes;
};

struct lk_store {
    int fd, rank, world_size;
    uint64_t timeout_ns, token;
    struct lk_ticket ticket;
    char where[300];           /* host:port, for messages */
    _Atomic uint64_t position; /* 2n: between collectives n-1 and n; 2n+1: inside n */
    _Atomic uint64_t next_thing;

    pthread_mutex_t lock; /* guards all below */
    struct lk_bytes in, out;
    struct request *requests;
    uint64_t next_id;
    enum lk_status verdict; /* LK_OK: none; sticks */
    char verdict_text[LK_STORE_TEXT_MAX + 64];
};

/* Return the run's verdict, or LK_OK. pre: locked; so for all static functions below unless they
 * say otherwise. */
static enum lk_status verdict(const struct lk_store *s)
{
    return s->verdict == LK_OK ? LK_OK : lk_fail(s->verdict, "%s", s->verdict_text);
}

/* Return true once there is a verdict. Not locked on entry. */
static bool decided(struct lk_store *s)
{
    bool yes;

    pthread_mutex_lock(&s->lock);
    yes = s->verdict != LK_OK;
    pthread_mutex_unlock(&s->lock);
    return yes;
}

static void set_verdict(struct lk_store *s, enum lk_status status, const char *text, size_t n)
{
    if (s->verdict != LK_OK)
        return;
    s->verdict = status;
    snprintf(s->verdict_text, sizeof s->verdict_text, "%.*s", (int)n, text);
}

/* Make the loss of the server this rank's verdict: the run is over for it. */
static enum lk_status lost_server(struct lk_store *s, const char *why)
{
    char text[LK_STORE_TEXT_MAX];

    snprintf(text, sizeof text, "the run's store at %s is gone: %.128s", s->where, why);
    set_verdict(s, LK_EPEER, text, strlen(text));
    return verdict(s);
}

static enum lk_status flush(struct lk_store *s)
{
    return lk_bytes_send(&s->out, s->fd) == LK_OK ? LK_OK : lost_server(s, lk_error_text());
}

static enum lk_status answer_progress(struct lk_store *s)
{
    uint64_t position = atomic_load(&s->position);
    char p[9];
    enum lk_status st;

    lk_wire_put(p, (position + 1) / 2, 8); /* collectives entered so far */
    lk_wire_put(p + 8, position % 2, 1);
    st = lk_frame_put(&s->out, LK_MSG_PROGRESS, 0, p, sizeof p, NULL, 0);
    return st == LK_OK ? flush(s) : st;
}

/* Parse a frame's status and text: how the request, or the run, failed. */
static enum lk_status frame_status(const struct lk_frame *f, const char **text, size_t *n)
{
    uint64_t status = f->bytes >= 4 ? lk_wire_get(f->payload, 4) : LK_EINTERNAL;

    *text = f->bytes >= 4 ? f->payload + 4 : "";
    *n = f->bytes >= 4 ? f->bytes - 4 : 0;
    return status > LK_OK && status <= LK_EINTERNAL ? (enum lk_status)status : LK_EINTERNAL;
}

static enum lk_status give_reply(struct lk_store *s, const struct lk_frame *f)
{
    for (struct request *r = s->requests; r; r = r->next) {
        const char *data = f->payload;
        size_t n = f->bytes;

        if (r->id != f->id || r->done)
            continue;
        r->status = f->type == LK_MSG_REFUSED ? frame_status(f, &data, &n) : LK_OK;
        LK_PASS(lk_alloc(&r->data, n + 1, 1));
        if (n)
            memcpy(r->data, data, n);
        r->bytes = n;
        r->done = true;
        return LK_OK;
    }
    return LK_OK; /* reply to a request that gave up waiting */
}

/* Read and handle what has arrived, without waiting. */
static enum lk_status pump(struct lk_store *s)
{
    enum lk_status received = lk_bytes_recv(&s->in, s->fd);
    char why[128];
    bool whole = true;

    snprintf(why, sizeof why, "%s", received == LK_OK ? "" : lk_error_text());
    while (whole) {
        struct lk_frame f;
        const char *text;
        size_t n;
        enum lk_status st = lk_frame_take(&s->in, &f, &whole), status;

        if (st != LK_OK)
            return lost_server(s, lk_error_text());
        if (!whole)
            break;
        if (f.type == LK_MSG_ASK) {
            st = answer_progress(s);
        } else if (f.type == LK_MSG_VERDICT) {
            status = frame_status(&f, &text, &n);
            set_verdict(s, status, text, n);
        } else {
            st = give_reply(s, &f);
        }
        if (st != LK_OK)
            return st;
    }
    return received == LK_OK ? flush(s) : lost_server(s, why);
}

static void forget(struct lk_store *s, const struct request *r)
{
    for (struct request **p = &s->requests; *p; p = &(*p)->next)
        if (*p == r) {
            *p = r->next;
            return;
        }
}

/* Do one pass of a wait: handle what has arrived, then, unless done, poll unlocked. LK_OK with
 * *out_done false: call again. Not locked on entry. */
static enum lk_status wait_once(struct lk_store *s, const bool *done, struct lk_deadline deadline,
                                bool *out_done)
{
    struct pollfd p = {.fd = s->fd, .events = POLLIN};
    enum lk_status st;
    int ms = lk_deadline_poll_ms(deadline);

    pthread_mutex_lock(&s->lock);
    st = pump(s);
    if (st == LK_OK && !*done)
        st = verdict(s);
    *out_done = *done;
    p.events = (short)(s->out.at < s->out.n ? POLLIN | POLLOUT : POLLIN);
    pthread_mutex_unlock(&s->lock);
    if (st != LK_OK || *out_done)
        return st;
    if (!lk_deadline_left_ns(deadline))
        return lk_fail(LK_ETIMEOUT, "deadline passed");
    if (ms < 0 || ms > WAIT_SLICE_MS)
        ms = WAIT_SLICE_MS;
    if (poll(&p, 1, ms) < 0 && errno != EINTR)
        return lk_fail(LK_EIO, "poll: %s", strerror(errno));
    return LK_OK;
}

static enum lk_status wait_done(struct lk_store *s, const bool *done, struct lk_deadline deadline)
{
    enum lk_status st = LK_OK;
    bool ready = false;

    while (st == LK_OK && !ready)
        st = wait_once(s, done, deadline, &ready);
    return st;
}

/* Send a request and wait for its reply, which the caller frees. Not locked on entry. */
static enum lk_status ask(struct lk_store *s, enum lk_msg type, const void *head, size_t n_head,
                          const void *tail, size_t n_tail, struct lk_deadline deadline, char **out,
                          size_t *out_bytes)
{
    struct request r = {0};
    enum lk_status st;

    pthread_mutex_lock(&s->lock);
    st = verdict(s);
    if (st == LK_OK) {
        r.id = ++s->next_id;
        r.next = s->requests;
        s->requests = &r;
        st = lk_frame_put(&s->out, type, r.id, head, n_head, tail, n_tail);
    }
    if (st == LK_OK)
        st = flush(s);
    pthread_mutex_unlock(&s->lock);
    if (st == LK_OK)
        st = wait_done(s, &r.done, deadline);
    pthread_mutex_lock(&s->lock);
    forget(s, &r);
    pthread_mutex_unlock(&s->lock);
    if (st == LK_OK && r.status != LK_OK)
        st = lk_fail(r.status, "%s", r.data);
    if (st != LK_OK || !out) {
        free(r.data);
        return st;
    }
    *out = r.data;
    *out_bytes = r.bytes;
    return LK_OK;
}

/* A process of this host that serves without a secret has to be this user's, or root's. */
static enum lk_status check_user(const struct lk_store *s)
{
    uid_t uid;

    if (s->ticket.has_secret || lk_net_peer_user(s->fd, &uid) != LK_PEER_FOUND ||
        uid == geteuid() || uid == 0)
        return LK_OK;
    return lk_fail(LK_EUSAGE, "another user serves there; a run of several users needs a secret "
                              "(--secret-file)");
}

/* Introduce this rank, prove that it knows the secret, and have the server prove it. */
static enum lk_status hello(struct lk_store *s, struct lk_deadline deadline)
{
    enum lk_status st;
    unsigned char nonce[LK_NONCE_BYTES], proof[LK_PROOF_BYTES];
    char h[LK_JOIN_MAX], *answer = NULL;
    size_t job = strlen(s->ticket.job), n = 0, at = LK_HELLO_BYTES + job;

    LK_TRY(check_user(s));
    LK_TRY(lk_nonce(nonce));
    lk_wire_put(h, LK_STORE_MAGIC, 8);
    lk_wire_put(h + 8, LK_STORE_VERSION, 8);
    lk_wire_put(h + 16, (uint64_t)s->rank, 4);
    lk_wire_put(h + 20, (uint64_t)s->world_size, 4);
    lk_wire_put(h + 24, s->timeout_ns, 8);
    memcpy(h + 32, nonce, sizeof nonce);
    memcpy(h + LK_HELLO_BYTES, s->ticket.job, job);
    LK_TRY(ask(s, LK_MSG_HELLO, h, at, NULL, 0, deadline, &answer, &n));
    if (n != LK_NONCE_BYTES)
        LK_TRY(lk_fail(LK_EPARSE, "what listens there is not a store"));
    memcpy(h + at, answer, n);
    at += n;
    free(answer);
    answer = NULL;
    lk_ticket_prove(&s->ticket, LK_JOIN_CLIENT, h, at, proof);
    LK_TRY(ask(s, LK_MSG_PROOF, proof, sizeof proof, NULL, 0, deadline, &answer, &n));
    if (n != 8 + LK_PROOF_BYTES)
        LK_TRY(lk_fail(LK_EPARSE, "what listens there is not a store"));
    memcpy(h + at, answer, 8);
    lk_ticket_prove(&s->ticket, LK_JOIN_SERVER, h, at + 8, proof);
    if (!lk_equal_secret(proof, answer + 8, sizeof proof))
        LK_TRY(lk_fail(LK_EUSAGE, "what serves there does not know this run's secret"));
    s->token = lk_wire_get(answer, 8);
out:
    free(answer);
    return st;
}

static void free_store(struct lk_store *s)
{
    if (s->fd >= 0)
        close(s->fd);
    pthread_mutex_destroy(&s->lock);
    lk_bytes_fini(&s->in);
    lk_bytes_fini(&s->out);
    free(s);
}

/* Connect to one port and introduce the rank. */
static enum lk_status join(const struct lk_store *as, const char *host, int port,
                           struct lk_deadline deadline, struct lk_deadline answer,
                           struct lk_store **out)
{
    enum lk_status st = LK_OK;
    struct lk_store *s = NULL;

    LK_TRY(lk_alloc(&s, 1, sizeof *s));
    *s = *as;
    s->fd = -1;
    pthread_mutex_init(&s->lock, NULL);
    snprintf(s->where, sizeof s->where, "%s:%d", host, port);
    LK_TRY(lk_net_connect(host, port, deadline, &s->fd));
    LK_TRY(hello(s, answer));
    LK_HAND_OVER(out, s);
out:
    if (s)
        free_store(s);
    return lk_fail_context(st, "cannot join the run at %s:%d as rank %d", host, port, as->rank);
}

enum lk_status lk_store_find(const char *host, const int *ports, int n, int rank, int world_size,
                             uint64_t timeout_ns, const struct lk_ticket *ticket,
                             struct lk_store **out)
{
    struct lk_store as = {.rank = rank, .world_size = world_size, .timeout_ns = timeout_ns};
    struct lk_deadline deadline = lk_deadline_in(timeout_ns);
    enum lk_status st;

    if (rank < 0 || rank >= world_size)
        return lk_fail(LK_EUSAGE, "there is no rank %d of %d", rank, world_size);
    if (ticket)
        as.ticket = *ticket;
    if (n == 1)
        return join(&as, host, ports[0], deadline, deadline, out);
    for (int i = 0;; i = (i + 1) % n) {
        struct lk_deadline connect = lk_deadline_in(FIND_CONNECT_MS * LK_NS_PER_MS);
        struct lk_deadline answer = lk_deadline_in(FIND_ANSWER_MS * LK_NS_PER_MS);

        st = join(&as, host, ports[i], connect, answer, out);
        /* Nobody, not a store, or another job's: the next port. Our own store's refusal stays. */
        if (st == LK_OK || st == LK_EUSAGE || !lk_deadline_left_ns(deadline))
            return st;
    }
}

enum lk_status lk_store_connect(const char *host, int port, int rank, int world_size,
                                uint64_t timeout_ns, const struct lk_ticket *ticket,
                                struct lk_store **out)
{
    return lk_store_find(host, &port, 1, rank, world_size, timeout_ns, ticket, out);
}

void lk_store_close(struct lk_store *s)
{
    struct lk_deadline deadline = lk_deadline_in(BYE_MS * LK_NS_PER_MS);
    struct lk_saved_error_ saved;

    if (!s)
        return;
    lk_error_save_(&saved);
    if (lk_frame_put(&s->out, LK_MSG_BYE, 0, NULL, 0, NULL, 0) == LK_OK)
        while (lk_bytes_send(&s->out, s->fd) == LK_OK && s->out.at < s->out.n &&
               lk_net_wait(s->fd, POLLOUT, deadline) == LK_OK)
            ;
    lk_error_restore_(&saved);
    free_store(s);
}

static enum lk_status check_name(const char *name)
{
    size_t n = strlen(name);

    if (n == 0 || n > LK_STORE_KEY_MAX)
        return lk_fail(LK_EUSAGE, "a key of %zu bytes (1 to %d are allowed)", n, LK_STORE_KEY_MAX);
    return LK_OK;
}

enum lk_status lk_store_set(struct lk_store *s, const char *key, const void *value, size_t size)
{
    char head[1 + LK_STORE_KEY_MAX + 1];
    size_t n = strlen(key);

    LK_PASS(check_name(key));
    if (size > LK_STORE_VALUE_MAX)
        return lk_fail(LK_EUSAGE, "a value of %zu bytes (at most %d are allowed)", size,
                       LK_STORE_VALUE_MAX);
    lk_wire_put(head, n, 1);
    memcpy(head + 1, key, n + 1);
    return ask(s, LK_MSG_SET, head, 1 + n, value, size, lk_deadline_in(s->timeout_ns), NULL, NULL);
}

enum lk_status lk_store_set_text(struct lk_store *s, const char *key, const char *text, size_t size)
{
    char part[LK_STORE_KEY_MAX + 1], total[32];
    size_t n, i = 0;

    for (size_t at = 0; at < size; at += n) {
        n = size - at < LK_STORE_VALUE_MAX ? size - at : LK_STORE_VALUE_MAX;
        snprintf(part, sizeof part, LK_STORE_PART, key, i++);
        LK_PASS(lk_store_set(s, part, text + at, n));
    }
    snprintf(total, sizeof total, "%zu", size);
    return lk_store_set(s, key, total, strlen(total));
}

enum lk_status lk_store_get(struct lk_store *s, const char *key, void **out, size_t *out_size)
{
    enum lk_status st;
    char *data = NULL;

    LK_PASS(check_name(key));
    st = ask(s, LK_MSG_GET, key, strlen(key), NULL, 0, lk_deadline_in(s->timeout_ns), &data,
             out_size);
    if (st == LK_ETIMEOUT && !decided(s))
        return lk_fail(st, "no rank set '%s' within %.1f s", key, (double)s->timeout_ns / 1e9);
    if (st == LK_OK)
        *out = data;
    return st;
}

/* Wait for the verdict that must come, and return it. Not locked on entry. */
static enum lk_status await_verdict(struct lk_store *s)
{
    struct lk_deadline deadline = lk_deadline_in(s->timeout_ns / 4 + VERDICT_MS * LK_NS_PER_MS);
    const bool never = false;
    enum lk_status st = wait_done(s, &never, deadline);

    if (st == LK_ETIMEOUT) {
        pthread_mutex_lock(&s->lock);
        st = s->verdict == LK_OK ? lost_server(s, "no answer") : verdict(s);
        pthread_mutex_unlock(&s->lock);
    }
    return st;
}

/* Send a message that has no reply. Not locked on entry. */
static enum lk_status tell(struct lk_store *s, enum lk_msg type, const void *head, size_t n_head,
                           const void *tail, size_t n_tail)
{
    enum lk_status st;

    pthread_mutex_lock(&s->lock);
    st = verdict(s);
    if (st == LK_OK)
        st = lk_frame_put(&s->out, type, 0, head, n_head, tail, n_tail);
    if (st == LK_OK)
        st = flush(s);
    pthread_mutex_unlock(&s->lock);
    return st;
}

/* Wait in a barrier, to which a rank may bring a sum (NULL: none). *out_equal: all brought the
 * same. Not locked on entry. */
static enum lk_status enter(struct lk_store *s, const char *name, const char *sum, bool *out_equal)
{
    struct lk_deadline deadline = lk_deadline_in(s->timeout_ns);
    enum lk_status st;
    char *reply = NULL;
    size_t n = 0;

    LK_PASS(check_name(name));
    st = ask(s, sum ? LK_MSG_AGREE : LK_MSG_BARRIER, sum, sum ? LK_STORE_SUM_BYTES : 0, name,
             strlen(name), deadline, &reply, &n);
    *out_equal = st == LK_OK && n == 1 && reply[0] == 1;
    if (st == LK_OK)
        free(reply);
    if (st != LK_ETIMEOUT)
        return st;
    /* LK_ETIMEOUT is our own deadline or a verdict about a stall; the second call distinguishes
     * them. */
    st = tell(s, LK_MSG_ABSENT, name, strlen(name), NULL, 0);
    return st == LK_OK ? await_verdict(s) : st;
}

enum lk_status lk_store_barrier(struct lk_store *s, const char *name)
{
    bool equal;

    return enter(s, name, NULL, &equal);
}

enum lk_status lk_store_agree(struct lk_store *s, const char *name, const uint64_t sum[2],
                              bool *out_equal)
{
    char bytes[LK_STORE_SUM_BYTES];

    lk_wire_put(bytes, sum[0], 8);
    lk_wire_put(bytes + 8, sum[1], 8);
    return enter(s, name, bytes, out_equal);
}

int lk_store_fd(const struct lk_store *s)
{
    return s->fd;
}

enum lk_status lk_store_check(struct lk_store *s)
{
    enum lk_status st;

    /* If another thread has the lock, it is reading; the next check will see the outcome. */
    if (pthread_mutex_trylock(&s->lock))
        return LK_OK;
    st = pump(s);
    if (st == LK_OK)
        st = verdict(s);
    pthread_mutex_unlock(&s->lock);
    return st;
}

void lk_store_progress(struct lk_store *s, uint64_t seq, bool entered)
{
    atomic_store_explicit(&s->position, 2 * seq + (entered ? 1 : 2), memory_order_release);
}

static enum lk_status report(struct lk_store *s, enum lk_status why, uint32_t peer,
                             const char *text)
{
    char head[8], own[LK_STORE_TEXT_MAX + 1];
    size_t n = strnlen(text, LK_STORE_TEXT_MAX);
    enum lk_status st;

    memcpy(own, text, n); /* text may be that of the error, which the verdict overwrites */
    own[n] = '\0';

    lk_wire_put(head, (uint64_t)why, 4);
    lk_wire_put(head + 4, peer, 4);
    st = tell(s, LK_MSG_REPORT, head, sizeof head, own, n);
    if (st == LK_OK)
        st = await_verdict(s);
    return strstr(own, lk_error_text()) ? lk_fail(st, "%s", own) : st;
}

enum lk_status lk_store_report(struct lk_store *s, enum lk_status why, const char *text)
{
    return report(s, why, LK_STORE_NO_PEER, text);
}

enum lk_status lk_store_report_peer(struct lk_store *s, int peer, const char *text)
{
    return report(s, LK_EPEER, (uint32_t)peer, text);
}

enum lk_status lk_store_report_all(struct lk_store *s, const char *text)
{
    return report(s, LK_EPEER, LK_STORE_ALL_RANKS, text);
}

void lk_store_prove(const struct lk_store *s, const char *label, const void *data, size_t n,
                    unsigned char *out)
{
    unsigned char all[LK_JOIN_MAX] = {0};

    if (n > sizeof all - sizeof s->token) /* callers' data are short */
        n = 0;
    memcpy(all, &s->token, sizeof s->token);
    memcpy(all + sizeof s->token, data, n);
    lk_ticket_prove(&s->ticket, label, all, sizeof s->token + n, out);
}

uint64_t lk_store_next_id(struct lk_store *s)
{
    return atomic_fetch_add(&s->next_thing, 1);
}

enum lk_status lk_store_clock(struct lk_store *s, size_t n, struct lk_clock_sample *out)
{
    for (size_t i = 0; i < n; i++) {
        enum lk_status st;
        char *reply = NULL;
        size_t bytes = 0;
        uint64_t sent_ns = lk_now_ns();

        st = ask(s, LK_MSG_CLOCK, NULL, 0, NULL, 0, lk_deadline_in(s->timeout_ns), &reply, &bytes);
        if (st == LK_OK && bytes != 8)
            st = lk_fail(LK_EPARSE, "the store's clock is %zu bytes", bytes);
        if (st == LK_OK)
            out[i] = (struct lk_clock_sample){sent_ns, lk_wire_get(reply, 8), lk_now_ns()};
        free(reply);
        if (st != LK_OK)
            return st;
    }
    return LK_OK;
}
