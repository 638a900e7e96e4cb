/* The machine, its GPUs and their contexts; see the header. */
#include "tests/fakes/fake_machine_cuda.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/rng.h"

#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fake_cuda fake_cuda;

static pthread_mutex_t machine; /* recursive: a host function may call the machine */
static pthread_once_t machine_once = PTHREAD_ONCE_INIT;
static struct lk_rng order;
static uint64_t order_seed;

static void make_machine(void)
{
    pthread_mutexattr_t attr;

    pthread_mutexattr_init(&attr);
    pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&machine, &attr);
    pthread_mutexattr_destroy(&attr);
}

void fake_lock(void)
{
    pthread_once(&machine_once, make_machine);
    pthread_mutex_lock(&machine);
}

void fake_unlock(void)
{
    pthread_mutex_unlock(&machine);
}

uint64_t fake_draw(uint64_t below)
{
    if (order_seed != fake_cuda.seed) {
        order_seed = fake_cuda.seed;
        order = lk_rng_init(fake_cuda.seed, lk_rng_stream("order", 0));
    }
    return lk_rng_below(&order, below);
}

cudaError_t fake_called(void)
{
    bool fails;

    fake_lock();
    fails = ++fake_cuda.calls == fake_cuda.fail_at;
    /* Now and then advance work at once, as a fast GPU would. */
    if (fake_cuda.seed && fake_draw(4) == 0)
        fake_cuda_step();
    fake_unlock();
    return fails ? fake_cuda.fail_with : cudaSuccess;
}

cudaError_t fake_cudaGetDeviceCount(int *n)
{
    FAKE_CALLED();
    *n = fake_cuda.gpus;
    return cudaSuccess;
}

cudaError_t fake_cudaSetDevice(int gpu)
{
    FAKE_CALLED();
    ck_assert(gpu >= 0 && gpu < fake_cuda.gpus);
    return cudaSuccess;
}

cudaError_t fake_cudaGetDevice(int *gpu)
{
    FAKE_CALLED();
    *gpu = 0;
    return cudaSuccess;
}

cudaError_t fake_cudaGetDeviceProperties(struct cudaDeviceProp *p, int gpu)
{
    FAKE_CALLED();
    memset(p, 0, sizeof *p);
    strcpy(p->name, "fake");
    p->uuid.bytes[15] = (char)gpu;
    p->major = 9;
    p->totalGlobalMem = (size_t)80 << 30;
    p->multiProcessorCount = 132;
    return cudaSuccess;
}

cudaError_t fake_cudaDeviceGetP2PAttribute(int *value, enum cudaDeviceP2PAttr property, int from,
                                           int to)
{
    FAKE_CALLED();
    ck_assert_int_ne(from, to);
    *value = property == cudaDevP2PAttrNativeAtomicSupported ? fake_cuda.nvlink : !fake_cuda.apart;
    return cudaSuccess;
}

cudaError_t fake_cudaRuntimeGetVersion(int *version)
{
    FAKE_CALLED();
    *version = 13000;
    return cudaSuccess;
}

cudaError_t fake_cudaDriverGetVersion(int *version)
{
    return fake_cudaRuntimeGetVersion(version);
}

/* Fails the test if an object of the context was not released. */
cudaError_t fake_cudaDeviceReset(void)
{
    FAKE_CALLED();
    ck_assert_int_eq(fake_cuda.allocated, 0);
    ck_assert_int_eq(fake_cuda.dnn_alive, 0);
    ck_assert_int_eq(fake_cuda.streams_alive, 0);
    fake_cuda.resets++;
    return cudaSuccess;
}

static enum lk_status fake_blas_open(struct lk_cuda_blas **out)
{
    enum lk_status st = lk_cuda_status(fake_called(), "blas");

    if (st != LK_OK)
        return st;
    fake_cuda.blas_alive++;
    *out = (struct lk_cuda_blas *)&fake_cuda;
    return LK_OK;
}

static void fake_blas_close(struct lk_cuda_blas *b)
{
    (void)b;
    fake_cuda.blas_alive--;
}

/* Made in a device's life, and never asked to compute: ops run on the machine as they are. */
struct lk_cuda_dnn {
    enum lk_attention by;
    bool deterministic;
};
static struct lk_cuda_dnn dnns[8];

static enum lk_status fake_dnn_open(enum lk_attention by, bool deterministic,
                                    struct lk_cuda_dnn **out)
{
    enum lk_status st = lk_cuda_status(fake_called(), "dnn");

    if (st != LK_OK)
        return st;
    /* No memory of its own: a device that hangs does not close it. */
    *out = &dnns[(size_t)fake_cuda.dnn_alive++ % LK_COUNT(dnns)];
    **out = (struct lk_cuda_dnn){by, deterministic};
    return LK_OK;
}

static void fake_dnn_close(struct lk_cuda_dnn *d)
{
    (void)d;
    fake_cuda.dnn_alive--;
}

static enum lk_status fake_dnn_choose(struct lk_cuda_dnn *d, enum lk_dtype real,
                                      const struct lk_attention_shape *shape, bool *out_taken,
                                      char text[LK_ATTENTION_TEXT])
{
    *out_taken = real == LK_BF16;
    (void)snprintf(text, LK_ATTENTION_TEXT, "%s %s, %zu samples, %zu heads",
                   *out_taken ? "cudnn" : "own", d->deterministic ? "in order" : "in any order",
                   shape->samples, shape->heads);
    return LK_OK;
}

static enum lk_status fake_dnn_ask(struct lk_cuda_dnn *d, enum lk_dtype real,
                                   const struct lk_attention_shape *shape,
                                   char text[LK_ATTENTION_TEXT])
{
    bool taken;
    enum lk_status st = fake_dnn_choose(d, real, shape, &taken, text);

    strncat(text, ", asked", LK_ATTENTION_TEXT - strlen(text) - 1);
    return st;
}

static enum lk_status fake_init(struct lk_cuda *c, void *stream, enum lk_dtype real,
                                struct lk_cuda_blas *blas)
{
    enum lk_status st = lk_cuda_status(fake_called(), "workspace");

    if (st != LK_OK)
        return st;
    fake_cuda.contexts_alive++;
    *c = (struct lk_cuda){.stream = stream, .real = real, .workspace = &fake_cuda, .blas = blas};
    return LK_OK;
}

static void fake_fini(struct lk_cuda *c)
{
    fake_waits(NULL);
    fake_cuda.contexts_alive--;
    *c = (struct lk_cuda){0};
}

/* Run an op. An op of a test may have only a launcher, which then runs at once. */
static enum lk_status fake_run_op(const struct lk_op *op, const void *args, const struct lk_cuda *c)
{
    struct fake_work w = {.kind = WORK_OP, .op = op, .real = c->real};
    enum lk_status st;

    if (!op->cpu)
        return op->cuda(args, c);
    st = lk_cuda_status(fake_called(), op->name);
    if (st != LK_OK)
        return st;
    w.arg = malloc(op->args_bytes);
    ck_assert_ptr_nonnull(w.arg);
    memcpy(w.arg, args, op->args_bytes);
    fake_enqueue((cudaStream_t)c->stream, w);
    return LK_OK;
}

/* Return the host's time. With a model of time the host's clock comes from it, too: the two do not
 * drift apart however slow the host is. */
static uint64_t fake_now_ns(void)
{
    uint64_t ns;

    if (!fake_cuda.takes_ms)
        return lk_now_ns();
    fake_lock();
    ns = fake_cuda.reset_ns + (uint64_t)(fake_cuda.seen_ms * 1e6);
    fake_unlock();
    return ns;
}

const struct lk_cuda_calls fake_cuda_calls = {
#define ENTRY(call) .call = fake_cuda##call,
    LK_CUDA_CALL_LIST(ENTRY)
#undef ENTRY
        .blas_open = fake_blas_open,
    .blas_close = fake_blas_close,
    .dnn_open = fake_dnn_open,
    .dnn_close = fake_dnn_close,
    .dnn_choose = fake_dnn_choose,
    .dnn_ask = fake_dnn_ask,
    .init = fake_init,
    .fini = fake_fini,
    .run_op = fake_run_op,
    .now_ns = fake_now_ns,
};

void fake_cuda_reset(int gpus)
{
    memset(&fake_cuda, 0, offsetof(struct fake_cuda, streams));
    for (size_t i = 0; i < FAKE_STREAMS_MAX; i++)
        memset(&fake_cuda.streams[i], 0, offsetof(struct fake_stream, work));
    fake_cuda.gpus = gpus;
    fake_cuda.most_urgent = -5;
    fake_cuda.reset_ns = lk_now_ns();
    order_seed = 0;
}

void fake_cuda_check_clean(void)
{
    if (fake_cuda.stuck) /* freeing may block for ever */
        return;
    ck_assert_int_eq(fake_cuda.events_alive, 0);
    ck_assert_int_eq(fake_cuda.streams_alive, 0);
    ck_assert_int_eq(fake_cuda.graphs_alive, 0);
    ck_assert_int_eq(fake_cuda.contexts_alive, 0);
    ck_assert_int_eq(fake_cuda.blas_alive, 0);
    ck_assert_int_eq(fake_cuda.allocated, 0);
}
