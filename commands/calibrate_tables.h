/*
 * What a calibration on GPUs finds beside the numbers of a cluster file: result tables. Rank 0
 * fills them; they travel as JSON from it to the launcher, which puts those of several counts of
 * ranks together.
 */
#ifndef LK_COMMANDS_CALIBRATE_TABLES_H
#define LK_COMMANDS_CALIBRATE_TABLES_H

#include "base/status.h"
#include "base/table.h"
#include "runtime/sweep.h"
#include "runtime/sweep_rates.h"

#include <stdbool.h>

enum {
    CALIBRATE_COLLECTIVES, /* as nccl-tests prints them */
    CALIBRATE_COPIES,
    CALIBRATE_PRODUCTS,
    CALIBRATE_OVERLAP,
    CALIBRATE_TABLES
};

struct calibrate_tables {
    struct lk_table *table[CALIBRATE_TABLES];
};

enum lk_status calibrate_tables_create(struct calibrate_tables *t);
void calibrate_tables_fini(struct calibrate_tables *t); /* safe on a zeroed one */
/* To a file, and from one behind what is there. LK_EPARSE names file, line and key. */
enum lk_status calibrate_tables_write(const struct calibrate_tables *t, const char *path);
enum lk_status calibrate_tables_append(struct calibrate_tables *t, const char *path);

/* A line a size: in place, and out of place beside it where that was measured. */
enum lk_status calibrate_show_collectives(struct calibrate_tables *t,
                                          const struct lk_sweep_rows *rows);
/* Copies or products. */
enum lk_status calibrate_show_rates(struct calibrate_tables *t, const struct lk_rate_rows *rows);

/* A line of the overlap probe. */
struct calibrate_overlap {
    const struct lk_sweep_overlap *samples;
    const struct lk_sweep_beside *beside;
    int ranks;
    int ctas;     /* of a real collective: the limit given to NCCL; 0: its own choice */
    bool in_file; /* the cluster file has its numbers */
};
enum lk_status calibrate_show_overlap(struct calibrate_tables *t,
                                      const struct calibrate_overlap *line);

#endif
