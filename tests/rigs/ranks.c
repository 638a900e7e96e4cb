/* Ranks of a test; see the header. */
#include "tests/rigs/ranks.h"

#include "tests/rigs/waits.h"

#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

struct thread_arg {
    struct rank *me;
    rank_fn fn;
};

static void *run_thread(void *arg)
{
    struct thread_arg *a = arg;

    a->me->status = a->fn(a->me);
    if (a->me->status != LK_OK)
        snprintf(a->me->text, sizeof a->me->text, "%s", lk_error_text());
    return NULL;
}

void ranks_run_threads(int world_size, uint64_t timeout_ns, rank_fn fn, void *ctx,
                       struct rank *ranks)
{
    struct lk_store_server *server = NULL;
    struct thread_arg args[RANKS_MAX];
    pthread_t threads[RANKS_MAX];

    ck_assert_int_le(world_size, RANKS_MAX);
    ck_assert_msg(lk_store_serve("127.0.0.1", 0, world_size, NULL, &server) == LK_OK, "%s",
                  lk_error_text());
    for (int r = 0; r < world_size; r++) {
        ranks[r] = (struct rank){.rank = r,
                                 .world_size = world_size,
                                 .port = lk_store_server_port(server),
                                 .ctx = ctx,
                                 .timeout_ns = timeout_ns};
        args[r] = (struct thread_arg){&ranks[r], fn};
        ck_assert_int_eq(pthread_create(&threads[r], NULL, run_thread, &args[r]), 0);
    }
    for (int r = 0; r < world_size; r++)
        pthread_join(threads[r], NULL);
    lk_store_server_stop(server, 0);
}

/* Run the server in a process of its own, because one with threads should not fork. It reports its
 * port and receives deaths. */
static void serve_process(int world_size, int port_fd, int death_fd)
{
    struct lk_store_server *server = NULL;
    int port, death[2];

    if (lk_store_serve("127.0.0.1", 0, world_size, NULL, &server) != LK_OK)
        _exit(1);
    port = lk_store_server_port(server);
    if (write(port_fd, &port, sizeof port) != sizeof port)
        _exit(1);
    while (read(death_fd, death, sizeof death) == sizeof death) {
        char how[64];

        if (WIFSIGNALED(death[1]))
            snprintf(how, sizeof how, "was killed by signal %d", WTERMSIG(death[1]));
        else
            snprintf(how, sizeof how, "exited with code %d", WEXITSTATUS(death[1]));
        lk_store_server_rank_died(server, death[0], how);
    }
    lk_store_server_stop(server, 0);
    _exit(0);
}

static void run_process(struct rank *shared, rank_fn fn)
{
    struct rank me = *shared;
    enum lk_status st = fn(&me);

    if (st != LK_OK)
        snprintf(shared->text, sizeof shared->text, "%s", lk_error_text());
    shared->status = st;
    _exit(0);
}

void ranks_run_processes(int world_size, uint64_t timeout_ns, rank_fn fn, void *ctx, int tell,
                         void (*meanwhile)(struct rank *ranks, void *ctx), struct rank *ranks)
{
    size_t bytes = RANKS_MAX * sizeof *ranks;
    struct rank *shared =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct lk_deadline deadline = lk_deadline_in(2 * WAIT_PLENTY_NS);
    int ports[2], deaths[2], port = 0, left = world_size;
    pid_t server, pid;

    ck_assert_ptr_ne(shared, MAP_FAILED);
    ck_assert_int_le(world_size, RANKS_MAX);
    ck_assert_int_eq(pipe(ports) | pipe(deaths), 0);
    server = fork();
    ck_assert_int_ge(server, 0);
    if (!server) {
        close(deaths[1]);
        serve_process(world_size, ports[1], deaths[0]);
    }
    ck_assert_int_eq(read(ports[0], &port, sizeof port), sizeof port);
    for (int r = 0; r < world_size; r++) {
        shared[r] = (struct rank){.rank = r,
                                  .world_size = world_size,
                                  .port = port,
                                  .ctx = ctx,
                                  .timeout_ns = timeout_ns};
        pid = fork();
        ck_assert_int_ge(pid, 0);
        if (!pid) {
            close(deaths[1]);
            run_process(&shared[r], fn);
        }
        shared[r].pid = pid;
    }
    if (meanwhile)
        meanwhile(shared, ctx);
    for (int gone[RANKS_MAX] = {0}; left;) {
        for (int r = 0; r < world_size; r++) {
            int death[2] = {r, 0};

            if (gone[r] || waitpid(shared[r].pid, &death[1], WNOHANG) != shared[r].pid)
                continue;
            gone[r] = 1;
            left--;
            shared[r].wait_status = death[1];
            if (WIFEXITED(death[1]) && WEXITSTATUS(death[1]) && shared[r].status == LK_OK) {
                shared[r].status = LK_EINTERNAL; /* a failed assertion, or a sanitizer */
                snprintf(shared[r].text, sizeof shared[r].text, "it exited with code %d",
                         WEXITSTATUS(death[1]));
            }
            if (death[1] && tell)
                ck_assert_int_eq(write(deaths[1], death, sizeof death), sizeof death);
        }
        if (left && !lk_deadline_left_ns(deadline)) {
            for (int r = 0; r < world_size; r++)
                if (!gone[r])
                    kill(shared[r].pid, SIGKILL);
            ck_abort_msg("%d of %d ranks hung", left, world_size);
        }
        usleep(500);
    }
    close(deaths[1]);
    waitpid(server, NULL, 0);
    close(ports[0]);
    close(ports[1]);
    close(deaths[0]);
    memcpy(ranks, shared, (size_t)world_size * sizeof *ranks);
    munmap(shared, bytes);
}

void rank_await_end(const struct rank *r)
{
    siginfo_t info;

    while (waitid(P_PID, (id_t)r->pid, &info, WEXITED | WNOWAIT))
        ck_assert_int_eq(errno, EINTR);
}

enum lk_status rank_connect(const struct rank *me, struct lk_store **out)
{
    return lk_store_connect("127.0.0.1", me->port, me->rank, me->world_size, me->timeout_ns, NULL,
                            out);
}

enum lk_status rank_open_tcp(const struct rank *me, size_t chunk_bytes, uint64_t timeout_ns,
                             struct lk_store **store, struct lk_comm **comm)
{
    struct lk_comm_config config = {.rank = me->rank,
                                    .world_size = me->world_size,
                                    .timeout_ns = timeout_ns,
                                    .chunk_bytes = chunk_bytes};
    enum lk_status st = rank_connect(me, store);

    config.store = *store;
    return st == LK_OK ? lk_comm_open("tcp", &config, comm) : st;
}
