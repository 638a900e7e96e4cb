/* The what-if of a page: its place and its inputs. See html_impl.h. */
#include "reports/html_impl.h"

#include "base/utf8.h"
#include "reports/whatif_module.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Return whether a character must not stand in a page as it is: it could end the script, or turn
 * the direction of text. Both occur in strings of JSON alone. */
static bool is_escaped(uint32_t c)
{
    return c == '<' || c == '>' || c == '&' || c == 0xfffd ||
           (!lk_utf8_is_shown(c) && c != '\n' && c != '\r' && c != '\t');
}

enum lk_status html_json(struct lk_writer *w, const char *id, const char *text)
{
    const char *from = text, *p = text;

    LK_PASS(lk_writer_printf(w, "<script type=\"application/json\" id=\"%s\">", id));
    while (*p) {
        uint32_t c;
        size_t step = lk_utf8_next(p, &c);

        if (is_escaped(c)) {
            LK_PASS(lk_writer_put(w, from, (size_t)(p - from)));
            LK_PASS(lk_writer_printf(w, "\\u%04x", (unsigned)c));
            from = p + step;
        }
        p += step;
    }
    LK_PASS(lk_writer_put(w, from, (size_t)(p - from)));
    return lk_writer_printf(w, "</script>\n");
}

/* Write bytes in base64. */
static enum lk_status put_base64(struct lk_writer *w, const unsigned char *p, size_t n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    for (size_t i = 0; i < n; i += 3) {
        unsigned a = p[i], b = i + 1 < n ? p[i + 1] : 0, c = i + 2 < n ? p[i + 2] : 0;
        unsigned bits = a << 16 | b << 8 | c;
        char four[4] = {digits[bits >> 18], digits[bits >> 12 & 63],
                        i + 1 < n ? digits[bits >> 6 & 63] : '=',
                        i + 2 < n ? digits[bits & 63] : '='};

        LK_PASS(lk_writer_put(w, four, sizeof four));
    }
    return LK_OK;
}

/* Write the module and the scripts of the panel. */
static enum lk_status put_module(struct lk_writer *w, const struct lk_whatif_module *m)
{
    LK_PASS(lk_writer_printf(w,
                             "<style>\n%s</style>\n<script type=\"application/octet-stream\" "
                             "id=\"lk-module\">",
                             m->style));
    LK_PASS(put_base64(w, m->gz, m->gz_size));
    return lk_writer_printf(w, "</script>\n<script>\n%s%s</script>\n", m->model, m->script);
}

/* Return why there is no what-if; NULL: there is one. */
static const char *why_absent(const struct lk_html *page, const struct lk_whatif_module *m)
{
    if (!page->job || !page->cluster)
        return "Give lockstep report the job and the cluster as well to ask for other settings "
               "here.";
    return strlen(page->job) > LK_HTML_JOB_MAX ? "The job is too large to be a part of this page."
                                               : m->missing;
}

enum lk_status lk_html_whatif(struct lk_writer *w, const struct lk_html *page)
{
    const struct lk_whatif_module m = lk_whatif_module();
    const char *why = why_absent(page, &m);

    if (!page->job && !page->cluster && !page->forecast)
        return LK_OK;
    LK_PASS(lk_writer_printf(
        w,
        "<section id=\"whatif-section\">\n<h2>What if</h2>\n<div id=\"whatif\">\n<p>%s%s</p>\n"
        "</div>\n",
        why ? why : "Other settings can be asked for here where JavaScript runs.",
        page->job && page->cluster ? " In a terminal, <code>lockstep whatif</code> answers." : ""));
    if (page->job && !(why && strlen(page->job) > LK_HTML_JOB_MAX))
        LK_PASS(html_json(w, "lk-job", page->job));
    if (page->cluster)
        LK_PASS(html_json(w, "lk-cluster", page->cluster));
    if (page->forecast)
        LK_PASS(html_json(w, "lk-forecast", page->forecast));
    if (!why)
        LK_PASS(put_module(w, &m));
    return lk_writer_printf(w, "</section>\n");
}
