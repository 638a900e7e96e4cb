/* The communicator "nccl": opening, memory, closing; see runtime/comm/comm_nccl_cuda.h. */
#include "runtime/comm/comm_nccl_cuda.h"

#ifdef LK_NCCL_BUILT

#include "base/array.h"
#include "base/log.h"
#include "runtime/device/device_impl.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define FINALIZE_NS (10 * LK_NS_PER_S) /* for all ranks to reach the end */

static struct lk_nccl *nccl_of(struct lk_comm *c)
{
    return (struct lk_nccl *)c;
}

static bool nccl_has(const struct lk_comm *c, enum lk_coll coll, enum lk_algo algo)
{
    (void)c;
    (void)coll;
    return algo == LK_ALGO_AUTO;
}

/* ---- Memory ---- */

/* Allocate with NCCL's own allocator: in-switch sums (NVSwitch) take registered buffers only from
 * it. */
static enum lk_status alloc_registered(struct lk_nccl *n, size_t bytes, struct lk_nccl_buffer *out)
{
    struct lk_deadline deadline = lk_deadline_in(n->timeout_ns);
    struct lk_nccl_buffer b = {.p = NULL};
    enum lk_status st = LK_OK;

    LK_TRY(lk_nccl_status(n, n->call->MemAlloc(&b.p, bytes)));
    LK_TRY(lk_cuda_status(n->cuda->Memset(b.p, 0, bytes), "device memory"));
    LK_TRY(lk_cuda_status(n->cuda->StreamSynchronize(NULL), "device memory"));
    LK_TRY(lk_nccl_enter(n, deadline));
    LK_TRY(
        lk_nccl_end(n, &n->comm, n->call->CommRegister(n->comm, b.p, bytes, &b.handle), deadline));
    *out = b;
    return LK_OK;
out:
    if (b.p)
        (void)n->call->MemFree(b.p);
    return lk_fail_context(st, "%zu bytes of registered memory", bytes);
}

static enum lk_status nccl_alloc(struct lk_comm *c, struct lk_device *d, size_t bytes, void **out)
{
    struct lk_nccl *n = nccl_of(c);

    if (!n->options.register_buffers)
        return lk_device_alloc(d, bytes, out);
    LK_PASS(lk_array_grow(&n->buffers, &n->cap_buffers, n->n_buffers + 1, sizeof *n->buffers));
    LK_PASS(alloc_registered(n, bytes, &n->buffers[n->n_buffers]));
    *out = n->buffers[n->n_buffers++].p;
    lk_log(LK_LOG_COMM, LK_DEBUG, "NCCL: registered %zu bytes", bytes);
    return LK_OK;
}

static void free_registered(struct lk_nccl *n, const struct lk_nccl_buffer *b)
{
    struct lk_deadline deadline = lk_deadline_in(n->timeout_ns);

    /* An abort ends all registrations; it must be over before memory is freed. */
    if (lk_nccl_alive(n) != LK_OK) {
        if (!lk_nccl_watch_stop(n))
            return;
    } else if (lk_nccl_enter(n, deadline) == LK_OK) {
        lk_quietly_(
            lk_nccl_end(n, &n->comm, n->call->CommDeregister(n->comm, b->handle), deadline));
    }
    (void)n->call->MemFree(b->p);
}

static void nccl_free(struct lk_comm *c, struct lk_device *d, void *p)
{
    struct lk_nccl *n = nccl_of(c);

    for (size_t i = 0; i < n->n_buffers; i++)
        if (n->buffers[i].p == p) {
            lk_quietly_((free_registered(n, &n->buffers[i]), LK_OK));
            n->buffers[i] = n->buffers[--n->n_buffers];
            return;
        }
    lk_device_free(d, p);
}

/* ---- Open and close ---- */

/* The communicator's id and NCCL version, which rank 0 publishes for the others. */
struct meeting {
    ncclUniqueId id;
    int32_t version;
    char path[256];
};

static enum lk_status check_version(const struct meeting *m, const struct lk_nccl *n,
                                    const char *path)
{
    char of_0[32], own[32];

    if (m->version == n->version)
        return LK_OK;
    lk_nccl_version_text(m->version, of_0, sizeof of_0);
    lk_nccl_version_text(n->version, own, sizeof own);
    return lk_fail(LK_EUNSUPPORTED,
                   "all ranks need the same NCCL: rank 0 has %s (%.256s), rank %d "
                   "has %s (%s)",
                   of_0, m->path, n->base.rank, own, path);
}

/* Rank 0's value, for all. */
enum lk_status lk_nccl_share(struct lk_nccl *n, void *value, size_t size)
{
    char key[32];
    void *got = NULL;
    size_t bytes = 0;
    enum lk_status st = LK_OK;

    if (!n->store)
        return LK_OK;
    snprintf(key, sizeof key, "nccl-%" PRIu64, lk_store_next_id(n->store));
    if (n->base.rank == 0)
        return lk_store_set(n->store, key, value, size);
    LK_TRY(lk_store_get(n->store, key, &got, &bytes));
    if (bytes == size)
        memcpy(value, got, size);
    else
        st = lk_fail(LK_EPARSE, "rank 0 is another build of lockstep");
out:
    free(got);
    return st;
}

static enum lk_status meet(struct lk_nccl *n, const char *path, struct meeting *out)
{
    struct meeting m = {.version = n->version};

    if (n->base.rank == 0) {
        snprintf(m.path, sizeof m.path, "%s", path);
        LK_PASS(lk_nccl_status(n, n->call->GetUniqueId(&m.id)));
    }
    LK_PASS(lk_nccl_share(n, &m, sizeof m));
    LK_PASS(check_version(&m, n, path));
    *out = m;
    return LK_OK;
}

ncclConfig_t lk_nccl_config(const struct lk_nccl *n, bool blocking)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;

    config.blocking = blocking;
    /* NCCL takes a missing maximum for one below any minimum (parseCommConfig in init.cc, 2.19 to
     * 2.30); one above NCCL's own limit means that limit. */
    if (n->options.min_ctas) {
        config.minCTAs = n->options.min_ctas;
        config.maxCTAs = INT_MAX;
    }
    if (n->options.max_ctas)
        config.maxCTAs = n->options.max_ctas;
    if (n->options.cga_cluster)
        config.cgaClusterSize = n->options.cga_cluster;
    return config;
}

enum lk_status lk_nccl_join(struct lk_nccl *n, const ncclUniqueId *id, int rank, int ranks,
                            ncclComm_t *out)
{
    struct lk_deadline deadline = lk_deadline_in(n->timeout_ns);
    ncclConfig_t config = lk_nccl_config(n, false);

    LK_PASS(lk_nccl_enter(n, deadline));
    return lk_nccl_end(n, out, n->call->CommInitRankConfig(out, ranks, *id, rank, &config),
                       deadline);
}

static enum lk_status open_library(struct lk_nccl *n, const struct lk_comm_config *config,
                                   const char **out_path)
{
    n->call = config->nccl_calls;
    if (!n->call) {
        LK_PASS(lk_nccl_open_library(&n->own, &n->library));
        n->call = &n->own;
    }
    *out_path = n->library ? lk_library_path(n->library) : "a test's";
    return lk_nccl_version(n->call, *out_path, &n->version);
}

static enum lk_status open_streams(struct lk_nccl *n)
{
    int least, most_urgent;

    LK_PASS(lk_cuda_status(n->cuda->GetDevice(&n->gpu), "current GPU"));
    LK_PASS(lk_cuda_status(n->cuda->DeviceGetStreamPriorityRange(&least, &most_urgent),
                           "priorities of streams"));
    LK_PASS(lk_cuda_status(
        n->cuda->StreamCreateWithPriority(&n->stream, cudaStreamNonBlocking, most_urgent),
        "a stream for collectives"));
    LK_PASS(lk_cuda_status(n->cuda->EventCreateWithFlags(&n->ended, cudaEventDisableTiming),
                           "an event"));
    LK_PASS(lk_nccl_make_scratch(n, 1)); /* for barriers */
    return LK_OK;
}

static void free_all(struct lk_nccl *n)
{
    while (n->n_buffers > 0) /* buffers that the caller did not free */
        (void)n->call->MemFree(n->buffers[--n->n_buffers].p);
    while (n->n_entries > 0) {
        lk_nccl_drop_events(n, &n->entries[n->first++]);
        n->n_entries--;
    }
    lk_nccl_drop_events(n, &n->graph);
    while (n->n_spare > 0)
        (void)n->cuda->EventDestroy(n->spare[--n->n_spare]);
    if (n->ended)
        (void)n->cuda->EventDestroy(n->ended);
    if (n->stream)
        (void)n->cuda->StreamDestroy(n->stream);
    lk_device_free(n->device, n->scratch);
    if (n->staging)
        lk_device_free_host(n->device, n->staging);
    if (n->wake_fd >= 0)
        close(n->wake_fd);
    pthread_mutex_destroy(&n->lock);
    pthread_cond_destroy(&n->changed);
    free(n->buffers);
    free(n->entries);
    free(n->spare);
    lk_library_close(n->library);
    free(n);
}

/* Finalize the communicators. All ranks call this after a run without failures: what was enqueued
 * has ended everywhere. */
static enum lk_status finalize_one(struct lk_nccl *n, ncclComm_t *comm, struct lk_deadline deadline)
{
    ncclResult_t result;

    LK_PASS(lk_nccl_enter(n, deadline));
    LK_PASS(lk_nccl_end(n, comm, n->call->CommFinalize(*comm), deadline));
    LK_PASS(lk_nccl_enter(n, deadline));
    result = n->call->CommDestroy(*comm);
    *comm = NULL;
    lk_nccl_leave(n);
    return lk_nccl_status(n, result);
}

static enum lk_status finalize(struct lk_nccl *n)
{
    struct lk_deadline deadline =
        lk_deadline_in(n->timeout_ns < FINALIZE_NS ? n->timeout_ns : FINALIZE_NS);

    LK_PASS(lk_device_status(n->device));
    for (size_t i = 0; i < n->n_groups; i++)
        LK_PASS(finalize_one(n, &n->groups[i].comm, deadline));
    return finalize_one(n, &n->comm, deadline);
}

static void nccl_close(struct lk_comm *c)
{
    struct lk_nccl *n = nccl_of(c);
    struct lk_saved_error_ saved;
    enum lk_status st = LK_OK;

    lk_error_save_(&saved);
    lk_nccl_close_estimator(n);
    if (n->joined && lk_nccl_alive(n) == LK_OK)
        st = finalize(n);
    if (st != LK_OK)
        lk_nccl_break(n, st, lk_error_text());
    if (lk_nccl_watch_stop(n) && !n->lost)
        free_all(n);
    else
        lk_log(LK_LOG_COMM, LK_ERROR, "NCCL did not end its communicator: it is left behind");
    lk_error_restore_(&saved);
}

static enum lk_status check_config(const struct lk_comm_config *c)
{
    if (!c->device || strcmp(lk_device_name(c->device), "cuda") != 0)
        return lk_fail(LK_EUNSUPPORTED, "the communicator nccl is for the device cuda, not %s",
                       c->device ? lk_device_name(c->device) : "none");
    if (c->nccl.max_ctas && c->nccl.min_ctas > c->nccl.max_ctas)
        return lk_fail(LK_EUSAGE, "NCCL: at least %d thread blocks, but at most %d",
                       c->nccl.min_ctas, c->nccl.max_ctas);
    return LK_OK;
}

static enum lk_status create(const struct lk_comm_config *config, struct lk_nccl **out)
{
    struct lk_nccl *n = NULL;
    enum lk_status st = lk_alloc(&n, 1, sizeof *n);

    if (st != LK_OK)
        return st;
    n->base.rank = config->rank;
    n->base.world_size = config->world_size;
    n->device = config->device;
    n->cuda =
        config->device->config.cuda_calls ? config->device->config.cuda_calls : &lk_cuda_calls;
    n->store = config->store;
    n->timeout_ns = config->timeout_ns;
    n->options = config->nccl;
    pthread_mutex_init(&n->lock, NULL);
    pthread_cond_init(&n->changed, NULL);
    n->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    *out = n;
    return LK_OK;
}

static enum lk_status nccl_open(const struct lk_comm_config *config, struct lk_comm **out)
{
    struct lk_nccl *n = NULL;
    struct meeting m;
    const char *path = "";
    char version[32];
    enum lk_status st = check_config(config);

    if (st != LK_OK)
        return st;
    LK_TRY(create(config, &n));
    LK_TRY(open_library(n, config, &path));
    LK_TRY(open_streams(n));
    LK_TRY(meet(n, path, &m));
    LK_TRY(lk_nccl_watch_start(n));
    LK_TRY(lk_nccl_join(n, &m.id, config->rank, config->world_size, &n->comm));
    n->joined = true;
    lk_nccl_version_text(n->version, version, sizeof version);
    lk_log(LK_LOG_COMM, LK_INFO, "NCCL %s (%s): rank %d of %d", version, path, config->rank,
           config->world_size);
    *out = &n->base;
    return LK_OK;
out:
    if (n)
        nccl_close(&n->base);
    return lk_fail_context(st, "opening nccl");
}

static enum lk_status nccl_library(char *buf, size_t size)
{
    struct lk_nccl_calls calls;
    struct lk_library *library = NULL;
    enum lk_status st = LK_OK;
    int version = 0, n;

    LK_TRY(lk_nccl_open_library(&calls, &library));
    LK_TRY(lk_nccl_version(&calls, lk_library_path(library), &version));
    n = snprintf(buf, size, "NCCL ");
    lk_nccl_version_text(version, buf + n, size - (size_t)n);
    n = (int)strlen(buf);
    snprintf(buf + n, size - (size_t)n, " (%s)", lk_library_path(library));
out:
    lk_library_close(library);
    return st;
}

const struct lk_comm_ops lk_comm_nccl = {
    .name = "nccl",
    .open = nccl_open,
    .run = lk_nccl_run,
    .close = nccl_close,
    .enqueue = lk_nccl_enqueue,
    .has = nccl_has,
    .algo_help = "NCCL chooses by itself, and NCCL_ALGO in its environment restricts it",
    .alloc = nccl_alloc,
    .free = nccl_free,
    .graph = lk_nccl_graph,
    .estimate = lk_nccl_estimate,
    .library = nccl_library,
    .out_of_place = true,
    .groups = true,
};

#else

static enum lk_status not_built(void)
{
    return lk_fail(LK_EUNSUPPORTED,
                   "this build has no NCCL: nccl.h of 2.22 or newer was not found by make");
}

static enum lk_status nccl_open(const struct lk_comm_config *config, struct lk_comm **out)
{
    (void)config;
    (void)out;
    return not_built();
}

static enum lk_status nccl_library(char *buf, size_t size)
{
    (void)buf;
    (void)size;
    return not_built();
}

static enum lk_status nccl_enqueue(struct lk_comm *c, struct lk_stream *s,
                                   const struct lk_coll_call *call, uint64_t seq)
{
    (void)c;
    (void)s;
    (void)call;
    (void)seq;
    return not_built();
}

const struct lk_comm_ops lk_comm_nccl = {
    .name = "nccl", .open = nccl_open, .enqueue = nccl_enqueue, .library = nccl_library};

#endif
