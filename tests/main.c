/*
 * Runs the suites named on the command line, all others, or all. tests/ROOM/test_<name>.c has
 * lk_suite_<name>.
 *
 *     test_lockstep [--jobs N] [SUITE... | -SUITE...]
 *
 * Each suite runs in a process of its own, N at a time (default: three a processor, as suites of
 * processes, pages and timeouts mostly wait), with its output in a file that is shown whole when
 * the suite ends badly; the failures are repeated at the end. A single suite runs in this process,
 * for a debugger. The last line is `N passed, N failed, N skipped`; the exit status says whether
 * anything failed.
 */
#include "kernels/ops.h"
#include "tests/rigs/skip.h"

#include <check.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define X(name) Suite *lk_suite_##name(void);
#include "tests/suites.inc"
#undef X

/* The suites that take longest start first, so that none of them runs alone at the end. */
static const char *const long_suites[] = {
    "check_gpu",
    "page_whatif",
    "trainer_nccl_cuda",
    "comm_nccl_cuda",
    "report_page",
    "shim_orders",
    "shim_races",
    "run_mpi",
    "dnn_plans_cuda",
    "run_faults",
    "launchers",
    "run_hosts",
    "ledger",
    "intervals",
    "place",
    "busy_host",
    "same_place",
    "grid_model",
    "throughput",
    "trainer_cuda",
    "cluster_compare",
    "run",
    "nccl_threads",
};
enum { N_LONG = sizeof long_suites / sizeof *long_suites };

/* The result of a suite, in memory that the process of the suite shares with this one. */
struct result {
    bool ended; /* false after a crash */
    int run;    /* checks, those that were skipped too */
    int failed;
    atomic_int skipped;
};

struct job {
    const char *name;
    Suite *(*make)(void);
    bool wanted;
    pid_t pid;    /* 0 when not running */
    FILE *output; /* of a suite that runs or ended badly */
    double began_s;
};

static struct job jobs[] = {
#define X(suite) {.name = #suite, .make = lk_suite_##suite},
#include "tests/suites.inc"
#undef X
};

enum { N_JOBS = sizeof jobs / sizeof *jobs };

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double s_from_timeval(struct timeval t)
{
    return (double)t.tv_sec + 1e-6 * (double)t.tv_usec;
}

static void run_suite(const struct job *job, struct result *result)
{
    SRunner *runner = srunner_create(job->make());

    skip_count_in(&result->skipped);
    srunner_run_all(runner, CK_NORMAL);
    result->run = srunner_ntests_run(runner);
    result->failed = srunner_ntests_failed(runner);
    result->ended = true;
    srunner_free(runner);
}

/* Start a suite in a process of its own. Return false if the machine has no room for it. */
static bool start(struct job *job, struct result *result)
{
    job->output = tmpfile();
    job->began_s = now_s();
    fflush(NULL);
    job->pid = job->output ? fork() : -1;
    if (job->pid != 0)
        return job->pid > 0;
    if (dup2(fileno(job->output), STDOUT_FILENO) < 0 ||
        dup2(fileno(job->output), STDERR_FILENO) < 0)
        _exit(2);
    run_suite(job, result);
    fflush(NULL);
    _exit(result->failed ? EXIT_FAILURE : EXIT_SUCCESS);
}

static void show(FILE *output)
{
    char block[4096];
    size_t n;

    rewind(output);
    while ((n = fread(block, 1, sizeof block, output)) > 0)
        fwrite(block, 1, n, stdout);
}

/* Print again what a suite said of its failures, libcheck's FILE:LINE:F:CASE:TEST:N: MESSAGE and E
 * for a crash, and why it skipped tests. In a log of which only the end is kept, this is what is
 * left. */
static void show_again(const struct job *job, bool failed)
{
    static const char skipped[] = "skipped: ";
    char line[4096];

    rewind(job->output);
    while (fgets(line, sizeof line, job->output))
        if (failed && (strstr(line, ":F:") || strstr(line, ":E:")))
            printf("failed: %s: %s", job->name, line);
        else if (!strncmp(line, skipped, sizeof skipped - 1))
            printf("skipped: %s: %s", job->name, line + sizeof skipped - 1);
}

/* Wait until a suite ends; report it. A suite that crashes counts as one failure. */
static void finish_one(struct result *results)
{
    struct rusage used;
    int status;
    pid_t pid;

    do
        pid = wait4(-1, &status, 0, &used);
    while (pid < 0 && errno == EINTR);
    for (int i = 0; i < N_JOBS; i++) {
        struct job *job = &jobs[i];

        if (job->pid != pid || pid <= 0)
            continue;
        if (!results[i].ended) {
            results[i].run = results[i].failed = 1;
            printf("%s: the process of this suite ended early, with status %#x\n", job->name,
                   (unsigned)status);
        }
        if (results[i].failed)
            show(job->output);
        printf("  %-24s %5d checks %5d failed %7.1f s, %5.1f s of a processor\n", job->name,
               results[i].run, results[i].failed, now_s() - job->began_s,
               s_from_timeval(used.ru_utime) + s_from_timeval(used.ru_stime));
        fflush(stdout);
        if (!results[i].failed && !results[i].skipped) {
            fclose(job->output);
            job->output = NULL;
        }
        job->pid = 0;
    }
}

/* Start a wanted suite once there is room. Return false if it cannot be started. */
static bool start_next(int i, struct result *results, long parallel, long *running)
{
    jobs[i].wanted = false;
    if (*running == parallel) {
        finish_one(results);
        --*running;
    }
    if (!start(&jobs[i], &results[i])) {
        printf("%s: cannot start: %s\n", jobs[i].name, strerror(errno));
        return false;
    }
    ++*running;
    return true;
}

/* Return the number of suites that could not be started. */
static int run_all(struct result *results, long parallel)
{
    int missed = 0;
    long running = 0;

    for (int k = 0; k < N_LONG; k++)
        for (int i = 0; i < N_JOBS; i++)
            if (jobs[i].wanted && !strcmp(jobs[i].name, long_suites[k]))
                missed += !start_next(i, results, parallel, &running);
    for (int i = 0; i < N_JOBS; i++)
        if (jobs[i].wanted)
            missed += !start_next(i, results, parallel, &running);
    for (; running > 0; running--)
        finish_one(results);
    return missed;
}

/* Mark the suites named in words, or all but those named behind a '-'. Return how many, or -1 after
 * a word that names none. */
static int choose(int n_words, char **words)
{
    bool all = n_words == 0 || words[0][0] == '-';
    int chosen = 0;

    for (int i = 0; i < N_JOBS; i++)
        jobs[i].wanted = all;
    for (int w = 0; w < n_words; w++) {
        const char *name = words[w] + (words[w][0] == '-');
        int at = 0;

        while (at < N_JOBS && strcmp(jobs[at].name, name))
            at++;
        if (at == N_JOBS) {
            fprintf(stderr, "test_lockstep: no suite '%s'\n", name);
            return -1;
        }
        jobs[at].wanted = words[w][0] != '-';
    }
    for (int i = 0; i < N_JOBS; i++)
        chosen += jobs[i].wanted;
    return chosen;
}

int main(int argc, char **argv)
{
    struct result *results = mmap(NULL, sizeof *results * N_JOBS, PROT_READ | PROT_WRITE,
                                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    long parallel = 3 * sysconf(_SC_NPROCESSORS_ONLN);
    int first = 1, chosen, run = 0, failed = 0, skipped = 0;

    if (argc > 2 && !strcmp(argv[1], "--jobs")) {
        char *end;

        parallel = strtol(argv[2], &end, 10);
        if (parallel < 1 || *end) {
            fprintf(stderr, "test_lockstep: --jobs wants a count, got '%s'\n", argv[2]);
            return 2;
        }
        first = 3;
    }
    if (lk_kernels_init() != LK_OK) { /* for tests of the ops */
        fprintf(stderr, "test_lockstep: %s\n", lk_error_text());
        return 2;
    }
    chosen = choose(argc - first, argv + first);
    if (chosen < 0 || results == MAP_FAILED)
        return 2;
    /* Seconds after which libcheck ends a test: only a hang takes as long on any machine. */
    setenv("CK_DEFAULT_TIMEOUT", "600", 0);
    setenv("LOCKSTEP_LEDGER", "none", 1); /* forecasts of files of the tests are not kept */
    /* Threads of OpenBLAS that have nothing to do poll at first, in each program that has them. */
    setenv("OPENBLAS_NUM_THREADS", "1", 0);
    if (chosen == 1) {
        for (int i = 0; i < N_JOBS; i++)
            if (jobs[i].wanted)
                run_suite(&jobs[i], &results[i]);
    } else {
        failed = run_all(results, parallel);
    }
    for (int i = 0; i < N_JOBS; i++) {
        run += results[i].run;
        failed += results[i].failed;
        skipped += results[i].skipped;
        if (jobs[i].output)
            show_again(&jobs[i], results[i].failed > 0);
    }
    run -= failed + skipped;
    printf("%d passed, %d failed, %d skipped\n", run > 0 ? run : 0, failed, skipped);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
