/*
 * A result table: commands print it and plots read it. Columns have a unit; a cell is a number, a
 * text or empty. reports/ prints it as text, CSV or JSON.
 */
#ifndef LK_BASE_TABLE_H
#define LK_BASE_TABLE_H

#include "base/status.h"
#include "base/units.h"

#include <stddef.h>

enum lk_cell_type { LK_CELL_EMPTY, LK_CELL_NUMBER, LK_CELL_TEXT };

struct lk_cell {
    enum lk_cell_type type;
    double number;
    char *text; /* owned by the table */
    int indent; /* levels by which text output indents it */
};

/*
 * Text output treats two kinds of columns otherwise (lk_column.digits): BELOW, a text, is a line of
 * its own under the row; DATA is left out, since it is for programs.
 */
enum { LK_TABLE_BELOW = -2, LK_TABLE_DATA = -3 };
/* Text output shows a ratio in percent: 0.912 is "91.2 %" (lk_column.digits). */
enum { LK_TABLE_PERCENT = 32 };

struct lk_column {
    const char *name;      /* CSV and JSON key, with unit suffix, e.g. "step_s" */
    const char *heading;   /* for people, e.g. "step" */
    enum lk_dimension dim; /* of the numbers, in base units */
    int digits; /* decimals in text output, LK_DIM_NONE only; -1: integers whole, others with 4
                   significant digits; or one of the above */
};

struct lk_table {
    char *title;
    struct lk_column *columns;
    char **column_texts; /* the columns' names and headings */
    size_t n_columns;
    struct lk_cell *cells; /* row major, n_rows * n_columns */
    size_t n_rows, rows_capacity;
    char **notes; /* printed under the table */
    size_t n_notes, notes_capacity;
};

/* Create an empty table; title and columns are copied. */
enum lk_status lk_table_create(const char *title, const struct lk_column *columns, size_t n_columns,
                               struct lk_table **out);
void lk_table_destroy(struct lk_table *t); /* NULL is legal */
/* Append an empty row; the calls below set cells of the last row. */
enum lk_status lk_table_row(struct lk_table *t);
/* Set a cell; a NaN makes it empty. LK_EINTERNAL when there is no such column, or no row yet. */
enum lk_status lk_table_number(struct lk_table *t, const char *column, double v);
enum lk_status lk_table_text(struct lk_table *t, const char *column, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Set a cell to a text as it is; NULL makes it empty. */
enum lk_status lk_table_word(struct lk_table *t, const char *column, const char *text);
/* Indent a cell of the last row, and what lies below the row. LK_EINTERNAL as above. */
enum lk_status lk_table_indent(struct lk_table *t, const char *column, int levels);
enum lk_status lk_table_note(struct lk_table *t, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/*
 * Make one table of n tables with the same columns, of which some may be NULL: its first column is
 * `name` and has names[i] in the rows of the i-th. A note that several have is there once. The
 * title is that of the first, up to its colon. *out NULL: all are NULL.
 */
enum lk_status lk_table_join(const struct lk_column *name, const char *const *names,
                             struct lk_table *const *from, size_t n, struct lk_table **out);
/*
 * Keep the columns of a table and the values of its rows in one X-macro list, whose entries are
 * X(name, heading, dim, digits, value):
 *
 *     #define COLUMNS(X) X("rank", "rank", LK_DIM_NONE, -1, (double)k) ...
 *     static const struct lk_column columns[] = {COLUMNS(LK_TABLE_COLUMN)};
 *     COLUMNS(LK_TABLE_CELL) // in a function with `struct lk_table *t` and `out:` (LK_TRY)
 *
 * A value is a number, set by lk_table_number, or a char *, set by lk_table_word.
 */
#define LK_TABLE_COLUMN(name, heading, dim, digits, value) {name, heading, dim, digits},
#define LK_TABLE_CELL(name, heading, dim, digits, value)                                           \
    LK_TRY(_Generic((value), char *                                                                \
                    : lk_table_word, const char *                                                  \
                    : lk_table_word, default                                                       \
                    : lk_table_number)(t, name, value));

/* Return the cell of a row, or NULL when there is no such row or column. */
const struct lk_cell *lk_table_cell(const struct lk_table *t, size_t row, const char *column);

#endif
