/* The communicator "mpi": opening, collectives, closing; see runtime/comm/comm_mpi.h. */
#include "runtime/comm/comm_mpi.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/log.h"
#include "runtime/comm/reduce.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Types and sums ---- */

/* Sums of types that MPI does not know. */
static void sum_f16(void *in, void *inout, int *n, void *type)
{
    (void)type;
    lk_reduce_add(LK_F16, inout, in, (size_t)*n);
}

static void sum_bf16(void *in, void *inout, int *n, void *type)
{
    (void)type;
    lk_reduce_add(LK_BF16, inout, in, (size_t)*n);
}

static lk_mpi_sum *const own_sums[LK_DTYPE_COUNT] = {[LK_F16] = sum_f16, [LK_BF16] = sum_bf16};

static enum lk_status status_of(const struct lk_mpi *m, int code, const char *what)
{
    char text[LK_MPI_ERROR_BYTES + 1] = "";
    int n = 0;

    if (code == LK_MPI_SUCCESS)
        return LK_OK;
    if (m->mpi.call.Error_string(code, text, &n) != LK_MPI_SUCCESS)
        snprintf(text, sizeof text, "error %d", code);
    return lk_fail(LK_EPEER, "%s: %s", what, text);
}

#define MPI(function, ...) status_of(m, m->mpi.call.function(__VA_ARGS__), "MPI_" #function)

static enum lk_status make_types(struct lk_mpi *m)
{
    m->types[LK_F32] = m->mpi.f32;
    m->types[LK_F64] = m->mpi.f64;
    m->types[LK_I32] = m->mpi.i32;
    m->types[LK_I64] = m->mpi.i64;
    m->types[LK_U8] = m->mpi.u8;
    for (int t = 0; t < LK_DTYPE_COUNT; t++) {
        m->sums[t] = m->mpi.sum;
        if (!own_sums[t])
            continue;
        LK_PASS(
            MPI(Type_contiguous, (int)lk_dtype_bytes((enum lk_dtype)t), m->mpi.byte, &m->types[t]));
        LK_PASS(MPI(Type_commit, &m->types[t]));
        LK_PASS(MPI(Op_create, own_sums[t], 1, &m->sums[t]));
    }
    return LK_OK;
}

/* ---- Open and close ---- */

/* Check that MPI counts the ranks as their launcher does. */
static enum lk_status check_ranks(const struct lk_mpi *m, const struct lk_comm_config *config)
{
    int rank = -1, size = 0;

    LK_PASS(MPI(Comm_rank, m->mpi.world, &rank));
    LK_PASS(MPI(Comm_size, m->mpi.world, &size));
    if (size == config->world_size && rank == config->rank)
        return LK_OK;
    return lk_fail(
        LK_EUNSUPPORTED,
        "%s (%s) has rank %d of %d here, where the launcher has rank %d of %d: start the "
        "ranks by that MPI's mpirun, or name the folder of the right library in "
        "LOCKSTEP_LIBRARY_PATH",
        m->mpi.version, lk_library_path(m->mpi.library), rank, size, config->rank,
        config->world_size);
}

/* End MPI when the process ends well: MPI_Finalize waits for all ranks, and mpirun takes a rank
 * that leaves without it for a failed one, which one of a failed run is. */
static void finalize(int code, void *library)
{
    struct lk_mpi_library *l = library;

    if (code == 0 && l->call.Finalize() != LK_MPI_SUCCESS)
        lk_log(LK_LOG_COMM, LK_WARN, "MPI_Finalize failed");
    free(l);
}

/* Start MPI, once a process; *out_level is what threads may do. */
static enum lk_status init(const struct lk_mpi *m, int *out_level)
{
    struct lk_mpi_library *kept = NULL;
    int there = 0;

    LK_PASS(MPI(Initialized, &there));
    if (there)
        return MPI(Query_thread, out_level);
    LK_PASS(lk_alloc(&kept, 1, sizeof *kept));
    *kept = m->mpi;
    if (on_exit(finalize, kept)) {
        free(kept);
        return lk_fail(LK_ENOMEM, "no memory to end MPI later");
    }
    return MPI(Init_thread, NULL, NULL, LK_MPI_THREAD_SERIALIZED, out_level);
}

static enum lk_status start(struct lk_mpi *m, const struct lk_comm_config *config)
{
    int level = -1;

    LK_PASS(init(m, &level));
    if (level < LK_MPI_THREAD_SERIALIZED)
        return lk_fail(LK_EUNSUPPORTED,
                       "%s (%s) allows calls by one thread only (level %d, where %d is needed): "
                       "collectives run beside training",
                       m->mpi.version, lk_library_path(m->mpi.library), level,
                       LK_MPI_THREAD_SERIALIZED);
    LK_PASS(MPI(Comm_set_errhandler, m->mpi.world, m->mpi.errors_return));
    LK_PASS(check_ranks(m, config));
    return make_types(m);
}

static void free_types(struct lk_mpi *m)
{
    for (int t = 0; t < LK_DTYPE_COUNT; t++) {
        if (!own_sums[t])
            continue;
        if (m->types[t])
            (void)m->mpi.call.Type_free(&m->types[t]);
        if (m->sums[t] && m->sums[t] != m->mpi.sum)
            (void)m->mpi.call.Op_free(&m->sums[t]);
    }
}

static void mpi_close(struct lk_comm *c)
{
    struct lk_mpi *m = (struct lk_mpi *)c;

    lk_mpi_unwatch(m);
    free_types(m);
    lk_mpi_library_close(&m->mpi);
    pthread_cond_destroy(&m->changed);
    pthread_mutex_destroy(&m->lock);
    free(m->scratch);
    free(m);
}

static enum lk_status mpi_open(const struct lk_comm_config *config, struct lk_comm **out)
{
    enum lk_status st = LK_OK;
    struct lk_mpi *m = NULL;

    LK_TRY(lk_alloc(&m, 1, sizeof *m));
    m->store = config->store;
    m->timeout_ns = config->timeout_ns;
    pthread_mutex_init(&m->lock, NULL);
    pthread_cond_init(&m->changed, NULL);
    LK_TRY(lk_mpi_library_open(&m->mpi));
    LK_TRY(start(m, config));
    if (m->store)
        LK_TRY(lk_mpi_watch(m));
    *out = &m->base;
    m = NULL;
out:
    if (m)
        mpi_close(&m->base);
    return st;
}

/* ---- Collectives ---- */

static enum lk_status reduce_scatter(struct lk_mpi *m, const struct lk_coll_call *call, int n,
                                     lk_mpi_handle type, lk_mpi_handle sum)
{
    size_t bytes = call->count * lk_dtype_bytes(call->dtype);

    if (bytes > m->scratch_bytes) {
        free(m->scratch);
        m->scratch_bytes = 0;
        LK_PASS(lk_alloc(&m->scratch, bytes, 1));
        m->scratch_bytes = bytes;
    }
    LK_PASS(MPI(Reduce_scatter_block, call->buf, m->scratch, n, type, sum, m->mpi.world));
    memcpy((char *)call->buf + (size_t)m->base.rank * bytes, m->scratch, bytes);
    return LK_OK;
}

static enum lk_status collective(struct lk_mpi *m, const struct lk_coll_call *call)
{
    lk_mpi_handle type = m->types[call->dtype], sum = m->sums[call->dtype];
    int n = (int)call->count;

    switch (call->coll) {
    case LK_ALL_REDUCE:
        return MPI(Allreduce, m->mpi.in_place, call->buf, n, type, sum, m->mpi.world);
    case LK_REDUCE_SCATTER:
        return reduce_scatter(m, call, n, type, sum);
    case LK_ALL_GATHER:
        return MPI(Allgather, m->mpi.in_place, 0, type, call->buf, n, type, m->mpi.world);
    case LK_BROADCAST:
        return MPI(Bcast, call->buf, n, type, call->root, m->mpi.world);
    case LK_BARRIER:
        return MPI(Barrier, m->mpi.world);
    default:
        return lk_fail(LK_EUNSUPPORTED, "mpi has no %s", lk_coll_name(call->coll));
    }
}

static enum lk_status mpi_run(struct lk_comm *c, const struct lk_coll_call *call, uint64_t seq)
{
    struct lk_mpi *m = (struct lk_mpi *)c;
    enum lk_status st;

    if (c->world_size == 1 || (call->coll != LK_BARRIER && !call->count))
        return LK_OK;
    if (call->count > INT_MAX)
        return lk_fail(LK_EUNSUPPORTED, "%zu elements are more than MPI counts", call->count);
    lk_store_progress(m->store, seq, true);
    m->call = *call;
    m->seq = seq;
    atomic_store_explicit(&m->inside, seq + 1, memory_order_release);
    st = collective(m, call);
    atomic_store_explicit(&m->inside, 0, memory_order_release);
    if (st == LK_OK)
        lk_store_progress(m->store, seq, false);
    else
        st = lk_store_report(m->store, st, lk_error_text());
    return st;
}

/* MPI chooses its algorithms itself. */
static bool mpi_has(const struct lk_comm *c, enum lk_coll coll, enum lk_algo algo)
{
    (void)c;
    (void)coll;
    return algo == LK_ALGO_AUTO;
}

static enum lk_status mpi_library(char *buf, size_t size)
{
    struct lk_mpi_library l;

    LK_PASS(lk_mpi_library_open(&l));
    snprintf(buf, size, "%s (%s)", l.version, lk_library_path(l.library));
    lk_mpi_library_close(&l);
    return LK_OK;
}

const struct lk_comm_ops lk_comm_mpi = {
    .name = "mpi",
    .open = mpi_open,
    .run = mpi_run,
    .close = mpi_close,
    .has = mpi_has,
    .algo_help = "MPI chooses; Open MPI's coll_tuned_allreduce_algorithm and MPICH's "
                 "MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM force one",
    .library = mpi_library,
};
