/* Start the fake machine with the program; see machine.h. */
#include "tests/dry/machine.h"

#include "base/clock.h"
#include "tests/fakes/fake_cublaslt_cuda.h"
#include "tests/fakes/fake_cuda.h"
#include "tests/fakes/fake_cudnn_cuda.h"
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
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

/* Record a call, and the external id that the calling thread has pushed, as far as they are asked
 * for. */
static void record_call(CUpti_CallbackId id)
{
    CUpti_ActivityExternalCorrelation e = {.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
                                           .externalKind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0,
                                           .correlationId = ++correlation};
    CUpti_ActivityAPI a = {.kind = CUPTI_ACTIVITY_KIND_RUNTIME,
                           .cbid = id,
                           .start = lk_now_ns(),
                           .threadId = (uint32_t)gettid(),
                           .correlationId = correlation};

    if (fake_cupti_stack.depth > 0 && fake_cupti_gives_id(true, id)) {
        e.externalId = fake_cupti_stack.ids[fake_cupti_stack.depth - 1];
        (void)fake_cupti_put(&e, sizeof e);
    }
    a.end = lk_now_ns();
    if (fake_cupti_records_call(true, id))
        (void)fake_cupti_put(&a, sizeof a);
}

/* Numbers of consecutive calls: of the first, and how many kernels they launch. */
static uint64_t calls(uint32_t first, size_t kernels)
{
    return (uint64_t)kernels << 32 | first;
}

/* Record the calls that put this work on a stream, one for each kernel. */
static uint64_t record_calls(const struct fake_work *w)
{
    static const CUpti_CallbackId ids[] = {
        [WORK_OP] = CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernelExC_v11060,
        [WORK_COPY] = CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_v3020,
        [WORK_SET] = CUPTI_RUNTIME_TRACE_CBID_cudaMemsetAsync_v3020,
        [WORK_GRAPH] = CUPTI_RUNTIME_TRACE_CBID_cudaGraphLaunch_v10000,
    };
    size_t kernels = w->kind == WORK_OP ? dry_kernels : 0, n = w->kind == WORK_OP ? kernels : 1;
    uint32_t first;

    if (n > 0)
        fake_cupti_called(ids[w->kind]);
    if (!records())
        return 0;
    pthread_mutex_lock(&recording);
    first = correlation + 1;
    for (size_t i = 0; i < n; i++)
        record_call(ids[w->kind]);
    pthread_mutex_unlock(&recording);
    return calls(first, kernels);
}

static void record_kernel(const char *name, uint32_t stream, uint32_t call, uint64_t start_ns,
                          uint64_t end_ns)
{
    CUpti_ActivityKernel10 k = {.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                .name = name,
                                .streamId = stream,
                                .correlationId = call,
                                .start = start_ns,
                                .end = end_ns};

    (void)fake_cupti_put(&k, sizeof k);
}

static void record_copy(const struct fake_work *w, uint32_t stream, uint32_t call,
                        uint64_t start_ns, uint64_t end_ns)
{
    static const CUpti_ActivityMemcpyKind kinds[2][2] = {
        {CUPTI_ACTIVITY_MEMCPY_KIND_DTOD, CUPTI_ACTIVITY_MEMCPY_KIND_DTOH},
        {CUPTI_ACTIVITY_MEMCPY_KIND_HTOD, CUPTI_ACTIVITY_MEMCPY_KIND_HTOH},
    };
    CUpti_ActivityMemcpy6 c = {
        .kind = CUPTI_ACTIVITY_KIND_MEMCPY,
        .copyKind = (uint8_t)kinds[fake_cuda_is_host(w->from)][fake_cuda_is_host(w->to)],
        .bytes = w->bytes,
        .streamId = stream,
        .correlationId = call,
        .start = start_ns,
        .end = end_ns};

    (void)fake_cupti_put(&c, sizeof c);
}

static void record_memset(const struct fake_work *w, uint32_t stream, uint32_t call,
                          uint64_t start_ns, uint64_t end_ns)
{
    CUpti_ActivityMemset4 m = {.kind = CUPTI_ACTIVITY_KIND_MEMSET,
                               .bytes = w->bytes,
                               .streamId = stream,
                               .correlationId = call,
                               .start = start_ns,
                               .end = end_ns};

    (void)fake_cupti_put(&m, sizeof m);
}

/* Record work that has run: an op's kernels share its time, with gaps between them. Those of a
 * graph have the number of its launch. */
static void record_work(const struct fake_work *w, cudaStream_t s, uint64_t start_ns,
                        uint64_t end_ns)
{
    size_t n = w->call >> 32;
    uint32_t stream = stream_number(s), call = (uint32_t)(w->launch ? w->launch : w->call);
    uint64_t each_ns = n ? (end_ns - start_ns) / n : 0;
    uint64_t gap_ns = each_ns < 2 * LK_NS_PER_US ? each_ns / 2 : LK_NS_PER_US;

    if (!records() || !call)
        return;
    pthread_mutex_lock(&recording);
    for (size_t i = 0; i < n; i++)
        record_kernel(w->op->name, stream, call + (w->launch ? 0 : (uint32_t)i),
                      start_ns + i * each_ns,
                      i + 1 < n ? start_ns + (i + 1) * each_ns - gap_ns : end_ns);
    if (w->kind == WORK_COPY)
        record_copy(w, stream, call, start_ns, end_ns);
    if (w->kind == WORK_SET)
        record_memset(w, stream, call, start_ns, end_ns);
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
    if (!records() || !call)
        return;
    pthread_mutex_lock(&recording);
    record_kernel(kernel, stream_number(stream), call, start_ns, end_ns);
    pthread_mutex_unlock(&recording);
}

/* ---- The start ---- */

void dry_sleep(const char *variable)
{
    const char *text = getenv(variable);
    double left_s = text ? strtod(text, NULL) : 0;

    for (; left_s > 0; left_s -= 0.5)
        usleep((useconds_t)(1e6 * (left_s < 0.5 ? left_s : 0.5)));
}

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
    fake_time.multiprocessors = 132;
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
    const char *program = program_invocation_short_name, *least = getenv("DRY_BLAS_ALIGNMENT");
    bool is_test = !strcmp(program, "test_gpu");
    bool calibrates = argc > 1 && !strcmp(argv[1], "calibrate");
    bool large = calibrates || !strcmp(program, "kernels_cuda");

    if (lk_kernels_init() != LK_OK) { /* the CPU computes */
        fprintf(stderr, "%s\n", lk_error_text());
        _exit(EXIT_FAILURE);
    }
    fake_cuda_reset(1);
    fake_cuda.tf32 = true;
    fake_cuda.host_threads = true;
    fake_cuda.open = 1; /* for good: protecting memory around every op takes too long */
    fake_cuda.idle = large || getenv("DRY_IDLE");
    fake_blas.idle = true;
    if (least)
        fake_blas.least_alignment = (uint32_t)strtoul(least, NULL, 10);
#ifdef LK_HAVE_CUDNN
    fake_cudnn.idle = true;
#endif
    fake_cuda.called = record_calls;
    fake_cuda.ran = record_work;
    if (calibrates || is_test)
        start_time();
    fake_cuda.real_time = is_test && !calibrates;
    fake_cupti_reset();
    fake_cupti.ids_with_kinds_only = getenv("DRY_CUPTI_NO_IDS");
    fake_nvml_reset();
    fake_nccl_share();
    fake_nccl.in_progress = 1;
    fake_nccl.called = record_nccl_call;
    fake_nccl.ran = record_nccl_kernel;
    inject();
}
