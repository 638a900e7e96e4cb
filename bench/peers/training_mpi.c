/*
 * A training loop on MPI that knows nothing of lockstep, and times itself: bench/profile_mpi.py
 * compares what lockstep saw of it.
 *
 *     mpirun -n 4 training_mpi STEPS FILE
 *
 * A step computes, then reduces three buckets of gradients, the second of them by MPI_Iallreduce
 * with computation before its wait. Rank 1 computes 2 ms longer. FILE.RANK gets a line for each
 * all-reduce: step, bucket, start and end, ns of CLOCK_MONOTONIC_RAW.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { BUCKETS = 3, ELEMENTS = 1 << 20 };

static long long now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC_RAW, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* Compute for a time; sleeping leaves the processors to the other ranks. */
static void compute(long ns)
{
    struct timespec t = {0, ns};

    nanosleep(&t, NULL);
}

int main(int argc, char **argv)
{
    static const int counts[BUCKETS] = {ELEMENTS, ELEMENTS / 4, 1000};
    float *in, *out;
    char path[4096];
    FILE *file;
    int rank, steps;

    if (argc != 3 || MPI_Init(&argc, &argv) != MPI_SUCCESS)
        return 1;
    steps = atoi(argv[1]);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    snprintf(path, sizeof path, "%s.%d", argv[2], rank);
    file = fopen(path, "w");
    in = calloc(ELEMENTS, sizeof *in);
    out = calloc(ELEMENTS, sizeof *out);
    if (!file || !in || !out)
        MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Bcast(in, ELEMENTS, MPI_FLOAT, 0, MPI_COMM_WORLD);
    for (int step = 0; step < steps; step++) {
        long long at[BUCKETS][2];

        compute(rank == 1 ? 5000000 : 3000000);
        for (int b = 0; b < BUCKETS; b++) {
            compute(1000000);
            at[b][0] = now_ns();
            if (b == 1) {
                MPI_Request request;

                MPI_Iallreduce(in, out, counts[b], MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request);
                compute(500000);
                MPI_Wait(&request, MPI_STATUS_IGNORE);
            } else {
                MPI_Allreduce(in, out, counts[b], MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
            }
            at[b][1] = now_ns();
        }
        for (int b = 0; b < BUCKETS; b++)
            fprintf(file, "%d %d %lld %lld\n", step, b, at[b][0], at[b][1]);
    }
    fclose(file);
    free(in);
    free(out);
    MPI_Finalize();
    return 0;
}
