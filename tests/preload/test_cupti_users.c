/*
 * In which processes CUPTI's window begins, and what becomes of it where another profiler uses
 * CUPTI (preload/cupti.c, cupti_user.c): with a stand-in for CUPTI (tests/cupti).
 */
#include "base/clock.h"
#include "facts/cupti_abi.h"
#include "tests/fakes/fake_nccl_profiler.h"
#include "tests/rigs/cupti_rig.h"
#include "tests/rigs/foreign_log.h"
#include "tests/rigs/scratch.h"
#include "tests/rigs/shell.h"
#include "tests/rigs/suite.h"

#include <dlfcn.h>
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
    foreign_log_to(scratch_dir, 1);
    cupti_rig_open(&rig, CUPTI_RIG_13);
    cupti_rig_inject(LK_PRELOAD_TESTED, "0", length_s);
}

static void launch(const char *name)
{
    const int64_t at = (int64_t)lk_now_ns();

    rig.kernel(name, 7, at, at + 1);
}

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
    cupti_rig_await_window(&rig);
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
    begin(LONG);
    cupti_rig_await_window(&rig);
    find_register();
    launch("ours");
    if (registers(lend, take) != 0 || rig.fake->enabled != 0 || rig.fake->subscribed != 0)
        _exit(1);
    rig.enable(10); /* kernels */
    launch("theirs");
    if (theirs != 1)
        _exit(2);
    usleep(500000); /* the window's thread ends */
    if (rig.fake->enabled != 1 || rig.fake->registered != 2)
        _exit(3);
}

START_TEST(another_profiler_ends_the_window)
{
    struct foreign_log l;

    ck_assert_int_eq(job(profiled_in_the_window), 0);
    foreign_log_read(&l, scratch_dir);
    ck_assert_uint_eq(l.header->cupti, LK_FOREIGN_CUPTI_RECORDED);
    ck_assert_uint_eq(foreign_log_count(&l, LK_FOREIGN_KERNEL), 1);
    ck_assert_int_lt(l.header->window_end_ns, (int64_t)lk_now_ns());
    foreign_log_fini(&l);
}
END_TEST

/* Who has CUPTI before keeps it. */
static void profiled_before(void)
{
    struct fake_comm c;

    foreign_log_to(scratch_dir, 1);
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
    struct foreign_log l;

    ck_assert_int_eq(job(profiled_before), 0);
    foreign_log_read(&l, scratch_dir);
    ck_assert_uint_eq(l.header->cupti, LK_FOREIGN_CUPTI_TAKEN);
    foreign_log_fini(&l);
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
    foreign_log_to(scratch_dir, 1);
    cupti_rig_inject(LK_PRELOAD_TESTED, "0", LONG);
    while (!dlopen(LK_BUILD_DIR "/cupti/libcupti.so.12", RTLD_NOW | RTLD_NOLOAD))
        usleep(1000);
    cupti_rig_open(&rig, CUPTI_RIG_12);
    cupti_rig_await_window(&rig);
    launch("k");
}

START_TEST(a_library_is_found_where_lockstep_finds_it)
{
    struct foreign_log l;

    ck_assert_int_eq(job(finds_what_it_was_given), 0);
    foreign_log_read(&l, scratch_dir);
    ck_assert_uint_eq(foreign_log_count(&l, LK_FOREIGN_KERNEL), 1);
    foreign_log_fini(&l);
}
END_TEST

SUITE(cupti_users, tests)
{
    tcase_add_checked_fixture(tests, scratch_set_up, scratch_tear_down);
    tcase_add_test(tests, a_process_without_kernels_has_no_window);
    tcase_add_test(tests, a_process_without_a_context_is_left_alone);
    tcase_add_test(tests, another_profiler_ends_the_window);
    tcase_add_test(tests, another_profiler_keeps_what_it_has);
    tcase_add_test(tests, registering_is_handed_on);
    tcase_add_test(tests, a_library_is_found_where_lockstep_finds_it);
}
