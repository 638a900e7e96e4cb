/*
 * The communicator "mpi" under MPI's launcher: is it right, and what does it cost?
 *
 *     mpirun -n K build/bench/comm_mpi check    every collective, type and root against its
 * definition mpirun -n K build/bench/comm_mpi time     all-reduce, ours and MPI_Allreduce, from 4
 * KiB to 64 MiB
 *
 * Both sides of a timing are calls of one process and one library, by turns, and each pair begins
 * with the other: what else the machine does, and where MPI put the ranks, is the same for both. A
 * turn of small messages is a few calls in a row, as other benchmarks of MPI take them.
 */
#include "runtime/comm/comm_mpi.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/stats.h"
#include "base/units.h"
#include "runtime/rendezvous/rank_env.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SMALLEST = 4 << 10,
    LARGEST = 64 << 20,
    STEP = 4,
    ROUND_BYTES = 1 << 30, /* moved by a size, but... */
    ROUNDS_MIN = 15,       /* ...not fewer rounds than these... */
    ROUNDS_MAX = 2000,     /* ...and not more; one in eight more warms up */
    TURN_BYTES = 64 << 10, /* reduced by the calls of a turn, or one call */
    RESAMPLES = 2000,
    ROUNDS_MERGED = 10, /* consecutive rounds are one observation: their medians */
};
enum side { OURS, MPI, MPI_LATER, SIDES };

struct bench {
    struct lk_comm *comm;
    struct lk_mpi_library mpi;
    float *buf;
    int (*iallreduce)(const void *in, void *out, int n, lk_mpi_handle type, lk_mpi_handle op,
                      lk_mpi_handle comm, lk_mpi_handle *request);
    int (*test)(lk_mpi_handle *request, int *done, void *status);
};

/* ---- Time ---- */

static enum lk_status later(struct bench *b, int n)
{
    char status[128]; /* more than any MPI_Status */
    lk_mpi_handle request = 0;
    int done = 0;

    if (b->iallreduce(b->mpi.in_place, b->buf, n, b->mpi.f32, b->mpi.sum, b->mpi.world, &request))
        return lk_fail(LK_EPEER, "MPI_Iallreduce failed");
    while (!done)
        if (b->test(&request, &done, status))
            return lk_fail(LK_EPEER, "MPI_Test failed");
    return LK_OK;
}

static enum lk_status all_reduce(struct bench *b, enum side side, size_t n)
{
    const struct lk_coll_call call = {
        .coll = LK_ALL_REDUCE, .dtype = LK_F32, .buf = b->buf, .count = n, .index = -1};

    if (side == OURS)
        return lk_comm_run(b->comm, &call);
    if (side == MPI_LATER)
        return later(b, (int)n);
    if (b->mpi.call.Allreduce(b->mpi.in_place, b->buf, (int)n, b->mpi.f32, b->mpi.sum,
                              b->mpi.world) != LK_MPI_SUCCESS)
        return lk_fail(LK_EPEER, "MPI_Allreduce failed");
    return LK_OK;
}

/* Take one turn of a side; *out_s is the time of one of its calls. */
static enum lk_status turn(struct bench *b, enum side side, size_t n, double *out_s)
{
    size_t bytes = n * sizeof *b->buf, calls = bytes < TURN_BYTES ? TURN_BYTES / bytes : 1;
    uint64_t start_ns = lk_now_ns();

    for (size_t i = 0; i < calls; i++)
        LK_PASS(all_reduce(b, side, n));
    *out_s = lk_s_from_ns(lk_now_ns() - start_ns) / (double)calls;
    return LK_OK;
}

/* Put the median of each group of rounds in place of the rounds; return how many there are. */
static size_t merge(double *s, size_t n)
{
    size_t out = 0, each = n >= 5 * ROUNDS_MERGED ? ROUNDS_MERGED : 1;

    for (size_t at = 0; at + each <= n; at += each)
        s[out++] = lk_stats_median(s + at, each);
    return out;
}

/* Print the ratio of the times of MPI_Allreduce and another side: of the medians, and of the means
 * of the groups' medians with its interval. */
static enum lk_status print_ratio(double *s[SIDES], enum side side, size_t n, size_t groups,
                                  double median)
{
    struct lk_rng g = lk_rng_init(1, n);
    struct lk_estimate e;

    LK_PASS(lk_stats_bootstrap_ratio(s[MPI], s[side], groups, RESAMPLES, 0.95, &g, &e));
    printf("   %.3f, %.3f (%.3f to %.3f)", median, e.value, e.lo, e.hi);
    return LK_OK;
}

static enum lk_status print_size(double *s[SIDES], size_t bytes, size_t n)
{
    double median[SIDES];
    size_t groups = 0;

    printf("%10zu", bytes);
    for (int k = 0; k < SIDES; k++) {
        median[k] = lk_stats_median(s[k], n);
        printf(" %11.2f", median[k] * 1e6);
        groups = merge(s[k], n);
    }
    LK_PASS(print_ratio(s, OURS, n, groups, median[MPI] / median[OURS]));
    LK_PASS(print_ratio(s, MPI_LATER, n, groups, median[MPI] / median[MPI_LATER]));
    printf(" %6zu\n", n);
    return fflush(stdout) ? lk_fail(LK_EIO, "cannot write") : LK_OK;
}

static enum lk_status time_size(struct bench *b, size_t bytes)
{
    enum lk_status st = LK_OK;
    size_t n = ROUND_BYTES / bytes, warmup;
    double *s[SIDES] = {NULL}, spent = 0;

    n = n < ROUNDS_MIN ? ROUNDS_MIN : n > ROUNDS_MAX ? ROUNDS_MAX : n;
    warmup = n / 8 + 2;
    for (int i = 0; i < SIDES; i++)
        LK_TRY(lk_alloc(&s[i], n, sizeof *s[i]));
    for (size_t i = 0; i < n + warmup; i++)
        for (size_t k = 0; k < SIDES; k++) { /* in an order that puts each behind each other */
            enum side side = (enum side)((i / 2 + (i % 2 ? SIDES - k : k)) % SIDES);

            LK_TRY(turn(b, side, bytes / sizeof *b->buf, &spent));
            if (i >= warmup)
                s[side][i - warmup] = spent;
        }
    if (lk_comm_rank(b->comm) == 0)
        LK_TRY(print_size(s, bytes, n));
out:
    for (int i = 0; i < SIDES; i++)
        free(s[i]);
    return st;
}

static enum lk_status time_all(struct bench *b)
{
    lk_library_function(b->mpi.library, "MPI_Iallreduce", &b->iallreduce);
    lk_library_function(b->mpi.library, "MPI_Test", &b->test);
    if (!b->iallreduce || !b->test)
        return lk_fail(LK_EUNSUPPORTED, "this MPI has no MPI_Iallreduce");
    if (lk_comm_rank(b->comm) == 0)
        printf("# %s, %d ranks; medians in us; MPI_Allreduce's time over each other side's: of the "
               "medians, of the means of groups (95 %% interval)\n"
               "#    bytes        ours   Allreduce  Iallreduce   Allreduce/ours                    "
               "Allreduce/Iallreduce        rounds\n",
               b->mpi.version, lk_comm_world_size(b->comm));
    for (size_t bytes = SMALLEST; bytes <= LARGEST; bytes *= STEP)
        LK_PASS(time_size(b, bytes));
    return LK_OK;
}

/* ---- Check ---- */

/* Element i of what rank r brings: small whole numbers, whose sums every type holds. */
static double brought(int r, size_t i)
{
    return (double)((i + 3 * (size_t)r) % 5);
}

static void put(enum lk_dtype t, void *buf, size_t i, double v)
{
    if (lk_dtype_is_float(t) && t != LK_F64) {
        float f = (float)v;

        lk_dtype_from_f32(t, (char *)buf + i * lk_dtype_bytes(t), &f, 1);
        return;
    }
    switch (t) {
    case LK_F64:
        ((double *)buf)[i] = v;
        break;
    case LK_I32:
        ((int32_t *)buf)[i] = (int32_t)v;
        break;
    case LK_I64:
        ((int64_t *)buf)[i] = (int64_t)v;
        break;
    default:
        ((uint8_t *)buf)[i] = (uint8_t)v;
    }
}

/* Return what element i of the buffer has to be after the collective; -1: anything. */
static double wanted(const struct lk_coll_call *c, int rank, int ranks, size_t i)
{
    double sum = 0;

    for (int r = 0; r < ranks; r++)
        sum += brought(r, i);
    switch (c->coll) {
    case LK_ALL_REDUCE:
        return sum;
    case LK_REDUCE_SCATTER:
        return i / c->count == (size_t)rank ? sum : -1;
    case LK_ALL_GATHER:
        return brought((int)(i / c->count), i);
    case LK_BROADCAST:
        return brought(c->root, i);
    default:
        return -1;
    }
}

static enum lk_status check_one(struct bench *b, enum lk_coll coll, enum lk_dtype t, size_t count,
                                int root)
{
    int rank = lk_comm_rank(b->comm), ranks = lk_comm_world_size(b->comm);
    bool parts = coll == LK_REDUCE_SCATTER || coll == LK_ALL_GATHER;
    size_t n = count * (size_t)(parts ? ranks : 1), bytes = lk_dtype_bytes(t);
    const struct lk_coll_call call = {
        .coll = coll, .dtype = t, .buf = b->buf, .count = count, .root = root, .index = -1};
    uint64_t one[1];

    for (size_t i = 0; i < n; i++)
        put(t, b->buf, i, brought(rank, i));
    LK_PASS(lk_comm_run(b->comm, &call));
    for (size_t i = 0; i < n; i++) {
        double want = wanted(&call, rank, ranks, i);

        put(t, one, 0, want);
        if (want >= 0 && memcmp((char *)b->buf + i * bytes, one, bytes) != 0)
            return lk_fail(LK_EINTERNAL, "%s of %zu %s, root %d: element %zu is wrong",
                           lk_coll_name(coll), count, lk_dtype_name(t), root, i);
    }
    return LK_OK;
}

static enum lk_status check_all(struct bench *b)
{
    static const enum lk_coll colls[] = {LK_ALL_REDUCE, LK_REDUCE_SCATTER, LK_ALL_GATHER,
                                         LK_BROADCAST, LK_BARRIER};
    static const size_t counts[] = {0, 1, 1000, 100003};
    int checked = 0;

    for (size_t c = 0; c < LK_COUNT(colls); c++)
        for (int t = 0; t < LK_DTYPE_COUNT; t++)
            for (size_t n = 0; n < LK_COUNT(counts); n++)
                for (int root = 0; root < lk_comm_world_size(b->comm); root++, checked++)
                    LK_PASS(check_one(b, colls[c], (enum lk_dtype)t, counts[n],
                                      colls[c] == LK_BROADCAST ? root : 0));
    if (lk_comm_rank(b->comm) == 0)
        printf("%s: %d collectives of %d ranks are right\n", b->mpi.version, checked,
               lk_comm_world_size(b->comm));
    return LK_OK;
}

static enum lk_status run(const char *what)
{
    enum lk_status st = LK_OK;
    struct lk_comm_config config = {.timeout_ns = 60 * LK_NS_PER_S};
    struct lk_store_server *server = NULL;
    struct lk_rank_env e = {.present = false};
    struct bench b = {.comm = NULL};

    LK_TRY(lk_rank_env_read(&e));
    if (!e.present)
        LK_TRY(lk_fail(LK_EUSAGE, "usage: mpirun -n K build/bench/comm_mpi check|time"));
    config.rank = e.rank;
    config.world_size = e.world_size;
    LK_TRY(lk_rank_env_connect(&e, NULL, config.timeout_ns, &server, &config.store));
    LK_TRY(lk_alloc(&b.buf, LARGEST, 1));
    LK_TRY(lk_mpi_library_open(&b.mpi));
    LK_TRY(lk_comm_open("mpi", &config, &b.comm));
    LK_TRY(strcmp(what, "check") != 0 ? time_all(&b) : check_all(&b));
out:
    lk_comm_close(b.comm);
    lk_mpi_library_close(&b.mpi);
    lk_store_close(config.store);
    lk_store_server_stop(server, config.timeout_ns);
    free(b.buf);
    return st;
}

int main(int argc, char **argv)
{
    if (run(argc > 1 ? argv[1] : "time") == LK_OK)
        return 0;
    fprintf(stderr, "comm_mpi: %s\n", lk_error_text());
    return 1;
}
