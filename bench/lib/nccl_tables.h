/* Public nccl-tests tables: times of collectives that several labs measured, by machine. */
#ifndef LK_BENCH_LIB_NCCL_TABLES_H
#define LK_BENCH_LIB_NCCL_TABLES_H

#include "base/status.h"
#include "facts/cluster.h"

#include <stddef.h>

enum { NCCL_SOURCE_MAX = 80 };

/* One table: a source's sizes of one collective on one machine. */
struct nccl_series {
    char source[NCCL_SOURCE_MAX], label[2 * NCCL_SOURCE_MAX], platform[2 * NCCL_SOURCE_MAX];
    enum lk_coll coll;
    enum lk_algo algo;
    int ranks, nodes, machine; /* -1: of unknown kind */
    size_t n, bytes_capacity, us_capacity;
    double *bytes, *us;
    struct lk_cluster cluster; /* without points */
};

struct nccl_tables {
    struct nccl_series *s;
    size_t n, capacity;
    size_t n_rows, n_left_out; /* rows of the file; those that no table has */
};

/*
 * Read the tables, and the presets of their machines from clusters_dir. Left out by rule: several
 * processes on one GPU (time-sliced), rows that their source marks as DEGRADED, collectives that a
 * cluster file has not, in-place rows (the same run again). pre: *out is zero. Call
 * nccl_tables_fini after a failure, too.
 */
enum lk_status nccl_tables_read(const char *path, const char *clusters_dir,
                                struct nccl_tables *out);
void nccl_tables_fini(struct nccl_tables *t);

#endif
