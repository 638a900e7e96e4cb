/*
 * Nonblocking collectives that are under way, by their requests. A call that waits or tests gives
 * its requests before and after: those whose handle has changed by then were completed, because MPI
 * sets it to MPI_REQUEST_NULL, whatever the call.
 */
#ifndef LK_PRELOAD_MPI_REQUESTS_H
#define LK_PRELOAD_MPI_REQUESTS_H

#include "preload/mpi_library.h"
#include "preload/record.h"

/* Remember a collective that has begun; end_ns of its record is set when it ends. When there is no
 * room it is left out. */
void lk_mpi_request_add(const struct lk_mpi *m, const void *request,
                        const struct lk_foreign_record *r);
/* Mark those of n requests that are known; return a list of them, or -1: none. */
int lk_mpi_requests_before(const struct lk_mpi *m, const void *requests, int n);
/* Record those of the list that were completed, and unmark the others; return how many were. */
int lk_mpi_requests_after(const struct lk_mpi *m, const void *requests, int list, int64_t end_ns);
/* Forget a request that is freed. */
void lk_mpi_request_forget(const struct lk_mpi *m, const void *request);

#endif
