/*
 * MPI_Allreduce, as a baseline for `verbena perf allreduce`; run by mpirun, built where mpicc is. Argument:
 * bytes. Prints "ready"; then for each line with a number on stdin it makes so many all-reduces of that many
 * bytes of floats and prints the seconds. 0 or the end of stdin ends it.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static double next_order(int rank)
{
    char line[64];
    double n = 0;

    if (rank == 0 && fgets(line, sizeof(line), stdin) != NULL)
        n = strtod(line, NULL);
    MPI_Bcast(&n, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    return n;
}

static double reduce(const float *x, float *y, int count, double n)
{
    const double begun = MPI_Wtime();

    for (double i = 0; i < n; i++)
        MPI_Allreduce(x, y, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    return MPI_Wtime() - begun;
}

int main(int argc, char **argv)
{
    const int count = argc > 1 ? (int)(strtoll(argv[1], NULL, 10) / 4) : 0;
    float *x, *y;
    double n;
    int rank = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    x = calloc((size_t)count + 1, sizeof(*x));
    y = calloc((size_t)count + 1, sizeof(*y));
    if (x == NULL || y == NULL)
        MPI_Abort(MPI_COMM_WORLD, 1);
    (void)reduce(x, y, count, 1);
    if (rank == 0) {
        puts("ready");
        fflush(stdout);
    }
    while ((n = next_order(rank)) > 0) {
        const double took = reduce(x, y, count, n);

        if (rank == 0) {
            printf("%.9g\n", took);
            fflush(stdout);
        }
    }
    free(x);
    free(y);
    return MPI_Finalize();
}
