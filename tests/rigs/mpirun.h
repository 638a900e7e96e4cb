/* Launchers of MPI that this machine may have. */
#ifndef LK_TESTS_MPIRUN_H
#define LK_TESTS_MPIRUN_H

/* X(name, Debian's program, the first line of what it says of its version, options) */
#define MPIRUN_LIST(X)                                                                             \
    X("Open MPI", "mpirun.openmpi", "Open MPI", "--oversubscribe")                                 \
    X("MPICH", "mpirun.mpich", "HYDRA", "")

/* Return the words that start n ranks by launcher i of the list, "mpirun -n N OPTIONS"; NULL: it is
 * not there, which skip (tests/rigs/skip.h) has said. The caller frees it. */
char *mpirun(int i, int n);

#endif
