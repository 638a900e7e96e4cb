/*
 * MPI's collectives, wrapped: MPI_Allreduce of this library is found before that of MPI, calls it,
 * and records when it was entered and left. Divisions: a call, collectives, waits and tests, the
 * rest.
 *
 * Not wrapped are messages between two ranks, collectives of neighbourhoods, persistent ones, and
 * those with large counts (MPI_Allreduce_c).
 */
#include "preload/mpi_groups.h"
#include "preload/mpi_requests.h"
#include "preload/record.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>

typedef lk_mpi_handle handle;

/* ---- A call ---- */

/* The elements that a collective moves: `count` elements of a type, or, where counts is not NULL,
 * the sum of one count a rank. If `in` is MPI_IN_PLACE, it is the out_ members that say so. */
struct amount {
    const void *in;
    handle type, out_type;
    int count, out_count;
    const int *counts, *out_counts;
    bool of_each; /* the count is that of each rank */
    bool own;     /* of the counts, the rank's own one is meant */
    int root;     /* plus one; 0: none */
};

/* A call that is being recorded. */
struct call {
    const struct lk_mpi *mpi; /* NULL: it is not */
    struct lk_foreign_record record;
};

static uint64_t sum(const int *counts, int n)
{
    uint64_t total = 0;

    for (int i = 0; i < n; i++)
        total += counts[i] > 0 ? (uint64_t)counts[i] : 0;
    return total;
}

/* Return the elements that this rank puts in, and their type. */
static uint64_t elements_of(const struct lk_mpi *m, const struct amount *a,
                            const struct lk_mpi_group *g, handle *type)
{
    const bool in_place = a->in == m->in_place && a->out_type;
    const int *counts = in_place ? a->out_counts : a->counts;
    int count = in_place ? a->out_count : a->count;

    *type = in_place ? a->out_type : a->type;
    if (counts)
        return a->own ? sum(counts + g->rank, 1) : sum(counts, g->n_ranks);
    return (count > 0 ? (uint64_t)count : 0) * (uint64_t)(a->of_each ? g->n_ranks : 1);
}

/* Begin to record a collective, before its time begins. */
static void begin(struct call *c, const char *name, enum lk_coll function, handle comm,
                  const struct amount *a)
{
    struct lk_foreign_record *r = &c->record;
    struct lk_mpi_group group;
    uint64_t bytes = 1;
    handle type;
    int64_t since;

    c->mpi = NULL;
    if (!lk_foreign_on() || !lk_foreign_enter())
        return;
    since = lk_foreign_cost_begin();
    c->mpi = lk_mpi_library();
    if (!c->mpi) {
        lk_foreign_leave();
        return;
    }
    *r = (struct lk_foreign_record){.kind = LK_FOREIGN_COLLECTIVE_CALL,
                                    .function = LK_FOREIGN_FUNCTION(function),
                                    .name = lk_foreign_name(name),
                                    .lane = lk_foreign_thread(),
                                    .peer = a->root - 1};
    lk_mpi_group_next(c->mpi, comm, &group, &r->sequence);
    r->group = group.id;
    if (group.id) { /* on an intercommunicator some ranks' arguments mean nothing */
        r->count = elements_of(c->mpi, a, &group, &type);
        r->dtype = type ? lk_mpi_dtype(c->mpi, type, &bytes) : 0;
        r->count *= bytes;
    }
    lk_foreign_cost_end(since);
    r->start_ns = lk_foreign_now();
}

static void end(struct call *c)
{
    int64_t since;

    if (!c->mpi)
        return;
    since = lk_foreign_cost_begin();
    c->record.end_ns = lk_foreign_now();
    lk_foreign_emit(&c->record);
    lk_foreign_cost_end(since);
    lk_foreign_leave();
}

/* The call of a nonblocking collective has returned. */
static void begun(struct call *c, const void *request, int status)
{
    if (!c->mpi)
        return;
    c->record.flags = LK_FOREIGN_NONBLOCKING;
    if (status == LK_MPI_SUCCESS)
        lk_mpi_request_add(c->mpi, request, &c->record);
    lk_foreign_leave();
}

/* Return the function that a wrapper calls, found when it is called first. */
static lk_mpi_function real_of(_Atomic(lk_mpi_function) *cache, const char *name)
{
    lk_mpi_function real = atomic_load_explicit(cache, memory_order_relaxed);
    int error = errno;

    if (!real) {
        real = lk_mpi_find(name);
        atomic_store_explicit(cache, real, memory_order_relaxed);
        errno = error;
    }
    return real;
}

/* Make parentheses go: LIST (int n, void *x) becomes int n, void *x. */
#define LIST(...) __VA_ARGS__

/* ---- Collectives ---- */

/* clang-format off */

/* X(name, name behind MPI_I, function, parameters, arguments, amount). */
#define COLLECTIVES(X)                                                                             \
    X(Allreduce, allreduce, LK_ALL_REDUCE,                                                   \
      (const void *in, void *out, int n, handle type, handle op, handle comm),                     \
      (in, out, n, type, op, comm),                                                                \
      (.count = n, .type = type))                                                                  \
    X(Reduce, reduce, LK_REDUCE,                                                             \
      (const void *in, void *out, int n, handle type, handle op, int root, handle comm),           \
      (in, out, n, type, op, root, comm),                                                          \
      (.count = n, .type = type, .root = root + 1))                                                \
    X(Reduce_scatter, reduce_scatter, LK_REDUCE_SCATTER,                                     \
      (const void *in, void *out, const int n[], handle type, handle op, handle comm),             \
      (in, out, n, type, op, comm),                                                                \
      (.counts = n, .type = type))                                                                 \
    X(Reduce_scatter_block, reduce_scatter_block, LK_REDUCE_SCATTER,                         \
      (const void *in, void *out, int n, handle type, handle op, handle comm),                     \
      (in, out, n, type, op, comm),                                                                \
      (.count = n, .type = type, .of_each = true))                                                 \
    X(Bcast, bcast, LK_BROADCAST,                                                            \
      (void *out, int n, handle type, int root, handle comm),                                      \
      (out, n, type, root, comm),                                                                  \
      (.count = n, .type = type, .root = root + 1))                                                \
    X(Barrier, barrier, LK_BARRIER, (handle comm), (comm), (.count = 0))                     \
    X(Allgather, allgather, LK_ALL_GATHER,                                                   \
      (const void *in, int n, handle type, void *out, int out_n, handle out_type, handle comm),    \
      (in, n, type, out, out_n, out_type, comm),                                                   \
      (.in = in, .count = n, .type = type, .out_count = out_n, .out_type = out_type))              \
    X(Allgatherv, allgatherv, LK_ALL_GATHER,                                                 \
      (const void *in, int n, handle type, void *out, const int out_n[], const int at[],           \
       handle out_type, handle comm),                                                              \
      (in, n, type, out, out_n, at, out_type, comm),                                               \
      (.in = in, .count = n, .type = type, .out_counts = out_n, .out_type = out_type,              \
       .own = true))                                                                               \
    X(Alltoall, alltoall, LK_ALL_TO_ALL,                                                     \
      (const void *in, int n, handle type, void *out, int out_n, handle out_type, handle comm),    \
      (in, n, type, out, out_n, out_type, comm),                                                   \
      (.in = in, .count = n, .type = type, .out_count = out_n, .out_type = out_type,               \
       .of_each = true))                                                                           \
    X(Alltoallv, alltoallv, LK_ALL_TO_ALL,                                                   \
      (const void *in, const int n[], const int at[], handle type, void *out, const int out_n[],   \
       const int out_at[], handle out_type, handle comm),                                          \
      (in, n, at, type, out, out_n, out_at, out_type, comm),                                       \
      (.in = in, .counts = n, .type = type, .out_counts = out_n, .out_type = out_type))            \
    X(Gather, gather, LK_GATHER,                                                             \
      (const void *in, int n, handle type, void *out, int out_n, handle out_type, int root,        \
       handle comm),                                                                               \
      (in, n, type, out, out_n, out_type, root, comm),                                             \
      (.in = in, .count = n, .type = type, .out_count = out_n, .out_type = out_type,               \
       .root = root + 1))                                                                          \
    X(Gatherv, gatherv, LK_GATHER,                                                           \
      (const void *in, int n, handle type, void *out, const int out_n[], const int at[],           \
       handle out_type, int root, handle comm),                                                    \
      (in, n, type, out, out_n, at, out_type, root, comm),                                         \
      (.in = in, .count = n, .type = type, .out_counts = out_n, .out_type = out_type,              \
       .own = true, .root = root + 1))                                                             \
    X(Scatter, scatter, LK_SCATTER,                                                          \
      (const void *in, int n, handle type, void *out, int out_n, handle out_type, int root,        \
       handle comm),                                                                               \
      (in, n, type, out, out_n, out_type, root, comm),                                             \
      (.in = out, .count = out_n, .type = out_type, .out_count = n, .out_type = type,              \
       .of_each = true, .root = root + 1))                                                         \
    X(Scatterv, scatterv, LK_SCATTER,                                                        \
      (const void *in, const int n[], const int at[], handle type, void *out, int out_n,           \
       handle out_type, int root, handle comm),                                                    \
      (in, n, at, type, out, out_n, out_type, root, comm),                                         \
      (.in = out, .count = out_n, .type = out_type, .out_counts = n, .out_type = type,             \
       .own = true, .root = root + 1))

#define BLOCKING(name, lower, function, parameters, arguments, moved)                              \
    LK_FOREIGN_EXPORT int MPI_##name parameters;                                                     \
    int MPI_##name parameters                                                                      \
    {                                                                                              \
        static _Atomic(lk_mpi_function) cache;                                                     \
        int (*real) parameters = (int (*) parameters)real_of(&cache, "MPI_" #name);                \
        struct call c;                                                                             \
        int status;                                                                                \
                                                                                                   \
        if (!real)                                                                                 \
            return LK_MPI_ERROR;                                                                   \
        begin(&c, "MPI_" #name, function, comm, &(struct amount){LIST moved});                    \
        status = real arguments;                                                                   \
        end(&c);                                                                                   \
        return status;                                                                             \
    }
COLLECTIVES(BLOCKING)

#define NONBLOCKING(name, lower, function, parameters, arguments, moved)                           \
    LK_FOREIGN_EXPORT int MPI_I##lower(LIST parameters, void *request);                              \
    int MPI_I##lower(LIST parameters, void *request)                                               \
    {                                                                                              \
        typedef int (*call_type)(LIST parameters, void *request);                                  \
        static _Atomic(lk_mpi_function) cache;                                                     \
        call_type real = (call_type)real_of(&cache, "MPI_I" #lower);                               \
        struct call c;                                                                             \
        int status;                                                                                \
                                                                                                   \
        if (!real)                                                                                 \
            return LK_MPI_ERROR;                                                                   \
        begin(&c, "MPI_I" #lower, function, comm, &(struct amount){LIST moved});                  \
        status = real(LIST arguments, request);                                                    \
        begun(&c, request, status);                                                                \
        return status;                                                                             \
    }
COLLECTIVES(NONBLOCKING)

/* clang-format on */

/* ---- Waits and tests ---- */

/* A call that may complete requests. */
struct waiting {
    const struct lk_mpi *mpi; /* NULL: none of its requests is known */
    int list;
    int64_t start_ns;
};

static void begin_wait(struct waiting *w, const void *requests, int n)
{
    int64_t since;

    w->mpi = NULL;
    if (!lk_foreign_on() || !lk_foreign_enter())
        return;
    since = lk_foreign_cost_begin();
    w->mpi = lk_mpi_library();
    w->list = w->mpi ? lk_mpi_requests_before(w->mpi, requests, n) : -1;
    lk_foreign_cost_end(since);
    if (w->list < 0) {
        w->mpi = NULL;
        lk_foreign_leave();
        return;
    }
    w->start_ns = lk_foreign_now();
}

/* A test that found nothing took no time. */
static void end_wait(const struct waiting *w, const char *name, const void *requests, bool test)
{
    struct lk_foreign_record r = {.kind = LK_FOREIGN_WAIT, .peer = -1};
    int64_t since;

    if (!w->mpi)
        return;
    since = lk_foreign_cost_begin();
    r.start_ns = w->start_ns;
    r.end_ns = lk_foreign_now();
    if (lk_mpi_requests_after(w->mpi, requests, w->list, r.end_ns) > 0 || !test) {
        r.name = lk_foreign_name(name);
        r.lane = lk_foreign_thread();
        lk_foreign_emit(&r);
    }
    lk_foreign_cost_end(since);
    lk_foreign_leave();
}

/* clang-format off */

/* X(name, is a test, parameters, arguments): of one request, and of n. */
#define OF_ONE(X)                                                                                  \
    X(Wait, false, (void *requests, void *status), (requests, status))                             \
    X(Test, true, (void *requests, int *flag, void *status), (requests, flag, status))
#define OF_SEVERAL(X)                                                                              \
    X(Waitall, false, (int n, void *requests, void *statuses), (n, requests, statuses))            \
    X(Waitany, false, (int n, void *requests, int *which, void *status),                           \
      (n, requests, which, status))                                                                \
    X(Waitsome, false, (int n, void *requests, int *n_done, int *which, void *statuses),           \
      (n, requests, n_done, which, statuses))                                                      \
    X(Testall, true, (int n, void *requests, int *flag, void *statuses),                           \
      (n, requests, flag, statuses))                                                               \
    X(Testany, true, (int n, void *requests, int *which, int *flag, void *status),                 \
      (n, requests, which, flag, status))                                                          \
    X(Testsome, true, (int n, void *requests, int *n_done, int *which, void *statuses),            \
      (n, requests, n_done, which, statuses))

#define WAIT(name, test, parameters, arguments, count)                                             \
    LK_FOREIGN_EXPORT int MPI_##name parameters;                                                     \
    int MPI_##name parameters                                                                      \
    {                                                                                              \
        static _Atomic(lk_mpi_function) cache;                                                     \
        int (*real) parameters = (int (*) parameters)real_of(&cache, "MPI_" #name);                \
        struct waiting w;                                                                          \
        int result;                                                                                \
                                                                                                   \
        if (!real)                                                                                 \
            return LK_MPI_ERROR;                                                                   \
        begin_wait(&w, requests, count);                                                           \
        result = real arguments;                                                                   \
        end_wait(&w, "MPI_" #name, requests, test);                                                \
        return result;                                                                             \
    }
#define WAIT_ONE(name, test, parameters, arguments)     WAIT(name, test, parameters, arguments, 1)
#define WAIT_SEVERAL(name, test, parameters, arguments) WAIT(name, test, parameters, arguments, n)
OF_ONE(WAIT_ONE)
OF_SEVERAL(WAIT_SEVERAL)

/* clang-format on */

/* ---- Handles that end, and the library's own beginning and end ---- */

LK_FOREIGN_EXPORT int MPI_Request_free(void *request);
int MPI_Request_free(void *request)
{
    static _Atomic(lk_mpi_function) cache;
    int (*real)(void *) = (int (*)(void *))real_of(&cache, "MPI_Request_free");

    if (!real)
        return LK_MPI_ERROR;
    if (lk_foreign_on() && lk_foreign_enter()) {
        if (lk_mpi_library())
            lk_mpi_request_forget(lk_mpi_library(), request);
        lk_foreign_leave();
    }
    return real(request);
}

static void forget(const void *comm)
{
    const struct lk_mpi *m;

    if (!lk_foreign_on() || !lk_foreign_enter())
        return;
    m = lk_mpi_library();
    if (m)
        lk_mpi_group_forget(m, lk_mpi_handle_at(m, comm, 0));
    lk_foreign_leave();
}

#define ENDS_COMM(name)                                                                            \
    LK_FOREIGN_EXPORT int name(void *comm);                                                        \
    int name(void *comm)                                                                           \
    {                                                                                              \
        static _Atomic(lk_mpi_function) cache;                                                     \
        int (*real)(void *) = (int (*)(void *))real_of(&cache, #name);                             \
                                                                                                   \
        if (!real)                                                                                 \
            return LK_MPI_ERROR;                                                                   \
        forget(comm);                                                                              \
        return real(comm);                                                                         \
    }
ENDS_COMM(MPI_Comm_free)
ENDS_COMM(MPI_Comm_disconnect)

/* Tell which rank this is, once MPI knows. */
static void introduce(int status)
{
    const struct lk_mpi *m;
    struct lk_mpi_group world;

    if (status != LK_MPI_SUCCESS || !lk_foreign_on() || !lk_foreign_enter())
        return;
    m = lk_mpi_library();
    if (m)
        lk_mpi_group_find(m, m->world, &world);
    lk_foreign_leave();
}

LK_FOREIGN_EXPORT int MPI_Init(int *argc, char ***argv);
int MPI_Init(int *argc, char ***argv)
{
    static _Atomic(lk_mpi_function) cache;
    int (*real)(int *, char ***) = (int (*)(int *, char ***))real_of(&cache, "MPI_Init");
    int status = real ? real(argc, argv) : LK_MPI_ERROR;

    introduce(status);
    return status;
}

LK_FOREIGN_EXPORT int MPI_Init_thread(int *argc, char ***argv, int required, int *provided);
int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    static _Atomic(lk_mpi_function) cache;
    int (*real)(int *, char ***, int, int *) =
        (int (*)(int *, char ***, int, int *))real_of(&cache, "MPI_Init_thread");
    int status = real ? real(argc, argv, required, provided) : LK_MPI_ERROR;

    introduce(status);
    return status;
}
