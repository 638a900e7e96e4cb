/* Print result tables for people and programs; see the header. */
#include "reports/print.h"

#include "base/array.h"
#include "base/csv.h"
#include "base/file.h"
#include "base/json.h"
#include "base/units.h"
#include "base/words.h"
#include "reports/text_table.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const lk_format_names[] = {LK_FORMAT_LIST(LK_WORD_NAME) NULL};

static const struct lk_cell *cell_at(const struct lk_table *t, size_t row, size_t column)
{
    return &t->cells[row * t->n_columns + column];
}

enum lk_status lk_print_csv(struct lk_writer *w, const struct lk_table *t)
{
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
                LK_PASS(lk_csv_put(w, cell->text));
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

void lk_print_json_table(struct lk_json_out *o, const char *name, const struct lk_table *t)
{
    lk_json_out_object(o, NULL);
    if (name)
        lk_json_out_text(o, "name", name);
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
            lk_print_json_table(o, NULL, tables[i]);
    lk_json_out_close(o);
    lk_json_out_close(o);
    return lk_json_out_end(o);
}

/* Prints the tables and ends the writer, also after a failure. */
static enum lk_status print_to(struct lk_writer *w, const struct lk_table *const *tables, size_t n,
                               enum lk_print_format format)
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
        LK_TRY(format == LK_FORMAT_CSV ? lk_print_csv(w, tables[i]) : lk_text_table(w, tables[i]));
    }
    return lk_writer_commit(w);
out:
    lk_writer_abandon(w);
    return st;
}

enum lk_status lk_report_tables(const struct lk_table *const *tables, size_t n,
                                enum lk_print_format format, const char *path)
{
    struct lk_writer *w;
    enum lk_status st = lk_writer_open(path, false, &w);

    return st == LK_OK ? print_to(w, tables, n, format) : st;
}

enum lk_status lk_report_tables_text(const struct lk_table *const *tables, size_t n,
                                     enum lk_print_format format, char **text, size_t *size)
{
    struct lk_writer *w;
    enum lk_status st = lk_writer_open_memory(text, size, &w);

    return st == LK_OK ? print_to(w, tables, n, format) : st;
}

enum lk_status lk_report_table(const struct lk_table *table, enum lk_print_format format,
                               const char *path)
{
    return lk_report_tables(&table, 1, format, path);
}
