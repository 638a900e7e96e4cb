/* Print result tables for people and programs; see the header. */
#include "reports/print.h"

#include "base/array.h"
#include "base/file.h"
#include "base/json.h"
#include "base/units.h"
#include "base/words.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const lk_format_names[] = {LK_FORMAT_LIST(LK_WORD_NAME) NULL};

enum { CELL_MAX = 256 }; /* bytes of a formatted cell; longer text is cut in text output only */

static const struct lk_cell *cell_at(const struct lk_table *t, size_t row, size_t column)
{
    return &t->cells[row * t->n_columns + column];
}

/* Format a number for people. */
static const char *number_text(const struct lk_column *c, double v, char *buf)
{
    if (c->dim != LK_DIM_NONE)
        return lk_units_format(c->dim, v, buf, CELL_MAX);
    if (c->digits >= 0)
        snprintf(buf, CELL_MAX, "%.*f", c->digits, v);
    else
        snprintf(buf, CELL_MAX, v == floor(v) && fabs(v) < 1e15 ? "%.0f" : "%.4g", v);
    return buf;
}

static const char *cell_text(const struct lk_column *c, const struct lk_cell *cell, char *buf)
{
    switch (cell->type) {
    case LK_CELL_NUMBER:
        return number_text(c, cell->number, buf);
    case LK_CELL_TEXT:
        return cell->text;
    case LK_CELL_EMPTY:
        break;
    }
    return "-";
}

/* Count the terminal columns of UTF-8 text: bytes that do not continue a character. */
static size_t text_width(const char *s)
{
    size_t n = 0;

    for (; *s; s++)
        n += ((unsigned char)*s & 0xC0) != 0x80;
    return n;
}

static enum lk_status put_padded(struct lk_writer *w, const char *text, size_t width, bool right)
{
    size_t used = text_width(text);
    int pad = used < width ? (int)(width - used) : 0;

    if (right)
        LK_PASS(lk_writer_printf(w, "%*s%s", pad, "", text));
    else
        LK_PASS(lk_writer_printf(w, "%s%*s", text, pad, ""));
    return LK_OK;
}

/* Return true if a column is aligned right: it has numbers and no text. */
static bool is_numeric(const struct lk_table *t, size_t column)
{
    bool any = false;

    for (size_t r = 0; r < t->n_rows; r++) {
        if (cell_at(t, r, column)->type == LK_CELL_TEXT)
            return false;
        any = any || cell_at(t, r, column)->type == LK_CELL_NUMBER;
    }
    return any;
}

/* Return true if a table with rows has no value in a column: text does not show it. */
static bool is_empty(const struct lk_table *t, size_t column)
{
    for (size_t r = 0; r < t->n_rows; r++)
        if (cell_at(t, r, column)->type != LK_CELL_EMPTY)
            return false;
    return t->n_rows > 0;
}

/* Layout of a column of a text table. */
struct setting {
    size_t width;
    bool right, hidden;
};

enum { INDENT = 2 }; /* blanks of a level */

static struct setting column_setting(const struct lk_table *t, size_t column)
{
    struct setting s = {.width = text_width(t->columns[column].heading),
                        .right = is_numeric(t, column),
                        .hidden =
                            is_empty(t, column) || t->columns[column].digits <= LK_TABLE_BELOW};
    char buf[CELL_MAX];

    for (size_t r = 0; r < t->n_rows; r++) {
        const struct lk_cell *cell = cell_at(t, r, column);
        size_t width =
            text_width(cell_text(&t->columns[column], cell, buf)) + (size_t)cell->indent * INDENT;

        s.width = width > s.width ? width : s.width;
    }
    return s;
}

/* Return the last column that a line shows. */
static size_t last_shown(const struct setting *set, size_t n)
{
    size_t last = 0;

    for (size_t c = 0; c < n; c++)
        last = set[c].hidden ? last : c;
    return last;
}

/* Print what lies below a row, behind the start of its last column. */
static enum lk_status put_below(struct lk_writer *w, const struct lk_table *t,
                                const struct setting *set, size_t row)
{
    size_t last = last_shown(set, t->n_columns), indent = 2 * INDENT;

    for (size_t c = 0; c < last; c++)
        indent += set[c].hidden ? 0 : set[c].width + 2;
    for (size_t c = 0; c < t->n_columns; c++) {
        const struct lk_cell *cell = cell_at(t, row, c);

        if (t->columns[c].digits == LK_TABLE_BELOW && cell->type == LK_CELL_TEXT)
            LK_PASS(lk_writer_printf(w, "%*s%s: %s\n", (int)indent + cell->indent * INDENT, "",
                                     t->columns[c].heading, cell->text));
    }
    return LK_OK;
}

static enum lk_status text_row(struct lk_writer *w, const struct lk_table *t,
                               const struct setting *set, size_t row, bool heading)
{
    size_t last = last_shown(set, t->n_columns);
    char buf[CELL_MAX];

    for (size_t c = 0; c < t->n_columns; c++) {
        int indent = heading ? 0 : INDENT * cell_at(t, row, c)->indent;
        const char *text =
            heading ? t->columns[c].heading : cell_text(&t->columns[c], cell_at(t, row, c), buf);

        if (set[c].hidden)
            continue;
        LK_PASS(lk_writer_printf(w, "  %*s", indent, ""));
        LK_PASS(put_padded(w, text, c == last && !set[c].right ? 0 : set[c].width - (size_t)indent,
                           set[c].right));
    }
    LK_PASS(lk_writer_put(w, "\n", 1));
    return heading ? LK_OK : put_below(w, t, set, row);
}

static enum lk_status print_text(struct lk_writer *w, const struct lk_table *t)
{
    enum lk_status st = LK_OK;
    struct setting *set = NULL;

    LK_TRY(lk_alloc(&set, t->n_columns, sizeof *set));
    for (size_t c = 0; c < t->n_columns; c++)
        set[c] = column_setting(t, c);
    LK_TRY(lk_writer_printf(w, "%s\n", t->title));
    if (t->n_rows)
        LK_TRY(text_row(w, t, set, 0, true));
    for (size_t r = 0; r < t->n_rows; r++)
        LK_TRY(text_row(w, t, set, r, false));
    for (size_t i = 0; i < t->n_notes; i++)
        LK_TRY(lk_writer_printf(w, "  %s\n", t->notes[i]));
out:
    free(set);
    return st;
}

/* Write a CSV text as RFC 4180: with a comma, quote or line break it is quoted, quotes doubled. */
static enum lk_status put_csv_text(struct lk_writer *w, const char *text)
{
    if (!strpbrk(text, ",\"\r\n"))
        return lk_writer_put(w, text, strlen(text));
    LK_PASS(lk_writer_put(w, "\"", 1));
    for (; *text; text++)
        LK_PASS(lk_writer_put(w, *text == '"' ? "\"\"" : text, *text == '"' ? 2 : 1));
    return lk_writer_put(w, "\"", 1);
}

static enum lk_status print_csv(struct lk_writer *w, const struct lk_table *t)
{
    LK_PASS(lk_writer_put(w, "#", 1));
    for (size_t c = 0; c < t->n_columns; c++)
        LK_PASS(lk_writer_printf(w, "%s%s", c ? "," : "", t->columns[c].name));
    LK_PASS(lk_writer_put(w, "\n", 1));
    for (size_t r = 0; r < t->n_rows; r++) {
        for (size_t c = 0; c < t->n_columns; c++) {
            const struct lk_cell *cell = cell_at(t, r, c);

            if (c)
                LK_PASS(lk_writer_put(w, ",", 1));
            if (cell->type == LK_CELL_NUMBER)
                LK_PASS(lk_writer_printf(w, "%.17g", cell->number));
            else if (cell->type == LK_CELL_TEXT)
                LK_PASS(put_csv_text(w, cell->text));
        }
        LK_PASS(lk_writer_put(w, "\n", 1));
    }
    return LK_OK;
}

static void json_cell(struct lk_json_out *o, const char *key, const struct lk_cell *cell)
{
    switch (cell->type) {
    case LK_CELL_NUMBER:
        lk_json_out_number(o, key, cell->number);
        break;
    case LK_CELL_TEXT:
        lk_json_out_text(o, key, cell->text);
        break;
    case LK_CELL_EMPTY:
        lk_json_out_null(o, key);
        break;
    }
}

static void json_table(struct lk_json_out *o, const struct lk_table *t)
{
    lk_json_out_object(o, NULL);
    lk_json_out_text(o, "title", t->title);
    lk_json_out_array(o, "columns");
    for (size_t c = 0; c < t->n_columns; c++) {
        lk_json_out_compact(o);
        lk_json_out_object(o, NULL);
        lk_json_out_text(o, "name", t->columns[c].name);
        lk_json_out_text(o, "unit", lk_units_base(t->columns[c].dim));
        lk_json_out_close(o);
    }
    lk_json_out_close(o);
    lk_json_out_array(o, "rows");
    for (size_t r = 0; r < t->n_rows; r++) {
        lk_json_out_compact(o);
        lk_json_out_object(o, NULL);
        for (size_t c = 0; c < t->n_columns; c++)
            json_cell(o, t->columns[c].name, cell_at(t, r, c));
        lk_json_out_close(o);
    }
    lk_json_out_close(o);
    lk_json_out_array(o, "notes");
    for (size_t i = 0; i < t->n_notes; i++)
        lk_json_out_text(o, NULL, t->notes[i]);
    lk_json_out_close(o);
    lk_json_out_close(o);
}

static enum lk_status print_json(struct lk_writer *w, const struct lk_table *const *tables,
                                 size_t n)
{
    struct lk_json_out *o;
    enum lk_status st = lk_json_out_begin(w, &o);

    if (st != LK_OK)
        return st;
    lk_json_out_object(o, NULL);
    lk_json_out_array(o, "tables");
    for (size_t i = 0; i < n; i++)
        if (tables[i])
            json_table(o, tables[i]);
    lk_json_out_close(o);
    lk_json_out_close(o);
    return lk_json_out_end(o);
}

/* Prints the tables and ends the writer, also after a failure. */
static enum lk_status print_to(struct lk_writer *w, const struct lk_table *const *tables, size_t n,
                               enum lk_format format)
{
    enum lk_status st = LK_OK;
    bool first = true;

    if (format == LK_FORMAT_JSON)
        LK_TRY(print_json(w, tables, n));
    for (size_t i = 0; format != LK_FORMAT_JSON && i < n; i++) {
        if (!tables[i])
            continue;
        if (!first)
            LK_TRY(lk_writer_put(w, "\n", 1));
        first = false;
        LK_TRY(format == LK_FORMAT_CSV ? print_csv(w, tables[i]) : print_text(w, tables[i]));
    }
    return lk_writer_commit(w);
out:
    lk_writer_abandon(w);
    return st;
}

enum lk_status lk_report_tables(const struct lk_table *const *tables, size_t n,
                                enum lk_format format, const char *path)
{
    struct lk_writer *w;
    enum lk_status st = lk_writer_open(path, false, &w);

    return st == LK_OK ? print_to(w, tables, n, format) : st;
}

enum lk_status lk_report_tables_text(const struct lk_table *const *tables, size_t n,
                                     enum lk_format format, char **text, size_t *size)
{
    struct lk_writer *w;
    enum lk_status st = lk_writer_open_memory(text, size, &w);

    return st == LK_OK ? print_to(w, tables, n, format) : st;
}

enum lk_status lk_report_table(const struct lk_table *table, enum lk_format format,
                               const char *path)
{
    return lk_report_tables(&table, 1, format, path);
}
