/* What the sweeps share. Private to runtime/sweep*.c. */
#ifndef LK_RUNTIME_SWEEP_IMPL_H
#define LK_RUNTIME_SWEEP_IMPL_H

#include "runtime/comm.h"

#include <stddef.h>

/* Every rank's n numbers in `all`, rank by rank. */
enum lk_status lk_sweep_gather(struct lk_comm *comm, const double *mine, size_t n, double *all);
enum lk_status lk_sweep_barrier(struct lk_comm *comm);

#endif
