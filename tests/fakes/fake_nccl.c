/* The fake NCCL; see the header. */
#include "tests/fakes/fake_nccl.h"

#include <check.h> /* also if nothing else follows: ISO C wants a declaration */

#ifdef LK_NCCL_BUILT

#include "base/clock.h"
#include "runtime/comm/reduce.h"
#include "tests/fakes/fake_cuda.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct fake_nccl fake_nccl;

/*
 * Call n of a communicator uses slot n mod 2: a rank is in call n + 2 only when all have left call
 * n.
 */
struct hub {
    _Atomic uint64_t arrived[2][FAKE_NCCL_RANKS_MAX]; /* number of the call, from 1 */
    unsigned char data[2][FAKE_NCCL_RANKS_MAX][FAKE_NCCL_SLOT_BYTES];
};
static struct hubs {
    atomic_int ids;
    struct hub hub[FAKE_NCCL_COMMS_MAX]; /* by id - 1 */
} * hubs;

struct work {
    struct ncclComm *comm;
    uint64_t number; /* number of the call, once the stream has reached it */
    enum { SUM, SCATTER, GATHER, COPY } kind;
    enum lk_dtype dtype;
    const void *from;
    void *to;
    size_t count; /* as NCCL counts elements */
    int root;
    bool posted, kept; /* kept: part of a graph, run with every launch of it */
    cudaStream_t stream;
    uint32_t correlation;
    uint64_t started_ns;
};

struct ncclComm {
    struct hub *hub;
    int rank, ranks, progress; /* remaining ncclInProgress results */
    bool initing, finalizing, finalized, blocking;
    atomic_int inside;
    ncclResult_t state;
    uint64_t calls;
    atomic_bool aborted;
    struct work *launch; /* the last collective's work, until it is on its stream */
    pthread_t launcher;
    bool launching; /* by that thread, which ends before the last of these results */
};

/* Never freed: work on a stream may still read an aborted one. */
static struct ncclComm comms[FAKE_NCCL_COMMS_MAX];

enum { KEPT_MAX = 256 };
static struct work *kept[KEPT_MAX]; /* work in graphs */
static size_t n_kept;

static _Thread_local bool in_group;
static _Thread_local size_t group_bytes;

static void enter(ncclComm_t c)
{
    ck_assert_msg(atomic_fetch_add(&c->inside, 1) == 0, "two threads are in a communicator");
}

static ncclResult_t leave(ncclComm_t c, ncclResult_t r)
{
    atomic_fetch_sub(&c->inside, 1);
    return r;
}

static enum lk_dtype dtype_of(ncclDataType_t t)
{
    switch (t) {
    case ncclFloat32:
        return LK_F32;
    case ncclFloat16:
        return LK_F16;
    case ncclBfloat16:
        return LK_BF16;
    case ncclFloat64:
        return LK_F64;
    case ncclInt32:
        return LK_I32;
    case ncclInt64:
        return LK_I64;
    default:
        ck_assert_int_eq(t, ncclUint8);
        return LK_U8;
    }
}

/* ---- Collectives ---- */

/* Copy a rank's input elements, and tell those it takes from every rank. */
static void post(const struct work *w)
{
    const struct ncclComm *c = w->comm;
    size_t n = w->kind == SCATTER ? w->count * (size_t)c->ranks : w->count;
    size_t bytes = n * lk_dtype_bytes(w->dtype);

    ck_assert_uint_le(bytes, FAKE_NCCL_SLOT_BYTES);
    if (w->kind != COPY || c->rank == w->root) {
        fake_cuda_check_device(w->from, bytes);
        memcpy(c->hub->data[w->number % 2][c->rank], w->from, bytes);
    }
    atomic_store(&c->hub->arrived[w->number % 2][c->rank], w->number);
}

static bool all_arrived(const struct work *w)
{
    for (int r = 0; r < w->comm->ranks; r++)
        if (atomic_load(&w->comm->hub->arrived[w->number % 2][r]) < w->number)
            return false;
    return true;
}

static void take(const struct work *w)
{
    const struct ncclComm *c = w->comm;
    size_t bytes = w->count * lk_dtype_bytes(w->dtype);
    size_t at = w->kind == SCATTER ? (size_t)c->rank * bytes : 0;
    int first = w->kind == COPY ? w->root : 0;

    fake_cuda_check_device(w->to, w->kind == GATHER ? bytes * (size_t)c->ranks : bytes);
    if (w->kind == GATHER) {
        for (int r = 0; r < c->ranks; r++)
            memcpy((char *)w->to + (size_t)r * bytes, c->hub->data[w->number % 2][r], bytes);
        return;
    }
    memcpy(w->to, c->hub->data[w->number % 2][first] + at, bytes);
    for (int r = 1; r < c->ranks && w->kind != COPY; r++)
        lk_reduce_add(w->dtype, w->to, c->hub->data[w->number % 2][r] + at, w->count);
}

/* Tell the profiler of a kernel that ends now. */
static void report(const struct work *w)
{
    static const char *const kernels[] = {
        [SUM] = "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
        [SCATTER] = "ncclDevKernel_ReduceScatter_Sum_f32_RING_LL",
        [GATHER] = "ncclDevKernel_AllGather_RING_LL",
        [COPY] = "ncclDevKernel_Broadcast_RING_LL",
    };

    if (fake_nccl.ran && !w->kept)
        fake_nccl.ran(kernels[w->kind], w->stream, w->correlation, w->started_ns, lk_now_ns());
}

/* Advance a collective's work on its stream by one step. */
static bool proceed(void *arg)
{
    struct work *w = arg;

    if (!atomic_load(&w->comm->aborted)) {
        if (!w->posted) {
            w->number = ++w->comm->calls;
            w->started_ns = lk_now_ns();
            post(w);
        }
        w->posted = true;
        if (!all_arrived(w))
            return false;
        take(w);
        report(w);
    }
    w->posted = false;
    if (!w->kept)
        free(w);
    return true;
}

static void launch(struct ncclComm *c)
{
    enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    struct work *w = c->launch;

    c->launch = NULL;
    if (!w)
        return;
    ck_assert_int_eq(fake_cuda_calls.StreamIsCapturing(w->stream, &status), cudaSuccess);
    if (status != cudaStreamCaptureStatusNone) {
        ck_assert_uint_lt(n_kept, KEPT_MAX);
        w->kept = true;
        kept[n_kept++] = w;
    }
    if (fake_nccl.called)
        w->correlation = fake_nccl.called();
    fake_cuda_poll_on(w->stream, proceed, w);
}

static void *launch_alone(void *comm)
{
    struct ncclComm *c = comm;

    if (fake_nccl.held) {
        fake_nccl.held();
        while (!atomic_load(&c->aborted))
            usleep(1000);
        usleep(50000);
    }
    launch(c);
    return NULL;
}

static void await_launch(struct ncclComm *c)
{
    if (c->launching)
        ck_assert_int_eq(pthread_join(c->launcher, NULL), 0);
    c->launching = false;
}

/* Return the result of a call: in progress, or at once. */
static ncclResult_t answer(struct ncclComm *c)
{
    c->progress = fake_nccl.in_progress;
    if (c->progress > 0) {
        ck_assert_int_eq(pthread_create(&c->launcher, NULL, launch_alone, c), 0);
        c->launching = true;
        return ncclInProgress;
    }
    launch(c);
    return ncclSuccess;
}

static ncclResult_t start(struct ncclComm *c, struct work w)
{
    enter(c);
    ck_assert_msg(c->progress == 0 && !c->initing && !c->finalizing, "a call while in progress");
    ck_assert_int_eq(in_group, c->blocking);
    if (in_group) {
        group_bytes += w.count * lk_dtype_bytes(w.dtype);
        return leave(c, ncclSuccess);
    }
    if (++fake_nccl.collectives == fake_nccl.fail_call)
        return leave(c, c->state = fake_nccl.fail_with);
    c->launch = malloc(sizeof w);
    ck_assert_ptr_nonnull(c->launch);
    w.comm = c;
    *c->launch = w;
    return leave(c, answer(c));
}

static ncclResult_t all_reduce(const void *from, void *to, size_t n, ncclDataType_t t,
                               ncclRedOp_t op, ncclComm_t c, cudaStream_t s)
{
    ck_assert_int_eq(op, ncclSum);
    return start(
        c, (struct work){
               .kind = SUM, .dtype = dtype_of(t), .from = from, .to = to, .count = n, .stream = s});
}

static ncclResult_t reduce_scatter(const void *from, void *to, size_t n, ncclDataType_t t,
                                   ncclRedOp_t op, ncclComm_t c, cudaStream_t s)
{
    ck_assert_int_eq(op, ncclSum);
    return start(c, (struct work){.kind = SCATTER,
                                  .dtype = dtype_of(t),
                                  .from = from,
                                  .to = to,
                                  .count = n,
                                  .stream = s});
}

static ncclResult_t all_gather(const void *from, void *to, size_t n, ncclDataType_t t, ncclComm_t c,
                               cudaStream_t s)
{
    return start(
        c,
        (struct work){
            .kind = GATHER, .dtype = dtype_of(t), .from = from, .to = to, .count = n, .stream = s});
}

static ncclResult_t broadcast(const void *from, void *to, size_t n, ncclDataType_t t, int root,
                              ncclComm_t c, cudaStream_t s)
{
    return start(c, (struct work){.kind = COPY,
                                  .dtype = dtype_of(t),
                                  .from = from,
                                  .to = to,
                                  .count = n,
                                  .root = root,
                                  .stream = s});
}

/* ---- Communicators ---- */

static ncclResult_t get_version(int *version)
{
    *version = fake_nccl.version;
    return ncclSuccess;
}

static ncclResult_t get_id(ncclUniqueId *id)
{
    memset(id, 0, sizeof *id);
    id->internal[0] = (char)(1 + atomic_fetch_add(&hubs->ids, 1));
    return ncclSuccess;
}

static ncclResult_t state_of_init(struct ncclComm *c)
{
    if (fake_nccl.init_says != ncclSuccess)
        return fake_nccl.init_says;
    if (fake_nccl.init_hangs)
        return ncclInProgress;
    for (int r = 0; r < c->ranks; r++)
        if (!atomic_load(&c->hub->arrived[0][r]))
            return ncclInProgress;
    c->initing = false;
    return ncclSuccess;
}

/* Return true if the CTA limits are valid, as in parseCommConfig of init.cc, 2.19 to 2.30: an unset
 * value is the smallest int there. */
static bool takes_ctas(const ncclConfig_t *c)
{
    if ((c->minCTAs != NCCL_CONFIG_UNDEF_INT && c->minCTAs <= 0) ||
        (c->maxCTAs != NCCL_CONFIG_UNDEF_INT && c->maxCTAs <= 0))
        return false;
    return c->minCTAs <= c->maxCTAs;
}

static ncclResult_t init(ncclComm_t *out, int ranks, ncclUniqueId id, int rank,
                         ncclConfig_t *config)
{
    struct ncclComm *c = &comms[fake_nccl.inits];

    ck_assert_uint_lt((size_t)fake_nccl.inits, sizeof comms / sizeof *comms);
    memset(c, 0, sizeof *c);
    enter(c);
    ck_assert(id.internal[0] >= 1 && id.internal[0] <= FAKE_NCCL_COMMS_MAX);
    ck_assert_int_le(ranks, FAKE_NCCL_RANKS_MAX);
    ck_assert_int_le(config->blocking, 1);
    if (!takes_ctas(config))
        return leave(c, ncclInvalidArgument);
    fake_nccl.config = *config;
    fake_nccl.inits++;
    fake_nccl.comms_alive++;
    c->hub = &hubs->hub[id.internal[0] - 1];
    c->rank = rank;
    c->ranks = ranks;
    c->initing = true;
    /* All ranks meet in call 0's slot. Their number is 2, as of the call before the first two. */
    c->calls = 2;
    atomic_store(&c->hub->arrived[1][rank], 1);
    atomic_store(&c->hub->arrived[0][rank], 2);
    *out = c;
    c->blocking = config->blocking;
    while (c->blocking && (fake_nccl.estimates_hang || state_of_init(c) == ncclInProgress))
        usleep(100);
    return leave(c, c->blocking ? ncclSuccess : ncclInProgress);
}

static ncclResult_t get_error(ncclComm_t c, ncclResult_t *out)
{
    enter(c);
    ck_assert_ptr_nonnull(c);
    fake_nccl.questions++;
    *out = c->state;
    if (fake_nccl.error_from && fake_nccl.questions >= fake_nccl.error_from) {
        *out = fake_nccl.fail_with;
    } else if (c->state == ncclSuccess && c->initing) {
        *out = state_of_init(c);
    } else if (c->state == ncclSuccess && c->finalizing) {
        c->finalized = !fake_nccl.finalize_hangs;
        *out = c->finalized ? ncclSuccess : ncclInProgress;
    } else if (c->state == ncclSuccess && c->progress > 0) {
        *out = ncclInProgress;
        if (!fake_nccl.held && --c->progress == 0)
            await_launch(c);
    }
    return leave(c, ncclSuccess);
}

static ncclResult_t finalize(ncclComm_t c)
{
    enter(c);
    ck_assert_msg(c->progress == 0 && !c->initing && !c->finalizing, "finalized while in progress");
    c->finalizing = true;
    fake_nccl.finalized++;
    return leave(c, ncclInProgress);
}

static ncclResult_t end(ncclComm_t c)
{
    /* Its work may still be in a stream and read it. */
    atomic_store(&c->aborted, true);
    await_launch(c);
    fake_nccl.comms_alive--;
    return leave(c, ncclSuccess);
}

static ncclResult_t destroy(ncclComm_t c)
{
    enter(c);
    ck_assert_msg(c->finalized || c->blocking, "destroyed, but not finalized");
    fake_nccl.destroyed++;
    return end(c);
}

static ncclResult_t abort_comm(ncclComm_t c)
{
    enter(c);
    fake_nccl.aborted++;
    while (fake_nccl.abort_hangs)
        usleep(1000);
    return end(c);
}

static ncclResult_t enroll(const ncclComm_t c, void *p, size_t bytes, void **handle)
{
    (void)c;
    enter(c);
    fake_cuda_check_device(p, bytes);
    fake_nccl.registered++;
    *handle = p;
    return leave(c, ncclSuccess);
}

static ncclResult_t dismiss(const ncclComm_t c, void *handle)
{
    (void)c;
    enter(c);
    ck_assert_ptr_nonnull(handle);
    fake_nccl.registered--;
    return leave(c, ncclSuccess);
}

static ncclResult_t mem_alloc(void **p, size_t bytes)
{
    fake_nccl.memory_alive++;
    return fake_cuda_calls.Malloc(p, bytes) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

static ncclResult_t mem_free(void *p)
{
    fake_nccl.memory_alive--;
    return fake_cuda_calls.Free(p) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

static ncclResult_t group_start(void)
{
    in_group = true;
    group_bytes = 0;
    return ncclSuccess;
}

/* Estimate a microsecond plus one per byte. */
static ncclResult_t simulate_end(ncclSimInfo_t *info)
{
    ck_assert(in_group && info->size == sizeof *info);
    in_group = false;
    info->estimatedTime = 1 + (float)group_bytes;
    return ncclSuccess;
}

static const char *error_string(ncclResult_t r)
{
    return r == ncclRemoteError    ? "remote process exited or there was a network error"
           : r == ncclInvalidUsage ? "invalid usage"
                                   : "unhandled cuda error";
}

static const char *last_error(ncclComm_t c)
{
    ck_assert_ptr_null(c);
    return "what it says last";
}

const struct lk_nccl_calls fake_nccl_calls = {
    .GetVersion = get_version,
    .GetUniqueId = get_id,
    .GetErrorString = error_string,
    .GetLastError = last_error,
    .CommInitRankConfig = init,
    .CommGetAsyncError = get_error,
    .CommFinalize = finalize,
    .CommDestroy = destroy,
    .CommAbort = abort_comm,
    .CommRegister = enroll,
    .CommDeregister = dismiss,
    .MemAlloc = mem_alloc,
    .MemFree = mem_free,
    .AllReduce = all_reduce,
    .ReduceScatter = reduce_scatter,
    .AllGather = all_gather,
    .Broadcast = broadcast,
    .GroupStart = group_start,
    .GroupSimulateEnd = simulate_end,
};

void fake_nccl_create(void)
{
    hubs = mmap(NULL, sizeof *hubs, PROT_READ | PROT_WRITE,
                MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ck_assert(hubs != MAP_FAILED);
    fake_nccl_reset();
}

void fake_nccl_share(void)
{
    const char *path = getenv("FAKE_NCCL_MEMORY");
    char own[64];
    int fd;

    if (!path) {
        fd = memfd_create("nccl", 0);
        ck_assert_int_ge(fd, 0);
        ck_assert_int_eq(ftruncate(fd, sizeof *hubs), 0);
        (void)snprintf(own, sizeof own, "/proc/%d/fd/%d", (int)getpid(), fd);
        ck_assert_int_eq(setenv("FAKE_NCCL_MEMORY", own, 1), 0);
    } else {
        fd = open(path, O_RDWR);
        ck_assert_int_ge(fd, 0);
    }
    hubs = mmap(NULL, sizeof *hubs, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    ck_assert(hubs != MAP_FAILED);
    fake_nccl_reset();
}

void fake_nccl_destroy(void)
{
    ck_assert_int_eq(munmap(hubs, sizeof *hubs), 0);
    hubs = NULL;
}

void fake_nccl_reset(void)
{
    while (n_kept > 0)
        free(kept[--n_kept]);
    memset(&fake_nccl, 0, sizeof fake_nccl);
    fake_nccl.version = NCCL_VERSION(2, 28, 9);
}

#endif
