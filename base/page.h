/*
 * A page is what a command prints: its answer first, in one to three plain sentences; then its main
 * tables; then what comes next. A command fills a page, and its frame (commands/command.c) prints
 * it in the format that the user wants (reports/page.h), judges it (--fail-below, --fail-if), and
 * destroys it.
 *
 *     static const struct lk_view_column view[] = {
 *         LK_VIEW("gpus"), LK_VIEW_RANGE("step_s", "lo_s", "hi_s")};
 *
 *     LK_TRY(lk_page_say(page, "64 GPUs reach 61 %% of linear (36 to 90)."));
 *     LK_TRY(lk_page_table(page, "points", LK_PAGE_MAIN, view, LK_COUNT(view), &table));
 *     LK_TRY(lk_page_value(page, "efficiency", "gpus=\"64\"", LK_DIM_NONE, 0.61));
 */
#ifndef LK_BASE_PAGE_H
#define LK_BASE_PAGE_H

#include "base/status.h"
#include "base/table.h"

#include <stdbool.h>
#include <stddef.h>

/* A table in text is shown always, or with --verbose alone. Formats for programs have all. */
enum lk_page_place { LK_PAGE_MAIN, LK_PAGE_DETAIL };

/* A column of a table's short view, by name; lo and hi (optional) are the columns of its interval,
 * shown in one cell: "15.2 ms (14.6 to 15.7)". The names are static, or the table's own. */
struct lk_view_column {
    const char *name, *lo, *hi;
    bool bar;      /* a ratio, drawn as a bar from 0 to 1 */
    bool setting;  /* one that a single row has not as a column, but in the line below */
    bool optional; /* left out, without a word, where there is no room for it */
};
#define LK_VIEW(column)                                                                            \
    {                                                                                              \
        .name = (column)                                                                           \
    }
#define LK_VIEW_RANGE(column, from, to)                                                            \
    {                                                                                              \
        .name = (column), .lo = (from), .hi = (to)                                                 \
    }

struct lk_page_table {
    const char *name; /* for --table and JSON, unique in the page; static storage */
    struct lk_table *table;
    enum lk_page_place place;
    struct lk_view_column *view; /* without --verbose; NULL: all columns */
    size_t n_view;
};

/* A number of the answer, for gates and for Prometheus. */
struct lk_page_value {
    const char *name; /* with a unit suffix: "efficiency", "step_s"; static storage */
    char *labels;     /* what it is of: gpus="64",local_batch="4"; "": the page has one */
    enum lk_dimension dim;
    double value;
};

struct lk_page {
    char **answer; /* sentences */
    size_t n_answer, answer_capacity;
    char **contradictions; /* those of its sentences that say what contradicts the rest */
    size_t n_contradictions, contradictions_capacity;
    char **notes; /* what a reader has to know besides, each a line */
    size_t n_notes, notes_capacity;
    char **next; /* what comes next, each a line: files that were written, commands to run */
    size_t n_next, next_capacity;
    struct lk_page_table *tables;
    size_t n_tables, tables_capacity;
    struct lk_page_value *values;
    size_t n_values, values_capacity;
};

/* Append to the answer a sentence that says what contradicts the rest of it. */
enum lk_status lk_page_contradict(struct lk_page *p, const char *sentence);
/* Append to the answer, the notes, and the lines that say what comes next (printf style). */
enum lk_status lk_page_say(struct lk_page *p, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
enum lk_status lk_page_note(struct lk_page *p, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
enum lk_status lk_page_next(struct lk_page *p, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Append a table, which the page then owns: *table becomes NULL. NULL or an empty place is legal:
 * nothing is appended. The view is copied; NULL: text shows all columns. */
enum lk_status lk_page_table(struct lk_page *p, const char *name, enum lk_page_place place,
                             const struct lk_view_column *view, size_t n_view,
                             struct lk_table **table);
/* Append a value; labels (base/label.h) are copied, a NaN is left out. */
enum lk_status lk_page_value(struct lk_page *p, const char *name, const char *labels,
                             enum lk_dimension dim, double value);
/* List the names of the page's values, each once; *out is freed by the caller, the names are not.
 */
enum lk_status lk_page_value_names(const struct lk_page *p, const char ***out, size_t *n);
/* Return the page's table of a name, or NULL. */
const struct lk_page_table *lk_page_find(const struct lk_page *p, const char *name);

void lk_page_fini(struct lk_page *p); /* zeroes it; safe on a zeroed one */

#endif
