/* CUDA's run-time library; see machine.h. */
#include "tests/dry/machine.h"
#include "tests/fakes/fake_cuda.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

/* Take the fake driver's properties (tests/dry/make_machine), so that files and
 * presets agree on the name. */
static cudaError_t properties(struct cudaDeviceProp *p, int gpu)
{
    cudaError_t e = fake_cuda_calls.GetDeviceProperties(p, gpu);

    (void)strcpy(p->name, "NVIDIA H100 80GB HBM3");
    return e;
}

static void start_cuda(void)
{
    dry_sleep("DRY_START_S");
}

/* Take as long as CUDA does to start: programs ask this first. */
static cudaError_t device_count(int *n)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    (void)pthread_once(&once, start_cuda);
    return fake_cuda_calls.GetDeviceCount(n);
}

static const struct {
    size_t offset; /* in the table */
    void (*function)(void);
} own[] = {
    {offsetof(struct lk_cuda_calls, GetDeviceCount), (void (*)(void))device_count},
    {offsetof(struct lk_cuda_calls, GetDeviceProperties), (void (*)(void))properties},
};

/* For functions that the loader calls before any other code of the program, sanitizers included. */
#define EARLY __attribute__((no_sanitize("address"), no_sanitize("undefined")))

EARLY static void (*function_at(size_t offset))(void)
{
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (own[i].offset == offset)
            return own[i].function;
    return *(void (*const *)(void))((const char *)&fake_cuda_calls + offset);
}

#define FUNCTION(call)                                                                             \
    EARLY static __typeof__(cuda##call) *find_##call(void)                                         \
    {                                                                                              \
        return (__typeof__(cuda##call) *)function_at(offsetof(struct lk_cuda_calls, call));        \
    }                                                                                              \
    __typeof__(cuda##call) cuda##call __attribute__((ifunc("find_" #call)));
LK_CUDA_CALL_LIST(FUNCTION)

/* ---- Functions outside the table ---- */

const char *cudaGetErrorName(cudaError_t e)
{
    return e == cudaSuccess ? "cudaSuccess" : "an error of the machine that is none";
}

const char *cudaGetErrorString(cudaError_t e)
{
    return cudaGetErrorName(e);
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
    struct cudaDeviceProp p;
    cudaError_t e = cudaGetDeviceProperties(&p, device);

    *value = attribute == cudaDevAttrComputeCapabilityMajor         ? p.major
             : attribute == cudaDevAttrMaxSharedMemoryPerBlockOptin ? 227 << 10 /* an H100's */
                                                                    : p.minor;
    return e;
}

cudaError_t cudaStreamCreate(cudaStream_t *stream)
{
    return cudaStreamCreateWithPriority(stream, cudaStreamNonBlocking, 0);
}

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    cudaError_t e;

    while ((e = cudaEventQuery(event)) == cudaErrorNotReady)
        usleep(20);
    return e;
}

cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t stream)
{
    return fake_cuda_set_on(stream, p, value, bytes);
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    (void)kind;
    if (fake_cuda.idle)
        return cudaSuccess;
    fake_cuda_open();
    memmove(to, from, bytes);
    fake_cuda_close();
    return cudaSuccess;
}
