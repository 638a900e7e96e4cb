/* Pages as Markdown, e.g. for a comment on a pull request. */
#include "base/array.h"
#include "reports/cell.h"
#include "reports/page_formats.h"

#include <stdlib.h>
#include <string.h>

/* Write a text so that nothing in it is markup: a job's name may hold anything. */
static enum lk_status put_text(struct lk_writer *w, const char *s)
{
    while (*s) {
        size_t plain = strcspn(s, "\\`*_|~[]#<>&\r\n");

        LK_PASS(lk_writer_put(w, s, plain));
        s += plain;
        if (!*s)
            break;
        if (*s == '<' || *s == '&')
            LK_PASS(lk_writer_printf(w, "%s", *s == '<' ? "&lt;" : "&amp;"));
        else if (*s == '\r' || *s == '\n')
            LK_PASS(lk_writer_put(w, " ", 1));
        else
            LK_PASS(lk_writer_printf(w, "\\%c", *s));
        s++;
    }
    return LK_OK;
}

/* Write lines as one paragraph, or as a list. */
static enum lk_status put_lines(struct lk_writer *w, char *const *lines, size_t n, bool list)
{
    for (size_t i = 0; i < n; i++) {
        LK_PASS(lk_writer_printf(w, "%s", list ? "- " : i ? " " : ""));
        LK_PASS(put_text(w, lines[i]));
        LK_PASS(lk_writer_printf(w, "%s", list ? "\n" : ""));
    }
    return n ? lk_writer_printf(w, "%s", list ? "\n" : "\n\n") : LK_OK;
}

static enum lk_status put_rows(struct lk_writer *w, const struct lk_table *t,
                               const struct lk_cell_columns *columns, size_t n)
{
    char buf[LK_CELL_TEXT_MAX];

    for (size_t c = 0; c < n; c++) {
        LK_PASS(lk_writer_printf(w, "| "));
        LK_PASS(put_text(w, t->columns[columns[c].at].heading));
        LK_PASS(lk_writer_printf(w, " "));
    }
    LK_PASS(lk_writer_printf(w, "|\n"));
    for (size_t c = 0; c < n; c++)
        LK_PASS(lk_writer_printf(w, "|%s", lk_cell_is_numeric(t, columns[c].at) ? "--:" : "---"));
    LK_PASS(lk_writer_printf(w, "|\n"));
    for (size_t r = 0; r < t->n_rows; r++) {
        for (size_t c = 0; c < n; c++) {
            LK_PASS(lk_writer_printf(w, "| "));
            LK_PASS(put_text(w, lk_cell_text(t, &columns[c], r, buf)));
            LK_PASS(lk_writer_printf(w, " "));
        }
        LK_PASS(lk_writer_printf(w, "|\n"));
    }
    return lk_writer_printf(w, "\n");
}

static enum lk_status put_table(struct lk_writer *w, const struct lk_page_table *t, bool whole)
{
    enum lk_status st = LK_OK;
    struct lk_cell_columns *columns = NULL;
    size_t n;

    LK_TRY(lk_alloc(&columns, t->table->n_columns + t->n_view, sizeof *columns));
    LK_TRY(lk_cell_columns_choose(t, whole, columns, &n));
    LK_TRY(lk_writer_printf(w, "**"));
    LK_TRY(put_text(w, t->table->title));
    LK_TRY(lk_writer_printf(w, "**\n\n"));
    if (n && t->table->n_rows)
        LK_TRY(put_rows(w, t->table, columns, n));
    if (whole)
        LK_TRY(put_lines(w, t->table->notes, t->table->n_notes, true));
out:
    free(columns);
    return st;
}

enum lk_status lk_page_markdown(struct lk_writer *w, const struct lk_page *p, const char *table,
                                bool verbose)
{
    if (!table)
        LK_PASS(put_lines(w, p->answer, p->n_answer, false));
    for (size_t i = 0; i < p->n_tables; i++) {
        const struct lk_page_table *t = &p->tables[i];

        if (table ? !strcmp(table, t->name) : verbose || t->place == LK_PAGE_MAIN)
            LK_PASS(put_table(w, t, table || verbose));
    }
    if (table)
        return LK_OK;
    LK_PASS(put_lines(w, p->notes, p->n_notes, true));
    return put_lines(w, p->next, p->n_next, true);
}
