/* Tables of a page as HTML. See html_impl.h. */
#include "reports/html_impl.h"

#include "base/array.h"
#include "reports/cell.h"
#include "reports/chart/xml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Write a cell; a number has its value beside what people read, to be sorted by. */
static enum lk_status put_cell(struct lk_writer *w, const struct lk_table *t,
                               const struct lk_cell_columns *c, size_t row, bool numeric)
{
    const struct lk_cell *cell = &t->cells[row * t->n_columns + c->at];
    char buf[LK_CELL_TEXT_MAX];

    LK_PASS(lk_writer_printf(w, "<td%s", numeric ? " class=\"n\"" : ""));
    if (cell->type == LK_CELL_NUMBER)
        LK_PASS(lk_writer_printf(w, " data-v=\"%.7g\"", cell->number));
    if (cell->indent)
        LK_PASS(lk_writer_printf(w, " style=\"padding-left:%dem\"", 1 + cell->indent));
    LK_PASS(lk_writer_printf(w, ">"));
    LK_PASS(lk_xml_text(w, lk_cell_text(t, c, row, buf)));
    return lk_writer_printf(w, "</td>");
}

static enum lk_status put_rows(struct lk_writer *w, const struct lk_table *t,
                               const struct lk_cell_columns *columns, size_t n)
{
    enum lk_status st = LK_OK;
    bool *numeric = NULL;

    LK_TRY(lk_alloc(&numeric, n, sizeof *numeric));
    LK_TRY(lk_writer_printf(w, "<thead><tr>"));
    for (size_t c = 0; c < n; c++) {
        numeric[c] = lk_cell_is_numeric(t, columns[c].at);
        LK_TRY(lk_writer_printf(w, "<th scope=\"col\"%s>", numeric[c] ? " class=\"n\"" : ""));
        LK_TRY(lk_xml_text(w, t->columns[columns[c].at].heading));
        LK_TRY(lk_writer_printf(w, "</th>"));
    }
    LK_TRY(lk_writer_printf(w, "</tr></thead>\n<tbody>\n"));
    for (size_t r = 0; r < t->n_rows && r < LK_HTML_ROWS; r++) {
        LK_TRY(lk_writer_printf(w, "<tr>"));
        for (size_t c = 0; c < n; c++)
            LK_TRY(put_cell(w, t, &columns[c], r, numeric[c]));
        LK_TRY(lk_writer_printf(w, "</tr>\n"));
    }
    st = lk_writer_printf(w, "</tbody>\n");
out:
    free(numeric);
    return st;
}

/* ---- Columns that are the same in all rows ---- */

static bool is_same(const struct lk_table *t, const struct lk_cell_columns *c)
{
    char first[LK_CELL_TEXT_MAX], buf[LK_CELL_TEXT_MAX];

    snprintf(first, sizeof first, "%s", lk_cell_text(t, c, 0, buf));
    for (size_t r = 1; r < t->n_rows; r++)
        if (strcmp(first, lk_cell_text(t, c, r, buf)) != 0)
            return false;
    return t->n_rows > 1;
}

/* Put the columns that differ first; return how many they are. */
static size_t part_columns(const struct lk_table *t, struct lk_cell_columns *columns, size_t n)
{
    size_t differ = 0;

    for (size_t c = 0; c < n; c++) {
        struct lk_cell_columns column = columns[c];

        if (is_same(t, &column))
            continue;
        memmove(&columns[differ + 1], &columns[differ], (c - differ) * sizeof *columns);
        columns[differ++] = column;
    }
    return differ;
}

static enum lk_status put_same(struct lk_writer *w, const struct lk_table *t,
                               const struct lk_cell_columns *columns, size_t n)
{
    char buf[LK_CELL_TEXT_MAX];

    if (!n)
        return LK_OK;
    LK_PASS(lk_writer_printf(w, "<p class=\"same\">The same in all rows:"));
    for (size_t c = 0; c < n; c++) {
        LK_PASS(lk_writer_printf(w, "%s ", c ? "," : ""));
        LK_PASS(lk_xml_text(w, t->columns[columns[c].at].heading));
        LK_PASS(lk_writer_printf(w, " "));
        LK_PASS(lk_xml_text(w, lk_cell_text(t, &columns[c], 0, buf)));
    }
    return lk_writer_printf(w, ".</p>\n");
}

/* ---- Tables ---- */

static enum lk_status put_notes(struct lk_writer *w, const struct lk_page_table *t,
                                const char *command)
{
    const struct lk_table *table = t->table;

    if (table->n_rows <= LK_HTML_ROWS && !table->n_notes)
        return LK_OK;
    LK_PASS(lk_writer_printf(w, "<ul class=\"notes\">\n"));
    if (table->n_rows > LK_HTML_ROWS) {
        LK_PASS(lk_writer_printf(w, "<li>The first %d of %zu rows%s", LK_HTML_ROWS, table->n_rows,
                                 command ? "; all of them: <code>" : "."));
        if (command) {
            LK_PASS(lk_xml_text(w, command));
            LK_PASS(lk_writer_printf(w, " --format csv --table %s</code>", t->name));
        }
        LK_PASS(lk_writer_printf(w, "</li>\n"));
    }
    for (size_t i = 0; i < table->n_notes; i++) {
        LK_PASS(lk_writer_printf(w, "<li>"));
        LK_PASS(lk_xml_text(w, table->notes[i]));
        LK_PASS(lk_writer_printf(w, "</li>\n"));
    }
    return lk_writer_printf(w, "</ul>\n");
}

/* Write a table: the columns of its view, or all of them, folded. */
static enum lk_status put_table(struct lk_writer *w, const struct lk_page_table *t, bool folded,
                                const char *command)
{
    enum lk_status st = LK_OK;
    struct lk_cell_columns *columns = NULL;
    size_t n, differ;

    LK_TRY(lk_alloc(&columns, t->table->n_columns + t->n_view, sizeof *columns));
    LK_TRY(lk_cell_columns_choose(t, folded, columns, &n));
    differ = folded ? n : part_columns(t->table, columns, n);
    LK_TRY(lk_writer_printf(w, folded ? "<details><summary>" : "<h3>"));
    LK_TRY(lk_xml_text(w, t->table->title));
    LK_TRY(lk_writer_printf(w, folded ? "</summary>\n" : "</h3>\n"));
    if (differ && t->table->n_rows) {
        LK_TRY(lk_writer_printf(w, "<div class=\"box\" tabindex=\"0\" role=\"region\" "
                                   "aria-label=\""));
        LK_TRY(lk_xml_text(w, t->table->title));
        LK_TRY(lk_writer_printf(w, "\"><table data-table=\"%s\">\n", t->name));
        LK_TRY(put_rows(w, t->table, columns, differ));
        LK_TRY(lk_writer_printf(w, "</table></div>\n"));
    }
    LK_TRY(put_same(w, t->table, columns + differ, n - differ));
    LK_TRY(put_notes(w, t, command));
    if (folded)
        st = lk_writer_printf(w, "</details>\n");
out:
    free(columns);
    return st;
}

enum lk_status html_tables(struct lk_writer *w, const struct lk_page *p, const char *command)
{
    for (int folded = 0; folded < 2; folded++)
        for (size_t i = 0; i < p->n_tables; i++)
            if ((p->tables[i].place == LK_PAGE_DETAIL) == folded)
                LK_PASS(put_table(w, &p->tables[i], folded, command));
    return LK_OK;
}
