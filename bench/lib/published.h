/* Published throughputs: the file published_scaling.csv of the data, for programs of bench/. */
#ifndef LK_BENCH_LIB_PUBLISHED_H
#define LK_BENCH_LIB_PUBLISHED_H

#include "base/csv.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

enum published_column {
    PUBLISHED_SOURCE, /* "REPOSITORY@... FILE:LLINE" */
    PUBLISHED_MODEL,
    PUBLISHED_GPU,
    PUBLISHED_N_GPUS,
    PUBLISHED_GPUS_PER_NODE,
    PUBLISHED_INTERCONNECT,
    PUBLISHED_PRECISION,
    PUBLISHED_BATCH, /* per GPU */
    PUBLISHED_SEQ,   /* length of a sequence, or size of an image */
    PUBLISHED_ACCUM,
    PUBLISHED_THROUGHPUT,
    PUBLISHED_NOTE, /* "tier=A...": how it was measured */
    PUBLISHED_COLUMNS
};

/* Load the file from $LOCKSTEP_DATA, else bench/data; to be freed with lk_csv_free. */
enum lk_status published_load(struct lk_csv **out);
/* Get a cell's text, borrowed; "" where it is empty. */
enum lk_status published_cell(const struct lk_csv *t, size_t row, enum published_column col,
                              const char **out);
/* Find out if the row is of one of these tiers, and has a count of GPUs and a throughput. */
enum lk_status published_counts(const struct lk_csv *t, size_t row, const char *tiers, bool *out);
/*
 * Make the key that all rows of a series have: their source's file and the cells of these columns,
 * as one text, to be freed. *source_length: of the file in it, which comes first (NULL: not asked).
 */
enum lk_status published_key(const struct lk_csv *t, size_t row,
                             const enum published_column *columns, size_t n, char **out,
                             size_t *source_length);

#endif
