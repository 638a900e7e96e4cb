/*
 * Print result tables (struct lk_table) for people and programs.
 *
 *   text  aligned columns, units chosen for reading ("25.0 MiB", "3.20 ms")
 *   csv   one header line that names units by suffix; base units; %.17g
 *   json  {"tables": [{"title", "columns", "rows": [{column: value}], "notes"}]}; base units
 *
 * The other formats are of pages alone (reports/page.h); tables without one are text in them.
 */
#ifndef LK_REPORTS_PRINT_H
#define LK_REPORTS_PRINT_H

#include "base/file.h"
#include "base/json.h"
#include "base/status.h"
#include "base/table.h"
#include "base/words.h"

#include <stddef.h>

/* X(format, name) */
#define LK_FORMAT_LIST(X)                                                                          \
    X(LK_FORMAT_TEXT, "text")                                                                      \
    X(LK_FORMAT_CSV, "csv")                                                                        \
    X(LK_FORMAT_JSON, "json")                                                                      \
    X(LK_FORMAT_MARKDOWN, "markdown")                                                              \
    X(LK_FORMAT_PROMETHEUS, "prometheus")

enum lk_print_format { LK_FORMAT_LIST(LK_WORD_VALUE) };

/* The words of --format for an option row of type LK_OPT_CHOICE, NULL-ended, in enum order. */
extern const char *const lk_format_names[];

/* Print tables to a file (atomically), or to standard output when path is "-". NULL: no table. */
enum lk_status lk_report_tables(const struct lk_table *const *tables, size_t n,
                                enum lk_print_format format, const char *path);
/* Print the tables into memory; the caller frees *text. */
enum lk_status lk_report_tables_text(const struct lk_table *const *tables, size_t n,
                                     enum lk_print_format format, char **text, size_t *size);
/* Print one table. */
enum lk_status lk_report_table(const struct lk_table *table, enum lk_print_format format,
                               const char *path);

/* Write a table as CSV, and as an object of a JSON array; name NULL: it has none. */
enum lk_status lk_print_csv(struct lk_writer *w, const struct lk_table *t);
void lk_print_json_table(struct lk_json_out *o, const char *name, const struct lk_table *t);

#endif
