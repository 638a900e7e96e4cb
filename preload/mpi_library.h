/*
 * The MPI library of the process, found when the first of its functions is called: this library
 * needs no MPI to be built or loaded.
 *
 * A wrapper that takes lk_mpi_handle and hands it on serves both kinds of MPI (facts/mpi_abi.h).
 * The upper half of an integer is undefined, so handles are compared by lk_mpi_key alone. Requests
 * in memory have the size of their kind. Of other libraries calls are handed on and nothing is
 * recorded.
 *
 * Functions are chained, MPI_Allreduce to the next library's MPI_Allreduce: another profiler that
 * is loaded behind this one still gets its calls. In a library that was loaded with RTLD_LOCAL, as
 * Python loads extensions, it is PMPI_Allreduce that is called.
 */
#ifndef LK_PRELOAD_MPI_LIBRARY_H
#define LK_PRELOAD_MPI_LIBRARY_H

#include "facts/mpi_abi.h"

#include <stdbool.h>
#include <stdint.h>

typedef void (*lk_mpi_function)(void);

struct lk_mpi {
    bool integers; /* handles are 32-bit integers */
    lk_mpi_handle world;
    const void *in_place; /* MPI_IN_PLACE */
    int (*comm_rank)(lk_mpi_handle comm, int *rank);
    int (*comm_size)(lk_mpi_handle comm, int *size);
    int (*comm_test_inter)(lk_mpi_handle comm, int *flag);
    int (*comm_group)(lk_mpi_handle comm, void *group);
    int (*group_free)(void *group);
    int (*group_translate_ranks)(lk_mpi_handle from, int n, const int *ranks, lk_mpi_handle to,
                                 int *out);
    int (*type_size)(lk_mpi_handle type, int *bytes);
    int (*type_get_name)(lk_mpi_handle type, char *name, int *n);
};

/* Return the function that a wrapper calls, "MPI_Allreduce"; NULL: the process has no MPI. */
lk_mpi_function lk_mpi_find(const char *name);
/* Return the library, or NULL: its handles are of no known kind. */
const struct lk_mpi *lk_mpi_library(void);
/* Return what a handle is compared by. */
lk_mpi_handle lk_mpi_key(const struct lk_mpi *m, lk_mpi_handle h);
/* Return the i-th of the handles in memory. */
lk_mpi_handle lk_mpi_handle_at(const struct lk_mpi *m, const void *handles, int i);

#endif
