/*
 * The two binary interfaces of MPI: Open MPI's, and MPICH's with all that descends from it (Intel
 * MPI, MVAPICH, Cray MPICH). mpi.h of either is not needed.
 *
 * Handles of communicators, types and requests are pointers in Open MPI, and 32-bit integers in
 * MPICH. In the calling conventions of x86-64 and AArch64 both travel in a full register or in a
 * slot of 8 bytes, so a caller that passes lk_mpi_handle serves both: the callee reads of it what
 * it needs. Of a handle that MPICH returns in memory only the first 4 bytes are written.
 */
#ifndef LK_FACTS_MPI_ABI_H
#define LK_FACTS_MPI_ABI_H

#include <stdint.h>

typedef uintptr_t lk_mpi_handle;

/*
 * X(member, name, value): predefined handles; in Open MPI the address of the object of that name,
 * in MPICH a value.
 */
#define LK_MPI_HANDLE_LIST(X)                                                                      \
    X(world, "ompi_mpi_comm_world", 0x44000000)                                                    \
    X(sum, "ompi_mpi_op_sum", 0x58000003)                                                          \
    X(errors_return, "ompi_mpi_errors_return", 0x54000001)                                         \
    X(byte, "ompi_mpi_byte", 0x4c00010d)                                                           \
    X(f32, "ompi_mpi_float", 0x4c00040a)                                                           \
    X(f64, "ompi_mpi_double", 0x4c00080b)                                                          \
    X(i32, "ompi_mpi_int32_t", 0x4c000439)                                                         \
    X(i64, "ompi_mpi_int64_t", 0x4c00083a)                                                         \
    X(u8, "ompi_mpi_uint8_t", 0x4c00013b)

/* MPI_IN_PLACE. */
#define LK_OPEN_MPI_IN_PLACE ((const void *)1)
#define LK_MPICH_IN_PLACE    ((const void *)-1)
#define LK_MPICH_COMM_WORLD  ((lk_mpi_handle)0x44000000)

enum {
    LK_MPI_SUCCESS = 0,
    LK_MPI_ERROR = 15,            /* none of the classes: MPICH's MPI_ERR_OTHER */
    LK_MPI_THREAD_SERIALIZED = 2, /* any thread, one at a time */
    LK_MPI_VERSION_BYTES = 8192,  /* of MPI_Get_library_version, MPICH's; Open MPI's is less */
    LK_MPI_ERROR_BYTES = 512,     /* of MPI_Error_string, likewise */
};

#endif
