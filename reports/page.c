/* Print a page; see the header. */
#include "reports/page.h"

#include "base/array.h"
#include "base/file.h"
#include "base/json.h"
#include "base/label.h"
#include "base/terminal.h"
#include "base/units.h"
#include "reports/page_formats.h"
#include "reports/text_table.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WIDTH_MIN = 40, INDENT = 2 };

size_t lk_page_width(void)
{
    size_t n = lk_terminal_columns(STDOUT_FILENO);

    if (!n)
        return LK_PAGE_WIDTH;
    return n < WIDTH_MIN ? WIDTH_MIN : n;
}

/* Return whether a table is to be printed. */
static bool is_wanted(const struct lk_page_table *t, const struct lk_page_style *s)
{
    return !s->options.table || !strcmp(s->options.table, t->name);
}

/* ---- Text ---- */

static enum lk_status put_lines(struct lk_writer *w, char *const *lines, size_t n, size_t indent,
                                size_t width)
{
    for (size_t i = 0; i < n; i++)
        LK_PASS(lk_text_paragraph(w, lines[i], indent, width));
    return LK_OK;
}

static enum lk_status put_blank(struct lk_writer *w, bool *any)
{
    if (*any)
        LK_PASS(lk_writer_put(w, "\n", 1));
    *any = true;
    return LK_OK;
}

/* Write a table as it is shown without --verbose. */
static enum lk_status put_short(struct lk_writer *w, const struct lk_page_table *t, size_t width)
{
    if (!t->view)
        return lk_text_table(w, t->table);
    LK_PASS(lk_text_paragraph(w, t->table->title, INDENT, width));
    return lk_text_view(w, t->table, t->view, t->n_view, width);
}

/* Write which tables there are besides. */
static enum lk_status put_hidden(struct lk_writer *w, const struct lk_page *p, size_t width)
{
    enum lk_status st = LK_OK;
    char *line = NULL;
    size_t n = 0, n_notes = 0;

    LK_TRY(lk_strdup(&line, "More by --verbose:"));
    for (size_t i = 0; i < p->n_tables; i++) {
        const struct lk_page_table *t = &p->tables[i];

        n_notes += t->place == LK_PAGE_DETAIL || t->view ? t->table->n_notes : 0;
        if (t->place != LK_PAGE_DETAIL)
            continue;
        LK_TRY(lk_text_add(&line, "%s %s", n++ ? "," : "", t->name));
    }
    if (n_notes)
        LK_TRY(lk_text_add(&line, "%s %zu note%s", n ? "," : "", n_notes, n_notes == 1 ? "" : "s"));
    if (n || n_notes)
        LK_TRY(lk_text_paragraph(w, line, INDENT, width));
out:
    free(line);
    return st;
}

static enum lk_status print_text(struct lk_writer *w, const struct lk_page *p,
                                 const struct lk_page_style *s)
{
    bool any = false;

    if (p->n_answer && !s->options.table) {
        LK_PASS(put_blank(w, &any));
        LK_PASS(put_lines(w, p->answer, p->n_answer, INDENT, s->width));
    }
    for (size_t i = 0; i < p->n_tables && !s->options.quiet; i++) {
        const struct lk_page_table *t = &p->tables[i];
        const bool whole = s->options.verbose || s->options.table;

        if (!is_wanted(t, s) || (!whole && t->place == LK_PAGE_DETAIL))
            continue;
        LK_PASS(put_blank(w, &any));
        LK_PASS(whole ? lk_text_table(w, t->table) : put_short(w, t, s->width));
    }
    if (s->options.quiet || s->options.table)
        return LK_OK;
    if (p->n_notes) {
        LK_PASS(put_blank(w, &any));
        LK_PASS(put_lines(w, p->notes, p->n_notes, INDENT, s->width));
    }
    if (any)
        LK_PASS(lk_writer_put(w, "\n", 1));
    if (!s->options.verbose)
        LK_PASS(put_hidden(w, p, s->width));
    return put_lines(w, p->next, p->n_next, INDENT, s->width);
}

/* ---- CSV ---- */

static enum lk_status print_csv(struct lk_writer *w, const struct lk_page *p,
                                const struct lk_page_style *s)
{
    for (size_t i = 0; i < p->n_tables; i++)
        if (is_wanted(&p->tables[i], s))
            return lk_print_csv(w, p->tables[i].table);
    return LK_OK;
}

/* ---- JSON ---- */

static void json_lines(struct lk_json_out *o, const char *key, char *const *lines, size_t n)
{
    lk_json_out_array(o, key);
    for (size_t i = 0; i < n; i++)
        lk_json_out_text(o, NULL, lines[i]);
    lk_json_out_close(o);
}

/* Write a value as an object on one line. */
static enum lk_status json_value(struct lk_json_out *o, const struct lk_page_value *v)
{
    struct lk_pair *labels = NULL;
    size_t n = 0;
    const char *at = v->labels;
    enum lk_status st = lk_labels_read(v->labels, &at, &labels, &n);

    lk_json_out_compact(o);
    lk_json_out_object(o, NULL);
    lk_json_out_text(o, "name", v->name);
    lk_json_out_object(o, "labels");
    for (size_t i = 0; i < n; i++)
        lk_json_out_text(o, labels[i].key, labels[i].value);
    lk_json_out_close(o);
    lk_json_out_text(o, "unit", lk_units_base(v->dim));
    lk_json_out_number(o, "value", v->value);
    lk_json_out_close(o);
    lk_labels_free(labels, n);
    return st;
}

static enum lk_status print_json(struct lk_writer *w, const struct lk_page *p,
                                 const struct lk_page_style *s)
{
    enum lk_status st = LK_OK;
    struct lk_json_out *o;

    LK_PASS(lk_json_out_begin(w, &o));
    lk_json_out_object(o, NULL);
    lk_json_out_text(o, "schema", LK_PAGE_SCHEMA);
    lk_json_out_int(o, "version", LK_PAGE_VERSION);
    lk_json_out_text(o, "command", s->command);
    lk_json_out_text(o, "command_line", s->command_line);
    lk_json_out_text(o, "lockstep", s->version);
    json_lines(o, "answer", p->answer, p->n_answer);
    json_lines(o, "contradictions", p->contradictions, p->n_contradictions);
    json_lines(o, "notes", p->notes, p->n_notes);
    lk_json_out_array(o, "values");
    for (size_t i = 0; i < p->n_values && st == LK_OK; i++)
        st = json_value(o, &p->values[i]);
    lk_json_out_close(o);
    lk_json_out_array(o, "tables");
    for (size_t i = 0; i < p->n_tables; i++)
        if (is_wanted(&p->tables[i], s))
            lk_print_json_table(o, p->tables[i].name, p->tables[i].table);
    lk_json_out_close(o);
    lk_json_out_close(o);
    LK_KEEP(lk_json_out_end(o));
    return st;
}

/* ---- Formats in files of their own ---- */

static enum lk_status print_markdown(struct lk_writer *w, const struct lk_page *p,
                                     const struct lk_page_style *s)
{
    return lk_page_markdown(w, p, s->options.table, s->options.verbose);
}

static enum lk_status print_prometheus(struct lk_writer *w, const struct lk_page *p,
                                       const struct lk_page_style *s)
{
    return lk_page_prometheus(w, p, s->command);
}

/* ---- All ---- */

static enum lk_status (*const printers[])(struct lk_writer *w, const struct lk_page *p,
                                          const struct lk_page_style *s) = {
    [LK_FORMAT_TEXT] = print_text,
    [LK_FORMAT_CSV] = print_csv,
    [LK_FORMAT_JSON] = print_json,
    [LK_FORMAT_MARKDOWN] = print_markdown,
    [LK_FORMAT_PROMETHEUS] = print_prometheus,
};

/* Fail if the page has not the table that is asked for. */
static enum lk_status check_table(const struct lk_page *p, const char *name)
{
    enum lk_status st = LK_OK;
    char *known = NULL;

    if (!name || lk_page_find(p, name))
        return LK_OK;
    for (size_t i = 0; i < p->n_tables; i++)
        LK_TRY(lk_text_add(&known, "%s%s", i ? ", " : "", p->tables[i].name));
    st = lk_fail(LK_EUSAGE, "--table=%s: no such table here; there are: %s", name,
                 known ? known : "none");
out:
    free(known);
    return st;
}

enum lk_status lk_page_print(const struct lk_page *p, const struct lk_page_style *s,
                             const char *path)
{
    enum lk_status st = LK_OK;
    struct lk_writer *w = NULL;

    LK_TRY(check_table(p, s->options.table));
    LK_TRY(lk_writer_open(path, false, &w));
    LK_TRY(printers[s->options.format](w, p, s));
    st = lk_writer_commit(w);
    w = NULL;
out:
    lk_writer_abandon(w);
    return st;
}
