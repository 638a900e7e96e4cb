/*
 * lockstep profile, with a stand-in for PyTorch's processes (tests/kineto/client.c): the job's
 * output, exit status and signals are its own, and what its ranks recorded becomes a run.
 */
#include "base/array.h"
#include "base/file.h"
#include "tests/rigs/must.h"
#include "tests/rigs/program.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/shell.h"
#include "tests/rigs/suite.h"
#include "tests/rigs/waits.h"

#include <pty.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define CLIENT  LK_BUILD_DIR "/kineto_client"
#define OPTIONS "profile --after 6 --steps 8 --local-batch 4 "

/* A shell script in the scratch directory. */
static void put_job(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void put_job(const char *format, ...)
{
    char *text = NULL;
    va_list ap;

    va_start(ap, format);
    must(lk_vasprintf(&text, format, ap));
    va_end(ap);
    free(scratch_put("job.sh", text, strlen(text)));
    free(text);
}

/* ---- What is recorded ---- */

static bool is_there(const char *name)
{
    char *path = scratch_path(scratch_dir, name);
    bool found = lk_file_exists(path);

    free(path);
    return found;
}

static void assert_says(const char *text, const char *what)
{
    ck_assert_msg(strstr(text, what) != NULL, "no '%s' in: %.2000s", what, text);
}

START_TEST(two_ranks_become_a_run)
{
    struct program p;

    put_job("echo out; echo err >&2\n"
            "RANK=1 WORLD_SIZE=2 " CLIENT " 30 1 & first=$!\n"
            "RANK=0 WORLD_SIZE=2 " CLIENT " 30 1 & wait $! && wait $first || exit 4\n"
            "exit 3\n");
    program_run(&p, scratch_dir, 3, OPTIONS "--out %s/run -- sh %s/job.sh", scratch_dir,
                scratch_dir);
    ck_assert_str_eq(p.out, "out\n");
    ck_assert_msg(strncmp(p.err, "err\nlockstep profile: ", 22) == 0, "%s", p.err);
    assert_says(p.err, "recorded 2 of 2 ranks by Kineto's daemon protocol: ");
    assert_says(p.err, "overhead: unknown");
    assert_says(p.err, "next: lockstep analyze ");
    ck_assert(is_there("run/job.json"));
    ck_assert(is_there("run/rank1.trace.json.gz"));
    ck_assert(!is_there("run/traces"));
    program_fini(&p);
    program_run(&p, scratch_dir, 0, "analyze --verbose %s/run", scratch_dir);
    assert_says(p.out, "Waterfall: ");
    assert_says(p.out, "2 ranks, local batch 4");
    program_fini(&p);
    program_run(&p, scratch_dir, 2, OPTIONS "--out %s/run -- echo ran", scratch_dir);
    ck_assert_str_eq(p.out, "");
    assert_says(p.err, "is not empty");
    program_fini(&p);
}
END_TEST

START_TEST(traces_are_kept)
{
    struct program p;

    put_job("RANK=3 WORLD_SIZE=4 exec " CLIENT " 30 1\n");
    program_run(&p, scratch_dir, 0, OPTIONS "--keep-traces --out %s/run -- sh %s/job.sh",
                scratch_dir, scratch_dir);
    assert_says(p.err, "recorded 1 of 4 ranks");
    ck_assert(is_there("run/traces/rank3.json"));
    ck_assert(is_there("run/rank3.trace.json.gz"));
    program_fini(&p);
}
END_TEST

/* Jobs of one process. */
static const struct {
    const char *words;
    int code;
    const char *says;
    bool is_run;
} jobs[] = {
    {CLIENT " 30 1 noise", 0, "93 messages to the recorder made no sense", true},
    {CLIENT " 30 1 die", 137, "recorded 1 of 1 ranks", true},
    {CLIENT " 30 1 no-steps", 0, "1 processes asked to be recorded, and none wrote 8 iterations",
     false},
    {CLIENT " 5 1", 0, "nothing was recorded; lockstep profile --snippet", false},
    {"true", 0, "no process asked to be recorded", false},
    {"false", 1, "nothing was recorded", false},
    {"./no-such-command", 127, "cannot run ./no-such-command: No such file", false},
    {"/", 126, "cannot run /: Permission denied", false},
};

START_TEST(exit_status_is_the_jobs)
{
    struct program p;

    program_run(&p, scratch_dir, jobs[_i].code, OPTIONS "--out %s/run -- %s", scratch_dir,
                jobs[_i].words);
    assert_says(p.err, jobs[_i].says);
    ck_assert_int_eq(is_there("run/job.json"), jobs[_i].is_run);
    ck_assert_int_eq(is_there("run"), jobs[_i].is_run);
    program_fini(&p);
}
END_TEST

/* The job takes our standard input. */
START_TEST(input_is_the_jobs)
{
    struct shell_result r = shell_run("printf 'a\\nb\\n' | " LK_BUILD_DIR
                                      "/lockstep profile --out %s/run -- sort -r 2> /dev/null",
                                      scratch_dir);

    ck_assert_int_eq(r.code, 0);
    ck_assert_str_eq(r.text, "b\na\n");
}
END_TEST

static const struct {
    const char *words, *says;
} refused[] = {
    {"profile", "needs a command: lockstep profile -- torchrun"},
    {"profile true", "the command stands behind '--'"},
    {"profile sh -c true", "the command stands behind '--'"},
    {"profile true -- false", "the command stands behind '--'"},
    {"profile --with=daemon,nothing -- true", "no way to record is called 'nothing'"},
    {"profile --snippet -- true", "--snippet runs no command"},
    {"profile --steps=0 -- true", "--steps: must be from 1"},
    {"profile --out=a=b -- true", "PyTorch's recorder cannot write to a path with"},
};

START_TEST(wrong_usage)
{
    struct shell_result r = shell_program(scratch_dir, "%s", refused[_i].words);

    ck_assert_int_eq(r.code, 2);
    assert_says(r.text, refused[_i].says);
    ck_assert(!is_there("a=b"));
}
END_TEST

/* ---- Signals ---- */

static void wait_for_file(const char *name)
{
    struct lk_deadline end = lk_deadline_in(WAIT_PLENTY_NS);

    while (!is_there(name) && lk_deadline_left_ns(end))
        lk_nap_ns(LK_NS_PER_MS);
    ck_assert_msg(is_there(name), "%s never came", name);
}

static const struct {
    int signal, code;
    const char *trap; /* "": the job has none */
} signals[] = {
    {SIGINT, 7, "trap 'exit 7' INT"}, {SIGTERM, 8, "trap 'exit 8' TERM"},
    {SIGHUP, 9, "trap 'exit 9' HUP"}, {SIGUSR1, 10, "trap 'exit 10' USR1"},
    {SIGTERM, 128 + SIGTERM, ""},     {SIGINT, 128 + SIGINT, ""},
};

START_TEST(signals_are_handed_on)
{
    struct program p;

    put_job("%s\n: > %s/ready\nwhile :; do sleep 0.01; done\n", signals[_i].trap, scratch_dir);
    program_start(&p, scratch_dir, NULL, NULL, "profile --out %s/run -- sh %s/job.sh", scratch_dir,
                  scratch_dir);
    wait_for_file("ready");
    ck_assert_int_eq(kill(p.pid, signals[_i].signal), 0);
    program_wait(&p);
    ck_assert_int_eq(p.code, signals[_i].code);
    assert_says(p.err, "nothing was recorded");
    program_fini(&p);
}
END_TEST

enum { PRESSES = 10 };

/* Return how many interrupts the job has counted. */
static size_t n_counted(void)
{
    char *text = scratch_read(scratch_dir, "count");
    size_t n = strlen(text);

    free(text);
    return n;
}

/* A terminal sends Ctrl-C to the job, too: it must not get it a second time from us. Two signals
 * may be taken for one, hence several presses. */
START_TEST(a_terminals_signal_comes_once)
{
    char *out = scratch_path(scratch_dir, "run");
    int terminal, status = 0;
    pid_t pid;

    pid = forkpty(&terminal, NULL, NULL, NULL);
    ck_assert_int_ge(pid, 0);
    if (!pid) {
        execl(LK_BUILD_DIR "/lockstep", "lockstep", "profile", "--out", out, "--", CLIENT,
              "interrupts", scratch_dir, (char *)NULL);
        _exit(125);
    }
    wait_for_file("count");
    for (size_t i = 0; i < PRESSES; i++) {
        struct lk_deadline end = lk_deadline_in(WAIT_PLENTY_NS);

        ck_assert_int_eq(write(terminal, "\003", 1), 1);
        while (n_counted() <= i && lk_deadline_left_ns(end))
            lk_nap_ns(LK_NS_PER_MS);
    }
    lk_nap_ns(100 * LK_NS_PER_MS); /* for a second signal, which does not come */
    ck_assert_uint_eq(n_counted(), PRESSES);
    free(scratch_put("stop", "", 0));
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    close(terminal);
    free(out);
}
END_TEST

/* ---- Others ---- */

START_TEST(another_daemon_is_left_alone)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    struct program p;
    char got[100];

    snprintf(a.sun_path, sizeof a.sun_path, "%s/dynolog", scratch_dir);
    ck_assert_int_eq(bind(fd, (const struct sockaddr *)&a, sizeof a), 0);
    ck_assert_int_eq(setenv("KINETO_IPC_SOCKET_DIR", scratch_dir, 1), 0);
    program_run(&p, scratch_dir, 0, OPTIONS "--out %s/run -- " CLIENT " 30 1", scratch_dir);
    assert_says(p.err, "a dynolog daemon is on this machine; it was left alone");
    assert_says(p.err, "recorded 1 of 1 ranks");
    ck_assert_int_eq(recv(fd, got, sizeof got, MSG_DONTWAIT), -1);
    program_fini(&p);
    close(fd);
}
END_TEST

/* The lines are Python, and say what the options say. */
START_TEST(snippet)
{
    struct shell_result r = shell_program(scratch_dir, "profile --snippet --after 10 --steps 5");

    ck_assert_int_eq(r.code, 0);
    assert_says(r.text, "wait=8, warmup=2, active=5");
    assert_says(r.text, "record_shapes=True");
    assert_says(r.text, "recorder.step()");
    ck_assert(!is_there("profile"));
}
END_TEST

/* The lines record a real PyTorch job, of two ranks over gloo, which becomes a run with a job. */
START_TEST(snippet_with_pytorch)
{
    struct shell_result r =
        shell_run("command -v /usr/bin/python3 > /dev/null && /usr/bin/python3 -c 'import torch."
                  "distributed as d; assert d.is_gloo_available()' 2> /dev/null");
    char *program = realpath(LK_BUILD_DIR "/lockstep", NULL);
    struct program p;
    long n;

    if (r.code != 0) {
        fputs("profile: no PyTorch with gloo here: the snippet is not tried\n", stderr);
        free(program);
        return;
    }
    r = shell_run("here=$PWD && cd %s && %s profile --snippet --after 10 --steps 5 > lines && "
                  "sed -n '2,/start()/s/^/    /p' lines > before && "
                  "sed -n '/^recorder.step/s/^/        /p' lines > step && "
                  "sed -e '/# BEFORE/r before' -e '/# STEP/r step' -e "
                  "'s/# AFTER/recorder.stop()/' $here/tests/kineto/train.py > train.py && "
                  "GLOO_SOCKET_IFNAME=lo timeout 180 /usr/bin/python3 train.py 2 $PWD/store 2>&1",
                  scratch_dir, program);
    free(program);
    ck_assert_msg(r.code == 0, "%s", r.text);
    /* Four buckets in five steps; the last ones may end on gloo's thread when recording has. */
    assert_says(r.text, "all-reduces: ");
    n = strtol(strstr(r.text, "all-reduces: ") + 13, NULL, 10);
    ck_assert_msg(n >= 16 && n <= 20, "%ld all-reduces", n);
    program_run(&p, scratch_dir, 0, "import %s/traces --local-batch 64 --out %s/run", scratch_dir,
                scratch_dir);
    assert_says(p.out, "2 of 2 ranks");
    ck_assert_msg(is_there("run/job.json"), "%s", p.out);
    program_fini(&p);
    program_run(&p, scratch_dir, 0, "analyze --verbose %s/run", scratch_dir);
    assert_says(p.out, "Waterfall: "); /* of five steps, or four: the last may be cut off */
    assert_says(p.out, "  3  1.00 MiB");
    program_fini(&p);
}
END_TEST

/* ---- The preload library ---- */

#define MPI_RANK "RANK=$rank WORLD_SIZE=4 " LK_BUILD_DIR "/mpi/open/program steps"

START_TEST(ranks_on_mpi_become_a_run)
{
    struct program p;

    put_job("for rank in 0 1 2 3; do " MPI_RANK " & done; wait; exit 3\n");
    program_run(&p, scratch_dir, 3, "profile --out %s/run -- sh %s/job.sh", scratch_dir,
                scratch_dir);
    ck_assert_str_eq(p.out, "steps: done\nsteps: done\nsteps: done\nsteps: done\n");
    assert_says(p.err, "recorded 4 of 4 ranks by the preload library: 19 steps");
    assert_says(p.err, "no job.json: ");
    ck_assert(is_there("run/rank3.trace.json.gz"));
    ck_assert(!is_there("run/traces"));
    program_fini(&p);
    program_run(&p, scratch_dir, 0, "analyze --verbose %s/run", scratch_dir);
    assert_says(p.out, "periods of 7 collectives");
    program_fini(&p);
}
END_TEST

/* A job without MPI, whose environment has a plugin of NCCL's: it is left alone. */
START_TEST(other_profilers_are_left_alone)
{
    struct program p;

    put_job("echo $NCCL_PROFILER_PLUGIN; env | grep -c liblockstep_profile.so\n");
    setenv("NCCL_PROFILER_PLUGIN", "inspector", 1);
    program_run(&p, scratch_dir, 0, "profile --with=preload --out %s/run -- sh %s/job.sh",
                scratch_dir, scratch_dir);
    unsetenv("NCCL_PROFILER_PLUGIN");
    ck_assert_str_eq(p.out, "inspector\n3\n"); /* LD_PRELOAD, for NVTX, for CUDA */
    assert_says(p.err, "no process called a collective of MPI");
    assert_says(p.err, "nothing was recorded");
    ck_assert(!is_there("run"));
    program_fini(&p);
}
END_TEST

#define ON_CUPTI LK_BUILD_DIR "/cupti/program " LK_BUILD_DIR "/cupti/libcupti.so.13"

/* A process has one user of CUPTI: us, where this way alone is asked for; PyTorch, where all are
 * on; or who came first. */
static const struct {
    const char *options, *before, *injection, *says;
} cupti[] = {
    {"--with=preload --delay=1ms --for=500s --step-range=x", NULL, "liblockstep_profile.so",
     "recorded 1 of 1 ranks by the preload library: "},
    {"--with=preload", "nsys", "nsys", "CUDA_INJECTION64_PATH was set already: kernels were left"},
    {"--with=preload,daemon", NULL, "none", "nothing was recorded"},
    {"", NULL, "none", "nothing was recorded"},
};

START_TEST(kernels_are_recorded_by_one_profiler)
{
    struct program p;
    char said[64];

    if (cupti[_i].before)
        setenv("CUDA_INJECTION64_PATH", cupti[_i].before, 1);
    program_run(&p, scratch_dir, 3, "profile %s --out %s/run -- " ON_CUPTI, cupti[_i].options,
                scratch_dir);
    unsetenv("CUDA_INJECTION64_PATH");
    snprintf(said, sizeof said, "injection: %s\n", cupti[_i].injection);
    ck_assert_str_eq(p.out, said);
    assert_says(p.err, cupti[_i].says);
    ck_assert_int_eq(is_there("run"), _i == 0);
    if (_i == 0)
        assert_says(p.err, "overhead: recording took ");
    program_fini(&p);
    if (_i > 0)
        return;
    program_run(&p, scratch_dir, 0, "analyze --verbose %s/run", scratch_dir);
    assert_says(p.out, "periods of 5 kernels");
    program_fini(&p);
}
END_TEST

/* The job's processes find CUPTI where lockstep does: they are told the files. */
START_TEST(the_job_is_told_where_cupti_is)
{
    struct program p;
    char want[8192], *folder = realpath(LK_BUILD_DIR "/cupti", NULL);

    put_job("echo $LOCKSTEP_PROFILE_CUPTI\n");
    setenv("LOCKSTEP_LIBRARY_PATH", folder, 1);
    program_run(&p, scratch_dir, 0, "profile --with=%s --out %s/run -- sh %s/job.sh",
                _i ? "preload,daemon" : "preload", scratch_dir, scratch_dir);
    unsetenv("LOCKSTEP_LIBRARY_PATH");
    snprintf(want, sizeof want, "%s/libcupti.so.13:%s/libcupti.so.12\n", folder, folder);
    ck_assert_str_eq(p.out, _i ? "\n" : want);
    program_fini(&p);
    free(folder);
}
END_TEST

/* The runtime of AddressSanitizer would end a job in which the library comes before it. */
START_TEST(jobs_under_a_sanitizer_run)
{
    static const struct {
        const char *before, *after;
    } options[] = {
        {NULL, "verify_asan_link_order=0\n"},
        {"abort_on_error=1", "verify_asan_link_order=0:abort_on_error=1\n"},
        {"verify_asan_link_order=1", "verify_asan_link_order=1\n"},
    };

    put_job("echo $ASAN_OPTIONS\n");
    for (size_t i = 0; i < LK_COUNT(options); i++) {
        struct program p;

        unsetenv("ASAN_OPTIONS");
        if (options[i].before)
            setenv("ASAN_OPTIONS", options[i].before, 1);
        program_run(&p, scratch_dir, 0, "profile --out %s/run -- sh %s/job.sh", scratch_dir,
                    scratch_dir);
        unsetenv("ASAN_OPTIONS");
        ck_assert_str_eq(p.out, options[i].after);
        program_fini(&p);
    }
}
END_TEST

/* Without the library the way cannot work: who asks for it gets an error, before the job runs. */
START_TEST(the_library_must_be_there)
{
    struct shell_result r =
        shell_run("cp " LK_BUILD_DIR "/lockstep %s && cd %s && ./lockstep profile --with=preload "
                  "--out run -- echo ran 2>&1",
                  scratch_dir, scratch_dir);

    ck_assert_int_eq(r.code, 1);
    assert_says(r.text, "--with=preload: liblockstep_profile.so is neither beside lockstep");
    ck_assert_ptr_null(strstr(r.text, "ran\n"));
    ck_assert(!is_there("run"));
}
END_TEST

SUITE(profile, t)
{
    tcase_add_checked_fixture(t, scratch_set_up, scratch_tear_down);
    tcase_add_test(t, ranks_on_mpi_become_a_run);
    tcase_add_test(t, other_profilers_are_left_alone);
    tcase_add_loop_test(t, kernels_are_recorded_by_one_profiler, 0, (int)LK_COUNT(cupti));
    tcase_add_loop_test(t, the_job_is_told_where_cupti_is, 0, 2);
    tcase_add_test(t, jobs_under_a_sanitizer_run);
    tcase_add_test(t, the_library_must_be_there);
    tcase_add_test(t, two_ranks_become_a_run);
    tcase_add_test(t, traces_are_kept);
    tcase_add_loop_test(t, exit_status_is_the_jobs, 0, (int)LK_COUNT(jobs));
    tcase_add_test(t, input_is_the_jobs);
    tcase_add_loop_test(t, wrong_usage, 0, (int)LK_COUNT(refused));
    tcase_add_loop_test(t, signals_are_handed_on, 0, (int)LK_COUNT(signals));
    tcase_add_test(t, a_terminals_signal_comes_once);
    tcase_add_test(t, another_daemon_is_left_alone);
    tcase_add_test(t, snippet);
    tcase_add_test(t, snippet_with_pytorch);
}
