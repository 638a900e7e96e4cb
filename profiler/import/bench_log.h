/*
 * Read times of collectives measured by other programs: nccl-tests' output, as text and as JSON,
 * and tables in CSV. All fill one list of points for a cluster file; the source of each is
 * "file:line". Facts missing in a file come from the hints; if both are given and differ, that is
 * an error that names the line.
 */
#ifndef LK_PROFILER_IMPORT_BENCH_LOG_H
#define LK_PROFILER_IMPORT_BENCH_LOG_H

#include "base/status.h"
#include "facts/cluster.h"

#include <stddef.h>

/* Selects one of nccl-tests' two times; DDP reduces in place. */
enum lk_bench_place { LK_BENCH_IN_PLACE, LK_BENCH_OUT_OF_PLACE };

struct lk_bench_hints {
    const char *coll;  /* name, or NULL */
    int ranks, nodes;  /* 0: unknown */
    const char *where; /* CSV: "COLUMN=TEXT", rows whose column contains the text; NULL: all */
    enum lk_bench_place place;
};

struct lk_bench {
    struct lk_cluster_point *points; /* in the order of the files, back to back, algorithm AUTO
                                        unless a column says another */
    size_t n_points, capacity;
    char *gpu;                   /* device name, or NULL */
    char *nccl_version;          /* "2.28.9", or NULL */
    struct lk_quantity link_Bps; /* rate of a link between two hosts, of no collective; optional */
    size_t n_other; /* rows of collectives that cluster files lack (alltoall, reduce, ...) */
    size_t n_wrong; /* rows left out because nccl-tests found wrong results */
};

void lk_bench_fini(struct lk_bench *b); /* zeroes it; safe on a zeroed one */

/*
 * Read the log of a benchmark: nccl-tests' output, that of the OSU micro-benchmarks' collectives,
 * iperf3's JSON (the rate of a link), each told by its content. Of nccl-tests text or JSON (told by
 * its first character), plain or gzip, at most 256 MiB. Text may be a whole log: several tables,
 * other lines between, prefixes of mpirun, srun, kubectl and time stamps. Known versions: 1.0
 * (2017: "bytes N type op", times in ms) to 2.19. LK_EPARSE where the file is damaged or has no
 * table; LK_EUSAGE where a hint is missing.
 */
enum lk_status lk_bench_read_log(const char *path, const struct lk_bench_hints *hints,
                                 struct lk_bench *out);

/*
 * Read a CSV with the columns collective, gpus, nodes, bytes, and seconds or time_us; and
 * optionally algorithm, in_place (0, 1), algbw and busbw (GB/s, checked), gpu, interconnect,
 * nccl_version and source. Rows of several machines are an error unless hints->where selects one.
 */
enum lk_status lk_bench_read_csv(const char *path, const struct lk_bench_hints *hints,
                                 struct lk_bench *out);

#endif
