/*
 * A program on MPI that tests of the preload library run: `program HOW [STEPS]`. Whatever it does,
 * it prints the same with and without the library.
 *
 *     steps      steps, each of 7 collectives, then exit code 3
 *     kill       SIGKILL in the middle of the steps
 *     cut        another process empties the library's file in the middle of the steps
 *     fork       a child does steps, too, then the parent goes on
 *     exec       does steps, then becomes itself with `steps`
 *     threads    two threads do steps at once
 *     close      closes all files but standard output first
 *     setuid     is nobody from then on, if it may
 *     handler    steps, while a timer's handler calls MPI, too
 *     names      makes and frees communicators
 */
#include "mpi.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS_MAX = 64, NOBODY = 65534 };

static int n_steps = 20;
static char *self;

static int steps(MPI_Comm comm, const char *how)
{
    static const int counts[RANKS_MAX] = {1, 2, 3, 4};
    int flag = 0, failed = 0;

    for (int i = 0; i < n_steps; i++) {
        MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};

        failed |= MPI_Allreduce(NULL, NULL, 1000, MPI_FLOAT, MPI_SUM, comm);
        failed |= MPI_Iallreduce(NULL, NULL, 500, MPI_FLOAT, MPI_SUM, comm, &requests[1]);
        failed |= MPI_Iallreduce(NULL, NULL, 600, MPI_FLOAT, MPI_SUM, comm, &requests[0]);
        failed |= MPI_Waitall(2, requests, MPI_STATUS_IGNORE);
        failed |= MPI_Iallreduce(NULL, NULL, 10, MPI_PAIR, MPI_SUM, comm, &requests[0]);
        for (flag = 0; !flag;)
            failed |= MPI_Test(&requests[0], &flag, MPI_STATUS_IGNORE);
        failed |= MPI_Allgather(MPI_IN_PLACE, 0, 0, NULL, 7, MPI_FLOAT, comm);
        failed |= MPI_Reduce_scatter(NULL, NULL, counts, MPI_FLOAT, MPI_SUM, comm);
        failed |= MPI_Barrier(comm);
        if (i == n_steps / 2 && !strcmp(how, "kill"))
            raise(SIGKILL);
        if (i == n_steps / 2 && !strcmp(how, "cut"))
            failed |=
                system("for f in \"$LOCKSTEP_PROFILE_DIR\"/*.probe; do : > \"$f\"; done") != 0;
    }
    return failed;
}

static void *in_thread(void *arg)
{
    static int failed[2];
    MPI_Comm comm = MPI_COMM_WORLD;
    int color = arg != NULL;

    MPI_Comm_split(MPI_COMM_WORLD, color, 0, &comm);
    failed[color] = steps(comm, "threads");
    return failed[color] ? &failed[color] : NULL;
}

static int threads(void)
{
    static int odd;
    pthread_t other;
    void *failed = NULL;

    if (pthread_create(&other, NULL, in_thread, &odd))
        return 1;
    if (in_thread(NULL) || pthread_join(other, &failed) || failed)
        return 1;
    return 0;
}

static int fork_and_go_on(void)
{
    int failed = steps(MPI_COMM_WORLD, "fork"), status = 1;
    pid_t child = fork();

    if (child == 0)
        _exit(steps(MPI_COMM_WORLD, "fork"));
    if (child < 0 || waitpid(child, &status, 0) != child || status)
        failed = 1;
    return failed | steps(MPI_COMM_WORLD, "fork");
}

static void on_timer(int signal)
{
    (void)signal;
    (void)MPI_Allreduce(NULL, NULL, 1, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static int with_handler(void)
{
    struct itimerval often = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
    struct sigaction action = {.sa_handler = on_timer, .sa_flags = SA_RESTART};
    int failed = 0;

    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    for (int i = 0; i < 200; i++)
        failed |= steps(MPI_COMM_WORLD, "handler");
    setitimer(ITIMER_REAL, &never, NULL);
    return failed;
}

static int communicators(void)
{
    int failed = 0;

    for (int i = 0; i < 5; i++) {
        MPI_Comm comm;

        failed |= MPI_Comm_split(MPI_COMM_WORLD, i % 2, 0, &comm);
        failed |= steps(comm, "names");
        failed |= MPI_Comm_free(&comm);
    }
    return failed;
}

static int run(const char *how)
{
    if (!strcmp(how, "close"))
        for (int fd = 0; fd < 1024; fd++)
            if (fd != STDOUT_FILENO)
                close(fd);
    if (!strcmp(how, "setuid") && geteuid() == 0 && setuid(NOBODY))
        return 1;
    if (MPI_Init(NULL, NULL))
        return 1;
    if (!strcmp(how, "threads"))
        return threads();
    if (!strcmp(how, "fork"))
        return fork_and_go_on();
    if (!strcmp(how, "handler"))
        return with_handler();
    if (!strcmp(how, "names"))
        return communicators();
    return steps(MPI_COMM_WORLD, how);
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "steps";
    int failed;

    self = argv[0];
    if (argc > 2)
        n_steps = atoi(argv[2]);
    failed = run(how);
    printf("%s: %s\n", how, failed ? "failed" : "done");
    fflush(stdout);
    if (!failed && !strcmp(how, "exec"))
        execl(self, self, "steps", (char *)NULL);
    MPI_Finalize();
    return failed ? 1 : 3;
}
