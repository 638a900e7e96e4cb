/*
 * Look up each of MPI's communicators and types once, and remember it until MPI_Comm_free.
 *
 * MPI gives communicators no names that all ranks know. A group is therefore told by the places of
 * its ranks in MPI_COMM_WORLD, and by how many communicators of the same ranks came before it,
 * which is the same number on all of them: they use communicators in the same order.
 */
#ifndef LK_PRELOAD_MPI_GROUPS_H
#define LK_PRELOAD_MPI_GROUPS_H

#include "preload/mpi_library.h"

struct lk_mpi_group {
    uint32_t id; /* of lk_foreign_group; 0: not known, e.g. of an intercommunicator */
    int n_ranks, rank;
};

/* Find a communicator's group. */
void lk_mpi_group_find(const struct lk_mpi *m, lk_mpi_handle comm, struct lk_mpi_group *out);
/* Find it, and set *sequence to the number of its next collective, which is counted. */
void lk_mpi_group_next(const struct lk_mpi *m, lk_mpi_handle comm, struct lk_mpi_group *out,
                       uint32_t *sequence);
/* Forget a communicator: its handle may be given to another one. */
void lk_mpi_group_forget(const struct lk_mpi *m, lk_mpi_handle comm);
/* Return the type's enum lk_dtype plus one. A type that has none counts as bytes; *bytes is set to
 * the bytes of an element then, else to 1. */
uint8_t lk_mpi_dtype(const struct lk_mpi *m, lk_mpi_handle type, uint64_t *bytes);

#endif
