/* Format cells of tables for people, with the interval that a view puts into the same cell. */
#ifndef LK_REPORTS_CELL_H
#define LK_REPORTS_CELL_H

#include "base/page.h"
#include "base/status.h"
#include "base/table.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LK_CELL_TEXT_MAX = 1024 }; /* bytes of a formatted cell; what is longer is cut */
#define LK_NO_COLUMN SIZE_MAX

/* Columns of a table that are shown as one; lo and hi LK_NO_COLUMN: it has no interval. */
struct lk_cell_columns {
    size_t at, lo, hi;
    bool bar; /* the number is drawn */
};

/* Find the columns of a view's. LK_EINTERNAL when the table lacks one. */
enum lk_status lk_cell_columns_find(const struct lk_table *t, const struct lk_view_column *view,
                                    struct lk_cell_columns *out);
/* List the columns that markup shows: those of the table's view without bars or, whole, all but
 * those of programs; in both cases none without a cell. *out has room for the table's and the
 * view's. */
enum lk_status lk_cell_columns_choose(const struct lk_page_table *t, bool whole,
                                      struct lk_cell_columns *out, size_t *n);
/* Format a cell: "15.2 ms (14.6 to 15.7)"; "-" when it is empty. Returns buf, which has room for
 * LK_CELL_TEXT_MAX, or the cell's own text. */
const char *lk_cell_text(const struct lk_table *t, const struct lk_cell_columns *c, size_t row,
                         char *buf);
/* Return true for a column that has numbers and no text, and for one that has rows and no cell. */
bool lk_cell_is_numeric(const struct lk_table *t, size_t column);
bool lk_cell_is_empty(const struct lk_table *t, size_t column);

#endif
