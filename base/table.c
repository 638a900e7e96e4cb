/* A result table; see the header. */
#include "base/table.h"

#include "base/array.h"
#include "base/lines.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum lk_status lk_table_create(const char *title, const struct lk_column *columns, size_t n_columns,
                               struct lk_table **out)
{
    enum lk_status st = LK_OK;
    struct lk_table *t = NULL;

    LK_TRY(lk_alloc(&t, 1, sizeof *t));
    LK_TRY(lk_strdup(&t->title, title));
    lk_one_line(t->title);
    LK_TRY(lk_alloc(&t->columns, n_columns, sizeof *t->columns));
    LK_TRY(lk_alloc(&t->column_texts, 2 * n_columns, sizeof *t->column_texts));
    t->n_columns = n_columns;
    for (size_t i = 0; i < n_columns; i++) {
        LK_TRY(lk_strdup(&t->column_texts[2 * i], columns[i].name));
        LK_TRY(lk_strdup(&t->column_texts[2 * i + 1], columns[i].heading));
        t->columns[i] = columns[i];
        t->columns[i].name = t->column_texts[2 * i];
        t->columns[i].heading = t->column_texts[2 * i + 1];
    }
    LK_HAND_OVER(out, t);
out:
    lk_table_destroy(t);
    return st;
}

void lk_table_destroy(struct lk_table *t)
{
    if (!t)
        return;
    for (size_t i = 0; i < t->n_rows * t->n_columns; i++)
        free(t->cells[i].text);
    for (size_t i = 0; i < t->n_notes; i++)
        free(t->notes[i]);
    for (size_t i = 0; t->column_texts && i < 2 * t->n_columns; i++)
        free(t->column_texts[i]);
    free(t->column_texts);
    free(t->columns);
    free(t->cells);
    free(t->notes);
    free(t->title);
    free(t);
}

enum lk_status lk_table_row(struct lk_table *t)
{
    LK_PASS(lk_array_grow(&t->cells, &t->rows_capacity, t->n_rows + 1,
                          t->n_columns * sizeof *t->cells));
    for (size_t i = 0; i < t->n_columns; i++)
        t->cells[t->n_rows * t->n_columns + i] = (struct lk_cell){.type = LK_CELL_EMPTY};
    t->n_rows++;
    return LK_OK;
}

/* Return the index of a column's name, or n_columns. */
static size_t find_column(const struct lk_table *t, const char *name)
{
    size_t i;

    for (i = 0; i < t->n_columns; i++)
        if (!strcmp(t->columns[i].name, name))
            break;
    return i;
}

/* Replace a cell of the last row; takes ownership of cell.text, which is freed on failure too. */
static enum lk_status set_cell(struct lk_table *t, const char *column, struct lk_cell cell)
{
    size_t i = find_column(t, column);
    struct lk_cell *old;

    if (i == t->n_columns || !t->n_rows) {
        free(cell.text);
        return lk_fail(LK_EINTERNAL, "table '%s': no %s '%s'", t->title,
                       t->n_rows ? "column" : "row yet for column", column);
    }
    old = &t->cells[(t->n_rows - 1) * t->n_columns + i];
    free(old->text);
    *old = cell;
    return LK_OK;
}

enum lk_status lk_table_number(struct lk_table *t, const char *column, double v)
{
    return set_cell(t, column,
                    isnan(v) ? (struct lk_cell){.type = LK_CELL_EMPTY}
                             : (struct lk_cell){.type = LK_CELL_NUMBER, .number = v});
}

enum lk_status lk_table_text(struct lk_table *t, const char *column, const char *fmt, ...)
{
    struct lk_cell cell = {.type = LK_CELL_TEXT};
    enum lk_status st;
    va_list ap;

    va_start(ap, fmt);
    st = lk_vasprintf(&cell.text, fmt, ap);
    va_end(ap);
    if (st == LK_OK)
        lk_one_line(cell.text);
    return st == LK_OK ? set_cell(t, column, cell) : st;
}

enum lk_status lk_table_word(struct lk_table *t, const char *column, const char *text)
{
    return text ? lk_table_text(t, column, "%s", text) : lk_table_number(t, column, NAN);
}

enum lk_status lk_table_indent(struct lk_table *t, const char *column, int levels)
{
    size_t i = find_column(t, column);

    if (i == t->n_columns || !t->n_rows)
        return lk_fail(LK_EINTERNAL, "table '%s': nothing to indent in column '%s'", t->title,
                       column);
    t->cells[(t->n_rows - 1) * t->n_columns + i].indent = levels;
    return LK_OK;
}

LK_LINES_ADDER(lk_table_note, struct lk_table, notes)

/* ---- Joining ---- */

static enum lk_status create_joined(const struct lk_column *name, const struct lk_table *like,
                                    struct lk_table **out)
{
    enum lk_status st = LK_OK;
    struct lk_column *columns = NULL;
    char *title = NULL;

    LK_TRY(lk_strndup(&title, like->title, strcspn(like->title, ":")));
    LK_TRY(lk_alloc(&columns, like->n_columns + 1, sizeof *columns));
    columns[0] = *name;
    memcpy(columns + 1, like->columns, like->n_columns * sizeof *columns);
    LK_TRY(lk_table_create(title, columns, like->n_columns + 1, out));
out:
    free(columns);
    free(title);
    return st;
}

static enum lk_status append_rows(struct lk_table *t, const char *name, const struct lk_table *from)
{
    for (size_t r = 0; r < from->n_rows; r++) {
        struct lk_cell *to;

        LK_PASS(lk_table_row(t));
        to = &t->cells[(t->n_rows - 1) * t->n_columns];
        to[0].type = LK_CELL_TEXT;
        LK_PASS(lk_strdup(&to[0].text, name));
        for (size_t c = 0; c < from->n_columns; c++) {
            const struct lk_cell *cell = &from->cells[r * from->n_columns + c];

            to[c + 1] = *cell;
            to[c + 1].text = NULL;
            if (cell->text)
                LK_PASS(lk_strdup(&to[c + 1].text, cell->text));
        }
    }
    return LK_OK;
}

static enum lk_status append_notes(struct lk_table *t, const struct lk_table *from)
{
    for (size_t i = 0; i < from->n_notes; i++) {
        size_t k = 0;

        while (k < t->n_notes && strcmp(t->notes[k], from->notes[i]) != 0)
            k++;
        if (k == t->n_notes)
            LK_PASS(lk_table_note(t, "%s", from->notes[i]));
    }
    return LK_OK;
}

enum lk_status lk_table_join(const struct lk_column *name, const char *const *names,
                             struct lk_table *const *from, size_t n, struct lk_table **out)
{
    enum lk_status st = LK_OK;
    struct lk_table *t = NULL;

    for (size_t i = 0; i < n; i++) {
        if (!from[i])
            continue;
        if (!t)
            LK_TRY(create_joined(name, from[i], &t));
        LK_TRY(append_rows(t, names[i], from[i]));
        LK_TRY(append_notes(t, from[i]));
    }
    LK_HAND_OVER(out, t);
out:
    lk_table_destroy(t);
    return st;
}

const struct lk_cell *lk_table_cell(const struct lk_table *t, size_t row, const char *column)
{
    size_t i = find_column(t, column);

    return row < t->n_rows && i < t->n_columns ? &t->cells[row * t->n_columns + i] : NULL;
}
