/*
 * The store's server: one thread, one poll loop.
 *
 * One mutex guards all state; the thread releases it only inside poll.
 */
#include "runtime/rendezvous/store_server_impl.h"

#include "base/array.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/thread.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

enum {
    STRANGERS_MAX = 64, /* connections that have proved nothing yet */
    HELLO_MS = 10000,   /* time they have for it */
    SPARE_FILES = 1,    /* descriptors beside those of the ranks */
    RETRY_MS = 20,      /* pause where no connection can be accepted */
};

/* ---- connections ---- */

static void drop(struct lk_store_server *s, size_t i)
{
    struct client *c = s->clients[i];
    size_t kept = 0;

    if (c->rank >= 0 && s->ranks[c->rank].state == LK_RANK_HERE) {
        char text[192], address[64];
        bool known = lk_net_other_host(c->fd, address, sizeof address);

        s->ranks[c->rank].state = LK_RANK_LOST;
        snprintf(text, sizeof text, "rank %d%s%s ended without a word: its connection closed",
                 c->rank, known ? " at " : "", known ? address : "");
        lk_store_server_suspect(s, PENDING_LOST, c->rank, text);
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
    struct client *c = NULL;

    LK_PASS(lk_array_grow(&s->clients, &s->cap_clients, s->n_clients + 1, sizeof(struct client *)));
    LK_PASS(lk_alloc(&c, 1, sizeof *c));
    *c = (struct client){.fd = fd, .rank = -1};
    c->hello = lk_deadline_in(HELLO_MS * LK_NS_PER_MS);
    s->clients[s->n_clients++] = c;
    return LK_OK;
}

/* Drop the connection that has proved nothing for the longest time. Return false if there is none.
 */
static bool drop_oldest_stranger(struct lk_store_server *s)
{
    size_t oldest = s->n_clients;

    for (size_t i = 0; i < s->n_clients; i++)
        if (s->clients[i]->rank < 0 &&
            (oldest == s->n_clients ||
             s->clients[i]->hello.at_ns < s->clients[oldest]->hello.at_ns))
            oldest = i;
    if (oldest == s->n_clients)
        return false;
    drop(s, oldest);
    return true;
}

/* Accept all who wait. Ranks prove themselves at once: where strangers fill the room, or the
 * process has no descriptors left, the oldest of them makes way. */
static void accept_all(struct lk_store_server *s)
{
    for (;;) {
        size_t strangers = 0;
        int fd = -1;

        for (size_t i = 0; i < s->n_clients; i++)
            strangers += s->clients[i]->rank < 0;
        if (strangers >= STRANGERS_MAX + (size_t)s->world_size)
            (void)drop_oldest_stranger(s);
        if (lk_net_accept(s->listen_fd, &fd) != LK_OK) {
            if (drop_oldest_stranger(s))
                continue;
            lk_log(LK_LOG_COMM, LK_WARN, "store: %s", lk_error_text());
            lk_sleep_until_ns(lk_monotonic_ns() + RETRY_MS * LK_NS_PER_MS); /* others wait, too */
            return;
        }
        if (fd < 0)
            return;
        if (admit(s, fd) != LK_OK)
            close(fd);
    }
}

/* Handle a connection's messages. Return false if it must be dropped. */
static bool serve(struct lk_store_server *s, struct client *c)
{
    bool open = lk_bytes_recv(&c->in, c->fd) == LK_OK;
    bool whole = true;

    while (whole && !c->closing) { /* also messages received before the end of the stream */
        struct lk_frame f;

        if (lk_frame_take(&c->in, &f, &whole) != LK_OK ||
            (whole && !lk_store_server_handle(s, c, &f)))
            return false;
    }
    return open;
}

/* Send queued bytes. Return false if the connection must be dropped. */
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

/* Decide what is due: the provisional verdict, and the question of a stall. */
static void run_timers(struct lk_store_server *s)
{
    if (s->pending != PENDING_NOTHING && !lk_deadline_left_ns(s->pending_until))
        lk_store_server_decide(s, LK_EPEER, s->pending_text);
    if (s->asking && !lk_deadline_left_ns(s->ask_until))
        lk_store_server_decide_stall(s);
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

/* Flush all clients, drop the closed ones, and list the descriptors to poll. */
static enum lk_status prepare_polls(struct lk_store_server *s, size_t *out_n)
{
    for (size_t i = 0; i < s->n_clients;) {
        if (flush(s->clients[i]))
            i++;
        else
            drop(s, i);
    }
    LK_PASS(lk_array_grow(&s->polls, &s->cap_polls, s->n_clients + 2, sizeof *s->polls));
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
        if (may_stop(s)) /* check after clients were dropped: nothing else wakes the poll */
            break;
        next = next_timer(s);
        pthread_mutex_unlock(&s->lock);
        (void)poll(s->polls, n + 2, lk_deadline_poll_ms(next));
        pthread_mutex_lock(&s->lock);
        if (s->polls[1].revents && read(s->wake_fd, &ignored, sizeof ignored) < 0 &&
            errno != EAGAIN)
            lk_log(LK_LOG_COMM, LK_WARN, "store: eventfd: %s", strerror(errno));
        /* Go downwards: dropping a client moves the last one into its place. */
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
                              const struct lk_ticket *ticket, struct lk_store_server **out)
{
    enum lk_status st = LK_OK;
    struct lk_store_server *s = NULL;

    if (world_size < 1)
        return lk_fail(LK_EUSAGE, "a run of %d ranks", world_size);
    LK_TRY(lk_alloc(&s, 1, sizeof *s));
    s->listen_fd = s->wake_fd = -1;
    s->world_size = world_size;
    if (ticket)
        s->ticket = *ticket;
    pthread_mutex_init(&s->lock, NULL);
    LK_TRY(lk_alloc(&s->ranks, (size_t)world_size, sizeof *s->ranks));
    if (getrandom(&s->token, sizeof s->token, 0) != sizeof s->token)
        LK_TRY(lk_fail(LK_EIO, "no random numbers: %s", strerror(errno)));
    s->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (s->wake_fd < 0)
        LK_TRY(lk_fail(LK_EIO, "eventfd: %s", strerror(errno)));
    LK_TRY(lk_net_listen(host, port, world_size + STRANGERS_MAX, &s->listen_fd, &s->port));
    LK_TRY(lk_limits_files((size_t)world_size + SPARE_FILES, "the run's store"));
    LK_TRY(lk_thread_start(&s->thread, serve_thread, s, "the store"));
    LK_HAND_OVER(out, s);
out:
    if (s)
        free_server(s);
    return st;
}

int lk_store_server_port(const struct lk_store_server *s)
{
    return s->port;
}

/* Wake the thread's poll. The counter cannot overflow: the thread reads it to 0. */
static void wake(struct lk_store_server *s)
{
    uint64_t one = 1;

    if (write(s->wake_fd, &one, sizeof one) < 0)
        lk_log(LK_LOG_COMM, LK_WARN, "store: eventfd: %s", strerror(errno));
}

void lk_store_server_fail(struct lk_store_server *s, const char *text)
{
    pthread_mutex_lock(&s->lock);
    lk_store_server_decide(s, LK_EPEER, text);
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

enum lk_status lk_store_server_text(struct lk_store_server *s, const char *key, char **out,
                                    size_t *out_size)
{
    enum lk_status st;

    pthread_mutex_lock(&s->lock);
    st = lk_store_keys_text(&s->keys, key, out, out_size);
    pthread_mutex_unlock(&s->lock);
    return st;
}
