/*
 * The parts of the communicator "mpi": collectives of the MPI library that started the ranks.
 *
 *   comm_mpi.c          open, close, collectives
 *   comm_mpi_library.c  the library, in either binary interface
 *   comm_mpi_watch.c    the thread that ends a rank whose collective does not end
 *
 * Collectives are MPI's blocking ones. They run on the thread of a stream, so training goes on
 * beside them as beside any other communicator's; non-blocking ones would add nothing to that, and
 * Open MPI has slower algorithms for them (bench/comm_mpi.c). MPI cannot be told to give a
 * blocking call up: a watchdog ends the process when the run has a verdict or the timeout has
 * passed, and says what the verdict is. MPI is started when a communicator is first opened, and
 * ended when the process exits with code 0.
 */
#ifndef LK_RUNTIME_COMM_MPI_H
#define LK_RUNTIME_COMM_MPI_H

#include "base/library.h"
#include "facts/mpi_abi.h"
#include "runtime/comm/comm.h"

#include <pthread.h>
#include <stdatomic.h>

typedef void lk_mpi_sum(void *in, void *inout, int *n, void *type);

/* X(function, its arguments): the table of functions, the same in both binary interfaces. */
#define LK_MPI_CALL_LIST(X)                                                                        \
    X(Init_thread, (int *argc, char ***argv, int required, int *provided))                         \
    X(Initialized, (int *flag))                                                                    \
    X(Query_thread, (int *level))                                                                  \
    X(Finalize, (void))                                                                            \
    X(Comm_rank, (lk_mpi_handle comm, int *rank))                                                  \
    X(Comm_size, (lk_mpi_handle comm, int *size))                                                  \
    X(Comm_set_errhandler, (lk_mpi_handle comm, lk_mpi_handle handler))                            \
    X(Type_contiguous, (int n, lk_mpi_handle of, lk_mpi_handle *out))                              \
    X(Type_commit, (lk_mpi_handle * type))                                                         \
    X(Type_free, (lk_mpi_handle * type))                                                           \
    X(Op_free, (lk_mpi_handle * op))                                                               \
    X(Op_create, (lk_mpi_sum * sum, int commutes, lk_mpi_handle *out))                             \
    X(Allreduce, (const void *in, void *out, int n, lk_mpi_handle type, lk_mpi_handle op,          \
                  lk_mpi_handle comm))                                                             \
    X(Reduce_scatter_block, (const void *in, void *out, int n, lk_mpi_handle type,                 \
                             lk_mpi_handle op, lk_mpi_handle comm))                                \
    X(Allgather, (const void *in, int n, lk_mpi_handle type, void *out, int out_n,                 \
                  lk_mpi_handle out_type, lk_mpi_handle comm))                                     \
    X(Bcast, (void *buf, int n, lk_mpi_handle type, int root, lk_mpi_handle comm))                 \
    X(Barrier, (lk_mpi_handle comm))                                                               \
    X(Error_string, (int code, char *text, int *n))                                                \
    X(Get_library_version, (char *text, int *n))

struct lk_mpi_calls {
#define LK_MPI_MEMBER_(name, arguments) int(*name) arguments;
    LK_MPI_CALL_LIST(LK_MPI_MEMBER_)
#undef LK_MPI_MEMBER_
};

/* The library with its predefined handles. */
struct lk_mpi_library {
    struct lk_library *library;
    struct lk_mpi_calls call;
#define LK_MPI_MEMBER_(member, name, value) lk_mpi_handle member;
    LK_MPI_HANDLE_LIST(LK_MPI_MEMBER_)
#undef LK_MPI_MEMBER_
    const void *in_place;
    char version[128]; /* "Open MPI v4.1.4", its first line */
};

/* Open the library of whoever started this rank, else Open MPI's, else MPICH's. LK_EUNSUPPORTED: it
 * was not found. It is never unloaded. */
enum lk_status lk_mpi_library_open(struct lk_mpi_library *out);
void lk_mpi_library_close(struct lk_mpi_library *l);

struct lk_mpi {
    struct lk_comm base;
    struct lk_mpi_library mpi;
    struct lk_store *store; /* borrowed; NULL: one rank */
    uint64_t timeout_ns;
    lk_mpi_handle types[LK_DTYPE_COUNT], sums[LK_DTYPE_COUNT];
    void *scratch; /* a reduce-scatter's result */
    size_t scratch_bytes;
    /* The watchdog. */
    pthread_t thread;
    bool watched;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool stop;                /* under lock */
    _Atomic uint64_t inside;  /* 1 + the number of the collective in progress; 0: none is */
    struct lk_coll_call call; /* it, and its number; written before `inside` */
    uint64_t seq;
};

/* Start and stop the watchdog. */
enum lk_status lk_mpi_watch(struct lk_mpi *m);
void lk_mpi_unwatch(struct lk_mpi *m);

#endif
