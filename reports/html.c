/* Reports as HTML: the page and its sections; see the header. */
#include "reports/html.h"

#include "reports/chart/svg.h"
#include "reports/chart/xml.h"
#include "reports/html_impl.h"

#include <string.h>

/* The policy lets the page run its own scripts and the forecast's module, and nothing else. */
static const char policy[] =
    "default-src 'none'; script-src 'unsafe-inline' 'wasm-unsafe-eval'; style-src 'unsafe-inline'; "
    "img-src data:; worker-src blob:; base-uri 'none'; form-action 'none'";

enum { PHONE_WIDTH = 340 };

/* Write a text between two pieces of markup. */
static enum lk_status put_in(struct lk_writer *w, const char *before, const char *text,
                             const char *behind)
{
    LK_PASS(lk_writer_printf(w, "%s", before));
    LK_PASS(lk_xml_text(w, text));
    return lk_writer_printf(w, "%s", behind);
}

static enum lk_status put_list(struct lk_writer *w, const char *open, char *const *lines, size_t n,
                               const char *close)
{
    if (!n)
        return LK_OK;
    LK_PASS(lk_writer_printf(w, "%s", open));
    for (size_t i = 0; i < n; i++)
        LK_PASS(put_in(w, "<li>", lines[i], "</li>\n"));
    return lk_writer_printf(w, "%s\n", close);
}

/* ---- Head ---- */

static enum lk_status put_head(struct lk_writer *w, const struct lk_html *page)
{
    LK_PASS(lk_writer_printf(w,
                             "<!doctype html>\n<html lang=\"en\">\n<head>\n"
                             "<meta charset=\"utf-8\"/>\n"
                             "<meta http-equiv=\"Content-Security-Policy\" content=\"%s\"/>\n"
                             "<meta name=\"viewport\" "
                             "content=\"width=device-width, initial-scale=1\"/>\n"
                             "<link rel=\"icon\" href=\"data:,\"/>\n",
                             policy));
    LK_PASS(put_in(w, "<meta name=\"generator\" content=\"lockstep ", page->version, "\"/>\n"));
    LK_PASS(put_in(w, "<title>", page->title, "</title>\n<style>\n"));
    LK_PASS(html_style(w));
    return lk_writer_printf(w, "</style>\n</head>\n<body>\n");
}

static enum lk_status put_banner(struct lk_writer *w, const struct lk_html *page)
{
    LK_PASS(put_in(w, "<header>\n<h1>", page->title,
                   "</h1>\n<button id=\"theme\" hidden=\"hidden\" type=\"button\">"
                   "Dark</button>\n</header>\n"));
    if (page->n_sections < 2)
        return LK_OK;
    LK_PASS(lk_writer_printf(w, "<nav aria-label=\"Sections\">\n"));
    for (size_t i = 0; i < page->n_sections; i++) {
        LK_PASS(lk_writer_printf(w, "<a href=\"#s%zu\">", i + 1));
        LK_PASS(put_in(w, "", page->sections[i].heading, "</a>\n"));
    }
    return lk_writer_printf(w, "<a href=\"#whatif-section\">What if</a>\n"
                               "<a href=\"#obtained\">How it was obtained</a>\n</nav>\n");
}

/* ---- Sections ---- */

/* Return whether a sentence of the answer contradicts the rest of it. */
static bool is_contradiction(const struct lk_page *p, const char *sentence)
{
    for (size_t i = 0; i < p->n_contradictions; i++)
        if (!strcmp(p->contradictions[i], sentence))
            return true;
    return false;
}

static enum lk_status put_answer(struct lk_writer *w, const struct lk_page *p)
{
    LK_PASS(lk_writer_printf(w, "<div class=\"answer\">\n"));
    for (size_t i = 0; i < p->n_answer; i++)
        LK_PASS(put_in(w,
                       is_contradiction(p, p->answer[i]) ? "<p class=\"contradiction\">"
                       : i                               ? "<p>"
                                                         : "<p class=\"lead\">",
                       p->answer[i], "</p>\n"));
    return lk_writer_printf(w, "</div>\n");
}

static enum lk_status put_charts(struct lk_writer *w, const struct lk_html_section *s)
{
    for (size_t i = 0; i < s->n_charts; i++) {
        /* One for a screen and for paper, one for a phone: what is not shown is not read out. */
        LK_PASS(lk_writer_printf(w, "<figure>\n<div class=\"wide\">"));
        LK_PASS(lk_chart_svg(w, &s->charts[i], LK_SVG_WIDTH));
        LK_PASS(lk_writer_printf(w, "</div><div class=\"narrow\">"));
        LK_PASS(lk_chart_svg(w, &s->charts[i], PHONE_WIDTH));
        LK_PASS(lk_writer_printf(w, "</div></figure>\n"));
    }
    return LK_OK;
}

static enum lk_status put_section(struct lk_writer *w, const struct lk_html_section *s,
                                  size_t number)
{
    const struct lk_page *p = s->page;

    LK_PASS(lk_writer_printf(w, "<section id=\"s%zu\">\n", number));
    LK_PASS(put_in(w, "<h2>", s->heading, "</h2>\n"));
    LK_PASS(put_answer(w, p));
    LK_PASS(put_list(w, "<h3>What to change</h3>\n<ol class=\"changes\">\n", s->changes,
                     s->n_changes, "</ol>"));
    LK_PASS(put_charts(w, s));
    LK_PASS(html_tables(w, p, s->command));
    LK_PASS(put_list(w, "<ul class=\"notes\">\n", p->notes, p->n_notes, "</ul>"));
    LK_PASS(put_list(w, "<ul class=\"notes next\">\n", p->next, p->n_next, "</ul>"));
    if (s->command)
        LK_PASS(put_in(w, "<p class=\"same\">The same in a terminal: <code>", s->command,
                       "</code></p>\n"));
    return lk_writer_printf(w, "</section>\n");
}

static enum lk_status put_obtained(struct lk_writer *w, const struct lk_html *page)
{
    LK_PASS(lk_writer_printf(w, "<section id=\"obtained\">\n<h2>How it was obtained</h2>\n"));
    if (page->obtained) {
        LK_PASS(html_tables(w, page->obtained, NULL));
        LK_PASS(put_list(w, "<ul class=\"notes\">\n", page->obtained->notes,
                         page->obtained->n_notes, "</ul>"));
    }
    LK_PASS(put_in(w, "<p class=\"same\">Made by lockstep ", page->version, ": <code>"));
    return put_in(w, "", page->command_line, "</code></p>\n</section>\n");
}

enum lk_status lk_html_write(struct lk_writer *w, const struct lk_html *page)
{
    LK_PASS(put_head(w, page));
    LK_PASS(put_banner(w, page));
    LK_PASS(lk_writer_printf(w, "<main>\n"));
    for (size_t i = 0; i < page->n_sections; i++)
        LK_PASS(put_section(w, &page->sections[i], i + 1));
    LK_PASS(lk_html_whatif(w, page));
    LK_PASS(put_obtained(w, page));
    LK_PASS(lk_writer_printf(w, "</main>\n<script>\n"));
    LK_PASS(html_script(w));
    return lk_writer_printf(w, "</script>\n</body>\n</html>\n");
}
