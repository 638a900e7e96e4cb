/*
 * A stand-in for MPI, for tests of the preload library: what a program calls, in the ABI of Open
 * MPI (handles are pointers) or, with MPICH_ABI, of MPICH (they are integers). Ranks are processes
 * that know nothing of each other: RANK and WORLD_SIZE say which one it is, and collectives return
 * at once.
 */
#ifndef LK_TESTS_MPI_H
#define LK_TESTS_MPI_H

#ifdef MPICH_ABI
typedef int MPI_Comm, MPI_Datatype, MPI_Op, MPI_Request, MPI_Group;
#define MPI_COMM_WORLD   ((MPI_Comm)0x44000000)
#define MPI_FLOAT        ((MPI_Datatype)0x4c00040a)
#define MPI_PAIR         ((MPI_Datatype)0x4c000001)
#define MPI_SUM          ((MPI_Op)0x58000003)
#define MPI_REQUEST_NULL ((MPI_Request)0x2c000000)
#define MPI_IN_PLACE     ((void *)-1)
#else
struct object {
    int number;
};
typedef struct object *MPI_Comm, *MPI_Datatype, *MPI_Op, *MPI_Request, *MPI_Group;
extern struct object ompi_mpi_comm_world, ompi_mpi_float, ompi_mpi_pair, ompi_mpi_sum;
extern struct object ompi_request_null;
#define MPI_COMM_WORLD   (&ompi_mpi_comm_world)
#define MPI_FLOAT        (&ompi_mpi_float)
#define MPI_PAIR         (&ompi_mpi_pair)
#define MPI_SUM          (&ompi_mpi_sum)
#define MPI_REQUEST_NULL (&ompi_request_null)
#define MPI_IN_PLACE     ((void *)1)
#endif
#define MPI_SUCCESS       0
#define MPI_STATUS_IGNORE ((void *)0)

int MPI_Init(int *argc, char ***argv);
int MPI_Finalize(void);
int MPI_Allreduce(const void *in, void *out, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm);
int MPI_Iallreduce(const void *in, void *out, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                   MPI_Request *request);
int MPI_Allgather(const void *in, int n, MPI_Datatype type, void *out, int out_n,
                  MPI_Datatype out_type, MPI_Comm comm);
int MPI_Reduce_scatter(const void *in, void *out, const int n[], MPI_Datatype type, MPI_Op op,
                       MPI_Comm comm);
int MPI_Barrier(MPI_Comm comm);
int MPI_Waitall(int n, MPI_Request requests[], void *statuses);
int MPI_Test(MPI_Request *request, int *flag, void *status);
/* Make a communicator of the ranks of an even, or an odd, number. */
int MPI_Comm_split(MPI_Comm comm, int color, int key, MPI_Comm *out);
int MPI_Comm_free(MPI_Comm *comm);

#endif
