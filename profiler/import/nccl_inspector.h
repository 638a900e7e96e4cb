/*
 * NCCL Inspector's output (the profiler plugin that comes with NCCL 2.28 and newer): an object a
 * collective and rank, one after the other, a file a process. As from nccl-tests, points of a
 * cluster file come of it: of a job's own collectives.
 *
 * Versions of the format, as each object's metadata says (NVIDIA/nccl, plugins/profiler/inspector):
 *
 *   v4.0  NCCL 2.28.3 to 2.31.2: header (communicator, ranks, nodes), metadata, coll_perf; from
 *         2.30 on p2p_perf, too
 *   v4.1  and an object for each communicator and dump that counts what was lost: dump_stats
 *   v4.2  the algorithm and protocol of a collective
 *   v4.3  header and metadata in dump_stats alone: they are those of the objects that it counts
 *   v4.4  other objects of network transfers, which are not read
 *
 * A newer v4 is read with a warning, since members are found by name and rates checked; v5 is
 * refused. (Inspector's Prometheus text says "v5.1": it has means over ranges of sizes, no
 * collectives, and format.c tells it.)
 *
 * Times are whole microseconds, cut off: of the longest channel by the GPU's clock ("kernel_gpu"),
 * else of callbacks by the host's ("kernel_cpu", "collective_cpu"), which are left out: they are
 * the time of NCCL's threads, not of a kernel. A rank that arrives early has the wait for the
 * others in its time, so of each collective the shortest of the ranks' times counts; of each size,
 * the median over collectives. Sizes are what a rank gives: of all-gathers and reduce-scatters the
 * size of a point, all ranks together, is as many times that.
 */
#ifndef LK_PROFILER_IMPORT_NCCL_INSPECTOR_H
#define LK_PROFILER_IMPORT_NCCL_INSPECTOR_H

#include "profiler/import/bench_log.h"

/* What the records tell of themselves, and of those that are not there: Inspector leaves out
 * without a word. Counts are of a rank's collectives, of the kinds that cluster files hold. */
struct lk_inspector {
    int oldest, newest; /* minor versions of format 4 in the files; -1: none says one */
    bool unknown;       /* one is newer than this reader */
    bool rings;         /* of NCCL 2.30 or newer, which keeps a communicator's last ones */
    size_t n_recorded;  /* numbers of collectives with a record */
    size_t n_missing;   /* numbers below the last recorded one without a record */
    size_t n_lost;      /* as Inspector counts what its rings lost, of all kinds (v4.1 and newer) */
    size_t n_by_host;   /* records left out: the host's clock timed them */
    size_t n_stray;     /* records left out: nothing says of which communicator they are (v4.3) */
    size_t n_cut;       /* files that end within a record */
    size_t n_empty;     /* files without a record of Inspector's */
    double seen;        /* ranks' times of a collective that are here, over its ranks; mean */
};

/*
 * Add the points of all files of a run; what is in them goes to *what. LK_EPARSE: nothing in them
 * is of Inspector, or a version is not read, or a rate contradicts its size and time (the message
 * names file and record). LK_EEVIDENCE: the host's clock timed all. out->n_other: collectives of
 * other kinds.
 */
enum lk_status lk_nccl_inspector_read(const char *const *paths, size_t n, struct lk_bench *out,
                                      struct lk_inspector *what);

#endif
