/*
 * CSV tables: the text is split in place, and cells are offsets into it. Every error has file, line
 * and column.
 */
#include "base/csv.h"

#include "base/array.h"
#include "base/file.h"
#include "base/units.h"
#include "base/words.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct csv_row {
    size_t line;
    size_t cell; /* index of its first cell */
};

struct lk_csv {
    char *name;
    char *text; /* the file's text; fields are unquoted and NUL-terminated in place */
    const struct lk_csv_column *columns;
    size_t n_columns;
    int *place; /* position of each of `columns` in a row; -1: absent */
    size_t width;
    size_t header_line;
    struct csv_row *rows;
    size_t n_rows;
    uint32_t *cells; /* offsets into text */
    size_t n_cells;
};

static const char *cell_text(const struct lk_csv *t, size_t cell)
{
    return t->text + t->cells[cell];
}

/* Copy the first of a column's names, the one in errors, to buf. Return buf. */
static const char *shown_name(const struct lk_csv_column *c, char *buf, size_t size)
{
    snprintf(buf, size, "%.*s", (int)strcspn(c->name, "|"), c->name);
    return buf;
}

/* ---- Splitting ---- */

struct scanner {
    struct lk_csv *t;
    char *p, *end; /* *end is NUL */
    size_t line;
    size_t row_line; /* where the current row begins */
    char *row_start;
    size_t cells_capacity, rows_capacity;
};

static enum lk_status fail_at(const struct scanner *s, size_t line, const char *text)
{
    return lk_fail(LK_EPARSE, "%s:%zu: %s", s->t->name, line, text);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static bool at_line_end(const struct scanner *s)
{
    return s->p == s->end || *s->p == '\n' || (*s->p == '\r' && s->p[1] == '\n');
}

static void skip_blanks(struct scanner *s)
{
    while (is_blank(*s->p))
        s->p++;
}

/* Move past the end of the current line. */
static void next_line(struct scanner *s)
{
    if (*s->p == '\r')
        s->p++;
    if (s->p < s->end)
        s->p++;
    s->line++;
}

/* Scan quoted text, p behind its first quote; the unquoted text is moved to the field's start. */
static enum lk_status scan_quoted(struct scanner *s, char **out_end)
{
    char *to = s->p;

    for (;;) {
        if (s->p == s->end || s->p - s->row_start > LK_CSV_ROW_MAX)
            return fail_at(s, s->row_line, "a quoted field has no end");
        if (*s->p == '"' && *++s->p != '"')
            break;
        if (*s->p == '\n')
            s->line++;
        *to++ = *s->p++;
    }
    *out_end = to;
    skip_blanks(s);
    if (*s->p != ',' && !at_line_end(s))
        return fail_at(s, s->line, "text after a quoted field");
    return LK_OK;
}

static enum lk_status scan_plain(struct scanner *s, char **out_end)
{
    char *last;

    for (; *s->p != ',' && !at_line_end(s); s->p++)
        if (*s->p == '"')
            return fail_at(s, s->line, "a quote inside a field that is not quoted");
        else if (*s->p == '\r')
            return fail_at(s, s->line, "a carriage return without a line feed");
    for (last = s->p; is_blank(last[-1]);)
        last--;
    *out_end = last;
    return LK_OK;
}

/* Scan one field, up to its comma or line end. */
static enum lk_status scan_field(struct scanner *s)
{
    struct lk_csv *t = s->t;
    bool quoted;
    char *start, *end, *stop;

    skip_blanks(s);
    quoted = *s->p == '"';
    if (quoted)
        s->p++;
    start = end = s->p;
    if (quoted)
        LK_PASS(scan_quoted(s, &end));
    else if (*s->p != ',' && !at_line_end(s))
        LK_PASS(scan_plain(s, &end));
    if (s->p - s->row_start > LK_CSV_ROW_MAX)
        return fail_at(s, s->row_line, "the row is too long");
    if (t->n_cells == LK_CSV_CELLS_MAX)
        return fail_at(s, s->row_line, "the rows have too many fields");
    LK_PASS(lk_array_grow(&t->cells, &s->cells_capacity, t->n_cells + 1, sizeof *t->cells));
    t->cells[t->n_cells++] = (uint32_t)(start - t->text);
    /* Look at the separator before the NUL below may overwrite it. */
    stop = s->p;
    if (stop < s->end && *stop == ',') {
        s->p++;
    } else {
        if (stop < s->end)
            next_line(s);
        s->row_start = NULL;
    }
    *end = '\0';
    return LK_OK;
}

/* Skips blank lines and comments; false at the end of the text. */
static bool find_row(struct scanner *s, bool header)
{
    for (;;) {
        char *start = s->p;

        skip_blanks(s);
        if (at_line_end(s)) {
            if (s->p == s->end)
                return false;
            next_line(s);
            continue;
        }
        s->p = start;
        if (*start != '#' || (header && start[1] != ' '))
            return true;
        while (s->p < s->end && *s->p != '\n')
            s->p++;
        if (s->p < s->end)
            next_line(s);
    }
}

/* Scan a row; its fields are the cells from n_cells on. */
static enum lk_status scan_row(struct scanner *s)
{
    s->row_line = s->line;
    s->row_start = s->p;
    while (s->row_start)
        LK_PASS(scan_field(s));
    return LK_OK;
}

static enum lk_status scan_rows(struct scanner *s)
{
    enum lk_status st = LK_OK;
    struct lk_csv *t = s->t;

    while (find_row(s, false)) {
        size_t first = t->n_cells;

        LK_TRY(scan_row(s));
        if (t->n_cells - first != t->width)
            LK_TRY(lk_fail(LK_EPARSE, "%s:%zu: the row has %zu field%s, the header has %zu",
                           t->name, s->row_line, t->n_cells - first,
                           t->n_cells - first == 1 ? "" : "s", t->width));
        LK_TRY(lk_array_grow(&t->rows, &s->rows_capacity, t->n_rows + 1, sizeof *t->rows));
        t->rows[t->n_rows++] = (struct csv_row){s->row_line, first};
    }
out:
    return st;
}

/* ---- The header ---- */

/* Return true if `word` is one of the names in "gpus|n_gpus", in capitals or not. */
static bool is_named(const char *names, const char *word)
{
    size_t n = strlen(word);

    for (const char *p = names; *p;) {
        size_t len = strcspn(p, "|");

        if (len == n && !strncasecmp(p, word, n))
            return true;
        p += len + (p[len] == '|');
    }
    return false;
}

/* Return the index in `columns` of the column with this name, or n_columns. */
static size_t find_column(const struct lk_csv *t, const char *word)
{
    size_t i = 0;

    while (i < t->n_columns && !is_named(t->columns[i].name, word))
        i++;
    return i;
}

/* Write "; known columns: gpus, nodes" to buf, cut to its size, and return buf. */
static const char *known_columns(const struct lk_csv *t, char *buf, size_t size)
{
    size_t used = (size_t)snprintf(buf, size, "; known columns:");

    for (size_t i = 0; i < t->n_columns && used < size; i++)
        used += (size_t)snprintf(buf + used, size - used, "%s %.*s", i ? "," : "",
                                 (int)strcspn(t->columns[i].name, "|"), t->columns[i].name);
    return buf;
}

/*
 * Fail for a first row that names no columns: one whose fields another character separates, or one
 * of numbers.
 */
static enum lk_status check_header(const struct lk_csv *t)
{
    static const struct {
        char c;
        const char *name;
    } separators[] = {{';', "semicolons"}, {'\t', "tabs"}, {'|', "bars"}};
    char known[512];
    double v;

    for (size_t i = 0; t->width == 1 && i < LK_COUNT(separators); i++)
        if (strchr(cell_text(t, 0), separators[i].c))
            return lk_fail(LK_EPARSE, "%s:%zu: the columns are separated by %s; CSV has commas%s",
                           t->name, t->header_line, separators[i].name,
                           known_columns(t, known, sizeof known));
    for (size_t i = 0; i < t->width; i++)
        if (lk_parse_double(cell_text(t, i), &v) == LK_OK)
            return lk_fail(
                LK_EPARSE, "%s:%zu: '%s' is no name of a column; the first row has the names%s",
                t->name, t->header_line, cell_text(t, i), known_columns(t, known, sizeof known));
    return LK_OK;
}

static enum lk_status fail_unknown(const struct lk_csv *t, const char *word)
{
    char names[LK_CSV_COLUMNS_MAX][48];
    const char *list[LK_CSV_COLUMNS_MAX];
    const char *near;
    char known[512];
    size_t n = 0;

    for (; n < t->n_columns && n < LK_CSV_COLUMNS_MAX; n++)
        list[n] = shown_name(&t->columns[n], names[n], sizeof names[n]);
    near = lk_words_nearest(word, list, n);
    return lk_fail(LK_EPARSE, "%s:%zu: unknown column '%s'%s%s%s%s", t->name, t->header_line, word,
                   near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "",
                   known_columns(t, known, sizeof known));
}

static enum lk_status fail_missing(const struct lk_csv *t, size_t col)
{
    char name[48], known[512];
    const char *near;
    const char *list[LK_CSV_COLUMNS_MAX];

    for (size_t i = 0; i < t->width; i++)
        list[i] = cell_text(t, i);
    shown_name(&t->columns[col], name, sizeof name);
    near = lk_words_nearest(name, list, t->width);
    return lk_fail(LK_EPARSE, "%s:%zu: there is no column '%s'%s%s%s%s", t->name, t->header_line,
                   name, near ? "; there is '" : "", near ? near : "", near ? "'" : "",
                   known_columns(t, known, sizeof known));
}

static enum lk_status place_column(struct lk_csv *t, size_t at, enum lk_csv_extra extra)
{
    const char *word = cell_text(t, at);
    size_t col = find_column(t, word);

    if (!*word)
        return lk_fail(LK_EPARSE, "%s:%zu: column %zu has no name", t->name, t->header_line,
                       at + 1);
    for (size_t i = 0; i < at; i++)
        if (!strcmp(cell_text(t, i), word))
            return lk_fail(LK_EPARSE, "%s:%zu: column '%s' is there twice", t->name, t->header_line,
                           word);
    if (col == t->n_columns)
        return extra == LK_CSV_STRICT ? fail_unknown(t, word) : LK_OK;
    if (t->place[col] >= 0)
        return lk_fail(LK_EPARSE, "%s:%zu: columns '%s' and '%s' are the same thing", t->name,
                       t->header_line, cell_text(t, (size_t)t->place[col]), word);
    t->place[col] = (int)at;
    return LK_OK;
}

static enum lk_status scan_header(struct scanner *s, enum lk_csv_extra extra)
{
    struct lk_csv *t = s->t;

    if (!find_row(s, true))
        return fail_at(s, s->line, "the table is empty: it needs a row of column names");
    if (*s->p == '#')
        s->p++;
    LK_PASS(scan_row(s));
    t->header_line = s->row_line;
    t->width = t->n_cells;
    if (t->width > LK_CSV_COLUMNS_MAX)
        return fail_at(s, s->row_line, "too many columns");
    LK_PASS(check_header(t));
    for (size_t i = 0; i < t->width; i++)
        LK_PASS(place_column(t, i, extra));
    for (size_t i = 0; i < t->n_columns; i++)
        if (t->columns[i].required && t->place[i] < 0)
            return fail_missing(t, i);
    return LK_OK;
}

/* ---- Reading ---- */

static enum lk_status split(struct lk_csv *t, size_t size, enum lk_csv_extra extra)
{
    struct scanner s = {.t = t, .p = t->text, .end = t->text + size, .line = 1};
    const char *nul = memchr(t->text, '\0', size);

    if (nul) {
        for (const char *p = t->text; p < nul; p++)
            s.line += *p == '\n';
        return fail_at(&s, s.line, "a zero byte: this is no text");
    }
    if (size >= 3 && !memcmp(t->text, "\xEF\xBB\xBF", 3))
        s.p += 3;
    LK_PASS(lk_alloc(&t->place, t->n_columns, sizeof *t->place));
    for (size_t i = 0; i < t->n_columns; i++)
        t->place[i] = -1;
    LK_PASS(scan_header(&s, extra));
    return scan_rows(&s);
}

/* Split `text` into a table; takes ownership of `text`, also on failure. */
static enum lk_status take(const char *name, char *text, size_t size,
                           const struct lk_csv_column *columns, size_t n_columns,
                           enum lk_csv_extra extra, struct lk_csv **out)
{
    enum lk_status st = LK_OK;
    struct lk_csv *t = NULL;

    LK_TRY(lk_alloc(&t, 1, sizeof *t));
    t->text = text;
    text = NULL;
    t->columns = columns;
    t->n_columns = n_columns;
    LK_TRY(lk_strdup(&t->name, name));
    LK_TRY(split(t, size, extra));
    LK_HAND_OVER(out, t);
out:
    free(text);
    lk_csv_free(t);
    return st;
}

enum lk_status lk_csv_load(const char *path, const struct lk_csv_column *columns, size_t n_columns,
                           enum lk_csv_extra extra, struct lk_csv **out)
{
    char *text;
    size_t size;
    enum lk_status st = lk_file_read_max(path, LK_CSV_BYTES_MAX, &text, &size);

    return st == LK_OK ? take(path, text, size, columns, n_columns, extra, out) : st;
}

enum lk_status lk_csv_parse(const char *name, const char *text, size_t size,
                            const struct lk_csv_column *columns, size_t n_columns,
                            enum lk_csv_extra extra, struct lk_csv **out)
{
    char *copy;

    if (size > LK_CSV_BYTES_MAX)
        return lk_fail(LK_EPARSE, "%s: larger than %d bytes", name, (int)LK_CSV_BYTES_MAX);
    LK_PASS(lk_alloc(&copy, size + 1, 1));
    memcpy(copy, text, size);
    return take(name, copy, size, columns, n_columns, extra, out);
}

void lk_csv_free(struct lk_csv *t)
{
    if (!t)
        return;
    free(t->cells);
    free(t->rows);
    free(t->place);
    free(t->text);
    free(t->name);
    free(t);
}

/* ---- Values ---- */

size_t lk_csv_rows(const struct lk_csv *t)
{
    return t->n_rows;
}

size_t lk_csv_line(const struct lk_csv *t, size_t row)
{
    return t->rows[row].line;
}

const char *lk_csv_name(const struct lk_csv *t)
{
    return t->name;
}

bool lk_csv_has_column(const struct lk_csv *t, size_t col)
{
    return t->place[col] >= 0;
}

/* Return the cell's text, "" for an absent column. */
static const char *field(const struct lk_csv *t, size_t row, size_t col)
{
    return t->place[col] < 0 ? "" : cell_text(t, t->rows[row].cell + (size_t)t->place[col]);
}

bool lk_csv_has(const struct lk_csv *t, size_t row, size_t col)
{
    return *field(t, row, col);
}

enum lk_status lk_csv_error_(const struct lk_csv *t, size_t row, size_t col, const char *fmt, ...)
{
    char what[512];
    char name[48];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    /* Use the name that the file's header has. */
    if (t->place[col] < 0)
        shown_name(&t->columns[col], name, sizeof name);
    else
        snprintf(name, sizeof name, "%s", cell_text(t, (size_t)t->place[col]));
    return lk_fail(LK_EPARSE, "%s:%zu: column '%s': %s", t->name, t->rows[row].line, name, what);
}

/* Put file, line and column before the error text left by the parser of a value. */
static enum lk_status blame(const struct lk_csv *t, size_t row, size_t col)
{
    char what[512];

    snprintf(what, sizeof what, "%s", lk_error_text());
    return lk_csv_error(t, row, col, "%s", what);
}

enum lk_status lk_csv_text(const struct lk_csv *t, size_t row, size_t col, const char **out)
{
    const char *text = field(t, row, col);

    if (!*text)
        return lk_csv_error(t, row, col, "nothing there");
    *out = *text == '\'' && lk_csv_is_formula(text + 1) ? text + 1 : text;
    return LK_OK;
}

enum lk_status lk_csv_int(const struct lk_csv *t, size_t row, size_t col, int64_t min, int64_t max,
                          int64_t *out)
{
    const char *text = NULL;
    int64_t whole = 0;
    double v = 0;

    LK_PASS(lk_csv_text(t, row, col, &text));
    if (lk_parse_int64(text, INT64_MIN, INT64_MAX, &whole) != LK_OK) {
        if (lk_parse_double(text, &v) != LK_OK || v != floor(v) || fabs(v) > 0x1p53)
            return lk_csv_error(t, row, col, "'%s' is not a whole number", text);
        whole = (int64_t)v;
    }
    if (whole < min || whole > max)
        return lk_csv_error(t, row, col, "%s is not from %lld to %lld", text, (long long)min,
                            (long long)max);
    *out = whole;
    return LK_OK;
}

/* Read a number in [min, max]: parsed as a quantity, or as a plain number where units is false. */
static enum lk_status read_number(const struct lk_csv *t, size_t row, size_t col, bool units,
                                  enum lk_dimension dim, double min, double max, double *out)
{
    const char *text = NULL;
    double v = 0;

    LK_PASS(lk_csv_text(t, row, col, &text));
    if ((units ? lk_units_parse(dim, text, &v) : lk_parse_double(text, &v)) != LK_OK)
        return blame(t, row, col);
    if (!(v >= min && v <= max))
        return isinf(max) ? lk_csv_error(t, row, col, "%g is below %g", v, min)
                          : lk_csv_error(t, row, col, "%g is not from %g to %g", v, min, max);
    *out = v;
    return LK_OK;
}

enum lk_status lk_csv_quantity(const struct lk_csv *t, size_t row, size_t col,
                               enum lk_dimension dim, double min, double max, double *out)
{
    return read_number(t, row, col, true, dim, min, max, out);
}

enum lk_status lk_csv_real(const struct lk_csv *t, size_t row, size_t col, double min, double max,
                           double *out)
{
    return read_number(t, row, col, false, LK_DIM_NONE, min, max, out);
}

enum lk_status lk_csv_positive(const struct lk_csv *t, size_t row, size_t col, double *out)
{
    double v = 0;

    LK_PASS(lk_csv_real(t, row, col, -INFINITY, INFINITY, &v));
    if (v <= 0)
        return lk_csv_error(t, row, col, "%g is not above 0", v);
    *out = v;
    return LK_OK;
}
