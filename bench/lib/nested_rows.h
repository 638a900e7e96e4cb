/* The rows of sim/collective/nccl_fit.c, made anew from public tables without those of one source.
 */
#ifndef LK_BENCH_LIB_NESTED_ROWS_H
#define LK_BENCH_LIB_NESTED_ROWS_H

#include "sim/collective/nccl_fit.h"
#include "sim/collective/public_tables.h"

#include <stddef.h>

/*
 * Make LK_NCCL_FABRIC_COUNT rows of n tables, but those of the source `without` (NULL: of all).
 * space: for a point of every row of the tables.
 */
void nested_rows(const struct lk_public_table *s, size_t n, struct lk_nccl_point *space,
                 const char *without, struct lk_nccl_factors *rows);

#endif
