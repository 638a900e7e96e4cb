/* The stand-in library of mpi.h. MPI_ functions are weak names of PMPI_ ones, as in real ones. */
#include "mpi.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef MPICH_ABI
#define COMM(n) (MPI_COMM_WORLD + (n))
static int number_of(MPI_Comm comm)
{
    return comm - MPI_COMM_WORLD;
}

/* All that are done at once have the same one. */
static MPI_Request new_request(void)
{
    return (MPI_Request)0x6c000000;
}
#else
struct object ompi_mpi_comm_world, ompi_mpi_float, ompi_mpi_pair, ompi_mpi_sum;
struct object ompi_request_null;
static struct object comms[3] = {{0}, {1}, {2}}, requests[1024];
/* MPI_COMM_WORLD is where the program says, which may have a copy of it. */
#define COMM(n) ((n) ? &comms[n] : &ompi_mpi_comm_world)
static int number_of(MPI_Comm comm)
{
    return comm->number;
}

static MPI_Request new_request(void)
{
    static _Atomic int last;

    return &requests[(unsigned)last++ % 1024];
}
#endif

/* Return the number in a variable of the environment. */
static int variable(const char *name, int otherwise)
{
    return getenv(name) ? atoi(getenv(name)) : otherwise;
}

/* Define PMPI_name, which MPI_name stands for, too. A group is a communicator's; communicator 1 is
 * of the even ranks, 2 of the odd ones. */
#define DEFINE(name, ...)                                                                          \
    int PMPI_##name(__VA_ARGS__);                                                                  \
    int MPI_##name(__VA_ARGS__) __attribute__((weak, alias("PMPI_" #name)));                       \
    int PMPI_##name(__VA_ARGS__)

DEFINE(Init, int *argc, char ***argv)
{
    (void)argc, (void)argv;
    return MPI_SUCCESS;
}

DEFINE(Finalize, void)
{
    return MPI_SUCCESS;
}

DEFINE(Get_library_version, char *text, int *n)
{
#ifdef MPICH_ABI
    *n = sprintf(text, "MPICH Version:\t0 (a stand-in)\n");
#else
    *n = sprintf(text, "Open MPI v0 (a stand-in)");
#endif
    return MPI_SUCCESS;
}

DEFINE(Comm_size, MPI_Comm comm, int *size)
{
    int world = variable("WORLD_SIZE", 1), number = number_of(comm);

    *size = !number ? world : number == 1 ? (world + 1) / 2 : world / 2;
    return MPI_SUCCESS;
}

DEFINE(Comm_rank, MPI_Comm comm, int *rank)
{
    *rank = variable("RANK", 0) / (number_of(comm) ? 2 : 1);
    return MPI_SUCCESS;
}

DEFINE(Comm_test_inter, MPI_Comm comm, int *flag)
{
    (void)comm;
    *flag = 0;
    return MPI_SUCCESS;
}

DEFINE(Comm_group, MPI_Comm comm, MPI_Group *group)
{
    *group = (MPI_Group)comm;
    return MPI_SUCCESS;
}

DEFINE(Group_free, MPI_Group *group)
{
    *group = (MPI_Group)0;
    return MPI_SUCCESS;
}

DEFINE(Group_translate_ranks, MPI_Group from, int n, const int *ranks, MPI_Group to, int *out)
{
    int number = number_of((MPI_Comm)from);

    (void)to;
    for (int i = 0; i < n; i++)
        out[i] = !number ? ranks[i] : 2 * ranks[i] + number - 1;
    return MPI_SUCCESS;
}

DEFINE(Type_size, MPI_Datatype type, int *bytes)
{
    *bytes = type == MPI_FLOAT ? 4 : 12;
    return MPI_SUCCESS;
}

DEFINE(Type_get_name, MPI_Datatype type, char *name, int *n)
{
    *n = sprintf(name, "%s", type == MPI_FLOAT ? "MPI_FLOAT" : "");
    return MPI_SUCCESS;
}

DEFINE(Comm_split, MPI_Comm comm, int color, int key, MPI_Comm *out)
{
    (void)comm, (void)key;
    *out = COMM(1 + color);
    return MPI_SUCCESS;
}

DEFINE(Comm_free, MPI_Comm *comm)
{
    *comm = COMM(0);
    return MPI_SUCCESS;
}

DEFINE(Allreduce, const void *in, void *out, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    (void)in, (void)out, (void)n, (void)type, (void)op, (void)comm;
    return MPI_SUCCESS;
}

DEFINE(Iallreduce, const void *in, void *out, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
       MPI_Request *request)
{
    (void)in, (void)out, (void)n, (void)type, (void)op, (void)comm;
    *request = new_request();
    return MPI_SUCCESS;
}

DEFINE(Allgather, const void *in, int n, MPI_Datatype type, void *out, int out_n,
       MPI_Datatype out_type, MPI_Comm comm)
{
    (void)in, (void)n, (void)type, (void)out, (void)out_n, (void)out_type, (void)comm;
    return MPI_SUCCESS;
}

DEFINE(Reduce_scatter, const void *in, void *out, const int n[], MPI_Datatype type, MPI_Op op,
       MPI_Comm comm)
{
    (void)in, (void)out, (void)n, (void)type, (void)op, (void)comm;
    return MPI_SUCCESS;
}

/* A library may call its own functions by their names for users. */
DEFINE(Barrier, MPI_Comm comm)
{
    return MPI_Allreduce(NULL, NULL, 0, MPI_FLOAT, MPI_SUM, comm);
}

DEFINE(Waitall, int n, MPI_Request all[], void *statuses)
{
    (void)statuses;
    for (int i = 0; i < n; i++)
        all[i] = MPI_REQUEST_NULL;
    return MPI_SUCCESS;
}

/* The first test of two finds nothing. */
DEFINE(Test, MPI_Request *request, int *flag, void *status)
{
    static int calls;

    (void)status;
    *flag = calls++ % 2;
    if (*flag)
        *request = MPI_REQUEST_NULL;
    return MPI_SUCCESS;
}
