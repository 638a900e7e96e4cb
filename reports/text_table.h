/*
 * Lay tables and paragraphs out as text of a width, in terminal columns; 0: as wide as they are.
 */
#ifndef LK_REPORTS_TEXT_TABLE_H
#define LK_REPORTS_TEXT_TABLE_H

#include "base/file.h"
#include "base/page.h"
#include "base/status.h"
#include "base/table.h"

#include <stddef.h>

/* Write a whole table: its title, all columns that have values, and its notes. */
enum lk_status lk_text_table(struct lk_writer *w, const struct lk_table *t);
/*
 * Write the short view of a table, without its title and notes. Columns whose cells are all empty
 * are left out; those whose cells are all the same become a line below. If the rest is wider than
 * `width`, optional columns are left out, then the last text column is wrapped, and then columns
 * are left out from the right, which a line says.
 */
enum lk_status lk_text_view(struct lk_writer *w, const struct lk_table *t,
                            const struct lk_view_column *view, size_t n_view, size_t width);
/* Write a text as lines of at most `width`, broken at blanks; all but the first are indented. */
enum lk_status lk_text_paragraph(struct lk_writer *w, const char *text, size_t indent,
                                 size_t width);

#endif
