/* Public nccl-tests tables: times of collectives that several labs measured, by machine. */
#ifndef LK_SIM_PUBLIC_TABLES_H
#define LK_SIM_PUBLIC_TABLES_H

#include "base/status.h"
#include "facts/cluster.h"

#include <stddef.h>

enum { LK_PUBLIC_SOURCE_MAX = 80 };

/* One table: a source's sizes of one collective on one machine. */
struct lk_public_table {
    char source[LK_PUBLIC_SOURCE_MAX], label[2 * LK_PUBLIC_SOURCE_MAX],
        platform[2 * LK_PUBLIC_SOURCE_MAX];
    enum lk_coll coll;
    enum lk_algo algo;
    int ranks, nodes, machine; /* -1: of unknown kind */
    size_t n, bytes_capacity, us_capacity;
    double *bytes, *us;
    struct lk_cluster cluster; /* without points */
};

struct lk_public_tables {
    struct lk_public_table *s;
    size_t n, capacity;
    size_t n_rows, n_left_out; /* rows of the file; those that no table has */
};

/* The tables that are read: those whose source says nothing against them, or those that it calls
 * degraded. */
enum lk_public_kind { LK_PUBLIC_SOUND, LK_PUBLIC_DEGRADED };

/*
 * Read the tables, and the presets of their machines from clusters_dir (NULL: where presets are,
 * facts/preset.h). Left out by rule: several processes on one GPU (time-sliced), tables of the
 * other kind, collectives that a cluster file has not, in-place rows (the same run again). pre:
 * *out is zero. Call lk_public_tables_fini after a failure, too.
 */
enum lk_status lk_public_tables_read(const char *path, const char *clusters_dir,
                                     enum lk_public_kind kind, struct lk_public_tables *out);
void lk_public_tables_fini(struct lk_public_tables *t);

#endif
