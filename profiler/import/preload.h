/*
 * Read the files that the preload library leaves of foreign processes: facts/foreign_file.h.
 * Nothing in a file is trusted; what its ring had lost is noted.
 *
 *   collectives     MPI's calls, as the host sees them; NCCL's calls, and their work on the GPU
 *   waits           MPI_Wait and such, in which the host waits for a collective
 *   sent            what NCCL's proxy sent over networks, in groups of all ranks
 *   ranges          as those of NVTX: lk_event_kind_of_range
 *
 * The rank is that in the largest group of the process. Times are on CLOCK_MONOTONIC_RAW, which
 * all processes of a host share.
 */
#ifndef LK_PROFILER_IMPORT_PRELOAD_H
#define LK_PROFILER_IMPORT_PRELOAD_H

#include "profiler/import/event.h"

#include <stdbool.h>

/* Read a file. LK_EIO; LK_EPARSE: it is not whole, or of another machine or version. lk_events_fini
 * in any case. */
enum lk_status lk_preload_read(const char *path, const char *step_range, struct lk_events *out);
/* Return false if the file says that its process was no rank: it had no communicator, and launched
 * no kernel while those were recorded. One that cannot be read may be one. */
bool lk_preload_is_of_rank(const char *path);
/* Return why the file has no kernels; "": it has some, they were not asked for, or it cannot be
 * read. */
const char *lk_preload_no_kernels(const char *path);

#endif
