/* One round of bench/allreduce.c by MPI_Allreduce; prints the same lines. Built by allreduce.sh. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    const size_t largest = 64 << 20;
    double s[400];
    int rank, ranks;
    float *buf = calloc(1, largest);

    if (!buf || MPI_Init(&argc, &argv) != MPI_SUCCESS)
        return 1;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (size_t bytes = 4 << 10; bytes <= largest; bytes *= 4) {
        size_t calls = ((size_t)256 << 20) / bytes;
        int n = calls < 7 ? 7 : calls > 400 ? 400 : (int)calls;

        MPI_Barrier(MPI_COMM_WORLD);
        for (int i = -(n / 8 + 2); i < n; i++) {
            double start = MPI_Wtime();

            MPI_Allreduce(MPI_IN_PLACE, buf, (int)(bytes / sizeof *buf), MPI_FLOAT, MPI_SUM,
                          MPI_COMM_WORLD);
            if (i >= 0)
                s[i] = MPI_Wtime() - start;
        }
        qsort(s, (size_t)n, sizeof *s, by_value);
        if (rank == 0)
            printf("mpi %d %zu %.9f\n", ranks, bytes,
                   n % 2 ? s[n / 2] : 0.5 * (s[n / 2 - 1] + s[n / 2]));
    }
    MPI_Finalize();
    free(buf);
    return 0;
}
