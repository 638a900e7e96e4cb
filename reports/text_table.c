/* Lay tables out as text; see the header. Divisions: columns, rows, tables. */
#include "reports/text_table.h"

#include "base/array.h"
#include "reports/cell.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    INDENT = 2,      /* blanks of a level */
    GAP = 2,         /* blanks before a column */
    WRAPPED_MIN = 16 /* narrowest column of wrapped text */
};

/* A column of the text. */
struct shown {
    struct lk_cell_columns of; /* columns of the table */
    size_t width;
    bool right;
    bool wrapped;           /* a text that is wrapped to the width */
    bool setting, optional; /* see struct lk_view_column */
};

static const struct lk_cell *cell_at(const struct lk_table *t, size_t row, size_t column)
{
    return &t->cells[row * t->n_columns + column];
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

/* Return true if a column of several rows says the same in all of them, or a single row's setting.
 */
static bool is_constant(const struct lk_table *t, const struct shown *s)
{
    char first[LK_CELL_TEXT_MAX], buf[LK_CELL_TEXT_MAX];
    const char *text = lk_cell_text(t, &s->of, 0, first);

    for (size_t r = 1; r < t->n_rows; r++)
        if (strcmp(text, lk_cell_text(t, &s->of, r, buf)) != 0)
            return false;
    return t->n_rows > 1 || s->setting;
}

static const char *heading_of(const struct lk_table *t, const struct shown *s)
{
    return s->of.bar ? "to 100 %" : t->columns[s->of.at].heading;
}

static void measure(const struct lk_table *t, struct shown *s)
{
    char buf[LK_CELL_TEXT_MAX];

    s->width = text_width(heading_of(t, s));
    s->right = lk_cell_is_numeric(t, s->of.at) && !s->of.bar;
    for (size_t r = 0; r < t->n_rows; r++) {
        size_t width = text_width(lk_cell_text(t, &s->of, r, buf)) +
                       (size_t)cell_at(t, r, s->of.at)->indent * INDENT;

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

        if (s->right || s->of.bar || s->of.lo != LK_NO_COLUMN ||
            cell_at(t, 0, s->of.at)->type == LK_CELL_NUMBER)
            continue;
        least = text_width(t->columns[s->of.at].heading);
        least = least < WRAPPED_MIN ? WRAPPED_MIN : least;
        if (s->width > least && total - s->width + least <= width) {
            s->wrapped = true;
            s->width = width - (total - s->width);
        }
        return;
    }
}

/* Move optional columns behind the others, the last first, until these fit; return how many these
 * are. */
static size_t drop_optional(struct shown *shown, size_t n, size_t width)
{
    const size_t all = n;

    for (size_t i = n; i-- > 0 && width && total_width(shown, n) > width;) {
        const struct shown dropped = shown[i];

        if (!dropped.optional)
            continue;
        memmove(&shown[i], &shown[i + 1], (all - 1 - i) * sizeof *shown);
        shown[all - 1] = dropped;
        n--;
    }
    return n;
}

/* ---- Rows ---- */

static enum lk_status put_padded(struct lk_writer *w, const char *text, size_t bytes, size_t width,
                                 bool right)
{
    char cut[LK_CELL_TEXT_MAX];
    size_t used;
    int pad;

    snprintf(cut, sizeof cut, "%.*s", (int)bytes, text);
    used = text_width(cut);
    pad = used < width ? (int)(width - used) : 0;
    return right ? lk_writer_printf(w, "%*s%s", pad, "", cut)
                 : lk_writer_printf(w, "%s%*s", cut, pad, "");
}

/* Return true if a line may end before this character: a percent sign stays at its number. */
static bool may_break(const char *text)
{
    return text[0] == ' ' && text[1] != '%';
}

/* Return the bytes of a text that fit into a width, up to a blank where there is one. */
static size_t fitting(const char *text, size_t width)
{
    size_t used = 0, bytes = 0, blank = 0;

    for (; text[bytes]; bytes++) {
        if (((unsigned char)text[bytes] & 0xC0) == 0x80)
            continue;
        if (used++ == width)
            return may_break(text + bytes) ? bytes : blank ? blank : bytes;
        if (may_break(text + bytes))
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
            int indent = heading ? 0 : INDENT * cell_at(t, row, s->of.at)->indent;
            char buf[LK_CELL_TEXT_MAX];
            const char *text = heading ? heading_of(t, s) : lk_cell_text(t, &s->of, row, buf);
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
        if (lk_cell_is_empty(t, c) || t->columns[c].digits <= LK_TABLE_BELOW)
            continue;
        shown[n] = (struct shown){.of = {c, LK_NO_COLUMN, LK_NO_COLUMN, false}};
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

/* Write columns as one line: "local batch 4, accum. 1" after `what`. names alone: without cells; a
 * bar has none, as it draws what is shown. */
static enum lk_status put_line(struct lk_writer *w, const struct lk_table *t, const char *what,
                               const struct shown *shown, size_t n, bool names, size_t width)
{
    enum lk_status st = LK_OK;
    char *line = NULL, buf[LK_CELL_TEXT_MAX];

    for (size_t i = 0; i < n; i++) {
        const struct lk_cell_columns *of = &shown[i].of;

        if (names && of->bar)
            continue;
        if (line)
            LK_TRY(lk_text_add(&line, ","));
        else
            LK_TRY(lk_asprintf(&line, "  %s:", what));
        LK_TRY(lk_text_add(&line, " %s%s%s", t->columns[of->at].heading, names ? "" : " ",
                           names ? "" : lk_cell_text(t, of, 0, buf)));
    }
    if (line)
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
    size_t n = 0, n_same = 0, all, fit;

    LK_TRY(lk_alloc(&shown, n_view, sizeof *shown));
    LK_TRY(lk_alloc(&same, n_view, sizeof *same));
    for (size_t i = 0; i < n_view; i++) {
        struct shown s = {.setting = view[i].setting, .optional = view[i].optional};

        LK_TRY(lk_cell_columns_find(t, &view[i], &s.of));
        if (lk_cell_is_empty(t, s.of.at) || t->columns[s.of.at].digits == LK_TABLE_BELOW)
            continue;
        measure(t, &s);
        if (n > 0 && is_constant(t, &s)) {
            if (!s.of.bar)
                same[n_same++] = s;
        } else {
            shown[n++] = s;
        }
    }
    all = n;
    n = drop_optional(shown, n, width);
    if (width && t->n_rows && total_width(shown, n) > width)
        wrap_text(t, shown, n, width);
    for (fit = n; fit > 1 && width && total_width(shown, fit) > width;)
        fit--;
    LK_TRY(put_rows(w, t, shown, fit, width));
    LK_TRY(put_line(w, t, t->n_rows > 1 ? "the same in all rows" : "with", same, n_same, false,
                    width));
    LK_TRY(put_line(w, t, "too wide to show (--verbose)", shown + fit, all - fit, true, width));
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
