/*
 * The store's server: one thread, one poll loop.
 *
 * All state is under one mutex, which the thread gives up only inside poll. What a connection sends
 * is not trusted: every length is checked, and whoever breaks the protocol is disconnected, which
 * for a rank means that it is lost.
 */
#include "runtime/store.h"

#include "base/array.h"
#include "base/log.h"
#include "runtime/net.h"
#include "runtime/store_keys.h"
#include "runtime/store_verdict.h"
#include "runtime/store_wire.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

enum {
    STRANGERS_MAX = 64,     /* connections that did not say hello yet */
    HELLO_MS = 10000,       /* and how long they may take over it */
    BACKLOG_MAX = 64 << 20, /* bytes that a client may leave unread */
    LOST_MS = 2000,         /* for the launcher to say how a lost rank died, on a busy machine */
    ASK_MIN_MS = 100,
    ASK_MAX_MS = 3000, /* for ranks to answer; else a quarter of the timeout */
};

struct client {
    int fd;
    int rank; /* -1 before hello */
    struct lk_bytes in, out;
    uint64_t timeout_ns;
    struct lk_deadline hello;
    bool closing; /* disconnect once `out` is sent */
};

/* A client that waits for a key, or in a barrier. */
struct waiter {
    struct client *client;
    uint64_t id;
    bool barrier;
    char name[LK_STORE_KEY_MAX + 1];
};

/* A verdict that waits for better words, in rising order of what is known. */
enum pending { PENDING_NOTHING, PENDING_PEER, PENDING_LOST };

struct lk_store_server {
    pthread_t thread;
    pthread_mutex_t lock;
    int listen_fd, wake_fd, port, world_size;
    uint64_t token;

    struct client **clients;
    size_t n_clients, cap_clients;
    struct pollfd *polls; /* [0] listen, [1] wake, then one a client */
    size_t cap_polls;
    struct waiter *waiters;
    size_t n_waiters, cap_waiters;
    struct lk_store_keys keys;
    struct lk_rank_view *ranks;

    enum lk_status verdict; /* LK_OK: none */
    char verdict_text[LK_STORE_TEXT_MAX];
    enum pending pending;
    int pending_rank; /* whom it is about */
    char pending_text[LK_STORE_TEXT_MAX];
    struct lk_deadline pending_until;
    bool asking;
    struct lk_deadline ask_until;

    bool stopping;
    struct lk_deadline linger;
};

/*
 * ---- what clients are told ----
 */

/* A client that cannot even be told anything is beyond help: it is disconnected. */
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

/* The first verdict is the verdict. */
static void decide(struct lk_store_server *s, enum lk_status status, const char *text)
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

/* A verdict unless something better is heard soon. */
static void suspect(struct lk_store_server *s, enum pending why, int rank, const char *text)
{
    if (s->verdict != LK_OK || why <= s->pending)
        return;
    if (s->pending == PENDING_NOTHING)
        s->pending_until = lk_deadline_in(LOST_MS * LK_NS_PER_MS);
    s->pending = why;
    s->pending_rank = rank;
    snprintf(s->pending_text, sizeof s->pending_text, "%.*s", LK_STORE_TEXT_MAX - 1, text);
}

static void decide_stall(struct lk_store_server *s)
{
    char text[LK_STORE_TEXT_MAX];

    lk_verdict_stall(s->ranks, s->world_size, text, sizeof text);
    decide(s, LK_ETIMEOUT, text);
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

/*
 * ---- requests ----
 */

/* A key or a name as a string of its own; false: not one. */
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

static bool handle_hello(struct lk_store_server *s, struct client *c, const struct lk_frame *f)
{
    char token[8], text[128] = "";
    uint64_t rank, world;

    if (c->rank >= 0 || f->bytes != 32 || lk_wire_get(f->payload, 8) != LK_STORE_MAGIC)
        return false;
    rank = lk_wire_get(f->payload + 16, 4);
    world = lk_wire_get(f->payload + 20, 4);
    if (lk_wire_get(f->payload + 8, 8) != LK_STORE_VERSION)
        snprintf(text, sizeof text, "another version of lockstep serves this run's store");
    else if (world != (uint64_t)s->world_size)
        snprintf(text, sizeof text, "this run has %d ranks, not %u", s->world_size,
                 (unsigned)world);
    else if (rank >= world)
        snprintf(text, sizeof text, "there is no rank %u of %u", (unsigned)rank, (unsigned)world);
    else if (s->ranks[rank].state != LK_RANK_ABSENT)
        snprintf(text, sizeof text, "rank %u is taken by another process", (unsigned)rank);
    if (*text) {
        tell_status(c, LK_MSG_REFUSED, f->id, LK_EUSAGE, text);
        c->closing = true;
        return true;
    }
    c->rank = (int)rank;
    c->timeout_ns = lk_wire_get(f->payload + 24, 8);
    s->ranks[rank].state = LK_RANK_HERE;
    lk_wire_put(token, s->token, sizeof token);
    tell(c, LK_MSG_REPLY, f->id, token, sizeof token, NULL, 0);
    if (s->verdict != LK_OK)
        tell_status(c, LK_MSG_VERDICT, 0, s->verdict, s->verdict_text);
    return true;
}

/* Answers those that wait for this name, and forgets them. */
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

static void add_waiter(struct lk_store_server *s, struct client *c, uint64_t id, bool barrier,
                       const char *name)
{
    struct waiter *w;

    if (lk_array_grow(&s->waiters, &s->cap_waiters, s->n_waiters + 1, sizeof *w) != LK_OK) {
        tell_status(c, LK_MSG_REFUSED, id, LK_ENOMEM, lk_error_text());
        return;
    }
    w = &s->waiters[s->n_waiters++];
    *w = (struct waiter){.client = c, .id = id, .barrier = barrier};
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
        add_waiter(s, c, f->id, false, key);
    return true;
}

struct absence {
    const struct lk_store_server *s;
    const char *name;
};

/* Of `struct absence`: this rank does not wait in the barrier. */
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

static bool handle_barrier(struct lk_store_server *s, struct client *c, const struct lk_frame *f)
{
    char name[LK_STORE_KEY_MAX + 1];
    struct absence a = {s, name};

    if (!take_name(f->payload, f->bytes, name))
        return false;
    add_waiter(s, c, f->id, true, name);
    for (int r = 0; r < s->world_size; r++)
        if (is_absent(&a, r))
            return true;
    release(s, true, name, NULL, 0);
    return true;
}

static bool handle_absent(struct lk_store_server *s, struct client *c, const struct lk_frame *f)
{
    char name[LK_STORE_KEY_MAX + 1], names[256] = "", text[LK_STORE_TEXT_MAX];
    struct absence a = {s, name};

    if (!take_name(f->payload, f->bytes, name))
        return false;
    if (is_absent(&a, c->rank)) /* the barrier opened while this message was on its way */
        return true;
    lk_verdict_names(is_absent, &a, s->world_size, names, sizeof names);
    snprintf(text, sizeof text, "%s never arrived at %s within %.1f s", names, name,
             (double)c->timeout_ns / 1e9);
    decide(s, LK_ETIMEOUT, text);
    return true;
}

/* A connection that broke because its rank is done is no fault of the network. */
static void decide_if_left(struct lk_store_server *s)
{
    char text[128];

    if (s->pending != PENDING_PEER || s->ranks[s->pending_rank].state != LK_RANK_LEFT)
        return;
    snprintf(text, sizeof text, "rank %d left the run before the others", s->pending_rank);
    decide(s, LK_EPEER, text);
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
    if (s->pending == PENDING_LOST) /* that rank is why others fail or wait; its verdict comes */
        return true;
    if (why == LK_ETIMEOUT) {
        ask_all(s, c->timeout_ns);
    } else if (peer < (uint64_t)s->world_size) {
        snprintf(verdict, sizeof verdict, "rank %d lost the connection to rank %u: %s", c->rank,
                 (unsigned)peer, text);
        suspect(s, PENDING_PEER, (int)peer, verdict);
        decide_if_left(s);
    } else {
        snprintf(verdict, sizeof verdict, "rank %d failed: %s", c->rank, text);
        decide(s, LK_EPEER, verdict);
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
    decide_stall(s);
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

/* A message to its handler; false: this is not the protocol. */
static bool handle(struct lk_store_server *s, struct client *c, const struct lk_frame *f)
{
    static bool (*const handlers[LK_MSG_COUNT])(struct lk_store_server *, struct client *,
                                                const struct lk_frame *) = {
        [LK_MSG_HELLO] = handle_hello,       [LK_MSG_SET] = handle_set,
        [LK_MSG_GET] = handle_get,           [LK_MSG_BARRIER] = handle_barrier,
        [LK_MSG_ABSENT] = handle_absent,     [LK_MSG_REPORT] = handle_report,
        [LK_MSG_PROGRESS] = handle_progress, [LK_MSG_CLOCK] = handle_clock,
        [LK_MSG_BYE] = handle_bye,
    };

    if (!handlers[f->type] || (c->rank < 0 && f->type != LK_MSG_HELLO))
        return false;
    return handlers[f->type](s, c, f);
}

/*
 * ---- connections ----
 */
static void drop(struct lk_store_server *s, size_t i)
{
    struct client *c = s->clients[i];
    size_t kept = 0;

    if (c->rank >= 0 && s->ranks[c->rank].state == LK_RANK_HERE) {
        char text[128];

        s->ranks[c->rank].state = LK_RANK_LOST;
        snprintf(text, sizeof text, "rank %d ended without a word: its connection closed", c->rank);
        suspect(s, PENDING_LOST, c->rank, text);
    }
    for (size_t w = 0; w < s->n_waiters; w++)
        if (s->waiters[w].client != c)
            s->waiters[kept++] = s->waiters[w];
    s->n_waiters = kept;
    close(c->fd);
    lk_bytes_fini(&c->in);
    lk_bytes_fini(&c->out);
    free(c);
    s->clients[i] = s->clients[--s->n_clients];
}

static enum lk_status admit(struct lk_store_server *s, int fd)
{
    enum lk_status st = LK_OK;
    struct client *c = NULL;

    LK_TRY(lk_array_grow(&s->clients, &s->cap_clients, s->n_clients + 1, sizeof(struct client *)));
    LK_TRY(lk_alloc(&c, 1, sizeof *c));
    *c = (struct client){.fd = fd, .rank = -1};
    c->hello = lk_deadline_in(HELLO_MS * LK_NS_PER_MS);
    s->clients[s->n_clients++] = c;
out:
    return st;
}

static void accept_all(struct lk_store_server *s)
{
    for (;;) {
        size_t strangers = 0;
        int fd = -1;

        for (size_t i = 0; i < s->n_clients; i++)
            strangers += s->clients[i]->rank < 0;
        if (lk_net_accept(s->listen_fd, &fd) != LK_OK || fd < 0)
            return;
        if (strangers >= STRANGERS_MAX + (size_t)s->world_size || admit(s, fd) != LK_OK)
            close(fd);
    }
}

/* Serves one connection; false: it is to be dropped. */
static bool serve(struct lk_store_server *s, struct client *c)
{
    bool open = lk_bytes_recv(&c->in, c->fd) == LK_OK;
    bool whole = true;

    while (whole && !c->closing) { /* also what came before the end of the stream */
        struct lk_frame f;

        if (lk_frame_take(&c->in, &f, &whole) != LK_OK || (whole && !handle(s, c, &f)))
            return false;
    }
    return open;
}

/* Sends what is queued; false: the connection is to be dropped. */
static bool flush(struct client *c)
{
    if (lk_bytes_send(&c->out, c->fd) != LK_OK)
        return false;
    if (c->rank < 0 && !lk_deadline_left_ns(c->hello))
        return false;
    return !c->closing || c->out.at < c->out.n;
}

static struct lk_deadline sooner(struct lk_deadline a, struct lk_deadline b)
{
    return a.at_ns < b.at_ns ? a : b;
}

/* Acts on what is due. */
static void run_timers(struct lk_store_server *s)
{
    if (s->pending != PENDING_NOTHING && !lk_deadline_left_ns(s->pending_until))
        decide(s, LK_EPEER, s->pending_text);
    if (s->asking && !lk_deadline_left_ns(s->ask_until))
        decide_stall(s);
}

static struct lk_deadline next_timer(const struct lk_store_server *s)
{
    struct lk_deadline next = {UINT64_MAX};

    if (s->pending != PENDING_NOTHING)
        next = sooner(next, s->pending_until);
    if (s->asking)
        next = sooner(next, s->ask_until);
    for (size_t i = 0; i < s->n_clients; i++)
        if (s->clients[i]->rank < 0)
            next = sooner(next, s->clients[i]->hello);
    if (s->stopping)
        next = sooner(next, s->linger);
    return next;
}

static bool may_stop(const struct lk_store_server *s)
{
    if (!s->stopping)
        return false;
    if (!lk_deadline_left_ns(s->linger))
        return true;
    for (size_t i = 0; i < s->n_clients; i++)
        if (s->clients[i]->rank >= 0)
            return false;
    return true;
}

/* Flushes, drops who is gone, and lists what to poll for. */
static enum lk_status prepare_polls(struct lk_store_server *s, size_t *out_n)
{
    enum lk_status st;

    for (size_t i = 0; i < s->n_clients;) {
        if (flush(s->clients[i]))
            i++;
        else
            drop(s, i);
    }
    st = lk_array_grow(&s->polls, &s->cap_polls, s->n_clients + 2, sizeof *s->polls);
    if (st != LK_OK)
        return st;
    s->polls[0] = (struct pollfd){.fd = s->listen_fd, .events = POLLIN};
    s->polls[1] = (struct pollfd){.fd = s->wake_fd, .events = POLLIN};
    for (size_t i = 0; i < s->n_clients; i++) {
        const struct client *c = s->clients[i];
        short out = c->out.at < c->out.n ? POLLOUT : 0;

        s->polls[i + 2] = (struct pollfd){.fd = c->fd, .events = (short)(POLLIN | out)};
    }
    *out_n = s->n_clients;
    return LK_OK;
}

static void *serve_thread(void *arg)
{
    struct lk_store_server *s = arg;

    pthread_mutex_lock(&s->lock);
    for (;;) {
        struct lk_deadline next;
        uint64_t ignored;
        size_t n = 0;

        run_timers(s);
        if (prepare_polls(s, &n) != LK_OK) {
            lk_log(LK_LOG_COMM, LK_ERROR, "store: %s", lk_error_text());
            break;
        }
        if (may_stop(s)) /* asked after clients were dropped, not before: nothing else wakes us */
            break;
        next = next_timer(s);
        pthread_mutex_unlock(&s->lock);
        (void)poll(s->polls, n + 2, lk_deadline_poll_ms(next));
        pthread_mutex_lock(&s->lock);
        if (s->polls[1].revents && read(s->wake_fd, &ignored, sizeof ignored) < 0 &&
            errno != EAGAIN)
            lk_log(LK_LOG_COMM, LK_WARN, "store: eventfd: %s", strerror(errno));
        /* Downwards: dropping one moves the last one into its place. */
        for (size_t i = n; i-- > 0;)
            if (s->polls[i + 2].revents && !serve(s, s->clients[i]))
                drop(s, i);
        if (s->polls[0].revents)
            accept_all(s);
    }
    while (s->n_clients) {
        (void)flush(s->clients[0]);
        drop(s, 0);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* Starts the thread with every signal blocked: they are for the program's own threads. */
static enum lk_status start_thread(struct lk_store_server *s)
{
    sigset_t all, before;
    int rc;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&s->thread, NULL, serve_thread, s);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc ? lk_fail(LK_ENOMEM, "cannot start the store's thread: %s", strerror(rc)) : LK_OK;
}

static void free_server(struct lk_store_server *s)
{
    lk_store_keys_fini(&s->keys);
    if (s->listen_fd >= 0)
        close(s->listen_fd);
    if (s->wake_fd >= 0)
        close(s->wake_fd);
    pthread_mutex_destroy(&s->lock);
    free(s->clients);
    free(s->waiters);
    free(s->polls);
    free(s->ranks);
    free(s);
}

enum lk_status lk_store_serve(const char *host, int port, int world_size,
                              struct lk_store_server **out)
{
    enum lk_status st = LK_OK;
    struct lk_store_server *s = NULL;

    if (world_size < 1)
        return lk_fail(LK_EUSAGE, "a run of %d ranks", world_size);
    LK_TRY(lk_alloc(&s, 1, sizeof *s));
    s->listen_fd = s->wake_fd = -1;
    s->world_size = world_size;
    pthread_mutex_init(&s->lock, NULL);
    LK_TRY(lk_alloc(&s->ranks, (size_t)world_size, sizeof *s->ranks));
    if (getrandom(&s->token, sizeof s->token, 0) != sizeof s->token) {
        st = lk_fail(LK_EIO, "no random numbers: %s", strerror(errno));
        goto out;
    }
    s->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (s->wake_fd < 0) {
        st = lk_fail(LK_EIO, "eventfd: %s", strerror(errno));
        goto out;
    }
    LK_TRY(lk_net_listen(host, port, world_size + STRANGERS_MAX, &s->listen_fd, &s->port));
    LK_TRY(start_thread(s));
    *out = s;
    s = NULL;
out:
    if (s)
        free_server(s);
    return st;
}

int lk_store_server_port(const struct lk_store_server *s)
{
    return s->port;
}

/* Ends the thread's poll. The counter cannot overflow: the thread reads it to 0. */
static void wake(struct lk_store_server *s)
{
    uint64_t one = 1;

    if (write(s->wake_fd, &one, sizeof one) < 0)
        lk_log(LK_LOG_COMM, LK_WARN, "store: eventfd: %s", strerror(errno));
}

void lk_store_server_fail(struct lk_store_server *s, const char *text)
{
    pthread_mutex_lock(&s->lock);
    decide(s, LK_EPEER, text);
    pthread_mutex_unlock(&s->lock);
    wake(s);
}

void lk_store_server_rank_died(struct lk_store_server *s, int rank, const char *how)
{
    char text[LK_STORE_TEXT_MAX];

    snprintf(text, sizeof text, "rank %d %s", rank, how);
    lk_store_server_fail(s, text);
}

bool lk_store_server_verdict(struct lk_store_server *s, char *buf, size_t size)
{
    bool there;

    pthread_mutex_lock(&s->lock);
    there = s->verdict != LK_OK;
    if (there)
        snprintf(buf, size, "%s", s->verdict_text);
    pthread_mutex_unlock(&s->lock);
    return there;
}

void lk_store_server_stop(struct lk_store_server *s, uint64_t linger_ns)
{
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    s->stopping = true;
    s->linger = lk_deadline_in(linger_ns);
    pthread_mutex_unlock(&s->lock);
    wake(s);
    pthread_join(s->thread, NULL);
    free_server(s);
}
