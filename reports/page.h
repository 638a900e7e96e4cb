/*
 * Print a page (base/page.h) for people and programs.
 *
 *   text        the answer, the main tables, the notes, where the rest is; within a width
 *   csv         one table: a header line that names units by suffix, base units, %.17g
 *   json        {"schema", "version", "command", "command_line", "lockstep", "answer",
 *               "contradictions", "notes", "values", "tables": [{"name", "title", "columns",
 * "rows", "notes"}]}; base units; docs/schemas/page.schema.json markdown    as text, with tables as
 * GitHub has them prometheus  the values
 */
#ifndef LK_REPORTS_PAGE_H
#define LK_REPORTS_PAGE_H

#include "base/page.h"
#include "base/status.h"
#include "reports/print.h"

#include <stdbool.h>
#include <stddef.h>

#define LK_PAGE_SCHEMA "lockstep-page"
enum { LK_PAGE_VERSION = 1, LK_PAGE_WIDTH = 80 /* terminal columns where there is no terminal */ };

/* How a user wants it; rows of options have these types (base/option.h). */
struct lk_page_options {
    int format; /* enum lk_print_format. The first member: the frame of commands finds the struct by
                   it */
    const char *table; /* name of the only table to print; NULL: csv the first, others all */
    bool verbose;      /* text: all tables, whole, with their notes */
    bool quiet;        /* text: the answer alone */
};

struct lk_page_style {
    struct lk_page_options options;
    size_t width;                                 /* text: terminal columns */
    const char *command, *command_line, *version; /* of the program, for json */
};

/* Print a page to a file (atomically), or to standard output when path is "-". LK_EUSAGE for a
 * table that the page has not. */
enum lk_status lk_page_print(const struct lk_page *p, const struct lk_page_style *s,
                             const char *path);
/* Return the columns of standard output's terminal; LK_PAGE_WIDTH if it is none. */
size_t lk_page_width(void);

#endif
