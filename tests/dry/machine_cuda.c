/* Start the fake machine with the program; see machine.h. */
#include "tests/dry/machine.h"

#include "base/clock.h"
#include "tests/fakes/fake_cuda.h"
#include "tests/fakes/fake_cupti_cuda.h"
#include "tests/fakes/fake_nccl.h"
#include "tests/fakes/fake_nccl_profiler.h"
#include "tests/fakes/fake_nvml.h"
#include "tests/fakes/fake_time_cuda.h"

#include <check.h>
#include <cupti_driver_cbid.h>
#include <cupti_runtime_cbid.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Replaces libcheck's: the fakes end a test by its assertions; here they end the program. */
void _ck_assert_failed(const char *file, int line, const char *expr, const char *msg, ...)
{
    va_list ap;

    fprintf(stderr, "%s:%d: %s: ", file, line, expr);
    va_start(ap, msg);
    if (msg)
        (void)vfprintf(stderr, msg, ap);
    va_end(ap);
    fputc('\n', stderr);
    abort();
}

void _mark_point(const char *file, int line)
{
    (void)file;
    (void)line;
}

/* ---- Records ---- */

static pthread_mutex_t recording = PTHREAD_MUTEX_INITIALIZER;
static uint32_t correlation;

static bool records(void)
{
    return atomic_load(&fake_cupti.kinds_enabled) > 0;
}

/* Return a small number for a stream, as CUPTI does. */
static uint32_t stream_number(cudaStream_t stream)
{
    return (uint32_t)((uintptr_t)stream % 1000003);
}

/* Record the external id that the calling thread has pushed, and its call, as far as they are asked
 * for. */
static uint32_t issue(CUpti_CallbackId call)
{
    CUpti_ActivityExternalCorrelation e = {.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
                                           .externalKind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0,
                                           .correlationId = ++correlation};

    CUpti_ActivityAPI a = {.kind = CUPTI_ACTIVITY_KIND_RUNTIME,
                           .cbid = call,
                           .start = lk_now_ns(),
                           .threadId = (uint32_t)gettid(),
                           .correlationId = correlation};

    if (fake_cupti_stack.depth > 0 && fake_cupti_gives_id(true, call)) {
        e.externalId = fake_cupti_stack.ids[fake_cupti_stack.depth - 1];
        (void)fake_cupti_put(&e, sizeof e);
    }
    a.end = lk_now_ns();
    if (fake_cupti_records_call(true, call))
        (void)fake_cupti_put(&a, sizeof a);
    return correlation;
}

/* Set the times of work: a microsecond after the stream's earlier work, which is far more than the
 * error of reading two clocks, for some microseconds. */
static void take_turn(uint32_t stream, uint64_t *start, uint64_t *end)
{
    enum { STREAMS = 16 };
    static struct {
        uint32_t stream;
        uint64_t end;
    } turns[STREAMS];
    size_t i = 0;

    while (i + 1 < STREAMS && turns[i].end && turns[i].stream != stream)
        i++;
    turns[i].stream = stream;
    *start = lk_now_ns();
    if (*start < turns[i].end + LK_NS_PER_US)
        *start = turns[i].end + LK_NS_PER_US;
    *end = turns[i].end = *start + 5 * LK_NS_PER_US;
}

void dry_record_kernel(const char *name, cudaStream_t stream)
{
    CUpti_ActivityKernel10 k = {.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, .name = name};

    fake_cupti_called(CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000);
    if (!records())
        return;
    pthread_mutex_lock(&recording);
    k.streamId = stream_number(stream);
    k.correlationId = issue(CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000);
    take_turn(k.streamId, &k.start, &k.end);
    (void)fake_cupti_put(&k, sizeof k);
    pthread_mutex_unlock(&recording);
}

void dry_record_copy(size_t bytes, cudaStream_t stream)
{
    CUpti_ActivityMemcpy6 c = {.kind = CUPTI_ACTIVITY_KIND_MEMCPY,
                               .copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_HTOD,
                               .bytes = bytes};

    if (!records())
        return;
    pthread_mutex_lock(&recording);
    c.streamId = stream_number(stream);
    c.correlationId = issue(CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_v3020);
    take_turn(c.streamId, &c.start, &c.end);
    (void)fake_cupti_put(&c, sizeof c);
    pthread_mutex_unlock(&recording);
}

/* Return the communicator that NCCL's profiler plugin is told of, with made-up sizes; NULL: there
 * is no plugin. */
static struct fake_comm *told_comm(void)
{
    static struct fake_plugin plugin;
    static struct fake_comm comm;
    const char *path = getenv("NCCL_PROFILER_PLUGIN"), *rank = getenv("RANK"),
               *ranks = getenv("WORLD_SIZE");

    if (!path || !rank || !ranks)
        return NULL;
    if (!plugin.table) {
        fake_plugin_open(&plugin, path, FAKE_NCCL_2_30);
        fake_comm_init(&comm, &plugin, 1, "dry", (int)strtol(ranks, NULL, 10),
                       (int)strtol(rank, NULL, 10));
    }
    return &comm;
}

/* NCCL launches on a thread of its own, whose calls carry no id of ours. */
static uint32_t record_nccl_call(void)
{
    const struct fake_call all_reduce = {"AllReduce", "ncclFloat32", 1000, 0, false, false};
    struct fake_comm *comm = told_comm();
    struct fake_call_work w;

    const uint64_t now = lk_now_ns();
    CUpti_ActivityAPI a = {.kind = CUPTI_ACTIVITY_KIND_DRIVER,
                           .cbid = CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx,
                           .start = now - 1,
                           .end = now,
                           .threadId = (uint32_t)gettid()};

    if (comm)
        fake_call_api(comm, &all_reduce, &w);
    if (records()) {
        pthread_mutex_lock(&recording);
        a.correlationId = ++correlation;
        if (fake_cupti_records_call(false, a.cbid))
            (void)fake_cupti_put(&a, sizeof a);
        pthread_mutex_unlock(&recording);
    }
    if (comm)
        fake_launch(comm, &w);
    return a.correlationId;
}

static void record_nccl_kernel(const char *kernel, cudaStream_t stream, uint32_t call,
                               uint64_t start_ns, uint64_t end_ns)
{
    CUpti_ActivityKernel10 k = {.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                .name = kernel,
                                .streamId = stream_number(stream),
                                .correlationId = call,
                                .start = start_ns,
                                .end = end_ns};

    if (!records() || !call)
        return;
    pthread_mutex_lock(&recording);
    (void)fake_cupti_put(&k, sizeof k);
    pthread_mutex_unlock(&recording);
}

/* ---- The start ---- */

/* Set rates near those of an H100. */
static void start_time(void)
{
    fake_time_reset();
    fake_time.flops = 7e14;
    fake_time.copy_Bps = 1.3e12;
    fake_time.host_Bps = 5e10;
    fake_time.compute_ms = 0.05;
    fake_time.wait_slowdown = 0.05;
    fake_time.wire_slowdown = 0.1;
    fake_time.delta = 0.04;
}

/* Call a tool's entry point, as the driver does in cuInit. */
static void inject(void)
{
    const char *path = getenv("CUDA_INJECTION64_PATH");
    void *library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    int (*initialize)(void);

    if (!library)
        return;
    *(void **)&initialize = dlsym(library, "InitializeInjection");
    if (initialize)
        (void)initialize();
}

__attribute__((constructor)) static void start(int argc, char **argv)
{
    bool calibrates = argc > 1 && !strcmp(argv[1], "calibrate");
    bool large = calibrates || !strcmp(program_invocation_short_name, "kernels_cuda");

    fake_cuda_reset(1);
    fake_cuda.tf32 = true;
    fake_cuda.host_threads = true;
    fake_cuda.open = 1; /* for good: protecting memory around every op takes too long */
    fake_cuda.idle = large || getenv("DRY_IDLE");
    if (calibrates)
        start_time();
    fake_cupti_reset();
    fake_cupti.ids_with_kinds_only = getenv("DRY_CUPTI_NO_IDS");
    fake_nvml_reset();
    fake_nccl_share();
    fake_nccl.in_progress = 1;
    fake_nccl.called = record_nccl_call;
    fake_nccl.ran = record_nccl_kernel;
    inject();
}
