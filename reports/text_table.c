/* Lay tables out as text; see the header. Divisions: cells, columns, rows, tables. */
#include "reports/text_table.h"

#include "base/array.h"
#include "base/units.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    CELL_MAX = 256,  /* bytes of a formatted number or text; what is longer is cut */
    INDENT = 2,      /* blanks of a level */
    GAP = 2,         /* blanks before a column */
    WRAPPED_MIN = 16 /* narrowest column of wrapped text */
};
#define NO_COLUMN SIZE_MAX

/* A column of the text. */
struct shown {
    size_t at, lo, hi; /* columns of the table; lo and hi NO_COLUMN: it has no interval */
    size_t width;
    bool right;
    bool wrapped; /* a text that is wrapped to the width */
};

/* ---- Cells ---- */

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

static const char *plain_text(const struct lk_column *c, const struct lk_cell *cell, char *buf)
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

/* Return the unit behind a formatted number, with its blank; "": it has none. */
static const char *unit_of(const char *text)
{
    const char *blank = strchr(text, ' ');

    return blank ? blank : "";
}

/* Format a cell, with its interval if it has one. buf has room for CELL_TEXT_MAX. */
enum { CELL_TEXT_MAX = 4 * CELL_MAX };
static const char *cell_text(const struct lk_table *t, const struct shown *s, size_t row, char *buf)
{
    const struct lk_cell *cell = cell_at(t, row, s->at), *lo, *hi;
    char part[3][CELL_MAX];
    const char *value, *from, *to;
    bool same;

    lo = s->lo == NO_COLUMN ? NULL : cell_at(t, row, s->lo);
    hi = s->hi == NO_COLUMN ? NULL : cell_at(t, row, s->hi);
    if (cell->type != LK_CELL_NUMBER || !lo || !hi || lo->type != LK_CELL_NUMBER ||
        hi->type != LK_CELL_NUMBER)
        return plain_text(&t->columns[s->at], cell, buf);
    value = number_text(&t->columns[s->at], cell->number, part[0]);
    from = number_text(&t->columns[s->lo], lo->number, part[1]);
    to = number_text(&t->columns[s->hi], hi->number, part[2]);
    same = !strcmp(unit_of(value), unit_of(from)) && !strcmp(unit_of(value), unit_of(to));
    snprintf(buf, CELL_TEXT_MAX, "%.*s (%.*s to %.*s)", CELL_MAX, value,
             same ? (int)strcspn(from, " ") : CELL_MAX, from,
             same ? (int)strcspn(to, " ") : CELL_MAX, to);
    return buf;
}

/* Count the terminal columns of UTF-8 text: bytes that do not continue a character. */
static size_t text_width(const char *s)
{
    size_t n = 0;

    for (; *s; s++)
        n += ((unsigned char)*s & 0xC0) != 0x80;
    return n;
}

/* ---- Columns ---- */

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

static bool is_empty(const struct lk_table *t, size_t column)
{
    for (size_t r = 0; r < t->n_rows; r++)
        if (cell_at(t, r, column)->type != LK_CELL_EMPTY)
            return false;
    return t->n_rows > 0;
}

/* Return true if a column of several rows says the same in all of them. */
static bool is_constant(const struct lk_table *t, const struct shown *s)
{
    char first[CELL_TEXT_MAX], buf[CELL_TEXT_MAX];
    const char *text = cell_text(t, s, 0, first);

    for (size_t r = 1; r < t->n_rows; r++)
        if (strcmp(text, cell_text(t, s, r, buf)) != 0)
            return false;
    return t->n_rows > 1;
}

static size_t find_column(const struct lk_table *t, const char *name)
{
    for (size_t c = 0; name && c < t->n_columns; c++)
        if (!strcmp(t->columns[c].name, name))
            return c;
    return NO_COLUMN;
}

static void measure(const struct lk_table *t, struct shown *s)
{
    char buf[CELL_TEXT_MAX];

    s->width = text_width(t->columns[s->at].heading);
    s->right = is_numeric(t, s->at);
    for (size_t r = 0; r < t->n_rows; r++) {
        size_t width =
            text_width(cell_text(t, s, r, buf)) + (size_t)cell_at(t, r, s->at)->indent * INDENT;

        s->width = width > s->width ? width : s->width;
    }
}

static size_t total_width(const struct shown *shown, size_t n)
{
    size_t width = 0;

    for (size_t i = 0; i < n; i++)
        width += GAP + shown[i].width;
    return width;
}

/* Wrap the last column of text if that makes the table fit. */
static void wrap_text(const struct lk_table *t, struct shown *shown, size_t n, size_t width)
{
    size_t total = total_width(shown, n), least;

    for (size_t i = n; i-- > 0;) {
        struct shown *s = &shown[i];

        if (s->right || s->lo != NO_COLUMN || cell_at(t, 0, s->at)->type == LK_CELL_NUMBER)
            continue;
        least = text_width(t->columns[s->at].heading);
        least = least < WRAPPED_MIN ? WRAPPED_MIN : least;
        if (s->width > least && total - s->width + least <= width) {
            s->wrapped = true;
            s->width = width - (total - s->width);
        }
        return;
    }
}

/* ---- Rows ---- */

static enum lk_status put_padded(struct lk_writer *w, const char *text, size_t bytes, size_t width,
                                 bool right)
{
    char cut[CELL_TEXT_MAX];
    size_t used;
    int pad;

    snprintf(cut, sizeof cut, "%.*s", (int)bytes, text);
    used = text_width(cut);
    pad = used < width ? (int)(width - used) : 0;
    return right ? lk_writer_printf(w, "%*s%s", pad, "", cut)
                 : lk_writer_printf(w, "%s%*s", cut, pad, "");
}

/* Return the bytes of a text that fit into a width, up to a blank where there is one. */
static size_t fitting(const char *text, size_t width)
{
    size_t used = 0, bytes = 0, blank = 0;

    for (; text[bytes]; bytes++) {
        if (((unsigned char)text[bytes] & 0xC0) == 0x80)
            continue;
        if (used++ == width)
            return text[bytes] == ' ' ? bytes : blank ? blank : bytes;
        if (text[bytes] == ' ')
            blank = bytes;
    }
    return bytes;
}

/* Write a row, or the headings, as one line or several. */
static enum lk_status put_row(struct lk_writer *w, const struct lk_table *t,
                              const struct shown *shown, size_t n, size_t row, bool heading)
{
    size_t done = 0; /* bytes of the wrapped text */
    bool more = true;

    for (int line = 0; more; line++) {
        more = false;
        for (size_t i = 0; i < n; i++) {
            const struct shown *s = &shown[i];
            int indent = heading ? 0 : INDENT * cell_at(t, row, s->at)->indent;
            char buf[CELL_TEXT_MAX];
            const char *text = heading ? t->columns[s->at].heading : cell_text(t, s, row, buf);
            size_t room = s->width - (size_t)indent, bytes = strlen(text);

            if (s->wrapped) {
                text += done;
                bytes = fitting(text, room);
                done += bytes + (text[bytes] == ' ');
                more = text[bytes] != '\0';
            } else if (line > 0) {
                bytes = 0;
            }
            LK_PASS(lk_writer_printf(w, "%*s", GAP + indent, ""));
            LK_PASS(put_padded(w, text, bytes, i == n - 1 && !s->right ? 0 : room, s->right));
        }
        LK_PASS(lk_writer_put(w, "\n", 1));
    }
    return LK_OK;
}

/* Write what lies below a row, behind the start of its last column. */
static enum lk_status put_below(struct lk_writer *w, const struct lk_table *t,
                                const struct shown *shown, size_t n, size_t row, size_t width)
{
    size_t indent = 2 * INDENT;

    for (size_t i = 0; i + 1 < n; i++)
        indent += shown[i].width + GAP;
    for (size_t c = 0; c < t->n_columns; c++) {
        const struct lk_cell *cell = cell_at(t, row, c);
        size_t in = indent + (size_t)cell->indent * INDENT;
        char *text;
        enum lk_status st;

        if (t->columns[c].digits != LK_TABLE_BELOW || cell->type != LK_CELL_TEXT)
            continue;
        if (width && in + 2 * WRAPPED_MIN > width)
            in = 2 * INDENT;
        LK_PASS(lk_asprintf(&text, "%*s%s: %s", (int)in, "", t->columns[c].heading, cell->text));
        st = lk_text_paragraph(w, text, in + INDENT, width);
        free(text);
        if (st != LK_OK)
            return st;
    }
    return LK_OK;
}

static enum lk_status put_rows(struct lk_writer *w, const struct lk_table *t,
                               const struct shown *shown, size_t n, size_t width)
{
    if (t->n_rows)
        LK_PASS(put_row(w, t, shown, n, 0, true));
    for (size_t r = 0; r < t->n_rows; r++) {
        LK_PASS(put_row(w, t, shown, n, r, false));
        LK_PASS(put_below(w, t, shown, n, r, width));
    }
    return LK_OK;
}

/* ---- Tables ---- */

enum lk_status lk_text_table(struct lk_writer *w, const struct lk_table *t)
{
    enum lk_status st = LK_OK;
    struct shown *shown = NULL;
    size_t n = 0;

    LK_TRY(lk_alloc(&shown, t->n_columns, sizeof *shown));
    for (size_t c = 0; c < t->n_columns; c++) {
        if (is_empty(t, c) || t->columns[c].digits <= LK_TABLE_BELOW)
            continue;
        shown[n] = (struct shown){.at = c, .lo = NO_COLUMN, .hi = NO_COLUMN};
        measure(t, &shown[n++]);
    }
    LK_TRY(lk_writer_printf(w, "%s\n", t->title));
    LK_TRY(put_rows(w, t, shown, n, 0));
    for (size_t i = 0; i < t->n_notes; i++)
        LK_TRY(lk_writer_printf(w, "  %s\n", t->notes[i]));
out:
    free(shown);
    return st;
}

/* Write columns as one line: "local batch 4, accum. 1" after `what`. names alone: without cells. */
static enum lk_status put_line(struct lk_writer *w, const struct lk_table *t, const char *what,
                               const struct shown *shown, size_t n, bool names, size_t width)
{
    enum lk_status st = LK_OK;
    char *line = NULL, *longer, buf[CELL_TEXT_MAX];

    if (!n)
        return LK_OK;
    LK_TRY(lk_asprintf(&line, "  %s:", what));
    for (size_t i = 0; i < n; i++) {
        LK_TRY(lk_asprintf(&longer, "%s%s %s%s%s", line, i ? "," : "",
                           t->columns[shown[i].at].heading, names ? "" : " ",
                           names ? "" : cell_text(t, &shown[i], 0, buf)));
        free(line);
        line = longer;
    }
    LK_TRY(lk_text_paragraph(w, line, 2 * INDENT, width));
out:
    free(line);
    return st;
}

enum lk_status lk_text_view(struct lk_writer *w, const struct lk_table *t,
                            const struct lk_view_column *view, size_t n_view, size_t width)
{
    enum lk_status st = LK_OK;
    struct shown *shown = NULL, *same = NULL;
    size_t n = 0, n_same = 0, fit;

    LK_TRY(lk_alloc(&shown, n_view, sizeof *shown));
    LK_TRY(lk_alloc(&same, n_view, sizeof *same));
    for (size_t i = 0; i < n_view; i++) {
        struct shown s = {.at = find_column(t, view[i].name),
                          .lo = find_column(t, view[i].lo),
                          .hi = find_column(t, view[i].hi)};

        if (s.at == NO_COLUMN || (view[i].lo && (s.lo == NO_COLUMN || s.hi == NO_COLUMN)))
            LK_TRY(lk_fail(LK_EINTERNAL, "table '%s' has no column '%s'", t->title, view[i].name));
        if (is_empty(t, s.at))
            continue;
        measure(t, &s);
        if (n > 0 && is_constant(t, &s))
            same[n_same++] = s;
        else
            shown[n++] = s;
    }
    if (width && t->n_rows && total_width(shown, n) > width)
        wrap_text(t, shown, n, width);
    for (fit = n; fit > 1 && width && total_width(shown, fit) > width;)
        fit--;
    LK_TRY(put_rows(w, t, shown, fit, width));
    LK_TRY(put_line(w, t, "the same in all rows", same, n_same, false, width));
    LK_TRY(put_line(w, t, "too wide to show (--verbose)", shown + fit, n - fit, true, width));
out:
    free(same);
    free(shown);
    return st;
}

enum lk_status lk_text_paragraph(struct lk_writer *w, const char *text, size_t indent, size_t width)
{
    size_t lead = strspn(text, " "), used = 0, room = width > indent ? width - indent : width;

    if (!width)
        return lk_writer_printf(w, "%s\n", text);
    do {
        size_t bytes = used ? fitting(text, room)
                            : lead + fitting(text + lead, width > lead ? width - lead : width);

        LK_PASS(lk_writer_printf(w, "%*s%.*s\n", used ? (int)indent : 0, "", (int)bytes, text));
        used += bytes;
        text += bytes + (text[bytes] == ' ');
    } while (*text);
    return LK_OK;
}
