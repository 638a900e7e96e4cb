/* Who belongs to a run gets into its store, and nobody else: strangers, thieves of a rank, recorded
 * greetings, other jobs, other users, and connections that say nothing. */
#include "runtime/rendezvous/ticket.h"

#include "base/array.h"
#include "runtime/rendezvous/net.h"
#include "runtime/rendezvous/store.h"
#include "runtime/rendezvous/store_wire.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/suite.h"
#include "tests/rigs/waits.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static const uint64_t plenty_ns = WAIT_PLENTY_NS;

static struct lk_ticket ticket_of(const char *job)
{
    struct lk_ticket t;

    ck_assert_int_eq(lk_ticket_make(&t), LK_OK);
    snprintf(t.job, sizeof t.job, "%s", job);
    return t;
}

static struct lk_store_server *serve(int ranks, const struct lk_ticket *ticket, int *port)
{
    struct lk_store_server *s;

    ck_assert_msg(lk_store_serve("127.0.0.1", 0, ranks, ticket, &s) == LK_OK, "%s",
                  lk_error_text());
    *port = lk_store_server_port(s);
    return s;
}

/* Join and leave, or be refused with these words. */
static void join(int port, int rank, int ranks, const struct lk_ticket *ticket, const char *refused)
{
    struct lk_store *s = NULL;
    enum lk_status st = lk_store_connect("127.0.0.1", port, rank, ranks, plenty_ns, ticket, &s);

    if (!refused) {
        ck_assert_msg(st == LK_OK, "%s", lk_error_text());
        lk_store_close(s);
        return;
    }
    ck_assert_int_ne(st, LK_OK);
    ck_assert_msg(strstr(lk_error_text(), refused) != NULL, "%s", lk_error_text());
}

/* ---- The secret ---- */

START_TEST(strangers_are_refused)
{
    struct lk_ticket own = ticket_of("job"), other = ticket_of("job"), none = {.job = "job"};
    const struct lk_ticket *strangers[] = {NULL, &none, &other};
    struct lk_store_server *server;
    int port;

    server = serve(1, &own, &port);
    for (size_t i = 0; i < LK_COUNT(strangers); i++)
        join(port, 0, 1, strangers[i], "this rank's secret is not the run's");
    join(port, 0, 1, &own, NULL);
    lk_store_server_stop(server, 0);
    /* A secret here, and none there. */
    server = serve(1, &none, &port);
    join(port, 0, 1, &own, "this rank's secret is not the run's");
    join(port, 0, 1, &none, NULL);
    lk_store_server_stop(server, 0);
}
END_TEST

enum { THIEVES = 100 };

static void *steal(void *arg)
{
    struct lk_store *s = NULL;
    struct lk_ticket guess = ticket_of("job");
    int *port = arg;

    if (lk_store_connect("127.0.0.1", *port, 0, 2, plenty_ns, &guess, &s) != LK_OK)
        return NULL;
    lk_store_close(s);
    return arg;
}

/* Thieves of rank 0 come before it and beside it. */
START_TEST(no_thief_takes_a_rank)
{
    struct lk_ticket own = ticket_of("job");
    pthread_t threads[THIEVES];
    struct lk_store *honest[2];
    struct lk_store_server *server;
    int port, stolen = 0;

    server = serve(2, &own, &port);
    for (int i = 0; i < THIEVES; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, steal, &port), 0);
    for (int r = 0; r < 2; r++)
        ck_assert_msg(lk_store_connect("127.0.0.1", port, r, 2, plenty_ns, &own, &honest[r]) ==
                          LK_OK,
                      "%s", lk_error_text());
    for (int i = 0; i < THIEVES; i++) {
        void *got;

        ck_assert_int_eq(pthread_join(threads[i], &got), 0);
        stolen += got != NULL;
    }
    ck_assert_int_eq(stolen, 0);
    for (int r = 0; r < 2; r++)
        lk_store_close(honest[r]);
    lk_store_server_stop(server, 0);
}
END_TEST

/* ---- By hand: what goes over the wire ---- */

static int dial(int port)
{
    int fd;

    ck_assert_int_eq(lk_net_connect("127.0.0.1", port, lk_deadline_in(plenty_ns), &fd), LK_OK);
    return fd;
}

static void send_frame(int fd, enum lk_msg type, const void *payload, size_t n)
{
    struct lk_bytes b = {0};

    ck_assert_int_eq(lk_frame_put(&b, type, 1, payload, n, NULL, 0), LK_OK);
    ck_assert_int_eq(lk_net_send(fd, b.data, b.n, lk_deadline_in(plenty_ns)), LK_OK);
    lk_bytes_fini(&b);
}

/* Receive a frame; the caller ends the bytes, to which it points. False: the end. */
static bool receive_frame(int fd, struct lk_bytes *b, struct lk_frame *f)
{
    bool whole = false;

    while (lk_frame_take(b, f, &whole) == LK_OK && !whole) {
        ck_assert_int_eq(lk_net_wait(fd, POLLIN, lk_deadline_in(plenty_ns)), LK_OK);
        if (lk_bytes_recv(b, fd) != LK_OK)
            return false;
    }
    return whole;
}

/* Write a rank's hello. */
static size_t hello(char *h, int rank, int ranks, const char *job)
{
    lk_wire_put(h, LK_STORE_MAGIC, 8);
    lk_wire_put(h + 8, LK_STORE_VERSION, 8);
    lk_wire_put(h + 16, (uint64_t)rank, 4);
    lk_wire_put(h + 20, (uint64_t)ranks, 4);
    lk_wire_put(h + 24, plenty_ns, 8);
    memset(h + 32, 'n', LK_NONCE_BYTES);
    memcpy(h + LK_HELLO_BYTES, job, strlen(job));
    return LK_HELLO_BYTES + strlen(job);
}

/* Say hello and prove by the ticket, or by the proof given. Return the type of the answer. */
static enum lk_msg prove(int port, const struct lk_ticket *t, unsigned char *proof, bool replay)
{
    struct lk_bytes b = {0};
    struct lk_frame f = {0};
    char join[LK_JOIN_MAX];
    size_t n = hello(join, 0, 1, t->job);
    int fd = dial(port);
    enum lk_msg type;

    send_frame(fd, LK_MSG_HELLO, join, n);
    ck_assert(receive_frame(fd, &b, &f));
    ck_assert_int_eq(f.type, LK_MSG_REPLY);
    ck_assert_uint_eq(f.bytes, LK_NONCE_BYTES);
    memcpy(join + n, f.payload, f.bytes);
    if (!replay)
        lk_ticket_prove(t, LK_JOIN_CLIENT, join, n + LK_NONCE_BYTES, proof);
    send_frame(fd, LK_MSG_PROOF, proof, LK_PROOF_BYTES);
    ck_assert(receive_frame(fd, &b, &f));
    type = f.type;
    lk_bytes_fini(&b);
    close(fd);
    return type;
}

/* A recording of one start of a job is of no use at the next, which has the same secret. */
START_TEST(a_recorded_greeting_is_refused)
{
    struct lk_ticket own = ticket_of("job");
    unsigned char proof[LK_PROOF_BYTES];
    struct lk_store_server *server;
    int port;

    server = serve(1, &own, &port);
    ck_assert_int_eq(prove(port, &own, proof, false), LK_MSG_REPLY);
    lk_store_server_stop(server, 0);
    server = serve(1, &own, &port);
    ck_assert_int_eq(prove(port, &own, proof, true), LK_MSG_REFUSED);
    ck_assert_int_eq(prove(port, &own, proof, false), LK_MSG_REPLY);
    lk_store_server_stop(server, 0);
}
END_TEST

/* Nothing but a proof follows hello, and a proof nothing but hello. */
START_TEST(messages_before_the_proof_are_refused)
{
    struct lk_ticket own = ticket_of("job");
    unsigned char proof[LK_PROOF_BYTES] = {0};
    struct lk_store_server *server;
    int port;

    server = serve(1, &own, &port);
    for (int type = 0; type < LK_MSG_COUNT; type++)
        for (int greeted = 0; greeted < 2; greeted++) {
            char join[LK_JOIN_MAX];
            size_t n = hello(join, 0, 1, own.job);
            struct lk_bytes b = {0};
            struct lk_frame f;
            int fd = dial(port);

            if (greeted) {
                send_frame(fd, LK_MSG_HELLO, join, n);
                ck_assert(receive_frame(fd, &b, &f));
            } else if (type == LK_MSG_HELLO) {
                lk_wire_put(join, 0, 8);
            }
            send_frame(fd, (enum lk_msg)type, type == LK_MSG_HELLO ? join : (char *)proof,
                       type == LK_MSG_HELLO ? n : sizeof proof);
            ck_assert(!receive_frame(fd, &b, &f) || f.type == LK_MSG_REFUSED);
            lk_bytes_fini(&b);
            close(fd);
        }
    join(port, 0, 1, &own, NULL);
    lk_store_server_stop(server, 0);
}
END_TEST

/* A store that lets all in, and does not know the secret. */
static void *impostor(void *arg)
{
    char reply[8 + LK_PROOF_BYTES] = {0};
    struct lk_bytes b = {0};
    struct lk_frame f;
    int fd = -1, *listener = arg;

    while (fd < 0 && lk_net_wait(*listener, POLLIN, lk_deadline_in(plenty_ns)) == LK_OK)
        (void)lk_net_accept(*listener, &fd);
    for (int i = 0; i < 2 && receive_frame(fd, &b, &f); i++) {
        struct lk_bytes out = {0};

        (void)lk_frame_put(&out, LK_MSG_REPLY, f.id, reply, i ? sizeof reply : LK_NONCE_BYTES, NULL,
                           0);
        (void)lk_net_send(fd, out.data, out.n, lk_deadline_in(plenty_ns));
        lk_bytes_fini(&out);
    }
    (void)receive_frame(fd, &b, &f);
    lk_bytes_fini(&b);
    close(fd);
    return NULL;
}

START_TEST(a_store_without_the_secret_is_left)
{
    struct lk_ticket own = ticket_of("job");
    pthread_t thread;
    int listener, port;

    ck_assert_int_eq(lk_net_listen("127.0.0.1", 0, 1, &listener, &port), LK_OK);
    ck_assert_int_eq(pthread_create(&thread, NULL, impostor, &listener), 0);
    join(port, 0, 1, &own, "does not know this run's secret");
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    close(listener);
}
END_TEST

/* ---- Connections that say nothing ---- */

START_TEST(silent_connections_make_way)
{
    enum { SILENT = 200 };
    struct lk_ticket own = ticket_of("job");
    struct lk_store_server *server;
    int fds[SILENT], port;

    server = serve(2, &own, &port);
    for (int i = 0; i < SILENT; i++)
        fds[i] = dial(port);
    for (int r = 0; r < 2; r++) {
        struct lk_store *s;

        ck_assert_msg(lk_store_connect("127.0.0.1", port, r, 2, plenty_ns, &own, &s) == LK_OK, "%s",
                      lk_error_text());
        ck_assert_int_eq(lk_store_set(s, r ? "one" : "zero", "x", 1), LK_OK);
        lk_store_close(s);
    }
    for (int i = 0; i < SILENT; i++)
        close(fds[i]);
    lk_store_server_stop(server, 0);
}
END_TEST

/* ---- Jobs ---- */

START_TEST(two_jobs_at_one_port_part)
{
    struct lk_ticket a = ticket_of("alpha"), b = ticket_of("beta");
    struct lk_store_server *first, *second;
    struct lk_store *s = NULL;
    int ports[2];

    if (_i == 1) /* the same file of a secret */
        memcpy(b.secret, a.secret, sizeof b.secret);
    first = serve(1, &a, &ports[0]);
    second = serve(1, &b, &ports[1]);
    join(ports[0], 0, 1, &b, "job alpha serves this port, and this rank is one of job beta");
    ck_assert_msg(lk_store_find("127.0.0.1", ports, 2, 0, 1, plenty_ns, &b, &s) == LK_OK, "%s",
                  lk_error_text());
    lk_store_close(s);
    join(ports[0], 0, 1, &a, NULL);
    lk_store_server_stop(first, 0);
    lk_store_server_stop(second, 0);
}
END_TEST

/* Launchers that name no job: the refusal says how to name them. */
START_TEST(jobs_without_a_name_meet)
{
    struct lk_ticket unnamed = ticket_of(LK_JOB_UNNAMED);
    struct lk_store_server *server;
    int port;

    server = serve(3, &unnamed, &port);
    join(port, 0, 4, &unnamed,
         "this run has 3 ranks, not 4. If it is another of this host, name each in LOCKSTEP_JOB");
    lk_store_server_stop(server, 0);
}
END_TEST

/* ---- Users ---- */

static const struct {
    const char *listens, *connects;
} families[] = {
    {"127.0.0.1", "127.0.0.1"}, {"::1", "::1"}, {"::", "127.0.0.1"}, /* IPv4 seen from IPv6 */
};

/* Let this process's system calls of sockets of netlink fail, as in a sandbox. */
static void refuse_netlink(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_NETLINK, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAFNOSUPPORT),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {.len = LK_COUNT(code), .filter = code};

    ck_assert_int_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    ck_assert_int_eq(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

START_TEST(the_user_of_a_peer_is_found)
{
    struct lk_deadline soon = lk_deadline_in(plenty_ns);
    int listener, port, client, server = -1;
    uid_t uid = (uid_t)-1;

    if (lk_net_listen(families[_i].listens, 0, 1, &listener, &port) != LK_OK)
        return; /* no IPv6 here */
    ck_assert_int_eq(lk_net_connect(families[_i].connects, port, soon, &client), LK_OK);
    while (server < 0) {
        ck_assert_int_eq(lk_net_wait(listener, POLLIN, soon), LK_OK);
        ck_assert_int_eq(lk_net_accept(listener, &server), LK_OK);
    }
    ck_assert_int_eq(lk_net_peer_user(server, &uid), LK_PEER_FOUND);
    ck_assert_uint_eq(uid, geteuid());
    ck_assert_int_eq(lk_net_peer_user(client, &uid), LK_PEER_FOUND);
    ck_assert_uint_eq(uid, geteuid());
    ck_assert_int_eq(lk_net_peer_user(listener, &uid), LK_PEER_ELSEWHERE);
    refuse_netlink();
    ck_assert_int_eq(lk_net_peer_user(server, &uid), LK_PEER_UNKNOWN);
    close(server);
    close(client);
    close(listener);
}
END_TEST

/* Without a secret only the run's user may join. Only root can be two users. */
START_TEST(other_users_need_a_secret)
{
    enum { NOBODY = 65534, JOINED = 10, REFUSED = 11 };
    struct lk_ticket secret = ticket_of("job");
    struct lk_store_server *server;
    int port, status;
    pid_t child;

    if (geteuid() != 0)
        return;
    server = serve(1, _i ? &secret : NULL, &port);
    child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        struct lk_store *s = NULL;

        if (setuid(NOBODY))
            _exit(1);
        if (lk_store_connect("127.0.0.1", port, 0, 1, plenty_ns, _i ? &secret : NULL, &s) == LK_OK)
            _exit(JOINED);
        _exit(strstr(lk_error_text(), "only processes of its own user may join") ? REFUSED : 2);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), _i ? JOINED : REFUSED);
    lk_store_server_stop(server, 0);
}
END_TEST

/* ---- The file and the environment ---- */

static const struct {
    const char *text;
    mode_t mode;
    const char *says; /* NULL: it is good */
} files[] = {
    {"0123456789abcdef", 0600, NULL},
    {"0123456789abcdef\n", 0400, NULL},
    {"0123456789abcde", 0600, "a secret has 16 to 4096 bytes"},
    {"0123456789abcdef", 0640, "chmod 600 it"},
    {"0123456789abcdef", 0602, "chmod 600 it"},
    {"", 0600, "a secret has 16 to 4096 bytes"},
};

START_TEST(files_of_a_secret)
{
    char *path = scratch_put("secret", files[_i].text, strlen(files[_i].text));
    char *same = scratch_put("same", "0123456789abcdef", 16);
    struct lk_ticket t = {0}, want = {0};
    enum lk_status st;

    ck_assert_int_eq(chmod(path, files[_i].mode), 0);
    ck_assert_int_eq(chmod(same, 0600), 0);
    st = lk_ticket_read_file(&t, path);
    ck_assert_msg((st == LK_OK) == !files[_i].says, "%s", lk_error_text());
    if (files[_i].says)
        ck_assert_msg(strstr(lk_error_text(), files[_i].says) != NULL, "%s", lk_error_text());
    ck_assert(t.has_secret == !files[_i].says);
    ck_assert_int_eq(lk_ticket_read_file(&want, same), LK_OK);
    if (!files[_i].says)
        ck_assert_mem_eq(t.secret, want.secret, sizeof t.secret);
    ck_assert_int_eq(lk_ticket_read_file(&t, scratch_dir), LK_EUSAGE);
    ck_assert_int_eq(lk_ticket_read_file(&t, "/nowhere/at/all"), LK_EIO);
    free(path);
    free(same);
}
END_TEST

START_TEST(the_environment_hands_a_secret_over_once)
{
    struct lk_ticket made = ticket_of("job"), t = {0};
    char text[2 * LK_SHA256_BYTES + 1];

    lk_ticket_secret_text(&made, text);
    ck_assert_int_eq(setenv(LK_SECRET_ENV, text, 1), 0);
    ck_assert_int_eq(lk_ticket_read_env(&t), LK_OK);
    ck_assert(t.has_secret);
    ck_assert_mem_eq(t.secret, made.secret, sizeof t.secret);
    ck_assert_ptr_null(getenv(LK_SECRET_ENV));
    text[5] = 'x';
    ck_assert_int_eq(setenv(LK_SECRET_ENV, text, 1), 0);
    ck_assert_int_eq(lk_ticket_read_env(&t), LK_EUSAGE);
}
END_TEST

SUITE(ticket, c)
{
    tcase_set_timeout(c, 300);
    tcase_add_checked_fixture(c, scratch_set_up, scratch_tear_down);
    tcase_add_test(c, strangers_are_refused);
    tcase_add_test(c, no_thief_takes_a_rank);
    tcase_add_test(c, a_recorded_greeting_is_refused);
    tcase_add_test(c, messages_before_the_proof_are_refused);
    tcase_add_test(c, a_store_without_the_secret_is_left);
    tcase_add_test(c, silent_connections_make_way);
    tcase_add_loop_test(c, two_jobs_at_one_port_part, 0, 2);
    tcase_add_test(c, jobs_without_a_name_meet);
    tcase_add_loop_test(c, the_user_of_a_peer_is_found, 0, sizeof families / sizeof *families);
    tcase_add_loop_test(c, other_users_need_a_secret, 0, 2);
    tcase_add_loop_test(c, files_of_a_secret, 0, LK_COUNT(files));
    tcase_add_test(c, the_environment_hands_a_secret_over_once);
}
