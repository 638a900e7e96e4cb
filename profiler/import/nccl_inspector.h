/*
 * NCCL Inspector's output (the profiler plugin of NCCL 2.28 and newer): an object a collective and
 * rank, one after the other, in a file or several. As from nccl-tests, points of a cluster file
 * come of it: of a job's own collectives.
 *
 * A rank that arrives early has the wait for the others in its time, so of each collective the
 * shortest of the ranks' times counts; of each size, the median over collectives. All-reduces and
 * broadcasts are taken: of the others the plugin does not say which of their sizes it means.
 */
#ifndef LK_PROFILER_IMPORT_NCCL_INSPECTOR_H
#define LK_PROFILER_IMPORT_NCCL_INSPECTOR_H

#include "profiler/bench_log.h"

/* Add the points of all files of a run. LK_EPARSE: nothing in them is of Inspector. out->n_other:
 * collectives of other kinds. */
enum lk_status lk_nccl_inspector_read(const char *const *paths, size_t n, struct lk_bench *out);

#endif
