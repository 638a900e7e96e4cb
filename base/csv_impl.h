/* Inside of base/csv.h: a table, split. For base/csv*.c only. */
#ifndef LK_BASE_CSV_IMPL_H
#define LK_BASE_CSV_IMPL_H

#include "base/csv.h"

#include <stddef.h>
#include <stdint.h>

struct csv_row {
    size_t line;
    size_t cell; /* index of its first cell */
};

struct lk_csv {
    char *name;
    char *text; /* fields, unquoted and NUL-terminated where they stood */
    const struct lk_csv_column *columns;
    size_t n_columns;
    int *place; /* of each of `columns` in a row; -1: absent */
    size_t width;
    size_t header_line;
    struct csv_row *rows;
    size_t n_rows;
    uint32_t *cells; /* offsets into text */
    size_t n_cells;
};

const char *lk_csv_cell(const struct lk_csv *t, size_t cell);
/* The first of a column's names, as errors have it. Returns buf. */
const char *lk_csv_shown_name(const struct lk_csv_column *c, char *buf, size_t size);

#endif
