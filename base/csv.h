/*
 * Reader of CSV tables: RFC 4180, plain or gzip. The header row names the columns, in any order,
 * in capitals or not.
 * Every error names file, line and column: "runs.csv:14: column 'bytes': '4 apples' is not ...".
 *
 *     enum { GPUS, BYTES, ALGORITHM, N_COLUMNS };
 *     static const struct lk_csv_column columns[N_COLUMNS] = {
 *         [GPUS] = {"gpus|n_gpus", true}, [BYTES] = {"bytes", true}, [ALGORITHM] = {"algorithm"}};
 *
 *     LK_TRY(lk_csv_load(path, columns, N_COLUMNS, LK_CSV_STRICT, &t));
 *     for (size_t i = 0; i < lk_csv_rows(t); i++) {
 *         LK_TRY(lk_csv_int(t, i, GPUS, 1, LK_RANKS_MAX, &gpus));
 *         if (lk_csv_has(t, i, ALGORITHM))
 *             LK_TRY(lk_csv_text(t, i, ALGORITHM, &name));
 *     }
 * out:
 *     lk_csv_free(t);
 *
 * Fields may be quoted, then with doubled quotes, commas and line breaks inside. Blanks around an
 * unquoted field, blank lines, CRLF and a UTF-8 byte order mark are ignored. Lines that begin with
 * "# ", and below the header with any "#", are comments; a "#" that begins the header is dropped,
 * so that tables written by this program can be read.
 */
#ifndef LK_BASE_CSV_H
#define LK_BASE_CSV_H

#include "base/status.h"
#include "base/units.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Limits of a table, so that a damaged file cannot exhaust memory; beyond them LK_EPARSE. */
enum {
    LK_CSV_BYTES_MAX = 128 << 20, /* bytes of the file, unpacked */
    LK_CSV_CELLS_MAX = 32 << 20,  /* fields of all rows */
    LK_CSV_ROW_MAX = 64 << 10,    /* bytes of one row, line breaks in quotes included */
    LK_CSV_COLUMNS_MAX = 256
};

struct lk_csv_column {
    const char *name; /* the name in errors; accepted aliases follow, "gpus|n_gpus" */
    bool required;
};

enum lk_csv_extra {
    LK_CSV_STRICT, /* an unlisted column is an error: a typo must not be ignored */
    LK_CSV_EXTRA   /* an unlisted column is ignored */
};

struct lk_csv;

/* Read a table; `columns` must outlive it. A table without rows is legal. */
enum lk_status lk_csv_load(const char *path, const struct lk_csv_column *columns, size_t n_columns,
                           enum lk_csv_extra extra, struct lk_csv **out);
/* Parse a text in memory likewise; `name` stands for the file in errors. For the tests and fuzzers.
 */
enum lk_status lk_csv_parse(const char *name, const char *text, size_t size,
                            const struct lk_csv_column *columns, size_t n_columns,
                            enum lk_csv_extra extra, struct lk_csv **out);
void lk_csv_free(struct lk_csv *t); /* NULL is legal */

size_t lk_csv_rows(const struct lk_csv *t);
/* Return the line of the file, from 1, at which a row begins. */
size_t lk_csv_line(const struct lk_csv *t, size_t row);
/* Return the file's name as errors show it. */
const char *lk_csv_name(const struct lk_csv *t);

/* Return true if the table has the column; return true if this row has a value in it. `col` is an
 * index into the caller's list. */
bool lk_csv_has_column(const struct lk_csv *t, size_t col);
bool lk_csv_has(const struct lk_csv *t, size_t row, size_t col);

/* Read a value; LK_EPARSE if the field is empty or the column absent. The table owns texts. */
enum lk_status lk_csv_text(const struct lk_csv *t, size_t row, size_t col, const char **out);
/* Read a whole number in [min, max]; "8.0", as spreadsheets write one, is 8. */
enum lk_status lk_csv_int(const struct lk_csv *t, size_t row, size_t col, int64_t min, int64_t max,
                          int64_t *out);
/* Read a finite decimal number in [min, max], either of which may be infinite. */
enum lk_status lk_csv_real(const struct lk_csv *t, size_t row, size_t col, double min, double max,
                           double *out);
/* Read a finite decimal number above 0. */
enum lk_status lk_csv_positive(const struct lk_csv *t, size_t row, size_t col, double *out);
/* Read a number with or without a unit ("25MiB"), in [min, max] of the dimension's base unit. */
enum lk_status lk_csv_quantity(const struct lk_csv *t, size_t row, size_t col,
                               enum lk_dimension dim, double min, double max, double *out);

/* Fail with LK_EPARSE and "file:line: column 'name': " + printf text: for errors of meaning. */
#define lk_csv_error(...) lk_failed_(lk_csv_error_(__VA_ARGS__))
enum lk_status lk_csv_error_(const struct lk_csv *t, size_t row, size_t col, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* ---- Writing ---- */

struct lk_writer;
/*
 * Write a text as a field: in quotes where it has a comma, a quote or a line's end, which becomes a
 * blank, so that a line is a row. A text that a spreadsheet would take for a formula (=cmd, +1, -1,
 * @sum) gets an apostrophe before it, which lk_csv_text takes off again.
 */
enum lk_status lk_csv_put(struct lk_writer *w, const char *text);
/* As lk_csv_put, always in quotes, as gnuplot wants texts. */
enum lk_status lk_csv_put_quoted(struct lk_writer *w, const char *text);
/* Return true for a text that a spreadsheet would take for a formula; numbers are none. */
bool lk_csv_is_formula(const char *text);

#endif
