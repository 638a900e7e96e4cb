/*
 * CUPTI in a window (preload/cupti.c), with a stand-in for CUPTI (tests/cupti). A job is a child of
 * the test, which reads the file that it leaves.
 */
#include "base/array.h"
#include "base/clock.h"
#include "preload/cupti_abi.h"
#include "tests/fakes/fake_nccl_profiler.h"
#include "tests/rigs/cupti_rig.h"
#include "tests/rigs/probe_log.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/shell.h"
#include "tests/rigs/suite.h"

#include <dirent.h>
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define LONG "600" /* a window that ends with its process */

static struct cupti_rig rig;

/* Run a job in a child, and return how it ended. */
static int job(void (*run)(void))
{
    pid_t pid = fork();
    int status;

    if (pid == 0) {
        run();
        exit(0);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return status;
}

static void begin(const char *length_s)
{
    probe_log_to(scratch_dir, 1);
    cupti_rig_open(&rig, CUPTI_RIG_13);
    cupti_rig_inject(LK_PRELOAD_TESTED, "0", length_s);
}

static int64_t now(void)
{
    return (int64_t)lk_now_ns();
}

static bool is_empty(void)
{
    DIR *dir = opendir(scratch_dir);
    size_t n = 0;

    ck_assert_ptr_nonnull(dir);
    while (readdir(dir))
        n++;
    closedir(dir);
    return n == 2;
}

static void launch(const char *name)
{
    const int64_t at = now();

    rig.kernel(name, 7, at, at + 1);
}

/* ---- What is recorded ---- */

enum { KERNELS = 50 };

static void all_kinds(void)
{
    int64_t at;

    probe_log_to(scratch_dir, 1);
    cupti_rig_open(&rig, getenv("OLD") ? CUPTI_RIG_12 : CUPTI_RIG_13);
    rig.fake->ahead_ns = INT64_C(1763900000000000000);
    cupti_rig_inject(LK_PRELOAD_TESTED, "0", LONG);
    cupti_rig_await_window(&rig, getenv("OLD") ? 6 : 4);
    at = now();
    rig.copy(4096, at, at + 10);
    rig.memset(8192, at + 20, at + 30);
    for (int i = 0; i < KERNELS; i++)
        rig.kernel("_Z4gemmPf", 7, at + 1000 * i + 100, at + 1000 * i + 600);
    rig.wait(at, at + 5000);
    rig.kernel("unfinished", 7, 0, 0);
}

START_TEST(records_are_those_of_the_gpu)
{
    const struct lk_probe_record *copy, *kernel, *call;
    struct probe_log l;

    if (_i)
        setenv("OLD", "1", 1);
    ck_assert_int_eq(job(all_kinds), 0);
    probe_log_read(&l, scratch_dir);
    copy = probe_log_at(&l, LK_PROBE_COPY, 0);
    kernel = probe_log_at(&l, LK_PROBE_KERNEL, 3);
    call = probe_log_of(&l, LK_PROBE_LAUNCH, kernel->link);
    ck_assert_uint_eq(l.header->cupti, LK_PROBE_CUPTI_RECORDED);
    ck_assert_uint_eq(probe_log_count(&l, LK_PROBE_KERNEL), KERNELS);
    ck_assert_uint_eq(probe_log_count(&l, LK_PROBE_LAUNCH), KERNELS + 3);
    ck_assert_uint_eq(probe_log_at(&l, LK_PROBE_MEMSET, 0)->count, 8192);
    ck_assert_str_eq(l.names + probe_log_at(&l, LK_PROBE_SYNC, 0)->name, "cudaStreamSynchronize");
    ck_assert_str_eq(l.names + copy->name, "HtoD");
    ck_assert_uint_eq(copy->count, 4096);
    ck_assert_str_eq(l.names + kernel->name, "_Z4gemmPf");
    ck_assert_uint_eq(kernel->lane, 7);
    ck_assert_int_eq(kernel->peer, 1);
    ck_assert_int_eq(kernel->end_ns - kernel->start_ns, 500);
    /* On the host's clock, as exactly as clocks are compared: 1 ms, were it a busy machine. */
    ck_assert_int_lt(llabs((long long)(kernel->start_ns - call->start_ns)), 1000000);
    ck_assert_int_eq(copy->start_ns + 3100, kernel->start_ns);
    ck_assert_int_eq(call->lane == l.header->pid, _i == 0); /* the thread's number, if it can */
    ck_assert_int_ge(l.header->window_start_ns, l.header->pairs[0].before_ns - 1000000000);
    ck_assert_int_ge(l.header->window_end_ns, kernel->end_ns);
    ck_assert_int_ne(l.header->window_end_ns, LK_PROBE_NO_END);
    ck_assert_uint_gt(l.header->spent_ns, 0);
    probe_log_fini(&l);
}
END_TEST

/* CUPTI is left as it was found: others may use it. */
START_TEST(cupti_is_given_back)
{
    begin("0.01");
    cupti_rig_launch_first(&rig);
    cupti_rig_await(&rig.fake->registered, 1);
    cupti_rig_await(&rig.fake->subscribed, 0);
    ck_assert_int_eq(rig.fake->watched, 0);
    ck_assert_int_eq(rig.fake->enabled, 0);
    ck_assert_int_eq(rig.fake->lent, 0);
    launch("later");
    ck_assert_int_eq(rig.fake->lent, 0);
    ck_assert(is_empty()); /* a process that launched nothing leaves no file */
}
END_TEST

/* ---- Who else uses CUPTI ---- */

static const struct {
    const char *call;
    int with;
    uint32_t version;
    enum lk_probe_cupti what;
    uint32_t error;
} refusals[] = {
    {"cuptiSubscribe", 39, 130001, LK_PROBE_CUPTI_TAKEN, 0},
    {"cuptiSubscribe", 12, 130001, LK_PROBE_CUPTI_TAKEN, 0},
    {"cuptiSubscribe", 35, 130001, LK_PROBE_CUPTI_FORBIDDEN, 0},
    {"cuptiActivityEnable", 14, 130001, LK_PROBE_CUPTI_TAKEN, 0},
    {"cuptiActivityRegisterCallbacks", 999, 130001, LK_PROBE_CUPTI_REFUSED, 999},
    {"cuptiGetVersion", 1, 130001, LK_PROBE_CUPTI_UNKNOWN, 0},
    {NULL, 0, 140000, LK_PROBE_CUPTI_UNKNOWN, 0},
    {NULL, 0, 11, LK_PROBE_CUPTI_UNKNOWN, 0},
    {NULL, 0, 130000, LK_PROBE_CUPTI_HANGS, 0},
};
static int refusal;

static void collective(struct fake_comm *c)
{
    const struct fake_call call = {"AllReduce", "ncclFloat32", 1000, 0, false, false};
    struct fake_call_work w;

    fake_call_enqueue(c, &call, &w);
}

static void open_comm(struct fake_comm *c)
{
    static struct fake_plugin plugin;

    fake_plugin_open(&plugin, LK_PRELOAD_TESTED, FAKE_NCCL_2_30);
    fake_comm_init(c, &plugin, 1, "dp", 2, 0);
}

/* How CUPTI fared is told in the file that collectives make. */
static void refused(void)
{
    struct fake_comm c;

    probe_log_to(scratch_dir, 1);
    cupti_rig_open(&rig, CUPTI_RIG_13);
    rig.fake->fail_call = refusals[refusal].call;
    rig.fake->fail_with = refusals[refusal].with;
    rig.fake->version = refusals[refusal].version;
    open_comm(&c);
    collective(&c);
    cupti_rig_inject(LK_PRELOAD_TESTED, "0", LONG);
}

START_TEST(a_refusal_is_told)
{
    const struct lk_deadline deadline = lk_deadline_in(LK_NS_PER_S * 100);
    struct fake_comm c;
    struct probe_log l;

    refusal = _i;
    refused();
    do {
        probe_log_read(&l, scratch_dir);
        if (l.header->cupti > LK_PROBE_CUPTI_WAITING)
            break;
        probe_log_fini(&l);
        usleep(1000);
    } while (lk_deadline_left_ns(deadline));
    ck_assert_uint_eq(l.header->cupti, refusals[_i].what);
    ck_assert_uint_eq(l.header->cupti_error, refusals[_i].error);
    ck_assert_int_eq(rig.fake->subscribed, 0);
    ck_assert_int_eq(rig.fake->enabled, 0);
    ck_assert_uint_eq(probe_log_count(&l, LK_PROBE_COLLECTIVE_CALL), 1);
    probe_log_fini(&l);
    open_comm(&c);
    collective(&c); /* the job goes on */
}
END_TEST

/* ---- When ---- */

/* One of several ranks waits for its first collective, whatever it launches before. */
START_TEST(a_rank_waits_for_its_first_collective)
{
    struct fake_comm c;
    struct probe_log l;

    setenv("WORLD_SIZE", "2", 1);
    begin("0.01");
    usleep(300000);
    ck_assert_int_eq(rig.fake->registered, 0);
    open_comm(&c);
    usleep(300000);
    ck_assert_int_eq(rig.fake->registered, 0);
    collective(&c);
    cupti_rig_await(&rig.fake->registered, 1);
    cupti_rig_await(&rig.fake->subscribed, 0);
    probe_log_read(&l, scratch_dir);
    ck_assert_uint_gt(l.header->n_window, 0);
    probe_log_fini(&l);
}
END_TEST

/* ---- A process that is no rank ---- */

/* One that launches no kernel, as what starts ranks, keeps CUPTI off, though it is looked at again
 * and again; the first kernel begins the window, in which it is not. */
START_TEST(a_process_without_kernels_has_no_window)
{
    begin(LONG);
    for (int i = 0; i < 2; i++) {
        while (!rig.fake->watched)
            usleep(1000);
        ck_assert_int_eq(rig.fake->enabled, 0);
        while (rig.fake->watched)
            usleep(1000);
    }
    ck_assert_int_eq(rig.fake->registered, 0);
    cupti_rig_await_window(&rig, 4);
    ck_assert_int_eq(rig.fake->watched, 0);
}
END_TEST

/* Make a stand-in of the driver, of two GPUs, the second with a context if `active` is set. */
static int *make_driver(void)
{
    char *path = scratch_path(scratch_dir, "libcuda.so.1");
    struct shell_result r = shell_run(
        "cd '%s' && printf 'int active; int cuDeviceGetCount(int *n) { *n = 2; return 0; }\\n"
        "int cuDeviceGet(int *d, int i) { *d = 7 * i; return 0; }\\n"
        "int cuDevicePrimaryCtxGetState(int d, unsigned *f, int *a) { *a = active && d == 7; "
        "return *f = 0; }\\n' > driver.c && cc -shared -fPIC -Wl,-soname,libcuda.so.1 -o "
        "libcuda.so.1 driver.c 2>&1 && rm driver.c",
        scratch_dir);
    void *driver;
    int *active;

    ck_assert_msg(r.code == 0, "%s", r.text);
    driver = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    ck_assert_msg(driver != NULL, "%s", dlerror());
    active = dlsym(driver, "active");
    ck_assert_ptr_nonnull(active);
    free(path);
    return active;
}

/* One without a context, as a process that has reset its GPU, does not even touch CUPTI. */
START_TEST(a_process_without_a_context_is_left_alone)
{
    volatile int *active = make_driver();

    begin("0.01");
    usleep(1500000);
    ck_assert_int_eq(rig.fake->subscribed, 0);
    *active = 1;
    cupti_rig_launch_first(&rig);
    cupti_rig_await(&rig.fake->registered, 1);
}
END_TEST

/* ---- Another profiler ---- */

static int (*registers)(cupti_request *, cupti_complete *);

/* Find the function that a library linked with CUPTI calls: the preload library's, before CUPTI's.
 */
static void find_register(void)
{
    void *library = dlopen(LK_PRELOAD_TESTED, RTLD_NOW | RTLD_NOLOAD), *symbol;

    ck_assert_ptr_nonnull(library);
    symbol = dlsym(library, "cuptiActivityRegisterCallbacks");
    ck_assert_ptr_nonnull(symbol);
    memcpy(&registers, &symbol, sizeof symbol);
}

static int theirs; /* buffers that the other profiler lent */

static void lend(uint8_t **buffer, size_t *bytes, size_t *most)
{
    static uint8_t memory[1 << 16];

    theirs++;
    *buffer = memory;
    *bytes = sizeof memory;
    *most = 0;
}

static void take(void *context, uint32_t stream, uint8_t *buffer, size_t bytes, size_t valid)
{
    (void)context;
    (void)stream;
    (void)buffer;
    (void)bytes;
    (void)valid;
}

/* What torch.profiler does that begins in the window: all is its own from then on, and what it
 * switches on stays on. */
static void profiled_in_the_window(void)
{
    begin("1");
    cupti_rig_await_window(&rig, 4);
    find_register();
    launch("ours");
    if (registers(lend, take) != 0 || rig.fake->enabled != 0 || rig.fake->subscribed != 0)
        _exit(1);
    rig.enable(10); /* kernels */
    launch("theirs");
    if (theirs != 1)
        _exit(2);
    usleep(1500000); /* until the window would have ended */
    if (rig.fake->enabled != 1 || rig.fake->registered != 2)
        _exit(3);
}

START_TEST(another_profiler_ends_the_window)
{
    struct probe_log l;

    ck_assert_int_eq(job(profiled_in_the_window), 0);
    probe_log_read(&l, scratch_dir);
    ck_assert_uint_eq(l.header->cupti, LK_PROBE_CUPTI_RECORDED);
    ck_assert_uint_eq(probe_log_count(&l, LK_PROBE_KERNEL), 1);
    ck_assert_int_lt(l.header->window_end_ns, now());
    probe_log_fini(&l);
}
END_TEST

/* Who has CUPTI before keeps it. */
static void profiled_before(void)
{
    struct fake_comm c;

    probe_log_to(scratch_dir, 1);
    cupti_rig_open(&rig, CUPTI_RIG_13);
    open_comm(&c);
    find_register();
    if (registers(lend, take) != 0)
        _exit(1);
    collective(&c);
    cupti_rig_inject(LK_PRELOAD_TESTED, "0", LONG);
    usleep(500000);
    if (rig.fake->enabled != 0 || rig.fake->registered != 1)
        _exit(2);
}

START_TEST(another_profiler_keeps_what_it_has)
{
    struct probe_log l;

    ck_assert_int_eq(job(profiled_before), 0);
    probe_log_read(&l, scratch_dir);
    ck_assert_uint_eq(l.header->cupti, LK_PROBE_CUPTI_TAKEN);
    probe_log_fini(&l);
}
END_TEST

/* A library that is linked with CUPTI, and two programs: one loads it with RTLD_LOCAL, as Python
 * does, the other is linked with both. They say whose function they call, and what came of it. */
static const char user_source[] =
    "#define _GNU_SOURCE\n#include \"tests/cupti/cupti.h\"\n#include <dlfcn.h>\n"
    "#include <stdio.h>\n#include <string.h>\n"
    "int cuptiActivityRegisterCallbacks(void *, void *);\nstruct fake_cupti *fake_state(void);\n"
    "void call(void)\n{\n    Dl_info i;\n"
    "    int e = cuptiActivityRegisterCallbacks((void *)call, (void *)call);\n"
    "    dladdr((void *)cuptiActivityRegisterCallbacks, &i);\n"
    "    printf(\"%s %d %d\\n\", strrchr(i.dli_fname, '/') + 1, e, fake_state()->registered);\n}\n";
static const char loads_source[] =
    "#include <dlfcn.h>\nint main(void)\n{\n    void *user = dlopen(\"./user.so\", RTLD_NOW);\n"
    "    void (*call)(void) = (void (*)(void))dlsym(user, \"call\");\n    call();\n"
    "    return 0;\n}\n";
static const char linked_source[] =
    "void call(void);\nint main(void)\n{\n    call();\n    return 0;\n}\n";

START_TEST(registering_is_handed_on)
{
    struct shell_result r;

    free(scratch_put("user.c", user_source, strlen(user_source)));
    free(scratch_put("loads.c", loads_source, strlen(loads_source)));
    free(scratch_put("linked.c", linked_source, strlen(linked_source)));
    r = shell_run("root=$PWD cupti=$(realpath " LK_BUILD_DIR
                  "/cupti) preload=$(realpath " LK_BUILD_DIR
                  "/liblockstep_profile.so) && cd '%s' && "
                  "cc -shared -fPIC -I$root -o user.so user.c -L$cupti -l:libcupti.so.13 "
                  "-Wl,-rpath,$cupti && cc -o loads loads.c -ldl && "
                  "cc -I$root -o linked linked.c user.c -L$cupti -l:libcupti.so.13 "
                  "-Wl,-rpath,$cupti -ldl && for p in loads linked; do ./$p; "
                  "LD_PRELOAD=$preload ./$p; done 2>&1",
                  scratch_dir);
    ck_assert_str_eq(r.text, "libcupti.so.13 0 1\nliblockstep_profile.so 0 1\n"
                             "libcupti.so.13 0 1\nliblockstep_profile.so 0 1\n");
}
END_TEST

/* ---- Where CUPTI is ---- */

/* A library where neither the loader nor the toolkit has one: `lockstep profile` found it. */
static void finds_what_it_was_given(void)
{
    setenv("LOCKSTEP_PROFILE_CUPTI",
           "/nowhere/libcupti.so.13:" LK_BUILD_DIR "/cupti/libcupti.so.12", 1);
    probe_log_to(scratch_dir, 1);
    cupti_rig_inject(LK_PRELOAD_TESTED, "0", LONG);
    while (!dlopen(LK_BUILD_DIR "/cupti/libcupti.so.12", RTLD_NOW | RTLD_NOLOAD))
        usleep(1000);
    cupti_rig_open(&rig, CUPTI_RIG_12);
    cupti_rig_await_window(&rig, 6);
    launch("k");
}

START_TEST(a_library_is_found_where_lockstep_finds_it)
{
    struct probe_log l;

    ck_assert_int_eq(job(finds_what_it_was_given), 0);
    probe_log_read(&l, scratch_dir);
    ck_assert_uint_eq(probe_log_count(&l, LK_PROBE_KERNEL), 1);
    probe_log_fini(&l);
}
END_TEST

static void exits_before(void)
{
    struct fake_comm c;

    probe_log_to(scratch_dir, 1);
    open_comm(&c);
    collective(&c);
    cupti_rig_inject(LK_PRELOAD_TESTED, "500", LONG);
    usleep(300000);
}

START_TEST(a_process_that_ends_before_says_so)
{
    struct probe_log l;

    ck_assert_int_eq(job(exits_before), 0);
    probe_log_read(&l, scratch_dir);
    ck_assert_uint_eq(l.header->cupti, LK_PROBE_CUPTI_WAITING);
    ck_assert_uint_eq(l.header->n_window, 0);
    probe_log_fini(&l);
}
END_TEST

/* Called behind the library's end, which was registered later. */
static void assert_no_thread(void)
{
    if (!rig.fake->lingered)
        _exit(3);
}

static void ends_slowly(void)
{
    ck_assert_int_eq(atexit(assert_no_thread), 0);
    probe_log_to(scratch_dir, 1);
    cupti_rig_open(&rig, CUPTI_RIG_13);
    rig.fake->linger_ns = 300 * LK_NS_PER_MS;
    cupti_rig_inject(LK_PRELOAD_TESTED, "0", LONG);
    cupti_rig_await_window(&rig, 4);
}

/* Else AddressSanitizer takes what the thread owns for leaked, and the job's exit code is not its
 * own. */
START_TEST(the_thread_ends_before_its_process)
{
    ck_assert_int_eq(job(ends_slowly), 0);
}
END_TEST

/* ---- Bounds ---- */

static void a_million_kernels(void)
{
    struct fake_comm c;
    const int64_t at = now();

    begin(LONG);
    cupti_rig_await_window(&rig, 4);
    for (int i = 0; i < 1000000; i++)
        rig.kernel("k", 7, at + i, at + i + 1);
    cupti_rig_await(&rig.fake->subscribed, 0); /* its window is full */
    open_comm(&c);
    collective(&c);
}

START_TEST(a_full_window_ends)
{
    struct probe_log l;

    ck_assert_int_eq(job(a_million_kernels), 0);
    probe_log_read(&l, scratch_dir);
    ck_assert_uint_le(l.bytes, (2 << 20) + (1 << 19));
    ck_assert_uint_gt(l.header->window_head, l.header->n_window);
    ck_assert_int_le(
        l.header->window_end_ns,
        probe_log_at(&l, LK_PROBE_KERNEL, probe_log_count(&l, LK_PROBE_KERNEL) - 1)->start_ns + 1);
    ck_assert_uint_eq(probe_log_count(&l, LK_PROBE_COLLECTIVE_CALL), 1);
    probe_log_fini(&l);
}
END_TEST

/* CUPTI that never returns a buffer gets no more than there are; one that would crash without gets
 * more, and the window ends. */
static void keeps_buffers(void)
{
    int64_t at;

    probe_log_to(scratch_dir, 1);
    cupti_rig_open(&rig, CUPTI_RIG_13);
    rig.fake->version = getenv("OLD") ? 26 : 130001;
    cupti_rig_inject(LK_PRELOAD_TESTED, "0", LONG);
    cupti_rig_await_window(&rig, 4);
    launch("first");
    rig.deliver();
    rig.fake->keeps = true;
    at = now();
    for (int i = 0; i < 100000; i++)
        rig.kernel("k", 7, at, at + 1);
    cupti_rig_await(&rig.fake->subscribed, 0);
    ck_assert_int_eq(rig.fake->refused > 0, rig.fake->version != 26);
    ck_assert_int_eq(rig.fake->lent > 64, rig.fake->version == 26);
}

START_TEST(buffers_that_never_come_back_end_the_window)
{
    struct probe_log l;

    if (_i)
        setenv("OLD", "1", 1);
    ck_assert_int_eq(job(keeps_buffers), 0);
    probe_log_read(&l, scratch_dir);
    ck_assert_uint_eq(probe_log_count(&l, LK_PROBE_KERNEL), 1);
    ck_assert_int_ne(l.header->window_end_ns, LK_PROBE_NO_END);
    probe_log_fini(&l);
}
END_TEST

/* ---- Ends ---- */

static void late(void)
{
    begin("0.01");
    cupti_rig_launch_first(&rig);
    cupti_rig_await(&rig.fake->registered, 1);
    rig.fake->is_late = true;
    cupti_rig_await(&rig.fake->subscribed, 0);
    rig.deliver();
}

/* Buffers come back behind the window's end, also where one was lent in it. */
START_TEST(late_buffers_are_taken)
{
    ck_assert_int_eq(job(late), 0);
}
END_TEST

static void killed(void)
{
    begin(LONG);
    cupti_rig_await_window(&rig, 4);
    launch("k");
    rig.deliver();
    launch("k");
    raise(SIGKILL);
}

START_TEST(a_killed_process_leaves_its_records)
{
    struct probe_log l;

    ck_assert(WIFSIGNALED(job(killed)));
    probe_log_read(&l, scratch_dir);
    ck_assert_uint_ge(probe_log_count(&l, LK_PROBE_KERNEL), 1);
    ck_assert_int_eq(l.header->window_end_ns, LK_PROBE_NO_END);
    probe_log_fini(&l);
}
END_TEST

static void in_child(void)
{
    launch("child");
    rig.deliver();
}

static void forks(void)
{
    begin(LONG);
    cupti_rig_await_window(&rig, 4);
    launch("before");
    rig.deliver();
    ck_assert_int_eq(job(in_child), 0);
    launch("after");
}

START_TEST(a_forked_child_records_nothing)
{
    struct probe_log l;

    ck_assert_int_eq(job(forks), 0);
    probe_log_read(&l, scratch_dir);
    ck_assert_uint_eq(probe_log_count(&l, LK_PROBE_KERNEL), 2);
    ck_assert_str_eq(l.names + probe_log_at(&l, LK_PROBE_KERNEL, 1)->name, "after");
    probe_log_fini(&l);
}
END_TEST

/* Without the variable for the folder nothing is touched. */
START_TEST(nothing_happens_in_other_processes)
{
    cupti_rig_open(&rig, CUPTI_RIG_13);
    unsetenv("LOCKSTEP_PROFILE_DIR");
    cupti_rig_inject(LK_PRELOAD_TESTED, "0", "0");
    usleep(300000);
    ck_assert_int_eq(rig.fake->registered, 0);
}
END_TEST

SUITE(cupti_window, tests)
{
    tcase_add_checked_fixture(tests, scratch_set_up, scratch_tear_down);
    tcase_add_loop_test(tests, records_are_those_of_the_gpu, 0, 2);
    tcase_add_test(tests, cupti_is_given_back);
    tcase_add_loop_test(tests, a_refusal_is_told, 0, (int)LK_COUNT(refusals));
    tcase_add_test(tests, a_rank_waits_for_its_first_collective);
    tcase_add_test(tests, a_process_without_kernels_has_no_window);
    tcase_add_test(tests, a_process_without_a_context_is_left_alone);
    tcase_add_test(tests, another_profiler_ends_the_window);
    tcase_add_test(tests, another_profiler_keeps_what_it_has);
    tcase_add_test(tests, registering_is_handed_on);
    tcase_add_test(tests, a_library_is_found_where_lockstep_finds_it);
    tcase_add_test(tests, a_process_that_ends_before_says_so);
    tcase_add_test(tests, the_thread_ends_before_its_process);
    tcase_add_test(tests, a_full_window_ends);
    tcase_add_loop_test(tests, buffers_that_never_come_back_end_the_window, 0, 2);
    tcase_add_test(tests, late_buffers_are_taken);
    tcase_add_test(tests, a_killed_process_leaves_its_records);
    tcase_add_test(tests, a_forked_child_records_nothing);
    tcase_add_test(tests, nothing_happens_in_other_processes);
}
